"""One TLS session: OpenSSL between two memory buffers, without a socket."""

from __future__ import annotations

import ssl

# Size of one receive: four full records, so that few system calls are needed.
RECEIVED_BYTES_MAX = 64 * 1024

_scratch: list[memoryview] = []


class TlsSession:
    """The two buffers hold encrypted bytes: ``incoming`` those of the peer, ``outgoing`` ours."""

    __slots__ = ("incoming", "outgoing", "tls")

    def __init__(
        self, context: ssl.SSLContext, *, is_server: bool, server_name: str | None = None
    ) -> None:
        self.incoming = ssl.MemoryBIO()
        self.outgoing = ssl.MemoryBIO()
        self.tls = context.wrap_bio(
            self.incoming, self.outgoing, server_side=is_server, server_hostname=server_name
        )

    def shake(self) -> bool:
        """Continue the handshake with what has come; True when this side has finished.

        Costs up to a millisecond and releases the GIL, so that it can run in a worker thread while
        no other thread uses the session. Raises ssl.SSLError; ``outgoing`` then holds the alert
        for the peer."""
        try:
            self.tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    def forget(self) -> None:
        """Free OpenSSL's memory, some tens of kilobytes; the session cannot be used afterwards.

        The garbage collector does not see that memory, and would leave it to connections that were
        closed until it looks at everything that is old."""
        self.incoming = self.outgoing = ssl.MemoryBIO()
        del self.tls

    @property
    def peer_certificate(self) -> bytes | None:
        """The verified certificate of the peer in DER form; None if it has shown none."""
        return self.tls.getpeercert(binary_form=True)

    @property
    def version(self) -> str:
        """Such as TLSv1.3; empty before the handshake."""
        return self.tls.version() or ""

    @property
    def cipher(self) -> str:
        """OpenSSL's name of the cipher suite; empty before the handshake."""
        found = self.tls.cipher()
        return "" if found is None else found[0]


def take_scratch() -> memoryview:
    """A buffer for encrypted bytes, to be returned with ``give_scratch``.

    Sessions of several threads share the pool: a list hands an item to one thread only."""
    try:
        return _scratch.pop()
    except IndexError:
        return memoryview(bytearray(RECEIVED_BYTES_MAX))


def give_scratch(view: memoryview) -> None:
    """Return the buffer."""
    _scratch.append(view)
