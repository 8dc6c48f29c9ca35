"""``python -m deploy.release [FOLDER]``: the packages of this version, tried, in dist/.

The source distribution, a pure wheel, a wheel for this machine with the compiled record codec, a
list of components (CycloneDX) and SHA256SUMS. Other machines are the release workflow's.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from deploy.release.build import ROOT, build_packages
from deploy.release.listing import write_components, write_sums
from deploy.release.trial import try_package


def main(arguments: list[str]) -> int:
    """Build and try all packages; 1 if one of them does not work."""
    parser = argparse.ArgumentParser(prog="python -m deploy.release", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "dist")
    parser.add_argument("--no-trial", action="store_true", help="only build")
    options = parser.parse_args(arguments)
    target: Path = options.folder.absolute()
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    problems = []
    with tempfile.TemporaryDirectory(prefix="ottla-dist-") as folder:
        packages = build_packages(target, Path(folder))
        for number, package in enumerate(() if options.no_trial else packages):
            say(f"trying {package.path.name}")
            problem = try_package(package, Path(folder) / f"trial-{number}")
            if problem is not None:
                problems.append(f"{package.path.name}: {problem}")
    write_components(target)
    write_sums(target)
    for path in sorted(target.iterdir()):
        say(f"{path.stat().st_size:>10,} {path.name}")
    for problem in problems:
        say(problem)
    return 1 if problems else 0


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
