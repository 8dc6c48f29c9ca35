"""AlterClientQuotas (key 49), versions 0-1: change client quotas (KIP-546).

1 is flexible.
"""

from ottla.protocol.schema import array, boolean, float64, int16, int32, message, string, struct


@struct
class EntityData:
    entity_type: str = string()
    entity_name: str | None = string(nullable="0+")


@struct
class OpData:
    key: str = string()
    value: float = float64()
    remove: bool = boolean()


@struct
class AlterClientQuotasRequestEntryData:
    entity: list[EntityData] = array(EntityData)
    ops: list[OpData] = array(OpData)


@message("0-1", flexible="1+")
class AlterClientQuotasRequest:
    entries: list[AlterClientQuotasRequestEntryData] = array(AlterClientQuotasRequestEntryData)
    validate_only: bool = boolean()


@struct
class AlterClientQuotasResponseEntryData:
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    entity: list[EntityData] = array(EntityData)


@message("0-1", flexible="1+")
class AlterClientQuotasResponse:
    throttle_time_ms: int = int32()
    entries: list[AlterClientQuotasResponseEntryData] = array(AlterClientQuotasResponseEntryData)
