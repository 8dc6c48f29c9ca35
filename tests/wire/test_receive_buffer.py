"""What the client declares to the kernel about large answers before it reads them."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, cast

import pytest

from ottla.protocol.ports import Address, SocketOptions
from ottla.wire.receive_buffer import AHEAD_BYTES_MAX, LARGE_BYTES_MIN, AnswerBuffer
from tests.support.loops import on_both_loops
from tests.wire.test_real import connected_pair, readable

if TYPE_CHECKING:
    from ottla.protocol.ports import Socket


class NotedSocket:
    """Notes what is declared."""

    def __init__(self) -> None:
        self.awaited: list[int] = []

    def await_bytes(self, count: int) -> None:
        self.awaited.append(count)


async def test_what_is_awaited_is_taken_back_when_the_loop_runs() -> None:
    """A declaration that stays would have a small answer lie in the kernel unseen."""
    noted = NotedSocket()
    receiving = AnswerBuffer(cast("Socket", noted))

    receiving.ahead(LARGE_BYTES_MIN - 1)
    receiving.ahead(LARGE_BYTES_MIN)
    receiving.ahead(LARGE_BYTES_MIN)
    assert noted.awaited == [LARGE_BYTES_MIN]
    await asyncio.sleep(0)
    receiving.ahead(AHEAD_BYTES_MAX + 1)
    await asyncio.sleep(0)

    assert noted.awaited == [LARGE_BYTES_MIN, 0, AHEAD_BYTES_MAX, 0]


async def test_a_net_that_knows_nothing_of_it_will_do() -> None:
    """The simulated one, and those that tests put between."""
    receiving = AnswerBuffer(cast("Socket", Address("no socket", 1)))
    receiving.ahead(LARGE_BYTES_MIN)
    # Nothing is to be taken back.
    assert not receiving._is_ahead


@on_both_loops
async def test_a_small_answer_is_seen_at_once_after_all() -> None:
    """A small answer came while much more was declared: taking that back wakes the reader."""
    client, server = await connected_pair(SocketOptions())
    receiving = AnswerBuffer(client)

    receiving.ahead(LARGE_BYTES_MIN)
    server.sendmsg([b"little"])
    await readable(client)

    assert client.recv_into(memoryview(bytearray(10))) == 6
    client.close()
    receiving.ahead(LARGE_BYTES_MIN)
    await asyncio.sleep(0)
    server.close()


@pytest.mark.soak
@pytest.mark.skipif(sys.platform != "linux", reason="of Linux alone it is known")
@on_both_loops
async def test_a_sender_with_a_small_buffer_continues_while_its_peer_does_not_read() -> None:
    """The purpose of the declaration: without it the sender stops after some segments, until we
    read."""
    client, server = await connected_pair(SocketOptions(send_buffer_bytes=100 * 1024))
    left = memoryview(bytes(2 * 1024 * 1024))
    AnswerBuffer(client).ahead(len(left))
    # Nothing runs in the loop; the kernel acknowledges within the call.
    for _ in range(1_000):
        try:
            left = left[server.sendmsg([left]) :]
        except BlockingIOError:
            break
        if not left:
            break

    assert not left
    client.close()
    server.close()
