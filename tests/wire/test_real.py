"""The real clock, randomness and network, on loopback sockets and both event loops."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import tempfile
import threading
from typing import TYPE_CHECKING

import pytest

from ottla.protocol.ports import Address, SocketOptions
from ottla.wire.clock import RealClock
from ottla.wire.real import RESERVED_PART, RealNet, RealRandom
from tests.support.loops import on_both_loops

if TYPE_CHECKING:
    from ottla.wire.real import RealListener, RealSocket

ANY_PORT = Address("127.0.0.1", 0)
DEFAULTS = SocketOptions()


class OpenedFile:
    """Just enough of the File seam for sendfile: a temporary file that holds some bytes."""

    def __init__(self, content: bytes) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115
        self._file.write(content)
        self._file.flush()
        self.path = ""
        self.size_bytes = len(content)

    def fileno(self) -> int:
        return self._file.fileno()

    def close(self) -> None:
        self._file.close()


async def readable(ready: RealSocket | RealListener) -> None:
    """Wait until the socket or listener calls back once."""
    called = asyncio.Event()
    ready.on_readable(called.set)
    await called.wait()
    ready.on_readable(None)


async def connected_pair(options: SocketOptions = DEFAULTS) -> tuple[RealSocket, RealSocket]:
    """A connected and an accepted socket."""
    net = RealNet()
    listener = net.listen(ANY_PORT, options)
    connecting = asyncio.ensure_future(net.connect(listener.address, options))
    await readable(listener)
    accepted = listener.accept()
    listener.close()
    return await connecting, accepted


async def receive(source: RealSocket, count: int) -> bytes:
    """Exactly that many bytes."""
    received = bytearray(count)
    view = memoryview(received)
    position = 0
    while position < count:
        try:
            got = source.recv_into(view[position:])
        except BlockingIOError:
            await readable(source)
            continue
        assert got, "the peer closed early"
        position += got
    return bytes(received)


@on_both_loops
async def test_timer_never_runs_before_its_deadline_on_the_same_clock() -> None:
    """A purgatory that wakes early finds nothing due, parks again and would spin."""
    clock = RealClock()
    early: list[float] = []
    waiting = []
    for delay_ms in (0.0, 0.3, 1.4, 2.5, 7.7):
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        deadline_ms = clock.now_ms() + delay_ms

        def fired(due: float = deadline_ms, then: asyncio.Future[None] = done) -> None:
            early.append(max(0.0, due - clock.now_ms()))
            then.set_result(None)

        clock.call_at(deadline_ms, fired)
        waiting.append(done)
    await asyncio.gather(*waiting)

    assert early == [0.0] * 5


@on_both_loops
async def test_cancelled_timer_never_runs() -> None:
    """Cancelling is how a request that was answered in time leaves the waiting list."""
    clock = RealClock()
    ran: list[str] = []
    timer = clock.call_at(clock.now_ms() + 1, lambda: ran.append("cancelled"))
    timer.cancel()
    timer.cancel()
    await clock.sleep(5)

    assert ran == []


@on_both_loops
async def test_bytes_cross_a_connection_in_order() -> None:
    """The seam must keep the order of several buffers in one call."""
    client, server = await connected_pair()
    sent = client.sendmsg([b"one ", bytearray(b"two "), memoryview(b"three")])
    assert await receive(server, 13) == b"one two three"

    assert sent == 13
    assert client.local == server.peer
    assert server.local == client.peer
    client.close()
    server.close()


@on_both_loops
async def test_more_buffers_than_the_kernel_takes_are_sent_as_a_prefix() -> None:
    """sendmsg refuses more than 1024 buffers with EMSGSIZE, which would close the connection."""
    client, server = await connected_pair()

    assert client.sendmsg([b"x"] * 3000) == 1024
    client.close()
    server.close()


@on_both_loops
async def test_end_of_stream_reads_as_zero_and_empty_as_blocking() -> None:
    """The two must not be confused: one closes the connection, the other waits."""
    client, server = await connected_pair()
    buffer = memoryview(bytearray(10))
    with pytest.raises(BlockingIOError):
        server.recv_into(buffer)
    client.close()
    client.close()
    await readable(server)

    assert server.recv_into(buffer) == 0
    server.close()


@on_both_loops
async def test_sendfile_sends_a_region_and_zero_past_the_end() -> None:
    """A region that ended early (truncated log) must be noticed, never padded (S-20)."""
    client, server = await connected_pair()
    file = OpenedFile(b"0123456789")
    sent = client.sendfile(file, 2, 5)  # type: ignore[arg-type]
    past = client.sendfile(file, 10, 5)  # type: ignore[arg-type]

    assert (sent, past) == (5, 0)
    assert await receive(server, 5) == b"23456"
    file.close()
    client.close()
    server.close()


@on_both_loops
async def test_a_closed_socket_sends_nothing_into_the_connection_that_came_after_it() -> None:
    """The kernel gives a descriptor's number to the next connection, whose peer would get the rest
    of another connection's records."""
    client, server = await connected_pair()
    client.close()
    next_client, next_server = await connected_pair()
    file = OpenedFile(b"0123456789")

    with pytest.raises(OSError, match="descriptor"):
        client.sendfile(file, 0, 10)  # type: ignore[arg-type]
    with pytest.raises(BlockingIOError):
        next_server.recv_into(memoryview(bytearray(1)))
    file.close()
    for one in (server, next_client, next_server):
        one.close()


@on_both_loops
async def test_writable_calls_back_when_the_peer_reads_again() -> None:
    """NET-07 rests on this: a full socket must not be polled or blocked on."""
    client, server = await connected_pair(SocketOptions(send_buffer_bytes=16384))
    sent = 0
    with contextlib.suppress(BlockingIOError):
        while True:
            sent += client.sendmsg([bytes(65536)])
    room = asyncio.Event()
    client.on_writable(room.set)
    await receive(server, sent)
    await room.wait()
    client.on_writable(None)

    assert client.sendmsg([b"x"]) == 1
    client.close()
    server.close()


@on_both_loops
async def test_connect_to_a_closed_port_is_refused() -> None:
    """Failure detection counts on refusals being told apart from silence."""
    net = RealNet()
    listener = net.listen(ANY_PORT, DEFAULTS)
    address = listener.address
    listener.close()

    with pytest.raises(ConnectionRefusedError):
        await net.connect(address, DEFAULTS)


@on_both_loops
async def test_a_numeric_address_needs_no_thread() -> None:
    """A connection to it neither waits for a thread nor leaves one behind."""
    net = RealNet()
    listener = net.listen(ANY_PORT, DEFAULTS)
    threads = set(threading.enumerate())

    numeric = await net.connect(listener.address, DEFAULTS)

    assert set(threading.enumerate()) <= threads
    named = await net.connect(Address("localhost", listener.address.port), DEFAULTS)
    assert named.peer == listener.address
    for one in (numeric, named, listener):
        one.close()


@on_both_loops
async def test_port_can_be_taken_again_at_once() -> None:
    """A broker that crashed with open connections must come back on its own port."""
    client, server = await connected_pair()
    port = server.local.port
    server.close()
    client.close()
    listener = RealNet().listen(Address("127.0.0.1", port), DEFAULTS)

    assert listener.address.port == port
    listener.close()


@on_both_loops
async def test_the_last_descriptors_are_kept_for_files() -> None:
    """S-30: a thousand idle connections must not take the logs of a broker offline."""
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # Above all that this process has already: numbers in between would not be free.
    limit = max(map(int, os.listdir("/dev/fd"))) + 80
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    with contextlib.ExitStack() as opened:
        opened.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        listener = RealNet().listen(ANY_PORT, DEFAULTS)
        opened.callback(listener.close)
        address = (listener.address.host, listener.address.port)

        def connect_without_end() -> None:
            while True:
                opened.callback(socket.create_connection(address).close)
                opened.callback(listener.accept().close)

        with pytest.raises(OSError, match="kept for files"):
            connect_without_end()
        for _ in range(limit // RESERVED_PART - 1):
            opened.enter_context(tempfile.TemporaryFile())


@on_both_loops
async def test_connections_are_prepared_for_small_answers_and_vanished_peers() -> None:
    """Nagle's delay would cost 40 ms per answer; a half-open peer would stay for ever (N-06)."""
    client, server = await connected_pair(SocketOptions(send_buffer_bytes=102400))
    raw = server._socket

    assert raw.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
    assert raw.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
    assert raw.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 180_000
    assert raw.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) == 2 * 102400
    client.close()
    server.close()


@on_both_loops
async def test_a_listener_that_wants_to_know_of_a_cut_soon_is_told_soon() -> None:
    """Asking again ever less often, TCP finds a healed network half a minute late."""
    client, server = await connected_pair(SocketOptions(silence_ms_max=3_000))
    raw = client._socket

    assert raw.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 3_000
    assert raw.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 1
    assert raw.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL) == 1
    assert raw.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT) == 2
    client.close()
    server.close()


@on_both_loops
async def test_dual_stack_peer_is_shown_as_ipv4() -> None:
    """Quotas and access rules compare addresses as text."""
    net = RealNet()
    listener = net.listen(Address("", 0), DEFAULTS)
    connecting = asyncio.ensure_future(
        net.connect(Address("127.0.0.1", listener.address.port), DEFAULTS)
    )
    await readable(listener)
    accepted = listener.accept()

    assert accepted.peer.host == "127.0.0.1"
    accepted.close()
    (await connecting).close()
    listener.close()


def test_random_draws_stay_in_range_and_children_differ() -> None:
    """Ids come from here; a constant would make two fetch sessions one."""
    random = RealRandom()

    assert 0 <= random.random() < 1
    assert {random.below(3) for _ in range(200)} == {0, 1, 2}
    assert len(random.token(16)) == 16
    assert random.child("a").token(16) != random.child("a").token(16)


@on_both_loops
async def test_a_wait_may_be_without_end() -> None:
    """``poll(float("inf"))`` waits without end, which no loop takes as a delay."""
    rung: list[float] = []
    timer = RealClock().call_at(float("inf"), lambda: rung.append(0.0))
    await asyncio.sleep(0.01)
    timer.cancel()

    assert rung == []
