"""One connection: bytes in, frames to the request channel, answers out in the order of requests.

A connection is not read from while anything stands in ``blocked``; its bytes then wait in the
kernel and, through TCP, at the peer. All calls come from its processor or from the answers to its
requests; nothing here awaits.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Protocol

from ottla.broker.network.buffers import ReceiveBuffer
from ottla.broker.network.connection_age import ConnectionAge
from ottla.broker.network.output import Output
from ottla.broker.network.request import Request
from ottla.protocol.errors import RemoteProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.broker.network.connection_parts import ConnectionParts, ListenerParts
    from ottla.broker.network.strangers import Strangers
    from ottla.protocol.ports import Socket, Timer

logger = logging.getLogger("ottla.network")

# Why the next request is not started, as bits of ``AcceptedConnection.blocked``.
LANE = 1  # the ordered part of a request has not ended
CHANNEL = 2  # no handler is free and the request queue is full
UNANSWERED = 4  # too many requests wait for their answers
UNSENT = 8  # the peer does not take its answers
MUTED = 16  # a quota was exceeded (KIP-219)
BUDGET = 32  # the memory for large requests is used up
ENDING = 64  # nothing is served any more: closed, or closing after the answers

# A peer with a full pipeline must not keep the others waiting.
REQUESTS_PER_TURN_MAX = 64
# Unserved bytes are read before closing: the kernel answers unread ones with a
# reset, which destroys answers that are still on their way.
DISCARDED_BYTES_MAX = 1024 * 1024


class ConnectionHost(Protocol):
    """The processor, as its connections know it."""

    received_bytes: int
    sent_bytes: int
    response_count: int
    strangers: Strangers

    def respond(self, connection: AcceptedConnection) -> None:
        """A request is answered: call ``flush_answers`` of its connection soon."""

    def schedule(self, connection: AcceptedConnection) -> None:
        """Call ``serve`` when the others have had their turn."""

    def readiness(self, connection: AcceptedConnection, socket: Socket) -> Callable[[], object]:
        """What the connection's socket calls when it can be read."""

    def room(self, connection: AcceptedConnection) -> Callable[[], object]:
        """What the socket calls when it can be written."""

    def forget(
        self, connection: AcceptedConnection, reason: str, callbacks: list[Callable[[], object]]
    ) -> None:
        """The connection has closed."""


class AcceptedConnection:
    """Owned by one processor from accept to close. It is the ``Peer`` of its requests."""

    __slots__ = (
        "_callbacks",
        "_connection_parts",
        "_ending_reason",
        "_entrance",
        "_home",
        "_is_reading",
        "_is_writing",
        "_muted_until_ms",
        "_output",
        "_socket",
        "_transport",
        "_unmute_timer",
        "accepted_ms",
        "age",
        "blocked",
        "client_host",
        "closed",
        "connection_id",
        "intake",
        "is_dirty",
        "is_scheduled",
        "listener",
        "principal",
        "request_count",
        "respond",
        "unsent_bytes",
    )

    def __init__(
        self,
        socket: Socket,
        entrance: ListenerParts,
        connection_parts: ConnectionParts,
        home: ConnectionHost,
        name: str,
        accepted_ms: float,
    ) -> None:
        self.connection_id = name
        # Before its handshake, if it has one: a login and the handshake share one time limit.
        self.accepted_ms = accepted_ms
        self.listener = entrance.spec.name
        self.client_host = socket.peer.host
        self.principal = entrance.spec.principal
        self.closed = False
        self.respond: Callable[[AcceptedConnection], None] = home.respond
        self._home = home
        self._entrance = entrance
        self._connection_parts = connection_parts
        self._socket = socket
        self._transport = entrance.spec.transport(socket)
        self.intake = ReceiveBuffer(self, connection_parts.pool, connection_parts.budget)
        self._output = Output(entrance.spec.framing)
        self.blocked = 0
        self.request_count = 0
        # Of all answers that were given, also of those behind one that was not.
        self.unsent_bytes = 0
        self._is_reading = False
        self._is_writing = False
        self._ending_reason = ""
        self._muted_until_ms = 0.0
        self._unmute_timer: Timer | None = None
        self._callbacks: list[Callable[[], object]] = []
        # The processor's notes.
        self.is_dirty = False
        self.is_scheduled = False
        self.age = ConnectionAge()
        if entrance.spec.login is not None:
            self._entrance = entrance.spec.login(self, entrance)

    def enter(self, entrance: ListenerParts) -> None:
        """Hand frames to the channel of that entrance, from the next look at the input on."""
        self._entrance = entrance

    @property
    def has_hung_up(self) -> bool:
        return self.closed or self._socket.has_hung_up()

    def on_close(self, callback: Callable[[], object]) -> None:
        if self.closed:
            callback()
        else:
            self._callbacks.append(callback)

    @property
    def waits_for_us(self) -> bool:
        """Whether the broker, not the peer, is what holds this connection up."""
        return bool(self._output.pipeline) or bool(self.blocked & (LANE | CHANNEL | MUTED | BUDGET))

    @property
    def is_mid_request(self) -> bool:
        """Whether the peer owes the rest of a request."""
        return not self.blocked and not self.is_scheduled and self.intake.start < self.intake.end

    # Bytes in.

    def receive(self) -> None:
        """One read, then the frames that are complete. Raises OSError."""
        if self.blocked or self.is_scheduled:
            # Not done at once when it was blocked: most blocks end before more bytes arrive, and
            # each change of interest is a call into the kernel.
            self._is_reading = False
            self._socket.on_readable(None)
            return
        try:
            count = self.intake.receive(self._transport)
        except (BlockingIOError, InterruptedError):
            return
        if count == 0:
            self.close("the peer has finished")
            return
        self.age.is_active = True
        self._home.received_bytes += count
        self.serve()

    def serve(self) -> None:
        """Hand complete frames to the channel until one is incomplete or something blocks."""
        intake = self.intake
        frame_bytes = 0
        if intake.view is not None:
            try:
                frame_bytes = self._serve_complete_frames(intake.view)
            except RemoteProtocolError as error:
                if not self.request_count:
                    first = bytes(intake.view[intake.start : intake.start + 4])
                    self._home.strangers.look(self.listener, self.client_host, first)
                self.end(str(error))
        if self.blocked or self.is_scheduled:
            if intake.start == intake.end and not self.blocked & LANE:
                intake.release()
            return
        if intake.start == intake.end:
            # Nearly always: there are whole frames, and they are served.
            intake.release()
        elif not intake.make_room(frame_bytes):
            self.blocked |= BUDGET
            return
        if not self._is_reading:
            self._is_reading = True
            self._socket.on_readable(self._home.readiness(self, self._socket))

    def _serve_complete_frames(self, view: memoryview) -> int:
        """The length of the incomplete frame that is left, 0 if unknown or none.

        When something blocks or the turn is over, ``blocked`` or ``is_scheduled`` says so."""
        intake = self.intake
        framing = self._entrance.spec.framing
        measure, prefix_bytes = framing.measure, framing.prefix_bytes
        channel = self._entrance.channel
        free_handlers, submit = channel.free, channel.submit
        pipeline = self._output.pipeline
        settings = self._connection_parts.settings
        unanswered_max, unsent_max = settings.unanswered_requests_max, settings.unsent_bytes_max
        start, end = intake.start, intake.end
        turn_end = self.request_count + REQUESTS_PER_TURN_MAX
        while start < end:
            frame_bytes = measure(view, start, end)
            frame_end = start + frame_bytes
            if frame_end > end or not frame_bytes:
                return frame_bytes
            if self.request_count == turn_end:
                self._home.schedule(self)
                return 0
            if not free_handlers and channel.is_full:
                self.blocked |= CHANNEL
                channel.park(self)
                return 0
            request = Request(self)
            pipeline.append(request)
            self.request_count += 1
            intake.start = frame_end
            if not submit(request, view[start + prefix_bytes : frame_end]):
                self.blocked |= LANE
            if len(pipeline) >= unanswered_max:
                self.blocked |= UNANSWERED
            if self.unsent_bytes > unsent_max:
                self.blocked |= UNSENT
            if self.blocked:
                break
            start = frame_end
        return 0

    # What blocks and unblocks.

    def _unblock(self, bit: int) -> None:
        if self.blocked & bit:
            self.blocked &= ~bit
            if not self.blocked:
                self._home.schedule(self)

    def open_lane(self) -> None:
        self._unblock(LANE)
        if self.closed:
            self.intake.release()

    def on_channel_room(self) -> None:
        self._unblock(CHANNEL)

    def on_budget(self) -> None:
        self._unblock(BUDGET)

    def mute(self, mute_ms: float) -> None:
        """Of several demands the latest end counts."""
        if self.closed:
            return
        clock = self._connection_parts.clock
        self._muted_until_ms = max(self._muted_until_ms, clock.now_ms() + mute_ms)
        self.blocked |= MUTED
        if self._unmute_timer is None:
            self._unmute_timer = clock.call_at(self._muted_until_ms, self._on_unmute)

    def _on_unmute(self) -> None:
        clock = self._connection_parts.clock
        if clock.now_ms() < self._muted_until_ms:
            self._unmute_timer = clock.call_at(self._muted_until_ms, self._on_unmute)
        else:
            self._unmute_timer = None
            self._unblock(MUTED)

    # Answers out.

    def flush_answers(self) -> None:
        """Take the answers whose turn has come and send what finds room. Raises OSError."""
        output = self._output
        count = output.collect()
        self.unsent_bytes += count * self._entrance.spec.framing.prefix_bytes
        self._home.response_count += count
        settings = self._connection_parts.settings
        if not self._is_writing:
            self.flush()
        elif self.unsent_bytes > settings.unsent_bytes_max:
            self.blocked |= UNSENT
        if self.blocked & UNANSWERED and len(output.pipeline) < settings.unanswered_requests_max:
            self._unblock(UNANSWERED)

    def on_room(self) -> None:
        """The kernel has room again. A large region calls this for every 256 KiB, so that nothing
        else is looked at before its end. HOT. Raises OSError."""
        output = self._output
        if output.is_in_region and not self.blocked:
            sent, is_blocked = output.send_region(self._transport)
            self.unsent_bytes -= sent
            self.age.is_active = True
            self._home.sent_bytes += sent
            if is_blocked:
                return
        self.flush()

    def flush(self) -> None:
        """Send what finds room, and see to the rest. Raises OSError."""
        output = self._output
        sent = output.flush(self._transport)
        if sent:
            self.unsent_bytes -= sent
            self.age.is_active = True
            self._home.sent_bytes += sent
        unsent_bytes_max = self._connection_parts.settings.unsent_bytes_max
        if self.unsent_bytes > unsent_bytes_max:
            self.blocked |= UNSENT
        elif self.blocked & UNSENT and self.unsent_bytes <= unsent_bytes_max // 2:
            self._unblock(UNSENT)
        # With no answer unsent, which is nearly always so, nothing waits in the output either.
        if not self.unsent_bytes or not output:
            if self._is_writing:
                self._is_writing = False
                self._socket.on_writable(None)
            if output.has_ended:
                self._discard_input()
                self.close(self._ending_reason)
        elif not self._is_writing and not self.closed:
            self._is_writing = True
            self._socket.on_writable(self._home.room(self))

    # The end.

    def stop_serving(self, reason: str) -> None:
        self.blocked |= ENDING
        self._ending_reason = self._ending_reason or reason

    def end(self, reason: str) -> None:
        last = Request(self)
        self._output.pipeline.append(last)
        last.close(reason)

    def _discard_input(self) -> None:
        rest = memoryview(bytearray(16 * 1024))
        try:
            for _ in range(DISCARDED_BYTES_MAX // len(rest)):
                if self._transport.recv_into(rest) < len(rest):
                    return
        except OSError:
            return

    def close(self, reason: str) -> None:
        """Drop the connection and whatever it still had to say. May be called again."""
        if self.closed:
            return
        self.closed = True
        self.blocked |= ENDING
        self._socket.close()
        self._output.clear()
        if self._unmute_timer is not None:
            self._unmute_timer.cancel()
        if not self.blocked & LANE:
            self.intake.release()
        self._connection_parts.budget.forget(self)
        callbacks, self._callbacks = self._callbacks, []
        self._home.forget(self, reason, callbacks)
