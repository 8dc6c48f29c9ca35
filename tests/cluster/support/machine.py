"""``ottla start --processes N`` as an operator runs it, and its processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from tests.support.broker_process import ROOT, BrokerProcess
from tests.support.ports import free_row

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

PATIENCE_S = 90.0
CHILD = "ottla.broker.cli.child"


def ottla(*arguments: str, stdin: bytes = b"") -> bytes:
    """Run a command that has to succeed; what it writes."""
    done = subprocess.run(
        [sys.executable, "-m", "ottla", *arguments],
        input=stdin,
        capture_output=True,
        timeout=60,
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


class MachineProcess(BrokerProcess):
    """The supervisor; all starts use the same ports."""

    def __init__(
        self,
        data_dir: Path,
        count: int = 3,
        options: Mapping[str, str] | None = None,
        extra: Sequence[str] = (),
        launcher: Sequence[str] = (),
    ) -> None:
        self.count = count
        self.first_port = free_row(count)
        super().__init__(
            data_dir,
            port=self.first_port,
            options=options,
            extra=["--processes", str(count), *extra],
            launcher=launcher,
        )

    def start(self) -> Self:
        super().start()
        self._host, self.port = "127.0.0.1", self.first_port
        return self

    @property
    def bootstrap(self) -> str:
        """All addresses, as the ready line has them."""
        return self.ready_line.rstrip().removeprefix("ottla: ready at ")

    def children(self) -> list[int]:
        """The processes of the brokers."""
        path = Path(f"/proc/{self.process_id}/task/{self.process_id}/children")
        numbers = map(int, path.read_text().split())
        return [one for one in numbers if CHILD in command_of(one)]

    def child(self, node_id: int) -> int:
        """The latest process of a broker, by the log."""
        lines = [one for one in self.stderr().splitlines() if f"broker {node_id} is process" in one]
        return int(lines[-1].rpartition(" ")[2])

    def wait_for(self, what: str, holds: Callable[[], object]) -> None:
        """Until it holds."""
        deadline = time.monotonic() + PATIENCE_S
        while not holds():
            assert time.monotonic() < deadline, f"not {what}: {self.stderr()[-3000:]}"
            time.sleep(0.05)

    def wait_for_line(self, words: str, count: int = 1) -> None:
        """Until the log has so many such lines."""
        self.wait_for(words, lambda: self.stderr().count(words) >= count)

    def create_topic(self, topic: str, partitions: int, replicas: int = 3) -> None:
        """With two replicas in the ISR for acks=all, where there are three."""
        wanted = ["-p", str(partitions), "-r", str(replicas), "-b", self.bootstrap]
        ottla("topics", "create", topic, *wanted, "-c", f"min.insync.replicas={min(2, replicas)}")

    def described(self) -> dict[str, Any]:
        """The cluster, as a client sees it."""
        text = ottla("cluster", "describe", "-b", self.bootstrap, "--format", "json")
        found: dict[str, Any] = json.loads(text)
        return found

    def kill_child(self, node_id: int) -> None:
        """kill -9; returns when another process of the broker serves."""
        lines = self.stderr().count(f"broker {node_id} serves at")
        os.kill(self.child(node_id), signal.SIGKILL)
        self.wait_for_line(f"broker {node_id} serves at", lines + 1)


def command_of(process_id: int) -> str:
    """Its command line; empty once it has ended."""
    try:
        return Path(f"/proc/{process_id}/cmdline").read_text().replace("\0", " ")
    except (FileNotFoundError, ProcessLookupError):
        return ""
