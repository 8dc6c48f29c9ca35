"""ApiVersions (key 18): what this broker serves. Versions 0-5.

3: client software name and version, features. 4: supported features with minimum 0 (KIP-584).
5: the cluster and the broker that the sender means to reach (KIP-1242).
A version above ours is answered by the dispatcher with a version 0 body (KIP-511).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ottla.coordinator.metadata.features import SUPPORTED
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.api_versions import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

if TYPE_CHECKING:
    from ottla.broker.engine.context import RequestContext
    from ottla.broker.handlers.services import Services

_FROM_ZERO_VERSION = 4
# What Java brokers accept as a client's name; librdkafka retries with version 0 when refused.
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle(
    services: Services, context: RequestContext, request: ApiVersionsRequest
) -> ApiVersionsResponse:
    """List the served APIs, and what is finalized of the cluster's features."""
    response = ApiVersionsResponse()
    if context.api_version >= 3 and not (
        _SOFTWARE.fullmatch(request.client_software_name)
        and _SOFTWARE.fullmatch(request.client_software_version)
    ):
        response.error_code = ErrorCode.INVALID_REQUEST
        return response
    if _is_misdirected(services, request):
        response.error_code = ErrorCode.REBOOTSTRAP_REQUIRED
        return response
    if services.telemetry is not None:
        names = request.client_software_name, request.client_software_version
        services.telemetry.on_software(context.peer, *names)
    response.api_keys = services.advertised(context.api_version)
    response.supported_features = [
        SupportedFeatureKey(name, *levels)
        for name, levels in SUPPORTED.items()
        # Clients of version 3 take a range from 0 for a malformed answer.
        if levels.first > 0 or context.api_version >= _FROM_ZERO_VERSION
    ]
    finalized = services.features.finalized
    response.finalized_features_epoch = finalized.epoch
    response.finalized_features = [
        FinalizedFeatureKey(name, level, level) for name, level in finalized.levels.items()
    ]
    return response


def _is_misdirected(services: Services, request: ApiVersionsRequest) -> bool:
    """Whether the sender means another broker, or one of another cluster: older versions, which do
    not name one, have the defaults."""
    is_of_cluster = request.cluster_id in (None, services.metadata.cluster_id)
    return not is_of_cluster or request.node_id not in (-1, services.node_id)
