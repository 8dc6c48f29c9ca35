"""Many connections that never log in: what they cost the broker, and those that have logged in."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from statistics import quantiles
from typing import TYPE_CHECKING, NamedTuple

import pytest

from ottla.protocol.messages.metadata import MetadataRequest
from tests.broker.security.test_login import log_in
from tests.broker.security.test_tls_fetches import TlsClient
from tests.support.broker_process import ROOT
from tests.support.hostile.secure_process import HOST, SecureProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.raw_client import RawClient

METADATA = MetadataRequest([])
# Handshakes and logins have ten seconds each; the rest of the rule is fifteen more.
GONE_WITHIN_S = 35.0
MEMORY_MIB_MAX = 64.0
ROUNDS = 4


class Seen(NamedTuple):
    """What an attack has cost, and when its last connection was gone."""

    p99_ms: float
    # Without the strangers: before, or after, whichever was slower.
    usual_p99_ms: float
    memory_mib: float
    # So many of them were open at one time.
    open_count: int
    gone_s: float


async def _p99_ms(client: RawClient, count: int) -> float:
    """Of requests one after the other, with a pause of five milliseconds between them: in the best
    of some rounds, because what else the machine does comes and goes, and strangers stay."""
    found = []
    for _ in range(ROUNDS):
        times = []
        for _ in range(count // ROUNDS):
            begun = time.perf_counter()
            await client.call(9, METADATA)
            times.append((time.perf_counter() - begun) * 1000)
            await asyncio.sleep(0.005)
        found.append(quantiles(times, n=100)[98])
    return min(found)


def _descriptors(broker: SecureProcess) -> int:
    return len(list(Path(f"/proc/{broker.process_id}/fd").iterdir()))


def _memory_mib(broker: SecureProcess) -> float:
    status = Path(f"/proc/{broker.process_id}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


@contextmanager
def _strangers(
    broker: SecureProcess, count: int, per_second: int, which: str = "all"
) -> Iterator[Callable[[], str]]:
    """The function that is given waits until all of them were tried."""
    arguments = map(str, (broker.port, broker.tls_port, count, per_second, which))
    # Strangers are on machines of their own, and leave the CPU of this one to the broker.
    least = ["nice", "-n", "19"] if sys.platform == "linux" else []
    program = [*least, sys.executable, "-m", "tests.support.hostile.half_open", *arguments]
    with subprocess.Popen(
        program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT, text=True
    ) as process:
        assert process.stdout is not None
        told: list[str] = []

        def wait() -> str:
            assert process.stdout is not None
            told[:] = told or [process.stdout.readline()]
            return told[0]

        try:
            yield wait
            assert wait() == f"begun {count}\n"
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.kill()


async def _attack(broker: SecureProcess, count: int, per_second: int, requests: int) -> Seen:
    async with TlsClient(HOST, broker.tls_port) as client:
        await log_in(client)
        before_ms = await _p99_ms(client, requests)
        descriptors, memory_mib = _descriptors(broker), _memory_mib(broker)
        with _strangers(broker, count, per_second):
            during_ms = await _p99_ms(client, requests)
            open_count = _descriptors(broker) - descriptors
            most_mib = _memory_mib(broker)
            begun = time.monotonic()
            while _descriptors(broker) > descriptors and time.monotonic() - begun < 60:
                await asyncio.sleep(0.2)
                most_mib = max(most_mib, _memory_mib(broker))
            gone_s = time.monotonic() - begun
        after_ms = await _p99_ms(client, requests)
    usual_ms = max(before_ms, after_ms)
    return Seen(during_ms, usual_ms, most_mib - memory_mib, open_count, gone_s)


@pytest.mark.slow
async def test_half_open_connections_cost_little_and_go(tmp_path: Path) -> None:
    """500 of them, of seven kinds: silent, cut, endless and slow ones, without and with TLS.

    Tried: to use up memory and descriptors, and to hold up a client that has logged in."""
    with SecureProcess(tmp_path / "data") as broker:
        seen = await _attack(broker, 500, 500, 200)
        lines = broker.stderr().splitlines()

    # Some for each of the 32 addresses, and not one for each connection.
    assert len(lines) < 300, lines[-20:]
    assert seen.open_count > 100, seen
    assert seen.memory_mib < MEMORY_MIB_MAX, seen
    assert seen.gone_s < GONE_WITHIN_S, seen
    # Other work on the machine may cost a request some milliseconds.
    assert seen.p99_ms < 2 * seen.usual_p99_ms + 25, seen


@pytest.mark.soak
@pytest.mark.timeout(300)
async def test_ten_thousand_of_them_cost_little_and_go(tmp_path: Path) -> None:
    """The same with the full figures."""
    with SecureProcess(tmp_path / "data") as broker:
        seen = await _attack(broker, 10_000, 1_000, 2_000)
    print(seen)

    assert seen.open_count > 100, seen
    assert seen.memory_mib < MEMORY_MIB_MAX, seen
    assert seen.gone_s < GONE_WITHIN_S, seen
    assert seen.p99_ms < 2 * seen.usual_p99_ms, seen


@pytest.mark.soak
@pytest.mark.timeout(300)
async def test_ten_thousand_silent_ones_at_one_time_cost_little(tmp_path: Path) -> None:
    """An operator has raised the limits: all of them stay open, and none says a word."""
    count = 10_000
    limits = ("max.connections", "max.connections.per.ip")
    settings = {f"ottla.authentication.{limit}": str(count) for limit in limits}
    settings |= {"ottla.authentication.timeout.ms": "240000", "max.connections.per.ip": "10000"}
    with SecureProcess(tmp_path / "data", settings) as broker:
        async with TlsClient(HOST, broker.tls_port) as client:
            await log_in(client)
            before_ms = await _p99_ms(client, 2_000)
            descriptors, memory_mib = _descriptors(broker), _memory_mib(broker)
            with _strangers(broker, count, 1_000, "silent") as wait:
                await asyncio.to_thread(wait)
                async with asyncio.timeout(60):
                    while (opened := _descriptors(broker) - descriptors) < count - 10:
                        await asyncio.sleep(0.1)
                during_ms = await _p99_ms(client, 2_000)
                more_mib = _memory_mib(broker) - memory_mib
            async with asyncio.timeout(GONE_WITHIN_S):
                while _descriptors(broker) > descriptors:
                    await asyncio.sleep(0.1)
            seen = Seen(
                *(during_ms, max(before_ms, await _p99_ms(client, 2_000))), more_mib, opened, 0
            )
    print(seen)

    assert seen.memory_mib < MEMORY_MIB_MAX, seen
    assert seen.p99_ms < 2 * seen.usual_p99_ms, seen
