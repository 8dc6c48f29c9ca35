# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""One record among bytes that peers wrote: where its fields are, and where it ends.

Every size is compared with the bytes that are left before it is believed, and nothing is read that
was not compared. What is malformed raises as it does in codec_pure.py.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t, uint64_t

from compiled_varints cimport (
    NULL_SIZE,
    SHORT_MAX,
    Bytes,
    Field,
    Varint,
    read_short,
    read_size,
    read_varint,
)

cdef enum:
    # Length, attributes, both deltas, two null fields, no headers: one byte each.
    RECORD_BYTES_MIN = 7
    HEADER_BYTES_MIN = 2
    # Up to the first field, and from there on: more than all numbers of two bytes each take.
    AHEAD_BYTES = 16
    # Of a batch's attributes: all of its records have one timestamp.
    APPEND_TIME_BIT = 1 << 3

cdef struct Scope:
    int64_t count
    int64_t base_offset
    int64_t base_timestamp
    int64_t append_time
    bint is_append_time
    # Whether no delta of two bytes can lead beyond 64 bits.
    bint is_central
    # A short record's timestamp is the first, and as much of its delta as the second lets through.
    int64_t short_timestamp
    int64_t short_delta_mask

cdef struct Fields:
    int64_t offset
    int64_t timestamp
    Field key
    Field value
    # Behind their count, which is 0 if there are none.
    Bytes headers
    Bytes header_place
    int64_t header_count


cdef inline bint is_central(int64_t base) noexcept nogil:
    return INT64_MIN + SHORT_MAX <= base <= INT64_MAX - SHORT_MAX


cdef inline object malformed(object batch, str reason):
    # A file of declarations has no imports of its own.
    from ottla.protocol.records.record import malformed as error
    return error(batch, reason)


cdef inline Scope open_batch(object batch, Py_ssize_t size_bytes) except *:
    cdef Scope scope
    scope.count = max(batch.record_count, 0)
    scope.base_offset = batch.base_offset
    scope.base_timestamp = batch.base_timestamp
    scope.is_append_time = batch.attributes & APPEND_TIME_BIT != 0
    scope.append_time = batch.max_timestamp
    scope.is_central = is_central(scope.base_offset) and is_central(scope.base_timestamp)
    scope.short_timestamp = scope.append_time if scope.is_append_time else scope.base_timestamp
    scope.short_delta_mask = 0 if scope.is_append_time else -1
    if scope.count > size_bytes // RECORD_BYTES_MIN:
        raise malformed(batch, "the last one is incomplete")
    return scope


cdef inline Bytes read_field(Bytes at, Bytes end, Field *field) noexcept nogil:
    """Where the key or the value ends that starts here, or NULL."""
    cdef Varint size
    if at < end and at[0] == NULL_SIZE:
        field.at = NULL
        field.size = 0
        return at + 1
    size = read_size(at, end, 0)
    field.at = size.end
    field.size = size.value
    if size.end == NULL:
        return NULL
    return size.end + size.value


cdef inline Bytes skip_headers(Bytes at, Bytes end, int64_t count) noexcept nogil:
    """Where they end, or NULL if they are not all there."""
    cdef Varint size
    if not 0 <= count <= (end - at) // HEADER_BYTES_MIN:
        return NULL
    for _ in range(count):
        size = read_size(at, end, 0)
        if size.end == NULL:
            return NULL
        size = read_size(size.end + size.value, end, -1)
        if size.end == NULL:
            return NULL
        at = size.end + max(size.value, 0)
    return at


cdef inline int64_t add(int64_t base, int64_t delta) noexcept nogil:
    return <int64_t>(<uint64_t>base + <uint64_t>delta)


cdef inline bint is_sum(int64_t total, int64_t base, int64_t delta) noexcept nogil:
    """Whether it has not gone round: its sign is that of one of the two."""
    return (total ^ base) & (total ^ delta) >= 0


cdef inline Bytes read_short_record(
    Bytes at, Bytes end, Scope *scope, Fields *fields
) noexcept nogil:
    """As ``read_record``, for what most records are: without headers, and with no number of more
    than two bytes. NULL for all others. Bytes are compared with what is left before and after a
    few numbers rather than at each: that they all lie within the record is known at its end."""
    cdef Bytes stop
    cdef int64_t length, time_delta, offset_delta, size
    if end - at < AHEAD_BYTES or not scope.is_central or not read_short(&at, &length):
        return NULL
    if not 0 < length <= end - at:
        return NULL
    stop = at + length
    at += 1
    if not read_short(&at, &time_delta) or not read_short(&at, &offset_delta):
        return NULL
    fields.timestamp = scope.short_timestamp + (time_delta & scope.short_delta_mask)
    fields.offset = scope.base_offset + offset_delta
    fields.key.at = NULL
    fields.key.size = 0
    if at[0] == NULL_SIZE:
        at += 1
    else:
        if not read_short(&at, &size) or not 0 <= size < stop - at:
            return NULL
        fields.key.at = at
        fields.key.size = size
        at += size
        if end - at < AHEAD_BYTES:
            return NULL
    fields.value.at = NULL
    fields.value.size = 0
    if at[0] == NULL_SIZE:
        at += 1
    else:
        if not read_short(&at, &size) or not 0 <= size < stop - at:
            return NULL
        fields.value.at = at
        fields.value.size = size
        at += size
    if at + 1 != stop or at[0] != 0:
        return NULL
    fields.header_count = 0
    return stop


cdef inline Bytes read_record(Bytes at, Bytes end, Scope *scope, Fields *fields) noexcept nogil:
    """Where the record ends that starts here; NULL unless it ends where its length says."""
    cdef Bytes stop = read_short_record(at, end, scope, fields)
    return stop if stop != NULL else read_any_record(at, end, scope, fields)


cdef inline Bytes read_any_record(Bytes at, Bytes end, Scope *scope, Fields *fields) noexcept nogil:
    cdef int64_t total
    cdef Varint found = read_varint(at, end)
    if found.end == NULL or not 0 < found.value <= end - found.end:
        return NULL
    end = found.end + found.value
    # The attributes have no meaning yet.
    found = read_varint(found.end + 1, end)
    if found.end == NULL:
        return NULL
    total = add(scope.base_timestamp, found.value)
    if scope.is_append_time:
        total = scope.append_time
    elif not is_sum(total, scope.base_timestamp, found.value):
        return NULL
    fields.timestamp = total
    found = read_varint(found.end, end)
    total = add(scope.base_offset, found.value)
    if found.end == NULL or not is_sum(total, scope.base_offset, found.value):
        return NULL
    fields.offset = total
    at = read_field(found.end, end, &fields.key)
    if at == NULL:
        return NULL
    at = read_field(at, end, &fields.value)
    if at == NULL:
        return NULL
    found = read_varint(at, end)
    fields.header_place = at
    fields.headers = found.end
    fields.header_count = found.value
    if found.end != NULL and found.value:
        found.end = skip_headers(found.end, end, found.value)
    return end if found.end == end else NULL


cdef inline object field_bytes(Field *field):
    if field.at == NULL:
        return None
    return PyBytes_FromStringAndSize(<const char *>field.at, field.size)


cdef inline tuple headers_of(Fields *fields, Bytes end):
    """They have been read before, so they are all there."""
    cdef Varint size
    cdef Field value
    cdef Bytes at = fields.headers
    headers = []
    for _ in range(fields.header_count):
        size = read_size(at, end, 0)
        assert size.end != NULL
        key = PyUnicode_DecodeUTF8(<const char *>size.end, size.value, "surrogateescape")
        size = read_size(size.end + size.value, end, -1)
        assert size.end != NULL
        value.at = size.end if size.value >= 0 else NULL
        value.size = max(size.value, 0)
        headers.append((key, field_bytes(&value)))
        at = size.end + value.size
    return tuple(headers)


cdef inline object contradiction(object batch):
    return malformed(batch, "sizes within a record contradict its length")
