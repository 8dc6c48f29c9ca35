"""Where values end that are to be sent: what batches are cut by."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.protocol.records.twins import PURE, TWINS, compiled_or_say_why

if TYPE_CHECKING:
    from ottla.protocol.records.codec import Twin

each = pytest.mark.parametrize("twin", TWINS)


class OwnBytes(bytes):
    """May say of itself that it is longer than it is."""


@given(values=st.lists(st.none() | st.binary(max_size=40), max_size=30))
def test_values_end_at_the_same_places(values: list[bytes | None]) -> None:
    """Batches that one twin cuts elsewhere than the other would be refused as too large."""
    ends = [sum(len(value or b"") for value in values[:count]) for count in range(len(values) + 1)]

    for twin in (PURE, compiled_or_say_why()):
        for given_as in (values, tuple(values)):
            found = twin.value_ends(given_as)
            assert found is not None
            assert list(found) == ends


@each
@pytest.mark.parametrize("wrong", [bytearray(b"x"), memoryview(b"x"), "x", 1, OwnBytes(b"x")])
def test_what_is_no_value_has_no_end(twin: Twin, wrong: object) -> None:
    """It has to be made one first, or be refused by its name."""
    assert twin.value_ends([b"x", None, wrong, b"y"]) is None
