"""The worker process: what it returns, and that it never outlives its broker."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ottla.broker.system.worker_process import RealWorker
from ottla.protocol.errors import CorruptLogError, ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from ottla.protocol.ports import Apart

ROOT = Path(__file__).resolve().parents[3]
# It is of the lowest priority: on a busy machine its turn comes late.
END_S = 120.0


def count_up(apart: Apart, limit: int) -> Iterator[tuple[int, int]]:
    """Numbers with the process they come from."""
    apart.pause(1)
    for number in range(limit):
        yield number, os.getpid()


def read_there(apart: Apart, path: str) -> Iterator[bytes]:
    """What the other process finds in a file, and then what is wrong with it."""
    file = apart.disk.open(path)
    yield file.pread(file.size_bytes, 0)
    raise CorruptLogError("spoiled")


def fail(_apart: Apart, kind: str) -> Iterator[int]:
    """Fails in the way that the argument names."""
    if kind == "os":
        raise FileNotFoundError(2, "No such file or directory", "/x")
    if kind == "kafka":
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "so it is")
    if kind == "bug":
        raise ZeroDivisionError("of ours")
    yield 1
    os.kill(os.getpid(), signal.SIGKILL)
    yield 2


def is_alive(process_id: int) -> bool:
    try:
        state = Path(f"/proc/{process_id}/stat").read_text().split()[2]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


@pytest.fixture
def worker() -> Iterator[RealWorker]:
    made = RealWorker()
    yield made
    made.close()


async def collect(items: AsyncIterator[bytes], into: list[bytes]) -> None:
    async for item in items:
        into.append(item)  # noqa: PERF401  # what came before an error counts


async def gone(process_id: int) -> bool:
    for _ in range(int(END_S / 0.02)):
        if not is_alive(process_id):
            return True
        await asyncio.sleep(0.02)
    return False


async def test_work_is_done_in_one_other_process_of_low_priority(worker: RealWorker) -> None:
    """Idle brokers have none; a busy one keeps it for the next run."""
    before = worker.process_id
    first = [item async for item in worker.run(count_up, 3)]
    second = [item async for item in worker.run(count_up, 2)]

    assert before is None
    assert [number for number, _ in first] == [0, 1, 2]
    assert {process_id for _, process_id in first + second} == {worker.process_id}
    assert worker.process_id != os.getpid()
    assert worker.process_id is not None
    assert os.getpriority(os.PRIO_PROCESS, worker.process_id) == 19


async def test_files_and_errors_go_both_ways(worker: RealWorker, tmp_path: Path) -> None:
    """The caller must learn what is wrong with a log as if it had read the log itself."""
    path = tmp_path / "file"
    path.write_bytes(b"content")
    seen: list[bytes] = []
    with pytest.raises(CorruptLogError, match="spoiled"):
        await collect(worker.run(read_there, str(path)), seen)

    assert seen == [b"content"]
    with pytest.raises(FileNotFoundError):
        _ = [item async for item in worker.run(fail, "os")]
    with pytest.raises(KafkaError, match="so it is"):
        _ = [item async for item in worker.run(fail, "kafka")]
    with pytest.raises(KafkaError, match="ZeroDivisionError"):
        _ = [item async for item in worker.run(fail, "bug")]
    assert len([item async for item in worker.run(count_up, 2)]) == 2


async def test_a_process_that_dies_fails_one_run_and_is_replaced(worker: RealWorker) -> None:
    """The kernel kills a process that takes too much memory; the broker continues."""
    with pytest.raises(KafkaError) as error:
        _ = [item async for item in worker.run(fail, "death")]

    assert error.value.code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert len([item async for item in worker.run(count_up, 2)]) == 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
async def test_signals_of_the_terminal_are_left_to_the_broker(
    worker: RealWorker, number: signal.Signals
) -> None:
    """A signal reaches every process of the terminal; a cleaning continues until the broker
    ends."""
    async with aclosing(worker.run(count_up, 1000)) as items:
        _number, process_id = await anext(items)
        os.kill(process_id, number)
        rest = [item async for item in items]

    assert len(rest) == 999


async def test_work_whose_callers_have_gone_is_killed(worker: RealWorker) -> None:
    """A broker that stops does not wait for a cleaning of an hour."""
    async with aclosing(worker.run(count_up, 1000)) as items:
        _number, process_id = await anext(items)

    assert await gone(process_id)
    assert worker.process_id is None


async def test_an_idle_process_ends_and_comes_back() -> None:
    """An idle broker is small."""
    worker = RealWorker(idle_s=0.1)
    first = [process_id async for _, process_id in worker.run(count_up, 1)]

    assert await gone(first[0])
    second = [process_id async for _, process_id in worker.run(count_up, 1)]
    assert second != first
    worker.close()


def test_the_process_ends_with_a_broker_that_is_killed() -> None:
    """A broker that is killed with kill -9 runs no clean-up."""
    program = (
        "import asyncio, os\n"
        "from tests.broker.system.test_worker_process import count_up\n"
        "from ottla.broker.system.worker_process import RealWorker\n"
        "async def main():\n"
        "    async for _, process_id in RealWorker().run(count_up, 5):\n"
        "        print(process_id, flush=True)\n"
        "        os.kill(os.getpid(), 9)\n"
        "asyncio.run(main())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, check=False, timeout=240
    )

    assert done.returncode == -9
    assert asyncio.run(gone(int(done.stdout)))
