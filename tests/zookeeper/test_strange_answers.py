"""Answers that are not what they should be: one sentence, and never a session that hangs."""

from __future__ import annotations

import asyncio
import struct
import sys
from asyncio.subprocess import PIPE
from typing import TYPE_CHECKING

import pytest

from ottla.coordinator.store.store import (
    AnswerUnreadable,
    ConnectionLoss,
    Create,
    SessionState,
    StoreError,
)
from tests.support.ports import free_ports
from tests.zookeeper.sessions import open_store, states_of, until
from tests.zookeeper.shared import fresh_place, shared_server
from tests.zookeeper.strange import ANSWERED, GROUP, StrangeRelay

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CREATE, CREATE2, GET = 1, 15, 4
HEAD = ANSWERED.size


def other_call(answer: bytes) -> bytes:
    """The first operation's result is named as that of another call."""
    kind = struct.unpack_from("!i", answer, HEAD)[0]
    changed = CREATE2 if kind == CREATE else CREATE
    return answer[:HEAD] + struct.pack("!i", changed) + answer[HEAD + 4 :]


def with_error(code: int) -> Callable[[bytes], bytes]:
    """The answer is a refusal of the whole request."""

    def change(answer: bytes) -> bytes:
        number, transaction, _ = ANSWERED.unpack_from(answer)
        return ANSWERED.pack(number, transaction, code)

    return change


def with_number(answer: bytes) -> bytes:
    """It answers a request that was never sent."""
    number, *rest = ANSWERED.unpack_from(answer)
    return ANSWERED.pack(number + 7, *rest) + answer[HEAD:]


@pytest.mark.parametrize("change", [other_call, lambda answer: answer[: HEAD + 3]])
async def test_an_unreadable_answer_is_told_and_the_session_goes_on(
    change: Callable[[bytes], bytes],
) -> None:
    """The next connection starts over, and the change that was made is visible on it."""
    chroot = fresh_place().partition("/")[2]
    async with StrangeRelay(shared_server().port, GROUP, change) as relay:
        store = await open_store(f"{relay.address}/{chroot}")
        session = await store.connect(10_000)
        states = states_of(session)
        with pytest.raises(AnswerUnreadable, match=r"MultiOperation cannot be read"):
            await session.multi([Create("/a"), Create("/b")])
        await until(lambda: session.state is SessionState.CONNECTED)

        assert await session.children("/") == ["a", "b"]
        assert states == [SessionState.SUSPENDED, SessionState.CONNECTED]
        assert relay.accepted == 2
        await store.close()


@pytest.mark.parametrize("change", [with_number, lambda _answer: b"?"])
async def test_an_answer_without_a_place_ends_the_connection_alone(
    change: Callable[[bytes], bytes],
) -> None:
    """The thread that reads would have ended with a traceback, and the session with it."""
    chroot = fresh_place().partition("/")[2]
    async with StrangeRelay(shared_server().port, GET, change) as relay:
        store = await open_store(f"{relay.address}/{chroot}")
        session = await store.connect(10_000)
        session_id = session.session_id
        with pytest.raises(ConnectionLoss):
            await session.get("/")
        relay.is_strange = False
        await until(lambda: session.state is SessionState.CONNECTED)

        assert (await session.get("/")).data == b""
        assert session.session_id == session_id
        await store.close()


async def test_a_refusal_without_a_name_is_a_refusal() -> None:
    """Newer servers have more codes than the library that reads them, such as for quotas."""
    chroot = fresh_place().partition("/")[2]
    async with StrangeRelay(shared_server().port, GET, with_error(-130)) as relay:
        store = await open_store(f"{relay.address}/{chroot}")
        session = await store.connect(10_000)
        with pytest.raises(StoreError, match="error -130") as refused:
            await session.get("/")

        assert not isinstance(refused.value, ConnectionLoss)
        assert session.state is SessionState.CONNECTED
        await store.close()


async def test_a_broker_that_cannot_read_the_answers_says_so_and_ends(tmp_path: Path) -> None:
    """The broker used to wait for ever: with ZooKeeper 3.8.0, say, as Debian 12 has it."""
    chroot = fresh_place().partition("/")[2]
    async with StrangeRelay(shared_server().port, GROUP, other_call) as relay:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "ottla", "start", "--id", "1"),
            *("--port", str(free_ports(1)[0]), "--data-dir", str(tmp_path / "data")),
            *("--zookeeper", f"{relay.address}/{chroot}"),
            stdout=PIPE,
            stderr=PIPE,
        )
        output, errors = await process.communicate()

    assert (process.returncode, output) == (1, b"")
    assert b"Traceback" not in errors
    last = errors.decode().splitlines()[-1]
    assert "what ZooKeeper answers to MultiOperation cannot be read" in last
    assert "3.5 to 3.9" in last
