"""Mutated batches: whatever a peer or a disk makes of one, only KafkaError comes out."""

from __future__ import annotations

import contextlib

from hypothesis import example, given
from hypothesis import strategies as st

from ottla.protocol.errors import KafkaError
from ottla.protocol.records.batch import (
    check_crc,
    iterate_batches,
    iterate_whole_batches,
    parse_batch,
    refresh_crc,
)
from ottla.protocol.records.compression import Codec
from ottla.protocol.records.control import read_control_type, read_marker
from ottla.protocol.records.record import read_records
from ottla.protocol.records.validation import validate_records
from tests.protocol.records.samples import (
    COMMIT_MARKER,
    TRANSACTIONAL,
    codecs,
    sample_batch,
    thorough,
)

LIMIT_BYTES = 1 << 20

mutations = st.lists(
    st.tuples(
        st.sampled_from(["set", "cut", "insert", "remove"]),
        st.integers(0, 2**16),
        st.integers(0, 255),
    ),
    min_size=1,
    max_size=5,
)


def _mutate(data: bytes, steps: list[tuple[str, int, int]]) -> bytearray:
    mutant = bytearray(data)
    for kind, place, byte in steps:
        place %= len(mutant) + 1
        if kind == "set" and place < len(mutant):
            mutant[place] = byte
        elif kind == "cut":
            del mutant[max(place, 1) :]
        elif kind == "insert":
            mutant.insert(place, byte)
        elif kind == "remove" and len(mutant) > 1:
            del mutant[place : place + 1]
    return mutant


def _touch_everything(data: bytearray) -> None:
    """Do to the bytes all that any caller does; KafkaError is the only legal way out."""
    for iterate in (iterate_batches, iterate_whole_batches):
        with contextlib.suppress(KafkaError):
            for batch in iterate(data):
                assert 61 <= batch.size_bytes <= len(data)
                assert batch.next_offset > batch.base_offset
                check_crc(batch)
    try:
        batch = parse_batch(data)
    except KafkaError:
        return
    for inspect in (
        lambda: list(read_records(batch, LIMIT_BYTES)),
        lambda: validate_records(batch, LIMIT_BYTES),
        lambda: batch.is_control and read_control_type(batch),
        lambda: batch.is_control and read_marker(batch),
    ):
        with contextlib.suppress(KafkaError):
            inspect()
    assert repr(batch)


@thorough
@given(codec=codecs, steps=mutations)
@example(codec=Codec.NONE, steps=[("cut", 61, 0)])
def test_mutated_batches_with_a_stale_checksum(
    codec: Codec, steps: list[tuple[str, int, int]]
) -> None:
    """Readers that do not check the checksum (``check.crcs=false``) get this far."""
    _touch_everything(_mutate(sample_batch(codec), steps))


@thorough
@given(base=st.sampled_from([*Codec, "marker", "transactional"]), steps=mutations)
def test_mutated_batches_with_a_right_checksum(
    base: Codec | str, steps: list[tuple[str, int, int]]
) -> None:
    """A hostile producer computes the checksum and the length of whatever it sends."""
    if isinstance(base, Codec):
        data = sample_batch(base)
    else:
        data = COMMIT_MARKER if base == "marker" else TRANSACTIONAL
    mutant = _mutate(data, steps)
    if len(mutant) >= 61:
        mutant[8:12] = (len(mutant) - 12).to_bytes(4)
        refresh_crc(mutant, 0)
    _touch_everything(mutant)


@thorough
@given(data=st.binary(max_size=300))
def test_noise_is_never_taken_for_a_sound_batch(data: bytes) -> None:
    """Random bytes after a torn write (S-02): refused, or at least betrayed by the checksum."""
    _touch_everything(bytearray(data))
    try:
        sound = check_crc(parse_batch(data))
    except KafkaError:
        sound = False

    assert not sound
