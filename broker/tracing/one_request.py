"""Traces single requests that an operator sends (``ottla trace produce``): the time of each step.

Loaded when it is asked for first. While a partition is watched, the requests of one client id are
noted before and after the dispatcher, and the partition's own keys in the purgatory tell of its
log, its followers, its high watermark and its flushes. A watch ends by itself; without one the
network calls the dispatcher directly, and no partition knows of this module.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from struct import Struct
from typing import TYPE_CHECKING, Any, Protocol

from ottla.protocol.apis import API, ApiKey
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ottla.broker.engine.context import ClientPeer, Dispatch, ReplyPart, ReplySlot
    from ottla.broker.engine.purgatory import DelayedOperation, Purgatory
    from ottla.broker.partitions.partition import PartitionRuntime
    from ottla.protocol.ids import TopicPartition
    from ottla.protocol.ports import Clock

# After the last question about a partition its watch goes on for so long.
WATCH_MS = 30_000.0
WATCHES_MAX = 8
# A command asks for about two seconds. What it has left behind makes room for another.
ABANDONED_MS = 5_000.0
# Of a busy partition the newest count: the command asks as soon as it has its answer.
MARKS_MAX = 4_096
REQUESTS_MAX = 64
_start_of = Struct(">hhih").unpack_from
_START_BYTES = 10
_TRACED = (ApiKey.PRODUCE, ApiKey.FETCH)


class SwitchableNetwork(Protocol):
    """What hands requests to the dispatcher: ``broker/network/server.py``."""

    @property
    def dispatch(self) -> Dispatch: ...

    @property
    def on_queued(self) -> Callable[[memoryview], object] | None: ...

    def serve_with(
        self, dispatch: Dispatch, on_queued: Callable[[memoryview], object] | None = None
    ) -> None: ...


class ProgressStep(NamedTuple):
    """Something of a partition has moved: ``value`` is the offset that it has come to."""

    time_ms: float
    what: str
    value: int


def first_beyond(marks: Iterable[ProgressStep], offset: int) -> dict[str, float]:
    """When each thing has passed the offset, by its name. What had passed it already at its first
    mark is left out: it is not known when. Pure."""
    found: dict[str, float] = {}
    seen: dict[str, int] = {}
    for mark in marks:
        before = seen.get(mark.what)
        seen[mark.what] = mark.value
        if before is not None and before <= offset < mark.value:
            found.setdefault(mark.what, mark.time_ms)
        elif mark.value <= offset:
            # It was cut: the passage before does not count any more.
            found.pop(mark.what, None)
    return found


class RequestWatch:
    """One partition, and the requests of one client."""

    def __init__(self, one: PartitionRuntime, clock: Clock) -> None:
        self._one = one
        self._clock = clock
        self._seen: dict[str, int] = {}
        self.marks: deque[ProgressStep] = deque(maxlen=MARKS_MAX)
        self.requests: deque[tuple[str, str, float]] = deque(maxlen=REQUESTS_MAX)
        self.parked: DelayedOperation | None = None
        self.asked_ms = clock.now_ms()

    @property
    def keys(self) -> tuple[object, ...]:
        """What the partition releases when it moves."""
        one = self._one
        return one.append_key, one.watermark_key, one.flush_key, one.start_key

    def look(self) -> bool:
        """Note what has moved; never completes."""
        self._look(self._clock.now_ms())
        return False

    def _look(self, now_ms: float) -> None:
        replica = self._one.replica
        places = {
            "log end": replica.log_end_offset,
            "high watermark": replica.high_watermark,
            "flushed": self._one.log.recovery_point,
        }
        if replica.leading is not None:
            for node, follower in replica.leading.followers.items():
                places[f"follower {node}"] = follower.log_end_offset
        for what, value in places.items():
            if self._seen.get(what) != value:
                self._seen[what] = value
                self.marks.append(ProgressStep(now_ms, what, value))

    def note(self, step: str, api: str) -> None:
        """Note a step of a request, and what it has moved."""
        now_ms = self._clock.now_ms()
        self._look(now_ms)
        self.requests.append((step, api, now_ms))

    def as_json(self, node_id: int, offset: int) -> dict[str, object]:
        """Return the form in which clients get it; times are those of this broker's clock."""
        self.look()
        return {
            "node_id": node_id,
            "now_ms": self._clock.now_ms(),
            "is_leader": self._one.replica.is_leader,
            "steps": first_beyond(self.marks, offset),
            "requests": [list(one) for one in self.requests],
        }


class NotedReply:
    """Wraps the reply of a request that is traced."""

    __slots__ = ("_api", "_reply", "_watches")

    def __init__(self, reply: ReplySlot, watches: Sequence[RequestWatch], api: str) -> None:
        self._reply = reply
        self._watches = watches
        self._api = api

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
        for watch in self._watches:
            watch.note("answered", self._api)


class RequestTraces:
    """Owned by the server, and made when the first trace is asked for."""

    def __init__(
        self, node_id: int, waiting: Purgatory, clock: Clock, network: SwitchableNetwork
    ) -> None:
        self._node_id = node_id
        self._waiting = waiting
        self._clock = clock
        self._network = network
        self._behind: Dispatch = network.dispatch
        self._watches: dict[tuple[TopicPartition, bytes], RequestWatch] = {}

    @property
    def count(self) -> int:
        """Watches that are open; 0 at rest."""
        return len(self._watches)

    def of(self, one: PartitionRuntime, client_id: str, offset: int) -> Mapping[str, object]:
        """Watch a partition and the requests of a client for the next half minute, and return when
        each step about an offset was done. Raises KafkaError for too many watches."""
        key = one.partition, client_id.encode()
        watch = self._watches.get(key)
        if watch is None:
            self._make_room()
            watch = RequestWatch(one, self._clock)
            if not self._watches:
                self._behind = self._network.dispatch
                self._network.serve_with(self._dispatch, self._queued)
            self._watches[key] = watch
        if watch.parked is not None:
            watch.parked.cancel()
        watch.asked_ms = self._clock.now_ms()
        deadline_ms = watch.asked_ms + WATCH_MS
        watch.parked = self._waiting.park(
            watch.keys, deadline_ms, watch.look, partial(self._end, key)
        )
        return watch.as_json(self._node_id, offset)

    def _make_room(self) -> None:
        """Forget the watch that was not asked for longest, if there are too many. Raises
        KafkaError if all of them are in use."""
        if len(self._watches) < WATCHES_MAX:
            return
        key, oldest = min(self._watches.items(), key=lambda one: one[1].asked_ms)
        if self._clock.now_ms() - oldest.asked_ms < ABANDONED_MS:
            text = f"this broker traces {WATCHES_MAX} requests already: wait five seconds"
            raise KafkaError(ErrorCode.INVALID_REQUEST, text)
        if oldest.parked is not None:
            oldest.parked.cancel()
        del self._watches[key]

    def _end(self, key: tuple[TopicPartition, bytes]) -> None:
        del self._watches[key]
        if not self._watches and self._network.on_queued == self._queued:
            self._network.serve_with(self._behind)

    def _dispatch(self, peer: ClientPeer, frame: memoryview, reply: ReplySlot) -> Any:
        watches, api = self._watches_of(frame)
        if not watches:
            return self._behind(peer, frame, reply)
        for watch in watches:
            watch.note("taken up", api)
        result = self._behind(peer, frame, NotedReply(reply, watches, api))
        for watch in watches:
            watch.note("handled", api)
        return result

    def _queued(self, frame: memoryview) -> None:
        """A request waits for a handler; otherwise it is taken up as soon as it has arrived."""
        watches, api = self._watches_of(frame)
        for watch in watches:
            watch.note("queued", api)

    def _watches_of(self, frame: memoryview) -> tuple[list[RequestWatch], str]:
        if len(frame) < _START_BYTES:
            return [], ""
        key, _version, _number, size = _start_of(frame)
        if key not in _TRACED:
            return [], ""
        client_id = bytes(frame[_START_BYTES : _START_BYTES + max(0, size)])
        return [one for name, one in self._watches.items() if name[1] == client_id], API[key].name
