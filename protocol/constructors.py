"""``__init__`` of classes with fields: of data classes, and of messages.

A class with fields has an ``__init__`` of its own, as one would write it by hand. To compile one
for each of hundreds of classes takes a third of the time in which a cluster starts. So each kind of
class is compiled once, with numbered names, and every class of the kind gets a copy with its own
names instead: same code, same speed, own parameters.
"""

from __future__ import annotations

from functools import cache
from types import CellType, FunctionType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


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


class AtFirstUse:
    """An attribute of a class that is made when it is first read.

    Works for ``__init__`` and all other special methods. Two threads may make it twice."""

    __slots__ = ("_make", "_name", "_owner")

    def __init__(self, make: Callable[[str], Any]) -> None:
        """``make`` gets the attribute's name."""
        self._make = make

    def __set_name__(self, owner: type, name: str) -> None:
        self._owner = owner
        self._name = name

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        made = vars(self._owner)[self._name]
        if made is self:
            made = self._make(self._name)
            setattr(self._owner, self._name, made)
        return made.__get__(instance, owner) if hasattr(type(made), "__get__") else made


class _Fresh:
    """Stands in a signature for a default that every instance needs its own copy of."""

    def __repr__(self) -> str:
        return "<factory>"


FRESH = _Fresh()

# Names that no field may have, for the functions below have them.
RESERVED = frozenset({"FRESH", "put", "self"})
# What a field may be, one letter each.
_PLAIN, _LIST, _MADE = "plm"


def constructor(
    owner: str,
    names: Sequence[str],
    defaults: Mapping[str, object],
    factories: Mapping[str, Callable[[], object]],
    *,
    is_frozen: bool = False,
    is_by_name: bool = False,
    prepares: bool = False,
    module: dict[str, Any] | None = None,
) -> FunctionType:
    """An ``__init__`` that sets a field for each name; factories make defaults that are fresh.

    ``owner``: the qualified name of the class. ``is_frozen``: the instance refuses to be set.
    ``is_by_name``: every parameter is given by its name. ``prepares``: the class has a
    ``__post_init__``. ``module``: the names that its annotations mean. Fields without a default
    come first, unless they are given by name."""
    standins = numbered(len(names))
    scope: dict[str, object] = {"FRESH": FRESH, "put": object.__setattr__}
    kinds = _PLAIN * len(names)
    if factories:
        kinds = "".join([_kind(factories.get(name)) for name in names])
        for standin, name in zip(standins, names, strict=True):
            scope[f"make_{standin}"] = factories.get(name)
    written = _init_function(kinds, is_frozen, is_by_name, prepares)
    own = dict(zip(standins, names, strict=True))
    made = renamed(written, "__init__", owner, own, scope, module)
    given = {
        name: FRESH if name in factories else defaults[name]
        for name in names
        if name in factories or name in defaults
    }
    if is_by_name:
        made.__kwdefaults__ = given
    elif given:
        made.__defaults__ = tuple(given.values())
    return made


def _kind(factory: Callable[[], object] | None) -> str:
    return _PLAIN if factory is None else _LIST if factory is list else _MADE


@cache
def _init_function(kinds: str, is_frozen: bool, is_by_name: bool, prepares: bool) -> FunctionType:
    """Of the classes whose fields are of these kinds."""
    lines, scope = [], ["put"] if is_frozen else []
    standins = numbered(len(kinds))
    for standin, kind in zip(standins, kinds, strict=True):
        value = standin
        if kind != _PLAIN:
            make = "[]" if kind == _LIST else f"make_{standin}()"
            value = f"{make} if {standin} is FRESH else {standin}"
            scope += ["FRESH"] if kind == _LIST else ["FRESH", f"make_{standin}"]
        frozen, free = f"put(self, '{standin}', {value})", f"self.{standin} = {value}"
        lines.append(frozen if is_frozen else free)
    if prepares:
        lines.append("self.__post_init__()")
    marker = ("*",) if is_by_name and kinds else ()
    header = ", ".join(("self", *marker, *standins))
    return compiled(header, tuple(lines) or ("pass",), tuple(dict.fromkeys(scope)))
