"""Avro data that announces far more than its bytes is refused before it is decoded."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pytest

from ottla.client.cli.records import avro_bounds
from ottla.client.cli.records.avro_bounds import DEPTH_MAX, AvroBounds, is_tame
from ottla.client.cli.records.avro_schemas import AvroSchema
from ottla.client.cli.run import CommandError

HUGE = bytes.fromhex("feffffffffffffffff01")  # 2**63 - 1
NODE = {
    "type": "record",
    "name": "Node",
    "fields": [
        {"name": "value", "type": "long"},
        {"name": "next", "type": ["null", "Node"]},
        {"name": "children", "type": {"type": "array", "items": "Node"}},
    ],
}
EMPTY = {"type": "record", "name": "Empty", "fields": []}
ENDLESS = {"type": "record", "name": "Endless", "fields": [{"name": "next", "type": "Endless"}]}
NULLS = {
    "type": "record",
    "name": "Nulls",
    "fields": [{"name": f"n{number}", "type": "null"} for number in range(3)],
}
NUMBER = {"type": "bytes", "logicalType": "decimal", "precision": 9_000, "scale": 2}


def _array(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _doubled(levels: int) -> list[Any]:
    """Records of two records each: the last one has 2**levels nulls in no byte."""
    found: list[Any] = [{"type": "record", "name": "R0", "fields": [{"name": "n", "type": "null"}]}]
    for level in range(1, levels + 1):
        below = f"R{level - 1}"
        fields = [{"name": name, "type": below} for name in ("a", "b")]
        found.append({"type": "record", "name": f"R{level}", "fields": fields})
    return found


def _bounds(schema: Any) -> AvroBounds:
    named: dict[str, Any] = {}
    return AvroBounds(fastavro.parse_schema(schema, named_schemas=named), named)


@pytest.mark.parametrize(
    "schema",
    [
        _array("null"),
        _array(EMPTY),
        _array(NULLS),
        _array({"type": "fixed", "name": "F", "size": 0}),
        {"type": "record", "name": "R", "fields": [{"name": "a", "type": _array("null")}]},
    ],
)
def test_a_huge_count_of_what_takes_no_bytes_is_refused(schema: Any) -> None:
    """Eleven bytes would become all memory of the machine. So would a block with its size."""
    with_size = bytes.fromhex("ffffffffffffffffff01") + b"\x00"
    for data in (HUGE, HUGE + b"\x00", with_size):
        assert "values that take no bytes" in _bounds(schema).fault(data)


def test_records_that_nest_without_end_are_refused() -> None:
    """In no byte at all, and in two for each level."""
    levels = b"\x00\x02" * (DEPTH_MAX + 5)

    assert _bounds(ENDLESS).fault(b"") == f"its values are more than {DEPTH_MAX} levels deep"
    assert "levels deep" in _bounds(NODE).fault(levels)


def test_records_that_double_with_each_level_are_refused() -> None:
    """Sixty lines of schema are more values than there is time for."""
    assert "values that take no bytes" in _bounds(_doubled(60)).fault(b"\x78")


def test_a_huge_decimal_is_refused() -> None:
    """The time for its digits grows with the square of its bytes."""
    length = 1 << 20
    data = _varint(length) + bytes(length)

    assert "decimal" in _bounds(NUMBER).fault(data)
    assert _bounds(NUMBER).fault(b"\x02\x07") == ""


def _varint(number: int) -> bytes:
    value, found = number << 1, bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


@pytest.mark.parametrize(
    "data", [b"", b"\x80", b"\x02", b"\x02\x02", b"\xff" * 11, b"\x02\x04\x00"]
)
def test_data_that_is_cut_off_is_refused(data: bytes) -> None:
    """As any other data that its schema does not describe."""
    assert _bounds(NODE).fault(data) != ""


def test_honest_data_passes_and_is_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trees, many nulls, maps, blocks with sizes: what a writer of Avro writes."""
    leaf: dict[str, Any] = {"value": 1, "next": None, "children": []}
    chain: dict[str, Any] = leaf
    for number in range(300):
        chain = {"value": number, "next": chain, "children": []}
    cases: list[tuple[Any, Any]] = [
        (NODE, {"value": -5, "next": leaf, "children": [leaf] * 500}),
        (NODE, chain),
        (_array(NULLS), [{"n0": None, "n1": None, "n2": None}] * 1_000),
        ({"type": "map", "values": "null"}, {f"k{number}": None for number in range(5_000)}),
        (_array(["null", "boolean", "double", "float", "string"]), [None, True, 0.5, "", "text"]),
        (
            [
                EMPTY,
                {"type": "enum", "name": "E", "symbols": ["A", "B"]},
                _array({"type": "fixed", "name": "F", "size": 3}),
            ],
            [b"abc", b"def"],
        ),
    ]
    # Also what would not be looked at.
    monkeypatch.setattr(avro_bounds, "is_tame", lambda _schema, _named: False)
    for schema, value in cases:
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)
        data = stream.getvalue()
        assert _bounds(schema).fault(data) == "", schema
        assert _bounds(schema).fault(data[:-1]) != "", schema
    # A block of one item with its size in bytes.
    assert _bounds(_array("long")).fault(b"\x01\x02\x04\x00") == ""


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ("string", True),
        (["null", "string"], True),
        (_array(["null", "long"]), True),
        ({"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}, True),
        ("null", False),
        (_array("null"), False),
        (EMPTY, False),
        (NODE, False),
        (NUMBER, False),
        (_doubled(3), False),
    ],
)
def test_usual_schemas_cost_no_look_at_the_data(schema: Any, expected: bool) -> None:
    """Most schemas can be judged once."""
    named: dict[str, Any] = {}
    parsed = fastavro.parse_schema(schema, named_schemas=named)

    assert is_tame(parsed, named) is expected


def test_the_schema_refuses_with_a_sentence() -> None:
    """Nothing is decoded."""
    schema = AvroSchema(json.dumps(_array("null")), [])

    assert schema.to_json(b"\x04\x00") == b"[null,null]"
    with pytest.raises(CommandError, match="its 10 bytes would become more than 10020"):
        schema.to_json(HUGE)
