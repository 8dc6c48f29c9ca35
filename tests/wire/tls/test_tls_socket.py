"""Tests of the encrypted socket: it keeps the promises of a plain one, however bytes are cut."""

from __future__ import annotations

import asyncio
import contextlib
import random
import weakref
from typing import TYPE_CHECKING

import pytest

from ottla.broker.network.transport import BufferedTransport
from ottla.wire.tls.client_tls import FileTls
from ottla.wire.tls.contexts import server_context
from ottla.wire.tls.failures import TlsError
from ottla.wire.tls.session import TlsSession
from ottla.wire.tls.settings import tls_settings
from ottla.wire.tls.stores import material_of
from ottla.wire.tls.tls_socket import ENCRYPTED_BYTES_MAX, TlsSocket
from tests.support import certificates
from tests.support.memory_sockets import MemorySocket, connected

if TYPE_CHECKING:
    from collections.abc import Callable

HOST = "127.0.0.1"


def sessions(**versions: str) -> tuple[TlsSession, TlsSession]:
    """Of a broker and a client, after the handshake."""
    texts = {"ssl.keystore.location": certificates.store("broker"), **versions}
    settings = tls_settings(texts)
    server = TlsSession(server_context(settings, material_of(settings, read)), is_server=True)
    client = FileTls(tls_settings({"ssl.ca.location": certificates.trust()})).session(HOST)
    for _ in range(4):
        client.shake()
        server.incoming.write(client.outgoing.read())
        server.shake()
        client.incoming.write(server.outgoing.read())
    return server, client


def read(path: str) -> bytes:
    """The content of a file."""
    with open(path, "rb") as file:
        return file.read()


class Pair:
    """A broker's and a client's end, and the sockets below them."""

    def __init__(
        self,
        cut: Callable[[], int] = lambda: 2**30,
        room: int = 2**30,
        version: str = "TLSv1.2,TLSv1.3",
    ) -> None:
        self.below_server, self.below_client = connected(cut, room)
        server, client = sessions(**{"ssl.enabled.protocols": version})
        self.server = TlsSocket(self.below_server, server, None)
        self.client = TlsSocket(self.below_client, client, HOST)


def received(socket: TlsSocket, count: int, window: int = 100_000) -> bytes:
    """What can be read now, up to ``count`` bytes."""
    got = bytearray()
    buffer = memoryview(bytearray(window))
    while len(got) < count:
        try:
            size = socket.recv_into(buffer)
        except BlockingIOError:
            break
        if not size:
            break
        got += buffer[:size]
    return bytes(got)


def exchanged(sender: TlsSocket, receiver: TlsSocket, content: bytes, step: int) -> bytes:
    """Send all of it in steps of that size, reading on the other side meanwhile."""
    sent, got = 0, bytearray()
    while len(got) < len(content):
        if sent < len(content):
            with contextlib.suppress(BlockingIOError):
                sent += sender.sendmsg([content[sent : sent + step]])
        try:
            window = memoryview(bytearray(step))
            got += window[: receiver.recv_into(window)]
        except BlockingIOError:
            pass
    return bytes(got)


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_bytes_arrive_unchanged_when_one_byte_moves_at_a_time(version: str) -> None:
    """Every place at which a record can be cut is met."""
    pair = Pair(cut=lambda: 1, version=version)
    content = random.Random(1).randbytes(2_000)

    assert exchanged(pair.client, pair.server, content, 700) == content
    assert exchanged(pair.server, pair.client, content[::-1], 700) == content[::-1]


@pytest.mark.parametrize("seed", range(8))
def test_large_messages_arrive_unchanged_under_random_cuts(seed: int) -> None:
    """Full buffers in the kernel and partial records are what a busy broker sees all the time."""
    chance = random.Random(seed)
    pair = Pair(cut=lambda: chance.choice((1, 5, 100, 16_384, 70_000)), room=90_000)
    content = chance.randbytes(1_500_000)

    for sender, receiver in ((pair.server, pair.client), (pair.client, pair.server)):
        assert exchanged(sender, receiver, content, chance.choice((1_000, 65_536, 400_000))) == (
            content
        )


def test_what_counts_as_sent_is_with_the_kernel() -> None:
    """A connection that closes after its last answer was sent must not lose the end of it."""
    pair = Pair(room=50_000)
    content = random.Random(3).randbytes(300_000)
    with pytest.raises(BlockingIOError):
        pair.server.sendmsg([content])

    sent = 0
    while sent < len(content):
        before = len(received(pair.client, 2**30))
        assert before >= 0
        try:
            sent += pair.server.sendmsg([content[sent:]])
        except BlockingIOError:
            continue
    pair.server.close()
    # Nothing of it waits in this process.
    assert not pair.server.session.outgoing.pending
    assert sent == len(content)


def test_bytes_that_are_offered_again_are_not_encrypted_twice() -> None:
    """The first try encrypts a piece that the kernel takes only in part; the next one goes on."""
    pair = Pair(room=1_000)
    content = random.Random(4).randbytes(5_000)
    got = bytearray()
    for _ in range(20):
        try:
            sent = pair.server.sendmsg([content[:2_000], content[2_000:]])
            break
        except BlockingIOError:
            got += received(pair.client, 2**30)
    got += received(pair.client, 2**30)

    assert sent == len(content)
    assert bytes(got) == content


def test_more_bytes_may_be_offered_than_at_the_first_try() -> None:
    """Answers that were given meanwhile join those that found no room."""
    pair = Pair(room=500)
    with pytest.raises(BlockingIOError):
        pair.server.sendmsg([b"a" * 600])
    got = received(pair.client, 2**30)
    pair.below_server.outbox.room = 2**30

    assert pair.server.sendmsg([b"a" * 600 + b"b" * 10, b"c" * 200_000]) == 200_610
    got += received(pair.client, 2**30)
    assert got == b"a" * 600 + b"b" * 10 + b"c" * 200_000


def test_buffers_of_one_call_leave_in_few_records() -> None:
    """A produce request has several parts; each record costs 22 bytes and a call."""
    pair = Pair()
    pair.client.sendmsg([b"x" * 10] * 50)

    assert len(pair.below_client.outbox.takes) == 1
    assert len(pair.below_client.outbox.content) < 600
    assert received(pair.server, 500) == b"x" * 500


def test_the_kernel_hears_that_more_follows() -> None:
    """A packet is not sent half empty in front of the rest of an answer."""
    pair = Pair()
    pair.server.sendmsg([b"x" * (ENCRYPTED_BYTES_MAX + 1)])
    pair.server.sendmsg([b"y"], more=True)

    assert pair.below_server.outbox.announced == [True, False, True]


class Reads:
    """Reads a few bytes at each call, as a connection with a full buffer does."""

    def __init__(self, socket: TlsSocket, window: int) -> None:
        self.socket = socket
        self.got = bytearray()
        self.window = memoryview(bytearray(window))
        self.calls = 0
        self.has_ended = False

    def __call__(self) -> None:
        self.calls += 1
        try:
            count = self.socket.recv_into(self.window)
        except BlockingIOError:
            return
        self.got += self.window[:count]
        if not count:
            self.has_ended = True
            self.socket.on_readable(None)


async def turns(count: int = 60) -> None:
    """Let the loop run its callbacks."""
    for _ in range(count):
        await asyncio.sleep(0)


async def test_the_reader_is_called_until_all_that_was_received_is_read() -> None:
    """The kernel has nothing more to announce: the bytes wait inside of the session."""
    pair = Pair()
    reads = Reads(pair.server, 1_000)
    pair.server.on_readable(reads)
    pair.client.sendmsg([bytes(30_000)])
    assert pair.below_server.reader is not None
    pair.below_server.reader()  # once, as for one event

    await turns()
    assert len(reads.got) == 30_000
    calls = reads.calls
    await turns()
    assert reads.calls == calls, "a reader with nothing to read is not called"


async def test_a_reader_that_comes_later_is_called_for_bytes_that_came_before() -> None:
    """A connection that was blocked by a quota reads on when the quota allows it."""
    pair = Pair()
    first = memoryview(bytearray(10))
    pair.client.sendmsg([b"0123456789abcdef"])
    assert pair.server.recv_into(first) == 10
    await turns()

    reads = Reads(pair.server, 100)
    pair.server.on_readable(reads)
    await turns()
    assert bytes(reads.got) == b"abcdef"


async def test_a_part_of_a_record_does_not_call_the_reader_again_and_again() -> None:
    """A reader with a full buffer is called again for what is left. If that is only a part of a
    record, the loop would spin until the peer sends the rest."""
    below_server, below_client = connected()
    server, client = sessions()
    socket = TlsSocket(below_server, server, None)
    client.tls.write(b"a" * 100)
    client.tls.write(b"b" * 100)
    ciphertext = client.outgoing.read()
    buffer = memoryview(bytearray(100))
    got: list[bytes] = []
    call_count = 0

    def on_readable() -> None:
        nonlocal call_count
        call_count += 1
        with contextlib.suppress(BlockingIOError):
            got.append(bytes(buffer[: socket.recv_into(buffer)]))

    socket.on_readable(on_readable)
    below_client.sendmsg([ciphertext[:-5]])
    on_readable()
    await turns()
    assert (got, call_count) == ([b"a" * 100], 2)

    below_client.sendmsg([ciphertext[-5:]])
    on_readable()
    await turns()
    assert (got, call_count) == ([b"a" * 100, b"b" * 100], 3)


async def test_a_reader_that_was_removed_is_not_called() -> None:
    """It would read into the buffers of a connection that is closed."""
    pair = Pair()
    reads = Reads(pair.server, 5)
    pair.client.sendmsg([bytes(100)])
    pair.server.on_readable(reads)
    reads()
    pair.server.on_readable(None)

    await turns()
    assert reads.calls == 1


@pytest.mark.parametrize("says_so", [True, False])
async def test_the_end_comes_after_the_last_bytes(says_so: bool) -> None:
    """With a close_notify or without one, as when the peer's process is killed."""
    pair = Pair()
    reads = Reads(pair.server, 1_000)
    pair.server.on_readable(reads)
    pair.client.sendmsg([b"last words"])
    if says_so:
        pair.client.close()
    else:
        pair.below_client.close()
    assert pair.below_server.reader is not None
    pair.below_server.reader()

    await turns()
    if not says_so:
        pair.below_server.reader()  # a kernel says again and again that there is an end to read
    assert bytes(reads.got) == b"last words"
    assert reads.has_ended
    assert pair.server.has_hung_up()


def test_a_changed_record_ends_the_connection_after_the_intact_ones() -> None:
    """A forged byte must reach no request, and the peer learns of it by an alert."""
    pair = Pair()
    pair.client.sendmsg([b"good"])
    pair.client.sendmsg([b"evil"])
    pair.below_server.inbox.content[-1] ^= 1

    assert received(pair.server, 4) == b"good"
    with pytest.raises(TlsError, match=r"bad record mac|decryption failed"):
        pair.server.recv_into(memoryview(bytearray(10)))
    with pytest.raises(TlsError, match="bad record mac"):
        received(pair.client, 1)


def test_closing_says_so_once_and_not_into_the_middle_of_a_record() -> None:
    """A close_notify between two halves of a record would spoil what did arrive."""
    whole, cut = Pair(), Pair(room=100)
    whole.server.close()
    whole.server.close()
    assert len(whole.below_server.outbox.takes) == 1
    assert whole.below_server.is_closed

    with pytest.raises(BlockingIOError):
        cut.server.sendmsg([bytes(1_000)])
    cut.below_server.outbox.room = 2**30
    cut.server.close()
    assert len(cut.below_server.outbox.content) == 100


def test_a_closed_socket_keeps_none_of_openssls_memory() -> None:
    """A broker refers to it until the garbage collector comes, which does not see that memory."""
    pair = Pair()
    tls = weakref.ref(pair.server.session.tls)
    pair.server.close()

    assert tls() is None
    with pytest.raises(TlsError, match="closed"):
        pair.server.recv_into(memoryview(bytearray(10)))
    with pytest.raises(OSError, match="closed"):
        pair.server.sendmsg([b"late"])


class Region:
    """A file of letters."""

    path = "letters"
    size_bytes = 500_000

    def pread(self, count: int, position: int) -> bytes:
        return (b"abcdefghij" * 50_000)[position : position + count]


@pytest.mark.requirement("NET-14")
def test_file_regions_are_read_and_encrypted() -> None:
    """There is no sendfile, and the records have to arrive all the same."""
    pair = Pair(room=60_000)
    transport = BufferedTransport(pair.server)
    file, position, got = Region(), 3, bytearray()
    with pytest.raises(NotImplementedError):
        pair.server.sendfile(file, 0, 1)  # type: ignore[arg-type]

    while position < 400_003:
        with contextlib.suppress(BlockingIOError):
            position += transport.transfer_from(file, position, 400_003 - position)  # type: ignore[arg-type]
        got += received(pair.client, 2**30)
    assert bytes(got) == file.pread(400_000, 3)


def test_a_session_tells_who_the_peer_is() -> None:
    """Principals come from the verified certificate; a client that shows none has none."""
    pair = Pair()

    assert pair.server.session.peer_certificate is None
    assert pair.client.session.peer_certificate is not None
    assert pair.client.session.version == "TLSv1.3"
    assert "GCM" in pair.client.session.cipher or "CHACHA20" in pair.client.session.cipher


def test_memory_sockets_are_what_the_encrypted_socket_expects() -> None:
    """The end of the plain socket is passed on where no byte came before it."""
    server, client = connected()
    assert isinstance(server, MemorySocket)
    client.close()
    assert server.recv_into(memoryview(bytearray(1))) == 0
