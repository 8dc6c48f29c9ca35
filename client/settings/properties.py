"""Reads settings by Kafka's names, as ``{"linger.ms": "5", "request.required.acks": "-1"}``.

Values are text as in a properties file, or already of their type. Unknown names are refused,
because a mistyped setting would silently have no effect; Kafka's names without a meaning here warn.
"""

from __future__ import annotations

import warnings
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from ottla.client.settings.kafka_names import (
    ADDRESSES,
    ALIASES,
    ASSIGNOR_NAMES,
    COMPRESSION_NAMES,
    KIBIBYTES,
    LIMITS_OF_FETCH,
    PARTITIONER_NAMES,
    RANGES,
    RESET_NAMES,
    SERIALIZERS,
    TRUE_ONLY,
    WITHOUT_EFFECT,
)
from ottla.client.settings.security import is_security, security_from
from ottla.client.settings.spelling import one_of, suggestion
from ottla.protocol.ports import SocketOptions
from ottla.wire.backoff import Backoff

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Properties = Mapping[str, object]

WARNING_DEPTH = 3


def addresses_of(properties: Properties) -> str:
    """The value of ``bootstrap.servers``. Raises ValueError if it is missing."""
    for name in ADDRESSES:
        if name in properties:
            return str(properties[name])
    raise ValueError("bootstrap.servers is missing")


def fields_from(kind: type[Any], properties: Properties) -> dict[str, Any]:
    """The fields of that configuration class that the properties set.

    Raises ValueError for an unknown name, an invalid value, and different values for two names of
    one setting. Warns of properties without an effect."""
    types = {field.name: str(field.type) for field in fields(kind)}
    found: dict[str, Any] = {}
    origin: dict[str, str] = {}
    ends: dict[str, dict[str, int]] = {}
    secured: dict[str, object] = {}
    for name, value in properties.items():
        if is_security(name):
            secured[name] = value
            continue
        if name in RANGES and RANGES[name][0] in types:
            field, end = RANGES[name]
            ends.setdefault(field, {})[end] = _number(name, value)
            continue
        if name in TRUE_ONLY:
            _check_true(name, value)
            continue
        field = KIBIBYTES.get(name) or ALIASES.get(name, name.replace(".", "_"))
        if field not in types or name in RANGES:
            _without_a_field(name, types)
            continue
        if name in KIBIBYTES:
            converted: Any = 1024 * _number(name, value)
        else:
            converted = _converted(name, field, types[field], value)
        if {name, origin.get(field)} == LIMITS_OF_FETCH:
            converted = min(converted, found[field])
        elif field in found and found[field] != converted:
            raise ValueError(f"{origin[field]} and {name} are one setting, and differ")
        found[field], origin[field] = converted, name
    for field, values in ends.items():
        found[field] = _range(field, values)
    if secured:
        found["security"] = security_from(secured)
    return found


def _without_a_field(name: str, types: Mapping[str, str]) -> None:
    if name in ADDRESSES:
        return
    if name in WITHOUT_EFFECT:
        text = f"{name} has no effect: {WITHOUT_EFFECT[name]}"
    elif name in ALIASES or name in RANGES or name in KIBIBYTES:
        text = f"{name} has no effect on this kind of client"
    else:
        known = [java for java, field in ALIASES.items() if field in types]
        known += [java for java, (field, _) in RANGES.items() if field in types]
        raise ValueError(f"no setting is called {name!r}{suggestion(name, [*known, *types])}")
    warnings.warn(text, UserWarning, WARNING_DEPTH + 1)


def _check_true(name: str, value: object) -> None:
    if not _truth(name, value):
        raise ValueError(f"{name}=false is not supported: {TRUE_ONLY[name]}")


def _range(field: str, ends: dict[str, int]) -> Backoff | SocketOptions:
    if field == "socket":
        return SocketOptions(**ends)
    # Kafka's default limit is 1 s, and at least the initial delay.
    initial_ms = ends.get("initial_ms", 50 if field == "reconnect_backoff" else 100)
    return Backoff(initial_ms, max(initial_ms, ends.get("limit_ms", 1_000)))


def _converted(name: str, field: str, kind: str, value: object) -> object:
    special = SPECIAL.get(field)
    if special is not None:
        return special(name, value)
    if kind.startswith("bool"):
        return _truth(name, value)
    if kind.startswith(("int", "float")):
        return _number(name, value)
    return str(value)


def _number(name: str, value: object) -> int:
    try:
        return int(str(value).strip())
    except ValueError:
        raise ValueError(f"{name} is a whole number, not {value!r}") from None


def _truth(name: str, value: object) -> bool:
    text = str(value).strip().lower()
    if text not in ("true", "false"):
        raise ValueError(f"{name} is true or false, not {value!r}")
    return text == "true"


def _acks(name: str, value: object) -> int | str:
    return "all" if str(value) == "all" else _number(name, value)


def _class_name(value: object) -> str:
    """The last part of names like ``org.apache.kafka...StringSerializer`` and ``class a.b.C``."""
    return str(value).strip().rpartition(".")[2]


def _renamed(names: Mapping[str, str]) -> Callable[[str, object], object]:
    def convert(_: str, value: object) -> object:
        if callable(value):
            return value
        last = _class_name(value)
        return names.get(last, last)

    return convert


def _assignors(_: str, value: object) -> tuple[str, ...]:
    names = value.split(",") if isinstance(value, str) else value
    assert isinstance(names, list | tuple)
    return tuple(ASSIGNOR_NAMES.get(_class_name(name), str(name).strip()) for name in names)


def _serializer(name: str, value: object) -> object:
    if value is None or not isinstance(value, str):
        return value
    last = _class_name(value)
    one_of(name, last, SERIALIZERS)
    return SERIALIZERS[last]


SPECIAL: dict[str, Callable[[str, object], object]] = {
    "acks": _acks,
    "compression": _renamed(COMPRESSION_NAMES),
    "offset_reset": _renamed(RESET_NAMES),
    "partitioner": _renamed(PARTITIONER_NAMES),
    "assignors": _assignors,
    "key_serializer": _serializer,
    "value_serializer": _serializer,
    "key_deserializer": _serializer,
    "value_deserializer": _serializer,
}
