# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: binding=False, auto_pickle=False, freethreading_compatible=True
"""Checking the records of a batch without making objects of them, compiled: the twin of what
survey_pure.py does."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, int64_t, uint32_t

from compiled_numbers cimport int16_at, int32_at, int64_at, uint32_at
from compiled_reading cimport add, is_central, is_sum
from compiled_varints cimport Bytes, Varint, read_varint

from ottla.protocol.records.crc32c import crc32c

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>

    #ifndef OTTLA_SOURCE_CRC
    #define OTTLA_SOURCE_CRC 0
    #endif

    struct ottla_found {
        /* Where the survey stands: the next record and where it begins. */
        int64_t index;
        const uint8_t *at;
        /* Of the timestamps so far; the first record without a key, -1 if all have one. */
        int64_t earliest, latest, keyless;
    };

    /* A varint of one or two bytes, of which both are there. */
    static inline int ottla_short(const uint8_t **at, int64_t *value) {
        int64_t low = (*at)[0], high;
        if (low >= 0x80) {
            high = (*at)[1];
            if (high >= 0x80) return 0;
            low = (low & 0x7F) | high << 7;
            *at += 1;
        }
        *at += 1;
        *value = (low >> 1) ^ -(low & 1);
        return 1;
    }

    /* Pass over the varint of that number, and say whether it stands there, in as few bytes as it
       takes. Four bytes are there. */
    static inline int ottla_is_index(const uint8_t **at, uint64_t index) {
        const uint8_t *p = *at;
        uint64_t raw = index << 1;
        if (raw < 0x80) {
            *at = p + 1;
            return p[0] == raw;
        }
        if (raw < 0x4000) {
            *at = p + 2;
            return p[0] == ((raw & 0x7F) | 0x80) && p[1] == raw >> 7;
        }
        *at = p + 3;
        return raw < 0x200000 && p[0] == ((raw & 0x7F) | 0x80) && p[1] == ((raw >> 7 & 0x7F) | 0x80)
            && p[2] == raw >> 14;
    }

    /* Go over records that are as most are: without headers, in the order of their numbers, and
       with no other number of more than two bytes. Stops at the first that is not. Few bytes are
       compared with what is left at each step: that all lie within the record is known at its end.

       Where a record ends is only known from its length, so no record could be looked at before
       the length of the one ahead of it was worked out: but most have the length of the one before
       them, and a comparison that comes out as it always did lets the processor go on. */
    static void ottla_survey_short(
        struct ottla_found *found, const uint8_t *end, int64_t stop, int64_t base
    ) {
        const uint8_t *at = found->at, *p, *next;
        int64_t index = found->index, keyless = found->keyless;
        int64_t earliest = found->earliest, latest = found->latest;
        int64_t length, delta, size, head_bytes = 0, record_bytes = 0;
        uint16_t seen = 0, before = 0;
        int has_key;
        for (; index < stop && end - at >= 16; index++) {
            memcpy(&seen, at, 2);
            if (record_bytes && seen == before && record_bytes <= end - at) {
                p = at + head_bytes;
                next = at + record_bytes;
            } else {
                p = at;
                if (!ottla_short(&p, &length) || length <= 0 || length > end - p) break;
                next = p + length;
                head_bytes = p - at;
                record_bytes = next - at;
                before = seen;
            }
            p += 1;
            if (!ottla_short(&p, &delta) || !ottla_is_index(&p, (uint64_t)index)) break;
            has_key = p[0] != 1;
            if (!has_key) {
                p += 1;
            } else {
                /* Behind the key come the size of the value and the number of headers. */
                if (!ottla_short(&p, &size) || size < 0 || size > next - p - 2) break;
                p += size;
            }
            if (p[0] == 1) {
                p += 1;
            } else {
                if (!ottla_short(&p, &size) || size < 0) break;
                p += size;
            }
            if (p + 1 != next || p[0] != 0) break;
            if (!has_key && keyless < 0) keyless = index;
            if (base + delta < earliest) earliest = base + delta;
            if (base + delta > latest) latest = base + delta;
            at = next;
        }
        found->at = at;
        found->index = index;
        found->keyless = keyless;
        found->earliest = earliest;
        found->latest = latest;
    }
    """
    unsigned long OTTLA_SOURCE_CRC
    cdef struct ottla_found:
        int64_t index
        Bytes at
        int64_t earliest
        int64_t latest
        int64_t keyless
    void ottla_survey_short(ottla_found *, Bytes, int64_t, int64_t) noexcept nogil

SOURCE_CRC = OTTLA_SOURCE_CRC
"""Of the text that this was built from, so that a stale build can be told."""

cdef enum:
    # Of a varint that holds 32 bits: Java's readers give up behind it.
    INT_BYTES_MAX = 5

cdef struct Record:
    int64_t timestamp
    int64_t offset_delta
    bint has_key


cdef inline Varint read_int(Bytes at, Bytes end) noexcept nogil:
    """A varint as Java's readers take it where it holds 32 bits."""
    cdef Varint found = read_varint(at, end)
    if found.end != NULL and (
        found.end - at > INT_BYTES_MAX or not INT32_MIN <= found.value <= INT32_MAX
    ):
        found.end = NULL
    return found


cdef inline Bytes skip_sized(Bytes at, Bytes end, int64_t least) noexcept nogil:
    """Where what begins here with its size ends, or NULL; -1 is the size of what is null."""
    cdef Varint size = read_int(at, end)
    if size.end == NULL or not least <= size.value <= end - size.end:
        return NULL
    return size.end + max(size.value, 0)


cdef Bytes check_any(Bytes at, Bytes end, int64_t base, Record *record) noexcept nogil:
    """Where the record ends that starts here, or NULL if it does not end where its length says."""
    cdef int64_t count
    cdef Varint found = read_int(at, end)
    if found.end == NULL or not 0 < found.value <= end - found.end:
        return NULL
    end = found.end + found.value
    # The attributes have no meaning yet.
    found = read_varint(found.end + 1, end)
    if found.end == NULL:
        return NULL
    record.timestamp = add(base, found.value)
    if not is_sum(record.timestamp, base, found.value):
        return NULL
    found = read_int(found.end, end)
    if found.end == NULL:
        return NULL
    record.offset_delta = found.value
    found = read_int(found.end, end)
    if found.end == NULL or not -1 <= found.value <= end - found.end:
        return NULL
    record.has_key = found.value >= 0
    at = skip_sized(found.end + max(found.value, 0), end, -1)
    if at == NULL:
        return NULL
    found = read_int(at, end)
    if found.end == NULL or found.value < 0:
        return NULL
    at = found.end
    count = found.value
    while count > 0:
        at = skip_sized(at, end, 0)
        if at != NULL:
            at = skip_sized(at, end, -1)
        if at == NULL:
            return NULL
        count -= 1
    return end if at == end else NULL


cdef void survey(ottla_found *found, Bytes end, int64_t stop, int64_t base) noexcept nogil:
    cdef Record record
    cdef Bytes next_at
    while found.index < stop:
        if is_central(base):
            ottla_survey_short(found, end, stop, base)
            if found.index >= stop:
                break
        next_at = check_any(found.at, end, base, &record)
        if next_at == NULL or record.offset_delta != found.index:
            break
        if not record.has_key and found.keyless < 0:
            found.keyless = found.index
        found.earliest = min(found.earliest, record.timestamp)
        found.latest = max(found.latest, record.timestamp)
        found.at = next_at
        found.index += 1


def survey_records(data, Py_ssize_t position, int64_t first, int64_t stop, int64_t base_timestamp):
    """See survey_pure.py. A megabyte takes tens of microseconds, too little to let others in."""
    cdef Py_buffer view
    cdef ottla_found found
    found.index = first
    found.earliest = INT64_MAX
    found.latest = INT64_MIN
    found.keyless = -1
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        if not 0 <= position <= view.len or first < 0:
            raise ValueError(f"record {first} at {position} in {view.len} bytes")
        found.at = <Bytes>view.buf + position
        survey(&found, <Bytes>view.buf + view.len, stop, base_timestamp)
        position = found.at - <Bytes>view.buf
    finally:
        PyBuffer_Release(&view)
    return found.index, position, found.earliest, found.latest, found.keyless


cdef enum:
    # Of a batch: offset, length (8), leader epoch (12), magic (16), checksum (17), attributes (21),
    # last offset delta (23), base (27) and largest (35) timestamp, producer id (43), its epoch (51),
    # base sequence (53), number of records (57).
    HEADER_BYTES = 61
    LENGTH_END = 12
    CRC_END = 21


def survey_batch(data):
    """See survey_pure.py."""
    cdef Py_buffer view
    cdef ottla_found found
    cdef Bytes at
    cdef int64_t count, producer_id, sequence, base_timestamp, max_timestamp
    cdef uint32_t crc
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        at = <Bytes>view.buf
        if view.len < HEADER_BYTES or at[16] != 2 or int64_at(at):
            return None
        if <int64_t>int32_at(at + 8) + LENGTH_END != view.len or int16_at(at + 21):
            return None
        count = int32_at(at + 57)
        producer_id, sequence = int64_at(at + 43), int32_at(at + 53)
        if count <= 0 or int32_at(at + 23) != count - 1:
            return None
        if producer_id != -1 and (producer_id < 0 or sequence < 0):
            return None
        crc = uint32_at(at + 17)
        if <uint32_t>crc32c(data[CRC_END:]) != crc:
            return None
        base_timestamp = int64_at(at + 27)
        max_timestamp = int64_at(at + 35)
        found.at = at + HEADER_BYTES
        found.index = 0
        found.earliest = INT64_MAX
        found.latest = INT64_MIN
        found.keyless = -1
        survey(&found, at + view.len, count, base_timestamp)
        if found.index != count or found.at != at + view.len:
            return None
        if found.latest != max_timestamp or found.earliest < -1:
            return None
        return (
            view.len,
            int32_at(at + 12),
            crc,
            count,
            base_timestamp,
            max_timestamp,
            producer_id,
            int16_at(at + 51),
            sequence,
        )
    finally:
        PyBuffer_Release(&view)
