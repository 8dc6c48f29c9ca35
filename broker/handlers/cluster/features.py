"""UpdateFeatures (key 57): an administrator raises or lowers feature levels. Versions 0-2.

0 can only allow a downgrade. 1: kinds of change, and validating alone (KIP-778). 2 has one verdict
for all. At every version all features of a request are changed, or none; only the controller does
it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.metadata.features import FeatureRefusal, FeatureUpdate, UpgradeType
from ottla.protocol.acls import CLUSTER_NAME, AclResourceType, Operation
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

if TYPE_CHECKING:
    from ottla.broker.engine.context import RequestContext
    from ottla.broker.handlers.services import Services

_KINDS_VERSION = 1
_ONE_VERDICT_VERSION = 2
_SPOILT = FeatureRefusal(
    ErrorCode.FEATURE_UPDATE_FAILED, "another feature of the request was refused"
)


async def update(
    services: Services, context: RequestContext, request: UpdateFeaturesRequest
) -> UpdateFeaturesResponse:
    """Answered when the change is stored, and this broker tells clients of it."""
    if not services.authorizer.is_allowed(
        context, Operation.ALTER, AclResourceType.CLUSTER, CLUSTER_NAME
    ):
        return _failed(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if services.metadata.controller_id != services.node_id:
        return _failed(ErrorCode.NOT_CONTROLLER)
    updates = [_update_of(one, context.api_version) for one in request.feature_updates]
    names = [one.feature for one in updates]
    if len(set(names)) < len(names):
        return _failed(ErrorCode.INVALID_UPDATE_VERSION, "each feature is to be named once")
    if not names:
        return UpdateFeaturesResponse(error_message=None)
    try:
        refusals = await services.features.update(updates, validate_only=request.validate_only)
    except KafkaError as error:
        return _failed(error.code, error.message)
    refused = [one for one in refusals if one is not None]
    if context.api_version >= _ONE_VERDICT_VERSION:
        return _failed(*refused[0]) if refused else UpdateFeaturesResponse(error_message=None)
    results = [
        UpdatableFeatureResult(name, *(refusal or (_SPOILT if refused else _DONE)))
        for name, refusal in zip(names, refusals, strict=True)
    ]
    return UpdateFeaturesResponse(error_message=None, results=results)


_DONE = (ErrorCode.NONE, None)


def _update_of(key: FeatureUpdateKey, version: int) -> FeatureUpdate:
    if version < _KINDS_VERSION:
        kind = UpgradeType.SAFE_DOWNGRADE if key.allow_downgrade else UpgradeType.UPGRADE
        return FeatureUpdate(key.feature, key.max_version_level, kind)
    return FeatureUpdate(key.feature, key.max_version_level, key.upgrade_type)


def _failed(error: ErrorCode, message: str | None = None) -> UpdateFeaturesResponse:
    return UpdateFeaturesResponse(error_code=error, error_message=message or error.text)
