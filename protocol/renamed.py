"""Functions that differ in nothing but names: each kind is compiled once.

A class with fields has an ``__init__`` of its own, as one would write it by hand. To compile one
for each of hundreds of classes takes a third of the time in which a cluster starts. So it is
written with numbered names for each kind of class, and every class of the kind gets a copy with
its own names in their place: same code, same speed, own parameters.
"""

from __future__ import annotations

from functools import cache
from types import CellType, FunctionType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


@cache
def numbered(count: int) -> tuple[str, ...]:
    """The names that stand for a class's own: f0, f1, ..."""
    return tuple([f"f{number}" for number in range(count)])


@cache
def compiled(header: str, lines: tuple[str, ...], scope: tuple[str, ...] = ()) -> FunctionType:
    """A function of these lines. ``header``: its parameters; ``scope``: the names of what surrounds
    it, which ``renamed`` fills in."""
    values = "".join([f"  {name} = None\n" for name in scope])
    body = "".join([f"    {line}\n" for line in lines])
    source = f"def outer():\n{values}  def inner({header}):\n{body}  return inner\n"
    made: dict[str, Any] = {}
    exec(compile(source, "<a class with numbered fields>", "exec"), made)
    function: FunctionType = made["outer"]()
    return function


def renamed(
    function: FunctionType,
    name: str,
    owner: str,
    names: Mapping[str, str],
    scope: Mapping[str, object] | None = None,
    module: dict[str, Any] | None = None,
) -> FunctionType:
    """A copy with other names: its variables', its attributes', and equal texts in it.

    ``owner``: the qualified name of its class. ``scope``: the values of what surrounds it.
    ``module``: the names of its module, if others than the first one's."""
    code, get = function.__code__, names.get
    copied = code.replace(
        co_name=name,
        co_qualname=f"{owner}.{name}",
        co_varnames=tuple([get(one, one) for one in code.co_varnames]),
        co_names=tuple([get(one, one) for one in code.co_names]),
        co_consts=tuple([get(one, one) if type(one) is str else one for one in code.co_consts]),
    )
    cells = tuple([CellType(scope[free]) for free in code.co_freevars]) if scope else ()
    return FunctionType(copied, module or function.__globals__, name, None, cells)
