"""Records as JSON documents: for pages, for the live tail and for downloads. Pure."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from ottla.client.console.views.formats import SHOWN_BYTES, shown

if TYPE_CHECKING:
    from ottla.client.console.views.asked import Document
    from ottla.client.records.consumer_record import ConsumerRecord

HEADERS_SHOWN = 50
NAME_CHARACTERS = 200


def record_row(
    record: ConsumerRecord[bytes, bytes], form: str, shown_bytes: int = SHOWN_BYTES
) -> Document:
    """Return one record with truncated key, value and headers."""
    return {
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": shown(record.key, form, shown_bytes),
        "value": shown(record.value, form, shown_bytes),
        "headers": [
            {"name": name[:NAME_CHARACTERS], **shown(value, form, shown_bytes)}
            for name, value in record.headers[:HEADERS_SHOWN]
        ],
        "headers_left_out": max(0, len(record.headers) - HEADERS_SHOWN),
    }


def download_row(record: ConsumerRecord[bytes, bytes]) -> Document:
    """Return one whole record in the form of ``ottla consume --json``: bytes that are not UTF-8 as
    base64."""
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        **_readable("key", record.key),
        **_readable("value", record.value),
        "headers": [{"name": name, **_readable("value", value)} for name, value in record.headers],
    }


def _readable(name: str, content: bytes | None) -> Document:
    if content is None:
        return {name: None}
    try:
        return {name: content.decode("utf-8")}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(content).decode("ascii")}
