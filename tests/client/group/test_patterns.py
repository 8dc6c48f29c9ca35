"""Topics by pattern."""

from __future__ import annotations

import re

import pytest
import re2  # type: ignore[import-untyped]

from ottla.client.group.patterns import matching, re2_of

NAMES = ["a", "a1", "b1", "ba", "A1", "a.b", "logs-2026", "logs_old"]


def test_names_that_begin_with_a_match_are_meant() -> None:
    """Patterns match as with ``pattern.match``, and as in other clients written in Python."""
    assert matching(re.compile("a"), NAMES) == ("a", "a.b", "a1")
    assert matching(re.compile("a$"), NAMES) == ("a",)


@pytest.mark.requirement("CON-11")
@pytest.mark.parametrize(
    "text", ["a", "^a", "a$", "a.*", "a|b1", r"logs[-_]\w+", "(?:a|b)1", "", r"a\.", "^(?!x)"]
)
@pytest.mark.parametrize("flags", [0, re.IGNORECASE])
def test_the_coordinator_finds_the_same_topics(text: str, flags: int) -> None:
    """The coordinator matches whole names by RE2 (KIP-848); one subscription must mean the same
    everywhere."""
    pattern = re.compile(text, flags)
    expression = re2_of(pattern)
    assert expression is not None
    try:
        found = tuple(sorted(name for name in NAMES if re2.fullmatch(expression, name)))
    except re2.error:
        # A broker refuses it, and we match ourselves.
        assert "(?!" in text
        return

    assert found == matching(pattern, NAMES)


def test_flags_that_re2_does_not_have_are_matched_here() -> None:
    """A verbose expression would mean something else without its flag."""
    assert re2_of(re.compile("a  # letters", re.VERBOSE)) is None
