"""Which real services a test has used: noted by the code that starts them or hands them out.

``tests/conftest.py`` adds the notes to a test's outcome, so that ``make requirements`` can
distinguish what was shown on a real ZooKeeper from what was shown on the model of one.
"""

from __future__ import annotations

ZOOKEEPER = "ZooKeeper"
PROCESS = "process"
TRACE = "strace"

_noted: dict[str, None] = {}


def note(kind: str) -> None:
    """The test that runs, or the fixture that is set up, uses such a thing."""
    _noted[kind] = None


def take() -> tuple[str, ...]:
    """All that was noted since it was last asked for."""
    found = tuple(_noted)
    _noted.clear()
    return found
