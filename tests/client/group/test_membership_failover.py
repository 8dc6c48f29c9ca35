"""Members whose coordinator goes away, and coordinators that answer with errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ottla import Admin, ErrorCode
from tests.client.support.membered import PROTOCOLS, SETTINGS, Listener, Site, read
from tests.client.support.sites import cluster_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ottla import Cluster
    from tests.client.support.sites import Apaches

BOTH = pytest.mark.parametrize("protocol", PROTOCOLS.values(), ids=PROTOCOLS)


@pytest.fixture(scope="module")
def three(kind: str, apaches: Apaches) -> Iterator[Cluster]:
    """Three brokers; all of them hold everything."""
    with cluster_of(kind, apaches, 3, SETTINGS) as cluster:
        yield cluster


@pytest.mark.requirement("GRP-10", "GRP-15")
@BOTH
async def test_a_group_goes_on_with_another_coordinator(
    three: Cluster, protocol: dict[str, Any]
) -> None:
    """The coordinator is killed: no member rebalances, and positions stay as they were."""
    site = Site(three)
    three.create_topic(site.topic, 2)
    listener = Listener()
    await site.fill(4)
    async with site.consumer(auto_commit=False, **protocol) as consumer:
        await consumer.subscribe([site.topic], listener)
        await read(consumer, 4)
        await consumer.commit()
        async with Admin(site.address) as admin:
            coordinator = (await admin.groups.describe(site.group)).coordinator_id
        three.faults.kill(coordinator)
        try:
            await site.fill(3)
            records = await read(consumer, 3)
            await consumer.commit()
            assert await site.committed() == {0: 7, 1: 0}
        finally:
            three.faults.restart(coordinator)

    assert [record.offset for record in records] == [4, 5, 6]
    assert listener.told == [("assigned", [0, 1]), ("revoked", [0, 1])]


@pytest.mark.parametrize(
    ("api", "error"),
    [
        ("JOIN_GROUP", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        ("JOIN_GROUP", ErrorCode.NOT_COORDINATOR),
        ("SYNC_GROUP", ErrorCode.REBALANCE_IN_PROGRESS),
        ("SYNC_GROUP", ErrorCode.UNKNOWN_MEMBER_ID),
        ("HEARTBEAT", ErrorCode.ILLEGAL_GENERATION),
        ("HEARTBEAT", ErrorCode.UNKNOWN_MEMBER_ID),
        ("OFFSET_FETCH", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        ("FIND_COORDINATOR", ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ],
)
async def test_a_coordinators_error_is_got_over(three: Cluster, api: str, error: ErrorCode) -> None:
    """Each of them has left consumers of other libraries standing still (G-04, G-06)."""
    site = Site(three)
    three.create_topic(site.topic, 1)
    await site.fill(3)
    async with site.consumer() as consumer:
        three.faults.fail_request(api, error, 2)
        try:
            await consumer.subscribe([site.topic])
            records = await read(consumer, 3)
            for _ in range(6):
                records += await consumer.poll(200)
            await site.fill(1)
            while records[-1].offset < 3:
                records += await read(consumer, 1)
        finally:
            three.faults.clear()

    assert {record.offset for record in records} == {0, 1, 2, 3}
