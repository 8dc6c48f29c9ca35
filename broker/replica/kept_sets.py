"""Validates message sets that a topic stores in format 1 (``ottla.keep.message.format``). Pure.

A set is kept if the broker need change only offsets, and times where it sets them: every message is
valid and of format 1, a wrapper is the only entry and uses the producer's codec, and its messages
count from 0 (KIP-31). For any other set the usual code makes a record batch or returns why it is
refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.replica.append import out_of_range
from ottla.protocol.errors import KafkaError
from ottla.protocol.message_sets.kept import KEPT_MAGIC, KeptMessage, KeptSet
from ottla.protocol.message_sets.raising import check_sent, whole_bytes
from ottla.protocol.records.batch import MAGIC_POSITION
from ottla.protocol.records.old_messages import OldMessage, parse_message, read_messages

if TYPE_CHECKING:
    from ottla.broker.replica.append import AppendRules
    from ottla.protocol.ports import Buffer
    from ottla.protocol.records.record import Record


def kept_set(
    records: Buffer, rules: AppendRules, wall_ms: int, output_limit_bytes: int
) -> KeptSet | None:
    """Return the set as it is stored, in its own buffer; None if it cannot be kept.

    ``wall_ms`` is compared with the producer's timestamps. A partial last message is omitted."""
    try:
        return _kept_set(records, rules, wall_ms, output_limit_bytes)
    except KafkaError:
        return None


def _kept_set(
    records: Buffer, rules: AppendRules, wall_ms: int, output_limit_bytes: int
) -> KeptSet | None:
    sent = memoryview(records)
    places, end = [], 0
    while size_bytes := whole_bytes(sent, end):
        if sent[end + MAGIC_POSITION] != KEPT_MAGIC or size_bytes > rules.max_message_bytes:
            return None
        places.append(end)
        end += size_bytes
    if not places or end > rules.segment_bytes:
        return None
    view = memoryview(bytearray(sent[:end]))
    messages = []
    for position in places:
        message = parse_message(view, position)
        check_sent(message)
        if message.is_compressed and (len(places) > 1 or message.key is not None):
            return None
        if rules.codec is not None and rules.codec is not message.codec:
            return None
        found = list(read_messages(message, output_limit_bytes))
        one = KeptMessage.parse(view, position)
        if not _count_from_zero(message, one, found) or not _fit(found, rules, wall_ms):
            return None
        latest = max(record.timestamp for record in found)
        if one.max_timestamp != latest and not rules.uses_append_time:
            # The wrapper's fields about its messages are corrected, as in Kafka.
            one.put_time(one.attributes, latest)
        messages.append(one)
    assert len(messages) == len(places), "each message that was sent is kept"
    return KeptSet(messages)


def _count_from_zero(message: OldMessage, one: KeptMessage, found: list[Record]) -> bool:
    """Whether the offsets inside a wrapper are 0, 1, 2, ...; a plain message has none inside.

    The producer gives the wrapper the last of these offsets, or 0."""
    if not message.is_compressed:
        return True
    return one.base_offset == 0 and [record.offset for record in found] == list(range(len(found)))


def _fit(found: list[Record], rules: AppendRules, wall_ms: int) -> bool:
    """Whether the topic accepts these records unchanged."""
    assert found, "an entry has a record"
    if rules.is_compacted and any(record.key is None for record in found):
        return False
    return rules.uses_append_time or all(
        out_of_range(record.timestamp, rules, wall_ms) is None for record in found
    )
