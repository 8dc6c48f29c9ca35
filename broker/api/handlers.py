"""Loads the handler of each API when its first request comes.

Imports stand in functions here, and only here: all handlers together take as long to import as a
whole start, and most brokers are asked for a few of them. Being imports, type checkers, editors and
the tests of the drawing follow them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.broker.engine.context import RequestContext
    from ottla.broker.handlers.services import Services, Straight

    Handler = Callable[[Services, RequestContext, Any], Any]
    """Services, context and request to a response, or what ``dispatch.py`` takes in its place."""
    MakeStraight = Callable[[int], Straight | None]
    MakeWithMany = Callable[[int, Callable[[], MakeStraight]], Straight | None]


def produce() -> Handler:
    from ottla.broker.handlers.data.produce import handle

    return handle


def produce_straight() -> MakeStraight:
    from ottla.broker.handlers.data.produce_straight import straight

    return straight


def fetch() -> Handler:
    from ottla.broker.handlers.data.fetch import handle

    return handle


def fetch_straight() -> MakeWithMany:
    from ottla.broker.handlers.data.fetch_straight import straight

    return straight


def list_offsets() -> Handler:
    from ottla.broker.handlers.data.list_offsets import handle

    return handle


def metadata() -> Handler:
    from ottla.broker.handlers.cluster.metadata import handle

    return handle


def leader_and_isr() -> Handler:
    from ottla.broker.handlers.cluster.control import handle

    return handle


def stop_replica() -> Handler:
    from ottla.broker.handlers.cluster.control import handle

    return handle


def update_metadata() -> Handler:
    from ottla.broker.handlers.cluster.control import handle

    return handle


def controlled_shutdown() -> Handler:
    from ottla.broker.handlers.cluster.control_shutdown import handle

    return handle


def offset_commit() -> Handler:
    from ottla.broker.handlers.groups.offset_commit import handle

    return handle


def offset_fetch() -> Handler:
    from ottla.broker.handlers.groups.offset_fetch import handle

    return handle


def find_coordinator() -> Handler:
    from ottla.broker.handlers.groups.coordinators import find

    return find


def join_group() -> Handler:
    from ottla.broker.handlers.groups.group_membership import join

    return join


def heartbeat() -> Handler:
    from ottla.broker.handlers.groups.group_membership import heartbeat

    return heartbeat


def leave_group() -> Handler:
    from ottla.broker.handlers.groups.group_membership import leave

    return leave


def sync_group() -> Handler:
    from ottla.broker.handlers.groups.group_membership import sync

    return sync


def describe_groups() -> Handler:
    from ottla.broker.handlers.groups.group_admin import describe

    return describe


def list_groups() -> Handler:
    from ottla.broker.handlers.groups.group_admin import list_all

    return list_all


def sasl_handshake() -> Handler:
    from ottla.broker.handlers.security.sasl import handshake

    return handshake


def api_versions() -> Handler:
    from ottla.broker.api.api_versions import handle

    return handle


def create_topics() -> Handler:
    from ottla.broker.handlers.cluster.topics import create

    return create


def delete_topics() -> Handler:
    from ottla.broker.handlers.cluster.topics import delete

    return delete


def delete_records() -> Handler:
    from ottla.broker.handlers.data.records import delete

    return delete


def init_producer_id() -> Handler:
    from ottla.broker.handlers.transactions.producer_id import handle

    return handle


def offset_for_leader_epoch() -> Handler:
    from ottla.broker.handlers.data.epochs import handle

    return handle


def add_partitions_to_txn() -> Handler:
    from ottla.broker.handlers.transactions.transactions import add_partitions

    return add_partitions


def add_offsets_to_txn() -> Handler:
    from ottla.broker.handlers.transactions.transactions import add_offsets

    return add_offsets


def end_txn() -> Handler:
    from ottla.broker.handlers.transactions.transactions import end

    return end


def write_txn_markers() -> Handler:
    from ottla.broker.handlers.transactions.txn_markers import handle

    return handle


def txn_offset_commit() -> Handler:
    from ottla.broker.handlers.transactions.txn_offset_commit import handle

    return handle


def describe_acls() -> Handler:
    from ottla.broker.handlers.security.acls import describe

    return describe


def create_acls() -> Handler:
    from ottla.broker.handlers.security.acls import create

    return create


def delete_acls() -> Handler:
    from ottla.broker.handlers.security.acls import delete

    return delete


def describe_configs() -> Handler:
    from ottla.broker.handlers.cluster.configs import describe

    return describe


def alter_configs() -> Handler:
    from ottla.broker.handlers.cluster.configs import alter

    return alter


def alter_replica_log_dirs() -> Handler:
    from ottla.broker.handlers.cluster.log_dirs import alter

    return alter


def describe_log_dirs() -> Handler:
    from ottla.broker.handlers.cluster.log_dirs import describe

    return describe


def sasl_authenticate() -> Handler:
    from ottla.broker.handlers.security.sasl import authenticate

    return authenticate


def create_partitions() -> Handler:
    from ottla.broker.handlers.cluster.topics import create_partitions

    return create_partitions


def create_delegation_token() -> Handler:
    from ottla.broker.handlers.security.delegation_tokens import create

    return create


def renew_delegation_token() -> Handler:
    from ottla.broker.handlers.security.delegation_tokens import renew

    return renew


def expire_delegation_token() -> Handler:
    from ottla.broker.handlers.security.delegation_tokens import expire

    return expire


def describe_delegation_token() -> Handler:
    from ottla.broker.handlers.security.delegation_tokens import describe

    return describe


def delete_groups() -> Handler:
    from ottla.broker.handlers.groups.group_admin import delete

    return delete


def elect_leaders() -> Handler:
    from ottla.broker.handlers.cluster.elections import handle

    return handle


def incremental_alter_configs() -> Handler:
    from ottla.broker.handlers.cluster.configs import incremental_alter

    return incremental_alter


def alter_partition_reassignments() -> Handler:
    from ottla.broker.handlers.cluster.reassignments import alter

    return alter


def list_partition_reassignments() -> Handler:
    from ottla.broker.handlers.cluster.reassignments import list_all

    return list_all


def offset_delete() -> Handler:
    from ottla.broker.handlers.groups.group_admin import delete_offsets

    return delete_offsets


def describe_client_quotas() -> Handler:
    from ottla.broker.handlers.security.client_quotas import describe

    return describe


def alter_client_quotas() -> Handler:
    from ottla.broker.handlers.security.client_quotas import alter

    return alter


def describe_scram_users() -> Handler:
    from ottla.broker.handlers.security.scram_users import describe

    return describe


def alter_scram_users() -> Handler:
    from ottla.broker.handlers.security.scram_users import alter

    return alter


def update_features() -> Handler:
    from ottla.broker.handlers.cluster.features import update

    return update


def describe_cluster() -> Handler:
    from ottla.broker.handlers.cluster.cluster import describe

    return describe


def unregister_broker() -> Handler:
    from ottla.broker.handlers.cluster.unregister import handle

    return handle


def describe_topic_partitions() -> Handler:
    from ottla.broker.handlers.cluster.cluster import describe_topic_partitions

    return describe_topic_partitions


def describe_producers() -> Handler:
    from ottla.broker.handlers.data.describe_producers import handle

    return handle


def describe_transactions() -> Handler:
    from ottla.broker.handlers.transactions.transactions import describe

    return describe


def list_transactions() -> Handler:
    from ottla.broker.handlers.transactions.transactions import list_all

    return list_all


def consumer_group_heartbeat() -> Handler:
    from ottla.broker.handlers.groups.group_membership import consumer_heartbeat

    return consumer_heartbeat


def consumer_group_describe() -> Handler:
    from ottla.broker.handlers.groups.group_admin import describe_consumer_groups

    return describe_consumer_groups
