"""Checks the types of settings, for applications without a type checker.

A number in quotes or a single name instead of a tuple would fail much later and elsewhere, and a
text instead of an isolation level would show records of aborted transactions.
"""

from __future__ import annotations

from dataclasses import fields
from enum import Enum
from numbers import Integral, Real
from types import MappingProxyType, NoneType
from typing import TYPE_CHECKING

from ottla.protocol.named_tuples import NamedTuple
from ottla.protocol.ports import SocketOptions
from ottla.wire.backoff import Backoff
from ottla.wire.security import ConnectionSecurity

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from _typeshed import DataclassInstance


class SettingKind(NamedTuple):
    """The accepted types of a declared type, and its name in error texts."""

    types: tuple[type, ...]
    words: str


KINDS: Mapping[str, SettingKind] = MappingProxyType(
    {
        "int": SettingKind((Integral,), "a whole number"),
        "int | None": SettingKind((Integral, NoneType), "a whole number or None"),
        "float": SettingKind((Real,), "a number"),
        "str": SettingKind((str,), "a text"),
        "str | None": SettingKind((str, NoneType), "a text or None"),
        "bool": SettingKind((bool,), "True or False"),
        "bool | None": SettingKind((bool, NoneType), "True, False or None"),
        "tuple": SettingKind((tuple, list), "a tuple"),
        "Isolation": SettingKind((Enum,), "an Isolation"),
        "Backoff": SettingKind((Backoff,), "a Backoff"),
        "ConnectionSecurity": SettingKind(
            (ConnectionSecurity,), "a dict such as {'security.protocol': 'SSL'}"
        ),
        "SocketOptions": SettingKind((SocketOptions,), "SocketOptions"),
    }
)


# The minimum values; other settings are checked together with related ones.
LEASTS: Mapping[str, int] = MappingProxyType(
    {
        "request_timeout_ms": 1,
        "connect_timeout_ms": 1,
        "call_timeout_ms": 1,
        "metadata_max_age_ms": 0,
        "response_bytes_max": 1_024,
        "linger_ms": 0,
        "batch_bytes": 0,
        "request_bytes_max": 1,
        "fetch_wait_ms": 0,
        "fetch_bytes_min": 0,
        "fetch_bytes_max": 1,
        "batch_bytes_max": 1,
    }
)


# Settings that are callables of the application, and their description in error texts.
CALLED: Mapping[str, str] = MappingProxyType(
    {
        "key_serializer": "a function, such as TEXT.encode",
        "value_serializer": "a function, such as TEXT.encode",
        "key_deserializer": "a function, such as TEXT.decode",
        "value_deserializer": "a function, such as TEXT.decode",
        "on_delivery": "a function",
    }
)


def check_types(config: DataclassInstance) -> None:
    """Raise TypeError, naming the setting, for a value of the wrong type, and ValueError for one
    that is too small or NaN."""
    for field in fields(config):
        value = getattr(config, field.name)
        called = CALLED.get(field.name)
        if called is not None and value is not None:
            if not (callable(value) or hasattr(value, "for_topic")):
                raise TypeError(f"{field.name} is {called}, not {value!r}")
            continue
        kind = KINDS.get(str(field.type).partition("[")[0])
        if kind is None:
            continue
        # True is an int in Python, but a mistake in a configuration.
        is_misplaced = isinstance(value, bool) and bool not in kind.types
        if is_misplaced or not isinstance(value, kind.types):
            raise TypeError(f"{field.name} is {kind.words}, not {value!r}")
        least = LEASTS.get(field.name)
        if least is not None and isinstance(value, Real) and not float(value) >= least:
            raise ValueError(f"{field.name} is {least} or more, not {value!r}")


def check_methods(setting: str, values: Iterable[object], methods: tuple[str, ...]) -> None:
    """Raise TypeError for an object without all of these methods."""
    for value in values:
        if isinstance(value, type) or not all(hasattr(value, method) for method in methods):
            names = " and ".join(methods)
            raise TypeError(f"{setting} are objects with the methods {names}, not {value!r}")
