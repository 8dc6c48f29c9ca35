"""Resolves partitions that exist in two data directories, as when a failed disk comes back.

One copy is served; the others are kept under another name, since records are never deleted for
being duplicates. Copies of one topic are ranked by leader epoch, then by length; copies of two
topics with the same name are resolved once the controller sends the topic id (hazards S-13, C-22).
"""

from __future__ import annotations

import logging
from collections import defaultdict
from typing import TYPE_CHECKING

from ottla.protocol.errors import KafkaError
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ottla.broker.log.directories.directory import LogDirectory
    from ottla.broker.log.partition_log import PartitionLog
    from ottla.protocol.ids import TopicPartition, Uuid

logger = logging.getLogger("ottla.log")


class LogCopy(NamedTuple):
    """One of several logs of a partition; ``damage`` is why it cannot be served, or None."""

    directory: LogDirectory
    log: PartitionLog
    damage: str | None


class Doubles:
    """The unresolved copies, out of service; owned by the data directories."""

    def __init__(self) -> None:
        self._undecided: dict[TopicPartition, list[LogCopy]] = {}

    def __len__(self) -> int:
        return len(self._undecided)

    async def sort_out(self, directories: Iterable[LogDirectory]) -> None:
        """After all logs are loaded, leave one copy of each partition in service."""
        found: dict[TopicPartition, list[LogCopy]] = defaultdict(list)
        for directory in directories:
            for log, damage in directory.copies():
                found[log.partition].append(LogCopy(directory, log, damage))
        for partition, copies in found.items():
            if len(copies) > 1:
                for copy in copies:
                    copy.directory.take_out(partition)
                copies.sort(key=_rank, reverse=True)
                best = copies[0]
                best.directory.put_back(best.log, best.damage)
                self._undecided[partition] = copies[1:]
                if len({copy.log.topic_id for copy in copies}) == 1:
                    await self._set_aside(partition, best)

    async def choose(
        self, partition: TopicPartition, topic_id: Uuid, served: LogDirectory | None
    ) -> None:
        """Serve the copy of that topic; ``served`` is the directory of the present copy, if any."""
        undecided = self._undecided.get(partition)
        if undecided is None:
            return
        copies = list(undecided)
        if served is not None:
            current = next(one for one in served.copies() if one[0].partition == partition)
            served.take_out(partition)
            copies.insert(0, LogCopy(served, *current))
        best = max(copies, key=lambda one: (one.log.topic_id == topic_id, *_rank(one)))
        copies.remove(best)
        best.directory.put_back(best.log, best.damage)
        self._undecided[partition] = copies
        await self._set_aside(partition, best)

    async def give_up(self, partition: TopicPartition) -> None:
        """Set the copies of a deleted partition aside, so that a start does not serve them."""
        if partition in self._undecided:
            await self._set_aside(partition, None)

    async def delete(self, partition: TopicPartition, topic_id: Uuid) -> int:
        """Delete the unresolved copies of a deleted topic; returns how many there were."""
        copies = self._undecided.get(partition, [])
        gone = [copy for copy in copies if copy.log.topic_id == topic_id]
        for copy in gone:
            await copy.directory.set_copy_aside(copy.log, is_deleted=True)
            copies.remove(copy)
        if not copies:
            self._undecided.pop(partition, None)
        return len(gone)

    async def _set_aside(self, partition: TopicPartition, kept: LogCopy | None) -> None:
        for copy in self._undecided.pop(partition):
            try:
                path = await copy.directory.set_copy_aside(copy.log)
            except KafkaError as error:
                # Its directory is offline; the copy will be found again at the next start.
                logger.error("%s: %s", partition, error.message)
                continue
            logger.warning(
                "%s-%d was found in more than one data directory: %s is used, %s (leader "
                "epoch %d, end "
                "offset %d) is kept as %s",
                *partition,
                "neither" if kept is None else kept.log.directory,
                copy.log.directory,
                _newest_epoch(copy.log),
                copy.log.log_end_offset,
                path,
            )


def _newest_epoch(log: PartitionLog) -> int:
    return max((epoch for epoch, _ in log.observer.leader_epochs()), default=-1)


def _rank(copy: LogCopy) -> tuple[int, bool, int]:
    """Rank by newest leader epoch, then by length: the copy that was written to last.

    A damaged copy has an unknown length, so it is preferred to an intact one of the same epoch."""
    return _newest_epoch(copy.log), copy.damage is not None, copy.log.log_end_offset
