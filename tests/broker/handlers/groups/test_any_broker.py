"""What any broker of a cluster answers, and how soon, in virtual time."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import pytest

from ottla.broker.coordinating.internal_topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from ottla.broker.testing.faulty_disk import DiskFault
from ottla.coordinator.hashing import partition_for
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.broker.support.groups import GROUP
from tests.broker.support.requests import batch, create, produce
from tests.support.virtual_time import elapsed_ms, in_virtual_time, virtual_broker, virtual_cluster

if TYPE_CHECKING:
    from ottla.protocol.ports import Ports
    from tests.simulation.world.disk import SimDisk

AT_ONCE_MS = 50.0
BLOCKED_MS = 5_000.0


@pytest.mark.requirement("GRP-01", "GRP-02", "TXN-09")
@pytest.mark.parametrize("key_type", [0, 1], ids=["group", "transactional id"])
@pytest.mark.parametrize("key", [GROUP, "another", "a third one"])
def test_every_broker_names_the_same_coordinator(key: str, key_type: int) -> None:
    """Host, port and id of the leader of the key's partition, whichever broker is asked."""

    async def story(ports: Ports) -> tuple[set[tuple[int, str, int]], tuple[int, str, int]]:
        async with virtual_cluster(ports, 3) as brokers:
            found = set()
            for node_id in (1, 2, 3):
                async with brokers.connect(node_id) as client:
                    request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
                    while (one := (await client.call(4, request)).coordinators[0]).error_code:
                        assert one.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
                        await ports.clock.sleep(10)
                    found.add((one.node_id, one.host, one.port))
            topic = TRANSACTIONS_TOPIC if key_type else OFFSETS_TOPIC
            leaders = {brokers[1].metadata.leader_of(topic, index)[0] for index in range(50)}
            assert leaders == {1, 2, 3}
            (node_id, _) = brokers[1].metadata.leader_of(topic, partition_for(key, 50))
            address = brokers[node_id].address
            return found, (node_id, address.host, address.port)

    found, leader = in_virtual_time(story)

    assert found == {leader}


@pytest.mark.requirement("NET-02")
def test_a_request_that_waits_five_seconds_for_the_disk_does_not_delay_accepting() -> None:
    """Health checks and new clients get through to a broker whose disk is slow."""

    async def story(ports: Ports) -> tuple[list[float], float]:
        disk: SimDisk = ports.disk  # type: ignore[assignment]
        async with (
            virtual_broker(ports, {"num.io.threads": "1"}) as brokers,
            brokers.connect() as busy,
            AsyncExitStack() as stack,
        ):
            network = brokers[1].network
            assert network is not None
            await create(busy, flush_messages="1")
            slow = DiskFault(frozenset({"fsync"}), 0, "/t-0/", delay_ms=BLOCKED_MS)
            disk.faults.add(slow)
            request = produce(batch(b"x"), acks=1)
            started = elapsed_ms()
            busy.send(9, request)
            waits = []
            for number in range(2, 12):
                begun = elapsed_ms()
                await stack.enter_async_context(brokers.connect())
                while network.connection_count < number:
                    await ports.clock.sleep(1)
                waits.append(elapsed_ms() - begun)
            await busy.answer(9, request)
            return waits, elapsed_ms() - started

    waits, blocked_ms = in_virtual_time(story)

    assert blocked_ms >= BLOCKED_MS
    assert max(waits) < AT_ONCE_MS
