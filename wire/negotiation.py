"""Negotiates the version of each API with a broker (KIP-35), from its ApiVersions answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from ottla.protocol.apis import ApiKey
from ottla.protocol.compile import decode
from ottla.protocol.errors import ErrorCode, error_code
from ottla.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.protocol.named_tuples import NamedTuple
from ottla.protocol.version import __version__
from ottla.wire.api import RequestApi, VersionRange, declare
from ottla.wire.errors import RequestRefused, UnsupportedByBroker

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ottla.protocol.ports import Address

Request = TypeVar("Request")
Response = TypeVar("Response")

SOFTWARE_NAME = "ottla"
# Version 4 only adds supported features with minimum level 0, and 5 a check of the addressed node.
API_VERSIONS = declare(ApiKey.API_VERSIONS, ApiVersionsRequest, ApiVersionsResponse, 0, 3)
UNSUPPORTED_VERSION = int(ErrorCode.UNSUPPORTED_VERSION)


class FinalizedLevels(NamedTuple):
    """The finalized feature levels of the cluster (KIP-584); ``epoch`` counts the changes and is -1
    if the broker does not report any."""

    epoch: int
    levels: Mapping[str, int]

    def level_of(self, name: str) -> int:
        """The feature's level; 0, which is off, if it is not reported."""
        return self.levels.get(name, 0) if self.epoch >= 0 else 0


NO_FEATURES = FinalizedLevels(-1, {})


def first_request() -> ApiVersionsRequest:
    """The first request of a new connection."""
    return ApiVersionsRequest(SOFTWARE_NAME, __version__)


def read_answer(version: int, body: memoryview) -> ApiVersionsResponse:
    """Decode the answer, which has version 0 if the broker does not support the requested one."""
    if int.from_bytes(body[:2], signed=True) == UNSUPPORTED_VERSION:
        version = 0
    return decode(ApiVersionsResponse, version, body)


def version_to_retry(answer: ApiVersionsResponse, asked: int) -> int | None:
    """The version to retry with after that answer; None if the answer is final."""
    if answer.error_code != UNSUPPORTED_VERSION or asked == 0:
        return None
    for known in answer.api_keys:
        if known.api_key == ApiKey.API_VERSIONS:
            return min(known.max_version, asked - 1)
    return 0


def learned(answer: ApiVersionsResponse, address: Address) -> dict[int, VersionRange]:
    """The version ranges that the broker supports, by API key. Raises RequestRefused."""
    if answer.error_code != ErrorCode.NONE:
        raise RequestRefused(error_code(answer.error_code), broker=str(address))
    return {
        known.api_key: VersionRange(known.min_version, known.max_version)
        for known in answer.api_keys
    }


def features_of(answer: ApiVersionsResponse) -> FinalizedLevels:
    """The finalized levels as the broker reports them."""
    return FinalizedLevels(
        answer.finalized_features_epoch,
        {feature.name: feature.max_version_level for feature in answer.finalized_features},
    )


def agree(
    api: RequestApi[Request, Response], spoken: dict[int, VersionRange], address: Address
) -> int:
    """The newest version that both sides support. Raises UnsupportedByBroker."""
    theirs = spoken.get(api.key)
    if theirs is None:
        raise UnsupportedByBroker(f"the broker at {address} does not offer {api.name}")
    newest = min(theirs.last, api.versions.last)
    if newest < max(theirs.first, api.versions.first):
        raise UnsupportedByBroker(
            f"the broker at {address} speaks {api.name} {theirs.first} to {theirs.last}, "
            f"this client {api.versions.first} to {api.versions.last}"
        )
    return newest
