"""One client's connection through a relay: what is let through, and what is changed on the way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.protocol.apis import ApiKey
from ottla.protocol.compile import decode, encode
from ottla.protocol.errors import ErrorCode
from ottla.protocol.headers import (
    RequestHeader,
    decode_request_header,
    decode_response_header,
    encode_request_header,
    write_response_header,
)
from ottla.protocol.named_tuples import NamedTuple
from ottla.wire.messages import response_of

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter
    from collections.abc import Awaitable, Callable, Mapping

    from ottla.protocol.messages.api_versions import ApiVersionsResponse
    from ottla.wire.api import VersionRange

# Those whose answers are changed.
CHANGED = frozenset({ApiKey.API_VERSIONS, ApiKey.METADATA, ApiKey.FIND_COORDINATOR})


class Asked(NamedTuple):
    """The request that an answer belongs to, as the broker got it."""

    key: ApiKey
    version: int
    is_too_new: bool


class Link:
    """Calls ``refuse`` with a request that is not allowed, which ends the connection. ``relay_of``
    gives the port of the relay of the broker at a port."""

    def __init__(
        self,
        profile: Mapping[int, VersionRange],
        refuse: Callable[[RequestHeader], None],
        relay_of: Callable[[int], Awaitable[int]],
    ) -> None:
        self._profile = profile
        self._refuse = refuse
        self._relay_of = relay_of
        self._asked: dict[int, Asked] = {}

    async def ask(self, client: StreamReader, broker: StreamWriter) -> None:
        """Pass requests on until one may not be asked. Raises IncompleteReadError at the end."""
        while True:
            frame = await _frame(client)
            header, _ = decode_request_header(frame)
            known = self._profile.get(header.api_key)
            is_first = header.api_key == ApiKey.API_VERSIONS
            is_too_new = known is not None and header.api_version > known.last
            if known is None or header.api_version < known.first or (is_too_new and not is_first):
                self._refuse(header)
                return
            if is_too_new:
                out = bytearray()
                header = header._replace(api_version=0)
                encode_request_header(out, header)
                frame = bytes(out)
            if header.api_key in CHANGED:
                asked = Asked(ApiKey(header.api_key), header.api_version, is_too_new)
                self._asked[header.correlation_id] = asked
            await _write(broker, frame)

    async def answer(self, broker: StreamReader, client: StreamWriter) -> None:
        """Pass answers back. Raises IncompleteReadError at the end."""
        while True:
            frame = await _frame(broker)
            asked = self._asked.pop(int.from_bytes(frame[:4], signed=True), None)
            await _write(client, frame if asked is None else await self._changed(frame, asked))

    async def _changed(self, frame: bytes, asked: Asked) -> bytes:
        number, position = decode_response_header(frame, asked.key, asked.version)
        body = memoryview(frame)[position:]
        answer = decode(response_of(asked.key), asked.version, body)
        if asked.key is ApiKey.API_VERSIONS:
            self._narrow(answer, asked)
        else:
            # In versions of one coordinator the answer itself is the place.
            for place in answer.brokers if asked.key is ApiKey.METADATA else [answer]:
                await self._move(place)
        out = bytearray()
        write_response_header(out, asked.key, asked.version, number)
        return bytes(out) + encode(answer, asked.version)

    async def _move(self, place: Any) -> None:
        # A coordinator that is not there has no port.
        if place.port > 0:
            place.port = await self._relay_of(place.port)

    def _narrow(self, answer: ApiVersionsResponse, asked: Asked) -> None:
        """To what both the profile and the broker have."""
        kept = []
        for one in answer.api_keys:
            known = self._profile.get(one.api_key)
            if known is not None:
                one.min_version = max(one.min_version, known.first)
                one.max_version = min(one.max_version, known.last)
                assert one.min_version <= one.max_version, one
                kept.append(one)
        answer.api_keys = kept
        answer.supported_features = []
        answer.finalized_features = []
        answer.finalized_features_epoch = -1
        if asked.is_too_new:
            answer.error_code = ErrorCode.UNSUPPORTED_VERSION


async def _frame(reader: StreamReader) -> bytes:
    """The next one, without its length."""
    return await reader.readexactly(int.from_bytes(await reader.readexactly(4)))


async def _write(writer: StreamWriter, frame: bytes) -> None:
    writer.write(len(frame).to_bytes(4) + frame)
    await writer.drain()
