# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: binding=False, auto_pickle=False
"""Decoding of record batches to rows and to values, compiled: the twin of what codec_pure.py has
for it. No memory is set aside for records that the bytes cannot hold."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
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

    static CYTHON_INLINE PyObject *ottla_new_row(PyTypeObject *cls, Py_ssize_t size) {
        PyTupleObject *row = PyObject_GC_NewVar(PyTupleObject, cls, size);
    #if PY_VERSION_HEX >= 0x030E0000
        if (row != NULL) row->ob_hash = -1;
    #endif
        return (PyObject *)row;
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
    void PyObject_GC_Track(object)

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
