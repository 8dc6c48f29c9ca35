"""Our bytes against kafka-python's: another codec, written by others from their own schemas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ottla.protocol import compile as codec
from ottla.protocol.apis import API
from ottla.protocol.messages.api_versions import ApiVersionsResponse
from ottla.protocol.schema import Field, WireType, schema_of
from ottla.wire.messages import request_of, response_of
from tests.protocol import reference
from tests.support.messages import Case, bare_message, full_message, structs

if TYPE_CHECKING:
    from collections.abc import Iterator

api_message = pytest.importorskip(
    "kafka.protocol.api_message", reason="kafka-python is older than its schema-driven codec"
)
for _module in ("admin", "consumer", "metadata", "producer", "sasl"):
    pytest.importorskip(f"kafka.protocol.{_module}")


def _subclasses(parent: type[Any]) -> Iterator[type[Any]]:
    for child in parent.__subclasses__():
        yield child
        yield from _subclasses(child)


# Names of theirs where ours are the descriptors' newest; and integers that they hold as sets.
RENAMED = ("generation_id", "authorized_operations")
BIT_FIELDS = ("authorized_operations",)
THEIRS: dict[str, Any] = {
    child.__name__: child
    for child in _subclasses(api_message.ApiMessage)
    if child.__name__.endswith(("Request", "Response"))
}


def _shared_cases() -> list[Case]:
    cases = []
    for spec in API.values():
        for declared in (request_of(spec.key), response_of(spec.key)):
            theirs = THEIRS.get(declared.__name__)
            if theirs is not None:
                first, last = theirs.valid_versions
                cases += [Case(declared, v) for v in spec.versions if first <= v <= last]
    return cases


def _their_bytes(message: Any, version: int) -> bytes:
    """The same values in kafka-python's classes, by field name, and written by them."""
    theirs = THEIRS[type(message).__name__]
    made = theirs(version=version, **_their_fields(message, theirs, version))
    return bytes(made.encode(version=version))


def _their_fields(message: Any, theirs: Any, version: int) -> dict[str, Any]:
    values = {}
    for name, field in schema_of(type(message)).fields.items():
        value = getattr(message, name)
        # They write a tag that was named, ours one that differs from its default.
        is_silent = field.tag is not None and value == reference.default_of(field)
        if field.versions.holds(version) and not is_silent:
            their_name = next(their for their in (name, *RENAMED) if their in theirs.fields)
            values[their_name] = _their_value(field, value, theirs.fields[their_name], version)
    return values


def _their_value(field: Field, value: Any, theirs: Any, version: int) -> Any:
    if value is None:
        return None
    if field.is_array:
        return [_their_element(field, item, theirs, version) for item in value]
    return _their_element(field, value, theirs, version)


def _their_element(field: Field, value: Any, theirs: Any, version: int) -> Any:
    if not isinstance(field.kind, WireType):
        part = theirs.data_class
        return part(version=version, **_their_fields(value, part, version))
    if field.kind is WireType.UUID:
        return UUID(bytes=value)
    if theirs.name in BIT_FIELDS:
        return {bit for bit in range(32) if value >> bit & 1}
    return value


def test_most_of_the_protocol_is_compared() -> None:
    """An oracle that silently lost its classes would agree with everything."""
    assert len(_shared_cases()) > 400


@pytest.mark.parametrize("case", _shared_cases(), ids=str)
def test_another_codec_writes_the_same_bytes(case: Case) -> None:
    """Two readings of the specification that agree are worth more than one that is sure."""
    for message in (full_message(*case), bare_message(*case)):
        assert codec.encode(message, case.version) == _their_bytes(message, case.version)


@settings(
    max_examples=400,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(st.data())
def test_another_codec_writes_the_same_bytes_for_any_values(data: st.DataObject) -> None:
    """Between full and empty messages lie mixtures, with texts and lengths chosen at random."""
    case = data.draw(st.sampled_from(_shared_cases()))
    message = data.draw(structs(*case))

    assert codec.encode(message, case.version) == _their_bytes(message, case.version)


@pytest.mark.parametrize("case", _shared_cases(), ids=str)
def test_another_codec_reads_our_bytes(case: Case) -> None:
    """And the other way round: what they read from our bytes they write back alike."""
    theirs = THEIRS[case.declared.__name__]
    for message in (full_message(*case), bare_message(*case)):
        if isinstance(message, ApiVersionsResponse):
            # With an error they read version 0, as a client must.
            message.error_code = 0
        encoded = codec.encode(message, case.version)
        decoded = theirs.decode(encoded, version=case.version)
        decoded._header = None

        assert bytes(decoded.encode(version=case.version)) == encoded
