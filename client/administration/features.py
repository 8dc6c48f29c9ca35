"""Reads and sets the cluster's features: supported and finalized levels (KIP-584)."""

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


class FeatureUpgrade(IntEnum):
    """Which changes are allowed: only up, down without loss, or down in any case."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class FeatureView(NamedTuple):
    """A feature: the levels that the asked broker supports, and the finalized level (0 means
    off)."""

    name: str
    level_min: int
    level_max: int
    level: int


class FeatureAdmin:
    """Administers the cluster's features; ``Admin.features``."""

    def __init__(self, router: Router, timeout_ms: int) -> None:
        self._router = router
        self._timeout_ms = timeout_ms

    async def describe_features(self) -> list[FeatureView]:
        """List the features that the asked broker supports or that are finalized, by name.

        Raises:
            RequestRefused: The broker refused.
        """
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
        change: FeatureUpgrade = FeatureUpgrade.UPGRADE,
        *,
        validate_only: bool = False,
    ) -> None:
        """Set features to levels: all of them or none.

        Args:
            levels: The new level of each feature by name; 0 switches it off.
            change: Which changes are allowed; UPGRADE (default) refuses lower levels.
            validate_only: Only check the levels; False by default.

        Raises:
            RequestRefused: A level is not allowed.
        """
        request = UpdateFeaturesRequest(
            self._timeout_ms,
            [FeatureUpdateKey(name, level, upgrade_type=change) for name, level in levels.items()],
            validate_only,
        )
        await self._router.to_controller(_UPDATE, request, check_updated)


def check_versions(response: ApiVersionsResponse, connection: Connection) -> None:
    """Raise RequestRefused if the response has an error."""
    code = error_code(response.error_code)
    if code is not ErrorCode.NONE:
        raise RequestRefused(code, broker=str(connection.address))


def check_updated(response: UpdateFeaturesResponse, connection: Connection) -> None:
    """Raise RequestRefused if the request was refused, or for the first feature that was
    refused."""
    broker = str(connection.address)
    failures = [(response.error_code, response.error_message)]
    failures += [(one.error_code, one.error_message) for one in response.results]
    for number, message in failures:
        code = error_code(number)
        if code is not ErrorCode.NONE:
            raise RequestRefused(code, message, broker=broker)
