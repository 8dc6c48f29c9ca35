"""Costs that a start of the process must not pay."""

from __future__ import annotations

from tests.tidy.tree import imported_names, product_modules

# Where classes of the standard library's own making are wanted, or nothing else may be loaded.
MAKERS = {"ottla.protocol.data_classes", "ottla.protocol.named_tuples"}
QUICK = {
    "typing.NamedTuple": "ottla.protocol.named_tuples.NamedTuple",
    "dataclasses.dataclass": "ottla.protocol.data_classes.dataclass",
}


def test_classes_are_made_the_quick_way() -> None:
    """There are hundreds; compiling functions for each takes a quarter of a start's CPU time."""
    wrong = [
        f"{module.where(node)} imports {name}: take {QUICK[name]}, which is the same"
        for module in product_modules()
        if module.name not in MAKERS
        for node, name in imported_names(module)
        if name in QUICK
    ]

    assert wrong == []
