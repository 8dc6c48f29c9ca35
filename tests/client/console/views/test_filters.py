"""Which records pass a filter."""

from __future__ import annotations

import pytest

from ottla.client.console.views.asked import BadRequest, Question
from ottla.client.console.views.filters import RecordFilter, read_filter
from ottla.client.console.views.formats import JSON_BYTES_MAX
from ottla.client.records.consumer_record import ConsumerRecord

VALUE = (
    b'{"user": {"id": 42, "name": "Ada", "tags": ["x", "y"], "is-new": true},'
    b' "items": [{"price": 1.5}], "none": null}'
)
RECORD = ConsumerRecord(
    "orders", 3, 7, 0, b"order-7", VALUE, (("trace", b"abc"), ("trace", b"def"))
)


@pytest.mark.parametrize(
    "text",
    [
        "value.user.id == 42",
        "value.user.name contains 'da' and key startswith 'order'",
        "value.items[0].price >= 1.5 and partition == 3 and topic == 'orders'",
        "header.trace == 'def' or offset > 100",
    ],
)
def test_an_expression_holds(text: str) -> None:
    """The language of ``ottla consume --filter``; its own tests are beside it."""
    assert read_filter(Question({}, {"filter": text})).passes(RECORD)
    assert not read_filter(Question({}, {"filter": f"not ({text})"})).passes(RECORD)


@pytest.mark.parametrize("sign", ["=~", "!~"])
def test_a_visitor_cannot_hold_the_console_with_a_pattern(sign: str) -> None:
    """This one takes 2 ** 40 steps for forty letters; the sentence names what to use instead."""
    with pytest.raises(BadRequest, match="use contains, startswith or endswith"):
        read_filter(Question({}, {"filter": f"key {sign} '(a+)+$'"}))


@pytest.mark.parametrize("text", ["$.a == 1", "value.a =", "value.a == 1 " + "and key " * 200])
def test_what_is_no_expression_is_refused(text: str) -> None:
    """Or one too long to be looked at for each record."""
    with pytest.raises(BadRequest, match="the filter cannot be read: "):
        read_filter(Question({}, {"filter": text}))


def test_large_values_have_no_members() -> None:
    """Parsing one would keep all other visitors waiting."""
    small = b'{"a": 1, "b": "' + b"x" * (JSON_BYTES_MAX - 20) + b'"}'
    found = read_filter(Question({}, {"filter": "value.a == 1"}))

    assert found.passes(RECORD._replace(value=small))
    assert not found.passes(RECORD._replace(value=small + b" " * 20))


def test_values_too_deep_to_be_compared_do_not_fit() -> None:
    """One such record must not end the search."""
    deep = b'{"a": ' + b"[" * 900 + b"]" * 900 + b"}"
    found = read_filter(Question({}, {"filter": "value.a == key.a"}))

    assert found.passes(RECORD._replace(value=deep, key=deep)) in (True, False)


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
        ({"key": "order", "filter": "value.user.id == 41"}, False),
    ],
)
def test_all_parts_of_a_filter_count(query: dict[str, str], passes: bool) -> None:
    """Headers may come twice with one name."""
    assert read_filter(Question({}, query)).passes(RECORD) is passes


@pytest.mark.parametrize("value", [None, b"", b"\xff", b"{", b"[" * 100_000, b"1"])
def test_a_value_that_is_no_object_does_not_fit(value: bytes | None) -> None:
    """One such record must not end the search."""
    record = RECORD._replace(key=None, value=value)

    assert not read_filter(Question({}, {"filter": "value.a == 1"})).passes(record)
    assert not RecordFilter(key=b"k").passes(record)
