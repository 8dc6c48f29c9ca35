"""Maps a certificate's subject to a principal: ``ssl.principal.mapping.rules``. Pure.

Rules are tried in order; the first whose pattern matches the whole subject gives the name. The
patterns are matched with RE2, in time linear in the length of the subject.
"""

from __future__ import annotations

import re

from ottla.protocol.named_tuples import NamedTuple

ANONYMOUS = "User:ANONYMOUS"
DEFAULT_RULES = "DEFAULT"
_RULE = re.compile(r"RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?)")
_SPACE = re.compile(r"\s*(?:,\s*)?")
_REFERENCE = re.compile(r"\\(.)|\$(\d+)")


class BadRules(ValueError):
    """The rules cannot be used; the message says which one and why."""


class _Rule(NamedTuple):
    """``pattern`` is None for DEFAULT."""

    pattern: object | None
    replacement: str
    letters: str


class PrincipalRules:
    """Compiled mapping rules. Raises BadRules.

    Args:
        text: The rules, such as ``RULE:^CN=(.*?),.*$/$1/L, DEFAULT``.
    """

    def __init__(self, text: str = DEFAULT_RULES) -> None:
        self._rules = tuple(_parsed(text.strip() or DEFAULT_RULES))

    def principal_of(self, subject: str) -> str | None:
        """Return the principal, such as ``User:alice``; None if no rule applies."""
        for rule in self._rules:
            name = _applied(rule, subject)
            if name:
                return f"User:{name}"
        return None


def _parsed(text: str) -> list[_Rule]:
    rules: list[_Rule] = []
    position = 0
    while position < len(text):
        if text.startswith("DEFAULT", position):
            rules.append(_Rule(None, "", ""))
            position += len("DEFAULT")
        elif found := _RULE.match(text, position):
            rules.append(_Rule(_compiled(found[1]), found[2], found[3]))
            position = found.end()
        else:
            raise BadRules(
                "ssl.principal.mapping.rules needs DEFAULT or RULE:pattern/replacement/[LU], not "
                f"{text[position:]!r}"
            )
        separator = _SPACE.match(text, position)
        assert separator is not None, "it matches the empty text, too"
        if separator.end() < len(text) and "," not in separator[0]:
            raise BadRules(
                f"ssl.principal.mapping.rules: a comma is missing before {text[position:]!r}"
            )
        position = separator.end()
    return rules


def _compiled(pattern: str) -> object:
    import re2  # type: ignore[import-untyped]

    options = re2.Options()
    options.log_errors = False
    try:
        compiled: object = re2.compile(pattern, options=options)
    except re2.error as error:
        raise BadRules(
            f"ssl.principal.mapping.rules: the pattern {pattern!r} cannot be used: {error}"
        ) from None
    return compiled


def _applied(rule: _Rule, subject: str) -> str | None:
    if rule.pattern is None:
        return subject
    found = rule.pattern.fullmatch(subject)  # type: ignore[attr-defined]
    if found is None:
        return None
    groups: tuple[str | None, ...] = found.groups()
    name = _REFERENCE.sub(lambda one: _replaced(one, subject, groups), rule.replacement)
    if rule.letters == "L":
        return name.lower()
    return name.upper() if rule.letters == "U" else name


def _replaced(one: re.Match[str], subject: str, groups: tuple[str | None, ...]) -> str:
    """Replace ``$n``. A number above the number of groups is read as a shorter number followed by
    digits, as in Java; one that names no group stays as it is."""
    if one[1] is not None:
        return one[1]
    digits, rest = one[2], ""
    while int(digits) > len(groups) and len(digits) > 1:
        digits, rest = digits[:-1], digits[-1] + rest
    number = int(digits)
    if number > len(groups):
        return f"${digits}{rest}"
    return (subject if number == 0 else groups[number - 1] or "") + rest
