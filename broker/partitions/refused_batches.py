"""Logs produced batches that this broker refuses, at most one line per second.

A producer that builds broken batches gets an error code and often drops it. The operator needs to
know which client it is, which partitions it writes to, and what is wrong with its batches.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ottla.broker.engine.log_summary import named
from ottla.protocol.data_classes import dataclass
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.broker.engine.tasks import Tasks
    from ottla.protocol.ids import TopicPartition
    from ottla.protocol.ports import Clock

logger = logging.getLogger("ottla.produce")

# Faults of the producer; other refusals are temporary, or concern the broker.
LOGGED = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.INVALID_RECORD,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    }
)
INTERVAL_MS = 1_000.0
# Per error and line. A client id may have 32 KiB and change with each request.
PARTITIONS_MAX = 1_000
CLIENTS_MAX = 3
CLIENT_ID_CHARACTERS_MAX = 60


@dataclass(slots=True)
class _Refusals:
    """All refusals with one error since the last line."""

    reason: str
    count: int
    partitions: set[TopicPartition]
    clients: dict[str, None]
    has_more_clients: bool = False


class RefusedBatches:
    """Counts refusals and puts them into one sentence. Pure."""

    def __init__(self) -> None:
        self._by_error: dict[ErrorCode, _Refusals] = {}

    def note(
        self, partition: TopicPartition, client_id: str | None, error: ErrorCode, reason: str | None
    ) -> None:
        """Note that a batch for this partition was refused and not stored."""
        found = self._by_error.get(error)
        if found is None:
            found = self._by_error[error] = _Refusals(reason or "no reason given", 0, set(), {})
        found.count += 1
        if len(found.partitions) < PARTITIONS_MAX:
            found.partitions.add(partition)
        client = _shown(client_id)
        if client in found.clients:
            return
        if len(found.clients) < CLIENTS_MAX:
            found.clients[client] = None
        else:
            found.has_more_clients = True

    def take(self) -> str | None:
        """Return one sentence on all batches noted since the last call; None without any."""
        if not self._by_error:
            return None
        parts = [_sentence(error, found) for error, found in self._by_error.items()]
        self._by_error.clear()
        return "; ".join(parts)


class RefusalLog:
    """Writes the sentences: the first refusal at once, those that follow within a second in
    one line at its end. Owned by the broker."""

    def __init__(self, clock: Clock, tasks: Tasks) -> None:
        self._clock = clock
        self._tasks = tasks
        self._refused = RefusedBatches()
        self._is_telling = False

    def note(
        self, partition: TopicPartition, client_id: str | None, error: ErrorCode, reason: str | None
    ) -> None:
        """Log a refused batch soon if its error shows a faulty producer. Never waits."""
        if error not in LOGGED:
            return
        self._refused.note(partition, client_id, error, reason)
        if not self._is_telling:
            self._is_telling = True
            self._tasks.spawn("log of refused batches", self._tell())

    async def _tell(self) -> None:
        try:
            while (sentence := self._refused.take()) is not None:
                logger.warning("%s", sentence)
                await self._clock.sleep(INTERVAL_MS)
        finally:
            self._is_telling = False


def _sentence(error: ErrorCode, found: _Refusals) -> str:
    count = "a batch" if found.count == 1 else f"{found.count} batches"
    clients = ("client " if len(found.clients) == 1 else "clients ") + ", ".join(found.clients)
    if found.has_more_clients:
        clients += " and others"
    first = "" if found.count == 1 else "the first because "
    return (
        f"refused {count} for {named(found.partitions)} from {clients} with {error.name}: "
        f"{first}{found.reason}"
    )


def _shown(client_id: str | None) -> str:
    """The client id, without line breaks and at a bounded length: clients choose it."""
    if client_id is None:
        return "(no id)"
    cut = client_id[:CLIENT_ID_CHARACTERS_MAX]
    return repr(cut) + ("..." if cut != client_id else "")
