"""The client instances that push metrics, and when each may ask and push again. Pure.

A client gets its subscription and then pushes at the given interval. The broker refuses earlier
requests, with three exceptions: the first push after a subscription, whose time the client draws at
random; the last push of a client that terminates; and a subscription request after an error that
tells the client to send one.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from ottla.protocol.data_classes import dataclass
from ottla.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.broker.telemetry.demands import ClientIdentity, Demand
    from ottla.protocol.ids import Uuid

INSTANCES_MAX = 16_384
_EXPIRY_MS_MIN = 60_000
_EXPIRY_INTERVALS = 3
_ASK_AGAIN = (ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
_NEVER = float("-inf")


@dataclass(slots=True)
class ClientInstance:
    """One client instance. ``demand`` was computed from subscriptions of ``revision``."""

    identity: ClientIdentity
    demand: Demand
    revision: int
    asked_ms: float = _NEVER
    pushed_ms: float = _NEVER
    is_terminating: bool = False
    last_error: ErrorCode = ErrorCode.NONE

    @property
    def expires_ms(self) -> float:
        """When the client counts as gone."""
        quiet_ms = max(_EXPIRY_MS_MIN, _EXPIRY_INTERVALS * self.demand.interval_ms)
        return max(self.asked_ms, self.pushed_ms) + quiet_ms

    def ask(self, now_ms: float) -> None:
        """The client asks for its subscription. Raises KafkaError if it is too early."""
        since_ms = now_ms - max(self.asked_ms, self.pushed_ms)
        if since_ms < self.demand.interval_ms and self.last_error not in _ASK_AGAIN:
            raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        self.asked_ms = now_ms
        self.last_error = ErrorCode.NONE

    def push(self, now_ms: float, subscription_id: int, *, terminating: bool) -> None:
        """The client pushes. Raises KafkaError if it must not yet."""
        if self.is_terminating:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the client has announced its termination")
        is_first = self.asked_ms > self.pushed_ms
        is_due = now_ms - self.pushed_ms >= self.demand.interval_ms
        if not (is_first or is_due or terminating):
            raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        self.pushed_ms = now_ms
        if subscription_id != self.demand.subscription_id:
            raise KafkaError(ErrorCode.UNKNOWN_SUBSCRIPTION_ID)
        self.is_terminating = terminating


class ClientInstances:
    """At most ``INSTANCES_MAX`` client instances; the one silent the longest is evicted first."""

    def __init__(self, on_gone: Callable[[Uuid], object]) -> None:
        self._by_id: OrderedDict[Uuid, ClientInstance] = OrderedDict()
        self._on_gone = on_gone

    def __len__(self) -> int:
        return len(self._by_id)

    def get(self, instance_id: Uuid) -> ClientInstance | None:
        """Return the instance of that id and mark it as active."""
        found = self._by_id.get(instance_id)
        if found is not None:
            self._by_id.move_to_end(instance_id)
        return found

    def add(self, instance: ClientInstance) -> None:
        """Keep an instance that is not there yet."""
        assert instance.identity.instance_id not in self._by_id, "an instance is kept once"
        if len(self._by_id) >= INSTANCES_MAX:
            self._drop(next(iter(self._by_id)))
        self._by_id[instance.identity.instance_id] = instance

    def expire(self, now_ms: float) -> None:
        """Drop the clients that are gone."""
        gone = [key for key, one in self._by_id.items() if one.expires_ms <= now_ms]
        for key in gone:
            self._drop(key)

    def _drop(self, key: Uuid) -> None:
        del self._by_id[key]
        self._on_gone(key)
