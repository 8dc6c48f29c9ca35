"""Done records after a position, as text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.parallel.done_offsets import BITMAP_BYTES_MAX, PREFIX, decode_done, encode_done

# The default limit of brokers for metadata.
METADATA_MAX = 4_096


@given(st.integers(0, 2**62), st.sets(st.integers(0, 8 * BITMAP_BYTES_MAX - 1), max_size=50))
def test_offsets_come_back(position: int, deltas: set[int]) -> None:
    """Near the position and far from it."""
    offsets = {position + delta for delta in deltas}

    text = encode_done(position, offsets)

    assert decode_done(position, text) == offsets
    assert len(text) <= METADATA_MAX


def test_what_is_too_far_away_is_left_out() -> None:
    """Such records are done again, which is allowed; metadata that is refused would store
    nothing."""
    limit = 8 * BITMAP_BYTES_MAX

    assert decode_done(5, encode_done(5, [6, 5 + limit])) == {6}
    assert encode_done(5, [5 + limit]) == ""


@pytest.mark.parametrize("text", ["", "from my own tool", PREFIX + "???", PREFIX + "QQ=", "QQ=="])
def test_text_of_others_means_nothing(text: str) -> None:
    """Any client may store any text with a position."""
    assert decode_done(5, text) == frozenset()


@given(st.text(max_size=40))
def test_any_text_is_read_or_ignored(text: str) -> None:
    """Foreign metadata must not end the consumer that reads it."""
    assert decode_done(0, text) == frozenset()
    decode_done(0, PREFIX + text)
