"""The values of the offsets topic against Kafka's own schema files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ottla.coordinator.group.common.records import VALUE_OF_KIND
from ottla.protocol.schema import WireType, schema_of
from tests.support import descriptors

if TYPE_CHECKING:
    from tests.support.descriptors import Described

Layout = list[tuple[str, str, bool, int | None, Any]]


def declared(kind: type, version: int) -> Layout:
    """Name, type, whether it may be null, tag and parts of each field of ours."""
    layout: Layout = []
    for name, field in schema_of(kind).fields.items():
        if not field.versions.holds(version):
            continue
        element = field.kind.name.lower() if isinstance(field.kind, WireType) else ""
        parts = [] if isinstance(field.kind, WireType) else declared(field.kind, version)
        array = "[]" if field.is_array else ""
        layout.append((name, array + element, field.nullable.holds(version), field.tag, parts))
    return layout


def described(fields: tuple[Described, ...]) -> Layout:
    """The same of Kafka's."""
    return [
        (
            field.name,
            field.type if field.parts is None else "[]" * field.type.startswith("[]"),
            field.nullable,
            field.tag,
            described(field.parts or ()),
        )
        for field in fields
    ]


@pytest.mark.skipif(not descriptors.has_schemas(), reason="no Kafka schema files (OTTLA_SCHEMAS)")
@pytest.mark.parametrize(
    ("kind", "version"),
    [
        pytest.param(kind, version, id=f"{kind.__name__}-v{version}")
        for kind in VALUE_OF_KIND.values()
        for version in range(schema_of(kind).versions.last + 1)
    ],
)
def test_a_value_has_the_layout_that_kafka_gives_it(kind: type, version: int) -> None:
    """A Kafka broker may have written it, or be the next to read it."""
    assert declared(kind, version) == described(
        descriptors.described_record(kind.__name__, version)
    )
