"""The 420 rows of the specification, and which of them tests have shown.

``python -m tests.requirements`` prints the rows shown and the rows missing; the rows themselves
are kept beside this file, one id and one testable sentence a line.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

_ROWS = Path(__file__).with_name("requirements.tsv")
_RECORD = Path(".pytest_cache") / "requirements.json"


def rows() -> dict[str, str]:
    """Row id to its sentence, in the specification's order."""
    pairs = (line.split("\t", 1) for line in _ROWS.read_text("utf-8").splitlines())
    return {row_id: sentence for row_id, sentence in pairs}


def known_ids() -> frozenset[str]:
    """Every row id."""
    return frozenset(rows())


def load_shown(root: Path) -> dict[str, list[str]]:
    """Row id to the tests that have shown it, over all runs so far."""
    path = root / _RECORD
    if not path.exists():
        return {}
    loaded: dict[str, list[str]] = json.loads(path.read_text("utf-8"))
    return loaded


def record_shown(root: Path, shown: dict[str, set[str]]) -> None:
    """Add a run's rows to the record."""
    if not shown:
        return
    merged = {row_id: set(tests) for row_id, tests in load_shown(root).items()}
    for row_id, tests in shown.items():
        merged.setdefault(row_id, set()).update(tests)
    path = root / _RECORD
    path.parent.mkdir(exist_ok=True)
    document = {row_id: sorted(tests) for row_id, tests in sorted(merged.items())}
    path.write_text(json.dumps(document, indent=1), "utf-8")


def report(root: Path) -> str:
    """Both lists, then the count per group."""
    shown = load_shown(root)
    lines = ["Shown:"]
    missing = ["", "Missing:"]
    groups: dict[str, list[int]] = {}
    for row_id, sentence in rows().items():
        count = groups.setdefault(row_id[:3], [0, 0])
        count[1] += 1
        if row_id in shown:
            count[0] += 1
            lines.append(f"  {row_id}  {shown[row_id][0]}")
        else:
            missing.append(f"  {row_id}  {sentence}")
    totals = ["", "  ".join(f"{group} {a}/{b}" for group, (a, b) in groups.items())]
    total = f"{len(shown)} of {len(rows())} rows shown"
    if not shown:
        total += ": tests show them as they pass, so run 'make test' first"
    return "\n".join([*lines, *missing, *totals, total])


if __name__ == "__main__":
    sys.stdout.write(report(Path.cwd()) + "\n")
