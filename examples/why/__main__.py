"""``make why``: runs the program of each claim, and writes pages and pictures to ``build/why``.

    python -m examples.why [--quick] [--into FOLDER] [NAME ...]

Each program runs in a process of its own, one after the other, so that none disturbs the figures of
another one. The status is 1 if a claim does not hold on this machine.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

from examples.why.showing import BUILT, PAGES, ROOT

PROGRAMS = (
    "cap",
    "acks",
    "quorums",
    "failures",
    "election",
    "sequential",
    "page_cache",
    "tailing",
    "append",
    "pull",
    "queues_and_topics",
    "exactly_once",
    "copies",
)


def main(arguments: list[str]) -> int:
    """Run the named programs, or all."""
    parser = argparse.ArgumentParser(prog="python -m examples.why")
    parser.add_argument("--quick", action="store_true", help="a few seconds for each")
    parser.add_argument("--into", type=Path, default=BUILT, help="folder for pages and pictures")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(PROGRAMS))
    options = parser.parse_args(arguments)
    if unknown := set(options.names) - set(PROGRAMS):
        parser.error(f"there is no {', '.join(sorted(unknown))}; there are {', '.join(PROGRAMS)}")
    options.into.mkdir(parents=True, exist_ok=True)
    if options.into.resolve() != PAGES:
        shutil.copyfile(PAGES / "README.md", options.into / "README.md")
    failed = []
    for name in options.names or PROGRAMS:
        print(f"\n== {name}", flush=True)
        command = [sys.executable, "-m", f"examples.why.{name}", "--into", str(options.into)]
        done = subprocess.run([*command, *["--quick"] * options.quick], cwd=ROOT, check=False)
        if done.returncode:
            failed.append(name)
    print(f"\nThe pages are in {os.path.relpath(options.into)}.")
    if failed:
        print(f"These claims were not shown: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
