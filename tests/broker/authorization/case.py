"""A request of each API, and what its answer has to be for a caller with some rights.

The answers are written down a second time here, from Kafka's description, so that a handler that
asks for the wrong thing is found.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.protocol.acls import CLUSTER_NAME, AclResourceType, Operation
from ottla.protocol.apis import ApiKey
from ottla.protocol.named_tuples import NamedTuple
from ottla.wire.messages import request_of
from tests.answers.cases import made

TOPIC, GROUP = AclResourceType.TOPIC, AclResourceType.GROUP
CLUSTER, TXN = AclResourceType.CLUSTER, AclResourceType.TRANSACTIONAL_ID
Need = tuple[Operation, AclResourceType, str]
May = Callable[[Need], bool]
OK, NO_TOPIC, NO_GROUP, NO_CLUSTER, NO_TXN = 0, 29, 30, 31, 53
ANY_TOPIC = "any"
"""In a need: some topic, of whatever name."""


class Case(NamedTuple):
    """``expected``: the codes of refusal in the answer, and 0 for what is not refused."""

    name: str
    version: int
    request: Any
    needs: tuple[Need, ...]
    expected: Callable[[May], set[int]]
    key: ApiKey


def needs_of(text: str) -> tuple[Need, ...]:
    """From words such as ``read topic t, describe group g``."""
    found = []
    for item in text.split(","):
        operation, kind, *name = item.split()
        resource = AclResourceType[kind.upper()]
        named = name[0] if name else CLUSTER_NAME
        found.append((Operation[operation.upper()], resource, named))
    return tuple(found)


def case_of(key: ApiKey, version: int, fields: dict[str, Any], text: str, expected: Any) -> Case:
    request = made(request_of(key), fields)
    needs = needs_of(text)
    return Case(f"{key.name} {version} {text}", version, request, needs, expected, key)


def _each(code: int) -> Callable[[tuple[Need, ...]], Callable[[May], set[int]]]:
    """Each resource has its own code."""
    return lambda needs: lambda may: {OK if may(need) else code for need in needs}


def one(key: ApiKey, version: int, fields: dict[str, Any], text: str, code: int) -> Case:
    """Each need is that of one resource of the request."""
    return case_of(key, version, fields, text, _each(code)(needs_of(text)))


def either(key: ApiKey, version: int, fields: dict[str, Any], text: str, code: int) -> Case:
    """One of the rights is enough."""
    needs = needs_of(text)
    return case_of(key, version, fields, text, lambda may: {OK if any(map(may, needs)) else code})


def ladder(key: ApiKey, version: int, fields: dict[str, Any], steps: list[tuple[str, int]]) -> Case:
    """The first right that is missing refuses the whole; those of the last step each a part."""
    *first, (last, last_code) = steps
    parts = needs_of(last)

    def expected(may: May) -> set[int]:
        for text, code in first:
            if not all(map(may, needs_of(text))):
                return {code}
        return {OK if may(need) else last_code for need in parts}

    text = ", ".join(one for one, _code in steps)
    return case_of(key, version, fields, text, expected)


def topics(**more: Any) -> list[dict[str, Any]]:
    return [{"name": name, **more} for name in ("t", "u")]


def config(kind: int, name: str) -> dict[str, Any]:
    return {
        "resource_type": kind,
        "resource_name": name,
        "configs": [],
    }


COMMIT = {"partition_index": 0, "committed_offset": 7, "committed_metadata": ""}
TX = {"transactional_id": "x", "producer_id": 900_000, "producer_epoch": 0}
CONTROL = {"controller_id": 7, "controller_epoch": -1, "broker_epoch": -5}
PART = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1}]
_RESOURCES = [config(2, "t"), config(2, "u")]
ACL = {
    "resource_type": 2,
    "resource_name": "",
    "resource_pattern_type": 3,
    "principal": "User:me",
    "host": "*",
    "operation": 3,
    "permission_type": 3,
}
ACL_FILTER = {
    "resource_type_filter": 2,
    "resource_name_filter": "nothing",
    "pattern_type_filter": 3,
    "operation": 1,
    "permission_type": 1,
}
BOTH = "{0} topic t, {0} topic u"

K = ApiKey
