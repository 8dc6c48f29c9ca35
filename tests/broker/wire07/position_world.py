"""One partition, its positions of 0.7 and a model of them: every record has a number.

A position is told by what is answered, or counted by a consumer from the sizes of the messages that
it has read. The model keeps which record each of them means, and what has been deleted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.engine.tasks import Tasks
from ottla.broker.log.recovery.loading import Known
from ottla.broker.system.memory_disk import MemoryDisk
from ottla.broker.wire07.ledger import PartitionLedger
from ottla.broker.wire07.walk import Goal, Walk
from ottla.coordinator.store.embedded import EmbeddedStore
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.records.batch import iterate_batches
from ottla.protocol.records.builder import BatchOptions
from ottla.protocol.records.compression import Codec
from ottla.protocol.records.record import read_records
from ottla.protocol.wire07.messages import OVERHEAD_BYTES
from tests.broker.log.log_under_test import InlineOffload
from tests.broker.support.clean_room import CleanRoom
from tests.broker.support.node import DIRECTORY, HandClock

if TYPE_CHECKING:
    from ottla.broker.wire07.positions import Anchor
    from ottla.coordinator.store.store import MetadataSession
    from tests.simulation.world.random import SimRandom

_CODECS = [Codec.NONE, Codec.GZIP, Codec.SNAPPY]


class PositionWorld:
    """``await open()`` first. ``told`` has the number of the record that each position means."""

    def __init__(self, random: SimRandom) -> None:
        self.random = random
        self.room = CleanRoom(None, cleanup_policy="delete", segment_bytes="900")
        # Offset and size in 0.7 of each record with data, in order.
        self.records: list[tuple[int, int]] = []
        self.told: dict[int, int] = {}
        # Those of which files have gone since they were told may have gone with them.
        self.firm: set[int] = set()
        self.refused = self.found = self.deleted = 0
        self._producer_id = 0

    async def open(self) -> None:
        clock = HandClock()
        store = await EmbeddedStore.open(MemoryDisk(), clock, Tasks().spawn, DIRECTORY)
        self.session: MetadataSession = await store.connect()
        await self.session.create("/ottla")
        await self.room.open()
        self.lead_anew()

    def lead_anew(self) -> None:
        """What was in the memory of the former leader is gone."""
        self.ledger = PartitionLedger(self.room.one, lambda: self.session, InlineOffload())

    # ---- what happens to the log ----

    def write(self) -> None:
        count = 1 + self.random.below(6)
        values = [bytes(self.random.below(70)) for _ in range(count)]
        if not self.random.below(4):
            self._producer_id += 1
            batch = self.room.write(
                *((None, value) for value in values),
                producer_id=self._producer_id,
                transactional=True,
            )
            self.room.mark(self._producer_id, commit=bool(self.random.below(2)))
        else:
            options = BatchOptions(codec=_CODECS[self.random.below(3)])
            batch = self.room.write(*((None, value) for value in values), options=options)
        for number, value in enumerate(values):
            self.records.append((batch.base_offset + number, OVERHEAD_BYTES + len(value)))

    async def delete_records(self) -> None:
        log = self.room.log
        room = log.log_end_offset - log.log_start_offset
        before = len(log.segments)
        await log.delete_records_before(log.log_start_offset + self.random.below(room + 1))
        self._note_files(before)

    async def retain(self) -> None:
        log = self.room.log
        before = len(log.segments)
        await log.delete_old_segments(
            lambda segments: self.random.below(len(segments)), log.log_end_offset
        )
        self._note_files(before)

    def _note_files(self, before: int) -> None:
        if len(self.room.log.segments) < before:
            self.firm.clear()

    async def restart(self) -> None:
        """The process ends; another one leads the log."""
        log = self.room.log
        await log.flush()
        self.room.disk = self.room.disk.killed()
        await self.room.open(Known(log.recovery_point, log.log_start_offset))
        self.lead_anew()

    # ---- what clients do ----

    def number_from(self, offset: int) -> int:
        """The number of the first record that is not before an offset."""
        return sum(one < offset for one, _ in self.records)

    def tell(self, position: int, number: int) -> None:
        meant = self.told.setdefault(position, number)
        assert meant == number, f"position {position} meant record {meant} and now {number}"
        self.firm.add(position)

    async def ask_bounds(self) -> None:
        """OFFSETS: the log's start, a place in it, and its end."""
        log = self.room.log
        room = log.log_end_offset - log.log_start_offset
        inside = log.log_start_offset + self.random.below(room + 1)
        for offset in (log.log_start_offset, inside, log.log_end_offset):
            self.tell(await self.ledger.position_of(offset), self.number_from(offset))

    async def consume(self) -> None:
        """FETCH at a position that was told some time, and on by what was read."""
        if not self.told:
            return
        positions = sorted(self.told)
        position = positions[self.random.below(len(positions))]
        number, log = self.told[position], self.room.log
        is_there = number == len(self.records) or (self.records[number][0] >= log.log_start_offset)
        at = await self._looked_up(position)
        if at is None:
            assert not (is_there and position in self.firm), f"position {position} was forgotten"
            self.refused += 1
            return
        assert self.number_from(at.offset) == number, f"position {position} means another record"
        assert is_there, "a deleted record was found"
        self.found += 1
        await self._read_on(at, number)

    async def _looked_up(self, position: int) -> Anchor | None:
        try:
            return await self.ledger.at_position(position)
        except KafkaError as error:
            if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
                raise
            return None

    async def _read_on(self, at: Anchor, number: int) -> None:
        found = self.room.log.read(at.offset, 400, self.room.log.log_end_offset, True)
        if found.region is None:
            return
        content = bytes(found.region.read())
        wanted = 1 + self.random.below(300)
        walk = Walk(
            lambda start, count: content[start : start + count],
            len(content),
            at,
            Goal(data_bytes=wanted),
        )
        while walk.step():
            pass
        await self.ledger.tell(walk.at)
        # The consumer adds the sizes of the whole messages that it was sent.
        position, left = at.position, len(walk.data)
        while number < len(self.records) and self.records[number][1] <= left:
            left -= self.records[number][1]
            position += self.records[number][1]
            number += 1
            self.tell(position, number)
        assert (walk.at.position, self.number_from(walk.at.offset)) == (position, number)

    def check_records(self) -> None:
        """The model knows what the log holds."""
        start, end = self.room.log.log_start_offset, self.room.log.log_end_offset
        found, offset = [], start
        while offset < end:
            read = self.room.log.read(offset, 1 << 20, end, True)
            assert read.region is not None
            for batch in iterate_batches(read.region.read()):
                if not batch.is_control:
                    found += [one.offset for one in read_records(batch) if one.offset >= start]
            offset = read.next_offset
        assert found == [offset for offset, _ in self.records if offset >= start]
