"""IncrementalAlterConfigs (key 44), versions 0-1: change single configuration values (KIP-339).

1 is flexible.
"""

from ottla.protocol.schema import array, boolean, int8, int16, int32, message, string, struct


@struct
class AlterableConfig:
    name: str = string()
    config_operation: int = int8()
    value: str | None = string(nullable="0+")


@struct
class AlterConfigsResource:
    resource_type: int = int8()
    resource_name: str = string()
    configs: list[AlterableConfig] = array(AlterableConfig)


@message("0-1", flexible="1+")
class IncrementalAlterConfigsRequest:
    resources: list[AlterConfigsResource] = array(AlterConfigsResource)
    validate_only: bool = boolean()


@struct
class AlterConfigsResourceResponse:
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    resource_type: int = int8()
    resource_name: str = string()


@message("0-1", flexible="1+")
class IncrementalAlterConfigsResponse:
    throttle_time_ms: int = int32()
    responses: list[AlterConfigsResourceResponse] = array(AlterConfigsResourceResponse)
