# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: binding=False, auto_pickle=False
"""Encoding of records, compiled: the twin of what codec_pure.py has for it.

Records are measured first and then written into exactly as many bytes. Between the two no Python
code runs and nothing that was measured can change: it is bytes, text, or pinned.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.long cimport PyLong_AsLongLong, PyLong_CheckExact
from cpython.mem cimport PyMem_Free, PyMem_Malloc, PyMem_Realloc
from cpython.number cimport PyNumber_Index
from libc.stdint cimport INT64_MAX, INT64_MIN, int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

from ottla.protocol.records.batch import NO_TIMESTAMP
from ottla.protocol.records.columns import check_range
from ottla.protocol.records.record import Encoded

cdef extern from *:
    """
    #ifndef OTTLA_SOURCE_CRC
    #define OTTLA_SOURCE_CRC 0
    #endif
    """
    unsigned long OTTLA_SOURCE_CRC
    bint PyBytes_CheckExact(object)
    bint PyList_CheckExact(object)
    bint PyTuple_CheckExact(object)
    bint PyUnicode_CheckExact(object)
    bint PyUnicode_IS_COMPACT_ASCII(object)
    Py_ssize_t PyUnicode_GET_LENGTH(object)
    void *PyUnicode_1BYTE_DATA(object)

SOURCE_CRC = OTTLA_SOURCE_CRC
"""Of the text that this was built from, so that a stale build can be told."""

cdef enum:
    # The varint of -1, the size of what is null.
    NULL_SIZE = 1

cdef object _NOTHING = Encoded(b"", NO_TIMESTAMP, NO_TIMESTAMP, 0)

ctypedef const uint8_t *Bytes

cdef struct Field:
    # NULL if the field is null; the size is 0 then.
    Bytes at
    int64_t size

cdef struct Draft:
    # One record, measured; its headers follow those of the records before it.
    int64_t time_delta
    int64_t body_size
    int64_t header_count
    Field key
    Field value


cdef inline int64_t whole(object number) except? -1:
    """Raises OverflowError beyond 64 bits; TypeError for a float, which would lose a part."""
    return PyLong_AsLongLong(number if PyLong_CheckExact(number) else PyNumber_Index(number))


cdef inline uint64_t zigzag(int64_t value) noexcept nogil:
    return (<uint64_t>value << 1) ^ <uint64_t>(value >> 63)


cdef inline int64_t varint_bytes(int64_t value) noexcept nogil:
    cdef uint64_t raw = zigzag(value)
    cdef int64_t size = 1
    if raw < 0x80:
        return 1
    if raw < 0x4000:
        return 2
    while raw >= 0x80:
        raw >>= 7
        size += 1
    return size


cdef inline uint8_t *put_varint(uint8_t *out, int64_t value) noexcept nogil:
    cdef uint64_t raw = zigzag(value)
    while raw >= 0x80:
        out[0] = <uint8_t>(raw | 0x80)
        raw >>= 7
        out += 1
    out[0] = <uint8_t>raw
    return out + 1


cdef inline int64_t field_bytes(Field field) noexcept nogil:
    return 1 if field.at == NULL else varint_bytes(field.size) + field.size


cdef inline uint8_t *put_field(uint8_t *out, Field field) noexcept nogil:
    if field.at == NULL:
        out[0] = NULL_SIZE
        return out + 1
    out = put_varint(out, field.size)
    memcpy(out, field.at, field.size)
    return out + field.size


cdef inline Field exact_field(object value) noexcept:
    """Of bytes or None, which somebody else keeps alive."""
    cdef Field field
    field.at = NULL
    field.size = 0
    if value is not None:
        field.at = <Bytes>PyBytes_AS_STRING(value)
        field.size = PyBytes_GET_SIZE(value)
    return field


cdef class Drafts:
    """Records that have been measured. ``kept`` keeps alive what nobody else does."""

    cdef Draft *drafts
    cdef Field *headers
    cdef int64_t count, header_count, header_room, size
    cdef int64_t base_timestamp, max_timestamp
    cdef list kept

    def __cinit__(self, int64_t count):
        self.kept = []
        self.drafts = <Draft *>PyMem_Malloc((count or 1) * sizeof(Draft))
        if self.drafts == NULL:
            raise MemoryError

    def __dealloc__(self):
        PyMem_Free(self.drafts)
        PyMem_Free(self.headers)

    cdef int add(self, int64_t time, Field key, Field value, object headers) except -1:
        cdef Draft *draft = &self.drafts[self.count]
        if self.count == 0:
            self.base_timestamp = self.max_timestamp = time
        if time > self.max_timestamp:
            self.max_timestamp = time
        draft.time_delta = self.delta(time) if time != self.base_timestamp else 0
        draft.key = key
        draft.value = value
        draft.header_count = 0
        draft.body_size = 1 + varint_bytes(draft.time_delta) + varint_bytes(self.count)
        draft.body_size += field_bytes(key) + field_bytes(value)
        draft.body_size += self.add_headers(draft, headers) if headers else 1
        self.size += varint_bytes(draft.body_size) + draft.body_size
        self.count += 1
        return 0

    cdef int64_t delta(self, int64_t time) except? -1:
        cdef int64_t base = self.base_timestamp
        if time > INT64_MAX + base if base < 0 else time < INT64_MIN + base:
            raise OverflowError("timestamps of one batch lie more than 64 bits apart")
        return time - base

    cdef int64_t add_headers(self, Draft *draft, object headers) except -1:
        """Take the headers, and return how many bytes they become."""
        cdef int64_t size, number = len(headers)
        cdef Field key, value
        cdef tuple pairs = tuple(headers)
        if len(pairs) != number:
            raise ValueError("the headers of a record are not as many as they say")
        draft.header_count = number
        size = varint_bytes(number)
        self.make_room(number)
        for name, content in pairs:
            key = self.text(name)
            value = self.field(content)
            self.kept.append(content)
            self.headers[self.header_count] = key
            self.headers[self.header_count + 1] = value
            self.header_count += 2
            size += field_bytes(key) + field_bytes(value)
        return size

    cdef int make_room(self, int64_t number) except -1:
        cdef int64_t needed = self.header_count + 2 * number
        cdef Field *headers
        if needed > self.header_room:
            headers = <Field *>PyMem_Realloc(self.headers, 2 * needed * sizeof(Field))
            if headers == NULL:
                raise MemoryError
            self.headers = headers
            self.header_room = 2 * needed
        return 0

    cdef Field text(self, object name) except *:
        cdef Field field
        if PyUnicode_CheckExact(name) and PyUnicode_IS_COMPACT_ASCII(name):
            self.kept.append(name)
            field.at = <Bytes>PyUnicode_1BYTE_DATA(name)
            field.size = PyUnicode_GET_LENGTH(name)
            return field
        encoded = name.encode("utf-8", "surrogateescape")
        self.kept.append(encoded)
        return self.field(encoded)

    cdef inline Field field(self, object value) except *:
        """The caller keeps bytes alive. Of anything else a copy is kept here: a view of larger
        items than bytes must be looked at as bytes, and what can change must not."""
        if value is not None and not PyBytes_CheckExact(value):
            value = bytes(memoryview(value).cast("B"))
            self.kept.append(value)
        return exact_field(value)

    cdef object encoded(self):
        cdef int64_t index
        cdef uint8_t *out
        cdef Field *header = self.headers
        cdef Draft *draft
        data = PyBytes_FromStringAndSize(NULL, self.size)
        out = <uint8_t *>PyBytes_AS_STRING(data)
        for index in range(self.count):
            draft = &self.drafts[index]
            out = put_varint(out, draft.body_size)
            # No attributes.
            out[0] = 0
            out = put_varint(out + 1, draft.time_delta)
            out = put_varint(out, index)
            out = put_field(out, draft.key)
            out = put_field(out, draft.value)
            out = put_varint(out, draft.header_count)
            for _ in range(2 * draft.header_count):
                out = put_field(out, header[0])
                header += 1
        assert out - <uint8_t *>PyBytes_AS_STRING(data) == self.size
        return Encoded(data, self.base_timestamp, self.max_timestamp, self.count)


def encode_entries(entries):
    cdef tuple items = tuple(entries), entry
    cdef Drafts drafts
    if not items:
        return _NOTHING
    drafts = Drafts(len(items))
    for item in items:
        if PyTuple_CheckExact(item):
            entry = <tuple>item
        else:
            entry = tuple(item)
            drafts.kept.append(entry)
        if len(entry) != 4:
            raise ValueError(f"an entry of {len(entry)} fields instead of 4")
        drafts.add(whole(entry[0]), drafts.field(entry[1]), drafts.field(entry[2]), entry[3])
    return drafts.encoded()


cdef inline int64_t value_body_size(int64_t index, Field value) noexcept nogil:
    """Of a record without time delta, key and headers: a byte for each, and one of attributes."""
    return 4 + varint_bytes(index) + field_bytes(value)


def encode_values(values, timestamp):
    cdef list items = values if PyList_CheckExact(values) else list(values)
    cdef int64_t time, count, index, size, total = 0
    cdef uint8_t *out
    cdef Field field
    if not items:
        return _NOTHING
    time = whole(timestamp)
    # Nothing from here on runs Python code, which could change the list.
    count = len(items)
    for index in range(count):
        value = items[index]
        if value is not None and not PyBytes_CheckExact(value):
            return encode_entries([(time, None, value, ()) for value in items])
        size = value_body_size(index, exact_field(value))
        total += varint_bytes(size) + size
    data = PyBytes_FromStringAndSize(NULL, total)
    out = <uint8_t *>PyBytes_AS_STRING(data)
    for index in range(count):
        field = exact_field(items[index])
        out = put_varint(out, value_body_size(index, field))
        # No attributes, no time since the first record.
        out[0] = out[1] = 0
        out = put_varint(out + 2, index)
        out[0] = NULL_SIZE
        out = put_field(out + 1, field)
        out[0] = 0
        out += 1
    assert out - <uint8_t *>PyBytes_AS_STRING(data) == total
    return Encoded(data, time, time, count)


cdef class Pin:
    """The bytes of a buffer, which cannot move while this lives."""

    cdef Py_buffer view
    cdef Bytes at
    cdef int64_t size

    def __cinit__(self, buffer):
        try:
            PyObject_GetBuffer(buffer, &self.view, PyBUF_SIMPLE)
        except BufferError as error:
            raise TypeError("a column's buffer is not in one piece") from error
        self.at = <Bytes>self.view.buf
        self.size = self.view.len

    def __dealloc__(self):
        PyBuffer_Release(&self.view)

    cdef Bytes part(self, int64_t start, int64_t stop) except *:
        if not 0 <= start <= stop <= self.size:
            raise ValueError(f"bytes {start} to {stop} of a column's buffer of {self.size} bytes")
        return self.at + start


cdef class Strings:
    """A column of byte strings, of which those from ``start`` up to ``stop`` may be asked for."""

    cdef Pin pinned_ends, data, pinned_validity
    cdef Bytes ends
    cdef Bytes validity
    cdef int64_t start

    def __cinit__(self, column, int64_t start, int64_t stop):
        ends, data, validity, _ = column
        self.start = start
        self.pinned_ends = Pin(ends)
        self.ends = self.pinned_ends.part(start * sizeof(int32_t), (stop + 1) * sizeof(int32_t))
        self.data = Pin(data)
        if validity is not None:
            self.pinned_validity = Pin(validity)
            self.validity = self.pinned_validity.part(start >> 3, (stop + 7) >> 3)

    cdef Field field(self, int64_t index) except *:
        cdef Field field
        cdef int32_t pair[2]
        field.at = NULL
        field.size = 0
        if self.validity != NULL:
            if not self.validity[(index >> 3) - (self.start >> 3)] >> (index & 7) & 1:
                return field
        memcpy(pair, self.ends + (index - self.start) * sizeof(int32_t), sizeof(pair))
        if not 0 <= pair[0] <= pair[1] <= self.data.size:
            raise ValueError(f"field {index} of a column lies outside its data")
        field.at = self.data.at + pair[0]
        field.size = pair[1] - pair[0]
        return field


def encode_columns(columns, int64_t start, int64_t stop):
    cdef Pin times
    cdef Bytes time_at
    cdef Strings keys, values
    cdef Drafts drafts
    cdef int64_t index, time
    check_range(columns, start, stop)
    headers = columns.headers
    if headers is not None:
        headers = tuple(headers)
        if len(headers) < stop:
            raise ValueError(f"{len(headers)} lists of headers for {columns.count} records")
    times = Pin(columns.timestamps)
    time_at = times.part(start * sizeof(int64_t), stop * sizeof(int64_t))
    keys = Strings(columns.keys, start, stop)
    values = Strings(columns.values, start, stop)
    if start == stop:
        return _NOTHING
    drafts = Drafts(stop - start)
    for index in range(start, stop):
        memcpy(&time, time_at + (index - start) * sizeof(int64_t), sizeof(time))
        drafts.add(
            time, keys.field(index), values.field(index), () if headers is None else headers[index]
        )
    return drafts.encoded()
