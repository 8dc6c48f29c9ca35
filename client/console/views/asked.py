"""Reads the parameters of a page's address. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.client.console.views.paging import PAGE_ROWS, PageCut
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Document = dict[str, Any]
"""What a page shows; ``/api`` answers with the same as JSON."""
INT64_MAX = 2**63 - 1
# Maximum number of bytes of a string in a request.
NAME_BYTES_MAX = 2**15 - 1
TRUE = frozenset({"1", "true", "yes", "on"})


class BadRequest(ValueError):
    """A parameter of an address or a form is invalid; the text is a sentence."""


class Parameter(NamedTuple):
    """A parameter of a page, for the description of the API: its name, JSON type and meaning."""

    name: str
    kind: str
    meaning: str


class Question(NamedTuple):
    """The parameters of one request: of the path and of the query."""

    path: Mapping[str, str]
    query: Mapping[str, str]

    def text(self, name: str, default: str = "") -> str:
        """Return a text without surrounding spaces."""
        return self.query.get(name, default).strip()

    def needed(self, name: str) -> str:
        """Return a required name. Raises BadRequest."""
        if name not in self.query:
            raise BadRequest(f"the parameter {name!r} is missing")
        return checked_name(name, self.query[name])

    def check_names(self, known: Iterable[str]) -> None:
        """Raise BadRequest for a parameter that is not one of these."""
        names = list(known)
        for name in self.query:
            if name not in names:
                raise BadRequest(f"there is no parameter {name[:40]!r}, only {', '.join(names)}")

    def flag(self, name: str) -> bool:
        """Whether a check box is set."""
        return self.text(name).lower() in TRUE

    def number(self, name: str, default: int, least: int = 0, most: int = INT64_MAX) -> int:
        """Return a whole number; the default if it is missing. Raises BadRequest."""
        given = self.text(name)
        if not given:
            return default
        value = whole_number(name, given)
        if not least <= value <= most:
            raise BadRequest(f"{name} is {value}; it must be from {least} to {most}")
        return value

    def page(self) -> PageCut:
        """Return the page of a list. Raises BadRequest."""
        return PageCut(
            self.number("page", 1, 1), self.number("rows", PAGE_ROWS, 1), self.text("search")
        )


def checked_name(name: str, given: str) -> str:
    """Return a name that fits into a request. Raises BadRequest."""
    if len(given.encode("utf-8", "replace")) > NAME_BYTES_MAX:
        raise BadRequest(f"{name} is too long; it has at most {NAME_BYTES_MAX} bytes")
    return given


def whole_number(name: str, given: str) -> int:
    """Read a number. Raises BadRequest."""
    digits = given.removeprefix("-")
    if not digits.isascii() or not digits.isdigit() or len(digits) > len(str(INT64_MAX)):
        raise BadRequest(f"{name} is {given[:40]!r}; it must be a whole number")
    value = int(given)
    if abs(value) > INT64_MAX:
        raise BadRequest(f"{name} is {value}; it must be {INT64_MAX} at most")
    return value
