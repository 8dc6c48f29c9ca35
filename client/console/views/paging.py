"""Searches lists of names and splits them into pages. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

PAGE_ROWS = 50
PAGE_ROWS_MAX = 500

Row = TypeVar("Row")


class PageCut(NamedTuple):
    """The page of a list to show: its number from 1 on, rows per page, and a search text."""

    number: int = 1
    rows: int = PAGE_ROWS
    search: str = ""


def matches(search: str, name: str) -> bool:
    """Whether a name contains each word of the search, in any case."""
    lowered = name.lower()
    return all(word in lowered for word in search.lower().split())


def selected(found: Sequence[Row], search: str, name_of: Callable[[Row], str]) -> list[Row]:
    """Return the items whose name matches the search; all for an empty search."""
    return [one for one in found if matches(search, name_of(one))]


def cut(found: Sequence[Row], page: PageCut) -> tuple[list[Row], dict[str, Any]]:
    """Return the rows of one page, and the page's numbers. A number past the end returns the last
    page."""
    rows = min(max(page.rows, 1), PAGE_ROWS_MAX)
    pages = max(1, -(-len(found) // rows))
    number = min(max(page.number, 1), pages)
    first = (number - 1) * rows
    facts = {
        "page": number,
        "pages": pages,
        "rows": rows,
        "total": len(found),
        "search": page.search,
    }
    return list(found[first : first + rows]), facts
