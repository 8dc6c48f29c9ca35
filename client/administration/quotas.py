"""Describes and sets quotas of users, client ids and IP addresses (KIP-546)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode, error_code
from ottla.protocol.messages import alter_client_quotas as altering
from ottla.protocol.messages import describe_client_quotas as describing
from ottla.protocol.named_tuples import NamedTuple
from ottla.wire.api import declare
from ottla.wire.errors import RequestRefused

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ottla.client.cluster.routing import Router
    from ottla.wire.connection import Connection

_DESCRIBE = declare(
    ApiKey.DESCRIBE_CLIENT_QUOTAS,
    describing.DescribeClientQuotasRequest,
    describing.DescribeClientQuotasResponse,
    1,
)
_ALTER = declare(
    ApiKey.ALTER_CLIENT_QUOTAS,
    altering.AlterClientQuotasRequest,
    altering.AlterClientQuotasResponse,
    1,
)
_EXACT = 0
_DEFAULT = 1
ENTITY_TYPES = ("user", "client-id", "ip")


class QuotaView(NamedTuple):
    """An entity with its quotas.

    Attributes:
        entity: The entity's name by type: ``user``, ``client-id``, ``ip``; None for the default.
        quotas: Values by Kafka's names, such as ``producer_byte_rate``.
    """

    entity: dict[str, str | None]
    quotas: dict[str, float]


class QuotaAdmin:
    """Administers quotas; ``Admin.quotas``."""

    def __init__(self, router: Router) -> None:
        self._router = router

    async def describe_quotas(
        self, entity: Mapping[str, str | None] | None = None, *, strict: bool = False
    ) -> list[QuotaView]:
        """List the quotas that are set, of all entities or of those that match.

        Args:
            entity: What an entity must have, by type: a name, or None for the default. Empty or
                None (default): all entities.
            strict: Leave out entities that have other types as well; False by default.

        Raises:
            ValueError: A type is unknown.
            RequestRefused: The broker refused.
        """
        request = describing.DescribeClientQuotasRequest(
            [
                describing.ComponentData(kind, _DEFAULT if name is None else _EXACT, name)
                for kind, name in _checked(entity or {})
            ],
            strict,
        )
        response = await self._router.to_any(_DESCRIBE, request, check_described)
        return [_view(one) for one in response.entries or ()]

    async def alter_quotas(
        self,
        entity: Mapping[str, str | None],
        quotas: Mapping[str, float | None],
        *,
        validate_only: bool = False,
    ) -> None:
        """Set quotas of an entity, and remove those whose value is None.

        Args:
            entity: Its name by type: ``user``, ``client-id``, both, or ``ip``; None as a name
                means the default of that type.
            quotas: Values by Kafka's names: ``producer_byte_rate`` and ``consumer_byte_rate`` in
                bytes per second, ``request_percentage``, ``controller_mutation_rate`` in
                partitions per second, ``connection_creation_rate`` per second.
            validate_only: Only check the change; False by default.

        Raises:
            ValueError: A type is unknown.
            RequestRefused: The broker refused.
        """
        request = altering.AlterClientQuotasRequest(
            [
                altering.AlterClientQuotasRequestEntryData(
                    [altering.EntityData(kind, name) for kind, name in _checked(entity)],
                    [
                        altering.OpData(key, 0.0 if value is None else value, value is None)
                        for key, value in quotas.items()
                    ],
                )
            ],
            validate_only,
        )
        await self._router.to_controller(_ALTER, request, check_altered)


def _view(entry: describing.EntryData) -> QuotaView:
    # Brokers list both in any order.
    names = {part.entity_type: part.entity_name for part in entry.entity}
    kinds = sorted(names, key=lambda kind: (*ENTITY_TYPES, kind).index(kind))
    values = {value.key: value.value for value in entry.values}
    return QuotaView(
        {kind: names[kind] for kind in kinds}, {key: values[key] for key in sorted(values)}
    )


def _checked(entity: Mapping[str, str | None]) -> list[tuple[str, str | None]]:
    for kind in entity:
        if kind not in ENTITY_TYPES:
            raise ValueError(f"quotas are for {', '.join(ENTITY_TYPES)}, not for {kind!r}")
    return list(entity.items())


def check_described(
    response: describing.DescribeClientQuotasResponse, connection: Connection
) -> None:
    """Raise RequestRefused if the response has an error."""
    code = error_code(response.error_code)
    if code is not ErrorCode.NONE:
        raise RequestRefused(code, response.error_message, broker=str(connection.address))


def check_altered(response: altering.AlterClientQuotasResponse, connection: Connection) -> None:
    """Raise RequestRefused for the first entity that was refused."""
    for one in response.entries:
        code = error_code(one.error_code)
        if code is not ErrorCode.NONE:
            raise RequestRefused(code, one.error_message, broker=str(connection.address))
