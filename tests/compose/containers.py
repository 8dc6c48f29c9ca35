"""The services of a compose file as containers of the machine's engine."""

from __future__ import annotations

import contextlib
import gc
import os
import time
import warnings
from typing import TYPE_CHECKING, Any

import docker
import pytest
from docker.errors import DockerException

from tests.compose.composition import COMPOSE_FILE, IMAGE, ROOT, Composition, Service

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NAME = "ottla-test"
# For engines whose builds reach packages over the machine's own network alone: "host".
BUILD_NETWORK = "ENGINE_BUILD_NETWORK"
HEALTHY_S = 180.0
NANOSECONDS = {"s": 1_000_000_000, "m": 60_000_000_000}

HOW_TO_GET_ONE = (
    "needs a container engine: install docker.io (Debian, Ubuntu) or Docker's own, start it by"
    " 'systemctl start docker' or 'dockerd', or name another one's socket in DOCKER_HOST"
)


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
