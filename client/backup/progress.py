"""The work of an unfinished backup, and its form in a file, so that a killed one goes on. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.client.backup.errors import BackupError
from ottla.client.backup.manifest import (
    FORMAT,
    BackupManifest,
    GroupPosition,
    PartitionCopy,
    TopicCopy,
    from_document,
    to_document,
)
from ottla.protocol.ids import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping


class UnfinishedBackup:
    """One backup while it is made: what is copied, and up to where each partition goes.

    ``copies`` change while files are added; everything else is fixed from the beginning."""

    def __init__(
        self,
        manifest: BackupManifest,
        ends: Mapping[TopicPartition, int],
        cuts: Mapping[TopicPartition, Mapping[int, int]],
    ) -> None:
        self.manifest = manifest
        self.ends = ends
        self.cuts = cuts
        self.copies = {
            TopicPartition(topic.name, copy.partition): copy
            for topic in manifest.topics
            for copy in topic.partitions
        }

    def topic(self, name: str) -> TopicCopy:
        """A topic of the backup."""
        found = self.manifest.topic(name)
        assert found is not None
        return found

    def drop(self, topics: set[str]) -> None:
        """Leave out topics that were deleted meanwhile."""
        kept = tuple(one for one in self.manifest.topics if one.name not in topics)
        notes = tuple(
            f"topic {name!r} was deleted while the backup was made" for name in sorted(topics)
        )
        self.manifest = self.manifest._replace(topics=kept, notes=(*self.manifest.notes, *notes))
        self.copies = {
            where: copy for where, copy in self.copies.items() if where.topic not in topics
        }

    def result(self) -> BackupManifest:
        """The manifest with what is copied now."""
        topics = tuple(
            topic._replace(
                partitions=tuple(
                    self.copies[TopicPartition(topic.name, copy.partition)]
                    for copy in topic.partitions
                )
            )
            for topic in self.manifest.topics
        )
        positions = [
            bounded
            for one in self.manifest.positions
            if (bounded := self._bounded(one)) is not None
        ]
        return self.manifest._replace(topics=topics, positions=tuple(positions))

    def _bounded(self, position: GroupPosition) -> GroupPosition | None:
        """The position, not beyond the copied end; None for a partition that is not copied."""
        copy = self.copies.get(TopicPartition(position.topic, position.partition))
        if copy is None:
            return None
        end = self.ends[TopicPartition(position.topic, position.partition)]
        return position._replace(offset=min(position.offset, end))

    def document(self) -> dict[str, Any]:
        """Everything as plain values."""
        return {
            "format": FORMAT,
            "manifest": to_document(self.result()),
            "ends": [[*where, end] for where, end in self.ends.items()],
            "cuts": [
                [*where, [list(item) for item in cuts.items()]] for where, cuts in self.cuts.items()
            ],
        }


def unfinished_from(document: dict[str, Any]) -> UnfinishedBackup:
    """The backup in a file. Raises DamagedBackup."""
    ends = {TopicPartition(topic, number): end for topic, number, end in document["ends"]}
    cuts = {
        TopicPartition(topic, number): {producer: offset for producer, offset in items}
        for topic, number, items in document["cuts"]
    }
    return UnfinishedBackup(from_document(document["manifest"]), ends, cuts)


def begun(
    topic: str, partition: int, log_start: int, end: int, before: PartitionCopy | None
) -> PartitionCopy:
    """What a new backup of a partition has already: the files of the backup ``before`` it, as far
    as the cluster still has their records. Raises BackupError."""
    if before is None:
        return PartitionCopy(partition, log_start, log_start)
    if before.end_offset > end:
        raise BackupError(
            f"topic {topic!r} partition {partition} ends at {end}, before the end of the last "
            f"backup ({before.end_offset}): records were lost there. Restore that backup, or begin "
            "a new one in another place"
        )
    return since(before._replace(late=()), log_start)


def since(copy: PartitionCopy, log_start: int) -> PartitionCopy:
    """The copy without what lies before the log start, which retention has deleted."""
    log_start = max(log_start, copy.log_start)
    return copy._replace(
        log_start=log_start,
        end_offset=max(copy.end_offset, log_start),
        files=tuple(one for one in copy.files if one.next_offset > log_start),
        aborted=tuple(one for one in copy.aborted if one.end_offset > log_start),
    )
