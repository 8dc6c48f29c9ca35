"""A message stream between a session and the process that serves the store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.coordinator.store.served.messages import BadMessage, Inbox

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.protocol.ports import Socket

_READ_BYTES = 64 * 1024


class MessageStream:
    """Owned by one side, which closes it. It calls ``on_end`` once if the other side, or an
    unreadable message, ends it first."""

    def __init__(
        self,
        socket: Socket,
        on_message: Callable[[list[Any]], object],
        on_end: Callable[[str], object],
    ) -> None:
        self._socket = socket
        self._on_message = on_message
        self._on_end = on_end
        self._inbox = Inbox()
        self._buffer = memoryview(bytearray(_READ_BYTES))
        self._unsent = bytearray()
        self._closes_when_sent = False
        self.is_open = True
        socket.on_readable(self.read)

    def read(self) -> None:
        """Take in all that has arrived."""
        while self.is_open:
            try:
                count = self._socket.recv_into(self._buffer)
            except BlockingIOError:
                return
            except OSError as error:
                self._end(str(error))
                return
            if not count:
                self._end("the other side has closed the connection")
                return
            self._take(count)

    def _take(self, count: int) -> None:
        try:
            for message in self._inbox.take(self._buffer[:count]):
                if not self.is_open or self._closes_when_sent:
                    return
                self._on_message(message)
        except BadMessage as error:
            self._end(str(error))

    def send(self, message: bytes) -> None:
        """Send after all earlier messages; a message that can no longer be sent is dropped."""
        if not self.is_open or self._closes_when_sent:
            return
        self._unsent += message
        if len(self._unsent) == len(message):
            self._send_unsent()

    def _send_unsent(self) -> None:
        try:
            sent = self._socket.sendmsg((bytes(self._unsent),))
        except BlockingIOError:
            sent = 0
        except OSError as error:
            self._end(str(error))
            return
        del self._unsent[:sent]
        self._socket.on_writable(self._send_unsent if self._unsent else None)
        if not self._unsent and self._closes_when_sent:
            self.close()

    def close_when_sent(self) -> None:
        """Close after the earlier messages are sent; it reads no more."""
        self._closes_when_sent = True
        if not self._unsent:
            self.close()

    def close(self) -> None:
        """Close at once and discard unsent bytes. May be called again."""
        if self.is_open:
            self.is_open = False
            self._socket.close()

    def _end(self, reason: str) -> None:
        if self.is_open:
            self.close()
            self._on_end(reason)
