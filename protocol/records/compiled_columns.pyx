# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: binding=False, auto_pickle=False, freethreading_compatible=True
"""Decoding of record batches to columns, compiled: the twin of what codec_pure.py has for it. No
memory is set aside for records that the bytes cannot hold."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memmove, memset

from compiled_reading cimport (
    Fields,
    Scope,
    contradiction,
    headers_of,
    malformed,
    open_batch,
    read_any_record,
    read_short_record,
)
from compiled_varints cimport Bytes, Varint, read_varint

from ottla.protocol.records.columns import (
    COLUMN_BYTES_MAX,
    IN_PLACE_BYTES_MIN,
    BytesColumn,
    Columns,
    too_large,
)

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>

    #ifndef OTTLA_SOURCE_CRC
    #define OTTLA_SOURCE_CRC 0
    #endif

    /* Short strings cost more in calls than in copying. Up to the next multiple of 32 bytes is
       written where the room on both sides allows it; what is too much is written over next. */
    static CYTHON_INLINE void ottla_prefetch(const uint8_t *at) {
    #if defined(__GNUC__) || defined(__clang__)
        __builtin_prefetch(at);
    #endif
    }

    static CYTHON_INLINE void ottla_copy(
        uint8_t *out, const uint8_t *at, int64_t size, int64_t room
    ) {
        int64_t done = 0;
        if (size <= 256 && room >= size + 31) {
            for (; done < size; done += 32) memcpy(out + done, at + done, 32);
        } else {
            memcpy(out, at, (size_t)size);
        }
    }
    """
    unsigned long OTTLA_SOURCE_CRC
    void ottla_prefetch(Bytes) noexcept nogil
    void ottla_copy(uint8_t *, const uint8_t *, int64_t, int64_t) noexcept nogil

SOURCE_CRC = OTTLA_SOURCE_CRC
"""Of the text that this was built from, so that a stale build can be told."""

cdef struct Part:
    # Where the key and the value of one record are, NULL if they are null.
    Bytes key
    Bytes value
    # Where their count is, NULL if there are none.
    Bytes headers


cdef struct Table:
    # What is written record by record.
    Part *parts
    int64_t *offsets
    int64_t *timestamps
    int32_t *key_ends
    int32_t *value_ends
    int64_t key_bytes
    int64_t value_bytes
    int64_t null_keys
    int64_t null_values
    bint has_headers


def decode_columns(batch, data, column_bytes_max=COLUMN_BYTES_MAX):
    cdef Py_buffer view
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        return columns_of(batch, &view, None, column_bytes_max)
    finally:
        PyBuffer_Release(&view)


def decode_columns_in_place(
    batch, data, column_bytes_max=COLUMN_BYTES_MAX, in_place_bytes_min=IN_PLACE_BYTES_MIN
):
    cdef Py_buffer view
    own = memoryview(data).cast("B")
    if own.readonly or len(own) < in_place_bytes_min:
        return decode_columns(batch, data, column_bytes_max)
    PyObject_GetBuffer(own, &view, PyBUF_SIMPLE)
    try:
        return columns_of(batch, &view, own, column_bytes_max)
    finally:
        PyBuffer_Release(&view)


cdef Bytes fill(Table *table, Bytes at, Bytes end, Scope *scope) noexcept nogil:
    """All but the bytes of keys and values; where the last record ends, or NULL."""
    # What nobody else can point at stays in registers.
    cdef Fields fields, found
    cdef Scope own = scope[0]
    cdef Bytes stop
    cdef int64_t index, key_bytes = 0, value_bytes = 0, null_keys = 0, null_values = 0
    cdef int64_t *offsets = table.offsets
    cdef int64_t *timestamps = table.timestamps
    cdef int32_t *key_ends = table.key_ends
    cdef int32_t *value_ends = table.value_ends
    cdef Part *part = table.parts
    key_ends[0] = value_ends[0] = 0
    for index in range(own.count):
        stop = read_short_record(at, end, &own, &fields)
        if stop == NULL:
            stop = read_any_record(at, end, scope, &found)
            if stop == NULL:
                return NULL
            fields = found
        # If those that follow are as long as this one, that is where one of the next begins.
        ottla_prefetch(stop + 8 * (stop - at))
        at = stop
        offsets[index] = fields.offset
        timestamps[index] = fields.timestamp
        key_bytes += fields.key.size
        value_bytes += fields.value.size
        # What does not fit is refused before it is used.
        key_ends[index + 1] = <int32_t>key_bytes
        value_ends[index + 1] = <int32_t>value_bytes
        null_keys += fields.key.at == NULL
        null_values += fields.value.at == NULL
        part.key = fields.key.at
        part.value = fields.value.at
        part.headers = NULL
        if fields.header_count:
            part.headers = fields.header_place
            table.has_headers = True
        part += 1
    table.key_bytes = key_bytes
    table.value_bytes = value_bytes
    table.null_keys = null_keys
    table.null_values = null_values
    return at


cdef object columns_of(object batch, Py_buffer *view, object own, object column_bytes_max):
    """``own``: None, or a writable view of the same bytes, which nobody else needs any more."""
    cdef Bytes at = <Bytes>view.buf
    cdef Bytes end = at + view.len
    cdef Scope scope = open_batch(batch, view.len)
    cdef int64_t limit = min(column_bytes_max, COLUMN_BYTES_MAX), count = scope.count
    cdef Table table
    offsets = PyBytes_FromStringAndSize(NULL, count * sizeof(int64_t))
    timestamps = PyBytes_FromStringAndSize(NULL, count * sizeof(int64_t))
    key_ends = PyBytes_FromStringAndSize(NULL, (count + 1) * sizeof(int32_t))
    value_ends = PyBytes_FromStringAndSize(NULL, (count + 1) * sizeof(int32_t))
    memset(&table, 0, sizeof(table))
    table.offsets = <int64_t *>PyBytes_AS_STRING(offsets)
    table.timestamps = <int64_t *>PyBytes_AS_STRING(timestamps)
    table.key_ends = <int32_t *>PyBytes_AS_STRING(key_ends)
    table.value_ends = <int32_t *>PyBytes_AS_STRING(value_ends)
    table.parts = <Part *>PyMem_Malloc((count or 1) * sizeof(Part))
    if table.parts == NULL:
        raise MemoryError
    try:
        with nogil:
            at = fill(&table, at, end, &scope)
        if at == NULL:
            raise contradiction(batch)
        if at != end:
            raise malformed(batch, "bytes follow the last one")
        if table.key_bytes > limit or table.value_bytes > limit:
            raise too_large(limit)
        headers = all_headers(&table, count, end) if table.has_headers else None
        keys = copied(&table, &table.parts[0].key, table.key_ends, count, end)
        if own is not None and 0 < view.len <= 2 * table.value_bytes:
            values = moved(&table, <uint8_t *>view.buf, own, count)
        else:
            values = copied(&table, &table.parts[0].value, table.value_ends, count, end)
        key_bits = bits_of(&table.parts[0].key, count, table.null_keys)
        value_bits = bits_of(&table.parts[0].value, count, table.null_values)
    finally:
        PyMem_Free(table.parts)
    return Columns(
        count,
        offsets,
        timestamps,
        BytesColumn(key_ends, keys, key_bits, table.null_keys),
        BytesColumn(value_ends, values, value_bits, table.null_values),
        headers,
    )


cdef inline Bytes place(Bytes *first, int64_t index) noexcept nogil:
    """One member of all parts; ``first`` is that of the first."""
    return (<Bytes *>(<char *>first + index * sizeof(Part)))[0]


cdef list all_headers(Table *table, int64_t count, Bytes end):
    cdef Fields fields
    cdef Varint found
    cdef int64_t index
    cdef list rows = []
    for index in range(count):
        fields.headers = table.parts[index].headers
        if fields.headers == NULL:
            rows.append(())
            continue
        found = read_varint(fields.headers, end)
        fields.headers = found.end
        fields.header_count = found.value
        rows.append(headers_of(&fields, end))
    return rows


cdef bytes copied(Table *table, Bytes *first, int32_t *ends, int64_t count, Bytes end):
    """The strings back to back."""
    cdef int64_t index, size, total = ends[count]
    cdef uint8_t *out
    cdef Bytes at
    data = PyBytes_FromStringAndSize(NULL, total)
    out = <uint8_t *>PyBytes_AS_STRING(data)
    if total:
        with nogil:
            for index in range(count):
                size = ends[index + 1] - ends[index]
                if size:
                    at = place(first, index)
                    ottla_copy(out + ends[index], at, size, min(total - ends[index], end - at))
    return data


cdef object moved(Table *table, uint8_t *start, object own, int64_t count):
    """The values back to back where the first of them is: each moves over what lies between."""
    cdef int64_t index, size, first = -1
    cdef uint8_t *out = NULL
    cdef Bytes at
    with nogil:
        for index in range(count):
            size = table.value_ends[index + 1] - table.value_ends[index]
            if size:
                at = table.parts[index].value
                if first < 0:
                    first = at - start
                    out = start + first
                elif out + table.value_ends[index] != at:
                    memmove(out + table.value_ends[index], at, size)
    return own[first : first + table.value_bytes]


cdef bytes bits_of(Bytes *first, int64_t count, int64_t null_count):
    """Bit i is set where string i is not null; None if nothing is."""
    cdef int64_t index
    cdef uint8_t *bits
    if not null_count:
        return None
    validity = PyBytes_FromStringAndSize(NULL, (count + 7) >> 3)
    bits = <uint8_t *>PyBytes_AS_STRING(validity)
    memset(bits, 0, (count + 7) >> 3)
    # Most producers send no keys at all.
    if null_count < count:
        for index in range(count):
            bits[index >> 3] |= (place(first, index) != NULL) << (index & 7)
    return validity
