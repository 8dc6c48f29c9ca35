"""Reads lines of ``ottla produce -f FORMAT`` into records: the format of ``consume -f``, backwards.

The text between two fields ends the first of them where it is found first; the text after the last
field ends the record.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ottla.client.cli.arguments import INT32_MAX, natural, unescaped
from ottla.client.cli.records.encodings import decoder
from ottla.client.cli.records.parsed_records import Outgoing
from ottla.client.cli.run import CommandError, UsageError
from ottla.client.records.record_checks import TIMESTAMP_MAX
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.client.cli.records.encodings import Convert
    from ottla.client.records.producer_record import Headers

_TOKEN = re.compile(
    r"%([a-zA-Z])(?:\{([^}]*)\})?|%(%)|(\\x[0-9a-fA-F]{2}|\\.)|([^%\\]+)", re.DOTALL
)
_FIELDS = {
    "k": "key",
    "v": "value",
    "s": "value",
    "h": "headers",
    "p": "partition",
    "T": "timestamp",
}
# Read over: the place of a record is not its sender's choice, and the topic is an argument.
_PASSED_OVER = ("t", "o")


class _Field(NamedTuple):
    """A field, how it is decoded, and the text that ends it; empty for the last one."""

    name: str
    decode: Convert | None
    end: bytes


class LineFormat(NamedTuple):
    """How a record is read: what ends it, and the function that parses it."""

    delimiter: bytes
    parse: Callable[[bytes], Outgoing]


def line_format(text: str, headers: Headers = ()) -> LineFormat:
    """Parse a format. Raises UsageError.

    Args:
        text: The format, such as ``%k\\t%v\\n``.
        headers: Headers for every record, after those of the line.
    """
    before, fields = _parsed(text)
    if before or not fields:
        raise UsageError("produce -f begins with a field, such as %k or %v")
    if any(not one.end for one in fields[:-1]):
        raise UsageError("produce -f needs text between two fields, at which they are divided")
    last = fields.pop()
    delimiter = last.end or b"\n"
    fields.append(last._replace(end=b""))

    def parse(line: bytes) -> Outgoing:
        try:
            found = _read(fields, line)
        except ValueError as error:
            shown = line[:40].decode("utf-8", "replace")
            raise CommandError(f"this line is not of the form of -f, {error}: {shown!r}") from None
        return found._replace(headers=(*found.headers, *headers))

    return LineFormat(delimiter, parse)


def _parsed(text: str) -> tuple[bytes, list[_Field]]:
    """What stands before the first field, and the fields. Raises UsageError."""
    before, fields, position = b"", list[_Field](), 0
    for match in _TOKEN.finditer(text):
        letter, form, percent, escape, literal = match.groups()
        position = match.end()
        try:
            if letter is not None:
                fields.append(_field(letter, form))
                continue
            plain = percent or literal
            end = plain.encode("utf-8", "surrogateescape") if plain else unescaped(escape)
        except ValueError as error:
            raise UsageError(f"-f: {error}") from None
        if fields:
            fields[-1] = fields[-1]._replace(end=fields[-1].end + end)
        else:
            before += end
    if position != len(text):
        raise UsageError(f"-f ends in a lone {text[position:]!r}")
    return before, fields


def _field(letter: str, form: str | None) -> _Field:
    if letter in _PASSED_OVER:
        return _Field("", None, b"")
    name = _FIELDS.get(letter)
    if name is None:
        known = ", %".join((*_FIELDS, *_PASSED_OVER))
        raise ValueError(f"produce knows no %{letter}; it knows %{known} and %%")
    if form is not None and name not in ("key", "value"):
        raise ValueError(f"%{letter} has no form {{{form}}} that can be read")
    return _Field(name, None if form is None else decoder(form), b"")


def _read(fields: list[_Field], line: bytes) -> Outgoing:
    found: dict[str, bytes] = {}
    for field in fields:
        part, end, rest = line.partition(field.end) if field.end else (line, b"", b"")
        if field.end and not end:
            end_text = field.end.decode("utf-8", "backslashreplace")
            raise ValueError(f"the separator {end_text!r} is missing")
        line = rest
        if field.name:
            found[field.name] = part if field.decode is None else field.decode(part)
    partition, timestamp = found.get("partition"), found.get("timestamp")
    return Outgoing(
        found.get("key"),
        found.get("value"),
        _headers(found.get("headers", b"")),
        None if partition is None else natural(partition.decode("latin-1"), INT32_MAX),
        None if timestamp is None else natural(timestamp.decode("latin-1"), TIMESTAMP_MAX),
    )


def _headers(text: bytes) -> Headers:
    parts = [part.partition(b"=") for part in text.split(b",")] if text else []
    return tuple((name.decode("utf-8", "surrogateescape"), value) for name, _, value in parts)
