"""The parameters of addresses are read, and refused with a sentence."""

from __future__ import annotations

import pytest

from ottla.client.console.views.asked import BadRequest, Question


def test_numbers_have_defaults_and_bounds() -> None:
    """What an address says goes into requests, which have bounds of their own."""
    question = Question({}, {"page": "7", "rows": "", "limit": "-1"})

    assert question.number("page", 1, 1) == 7
    assert question.number("rows", 50, 1) == 50
    with pytest.raises(BadRequest, match="limit is -1; it must be from 1 to 9"):
        question.number("limit", 1, 1, 9)


@pytest.mark.parametrize("text", ["x", "1.5", "--1", "٣", "9" * 5000])
def test_an_invalid_number_is_refused(text: str) -> None:
    """Python reads digits of all scripts, and stops with an error of its own at 4300 digits."""
    with pytest.raises(BadRequest, match="must be a whole number"):
        Question({}, {"page": text}).number("page", 1)


def test_a_parameter_that_is_needed_may_be_empty_but_not_missing() -> None:
    """A group may have the empty name."""
    assert Question({}, {"id": ""}).needed("id") == ""
    with pytest.raises(BadRequest, match="'id' is missing"):
        Question({}, {}).needed("id")
