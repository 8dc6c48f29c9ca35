"""Which versions of each API other brokers serve, where the brokers themselves are not available.

A profile is numbers only. It says what a client may ask, not how it would be answered.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from ottla.protocol.apis import ApiKey
from ottla.wire.api import VersionRange

if TYPE_CHECKING:
    from collections.abc import Mapping

# Redpanda at the tag v24.3.2, from the ranges that its handlers declare in
# src/v/kafka/server/handlers/*.h. Left out is what is about security and quotas. There are no
# features in its ApiVersions answers, and no topic ids before Metadata 10 and Fetch 13.
_REDPANDA_24_3_2 = {
    ApiKey.PRODUCE: (0, 7),
    ApiKey.FETCH: (4, 11),
    ApiKey.LIST_OFFSETS: (0, 4),
    ApiKey.METADATA: (0, 8),
    ApiKey.OFFSET_COMMIT: (1, 8),
    ApiKey.OFFSET_FETCH: (1, 7),
    ApiKey.FIND_COORDINATOR: (0, 3),
    ApiKey.JOIN_GROUP: (0, 6),
    ApiKey.HEARTBEAT: (0, 4),
    ApiKey.LEAVE_GROUP: (0, 4),
    ApiKey.SYNC_GROUP: (0, 4),
    ApiKey.DESCRIBE_GROUPS: (0, 5),
    ApiKey.LIST_GROUPS: (0, 4),
    ApiKey.API_VERSIONS: (0, 3),
    ApiKey.CREATE_TOPICS: (0, 6),
    ApiKey.DELETE_TOPICS: (0, 5),
    ApiKey.DELETE_RECORDS: (0, 2),
    ApiKey.INIT_PRODUCER_ID: (0, 3),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (0, 4),
    ApiKey.ADD_PARTITIONS_TO_TXN: (0, 3),
    ApiKey.ADD_OFFSETS_TO_TXN: (0, 1),
    ApiKey.END_TXN: (0, 3),
    ApiKey.TXN_OFFSET_COMMIT: (0, 3),
    ApiKey.DESCRIBE_CONFIGS: (0, 4),
    ApiKey.ALTER_CONFIGS: (0, 2),
    ApiKey.DESCRIBE_LOG_DIRS: (0, 2),
    ApiKey.CREATE_PARTITIONS: (0, 3),
    ApiKey.DELETE_GROUPS: (0, 2),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: (0, 1),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: (0, 0),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: (0, 0),
    ApiKey.OFFSET_DELETE: (0, 0),
    ApiKey.DESCRIBE_PRODUCERS: (0, 0),
    ApiKey.DESCRIBE_TRANSACTIONS: (0, 0),
    ApiKey.LIST_TRANSACTIONS: (0, 0),
}


def _ranges(numbers: Mapping[ApiKey, tuple[int, int]]) -> Mapping[int, VersionRange]:
    return MappingProxyType({int(key): VersionRange(*pair) for key, pair in numbers.items()})


PROFILES: Mapping[str, Mapping[int, VersionRange]] = MappingProxyType(
    {"redpanda-24.3.2": _ranges(_REDPANDA_24_3_2)}
)
