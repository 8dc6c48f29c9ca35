# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: binding=False, auto_pickle=False, freethreading_compatible=True
"""Encoding of records, compiled: the twin of what codec_pure.py has for it.

A record is measured and then written behind the one before it, into a bytearray that grows where
the first guess at its size was too low. Between the two no Python code runs and nothing that was
measured can change: it is bytes, text, or pinned. In front there is room for the batch's header, so
that nothing has to be copied to become a batch.
"""

cimport cython

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.mem cimport PyMem_Free, PyMem_Realloc
from libc.stdint cimport INT64_MAX, INT64_MIN, int32_t, int64_t, uint8_t
from libc.string cimport memcpy, memset

from compiled_varints cimport VARINT_BYTES_MAX, Bytes, Field, put_varint, varint_bytes
from compiled_writing cimport (
    Column,
    encoded_bytes,
    exact_field,
    find,
    put_field,
    read_ascii,
    read_item,
    whole,
)

from ottla.protocol.records.batch import HEADER_BYTES, NO_TIMESTAMP
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
    object PyByteArray_FromStringAndSize(const char *, Py_ssize_t)
    int PyByteArray_Resize(object, Py_ssize_t) except -1
    char *PyByteArray_AS_STRING(object)

SOURCE_CRC = OTTLA_SOURCE_CRC
"""Of the text that this was built from, so that a stale build can be told."""

cdef enum:
    # No first guess is higher: the first of the records may be the only large one.
    GUESS_BYTES_MAX = 4 << 20

cdef int64_t _ROOM_BYTES = HEADER_BYTES


@cython.final
cdef class Writer:
    """Records back to back. ``kept`` keeps alive what nobody else does."""

    cdef object data
    cdef uint8_t *out
    cdef uint8_t *end
    cdef Field *headers
    cdef int64_t header_room
    cdef int64_t count, expected, base_timestamp, max_timestamp
    cdef list kept

    def __cinit__(self, int64_t expected):
        """For so many records."""
        self.kept = []
        self.expected = expected
        self.base_timestamp = self.max_timestamp = NO_TIMESTAMP
        self.data = PyByteArray_FromStringAndSize(NULL, _ROOM_BYTES)
        self.out = <uint8_t *>PyByteArray_AS_STRING(self.data)
        memset(self.out, 0, _ROOM_BYTES)
        self.out += _ROOM_BYTES
        self.end = self.out

    def __dealloc__(self):
        PyMem_Free(self.headers)

    cdef int grow(self, int64_t more_bytes) except -1:
        """Make room for the next record, of so many bytes: at first for all, if they are like it,
        and then for as many again as there are."""
        cdef uint8_t *start = <uint8_t *>PyByteArray_AS_STRING(self.data)
        cdef int64_t used = self.out - start, total = 2 * used + more_bytes
        if used == _ROOM_BYTES:
            total += min((self.expected - 1) * more_bytes, GUESS_BYTES_MAX)
        PyByteArray_Resize(self.data, total)
        start = <uint8_t *>PyByteArray_AS_STRING(self.data)
        self.out = start + used
        self.end = start + total
        return 0

    cdef inline int add(self, int64_t time, Field key, Field value, object headers) except -1:
        cdef int64_t header_count = 0, headers_size = 1, delta = self.delta(self.count, time)
        if headers is not None and headers:
            header_count = self.take_headers(headers, &headers_size)
        self.out = self.put(self.out, self.count, delta, key, value, header_count, headers_size)
        self.count += 1
        return 0

    cdef inline uint8_t *put(
        self, uint8_t *out, int64_t index, int64_t time_delta, Field key, Field value,
        int64_t header_count, int64_t headers_size
    ) except NULL:
        """Write one record to ``out``, and return where it ends. HOT: the place is handed on, since
        what is kept here has to be looked up again after every byte that is written."""
        cdef int64_t number, size = 1 + varint_bytes(time_delta) + varint_bytes(index)
        size += encoded_bytes(key) + encoded_bytes(value) + headers_size
        if self.end - out < VARINT_BYTES_MAX + size:
            self.out = out
            self.grow(VARINT_BYTES_MAX + size)
            out = self.out
        out = put_varint(out, size)
        # No attributes.
        out[0] = 0
        out = put_varint(out + 1, time_delta)
        out = put_varint(out, index)
        out = put_field(out, key)
        out = put_field(out, value)
        out = put_varint(out, header_count)
        for number in range(2 * header_count):
            out = put_field(out, self.headers[number])
        return out

    cdef inline int64_t delta(self, int64_t index, int64_t time) except? -1:
        if index == 0:
            self.base_timestamp = self.max_timestamp = time
        cdef int64_t base = self.base_timestamp
        if time > self.max_timestamp:
            self.max_timestamp = time
        if time > INT64_MAX + base if base < 0 else time < INT64_MIN + base:
            raise OverflowError("timestamps of one batch lie more than 64 bits apart")
        return time - base

    cdef int64_t take_headers(self, object headers, int64_t *size) except -1:
        """Take the headers of the next record, and return how many there are."""
        cdef int64_t number = len(headers), index = 0
        cdef Field key, value
        cdef tuple pairs = tuple(headers)
        if len(pairs) != number:
            raise ValueError("the headers of a record are not as many as they say")
        self.make_room(2 * number)
        size[0] = varint_bytes(number)
        for name, content in pairs:
            key = self.text(name)
            value = self.field(content)
            self.kept.append(content)
            self.headers[index] = key
            self.headers[index + 1] = value
            index += 2
            size[0] += encoded_bytes(key) + encoded_bytes(value)
        return number

    cdef int make_room(self, int64_t needed) except -1:
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
        if read_ascii(name, &field):
            self.kept.append(name)
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
        cdef int64_t used = self.out - <uint8_t *>PyByteArray_AS_STRING(self.data)
        PyByteArray_Resize(self.data, used)
        return Encoded(self.data, self.base_timestamp, self.max_timestamp, self.count)


def encode_entries(entries):
    cdef tuple items = tuple(entries), entry
    cdef Writer writer = Writer(len(items))
    for item in items:
        if PyTuple_CheckExact(item):
            entry = <tuple>item
        else:
            entry = tuple(item)
        if len(entry) != 4:
            raise ValueError(f"an entry of {len(entry)} fields instead of 4")
        writer.add(whole(entry[0]), writer.field(entry[1]), writer.field(entry[2]), entry[3])
    return writer.encoded()


def encode_values(values, timestamp):
    cdef list items = values if PyList_CheckExact(values) else list(values)
    cdef int64_t index, count, time = whole(timestamp) if items else NO_TIMESTAMP
    cdef uint8_t *out
    cdef Field field, nothing = exact_field(None)
    count = len(items)
    cdef Writer writer = Writer(count)
    # Nothing from here on runs Python code, which could change the list; making the writer may, for
    # it may collect garbage.
    if len(items) != count:
        raise ValueError("the list was changed meanwhile")
    if not count:
        return writer.encoded()
    writer.base_timestamp = writer.max_timestamp = time
    out = writer.out
    for index in range(count):
        if not read_item(items, index, &field):
            return encode_entries([(timestamp, None, item, ()) for item in items])
        out = writer.put(out, index, 0, nothing, field, 0, 1)
    writer.out, writer.count = out, count
    return writer.encoded()


@cython.final
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


@cython.final
cdef class Strings:
    """A column of byte strings, of which those from ``start`` up to ``stop`` may be asked for."""

    cdef Pin ends, data, validity
    cdef Column column

    def __cinit__(self, column, int64_t start, int64_t stop):
        ends, data, validity, _ = column
        self.ends, self.data = Pin(ends), Pin(data)
        self.column.ends = self.ends.part(start * sizeof(int32_t), (stop + 1) * sizeof(int32_t))
        self.column.data, self.column.size = self.data.at, self.data.size
        self.column.validity, self.column.bit = NULL, start & 7
        if validity is not None:
            self.validity = Pin(validity)
            self.column.validity = self.validity.part(start >> 3, (stop + 7) >> 3)


def encode_columns(columns, int64_t start, int64_t stop):
    cdef int64_t index, time
    cdef Field key, value
    check_range(columns, start, stop)
    headers = columns.headers
    if headers is not None:
        headers = tuple(headers)
        if len(headers) < stop:
            raise ValueError(f"{len(headers)} lists of headers for {columns.count} records")
    cdef Pin times = Pin(columns.timestamps)
    cdef Bytes time_at = times.part(start * sizeof(int64_t), stop * sizeof(int64_t))
    cdef Strings key_strings = Strings(columns.keys, start, stop)
    cdef Strings value_strings = Strings(columns.values, start, stop)
    cdef Column keys = key_strings.column, values = value_strings.column
    cdef Writer writer = Writer(stop - start)
    cdef uint8_t *out = writer.out
    for index in range(stop - start):
        memcpy(&time, time_at + index * sizeof(int64_t), sizeof(time))
        if not (find(&keys, index, &key) and find(&values, index, &value)):
            raise ValueError(f"field {start + index} of a column lies outside its data")
        if headers is None:
            out = writer.put(out, index, writer.delta(index, time), key, value, 0, 1)
        else:
            writer.add(time, key, value, headers[start + index])
    if headers is None:
        writer.out, writer.count = out, stop - start
    return writer.encoded()
