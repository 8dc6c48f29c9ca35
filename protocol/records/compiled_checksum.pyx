# cython: language_level=3, boundscheck=False, wraparound=False
# cython: binding=False, auto_pickle=False, freethreading_compatible=True
"""CRC-32C by carry-less multiplication of 64 bytes at a time, where the processor has that.

About three times as fast as its CRC instruction, which the crc32c package uses. Importing this
raises ImportError on every other processor, and then crc32c.py takes the package.

A checksum is the remainder of the message as a polynomial, and a part of the message that lies n
bits further ahead may be replaced by its product with the remainder of x^n, without changing the
whole's: so four registers of 512 bits are each moved 2048 bits ahead at a time and added to what
lies there. Folded into one, their 64 bytes have the checksum of all that went into them, which the
CRC instruction gives (Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ
Instruction", Intel 2009).
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport uint8_t, uint32_t

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>

    #ifndef OTTLA_SOURCE_CRC
    #define OTTLA_SOURCE_CRC 0
    #endif

    #if defined(__x86_64__) && (defined(__clang__) || (defined(__GNUC__) && __GNUC__ >= 9))
    #include <immintrin.h>

    /* The CRC instruction is a feature of its own for newer compilers of that family. */
    #if defined(__clang__) && __clang_major__ >= 14
    #define OTTLA_FEATURES "avx512f,avx512vl,vpclmulqdq,pclmul,sse4.2,crc32"
    #else
    #define OTTLA_FEATURES "avx512f,avx512vl,vpclmulqdq,pclmul,sse4.2"
    #endif
    #define OTTLA_TARGET __attribute__((target(OTTLA_FEATURES)))
    #define OTTLA_STEP 256

    static int ottla_can_fold(void) {
        __builtin_cpu_init();
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl")
            && __builtin_cpu_supports("vpclmulqdq") && __builtin_cpu_supports("pclmul")
            && __builtin_cpu_supports("sse4.2");
    }

    /* The register moved ahead and added to what is there. */
    OTTLA_TARGET static inline __m512i ottla_fold(__m512i moved, __m512i by, __m512i there) {
        __m512i low = _mm512_clmulepi64_epi128(moved, by, 0x00);
        __m512i high = _mm512_clmulepi64_epi128(moved, by, 0x11);
        return _mm512_ternarylogic_epi64(low, high, there, 0x96);
    }

    OTTLA_TARGET static uint64_t ottla_fold_steps(uint32_t crc, const uint8_t *at, size_t size) {
        /* Remainders of x^(n+31) and x^(n-33), reflected, for n = 2048 and for n = 512 bits. */
        const __m512i far = _mm512_broadcast_i32x4(_mm_set_epi64x(0xb9e02b86, 0xdcb17aa4));
        const __m512i near = _mm512_broadcast_i32x4(_mm_set_epi64x(0x9e4addf8, 0x740eef02));
        uint64_t words[8], sum = 0;
        int index;
        __m512i a = _mm512_loadu_si512(at), b = _mm512_loadu_si512(at + 64);
        __m512i c = _mm512_loadu_si512(at + 128), d = _mm512_loadu_si512(at + 192);
        a = _mm512_xor_si512(
            a, _mm512_inserti32x4(_mm512_setzero_si512(), _mm_cvtsi32_si128((int)crc), 0)
        );
        for (size -= OTTLA_STEP, at += OTTLA_STEP; size; size -= OTTLA_STEP, at += OTTLA_STEP) {
            a = ottla_fold(a, far, _mm512_loadu_si512(at));
            b = ottla_fold(b, far, _mm512_loadu_si512(at + 64));
            c = ottla_fold(c, far, _mm512_loadu_si512(at + 128));
            d = ottla_fold(d, far, _mm512_loadu_si512(at + 192));
        }
        a = ottla_fold(ottla_fold(ottla_fold(a, near, b), near, c), near, d);
        _mm512_storeu_si512(words, a);
        for (index = 0; index < 8; index++) sum = _mm_crc32_u64(sum, words[index]);
        return sum;
    }

    OTTLA_TARGET static uint32_t ottla_crc32c(uint32_t crc, const uint8_t *at, size_t size) {
        uint64_t sum = crc ^ 0xffffffffu, word;
        size_t steps = size & ~(size_t)(OTTLA_STEP - 1);
        const uint8_t *end = at + size;
        if (steps) sum = ottla_fold_steps((uint32_t)sum, at, steps);
        for (at += steps; end - at >= 8; at += 8) {
            memcpy(&word, at, 8);
            sum = _mm_crc32_u64(sum, word);
        }
        for (; at < end; at++) sum = _mm_crc32_u8((uint32_t)sum, *at);
        return (uint32_t)sum ^ 0xffffffffu;
    }
    #else
    static int ottla_can_fold(void) { return 0; }
    static uint32_t ottla_crc32c(uint32_t crc, const uint8_t *at, size_t size) { return 0; }
    #endif
    """
    unsigned long OTTLA_SOURCE_CRC
    bint ottla_can_fold()
    uint32_t ottla_crc32c(uint32_t, const uint8_t *, size_t) noexcept nogil

SOURCE_CRC = OTTLA_SOURCE_CRC
"""Of the text that this was built from, so that a stale build can be told."""

if not ottla_can_fold():
    raise ImportError("this processor cannot multiply 64 bytes without carry")


def crc32c(data, value=0):
    """A megabyte takes twenty microseconds, which is too little to let other threads in for."""
    cdef Py_buffer view
    cdef uint32_t crc = value & 0xFFFFFFFF
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        crc = ottla_crc32c(crc, <const uint8_t *>view.buf, view.len)
    finally:
        PyBuffer_Release(&view)
    return crc
