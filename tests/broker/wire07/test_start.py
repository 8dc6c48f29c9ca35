"""``ottla start --listener-07``, as a user starts it."""

from __future__ import annotations

import asyncio
import signal
import sys
from types import MappingProxyType

import pytest

from ottla.broker.cli.parsers import start_parser
from ottla.broker.cli.serving import gather_settings
from ottla.broker.server.in_process import settings_of
from ottla.broker.wire07.partitions import own_partitions
from ottla.coordinator.metadata.image import PartitionState
from ottla.protocol.ports import Address
from tests.protocol.wire07.client_07 import Client07, message_07
from tests.support.ports import free_row

LIMIT_S = 90.0


def test_the_option_listens_on_this_machine_only() -> None:
    """The wire has no login; other addresses have to be named by the setting."""
    wanted = start_parser().parse_args(["--host", "0.0.0.0", "--listener-07", "9070"])

    assert gather_settings(wanted)["ottla.listener.07"] == "127.0.0.1:9070"
    assert "ottla.listener.07" not in gather_settings(start_parser().parse_args([]))


def test_brokers_in_one_process_have_a_port_each() -> None:
    """As of the other listeners: ports count up."""
    shared = {"ottla.listener.07": "127.0.0.1:9070", "log.dirs": "/data"}

    assert settings_of(shared, 3)["ottla.listener.07"] == "127.0.0.1:9072"


def test_a_broker_counts_the_partitions_whose_first_replica_it_is() -> None:
    """In the order of their numbers, with gaps closed."""
    replicas = {0: (1, 2), 1: (2, 1), 3: (2,), 7: (1,), 8: ()}
    states = {
        number: PartitionState(replicas=one, leader=-1, leader_epoch=0, isr=one)
        for number, one in replicas.items()
    }

    assert own_partitions(MappingProxyType(states), 1) == [0, 7]
    assert own_partitions(MappingProxyType(states), 2) == [1, 3]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
async def test_a_consumer_of_0_7_outlives_the_process(
    number: signal.Signals, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Its offset means the same message after a stop and after a kill."""
    directory = tmp_path_factory.mktemp("data")
    offset = 0
    for run in range(2):
        port = free_row(1)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "ottla", "start", "--port", "0", "--data-dir", str(directory)),
            *("--listener-07", str(port)),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        assert process.stdout is not None
        ready = await asyncio.wait_for(process.stdout.readline(), LIMIT_S)
        assert ready.startswith(b"ottla: ready at ")
        async with Client07(Address("127.0.0.1", port)) as old:
            value = b"run %d" % run
            old.produce("t", message_07(value))
            assert await old.consume("t", offset) == ([value], offset + 15)
            offset += 15
        process.send_signal(number)
        await asyncio.wait_for(process.wait(), LIMIT_S)
