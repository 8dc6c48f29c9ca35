"""Which records pass a filter."""

from __future__ import annotations

import pytest

from ottla.client.console.views.asked import BadRequest, Question
from ottla.client.console.views.filters import STEPS_MAX, RecordFilter, read_condition, read_filter
from ottla.protocol.records.record import Record

VALUE = (
    b'{"user": {"id": 42, "name": "Ada", "tags": ["x", "y"], "is-new": true},'
    b' "items": [{"price": 1.5}], "none": null}'
)
RECORD = Record(7, 0, b"order-7", VALUE, (("trace", b"abc"), ("trace", b"def")))


@pytest.mark.parametrize(
    "condition",
    [
        "$.user.id == 42",
        "user.id==42",
        "$.user.id >= 42",
        "$.user.id < 42.5",
        "$.user.id != 43",
        '$.user.id != "42"',
        "$.user.name == Ada",
        '$.user.name == "Ada"',
        "$.user.name > Aaa",
        "$.user.name contains da",
        "$.user.tags contains y",
        "$.user.tags[1] == y",
        "$.user.tags.1 == y",
        "$.user.is-new == true",
        '$["user"]["id"] == 42',
        "$.items[0].price == 1.5",
        "$.none == null",
        "$.none",
        "$.user",
    ],
)
def test_a_condition_holds(condition: str) -> None:
    """The forms that people try."""
    assert RecordFilter(condition=read_condition(condition)).passes(RECORD)


@pytest.mark.parametrize(
    "condition",
    [
        "$.user.id == 43",
        '$.user.id == "42"',
        '$.user.id < "43"',
        "$.user.is-new == 1",
        "$.user.name < 5",
        "$.missing",
        "$.missing == null",
        "$.missing != 1",
        "$.items[1]",
        "$.user[0]",
        "$.user.id contains 4",
    ],
)
def test_a_condition_does_not_hold(condition: str) -> None:
    """Values of two kinds are not compared as texts, as in JavaScript."""
    assert not RecordFilter(condition=read_condition(condition)).passes(RECORD)


@pytest.mark.parametrize("text", ["", "$", "== 3", "$.a ==", "$.a = 3", "$.a b", "a..b", "$.a[x]"])
def test_what_is_no_condition_is_refused(text: str) -> None:
    """With an example of one that is."""
    with pytest.raises(BadRequest, match=r"\$\.user\.id == 42"):
        read_condition(text)


@pytest.mark.parametrize("text", ['$["\\x"] == 1', '$["a\nb"]'])
def test_a_quoted_name_that_is_no_text_is_refused(text: str) -> None:
    """As a sentence, not as a defect of the console."""
    with pytest.raises(BadRequest, match="no text of JSON"):
        read_condition(text)


def test_a_condition_has_a_largest_depth() -> None:
    """An address is written by strangers."""
    with pytest.raises(BadRequest, match="at most"):
        read_condition("$" + ".a" * (STEPS_MAX + 1))


@pytest.mark.parametrize(
    ("query", "passes"),
    [
        ({}, True),
        ({"key": "order"}, True),
        ({"key": "bill"}, False),
        ({"value": "Ada"}, True),
        ({"value": "Eve"}, False),
        ({"header": "trace"}, True),
        ({"header": "trace=def"}, True),
        ({"header": "trace=d"}, False),
        ({"header": "span"}, False),
        ({"key": "order", "where": "$.user.id == 41"}, False),
    ],
)
def test_all_parts_of_a_filter_count(query: dict[str, str], passes: bool) -> None:
    """Headers may come twice with one name."""
    assert read_filter(Question({}, query)).passes(RECORD) is passes


@pytest.mark.parametrize("value", [None, b"", b"\xff", b"{", b"[" * 100_000, b"1"])
def test_a_value_that_is_no_object_does_not_fit(value: bytes | None) -> None:
    """One such record must not end the search."""
    record = Record(0, 0, None, value)

    assert not RecordFilter(condition=read_condition("$.a == 1")).passes(record)
    assert not RecordFilter(key=b"k").passes(record)
