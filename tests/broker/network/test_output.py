"""The queue of answers of one connection, over transports that take what they like."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.network.output import BYTES_PER_TURN_MAX, JOINED_BYTES_MAX, Output
from ottla.broker.network.request import Request
from ottla.broker.network.transport import BufferedTransport, PlaintextTransport
from ottla.protocol.ports import Address, FileRegion
from tests.support.unconnected import UnconnectedPeer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ottla.broker.engine.context import ReplyPart
    from ottla.protocol.ports import Buffer, File, Socket, Transport


class MemoryFile:
    """A file of the Disk seam, in memory; only what regions need."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.path = "memory"
        self.pread_bytes = 0

    @property
    def size_bytes(self) -> int:
        return len(self.content)

    def fileno(self) -> int:
        raise NotImplementedError

    def append(self, buffers: Sequence[Buffer]) -> int:
        raise NotImplementedError

    def pread(self, count: int, position: int) -> bytes:
        found = self.content[position : position + count]
        self.pread_bytes += len(found)
        return found

    def is_resident(self, position: int, count: int) -> bool:
        return True

    def truncate(self, size_bytes: int) -> None:
        self.content = self.content[:size_bytes]

    async def fsync(self) -> None:
        return None


class ChokingSocket:
    """A socket of the Net seam that takes the next number of bytes from a list, 0 for 'full'."""

    def __init__(self, takes: list[int], *, has_sendfile: bool = True) -> None:
        self.takes = takes
        self.has_sendfile = has_sendfile
        self.sent = bytearray()
        self.calls: list[str] = []
        self.local = self.peer = Address("127.0.0.1", 1)

    def _take(self) -> int:
        taken = self.takes.pop(0) if self.takes else 2**31
        if taken == 0:
            raise BlockingIOError
        return taken

    def recv_into(self, buffer: memoryview) -> int:
        raise BlockingIOError

    def sendmsg(self, buffers: Sequence[Buffer], *, more: bool = False) -> int:
        joined = b"".join(buffers)[: self._take()]
        self.calls.append("more" if more else "send")
        self.sent += joined
        return len(joined)

    def sendfile(self, file: File, position: int, count: int) -> int:
        if not self.has_sendfile:
            raise NotImplementedError
        assert isinstance(file, MemoryFile)
        piece = file.content[position : position + min(count, self._take())]
        self.calls.append("sendfile")
        self.sent += piece
        return len(piece)

    def has_hung_up(self) -> bool:
        return False

    def on_readable(self, callback: Callable[[], object] | None) -> None: ...

    def on_writable(self, callback: Callable[[], object] | None) -> None: ...

    def close(self) -> None: ...


SOME_BYTES = st.one_of(st.binary(min_size=1, max_size=50), st.just(b"L" * (JOINED_BYTES_MAX + 1)))
CONTENT = bytes(range(256)) * 300
REGIONS = st.tuples(st.integers(0, 40_000), st.integers(1, 36_800))
ANSWERS = st.lists(st.lists(st.one_of(SOME_BYTES, REGIONS), min_size=1, max_size=4), max_size=6)


def expected_bytes(answers: list[list[bytes | tuple[int, int]]]) -> bytes:
    """The stream that the client must receive."""
    stream = bytearray()
    for answer in answers:
        stream += b"<"
        for part in answer:
            stream += part if isinstance(part, bytes) else CONTENT[part[0] : part[0] + part[1]]
    return bytes(stream)


class MarkFraming:
    """Every answer begins with one mark."""

    prefix_bytes = 1

    def measure(self, buffer: Buffer, start: int, end: int) -> int:
        raise NotImplementedError

    def prefix(self, content_bytes: int) -> bytes:
        return b"<"


def add(output: Output, parts: Sequence[ReplyPart]) -> None:
    """One request, answered at once with these parts."""
    request = Request(UnconnectedPeer())
    output.pipeline.append(request)
    request.send(parts)
    output.collect()


def send_all(answers: list[list[bytes | tuple[int, int]]], socket: Socket, transport: type) -> int:
    """Queue and flush everything; return what flush claims to have sent."""
    output = Output(MarkFraming())
    carrier = transport(socket)
    file = MemoryFile(CONTENT)
    sent = 0
    for answer in answers:
        parts = [
            part if isinstance(part, bytes) else FileRegion(file, part[0], part[1])
            for part in answer
        ]
        add(output, parts)
        sent += output.flush(carrier)
    return sent + flush_all(output, carrier)


def flush_all(output: Output, carrier: Transport) -> int:
    sent = 0
    while output:
        sent += output.flush(carrier)
    return sent


@pytest.mark.requirement("NET-11")
@given(ANSWERS, st.lists(st.integers(0, 40_000), max_size=40))
def test_every_transport_sends_the_same_bytes_however_little_it_may_send(
    answers: list[list[bytes | tuple[int, int]]], takes: list[int]
) -> None:
    """A byte lost or repeated at a partial write shifts all that follows on the connection."""
    expected = expected_bytes(answers)
    for transport, has_sendfile in (
        (PlaintextTransport, True),
        (PlaintextTransport, False),
        (BufferedTransport, True),
    ):
        socket = ChokingSocket(list(takes), has_sendfile=has_sendfile)

        assert send_all(answers, socket, transport) == len(expected)
        assert bytes(socket.sent) == expected


@pytest.mark.requirement("NET-10")
def test_plaintext_region_goes_by_sendfile_and_is_never_read() -> None:
    """The point of a file region: its bytes never enter this process."""
    file = MemoryFile(CONTENT)
    socket = ChokingSocket([])
    output = Output(MarkFraming())
    add(output, [b"header", FileRegion(file, 100, 1000), b"trailer"])
    output.flush(PlaintextTransport(socket))

    assert socket.calls == ["more", "sendfile", "send"]
    assert file.pread_bytes == 0


def test_buffered_transport_reads_each_byte_once_though_the_socket_takes_little() -> None:
    """Reading 128 KiB again for every 10 KiB sent would cost ten times the disk bandwidth."""
    file = MemoryFile(CONTENT)
    socket = ChokingSocket([1000] * 76)
    output = Output(MarkFraming())
    add(output, [FileRegion(file, 0, len(CONTENT))])
    carrier = BufferedTransport(socket)
    flush_all(output, carrier)

    assert bytes(socket.sent) == b"<" + CONTENT
    assert file.pread_bytes == len(CONTENT)


@pytest.mark.parametrize("transport", [PlaintextTransport, BufferedTransport])
def test_region_that_its_file_no_longer_has_is_an_error(transport: type) -> None:
    """Its length was announced; padding or silence would desynchronise the client (S-20)."""
    file = MemoryFile(CONTENT)
    output = Output(MarkFraming())
    add(output, [FileRegion(file, 0, len(CONTENT))])
    file.truncate(1000)
    carrier = transport(ChokingSocket([]))

    with pytest.raises(OSError, match="ended early"):
        flush_all(output, carrier)


def test_small_answers_leave_in_one_call() -> None:
    """Pipelined requests would otherwise cost a system call each."""
    socket = ChokingSocket([])
    output = Output(MarkFraming())
    for _ in range(50):
        add(output, [b"answer"])
    output.flush(PlaintextTransport(socket))

    assert socket.calls == ["send"]


def test_turn_of_one_reader_ends_though_it_takes_everything() -> None:
    """A fast reader of a 50 MB fetch must not block the broker for all other clients."""
    file = MemoryFile(bytes(BYTES_PER_TURN_MAX // 4))
    output = Output(MarkFraming())
    add(output, [FileRegion(file, 0, file.size_bytes)] * 20)
    sent = output.flush(PlaintextTransport(ChokingSocket([])))

    assert BYTES_PER_TURN_MAX <= sent < 2 * BYTES_PER_TURN_MAX


def test_what_was_asked_after_the_end_gets_no_answer_even_if_it_is_there() -> None:
    """A peer that is slow to take the last answer must not be sent more than that."""
    output = Output(MarkFraming())
    first, last, later = (Request(UnconnectedPeer()) for _ in range(3))
    output.pipeline.extend((first, last, later))
    last.close("because")
    later.send([b"later"])
    first.send([b"first"])
    counts = [output.collect(), output.collect()]
    socket = ChokingSocket([])
    output.flush(PlaintextTransport(socket))

    assert counts == [1, 0]
    assert output.has_ended
    assert bytes(socket.sent) == b"<first"
