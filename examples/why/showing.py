"""What the programs of this folder share: their arguments, their output and their page.

Each program has ``measure(quick)``, which returns figures, and ``show(figures)``, which turns them
into a table, a picture and a verdict. ``run`` prints the table and writes the picture and a copy of
the page with the new figures to ``build/why``.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

Figures = TypeVar("Figures")

ROOT = Path(__file__).resolve().parents[2]
PAGES = ROOT / "docs" / "why"
BUILT = ROOT / "build" / "why"
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
MEASURED = re.compile(f"{BEGIN}.*?{END}", re.DOTALL)


class Shown(NamedTuple):
    """Figures as a person reads them. ``holds`` says whether they agree with the claim."""

    table: Sequence[str]
    picture: str
    holds: bool


def run(
    name: str,
    measure: Callable[[bool], Figures],
    show: Callable[[Figures], Shown],
    arguments: Sequence[str] | None = None,
) -> int:
    """Measure, print the table, write page and picture; 1 if the claim does not hold here."""
    parser = argparse.ArgumentParser(prog=f"python -m examples.why.{name}")
    parser.add_argument("--quick", action="store_true", help="a few seconds and smaller figures")
    parser.add_argument("--into", type=Path, default=BUILT, help="folder for page and picture")
    options = parser.parse_args(arguments)
    began, load = time.monotonic(), os.getloadavg()[0]
    shown = show(measure(options.quick))
    lines = [
        *shown.table,
        "",
        f"The claim {'holds' if shown.holds else 'DOES NOT HOLD'} in this run.",
        f"{machine(load)}; {time.monotonic() - began:.0f} s{', --quick' * options.quick}",
    ]
    print("\n".join(lines))
    write_page(name, lines, shown.picture, options.into)
    return 0 if shown.holds else 1


def write_page(name: str, lines: Sequence[str], picture: str, folder: Path) -> None:
    """Put the picture, and the page with these lines in the place of its figures, in a folder."""
    (folder / "pictures").mkdir(parents=True, exist_ok=True)
    (folder / "pictures" / f"{name}.svg").write_text(picture, "utf-8")
    text = (PAGES / f"{name}.md").read_text("utf-8")
    block = "\n".join([BEGIN, "```text", *lines, "```", END])
    (folder / f"{name}.md").write_text(MEASURED.sub(lambda _: block, text), "utf-8")


def machine(load: float) -> str:
    """Cores, file system and load of this machine, without its name."""
    cores = os.cpu_count() or 1
    busy = "busy with other work" if load > 0.7 * cores else "quiet"
    system = f"{cores} cores, {file_system(BUILT)}, {platform.system()}"
    return f"{system}, Python {platform.python_version()}; {busy}: load average {load:.1f}"


def file_system(path: Path) -> str:
    """The type of the file system that holds a path, or that its nearest parent will be on."""
    while not path.exists():
        path = path.parent
    found = (0, "unknown file system")
    try:
        mounts = Path("/proc/self/mounts").read_text("utf-8").splitlines()
    except OSError:
        return found[1]
    for _, point, kind, *_ in map(str.split, mounts):
        if path.is_relative_to(point) and len(point) >= found[0]:
            found = (len(point), kind)
    return found[1]


@contextmanager
def work_folder() -> Iterator[Path]:
    """A folder for data, removed at the end. It is in the tree: /tmp may be in memory."""
    BUILT.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="data-", dir=BUILT) as folder:
        yield Path(folder)


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    """Lines of a table: the first column to the left, the others to the right."""
    cells = [[str(cell) for cell in row] for row in (head, *rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if index == 0 else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which that share of the values lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
