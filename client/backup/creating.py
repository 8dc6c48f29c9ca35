"""Makes a backup: fixes its moment, copies what the last one lacks, and stores the manifest.

The order makes it safe to kill at any point: the plan is stored before the first record, files
before the plan that names them, and the manifest, which makes the backup exist, last.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ottla.client.backup.errors import BackupError
from ottla.client.backup.extras import described_parts
from ottla.client.backup.manifest import (
    UNFINISHED,
    BackupManifest,
    PartitionCopy,
    TopicCopy,
    file_name,
)
from ottla.client.backup.planning import (
    BEGINNING,
    END,
    BackupRequest,
    fix_moment,
    offsets_of,
    topic_configs,
    topic_ids,
    wanted_topics,
)
from ottla.client.backup.progress import UnfinishedBackup, begun, since, unfinished_from
from ottla.client.backup.reading import FETCH_BYTES, Gone, RawReader, TooEarly
from ottla.client.backup.transactions import TransactionTrail
from ottla.protocol.ids import ZERO_UUID, TopicPartition, uuid_from_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.client.admin import Admin
    from ottla.client.backup.shelf import BackupShelf
    from ottla.protocol.ports import Buffer, Clock

FILE_BYTES = 32 * 1024 * 1024
WORKERS = 4
SAVE_MS = 1_000.0


class BackupCreation:
    """Makes one backup. ``tell`` gets a sentence now and then."""

    def __init__(
        self,
        admin: Admin,
        shelf: BackupShelf,
        clock: Clock,
        request: BackupRequest,
        tell: Callable[[str], None],
        file_bytes: int = FILE_BYTES,
    ) -> None:
        self._admin = admin
        self._shelf = shelf
        self._clock = clock
        self._request = request
        self._tell = tell
        self._file_bytes = file_bytes
        self._saving = asyncio.Lock()
        self._saved_ms = -SAVE_MS
        self._copied_bytes = 0

    async def run(self) -> BackupManifest:
        """Make the backup, or finish one that was interrupted.

        Raises BackupError, OSError and ClientError; what is copied stays for the next run."""
        work = await self._interrupted()
        if work is None:
            work = await self._plan()
            await self._shelf.put(UNFINISHED, work.document())
        # The workers share one look-up of all topics.
        self._admin._cluster.follow(topic.name for topic in work.manifest.topics)
        gone = await self._copy_all(work)
        ids = topic_ids(await self._admin.list_topics())
        gone |= {one.name for one in work.manifest.topics if ids.get(one.name, "-") != one.topic_id}
        work.drop(gone)
        manifest = work.result()
        await self._shelf.keep(manifest)
        await self._shelf.delete(UNFINISHED)
        return manifest

    async def _interrupted(self) -> UnfinishedBackup | None:
        document = await self._shelf.document(UNFINISHED)
        if document is None:
            return None
        work = unfinished_from(document)
        numbers = await self._shelf.numbers()
        if numbers and numbers[-1] >= work.manifest.number:
            # It was finished; only this file remained.
            return None
        await self._check_cluster(work.manifest.cluster_id)
        self._tell(f"backup {work.manifest.number} was interrupted, and goes on where it stopped")
        return work

    async def _check_cluster(self, known: str) -> None:
        cluster_id = (await self._admin.describe_cluster()).cluster_id or ""
        if cluster_id != known:
            raise BackupError(
                f"this place has backups of cluster {known!r}, and this is {cluster_id!r}: choose "
                "another place"
            )

    async def _plan(self) -> UnfinishedBackup:
        admin, request = self._admin, self._request
        numbers = await self._shelf.numbers()
        last = await self._shelf.manifest(numbers[-1]) if numbers else None
        if last is not None:
            await self._check_cluster(last.cluster_id)
        views = await wanted_topics(admin, request)
        partitions = [
            TopicPartition(view.name, number)
            for view in views.values()
            for number in sorted(view.partitions)
        ]
        moment = await fix_moment(admin, partitions, request, self._clock)
        starts = await offsets_of(admin, partitions, BEGINNING)
        ids = topic_ids(views.values())
        topics = []
        for name, view in sorted(views.items()):
            known = last.topic(name) if last is not None else None
            if known is not None and known.topic_id != ids[name]:
                known = None
            old = {} if known is None else {one.partition: one for one in known.partitions}
            copies = [
                begun(
                    name,
                    number,
                    min(starts[where], moment.ends[where]),
                    moment.ends[where],
                    old.get(number),
                )
                for number in sorted(view.partitions)
                for where in [TopicPartition(name, number)]
            ]
            factor = max((len(one.replicas) for one in view.partitions.values()), default=1)
            configs = await topic_configs(admin, name)
            topics.append(TopicCopy(name, ids[name], factor, configs, tuple(copies)))
        manifest = BackupManifest(
            number=1 if last is None else last.number + 1,
            time_ms=int(self._clock.wall_ms()),
            cluster_id=(await admin.describe_cluster()).cluster_id or "",
            is_exact=moment.is_exact,
            topics=tuple(topics),
            positions=tuple(moment.positions),
            notes=moment.notes,
            **await described_parts(admin, request.parts),
        )
        return UnfinishedBackup(manifest, moment.ends, moment.cuts)

    async def _copy_all(self, work: UnfinishedBackup) -> set[str]:
        """Copy all partitions, a few at a time; returns topics that are gone."""
        waiting = sorted(work.copies, reverse=True)
        gone: set[str] = set()

        async def worker() -> None:
            while waiting:
                where = waiting.pop()
                try:
                    await self._copy(work, where)
                except Gone:
                    gone.add(where.topic)

        workers = [asyncio.ensure_future(worker()) for _ in range(WORKERS)]
        try:
            await asyncio.gather(*workers)
        finally:
            for one in workers:
                one.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
            await self._save(work)
        return gone

    async def _copy(self, work: UnfinishedBackup, where: TopicPartition) -> None:
        topic, end = work.topic(where.topic), work.ends[where]
        topic_id = uuid_from_text(topic.topic_id) if topic.topic_id else ZERO_UUID
        fetch_bytes = min(FETCH_BYTES, self._file_bytes)
        reader = RawReader(self._admin._router, where, topic_id, fetch_bytes)
        while (copy := work.copies[where]).end_offset < end:
            try:
                work.copies[where] = await self._next_file(work, where, reader)
            except TooEarly:
                work.copies[where] = await self._overtaken(copy, where, end)
            if self._clock.now_ms() - self._saved_ms >= SAVE_MS:
                await self._save(work)

    async def _next_file(
        self, work: UnfinishedBackup, where: TopicPartition, reader: RawReader
    ) -> PartitionCopy:
        copy, end = work.copies[where], work.ends[where]
        trail = TransactionTrail(copy.undecided, work.cuts.get(where, {}))
        parts: list[Buffer] = []
        offset, size_bytes = copy.end_offset, 0
        while offset < end and size_bytes < self._file_bytes:
            found = await reader.read(offset, end)
            for batch in found.batches:
                trail.take(batch)
                parts.append(batch.view)
                size_bytes += batch.size_bytes
            offset = found.next_offset
        files = copy.files
        if parts:
            topic = work.topic(where.topic)
            name = file_name(topic, where.partition, copy.end_offset, offset)
            stored = await self._shelf.store_batches(name, parts, copy.end_offset, offset)
            files = (*files, stored)
            self._copied_bytes += size_bytes
        return copy._replace(
            end_offset=offset,
            files=files,
            aborted=(*copy.aborted, *trail.aborted),
            late=(*copy.late, *trail.late),
            undecided=trail.undecided(offset),
        )

    async def _overtaken(
        self, copy: PartitionCopy, where: TopicPartition, end: int
    ) -> PartitionCopy:
        """Retention has deleted the next offset: go on at the log start."""
        start = (await offsets_of(self._admin, [where], BEGINNING))[where]
        now_end = (await offsets_of(self._admin, [where], END))[where]
        if now_end < copy.end_offset:
            raise BackupError(
                f"topic {where.topic!r} partition {where.partition} now ends at {now_end}, and "
                f"ended at {end} when the backup began: its records were lost"
            )
        return since(copy, min(start, end))

    async def _save(self, work: UnfinishedBackup) -> None:
        async with self._saving:
            self._saved_ms = self._clock.now_ms()
            await self._shelf.put(UNFINISHED, work.document())

    @property
    def copied_bytes(self) -> int:
        """How many bytes of records this run has stored."""
        return self._copied_bytes
