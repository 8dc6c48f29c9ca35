# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: binding=False, auto_pickle=False
"""Waiting for plaintext connections, compiled, for Linux.

``Poller`` has an epoll of its own, which the event loop watches as one descriptor. What it calls for
a connection is in compiled_serving.pyx.
"""

import asyncio
import os

from libc.errno cimport errno
from libc.stdint cimport uint32_t, uint64_t

from compiled_system cimport (
    EPOLL_CLOEXEC,
    EPOLL_CTL_ADD,
    EPOLL_CTL_DEL,
    EPOLLIN,
    epoll_create1,
    epoll_ctl,
    epoll_event,
    epoll_wait,
)

from ottla.broker.network.compiled_serving import Readiness
from ottla.broker.network.transport import PlaintextTransport
from ottla.protocol.frames import KafkaFraming

cdef extern from *:
    """
    #ifndef OTTLA_SOURCE_CRC
    #define OTTLA_SOURCE_CRC 0
    #endif
    """
    unsigned long OTTLA_SOURCE_CRC

SOURCE_CRC = OTTLA_SOURCE_CRC
"""Of the text that this was built from, so that a stale build can be told."""

cdef enum:
    EVENTS_PER_TURN_MAX = 64


cdef class Poller:
    """Calls back for descriptors that can be read. Used by one event loop."""

    cdef int _epoll
    cdef bint _is_closing
    cdef object _loop
    cdef dict _callbacks
    # So that an event of a descriptor that was closed is not taken for its successor's.
    cdef uint32_t _generation

    def __init__(self):
        """Raises OSError."""
        self._callbacks = {}
        self._loop = asyncio.get_running_loop()
        self._open()

    cdef _open(self):
        self._epoll = epoll_create1(EPOLL_CLOEXEC)
        if self._epoll < 0:
            raise OSError(errno, os.strerror(errno))
        self._loop.add_reader(self._epoll, self._turn)

    def add(self, int descriptor, callback):
        """Call back whenever the descriptor can be read. Raises OSError."""
        cdef epoll_event event
        if self._epoll < 0:
            # The listener has ended while none of its connections was read from.
            self._open()
        if self._callbacks.pop(descriptor, None) is not None:
            epoll_ctl(self._epoll, EPOLL_CTL_DEL, descriptor, NULL)
        self._generation += 1
        event.events = EPOLLIN
        event.data.u64 = <uint64_t>self._generation << 32 | <uint32_t>descriptor
        if epoll_ctl(self._epoll, EPOLL_CTL_ADD, descriptor, &event) < 0:
            failure = OSError(errno, os.strerror(errno))
            if self._is_closing:
                self.close()
            raise failure
        self._callbacks[descriptor] = (self._generation, callback)

    def readiness(self, connection, processor):
        """What is to be called for that connection; None if it must be served in Python."""
        if type(connection._transport) is not PlaintextTransport:
            return None
        if type(connection._entrance.spec.framing) is not KafkaFraming:
            return None
        return Readiness(connection, processor)

    def remove(self, int descriptor):
        """Call back no more. To be called before the descriptor is closed."""
        if self._callbacks.pop(descriptor, None) is not None:
            epoll_ctl(self._epoll, EPOLL_CTL_DEL, descriptor, NULL)
        if self._is_closing:
            self.close()

    def close(self):
        """End once all descriptors are removed; one that is added later begins anew. May be called
        again."""
        self._is_closing = True
        if self._callbacks or self._epoll < 0:
            return
        epoll, self._epoll = self._epoll, -1
        self._loop.remove_reader(epoll)
        os.close(epoll)

    def _turn(self):
        cdef epoll_event events[EVENTS_PER_TURN_MAX]
        cdef tuple entry
        cdef int count, place
        count = epoll_wait(self._epoll, events, EVENTS_PER_TURN_MAX, 0)
        for place in range(count):
            entry = self._callbacks.get(<uint32_t>events[place].data.u64)
            if entry is None or <uint32_t>entry[0] != <uint32_t>(events[place].data.u64 >> 32):
                continue
            try:
                entry[1]()
            except Exception as error:
                self._loop.call_exception_handler(
                    {"message": "a callback of a socket failed", "exception": error}
                )
