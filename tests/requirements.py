"""The 420 rows of the specification, and which of them the tests of one run have shown.

``python -m tests.requirements`` prints the rows shown and the rows missing. The rows themselves are
kept beside this file, one id and one testable sentence a line. ``make test`` writes down what came
of every test with a row; a row is shown if a test of it has passed in that run and none has failed.
"""

from __future__ import annotations

import json
import re
import sys
from collections import defaultdict
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from tests.support.evidence import ZOOKEEPER

_ROWS = Path(__file__).with_name("requirements.tsv")
_RECORD = Path(".pytest_cache") / "requirements.json"
_OF_TESTS = re.compile(r"^from (tests[\w.]*) import ", re.MULTILINE)
_CODE = (
    *("protocol", "wire", "coordinator", "broker", "client", "ottla"),
    *("tests", "benchmarks", "examples"),
)
_SUFFIXES = (".py", ".pyi", ".pyx", ".pxd", ".tsv")
# What the store of a cluster has a part in: these rows are about ZooKeeper itself.
_STORE_GROUPS = ("ZKT", "CTL")
_STORE_WORDS = re.compile(r"ZooKeeper|znode|ephemeral")

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"


class Shown(NamedTuple):
    """A test with rows, and what came of it in one run. ``used`` are the real things it had."""

    node_id: str
    rows: tuple[str, ...]
    outcome: str
    used: tuple[str, ...] = ()


class Run(NamedTuple):
    """One run of all lots. ``tree`` tells states of the code apart."""

    tree: str
    was_cut_short: bool
    tests: tuple[Shown, ...]


class Verdict(NamedTuple):
    """Of one row: the tests that showed it, or why it counts as missing."""

    tests: tuple[Shown, ...] = ()
    why_not: str = ""

    @property
    def is_shown(self) -> bool:
        return not self.why_not

    @property
    def best(self) -> Shown:
        """One with real things before one without."""
        return max(self.tests, key=lambda test: len(test.used))


def rows() -> dict[str, str]:
    """Row id to its sentence, in the specification's order."""
    pairs = (line.split("\t", 1) for line in _ROWS.read_text("utf-8").splitlines())
    return {row_id: sentence for row_id, sentence in pairs}


def known_ids() -> frozenset[str]:
    """Every row id."""
    return frozenset(rows())


def speaks_of_the_store(row_id: str) -> bool:
    """Whether the row is about ZooKeeper, so that a model of it shows only half."""
    return row_id[:3] in _STORE_GROUPS or bool(_STORE_WORDS.search(rows()[row_id]))


def digest_of_tree(root: Path) -> str:
    """Another one for every change of code or tests."""
    digest = sha256()
    for folder in _CODE:
        for path in sorted((root / folder).rglob("*")):
            parts = path.relative_to(root)
            if path.suffix in _SUFFIXES and "__pycache__" not in parts.parts and path.is_file():
                digest.update(f"{parts.as_posix()}\0".encode())
                digest.update(path.read_bytes())
    return digest.hexdigest()


def save_run(root: Path, run: Run) -> None:
    """Keep what one run has shown; nothing of the run before is left."""
    path = root / _RECORD
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(run._replace(tests=tuple(sorted(run.tests))), indent=1), "utf-8")


def load_run(root: Path) -> Run | None:
    """The last run of all lots, None before the first one."""
    try:
        tree, was_cut_short, tests = json.loads((root / _RECORD).read_text("utf-8"))
        found = [
            Shown(node_id, tuple(of), outcome, tuple(used)) for node_id, of, outcome, used in tests
        ]
    except (OSError, ValueError, TypeError):
        return None
    return Run(tree, was_cut_short, tuple(found))


def judge(run: Run, root: Path) -> dict[str, Verdict]:
    """Every row's verdict. A test that is in the tree no more shows nothing."""
    tests: dict[str, list[Shown]] = defaultdict(list)
    for test in run.tests:
        if _is_there(test.node_id, root):
            for row_id in test.rows:
                tests[row_id].append(test)
    return {row_id: _judge_row(tests[row_id]) for row_id in rows()}


def _judge_row(tests: list[Shown]) -> Verdict:
    failed = [test.node_id for test in tests if test.outcome == FAILED]
    passed = tuple(test for test in tests if test.outcome == PASSED)
    if failed:
        return Verdict(why_not=f"failed: {failed[0]}")
    if passed:
        return Verdict(passed)
    if tests:
        return Verdict(why_not=f"not run to its end: {tests[0].node_id}")
    return Verdict(why_not="no test")


def _is_there(node_id: str, root: Path) -> bool:
    file, _, rest = node_id.partition("::")
    name = rest.rpartition("::")[2].partition("[")[0]
    path = root / file
    if not path.is_file():
        return False
    text = path.read_text("utf-8")
    # A class may have its tests from one of another module, as the stores have their contract.
    homes = [root / f"{module.replace('.', '/')}.py" for module in _OF_TESTS.findall(text)]
    texts = [text, *(home.read_text("utf-8") for home in homes if home.is_file())]
    return any(f"def {name}(" in one for one in texts)


def report(root: Path) -> str:
    """What is shown, what of it on a model of ZooKeeper alone, what is missing, and the counts."""
    run = load_run(root)
    if run is None:
        return (
            f"0 of {len(rows())} rows shown: tests show them as they pass, so run 'make test' first"
        )
    verdicts = judge(run, root)
    shown = {row_id: one for row_id, one in verdicts.items() if one.is_shown}
    on_model = [row_id for row_id, one in shown.items() if _rests_on_the_model(row_id, one)]
    lines = ["Shown:", *(f"  {row_id}  {_line(one)}" for row_id, one in shown.items())]
    lines += ["", "Of these on a model of ZooKeeper alone:"]
    lines += [f"  {row_id}  {rows()[row_id]}" for row_id in on_model]
    lines += ["", "Missing:"]
    lines += [
        f"  {row_id}  {rows()[row_id]} ({one.why_not})"
        for row_id, one in verdicts.items()
        if not one.is_shown
    ]
    lines += ["", _counts(verdicts), *_warnings(run, root)]
    total = f"{len(shown)} of {len(verdicts)} rows shown in the last run of 'make test'"
    return "\n".join([*lines, f"{total}, {len(on_model)} of them on a model of ZooKeeper alone"])


def _rests_on_the_model(row_id: str, verdict: Verdict) -> bool:
    return speaks_of_the_store(row_id) and not any(ZOOKEEPER in test.used for test in verdict.tests)


def _line(verdict: Verdict) -> str:
    best = verdict.best
    return f"{best.node_id} ({', '.join(best.used)})" if best.used else best.node_id


def _counts(verdicts: dict[str, Verdict]) -> str:
    groups: dict[str, list[int]] = {}
    for row_id, verdict in verdicts.items():
        count = groups.setdefault(row_id[:3], [0, 0])
        count[0] += verdict.is_shown
        count[1] += 1
    return "  ".join(f"{group} {a}/{b}" for group, (a, b) in groups.items())


def _warnings(run: Run, root: Path) -> list[str]:
    lines = []
    if run.was_cut_short:
        lines.append("That run was cut short: what it had not run counts as missing.")
    if run.tree != digest_of_tree(root):
        lines.append("The code has changed since that run: run 'make test' again.")
    return lines


if __name__ == "__main__":
    sys.stdout.write(report(Path.cwd()) + "\n")
