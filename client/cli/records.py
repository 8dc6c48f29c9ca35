"""How ``ottla consume`` writes one record: by a format string, or as a line of JSON."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ottla.client.cli.output import json_line, readable
from ottla.client.cli.run import CommandError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.client.chunk import ConsumerRecord

    Render = Callable[[ConsumerRecord], bytes]

ESCAPES = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}
TOKEN = re.compile(r"%(.)|\\(.)|([^%\\]+)", re.DOTALL)


def value_line(record: ConsumerRecord) -> bytes:
    """The value alone; a null value is written as an empty line."""
    return (record.value or b"") + b"\n"


def as_json(record: ConsumerRecord) -> bytes:
    """One JSON object on one line."""
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


def topic(record: ConsumerRecord) -> bytes:
    return record.topic.encode()


def partition(record: ConsumerRecord) -> bytes:
    return b"%d" % record.partition


def offset(record: ConsumerRecord) -> bytes:
    return b"%d" % record.offset


def timestamp(record: ConsumerRecord) -> bytes:
    return b"%d" % record.timestamp


def key(record: ConsumerRecord) -> bytes:
    return record.key or b""


def value(record: ConsumerRecord) -> bytes:
    return record.value or b""


def headers(record: ConsumerRecord) -> bytes:
    return b",".join(
        name.encode("utf-8", "surrogateescape") + b"=" + (content or b"")
        for name, content in record.headers
    )


def percent(_record: ConsumerRecord) -> bytes:
    return b"%"


FIELDS: dict[str, Render] = {
    "t": topic,
    "p": partition,
    "o": offset,
    "T": timestamp,
    "k": key,
    "v": value,
    "s": value,
    "h": headers,
    "%": percent,
}


def formatter(style: str, line: str) -> Render:
    """The function that writes a record. Raises CommandError for an unknown format letter."""
    if style == "json":
        return as_json
    if line == "%v\\n":
        return value_line
    parts: list[bytes | Render] = []
    position = 0
    for match in TOKEN.finditer(line):
        letter, escape, literal = match.groups()
        position = match.end()
        if letter is not None:
            if letter not in FIELDS:
                raise CommandError(f"-f knows no %{letter}; it knows %{', %'.join(FIELDS)}")
            parts.append(FIELDS[letter])
        elif escape is not None:
            if escape not in ESCAPES:
                raise CommandError(f"-f knows no \\{escape}; it knows \\n, \\t, \\r, \\0 and \\\\")
            parts.append(ESCAPES[escape])
        else:
            parts.append(literal.encode("utf-8", "surrogateescape"))
    if position != len(line):
        raise CommandError(f"-f ends in a lone {line[position:]!r}")

    def render(record: ConsumerRecord) -> bytes:
        return b"".join(part if isinstance(part, bytes) else part(record) for part in parts)

    return render
