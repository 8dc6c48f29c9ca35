"""Traces a share of the requests: when each was taken up, handled and answered.

The tracer wraps the dispatcher, which needs no change. The broker loads it with
``ottla.tracing.endpoint`` only; otherwise requests go to the dispatcher directly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from ottla.broker.tracing.trace_contexts import trace_contexts
from ottla.protocol.apis import API, ApiKey
from ottla.protocol.compile import decoder
from ottla.protocol.errors import RemoteProtocolError
from ottla.protocol.headers import decode_request_header
from ottla.protocol.named_tuples import NamedTuple
from ottla.wire.messages import request_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ottla.broker.engine.context import ClientPeer, Dispatch, ReplyPart, ReplySlot
    from ottla.broker.tracing.trace_contexts import TraceContext
    from ottla.protocol.ids import Uuid
    from ottla.protocol.ports import Random


class TracedRequest(NamedTuple):
    """What a span says of a request. ``topic``: the first one of a Produce, empty for others."""

    api: str
    version: int
    client_id: str
    client_host: str
    listener: str
    topic: str = ""
    # Of a follower's Fetch; -1 for other clients.
    replica_id: int = -1
    # The spans of the clients whose records a Produce carries.
    links: tuple[TraceContext, ...] = ()


class RequestSpan(Protocol):
    """The span of one request."""

    def handled(self) -> None:
        """The handler has done its ordered part; what is left waits for data or replicas."""

    def end(self, failure: str = "") -> None:
        """The request was answered, or its connection closed for that reason."""


class RequestTracer(Protocol):
    """Where spans go."""

    def begin(self, request: TracedRequest) -> RequestSpan:
        """Begin the span of a request that is sampled."""


class TracedReply:
    """Wraps the reply of a request, and ends the span when the reply is sent.

    A handler that answers at once ends the span before it returns: it counts as handled then."""

    __slots__ = ("_is_handled", "_reply", "_span")

    def __init__(self, reply: ReplySlot, span: RequestSpan) -> None:
        self._reply = reply
        self._span = span
        self._is_handled = False

    def send(self, parts: Sequence[ReplyPart], mute_ms: float = 0) -> None:
        self._reply.send(parts, mute_ms)
        self._end()

    def skip(self) -> None:
        self._reply.skip()
        self._end()

    def close(self, reason: str) -> None:
        self._reply.close(reason)
        self._end(reason)

    def handled(self) -> None:
        """Say so to the span, once and before its end."""
        if not self._is_handled:
            self._is_handled = True
            self._span.handled()

    def _end(self, failure: str = "") -> None:
        self.handled()
        self._span.end(failure)


class RequestTracing:
    """Owned by the server. ``ratio``: the share of requests that are traced, 0 to 1."""

    def __init__(
        self,
        tracer: RequestTracer,
        ratio: float,
        random: Random,
        topic_name: Callable[[Uuid], str | None],
    ) -> None:
        self._tracer = tracer
        self._ratio = ratio
        self._random = random
        self._topic_name = topic_name

    def traced(self, behind: Dispatch) -> Dispatch:
        """The dispatcher with the tracing before it."""

        def dispatch(peer: ClientPeer, frame: memoryview, reply: ReplySlot) -> Any:
            if self._random.random() >= self._ratio:
                return behind(peer, frame, reply)
            request = self._describe(peer, frame)
            if request is None:
                return behind(peer, frame, reply)
            traced = TracedReply(reply, self._tracer.begin(request))
            result = behind(peer, frame, traced)
            traced.handled()
            return result

        return dispatch

    def _describe(self, peer: ClientPeer, frame: memoryview) -> TracedRequest | None:
        """None for what the dispatcher will refuse."""
        try:
            (key, version, _number, client_id), position = decode_request_header(frame)
            spec = API.get(key)
            if spec is None or version not in spec.versions:
                return None
            topic, replica_id = "", -1
            links: list[TraceContext] = []
            if key in (ApiKey.PRODUCE, ApiKey.FETCH):
                body, _end = decoder(request_of(key), version)(frame, position)
                if key == ApiKey.FETCH:
                    replica_id = max(body.replica_id, body.replica_state.replica_id)
                elif body.topic_data:
                    first = body.topic_data[0]
                    topic = first.name or self._topic_name(first.topic_id) or ""
                    links = trace_contexts(
                        part.records for one in body.topic_data for part in one.partition_data
                    )
        except RemoteProtocolError:
            return None
        return TracedRequest(
            spec.name,
            version,
            client_id or "",
            peer.client_host,
            peer.listener,
            topic,
            replica_id,
            tuple(links),
        )
