# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: binding=False, auto_pickle=False, freethreading_compatible=True
"""The produce and fetch requests of one partition, read and answered, compiled: the twin of what
straight.py and straight_fetch.py do, function for function. A test holds the two against each other.

No byte is read that was not compared with where the frame ends.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy, memset

from compiled_frames cimport (
    ID_BYTES,
    UVARINT_BYTES_MAX,
    Bytes,
    appended,
    bytes_at,
    name_at,
    named_at,
    put_offsets,
    start,
)
from compiled_numbers cimport (
    int16_at,
    int32_at,
    int64_at,
    put_int32,
    put_uvarint,
    read_uvarint,
    uint16_at,
)

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
    # Behind a name or an id of a flexible request: count, index and what belongs to the partition.
    PRODUCE_PARTITION_BYTES = 6
    FETCH_PARTITION_BYTES = 37
    # Index, error, three offsets, aborted transactions (one byte or four), preferred replica.
    READ_BYTES = 35


cdef inline object read_flexible(object frame, Py_ssize_t position, bint by_id):
    cdef Py_buffer view
    cdef Bytes base, at, end, name, partition, records, tags
    cdef Py_ssize_t size, head = 9 if by_id else 10
    cdef int64_t length = 0
    PyObject_GetBuffer(frame, &view, PyBUF_SIMPLE)
    try:
        base = <Bytes>view.buf
        end = base + view.len
        if position < 0 or position + head + ID_BYTES * by_id > view.len:
            return None
        # Tags, transactional id, acks, timeout, number of topics, length of the name.
        at = base + position
        name = at + head
        size = ID_BYTES if by_id else <Py_ssize_t>at[9] - 1
        if at[0] or at[1] or at[8] != 2 or not 0 <= size < 127:
            return None
        if end - name < size + PRODUCE_PARTITION_BYTES:
            return None
        partition = name + size
        if partition[0] != 2:
            return None
        records = read_uvarint(partition + 5, end, &length)
        # Behind the records are the empty tag sections of partition, topic and request.
        if records == NULL or not length or end - records != length + 2:
            return None
        tags = records + length - 1
        if tags[0] or tags[1] or tags[2]:
            return None
        topic = bytes_at(name, size) if by_id else name_at(name, size)
        if topic is None:
            return None
        return (
            int16_at(at + 2),
            topic,
            int32_at(partition + 1),
            frame[records - base : records - base + length - 1],
            named_at(name, size, by_id),
            int32_at(at + 4),
        )
    finally:
        PyBuffer_Release(&view)


def read_produce_by_id(frame, Py_ssize_t position):
    return read_flexible(frame, position, True)


def read_produce_compact(frame, Py_ssize_t position):
    return read_flexible(frame, position, False)


def read_produce_classic(frame, Py_ssize_t position):
    cdef Py_buffer view
    cdef Bytes base, at, end, name, partition
    cdef Py_ssize_t size
    PyObject_GetBuffer(frame, &view, PyBUF_SIMPLE)
    try:
        base = <Bytes>view.buf
        end = base + view.len
        if position < 0 or position + 14 > view.len:
            return None
        # Transactional id, acks, timeout, number of topics, length of the name.
        at = base + position
        name = at + 14
        size = int16_at(at + 12)
        if int16_at(at) != -1 or int32_at(at + 8) != 1 or size < 0 or end - name < size + 12:
            return None
        partition = name + size
        if int32_at(partition) != 1 or int32_at(partition + 8) != end - partition - 12:
            return None
        topic = name_at(name, size)
        if topic is None:
            return None
        return (
            int16_at(at + 2),
            topic,
            int32_at(partition + 4),
            frame[partition + 12 - base :],
            bytes_at(name - 6, size + 10),
            int32_at(at + 4),
        )
    finally:
        PyBuffer_Release(&view)


cdef inline object read_fetch(object frame, Py_ssize_t position, bint has_replica, bint by_id):
    cdef Py_buffer view
    cdef Bytes at, end, name, partition
    cdef Py_ssize_t size, rack, head
    cdef int32_t epoch, most, limit
    PyObject_GetBuffer(frame, &view, PyBUF_SIMPLE)
    try:
        head = 23 + 4 * has_replica + (not by_id)
        if position < 0 or position + head > view.len:
            return None
        at = <Bytes>view.buf + position
        end = <Bytes>view.buf + view.len
        name = at + head
        # Tags, replica, wait, least and most bytes, isolation, session, its epoch, number of
        # topics, length of the name.
        if at[0]:
            return None
        if has_replica:
            if int32_at(at + 1) != -1:
                return None
            at += 4
        epoch = int32_at(at + 18)
        size = ID_BYTES if by_id else <Py_ssize_t>at[23] - 1
        if int32_at(at + 14) or not -1 <= epoch <= 0 or at[22] != 2 or not 0 <= size < 127:
            return None
        if end - name < size + FETCH_PARTITION_BYTES:
            return None
        # Number of partitions, index, leader epoch, offset, last fetched epoch, log start, most
        # bytes, tags of partition and topic, forgotten topics, rack, tags of the request.
        partition = name + size
        rack = partition[36]
        if partition[0] != 2 or uint16_at(partition + 33) or partition[35] != 1:
            return None
        if int32_at(partition + 17) != -1 or not 0 < rack < 128:
            return None
        if end - partition != FETCH_PARTITION_BYTES + rack or (end - 1)[0]:
            return None
        topic = bytes_at(name, size) if by_id else name_at(name, size)
        if topic is None:
            return None
        most, limit = int32_at(at + 9), int32_at(partition + 29)
        return (
            int32_at(at + 1),
            int32_at(at + 5),
            min(most, limit),
            <int8_t>at[13],
            topic,
            int32_at(partition + 1),
            int32_at(partition + 5),
            int64_at(partition + 9),
            rack > 1,
            named_at(name, size, by_id),
        )
    finally:
        PyBuffer_Release(&view)


def read_fetch_tagged(frame, Py_ssize_t position):
    return read_fetch(frame, position, False, True)


def read_fetch_id(frame, Py_ssize_t position):
    return read_fetch(frame, position, True, True)


def read_fetch_compact(frame, Py_ssize_t position):
    return read_fetch(frame, position, True, False)


def read_fetch_classic(frame, Py_ssize_t position):
    cdef Py_buffer view
    cdef Bytes at, end, name, partition
    cdef Py_ssize_t size, rack
    PyObject_GetBuffer(frame, &view, PyBUF_SIMPLE)
    try:
        if position < 0 or position + 31 > view.len:
            return None
        at = <Bytes>view.buf + position
        end = <Bytes>view.buf + view.len
        # As in ``read_fetch``, without tags and last fetched epoch.
        name = at + 31
        size = int16_at(at + 29)
        if int32_at(at) != -1 or int32_at(at + 17) or not -1 <= int32_at(at + 21) <= 0:
            return None
        if int32_at(at + 25) != 1 or size < 0 or end - name < size + 38:
            return None
        partition = name + size
        rack = int16_at(partition + 36)
        if int32_at(partition) != 1 or int32_at(partition + 32) or rack < 0:
            return None
        if end - partition != 38 + rack:
            return None
        topic = name_at(name, size)
        if topic is None:
            return None
        return (
            int32_at(at + 4),
            int32_at(at + 8),
            min(int32_at(at + 12), int32_at(partition + 28)),
            <int8_t>at[16],
            topic,
            int32_at(partition + 4),
            int32_at(partition + 8),
            int64_at(partition + 12),
            rack > 0,
            bytes_at(name - 6, size + 10),
        )
    finally:
        PyBuffer_Release(&view)


def produce_answer_compact(
    int32_t correlation_id, bytes named, int32_t index, int64_t base_offset, int64_t start_offset
):
    return appended(correlation_id, named, index, base_offset, start_offset, True, True)


def produce_answer_errors(
    int32_t correlation_id, bytes named, int32_t index, int64_t base_offset, int64_t start_offset
):
    return appended(correlation_id, named, index, base_offset, start_offset, False, True)


def produce_answer_classic(
    int32_t correlation_id, bytes named, int32_t index, int64_t base_offset, int64_t start_offset
):
    return appended(correlation_id, named, index, base_offset, start_offset, False, False)


def fetch_answer_compact(
    int32_t correlation_id, bytes named, int32_t index, tuple offsets, int32_t size_bytes
):
    cdef uint8_t room[UVARINT_BYTES_MAX]
    cdef Py_ssize_t size = put_uvarint(room, <uint64_t>size_bytes + 1) - room
    cdef bytes answer = PyBytes_FromStringAndSize(
        NULL, 15 + PyBytes_GET_SIZE(named) + READ_BYTES + size
    )
    # Tags, throttle time, error, session.
    cdef uint8_t *out = start(<uint8_t *>PyBytes_AS_STRING(answer), correlation_id, 11, named)
    out = put_offsets(out, index, offsets)
    # Aborted transactions: null, or none.
    out[0] = 1 if offsets[3] else 0
    memcpy(put_int32(out + 1, -1), room, size)
    return answer


def fetch_answer_classic(
    int32_t correlation_id, bytes named, int32_t index, tuple offsets, int32_t size_bytes
):
    cdef bytes answer = PyBytes_FromStringAndSize(
        NULL, 14 + PyBytes_GET_SIZE(named) + READ_BYTES + 7
    )
    cdef uint8_t *out = start(<uint8_t *>PyBytes_AS_STRING(answer), correlation_id, 10, named)
    out = put_int32(put_offsets(out, index, offsets), 0 if offsets[3] else -1)
    put_int32(put_int32(out, -1), size_bytes)
    return answer
