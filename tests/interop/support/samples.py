"""Records that a broker must give back byte for byte, and how they are compared."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

Headers = tuple[tuple[str, bytes | None], ...]


class Sample(NamedTuple):
    """A record for a client to send."""

    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp: int


BASE_TIMESTAMP = 1_700_000_000_000


def samples() -> list[Sample]:
    """Null, empty, binary and large parts; headers that repeat and headers that are null."""
    parts: list[tuple[bytes | None, bytes | None, Headers]] = [
        (b"key", b"value", ()),
        (None, b"value without key", ()),
        (b"tombstone", None, ()),
        (None, None, ()),
        (b"", b"", ()),
        (b"\xff\xfe\x00", bytes(range(256)), ()),
        ("snowman \u2603".encode(), "\u00fcber".encode(), ()),
        (b"headers", b"h", (("a", b"1"), ("a", b"2"), ("", b""), ("null", None))),
        (b"large", b"0123456789abcdef" * 4096, ()),
        (b"lines", b"one\r\ntwo\nthree\f", (("content-type", b"text/plain"),)),
    ]
    parts += [(f"k{index}".encode(), f"value {index}".encode() * 20, ()) for index in range(200)]
    return [
        Sample(key, value, headers, BASE_TIMESTAMP + index * 10)
        for index, (key, value, headers) in enumerate(parts)
    ]


def samples_with_content() -> list[Sample]:
    """Without records that have neither key nor value, which some clients refuse to send."""
    return [one for one in samples() if one.key is not None or one.value is not None]


def digest(records: list[Sample]) -> str:
    """One hash over everything that must survive, in order."""
    running = hashlib.sha256()
    for record in records:
        for part in (record.key, record.value, str(record.timestamp).encode()):
            running.update(b"-" if part is None else b"%d:" % len(part) + part)
        for name, value in record.headers:
            running.update(name.encode() + b"=" + (b"-" if value is None else b":" + value))
    return running.hexdigest()
