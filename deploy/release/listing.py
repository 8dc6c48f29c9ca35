"""What a release consists of: SHA256SUMS, and its components as CycloneDX."""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
from pathlib import Path

from deploy.release.build import ROOT, run
from ottla.protocol.version import __version__

SUMS = "SHA256SUMS"


def write_sums(folder: Path) -> None:
    """The file that ``sha256sum --check`` reads, of all other files of the folder."""
    lines = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n"
        for path in sorted(folder.iterdir())
        if path.name != SUMS
    ]
    (folder / SUMS).write_text("".join(lines), "utf-8")


def write_components(folder: Path) -> None:
    """The package and what ``pip install`` brings along, with versions and licenses."""
    (wheel,) = folder.glob("*-none-any.whl")
    listed = folder / f"ottla-{__version__}.cdx.json"
    with tempfile.TemporaryDirectory(prefix="ottla-components-") as scratch:
        venv = Path(scratch) / "venv"
        run([sys.executable, "-m", "venv", "--without-pip", str(venv)])
        python = str(venv / "bin" / "python")
        pip = [sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check"]
        run([*pip, "install", "--quiet", "--only-binary", ":all:", str(wheel)])
        run(
            [
                *(sys.executable, "-m", "cyclonedx_py", "environment", python),
                *("--pyproject", str(ROOT / "pyproject.toml"), "--output-reproducible"),
                *("--output-format", "JSON", "--output-file"),
                str(listed),
            ]
        )
    # pyproject.toml leaves the version to the module that clients and brokers send.
    components = json.loads(listed.read_text("utf-8"))
    components["metadata"]["component"]["version"] = __version__
    listed.write_text(json.dumps(components, indent=2) + "\n", "utf-8")
