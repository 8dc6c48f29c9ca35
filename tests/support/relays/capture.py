"""A byte relay between a client and a broker that keeps what the client asked.

Its frames become golden files: a few requests for each client, API and version. Answers are not
kept, for they are our own broker's words.
"""

from __future__ import annotations

import socket
import threading
from typing import TYPE_CHECKING, NamedTuple

from ottla.protocol.apis import ApiKey
from ottla.protocol.compile import decoder, encode
from ottla.protocol.headers import RequestHeader, decode_request_header, encode_request_header
from ottla.wire.messages import request_of
from tests.support.golden import FOLDER, golden_text

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

LARGEST_FRAME_BYTES = 700
RELAY_BYTES = 65_536


class Captured(NamedTuple):
    """A request without its length prefix, and the client that sent it."""

    client: str
    frame: bytes

    @property
    def api_key(self) -> int:
        return int.from_bytes(self.frame[:2], signed=True)

    @property
    def api_version(self) -> int:
        return int.from_bytes(self.frame[2:4], signed=True)


class Relay:
    """Accepts on ``port`` and connects on to ``target_port``. Leaving it closes everything."""

    def __init__(self) -> None:
        # Nothing is kept while it is empty.
        self.client = ""
        self.target_port = 0
        self.captured: list[Captured] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._acceptor = threading.Thread(target=self._accept, daemon=True)
        self._open: list[socket.socket] = []

    def __enter__(self) -> Relay:
        self._acceptor.start()
        return self

    def __exit__(self, *_: object) -> None:
        # A thread that waits in accept or recv is woken by a shutdown, not by a close.
        _shut(self._listener)
        self._listener.close()
        # Clients try again until the end: what was accepted last must be closed, too.
        self._acceptor.join()
        for one in self._open:
            _shut(one)
            one.close()

    def _accept(self) -> None:
        while True:
            try:
                inside, _address = self._listener.accept()
                self._open.append(inside)
                outside = socket.create_connection(("127.0.0.1", self.target_port))
            except OSError:
                return
            self._open.append(outside)
            for arguments in ((inside, outside, True), (outside, inside, False)):
                threading.Thread(target=self._pump, args=arguments, daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, is_asking: bool) -> None:
        """Pass everything on until one side ends; keep the frames of the side that asks."""
        pending = bytearray()
        try:
            while data := source.recv(RELAY_BYTES):
                if is_asking:
                    pending += data
                    self._keep(pending)
                sink.sendall(data)
        except OSError:
            pass
        _shut(sink)

    def _keep(self, pending: bytearray) -> None:
        while len(pending) >= 4:
            end = 4 + int.from_bytes(pending[:4])
            if len(pending) < end:
                return
            if self.client:
                self.captured.append(Captured(self.client, bytes(pending[4:end])))
            del pending[:end]


def _shut(one: socket.socket) -> None:
    try:
        one.shutdown(socket.SHUT_RDWR)
    except OSError:
        return


def chosen(captured: Iterable[Captured]) -> dict[tuple[str, int, int], list[bytes]]:
    """For each client, API and version: the smallest frame, and the largest of the small ones.

    The largest has the most in it, the smallest is where null and empty differ between clients.
    A frame that no encoder of ours would write is worth most, and kept too.
    """
    found: dict[tuple[str, int, int], list[bytes]] = {}
    for one in captured:
        if len(one.frame) <= LARGEST_FRAME_BYTES:
            name = (one.client, one.api_key, one.api_version)
            found.setdefault(name, []).append(one.frame)
    best = {}
    for name, frames in found.items():
        smallest, largest = min(frames, key=len), max(frames, key=len)
        odd = [frame for frame in frames if frame not in (smallest, largest) and is_odd(frame)]
        both = [smallest, largest] if len(smallest) < len(largest) else [largest]
        best[name] = both + odd[:1]
    return best


def is_odd(frame: bytes) -> bool:
    """Whether the frame differs from what we would write for the same request."""
    header, position = decode_request_header(frame)
    declared = request_of(ApiKey(header.api_key))
    message, _end = decoder(declared, header.api_version)(memoryview(frame), position)
    out = bytearray()
    encode_request_header(out, RequestHeader(*header))
    return bytes(out) + encode(message, header.api_version) != frame


def write_golden(captured: Iterable[Captured], only: Container[int] | None = None) -> None:
    """Write the chosen frames, of some APIs or all; a file that is there stays as it is."""
    for (client, api_key, api_version), frames in sorted(chosen(captured).items()):
        name = f"{ApiKey(api_key).name.lower()}_v{api_version}_{client}.txt"
        if (only is not None and api_key not in only) or (FOLDER / name).exists():
            continue
        origin = f"{client.replace('_', ' ')}, on its way to a broker"
        text = golden_text(origin, [("request", frame) for frame in frames])
        (FOLDER / name).write_text(text)
