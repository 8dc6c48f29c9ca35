"""Charges one request of a client that has quotas: what it used, and how long it is held for it.

A client without quotas, and whatever brokers send each other, gets no meter. Produced bytes are
charged when the request arrives, and the connection is not read from from then on, so that a
client which sends many requests at once does not overdraw its quota by all of them. Fetched bytes
are charged when the answer leaves; of them the next fetch is held. Handler time counts too.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Any

from ottla.protocol.apis import ApiKey
from ottla.protocol.ports import FileRegion

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ottla.broker.engine.context import ReplyPart, ReplySlot, RequestContext
    from ottla.broker.quotas.client_limits import ClientLimits, SharedBucket
    from ottla.broker.quotas.quotas import Quotas

# What only brokers may send.
_BETWEEN_BROKERS = frozenset(
    {
        ApiKey.LEADER_AND_ISR,
        ApiKey.STOP_REPLICA,
        ApiKey.UPDATE_METADATA,
        ApiKey.CONTROLLED_SHUTDOWN,
        ApiKey.WRITE_TXN_MARKERS,
    }
)
_REPLICA_STATE_VERSION = 15


class MeteredReply:
    """Stands in for a request's reply, and charges the client when it is used."""

    def __init__(
        self,
        reply: ReplySlot,
        context: RequestContext,
        limits: ClientLimits,
        size_bytes: int,
        now_ms: Callable[[], float],
    ) -> None:
        self._reply = reply
        self._peer = context.peer
        self._request = limits.request
        self._consume = limits.consume if context.api_key == ApiKey.FETCH else None
        self._now_ms = now_ms
        self._running_since_ms: float | None = now_ms()
        self._used_ms = 0.0
        self._held_until_ms = 0.0
        if limits.produce is not None and context.api_key == ApiKey.PRODUCE:
            limits.produce.spend(size_bytes, self._now_ms())
            hold_ms = self._hold(limits.produce)
            self._held_until_ms = self._now_ms() + hold_ms
            self._mute(hold_ms)

    def suspend(self) -> None:
        """The handler waits for something: time that passes is not spent on the client."""
        if self._running_since_ms is not None:
            self._used_ms += self._now_ms() - self._running_since_ms
            self._running_since_ms = None

    def charge(self, response: Any) -> int:
        """Charge the time that was used and put the throttle time into the response, if it has a
        field for that; return for how long the connection is to be muted, in milliseconds."""
        left_ms = max(0, ceil(self._held_until_ms - self._now_ms()))
        throttle_ms = max(left_ms, getattr(response, "throttle_time_ms", 0))
        self.suspend()
        if self._request is not None:
            self._request.spend(self._used_ms, self._now_ms())
            throttle_ms = max(throttle_ms, self._hold(self._request))
        if throttle_ms and hasattr(response, "throttle_time_ms"):
            response.throttle_time_ms = throttle_ms
        return throttle_ms

    def send(self, parts: Sequence[ReplyPart], mute_ms: float = 0) -> None:
        if self._consume is not None:
            self._consume.spend(_size_of(parts), self._now_ms())
        self._reply.send(parts, mute_ms)

    def skip(self) -> None:
        self._mute(self.charge(None))
        self._reply.skip()

    def close(self, reason: str) -> None:
        self._reply.close(reason)

    def _mute(self, mute_ms: int) -> None:
        if mute_ms:
            self._peer.mute(mute_ms)

    def _hold(self, bucket: SharedBucket) -> int:
        hold_ms = ceil(bucket.hold_ms(self._now_ms()))
        bucket.throttled_ms += hold_ms
        return hold_ms


def metered(
    quotas: Quotas, context: RequestContext, request: Any, size_bytes: int, reply: ReplySlot
) -> ReplySlot:
    """The reply, behind a meter if the client has quotas and the request is subject to them."""
    limits = quotas.limits_of(context.principal, context.client_id)
    if limits is None or (_is_between_brokers(context, request) and quotas.trusts(context)):
        return reply
    return MeteredReply(reply, context, limits, size_bytes, quotas.now_ms)


def _is_between_brokers(context: RequestContext, request: Any) -> bool:
    """Whether the request says that a broker sends it. The handlers refuse clients that say so, but
    a refusal takes time, too: it counts unless the sender may act as a broker."""
    if context.api_key in _BETWEEN_BROKERS:
        return True
    if context.api_key == ApiKey.FETCH and context.api_version >= _REPLICA_STATE_VERSION:
        return bool(request.replica_state.replica_id >= 0)
    if context.api_key in (ApiKey.FETCH, ApiKey.OFFSET_FOR_LEADER_EPOCH):
        return bool(request.replica_id >= 0)
    return False


def _size_of(parts: Sequence[ReplyPart]) -> int:
    return sum(part.size_bytes if isinstance(part, FileRegion) else len(part) for part in parts)
