"""A shard comes out of its log, and goes back to it when its memory is in doubt."""

from __future__ import annotations

import errno

import pytest

from ottla.broker.coordinating.groups import GroupCoordinator
from ottla.broker.coordinating.shards import ShardState
from ottla.broker.system.memory_disk import MemoryDisk
from ottla.broker.testing.faulty_disk import DiskFault, FaultPlan, FaultyDisk
from ottla.coordinator.effects import LogRecord, Writer
from ottla.protocol.errors import ErrorCode
from ottla.protocol.records.batch import parse_batch
from ottla.protocol.records.control import ControlType, TransactionMarker, encode_marker
from tests.broker.support.node import quiet
from tests.broker.support.shard_site import (
    NODE,
    OTHER,
    POISON,
    Fail,
    Get,
    Put,
    ShardSite,
    Wait,
)
from tests.support.transactions import admit

WITH_OTHER = (NODE, OTHER)


async def test_a_restart_reads_what_was_appended() -> None:
    """The log is the only memory that lasts, transactions and tombstones included."""
    disk = MemoryDisk()
    site = ShardSite(disk)
    await site.loaded()
    site.ask(Put(b"k", b"1"))
    site.ask(Put(b"k", b"2"))
    admit(site.partition, 7)
    site.ask(Put(b"t", b"3", Writer(7, 0)))
    await site.stop()

    again = ShardSite(disk)
    await again.open()
    await again.lead(leader_epoch=2)
    await quiet()

    assert again.machine.replayed[1] == (LogRecord(b"k", b"2"), Writer())
    assert again.machine.replayed[2] == (LogRecord(b"t", b"3"), Writer(7, 0))
    assert again.machine.calls == ["loaded"]
    assert again.ask(Get(b"k")) == [b"2"]
    await again.stop()


async def test_markers_are_replayed_with_their_outcome() -> None:
    """Offsets of a transaction count when its marker says so (GRP-16)."""
    disk = MemoryDisk()
    site = ShardSite(disk)
    await site.loaded()
    admit(site.partition, 7, 1)
    site.ask(Put(b"t", b"3", Writer(7, 1)))
    marker = encode_marker(TransactionMarker(7, 1, ControlType.ABORT, 0), 1, 1, 0)
    site.partition.log.append((parse_batch(bytearray(marker)),), 0)
    await site.stop()

    again = ShardSite(disk)
    await again.open()
    await again.lead(leader_epoch=2)
    await quiet()

    assert again.machine.markers == [(7, 1, False)]
    await again.stop()


@pytest.mark.requirement("GRP-09")
async def test_while_it_loads_no_caller_is_told_that_there_is_nothing() -> None:
    """-1 from a half read cache would reset every consumer (G-04)."""
    site = ShardSite()
    await site.open()
    await site.lead()

    before = site.ask(Get(b"k"))
    await quiet()

    assert before == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    assert site.ask(Get(b"k")) == ["nothing"]
    await site.stop()


async def test_loading_leaves_the_loop_to_others() -> None:
    """A million offsets must not stop every connection for their time."""
    disk = MemoryDisk()
    site = ShardSite(disk)
    await site.loaded()
    for _ in range(30):
        site.ask(Put(b"k", b"v", times=100))
    await site.stop()
    again = ShardSite(disk)
    await again.open()
    await again.lead(leader_epoch=2)
    await quiet()

    # The clock stands: a loader that never paused would be through.
    first = len(again.machine.replayed)
    assert 0 < first < 3000
    assert again.state is ShardState.LOADING
    for _ in range(5):
        await again.clock.advance(1)
    assert len(again.machine.replayed) == 3000
    assert again.groups.is_loading is False
    await again.stop()


async def test_uncommitted_records_of_the_last_leader_are_not_shown() -> None:
    """They may vanish with this broker: loading ends when they are committed (G-03)."""
    site = ShardSite()
    await site.open()
    await site.lead(isr=WITH_OTHER)
    await quiet()
    site.ask(Put(b"k", b"v"))

    await site.lead(leader_epoch=2, isr=WITH_OTHER)
    await quiet()
    before = site.ask(Get(b"k"))
    await site.lead(leader_epoch=2, isr=(NODE,), partition_epoch=1)
    await quiet()

    assert before == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    assert site.ask(Get(b"k")) == [b"v"]
    await site.stop()


async def test_two_loads_in_a_row_leave_one_machine() -> None:
    """A load that is overtaken by a role change must stop where it is."""
    site = ShardSite()
    await site.open()
    await site.lead()
    await site.lead(leader_epoch=2)
    await quiet()

    assert site.machines[0].calls == []
    assert site.machines[1].calls == ["loaded"]
    assert site.ask(Put(b"k", b"v")) == ["stored"]
    await site.stop()


async def test_a_damaged_partition_says_so_and_answers_no_guess() -> None:
    """Half of the offsets would send consumers back to the start."""
    disk = MemoryDisk()
    site = ShardSite(disk)
    await site.loaded()
    for _ in range(3):
        site.ask(Put(b"k", b"v" * 100))
    file = site.partition.log.active.file
    data = bytearray(file.pread(file.size_bytes, 0))
    data[100] ^= 1
    file.truncate(0)
    file.append([data])

    await site.lead(leader_epoch=2)
    await quiet()

    assert site.shard.state is ShardState.DAMAGED
    assert site.ask(Get(b"k")) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    await site.stop()


@pytest.mark.parametrize("after", range(4))
async def test_a_disk_that_fails_while_a_partition_is_loaded_takes_that_partition_away(
    after: int,
) -> None:
    """Wherever it fails. A task that dies of it would stop the broker, and its other disks too."""
    plan = FaultPlan()
    site = ShardSite(FaultyDisk(MemoryDisk(), plan))
    await site.loaded()
    for _ in range(3):
        site.ask(Put(b"k", b"v"))
    plan.add(DiskFault(frozenset({"pread"}), path_part=".log", after=after))

    await site.lead(leader_epoch=2)
    await quiet()

    assert site.tasks.crash_count == 0
    if plan.hits:
        assert site.ask(Get(b"k")) == [ErrorCode.NOT_COORDINATOR]
    else:
        assert site.ask(Get(b"k")) == [b"v"]
    await site.stop()


async def test_what_cannot_be_read_for_a_moment_is_read_again() -> None:
    """A shard that gave up would leave its groups unavailable until another broker leads."""
    plan = FaultPlan()
    site = ShardSite(FaultyDisk(MemoryDisk(), plan))
    await site.loaded()
    site.ask(Put(b"k", b"v"))
    plan.add(DiskFault(frozenset({"pread"}), errno.EMFILE, ".log", times=1))

    await site.lead(leader_epoch=2)
    await quiet()
    assert plan.hits == 1
    assert site.ask(Get(b"k")) == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    await site.clock.advance(1_010)
    await quiet()

    assert site.ask(Get(b"k")) == [b"v"]
    await site.stop()


async def test_a_machine_that_must_reload_is_read_from_the_log() -> None:
    """Its memory ran ahead of an append that failed; there is no undoing."""
    site = ShardSite(configs={"max.message.bytes": "1000"})
    await site.loaded()
    site.ask(Put(b"k", b"v"))
    site.machine.reloads_on_failure = True
    unanswered = site.ask(Wait())

    failed = site.ask(Put(b"k", b"v" * 1000))
    await quiet()

    assert failed == [ErrorCode.MESSAGE_TOO_LARGE]
    assert unanswered == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    assert len(site.machines) == 2
    assert site.ask(Get(b"k")) == [b"v"]
    await site.stop()


async def test_after_a_bug_in_a_decision_the_log_is_read_again() -> None:
    """The decision may be half done; the next request must not build on that state."""
    site = ShardSite()
    await site.loaded()
    site.ask(Put(b"k", b"v"))

    with pytest.raises(AssertionError, match="a bug"):
        site.ask(Fail())
    await quiet()
    assert site.ask(Get(b"k")) == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    await site.clock.advance(1_010)

    assert len(site.machines) == 2
    assert site.ask(Get(b"k")) == [b"v"]
    await site.stop()


async def test_nothing_is_loaded_before_the_broker_serves() -> None:
    """A million offsets take seconds, which a start must not wait for."""
    site = ShardSite()
    groups = GroupCoordinator(site.metadata, site.make_machine, site.parts)
    site.partitions.on_role = groups.on_role
    await site.open()
    await site.lead()
    await quiet()
    made_before = len(site.machines)

    groups.start(site.partitions)
    await quiet()

    assert made_before == 0
    assert groups.find("g")[1] is ErrorCode.NONE
    groups.close()
    await site.stop()


async def test_a_machine_knows_what_its_log_takes_also_after_it_was_loaded_again() -> None:
    """The topic's own limit counts, not the broker's; refused records are retried (G-10)."""
    site = ShardSite(configs={"max.message.bytes": "1000"})
    await site.loaded()
    site.machine.reloads_on_failure = True
    site.ask(Put(b"k", b"v" * 1000))
    await quiet()

    assert len(site.machines) == 2
    assert [machine.limit() for machine in site.machines if machine.limit] == [1000, 1000]
    await site.stop()


async def test_a_bug_while_one_partition_is_loaded_does_not_stop_the_broker() -> None:
    """Its groups are away, but a task that dies takes all other groups and all topics along."""
    site = ShardSite()
    await site.loaded()
    site.ask(Put(b"k", b"v"))
    site.ask(Put(POISON, b"v"))

    await site.lead(leader_epoch=2)
    await quiet()

    assert site.tasks.crash_count == 0
    assert site.shard.state is ShardState.FAILED
    assert site.ask(Get(b"k")) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    await site.stop()


async def test_a_partition_that_could_not_be_loaded_is_tried_again_ever_more_rarely() -> None:
    """What was wrong may have been of the moment; what is not must not keep the broker busy."""
    site = ShardSite()
    await site.loaded()
    site.ask(Put(POISON, b"v"))
    await site.lead(leader_epoch=2)
    await quiet()

    tries = len(site.machines)
    for _ in range(300):
        await site.clock.advance(1_000)
        await quiet()
    # After 1, 3, 7, 15, 31, 63, 123, 183, 243 seconds, and a machine that waits for the next.
    assert len(site.machines) - tries == 9

    await site.partition.log.delete_records_before(site.partition.log.log_end_offset)
    await site.clock.advance(61_000)
    await quiet()
    assert site.ask(Put(b"k", b"v")) == ["stored"]
    await site.stop()
