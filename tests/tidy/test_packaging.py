"""The packaging matches the files of the tree."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib

import ottla
from ottla.protocol.version import __version__
from tests.tidy.tree import PACKAGES, ROOT


def test_every_package_of_the_tree_is_listed() -> None:
    """A forgotten sub-package works in the checkout and is missing from the wheel."""
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    in_tree = {"ottla"}
    for package in PACKAGES:
        for path in (ROOT / package).rglob("__init__.py"):
            in_tree.add(".".join(["ottla", *path.parent.relative_to(ROOT).parts]))

    assert sorted(in_tree) == listed["tool"]["setuptools"]["packages"]


def test_the_version_is_the_one_of_the_package() -> None:
    """Brokers and clients send it, and the wheel is named after it: it is written once."""
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    written = listed["tool"]["setuptools"]["dynamic"]["version"]["attr"]

    assert listed["project"]["dynamic"] == ["version"]
    assert written == "ottla.protocol.version.__version__"
    assert ottla.__version__ == __version__


def test_the_links_are_relative() -> None:
    """An absolute link would work on one machine only."""
    for package in PACKAGES:
        assert str((ROOT / "ottla" / package).readlink()) == f"../{package}"


def test_the_extra_of_the_site_installs_what_the_pytest_plugin_imports() -> None:
    """``make docs`` loads the plugin for its page, also where the tests are not installed."""
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    extra = {one.partition(">")[0] for one in listed["project"]["optional-dependencies"]["docs"]}
    plugin = ast.parse((ROOT / "ottla" / "pytest_plugin.py").read_text("utf-8"))
    imported = {
        alias.name for one in plugin.body if isinstance(one, ast.Import) for alias in one.names
    }

    assert "pytest" in imported
    assert imported - sys.stdlib_module_names - {"ottla"} <= extra


ALLOWED_AT_THE_TOP = {
    ".ci",
    ".dockerignore",
    ".github",
    ".gitignore",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "Dockerfile",
    "LICENSE",
    "Makefile",
    "README.md",
    "SECURITY.md",
    "benchmarks",
    "broker",
    "client",
    "coordinator",
    "deploy",
    "docker-compose.secure.yml",
    "docker-compose.yml",
    "docs",
    "examples",
    "ottla",
    "protocol",
    "wire",
    "pyproject.toml",
    "setup.py",
    "tests",
}


def _tracked() -> list[str]:
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    return [name for name in listed.stdout.split("\0") if name]


def test_nothing_else_stands_at_the_top() -> None:
    """The top of the tree is the first page a new reader sees."""
    found = {name.split("/", 1)[0] for name in _tracked()}

    assert found - ALLOWED_AT_THE_TOP == set()


def test_the_tree_does_not_remember_how_it_was_made() -> None:
    """Paths of one machine and words of the workshop mean nothing to a reader."""
    words = ("/wo" + "rk/", "sub" + "agent", "/tmp/" + "ottla")
    wrong = []
    for name in _tracked():
        path = ROOT / name
        if path.is_symlink() or not path.is_file() or name == "LICENSE":
            continue
        text = path.read_bytes().decode("utf-8", "replace")
        wrong += [f"{name}: {word}" for word in words if word in text]

    assert wrong == []
