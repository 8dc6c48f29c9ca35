# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: binding=False, auto_pickle=False
"""Decoding of record batches, compiled: the twin of what codec_pure.py has for it.

Peers write what is read here. Every size is compared with the bytes that are left before it is
believed, nothing is read that was not compared, and no memory is set aside for records that the
bytes cannot hold. What is malformed raises as it does in the twin.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.list cimport PyList_New, PyList_SET_ITEM
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.ref cimport Py_INCREF
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport INT64_MAX, INT64_MIN, int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memmove, memset

from ottla.protocol.records.batch import APPEND_TIME_BIT
from ottla.protocol.records.columns import (
    COLUMN_BYTES_MAX,
    IN_PLACE_BYTES_MIN,
    BytesColumn,
    Columns,
    too_large,
)
from ottla.protocol.records.record import Record, malformed

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>

    #ifndef OTTLA_SOURCE_CRC
    #define OTTLA_SOURCE_CRC 0
    #endif

    /* Rows are what a batch is decoded to most often. A named tuple that adds nothing to a tuple is
       made without a call, and the collector never looks at it if nothing in it can lead back to
       it: a consumer may hold millions. */
    static int ottla_is_plain(PyTypeObject *cls) {
        return cls->tp_basicsize == PyTuple_Type.tp_basicsize
            && cls->tp_itemsize == PyTuple_Type.tp_itemsize
            && cls->tp_dictoffset == 0 && cls->tp_weaklistoffset == 0
            && cls->tp_alloc == PyType_GenericAlloc && cls->tp_finalize == NULL;
    }

    static CYTHON_INLINE PyObject *ottla_new_row(PyTypeObject *cls, Py_ssize_t size) {
        PyTupleObject *row = PyObject_GC_NewVar(PyTupleObject, cls, size);
    #if PY_VERSION_HEX >= 0x030E0000
        if (row != NULL) row->ob_hash = -1;
    #endif
        return (PyObject *)row;
    }

    /* Short strings cost more in calls than in copying. Up to the next multiple of 32 bytes is
       written where the room on both sides allows it; what is too much is written over next. */
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

    static CYTHON_INLINE void ottla_set(PyObject *row, Py_ssize_t index, PyObject *item) {
        Py_INCREF(item);
        ((PyTupleObject *)row)->ob_item[index] = item;
    }
    """
    unsigned long OTTLA_SOURCE_CRC
    ctypedef struct PyTypeObject:
        pass
    bint ottla_is_plain(PyTypeObject *)
    object ottla_new_row(PyTypeObject *, Py_ssize_t)
    void ottla_set(object, Py_ssize_t, object)
    void ottla_copy(uint8_t *, const uint8_t *, int64_t, int64_t) noexcept nogil
    void PyObject_GC_Track(object)

SOURCE_CRC = OTTLA_SOURCE_CRC
"""Of the text that this was built from, so that a stale build can be told."""

cdef enum:
    # The varint of -1, the size of what is null.
    NULL_SIZE = 1
    # Length, attributes, both deltas, two null fields, no headers: one byte each.
    RECORD_BYTES_MIN = 7
    HEADER_BYTES_MIN = 2
    # What a varint of two bytes is less than, of either sign.
    SHORT_MAX = 1 << 13
    # Up to the first field, and from there on: more than all numbers of two bytes each take.
    AHEAD_BYTES = 16

cdef int _APPEND_TIME_BIT = APPEND_TIME_BIT

ctypedef const uint8_t *Bytes

cdef struct Varint:
    # Where it ends, or NULL if there is none.
    Bytes end
    int64_t value

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

cdef struct Field:
    # NULL if the field is null; the size is 0 then.
    Bytes at
    int64_t size

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


cdef Scope open_batch(object batch, Py_ssize_t size_bytes) except *:
    cdef Scope scope
    scope.count = max(batch.record_count, 0)
    scope.base_offset = batch.base_offset
    scope.base_timestamp = batch.base_timestamp
    scope.is_append_time = batch.attributes & _APPEND_TIME_BIT != 0
    scope.append_time = batch.max_timestamp
    scope.is_central = is_central(scope.base_offset) and is_central(scope.base_timestamp)
    scope.short_timestamp = scope.append_time if scope.is_append_time else scope.base_timestamp
    scope.short_delta_mask = 0 if scope.is_append_time else -1
    if scope.count > size_bytes // RECORD_BYTES_MIN:
        raise malformed(batch, "the last one is incomplete")
    return scope


cdef Varint read_long_varint(Bytes at, Bytes end) noexcept nogil:
    cdef Varint found
    cdef uint64_t raw = 0, byte
    cdef int shift = 0
    found.end = NULL
    found.value = 0
    while at < end:
        byte = at[0]
        at += 1
        # The tenth byte has room for one more bit.
        if shift == 63 and byte > 1:
            break
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            found.end = at
            found.value = <int64_t>((raw >> 1) ^ (0 - (raw & 1)))
            break
        shift += 7
    return found


cdef inline Varint read_varint(Bytes at, Bytes end) noexcept nogil:
    cdef Varint found
    cdef int64_t low
    if at < end:
        low = at[0]
        found.end = at + 1
        if low >= 0x80:
            if end - at < 2 or at[1] >= 0x80:
                return read_long_varint(at, end)
            low = (low & 0x7F) | <int64_t>at[1] << 7
            found.end = at + 2
        found.value = (low >> 1) ^ -(low & 1)
        return found
    found.end = NULL
    found.value = 0
    return found


cdef inline Varint read_size(Bytes at, Bytes end, int64_t least) noexcept nogil:
    """A size of at least that much, of something that follows it and is all there."""
    cdef Varint found = read_varint(at, end)
    if found.end != NULL and not least <= found.value <= end - found.end:
        found.end = NULL
    return found


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


cdef Bytes skip_headers(Bytes at, Bytes end, int64_t count) noexcept nogil:
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


cdef inline bint read_short(Bytes *at, int64_t *value) noexcept nogil:
    """Read a varint of one or two bytes, of which both are there, or return False."""
    cdef int64_t low = at[0][0], high
    if low >= 0x80:
        high = at[0][1]
        if high >= 0x80:
            return False
        low = (low & 0x7F) | high << 7
        at[0] += 1
    at[0] += 1
    value[0] = (low >> 1) ^ -(low & 1)
    return True


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


cdef Bytes read_any_record(Bytes at, Bytes end, Scope *scope, Fields *fields) noexcept nogil:
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


cdef tuple headers_of(Fields *fields, Bytes end):
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


cdef object contradiction(object batch):
    return malformed(batch, "sizes within a record contradict its length")


def decode_records(batch, data):
    return decode_as(batch, data, Record, (), INT64_MIN)


def decode_as(batch, data, type cls not None, tuple prefix not None, from_offset):
    cdef Py_buffer view
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        return rows_of(batch, <Bytes>view.buf, view.len, cls, prefix, from_offset)
    finally:
        PyBuffer_Release(&view)


def decode_values(batch, data):
    cdef Py_buffer view
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        return values_of(batch, <Bytes>view.buf, view.len)
    finally:
        PyBuffer_Release(&view)


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


cdef list rows_of(
    object batch, Bytes at, Py_ssize_t size_bytes, type cls, tuple prefix, object from_offset
):
    cdef Scope scope = open_batch(batch, size_bytes)
    cdef Bytes end = at + size_bytes
    cdef Fields fields
    cdef Py_ssize_t start = len(prefix), index, found = 0
    # The offset after the last there can be does not fit 64 bits.
    cdef bint wants_none = from_offset > INT64_MAX
    cdef int64_t least = max(INT64_MIN, min(from_offset, INT64_MAX)), last_timestamp = 0
    cdef object timestamp = 0, offset, row, key, value, headers
    cdef bint is_plain = issubclass(cls, tuple) and ottla_is_plain(<PyTypeObject *>cls)
    cdef bint is_atomic = all([type(item) in (str, int) for item in prefix])
    cdef list rows = PyList_New(scope.count)
    for _ in range(scope.count):
        at = read_record(at, end, &scope, &fields)
        if at == NULL:
            raise contradiction(batch)
        if fields.offset < least or wants_none:
            continue
        if fields.timestamp != last_timestamp:
            timestamp = last_timestamp = fields.timestamp
        offset = fields.offset
        key = field_bytes(&fields.key)
        value = field_bytes(&fields.value)
        headers = headers_of(&fields, end) if fields.header_count else ()
        if is_plain:
            row = ottla_new_row(<PyTypeObject *>cls, start + 5)
            for index in range(start):
                ottla_set(row, index, prefix[index])
            ottla_set(row, start, offset)
            ottla_set(row, start + 1, timestamp)
            ottla_set(row, start + 2, key)
            ottla_set(row, start + 3, value)
            ottla_set(row, start + 4, headers)
            if not is_atomic:
                PyObject_GC_Track(row)
        else:
            row = tuple.__new__(cls, (*prefix, offset, timestamp, key, value, headers))
        Py_INCREF(row)
        PyList_SET_ITEM(rows, found, row)
        found += 1
    if at != end:
        raise malformed(batch, "bytes follow the last one")
    if found < scope.count:
        del rows[found:]
    return rows


cdef list values_of(object batch, Bytes at, Py_ssize_t size_bytes):
    cdef Scope scope = open_batch(batch, size_bytes)
    cdef Bytes end = at + size_bytes
    cdef Fields fields
    cdef Py_ssize_t index
    cdef object value
    cdef list values = PyList_New(scope.count)
    for index in range(scope.count):
        at = read_record(at, end, &scope, &fields)
        if at == NULL:
            raise contradiction(batch)
        value = field_bytes(&fields.value)
        Py_INCREF(value)
        PyList_SET_ITEM(values, index, value)
    if at != end:
        raise malformed(batch, "bytes follow the last one")
    return values


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
        key_bits = bits_of(&table.parts[0].key, count) if table.null_keys else None
        value_bits = bits_of(&table.parts[0].value, count) if table.null_values else None
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


cdef bytes bits_of(Bytes *first, int64_t count):
    """Bit i is set where string i is not null."""
    cdef int64_t index
    validity = PyBytes_FromStringAndSize(NULL, (count + 7) >> 3)
    cdef uint8_t *bits = <uint8_t *>PyBytes_AS_STRING(validity)
    memset(bits, 0, (count + 7) >> 3)
    for index in range(count):
        if place(first, index) != NULL:
            bits[index >> 3] |= 1 << (index & 7)
    return validity
