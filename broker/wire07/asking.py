"""Asks the broker itself, in the requests of today: what a client of 0.7 wants is authorized,
limited, measured and logged as what any other client wants."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from ottla.broker.engine.context import Paused
from ottla.protocol.compile import decode, encode
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.headers import RequestHeader, encode_request_header
from ottla.protocol.ports import FileRegion

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TypeVar

    from ottla.broker.engine.context import ClientPeer, Dispatch, ReplyPart
    from ottla.protocol.ports import Offload

    M = TypeVar("M")

# All versions that are asked for have the short header of answers.
_CORRELATION_BYTES = 4


class _Answer:
    """The place of an answer that is not sent to the client."""

    def __init__(self, peer: ClientPeer) -> None:
        self._peer = peer
        self.parts: asyncio.Future[Sequence[ReplyPart]] = asyncio.get_running_loop().create_future()

    def send(self, parts: Sequence[ReplyPart], mute_ms: float = 0) -> None:
        if mute_ms:
            self._peer.mute(mute_ms)
        if not self.parts.done():
            self.parts.set_result(parts)

    def skip(self) -> None:
        self.close("there is no answer")

    def close(self, reason: str) -> None:
        if not self.parts.done():
            self.parts.set_exception(KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, reason))


class Asking:
    """``dispatch``: where the requests of other clients go."""

    def __init__(self, dispatch: Dispatch, offload: Offload) -> None:
        self._dispatch = dispatch
        self._offload = offload

    async def ask(
        self, peer: ClientPeer, api: tuple[int, int], request: Any, response: type[M]
    ) -> M:
        """The response to a request of that API and version, without a client id.

        Raises KafkaError where another client's connection would be closed."""
        key, version = api
        frame = bytearray()
        encode_request_header(frame, RequestHeader(key, version, 0, None))
        frame += encode(request, version)
        answer = _Answer(peer)
        outcome = self._dispatch(peer, memoryview(frame), answer)
        if isinstance(outcome, Paused):
            outcome = outcome.coroutine
        if outcome is not None:
            await outcome
        parts = await answer.parts
        try:
            data = await self._offload.run(_joined, parts)
        except OSError as error:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        return decode(response, version, data[_CORRELATION_BYTES:])


def _joined(parts: Sequence[ReplyPart]) -> memoryview:
    return memoryview(
        b"".join(part.read() if isinstance(part, FileRegion) else part for part in parts)
    )
