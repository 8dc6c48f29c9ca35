"""Transactions of unmodified clients, step by step: which readers see what, and which producers are
refused.

The pipelines beside it show the same of more clients, under kills.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.client.admin import Admin
from ottla.protocol.ids import TopicPartition
from tests.interop.support.foreign import Capabilities, Program
from tests.interop.support.transacting import STEPWISE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.interop.conftest import Bootstrap

pytestmark = pytest.mark.slow


@pytest.fixture(params=STEPWISE, ids=lambda one: one.name)
def program(
    request: pytest.FixtureRequest, broker: Bootstrap, topic: str, tmp_path: Path
) -> Iterator[Program]:
    """A client's program, and a topic for it."""
    broker.used_by("")
    admin = AdminClient({"bootstrap.servers": broker.address})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(15)
    command = [*request.param.command(), broker.address]
    with Program(command, tmp_path / "stderr", Capabilities()) as found:
        yield found


def start(program: Program, topic: str, name: str = "first", timeout_ms: int = 30_000) -> None:
    program.step("start", producer=name, transactional_id=f"of-{topic}", timeout_ms=timeout_ms)


def send(program: Program, topic: str, *values: str, name: str = "first") -> None:
    """In a transaction that begins with it."""
    assert program.step("send", producer=name, topic=topic, values=values)["left"] == 0


def visible(program: Program, topic: str, isolation: str = "read_committed") -> list[str]:
    found: list[str] = program.step("read", topic=topic, isolation=isolation)["values"]
    return found


def committed(address: str, group: str, topic: str) -> int | None:
    """The group's position, asked by our own client."""

    async def ask() -> int | None:
        async with Admin(address) as admin:
            found = await admin.groups.offsets(group)
        one = found.get(TopicPartition(topic, 0))
        return None if one is None else one.offset

    return asyncio.run(ask())


@pytest.mark.requirement("TXN-29", "TXN-30", "TXN-28")
def test_readers_of_committed_records_see_those_alone(program: Program, topic: str) -> None:
    """They see all of a committed transaction, nothing of an aborted or open one."""
    start(program, topic)
    send(program, topic, "a", "b")
    assert visible(program, topic) == []
    program.step("end", producer="first", commits=True)
    send(program, topic, "c", "d")
    program.step("end", producer="first", commits=False)
    send(program, topic, "e")
    program.step("end", producer="first", commits=True)

    assert visible(program, topic) == ["a", "b", "e"]
    assert visible(program, topic, "read_uncommitted") == ["a", "b", "c", "d", "e"]


@pytest.mark.requirement("TXN-02", "TXN-03", "TXN-04", "TXN-13")
def test_a_second_instance_ends_and_fences_the_first(program: Program, topic: str) -> None:
    """The first one's open transaction is aborted, and its later requests are refused."""
    start(program, topic)
    send(program, topic, "left open")
    start(program, topic, name="second")
    send(program, topic, "mine", name="second")

    refused = program.step("end", producer="first", commits=True)
    program.step("end", producer="second", commits=True)

    assert "refused" in refused
    assert visible(program, topic) == ["mine"]


@pytest.mark.requirement("TXN-53", "TXN-57", "TXN-58")
def test_what_takes_too_long_is_aborted(program: Program, topic: str) -> None:
    """Readers go on after the abort, and the late producer is refused."""
    start(program, topic, timeout_ms=3_000)
    send(program, topic, "too late")
    program.step("start", producer="other", transactional_id=f"other-{topic}", timeout_ms=30_000)
    send(program, topic, "later", name="other")
    program.step("end", producer="other", commits=True)

    deadline = time.monotonic() + 90
    while (found := visible(program, topic)) != ["later"]:
        assert time.monotonic() < deadline, found
    assert "refused" in program.step("end", producer="first", commits=True)


@pytest.mark.requirement("TXN-19", "TXN-20", "TXN-21")
def test_positions_are_committed_with_the_records(
    program: Program, topic: str, broker: Bootstrap
) -> None:
    """An aborted transaction commits no positions."""
    group = f"group-{topic}"
    start(program, topic)
    send(program, topic, "a")
    program.step("offsets", producer="first", topic=topic, group=group, offset=5)
    assert committed(broker.address, group, topic) is None
    program.step("end", producer="first", commits=True)
    deadline = time.monotonic() + 90
    while (found := committed(broker.address, group, topic)) != 5:
        assert time.monotonic() < deadline, found

    send(program, topic, "b")
    program.step("offsets", producer="first", topic=topic, group=group, offset=9)
    program.step("end", producer="first", commits=False)
    # Its marker is there when another transaction can commit.
    send(program, topic, "c")
    program.step("end", producer="first", commits=True)
    assert committed(broker.address, group, topic) == 5
