"""One change of one entity's settings in the store: read, change, write with a version check.

Settings of topics, brokers and groups, and quotas and credentials of users, clients and addresses
all go this way: a user's znode holds quotas and credentials together, and two writers of it must
not lose each other's part. The write and its announcement under ``/config/changes`` are one group.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from ottla.coordinator.store import entities, paths
from ottla.coordinator.store.store import (
    ANY_VERSION,
    BadVersion,
    Check,
    Create,
    GroupFailed,
    NodeExists,
    NoNode,
    Operation,
    Replace,
)
from ottla.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.coordinator.metadata.image import Entity
    from ottla.coordinator.store.store import MetadataSession

ConfigEdit = Callable[[Mapping[str, str]], Mapping[str, str]]
"""What is set now to what is to be set; raises KafkaError to refuse."""


async def try_change(session: MetadataSession, entity: Entity, edit: ConfigEdit) -> bool:
    """Store what the function makes of the entity's settings, and announce the change.

    False if another writer came between: read and try again. Raises KafkaError, StoreError."""
    operations = await _writes(session, entity, edit)
    operations.append(
        Create(paths.CONFIG_CHANGE_PREFIX, paths.build_config_change(*entity), sequential=True)
    )
    if entity.entity_type == "topics":
        # Settings without a topic would be found by the next topic of that name.
        operations.insert(0, Check(paths.topic(entity.name), ANY_VERSION))
    try:
        await session.multi(operations)
    except GroupFailed as failed:
        if isinstance(operations[failed.index], Check):
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) from failed
        if not isinstance(failed.error, BadVersion | NodeExists | NoNode):
            raise
        return False
    return True


async def _writes(session: MetadataSession, entity: Entity, edit: ConfigEdit) -> list[Operation]:
    path = paths.config(*entity)
    try:
        found = await session.get(path)
    except NoNode:
        created = Create(path, paths.build_config(edit({})))
        return [*await _missing_parents(session, entity), created]
    # Unreadable settings are replaced: refusing would leave no way to repair them.
    current = paths.parse_config(found.data) or {}
    return [Replace(path, paths.build_config(edit(current)), found.stat.version)]


async def _missing_parents(session: MetadataSession, entity: Entity) -> list[Operation]:
    """The user's own znode, and the one above his clients, where a client of a user is new."""
    missing: list[Operation] = []
    for above in entities.parents(*entity):
        path = paths.config(entity.entity_type, above)
        try:
            await session.get(path)
        except NoNode:
            missing.append(Create(path))
    return missing
