"""Copies one source with one set of clients, until they fail or the topics change.

Always in this order: read, send, wait for the target's acknowledgements, write the notes, commit
the positions. So a mirror that dies at any point loses nothing. Records that it had sent without
committing their positions are copied again, unless records, notes and positions are one
transaction.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ottla.client.group.rebalance_listener import RebalanceListener
from ottla.client.mirror.notebook import read_notes
from ottla.client.mirror.selection import NOTES_TOPIC
from ottla.client.mirror.translation import Jotter, Notes, note_key, note_value
from ottla.client.records.committed import Committed
from ottla.protocol.ids import TopicPartition, uuid_from_text
from ottla.protocol.named_tuples import NamedTuple
from ottla.wire.errors import ClientError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ottla.client.admin import Admin
    from ottla.client.consumer import Consumer
    from ottla.client.fetching.batches import FetchedBatch
    from ottla.client.mirror.copying import CopiedRun, Copier
    from ottla.client.mirror.settings import MirrorSettings, MirrorSource
    from ottla.client.mirror.topics import Copied
    from ottla.client.process.environment import Environment
    from ottla.client.producer import Producer

logger = logging.getLogger(__name__)

POLL_MS = 250.0


class Clients(NamedTuple):
    """The consumer of the source, the producer and admin of the target, and the copier."""

    consumer: Consumer[bytes, bytes]
    producer: Producer[bytes, bytes]
    copier: Copier
    target: Admin


class Purpose(NamedTuple):
    """What one link copies. ``cluster_id`` is the source's."""

    settings: MirrorSettings
    source: MirrorSource
    cluster_id: str
    copied: Copied


class MirrorSession(RebalanceListener):
    """One session. Owned by one link: ``begin``, then ``step`` until it returns False, then
    ``end``."""

    def __init__(
        self,
        purpose: Purpose,
        clients: Clients,
        environment: Environment,
        on_copied: Callable[[CopiedRun], None],
    ) -> None:
        self._settings, self._source, cluster_id, self._copied = purpose
        self._consumer, self._producer, self._copier, self._target = clients
        self._environment = environment
        self._on_copied = on_copied
        self._notes = Notes()
        self._jotter = Jotter(self._source.alias, cluster_id, self._notes)
        # Offsets up to which the target has everything, and those that are committed.
        self._reached: dict[TopicPartition, int] = {}
        self._stored: dict[TopicPartition, int] = {}
        # What is committed on the target, with topic ids: an offset alone may belong to a deleted
        # topic of the same name.
        self._stored_there: dict[TopicPartition, Committed] = {}
        self._next_store_ms = 0.0

    async def begin(self) -> None:
        """Assign all partitions, or join the source's group. Raises ClientError."""
        if not self._settings.exactly_once:
            await self._consumer.subscribe(list(self._copied.names), self)
            return
        # This fences other users of the transactional id and completes their transactions: the
        # positions on the target are final, and all partitions can be read without a group.
        await self._producer.init_transactions()
        await self._read_notes()
        partitions = [
            TopicPartition(topic, number)
            for topic, count in self._copied.counts.items()
            for number in range(count)
        ]
        self._consumer.assign(partitions)
        pin(self._consumer, partitions, self._copied.ids)
        # Without a position on the target, the source group's position counts, else the beginning.
        of_target = {self._on_target(where): where for where in partitions}
        group = self._settings.group_of(self._source)
        found = await self._target.groups.offsets(group, list(of_target), require_stable=True)
        for there, position in found.items():
            where = of_target[there]
            if not self._begins_anew(where, position):
                self._consumer.seek(where, position.offset)
        await self._check_stored(
            [where for there, where in of_target.items() if there not in found]
        )

    async def _check_stored(self, partitions: Sequence[TopicPartition]) -> None:
        """Begin anew where the source group's position is of a deleted topic.

        A mirror that has copied from a topic commits its position also if the topic was replaced
        meanwhile; for the source that is a position in the new topic. Raises ClientError."""
        if not partitions:
            return
        for where, position in (await self._consumer.committed(partitions=partitions)).items():
            self._begins_anew(where, position)

    def _begins_anew(self, where: TopicPartition, position: Committed) -> bool:
        """Begin at the first record if a position belongs to a deleted topic of that name. Such
        positions may outlive the topic, and the present one may have grown beyond them."""
        if position.metadata in ("", self._copied.ids[where.topic] or position.metadata):
            return False
        logger.warning(
            "%s: topic %r was deleted and created again; it is copied from its beginning",
            self._source.alias,
            where.topic,
        )
        self._consumer.seek_to_beginning(where)
        return True

    def _position(self, where: TopicPartition, offset: int) -> Committed:
        """The position to commit, with the id of the topic that was read."""
        return Committed(offset, metadata=self._copied.ids[where.topic])

    def _on_target(self, where: TopicPartition) -> TopicPartition:
        return TopicPartition(self._copied.names[where.topic], where.partition)

    async def step(self) -> bool:
        """Copy one poll's batches. Returns False, with nothing copied, if the target lacks a
        partition. Raises ClientError."""
        batches = await self._consumer.poll_batches(POLL_MS)
        if any(batch.partition >= self._copied.counts[batch.topic] for batch in batches):
            return False
        is_due = self._environment.clock.now_ms() >= self._next_store_ms
        if self._settings.exactly_once:
            await self._copy_at_once(batches, is_due=is_due)
        else:
            await self._copy(batches)
            self._has_reached()
            if is_due:
                await self._store()
        return True

    async def end(self) -> None:
        """Commit the positions. Raises ClientError."""
        if not self._settings.exactly_once:
            await self._store()
            return
        # Every transaction stores positions; what was polled last may not be copied.
        if self._jotter.due():
            async with self._producer.transaction():
                await self._write_notes()
        await self._tell_source()

    def is_at(self, ends: dict[TopicPartition, int]) -> bool:
        """Whether any partition is assigned, and all are copied up to these offsets."""
        return bool(self._reached) and all(
            self._reached.get(where, -1) >= ends.get(where, 0)
            for where in self._consumer.assignment
        )

    async def _copy(self, batches: Iterable[FetchedBatch]) -> None:
        for placed in await self._copier.copy(batches):
            self._on_copied(placed)
            for run in placed.runs:
                self._jotter.copied(placed.where, placed.target_topic, run)

    def _has_reached(self) -> None:
        """Record the consumer's positions, up to which everything is copied, or is in this
        transaction."""
        for where in self._consumer.assignment:
            position = self._consumer.position(where)
            if position is not None:
                self._reached[where] = position

    # Without transactions: positions are committed to the group on the source.

    async def _store(self) -> None:
        """Write the notes, then commit to the source. Raises ClientError."""
        self._next_store_ms = self._environment.clock.now_ms() + self._settings.commit_ms
        await self._write_notes()
        await self._commit()

    async def _commit(self) -> None:
        changed = {
            where: offset
            for where, offset in self._reached.items()
            if self._stored.get(where) != offset
        }
        if changed:
            await self._consumer.commit(
                {where: self._position(where, offset) for where, offset in changed.items()}
            )
            self._stored.update(changed)

    async def _write_notes(self) -> None:
        due = self._jotter.due()
        for delivery in [
            await self._producer.send(NOTES_TOPIC, note_value(note), note_key(note), partition=0)
            for note in due
        ]:
            await delivery
        self._jotter.written()

    # With transactions: positions are committed on the target.

    async def _copy_at_once(self, batches: Sequence[FetchedBatch], *, is_due: bool) -> None:
        """Copy in one transaction: records, notes and positions appear on the target together."""
        self._has_reached()
        positions = {
            self._on_target(where): self._position(where, offset)
            for where, offset in self._reached.items()
        }
        moved = {
            there: position
            for there, position in positions.items()
            if self._stored_there.get(there) != position
        }
        if batches or moved or (is_due and self._jotter.due()):
            async with self._producer.transaction():
                await self._copy(batches)
                if is_due:
                    await self._write_notes()
                group = self._settings.group_of(self._source)
                await self._producer.send_offsets_to_transaction(moved, group)
            self._stored_there = positions
        if is_due:
            await self._tell_source()

    async def _tell_source(self) -> None:
        """Commit to the source for monitoring only; mirrors do not resume from there."""
        self._next_store_ms = self._environment.clock.now_ms() + self._settings.commit_ms
        try:
            await self._commit()
        except ClientError as error:
            logger.info("%s does not show the mirror's progress: %s", self._source.alias, error)

    async def _read_notes(self) -> None:
        for note in await read_notes(
            self._settings.target, self._environment, self._settings.properties
        ):
            if note.source == self._source.alias:
                self._notes.take(note)

    # Callbacks of the source's group, without transactions.

    async def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        """Read the notes of members that copied these partitions before, and their positions."""
        if partitions:
            pin(self._consumer, partitions, self._copied.ids)
            await self._read_notes()
            await self._check_stored(partitions)

    async def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """Commit, so that the next member begins where the target has everything."""
        try:
            await self._store()
        except ClientError as error:
            logger.warning("%s: some records are copied again: %s", self._source.alias, error)
        self._forget(partitions)

    def on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        """Another member copies these partitions, perhaps from an earlier offset."""
        self._forget(partitions)

    def _forget(self, partitions: Sequence[TopicPartition]) -> None:
        for where in partitions:
            self._reached.pop(where, None)
            self._stored.pop(where, None)


def pin(
    consumer: Consumer[bytes, bytes], partitions: Iterable[TopicPartition], ids: Mapping[str, str]
) -> None:
    """Read no topic of that name but the one with this id: a lagging broker must not replace it by
    an older or newer one, and a position must not count for the wrong one."""
    for where in partitions:
        if topic_id := ids[where.topic]:
            consumer._positions[where].pinned_id = uuid_from_text(topic_id)
