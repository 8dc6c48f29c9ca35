"""The examples run unchanged and print the output that their comments show.

Every script of ``examples`` is found here; one that needs another program around it has its test in
``ELSEWHERE``. Lines with ``# ->`` in a script are its output: ``...`` stands for anything in a
line, and on a line of its own for any number of them.
"""

from __future__ import annotations

import re
import runpy
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest

from tests.tidy.tree import ROOT

if TYPE_CHECKING:
    from pathlib import Path

FOLDER = ROOT / "examples"
ELSEWHERE = {
    "frameworks/faust_orders.py": "tests/deploy/test_frameworks.py",
    "groups/parallel.py": "tests/client/parallel/test_parallel.py",
    "programs/search_index.py": "tests/client/administration/test_search_index.py",
    "records/exactly_once.py": "tests/client/sending/test_exactly_once.py",
    "roundtrip.py": "tests/cluster/test_readme.py",
    "spark/spark_batch.py": "tests/client/spark/test_examples.py",
    "spark/spark_jobs.py": "tests/client/spark/test_examples.py",
    "spark/spark_streams.py": "tests/client/spark/test_examples.py",
}
# Of folders with tests of their own.
APART = ("pipelines", "testing", "why")
NAMES = sorted(
    path.relative_to(FOLDER).as_posix()
    for path in FOLDER.rglob("*.py")
    if path.parent.name not in APART
)
SCRIPTS = [FOLDER / name for name in NAMES if name not in ELSEWHERE]
NEEDS = {
    "avro_records.py": "fastavro",
    "protobuf_records.py": "google.protobuf",
    "tables.py": "polars",
}


def is_there(module: str) -> bool:
    """Whether it could be imported."""
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def announced(path: Path) -> str:
    """The output that a script's comments show, as an expression."""
    lines = (line.strip() for line in path.read_text("utf-8").splitlines())
    said = [
        line.removeprefix("# ->").removeprefix(" ") for line in lines if line.startswith("# ->")
    ]
    assert said, "it says nothing of what it prints"
    return "".join(
        "(?:.*\n)*" if line == "..." else ".*".join(map(re.escape, line.split("..."))) + "\n"
        for line in said
    )


@pytest.mark.requirement("PRD-31")
@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_runs_and_prints_what_it_says(
    path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An example that has rotted is the first thing a newcomer meets.

    In this process: to start Python and to load a cluster takes longer than any of them."""
    if not is_there(NEEDS.get(path.name, "ottla")):
        pytest.skip(f"{NEEDS[path.name]} is not installed")
    monkeypatch.setattr(sys, "argv", [str(path)])

    runpy.run_path(str(path), run_name="__main__")

    assert re.fullmatch(announced(path), capsys.readouterr().out)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_says_how_it_is_run(path: Path) -> None:
    """Its first lines contain the command with its own name."""
    name = path.relative_to(FOLDER).as_posix()
    assert f"python examples/{name}" in path.read_text("utf-8").partition("from __future__")[0]


def test_the_list_has_every_script() -> None:
    """Readers start at the list when they look for an example."""
    listed = re.findall(r"\]\(([\w/]+\.py)\)", (FOLDER / "README.md").read_text("utf-8"))

    assert sorted(name for name in listed if not name.startswith(APART)) == NAMES


def test_every_other_script_has_a_test_that_names_it() -> None:
    """No example may be left without a test."""
    for name, test in ELSEWHERE.items():
        assert (FOLDER / name).exists()
        assert (FOLDER / name).stem in (ROOT / test).read_text("utf-8")
