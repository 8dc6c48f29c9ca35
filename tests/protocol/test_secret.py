"""A secret shows its value to the code that asks for it, and to nothing else."""

from __future__ import annotations

import copy
import pickle
import traceback

import pytest

from ottla.protocol.secret import Secret

SECRET = Secret("pa55word")


@pytest.mark.parametrize(
    "shown",
    [
        repr(SECRET),
        str(SECRET),
        f"{SECRET}",
        f"{SECRET:>20}",
        f"{SECRET!r}",
        "%s" % SECRET,  # noqa: UP031
        repr([SECRET]),
        repr({"password": SECRET}),
    ],
)
def test_no_way_of_showing_a_secret_shows_its_value(shown: str) -> None:
    """Logs, errors and reports are made of these."""
    assert "pa55word" not in shown
    assert "***" in shown


def test_a_traceback_shows_no_secret() -> None:
    """An error about a login names the secret it was given."""
    try:
        raise ValueError(SECRET)
    except ValueError as error:
        shown = "".join(traceback.format_exception(error))

    assert "pa55word" not in shown


def test_a_secret_is_not_pickled() -> None:
    """A pickle is a file or a message that some other process reads."""
    with pytest.raises(TypeError):
        pickle.dumps(SECRET)


def test_a_copy_of_a_secret_is_the_secret() -> None:
    """Settings are copied."""
    assert copy.deepcopy({"a": SECRET})["a"].reveal() == "pa55word"
    assert copy.copy(SECRET) is SECRET


def test_secrets_compare_by_value() -> None:
    """A changed password is noticed by comparing."""
    assert Secret("pa55word") == SECRET
    assert Secret("other") != SECRET
    assert SECRET != "pa55word"
    assert len({SECRET, Secret("pa55word")}) == 1
    assert not Secret("")
