"""The record of a deleted topic: the brokers that may still have directories of it.

It is written together with the topic's deletion, and removed when each of these brokers has
confirmed that it has no directory of the topic. Only with such a record does a starting broker
remove a directory.
"""

from __future__ import annotations

from ottla.coordinator.store import paths, znode
from ottla.protocol.ids import Uuid, is_usable_uuid, uuid_from_text, uuid_to_text
from ottla.protocol.named_tuples import NamedTuple


class DeletedTopic(NamedTuple):
    """Topic ids are unique, so the record never applies to a later topic of the same name.

    ``partition_count``: partitions have the numbers below it."""

    name: str
    topic_id: Uuid
    partition_count: int
    brokers: tuple[int, ...]


def path_of(topic_id: Uuid) -> str:
    """Return the path of a topic's record."""
    return f"{paths.DELETED_TOPICS}/{uuid_to_text(topic_id)}"


def build(deleted: DeletedTopic) -> bytes:
    """Return the record's payload; the topic id is in its path."""
    return znode.build(
        {
            "version": 1,
            "topic": deleted.name,
            "partitions": deleted.partition_count,
            "brokers": list(deleted.brokers),
        }
    )


def parse(encoded_id: str, data: bytes) -> DeletedTopic | None:
    """Parse a record; None if it cannot be understood: then it is no proof of a deletion."""
    value = znode.parse(data)
    try:
        topic_id = uuid_from_text(encoded_id)
        if not is_usable_uuid(topic_id):
            return None
        return DeletedTopic(
            str(value["topic"]), topic_id, int(value["partitions"]), znode.ids_of(value["brokers"])
        )
    except (KeyError, ValueError, TypeError):
        return None
