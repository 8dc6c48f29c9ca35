# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Numbers of fixed width as the protocol writes them, big-endian. The caller has compared the bytes
that they take with those that are there."""

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t


cdef inline uint16_t uint16_at(const uint8_t *at) noexcept nogil:
    return <uint16_t>(at[0] << 8 | at[1])


cdef inline uint32_t uint32_at(const uint8_t *at) noexcept nogil:
    return <uint32_t>at[0] << 24 | <uint32_t>at[1] << 16 | <uint32_t>at[2] << 8 | at[3]


cdef inline uint64_t uint64_at(const uint8_t *at) noexcept nogil:
    return <uint64_t>uint32_at(at) << 32 | uint32_at(at + 4)


cdef inline int16_t int16_at(const uint8_t *at) noexcept nogil:
    return <int16_t>uint16_at(at)


cdef inline int32_t int32_at(const uint8_t *at) noexcept nogil:
    return <int32_t>uint32_at(at)


cdef inline int64_t int64_at(const uint8_t *at) noexcept nogil:
    return <int64_t>uint64_at(at)


cdef inline uint8_t *put_int16(uint8_t *out, int16_t value) noexcept nogil:
    out[0] = <uint8_t>(<uint16_t>value >> 8)
    out[1] = <uint8_t>value
    return out + 2


cdef inline uint8_t *put_int32(uint8_t *out, int32_t value) noexcept nogil:
    cdef uint32_t raw = <uint32_t>value
    out[0] = <uint8_t>(raw >> 24)
    out[1] = <uint8_t>(raw >> 16)
    out[2] = <uint8_t>(raw >> 8)
    out[3] = <uint8_t>raw
    return out + 4


cdef inline uint8_t *put_int64(uint8_t *out, int64_t value) noexcept nogil:
    cdef uint64_t raw = <uint64_t>value
    put_int32(out, <int32_t><uint32_t>(raw >> 32))
    return put_int32(out + 4, <int32_t><uint32_t>raw)


cdef inline const uint8_t *read_leb128(
    const uint8_t *at, const uint8_t *end, int bits, uint64_t *value
) noexcept nogil:
    """Where a number of at most so many bits ends, or NULL: seven bits a byte, the lowest first."""
    cdef uint64_t raw = 0, byte
    cdef int shift = 0
    while at < end:
        byte = at[0]
        at += 1
        # The last byte that there may be has room for the rest of the bits, and none follows it.
        if shift + 7 > bits and byte >> (bits - shift):
            return NULL
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            value[0] = raw
            return at
        shift += 7
    return NULL


cdef inline const uint8_t *read_uvarint(
    const uint8_t *at, const uint8_t *end, int64_t *value
) noexcept nogil:
    """Where an unsigned varint of at most 32 bits ends, or NULL."""
    cdef uint64_t raw = 0
    at = read_leb128(at, end, 32, &raw)
    value[0] = <int64_t>raw
    return at


cdef inline uint8_t *put_uvarint(uint8_t *out, uint64_t value) noexcept nogil:
    while value >= 0x80:
        out[0] = <uint8_t>(value | 0x80)
        value >>= 7
        out += 1
    out[0] = <uint8_t>value
    return out + 1
