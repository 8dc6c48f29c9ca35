"""How long requests take until they are answered, of a sample that costs the others nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ottla.broker.engine.context import ReplyPart, ReplySlot
    from ottla.broker.engine.histogram import Histogram


class TimedReply:
    """Stands in for a request's reply, and notes the time when it is used, now or much later."""

    __slots__ = ("_now_ms", "_reply", "_started_ms", "_times")

    def __init__(self, reply: ReplySlot, times: Histogram, now_ms: Callable[[], float]) -> None:
        self._reply = reply
        self._times = times
        self._now_ms = now_ms
        self._started_ms = now_ms()

    def send(self, parts: Sequence[ReplyPart], mute_ms: float = 0) -> None:
        self._note()
        self._reply.send(parts, mute_ms)

    def skip(self) -> None:
        self._note()
        self._reply.skip()

    def close(self, reason: str) -> None:
        self._note()
        self._reply.close(reason)

    def _note(self) -> None:
        self._times.observe(self._now_ms() - self._started_ms)
