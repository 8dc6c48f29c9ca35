"""``python -m tests.mutants [--list] [NAME ...]``: what ``make mutants`` runs.

A name may end with ``*``; without names all bugs are planted, which takes about half an hour. Ends
with 1 if a bug was not noticed.
"""

from __future__ import annotations

import argparse
import sys
from fnmatch import fnmatchcase

from tests.lots.__main__ import interruptible
from tests.mutants.mutant import ROOT
from tests.mutants.running import Fate, copied, judge
from tests.mutants.tables import MUTANTS


def main(arguments: list[str]) -> int:
    """Plant the named bugs, one after the other; 1 if a test has not noticed one of them."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants")
    parser.add_argument("--list", action="store_true", help="print the names and run nothing")
    parser.add_argument("names", nargs="*", metavar="NAME", help="of a bug; may hold a *")
    options = parser.parse_args(arguments)
    patterns = options.names or ["*"]
    chosen = [one for one in MUTANTS if any(fnmatchcase(one.name, each) for each in patterns)]
    if not chosen:
        parser.error(f"no bug is called {' or '.join(patterns)}: see --list")
    if options.list:
        print("\n".join(f"{one.name}: {one.breaks}" for one in chosen))
        return 0
    verdicts = []
    with copied(ROOT) as root:
        for one in chosen:
            verdicts.append(judge(one, root))
            print(verdicts[-1], flush=True)
    others = [each for each in verdicts if each.fate is not Fate.KILLED]
    print(f"\n{len(verdicts) - len(others)} of {len(verdicts)} planted bugs were noticed")
    for each in others:
        print(f"  {each}\n    {each.mutant.path}: {each.mutant.breaks}")
    return 1 if others else 0


if __name__ == "__main__":
    sys.exit(interruptible(lambda: main(sys.argv[1:])))
