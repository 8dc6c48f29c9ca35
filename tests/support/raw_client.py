"""A client that sends exactly what a test wants and shows exactly what comes back."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from ottla.protocol.apis import API
from ottla.protocol.compile import decode, encode
from ottla.protocol.headers import (
    RequestHeader,
    decode_response_header,
    encode_request_header,
)
from ottla.wire.messages import response_of

if TYPE_CHECKING:
    from types import TracebackType

ANSWER_TIMEOUT_S = 90


class RawClient:
    """One connection over asyncio's streams; requests may be pipelined."""

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        self._correlation_id = 0
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def __aenter__(self) -> RawClient:
        self._reader, self._writer = await asyncio.open_connection(self._host, self._port)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._writer is not None
        self._writer.close()

    def send(self, version: int, request: Any, client_id: str | None = "raw") -> int:
        """Send a request without waiting; its correlation id."""
        key = next(
            key for key, spec in API.items() if type(request).__name__ == f"{spec.name}Request"
        )
        self._correlation_id += 1
        out = bytearray()
        encode_request_header(out, RequestHeader(key, version, self._correlation_id, client_id))
        out += encode(request, version)
        self.send_frame(bytes(out))
        return self._correlation_id

    def send_frame(self, frame: bytes) -> None:
        """Send a frame of any content."""
        self.send_bytes(len(frame).to_bytes(4) + frame)

    def send_bytes(self, data: bytes) -> None:
        """Send bytes of any content."""
        assert self._writer is not None
        self._writer.write(data)

    def send_eof(self) -> None:
        """Say that nothing more will come."""
        assert self._writer is not None
        self._writer.write_eof()

    async def frame(self) -> bytes:
        """The next answer without its length. Raises EOFError when the broker has hung up."""
        assert self._reader is not None
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                length = int.from_bytes(await self._reader.readexactly(4))
                return await self._reader.readexactly(length)
        except (asyncio.IncompleteReadError, ConnectionResetError) as error:
            raise EOFError("the broker closed the connection") from error

    async def answer(self, version: int, request: Any) -> Any:
        """Decode the next answer as the one to that request."""
        name = type(request).__name__.removesuffix("Request")
        key = next(key for key, spec in API.items() if spec.name == name)
        frame = await self.frame()
        _correlation_id, position = decode_response_header(frame, key, version)
        return decode(response_of(key), version, memoryview(frame)[position:])

    async def call(self, version: int, request: Any) -> Any:
        """Send one request and return its answer."""
        self.send(version, request)
        return await self.answer(version, request)
