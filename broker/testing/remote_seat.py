"""One broker in a process of its own, as its cluster sees it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import subprocess
import sys
import tempfile
import weakref
from typing import TYPE_CHECKING, Any

import ottla
from ottla.broker.server import CannotStart
from ottla.broker.tasks import Tasks
from ottla.broker.testing.remote_store import ASK, CONNECT, STATE, StoreHost
from ottla.broker.testing.seatlike import DiskCondition
from ottla.broker.testing.wire import Wire

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ottla.broker.testing.faulty_requests import RequestFault
    from ottla.broker.testing.seatlike import Notices, Plan
    from ottla.coordinator.store.store import Store
    from ottla.protocol.ports import Address

CHILD_MODULE = "ottla.broker.testing.child"
STOP_TIMEOUT_S = 15.0
STDERR_BYTES_MAX = 2_000


class RemoteSeat:
    """``Seatlike`` in another process. Made for one life of the broker; the next has a new one."""

    def __init__(
        self, plan: Plan, store: Store, notices: Notices, log: Callable[[str], object]
    ) -> None:
        self._plan = plan
        self._host = StoreHost(store)
        self._notices = notices
        self._log = log
        self._tasks = Tasks()
        self._wire = Wire(self._tasks, self._serve, self._take, self._on_closed)
        self._process: subprocess.Popen[bytes] | None = None
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115  as long as the process
        self._is_paused = False
        self._words = ""
        # Its end is somebody's wish, or is known already.
        self._is_ending = False
        self._closed = asyncio.Event()

    async def start(self) -> dict[str, Address]:
        try:
            await self._spawn()
            addresses: dict[str, Address] = await self._wire.call("start", self._plan)
        except ConnectionError:
            await self._end()
            words = f"the broker's process has ended: {self._words}"
            raise CannotStart(words) from None
        except BaseException:
            await self._end()
            raise
        return addresses

    async def _spawn(self) -> None:
        ours, theirs = socket.socketpair()
        level = logging.getLogger("ottla").getEffectiveLevel()
        with theirs:
            self._process = subprocess.Popen(  # noqa: ASYNC220  takes a millisecond
                [sys.executable, "-m", CHILD_MODULE, str(theirs.fileno()), str(level)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._stderr,
                env=_environment(),
                pass_fds=[theirs.fileno()],
            )
        # One that is stopped would not notice that its cluster has gone.
        weakref.finalize(self, _kill, self._process)
        await self._wire.open(ours)

    async def stop(self) -> None:
        self._is_ending = True
        await self.resume()
        with contextlib.suppress(ConnectionError, TimeoutError):
            async with asyncio.timeout(STOP_TIMEOUT_S):
                await self._wire.call("cut", (), False)
                await self._wire.call("set_disk", DiskCondition())
                await self._wire.call("stop")
                await self._closed.wait()
        await self._end()

    async def kill(self) -> None:
        await self._end()

    async def _end(self) -> None:
        self._is_ending = True
        process = self._process
        if process is not None:
            _kill(process)
            await self._closed.wait()
        self._take_last_words()
        self._stderr.close()
        self._wire.close()
        await self._tasks.stop()

    async def pause(self) -> None:
        self._is_paused = True
        self._signal(signal.SIGSTOP)

    async def resume(self) -> None:
        if self._is_paused:
            self._is_paused = False
            self._signal(signal.SIGCONT)

    async def cut(self, targets: Iterable[Address], clients: bool) -> None:
        await self._tell("cut", tuple(targets), clients)

    async def set_disk(self, condition: DiskCondition) -> None:
        await self._tell("set_disk", condition)

    async def add_request_fault(self, fault: RequestFault) -> None:
        await self._tell("add_request_fault", fault)

    async def drop_request_fault(self, number: int) -> None:
        await self._tell("drop_request_fault", number)

    async def move_clock(self, ms: float, step_ms: int) -> None:
        await self._tell("move_clock", ms, step_ms)

    async def wait_for_brokers(self, node_ids: frozenset[int]) -> None:
        await self._wire.call("wait_for_brokers", node_ids)

    async def leaders(self, topic: str) -> dict[int, int]:
        found: dict[int, int] = await self._wire.call("leaders", topic)
        return found

    async def wait_for_topic(self, topic: str, partitions: int, timeout_ms: float) -> bool:
        knows: bool = await self._wire.call("wait_for_topic", topic, partitions, timeout_ms)
        return knows

    async def _tell(self, name: str, *arguments: object) -> None:
        """One that is paused does it first of all when it is resumed."""
        if self._is_paused:
            self._wire.note(name, *arguments)
        else:
            with contextlib.suppress(ConnectionError):
                await self._wire.call(name, *arguments)

    def _signal(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    async def _serve(self, name: str, *arguments: Any) -> object:
        if name == CONNECT:
            return await self._host.connect(self._wire, *arguments)
        assert name == ASK
        return await self._host.ask(self._wire, *arguments)

    def _take(self, name: str, *arguments: Any) -> None:
        if name == "ping":
            (session_id,) = arguments
            self._wire.note(STATE, session_id, self._host.state_of(session_id))
        elif name == "log":
            self._log(*arguments)
        elif name == "hit":
            self._notices.on_hit(*arguments)
        elif name == "gone" and not self._is_ending:
            self._is_ending = True
            self._notices.on_gone(*arguments)

    def _on_closed(self) -> None:
        self._closed.set()
        if not self._is_ending:
            self._is_ending = True
            self._take_last_words()
            self._notices.on_gone(self._plan.node_id, f"its process has ended: {self._words}")

    def _take_last_words(self) -> None:
        if not self._stderr.closed:
            self._stderr.seek(0)
            words = self._stderr.read().decode(errors="replace").strip()
            self._words = words[-STDERR_BYTES_MAX:] or "it has said nothing"


def _environment() -> dict[str, str]:
    """With the path on which this process has found Ottla."""
    root = os.path.dirname(os.path.dirname(os.path.abspath(ottla.__file__)))
    paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def _kill(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.kill()
    process.wait()
