"""A plugin of pytest that records what is run and what fails, line by line as it happens.

Loaded by ``-p tests.lots.recording --record FILE``. A crash of pytest itself does not lose what is
in the file already. Workers of xdist do not write: the process that started them gets their
reports, also that of a worker's own crash.
"""

from __future__ import annotations

import json
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pytest

BRIEF_CHARACTERS_MAX = 200
# The names of properties in reports: a row of the specification that a test is marked with, and
# something real that it has used.
PROPERTY = "requirement"
USED = "used"


class Failure(NamedTuple):
    """A test, or a file that could not be collected."""

    node_id: str
    brief: str
    text: str


class Record(NamedTuple):
    """Of one run of pytest."""

    failures: list[Failure]
    # Begun and never ended, nor known to have failed.
    under_way: list[str]
    # Run to the end: what was skipped is not among them.
    passed: frozenset[str] = frozenset()
    # Rows of the specification, and real things that were used, by test.
    rows: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    used: Mapping[str, tuple[str, ...]] = MappingProxyType({})


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record", type=Path, default=None, help="where to note what fails")


def pytest_configure(config: pytest.Config) -> None:
    path: Path | None = config.getoption("--record")
    if path is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder(path))


class Recorder:
    """Appends to the file; nothing is kept open, so that nothing is lost."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._write("began", nodeid)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self._write("ended", nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for name, value in report.user_properties:
            if name in (PROPERTY, USED):
                self._write(name, report.nodeid, str(value))
        self._note(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._note(report)

    def _note(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if report.failed:
            text = report.longreprtext
            self._write("failed", report.nodeid, _brief(report, text), text)
        elif report.passed and report.when == "call":
            self._write("passed", report.nodeid)

    def _write(self, *what: str) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(what) + "\n")


def _brief(report: pytest.TestReport | pytest.CollectReport, text: str) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    lines = (crash.message if crash is not None else text).strip().splitlines() or [""]
    # The message begins with what was raised; a text without one ends with it.
    line = lines[0] if crash is not None else lines[-1]
    return str(line.strip()[:BRIEF_CHARACTERS_MAX])


def read(path: Path) -> Record:
    """Read the record of a run; an incomplete last line is skipped."""
    failures: dict[str, Failure] = {}
    under_way: dict[str, None] = {}
    passed: set[str] = set()
    noted: dict[str, dict[str, dict[str, None]]] = {PROPERTY: {}, USED: {}}
    for line in path.read_text("utf-8").splitlines(keepends=True) if path.exists() else ():
        if not line.endswith("\n"):
            break
        kind, node_id, *rest = json.loads(line)
        if kind == "began":
            under_way[node_id] = None
        elif kind == "passed":
            passed.add(node_id)
        elif kind in noted:
            noted[kind].setdefault(node_id, {})[rest[0]] = None
        else:
            under_way.pop(node_id, None)
        if kind == "failed":
            brief, text = rest
            known = failures.get(node_id)
            # One that failed may fail again while it is taken down.
            failures[node_id] = (
                Failure(node_id, brief, text)
                if known is None
                else known._replace(text=f"{known.text}\n\n{text}")
            )
    rows, used = (
        {node_id: tuple(found) for node_id, found in noted[kind].items()}
        for kind in (PROPERTY, USED)
    )
    return Record(list(failures.values()), list(under_way), frozenset(passed), rows, used)
