"""Builds refusals: a response with one error for every part of the request.

Built from the schemas alone. Where a response has one part for each part of the request (a topic,
a partition, a group), the refusal has them too, with the same names; an API whose answers have no
place for an error cannot be refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.protocol.compile import decoder, encoder
from ottla.protocol.headers import decode_request_header, response_header
from ottla.protocol.schema import WireType, schema_of
from ottla.wire.messages import request_of, response_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ottla.protocol.apis import ApiKey
    from ottla.protocol.schema import Field

_ERRORS = ("error_code", "partition_error_code")
# Names of the request's lists, where they differ from the response's.
_LISTS_IN_REQUESTS = {
    "coordinators": ("coordinator_keys",),
    "groups": ("group_ids",),
    "partition_responses": ("partition_data",),
    "partition_result": ("partitions",),
    "partitions": ("partition_indexes",),
    "replica_election_results": ("topic_partitions",),
    "responses": ("topic_data", "topics", "topic_names", "resources"),
    "results": ("topics", "groups_names", "resources", "feature_updates"),
    "results_by_partition": ("partitions",),
    "results_by_topic_v3_and_below": ("v3_and_below_topics",),
    "results_by_transaction": ("transactions",),
    "topic_results": ("topics",),
    "transaction_states": ("transactional_ids",),
}
# The key field of a part, and its name in the request, which may list nothing else.
_NAMES_IN_REQUESTS = {
    "group_id": (),
    "key": (),
    "name": ("topic",),
    "partition": ("partition_index", "index"),
    "partition_id": ("partition",),
    "partition_index": ("partition", "index"),
    "topic": ("name",),
    "transactional_id": (),
}


def can_be_refused(key: ApiKey) -> bool:
    """Whether the response of the API has a field for an error."""
    return _has_error(response_of(key))


def refusal_of(frame: memoryview, error: int) -> Sequence[bytearray]:
    """Build the response to that request, without its length. Raises RemoteProtocolError."""
    header, position = decode_request_header(frame)
    key, version = header.api_key, header.api_version
    request, _end = decoder(request_of(key), version)(frame, position)
    response = _answer(response_of(key), request, error, version)
    out = bytearray(response_header(key, version)(header.correlation_id))
    encoder(response_of(key), version)(response, out, [])
    return (out,)


def _has_error(declared: type) -> bool:
    fields = schema_of(declared).fields
    return any(name in _ERRORS or _holds_error(field) for name, field in fields.items())


def _holds_error(field: Field) -> bool:
    return isinstance(field.kind, type) and _has_error(field.kind)


def _answer(declared: type, asked: object, error: int, version: int) -> Any:
    """Build a response, or a part of one, for a message, a struct or a plain name."""
    made = declared()
    for name, field in schema_of(declared).fields.items():
        if not field.versions.holds(version):
            continue
        if name in _ERRORS:
            setattr(made, name, error)
        elif field.is_array and isinstance(field.kind, type):
            if _holds_error(field):
                parts = [_answer(field.kind, p, error, version) for p in _listed(asked, name)]
                setattr(made, name, parts)
        elif not field.is_array and isinstance(field.kind, WireType):
            _copy_name(made, name, asked)
    return made


def _copy_name(made: object, name: str, asked: object) -> None:
    kind = type(getattr(made, name))
    if isinstance(asked, str | int):
        if name in _NAMES_IN_REQUESTS and isinstance(asked, kind):
            setattr(made, name, asked)
        return
    for other in (name, *_NAMES_IN_REQUESTS.get(name, ())):
        value = getattr(asked, other, None)
        if isinstance(value, str | int | bytes) and kind in (type(value), type(None)):
            setattr(made, name, value)
            return


def _listed(asked: object, name: str) -> Sequence[object]:
    for other in (name, *_LISTS_IN_REQUESTS.get(name, ())):
        found = getattr(asked, other, None)
        if isinstance(found, list) and found:
            return found
    return ()
