"""Frame to header to request to handler to reply: the outermost layer of every request.

Nothing here knows what an API does. A handler gives back one of four things: a response, an
answer that comes later (a response, or a coroutine that makes it), a coroutine (its ordered part
must suspend; ``Paused`` if that is to wait for another broker), or None (no reply is owed).
Unknown versions and malformed bodies cost the connection; an unknown API key does not.
"""

from __future__ import annotations

import logging
from struct import Struct
from types import CoroutineType
from typing import TYPE_CHECKING, Any

from ottla.broker.api.metering import MeteredReply, metered
from ottla.broker.api.timing import TimedReply
from ottla.broker.engine.context import (
    ClientPeer,
    Paused,
    ReplySlot,
    RequestContext,
    spliced,
)
from ottla.broker.engine.deferred import DeferredAnswer
from ottla.broker.engine.histogram import Histogram
from ottla.broker.engine.request_log import REQUEST_LOG
from ottla.protocol.compile import decoder, encoder
from ottla.protocol.errors import ErrorCode, KafkaError, RemoteProtocolError
from ottla.protocol.headers import (
    decode_request_header,
    response_header,
    write_response_header,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from ottla.broker.api.table import Api
    from ottla.broker.engine.tasks import Tasks
    from ottla.broker.handlers.services import Services
    from ottla.protocol.ports import FileRegion

logger = logging.getLogger("ottla.api")

Outcome = Any
"""A response message, a Later of one, a coroutine that ends in one of these (perhaps ``Paused``),
or None."""

_PREFIX = Struct(">hhi")
# API, version, correlation id, and the length of the client id that follows.
_START_BYTES = 10
_start_of = Struct(">hhih").unpack_from
_API_VERSIONS_KEY = 18
_UNSUPPORTED_VERSION = Struct(">ih")
_UNSUPPORTED = ErrorCode.UNSUPPORTED_VERSION
# Of requests that may go straight one in 64 is timed, of all others each one.
_SAMPLE = 63


class _Route:
    """One (API, version), with its codec compiled."""

    __slots__ = (
        "count",
        "decode",
        "encode",
        "handler",
        "header",
        "key",
        "response",
        "straight",
        "times",
        "version",
        "waits",
    )

    def __init__(self, api: Api, version: int, times: Histogram) -> None:
        self.key = api.key
        self.version = version
        self.count = 0
        self.times = times
        self.waits = api.waits
        self.response = api.response
        self.header = response_header(api.key, version)
        self.handler: Callable[[Services, RequestContext, Any], Outcome] = api.handler(version)
        self.decode = decoder(api.request, version)
        self.encode = encoder(api.response, version)
        self.straight = api.straight(version)


class Dispatcher:
    """Built once by the server; its ``dispatch`` is what the network calls with each frame."""

    def __init__(self, services: Services, table: Mapping[int, Api], tasks: Tasks) -> None:
        self._services = services
        self._quotas = services.quotas
        self._tasks = tasks
        self._table = table
        self._routes: dict[int, _Route] = {}
        self._now_ms = services.ports.clock.now_ms
        self.bug_count = 0
        # By API key how long requests took until they were answered, in a sample.
        self.times: dict[int, Histogram] = {}

    @property
    def counts_by_version(self) -> list[tuple[int, int, int]]:
        """API key, version and how many well-formed requests of it there were."""
        return [(route.key, route.version, route.count) for route in self._routes.values()]

    def dispatch(self, peer: ClientPeer, frame: memoryview, reply: ReplySlot) -> Any:
        """Handle one frame; the meaning of the result is ``context.Dispatch``'s."""
        if len(frame) >= _START_BYTES and not REQUEST_LOG.is_on:
            key, version, correlation_id, size = _start_of(frame)
            route = self._routes.get(key << 16 | version)
            if (
                route is not None
                and route.straight is not None
                and size >= 0
                and not (self._quotas.is_active and self._is_limited(peer, frame, size))
            ):
                if not route.count & _SAMPLE:
                    REQUEST_LOG.refresh()
                    reply = TimedReply(reply, route.times, self._now_ms)
                try:
                    answer = route.straight(
                        self._services, peer, frame, _START_BYTES + size, correlation_id
                    )
                except Exception as error:
                    self._on_bug(route, error, reply)
                    return None
                if answer is not None:
                    route.count += 1
                    if isinstance(answer, DeferredAnswer):
                        answer.then(reply.send)
                    elif answer:
                        reply.send(answer)
                    else:
                        reply.skip()
                    return None
        return self._dispatch_any(peer, frame, reply)

    def _is_limited(self, peer: ClientPeer, frame: memoryview, size: int) -> bool:
        """Whether the sender has quotas, to which only the ordinary way sees."""
        client_id = frame[_START_BYTES : _START_BYTES + size]
        return self._quotas.limits(peer.principal, client_id)

    def _dispatch_any(self, peer: ClientPeer, frame: memoryview, reply: ReplySlot) -> Any:
        try:
            (key, version, correlation_id, client_id), position = decode_request_header(frame)
        except RemoteProtocolError as error:
            self._refuse_header(frame, reply, error)
            return None
        route = self._routes.get(key << 16 | version)
        if route is None:
            route = self._find_route(key, version, correlation_id, reply)
            if route is None:
                return None
            reply = TimedReply(reply, route.times, self._now_ms)
        elif route.straight is None:
            reply = TimedReply(reply, route.times, self._now_ms)
        context = RequestContext(
            peer, key, version, correlation_id, client_id or "", self._now_ms()
        )
        if REQUEST_LOG.refresh():
            REQUEST_LOG.write(context)
        try:
            # Bytes after the request are ignored, as Kafka does: librdkafka 2.x asks for all
            # topics with an array count of the older encoding, which leaves three behind.
            request, _end = route.decode(frame, position)
        except RemoteProtocolError as error:
            reply.close(f"malformed request (api {key} version {version}): {error}")
            return None
        route.count += 1
        if self._quotas.is_active:
            reply = metered(self._quotas, context, request, len(frame), reply)
        try:
            outcome = route.handler(self._services, context, request)
        except Exception as error:
            self._on_bug(route, error, reply)
            return None
        if outcome.__class__ is route.response:
            self._send(route, correlation_id, outcome, reply)
            return None
        if isinstance(reply, MeteredReply):
            reply.suspend()
        if outcome.__class__ is CoroutineType:
            suspended = self._suspended(route, correlation_id, outcome, reply)
            if not route.waits:
                return suspended
            # Otherwise eight clients that create topics would block every produce.
            self._tasks.spawn(f"api {key} of {peer.connection_id}", suspended)
            return None
        if outcome.__class__ is Paused:
            return Paused(self._suspended(route, correlation_id, outcome.coroutine, reply))
        self._settle(route, correlation_id, outcome, reply)
        return None

    async def _suspended(
        self,
        route: _Route,
        correlation_id: int,
        coroutine: Coroutine[Any, Any, Any],
        reply: ReplySlot,
    ) -> None:
        try:
            outcome = await coroutine
        except Exception as error:
            self._on_bug(route, error, reply)
            return
        self._settle(route, correlation_id, outcome, reply)

    def _settle(
        self, route: _Route, correlation_id: int, outcome: Outcome, reply: ReplySlot
    ) -> None:
        if outcome is None:
            reply.skip()
        elif isinstance(outcome, DeferredAnswer):
            outcome.then(lambda answer: self._deliver(route, correlation_id, answer, reply))
        else:
            self._send(route, correlation_id, outcome, reply)

    def _deliver(self, route: _Route, correlation_id: int, answer: Any, reply: ReplySlot) -> None:
        """Send an answer that came later, or first carry out the work that it takes: neither a
        handler nor the connection's next request waits for that."""
        if answer.__class__ is CoroutineType:
            work = self._suspended(route, correlation_id, answer, reply)
            self._tasks.spawn(f"answer of api {route.key}", work)
        else:
            self._send(route, correlation_id, answer, reply)

    def _send(self, route: _Route, correlation_id: int, response: Any, reply: ReplySlot) -> None:
        out = bytearray(route.header(correlation_id))
        regions: list[tuple[int, FileRegion]] = []
        mute_ms = reply.charge(response) if isinstance(reply, MeteredReply) else 0
        try:
            route.encode(response, out, regions)
        except Exception as error:
            self._on_bug(route, error, reply)
            return
        if regions:
            reply.send(spliced(out, regions), mute_ms)
        else:
            reply.send((out,), mute_ms)

    def _on_bug(self, route: _Route, error: Exception, reply: ReplySlot) -> None:
        # A closed connection is the one answer that every client takes as "unknown, retry": an
        # UNKNOWN_SERVER_ERROR would make producers give up exactly-once (hazard T-08).
        if isinstance(error, KafkaError):
            reply.close(f"api {route.key} version {route.version}: {error}")
            return
        self.bug_count += 1
        logger.error("api %s version %s failed", route.key, route.version, exc_info=error)
        reply.close("internal error")

    def _refuse_header(
        self, frame: memoryview, reply: ReplySlot, error: RemoteProtocolError
    ) -> None:
        # Of an API or version that is unknown here, what follows the first eight bytes is too.
        if len(frame) < _PREFIX.size:
            reply.close("a request shorter than its header")
            return
        key, version, correlation_id = _PREFIX.unpack_from(frame)
        if self._find_route(key, version, correlation_id, reply) is not None:
            reply.close(f"malformed request (api {key} version {version}): {error}")

    def _find_route(
        self, key: int, version: int, correlation_id: int, reply: ReplySlot
    ) -> _Route | None:
        api = self._table.get(key)
        if api is None:
            reply.send((_UNSUPPORTED_VERSION.pack(correlation_id, _UNSUPPORTED),))
            return None
        if not api.serves(version):
            if key == _API_VERSIONS_KEY:
                self._answer_unsupported_api_versions(api, correlation_id, reply)
            else:
                reply.close(f"api {api.key} version {version} is not served")
            return None
        times = self.times.setdefault(key, Histogram())
        return self._routes.setdefault(key << 16 | version, _Route(api, version, times))

    def _answer_unsupported_api_versions(
        self, api: Api, correlation_id: int, reply: ReplySlot
    ) -> None:
        # The request's layout is unknown, its body is not looked at; every client can read a
        # version 0 body and retries with what it says of this one API (KIP-511).
        response = api.response()
        response.error_code = ErrorCode.UNSUPPORTED_VERSION
        response.api_keys = [
            one for one in self._services.advertised(0) if one.api_key == _API_VERSIONS_KEY
        ]
        out = bytearray()
        write_response_header(out, api.key, 0, correlation_id)
        encoder(api.response, 0)(response, out, [])
        reply.send((out,))
