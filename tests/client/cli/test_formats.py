"""Format strings, places, JSON records and delimiters: what they mean exactly."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from ottla.client.cli.arguments import unescaped
from ottla.client.cli.groups.group_moves import read_positions
from ottla.client.cli.parsers import consume, produce
from ottla.client.cli.position_specs import (
    PositionKind,
    PositionSpec,
    read_position,
    read_range_position,
)
from ottla.client.cli.records.parsed_records import from_json, from_line
from ottla.client.cli.records.records import formatter
from ottla.client.cli.run import CommandError, UsageError
from ottla.client.fetching.batches import ConsumerRecord
from ottla.protocol.ids import TopicPartition

if TYPE_CHECKING:
    from ottla.client.cli.records.parsed_records import Outgoing

FULL: ConsumerRecord[bytes, bytes] = ConsumerRecord(
    "t", 3, 42, 1769860801234, b"key", b"a value", (("h", b"1"), ("i", None))
)
NULLS: ConsumerRecord[bytes, bytes] = ConsumerRecord("t", 0, 0, -1, None, None, ())


def written(record: ConsumerRecord[bytes, bytes], *arguments: str) -> bytes:
    """The record as ``ottla consume`` writes it with these options."""
    return formatter(consume.parser().parse_args(["t", *arguments]))(record)


@pytest.mark.parametrize(
    ("line", "full", "nulls"),
    [
        ("%t/%p@%o", b"t/3@42", b"t/0@0"),
        ("%k=%v;%s", b"key=a value;a value", b"=;"),
        ("%K %S", b"3 7", b"-1 -1"),
        ("%Q%R", b"\0\0\0\3\0\0\0\7", b"\xff" * 8),
        ("%h", b"h=1,i=", b""),
        ("%T", b"1769860801234", b"-1"),
        ("%T{%Y-%m-%dT%H:%M:%S.%fZ}", b"2026-01-31T12:00:01.234000Z", b""),
        (r"100%% \\ \n\t\r\0\x41\xff", b"100% \\ \n\t\r\0A\xff", b"100% \\ \n\t\r\0A\xff"),
        ("ä%k", "äkey".encode(), "ä".encode()),
        ("", b"", b""),
    ],
)
def test_a_format_means_exactly_this(line: str, full: bytes, nulls: bytes) -> None:
    """Scripts are built on it: every field, with and without something in it."""
    assert written(FULL, "-f", line) == full
    assert written(NULLS, "-f", line) == nulls


def test_null_and_empty_can_be_told_apart() -> None:
    """A tombstone is not an empty value."""
    empty = NULLS._replace(key=b"", value=b"")

    assert written(NULLS, "-Z", "-f", "%k|%v|%s") == b"NULL|NULL|NULL"
    assert written(empty, "-Z", "-f", "%k|%v|%s") == b"||"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], b"a value\n"),
        (["--null"], b"a value\0"),
        (["-D", r"\r\n"], b"a value\r\n"),
        (["-K", ":"], b"key:a value\n"),
        (["-H", "-K", r"\t"], b"h=1,i=\tkey\ta value\n"),
    ],
)
def test_without_a_format_a_record_is_a_line(arguments: list[str], expected: bytes) -> None:
    """Key and headers are there for the asking."""
    assert written(FULL, *arguments) == expected


@pytest.mark.parametrize(
    ("line", "said"), [("%z", "no %z"), ("a%", "lone '%'"), ("\\", "lone"), (r"\q", r"escape \q")]
)
def test_a_format_that_means_nothing_is_refused(line: str, said: str) -> None:
    """A guess would hide the mistake until the output is read."""
    with pytest.raises(UsageError) as caught:
        written(FULL, "-f", line)

    assert said in str(caught.value)


@pytest.mark.parametrize("text", ["", "plain", r"\n\t\r\0\\", r"\x00\x7f\x80\xff", "ü"])
def test_escapes_stand_for_bytes(text: str) -> None:
    """Above 0x7f a byte is a byte, not the letter of that number."""
    expected = text.encode()
    for name, byte in (("n", b"\n"), ("t", b"\t"), ("r", b"\r"), ("0", b"\0")):
        expected = expected.replace(b"\\" + name.encode(), byte)
    for number in (0x00, 0x7F, 0x80, 0xFF):
        expected = expected.replace(b"\\x%02x" % number, bytes([number]))

    assert unescaped(text) == expected.replace(b"\\\\", b"\\")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("beginning", PositionSpec(PositionKind.BEGINNING)),
        ("end", PositionSpec(PositionKind.END)),
        ("7", PositionSpec(PositionKind.OFFSET, 7)),
        ("-7", PositionSpec(PositionKind.FROM_END, 7)),
        ("@12", PositionSpec(PositionKind.TIMESTAMP, 12)),
        ("@1970-01-01T00:00:01+01:00", PositionSpec(PositionKind.TIMESTAMP, 0)),
        ("s@1970-01-02", PositionSpec(PositionKind.TIMESTAMP, 86_400_000)),
        ("e@5", PositionSpec(PositionKind.TIMESTAMP, 5, is_stop=True)),
        ("stored", PositionSpec(PositionKind.STORED)),
    ],
)
def test_places_are_named_in_one_language(text: str, place: PositionSpec) -> None:
    """Words, numbers from both ends, and times."""
    assert read_range_position(text) == place


@pytest.mark.parametrize("text", ["", "x", "--1", "1.5", "@", "@yesterday", "s@", "e@x", "٣"])
def test_a_place_that_is_none_is_refused(text: str) -> None:
    """Digits outside of ASCII are refused, too."""
    with pytest.raises(ValueError, match=r"is none of|is no time"):
        read_range_position(text)


def test_only_reading_knows_where_to_stop() -> None:
    """A group cannot be moved to a range."""
    for text in ("stored", "s@1", "e@1"):
        with pytest.raises(ValueError, match="is none of"):
            read_position(text)


def parsed(line: bytes, *arguments: str) -> Outgoing:
    """The record that ``ottla produce`` parses from a line with these options."""
    options = produce.parser().parse_args(["t", *arguments])
    return (from_json if options.from_json else from_line)(options)(line)


@pytest.mark.parametrize(
    "record",
    [
        FULL,
        NULLS,
        NULLS._replace(key=b"", value=b"", timestamp=0),
        FULL._replace(key=b"\xff\x00", value=b"\xfe", headers=(("h", b"\xff"), ("h", b""))),
        FULL._replace(value='quote " backslash \\ newline \n ü'.encode()),
    ],
)
def test_what_consume_writes_produce_reads(record: ConsumerRecord[bytes, bytes]) -> None:
    """A topic can be kept in a file and brought back, byte for byte."""
    line = written(record, "--json")
    back = parsed(line.removesuffix(b"\n"), "-J", "--same-partitions")

    assert line.count(b"\n") == 1
    assert (back.key, back.value, back.headers) == (record.key, record.value, record.headers)
    assert back.partition == record.partition
    assert back.timestamp == (record.timestamp if record.timestamp >= 0 else None)


def test_json_written_by_hand_need_not_be_text() -> None:
    """An object as a value is what most people have."""
    back = parsed(b'{"key": 7, "value": {"n": [1, null]}, "headers": {"a": "b"}}', "-J")

    assert (back.key, back.value, back.headers) == (b"7", b'{"n":[1,null]}', (("a", b"b"),))
    assert back.partition is None


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"[]",
        b"{",
        b"\xff",
        b'{"value_base64": "?"}',
        b'{"value_base64": 1}',
        b'{"headers": 5}',
        b'{"headers": [{"value": "x"}]}',
        b'{"timestamp": "now"}',
        b'{"timestamp": true}',
    ],
)
def test_json_that_is_no_record_is_refused(line: bytes) -> None:
    """With a sentence; half a record would be worse than none."""
    with pytest.raises(CommandError, match="this line is no record"):
        parsed(line, "-J")


def test_an_empty_value_may_be_a_tombstone() -> None:
    """Only where that was asked for."""
    assert parsed(b"k:", "-K", ":").value == b""
    assert parsed(b"k:", "-K", ":", "-Z") == (b"k", None, (), None, None)
    assert parsed(b"x", "-k", "fixed", "-H", "a=b") == (b"fixed", b"x", (("a", b"b"),), None, None)


def test_json_lines_are_json() -> None:
    """Read by a parser that is not ours."""
    document = json.loads(written(FULL, "--json"))

    assert list(document) == [
        "topic",
        "partition",
        "offset",
        "timestamp",
        "key",
        "value",
        "headers",
    ]
    assert document["headers"] == [{"name": "h", "value": "1"}, {"name": "i", "value": None}]


def test_positions_in_a_file_are_lines_of_three() -> None:
    """A malformed line must not move the group to an arbitrary offset."""
    assert read_positions("a,0,5\n\n b , 1 , 0 \n") == {
        TopicPartition("a", 0): 5,
        TopicPartition("b", 1): 0,
    }
    for text in ("a,0", "a,0,x", "a,-1,5", "a,0,5,6"):
        with pytest.raises(CommandError, match="line 1 is not of the form"):
            read_positions(text)
