"""Loads the messages of each API when they are first used.

Imports stand in functions here: all messages together take as long to load as a broker takes to
start. Type checkers, editors and the tests of the drawing follow them.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from ottla.protocol.apis import ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Messages = tuple[type[Any], type[Any]]
    """The classes of an API's request and response."""


@cache
def messages_of(key: int) -> Messages:
    """The request's and the response's class; the first call loads their module."""
    return _LOADERS[key]()


def request_of(key: int) -> type[Any]:
    """The request's class; the first call loads its module."""
    return messages_of(key)[0]


def response_of(key: int) -> type[Any]:
    """The response's class; the first call loads its module."""
    return messages_of(key)[1]


def _produce() -> Messages:
    from ottla.protocol.messages.produce import ProduceRequest, ProduceResponse

    return ProduceRequest, ProduceResponse


def _fetch() -> Messages:
    from ottla.protocol.messages.fetch import FetchRequest, FetchResponse

    return FetchRequest, FetchResponse


def _list_offsets() -> Messages:
    from ottla.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse

    return ListOffsetsRequest, ListOffsetsResponse


def _metadata() -> Messages:
    from ottla.protocol.messages.metadata import MetadataRequest, MetadataResponse

    return MetadataRequest, MetadataResponse


def _leader_and_isr() -> Messages:
    from ottla.protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse

    return LeaderAndIsrRequest, LeaderAndIsrResponse


def _stop_replica() -> Messages:
    from ottla.protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse

    return StopReplicaRequest, StopReplicaResponse


def _update_metadata() -> Messages:
    from ottla.protocol.messages.update_metadata import (
        UpdateMetadataRequest,
        UpdateMetadataResponse,
    )

    return UpdateMetadataRequest, UpdateMetadataResponse


def _controlled_shutdown() -> Messages:
    from ottla.protocol.messages.controlled_shutdown import (
        ControlledShutdownRequest,
        ControlledShutdownResponse,
    )

    return ControlledShutdownRequest, ControlledShutdownResponse


def _offset_commit() -> Messages:
    from ottla.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse

    return OffsetCommitRequest, OffsetCommitResponse


def _offset_fetch() -> Messages:
    from ottla.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse

    return OffsetFetchRequest, OffsetFetchResponse


def _find_coordinator() -> Messages:
    from ottla.protocol.messages.find_coordinator import (
        FindCoordinatorRequest,
        FindCoordinatorResponse,
    )

    return FindCoordinatorRequest, FindCoordinatorResponse


def _join_group() -> Messages:
    from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse

    return JoinGroupRequest, JoinGroupResponse


def _heartbeat() -> Messages:
    from ottla.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

    return HeartbeatRequest, HeartbeatResponse


def _leave_group() -> Messages:
    from ottla.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse

    return LeaveGroupRequest, LeaveGroupResponse


def _sync_group() -> Messages:
    from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

    return SyncGroupRequest, SyncGroupResponse


def _describe_groups() -> Messages:
    from ottla.protocol.messages.describe_groups import (
        DescribeGroupsRequest,
        DescribeGroupsResponse,
    )

    return DescribeGroupsRequest, DescribeGroupsResponse


def _list_groups() -> Messages:
    from ottla.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse

    return ListGroupsRequest, ListGroupsResponse


def _sasl_handshake() -> Messages:
    from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

    return SaslHandshakeRequest, SaslHandshakeResponse


def _api_versions() -> Messages:
    from ottla.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

    return ApiVersionsRequest, ApiVersionsResponse


def _create_topics() -> Messages:
    from ottla.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse

    return CreateTopicsRequest, CreateTopicsResponse


def _delete_topics() -> Messages:
    from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse

    return DeleteTopicsRequest, DeleteTopicsResponse


def _delete_records() -> Messages:
    from ottla.protocol.messages.delete_records import DeleteRecordsRequest, DeleteRecordsResponse

    return DeleteRecordsRequest, DeleteRecordsResponse


def _init_producer_id() -> Messages:
    from ottla.protocol.messages.init_producer_id import (
        InitProducerIdRequest,
        InitProducerIdResponse,
    )

    return InitProducerIdRequest, InitProducerIdResponse


def _offset_for_leader_epoch() -> Messages:
    from ottla.protocol.messages.offset_for_leader_epoch import (
        OffsetForLeaderEpochRequest,
        OffsetForLeaderEpochResponse,
    )

    return OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse


def _add_partitions_to_txn() -> Messages:
    from ottla.protocol.messages.add_partitions_to_txn import (
        AddPartitionsToTxnRequest,
        AddPartitionsToTxnResponse,
    )

    return AddPartitionsToTxnRequest, AddPartitionsToTxnResponse


def _add_offsets_to_txn() -> Messages:
    from ottla.protocol.messages.add_offsets_to_txn import (
        AddOffsetsToTxnRequest,
        AddOffsetsToTxnResponse,
    )

    return AddOffsetsToTxnRequest, AddOffsetsToTxnResponse


def _end_txn() -> Messages:
    from ottla.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse

    return EndTxnRequest, EndTxnResponse


def _write_txn_markers() -> Messages:
    from ottla.protocol.messages.write_txn_markers import (
        WriteTxnMarkersRequest,
        WriteTxnMarkersResponse,
    )

    return WriteTxnMarkersRequest, WriteTxnMarkersResponse


def _txn_offset_commit() -> Messages:
    from ottla.protocol.messages.txn_offset_commit import (
        TxnOffsetCommitRequest,
        TxnOffsetCommitResponse,
    )

    return TxnOffsetCommitRequest, TxnOffsetCommitResponse


def _describe_acls() -> Messages:
    from ottla.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse

    return DescribeAclsRequest, DescribeAclsResponse


def _create_acls() -> Messages:
    from ottla.protocol.messages.create_acls import CreateAclsRequest, CreateAclsResponse

    return CreateAclsRequest, CreateAclsResponse


def _delete_acls() -> Messages:
    from ottla.protocol.messages.delete_acls import DeleteAclsRequest, DeleteAclsResponse

    return DeleteAclsRequest, DeleteAclsResponse


def _describe_configs() -> Messages:
    from ottla.protocol.messages.describe_configs import (
        DescribeConfigsRequest,
        DescribeConfigsResponse,
    )

    return DescribeConfigsRequest, DescribeConfigsResponse


def _alter_configs() -> Messages:
    from ottla.protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse

    return AlterConfigsRequest, AlterConfigsResponse


def _alter_replica_log_dirs() -> Messages:
    from ottla.protocol.messages.alter_replica_log_dirs import (
        AlterReplicaLogDirsRequest,
        AlterReplicaLogDirsResponse,
    )

    return AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse


def _describe_log_dirs() -> Messages:
    from ottla.protocol.messages.describe_log_dirs import (
        DescribeLogDirsRequest,
        DescribeLogDirsResponse,
    )

    return DescribeLogDirsRequest, DescribeLogDirsResponse


def _sasl_authenticate() -> Messages:
    from ottla.protocol.messages.sasl_authenticate import (
        SaslAuthenticateRequest,
        SaslAuthenticateResponse,
    )

    return SaslAuthenticateRequest, SaslAuthenticateResponse


def _create_partitions() -> Messages:
    from ottla.protocol.messages.create_partitions import (
        CreatePartitionsRequest,
        CreatePartitionsResponse,
    )

    return CreatePartitionsRequest, CreatePartitionsResponse


def _create_delegation_token() -> Messages:
    from ottla.protocol.messages.create_delegation_token import (
        CreateDelegationTokenRequest,
        CreateDelegationTokenResponse,
    )

    return CreateDelegationTokenRequest, CreateDelegationTokenResponse


def _renew_delegation_token() -> Messages:
    from ottla.protocol.messages.renew_delegation_token import (
        RenewDelegationTokenRequest,
        RenewDelegationTokenResponse,
    )

    return RenewDelegationTokenRequest, RenewDelegationTokenResponse


def _expire_delegation_token() -> Messages:
    from ottla.protocol.messages.expire_delegation_token import (
        ExpireDelegationTokenRequest,
        ExpireDelegationTokenResponse,
    )

    return ExpireDelegationTokenRequest, ExpireDelegationTokenResponse


def _describe_delegation_token() -> Messages:
    from ottla.protocol.messages.describe_delegation_token import (
        DescribeDelegationTokenRequest,
        DescribeDelegationTokenResponse,
    )

    return DescribeDelegationTokenRequest, DescribeDelegationTokenResponse


def _delete_groups() -> Messages:
    from ottla.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse

    return DeleteGroupsRequest, DeleteGroupsResponse


def _elect_leaders() -> Messages:
    from ottla.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse

    return ElectLeadersRequest, ElectLeadersResponse


def _incremental_alter_configs() -> Messages:
    from ottla.protocol.messages.incremental_alter_configs import (
        IncrementalAlterConfigsRequest,
        IncrementalAlterConfigsResponse,
    )

    return IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse


def _alter_partition_reassignments() -> Messages:
    from ottla.protocol.messages.alter_partition_reassignments import (
        AlterPartitionReassignmentsRequest,
        AlterPartitionReassignmentsResponse,
    )

    return AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse


def _list_partition_reassignments() -> Messages:
    from ottla.protocol.messages.list_partition_reassignments import (
        ListPartitionReassignmentsRequest,
        ListPartitionReassignmentsResponse,
    )

    return ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse


def _offset_delete() -> Messages:
    from ottla.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse

    return OffsetDeleteRequest, OffsetDeleteResponse


def _describe_client_quotas() -> Messages:
    from ottla.protocol.messages.describe_client_quotas import (
        DescribeClientQuotasRequest,
        DescribeClientQuotasResponse,
    )

    return DescribeClientQuotasRequest, DescribeClientQuotasResponse


def _alter_client_quotas() -> Messages:
    from ottla.protocol.messages.alter_client_quotas import (
        AlterClientQuotasRequest,
        AlterClientQuotasResponse,
    )

    return AlterClientQuotasRequest, AlterClientQuotasResponse


def _describe_user_scram_credentials() -> Messages:
    from ottla.protocol.messages.describe_user_scram_credentials import (
        DescribeUserScramCredentialsRequest,
        DescribeUserScramCredentialsResponse,
    )

    return DescribeUserScramCredentialsRequest, DescribeUserScramCredentialsResponse


def _alter_user_scram_credentials() -> Messages:
    from ottla.protocol.messages.alter_user_scram_credentials import (
        AlterUserScramCredentialsRequest,
        AlterUserScramCredentialsResponse,
    )

    return AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse


def _update_features() -> Messages:
    from ottla.protocol.messages.update_features import (
        UpdateFeaturesRequest,
        UpdateFeaturesResponse,
    )

    return UpdateFeaturesRequest, UpdateFeaturesResponse


def _describe_cluster() -> Messages:
    from ottla.protocol.messages.describe_cluster import (
        DescribeClusterRequest,
        DescribeClusterResponse,
    )

    return DescribeClusterRequest, DescribeClusterResponse


def _describe_producers() -> Messages:
    from ottla.protocol.messages.describe_producers import (
        DescribeProducersRequest,
        DescribeProducersResponse,
    )

    return DescribeProducersRequest, DescribeProducersResponse


def _unregister_broker() -> Messages:
    from ottla.protocol.messages.unregister_broker import (
        UnregisterBrokerRequest,
        UnregisterBrokerResponse,
    )

    return UnregisterBrokerRequest, UnregisterBrokerResponse


def _describe_transactions() -> Messages:
    from ottla.protocol.messages.describe_transactions import (
        DescribeTransactionsRequest,
        DescribeTransactionsResponse,
    )

    return DescribeTransactionsRequest, DescribeTransactionsResponse


def _list_transactions() -> Messages:
    from ottla.protocol.messages.list_transactions import (
        ListTransactionsRequest,
        ListTransactionsResponse,
    )

    return ListTransactionsRequest, ListTransactionsResponse


def _consumer_group_heartbeat() -> Messages:
    from ottla.protocol.messages.consumer_group_heartbeat import (
        ConsumerGroupHeartbeatRequest,
        ConsumerGroupHeartbeatResponse,
    )

    return ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse


def _consumer_group_describe() -> Messages:
    from ottla.protocol.messages.consumer_group_describe import (
        ConsumerGroupDescribeRequest,
        ConsumerGroupDescribeResponse,
    )

    return ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse


def _get_telemetry_subscriptions() -> Messages:
    from ottla.protocol.messages.get_telemetry_subscriptions import (
        GetTelemetrySubscriptionsRequest,
        GetTelemetrySubscriptionsResponse,
    )

    return GetTelemetrySubscriptionsRequest, GetTelemetrySubscriptionsResponse


def _push_telemetry() -> Messages:
    from ottla.protocol.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse

    return PushTelemetryRequest, PushTelemetryResponse


def _list_config_resources() -> Messages:
    from ottla.protocol.messages.list_config_resources import (
        ListConfigResourcesRequest,
        ListConfigResourcesResponse,
    )

    return ListConfigResourcesRequest, ListConfigResourcesResponse


def _describe_topic_partitions() -> Messages:
    from ottla.protocol.messages.describe_topic_partitions import (
        DescribeTopicPartitionsRequest,
        DescribeTopicPartitionsResponse,
    )

    return DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse


_LOADERS: Mapping[int, Callable[[], Messages]] = {
    ApiKey.PRODUCE: _produce,
    ApiKey.FETCH: _fetch,
    ApiKey.LIST_OFFSETS: _list_offsets,
    ApiKey.METADATA: _metadata,
    ApiKey.LEADER_AND_ISR: _leader_and_isr,
    ApiKey.STOP_REPLICA: _stop_replica,
    ApiKey.UPDATE_METADATA: _update_metadata,
    ApiKey.CONTROLLED_SHUTDOWN: _controlled_shutdown,
    ApiKey.OFFSET_COMMIT: _offset_commit,
    ApiKey.OFFSET_FETCH: _offset_fetch,
    ApiKey.FIND_COORDINATOR: _find_coordinator,
    ApiKey.JOIN_GROUP: _join_group,
    ApiKey.HEARTBEAT: _heartbeat,
    ApiKey.LEAVE_GROUP: _leave_group,
    ApiKey.SYNC_GROUP: _sync_group,
    ApiKey.DESCRIBE_GROUPS: _describe_groups,
    ApiKey.LIST_GROUPS: _list_groups,
    ApiKey.SASL_HANDSHAKE: _sasl_handshake,
    ApiKey.API_VERSIONS: _api_versions,
    ApiKey.CREATE_TOPICS: _create_topics,
    ApiKey.DELETE_TOPICS: _delete_topics,
    ApiKey.DELETE_RECORDS: _delete_records,
    ApiKey.INIT_PRODUCER_ID: _init_producer_id,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: _offset_for_leader_epoch,
    ApiKey.ADD_PARTITIONS_TO_TXN: _add_partitions_to_txn,
    ApiKey.ADD_OFFSETS_TO_TXN: _add_offsets_to_txn,
    ApiKey.END_TXN: _end_txn,
    ApiKey.WRITE_TXN_MARKERS: _write_txn_markers,
    ApiKey.TXN_OFFSET_COMMIT: _txn_offset_commit,
    ApiKey.DESCRIBE_ACLS: _describe_acls,
    ApiKey.CREATE_ACLS: _create_acls,
    ApiKey.DELETE_ACLS: _delete_acls,
    ApiKey.DESCRIBE_CONFIGS: _describe_configs,
    ApiKey.ALTER_CONFIGS: _alter_configs,
    ApiKey.ALTER_REPLICA_LOG_DIRS: _alter_replica_log_dirs,
    ApiKey.DESCRIBE_LOG_DIRS: _describe_log_dirs,
    ApiKey.SASL_AUTHENTICATE: _sasl_authenticate,
    ApiKey.CREATE_PARTITIONS: _create_partitions,
    ApiKey.CREATE_DELEGATION_TOKEN: _create_delegation_token,
    ApiKey.RENEW_DELEGATION_TOKEN: _renew_delegation_token,
    ApiKey.EXPIRE_DELEGATION_TOKEN: _expire_delegation_token,
    ApiKey.DESCRIBE_DELEGATION_TOKEN: _describe_delegation_token,
    ApiKey.DELETE_GROUPS: _delete_groups,
    ApiKey.ELECT_LEADERS: _elect_leaders,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _incremental_alter_configs,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _alter_partition_reassignments,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: _list_partition_reassignments,
    ApiKey.OFFSET_DELETE: _offset_delete,
    ApiKey.DESCRIBE_CLIENT_QUOTAS: _describe_client_quotas,
    ApiKey.ALTER_CLIENT_QUOTAS: _alter_client_quotas,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: _describe_user_scram_credentials,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _alter_user_scram_credentials,
    ApiKey.UPDATE_FEATURES: _update_features,
    ApiKey.DESCRIBE_CLUSTER: _describe_cluster,
    ApiKey.DESCRIBE_PRODUCERS: _describe_producers,
    ApiKey.UNREGISTER_BROKER: _unregister_broker,
    ApiKey.DESCRIBE_TRANSACTIONS: _describe_transactions,
    ApiKey.LIST_TRANSACTIONS: _list_transactions,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: _consumer_group_heartbeat,
    ApiKey.CONSUMER_GROUP_DESCRIBE: _consumer_group_describe,
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: _get_telemetry_subscriptions,
    ApiKey.PUSH_TELEMETRY: _push_telemetry,
    ApiKey.LIST_CONFIG_RESOURCES: _list_config_resources,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: _describe_topic_partitions,
}
