"""Whether settings are of the types that they are declared with, for those who use no type checker.

A number in quotes or a single name in place of a tuple would do its harm much later and far away,
and an isolation level that only looks like one would show records of aborted transactions.
"""

from __future__ import annotations

from dataclasses import fields
from enum import Enum
from numbers import Integral, Real
from types import MappingProxyType, NoneType
from typing import TYPE_CHECKING

from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from _typeshed import DataclassInstance


class Kind(NamedTuple):
    """What a declared type takes, and how it is called in a sentence."""

    types: tuple[type, ...]
    words: str


KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        "int": Kind((Integral,), "a whole number"),
        "int | None": Kind((Integral, NoneType), "a whole number or None"),
        "float": Kind((Real,), "a number"),
        "str": Kind((str,), "a text"),
        "str | None": Kind((str, NoneType), "a text or None"),
        "bool": Kind((bool,), "True or False"),
        "bool | None": Kind((bool, NoneType), "True, False or None"),
        "tuple": Kind((tuple, list), "a tuple"),
        "Isolation": Kind((Enum,), "an Isolation"),
    }
)


def check_types(config: DataclassInstance) -> None:
    """Raise TypeError, naming the setting, for a value of another type than its field's."""
    for field in fields(config):
        kind = KINDS.get(str(field.type).partition("[")[0])
        if kind is None:
            continue
        value = getattr(config, field.name)
        # True is a whole number to Python, and to nobody who reads a configuration.
        is_misplaced = isinstance(value, bool) and bool not in kind.types
        if is_misplaced or not isinstance(value, kind.types):
            raise TypeError(f"{field.name} is {kind.words}, not {value!r}")
