"""Restores a backup into a cluster that lacks its topics.

Records are produced again, in order and without gaps. Offsets are the same as long as the source's
log had none (compaction and transactions leave gaps); what retention had deleted at its beginning
is filled and deleted again. Positions of groups are translated, exactly. How far an interrupted
restore got is the number of records in each partition, so it goes on there.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from ottla.client.administration.topic_requests import NewTopic
from ottla.client.backup.errors import BackupError
from ottla.client.backup.extras import restore_parts
from ottla.client.backup.manifest import FORMAT, RESTORES, BackupManifest, PartitionCopy, TopicCopy
from ottla.client.backup.planning import BEGINNING, END, offsets_of
from ottla.client.backup.records import OffsetTranslation, columns_of
from ottla.client.backup.transactions import Sieve
from ottla.client.cluster.config_requests import ConfigChange, ResourceType
from ottla.client.mirror.copying import pieces
from ottla.client.mirror.settings import matches
from ottla.client.mirror.topics import id_text
from ottla.client.records.committed import Committed
from ottla.protocol.configs import ConfigOperation
from ottla.protocol.errors import ErrorCode
from ottla.protocol.ids import TopicPartition
from ottla.protocol.named_tuples import NamedTuple
from ottla.protocol.records.columns import Columns
from ottla.wire.errors import RequestRefused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ottla.client.admin import Admin
    from ottla.client.backup.shelf import BackupShelf
    from ottla.client.producer import Producer
    from ottla.client.records.delivery import BatchDelivery
    from ottla.protocol.ports import Buffer

WORKERS = 4
PIECE_BYTES_MAX = 512 * 1024
FILLERS_PER_BATCH = 50_000
NEWS_MS = 100.0
RECORD_BYTES_MAX = 64 * 1024 * 1024
# While records arrive the broker must neither delete, compact nor stamp them; the topic's own
# settings are set at the end.
WHILE_RESTORING = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "message.timestamp.type": "CreateTime",
    "max.message.bytes": str(RECORD_BYTES_MAX),
}


class RestoreRequest(NamedTuple):
    """What to restore: names, or patterns that begin with ``^``. ``fill_max``: the largest log
    start for which offsets are kept."""

    topics: tuple[str, ...] = ("^",)
    exclude: tuple[str, ...] = ()
    groups: tuple[str, ...] = ("^",)
    parts: frozenset[str] = frozenset()
    replication_factor: int | None = None
    fill_max: int = 100_000_000


class Restored(NamedTuple):
    """What was restored. ``shifted``: partitions whose offsets differ from the source's."""

    topics: int
    records: int
    positions: int
    shifted: int
    notes: list[str]


class Restoration:
    """Restores one backup. ``tell`` gets a sentence now and then."""

    def __init__(
        self,
        admin: Admin,
        producer: Producer[Buffer, Buffer],
        shelf: BackupShelf,
        request: RestoreRequest,
        tell: Callable[[str], None],
    ) -> None:
        self._admin = admin
        self._producer = producer
        self._shelf = shelf
        self._request = request
        self._tell = tell
        self._shifted = 0
        self._records = 0
        self._translated: dict[TopicPartition, OffsetTranslation] = {}

    async def run(self, manifest: BackupManifest) -> Restored:
        """Restore. Raises BackupError, OSError and ClientError; run again, it goes on."""
        request = self._request
        topics = [
            topic
            for topic in manifest.topics
            if matches(request.topics, topic.name) and not matches(request.exclude, topic.name)
        ]
        description = await self._admin.describe_cluster()
        ledger = f"{RESTORES}{description.cluster_id}-{manifest.number:08d}.json"
        brokers = len(description.brokers)
        await self._create(topics, ledger, brokers)
        await self._restore_all(manifest, topics)
        for topic in topics:
            await self._settle(topic)
        positions = await self._commit(manifest)
        notes = await restore_parts(self._admin, manifest, request.parts)
        await self._shelf.delete(ledger)
        return Restored(len(topics), self._records, positions, self._shifted, notes)

    # Topics. The ledger says which were created by this restore: an interrupted one goes on with
    # them, and never with another topic of that name.

    async def _create(self, topics: list[TopicCopy], ledger: str, brokers: int) -> None:
        document = await self._shelf.document(ledger)
        known: dict[str, str] = {} if document is None else document["topics"]
        there = {view.name: id_text(view.topic_id) for view in await self._admin.list_topics()}
        for topic in topics:
            if topic.name in there and known.get(topic.name) not in ("", there[topic.name]):
                raise BackupError(
                    f"topic {topic.name!r} exists already: delete it, leave it out with "
                    "--exclude, or restore into another cluster"
                )
        if document is not None:
            self._tell("the restore was interrupted, and goes on where it stopped")
        for topic in topics:
            if topic.name not in there:
                await self._write(ledger, {**known, topic.name: ""})
                there[topic.name] = await self._created(topic, brokers)
            known = {**known, topic.name: there[topic.name]}
        await self._write(ledger, known)
        for topic in topics:
            await self._await_leaders(topic)

    async def _await_leaders(self, topic: TopicCopy) -> None:
        """Wait until the leaders of a new topic know that they are."""
        cluster = self._admin._cluster
        await cluster.topic(topic.name)
        partitions = [TopicPartition(topic.name, copy.partition) for copy in topic.partitions]
        clock = cluster.environment.clock
        deadline_ms = clock.now_ms() + cluster.config.call_timeout_ms
        while True:
            try:
                await offsets_of(self._admin, partitions, END)
                return
            except RequestRefused as error:
                is_new = error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                if not is_new or clock.now_ms() >= deadline_ms:
                    raise
            await clock.sleep(NEWS_MS)

    async def _write(self, ledger: str, topics: dict[str, str]) -> None:
        document: dict[str, Any] = {"format": FORMAT, "topics": topics}
        await self._shelf.put(ledger, document)

    async def _created(self, topic: TopicCopy, brokers: int) -> str:
        factor = self._request.replication_factor or min(topic.replication_factor, brokers)
        count = len(topic.partitions)
        configs = {**topic.configs, **WHILE_RESTORING}
        view = await self._admin.create_topic(NewTopic(topic.name, count, factor, configs))
        self._tell(f"created topic {topic.name}, partitions: {count}")
        return id_text(view.topic_id)

    async def _settle(self, topic: TopicCopy) -> None:
        """Give the topic its own settings."""
        changes = [
            ConfigChange(name, ConfigOperation.SET, topic.configs[name])
            if name in topic.configs
            else ConfigChange(name, ConfigOperation.DELETE)
            for name in WHILE_RESTORING
        ]
        await self._admin.alter_configs(ResourceType.TOPIC, topic.name, changes)

    # Records.

    async def _restore_all(self, manifest: BackupManifest, topics: list[TopicCopy]) -> None:
        wanted: dict[TopicPartition, list[int]] = {}
        for one in self._positions(manifest):
            wanted.setdefault(TopicPartition(one.topic, one.partition), []).append(one.offset)
        waiting = [
            (TopicPartition(topic.name, copy.partition), copy)
            for topic in topics
            for copy in topic.partitions
        ]

        async def worker() -> None:
            while waiting:
                where, copy = waiting.pop()
                await self._restore(where, copy, wanted.get(where, ()))

        workers = [asyncio.ensure_future(worker()) for _ in range(WORKERS)]
        try:
            await asyncio.gather(*workers)
        finally:
            for one in workers:
                one.cancel()
            await asyncio.gather(*workers, return_exceptions=True)

    async def _restore(
        self, where: TopicPartition, copy: PartitionCopy, wanted: Iterable[int]
    ) -> None:
        start = copy.log_start if copy.log_start <= self._request.fill_max else 0
        done = (await offsets_of(self._admin, [where], END))[where]
        if done < start:
            await self._fill(where, start - done)
            done = start
        if start and (await offsets_of(self._admin, [where], BEGINNING))[where] < start:
            (answer,) = (await self._admin.delete_records({where: start})).values()
            if isinstance(answer, Exception):
                raise answer
        translation = OffsetTranslation(start, wanted)
        await self._produce(where, copy, translation, done - start)
        end = translation.end()
        self._translated[where] = translation
        self._records += end - start
        self._shifted += end != copy.end_offset or start != copy.log_start
        there = (await offsets_of(self._admin, [where], END))[where]
        if there != end:
            raise BackupError(
                f"topic {where.topic!r} partition {where.partition} should end at {end} now, and "
                f"ends at {there}: another client wrote to it; delete the topic and restore again"
            )

    async def _produce(
        self,
        where: TopicPartition,
        copy: PartitionCopy,
        translation: OffsetTranslation,
        skipped: int,
    ) -> None:
        """Send all records but the first ones, which are there already."""
        sieve = Sieve(copy.left_out)
        for file in copy.files:
            first = max(file.first_offset, copy.log_start)
            sent: list[tuple[Columns, BatchDelivery]] = []
            for batch in await self._shelf.batches(file):
                if not sieve.keeps(batch) or batch.next_offset <= first:
                    continue
                columns = columns_of(where, batch, first, file.next_offset)
                translation.take(columns)
                here = min(skipped, columns.count)
                skipped -= here
                for piece in pieces(columns.slice(here, columns.count), PIECE_BYTES_MAX):
                    delivery = await self._producer.send_batch(
                        where.topic, piece, partition=where.partition
                    )
                    sent.append((piece, delivery))
            for _, delivery in sent:
                await delivery

    async def _fill(self, where: TopicPartition, count: int) -> None:
        """Write records that are deleted at once: the next one then has the wanted offset."""
        filler = Columns.of((0, 0, None, b"", ()) for _ in range(min(count, FILLERS_PER_BATCH)))
        while count > 0:
            part = filler.slice(0, min(count, filler.count))
            await (await self._producer.send_batch(where.topic, part, partition=where.partition))
            count -= part.count

    # Groups.

    def _positions(self, manifest: BackupManifest) -> list[Any]:
        return [one for one in manifest.positions if matches(self._request.groups, one.group)]

    async def _commit(self, manifest: BackupManifest) -> int:
        groups: dict[str, dict[TopicPartition, Committed]] = {}
        for one in self._positions(manifest):
            translation = self._translated.get(TopicPartition(one.topic, one.partition))
            if translation is not None:
                positions = groups.setdefault(one.group, {})
                positions[TopicPartition(one.topic, one.partition)] = Committed(
                    translation.found[one.offset], metadata=one.metadata
                )
        for group, positions in groups.items():
            results = await self._admin.groups.commit(group, positions)
            for where, refused in results.items():
                if refused is not None:
                    raise BackupError(
                        f"the position of group {group!r} in {where.topic}:{where.partition} was "
                        f"refused: {refused}"
                    )
        return sum(map(len, groups.values()))
