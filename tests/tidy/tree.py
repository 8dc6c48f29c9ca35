"""The source tree as the tidy tests see it: real folders, never the symbolic links."""

from __future__ import annotations

import ast
import gc
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
SECTION = re.compile(r"^(Args|Returns|Raises|Attributes|Example):$", re.MULTILINE)
PACKAGES = ("protocol", "wire", "coordinator", "broker", "client")


@dataclass(frozen=True, slots=True)
class Module:
    """One source file: its dotted name under ``ottla`` (or ``tests``), text and syntax tree."""

    name: str
    path: Path
    text: str
    tree: ast.Module
    # Every node of the tree: many tests look at all of them.
    nodes: tuple[ast.AST, ...]

    @property
    def line_count(self) -> int:
        return self.text.count("\n")

    @property
    def manual_line_count(self) -> int:
        """Lines of docstrings with sections (``Args:`` ...), which are the manual of a function."""
        return sum(_manual_lines(node) for node in self.nodes)

    @property
    def folder(self) -> str:
        """The dotted folder, without the root: ``protocol.messages``; '' for ``ottla`` itself."""
        parts = self.name.split(".")[1:]
        if self.path.name != "__init__.py":
            parts = parts[:-1]
        return ".".join(parts)

    def where(self, node: ast.AST) -> str:
        return f"{self.path.relative_to(ROOT)}:{getattr(node, 'lineno', 1)}"


def _manual_lines(node: ast.AST) -> int:
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return 0
    first = node.body[0]
    if not SECTION.search(ast.get_docstring(node) or ""):
        return 0
    return (first.end_lineno or first.lineno) - first.lineno + 1


def length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The lines of a function, without a docstring that has sections."""
    return (function.end_lineno or function.lineno) - function.lineno + 1 - _manual_lines(function)


def _load(path: Path, prefix: str) -> Module:
    text = path.read_text("utf-8")
    relative = path.relative_to(ROOT).with_suffix("")
    parts = [part for part in relative.parts if part != "__init__"]
    name = ".".join([prefix, *parts] if prefix else parts)
    tree = ast.parse(text)
    return Module(name, path, text, tree, tuple(ast.walk(tree)))


def _load_all(paths: list[tuple[Path, str]]) -> list[Module]:
    """The collector would look at the growing trees again and again, and free none."""
    gc.disable()
    try:
        return [_load(path, prefix) for path, prefix in paths]
    finally:
        gc.freeze()
        gc.enable()


@cache
def product_modules() -> list[Module]:
    """Every file that is installed."""
    paths = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    own = [(path, "") for path in sorted((ROOT / "ottla").glob("*.py"))]
    return _load_all(own + [(path, "ottla") for path in paths])


@cache
def modules_of_tests() -> list[Module]:
    """Every file under tests/."""
    return _load_all([(path, "") for path in sorted((ROOT / "tests").rglob("*.py"))])


@cache
def compiled_texts() -> dict[str, str]:
    """The text of every file that is compiled, which Python's own parser does not read."""
    paths = [
        path
        for package in PACKAGES
        for kind in ("*.pyx", "*.pxd")
        for path in sorted((ROOT / package).rglob(kind))
    ]
    return {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in paths}


def functions(module: Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Every function and method of the file."""
    for node in module.nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def imported_names(module: Module) -> Iterator[tuple[ast.stmt, str]]:
    """Each import statement with the module it names (``from a import b`` gives ``a`` and a.b)."""
    for node in module.nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node, alias.name
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                yield node, f"{node.module}.{alias.name}"


def resolve(name: str, known: frozenset[str]) -> str | None:
    """The known module that an imported dotted name comes from, if it is one of ours."""
    while name:
        if name in known:
            return name
        name = name.rpartition(".")[0]
    return None
