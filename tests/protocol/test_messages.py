"""The declarations against Kafka's own schema files, version by version."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.protocol.apis import API, NEVER
from ottla.protocol.constructors import FRESH
from ottla.protocol.schema import Field, WireType, schema_of
from ottla.wire.messages import request_of, response_of
from tests.support import descriptors
from tests.support.descriptors import Described
from tests.support.messages import Case, all_cases, message_classes

WIRE_NAMES = {
    WireType.BOOLEAN: "bool",
    WireType.INT8: "int8",
    WireType.INT16: "int16",
    WireType.INT32: "int32",
    WireType.INT64: "int64",
    WireType.UINT16: "uint16",
    WireType.FLOAT64: "float64",
    WireType.UUID: "uuid",
    WireType.STRING: "string",
    WireType.BYTES: "bytes",
    WireType.RECORDS: "records",
}

# From here on tags are ours: peers that do not know a tagged field skip it.
OWN_TAGS = 10_000

needs_schemas = pytest.mark.skipif(
    not descriptors.has_schemas(),
    reason=f"no Kafka schema files in {descriptors.schema_folder()} (set OTTLA_SCHEMAS)",
)


def _declared_fields(declared: type[Any], version: int) -> tuple[Described, ...]:
    return tuple(
        _as_described(name, field, version)
        for name, field in schema_of(declared).fields.items()
        if field.versions.holds(version) and (field.tag is None or field.tag < OWN_TAGS)
    )


def _as_described(name: str, field: Field, version: int) -> Described:
    kind = field.kind
    element = WIRE_NAMES[kind] if isinstance(kind, WireType) else ""
    parts = None if isinstance(kind, WireType) else _declared_fields(kind, version)
    return Described(
        name,
        ("[]" if field.is_array else "") + element,
        parts,
        field.nullable.holds(version),
        field.tag,
        _default_text(field),
    )


def _default_text(field: Field) -> str | None:
    """The default in the words of the schema files; None where it is the type's own."""
    if field.default is None:
        return None if field.kind is WireType.RECORDS and not field.is_array else "null"
    if field.default is FRESH or not field.default or field.default == bytes(16):
        return None
    return str(field.default).lower() if isinstance(field.default, bool) else str(field.default)


def _normal(fields: tuple[Described, ...]) -> tuple[Described, ...]:
    """Without what has no meaning on the wire: names of structs, and defaults spelled out."""
    return tuple(
        field._replace(
            type="[]" * field.type.startswith("[]") if field.parts is not None else field.type,
            parts=None if field.parts is None else _normal(field.parts),
            default=_normal_default(field),
        )
        for field in fields
    )


def _normal_default(field: Described) -> str | None:
    text = field.default
    if text is None or text == "" or text == "null":
        return text or None
    if field.type == "bool":
        return None if text.lower() == "false" else text.lower()
    if field.type == "string":
        return text
    number = float(text) if field.type == "float64" else int(text, 0)
    return str(number) if number else None


def _lost_fields(declared: type[Any], version: int, path: str) -> dict[str, bool]:
    lost = {}
    for name, field in schema_of(declared).fields.items():
        here = f"{path}.{name}"
        if not field.versions.holds(version):
            lost[here] = field.ignorable
        elif not isinstance(field.kind, WireType):
            lost.update(_lost_fields(field.kind, version, here))
    return lost


@needs_schemas
@pytest.mark.parametrize("case", all_cases(), ids=str)
def test_a_declaration_has_the_layout_of_kafkas_descriptor(case: Case) -> None:
    """A field out of place shifts every byte after it, and clients see garbage or nothing."""
    described = descriptors.described_fields(case.declared.__name__, case.version)

    assert _normal(_declared_fields(*case)) == _normal(described)


@needs_schemas
@pytest.mark.parametrize("declared", message_classes(), ids=lambda declared: declared.__name__)
def test_every_final_version_is_declared(declared: type[Any]) -> None:
    """A version that Kafka has not declared final may still change under our clients."""
    schema = schema_of(declared)
    name = declared.__name__

    assert schema.versions == (0, descriptors.last_version(name))
    for version in range(schema.versions.last + 1):
        assert schema.flexible.holds(version) == descriptors.is_flexible(name, version)


@needs_schemas
@pytest.mark.parametrize("case", all_cases(), ids=str)
def test_a_value_may_be_dropped_where_kafka_drops_it(case: Case) -> None:
    """Dropping what must not be lost hides a bug; refusing what may be dropped makes one."""
    name = case.declared.__name__
    ours = _lost_fields(case.declared, case.version, name)
    described = descriptors.lost_fields(name, case.version)

    # A release that has forgotten a field, or does not know it yet, cannot tell.
    assert described == {path: flag for path, flag in ours.items() if path in described}


def test_the_registry_agrees_with_the_declarations() -> None:
    """The registry is read before any message module is loaded, so it repeats the ranges."""
    for key, spec in API.items():
        for declared in (request_of(spec.key), response_of(spec.key)):
            schema = schema_of(declared)
            assert key == spec.key
            assert schema.versions == (spec.first_version, spec.last_version)
            first = schema.flexible.first if schema.flexible.holds(NEVER) else NEVER
            assert first == spec.flexible_from


@needs_schemas
def test_the_registry_has_kafkas_keys() -> None:
    """A wrong key sends a request to another API."""
    for key, spec in API.items():
        assert descriptors.api_key(f"{spec.name}Request") == key


@pytest.mark.parametrize("declared", message_classes(), ids=lambda declared: declared.__name__)
def test_tagged_fields_stand_in_flexible_versions_only(declared: type[Any]) -> None:
    """Elsewhere there is no section to hold them."""
    schema = schema_of(declared)
    tagged = [field for field in schema.fields.values() if field.tag is not None]

    for field in tagged:
        assert field.versions.first >= schema.flexible.first
        assert field.kind is not WireType.RECORDS
    assert len({field.tag for field in tagged}) == len(tagged)
