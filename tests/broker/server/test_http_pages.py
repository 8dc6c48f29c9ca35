"""What a broker shows of itself over HTTP, and when it says that it is well and ready."""

from __future__ import annotations

import asyncio
import errno
import socket
from typing import TYPE_CHECKING

import pytest

from ottla.broker.server.broker import CannotStart
from ottla.broker.server.run_state import illness, obstacle
from ottla.coordinator.metadata.changes import ControllerChanged, PartitionChanged
from ottla.coordinator.metadata.image import PartitionState
from ottla.protocol.ports import Address, SocketOptions
from tests.broker.support.groups import QUICK, Member, commit, coordinated
from tests.broker.support.requests import batch, create, fetched, produced
from tests.broker.support.transactional import Producer, coordinator_of
from tests.simulation.subject import build_broker
from tests.simulation.world.node import serve
from tests.simulation.world.world import World
from tests.support.in_process import running_broker
from tests.support.pages import Figures, figure, page, parse_figures

if TYPE_CHECKING:
    from ottla.protocol.ports import Ports, Socket
    from tests.support.in_process import RunningBroker

SHOWN = {"ottla.metrics.listener": "127.0.0.1:0", **QUICK}


async def _figures(running: RunningBroker) -> Figures:
    found = await page(running.broker.pages.address, "/metrics")
    assert found.status == 200
    return parse_figures(found.text)


async def _said(running: RunningBroker, path: str) -> tuple[int, str]:
    return await page(running.broker.pages.address, path)


async def test_nothing_is_shown_unless_it_is_asked_for() -> None:
    """Operators do not guard a port that they do not know of."""
    async with running_broker() as running:
        assert running.broker.pages.address is None


async def test_an_exporters_dashboard_finds_its_topics() -> None:
    """The names and labels are kafka_exporter's; boards that exist must work."""
    async with running_broker(SHOWN) as running, running.connect() as client:
        await create(client, partitions=2)
        await produced(client, batch(b"a", b"b", b"c"))
        found = await _figures(running)

    assert figure(found, "kafka_brokers") == 1
    assert figure(found, "kafka_topic_partitions", topic="t") == 2
    place = {"topic": "t", "partition": "0"}
    expected = {
        "current_offset": 3,
        "oldest_offset": 0,
        "leader": 1,
        "leader_is_preferred": 1,
        "replicas": 1,
        "in_sync_replica": 1,
        "under_replicated_partition": 0,
    }
    for name, value in expected.items():
        assert figure(found, f"kafka_topic_partition_{name}", **place) == value, name


async def test_a_jmx_exporters_dashboard_finds_the_broker() -> None:
    """Rates of records, bytes and requests are what an operator looks at first."""
    async with running_broker(SHOWN) as running, running.connect() as client:
        await create(client)
        records = batch(b"a", b"b")
        for _ in range(3):
            await produced(client, records)
        answer = await fetched(client, 0)
        found = await _figures(running)

    topic = "kafka_server_brokertopicmetrics_"
    assert figure(found, f"{topic}messagesin_total", topic="t") == 6
    assert figure(found, f"{topic}bytesin_total", topic="t") == 3 * len(records)
    assert figure(found, f"{topic}bytesout_total", topic="t") == len(answer.records)
    requests = "kafka_network_requestmetrics_requests_total"
    assert figure(found, requests, request="Produce", version="9") == 3
    assert figure(found, requests, request="Fetch", version="12") == 1
    times = "kafka_network_requestmetrics_totaltimems_count"
    assert figure(found, times, request="Produce") == 1
    assert figure(found, times, request="CreateTopics") == 1
    manager = "kafka_server_replicamanager_"
    assert figure(found, f"{manager}partitioncount") == 1
    assert figure(found, f"{manager}leadercount") == 1
    assert figure(found, f"{manager}underreplicatedpartitions") == 0
    assert figure(found, "kafka_controller_kafkacontroller_activecontrollercount") == 1
    assert figure(found, "kafka_controller_kafkacontroller_globalpartitioncount") == 1
    assert figure(found, "kafka_log_log_size", topic="t", partition="0") == 3 * len(records)
    assert figure(found, "kafka_log_log_logendoffset", topic="t", partition="0") == 6
    assert figure(found, "process_resident_memory_bytes") > 1_000_000
    assert figure(found, "process_open_fds") > 3
    assert figure(found, "kafka_server_kafkaserver_brokerstate") == 3
    sockets = "kafka_server_socket_server_metrics_connection_count"
    assert sum(value for (name, _labels), value in found.items() if name == sockets) == 1


async def test_the_lag_of_a_group_is_told_by_its_coordinator() -> None:
    """The figure that most alerts hang on, with no exporter beside the broker."""
    async with running_broker(SHOWN) as running, running.connect() as client:
        await create(client, "t1")
        await produced(client, batch(*[b"x"] * 10), topic="t1")
        await coordinated(client)
        member = Member(client)
        await member.enter()
        await commit(client, {("t1", 0): 4}, member=member)
        found = await _figures(running)

    place = {"consumergroup": "my-group", "topic": "t1", "partition": "0"}
    assert figure(found, "kafka_consumergroup_current_offset", **place) == 4
    assert figure(found, "kafka_consumergroup_lag", **place) == 6
    assert figure(found, "kafka_consumergroup_members", consumergroup="my-group") == 1
    of_topic = {"consumergroup": "my-group", "topic": "t1"}
    assert figure(found, "kafka_consumergroup_lag_sum", **of_topic) == 6
    assert figure(found, "kafka_consumergroup_current_offset_sum", **of_topic) == 4


async def test_transactions_are_told_by_state_and_by_what_they_wait_for() -> None:
    """A decided transaction whose markers stay away holds readers back, and shows here (T-25)."""
    async with running_broker(SHOWN) as running, running.connect() as client:
        await create(client)
        await coordinator_of(client)
        await Producer(client, "idle").init()
        producer = await Producer(client).init()
        await producer.produce(b"x")
        running.broker.parts.coordinators.transactions.effects.markers.close()
        before = await _figures(running)
        await producer.end(committed=True)
        after = await _figures(running)

    assert figure(before, "ottla_transactional_ids", state="Ongoing") == 1
    assert figure(before, "ottla_transaction_markers_pending") == 0
    assert figure(after, "ottla_transactional_ids", state="Empty") == 1
    assert figure(after, "ottla_transactional_ids", state="PrepareCommit") == 1
    assert figure(after, "ottla_transactional_ids", state="Ongoing") == 0
    assert figure(after, "ottla_transactions_awaiting_markers") == 1
    assert figure(after, "ottla_transaction_markers_pending") == 1


async def test_a_running_broker_is_well_and_ready() -> None:
    """The probes of a container call these pages."""
    async with running_broker(SHOWN) as running:
        assert await _said(running, "/healthz") == (200, "ok\n")
        assert await _said(running, "/readyz") == (200, "ok\n")
        assert (await _said(running, "/other"))[0] == 404


async def test_a_broker_that_starts_or_stops_is_well_and_not_ready() -> None:
    """A probe must not restart it for a recovery that takes long, nor send clients to it."""
    async with running_broker(SHOWN) as running:
        broker = running.broker
        lifecycle, broker.state.lifecycle = broker.state.lifecycle, None
        assert await _said(running, "/readyz") == (503, "the broker is starting\n")
        assert (await _said(running, "/healthz"))[0] == 200
        broker.state.lifecycle = lifecycle
        assert (await _said(running, "/readyz"))[0] == 200

    assert obstacle(broker.state, broker.parts) == "the broker is stopping"
    assert illness(broker.state) == ""
    with pytest.raises(OSError, match="refused"):
        await _said(running, "/healthz")


async def test_a_partition_that_is_not_here_yet_makes_the_broker_not_ready() -> None:
    """A rolling restart that continues too early stops the next replica."""
    async with running_broker(SHOWN) as running, running.connect() as client:
        await create(client)
        metadata = running.broker.metadata
        metadata.take([PartitionChanged("t", 7, PartitionState((1,), leader=1, isr=(1,)))])

        assert await _said(running, "/readyz") == (503, "partition t-7 is not served yet\n")
        assert (await _said(running, "/healthz"))[0] == 200
        assert figure(await _figures(running), "ottla_ready") == 0


async def test_without_a_controller_the_broker_is_not_ready() -> None:
    """Nothing can be created or moved then, and leaders that die are not replaced."""
    async with running_broker(SHOWN) as running:
        running.broker.metadata.take([ControllerChanged(9, 5)])

        assert await _said(running, "/readyz") == (503, "no controller is known\n")


async def test_a_failed_directory_shows_and_the_last_one_is_an_illness() -> None:
    """One disk of two is no reason to restart a broker; the last one is."""
    async with running_broker({**SHOWN, "log.dirs": "/d1,/d2"}) as running:
        logs = running.broker.partitions.logs
        logs.directories[1].home.health.latch("cannot write", OSError(errno.EIO, "I/O error"))

        assert await _said(running, "/healthz") == (200, "ok\noffline: /d2\n")
        name = "kafka_log_logmanager_logdirectoryoffline"
        assert figure(await _figures(running), name, logdirectory="/d2") == 1

        logs.directories[0].home.health.latch("cannot write", OSError(errno.EIO, "I/O error"))
        assert await _said(running, "/healthz") == (503, "the broker has failed and stops\n")


async def test_a_port_that_is_taken_is_said_in_one_sentence() -> None:
    """A broker without its probes would be taken for one that never comes up."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        settings = {"ottla.metrics.listener": f"127.0.0.1:{taken.getsockname()[1]}"}

        with pytest.raises(CannotStart, match=r"ottla\.metrics\.listener"):
            await running_broker(settings).__aenter__()


class Scrape:
    """A simulated broker, and a machine that asks it for its figures over and over."""

    def __init__(self, seed: int) -> None:
        self.world = World(seed)
        settings = {
            "node.id": "0",
            "listeners": "PLAINTEXT://broker-0:9092",
            "ottla.metrics.listener": "broker-0:9404",
            "log.dirs": "/data",
        }
        self.server = self.world.node(
            "broker-0", serve(lambda ports: build_broker(ports, settings))
        )
        self.asker = self.world.node("asker", self._ask)
        self.answers: list[bytes] = []
        self.finished = asyncio.Event()

    def run(self) -> str:
        """Tell the story; the digest of all that happened in it."""
        self.world.run(self._tell())
        assert self.world.violations == []
        for answer in self.answers:
            self.world.note(answer.decode())
        return self.world.digest()

    async def _tell(self) -> None:
        self.server.start()
        self.asker.start()
        await self.finished.wait()

    async def _ask(self, ports: Ports) -> None:
        for path in ("/readyz", "/metrics") * 20:
            try:
                connected = await ports.net.connect(Address("broker-0", 9404), SocketOptions())
            except OSError:
                await ports.clock.sleep(5)
                continue
            connected.sendmsg([f"GET {path} HTTP/1.1\r\n\r\n".encode()])
            self.answers.append(await _read_all(connected))
            connected.close()
            await ports.clock.sleep(5)
        self.finished.set()


async def _read_all(connected: Socket) -> bytes:
    received, ended = bytearray(), asyncio.Event()
    buffer = memoryview(bytearray(65_536))

    def on_readable() -> None:
        count = connected.recv_into(buffer)
        received.extend(buffer[:count])
        if not count:
            ended.set()

    connected.on_readable(on_readable)
    await ended.wait()
    return bytes(received)


def test_a_simulated_broker_can_be_asked_too() -> None:
    """Everything goes through the seams: the same seed gives the same figures, byte by byte."""
    story = Scrape(7)

    digest = story.run()

    assert story.answers[-1].endswith(b"0\r\n\r\n")
    assert b"kafka_brokers 1\n" in story.answers[-1]
    assert Scrape(7).run() == digest
