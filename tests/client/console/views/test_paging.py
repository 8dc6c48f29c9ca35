"""Lists are searched and cut into pages."""

from __future__ import annotations

from ottla.client.console.views.paging import PAGE_ROWS_MAX, PageCut, cut, selected

NAMES = [f"topic-{number:05}" for number in range(10_000)]


def test_a_page_has_its_rows_and_says_how_many_there_are() -> None:
    """A visitor has to see that a list goes on."""
    rows, facts = cut(NAMES, PageCut(3, 100))

    assert rows == NAMES[200:300]
    assert facts == {"page": 3, "pages": 100, "rows": 100, "total": 10_000, "search": ""}


def test_a_page_past_the_end_is_the_last_one() -> None:
    """A bookmark outlives the deletion of topics."""
    rows, facts = cut(NAMES[:101], PageCut(9, 50))

    assert rows == NAMES[100:101]
    assert facts["page"] == facts["pages"] == 3


def test_an_empty_list_has_one_empty_page() -> None:
    """A new cluster has no topics."""
    empty: list[str] = []
    rows, facts = cut(empty, PageCut())

    assert rows == []
    assert (facts["page"], facts["pages"]) == (1, 1)


def test_a_page_has_a_largest_size() -> None:
    """An address must not make the console render everything at once."""
    rows, _facts = cut(NAMES, PageCut(1, 10**9))

    assert len(rows) == PAGE_ROWS_MAX


def test_a_search_finds_names_with_all_of_its_words() -> None:
    """People remember parts of names, in any order and case."""
    names = ["eu.orders.paid", "us.orders.paid", "eu.orders.open", "EU.Paid.orders"]

    assert selected(names, "paid eu", str) == ["eu.orders.paid", "EU.Paid.orders"]
    assert selected(names, "", str) == names
