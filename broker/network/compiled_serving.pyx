# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: binding=False, auto_pickle=False
"""Reading, framing and answering of plaintext connections, compiled, for Linux.

``Readiness`` does in one call what ``AcceptedConnection.receive`` and ``Processor._on_event`` do when
nothing is in the way. Whatever is unusual (something blocks, a request is incomplete or waits, an
answer is large) it leaves to them, in the state that they expect.
"""

import os

from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from libc.errno cimport EAGAIN, EINTR, errno
from libc.stdint cimport uint8_t

from compiled_system cimport MSG_DONTWAIT, MSG_NOSIGNAL, PREFIX_BYTES, put, recv, send

from ottla.broker.network.channel import RequestChannel
from ottla.broker.network.connection import LANE, REQUESTS_PER_TURN_MAX, UNANSWERED, UNSENT
from ottla.broker.network.request import END_CONNECTION, NO_ANSWER
from ottla.protocol.ports import FileRegion

cdef extern from *:
    """
    #ifndef OTTLA_SOURCE_CRC
    #define OTTLA_SOURCE_CRC 0
    #endif
    """
    unsigned long OTTLA_SOURCE_CRC

# Of the text that this was built from, so that a stale build can be told.
SOURCE_CRC = OTTLA_SOURCE_CRC

cdef enum:
    # Answers of a turn up to this size leave in one call, from here.
    ANSWERS_BYTES_MAX = 16384

cdef int LANE_BIT = LANE
cdef int UNANSWERED_BIT = UNANSWERED
cdef int UNSENT_BIT = UNSENT
cdef int OUTPUT_BITS = UNANSWERED | UNSENT
cdef Py_ssize_t REQUESTS_MAX = REQUESTS_PER_TURN_MAX
cdef object CHANNEL_KIND = RequestChannel, REGION = FileRegion
cdef object NOTHING = NO_ANSWER, END = END_CONNECTION
# The buffer that was read into last, if no request has kept it: it may still be in CPU caches.
cdef object spare = None


cdef class CompiledRequest:
    """The twin of ``request.Request``; ``is_held`` while ``Readiness`` looks at its answer itself."""

    cdef public object owner, parts
    cdef public Py_ssize_t size_bytes
    cdef bint is_held

    def send(self, parts, double mute_ms=0):
        cdef object part, owner = self.owner
        cdef Py_ssize_t size = 0
        assert self.parts is None, "a request is answered once"
        for part in parts:
            size += part.size_bytes if type(part) is REGION else len(part)
        assert parts, "an answer has at least one part"
        self.size_bytes = size
        self.parts = parts
        if not self.is_held:
            owner.unsent_bytes += size
        if mute_ms > 0:
            owner.mute(mute_ms)
        self.tell()

    def skip(self):
        assert self.parts is None, "a request is answered once"
        self.parts = NOTHING
        self.tell()

    def close(self, reason):
        assert self.parts is None, "a request is answered once"
        self.parts = END
        self.owner.stop_serving(reason)
        self.tell()

    cdef tell(self):
        if not self.is_held and not self.owner.is_dirty:
            self.owner.respond(self.owner)


cdef class Readiness:
    """What is called when one connection of a processor can be read."""

    cdef object _connection, _processor, _intake, _output, _pipeline, _pool, _age, _turn
    # The one that the limit of frames was taken from: after a login another one counts.
    cdef object _entrance
    cdef int _descriptor
    cdef Py_ssize_t _unanswered_max, _unsent_max, _frame_bytes_max
    # Of answers that are held: not yet in the connection's ``unsent_bytes``.
    cdef Py_ssize_t _held_bytes

    def __init__(self, connection, processor):
        parts = connection._connection_parts
        self._connection = connection
        self._processor = processor
        self._intake = connection.intake
        self._output = connection._output
        self._pipeline = connection._output.pipeline
        self._pool = parts.pool
        self._turn = parts.turn
        self._age = connection.age
        self._descriptor = connection._socket.descriptor
        self._unanswered_max = parts.settings.unanswered_requests_max
        self._unsent_max = parts.settings.unsent_bytes_max
        self.look_at(connection._entrance)

    cdef look_at(self, entrance):
        self._entrance = entrance
        self._frame_bytes_max = entrance.spec.framing._frame_bytes_max

    def __call__(self):
        self.serve()

    cdef serve(self):
        """Read once, hand the requests over, send the answers."""
        global spare
        cdef object connection = self._connection, intake = self._intake, view
        cdef object entrance = connection._entrance, channel = connection._entrance.channel
        cdef Py_ssize_t count
        if (
            connection.blocked
            or connection.is_scheduled
            or connection._is_writing
            or intake.view is not None
            or intake._wants_large
            or self._pipeline
            or type(channel) is not CHANNEL_KIND
        ):
            self._processor._on_event(connection, connection.receive)
            return
        if entrance is not self._entrance:
            self.look_at(entrance)
        view, spare = spare, None
        if view is None:
            view = self._pool.take_small()
        count = self.read(view)
        if count <= 0:
            spare = view
            if count != -EAGAIN and count != -EINTR:
                self.leave(-count)
            return
        self._age.is_active = True
        self._processor.received_bytes += count
        self._processor._is_running = self._turn.is_event = True
        self._held_bytes = 0
        try:
            try:
                self.take(channel, view, count)
                self.answer()
            except Exception as error:
                self._processor._on_failure(connection, error)
            if self._processor._answered:
                self._processor._process_answers()
        finally:
            self._processor._is_running = False
            self._turn.end()

    cdef Py_ssize_t read(self, view) except? -1000000:
        """The bytes that came; 0 if the peer has finished, a negative error."""
        cdef Py_buffer room
        cdef Py_ssize_t count
        PyObject_GetBuffer(view, &room, PyBUF_SIMPLE | PyBUF_WRITABLE)
        count = recv(self._descriptor, room.buf, room.len, MSG_DONTWAIT)
        if count < 0:
            count = -errno
        PyBuffer_Release(&room)
        return count

    cdef leave(self, int failure):
        """The peer has finished, or the connection is broken."""
        connection = self._connection

        def end():
            if failure:
                raise OSError(failure, os.strerror(failure))
            connection.close("the peer has finished")

        self._processor._on_event(connection, end)

    cdef take(self, channel, view, Py_ssize_t count):
        """Hand complete requests to the channel; what stops that is left to the connection."""
        global spare
        cdef object connection = self._connection, intake = self._intake
        cdef Py_buffer content
        cdef Py_ssize_t taken = 0, start, blocked
        PyObject_GetBuffer(view, &content, PyBUF_SIMPLE)
        try:
            start = self.hand_over(channel, view, <const uint8_t *>content.buf, count, &taken)
        finally:
            PyBuffer_Release(&content)
        if count == len(view):
            # As ``ReceiveBuffer.receive``: who fills a small buffer has more to say.
            intake._wants_large = True
        blocked = connection.blocked
        if start == count and not blocked & LANE_BIT:
            spare = view
            return
        if connection.closed and not blocked & LANE_BIT:
            return
        intake.view = view
        intake._limit = len(view)
        intake.start = start
        intake.end = count
        if blocked:
            return
        if taken == REQUESTS_MAX:
            self._processor.schedule(connection)
            return
        # An incomplete request, one that is refused, or no free handler. While it is dirty, the
        # connection announces none of the answers: ``answer`` looks at them.
        self.account()
        connection.is_dirty = True
        try:
            connection.serve()
        finally:
            connection.is_dirty = False

    cdef Py_ssize_t hand_over(
        self, channel, view, const uint8_t *at, Py_ssize_t count, Py_ssize_t *taken
    ) except -1:
        """Where the first request begins that was not handed over."""
        cdef object connection = self._connection, free = channel.free
        cdef CompiledRequest request
        cdef Py_ssize_t start = 0, end, size
        while count - start >= PREFIX_BYTES and taken[0] < REQUESTS_MAX and free:
            size = <Py_ssize_t>at[start] << 24 | at[start + 1] << 16
            size |= at[start + 2] << 8 | at[start + 3]
            end = start + PREFIX_BYTES + size
            if size > self._frame_bytes_max or end > count:
                break
            request = CompiledRequest.__new__(CompiledRequest)
            request.owner = connection
            request.is_held = True
            self._pipeline.append(request)
            connection.request_count += 1
            if not channel.submit(request, view[start + PREFIX_BYTES : end]):
                connection.blocked |= LANE_BIT
            request.is_held = False
            self._held_bytes += request.size_bytes
            start = end
            taken[0] += 1
            if len(self._pipeline) >= self._unanswered_max:
                connection.blocked |= UNANSWERED_BIT
            if connection.unsent_bytes + self._held_bytes > self._unsent_max:
                connection.blocked |= UNSENT_BIT
            if connection.blocked:
                break
        return start

    cdef account(self):
        if self._held_bytes:
            self._connection.unsent_bytes += self._held_bytes
            self._held_bytes = 0

    cdef answer(self):
        """Send small answers if all are there; leave others to the processor."""
        cdef object connection = self._connection, request, parts
        cdef char answers[ANSWERS_BYTES_MAX]
        cdef Py_ssize_t size, total = 0, count = 0, sent
        cdef bint is_answered = False, is_small = True
        if connection.closed or not self._pipeline:
            return
        for request in self._pipeline:
            parts = request.parts
            if parts is None:
                is_small = False
                continue
            is_answered = True
            if is_small:
                size = 0
                if type(parts) is tuple and len(<tuple>parts) == 1 and parts is not END:
                    size = put((<tuple>parts)[0], answers + total, ANSWERS_BYTES_MAX - total)
                is_small = size > 0
                total += size
                count += 1
        if not is_small:
            self.account()
            if is_answered and not connection.is_dirty:
                connection.respond(connection)
            return
        self._pipeline.clear()
        self._processor.response_count += count
        sent = max(0, send(self._descriptor, answers, total, MSG_DONTWAIT | MSG_NOSIGNAL))
        self._processor.sent_bytes += sent
        if sent == total and self._held_bytes == total - count * PREFIX_BYTES:
            # All of them were held: they never counted as unsent.
            self._held_bytes = 0
        else:
            self.account()
            connection.unsent_bytes += count * PREFIX_BYTES - sent
        if sent < total:
            self._output._tail += answers[sent:total]
        if sent < total or connection.blocked & OUTPUT_BITS:
            connection.flush_answers()
