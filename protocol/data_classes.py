"""``dataclass`` as in ``dataclasses``, made in a tenth of the time.

The standard library compiles up to six functions for each class. Here ``__init__`` is a renamed
one, and the others are made by the standard library when they are first asked for, which most are
never. What the classes do is the same: ``tests/protocol/test_data_classes.py`` holds that against
the original. What is more than a plain class with slots, and any class elsewhere than on CPython,
is the original's at once.
"""

from __future__ import annotations

import dataclasses
import sys
from dataclasses import MISSING, Field
from typing import TYPE_CHECKING, Any

from ottla.protocol.constructors import RESERVED, AtFirstUse, constructor

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    # Type checkers know the original, and this is it.
    from dataclasses import dataclass

__all__ = ["dataclass"]

_OPTIONS = frozenset({"eq", "frozen", "kw_only", "slots"})
# Where the class's body says something else, that counts.
_METHODS = ("__repr__", *(("__replace__",) if sys.version_info >= (3, 13) else ()))
_METHODS_OF_FROZEN = ("__getstate__", "__setstate__")
_ALWAYS = ("__dataclass_fields__", "__dataclass_params__")
# What every class has, and not from its body.
_NOT_OF_THE_BODY = ("__dict__", "__weakref__")
# In an annotation they make it something else than a field.
_MARKERS = ("ClassVar", "InitVar", "KW_ONLY")


class Declared:
    """All fields, those that ``__init__`` takes, and where what is not given comes from."""

    __slots__ = ("defaults", "factories", "given", "names")

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        self.given: list[str] = []
        self.defaults: dict[str, object] = {}
        self.factories: dict[str, Callable[[], object]] = {}

    @property
    def has_defaults(self) -> bool:
        return bool(self.defaults or self.factories)

    def add_default(self, name: str, value: object) -> bool:
        """Take what stands behind a field's name; whether it is plain enough."""
        if not isinstance(value, Field):
            self.given.append(name)
            self.defaults[name] = value
            return _is_hashable(value)
        if value.init:
            self.given.append(name)
        elif value.default is not MISSING or value.default_factory is not MISSING:
            return False
        if value.default_factory is not MISSING:
            self.factories[name] = value.default_factory
        elif value.default is not MISSING:
            self.defaults[name] = value.default
        return _is_usual(value) and _is_hashable(value.default)


def declared_fields(body: Mapping[str, object], *, is_by_name: bool) -> Declared | None:
    """The fields of a class with such a body; None if they are not plain, or wrong."""
    annotations = body.get("__annotations__")
    if not isinstance(annotations, dict) or not RESERVED.isdisjoint(annotations):
        return None
    fields = Declared(tuple(annotations))
    for name, text in annotations.items():
        if type(text) is not str or any([marker in text for marker in _MARKERS]):
            return None
        if name in body:
            had_defaults = fields.has_defaults
            if not fields.add_default(name, body[name]):
                return None
            lacks_one = (
                name in fields.given
                and name not in fields.defaults
                and name not in fields.factories
            )
            if had_defaults and lacks_one and not is_by_name:
                return None
        elif fields.has_defaults and not is_by_name:
            return None
        else:
            fields.given.append(name)
    strays = [name for name, value in body.items() if isinstance(value, Field)]
    return fields if annotations.keys() >= set(strays) else None


def _is_usual(field: Field[object]) -> bool:
    is_listed = field.repr and field.compare and field.hash is None
    return is_listed and not field.metadata and field.kw_only in (False, MISSING)


def _is_hashable(default: object) -> bool:
    """A default that can change is refused by the standard library."""
    return type(default).__hash__ is not None


def _dataclass(given: type | None = None, /, **options: bool) -> Any:
    """As ``dataclasses.dataclass``."""
    if given is None:
        return lambda given: _decorated(given, options)
    return _decorated(given, options)


if not TYPE_CHECKING:
    dataclass = _dataclass


def _decorated(given: type, options: dict[str, bool]) -> type:
    if _is_plain(given, options):
        fields = declared_fields(vars(given), is_by_name=options.get("kw_only", False))
        if fields is not None:
            made: type = _Making(given, options, fields).made
            return made
    original: type = dataclasses.dataclass(**options)(given)
    return original


def _is_plain(given: type, options: dict[str, bool]) -> bool:
    body = vars(given)
    refuses = "__setattr__" in body or "__delattr__" in body
    return (
        sys.implementation.name == "cpython"
        and options.get("slots", False)
        and options.keys() <= _OPTIONS
        and type(given) is type
        and given.__bases__ == (object,)
        and "__slots__" not in body
        and not (refuses and options.get("frozen"))
    )


class _Making:
    """Makes one class, and what it turns out to need."""

    def __init__(self, given: type, options: dict[str, bool], fields: Declared) -> None:
        self._name, self._owner = given.__name__, given.__qualname__
        self._body = {
            name: value for name, value in vars(given).items() if name not in _NOT_OF_THE_BODY
        }
        self._options = options
        self._fields = fields
        self._is_frozen = options.get("frozen", False)
        self._is_by_name = options.get("kw_only", False)
        self._twin: type | None = None
        self.made: Any = type(self._name, (object,), self._namespace())

    def _namespace(self) -> dict[str, Any]:
        body, names = self._body, self._fields.names
        methods = _METHODS + _METHODS_OF_FROZEN if self._is_frozen else _METHODS
        offered: dict[str, Any] = {
            "__init__": AtFirstUse(self._init),
            "__match_args__": () if self._is_by_name else tuple(self._fields.given),
            **{name: AtFirstUse(self._original) for name in methods},
            **(self._refusals(frozenset(names)) if self._is_frozen else {}),
        }
        settled: dict[str, Any] = {name: AtFirstUse(self._original) for name in _ALWAYS}
        if self._options.get("eq", True):
            offered["__eq__"] = AtFirstUse(self._original)
            # Of a class that says how its instances are equal Python says that it has no hash.
            if body.get("__hash__") is None and ("__hash__" not in body or "__eq__" in body):
                settled["__hash__"] = AtFirstUse(self._original) if self._is_frozen else None
        if not body.get("__doc__"):
            settled["__doc__"] = AtFirstUse(self._original)
        own = {name: value for name, value in body.items() if name not in names}
        return {**offered, **own, **settled, "__slots__": names, "__qualname__": self._owner}

    def _init(self, _name: str) -> Callable[..., None]:
        fields, module = self._fields, self._body["__module__"]
        init = constructor(
            self._owner,
            fields.given,
            fields.defaults,
            fields.factories,
            is_frozen=self._is_frozen,
            is_by_name=self._is_by_name,
            prepares="__post_init__" in self._body,
            module=vars(sys.modules[module]) if module in sys.modules else None,
        )
        annotations = self._body["__annotations__"]
        init.__annotations__ = {name: annotations[name] for name in fields.given}
        init.__annotations__["return"] = None
        return init

    def _original(self, name: str) -> Any:
        """That attribute of the class as the standard library makes it."""
        if self._twin is None:
            # Under the name that its functions are to have.
            body = {**self._body, "__qualname__": self._owner}
            given = type(self._name, (object,), body)
            self._twin = dataclasses.dataclass(**self._options)(given)
        return vars(self._twin)[name]

    def _refusals(self, names: frozenset[str]) -> dict[str, Any]:
        """What keeps a frozen instance as it is; a derived class may have more fields."""
        refused = dataclasses.FrozenInstanceError

        def set_(instance: Any, name: str, value: object) -> None:
            if type(instance) is self.made or name in names:
                raise refused(f"cannot assign to field {name!r}")
            super(self.made, instance).__setattr__(name, value)

        def delete(instance: Any, name: str) -> None:
            if type(instance) is self.made or name in names:
                raise refused(f"cannot delete field {name!r}")
            super(self.made, instance).__delattr__(name)

        refusing = {"__setattr__": set_, "__delattr__": delete}
        for name, function in refusing.items():
            function.__name__, function.__qualname__ = name, f"{self._owner}.{name}"
        return refusing
