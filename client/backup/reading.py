"""Reads raw record batches of single partitions from their leaders, markers included."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ottla.client.backup.errors import BackupError
from ottla.client.fetching.fetch_request import FETCH, LAST_BY_NAME
from ottla.protocol.errors import ErrorCode, KafkaError, error_code
from ottla.protocol.ids import ZERO_UUID
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.named_tuples import NamedTuple
from ottla.protocol.records.batch import check_crc, iterate_whole_batches
from ottla.wire.errors import ClientError, RequestRefused

if TYPE_CHECKING:
    from ottla.client.cluster.routing import Router
    from ottla.protocol.ids import TopicPartition, Uuid
    from ottla.protocol.records.batch import RecordBatch
    from ottla.protocol.schema import Records
    from ottla.wire.connection import Connection

FETCH_BYTES = 8 * 1024 * 1024
FETCH_WAIT_MS = 500
# What an empty answer is repeated for: a replaced leader needs a moment for its high watermark.
EMPTY_ANSWERS_MAX = 120
GONE = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)


class Gone(Exception):
    """The partition was deleted, or its topic was replaced by one of the same name."""


class TooEarly(Exception):
    """Retention has deleted the wanted offset."""


class RawBatches(NamedTuple):
    """Batches that begin below an offset, and where to go on."""

    batches: list[RecordBatch]
    next_offset: int


class RawReader:
    """Reads one partition of one topic id, by offset. ``topic_id`` may be zero."""

    def __init__(
        self,
        router: Router,
        where: TopicPartition,
        topic_id: Uuid,
        fetch_bytes: int = FETCH_BYTES,
    ) -> None:
        self._fetch_bytes = fetch_bytes
        self._router = router
        self._where = where
        self._topic_id = topic_id

    async def read(self, offset: int, end: int) -> RawBatches:
        """The next batches from an offset on, up to ``end``; at least one unless no batch is left
        before the end. Raises Gone, TooEarly, BackupError and ClientError."""
        assert offset < end
        for _ in range(EMPTY_ANSWERS_MAX):
            batches = await self._fetch(offset)
            if not batches:
                continue
            wanted = [batch for batch in batches if batch.base_offset < end]
            return RawBatches(wanted, min(wanted[-1].next_offset, end) if wanted else end)
        raise BackupError(
            f"topic {self._where.topic!r} partition {self._where.partition} gives nothing from "
            f"offset {offset} on, though it ended at {end}"
        )

    async def _fetch(self, offset: int) -> list[RecordBatch]:
        ask = partial(self._ask, offset)
        found = (await self._router.by_leader([self._where], ask, is_repeatable=True))[self._where]
        if isinstance(found, RequestRefused):
            if found.code in GONE:
                raise Gone from found
            if found.code is ErrorCode.OFFSET_OUT_OF_RANGE:
                raise TooEarly from found
        if isinstance(found, ClientError):
            raise found
        return found

    async def _ask(
        self, offset: int, connection: Connection, partitions: list[TopicPartition]
    ) -> dict[TopicPartition, list[RecordBatch] | ClientError]:
        (where,) = partitions
        metadata = self._router.cluster.metadata
        known = metadata.partition(where)
        version = connection.version_of(FETCH)
        if self._topic_id == ZERO_UUID:
            version = min(version, LAST_BY_NAME)
        epoch = -1 if known is None else known.leader_epoch
        part = FetchPartition(where.partition, epoch, offset, partition_max_bytes=self._fetch_bytes)
        request = FetchRequest(
            max_wait_ms=FETCH_WAIT_MS,
            min_bytes=1,
            max_bytes=self._fetch_bytes,
            topics=[FetchTopic(where.topic, self._topic_id, [part])],
        )
        response = await connection.send(FETCH, request, version=version)
        if (code := error_code(response.error_code)) is not ErrorCode.NONE:
            return {where: RequestRefused.for_partition(code, where, str(connection.address))}
        for topic in response.responses:
            for one in topic.partitions:
                code = error_code(one.error_code)
                if code in GONE and self._is_replaced():
                    # Asking again is of no use: an id does not come back.
                    raise Gone
                if code is not ErrorCode.NONE:
                    broker = str(connection.address)
                    return {where: RequestRefused.for_partition(code, where, broker)}
                return {where: self._batches(one.records, offset)}
        return {where: []}

    def _is_replaced(self) -> bool:
        """Whether the topic of this name has another id by now."""
        view = self._router.cluster.metadata.topics.get(self._where.topic)
        return (
            view is not None
            and view.error is ErrorCode.NONE
            and ZERO_UUID not in (view.topic_id, self._topic_id)
            and view.topic_id != self._topic_id
        )

    def _batches(self, records: Records | None, offset: int) -> list[RecordBatch]:
        if not isinstance(records, memoryview):
            return []
        place = f"topic {self._where.topic!r} partition {self._where.partition}"
        try:
            # A copy, because the connection uses its buffer again.
            batches = list(iterate_whole_batches(bytes(records)))
        except KafkaError as error:
            if error.code is ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT:
                raise BackupError(
                    f"{place} has messages in the format before Kafka 0.11 at offset {offset}: "
                    "copy the topic with 'ottla mirror' first, and back up the copy"
                ) from error
            raise BackupError(f"{place} is damaged near offset {offset}: {error}") from error
        batches = [batch for batch in batches if batch.next_offset > offset]
        for batch in batches:
            if not check_crc(batch):
                raise BackupError(f"{place} is damaged at offset {batch.base_offset}")
        return batches
