"""Who says what in the log of a process that runs several brokers."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from typing import TYPE_CHECKING

from ottla.broker.cli.json_lines import JsonLines
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


def test_lines_of_json_keep_a_traceback_on_one_line() -> None:
    """A collector of logs takes each line for an entry of its own."""
    try:
        raise ValueError('a "quoted"\nreason')
    except ValueError:
        record = logging.LogRecord(
            "ottla.test", logging.WARNING, __file__, 1, "lost %d", (3,), sys.exc_info()
        )
    record.created, record.msecs = 1_700_000_000.25, 250.0

    line = JsonLines().format(record)
    found = json.loads(line)

    assert "\n" not in line
    assert found.pop("exception").endswith('ValueError: a "quoted"\nreason')
    assert found == {
        "time": "2023-11-14T22:13:20.250Z",
        "level": "WARNING",
        "logger": "ottla.test",
        "message": "lost 3",
    }


def test_a_broker_writes_its_log_as_json(tmp_path: Path) -> None:
    """Every line of it, from the first on; with several brokers each has its id."""
    extra = ("--log-format", "json", "--brokers", "2", "--memory")
    with BrokerProcess(tmp_path / "data", extra=extra) as brokers:
        pass

    lines = [json.loads(line) for line in brokers.stderr().splitlines()]
    assert {line.get("broker") for line in lines} >= {1, 2}
    assert all(line["level"] and line["message"] for line in lines)
