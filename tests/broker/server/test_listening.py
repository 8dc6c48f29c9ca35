"""Several listeners: each client is told the addresses of the one it came through."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import select
import socket
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from ottla.broker.quotas.connections import BROKERS_MAX, UNLIMITED
from ottla.broker.security.listener_tls import BrokerTls
from ottla.broker.server.in_process import BrokersInProcess
from ottla.broker.server.listening import connection_limits, listener_specs
from ottla.broker.system.memory_disk import MemoryDisk
from ottla.broker.system.real_disk import RealOffload, RealProcess
from ottla.coordinator.configs.broker_configs import parse_broker_config
from ottla.coordinator.metadata.changes import BrokerChanged, PartitionChanged
from ottla.coordinator.metadata.image import BrokerRegistration, Endpoint, PartitionState
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.controlled_shutdown import ControlledShutdownRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.stop_replica import StopReplicaRequest
from ottla.protocol.messages.update_metadata import UpdateMetadataRequest
from ottla.protocol.ports import Ports
from ottla.wire.clock import RealClock
from ottla.wire.real import RealNet, RealRandom
from tests.broker.support.requests import batch, create, produce
from tests.support.in_process import running_broker
from tests.support.raw_client import RawClient
from tests.support.sasl_broker import sasl_settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ottla.broker.network.settings import ListenerSpec
    from ottla.broker.server.broker import Broker
    from ottla.protocol.ports import Address

TWO = {
    "listeners": "INSIDE://127.0.0.1:0,OUTSIDE://127.0.0.2:0",
    "advertised.listeners": "INSIDE://127.0.0.1:0,OUTSIDE://broker.example:19092",
    "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
    "inter.broker.listener.name": "INSIDE",
}


async def test_metadata_tells_the_addresses_of_the_listener_in_use() -> None:
    """A client outside cannot reach the inner address, and the other way round (KIP-103)."""
    async with running_broker(TWO) as running:
        told = {}
        for name, address in running.broker.addresses.items():
            async with RawClient(address.host, address.port) as client:
                (node,) = (await client.call(9, MetadataRequest(topics=[]))).brokers
                told[name] = (node.host, node.port)

        assert told == {
            "INSIDE": ("127.0.0.1", running.broker.addresses["INSIDE"].port),
            "OUTSIDE": ("broker.example", 19092),
        }


async def test_it_is_told_how_each_listener_is_protected(caplog: pytest.LogCaptureFixture) -> None:
    """In the log, in the audit log and as a figure for alarms; also of a trusted network."""
    caplog.set_level(logging.INFO)
    disk = MemoryDisk()
    settings = sasl_settings("PLAIN", "SCRAM-SHA-256", ottla_audit_log="/audit.log")
    settings["listeners"] = "SASL_PLAINTEXT://0.0.0.0:0,BROKERS://127.0.0.1:0"
    settings["advertised.listeners"] = "SASL_PLAINTEXT://broker.example:9092"
    settings["ottla.allow.insecure.listeners"] = "SASL_PLAINTEXT"
    async with running_broker(settings, disk=disk) as running:
        ports = {name: address.port for name, address in running.broker.addresses.items()}
        page = running.broker.pages.page("/metrics")
        assert page is not None
        assert "ottla_insecure_listeners 1\n" in "".join(page.lines)
    told = [one.getMessage() for one in caplog.records if "the listener" in one.getMessage()]
    assert told == [
        f"the listener SASL_PLAINTEXT at 0.0.0.0:{ports['SASL_PLAINTEXT']} speaks SASL_PLAINTEXT "
        "(PLAIN, SCRAM-SHA-256) and is open to other machines",
        f"the listener BROKERS at 127.0.0.1:{ports['BROKERS']} speaks PLAINTEXT",
    ]
    file = disk.open("/audit.log")
    (line,) = [json.loads(text) for text in file.pread(file.size_bytes, 0).splitlines()]
    assert (line["event"], line["insecure_listeners"]) == ("start", "SASL_PLAINTEXT")


@pytest.mark.parametrize(
    ("version", "request_"),
    [
        (6, LeaderAndIsrRequest(controller_epoch=9)),
        (4, StopReplicaRequest(controller_epoch=9)),
        (8, UpdateMetadataRequest(controller_epoch=9)),
        (3, ControlledShutdownRequest(broker_id=1)),
    ],
)
async def test_the_controller_speaks_on_the_listener_of_brokers_alone(
    version: int, request_: Any
) -> None:
    """A client on the outer listener must not be able to take partitions away or delete them."""
    async with running_broker(TWO) as running:
        address = running.broker.addresses["OUTSIDE"]
        async with RawClient(address.host, address.port) as client:
            answer = await client.call(version, request_)

        assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert running.broker.metadata.image.controller_epoch < 9


LOOPBACK = {
    **TWO,
    "listeners": "INSIDE://127.0.0.1:0,OUTSIDE://127.0.0.1:0",
    "advertised.listeners": "INSIDE://127.0.0.1:0,OUTSIDE://localhost:0",
    "min.insync.replicas": "1",
}


async def _ask(address: Address, version: int, request: Any) -> Any:
    async with RawClient(address.host, address.port) as client:
        return await client.call(version, request)


@asynccontextmanager
async def _cluster(count: int) -> AsyncIterator[dict[int, Broker]]:
    ports = Ports(RealClock(), RealRandom(), RealNet(), MemoryDisk(), RealOffload(), RealProcess())
    cluster = BrokersInProcess(ports, {**LOOPBACK, "log.dirs": "/data"}, count)
    await cluster.start()
    try:
        yield {broker.node_id: broker for broker in cluster.brokers}
    finally:
        await cluster.stop()


async def test_every_broker_is_told_by_the_listener_that_was_asked() -> None:
    """Also the other brokers: their addresses came with the registration, one per listener."""
    async with _cluster(3) as brokers:
        for listener, host in (("INSIDE", "127.0.0.1"), ("OUTSIDE", "localhost")):
            expected = {
                node_id: (host, broker.addresses[listener].port)
                for node_id, broker in brokers.items()
            }
            for broker in brokers.values():
                answer = await _ask(broker.addresses[listener], 9, MetadataRequest(topics=[]))
                told = {node.node_id: (node.host, node.port) for node in answer.brokers}
                assert told == expected


async def test_coordinators_and_new_leaders_are_told_by_listener_too() -> None:
    """One address of the wrong side is enough to strand a client in the middle of its work."""
    async with _cluster(2) as brokers:
        first = brokers[1]
        async with asyncio.timeout(60):
            for listener, host in (("INSIDE", "127.0.0.1"), ("OUTSIDE", "localhost")):
                request = FindCoordinatorRequest(key_type=0, coordinator_keys=["group"])
                found = None
                while found is None or found.error_code != ErrorCode.NONE:
                    answer = await _ask(first.addresses[listener], 4, request)
                    found = answer.coordinators[0]
                    await asyncio.sleep(0.01)
                port = brokers[found.node_id].addresses[listener].port
                assert (found.host, found.port) == (host, port)
        address = first.addresses["OUTSIDE"]
        async with RawClient(address.host, address.port) as client:
            await create(client, partitions=2)
            leader = first.metadata.leader_of("t", 0)[0]
            other = brokers[3 - leader]
        address = other.addresses["OUTSIDE"]
        async with asyncio.timeout(60):
            while other.metadata.leader_of("t", 0)[0] != leader:
                await asyncio.sleep(0.01)
            (node,) = await _refused(address)
        assert (node.node_id, node.host) == (leader, "localhost")
        assert node.port == brokers[leader].addresses["OUTSIDE"].port


async def _refused(address: Address) -> list[Any]:
    """Who is named instead by a broker that does not lead (KIP-951)."""
    async with RawClient(address.host, address.port) as client:
        answer = await client.call(10, produce(batch(b"x")))
    code = answer.responses[0].partition_responses[0].error_code
    assert code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    named: list[Any] = answer.node_endpoints
    return named


@pytest.mark.parametrize(
    ("version", "lives", "error"),
    [
        (6, True, ErrorCode.LISTENER_NOT_FOUND),
        (9, True, ErrorCode.LISTENER_NOT_FOUND),
        (5, True, ErrorCode.LEADER_NOT_AVAILABLE),
        (9, False, ErrorCode.LEADER_NOT_AVAILABLE),
    ],
)
async def test_a_leader_without_the_listener_is_told_from_one_that_is_dead(
    version: int, lives: bool, error: ErrorCode
) -> None:
    """The first is a mistake in the settings and stays, the second passes."""
    async with running_broker() as running, running.connect() as client:
        await create(client)
        other = BrokerRegistration(7, (Endpoint("ELSEWHERE", "host", 1, "PLAINTEXT"),))
        metadata = running.broker.metadata
        if lives:
            metadata.take([BrokerChanged(other)])
        metadata.take([PartitionChanged("t", 1, PartitionState((7,), leader=7, isr=(7,)))])

        request = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
        answer = await client.call(version, request)

    parts = {part.partition_index: part for part in answer.topics[0].partitions}
    assert (parts[0].error_code, parts[1].error_code) == (ErrorCode.NONE, error)
    assert parts[1].leader_id == -1
    assert [node.node_id for node in answer.brokers] == [1]


async def test_hundreds_of_clients_that_connect_at_once_find_room() -> None:
    """The kernel drops a connection that finds no room among those that wait; its client repeats it
    after 1, 3, 7 ... seconds."""
    count = 500
    with contextlib.ExitStack() as clients:
        async with running_broker() as broker:
            address = broker.broker.address
            poller = select.poll()
            # The loop stands still meanwhile: the broker accepts none of them.
            for _ in range(count):
                client = clients.enter_context(socket.socket())
                client.setblocking(False)
                client.connect_ex((address.host, address.port))
                poller.register(client, select.POLLOUT)
            assert len(poller.poll(0)) == count

            async with broker.connect() as last:
                assert (await last.call(9, MetadataRequest(topics=[]))).brokers


def _specs(settings: dict[str, str]) -> list[ListenerSpec]:
    config = parse_broker_config(settings).config
    return listener_specs(config, BrokerTls(config, lambda: config.sources, RealClock()), None)


def test_the_listener_of_brokers_is_exempt_from_limits_where_it_is_their_own() -> None:
    """Clients that use up max.connections must not break the cluster apart (N-07)."""
    both, single = _specs(TWO), _specs({})

    assert {spec.name: spec.is_exempt for spec in both} == {"INSIDE": True, "OUTSIDE": False}
    assert [spec.is_exempt for spec in single] == [False]


def test_the_listener_of_brokers_has_a_wide_limit_unless_one_is_set() -> None:
    """A stranger who reaches it must not use up the files of the broker."""

    def limit(settings: dict[str, str], listener: str) -> int:
        config = parse_broker_config(settings).config
        return connection_limits(config, config.sources).of_listener(listener)

    assert limit(TWO, "INSIDE") == BROKERS_MAX
    assert limit(TWO, "OUTSIDE") == UNLIMITED
    assert limit({**TWO, "listener.name.inside.max.connections": "7"}, "INSIDE") == 7
    assert limit({}, "PLAINTEXT") == UNLIMITED


@pytest.mark.requirement("NET-01")
async def test_roles_are_named_in_diagnostics() -> None:
    """One acceptor, as many processors and handlers as were configured, each by its name."""
    settings = {"num.network.threads": "3", "num.io.threads": "8"}
    async with running_broker(settings) as running, running.connect() as client:
        await client.call(9, MetadataRequest(topics=[]))
        assert running.broker.network is not None
        shown = running.broker.network.diagnostics()

    assert [processor.name for processor in shown.processors] == [
        "processor-0",
        "processor-1",
        "processor-2",
    ]
    assert [handler.name for handler in shown.handlers] == [f"handler-{n}" for n in range(8)]
    assert shown.acceptor is not None
