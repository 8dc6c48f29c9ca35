"""Errors of reading besides those of clients; Spark shows their text to the user."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.protocol.ids import TopicPartition


class RecordsLost(Exception):
    """Records that were to be read no longer exist."""

    def __init__(self, loss: str) -> None:
        super().__init__(
            f"{loss}, so records may have been lost; to continue without them set the option "
            "failOnDataLoss to false"
        )


class ReadTimedOut(Exception):
    """A task received nothing for too long, although there are records to read."""

    def __init__(self, where: TopicPartition, offset: int, timeout_ms: int) -> None:
        super().__init__(
            f"{name_of(where)}: nothing came from offset {offset} on within {timeout_ms} ms, "
            "which is what the option kafkaConsumer.pollTimeoutMs allows"
        )


def name_of(where: TopicPartition) -> str:
    """The partition as the clients' errors name it."""
    return f"topic {where.topic!r} partition {where.partition}"
