"""What ``ottla doctor`` finds: one line each, with what to do."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from ottla.client.cli.output import json_document
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

AREA_WIDTH = 12


class Level(Enum):
    """How bad it is: only problems make the command fail."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


class CheckFinding(NamedTuple):
    """One thing that was looked at. ``advice`` says what to do, and is empty where nothing is."""

    area: str
    level: Level
    text: str
    advice: str = ""


def ok(area: str, text: str) -> CheckFinding:
    """Nothing to do."""
    return CheckFinding(area, Level.OK, text)


def warning(area: str, text: str, advice: str) -> CheckFinding:
    """It works, and may not for long, or not as well as it could."""
    return CheckFinding(area, Level.WARNING, text, advice)


def problem(area: str, text: str, advice: str) -> CheckFinding:
    """It does not work like this."""
    return CheckFinding(area, Level.PROBLEM, text, advice)


def has_problem(findings: Sequence[CheckFinding]) -> bool:
    """Whether something has to be done."""
    return any(one.level is Level.PROBLEM for one in findings)


def as_text(findings: Sequence[CheckFinding]) -> str:
    """A line each, and a last one with the sum."""
    lines = [
        f"{one.level.value:<8} {one.area:<{AREA_WIDTH}} {one.text}"
        + (f"; {one.advice}" if one.advice else "")
        + "\n"
        for one in findings
    ]
    counts = [
        (sum(one.level is level for one in findings), name)
        for level, name in ((Level.PROBLEM, "problem"), (Level.WARNING, "warning"))
    ]
    said = [f"{count} {name}{'' if count == 1 else 's'}" for count, name in counts if count]
    return "".join(lines) + (f"\n{' and '.join(said)}\n" if said else "\nall is well\n")


def as_document(findings: Sequence[CheckFinding]) -> str:
    """A list of objects."""
    return json_document(
        [
            {
                "area": one.area,
                "level": one.level.value,
                "text": one.text,
                "advice": one.advice or None,
            }
            for one in findings
        ]
    )
