# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Numbers and fields of a record that is written, and the columns that they are taken from."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.long cimport PyLong_AsLongLong, PyLong_CheckExact
from cpython.number cimport PyNumber_Index
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcpy

from compiled_varints cimport NULL_SIZE, Bytes, Field, put_varint, varint_bytes

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>

    /* Short strings cost more in calls than in copying. Pieces of 16 bytes, the last of which may
       overlap the one before: nothing beyond the string is read or written. */
    static CYTHON_INLINE void ottla_copy(uint8_t *out, const uint8_t *at, int64_t size) {
        int64_t done = 0;
        if (size < 16 || size > 256) {
            memcpy(out, at, (size_t)size);
            return;
        }
        for (; done <= size - 32; done += 32) memcpy(out + done, at + done, 32);
        if (done <= size - 16) memcpy(out + done, at + done, 16);
        memcpy(out + size - 16, at + size - 16, 16);
    }
    """
    void ottla_copy(uint8_t *, const uint8_t *, int64_t) noexcept nogil
    bint PyUnicode_CheckExact(object)
    bint PyUnicode_IS_COMPACT_ASCII(object)
    Py_ssize_t PyUnicode_GET_LENGTH(object)
    void *PyUnicode_1BYTE_DATA(object)
    ctypedef struct PyObject
    PyObject *Py_None
    PyObject *PyList_GET_ITEM(object, Py_ssize_t)
    bint is_bytes "PyBytes_CheckExact"(PyObject *)
    char *bytes_start "PyBytes_AS_STRING"(PyObject *)
    Py_ssize_t bytes_size "PyBytes_GET_SIZE"(PyObject *)

cdef struct Column:
    # From the first string that may be asked for on; ``bit`` is its place in the first octet.
    Bytes ends, validity, data
    int64_t size, bit


cdef inline int64_t whole(object number) except? -1:
    """Raises OverflowError beyond 64 bits; TypeError for a float, which would lose a part."""
    return PyLong_AsLongLong(number if PyLong_CheckExact(number) else PyNumber_Index(number))


cdef inline int64_t encoded_bytes(Field field) noexcept nogil:
    return 1 if field.at == NULL else varint_bytes(field.size) + field.size


cdef inline uint8_t *put_field(uint8_t *out, Field field) noexcept nogil:
    if field.at == NULL:
        out[0] = NULL_SIZE
        return out + 1
    out = put_varint(out, field.size)
    ottla_copy(out, field.at, field.size)
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


cdef inline bint read_ascii(object name, Field *field) noexcept:
    """Whether it is text of such characters only, which lies in memory as it is sent."""
    if not PyUnicode_CheckExact(name) or not PyUnicode_IS_COMPACT_ASCII(name):
        return False
    field.at = <Bytes>PyUnicode_1BYTE_DATA(name)
    field.size = PyUnicode_GET_LENGTH(name)
    return True


cdef inline bint read_item(list items, int64_t index, Field *field) noexcept:
    """Whether it is bytes or None, which the list keeps alive."""
    cdef PyObject *value = PyList_GET_ITEM(items, index)
    field.at = NULL
    field.size = 0
    if is_bytes(value):
        field.at = <Bytes>bytes_start(value)
        field.size = bytes_size(value)
        return True
    return value == Py_None


cdef inline bint find(const Column *column, int64_t index, Field *field) noexcept nogil:
    """The string of that index from the first on; False if it lies outside the data."""
    cdef int32_t pair[2]
    cdef int64_t place = column.bit + index
    field.at = NULL
    field.size = 0
    if column.validity != NULL and not column.validity[place >> 3] >> (place & 7) & 1:
        return True
    memcpy(pair, column.ends + index * sizeof(int32_t), sizeof(pair))
    if not 0 <= pair[0] <= pair[1] <= column.size:
        return False
    field.at = column.data + pair[0]
    field.size = pair[1] - pair[0]
    return True
