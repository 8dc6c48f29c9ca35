"""From the subject of a certificate to a principal: ``ssl.principal.mapping.rules``. Pure.

Rules are tried in order; the first whose pattern matches the whole subject makes the name. They are
matched with RE2, whose time is linear in the subject for each pattern.
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
    """The rules cannot be used; one sentence that says which."""


class _Rule(NamedTuple):
    """``pattern`` is None for DEFAULT."""

    pattern: object | None
    replacement: str
    letters: str


class PrincipalRules:
    """Compiled once. Raises BadRules.

    Args:
        text: The rules, such as ``RULE:^CN=(.*?),.*$/$1/L, DEFAULT``.
    """

    def __init__(self, text: str = DEFAULT_RULES) -> None:
        self._rules = tuple(_parsed(text.strip() or DEFAULT_RULES))

    def principal_of(self, subject: str) -> str | None:
        """The principal, such as ``User:alice``; None if no rule applies."""
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
                "ssl.principal.mapping.rules wants DEFAULT or RULE:pattern/replacement/[LU], not "
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
    """A number with more digits than there are groups is a shorter number and digits, as in Java;
    one without a group stays as it is written."""
    if one[1] is not None:
        return one[1]
    digits, rest = one[2], ""
    while int(digits) > len(groups) and len(digits) > 1:
        digits, rest = digits[:-1], digits[-1] + rest
    number = int(digits)
    if number > len(groups):
        return f"${digits}{rest}"
    return (subject if number == 0 else groups[number - 1] or "") + rest
