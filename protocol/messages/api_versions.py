"""ApiVersions (key 18), versions 0-5: what this broker speaks.

1 adds the throttle time, 3 is flexible, names the client (KIP-511) and carries features (KIP-584),
4 allows features from level 0, 5 checks that the right node of the right cluster was reached
(KIP-1242). A response has the oldest header at every version, since the client may not know any
other yet.
"""

from ottla.protocol.schema import array, boolean, int16, int32, int64, message, string, struct


@message("0-5", flexible="3+")
class ApiVersionsRequest:
    client_software_name: str = string("3+", ignorable=True)
    client_software_version: str = string("3+", ignorable=True)
    cluster_id: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    node_id: int = int32("5+", default=-1, ignorable=True)


@struct
class ApiVersion:
    api_key: int = int16()
    min_version: int = int16()
    max_version: int = int16()


@struct
class SupportedFeatureKey:
    name: str = string("3+")
    min_version: int = int16("3+")
    max_version: int = int16("3+")


@struct
class FinalizedFeatureKey:
    name: str = string("3+")
    max_version_level: int = int16("3+")
    min_version_level: int = int16("3+")


@message("0-5", flexible="3+")
class ApiVersionsResponse:
    error_code: int = int16()
    api_keys: list[ApiVersion] = array(ApiVersion)
    throttle_time_ms: int = int32("1+", ignorable=True)
    supported_features: list[SupportedFeatureKey] = array(
        SupportedFeatureKey, "3+", tag=0, ignorable=True
    )
    finalized_features_epoch: int = int64("3+", tag=1, default=-1, ignorable=True)
    finalized_features: list[FinalizedFeatureKey] = array(
        FinalizedFeatureKey, "3+", tag=2, ignorable=True
    )
    zk_migration_ready: bool = boolean("3+", tag=3, ignorable=True)
