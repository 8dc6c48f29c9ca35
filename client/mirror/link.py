"""Copies one source until stopped: starts a new session after each transient error."""

from __future__ import annotations

import logging
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from ottla.client.admin import Admin
from ottla.client.consumer import Consumer
from ottla.client.mirror.copying import CopiedRun, Copier, Marks
from ottla.client.mirror.errors import MirrorError
from ottla.client.mirror.notebook import make_topic, read_notes
from ottla.client.mirror.report import MirrorProgress
from ottla.client.mirror.session import Clients, MirrorSession, Purpose
from ottla.client.mirror.settings import CLIENT_ID, admin_config
from ottla.client.mirror.topics import Copied, TopicSync, certain
from ottla.client.process.errors import CommitFailed, ProducerFenced, TransactionError
from ottla.client.producer import Producer
from ottla.client.settings.config import ConsumerConfig, Isolation, ProducerConfig
from ottla.protocol.errors import ErrorCode
from ottla.protocol.ids import TopicPartition
from ottla.protocol.named_tuples import NamedTuple
from ottla.wire.backoff import Backoff
from ottla.wire.errors import ClientError, TransportError

if TYPE_CHECKING:
    from ottla.client.mirror.settings import MirrorSettings, MirrorSource
    from ottla.client.process.environment import Environment

logger = logging.getLogger(__name__)

BACKOFF = Backoff(500, 30_000)
FENCING = (
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_PRODUCER_EPOCH,
)
# How often a waiting link checks whether it should stop.
NAP_MS = 250.0
# Bounds the memory: one broker's fetch response, and unacknowledged records.
FETCH_BYTES_MAX = 16 * 1024 * 1024
MEMORY_BYTES_MAX = 64 * 1024 * 1024
# Larger records are refused; topic limits are usually far below.
RECORD_BYTES_MAX = 16 * 1024 * 1024


class CopyCheck(NamedTuple):
    """What is needed to detect changed topics, and what is copied now."""

    topics: TopicSync
    source: Admin
    copied: Copied


class MirrorLink:
    """Copies one source. Owned by one mirror."""

    def __init__(
        self,
        settings: MirrorSettings,
        source: MirrorSource,
        environment: Environment,
        *,
        until_end: bool = False,
    ) -> None:
        self.source = source
        self._settings = settings
        self._environment = environment
        self._clock = environment.clock
        self._random = environment.random.child(f"mirror {source.alias}")
        self._is_stopping = False
        self._ends: dict[TopicPartition, int] | None = {} if until_end else None
        self._consumer: Consumer[bytes, bytes] | None = None
        # The partition count and lag; the last values stay available after the end.
        self._place: tuple[int, int | None] = 0, None
        self._records = self._size_bytes = self._failures = 0
        self._failures_in_a_row = 0

    def stop(self) -> None:
        """Stop reading; ``run`` returns when the work in progress is done."""
        self._is_stopping = True

    def progress(self) -> MirrorProgress:
        """The progress of this link."""
        if self._consumer is not None:
            self._place = place_of(self._consumer)
        partitions, lag = self._place
        alias = self.source.alias
        return MirrorProgress(
            alias, self._records, self._size_bytes, partitions, lag, self._failures
        )

    async def run(self) -> None:
        """Copy until ``stop``. Raises MirrorError, and ClientErrors that a retry cannot fix."""
        while not self._is_stopping:
            try:
                await self._session()
            except ClientError as error:
                if error.code in FENCING:
                    raise MirrorError(
                        f"another mirror named {self._settings.name!r} copies {self.source.alias}"
                        " now, or a transaction was open for too long; this one ends"
                    ) from error
                if not may_pass(error):
                    raise
                self._failures += 1
                self._failures_in_a_row += 1
                logger.warning("%s: %s; trying again", self.source.alias, error)
                await self._wait(BACKOFF.delay_ms(self._failures_in_a_row, self._random.random()))

    async def _wait(self, delay_ms: float) -> None:
        until_ms = self._clock.now_ms() + delay_ms
        while not self._is_stopping and (left_ms := until_ms - self._clock.now_ms()) > 0:
            await self._clock.sleep(min(left_ms, NAP_MS))

    async def _session(self) -> None:
        """Run one session with new clients. Raises ClientError."""
        settings, environment = self._settings, self._environment
        async with AsyncExitStack() as stack:
            source = await stack.enter_async_context(
                Admin(self.source.bootstrap, admin_config(self.source), environment)
            )
            target = await stack.enter_async_context(
                Admin(settings.target, admin_config(settings), environment)
            )
            marks = await self._identify(source, target)
            await make_topic(target, settings.replication_factor)
            from_target = {
                note.target_topic
                for note in await read_notes(
                    self.source.bootstrap, environment, self.source.properties
                )
                if note.cluster_id == marks.target_id
            }
            topics = TopicSync(settings, self.source, target, from_target)
            copied = await certain(source, await topics.prepare(source))
            if not copied.names:
                logger.warning("%s: no topic is to be copied yet", self.source.alias)
                self._is_stopping = self._is_stopping or self._ends is not None
                await self._wait(settings.refresh_ms)
                return
            producer = await stack.enter_async_context(self._producer())
            consumer = await stack.enter_async_context(self._reader())
            copier = Copier(producer, copied, marks if settings.mark else None)
            session = MirrorSession(
                Purpose(settings, self.source, marks.source_id, copied),
                Clients(consumer, producer, copier, target),
                environment,
                self._on_copied,
            )
            await session.begin()
            self._consumer = consumer
            try:
                await self._copy(session, consumer, CopyCheck(topics, source, copied))
                await session.end()
            finally:
                self._place = place_of(consumer) if self._is_stopping else (0, None)
                self._consumer = None

    async def _copy(
        self,
        session: MirrorSession,
        consumer: Consumer[bytes, bytes],
        look: CopyCheck,
    ) -> None:
        """Copy until stopped, or until the topics to copy have changed."""
        if self._ends == {}:
            self._ends = await consumer.end_offsets(partitions_of(look.copied))
        next_look_ms = self._clock.now_ms() + self._settings.refresh_ms
        while not self._is_stopping:
            if not await session.step():
                return
            self._failures_in_a_row = 0
            if self._ends is not None and session.is_at(self._ends):
                self._is_stopping = True
            if self._clock.now_ms() >= next_look_ms:
                if await look.topics.prepare(look.source) != look.copied:
                    logger.info("%s: topics have changed", self.source.alias)
                    return
                next_look_ms = self._clock.now_ms() + self._settings.refresh_ms

    async def _identify(self, source: Admin, target: Admin) -> Marks:
        """The ids of both clusters. Raises MirrorError if they are the same cluster."""
        source_id = (await source.describe_cluster()).cluster_id or self.source.bootstrap
        target_id = (await target.describe_cluster()).cluster_id or self._settings.target
        if source_id == target_id:
            raise MirrorError(f"{self.source.alias} and the target are the same cluster")
        return Marks(source_id, target_id)

    def _on_copied(self, placed: CopiedRun) -> None:
        self._records += placed.record_count
        self._size_bytes += placed.size_bytes

    def _producer(self) -> Producer[bytes, bytes]:
        settings = self._settings
        group = settings.group_of(self.source)
        config = ProducerConfig(
            client_id=CLIENT_ID,
            transactional_id=f"ottla-mirror-{group}" if settings.exactly_once else None,
            compression=settings.compression,
            memory_bytes_max=MEMORY_BYTES_MAX,
            request_bytes_max=RECORD_BYTES_MAX,
        ).with_properties(settings.properties, ignore_others=True)
        return Producer(settings.target, config, self._environment)

    def _reader(self) -> Consumer[bytes, bytes]:
        config = ConsumerConfig(
            client_id=CLIENT_ID,
            group_id=self._settings.group_of(self.source),
            auto_commit=False,
            offset_reset="earliest",
            # Aborted records of the source must not become committed on the target.
            isolation=Isolation.READ_COMMITTED,
            fetch_bytes_max=FETCH_BYTES_MAX,
            metadata_max_age_ms=self._settings.refresh_ms,
            session_timeout_ms=self._settings.session_timeout_ms,
            heartbeat_interval_ms=min(3_000, self._settings.session_timeout_ms // 3),
        ).with_properties(self.source.properties, ignore_others=True)
        return Consumer(self.source.bootstrap, config, self._environment)


def place_of(consumer: Consumer[bytes, bytes]) -> tuple[int, int | None]:
    """The number of assigned partitions, and their total lag in offsets; None if unknown."""
    assigned = consumer.assignment
    lags = [consumer.lag(where) for where in assigned]
    return len(assigned), None if not lags or None in lags else sum(one or 0 for one in lags)


def partitions_of(copied: Copied) -> list[TopicPartition]:
    """All partitions to copy, as the source names them."""
    return [
        TopicPartition(topic, number)
        for topic, count in copied.counts.items()
        for number in range(count)
    ]


def may_pass(error: ClientError) -> bool:
    """Whether a new session may succeed after this error."""
    if isinstance(error, ProducerFenced | MirrorError):
        return False
    if isinstance(error, TransactionError):
        return error.code is ErrorCode.NONE or error.code.retriable
    return error.retriable or isinstance(error, TransportError | CommitFailed)
