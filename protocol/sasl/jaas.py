"""Kafka's ``sasl.jaas.config``: one login module with options, read and never loaded.

The text is ``module flag name="value" ...;``. Kafka's Java loads the class that it names, which let
a configuration run code (CVE-2023-25194). Here the name only says which mechanism is meant; three
names are known, and every other one is refused.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ottla.protocol.data_classes import dataclass
from ottla.protocol.sasl.exchange import OAUTHBEARER, PLAIN
from ottla.protocol.sasl.scram_record import SCRAM_MECHANISMS
from ottla.protocol.secret import Secret

if TYPE_CHECKING:
    from collections.abc import Mapping

_COMMON = "org.apache.kafka.common.security"
_MECHANISMS = {
    f"{_COMMON}.plain.PlainLoginModule": (PLAIN,),
    f"{_COMMON}.scram.ScramLoginModule": tuple(SCRAM_MECHANISMS),
    f"{_COMMON}.oauthbearer.OAuthBearerLoginModule": (OAUTHBEARER,),
}
_FLAGS = ("required", "requisite", "sufficient", "optional")
_TOKEN = re.compile(
    r"""\s*(?:(?P<end>;)|(?P<equals>=)|"(?P<double>(?:[^"\\\n]|\\.)*)"|'(?P<single>(?:[^'\\\n]|\\.)*)'"""
    r"""|(?P<word>[^\s;="']+))"""
)
_ESCAPED = re.compile(r"\\(.)")
_CONTROL = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_USER_PREFIX = "user_"


@dataclass(frozen=True, slots=True)
class JaasEntry:
    """The mechanisms of the login module, and its options; ``repr`` hides their values."""

    mechanisms: tuple[str, ...]
    options: Mapping[str, Secret]

    def text(self, name: str) -> str:
        """Return the value of an option, empty if it is not set."""
        return self.options[name].reveal() if name in self.options else ""

    def secret(self, name: str) -> Secret:
        """The same, for passwords."""
        return self.options.get(name, Secret(""))

    @property
    def users(self) -> dict[str, Secret]:
        """Return the users of a broker's PLAIN module with their passwords."""
        return {
            name.removeprefix(_USER_PREFIX): value
            for name, value in self.options.items()
            if name.startswith(_USER_PREFIX)
        }


def parse_jaas(text: str) -> JaasEntry:
    """Parse the only entry of the text. Raises ValueError with a message that contains no value."""
    tokens = _tokens(text)
    if not tokens or tokens[-1] != ("end", ";"):
        raise ValueError("it does not end with a semicolon")
    if [kind for kind, _ in tokens].count("end") > 1:
        raise ValueError("it has more than one login module")
    words = tokens[:-1]
    if len(words) < 2 or words[0][0] != "word" or words[1][1].lower() not in _FLAGS:
        raise ValueError('it has to be: module required name="value" ...;')
    module = words[0][1]
    if module not in _MECHANISMS:
        raise ValueError(_unknown_module(module))
    options: dict[str, Secret] = {}
    rest = words[2:]
    for index in range(0, len(rest), 3):
        option = rest[index : index + 3]
        if [kind for kind, _ in option] not in (
            ["word", "equals", "word"],
            ["word", "equals", "double"],
            ["word", "equals", "single"],
        ):
            raise ValueError('its options have to be written as name="value"')
        name = option[0][1]
        if name in options:
            raise ValueError("it has an option twice")
        options[name] = Secret(option[2][1])
    return JaasEntry(_MECHANISMS[module], options)


def _tokens(text: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    position, end = 0, len(text.rstrip())
    while position < end:
        match = _TOKEN.match(text, position)
        if match is None:
            raise ValueError("it has a quote that does not end")
        kind = match.lastgroup or ""
        value = match[kind]
        if kind in ("double", "single"):
            value = _ESCAPED.sub(lambda one: _CONTROL.get(one[1], one[1]), value)
        found.append((kind, value))
        position = match.end()
    return found


def _unknown_module(module: str) -> str:
    if module.endswith("Krb5LoginModule"):
        return (
            "GSSAPI (Kerberos) is not supported: use SCRAM-SHA-512, or OAUTHBEARER with tokens of "
            "an identity provider"
        )
    known = ", ".join(name.rpartition(".")[2] for name in _MECHANISMS)
    shown = module[:100] if module.isascii() and module.isprintable() else "a class"
    return f"{shown} is not one of the login modules that are known here: {known}"
