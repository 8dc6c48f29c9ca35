"""One broker in its own process, as its cluster sees it."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from typing import TYPE_CHECKING, Any

from ottla.broker.engine.tasks import Tasks
from ottla.broker.server.broker import CannotStart
from ottla.broker.testing.child_process import ChildProcess
from ottla.broker.testing.cluster_node import DiskCondition
from ottla.broker.testing.remote_store import ASK, CONNECT, STATE, StoreHost
from ottla.broker.testing.wire import CallChannel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ottla.broker.testing.cluster_node import AccessState, NodePlan, Notices
    from ottla.broker.testing.faulty_requests import RequestFault
    from ottla.coordinator.store.store import Store
    from ottla.protocol.ports import Address

STOP_TIMEOUT_S = 15.0


class RemoteNode:
    """``ClusterNode`` in another process, for one run of the broker; the next run has a new one."""

    def __init__(
        self, plan: NodePlan, store: Store, notices: Notices, log: Callable[[str], object]
    ) -> None:
        self._plan = plan
        self._host = StoreHost(store)
        self._notices = notices
        self._log = log
        self._tasks = Tasks()
        self._wire = CallChannel(self._tasks, self._serve, self._take, self._on_closed)
        self._process = ChildProcess()
        self._is_paused = False
        # Its end was requested, or was already reported.
        self._is_ending = False
        self._closed = asyncio.Event()

    async def start(self) -> dict[str, Address]:
        try:
            await self._wire.open(self._process.start())
            addresses: dict[str, Address] = await self._wire.call("start", self._plan)
        except ConnectionError:
            await self._end()
            words = f"the broker's process has ended: {self._process.last_words()}"
            raise CannotStart(words) from None
        except BaseException:
            await self._end()
            raise
        return addresses

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
        self._process.kill()
        if self._process.is_started:
            await self._closed.wait()
        self._wire.close()
        await self._tasks.stop()

    async def pause(self) -> None:
        self._is_paused = True
        self._process.signal(signal.SIGSTOP)

    async def resume(self) -> None:
        if self._is_paused:
            self._is_paused = False
            self._process.signal(signal.SIGCONT)

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

    async def reload_certificates(self) -> None:
        await self._tell("reload_certificates")

    async def access_state(self, user: str | None) -> AccessState:
        found: AccessState = await self._wire.call("access_state", user)
        return found

    async def wait_for_topic(self, topic: str, partitions: int, timeout_ms: float) -> bool:
        knows: bool = await self._wire.call("wait_for_topic", topic, partitions, timeout_ms)
        return knows

    async def _tell(self, name: str, *arguments: object) -> None:
        """A paused broker does it first when it is resumed."""
        if self._is_paused:
            self._wire.note(name, *arguments)
        else:
            with contextlib.suppress(ConnectionError):
                await self._wire.call(name, *arguments)

    async def _serve(self, name: str, *arguments: Any) -> object:
        if name == CONNECT:
            return await self._host.connect(self._wire, *arguments)
        if name == "hit":
            return await self._notices.may_hit(*arguments)
        assert name == ASK
        return await self._host.ask(self._wire, *arguments)

    def _take(self, name: str, *arguments: Any) -> None:
        if name == "ping":
            (session_id,) = arguments
            self._wire.note(STATE, session_id, self._host.state_of(session_id))
        elif name == "log":
            self._log(*arguments)
        elif name == "gone" and not self._is_ending:
            self._is_ending = True
            self._notices.on_gone(*arguments)

    def _on_closed(self) -> None:
        self._closed.set()
        if not self._is_ending:
            self._is_ending = True
            words = f"its process has ended: {self._process.last_words()}"
            self._notices.on_gone(self._plan.node_id, words)
