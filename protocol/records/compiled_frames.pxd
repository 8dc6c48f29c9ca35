# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Pieces of requests and answers that compiled_straight.pyx reads and writes. The caller has compared
what is read with where the frame ends, and made room for what is written."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcpy, memset

from compiled_numbers cimport put_int16, put_int32, put_int64

ctypedef const uint8_t *Bytes

cdef enum:
    ID_BYTES = 16
    UVARINT_BYTES_MAX = 5
    # Of an appended batch: index, error, base offset, time, log start offset.
    APPENDED_BYTES = 30


cdef inline object name_at(Bytes at, Py_ssize_t size):
    """None for bytes that are no text."""
    try:
        return PyUnicode_DecodeUTF8(<const char *>at, size, NULL)
    except UnicodeDecodeError:
        return None


cdef inline object bytes_at(Bytes at, Py_ssize_t size):
    return PyBytes_FromStringAndSize(<const char *>at, size)


cdef inline object named_at(Bytes name, Py_ssize_t size, bint by_id):
    """The topic as an answer spells it again: with the counts before and behind it."""
    cdef Py_ssize_t before = 1 if by_id else 2
    return bytes_at(name - before, before + size + 1)


cdef inline uint8_t *start(uint8_t *out, int32_t correlation_id, int zeros, bytes named):
    """Correlation id, zeros and the topic."""
    out = put_int32(out, correlation_id)
    memset(out, 0, zeros)
    out += zeros
    memcpy(out, PyBytes_AS_STRING(named), PyBytes_GET_SIZE(named))
    return out + PyBytes_GET_SIZE(named)


cdef inline uint8_t *put_offsets(uint8_t *out, int32_t index, tuple offsets):
    out = put_int16(put_int32(out, index), 0)
    for place in range(3):
        out = put_int64(out, <int64_t>offsets[place])
    return out


cdef inline bytes appended(
    int32_t correlation_id,
    bytes named,
    int32_t index,
    int64_t base_offset,
    int64_t log_start_offset,
    bint is_flexible,
    bint has_errors,
):
    cdef Py_ssize_t size = 4 + is_flexible + PyBytes_GET_SIZE(named) + APPENDED_BYTES
    # Record errors, error message, throttle time; with tags where there are any.
    cdef Py_ssize_t rest = 9 if is_flexible else 10 if has_errors else 4
    cdef bytes answer = PyBytes_FromStringAndSize(NULL, size + rest)
    cdef uint8_t *out = start(
        <uint8_t *>PyBytes_AS_STRING(answer), correlation_id, is_flexible, named
    )
    out = put_int16(put_int32(out, index), 0)
    out = put_int64(put_int64(put_int64(out, base_offset), -1), log_start_offset)
    memset(out, 0, rest)
    if is_flexible:
        out[0] = 1
    elif has_errors:
        out[4] = out[5] = 0xFF
    return answer
