"""Builds the documentation as a site in build/site: make docs.

Stages the Markdown pages of the tree and one API page per public module under build/docs, where
their links stay as they are, and runs MkDocs on them. MkDocs treats each warning as an error.
"""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import FunctionType

ROOT = Path(__file__).resolve().parents[2]
STAGE = ROOT / "build" / "docs"
# A link from a page to a file of the tree; its target is copied beside the page.
LINK = re.compile(r"\]\((?!https?://|mailto:|#)([^)#\s]+)")
# The pages of the API reference: file, module, its title.
MODULES = (
    ("ottla", "ottla", "ottla"),
    ("sync", "ottla.sync", "ottla.sync"),
    ("serializers", "ottla.serializers", "ottla.serializers"),
)
PLUGIN_FIXTURES = ("cluster_fixture", "topic_fixture", "ottla_client_config")


def stage_pages() -> None:
    """Copy every page, and each file that a page links to, to its place under the stage."""
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]
    for page in pages:
        _copy(page)
        for target in LINK.findall(page.read_text("utf-8")):
            linked = (page.parent / target).resolve()
            if linked.is_file():
                _copy(linked)


def _copy(source: Path) -> None:
    target = STAGE / source.relative_to(ROOT)
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


def stage_reference() -> None:
    """Write the API pages: one directive for each public name, by where it is defined."""
    folder = STAGE / "api"
    folder.mkdir(parents=True)
    for file, name, title in MODULES:
        module = importlib.import_module(name)
        names = [one for one in module.__all__ if one not in ("serializers", "sync")]
        directives = [_directive(module, one) for one in names if not one.startswith("__")]
        text = f"# {title}\n\n{module.__doc__}\n\n" + "\n".join(directives)
        (folder / f"{file}.md").write_text(text, "utf-8")
    plugin = "ottla.pytest_plugin"
    text = f"# pytest plugin\n\n{importlib.import_module(plugin).__doc__}\n\n"
    text += "\n".join(_of(f"{plugin}.{one}") for one in PLUGIN_FIXTURES)
    (folder / "pytest_plugin.md").write_text(text, "utf-8")


def _directive(module: object, name: str) -> str:
    found = getattr(module, name)
    if isinstance(found, type | FunctionType):
        return _of(f"{found.__module__}.{found.__qualname__}")
    defined_in = "ottla.client.records.serializers"
    if not hasattr(importlib.import_module(defined_in), name):
        raise LookupError(f"{name} is public, and build.py does not know where it is defined")
    return _of(f"{defined_in}.{name}")


def _of(path: str) -> str:
    return f"::: {path}\n"


def main() -> int:
    """Build the site and return the status of MkDocs."""
    shutil.rmtree(STAGE, ignore_errors=True)
    stage_pages()
    stage_reference()
    config = Path(__file__).with_name("mkdocs.yml")
    # Not --quiet: it hides warnings from the count that makes them errors.
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", str(config)]
    # Material prints an announcement about its own future at each build unless told not to.
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, check=False)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
