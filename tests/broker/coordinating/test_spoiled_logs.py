"""A replica whose log is damaged: what it may be replaced by, and when."""

from __future__ import annotations

import pytest

from ottla.broker.system.memory_disk import MemoryDisk
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from tests.broker.support.replica_site import Site, values, where
from tests.broker.support.replica_wire import TOPIC, TOPIC_ID


async def site_with_a_spoiled_log() -> Site:
    """Three replicas of ten batches; the third has rotted, and was killed and started again."""
    site = Site()
    await site.start()
    await site.lead(1)
    for value in values(10):
        assert site.nodes[1].produce(value).error_code is ErrorCode.NONE
    await site.settle()
    assert len(site.contents()) == 1
    victim = site.nodes[3]
    segment = victim.partition().log.active
    await victim.kill()
    _flip_a_bit(victim.disk, segment.path, segment.size_bytes // 3)
    await victim.start()
    assert victim.logs is not None
    assert where() in victim.logs.damaged
    return site


def _flip_a_bit(disk: object, path: str, position: int) -> None:
    assert isinstance(disk, MemoryDisk)
    file = disk.open(path)
    content = bytearray(file.pread(file.size_bytes, 0))
    content[position] ^= 1
    file.truncate(0)
    file.append([content])


async def told(
    site: Site, *, leader: int, isr: tuple[int, ...], eligible: tuple[int, ...] = ()
) -> int:
    """Returns the third broker's answer to its role."""
    state = LeaderAndIsrPartitionState(
        leader=leader,
        leader_epoch=1,
        partition_epoch=1,
        isr=list(isr),
        replicas=[1, 2, 3],
        eligible_leaders=list(eligible),
    )
    topic = LeaderAndIsrTopicState(topic_name=TOPIC, topic_id=TOPIC_ID, partition_states=[state])
    answer = await site.nodes[3].partitions.apply_leader_and_isr(
        LeaderAndIsrRequest(controller_id=1, topic_states=[topic])
    )
    return answer.topics[0].partition_errors[0].error_code


async def test_a_damaged_log_that_others_do_without_is_fetched_anew() -> None:
    """S-03: cut at the damage it would be taken for whole; left alone, a replica is missing."""
    site = await site_with_a_spoiled_log()
    await site.lead(1, 1, isr=(1, 2))
    await site.settle()

    assert site.contents() == {site.nodes[1].content()}
    assert len(site.nodes[1].content()) > 0
    assert site.nodes[3].logs is not None
    assert site.nodes[3].logs.damaged == {}
    await site.stop()


async def test_what_was_damaged_is_kept_for_the_operator() -> None:
    """Rot in one place says nothing about the rest."""
    site = await site_with_a_spoiled_log()
    await site.lead(1, 1, isr=(1, 2))

    names = await site.nodes[3].disk.scan("/data")
    assert [name for name in names if name.startswith(TOPIC) and name.endswith("-stray")]
    await site.stop()


@pytest.mark.parametrize(
    ("leader", "isr", "eligible"),
    [(1, (1, 2, 3), ()), (-1, (2,), ()), (1, (1,), (3,)), (3, (3,), ())],
    ids=["in-sync", "nobody-leads", "eligible", "leads"],
)
async def test_a_damaged_log_that_may_be_needed_stays(
    leader: int, isr: tuple[int, ...], eligible: tuple[int, ...]
) -> None:
    """R-21: it may hold the only copy of what was acknowledged; people decide then."""
    site = await site_with_a_spoiled_log()

    assert await told(site, leader=leader, isr=isr, eligible=eligible) == (
        ErrorCode.KAFKA_STORAGE_ERROR
    )
    assert site.nodes[3].logs is not None
    assert where() in site.nodes[3].logs.damaged
    await site.stop()


async def test_a_log_that_has_lost_its_topic_id_is_given_it_again() -> None:
    """A loss of power can take the file with the id. Fetched by name, in a version that does not
    tell incarnations apart, that replica and its fetcher's others would never be in sync again."""
    site = Site()
    await site.start()
    await site.lead(1)
    assert site.nodes[1].produce(b"value").error_code is ErrorCode.NONE
    await site.settle()
    late = site.nodes[3]
    path = f"{late.partition().log.directory}/partition.metadata"
    await late.kill()
    await late.disk.unlink(path)
    await late.start()
    assert late.logs is not None
    log = late.logs.get(where())
    assert log is not None
    assert log.topic_id is None
    await site.lead(1, 1, isr=(1, 2))
    await site.settle()

    assert late.partition().log.topic_id == TOPIC_ID
    assert late.disk.exists(path)
    leading = site.nodes[1].partition().replica.leading
    assert leading is not None
    assert leading.followers[3].broker_epoch == late.broker_epoch == 2
    await site.stop()
