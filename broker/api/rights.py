"""What each API asks of its callers: the rights that the handler of an API looks at.

An API without a row here is not served: ``table.py`` fails to load. ``tests/broker/authorization``
sends each API with and without each of these rights, and compares what its handler asks for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.acls import AclResourceType, Operation
from ottla.protocol.apis import ApiKey
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping


class Right(NamedTuple):
    """An operation on resources of a type: on those that the request names, or on the cluster."""

    operation: Operation
    resource: AclResourceType


def _rights(text: str) -> tuple[Right, ...]:
    """From the table's words: ``read topic, describe group``."""
    found = []
    for item in filter(None, (one.strip() for one in text.split(","))):
        operation, resource = item.split()
        found.append(Right(Operation[operation.upper()], AclResourceType[resource.upper()]))
    return tuple(found)


_TABLE = """
PRODUCE: write topic, write transactional_id
FETCH: read topic, cluster_action cluster
LIST_OFFSETS: describe topic, cluster_action cluster
METADATA: describe topic, create topic, create cluster, describe cluster
LEADER_AND_ISR: cluster_action cluster
STOP_REPLICA: cluster_action cluster
UPDATE_METADATA: cluster_action cluster
CONTROLLED_SHUTDOWN: cluster_action cluster
OFFSET_COMMIT: read group, read topic
OFFSET_FETCH: describe group, describe topic
FIND_COORDINATOR: describe group, describe transactional_id
JOIN_GROUP: read group
HEARTBEAT: read group
LEAVE_GROUP: read group
SYNC_GROUP: read group
DESCRIBE_GROUPS: describe group
LIST_GROUPS: describe cluster, describe group
SASL_HANDSHAKE:
API_VERSIONS:
CREATE_TOPICS: create cluster, create topic, describe_configs topic
DELETE_TOPICS: delete topic, describe topic
DELETE_RECORDS: delete topic
INIT_PRODUCER_ID: write transactional_id, idempotent_write cluster, write topic
OFFSET_FOR_LEADER_EPOCH: describe topic, cluster_action cluster
ADD_PARTITIONS_TO_TXN: write transactional_id, write topic, cluster_action cluster
ADD_OFFSETS_TO_TXN: write transactional_id, read group
END_TXN: write transactional_id
WRITE_TXN_MARKERS: alter cluster, cluster_action cluster
TXN_OFFSET_COMMIT: write transactional_id, read group, read topic
DESCRIBE_ACLS: describe cluster
CREATE_ACLS: alter cluster
DELETE_ACLS: alter cluster
DESCRIBE_CONFIGS: describe_configs topic, describe_configs cluster, describe_configs group
ALTER_CONFIGS: alter_configs topic, alter_configs cluster, alter_configs group
ALTER_REPLICA_LOG_DIRS: alter cluster
DESCRIBE_LOG_DIRS: describe cluster
SASL_AUTHENTICATE:
CREATE_PARTITIONS: alter topic
CREATE_DELEGATION_TOKEN: create_tokens user
RENEW_DELEGATION_TOKEN:
EXPIRE_DELEGATION_TOKEN:
DESCRIBE_DELEGATION_TOKEN: describe delegation_token, describe_tokens user
DELETE_GROUPS: delete group
ELECT_LEADERS: alter cluster
INCREMENTAL_ALTER_CONFIGS: alter_configs topic, alter_configs cluster, alter_configs group
ALTER_PARTITION_REASSIGNMENTS: alter cluster
LIST_PARTITION_REASSIGNMENTS: describe cluster
OFFSET_DELETE: delete group, read topic
DESCRIBE_CLIENT_QUOTAS: describe_configs cluster
ALTER_CLIENT_QUOTAS: alter_configs cluster
DESCRIBE_USER_SCRAM_CREDENTIALS: describe cluster
ALTER_USER_SCRAM_CREDENTIALS: alter cluster
UPDATE_FEATURES: alter cluster
UNREGISTER_BROKER: alter cluster
DESCRIBE_CLUSTER: describe cluster
DESCRIBE_TOPIC_PARTITIONS: describe topic
DESCRIBE_PRODUCERS: read topic
DESCRIBE_TRANSACTIONS: describe transactional_id, describe topic
LIST_TRANSACTIONS: describe transactional_id
CONSUMER_GROUP_HEARTBEAT: read group, describe topic
CONSUMER_GROUP_DESCRIBE: describe group, describe topic
GET_TELEMETRY_SUBSCRIPTIONS:
PUSH_TELEMETRY:
LIST_CONFIG_RESOURCES: describe_configs cluster
"""

RIGHTS: Mapping[ApiKey, tuple[Right, ...]] = {
    ApiKey[name]: _rights(text)
    for name, text in (line.split(":") for line in _TABLE.strip().splitlines())
}
