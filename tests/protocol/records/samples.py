"""Batches that several tests of this folder start from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import settings
from hypothesis import strategies as st

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.records.builder import BatchOptions, encode_batch
from ottla.protocol.records.compression import CODECS, Codec

if TYPE_CHECKING:
    from ottla.protocol.records.record import Entry

# A busy machine must not fail a property by being slow.
quick = settings(deadline=None, max_examples=50)
thorough = settings(deadline=None, max_examples=300)

FIRST_TIMESTAMP = 1_700_000_000_000

ONE_RECORD = bytes.fromhex(
    "00000000000000000000003affffffff02e99b8dd80000000000000000018bcfe568000000018bcfe56800"
    "ffffffffffffffffffffffffffff0000000110000000026b027600"
)
TRANSACTIONAL = bytes.fromhex(
    "00000000000000000000004bffffffff024260bddd0010000000010000018bcfe568000000018bcfe56805"
    "0000000000000fa0000000000000000000021e000000010a68656c6c6f020268023112000a02066b65790100"
)
COMMIT_MARKER = bytes.fromhex(
    "0000000000000064000000420000000302b8bf7e9f0030000000000000018bcfe568000000018bcfe56800"
    "0000000000000fa00000ffffffff000000012000000008000000010c00000000000700"
)

ENTRIES: list[Entry] = [
    (FIRST_TIMESTAMP, None, b"value only", ()),
    (FIRST_TIMESTAMP + 3, b"key", b"", ()),
    (FIRST_TIMESTAMP - 2, b"", None, (("h", b"1"), ("h", None), ("", b""))),
    (FIRST_TIMESTAMP + 100_000, b"k" * 70, b"v" * 9_000, ()),
]


def sample_batch(codec: Codec = Codec.NONE) -> bytes:
    """Four records with every shape of key, value and headers."""
    return encode_batch(ENTRIES, BatchOptions(codec=codec))


def code_of(error: BaseException) -> ErrorCode:
    """The wire code of a KafkaError."""
    assert isinstance(error, KafkaError)
    return error.code


codecs = st.sampled_from(CODECS)
_fields = st.none() | st.binary(max_size=300)
_headers = st.lists(st.tuples(st.text(max_size=8), st.none() | st.binary(max_size=20)), max_size=4)
entries = st.tuples(
    st.integers(0, 2**62),
    _fields,
    _fields,
    _headers.map(tuple),
)
batches_of_entries = st.lists(entries, min_size=1, max_size=40)
