"""A broker that lives, but did not hear what the controller did meanwhile."""

from __future__ import annotations

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from tests.broker.support.requests import batch, create, fetched, produced
from tests.support.in_process import running_broker

FULL = 2


def leadership(controller_epoch: int, *topics: LeaderAndIsrTopicState) -> LeaderAndIsrRequest:
    """All that the broker holds, as a controller tells it after a registration."""
    return LeaderAndIsrRequest(
        controller_id=1, controller_epoch=controller_epoch, type=FULL, topic_states=list(topics)
    )


async def test_what_the_complete_list_lacks_is_not_served_any_more() -> None:
    """Its session had run out when the topic was deleted: left alone, it would go on to lead it,
    and acknowledge records that nobody will ever see."""
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
        state = LeaderAndIsrPartitionState(
            partition_index=0,
            controller_epoch=epoch,
            leader=1,
            leader_epoch=0,
            isr=[1],
            partition_epoch=0,
            replicas=[1],
            is_new=True,
        )
        again = LeaderAndIsrTopicState("t", b"another topic id", [state])
        answer = await broker.partitions.apply_leader_and_isr(leadership(epoch, again))

        errors = [one.error_code for topic in answer.topics for one in topic.partition_errors]
        assert errors == [ErrorCode.NONE]
        found = broker.partitions.find("t", 0)
        assert found is not None
        assert (found.log.topic_id, found.log.log_end_offset) == (b"another topic id", 0)
