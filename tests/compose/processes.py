"""The services of the compose file as processes of this machine.

Nothing is changed but what differs between a container and a process: names of hosts become
127.0.0.1, ports free ones, and paths of data directories of the test. So what runs here is what
the file says: its commands, its settings, its checks of health.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from ottla.protocol.ports import Address
from tests.compose.composition import (
    COMPOSE_FILE,
    ROOT,
    Composition,
    Service,
    exec_form,
    stage_of,
)
from tests.support.ports import HOST, free_ports
from tests.zookeeper.servers import ZooKeeperServer

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from types import TracebackType

HEALTHY_S = 120.0
STOP_S = 90.0
JOB_S = 600.0
POLL_S = 0.25
ZOOKEEPER = ("zookeeper", 2181)
_ADDRESS = re.compile(r"([\w.-]+):(\d+)")
_BOUND = "0.0.0.0"
_OUTSIDE = "localhost"


class Cluster:
    """Use as a context manager: all processes are gone after it."""

    def __init__(self, directory: Path, file: Path = COMPOSE_FILE) -> None:
        self.directory = directory
        self.composition = Composition(file)
        self.zookeeper = ZooKeeperServer()
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._ports = self._choose_ports()

    def __enter__(self) -> Cluster:
        self.zookeeper.start()
        for name in self.composition.first_jobs:
            self.run_first_job(name)
        for broker in self.composition.brokers:
            self.start(broker.name)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for name in list(self._running):
            self.kill(name)
        self.zookeeper.close()

    # ---- addresses ----

    def inside(self, name: str, port: int) -> Address:
        """Where that port of that container is found instead."""
        return Address(HOST, self._ports[name, port])

    def outside(self, host_port: int) -> Address:
        """Where that port of the machine is found instead."""
        for service in self.composition.brokers:
            for published in service.published:
                if published.host_port == host_port:
                    return self.inside(service.name, published.container_port)
        raise AssertionError(f"nobody publishes port {host_port}")

    def _choose_ports(self) -> dict[tuple[str, int], int]:
        wanted = {
            (service.name, int(port))
            for service in self.composition.brokers
            for name in ("KAFKA_LISTENERS", "KAFKA_OTTLA_METRICS_LISTENER")
            for _host, port in _ADDRESS.findall(service.environment[name])
        }
        free = free_ports(len(wanted))
        return {**dict(zip(sorted(wanted), free, strict=True)), ZOOKEEPER: self.zookeeper.port}

    def _moved(self, name: str, match: re.Match[str]) -> str:
        host, port = match[1], int(match[2])
        if host == _OUTSIDE:
            return str(self.outside(port))
        return str(self.inside(name if host in (_BOUND, HOST) else host, port))

    # ---- processes ----

    def environment(self, name: str) -> dict[str, str]:
        """Of a service's process here."""
        composition = self.composition
        service = {**composition.services, **composition.jobs, **composition.first_jobs}[name]
        own = {
            variable: _ADDRESS.sub(lambda match: self._moved(name, match), value)
            for variable, value in service.environment.items()
        }
        for path, volume in service.mounts.items():
            own = {
                variable: str(self.directory / volume) if value == path else value
                for variable, value in own.items()
            }
        machine = {
            variable: value
            for variable, value in os.environ.items()
            if not variable.startswith("KAFKA_")
        }
        own["PATH"] = machine["PATH"]
        return {**machine, **own, "PYTHONPATH": str(ROOT)}

    def start(self, name: str) -> None:
        """Run the service's command, without waiting for anything."""
        assert name not in self._running
        service = self.composition.services[name]
        with self._log_path(name).open("ab") as log:
            self._running[name] = subprocess.Popen(
                [sys.executable, "-m", "ottla", *self._words(service, service.command)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.directory,
                env=self.environment(name),
            )

    def run(self, name: str, *words: str) -> subprocess.CompletedProcess[str]:
        """As ``docker compose run`` does it: the entry point of that job's image, and these."""
        job = self.composition.jobs[name]
        stage = stage_of(job.written["build"]["target"])
        (entry_point,) = (exec_form(one) for one in stage if one.name == "ENTRYPOINT")
        return subprocess.run(
            [sys.executable, "-m", *entry_point, *self._words(job, words)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=JOB_S,
            check=False,
            cwd=self.directory,
            env=self.environment(name),
        )

    def run_first_job(self, name: str) -> None:
        """Run what the brokers wait for, to its end."""
        job = self.composition.first_jobs[name]
        self._mount_inside(job)
        words = [_ADDRESS.sub(lambda match: self._moved(name, match), one) for one in job.command]
        done = subprocess.run(
            [sys.executable, "-m", "ottla", *self._words(job, words)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=JOB_S,
            check=False,
            cwd=self.directory,
            env=self.environment(name),
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def _mount_inside(self, service: Service) -> None:
        """A volume that is mounted inside of another one is a link there."""
        for path, volume in service.mounts.items():
            place = self.directory / volume
            place.mkdir(exist_ok=True)
            for outer, other in service.mounts.items():
                link = self.directory / other / path.removeprefix(f"{outer}/")
                if path.startswith(f"{outer}/") and not link.exists():
                    link.symlink_to(place)

    def _words(self, service: Service, words: Sequence[str]) -> list[str]:
        """With directories of the test in place of paths in volumes."""
        moved = list(words)
        inner_first = sorted(service.mounts.items(), reverse=True)
        for path, volume in inner_first:
            moved = [
                word.replace(path, str(self.directory / volume), 1)
                if word == path or word.startswith(f"{path}/")
                else word
                for word in moved
            ]
        return moved

    def is_healthy(self, name: str) -> bool:
        """What the service's own check of health says."""
        service = self.composition.services[name]
        _cmd, program, *arguments = service.written["healthcheck"]["test"]
        assert program == "python"
        moved = [_ADDRESS.sub(lambda match: self._moved(name, match), one) for one in arguments]
        with contextlib.suppress(subprocess.TimeoutExpired):
            return not subprocess.run(
                [sys.executable, *moved], capture_output=True, timeout=30, check=False
            ).returncode
        return False

    def wait_until_healthy(self, *names: str) -> None:
        """As ``docker compose up --wait`` does; for all brokers unless some are named."""
        deadline = time.monotonic() + HEALTHY_S
        for name in names or [broker.name for broker in self.composition.brokers]:
            while not self.is_healthy(name):
                ended = self._running[name].poll()
                if ended is not None or time.monotonic() > deadline:
                    raise AssertionError(f"{name} is not healthy ({ended}):\n{self.log(name)}")
                time.sleep(POLL_S)

    def kill(self, name: str) -> None:
        """As a crash does it."""
        self._end(name, signal.SIGKILL)

    def stop(self, name: str) -> int:
        """As ``docker stop`` does it, by the image's signal; the exit status."""
        return self._end(name, signal.SIGTERM)

    def log(self, name: str) -> str:
        """The end of what the service has written."""
        return self._log_path(name).read_text("utf-8", "replace")[-4_000:]

    def _end(self, name: str, how: signal.Signals) -> int:
        process = self._running.pop(name)
        process.send_signal(how)
        return process.wait(STOP_S)

    def _log_path(self, name: str) -> Path:
        return self.directory / f"{name}.log"
