"""``NamedTuple`` as in ``typing``, made in a fraction of the time.

The standard library compiles a function for each class, and every annotation besides. Here it makes
one class for each number of fields, with numbered names, and all others take from that what does
not depend on names, and copies with their own names of what does. Annotations stay the texts that
they are. ``tests/protocol/test_named_tuples.py`` compares these classes with the original's: they
behave alike. A class that is more than a plain one, and any class elsewhere than on
CPython, is made by the original.
"""

from __future__ import annotations

import collections
import sys
import types
import typing
from functools import cache
from keyword import iskeyword
from typing import TYPE_CHECKING, Any

from ottla.protocol.constructors import numbered, renamed

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["NamedTuple"]

# Attributes that no class may give another meaning.
_TAKEN = frozenset(
    {
        "__getnewargs__",
        "__init__",
        "__new__",
        "__slots__",
        "_asdict",
        "_field_defaults",
        "_fields",
        "_make",
        "_replace",
        "_source",
    }
)
_UNKNOWN_NAMES: type[Exception] = TypeError if sys.version_info >= (3, 13) else ValueError


class _Maker(type):
    """The metaclass of ``NamedTuple`` alone: what is derived from it is a plain tuple class."""

    def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> type:
        if not bases:
            return super().__new__(cls, name, bases, namespace)
        if _is_plain(bases, namespace):
            return _made(name, namespace)
        return _original(name, bases, namespace)


def _is_plain(bases: tuple[type, ...], namespace: Mapping[str, Any]) -> bool:
    """Whether it is made here; what is wrong is left to the original to complain about."""
    annotations = namespace.get("__annotations__", ())
    if len(bases) > 1 or sys.implementation.name != "cpython" or "__annotate__" in namespace:
        return False
    defaults = False
    for name in annotations:
        has_default = name in namespace
        if (defaults and not has_default) or type(annotations[name]) is not str:
            return False
        if name[0] == "_" or iskeyword(name):
            return False
        defaults = has_default
    return bool(annotations) and _TAKEN.isdisjoint(namespace)


def _original(name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> type:
    """As the standard library makes it, with its complaints."""
    declared = namespace.pop("__orig_bases__", bases)
    bases = tuple([typing.NamedTuple if base is NamedTuple else base for base in declared])
    return types.new_class(name, bases, {}, lambda body: body.update(namespace))


def _made(name: str, namespace: dict[str, Any]) -> type:
    annotations: dict[str, str] = namespace["__annotations__"]
    fields = tuple(annotations)
    sample = _sample(len(fields))
    default = {field: namespace.pop(field) for field in fields if field in namespace}
    new = renamed(sample.__new__, "__new__", name, dict(zip(sample._fields, fields, strict=True)))
    arguments = ", ".join(fields) if len(fields) > 1 else f"{fields[0]},"
    new.__doc__ = f"Create new instance of {name}({arguments})"
    new.__defaults__ = tuple(default.values())
    new.__annotations__ = annotations
    body = {
        **_shared(len(fields)),
        "__doc__": f"{name}({arguments})",
        "__match_args__": fields,
        "__new__": new,
        "__orig_bases__": (typing.NamedTuple,),
        "_field_defaults": default,
        "_fields": fields,
        **dict(zip(fields, _getters(len(fields)), strict=True)),
        **namespace,
    }
    if "__eq__" in namespace:
        # The original puts it there afterwards, and the tuple's hash stays.
        body.setdefault("__hash__", tuple.__hash__)
    return type(name, (tuple,), body)


@cache
def _sample(count: int) -> Any:
    return collections.namedtuple("NamedTuple", numbered(count))


@cache
def _getters(count: int) -> tuple[object, ...]:
    """What reads the fields of a tuple: it knows a position, and no name."""
    sample = _sample(count)
    return tuple([vars(sample)[name] for name in sample._fields])


@cache
def _shared(count: int) -> dict[str, object]:
    """What is the same in every class of so many fields."""
    own = {"__doc__", "__match_args__", "__module__", "__new__", "_field_defaults", "_fields"}
    sample = _sample(count)
    shared = {
        name: value
        for name, value in vars(sample).items()
        if name not in own and name not in sample._fields
    }
    return shared | {
        "__repr__": _Methods.__repr__,
        "_replace": _Methods._replace,
        **({"__replace__": _Methods._replace} if "__replace__" in shared else {}),
    }


class _Methods:
    """What looks the names up where the standard library has them written in."""

    def __repr__(self: Any) -> str:
        values = zip(self._fields, tuple.__iter__(self), strict=True)
        shown = ", ".join([f"{name}={value!r}" for name, value in values])
        return f"{self.__class__.__name__}({shown})"

    def _replace(self: Any, /, **changes: object) -> Any:
        """Return a new object replacing specified fields with new values."""
        result = self._make(map(changes.pop, self._fields, self))
        if changes:
            raise _UNKNOWN_NAMES(f"Got unexpected field names: {list(changes)!r}")
        return result


if TYPE_CHECKING:
    # Type checkers know the original, and this is it.
    from typing import NamedTuple
else:

    class NamedTuple(metaclass=_Maker):
        """The base of a class whose annotations are its fields."""
