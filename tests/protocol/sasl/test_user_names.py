"""Names of new users are ones that a reader can tell apart."""

from __future__ import annotations

import pytest

from ottla.protocol.sasl.user_names import name_problem


@pytest.mark.parametrize("name", ["alice", "CN=broker-1,O=x", "jürgen", "ユーザー", "a b", "a/b%"])
def test_ordinary_names_are_allowed(name: str) -> None:
    """Names of people, of certificates, in any script."""
    assert name_problem(name) is None


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("", "needs a name"),
        ("a\nb", "control"),
        ("a\x00b", "control"),
        ("a\u202eb", "control, formatting"),
        ("a\u200bb", "control, formatting"),
        ("a\u0378b", "unassigned"),
        ("\ud800", "control, formatting"),
        (" a", "blank"),
        ("a ", "blank"),
        ("e\u0301", "normal form"),
        ("\uff41", "normal form"),
        ("a" * 256, "255 bytes"),
    ],
)
def test_names_that_look_like_others_are_refused(name: str, problem: str) -> None:
    """Two visibly equal names would be two users."""
    assert problem in (name_problem(name) or "")
