# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: binding=False, auto_pickle=False, freethreading_compatible=True
"""Decoding of record batches to rows and to values, compiled: the twin of what codec_pure.py has
for it, and where values end that are to be written. No memory is set aside for records that the
bytes cannot hold."""

from array import array

from cpython.buffer cimport (
    PyBUF_SIMPLE,
    PyBUF_WRITABLE,
    PyBuffer_Release,
    PyObject_GetBuffer,
)
from cpython.bytes cimport PyBytes_CheckExact, PyBytes_GET_SIZE
from cpython.list cimport PyList_New, PyList_SET_ITEM
from cpython.ref cimport Py_INCREF
from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t

from compiled_reading cimport (
    Fields,
    Scope,
    contradiction,
    field_bytes,
    headers_of,
    malformed,
    open_batch,
    read_record,
)
from compiled_varints cimport Bytes

from ottla.protocol.records.record import Record

cdef extern from *:
    """
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

    static CYTHON_INLINE PyObject *ottla_bytes(const uint8_t *at, int64_t size) {
        if (at == NULL) {
            Py_INCREF(Py_None);
            return Py_None;
        }
        return PyBytes_FromStringAndSize((const char *)at, (Py_ssize_t)size);
    }

    static CYTHON_INLINE PyObject *ottla_borrowed(PyObject *item) {
        Py_INCREF(item);
        return item;
    }

    /* Nothing here counts a reference up only to count it down again. */
    static CYTHON_INLINE PyObject *ottla_new_row(
        PyTypeObject *cls, PyObject *prefix, PyObject *offset, PyObject *timestamp,
        PyObject *key, PyObject *value, PyObject *headers
    ) {
        Py_ssize_t index, start = PyTuple_GET_SIZE(prefix);
        PyTupleObject *row = NULL;
        if (offset != NULL && key != NULL && value != NULL)
            row = PyObject_GC_NewVar(PyTupleObject, cls, start + 5);
        if (row == NULL) {
            Py_XDECREF(offset);
            Py_XDECREF(key);
            Py_XDECREF(value);
            return NULL;
        }
    #if PY_VERSION_HEX >= 0x030E0000
        row->ob_hash = -1;
    #endif
        for (index = 0; index < start; index++)
            row->ob_item[index] = ottla_borrowed(PyTuple_GET_ITEM(prefix, index));
        row->ob_item[start] = offset;
        row->ob_item[start + 1] = ottla_borrowed(timestamp);
        row->ob_item[start + 2] = key;
        row->ob_item[start + 3] = value;
        row->ob_item[start + 4] = ottla_borrowed(headers);
        return (PyObject *)row;
    }
    """
    unsigned long OTTLA_SOURCE_CRC
    ctypedef struct PyTypeObject:
        pass
    ctypedef struct PyObject:
        pass
    PyObject *PyLong_FromLongLong(int64_t)
    PyObject *ottla_bytes(Bytes, int64_t)
    bint ottla_is_plain(PyTypeObject *)
    # The offset, the key and the value are given away to it.
    object ottla_new_row(PyTypeObject *, tuple, PyObject *, object, PyObject *, PyObject *, object)
    void PyObject_GC_Track(object)
    void PyObject_GC_UnTrack(object)

SOURCE_CRC = OTTLA_SOURCE_CRC
"""Of the text that this was built from, so that a stale build can be told."""


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


def value_ends(values):
    cdef Py_buffer view
    cdef Py_ssize_t index
    # Nobody else has this list, so that it stays as it is.
    cdef list own = list(values)
    cdef object value, ends = array("q", [0]) * (len(own) + 1)
    cdef int64_t position = 0
    PyObject_GetBuffer(ends, &view, PyBUF_SIMPLE | PyBUF_WRITABLE)
    try:
        for index in range(len(own)):
            value = own[index]
            if PyBytes_CheckExact(value):
                position += PyBytes_GET_SIZE(value)
            elif value is not None:
                return None
            (<int64_t *>view.buf)[index + 1] = position
    finally:
        PyBuffer_Release(&view)
    return ends


cdef list rows_of(
    object batch, Bytes at, Py_ssize_t size_bytes, type cls, tuple prefix, object from_offset
):
    cdef Scope scope = open_batch(batch, size_bytes)
    cdef Bytes end = at + size_bytes
    cdef Fields fields
    cdef Py_ssize_t found = 0
    # The offset after the last there can be does not fit 64 bits.
    cdef bint wants_none = from_offset > INT64_MAX
    cdef int64_t least = max(INT64_MIN, min(from_offset, INT64_MAX)), last_timestamp = 0
    cdef object timestamp = 0, row
    cdef tuple headers, no_headers = ()
    cdef bint is_plain = issubclass(cls, tuple) and ottla_is_plain(<PyTypeObject *>cls)
    cdef bint is_atomic = all([type(item) in (str, int) for item in prefix])
    cdef list rows = PyList_New(scope.count)
    # New rows make the collector run, which would look at all that came before them each time.
    PyObject_GC_UnTrack(rows)
    for _ in range(scope.count):
        at = read_record(at, end, &scope, &fields)
        if at == NULL:
            raise contradiction(batch)
        if fields.offset < least or wants_none:
            continue
        if fields.timestamp != last_timestamp:
            timestamp = last_timestamp = fields.timestamp
        headers = headers_of(&fields, end) if fields.header_count else no_headers
        if is_plain:
            row = ottla_new_row(
                <PyTypeObject *>cls,
                prefix,
                PyLong_FromLongLong(fields.offset),
                timestamp,
                ottla_bytes(fields.key.at, fields.key.size),
                ottla_bytes(fields.value.at, fields.value.size),
                headers,
            )
            if not is_atomic:
                PyObject_GC_Track(row)
        else:
            fixed = (fields.offset, timestamp, field_bytes(&fields.key))
            row = tuple.__new__(cls, (*prefix, *fixed, field_bytes(&fields.value), headers))
        Py_INCREF(row)
        PyList_SET_ITEM(rows, found, row)
        found += 1
    PyObject_GC_Track(rows)
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
