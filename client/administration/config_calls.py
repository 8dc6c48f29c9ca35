"""The calls of ``Admin`` about settings of topics, brokers and groups.

Settings of a broker are read and changed at that broker, all others at any broker or at the
controller.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ottla.client.cluster.config_requests import (
    ALTER_CONFIGS,
    DESCRIBE_CONFIGS,
    DESCRIBE_DOCUMENTED,
    INCREMENTAL_ALTER_CONFIGS,
    LIST_CONFIG_RESOURCES,
    ConfigChange,
    ConfigEntry,
    ResourceType,
    alter_request,
    check_altered,
    check_described,
    describe_request,
    entries_of,
    node_of,
    replace_request,
)
from ottla.protocol.errors import ErrorCode, error_code
from ottla.protocol.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from ottla.wire.errors import RequestRefused

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ottla.client.cluster.routing import Router
    from ottla.wire.connection import Connection

# Asked and changed at the broker whose id is the name.
OF_ONE_BROKER = (ResourceType.BROKER, ResourceType.BROKER_LOGGER)


class ConfigCalls:
    """The part of ``Admin`` that deals with settings."""

    _router: Router

    async def describe_configs(
        self,
        resource: ResourceType,
        name: str,
        keys: Sequence[str] | None = None,
        *,
        with_documentation: bool = False,
    ) -> list[ConfigEntry]:
        """Return the settings of a topic, a broker or a group.

        Args:
            resource: What kind of thing has the settings.
            name: The topic's name, the broker's id as text, or the group's name.
            keys: The names of the settings; None (default) for all.
            with_documentation: Also ask what each setting means (KIP-569); False by default.

        Returns:
            The settings by name.

        Raises:
            RequestRefused: The broker refused.
            UnsupportedByBroker: The broker is too old for ``with_documentation``.
        """
        request = describe_request(resource, name, keys, with_documentation=with_documentation)
        api = DESCRIBE_DOCUMENTED if with_documentation else DESCRIBE_CONFIGS
        if resource in OF_ONE_BROKER and name:
            response = await self._router.to_node(node_of(name), api, request)
            check_described(response)
        else:
            response = await self._router.to_any(api, request, check_described)
        return entries_of(response)

    async def list_metrics_subscriptions(self) -> list[str]:
        """Return the names of all subscriptions to metrics of clients (KIP-714).

        Their settings are those of resources of the type ``ResourceType.CLIENT_METRICS``.

        Returns:
            The names, sorted.

        Raises:
            RequestRefused: The broker refused.
            UnsupportedByBroker: The broker is older than Kafka 3.7.
        """
        request = ListConfigResourcesRequest(resource_types=[ResourceType.CLIENT_METRICS])

        def check(response: ListConfigResourcesResponse, connection: Connection) -> None:
            code = error_code(response.error_code)
            if code is not ErrorCode.NONE:
                raise RequestRefused(code, broker=str(connection.address))

        response = await self._router.to_any(LIST_CONFIG_RESOURCES, request, check)
        return sorted(one.resource_name for one in response.config_resources)

    async def record_progress(
        self, topic: str, partition: int, offset: int
    ) -> dict[int, dict[str, Any] | None]:
        """Ask every broker what it remembers of a record's way to the replicas.

        Only brokers of Ottla with ``ottla.trace.interval.ms`` remember it, in marks of which each
        broker keeps 50,000.

        Args:
            topic: The topic's name.
            partition: The partition's number.
            offset: The record's offset.

        Returns:
            What each broker remembers from its time as the leader, by broker id; None if it
            remembers nothing of the partition. A broker that keeps no marks is left out.

        Raises:
            RequestRefused: A broker refused.
        """
        name = f"ottla.progress.{partition}.{offset}"
        request = describe_request(ResourceType.TOPIC, topic, [name])
        found: dict[int, dict[str, Any] | None] = {}
        for node_id in sorted(self._router.cluster.metadata.brokers):
            response = await self._router.to_node(node_id, DESCRIBE_CONFIGS, request)
            check_described(response)
            for entry in entries_of(response):
                found[node_id] = None if entry.value is None else json.loads(entry.value)
        return found

    async def alter_configs(
        self,
        resource: ResourceType,
        name: str,
        changes: Sequence[ConfigChange],
        *,
        validate_only: bool = False,
    ) -> None:
        """Change some settings and leave the others (KIP-339).

        Args:
            resource: What kind of thing has the settings.
            name: The topic's name, the broker's id as text (empty for all brokers), or the group's
                name.
            changes: The changes.
            validate_only: Only check the changes; False by default.

        Raises:
            RequestRefused: A change is invalid.
        """
        request = alter_request(resource, name, changes, validate_only)
        if resource in OF_ONE_BROKER and name:
            response = await self._router.to_node(node_of(name), INCREMENTAL_ALTER_CONFIGS, request)
            check_altered(response)
        else:
            await self._router.to_controller(INCREMENTAL_ALTER_CONFIGS, request, check_altered)

    async def replace_configs(
        self,
        resource: ResourceType,
        name: str,
        values: Mapping[str, str],
        *,
        validate_only: bool = False,
    ) -> None:
        """Set exactly these settings and reset all others to their defaults.

        For brokers older than Kafka 2.3, which cannot change single settings.

        Args:
            resource: What kind of thing has the settings.
            name: The topic's name, or the broker's id as text (empty for all brokers).
            values: The value of each setting by name.
            validate_only: Only check the settings; False by default.

        Raises:
            RequestRefused: A setting is invalid.
        """
        request = replace_request(resource, name, values, validate_only)
        if resource in OF_ONE_BROKER and name:
            response = await self._router.to_node(node_of(name), ALTER_CONFIGS, request)
            check_altered(response)
        else:
            await self._router.to_controller(ALTER_CONFIGS, request, check_altered)
