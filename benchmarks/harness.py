"""Starts measured brokers, drives them, and reads their cost from the operating system.

CPU time is the primary figure: it stays meaningful on a machine that others use as well.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from tests.support.broker_process import ROOT, BrokerProcess

if TYPE_CHECKING:
    from collections.abc import Iterator

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ottla-benchmarks"

# Recycled pages: a log that only grows measures how fast the hypervisor hands out memory.
RECYCLING = {
    "log.segment.bytes": str(64 << 20),
    "log.retention.bytes": str(64 << 20),
    "log.retention.check.interval.ms": "500",
    "log.segment.delete.delay.ms": "0",
    "num.partitions": "1",
}
KEEPING = {**RECYCLING, "log.segment.bytes": str(1 << 30), "log.retention.bytes": "-1"}


class Subject(Protocol):
    """A running broker of either implementation."""

    @property
    def address(self) -> str: ...

    @property
    def port(self) -> int: ...

    @property
    def process_id(self) -> int: ...


def use_bytecode_cache() -> None:
    """Let measured processes start as installed ones do: from bytecode, compiled once."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = str(CACHE / "bytecode")


def cpu_seconds(process_id: int) -> float:
    """Time that all threads of the process have used so far, to the microsecond."""
    # Linux: the clock of a process is its inverted number with the kind in the lowest bits.
    return time.clock_gettime(~process_id << 3 | 2)


def resident_bytes(process_id: int) -> int:
    """Memory of the process that is in RAM, without shared file pages."""
    resident, shared = Path(f"/proc/{process_id}/statm").read_text().split()[1:3]
    return (int(resident) - int(shared)) * _PAGE_BYTES


@dataclass(slots=True)
class Load:
    """Results of one worker, and their cost to the broker."""

    requests: int
    seconds: float
    client_cpu_seconds: float
    reply_bytes: int
    sent_bytes: int
    broker_cpu_seconds: float
    # Of single round trips, in microseconds; 0 where requests were pipelined.
    p50_us: float = 0.0
    p99_us: float = 0.0

    @property
    def requests_per_second(self) -> float:
        return self.requests / self.seconds

    @property
    def requests_per_core_second(self) -> float:
        """Requests that one core of broker time serves."""
        return self.requests / self.broker_cpu_seconds

    @property
    def broker_us_per_request(self) -> float:
        return 1e6 * self.broker_cpu_seconds / self.requests

    @property
    def moved_bytes(self) -> int:
        """Payload in its direction: what was sent, or what was fetched."""
        return max(self.sent_bytes, self.reply_bytes)

    @property
    def bytes_per_second(self) -> float:
        return self.moved_bytes / self.seconds

    @property
    def bytes_per_core_second(self) -> float:
        return self.moved_bytes / self.broker_cpu_seconds

    @property
    def broker_seconds_per_gb(self) -> float:
        return 1e9 * self.broker_cpu_seconds / self.moved_bytes


def drive(broker: Subject, frame: bytes, *, requests: int, pipeline: int, connections: int) -> Load:
    """Run one worker process to its end."""
    orders = {
        "host": "127.0.0.1",
        "port": broker.port,
        "frame": frame.hex(),
        "requests": requests,
        "pipeline": pipeline,
        "connections": connections,
    }
    before = cpu_seconds(broker.process_id)
    seen = worker(orders)
    return Load(
        requests=int(seen["requests"]),
        seconds=seen["seconds"],
        client_cpu_seconds=seen["cpu_seconds"],
        reply_bytes=int(seen["reply_bytes"]),
        sent_bytes=int(seen["sent_bytes"]),
        broker_cpu_seconds=cpu_seconds(broker.process_id) - before,
        p50_us=seen["p50_us"],
        p99_us=seen["p99_us"],
    )


def worker(orders: dict[str, Any]) -> dict[str, float]:
    """Results of the load generator. Raises RuntimeError with its last output."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.worker"],
        input=json.dumps(orders) + "\n",
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"the load generator has failed: {done.stderr.strip()[-500:]}")
    seen: dict[str, float] = json.loads(done.stdout)
    return seen


@contextmanager
def started_broker(options: dict[str, str] | None = None) -> Iterator[BrokerProcess]:
    """One broker in a temporary directory, stopped at the end."""
    with (
        tempfile.TemporaryDirectory() as folder,
        BrokerProcess(Path(folder) / "data", options=options or RECYCLING) as broker,
    ):
        yield broker


def start_up_seconds() -> tuple[float, float, int]:
    """From the command to its ready line: wall and CPU seconds, and the memory held then."""
    with tempfile.TemporaryDirectory() as folder:
        broker = BrokerProcess(Path(folder) / "data")
        before = time.perf_counter()
        broker.start()
        seconds = time.perf_counter() - before
        used = cpu_seconds(broker.process_id)
        time.sleep(0.5)
        resident = resident_bytes(broker.process_id)
        broker.stop()
    return seconds, used, resident
