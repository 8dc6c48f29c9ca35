"""A coordinator's shard over a real log: appending, waiting, ending, and stalls."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.system.memory_disk import MemoryDisk
from ottla.broker.testing.faulty_disk import DiskFault, FaultPlan, FaultyDisk
from ottla.coordinator.hashing import partition_for
from ottla.coordinator.metadata.changes import PartitionChanged, TopicGone
from ottla.coordinator.metadata.image import PartitionState
from ottla.protocol.errors import ErrorCode
from tests.broker.support.node import quiet
from tests.broker.support.shard_site import (
    COMMIT_TIMEOUT_MS,
    NODE,
    OTHER,
    Get,
    Put,
    Session,
    ShardSite,
    Wait,
)

WITH_OTHER = (NODE, OTHER)


@pytest.mark.requirement("GRP-01")
def test_a_group_lives_where_every_kafka_puts_it() -> None:
    """Java's string hash over UTF-16, and its absolute value, with one value that has none."""
    known = {
        "my-group": 12,
        "console-consumer-1": 24,
        "txn-1": 10,
        "": 0,
        "a": 47,
        "polygenelubricants": 0,
    }

    assert {group: partition_for(group, 50) for group in known} == known
    # Two UTF-16 units: 0xD83D * 31 + 0xDE00.
    assert partition_for("\N{GRINNING FACE}", 1_000_000) == (0xD83D * 31 + 0xDE00) % 1_000_000


async def test_an_append_is_in_the_log_before_its_answer() -> None:
    """A commit that is answered must be where the next coordinator finds it (G-03)."""
    site = ShardSite()
    await site.loaded()

    answers = site.ask(Put(b"k", b"v"))

    assert answers == ["stored"]
    assert site.partition.log.log_end_offset == 1
    await site.stop()


@pytest.mark.requirement("GRP-04")
async def test_an_answer_waits_for_every_replica_in_sync() -> None:
    """Otherwise a failover takes back what a consumer was told is safe (G-03)."""
    site = ShardSite()
    await site.open()
    await site.lead(isr=WITH_OTHER)
    await quiet()

    answers = [site.ask(Put(b"a", b"1")), site.ask(Put(b"b", b"2"))]
    await quiet()
    before = [list(answer) for answer in answers]
    invisible = site.ask(Get(b"a"))
    await site.lead(isr=(NODE,), partition_epoch=1)
    await quiet()

    assert before == [[], []]
    assert invisible == ["nothing"]
    assert answers == [["stored"], ["stored"]]
    assert site.ask(Get(b"a")) == [b"1"]
    assert site.waiting.count == 0
    await site.stop()


@pytest.mark.requirement("GRP-05")
async def test_who_waits_too_long_is_told_and_the_outcome_still_counts() -> None:
    """The client may try again; what it wrote may yet be committed, once and not twice."""
    site = ShardSite()
    await site.open()
    await site.lead(isr=WITH_OTHER)
    await quiet()

    first = site.ask(Put(b"a", b"1"))
    await site.clock.advance(COMMIT_TIMEOUT_MS / 2)
    second = site.ask(Put(b"b", b"2"))
    await site.clock.advance(COMMIT_TIMEOUT_MS / 2 + 20)

    assert (first, second) == (["overdue"], [])
    await site.clock.advance(COMMIT_TIMEOUT_MS / 2)
    assert (first, second) == (["overdue"], ["overdue"])
    await site.clock.advance(3 * COMMIT_TIMEOUT_MS)
    third = site.ask(Put(b"c", b"3"))
    await site.lead(isr=(NODE,), partition_epoch=1)
    await quiet()
    assert (first, second, third) == (["overdue"], ["overdue"], ["stored"])
    assert site.ask(Get(b"b")) == [b"2"]
    assert site.waiting.count == 0
    await site.stop()


async def test_too_few_replicas_refuse_before_anything_is_written() -> None:
    """acks=all with min.insync.replicas is what makes a commit safe."""
    site = ShardSite(configs={"min.insync.replicas": "2"})
    await site.loaded()

    answers = site.ask(Put(b"k", b"v"))

    assert answers == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert site.partition.log.log_end_offset == 0
    await site.stop()


async def test_what_is_too_large_for_the_topic_is_refused() -> None:
    """The machine knows what to say of it; the log must not take it (G-10)."""
    site = ShardSite(configs={"max.message.bytes": "1000"})
    await site.loaded()

    assert site.ask(Put(b"k", b"v" * 1000)) == [ErrorCode.MESSAGE_TOO_LARGE]
    assert site.ask(Put(b"k", b"v")) == ["stored"]
    await site.stop()


@pytest.mark.requirement("GRP-10")
async def test_losing_the_partition_answers_all_callers_at_once() -> None:
    """They find the next coordinator instead of waiting for this one (G-12)."""
    site = ShardSite()
    await site.open()
    await site.lead(isr=WITH_OTHER)
    await quiet()
    parked, unanswered = site.ask(Put(b"k", b"v")), site.ask(Wait())

    await site.follow(1)
    await quiet()

    assert (parked, unanswered) == ([ErrorCode.NOT_COORDINATOR], [ErrorCode.NOT_COORDINATOR])
    assert site.ask(Get(b"k")) == [ErrorCode.NOT_COORDINATOR]
    assert site.groups.shards == []
    assert site.waiting.count == 0
    await site.stop()


async def test_a_disk_that_fails_under_an_append_answers_each_caller_once() -> None:
    """The failed write itself takes the partition away, and with it the one who writes."""
    plan = FaultPlan()
    site = ShardSite(FaultyDisk(MemoryDisk(), plan))
    await site.loaded()
    unanswered = site.ask(Wait())

    plan.add(DiskFault(frozenset({"append"})))
    written = site.ask(Put(b"k", b"v"))
    await quiet()

    assert len(written) == len(unanswered) == 1
    assert site.ask(Get(b"k")) != ["v"]
    await site.stop()


async def test_an_epoch_in_which_another_may_have_led_loads_anew() -> None:
    """What was on its way under the old epoch is in the log or it is not; the log says which."""
    site = ShardSite()
    await site.loaded()
    unanswered = site.ask(Wait())

    await site.lead(leader_epoch=2)
    await quiet()

    assert unanswered == [ErrorCode.NOT_COORDINATOR]
    assert len(site.machines) == 2
    assert site.shard.leader_epoch == 2
    await site.stop()


async def test_a_follower_that_leaves_the_isr_fails_no_commit() -> None:
    """The controller raises the leader epoch and this broker stays leader: waiters keep waiting,
    and pending commits are answered when the smaller ISR has them."""
    site = ShardSite()
    await site.open()
    await site.lead()
    await quiet()
    await site.lead(isr=(NODE, OTHER), partition_epoch=1)
    waiting, stored = site.ask(Wait()), site.ask(Put(b"k", b"v"))
    await quiet()
    before = list(stored)
    await site.lead(leader_epoch=1, partition_epoch=2)
    await quiet()

    assert (before, waiting, stored) == ([], [], ["stored"])
    assert site.ask(Get(b"k")) == [b"v"]
    assert len(site.machines) == 1
    assert site.shard.leader_epoch == 1
    await site.stop()


async def test_a_shard_that_loads_when_a_follower_leaves_the_isr_loads_on() -> None:
    """A shard that stopped loading here would never serve its groups."""
    site = ShardSite()
    await site.open()
    await site.lead()
    await site.lead(leader_epoch=1)
    await quiet()

    assert site.ask(Get(b"k")) == ["nothing"]
    assert len(site.machines) == 1
    await site.stop()


async def test_the_same_role_again_disturbs_no_caller() -> None:
    """The controller repeats itself; members must not notice."""
    site = ShardSite()
    await site.loaded()
    unanswered = site.ask(Wait())

    await site.lead()
    await site.lead(partition_epoch=1)

    assert unanswered == []
    assert len(site.machines) == 1
    await site.stop()


@pytest.mark.parametrize(("epoch", "told"), [(1, ["nothing"]), (2, [ErrorCode.NOT_COORDINATOR])])
async def test_while_an_epoch_is_made_durable_the_shard_answers_if_no_other_broker_can_have_led(
    epoch: int, told: list[object]
) -> None:
    """Between the controller's word and the disk's nothing that is written is answered, and after
    an epoch that this broker did not hear of nothing at all."""
    site = ShardSite()
    await site.loaded()
    site.ask(Put(b"other", b"v"))
    seen: list[list[Any]] = []
    save = site.partition.log.save_leader_epochs

    async def save_slowly() -> None:
        seen.extend((site.ask(Get(b"k")), site.ask(Put(b"k", b"v"))))
        seen.append([*map(list, seen)])
        await save()

    site.partition.log.save_leader_epochs = save_slowly  # type: ignore[method-assign]
    await site.lead(leader_epoch=epoch)
    await quiet()

    stored = ["stored"] if epoch == 1 else told
    assert seen == [told, stored, [told, [] if epoch == 1 else told]]
    await site.stop()


async def test_deadlines_come_when_they_are_due() -> None:
    """One timer, moved only to an earlier deadline, must still find later ones."""
    site = ShardSite()
    await site.loaded()
    site.ask(Session(1_000))
    for _ in range(9):
        await site.clock.advance(100)
    site.ask(Session(1_000))
    for _ in range(9):
        await site.clock.advance(100)

    assert site.machine.expired_ms is None
    for _ in range(2):
        await site.clock.advance(100)
    assert site.machine.expired_ms == pytest.approx(1_900, abs=200)
    await site.stop()


async def test_a_stall_is_not_counted_against_members() -> None:
    """Ten seconds of a blocked loop; the heartbeats of that time are still unread (G-09)."""
    site = ShardSite()
    await site.loaded()
    site.ask(Session(6_000))

    await site.clock.advance(10_000)

    assert site.machine.expired_ms is None
    assert site.stalls.stall_count == 1
    for _ in range(40):
        await site.clock.advance(100)
    assert site.machine.expired_ms is None
    for _ in range(40):
        await site.clock.advance(100)
    assert "expired" in site.machine.calls
    await site.stop()


async def test_topics_that_come_and_go_are_told_to_every_machine() -> None:
    """The offsets of a topic go with it, also of one that was there for a moment only."""
    site = ShardSite()
    await site.loaded()

    site.metadata.take(site.other_topic())
    site.metadata.take([TopicGone("t")])

    assert site.machine.calls == ["loaded", "topics", "topics"]
    await site.stop()


async def test_leaders_that_change_are_not_told() -> None:
    """Each shard compares all topics: with fifty shards and thousands of topics every replica that
    falls behind would stop the loop for many milliseconds."""
    site = ShardSite()
    await site.loaded()
    site.metadata.take(site.other_topic())
    before = list(site.machine.calls)

    site.metadata.take([PartitionChanged("t", 0, PartitionState((NODE,), NODE, 1, (NODE,)))])

    assert site.machine.calls == before
    await site.stop()


async def test_a_stop_answers_all_callers_and_leaves_nothing_behind() -> None:
    """A broker that stops must not keep clients waiting for their timeout (N-09)."""
    site = ShardSite()
    await site.open()
    await site.lead(isr=WITH_OTHER)
    await quiet()
    site.ask(Session(60_000))
    answers = [site.ask(Put(b"k", b"v")), site.ask(Wait())]

    site.groups.close()

    assert answers == [[ErrorCode.COORDINATOR_NOT_AVAILABLE]] * 2
    assert (site.waiting.count, site.parts.wheel.count) == (0, 0)
    await site.stop()


async def test_a_coordinator_that_has_closed_takes_up_nothing_any_more() -> None:
    """The controller may still send requests while the broker stops; a shard loaded then would
    never be closed."""
    site = ShardSite()
    await site.loaded()
    site.groups.close()
    await site.lead(1)
    await quiet()

    assert site.groups.shards == []
    await site.stop()
