"""Expressions over records: what they mean, and which texts are refused."""

from __future__ import annotations

import json
from typing import NamedTuple

import pytest

from ottla.client.records.filter_expression import FilterLimits, record_filter


class Sample(NamedTuple):
    """A record as an expression sees it."""

    topic: str = "orders"
    partition: int = 3
    offset: int = 42
    timestamp: int = 1_700_000_000_000
    key: bytes | None = b"eu-7"
    value: bytes | None = (
        b'{"amount":120,"name":"Ann","tags":["new","big"],"paid":true,"who":{"a b":"c"}}'
    )
    headers: tuple[tuple[str, bytes | None], ...] = (("trace", b"1"), ("trace", b"2"))


@pytest.mark.parametrize(
    "text",
    [
        "value.amount > 100",
        "value.amount == 120.0 and not value.amount == '120'",
        "key =~ '^eu-' and key !~ '^us'",
        "topic == 'orders' and partition == 3 and offset >= 42 and timestamp < 2000000000000",
        "header.trace == '2'",
        "header['trace'] == '2' and header.none == null",
        "value.tags[1] == 'big' and value.tags contains 'new'",
        "value.who['a b'] == \"c\"",
        "value contains 'Ann' and key startswith 'eu' and key endswith '7'",
        "value.paid and not value.gone",
        "value.gone == null and value.tags[7] == null and value.amount.deep == null",
        "(partition == 1 or partition == 3) and (offset != 1)",
        "partition == 1 or partition == 2 or offset == 42",
        r"key != 'it\'s'",
        "value.paid == true and value.paid != 1",
    ],
)
def test_what_holds(text: str) -> None:
    """Every word and sign of the language."""
    assert record_filter(text)(Sample())
    assert not record_filter(f"not ({text})")(Sample())


@pytest.mark.parametrize(
    "text",
    [
        "value.amount < 100",
        "value.name < 5",
        "value.name > 5",
        "value.gone > 0",
        "key =~ '^us'",
        "value.amount =~ '1'",
        "value.amount !~ '1'",
        "header.none",
        "partition == 3 and offset == 1",
    ],
)
def test_what_does_not_hold(text: str) -> None:
    """Values of different kinds are unequal and without an order, null is in no order."""
    assert not record_filter(text)(Sample())


@pytest.mark.parametrize("value", [None, b"\xff\xfe", b"not json", b"[" * 100_000, b"3"])
def test_a_value_that_is_no_json_has_no_members(value: bytes | None) -> None:
    """A filter over a topic of mixed records must not end at the first other one."""
    assert record_filter("value.amount == null")(Sample(value=value))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "expected a field"),
        ("value.amount >", "not the end"),
        ("value.amount 5", "expected and, or, or the end at character 14"),
        ("(key == 'a'", r"expected '\)'"),
        ("__import__('os')", "'__import__' is no field"),
        ("key.__class__()", "expected and, or"),
        ("key =~ 'a('", "not a regular expression"),
        ("key =~ value", "a regular expression in quotes"),
        ("key == eu", "put text in quotes"),
        ("key & 1", "'&' at character 5 has no meaning"),
        ("header == 1", "'header' is no field"),
        ("value[-1] == 1", "the name or number of a member"),
        ("not " * 60 + "key", "nested more than 50 deep"),
        ("(" * 60 + "key" + ")" * 60, "nested more than 50 deep"),
    ],
)
def test_what_is_no_expression_is_refused(text: str, expected: str) -> None:
    """The error names the place; no text is run as a program."""
    with pytest.raises(ValueError, match=expected):
        record_filter(text)


def test_limits_refuse_what_strangers_could_misuse() -> None:
    """A regular expression can take hours, and each clause of a long text counts."""
    careful = FilterLimits(allows_patterns=False, characters_max=20, json_bytes_max=100)

    for text in ("key =~ 'a'", "key !~ 'a'", "key == 'a long text in it'"):
        with pytest.raises(ValueError, match=r"not allowed here|20 are allowed"):
            record_filter(text, careful)
    assert record_filter("value.amount == 120", careful)(Sample())
    assert not record_filter("value.amount == 120", careful)(
        Sample(value=b'{"amount":120}' + b" " * 99)
    )


def test_a_document_is_parsed_once_for_all_its_members(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise ten clauses would cost ten times as much; equal bytes of another record count."""
    parsed: list[bytes] = []

    def loads(data: bytes) -> dict[str, int]:
        parsed.append(data)
        return {"a": len(parsed)}

    monkeypatch.setattr(json, "loads", loads)
    holds = record_filter("value.a == 1 or value.b == 2 or value.c == 3")
    first, second = Sample(value=b'{"a": 1}'), Sample(value=bytes(bytearray(b'{"a": 1}')))

    assert holds(first)
    assert not holds(second)
    assert len(parsed) == 2


def test_names_of_python_read_members_of_json_alone() -> None:
    """A path looks into the data, and not at objects of the program."""
    assert record_filter("value.__class__ == 'x'")(Sample(value=b'{"__class__": "x"}'))
    assert record_filter("key.__class__ == null")(Sample())
