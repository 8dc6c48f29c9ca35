"""A socket that encrypts and decrypts over another socket.

It keeps the promises of ``ports.Socket``. A prefix counts as sent when the kernel below has all of
its ciphertext; until then the caller keeps the bytes and offers the same ones again, as with any
non-blocking socket, and the part that is encrypted already is not encrypted twice. A reader is
called as long as anything can be read, also where the bytes were received before and only wait to
be decrypted.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ssl
from typing import TYPE_CHECKING, cast

from ottla.wire.tls.failures import TlsError, as_tls_error
from ottla.wire.tls.session import give_scratch, take_scratch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ottla.protocol.ports import Address, Buffer, File, Socket
    from ottla.wire.tls.session import TlsSession

# What is encrypted at once: four full records. Larger pieces leave the CPU's caches before the
# kernel copies them.
ENCRYPTED_BYTES_MAX = 64 * 1024


class TlsSocket:
    """Made after the handshake; owns the socket below. ``server_name``: None on the server."""

    __slots__ = (
        "_ahead_bytes",
        "_ciphertext",
        "_failure",
        "_has_ended",
        "_is_closed",
        "_is_woken",
        "_may_have_more",
        "_read",
        "_reader",
        "_server_name",
        "_socket",
        "_write",
        "local",
        "peer",
        "session",
    )

    def __init__(self, socket: Socket, session: TlsSession, server_name: str | None) -> None:
        self.session = session
        self.local: Address = socket.local
        self.peer: Address = socket.peer
        self._socket = socket
        self._server_name = server_name
        self._reader: Callable[[], object] | None = None
        self._is_woken = False
        # Whether a read may return data without a system call.
        self._may_have_more = session.incoming.pending > 0
        self._has_ended = False
        self._is_closed = False
        self._failure: TlsError | None = None
        # The standard library's types leave out the buffers that it takes.
        self._read = cast("Callable[[int, memoryview], int]", session.tls.read)
        self._write = cast("Callable[[Buffer], int]", session.tls.write)
        # Encrypted bytes that the kernel has not taken, and how many of the bytes that the caller
        # will offer next they stand for.
        self._ciphertext = memoryview(b"")
        self._ahead_bytes = 0

    # Bytes in.

    def recv_into(self, buffer: memoryview) -> int:
        """As the seam says. HOT for produce on the broker and for fetch on a client."""
        if self._failure is not None:
            raise self._failure
        tls, incoming = self.session.tls, self.session.incoming
        read, size_bytes = self._read, len(buffer)
        count = 0
        # Whether the kernel had no more than what was received last.
        is_drained = not self._may_have_more and self._receive()
        while count < size_bytes and not self._has_ended:
            try:
                got = read(size_bytes - count, buffer[count:] if count else buffer)
            except ssl.SSLWantReadError:
                # What was left is a part of a record: the reader is woken by the kernel, not by us.
                self._may_have_more = False
                if count and (is_drained or not self._can_receive()):
                    break
                is_drained = count > 0 or self._receive()
                continue
            except ssl.SSLError as error:
                failure = self._fail(error)
                if not count:
                    raise failure from error
                break
            if not got:
                self._has_ended = True  # a close_notify
                break
            count += got
            if is_drained and not incoming.pending and not tls.pending():
                break
        # The end and a failure are reported by the next call.
        is_full = count == size_bytes and (tls.pending() > 0 or incoming.pending > 0)
        self._may_have_more = is_full or self._has_ended or self._failure is not None
        if self._may_have_more:
            self._wake_reader()
        if self.session.outgoing.pending:
            self._answer()
        return count

    def _can_receive(self) -> bool:
        """Receive bytes for the session; return whether any came."""
        try:
            self._receive()
        except BlockingIOError:
            return False
        except OSError:
            return False  # met again by the next call
        return not self._has_ended

    def _receive(self) -> bool:
        """Feed the session from the kernel; whether that has no more. Raises BlockingIOError."""
        scratch = take_scratch()
        try:
            count = self._socket.recv_into(scratch)
            self.session.incoming.write(scratch[:count])
            if not count:
                # Without a close_notify. Frames have lengths, so that a cut one is noticed.
                self._has_ended = True
            return count < len(scratch)
        finally:
            give_scratch(scratch)

    def _answer(self) -> None:
        """Send what the protocol itself has to say, such as the answer to a key update."""
        with contextlib.suppress(OSError):
            self._push(more=False)

    def _fail(self, error: ssl.SSLError) -> TlsError:
        failure = self._failure = as_tls_error(error, self._server_name)
        if not self._ciphertext:
            self._answer()  # the alert
        return failure

    # Bytes out.

    def sendmsg(self, buffers: Sequence[Buffer], *, more: bool = False) -> int:
        """As the seam says. HOT for fetch on the broker."""
        sent = 0
        if self._ciphertext or self.session.outgoing.pending:
            offered = sum(map(len, buffers))
            self._push(more=more or offered > self._ahead_bytes)
            sent = min(self._ahead_bytes, offered)
            self._ahead_bytes -= sent
            if self._ahead_bytes or sent == offered:
                return sent
        pieces = _pieces(buffers, sent)
        last = len(pieces) - 1
        for number, piece in enumerate(pieces):
            self._encrypt(piece)
            self._ahead_bytes = len(piece)
            try:
                self._push(more=more or number < last)
            except BlockingIOError:
                if sent:
                    return sent
                raise
            sent += self._ahead_bytes
            self._ahead_bytes = 0
        return sent

    def _encrypt(self, piece: Buffer) -> None:
        try:
            written = self._write(piece)
            while written < len(piece):
                written += self._write(memoryview(piece)[written:])
        except ssl.SSLError as error:
            raise as_tls_error(error, self._server_name) from error

    def _push(self, *, more: bool) -> None:
        """Give the kernel all encrypted bytes. Raises BlockingIOError while it does not take them,
        OSError."""
        outgoing = self.session.outgoing
        while self._ciphertext or outgoing.pending:
            ciphertext = self._ciphertext or memoryview(outgoing.read())
            self._ciphertext = ciphertext
            taken = self._socket.sendmsg([ciphertext], more=more)
            self._ciphertext = ciphertext[taken:]

    def sendfile(self, file: File, position: int, count: int) -> int:
        """Raises NotImplementedError: the bytes have to pass through this process."""
        raise NotImplementedError("an encrypted connection cannot send files without reading them")

    # Readiness.

    def has_hung_up(self) -> bool:
        return self._has_ended or self._socket.has_hung_up()

    def on_readable(self, callback: Callable[[], object] | None) -> None:
        self._reader = callback
        self._socket.on_readable(callback)
        if callback is not None and self._may_have_more:
            self._wake_reader()

    def on_writable(self, callback: Callable[[], object] | None) -> None:
        self._socket.on_writable(callback)

    def _wake_reader(self) -> None:
        if self._reader is not None and not self._is_woken:
            self._is_woken = True
            asyncio.get_running_loop().call_soon(self._run_reader)

    def _run_reader(self) -> None:
        self._is_woken = False
        if self._reader is None or not self._may_have_more:
            return
        self._reader()
        if self._may_have_more:
            self._wake_reader()

    # The end.

    def close(self) -> None:
        """Send close_notify if the socket buffer has room, then close."""
        self._reader = None
        if self._is_closed:
            return
        self._is_closed = True
        if not self._ciphertext and not self._ahead_bytes and self._failure is None:
            # It fails in any case, for it waits for the peer's close_notify, which is not needed.
            with contextlib.suppress(OSError, ValueError):
                self.session.tls.unwrap()
            self._answer()
        self._socket.close()
        self._failure = self._failure or TlsError("the connection is closed")
        self._read, self._write = _read_closed, _write_closed
        self.session.forget()


def _read_closed(_count: int, _buffer: memoryview) -> int:
    raise OSError(errno.EBADF, "the connection is closed")


def _write_closed(_piece: Buffer) -> int:
    raise OSError(errno.EBADF, "the connection is closed")


def _pieces(buffers: Sequence[Buffer], skip: int) -> list[Buffer]:
    """The bytes behind the first ``skip`` ones, joined and cut to what is encrypted at once."""
    if len(buffers) == 1 and not skip and 0 < len(buffers[0]) <= ENCRYPTED_BYTES_MAX:
        return [buffers[0]]
    pieces: list[Buffer] = []
    parts: list[Buffer] = []
    room = ENCRYPTED_BYTES_MAX
    for buffer in buffers:
        view = memoryview(buffer)
        dropped = min(skip, len(view))
        view, skip = view[dropped:], skip - dropped
        while view:
            parts.append(view[:room])
            room, view = room - len(parts[-1]), view[room:]
            if not room:
                pieces.append(_joined(parts))
                parts, room = [], ENCRYPTED_BYTES_MAX
    if parts:
        pieces.append(_joined(parts))
    return pieces


def _joined(parts: list[Buffer]) -> Buffer:
    return parts[0] if len(parts) == 1 else b"".join(parts)
