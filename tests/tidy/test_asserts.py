"""Invariants stand as asserts where the code keeps them, in the rooms that decide."""

from __future__ import annotations

import ast

import pytest

from tests.tidy.tree import functions, product_modules

# Asserts per hundred functions, at least: the aim, or what a room has reached beyond it.
FLOORS = {
    "broker.cleaner": 33,
    "broker.following": 33,
    "broker.replica": 33,
    "coordinator.controller": 36,
    "coordinator.group": 33,
    "coordinator.transaction": 43,
}


def asserts_per_hundred_functions(room: str) -> int:
    """Over the room and the rooms inside it."""
    modules = [module for module in product_modules() if f"{module.folder}.".startswith(f"{room}.")]
    count = sum(1 for module in modules for _ in functions(module))
    asserts = sum(isinstance(node, ast.Assert) for module in modules for node in module.nodes)
    return 100 * asserts // count


@pytest.mark.parametrize(("room", "floor"), FLOORS.items())
def test_rooms_that_decide_assert_their_invariants(room: str, floor: int) -> None:
    """An assert at the field or branch says what holds there, and stops a run where it does not."""
    assert asserts_per_hundred_functions(room) >= floor
