"""Copies the lines of the audit log to the topic ``__audit``, in addition to its file or logger.

Requests never wait for this. Lines wait in a bounded queue; lines that do not fit are counted, and
remain in the file. One task sends them to the topic's leader, in order. It repeats a send whose
answer is lost, so the topic may contain a line twice, with the same broker and sequence number.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING

from ottla.broker.coordinating.internal_topics import AUDIT_PURPOSE
from ottla.coordinator.metadata.image import AUDIT_TOPIC
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode, KafkaError, error_code
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ottla.protocol.records.builder import encode_batch
from ottla.wire.api import declare
from ottla.wire.errors import ClientError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ottla.broker.membership.peers import Peers
    from ottla.broker.metadata.metadata import MetadataCache
    from ottla.protocol.ports import Clock
    from ottla.wire.connection import Connection

logger = logging.getLogger("ottla.audit")

_PRODUCE = declare(ApiKey.PRODUCE, ProduceRequest, ProduceResponse, 9, 12)
_PARTITION = 0
# Maximum size of the queue.
LINES_MAX = 10_000
BYTES_MAX = 8 << 20
# Maximum size of one request: far below the default limit of a topic's batches.
BATCH_LINES_MAX = 500
BATCH_BYTES_MAX = 256 << 10
# Lines within this time share a request.
LINGER_MS = 50.0
RETRY_MS = 100.0
RETRY_MS_MAX = 5_000.0
REQUEST_TIMEOUT_MS = 10_000


class AuditTopic:
    """Owned by the server. ``make_topics`` requests topics; it is set before ``run``."""

    def __init__(self, node_id: int, peers: Peers, metadata: MetadataCache, clock: Clock) -> None:
        self.make_topics: Callable[[Iterable[str]], object] | None = None
        self._node_id = node_id
        self._peers = peers
        self._metadata = metadata
        self._clock = clock
        self._lines: deque[tuple[int, bytes]] = deque()
        self._waiting_bytes = 0
        self._batch_lines_max = BATCH_LINES_MAX
        self._wake = asyncio.Event()
        self._connection: Connection | None = None
        self._leader = -1
        self._last_problem = ""
        self._is_full = False
        # Lines omitted because the queue was full or the topic was unavailable for too long.
        self.left_out_count = 0

    @property
    def waiting_count(self) -> int:
        """Number of lines that are not in the topic yet."""
        return len(self._lines)

    def add(self, line: str) -> None:
        """Queue a line for the topic, or count it as omitted. Never waits."""
        value = line.encode()
        size = self._waiting_bytes + len(value)
        if len(self._lines) >= LINES_MAX or size > BYTES_MAX:
            self.left_out_count += 1
            if not self._is_full:
                logger.warning(
                    "further entries are omitted from %s: too many are waiting", AUDIT_TOPIC
                )
            self._is_full = True
            return
        self._lines.append((self._clock.wall_ms(), value))
        self._waiting_bytes = size
        self._wake.set()

    async def run(self) -> None:
        """Send lines to the topic until cancelled."""
        pause_ms = RETRY_MS
        try:
            while True:
                if self._is_missing():
                    await self._clock.sleep(RETRY_MS)
                elif not self._lines:
                    self._wake.clear()
                    await self._wake.wait()
                    await self._clock.sleep(LINGER_MS)
                elif await self._send_some():
                    pause_ms = RETRY_MS
                else:
                    await self._clock.sleep(pause_ms)
                    pause_ms = min(2 * pause_ms, RETRY_MS_MAX)
        finally:
            self._disconnect("entries are no longer written to the audit topic")

    async def finish(self, timeout_ms: float) -> None:
        """Return when all lines are in the topic, or after the time limit; ``run`` continues."""
        deadline_ms = self._clock.now_ms() + timeout_ms
        while self._lines and self._clock.now_ms() < deadline_ms:
            await self._clock.sleep(LINGER_MS)

    def _is_missing(self) -> bool:
        """Whether the topic does not exist yet. The controller is asked to create it without a
        request that would itself be audited."""
        if self._metadata.topic(AUDIT_TOPIC) is not None:
            return False
        if self._metadata.controller_id == self._node_id and self.make_topics is not None:
            self.make_topics([AUDIT_TOPIC])
        return True

    async def _send_some(self) -> bool:
        """Send the first lines; return whether the topic contains them now."""
        batch = self._next_batch()
        try:
            connection = await self._to_leader()
            response = await connection.send(_PRODUCE, _request_of(batch))
        except (OSError, KafkaError, ClientError) as error:
            self._disconnect("a request was given up")
            self._tell(str(error))
            return False
        outcome = error_code(response.responses[0].partition_responses[0].error_code)
        if outcome is ErrorCode.NONE:
            self._forget(batch)
            self._batch_lines_max = BATCH_LINES_MAX
            self._last_problem = ""
            self._is_full = False
            return True
        self._tell(outcome.text)
        if outcome is ErrorCode.MESSAGE_TOO_LARGE:
            self._batch_lines_max = max(1, len(batch) // 2)
            if len(batch) == 1:
                self._forget(batch)
                self.left_out_count += 1
        return False

    def _next_batch(self) -> list[tuple[int, bytes]]:
        batch: list[tuple[int, bytes]] = []
        size = 0
        for line in islice(self._lines, self._batch_lines_max):
            size += len(line[1])
            if batch and size > BATCH_BYTES_MAX:
                break
            batch.append(line)
        return batch

    def _forget(self, batch: list[tuple[int, bytes]]) -> None:
        for _ in batch:
            self._waiting_bytes -= len(self._lines.popleft()[1])

    async def _to_leader(self) -> Connection:
        """Return the connection to the leader. Raises as ``Peers.connect``."""
        leader, _epoch = self._metadata.leader_of(AUDIT_TOPIC, _PARTITION)
        connection = self._connection
        if connection is None or connection.closed or leader != self._leader:
            self._disconnect("another broker leads the audit topic")
            connection = self._connection = await self._peers.connect(
                leader, purpose=AUDIT_PURPOSE, request_timeout_ms=REQUEST_TIMEOUT_MS
            )
            self._leader = leader
        return connection

    def _disconnect(self, reason: str) -> None:
        if self._connection is not None:
            self._connection.close(reason)
            self._connection = None

    def _tell(self, problem: str) -> None:
        """Warn the operator once per problem; the file has the lines meanwhile."""
        if problem != self._last_problem:
            self._last_problem = problem
            logger.warning("entries cannot be written to %s: %s", AUDIT_TOPIC, problem)


def _request_of(batch: list[tuple[int, bytes]]) -> ProduceRequest:
    records = encode_batch((wall_ms, None, value, ()) for wall_ms, value in batch)
    part = PartitionProduceData(_PARTITION, memoryview(records))
    return ProduceRequest(
        acks=-1,
        timeout_ms=REQUEST_TIMEOUT_MS,
        topic_data=[TopicProduceData(name=AUDIT_TOPIC, partition_data=[part])],
    )
