# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Varints, read and written. Those that are read are a peer's: no byte is looked at that was not
compared with where they end."""

from libc.stdint cimport int64_t, uint8_t, uint64_t

from compiled_numbers cimport put_uvarint, read_leb128

ctypedef const uint8_t *Bytes

cdef enum:
    # The varint of -1, the size of what is null.
    NULL_SIZE = 1
    # Of a varint, at its longest.
    VARINT_BYTES_MAX = 10
    # What a varint of two bytes is less than, of either sign.
    SHORT_MAX = 1 << 13

cdef struct Varint:
    # Where it ends, or NULL if there is none.
    Bytes end
    int64_t value

cdef struct Field:
    # NULL if the field is null; the size is 0 then.
    Bytes at
    int64_t size


cdef inline Varint read_long_varint(Bytes at, Bytes end) noexcept nogil:
    cdef Varint found
    cdef uint64_t raw = 0
    found.end = read_leb128(at, end, 64, &raw)
    found.value = <int64_t>((raw >> 1) ^ (0 - (raw & 1)))
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
    if raw < 0x80:
        out[0] = <uint8_t>raw
        return out + 1
    if raw < 0x4000:
        out[0] = <uint8_t>(raw | 0x80)
        out[1] = <uint8_t>(raw >> 7)
        return out + 2
    return put_uvarint(out, raw)
