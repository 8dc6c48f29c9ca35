"""What the body of a data class declares, as far as it is plain."""

from __future__ import annotations

from dataclasses import MISSING, Field
from typing import TYPE_CHECKING

from ottla.protocol.constructors import RESERVED

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

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
