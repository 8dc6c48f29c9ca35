"""``python -m ottla.broker.cli.child FD``: one broker of ``ottla start --processes N``.

The supervisor has the other end of the socket with that descriptor: it sends the plan and what to
do. When the supervisor has died this process ends at once, as if it were killed: the store is gone
with it, and another supervisor must find the data directories free.
"""

from __future__ import annotations

import asyncio
import ctypes
import logging
import os
import signal
import socket
import sys
from itertools import islice
from typing import TYPE_CHECKING, Any

from ottla.broker.cli.json_lines import JsonLines
from ottla.broker.cli.serving import loop_factory, real_ports, serve
from ottla.broker.engine.tasks import Tasks
from ottla.broker.processes.plan import ChildPlan
from ottla.broker.server.broker import Broker, CannotStart
from ottla.broker.server.log_names import LOG_FORMAT, BrokerNames, as_broker
from ottla.broker.system.file_limits import raise_descriptor_limit
from ottla.broker.system.real_disk import RealProcess
from ottla.coordinator.configs.broker_configs import (
    ConfigError,
    for_embedded_store,
    parse_broker_config,
)
from ottla.coordinator.store.served.client import ServedStore
from ottla.coordinator.store.served.messages import encode_parts
from ottla.coordinator.store.served.stream import MessageStream
from ottla.protocol.ports import Address
from ottla.wire.unix import UnixNet, UnixSocket

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.protocol.ports import Ports

logger = logging.getLogger("ottla")

_PR_SET_PDEATHSIG = 1
# Lines of figures made in one turn of the loop.
_LINES_PER_TURN = 256


class BrokerChild:
    """The process's side of the channel."""

    def __init__(self, connected: socket.socket) -> None:
        self._plan: asyncio.Future[ChildPlan] = asyncio.get_running_loop().create_future()
        self._tasks = Tasks()
        self._broker: Broker | None = None
        self._on_stop: Callable[[], object] | None = None
        self._is_stopping = False
        self._status = 1
        connected.setblocking(False)
        self._stream = MessageStream(
            UnixSocket(connected, Address("", 0)), self._on_message, self._on_supervisor_gone
        )

    async def run(self) -> int:
        """Serve until the end; the exit status."""
        try:
            plan = await self._plan
        except asyncio.CancelledError:
            return self._status
        _log(plan)
        raise_descriptor_limit()
        await as_broker(plan.node_id, self._run(plan))
        return self._status

    async def _run(self, plan: ChildPlan) -> None:
        ports = real_ports(memory=False)._replace(process=_ChildPort(self))
        try:
            self._status = await serve(ports, lambda ports: self._make(ports, plan), self._ready)
        except (ConfigError, CannotStart) as error:
            self._stream.send(encode_parts("refused", str(error)))
        finally:
            await self._tasks.stop()

    def _make(self, ports: Ports, plan: ChildPlan) -> Broker:
        config = parse_broker_config(plan.settings).config
        store = None
        if plan.store_path:
            config = for_embedded_store(config, plan.brokers)
            store = ServedStore(
                UnixNet(), ports.clock, self._tasks.spawn, Address(plan.store_path, 0), plan.node_id
            )
        broker = self._broker = Broker(ports, config, store)
        broker.first_users = plan.first_users()
        if plan.has_metrics:
            broker.pages.measure()
        return broker

    def _ready(self, address: Address) -> None:
        self._stream.send(encode_parts("serving", *address))

    def when_told_to_stop(self, callback: Callable[[], object]) -> None:
        """Call back when the supervisor says so."""
        self._on_stop = callback
        if self._is_stopping:
            callback()

    def _on_message(self, message: list[Any]) -> None:
        name = message[0]
        if name == "plan":
            self._take_plan(message[1])
        elif name == "stop" and not self._is_stopping:
            self._is_stopping = True
            if self._on_stop is not None:
                self._on_stop()
        elif name == "sync":
            self._stream.send(encode_parts("sync", *self._missing()))
        elif name == "pulse":
            broker = self._broker
            signs = ("", "") if broker is None else broker.pages.vital_signs()
            self._stream.send(encode_parts("pulse", *signs))
        elif name == "metrics":
            self._tasks.spawn("metrics", self._send_metrics())

    def _take_plan(self, told: dict[str, Any]) -> None:
        try:
            self._plan.set_result(ChildPlan(**told))
        except TypeError:
            self._stream.send(
                encode_parts(
                    "refused",
                    "its version is not that of the process that started it: stop "
                    "'ottla start --processes' and start it again",
                )
            )
            self._plan.cancel()

    def _missing(self) -> tuple[int, str]:
        """The partitions that do not have this broker in their ISR: how many, and one of them."""
        assert self._broker is not None
        node_id = self._broker.node_id
        missing = [
            f"{name}-{index}"
            for name, topic in self._broker.metadata.image.topics.items()
            for index, state in topic.partitions.items()
            if node_id in state.replicas and node_id not in state.isr
        ]
        return len(missing), missing[0] if missing else ""

    async def _send_metrics(self) -> None:
        assert self._broker is not None
        page = self._broker.pages.page("/metrics")
        assert page is not None
        lines, text = iter(page.lines), ""
        while portion := "".join(islice(lines, _LINES_PER_TURN)):
            text += portion
            await asyncio.sleep(0)
        self._stream.send(encode_parts("metrics", text))

    def _on_supervisor_gone(self, reason: str) -> None:
        # The log may go to a reader that has gone as well: nothing is written.
        os._exit(1)


class _ChildPort(RealProcess):
    """The process as ``serve`` sees it: the supervisor's word counts as a signal."""

    __slots__ = ("_child",)

    def __init__(self, child: BrokerChild) -> None:
        self._child = child

    def on_stop(self, callback: Callable[[], object]) -> None:
        super().on_stop(callback)
        self._child.when_told_to_stop(callback)


def _log(plan: ChildPlan) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(BrokerNames())
    logging.basicConfig(
        handlers=[handler],
        level=logging.DEBUG if plan.is_verbose else logging.INFO,
        format=LOG_FORMAT,
    )
    if plan.log_format == "json":
        handler.setFormatter(JsonLines())
    if not plan.is_verbose:
        logging.getLogger("ottla.store.kazoo").setLevel(logging.ERROR)


def _end_with_parent() -> None:
    """Have the kernel end this process with its parent, even if its event loop hangs."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


async def _main(connected: socket.socket) -> int:
    return await BrokerChild(connected).run()


def main(arguments: list[str]) -> int:
    """Run until the end."""
    _end_with_parent()
    # The supervisor decides what the end of a terminal means.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    descriptor = int(arguments[0])
    os.set_inheritable(descriptor, False)
    connected = socket.socket(fileno=descriptor)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(_main(connected))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
