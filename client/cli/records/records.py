"""Formats the records of ``ottla consume``: by a format string, or as a line of JSON.

A format is parsed once into pieces, each a constant or a function of the record.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from ottla.client.cli.arguments import unescaped
from ottla.client.cli.output import json_line, readable
from ottla.client.cli.records.encodings import encoder
from ottla.client.cli.run import CommandError, UsageError
from ottla.client.records.filter_expression import record_filter

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

    from ottla.client.fetching.batches import ConsumerRecord

    Record = ConsumerRecord[bytes, bytes]
    Render = Callable[[Record], bytes]

# A field with its form, a field, an escape, or text.
TOKEN = re.compile(r"%([Tkvs])\{([^}]*)\}|%(.)|(\\x[0-9a-fA-F]{2}|\\.)|([^%\\]+)", re.DOTALL)
NULL = b"NULL"
LENGTH_OF_NULL = -1


def as_json(record: Record) -> bytes:
    """The record as one line of JSON."""
    document: dict[str, object] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        **readable("key", record.key),
        **readable("value", record.value),
        "headers": [{"name": name, **readable("value", value)} for name, value in record.headers],
    }
    return json_line(document).encode("utf-8", "surrogateescape")


def topic(record: Record) -> bytes:
    return record.topic.encode()


def partition(record: Record) -> bytes:
    return b"%d" % record.partition


def offset(record: Record) -> bytes:
    return b"%d" % record.offset


def timestamp(record: Record) -> bytes:
    return b"%d" % record.timestamp


def formed_timestamp(form: str, record: Record) -> bytes:
    """The timestamp formatted by strftime in UTC; empty for a record without one. A timestamp
    beyond the year 9999, such as one in microseconds, is written as a number."""
    if record.timestamp < 0:
        return b""
    try:
        moment = datetime.fromtimestamp(record.timestamp / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return timestamp(record)
    return moment.strftime(form).encode("utf-8", "surrogateescape")


def key(record: Record) -> bytes:
    return record.key or b""


def value(record: Record) -> bytes:
    return record.value or b""


def shown_key(record: Record) -> bytes:
    return NULL if record.key is None else record.key


def shown_value(record: Record) -> bytes:
    return NULL if record.value is None else record.value


def length(data: bytes | None) -> int:
    """The length in bytes; null has its own value."""
    return LENGTH_OF_NULL if data is None else len(data)


def key_length(record: Record) -> bytes:
    return b"%d" % length(record.key)


def value_length(record: Record) -> bytes:
    return b"%d" % length(record.value)


def raw_key_length(record: Record) -> bytes:
    return length(record.key).to_bytes(4, signed=True)


def raw_value_length(record: Record) -> bytes:
    return length(record.value).to_bytes(4, signed=True)


def headers(record: Record) -> bytes:
    return b",".join(
        name.encode("utf-8", "surrogateescape") + b"=" + (content or b"")
        for name, content in record.headers
    )


FIELDS: dict[str, Render] = {
    "t": topic,
    "p": partition,
    "o": offset,
    "T": timestamp,
    "k": key,
    "v": value,
    "s": value,
    "h": headers,
    "K": key_length,
    "S": value_length,
    "Q": raw_key_length,
    "R": raw_value_length,
}
SHOWN: dict[Render, Render] = {key: shown_key, value: shown_value}


def formatter(arguments: argparse.Namespace) -> Render:
    """The function that formats a record as the command line wants it. Raises UsageError."""
    if arguments.format == "json":
        return as_json
    parts = _plain(arguments) if arguments.line is None else list(_parse(arguments.line))
    if arguments.show_null:
        parts = [part if isinstance(part, bytes) else SHOWN.get(part, part) for part in parts]

    def render(record: Record) -> bytes:
        return b"".join([part if isinstance(part, bytes) else part(record) for part in parts])

    return render


def filter_of(arguments: argparse.Namespace) -> Callable[[Record], bool] | None:
    """The function that tells which records are wanted; None for all. Raises UsageError."""
    if arguments.filter is None:
        return None
    try:
        return record_filter(arguments.filter)
    except ValueError as error:
        raise UsageError(f"--filter: {error}") from None


def writes_values_only(arguments: argparse.Namespace) -> bool:
    """Whether only a record's value and the delimiter are written."""
    return not (
        arguments.format == "json"
        or arguments.line is not None
        or arguments.filter is not None
        or arguments.schema_registry is not None
        or arguments.headers
        or arguments.show_null
        or arguments.key_separator is not None
    )


def _plain(arguments: argparse.Namespace) -> list[bytes | Render]:
    """The default format: the value, after what else the options add."""
    parts: list[bytes | Render] = []
    if arguments.headers:
        parts += [headers, b"\t"]
    if arguments.key_separator is not None:
        parts += [key, arguments.key_separator]
    return [*parts, value, arguments.delimiter]


def _encoded(letter: str, form: str) -> Render:
    """A key or value in another form. Raises UsageError for an unknown form."""
    try:
        encode = encoder(form)
    except ValueError as error:
        raise UsageError(f"-f: {error}") from None

    def render(record: Record) -> bytes:
        data = record.key if letter == "k" else record.value
        try:
            return b"" if data is None else encode(data)
        except ValueError as error:
            place = f"{record.topic}-{record.partition}@{record.offset}"
            raise CommandError(f"the record {place}: {error}") from None

    return render


def _parse(line: str) -> Iterator[bytes | Render]:
    position = 0
    for match in TOKEN.finditer(line):
        formed, form, letter, escape, literal = match.groups()
        position = match.end()
        if formed == "T":
            yield partial(formed_timestamp, form)
        elif formed is not None:
            yield _encoded(formed, form)
        elif letter == "%":
            yield b"%"
        elif letter is not None:
            if letter not in FIELDS:
                raise UsageError(f"-f knows no %{letter}; it knows %{', %'.join(FIELDS)} and %%")
            yield FIELDS[letter]
        elif escape is not None:
            try:
                yield unescaped(escape)
            except ValueError as error:
                raise UsageError(f"-f: {error}") from None
        else:
            yield literal.encode("utf-8", "surrogateescape")
    if position != len(line):
        raise UsageError(f"-f ends in a lone {line[position:]!r}")
