"""An API from the sender's side: its request, its response, their versions and features.

Each module that sends requests declares ``RequestApi`` constants for them, so that importing a
client loads only the messages that it can send.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from ottla.protocol.data_classes import dataclass
from ottla.protocol.named_tuples import NamedTuple
from ottla.protocol.schema import schema_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ottla.protocol.apis import ApiKey

Request = TypeVar("Request")
Response = TypeVar("Response")


class VersionRange(NamedTuple):
    """A closed range of versions."""

    first: int
    last: int


class FinalizedLevels(NamedTuple):
    """The finalized feature levels of the cluster (KIP-584); ``epoch`` counts the changes and is -1
    if the broker does not report any."""

    epoch: int
    levels: Mapping[str, int]

    def level_of(self, name: str) -> int:
        """The feature's level; 0, which is off, if it is not reported."""
        return self.levels.get(name, 0) if self.epoch >= 0 else 0


NO_FEATURES = FinalizedLevels(-1, {})


@dataclass(frozen=True, slots=True)
class RequestApi(Generic[Request, Response]):
    """One API; ``versions`` is the range to use, within what its messages support."""

    key: ApiKey
    request: type[Request]
    response: type[Response]
    versions: VersionRange
    name: str


def declare(
    key: ApiKey,
    request: type[Request],
    response: type[Response],
    first: int | None = None,
    last: int | None = None,
) -> RequestApi[Request, Response]:
    """Declare an API with all versions of its messages, or with fewer."""
    declared = schema_of(request).versions
    versions = VersionRange(
        declared.first if first is None else first, declared.last if last is None else last
    )
    assert declared.first <= versions.first <= versions.last <= declared.last
    return RequestApi(key, request, response, versions, request.__name__.removesuffix("Request"))
