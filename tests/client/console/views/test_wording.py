"""Numbers, sizes and times as pages show them."""

from __future__ import annotations

import pytest

from ottla.client.console.views.wording import count_text, duration_text, size_text, time_text


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (None, "–"),
        (-1, "–"),
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1536 * 1024, "1.5 MiB"),
        (5 * 1024**5, "5.0 PiB"),
        (3000 * 1024**5, "3000.0 PiB"),
    ],
)
def test_a_size_has_a_unit(size_bytes: int | None, text: str) -> None:
    """An unknown size is not zero."""
    assert size_text(size_bytes) == text


def test_numbers_are_grouped_and_times_are_utc() -> None:
    """Offsets are long, and visitors sit in different zones."""
    assert count_text(1234567) == "1\u202f234\u202f567"
    assert count_text(None) == "–"
    assert time_text(1_700_000_000_123) == "2023-11-14 22:13:20.123Z"
    assert time_text(-1) == time_text(2**62) == "–"
    assert duration_text(90_000) == "1.5 min"
    assert duration_text(5) == "5 ms"
