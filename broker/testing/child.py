"""``python -m ottla.broker.testing.child FD LEVEL``: one broker of a cluster of processes.

Its cluster holds the other end of the socket with that descriptor: it controls the broker and has
the metadata store. When it closes the socket, this process ends.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
from typing import TYPE_CHECKING

from ottla.broker.cli.serving import loop_factory
from ottla.broker.engine.tasks import Tasks
from ottla.broker.server.log_names import LOG_FORMAT, BrokerNames
from ottla.broker.system.real_disk import RealDisk
from ottla.broker.testing.local_node import LocalNode
from ottla.broker.testing.remote_store import STATE, WATCH, RemoteStore
from ottla.broker.testing.wire import CallChannel
from ottla.wire.clock import RealClock

if TYPE_CHECKING:
    from ottla.broker.testing.cluster_node import NodePlan
    from ottla.protocol.ports import Address

START, STOP, HIT, GONE, LOG = "start", "stop", "hit", "gone", "log"


class Child:
    """Serves the cluster's calls: the methods of ``ClusterNode``, by name."""

    def __init__(self) -> None:
        self._tasks = Tasks()
        # The real clock: a lease does not age when a test advances the time.
        self._store = RemoteStore(RealClock())
        self._wire = CallChannel(self._tasks, self._serve, self._take, self._on_closed)
        self._store.wire = self._wire
        self._node: LocalNode | None = None
        self._ended = asyncio.Event()

    async def run(self, connected: socket.socket, level: int) -> None:
        """Serve until the cluster has stopped the broker or closed the socket."""
        await self._wire.open(connected)
        logger = logging.getLogger("ottla")
        logger.setLevel(level)
        logger.addHandler(_Teller(self._wire))
        await self._ended.wait()
        self._wire.close()
        await self._tasks.stop()

    async def _serve(self, name: str, *arguments: object) -> object:
        if name == START:
            (plan,) = arguments
            return await self._start(plan)  # type: ignore[arg-type]
        assert self._node is not None, "start comes first"
        result: object = await getattr(self._node, name)(*arguments)
        if name == STOP:
            asyncio.get_running_loop().call_soon(self._ended.set)
        return result

    async def _start(self, plan: NodePlan) -> dict[str, Address]:
        self._node = LocalNode(plan, RealDisk, self._store, self)
        return await self._node.start()

    def _take(self, name: str, *arguments: object) -> None:
        if name == STATE:
            self._store.on_state(*arguments)  # type: ignore[arg-type]
        elif name == WATCH:
            self._store.on_watch(*arguments)  # type: ignore[arg-type]
        else:
            self._tasks.spawn(f"note of {name}", self._obey(name, *arguments))

    async def _obey(self, name: str, *arguments: object) -> None:
        await self._serve(name, *arguments)

    def _on_closed(self) -> None:
        self._ended.set()

    async def may_hit(self, node_id: int, number: int, what: str) -> bool:
        may: bool = await self._wire.call(HIT, node_id, number, what)
        return may

    def on_gone(self, node_id: int, reason: str) -> None:
        """Report the broker's end and kill this process; the socket keeps the written bytes."""
        self._wire.note(GONE, node_id, reason)
        os.kill(os.getpid(), signal.SIGKILL)


class _Teller(logging.Handler):
    """Sends this process's log records to the cluster."""

    def __init__(self, wire: CallChannel) -> None:
        super().__init__()
        self._wire = wire
        self._loop = asyncio.get_running_loop()
        self.addFilter(BrokerNames())
        self.setFormatter(logging.Formatter(LOG_FORMAT))

    def emit(self, record: logging.LogRecord) -> None:
        self._loop.call_soon_threadsafe(self._wire.note, LOG, self.format(record))


def main(arguments: list[str]) -> None:
    """Run until the end."""
    descriptor, level = map(int, arguments)
    connected = socket.socket(fileno=descriptor)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(_run(connected, level))


async def _run(connected: socket.socket, level: int) -> None:
    await Child().run(connected, level)


if __name__ == "__main__":
    main(sys.argv[1:])
