"""Shared parts of command lines, and parse errors of one sentence.

Imports next to nothing: ``--help``, completion and mistakes are answered before a client is loaded.
"""

from __future__ import annotations

import argparse
import os
import re
from typing import TYPE_CHECKING, NoReturn

from ottla.client.settings.spelling import nearest, suggestion
from ottla.protocol.ids import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
BOOTSTRAP_VARIABLE = "OTTLA_BOOTSTRAP"
USAGE_ERROR = 2
UNRECOGNIZED = "unrecognized arguments: "
PORT_MAX = 65_535
INT16_MAX = 2**15 - 1
INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1
# Escapes of characters that are hard to type; every other character stands for itself.
ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "\\": "\\"}
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|.)|\\$", re.DOTALL)


class Parser(argparse.ArgumentParser):
    """Reports errors in one sentence, instead of repeating the whole usage."""

    _is_intermixed = False

    def error(self, message: str) -> NoReturn:
        _, found, others = message.partition(UNRECOGNIZED)
        if found and others.startswith("-"):
            message += self._option_meant(others.split()[0].partition("=")[0])
        self.exit(USAGE_ERROR, f"{self.prog}: {message}; see '{self.prog} --help'\n")

    def _option_meant(self, option: str) -> str:
        """The end of an error text about an unknown option. Dashes, which all of them begin with,
        make no two of them alike."""
        known = {name.lstrip("-"): name for name in self._option_string_actions}
        meant = nearest(option.lstrip("-"), known)
        return "" if meant is None else f"; did you mean {known[meant]!r}?"

    def _check_value(self, action: argparse.Action, value: object) -> None:
        """Refuse a word that is none of the choices, and name the one that was probably meant."""
        if action.choices is None or value in action.choices:
            return
        word, known = str(value), [str(choice) for choice in action.choices]
        kind = "verb" if isinstance(action, argparse._SubParsersAction) else "choice"
        text = f"there is no {kind} {word!r}{suggestion(word, known)}; there are {', '.join(known)}"
        raise argparse.ArgumentError(None if kind == "verb" else action, text)

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse as argparse does, but options may also stand between positional arguments, also in
        a verb's own parser, which argparse calls by this method."""
        if self._is_intermixed or self._has_verbs():
            return super().parse_known_args(args, namespace)
        # The method for intermixed arguments calls this one for each of its passes.
        self._is_intermixed = True
        try:
            found, others = self.parse_known_intermixed_args(args, namespace)
        finally:
            self._is_intermixed = False
        if others:
            # Told here, since the parser above knows the options of all its verbs.
            self.error(UNRECOGNIZED + " ".join(others))
        return found, others

    def _has_verbs(self) -> bool:
        return any(isinstance(action, argparse._SubParsersAction) for action in self._actions)


def one_line_parser(verb: str, description: str, example: str) -> Parser:
    """A parser for a verb, with its description and an example of one line."""
    return Parser(
        prog=f"ottla {verb}",
        description=description,
        epilog=f"example: ottla {example}",
        allow_abbrev=False,
    )


def add_format_options(parser: argparse.ArgumentParser, *, is_outer: bool = True) -> None:
    """Add ``--format`` and its shorter form ``--json``."""
    parser.add_argument(
        "--format",
        choices=("text", "json"),
        default="text" if is_outer else argparse.SUPPRESS,
        help="how to write results (default text)",
    )
    parser.add_argument(
        "--json",
        dest="format",
        action="store_const",
        const="json",
        default=argparse.SUPPRESS,
        help="the same as --format json",
    )


def add_client_options(
    parser: argparse.ArgumentParser, *, is_outer: bool = True, has_property: bool = True
) -> None:
    """Add ``-b``, ``--format`` and the options for settings, before or after a sub-command.

    Only the outer parser may have defaults: an inner one would overwrite what was given before the
    sub-command. ``has_property``: whether ``-X`` has its usual meaning."""
    parser.add_argument(
        "-b",
        "--bootstrap",
        "--bootstrap-server",
        dest="bootstrap",
        metavar="HOST:PORT",
        default=None if is_outer else argparse.SUPPRESS,
        help="a broker of the cluster, or several with commas (default: "
        f"{BOOTSTRAP_VARIABLE} of the environment, the profile's, or {DEFAULT_BOOTSTRAP})",
    )
    add_format_options(parser, is_outer=is_outer)
    _add_files(parser, is_outer=is_outer)
    if has_property:
        _add_property(parser, is_outer=is_outer)


def _add_files(parser: argparse.ArgumentParser, *, is_outer: bool) -> None:
    parser.add_argument(
        "--command-config",
        metavar="FILE",
        default=None if is_outer else argparse.SUPPRESS,
        help="a properties file with settings of the client by Kafka's names, such as "
        "security.protocol",
    )
    parser.add_argument(
        "--profile",
        metavar="NAME",
        default=None if is_outer else argparse.SUPPRESS,
        help="the profile to use (default: OTTLA_PROFILE of the environment, or the one that "
        "'ottla profile use' has set)",
    )


def _add_property(parser: argparse.ArgumentParser, *, is_outer: bool) -> None:
    parser.add_argument(
        "-X",
        "--property",
        # argparse replaces the outer parser's list by the sub-command's if they have one name.
        dest="properties" if is_outer else "verb_properties",
        metavar="NAME=VALUE",
        type=checked(setting),
        action="append",
        default=[] if is_outer else argparse.SUPPRESS,
        help="a setting of the client by Kafka's name, such as request.timeout.ms=5000; may be "
        "given several times",
    )


def as_sentence(purpose: str) -> str:
    """A verb's purpose as the sentence that begins its help."""
    return f"{purpose[0].upper()}{purpose[1:]}."


def add_verbs(parser: Parser, *, has_property: bool = True) -> Callable[[str, str, str], Parser]:
    """Add verbs to a client command: the returned function adds one by name, purpose and the
    arguments of an example. ``has_property``: as for ``add_client_options``."""
    add_client_options(parser, is_outer=True, has_property=has_property)
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)

    def verb(name: str, purpose: str, example: str) -> Parser:
        inner = verbs.add_parser(
            name,
            help=purpose,
            description=as_sentence(purpose),
            epilog=f"example: {parser.prog} {name} {example}".rstrip(),
            allow_abbrev=False,
        )
        add_client_options(inner, is_outer=False, has_property=has_property)
        return inner

    return verb


def add_partition_argument(parser: argparse.ArgumentParser, default: str = "") -> None:
    """Add ``TOPIC[:P,P] ...``, optional if there is a default."""
    parser.add_argument(
        "topics",
        metavar="TOPIC[:P,P]",
        type=checked(topic_partitions),
        nargs="*" if default else "+",
        help="topics, or some partitions of one" + (f" (default: {default})" if default else ""),
    )


def setting(text: str) -> tuple[str, str]:
    """Read ``key=value``. Raises ValueError."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise ValueError(f"{text!r} is not of the form key=value")
    return key.strip(), value


def header(text: str) -> tuple[str, bytes]:
    """Read ``name=value``. Raises ValueError."""
    name, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"{text!r} is not of the form name=value")
    return name, os.fsencode(value)


def delimiter(text: str) -> bytes:
    """Read a delimiter of fields or records, with escapes. Raises ValueError."""
    found = unescaped(text)
    if not found:
        raise ValueError("a delimiter has at least one character")
    return found


def unescaped(text: str) -> bytes:
    r"""The bytes of a text with the escapes ``\n \t \r \0 \\`` and ``\xHH``.

    Raises ValueError for any other escape."""

    def replace(match: re.Match[str]) -> str:
        name = match[1]
        if name is None:
            raise ValueError(r"a lone \ at the end stands for nothing; a backslash is \\")
        if name[0] == "x" and len(name) == 3:
            # os.fsencode turns these surrogates back into single bytes.
            value = int(name[1:], 16)
            return chr(value) if value < 0x80 else chr(0xDC00 + value)
        if name not in ESCAPES:
            raise ValueError(rf"there is no escape \{name}; there are \n, \t, \r, \0, \xHH and \\")
        return ESCAPES[name]

    return _ESCAPE.sub(replace, text).encode("utf-8", "surrogateescape")


def positive(text: str, most: int = INT64_MAX) -> int:
    """Read a number from 1 on. Raises ValueError."""
    return _whole(text, 1, most)


def natural(text: str, most: int = INT64_MAX) -> int:
    """Read a number from 0 on. Raises ValueError."""
    return _whole(text, 0, most)


def _whole(text: str, least: int, most: int) -> int:
    """Limited, because a larger number would only fail when the request is encoded."""
    if not text.isascii() or not text.isdigit():
        raise ValueError(f"{text!r} is not a number from {least} on")
    digits = text.lstrip("0") or "0"
    # Python converts at most some thousand digits.
    if len(digits) > len(str(most)) or int(digits) > most:
        raise ValueError(f"{text!r} is too large: {most} is the most")
    if int(digits) < least:
        raise ValueError(f"{text!r} is not a number from {least} on")
    return int(digits)


def seconds(text: str) -> int:
    """Read a time in seconds that fits into milliseconds. Raises ValueError."""
    return natural(text, INT32_MAX // 1000)


def byte_rate(text: str) -> int:
    """Read bytes per second, as ``1000``, ``500K`` or ``20M``. Raises ValueError."""
    unit = {"K": 1024, "M": 1024**2, "G": 1024**3}.get(text[-1:].upper())
    number = positive(text if unit is None else text[:-1], INT64_MAX // 1024**3)
    return number * (unit or 1)


def partition_number(text: str) -> int:
    """Read the number of a partition. Raises ValueError."""
    return natural(text, INT32_MAX)


def partition_count(text: str) -> int:
    """Read a number of partitions. Raises ValueError."""
    return positive(text, INT32_MAX)


def replica_count(text: str) -> int:
    """Read a replication factor. Raises ValueError."""
    return positive(text, INT16_MAX)


def group(text: str) -> str:
    """Read the name of a group, which has at least one character. Raises ValueError."""
    if not text:
        raise ValueError("a group is called by a name of at least one character")
    return text


def port(text: str) -> int:
    """Read a port to listen on. Raises ValueError."""
    if not text.isascii() or not text.isdigit() or int(text) > PORT_MAX:
        raise ValueError(f"{text!r} is not a port, which is a number from 0 to {PORT_MAX}")
    return int(text)


def host(text: str) -> str:
    """Read a name or address to listen on. Raises ValueError."""
    bare = text.removeprefix("[").removesuffix("]")
    if not bare or any(sign.isspace() or sign in "/,[]" for sign in bare):
        raise ValueError(f"{text!r} is not a name or an address")
    return bare


def numbers(text: str) -> list[int]:
    """Read ``0,1,2``. Raises ValueError."""
    try:
        return list(map(partition_number, text.split(",")))
    except ValueError:
        raise ValueError(f"{text!r} is not of the form P or P,P") from None


def topic_partitions(text: str) -> tuple[str, list[int] | None]:
    """Read ``topic`` or ``topic:0,1``. Raises ValueError."""
    topic, colon, listed = text.partition(":")
    if not colon:
        return topic, None
    try:
        return topic, list(map(partition_number, listed.split(",")))
    except ValueError:
        raise ValueError(f"{text!r} is not of the form TOPIC:P or TOPIC:P,P") from None


def one_partition(text: str) -> TopicPartition:
    """Read ``topic:0``. Raises ValueError."""
    topic, listed = topic_partitions(text)
    if not topic or listed is None or len(listed) != 1:
        raise ValueError(f"{text!r} is not of the form TOPIC:PARTITION")
    return TopicPartition(topic, listed[0])


def pattern(text: str) -> str:
    """Read a regular expression. Raises ValueError."""
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"{text!r} is not a regular expression: {error}") from error
    return text


def name_or_pattern(text: str) -> str:
    """Read a name, or a regular expression after ``^``. Raises ValueError."""
    return pattern(text) if text.startswith("^") else text


def node_id(text: str) -> int:
    """Read the id of a broker. Raises ValueError."""
    return natural(text, INT32_MAX)


def node_ids(text: str) -> list[int]:
    """Read ``1,2,3``. Raises ValueError."""
    try:
        found = [natural(number, INT32_MAX) for number in text.split(",")]
    except ValueError:
        raise ValueError(f"{text!r} is not of the form ID,ID") from None
    if len(set(found)) < len(found):
        raise ValueError(f"{text!r} names a broker twice")
    return found


def checked(read: Callable[[str], object]) -> Callable[[str], object]:
    """Wrap a reader so that argparse shows the text of its ValueError, which it hides otherwise."""

    def convert(text: str) -> object:
        try:
            return read(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return convert
