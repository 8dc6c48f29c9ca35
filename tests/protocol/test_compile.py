"""The compiled codecs: the same as the reference at every version, and unmoved by hostile bytes."""

from __future__ import annotations

import contextlib
import tracemalloc
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ottla.protocol import compile as codec
from ottla.protocol.errors import RemoteProtocolError
from tests.protocol import reference
from tests.support.messages import (
    Case,
    all_cases,
    bare_message,
    full_message,
    message_classes,
    messages,
)

PROPERTY = settings(
    max_examples=8,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@pytest.mark.parametrize("case", all_cases(), ids=str)
def test_every_field_of_every_version_survives_the_wire(case: Case) -> None:
    """The fast codec is generated, so each version is its own program that may be wrong."""
    for message in (case.declared(), full_message(*case), bare_message(*case)):
        try:
            expected = reference.encode(message, case.version)
        except ValueError:
            # An all-default message may hold a null that the version has no form for.
            assert message == case.declared()
            continue
        encoded = codec.encode(message, case.version)

        assert encoded == expected
        assert codec.decode(case.declared, case.version, encoded) == message
        assert reference.decode(case.declared, case.version, encoded) == message


@pytest.mark.parametrize("declared", message_classes(), ids=lambda declared: declared.__name__)
def test_any_message_is_the_same_in_both_codecs(declared: type[Any]) -> None:
    """The reference reads like the specification; whatever differs from it is a bug."""

    @PROPERTY
    @given(messages(declared))
    def check(drawn: tuple[Any, int]) -> None:
        message, version = drawn
        encoded = codec.encode(message, version)

        assert encoded == reference.encode(message, version)
        assert codec.decode(declared, version, encoded) == message
        assert reference.decode(declared, version, encoded) == message

    check()


@pytest.mark.parametrize("case", all_cases(), ids=str)
def test_a_message_cut_anywhere_is_refused(case: Case) -> None:
    """A frame's length is the sender's claim; what is missing must not be made up."""
    encoded = codec.encode(full_message(*case), case.version)
    cuts = range(len(encoded)) if len(encoded) < 20 else range(0, len(encoded), len(encoded) // 20)

    for cut in cuts:
        with pytest.raises(RemoteProtocolError):
            codec.decode(case.declared, case.version, encoded[:cut])


@pytest.mark.parametrize("case", all_cases(), ids=str)
def test_bytes_after_the_message_are_refused(case: Case) -> None:
    """They would mean that the two sides disagree about the version's layout."""
    encoded = codec.encode(full_message(*case), case.version)

    with pytest.raises(RemoteProtocolError, match="1 bytes too many"):
        codec.decode(case.declared, case.version, encoded + b"\0")


@settings(PROPERTY, max_examples=300)
@given(case=st.sampled_from(all_cases()), garbage=st.binary(max_size=200))
def test_garbage_is_decoded_alike_or_refused_by_both(case: Case, garbage: bytes) -> None:
    """A stranger chooses the bytes; the only answers are a message or RemoteProtocolError."""
    results = []
    for decode in (codec.decode, reference.decode):
        try:
            message = decode(case.declared, case.version, garbage)
            results.append(reference.encode(message, case.version))
        except RemoteProtocolError:
            results.append(b"refused")

    assert results[0] == results[1]


@pytest.mark.parametrize("case", all_cases(), ids=str)
def test_a_huge_length_anywhere_allocates_next_to_nothing(case: Case) -> None:
    """A hundred bytes must not be able to ask for gigabytes (hazard N-03)."""
    encoded = codec.encode(full_message(*case), case.version)
    step = max(1, len(encoded) // 12)
    decode = codec.decoder(case.declared, case.version)
    tracemalloc.start()
    for position in range(0, len(encoded), step):
        for huge in (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x0f"):
            hostile = encoded[:position] + huge + encoded[position + len(huge) :]
            with contextlib.suppress(RemoteProtocolError):
                decode(memoryview(hostile), 0)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak_bytes < 128 * 1024 + 20 * len(encoded)


@pytest.mark.parametrize("case", all_cases(), ids=str)
def test_a_varint_without_end_is_refused(case: Case) -> None:
    """Each byte says that one more follows; the reader must lose patience at the fifth."""
    encoded = codec.encode(full_message(*case), case.version)

    for position in range(0, len(encoded), max(1, len(encoded) // 10)):
        hostile = encoded[:position] + b"\xff" * 2000
        with pytest.raises(RemoteProtocolError):
            codec.decode(case.declared, case.version, hostile)
