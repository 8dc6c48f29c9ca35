"""Who says what in the log of a process that runs several brokers."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from ottla.broker.server.log_names import LOG_FORMAT, BrokerNames, as_broker
from ottla.protocol.ports import Address, SocketOptions
from ottla.wire.clock import RealClock
from ottla.wire.real import RealNet
from tests.support.broker_process import BrokerProcess

if TYPE_CHECKING:
    from pathlib import Path


def said() -> str:
    """A line of the log as it comes out here and now."""
    record = logging.LogRecord("ottla.x", logging.INFO, "", 1, "words", None, None)
    assert BrokerNames().filter(record)
    return logging.Formatter(LOG_FORMAT.removeprefix("%(asctime)s ")).format(record)


async def test_whatever_a_broker_begins_speaks_with_its_name() -> None:
    """Tasks, timers and sockets are all that a broker's lines come from."""
    heard: dict[str, str] = {}
    done = asyncio.Event()
    clock, net = RealClock(), RealNet()
    listener = net.listen(Address("127.0.0.1", 0), SocketOptions())

    def hear(who: str) -> None:
        heard[who] = said()
        if len(heard) == 4:
            done.set()

    def on_readable() -> None:
        listener.on_readable(None)
        hear("socket")

    async def later() -> None:
        hear("task")

    async def live() -> None:
        hear("broker")
        listener.on_readable(on_readable)
        clock.call_at(clock.now_ms() + 1, lambda: hear("timer"))
        await asyncio.create_task(later())

    await asyncio.gather(as_broker(2, live()))
    _, writer = await asyncio.open_connection(listener.address.host, listener.address.port)
    await done.wait()
    writer.close()
    listener.close()

    assert set(heard.values()) == {"INFO broker 2 ottla.x: words"}
    assert said() == "INFO ottla.x: words"


def test_each_line_of_several_brokers_names_one(tmp_path: Path) -> None:
    """Otherwise a line does not say whose disk is full; a single broker is not named."""
    with BrokerProcess(tmp_path / "many", extra=["--brokers", "2"]) as many:
        many.stop()
    with BrokerProcess(tmp_path / "one") as one:
        one.stop()

    lines = [line.split(maxsplit=4) for line in many.stderr().splitlines()]
    assert {tuple(line[3:4]) for line in lines if "serves" in line[-1]} == {("broker",)}
    assert {line[4][:1] for line in lines if line[3] == "broker"} == {"1", "2"}
    assert "INFO ottla.broker: broker 1 serves" in one.stderr()
