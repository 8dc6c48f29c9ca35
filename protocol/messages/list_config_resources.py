"""ListConfigResources (key 74), versions 0-1: the resources that may have settings.

0 lists client metrics subscriptions alone and was called ListClientMetricsResources (KIP-714);
1 asks for types of resources (KIP-1142).
"""

from ottla.protocol.schema import WireType, array, int8, int16, int32, message, string, struct


@message("0-1", flexible="0+")
class ListConfigResourcesRequest:
    resource_types: list[int] = array(WireType.INT8, "1+")


@struct
class ListedConfigResource:
    resource_name: str = string()
    resource_type: int = int8("1+", default=16, ignorable=True)


@message("0-1", flexible="0+")
class ListConfigResourcesResponse:
    throttle_time_ms: int = int32()
    error_code: int = int16()
    config_resources: list[ListedConfigResource] = array(ListedConfigResource)
