# cython: language_level=3
"""The calls of the system that compiled_reactor.pyx uses, and the form of an answer."""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memcpy

cdef enum:
    PREFIX_BYTES = 4

cdef extern from "sys/epoll.h" nogil:
    ctypedef union epoll_data_t:
        uint64_t u64

    struct epoll_event:
        uint32_t events
        epoll_data_t data

    int epoll_create1(int flags)
    int epoll_ctl(int epoll, int operation, int descriptor, epoll_event *event)
    int epoll_wait(int epoll, epoll_event *events, int most, int timeout_ms)
    enum:
        EPOLLIN
        EPOLL_CLOEXEC
        EPOLL_CTL_ADD
        EPOLL_CTL_DEL

cdef extern from "sys/socket.h" nogil:
    ssize_t recv(int descriptor, void *into, size_t most, int flags)
    ssize_t send(int descriptor, const void *content, size_t size, int flags)
    enum:
        MSG_DONTWAIT
        MSG_NOSIGNAL


cdef inline Py_ssize_t put(part, char *out, Py_ssize_t room):
    """Write an answer of one part behind its length; 0 if it is no bytes or finds no room."""
    cdef const char *content
    cdef Py_ssize_t size
    if type(part) is bytes:
        content, size = PyBytes_AS_STRING(part), PyBytes_GET_SIZE(part)
    elif type(part) is bytearray:
        content, size = PyByteArray_AS_STRING(part), PyByteArray_GET_SIZE(part)
    else:
        return 0
    if size + PREFIX_BYTES > room:
        return 0
    out[0] = <char>(size >> 24)
    out[1] = <char>(size >> 16)
    out[2] = <char>(size >> 8)
    out[3] = <char>size
    memcpy(out + PREFIX_BYTES, content, size)
    return size + PREFIX_BYTES
