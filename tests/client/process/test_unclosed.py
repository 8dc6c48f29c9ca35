"""Warnings about clients that were never closed."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

import ottla
from ottla import sync
from ottla.client.process.unclosed import warn_unclosed
from tests.support.memory_broker import memory_broker

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.client.support.toy_broker import ToyCluster

CLIENTS = pytest.mark.parametrize("name", ["Producer", "Consumer", "Admin"])


@contextmanager
def told() -> Iterator[list[warnings.WarningMessage]]:
    """The warnings that come in the block, and when its remains are cleared away."""
    gc.collect()
    warned: list[warnings.WarningMessage] = []
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        yield warned
        gc.collect()
    warned += [one for one in found if one.category is ResourceWarning]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Of a broker outside of the test's event loop."""
    with memory_broker() as where:
        yield where


@CLIENTS
async def test_a_client_that_was_started_and_dropped_is_told_of_once(
    toy: ToyCluster, name: str
) -> None:
    """Records in its memory may be lost, and no other message says so."""

    with told() as warned:
        await getattr(ottla, name)(toy.bootstrap).start()

    (warning,) = warned
    assert f".{name} object at" in str(warning.message)
    assert type(warning.source).__name__ == name
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()


@CLIENTS
async def test_nothing_is_told_of_a_client_that_was_closed_or_never_ran(
    toy: ToyCluster, name: str
) -> None:
    """No warning for a client that was not started, failed to start, or was closed."""
    client: Any = getattr(ottla, name)

    with told() as warned:
        client(toy.bootstrap)
        with pytest.raises(ottla.ClientError):
            await client("127.0.0.1:1").start()
        with pytest.raises(ValueError, match="call_timeout_ms"):
            client(toy.bootstrap, call_timeout_ms=-1)
        async with client(toy.bootstrap):
            pass

    assert warned == []


@CLIENTS
def test_a_blocking_client_is_told_of_itself(address: str, name: str) -> None:
    """The warning names the blocking client, not the one inside, which the application never
    saw."""
    client = getattr(sync, name)(address)
    client.start()
    hidden, run = client._client, client._loop.run
    with told() as warned:
        del client
    with told() as warned_later:
        run(closed(hidden))
        del hidden

    (warning,) = warned
    assert f"sync.{name.lower()}.{name} object at" in str(warning.message)
    assert warned_later == []


async def closed(client: Any) -> None:
    """Release its resources."""
    result = client.close()
    if asyncio.iscoroutine(result):
        await result


PROGRAM = """
import asyncio, sys
import ottla

async def main():
    global kept
    kept = ottla.{name}(sys.argv[1])
    await kept.start()
    assert kept._is_open

asyncio.run(main())
"""


@CLIENTS
def test_nothing_is_told_when_the_program_ends(address: str, name: str) -> None:
    """At interpreter exit the warning would be too late to be of use."""
    program = PROGRAM.format(name=name)
    ended = subprocess.run(
        [sys.executable, "-W", "always", "-c", program, address],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert ended.returncode == 0, ended.stderr
    assert "unclosed <ottla" not in ended.stderr


def test_the_warning_names_the_line_that_dropped_it() -> None:
    """The line is as exact as Python knows it; tracemalloc gives more."""

    class Dropped:
        def __del__(self) -> None:
            warn_unclosed(self)

    with pytest.warns(ResourceWarning, match="unclosed") as found:
        Dropped()

    assert found[0].filename == __file__
