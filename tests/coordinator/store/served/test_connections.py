"""What the server does with connections, on sockets that the test fills and empties by hand."""

from __future__ import annotations

import asyncio
import errno
from typing import TYPE_CHECKING, Any

import pytest

from ottla.broker.engine.tasks import Tasks
from ottla.coordinator.store.served import messages
from ottla.coordinator.store.served.messages import Inbox, Open
from ottla.coordinator.store.served.server import StoreServer
from ottla.coordinator.store.store import Create, Replace
from ottla.coordinator.store.zookeeper_requests import Exists, Get
from ottla.protocol.ports import Address
from tests.coordinator.store.disk import PowerCutDisk
from tests.coordinator.store.support import open_store
from tests.coordinator.store.zookeeper_link import HandClock

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ottla.coordinator.store.embedded import EmbeddedStore
    from ottla.protocol.ports import Buffer, SocketOptions


class HandSocket:
    """The server's end; bytes come and go when the test says so."""

    def __init__(self) -> None:
        self.local = self.peer = Address("", 0)
        self.incoming = bytearray()
        self.is_closed = False
        self.room_bytes = 1 << 30
        self._sent = Inbox()
        self.told: list[list[Any]] = []
        self._reader: Callable[[], object] | None = None
        self.writer: Callable[[], object] | None = None

    def recv_into(self, buffer: memoryview) -> int:
        if not self.incoming:
            raise BlockingIOError
        count = min(len(buffer), len(self.incoming))
        buffer[:count] = self.incoming[:count]
        del self.incoming[:count]
        return count

    def sendmsg(self, buffers: Sequence[Buffer], *, more: bool = False) -> int:
        data = b"".join(buffers)[: self.room_bytes]
        if not data:
            raise BlockingIOError
        self.room_bytes -= len(data)
        self.told += self._sent.take(memoryview(data))
        return len(data)

    def sendfile(self, file: object, position: int, count: int) -> int:
        raise NotImplementedError

    def has_hung_up(self) -> bool:
        return self.is_closed

    def on_readable(self, callback: Callable[[], object] | None) -> None:
        self._reader = callback

    def on_writable(self, callback: Callable[[], object] | None) -> None:
        self.writer = callback

    def close(self) -> None:
        self.is_closed, self._reader, self.writer = True, None, None

    def take(self, *what: bytes) -> None:
        """Bytes arrive, and the server reads them."""
        self.incoming += b"".join(what)
        if self._reader is not None:
            self._reader()

    async def give(self, *what: bytes) -> None:
        """The same, and the server's tasks run."""
        self.take(*what)
        await settle()


class HandNet:
    """Accepts what the test hands over."""

    def __init__(self) -> None:
        self.address = Address("", 0)
        self._waiting: list[HandSocket] = []
        self._reader: Callable[[], object] | None = None
        self.is_exhausted = False
        self.accept_count = 0

    def listen(self, address: Address, options: SocketOptions) -> HandNet:
        return self

    async def connect(self, address: Address, options: SocketOptions) -> HandSocket:
        raise NotImplementedError

    def accept(self) -> HandSocket:
        self.accept_count += 1
        if self.is_exhausted:
            raise OSError(errno.EMFILE, "too many open files")
        return self._waiting.pop()

    def on_readable(self, callback: Callable[[], object] | None) -> None:
        self._reader = callback
        self.poll()

    def poll(self) -> None:
        """Call the reader as long as a connection waits and it wants to be called."""
        for _ in range(10):
            if self._waiting and self._reader is not None:
                self._reader()

    def close(self) -> None:
        """Nothing to do."""

    def come(self) -> HandSocket:
        """A new connection."""
        socket = HandSocket()
        self._waiting.append(socket)
        assert self._reader is not None
        self.poll()
        return socket


async def settle() -> None:
    """Let tasks and flushes run."""
    for _ in range(10):
        await asyncio.sleep(0)


class Stage:
    """A server with its store."""

    def __init__(self, store: EmbeddedStore, disk: PowerCutDisk) -> None:
        self.store = store
        self.disk = disk
        self.net = HandNet()
        self.clock = HandClock()
        self.tasks = Tasks()
        self.server = StoreServer(store, self.net, self.clock, self.tasks.spawn)
        self.server.listen(Address("", 0))

    async def connect(self, session_id: int = 0, timeout_ms: int = 6_000) -> HandSocket:
        """A connection that has asked for its session."""
        socket = self.net.come()
        await socket.give(messages.encode_open(Open(session_id, timeout_ms, 1)))
        return socket


@pytest.fixture
async def stage() -> Stage:
    disk = PowerCutDisk()
    return Stage(await open_store(disk), disk)


def request(one: Any) -> bytes:
    return messages.encode_request(one)


async def test_unread_requests_of_a_session_are_not_executed_later(stage: Stage) -> None:
    """The owner has looked by then, did not find it, and has decided (P-08)."""
    before = await stage.connect()
    session_id = before.told[0][1]
    before.incoming += request(Create("/late"))
    after = await stage.connect(session_id)

    assert before.is_closed
    await before.give()
    await after.give(request(Exists("/late")))
    assert after.told == [["opened", session_id, 6_000], ["answer", None]]


async def test_a_session_has_no_watches_after_a_new_connection(stage: Stage) -> None:
    """Its owner has dropped them, and reads again (C-07)."""
    before = await stage.connect()
    await before.give(request(Create("/a")), request(Get("/a", watched=True)))
    after = await stage.connect(before.told[0][1])
    await after.give(request(Replace("/a", b"1")))

    assert [told[0] for told in after.told] == ["opened", "answer"]


async def test_an_event_comes_after_the_answer_that_armed_it(stage: Stage) -> None:
    """And in front of the first one that shows the change, while all of it waits for the disk."""
    reader, writer = await stage.connect(), await stage.connect()
    await writer.give(request(Create("/a", b"0")))
    # In one turn of the loop: nothing of it is durable before its end.
    writer.take(request(Replace("/a", b"1")))
    reader.take(request(Get("/a", watched=True)))
    writer.take(request(Replace("/a", b"2")))
    reader.take(request(Get("/a")))
    assert len(reader.told) == 1
    await settle()

    assert [told[:2] if told[0] == "event" else told[1][0] for told in reader.told[1:]] == [
        "1",
        ["event", "changed"],
        "2",
    ]


async def test_an_unknown_session_is_over(stage: Stage) -> None:
    """Its owner opens another one."""
    socket = await stage.connect(session_id=99)

    assert socket.told == [["ended", "the session is over"]]
    assert socket.is_closed


async def test_silence_ends_a_session_and_a_look_reads_first(stage: Stage) -> None:
    """What has arrived counts, even if the loop had no time to read it."""
    quiet, busy = await stage.connect(), await stage.connect()
    for _ in range(9):
        stage.clock.advance(700)
        busy.incoming += request(Exists("/"))
    await settle()

    assert quiet.told[-1][0] == "ended"
    assert {told[0] for told in busy.told} == {"opened", "answer"}


async def test_a_session_that_is_taken_up_again_has_its_whole_timeout(stage: Stage) -> None:
    """Its owner counts from that request on, and would lead after the store has given it up
    (C-06)."""
    before = await stage.connect()
    session_id = before.told[0][1]
    for _ in range(8):
        stage.clock.advance(700)
    after = await stage.connect(session_id)
    for _ in range(8):
        stage.clock.advance(700)
    await settle()
    assert after.told == [["opened", session_id, 6_000]]

    for _ in range(2):
        stage.clock.advance(700)
    await settle()
    assert after.told[-1][0] == "ended"


async def test_a_session_that_ends_on_a_full_disk_is_gone_when_there_is_room(stage: Stage) -> None:
    """A process that dies must not stop those of all other brokers, nor seem to live for ever."""
    closes, dies, sleeps = [await stage.connect() for _ in range(3)]
    for number, socket in enumerate((closes, dies, sleeps)):
        await socket.give(request(Create(f"/{number}", ephemeral=True)))
    stage.disk.free = 0
    await closes.give(messages.encode_close())
    ended = asyncio.create_task(stage.server.end_sessions_of(1))
    await settle()
    assert [socket.told[-1][0] for socket in (closes, dies, sleeps)] == ["ended"] * 3
    assert stage.tasks.crash_count == 0

    stage.disk.free = 1 << 40
    stage.clock.advance(1_000)
    await ended
    await settle()
    assert stage.store.read_tree().children("/") == []


async def test_silence_on_a_full_disk_ends_a_session_later(stage: Stage) -> None:
    """The same where no process has died."""
    silent = await stage.connect()
    await silent.give(request(Create("/a", ephemeral=True)))
    stage.disk.free = 0
    for _ in range(9):
        stage.clock.advance(700)
    await settle()
    assert silent.told[-1][0] == "ended"
    assert stage.tasks.crash_count == 0

    stage.disk.free = 1 << 40
    stage.clock.advance(1_000)
    await settle()
    assert stage.store.read_tree().children("/") == []


@pytest.mark.parametrize(
    "data",
    [request(Exists("/")), b"\xff\xff\xff\xff", messages.encode_parts("open", 9, 0, 1, 1)],
)
async def test_a_connection_that_does_not_begin_well_is_closed(stage: Stage, data: bytes) -> None:
    """Another program, or another version."""
    socket = stage.net.come()
    await socket.give(data)

    assert socket.is_closed
    assert socket.told == []


async def test_a_reader_that_is_slow_gets_everything_in_order(stage: Stage) -> None:
    """The kernel takes a part of an answer."""
    socket = await stage.connect()
    socket.room_bytes = 3
    await socket.give(request(Create("/a", b"x" * 100)), request(Exists("/a")), request(Get("/a")))
    while socket.writer is not None:
        socket.room_bytes = 7
        socket.writer()

    assert [told[0] for told in socket.told] == ["opened", "answer", "answer", "answer"]


async def test_a_write_that_may_not_be_durable_is_not_confirmed(stage: Stage) -> None:
    """The session ends without an answer (S-09)."""
    socket = await stage.connect()
    stage.disk.fsync_error = OSError(5, "broken")
    await socket.give(request(Create("/a")))

    assert [told[0] for told in socket.told] == ["opened", "ended"]


async def test_without_free_descriptors_the_server_accepts_again_after_a_second(
    stage: Stage,
) -> None:
    """The listener stays readable: accepting at once again would use a whole core."""
    stage.net.is_exhausted = True
    socket = stage.net.come()
    assert stage.net.accept_count == 1
    stage.net.is_exhausted = False
    stage.clock.advance(1_100)
    await socket.give(messages.encode_open(Open(0, 6_000, 1)))
    assert socket.told[0][0] == "opened"
