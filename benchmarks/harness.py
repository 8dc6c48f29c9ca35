"""Starts the measured broker, drives it, and reads its cost from the operating system."""

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
from typing import TYPE_CHECKING

from tests.support.broker_process import ROOT, BrokerProcess

if TYPE_CHECKING:
    from collections.abc import Iterator

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def cpu_seconds(process_id: int) -> float:
    """User and system time that the process has used so far."""
    fields = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_SECOND


def resident_bytes(process_id: int) -> int:
    """Memory of the process that is in RAM, without shared file pages."""
    resident, shared = Path(f"/proc/{process_id}/statm").read_text().split()[1:3]
    return (int(resident) - int(shared)) * _PAGE_BYTES


@dataclass(slots=True)
class Load:
    """What one worker did, and what it cost the broker."""

    requests: int
    seconds: float
    client_cpu_seconds: float
    reply_bytes: int
    sent_bytes: int
    broker_cpu_seconds: float

    @property
    def requests_per_second(self) -> float:
        return self.requests / self.seconds

    @property
    def requests_per_core_second(self) -> float:
        """Requests that one core of broker time serves."""
        return self.requests / max(self.broker_cpu_seconds, 0.01)

    @property
    def broker_us_per_request(self) -> float:
        return 1e6 * self.broker_cpu_seconds / self.requests


def drive(
    broker: BrokerProcess, frame: bytes, *, requests: int, pipeline: int, connections: int
) -> Load:
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
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.worker"],
        input=json.dumps(orders) + "\n",
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=True,
    )
    seen = json.loads(done.stdout)
    return Load(
        requests=int(seen["requests"]),
        seconds=seen["seconds"],
        client_cpu_seconds=seen["cpu_seconds"],
        reply_bytes=int(seen["reply_bytes"]),
        sent_bytes=int(seen["sent_bytes"]),
        broker_cpu_seconds=cpu_seconds(broker.process_id) - before,
    )


# Recycled pages: a log that only grows measures how fast the hypervisor hands out memory.
RECYCLING = {
    "log.segment.bytes": str(64 << 20),
    "log.retention.bytes": str(64 << 20),
    "log.retention.check.interval.ms": "200",
    "log.segment.delete.delay.ms": "0",
    "num.partitions": "1",
}


@contextmanager
def started_broker(**options: str) -> Iterator[BrokerProcess]:
    """One broker in a temporary directory, stopped at the end."""
    with (
        tempfile.TemporaryDirectory() as folder,
        BrokerProcess(Path(folder) / "data", options={**RECYCLING, **options}) as broker,
    ):
        yield broker


def start_up_seconds() -> tuple[float, int]:
    """From starting the command to its ready line, and the memory it then holds."""
    with tempfile.TemporaryDirectory() as folder:
        broker = BrokerProcess(Path(folder) / "data")
        before = time.perf_counter()
        broker.start()
        seconds = time.perf_counter() - before
        time.sleep(0.5)
        resident = resident_bytes(broker.process_id)
        broker.stop()
    return seconds, resident
