"""Checks a backup: its files by their checksums, and its records against those of a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.backup.errors import DamagedBackup, NotStored
from ottla.client.backup.planning import BEGINNING, END, offsets_of
from ottla.client.backup.reading import Gone, RawReader, TooEarly
from ottla.client.backup.records import columns_of
from ottla.client.backup.transactions import Sieve
from ottla.client.cluster.config_requests import ResourceType
from ottla.client.mirror.settings import matches
from ottla.protocol.ids import TopicPartition
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from ottla.client.admin import Admin
    from ottla.client.backup.manifest import BackupManifest, PartitionCopy
    from ottla.client.backup.shelf import BackupShelf
    from ottla.protocol.records.record import Record

FAULTS_MAX = 20


class Verified(NamedTuple):
    """What was compared. ``faults`` are sentences; ``expired`` counts records that the backup has
    and the cluster has compacted or deleted since."""

    files: int
    records: int
    expired: int
    faults: list[str]


async def check_files(shelf: BackupShelf, manifest: BackupManifest) -> Verified:
    """Read every file of a backup, and check its checksums. Raises OSError."""
    faults, records = [], 0
    for file in manifest.files:
        try:
            records += sum(batch.record_count for batch in await shelf.batches(file))
        except (DamagedBackup, NotStored) as error:
            faults.append(str(error))
    return Verified(len(manifest.files), records, 0, faults)


class Comparison:
    """Compares a backup with the cluster that it was made of, or one that it was restored to."""

    def __init__(self, admin: Admin, shelf: BackupShelf, topics: Sequence[str]) -> None:
        self._admin = admin
        self._shelf = shelf
        self._topics = tuple(topics)
        self._faults: list[str] = []
        self._records = self._expired = self._files = 0

    async def run(self, manifest: BackupManifest) -> Verified:
        """Compare. Raises BackupError, OSError and ClientError."""
        cluster_id = (await self._admin.describe_cluster()).cluster_id or ""
        is_source = cluster_id == manifest.cluster_id
        views = {view.name: view for view in await self._admin.list_topics()}
        for topic in manifest.topics:
            if not matches(self._topics, topic.name):
                continue
            view = views.get(topic.name)
            if view is None:
                self._faults.append(f"topic {topic.name!r} does not exist in the cluster")
                continue
            self._admin._cluster.follow([topic.name])
            for copy in topic.partitions:
                where = TopicPartition(topic.name, copy.partition)
                if copy.partition not in view.partitions:
                    self._faults.append(f"the cluster has no partition {where.partition} of it")
                    continue
                reader = RawReader(self._admin._router, where, view.topic_id)
                try:
                    await self._compare(where, copy, reader, is_source=is_source)
                except (DamagedBackup, NotStored) as error:
                    self._faults.append(str(error))
                except Gone:
                    self._faults.append(f"topic {topic.name!r} was deleted meanwhile")
        return Verified(self._files, self._records, self._expired, self._faults[:FAULTS_MAX])

    async def _compare(
        self,
        where: TopicPartition,
        copy: PartitionCopy,
        reader: RawReader,
        *,
        is_source: bool,
    ) -> None:
        start = (await offsets_of(self._admin, [where], BEGINNING))[where]
        end = (await offsets_of(self._admin, [where], END))[where]
        if is_source:
            start, end = max(start, copy.log_start), min(end, copy.end_offset)
        theirs = ComparedRecords(self._cluster_records(where, copy, reader, start, end))
        ours = ComparedRecords(self._stored_records(where, copy))
        # A source may have compacted or deleted records since; in a restored cluster the offsets of
        # records may differ, and each has to be there.
        if is_source:
            lasting = None if await self._is_compacted(where.topic) else start
            await self._by_offset(where, ours, theirs, lasting)
        else:
            await self._by_order(where, ours, theirs)

    async def _is_compacted(self, topic: str) -> bool:
        entries = await self._admin.describe_configs(ResourceType.TOPIC, topic, ["cleanup.policy"])
        return any("compact" in (entry.value or "") for entry in entries)

    async def _by_offset(
        self,
        where: TopicPartition,
        ours: ComparedRecords,
        theirs: ComparedRecords,
        lasting: int | None,
    ) -> None:
        """Compare the records of each offset. From offset ``lasting`` on the cluster must have
        them all; None if it may lack any."""
        mine, other = await ours.next(), await theirs.next()
        while True:
            if mine is not None and (other is None or mine.offset < other.offset):
                if lasting is None or mine.offset < lasting:
                    self._expired += 1
                else:
                    self._fault(where, mine.offset, "is not in the cluster")
                mine = await ours.next()
            elif other is not None and (mine is None or other.offset < mine.offset):
                self._fault(where, other.offset, "is not in the backup")
                other = await theirs.next()
            elif mine is not None:
                self._records += 1
                if mine != other:
                    self._fault(where, mine.offset, "differs")
                mine, other = await ours.next(), await theirs.next()
            else:
                return

    async def _by_order(
        self, where: TopicPartition, ours: ComparedRecords, theirs: ComparedRecords
    ) -> None:
        while True:
            mine, other = await ours.next(), await theirs.next()
            if mine is None or other is None:
                if mine is not None:
                    self._fault(where, mine.offset, "is not in the cluster")
                return
            self._records += 1
            if mine[1:] != other[1:]:
                self._fault(where, mine.offset, f"differs from the one at {other.offset}")
                return

    def _fault(self, where: TopicPartition, offset: int, what: str) -> None:
        if len(self._faults) < FAULTS_MAX:
            self._faults.append(f"{where.topic}:{where.partition}, the record at {offset} {what}")

    async def _stored_records(
        self, where: TopicPartition, copy: PartitionCopy
    ) -> AsyncIterator[list[Record]]:
        sieve = Sieve(copy.left_out)
        for file in copy.files:
            self._files += 1
            first = max(file.first_offset, copy.log_start)
            for batch in await self._shelf.batches(file):
                if sieve.keeps(batch) and batch.next_offset > first:
                    yield columns_of(where, batch, first, file.next_offset).records()

    async def _cluster_records(
        self, where: TopicPartition, copy: PartitionCopy, reader: RawReader, start: int, end: int
    ) -> AsyncIterator[list[Record]]:
        """The cluster's records; of a source only those of transactions that the backup has."""
        sieve = Sieve(copy.left_out)
        offset = start
        while offset < end:
            try:
                found = await reader.read(offset, end)
            except TooEarly:
                offset = (await offsets_of(self._admin, [where], BEGINNING))[where]
                continue
            for batch in found.batches:
                if sieve.keeps(batch):
                    yield columns_of(where, batch, offset, end).records()
            offset = found.next_offset


class ComparedRecords:
    """Records one by one, from lists of them."""

    def __init__(self, lists: AsyncIterator[list[Record]]) -> None:
        self._lists = lists
        self._records: list[Record] = []
        self._index = 0

    async def next(self) -> Record | None:
        """The next record; None at the end."""
        while self._index == len(self._records):
            try:
                self._records = await anext(self._lists)
            except StopAsyncIteration:
                return None
            self._index = 0
        self._index += 1
        return self._records[self._index - 1]
