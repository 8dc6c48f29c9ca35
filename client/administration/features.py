"""A cluster's features: which levels its brokers support, and which they are set to (KIP-584)."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode, error_code
from ottla.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from ottla.protocol.named_tuples import NamedTuple
from ottla.wire.api import declare
from ottla.wire.errors import RequestRefused
from ottla.wire.negotiation import features_of, first_request

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ottla.client.cluster.routing import Router
    from ottla.wire.connection import Connection

# From 4 on features that may be off are among the supported ones.
_API_VERSIONS = declare(ApiKey.API_VERSIONS, ApiVersionsRequest, ApiVersionsResponse, 3, 4)
_UPDATE = declare(ApiKey.UPDATE_FEATURES, UpdateFeaturesRequest, UpdateFeaturesResponse, 1)


class Change(IntEnum):
    """Which changes are allowed: up only, down where nothing is lost by it, or down anyway."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class FeatureView(NamedTuple):
    """A feature: the levels that the asked broker supports, and the one that the cluster is set
    to, 0 being off."""

    name: str
    level_min: int
    level_max: int
    level: int


class FeatureAdmin:
    """What an Admin does about features."""

    def __init__(self, router: Router, timeout_ms: int) -> None:
        self._router = router
        self._timeout_ms = timeout_ms

    async def describe_features(self) -> list[FeatureView]:
        """Every feature that some broker tells of, by name. Raises RequestRefused."""
        response = await self._router.to_any(_API_VERSIONS, first_request(), check_versions)
        finalized = features_of(response)
        supported = {one.name: one for one in response.supported_features}
        return [
            FeatureView(
                name,
                supported[name].min_version if name in supported else 0,
                supported[name].max_version if name in supported else finalized.level_of(name),
                finalized.level_of(name),
            )
            for name in sorted({*supported, *finalized.levels})
        ]

    async def update_features(
        self,
        levels: Mapping[str, int],
        change: Change = Change.UPGRADE,
        *,
        validate_only: bool = False,
    ) -> None:
        """Set features to these levels, all of them or none. Raises RequestRefused."""
        request = UpdateFeaturesRequest(
            self._timeout_ms,
            [FeatureUpdateKey(name, level, upgrade_type=change) for name, level in levels.items()],
            validate_only,
        )
        await self._router.to_controller(_UPDATE, request, check_updated)


def check_versions(response: ApiVersionsResponse, connection: Connection) -> None:
    """Raise RequestRefused if it was refused."""
    code = error_code(response.error_code)
    if code is not ErrorCode.NONE:
        raise RequestRefused(code, broker=str(connection.address))


def check_updated(response: UpdateFeaturesResponse, connection: Connection) -> None:
    """Raise RequestRefused for the request, or for the first feature that was refused for its own
    sake."""
    broker = str(connection.address)
    failures = [(response.error_code, response.error_message)]
    failures += [(one.error_code, one.error_message) for one in response.results]
    for number, message in failures:
        code = error_code(number)
        if code is not ErrorCode.NONE:
            raise RequestRefused(code, message, broker=broker)
