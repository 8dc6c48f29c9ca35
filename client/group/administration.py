"""Administers groups: their members and their committed positions."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from ottla.client.cluster.config_requests import (
    DESCRIBE_CONFIGS,
    ResourceType,
    check,
    describe_request,
    entries_of,
)
from ottla.client.cluster.coordinators import Coordinators
from ottla.client.group import requests as requests
from ottla.client.group.requests import GroupRefused
from ottla.client.group.stable_positions import fetch_positions
from ottla.client.records.arguments import by_partition, texts, whole
from ottla.client.records.committed import Committed
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.protocol.messages.delete_groups import DeleteGroupsRequest
from ottla.protocol.messages.describe_groups import DescribeGroupsRequest
from ottla.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ottla.wire.errors import UnsupportedByBroker

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ottla.client.cluster.routing import Router
    from ottla.client.group.requests import GroupListing, GroupView
    from ottla.protocol.ids import TopicPartition
    from ottla.protocol.messages.delete_groups import DeleteGroupsResponse
    from ottla.protocol.messages.describe_configs import DescribeConfigsResponse
    from ottla.protocol.messages.offset_delete import OffsetDeleteResponse
    from ottla.wire.connection import Connection
    from ottla.wire.errors import RequestRefused

STATES_VERSION = 4
TYPES_VERSION = 5
# Answered by Ottla's brokers alone, and only when requested by name.
TIMELINE = "ottla.timeline"
NOT_OF_THAT_KIND = (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION)


class GroupAdmin:
    """Administers the cluster's groups; ``Admin.groups``."""

    def __init__(self, router: Router) -> None:
        self._router = router
        self._coordinators = Coordinators(router)

    async def list_all(
        self, states: Iterable[str] = (), kinds: Iterable[str] = ()
    ) -> list[GroupListing]:
        """List the groups by name.

        Args:
            states: Only groups in these states; all by default.
            kinds: Only groups of these kinds, ``"classic"`` or ``"consumer"``; all by default.

        Returns:
            The groups of all brokers.

        Raises:
            RequestRefused: A broker did not list its groups.
        """
        cluster = self._router.cluster
        await cluster.describe([])
        wanted_states = texts("states", states)
        wanted_kinds = [kind.lower() for kind in texts("kinds", kinds)]

        async def ask(node_id: int) -> list[GroupListing]:
            async def attempt() -> list[GroupListing]:
                connection = await cluster.pool.connection(node_id)
                version = connection.version_of(requests.LIST_GROUPS)
                response: ListGroupsResponse = await connection.send(
                    requests.LIST_GROUPS,
                    ListGroupsRequest(
                        wanted_states if version >= STATES_VERSION else [],
                        wanted_kinds if version >= TYPES_VERSION else [],
                    ),
                )
                check(response.error_code, None, None, connection)
                return requests.listings(response)

            return await self._router.repeated(attempt, is_repeatable=True)

        answers = await asyncio.gather(*map(ask, sorted(cluster.metadata.brokers)))
        return sorted(
            group
            for answer in answers
            for group in answer
            if _matches(group.state, wanted_states) and _matches(group.kind, wanted_kinds)
        )

    async def describe(self, group_id: str) -> GroupView:
        """Describe one group and its members.

        Args:
            group_id: The group's name.

        Returns:
            The group.

        Raises:
            GroupRefused: GROUP_ID_NOT_FOUND if the group does not exist.
        """
        try:
            return await self._coordinators.ask(
                group_id,
                requests.CONSUMER_GROUP_DESCRIBE,
                ConsumerGroupDescribeRequest([group_id]),
                requests.consumer_view,
            )
        except UnsupportedByBroker:
            pass
        except GroupRefused as error:
            if error.code not in NOT_OF_THAT_KIND:
                raise
        return await self._coordinators.ask(
            group_id,
            requests.DESCRIBE_GROUPS,
            DescribeGroupsRequest([group_id]),
            requests.classic_view,
        )

    async def offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        require_stable: bool = False,
    ) -> dict[TopicPartition, Committed]:
        """Return the group's committed positions.

        Args:
            group_id: The group's name.
            partitions: The partitions to ask for; None (default) for all.
            require_stable: Wait for open transactions that would move a position; False by default.

        Returns:
            The position of each partition that has one.

        Raises:
            RequestRefused: The coordinator refused.
        """
        return await fetch_positions(
            self._coordinators, group_id, partitions, require_stable=require_stable
        )

    async def commit(
        self, group_id: str, offsets: Mapping[TopicPartition, Committed]
    ) -> dict[TopicPartition, RequestRefused | None]:
        """Set positions of a group that has no members.

        Args:
            group_id: The group's name.
            offsets: The new position of each partition.

        Returns:
            For each partition None, or why it was not set: UNKNOWN_MEMBER_ID if the group has
            members.
        """
        for position in by_partition("offsets to commit", offsets).values():
            if not isinstance(position, Committed):
                raise TypeError(f"a position to commit is a Committed, not {position!r}")
            whole("an offset to commit", position.offset)
        return await self._coordinators.ask(
            group_id,
            requests.OFFSET_COMMIT,
            requests.commit_request(group_id, offsets),
            lambda response, _, connection: requests.results_by_partition(response, connection),
        )

    async def delete_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, RequestRefused | None]:
        """Delete committed positions.

        Args:
            group_id: The group's name.
            partitions: The partitions whose positions to delete.

        Returns:
            For each partition None, or why its position was not deleted: GROUP_SUBSCRIBED_TO_TOPIC
            if a member reads the topic.

        Raises:
            GroupRefused: The coordinator refused the whole request.
        """

        def read(
            response: OffsetDeleteResponse, _: int, connection: Connection
        ) -> dict[TopicPartition, RequestRefused | None]:
            requests.refused(response.error_code, group_id, connection)
            return requests.results_by_partition(response, connection)

        return await self._coordinators.ask(
            group_id,
            requests.OFFSET_DELETE,
            requests.delete_offsets_request(group_id, partitions),
            read,
        )

    async def delete(self, group_id: str) -> None:
        """Delete a group without members, with its positions.

        Args:
            group_id: The group's name.

        Raises:
            GroupRefused: NON_EMPTY_GROUP or GROUP_ID_NOT_FOUND.
        """

        def read(response: DeleteGroupsResponse, _: int, connection: Connection) -> None:
            for result in response.results:
                requests.refused(result.error_code, group_id, connection, result.error_message)

        await self._coordinators.ask(
            group_id,
            requests.DELETE_GROUPS,
            DeleteGroupsRequest([group_id]),
            read,
            is_repeatable=False,
        )

    async def timeline(self, group_id: str) -> list[dict[str, Any]]:
        """Return the recent events of a group, oldest first, as its coordinator remembers them.

        Args:
            group_id: The group's name.

        Returns:
            One dict for each event.

        Raises:
            GroupRefused: The coordinator refused.
            UnsupportedByBroker: The broker is not one of Ottla's.
        """

        def read(
            response: DescribeConfigsResponse, _: int, connection: Connection
        ) -> list[dict[str, Any]]:
            for result in response.results:
                if result.error_code == ErrorCode.INVALID_REQUEST:
                    break  # Brokers before 4.0 have no settings of groups at all.
                requests.refused(result.error_code, group_id, connection, result.error_message)
            for entry in entries_of(response):
                if entry.name == TIMELINE and entry.value is not None:
                    rows: list[dict[str, Any]] = json.loads(entry.value)
                    return rows
            raise UnsupportedByBroker(
                f"{connection.address} keeps no timeline of its groups; only Ottla's brokers do"
            )

        return await self._coordinators.ask(
            group_id,
            DESCRIBE_CONFIGS,
            describe_request(ResourceType.GROUP, group_id, [TIMELINE]),
            read,
        )


def _matches(value: str, wanted: list[str]) -> bool:
    """Whether a group passes a filter. Older brokers do not filter, and report an empty value."""
    return not wanted or value.lower() in [one.lower() for one in wanted]
