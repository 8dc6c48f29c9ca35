"""One word, one meaning: a public class name belongs to one class in the whole tree."""

from __future__ import annotations

import ast
from collections import defaultdict

from tests.tidy.tree import product_modules

# The blocking clients are named like the asyncio clients; messages are named by Kafka.
EXEMPT = ("ottla.client.sync", "ottla.protocol.messages")


def _modules_by_class() -> dict[str, list[str]]:
    """The modules that define a public class of each name."""
    found: dict[str, list[str]] = defaultdict(list)
    for module in product_modules():
        if module.name.startswith(EXEMPT):
            continue
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(module.name)
    return found


def test_a_class_name_stands_for_one_class() -> None:
    """A reader who searches for a name should find one definition."""
    shared = {name: modules for name, modules in _modules_by_class().items() if len(modules) > 1}

    assert shared == {}
