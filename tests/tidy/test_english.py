"""Sentences name their actor: broker, leader, member, client, never an indefinite pronoun."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from typing import TYPE_CHECKING

from tests.tidy.tree import ROOT, modules_of_tests, product_modules

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.tidy.tree import Module

INDEFINITE = re.compile(
    r"\b(nobody|whoever|whomever|somebody|anybody|everybody|someone|no one)\b", re.IGNORECASE
)


def _sentences(module: Module) -> Iterator[tuple[int, str]]:
    """Comments, docstrings and, in the product, every other text as well; by line."""
    in_product = not module.name.startswith("tests")
    docstrings = {
        id(node.body[0].value)
        for node in module.nodes
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in module.nodes:
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and (in_product or id(node) in docstrings)
        ):
            yield node.lineno, node.value
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.lineno, node.name.replace("_", " ")
    for token in tokenize.generate_tokens(io.StringIO(module.text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def test_sentences_in_code_name_their_actor() -> None:
    """The reader should not have to guess which process does it."""
    wrong = [
        f"{module.path.relative_to(ROOT)}:{line} {found[0]}"
        for module in product_modules() + modules_of_tests()
        if module.name != __name__
        for line, text in _sentences(module)
        if (found := INDEFINITE.search(text))
    ]

    assert wrong == []


def test_pages_name_their_actor() -> None:
    """The same for the papers."""
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    wrong = [
        f"{page.relative_to(ROOT)}:{number} {found[0]}"
        for page in pages
        for number, line in enumerate(page.read_text("utf-8").splitlines(), 1)
        if (found := INDEFINITE.search(line))
    ]

    assert wrong == []
