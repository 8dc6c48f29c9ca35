"""The compose file in containers, by ``make interop``; skipped where there is no engine, with a
sentence that says how to get one.

The same story as in processes (test_as_processes.py), with the image built and the services
wired as the file says: network, names, volumes, published ports, limits and checks of health.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import io
import json
import os
import tarfile
import time
import warnings
from typing import TYPE_CHECKING, Any

import docker
import pytest
from docker.errors import DockerException

import ottla
from ottla.broker.system.file_limits import DESCRIPTORS_MAX
from ottla.protocol.properties import parse_properties
from tests.compose.composition import (
    COMPOSE_FILE,
    IMAGE,
    ROOT,
    SECURE_FILE,
    Composition,
    Service,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NAME = "ottla-test"
# For engines whose builds reach packages over the machine's own network alone: "host".
BUILD_NETWORK = "ENGINE_BUILD_NETWORK"
HEALTHY_S = 180.0
STOP_S = 120
TOPIC = "orders"
SERVERS = "localhost:9092,localhost:9093,localhost:9094"
NANOSECONDS = {"s": 1_000_000_000, "m": 60_000_000_000}

HOW_TO_GET_ONE = (
    "needs a container engine: install docker.io (Debian, Ubuntu) or Docker's own, start it by"
    " 'systemctl start docker' or 'dockerd', or name another one's socket in DOCKER_HOST"
)

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def engine() -> Iterator[Any]:
    """The machine's container engine."""
    client, reason = _connect()
    if client is None:
        pytest.skip(f"{HOW_TO_GET_ONE} ({reason})")
    yield client
    client.close()


def _connect() -> tuple[Any, str]:
    with warnings.catch_warnings():
        # The library leaves its socket open where no server answers.
        warnings.simplefilter("ignore", ResourceWarning)
        try:
            client = docker.from_env()
            client.ping()
        except DockerException as error:
            reason = str(error)
        else:
            return client, ""
        gc.collect()
        return None, reason


class Containers:
    """The services of the file as containers. Use as a context manager."""

    def __init__(self, engine: Any, file: Path = COMPOSE_FILE) -> None:
        self.engine = engine
        self.composition = Composition(file)
        self.network: Any = None
        self.running: dict[str, Any] = {}

    def __enter__(self) -> Containers:
        self.engine.images.build(
            path=str(ROOT), tag=IMAGE, rm=True, network_mode=os.environ.get(BUILD_NETWORK)
        )
        self.network = self.engine.networks.create(NAME)
        try:
            ordered = self._in_order()
            self._start(ordered[0])
            self.wait_until_healthy(ordered[0].name)
            for job in self.composition.first_jobs.values():
                self._start(job)
                assert self.running[job.name].wait()["StatusCode"] == 0
            for service in ordered[1:]:
                self._start(service)
                self.wait_until_healthy(service.name)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _in_order(self) -> list[Service]:
        return sorted(self.composition.services.values(), key=lambda one: len(one.depends_on))

    def _start(self, service: Service) -> None:
        written = service.written
        check = written.get("healthcheck")
        container = self.engine.containers.create(
            written["image"],
            command=service.command or None,
            name=f"{NAME}-{service.name}",
            environment=written.get("environment", {}),
            ports={
                f"{port.container_port}/tcp": (port.host, port.host_port)
                for port in service.published
            },
            volumes={
                f"{NAME}-{volume}": {"bind": path, "mode": "rw"}
                for path, volume in service.mounts.items()
            },
            healthcheck=None if check is None else _check(check),
            read_only=written.get("read_only", False),
            tmpfs=dict.fromkeys(written.get("tmpfs", ()), ""),
            cap_drop=written.get("cap_drop"),
            security_opt=written.get("security_opt"),
        )
        self.running[service.name] = container
        self.network.connect(container, aliases=[service.name])
        container.start()

    def wait_until_healthy(self, name: str) -> None:
        """As ``docker compose up --wait`` does."""
        container = self.running[name]
        deadline = time.monotonic() + HEALTHY_S
        while True:
            container.reload()
            if container.attrs["State"].get("Health", {}).get("Status") == "healthy":
                return
            if time.monotonic() > deadline or container.status == "exited":
                words = container.logs(tail=50).decode("utf-8", "replace")
                raise AssertionError(f"{name} is not healthy:\n{words}")
            time.sleep(0.5)

    def close(self) -> None:
        """Remove all that was made, but for the image."""
        for container in self.running.values():
            with contextlib.suppress(DockerException):
                container.remove(force=True)
        for volume in self.composition.written["volumes"]:
            with contextlib.suppress(DockerException):
                self.engine.volumes.get(f"{NAME}-{volume}").remove(force=True)
        if self.network is not None:
            with contextlib.suppress(DockerException):
                self.network.remove()


def _check(written: dict[str, Any]) -> dict[str, Any]:
    return {
        "test": written["test"],
        "interval": _nanoseconds(written["interval"]),
        "timeout": _nanoseconds(written["timeout"]),
        "retries": written["retries"],
        "start_period": _nanoseconds(written["start_period"]),
    }


def _nanoseconds(text: str) -> int:
    return int(text[:-1]) * NANOSECONDS[text[-1]]


@pytest.fixture(scope="module")
def containers(engine: Any) -> Iterator[Containers]:
    """All services, healthy."""
    with Containers(engine) as running:
        yield running


async def test_a_killed_container_costs_nothing_that_was_acknowledged(
    containers: Containers,
) -> None:
    """From the machine, through published ports, with one of three brokers gone half-way."""
    async with ottla.Admin(SERVERS) as admin:
        await admin.create_topic(ottla.NewTopic(TOPIC, 3))
    acknowledged = []
    async with ottla.Producer(SERVERS) as producer:
        for number in range(200):
            if number == 100:
                await asyncio.to_thread(containers.running["broker2"].kill)
            value = b"%d" % number
            await (await producer.send(TOPIC, value, partition=number % 3))
            acknowledged.append(value)
    await asyncio.to_thread(containers.running["broker2"].start)
    await asyncio.to_thread(containers.wait_until_healthy, "broker2")

    found: list[bytes] = []
    config = ottla.ConsumerConfig(offset_reset="earliest")
    async with ottla.Consumer(SERVERS, config) as consumer:
        consumer.assign(await consumer.partitions_of(TOPIC))
        async with asyncio.timeout(60):
            while len(found) < len(acknowledged):
                found += [record.value or b"" for record in await consumer.poll(500)]
    assert sorted(found, key=int) == acknowledged


def test_containers_reach_the_brokers_by_name(containers: Containers) -> None:
    """Through the listener that is advertised to them, with nothing of the machine in between."""
    code, words = containers.running["broker3"].exec_run(
        ["ottla", "topics", "describe", TOPIC, "-b", "broker1:19092"]
    )

    assert code == 0, words.decode()
    assert TOPIC in words.decode()


def test_the_image_has_the_compiled_codec(containers: Containers) -> None:
    """The slim image has no compiler, and records would be encoded ten times as slowly."""
    code, words = containers.running["broker3"].exec_run(["ottla", "doctor", "--json"])

    assert code in (0, 1)
    levels = {one["area"]: one["level"] for one in json.loads(words)}
    assert levels["codec"] == "ok", words


def test_a_broker_takes_all_descriptors_that_the_engine_allows(containers: Containers) -> None:
    """Engines begin containers with 1,024 as often as with a million."""
    code, words = containers.running["broker3"].exec_run(["grep", "open files", "/proc/1/limits"])
    soft, hard = words.split()[3:5]

    assert code == 0
    assert int(soft) == min(int(hard), DESCRIPTORS_MAX)


def test_a_stop_is_obeyed_at_once(containers: Containers) -> None:
    """Process 1 gets the signal itself: no grace period runs out, and the status is 0."""
    container = containers.running["broker3"]
    started = time.monotonic()
    container.stop(timeout=STOP_S)
    container.reload()

    assert container.attrs["State"]["ExitCode"] == 0
    assert time.monotonic() - started < STOP_S / 2
    container.start()
    containers.wait_until_healthy("broker3")


async def test_the_secure_file_lets_in_clients_with_the_file_that_it_makes(engine: Any) -> None:
    """Copied out of the container of its job, as its header says; the volumes have an owner that
    the image's user can write as."""
    with Containers(engine, SECURE_FILE) as running:
        archive, _stat = running.running["secure"].get_archive("/secure/client")
        with tarfile.open(fileobj=io.BytesIO(b"".join(archive))) as tar:
            file = tar.extractfile("client/client.properties")
            assert file is not None
            settings = parse_properties(file.read().decode())
        servers = settings.pop("bootstrap.servers")
        async with ottla.Admin(servers, security=settings) as admin:
            await admin.create_topic(ottla.NewTopic(TOPIC, 3))
        async with ottla.Producer(servers, security=settings) as producer:
            await (await producer.send(TOPIC, b"in"))
        code, words = running.running["broker1"].exec_run(["ls", "/secure", "/secure/broker-2"])
        assert code != 0 or not words.split(b"broker-2:")[-1].strip(), words
