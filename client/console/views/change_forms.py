"""Parses the forms of changes, and previews a change of positions. Pure."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from ottla.client.console.views.asked import BadRequest, whole_number
from ottla.protocol.ids import TopicPartition
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ottla.client.console.views.asked import Document
    from ottla.client.records.committed import Committed

ENCODINGS = ("text", "hex", "null")
PARTITIONS_MAX = 2**31 - 1


class NewRecord(NamedTuple):
    """A record to send; without ``partition`` the producer chooses one."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    partition: int | None


def lines_of(text: str, what: str) -> dict[str, str]:
    """Read lines of ``name=value``. Raises BadRequest."""
    pairs = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        name, equals, value = line.partition("=")
        if not equals or not name.strip():
            raise BadRequest(f"{what} {line[:60]!r} is not of the form name=value")
        pairs[name.strip()] = value.strip()
    return pairs


def content_of(text: str, encoding: str, what: str) -> bytes | None:
    """Return the bytes of a text field. Browsers send line ends as CR LF; they become LF.

    Raises BadRequest."""
    if encoding == "null":
        return None
    if encoding == "hex":
        try:
            return bytes.fromhex(text)
        except ValueError:
            raise BadRequest(f"the {what} is not hex: it has pairs of 0-9 and a-f") from None
    if encoding != "text":
        raise BadRequest(f"the {what} is given as one of {', '.join(ENCODINGS)}")
    return text.replace("\r\n", "\n").encode()


def read_record_form(fields: Mapping[str, str]) -> NewRecord:
    """Read the form that sends a record. Raises BadRequest."""
    partition = fields.get("partition", "").strip()
    headers = lines_of(fields.get("headers", ""), "header")
    return NewRecord(
        content_of(fields.get("key", ""), fields.get("key_encoding", "text"), "key"),
        content_of(fields.get("value", ""), fields.get("value_encoding", "text"), "value"),
        tuple((name, value.encode()) for name, value in headers.items()),
        whole_number("partition", partition) if partition else None,
    )


def preview_document(
    group_id: str,
    current: Mapping[TopicPartition, Committed],
    targets: Mapping[TopicPartition, int],
) -> Document:
    """Return each old and new position, and the text that sets exactly these."""
    moves = [
        {
            "topic": where.topic,
            "partition": where.partition,
            "from": current[where].offset if where in current else None,
            "to": target,
            "difference": target - current[where].offset if where in current else None,
        }
        for where, target in sorted(targets.items())
    ]
    return {"group": group_id, "moves": moves, "positions": positions_text(targets)}


def positions_text(targets: Mapping[TopicPartition, int]) -> str:
    """Encode positions as the text of a hidden field."""
    return json.dumps([[*where, offset] for where, offset in sorted(targets.items())])


def read_positions(text: str) -> dict[TopicPartition, int]:
    """Parse the text of ``positions_text``. Raises BadRequest."""
    try:
        rows = json.loads(text)
        positions = {
            TopicPartition(str(topic), int(partition)): int(offset)
            for topic, partition, offset in rows
        }
    except (ValueError, TypeError, RecursionError):
        raise BadRequest("the positions cannot be read: show the preview again") from None
    if not positions or min(positions.values()) < 0:
        raise BadRequest("there are no positions to set")
    return positions
