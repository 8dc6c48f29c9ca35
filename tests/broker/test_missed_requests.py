"""A broker that lives, but did not hear what the controller did meanwhile."""

from __future__ import annotations

import errno

from ottla.broker.system.memory_disk import MemoryDisk
from ottla.broker.testing.faulty_disk import DiskFault, FaultPlan, FaultyDisk
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from ottla.protocol.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from ottla.wire.clock import RealClock
from tests.broker.support.requests import batch, create, fetched, produced
from tests.support.in_process import running_broker

FULL = 2


def leadership(controller_epoch: int, *topics: LeaderAndIsrTopicState) -> LeaderAndIsrRequest:
    """All that the broker holds, as a controller tells it after a registration."""
    return LeaderAndIsrRequest(
        controller_id=1, controller_epoch=controller_epoch, type=FULL, topic_states=list(topics)
    )


def role(controller_epoch: int, *, is_new: bool) -> LeaderAndIsrPartitionState:
    """Broker 1 leads alone."""
    return LeaderAndIsrPartitionState(
        partition_index=0,
        controller_epoch=controller_epoch,
        leader=1,
        leader_epoch=0,
        isr=[1],
        partition_epoch=0,
        replicas=[1],
        is_new=is_new,
    )


async def test_what_the_complete_list_lacks_is_not_served_any_more() -> None:
    """Its session had expired when the topic was deleted: it would stay leader and acknowledge
    records that no consumer will ever see."""
    async with running_broker() as running, running.connect() as client:
        await create(client)
        await produced(client, batch(b"x"))
        broker = running.broker
        epoch = broker.metadata.image.controller_epoch
        answer = await broker.partitions.apply_leader_and_isr(leadership(epoch))

        assert answer.error_code == ErrorCode.NONE
        assert broker.partitions.find("t", 0) is None
        assert (await fetched(client, 0)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        # Nothing is deleted: the list might be short because a znode was unreadable.
        assert [log.partition for log in broker.partitions.logs] == [("t", 0)]


async def test_a_topic_that_was_made_again_replaces_the_one_it_still_serves() -> None:
    """C-22: refused instead, the replica would be missing for as long as the process lives."""
    async with running_broker() as running, running.connect() as client:
        await create(client)
        await produced(client, batch(b"old"))
        broker = running.broker
        epoch = broker.metadata.image.controller_epoch
        state = role(epoch, is_new=True)
        again = LeaderAndIsrTopicState("t", b"another topic id", [state])
        answer = await broker.partitions.apply_leader_and_isr(leadership(epoch, again))

        errors = [one.error_code for topic in answer.topics for one in topic.partition_errors]
        assert errors == [ErrorCode.NONE]
        found = broker.partitions.find("t", 0)
        assert found is not None
        assert (found.log.topic_id, found.log.log_end_offset) == (b"another topic id", 0)


async def test_a_late_deletion_leaves_a_new_topic_of_that_name_new() -> None:
    """S-13: while a data directory is missing, only a replica that never existed may be made."""
    plan = FaultPlan()
    settings = {"log.dirs": "/d1,/d2", "log.segment.delete.delay.ms": "0"}
    disk = FaultyDisk(MemoryDisk(), plan, RealClock())
    async with running_broker(settings, disk) as running, running.connect() as client:
        for name in ("a", "b"):
            await create(client, name)
        plan.add(DiskFault(frozenset({"append"}), errno.EIO, "/d2/"))
        for name in ("a", "b"):
            await produced(client, batch(b"x"), topic=name)
        partitions = running.broker.partitions
        assert partitions.logs.offline_paths == ["/d2"]
        plan.add(DiskFault(frozenset({"make_directory"}), errno.ENOSPC, "/d1/t-0"))
        epoch = running.broker.metadata.image.controller_epoch
        answers = []
        for is_new in (True, False):
            topic = LeaderAndIsrTopicState("t", b"the new topic id", [role(epoch, is_new=is_new)])
            request = LeaderAndIsrRequest(controller_epoch=epoch, topic_states=[topic])
            answer = await partitions.apply_leader_and_isr(request)
            answers.append(answer.topics[0].partition_errors[0].error_code)
            gone = StopReplicaPartitionState(0, -2, True)
            late = StopReplicaTopicState("t", [gone], b"the old topic id")
            await partitions.apply_stop_replica(
                StopReplicaRequest(controller_epoch=epoch, topic_states=[late])
            )
            plan.clear()

        assert answers == [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NONE]
        assert partitions.find("t", 0) is not None
