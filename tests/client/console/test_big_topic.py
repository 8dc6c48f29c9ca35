"""A topic of 500 MB freezes no page, and a console without visitors costs little."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

import ottla
from ottla.client.console.recordings import LOOK_MS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

MIB = 1024 * 1024
READY = "ottla: console at "
LIMIT_S = 120.0
# Of a page of /cluster while a visitor scans, and of what the process of the console may take.
ANSWER_S_MAX = 2.0
MEMORY_MAX = 450 * MIB
CORE_MAX = 0.02
MEASURED_S = 30.0


class ConsoleOnTrial:
    """A console as a process, and how long others wait while it works."""

    def __init__(self, number: int, browser: httpx.AsyncClient) -> None:
        self._folder = Path("/proc", str(number))
        self.browser = browser
        self.longest_s = 0.0
        self.memory = 0

    def measure(self) -> None:
        """Look at its memory."""
        status = (self._folder / "status").read_text()
        self.memory = max(self.memory, int(status.split("VmRSS:")[1].split()[0]) * 1024)

    def cpu_s(self) -> float:
        """Seconds of a core that it has taken."""
        fields = (self._folder / "stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    async def get(self, path: str) -> httpx.Response:
        """A page; meanwhile a small one is asked for again and again."""
        work = asyncio.ensure_future(self.browser.get(path))
        while not work.done():
            begin_s = time.monotonic()
            assert (await self.browser.get("/static/console.css")).status_code == 200
            self.longest_s = max(self.longest_s, time.monotonic() - begin_s)
            self.measure()
            await asyncio.sleep(0.05)
        return work.result()


@asynccontextmanager
async def on_trial(cluster: ottla.Cluster) -> AsyncIterator[ConsoleOnTrial]:
    """A console of the cluster."""
    command = ("console", "-b", cluster.bootstrap_servers, "--port", "0")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "ottla", *command), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        line = (await process.stdout.readline()).decode()
        address = line.removeprefix(READY).strip()
        async with httpx.AsyncClient(base_url=address, timeout=LIMIT_S) as browser:
            yield ConsoleOnTrial(process.pid, browser)
    finally:
        process.terminate()
        await process.wait()


@pytest.mark.soak
async def test_a_topic_of_500_mb_freezes_no_page(tmp_path: Path) -> None:
    """Records of 10 KB and of 5 MB: scans, filters and downloads are bounded, and others go on."""
    with ottla.Cluster(
        subprocess=True, data_dir=tmp_path, settings={"message.max.bytes": str(8 * MIB)}
    ) as cluster:
        cluster.create_topic("big", partitions=4)
        async with ottla.Producer(cluster.bootstrap_servers, request_bytes_max=8 * MIB) as producer:
            text = b'{"text": "' + b"x" * 10_000 + b'", "n": '
            for number in range(45_000):
                await producer.send("big", text + b"%d}" % number, partition=number % 4)
            large = b'{"text": "' + b"y" * (5 * MIB) + b'"}'
            for number in range(10):
                await producer.send("big", large, partition=number % 4)
            await producer.flush()
        async with on_trial(cluster) as trial:
            await trial.get("/api/cluster")
            newest = (await trial.get("/api/topics/big/messages?limit=500")).json()
            oldest = (await trial.get("/api/topics/big/messages?from=oldest")).json()
            found = (
                await trial.get("/api/topics/big/messages?from=oldest&filter=value.n==5000")
            ).json()
            none = (await trial.get("/api/topics/big/messages?value=nowhere")).json()
            lines = await trial.get("/topics/big/messages.jsonl?limit=20000")
            columns = await trial.get("/topics/big/messages.parquet?limit=20000")

    assert len(newest["records"]) == 500
    assert len(oldest["records"]) == 50
    assert found["stopped_by"] or found["records"]
    assert none["stopped_by"] in ("bytes", "records", "time")
    assert lines.text.count("\n") == 20_000
    assert columns.content[:4] == columns.content[-4:] == b"PAR1"
    sys.stderr.write(f"longest wait {trial.longest_s:.2f} s, {trial.memory / MIB:.0f} MiB\n")
    assert trial.longest_s < ANSWER_S_MAX
    assert trial.memory < MEMORY_MAX


@pytest.mark.soak
async def test_a_console_without_visitors_costs_little() -> None:
    """Before the first look nothing; after it, a recording of a thousand partitions for an hour."""
    with ottla.Cluster(subprocess=True) as cluster:
        cluster.create_topic("wide", partitions=1_000)
        async with on_trial(cluster) as trial:
            await trial.get("/static/console.css")
            idle = await _share(trial)
            await trial.get("/alive")
            await asyncio.sleep(LOOK_MS / 1000 + 5)
            recording = await _share(trial)

    sys.stderr.write(f"idle {idle:.2%}, after a look {recording:.2%} of a core\n")
    assert idle < CORE_MAX
    assert recording < CORE_MAX


async def _share(trial: ConsoleOnTrial) -> float:
    begin_s, before_s = time.monotonic(), trial.cpu_s()
    await asyncio.sleep(MEASURED_S)
    return (trial.cpu_s() - before_s) / (time.monotonic() - begin_s)
