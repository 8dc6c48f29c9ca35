"""Ottla: a cluster of asyncio brokers that speaks Apache Kafka's own wire protocol.

The packages live at the top of the repository (``broker``, ``client``, ``coordinator``,
``protocol``) and are installed as ``ottla.broker`` and so on. Importing this package loads none
of them: the public names below are looked up when they are first used.
"""

from __future__ import annotations

import importlib as _importlib
import os as _os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla import serializers, sync
    from ottla.broker.testing.cluster import Cluster
    from ottla.broker.testing.faults import Faults
    from ottla.broker.testing.handles import BrokerHandle, Injected
    from ottla.broker.testing.members import ClusterError
    from ottla.client.admin import Admin
    from ottla.client.administration.placements import ElectionType
    from ottla.client.administration.topic_requests import NewTopic
    from ottla.client.cluster.config_requests import ConfigChange, ConfigOperation, ResourceType
    from ottla.client.consumer import Consumer
    from ottla.client.fetching.batches import ConsumerRecord, FetchedBatch
    from ottla.client.frames import (
        aread_arrow,
        aread_pandas,
        aread_polars,
        read_arrow,
        read_pandas,
        read_polars,
    )
    from ottla.client.group.rebalance_listener import RebalanceListener
    from ottla.client.parallel.parallel import ParallelRun
    from ottla.client.parallel.policy import DeadLetter, HandlerFailed, ParallelLimits, Retry
    from ottla.client.producer import Producer
    from ottla.client.records.delivery import BatchDelivery, Delivered, DeliveredBatch, Delivery
    from ottla.client.records.interceptors import (
        ConsumerInterceptor,
        DeliveryReport,
        ProducerInterceptor,
        ProducerRecord,
    )
    from ottla.client.records.partitioners import Unplaced
    from ottla.client.sending.transaction_calls import Committed, ConsumerGroupMetadata
    from ottla.client.settings.config import ClientConfig, ConsumerConfig, Isolation, ProducerConfig
    from ottla.protocol.errors import ErrorCode
    from ottla.protocol.ids import TopicPartition
    from ottla.protocol.records.columns import Columns
    from ottla.wire.errors import (
        AbortRequired,
        AnswerTooLarge,
        BrokerUnreachable,
        ClientClosed,
        ClientError,
        CommitFailed,
        DeliveryTimedOut,
        DeserializationFailed,
        LogTruncated,
        NoOffset,
        ProducerFenced,
        ProducerUnusable,
        RangeLost,
        RequestRefused,
        TransactionAborted,
        TransactionError,
        TransactionMisuse,
        TransactionTimedOut,
        TransportError,
        UnsupportedByBroker,
    )

__version__ = "0.1.0"

__all__ = [
    "AbortRequired",
    "Admin",
    "AnswerTooLarge",
    "BatchDelivery",
    "BrokerHandle",
    "BrokerUnreachable",
    "ClientClosed",
    "ClientConfig",
    "ClientError",
    "Cluster",
    "ClusterError",
    "Columns",
    "CommitFailed",
    "Committed",
    "ConfigChange",
    "ConfigOperation",
    "Consumer",
    "ConsumerConfig",
    "ConsumerGroupMetadata",
    "ConsumerInterceptor",
    "ConsumerRecord",
    "DeadLetter",
    "Delivered",
    "DeliveredBatch",
    "Delivery",
    "DeliveryReport",
    "DeliveryTimedOut",
    "DeserializationFailed",
    "ElectionType",
    "ErrorCode",
    "Faults",
    "FetchedBatch",
    "HandlerFailed",
    "Injected",
    "Isolation",
    "LogTruncated",
    "NewTopic",
    "NoOffset",
    "ParallelLimits",
    "ParallelRun",
    "Producer",
    "ProducerConfig",
    "ProducerFenced",
    "ProducerInterceptor",
    "ProducerRecord",
    "ProducerUnusable",
    "RangeLost",
    "RebalanceListener",
    "RequestRefused",
    "ResourceType",
    "Retry",
    "TopicPartition",
    "TransactionAborted",
    "TransactionError",
    "TransactionMisuse",
    "TransactionTimedOut",
    "TransportError",
    "Unplaced",
    "UnsupportedByBroker",
    "__version__",
    "aread_arrow",
    "aread_pandas",
    "aread_polars",
    "read_arrow",
    "read_pandas",
    "read_polars",
    "serializers",
    "sync",
]

_PLACES = {
    "AbortRequired": "client.errors",
    "Admin": "client.admin",
    "AnswerTooLarge": "client.errors",
    "BatchDelivery": "client.delivery",
    "BrokerHandle": "broker.testing.handles",
    "BrokerUnreachable": "client.errors",
    "ClientClosed": "client.errors",
    "ClientConfig": "client.config",
    "ClientError": "client.errors",
    "Cluster": "broker.testing.cluster",
    "ClusterError": "broker.testing.members",
    "Columns": "protocol.records.columns",
    "CommitFailed": "client.errors",
    "Committed": "client.transaction_calls",
    "ConfigChange": "client.config_requests",
    "ConfigOperation": "client.config_requests",
    "Consumer": "client.consumer",
    "ConsumerConfig": "client.config",
    "ConsumerGroupMetadata": "client.transaction_calls",
    "ConsumerInterceptor": "client.interceptors",
    "ConsumerRecord": "client.batches",
    "DeadLetter": "client.parallel_policy",
    "Delivered": "client.delivery",
    "DeliveredBatch": "client.delivery",
    "Delivery": "client.delivery",
    "DeliveryReport": "client.interceptors",
    "DeliveryTimedOut": "client.errors",
    "DeserializationFailed": "client.errors",
    "ElectionType": "client.placements",
    "ErrorCode": "protocol.errors",
    "Faults": "broker.testing.faults",
    "FetchedBatch": "client.batches",
    "HandlerFailed": "client.parallel_policy",
    "Injected": "broker.testing.handles",
    "Isolation": "client.config",
    "LogTruncated": "client.errors",
    "NewTopic": "client.admin_requests",
    "NoOffset": "client.errors",
    "ParallelLimits": "client.parallel_policy",
    "ParallelRun": "client.parallel",
    "Producer": "client.producer",
    "ProducerConfig": "client.config",
    "ProducerFenced": "client.errors",
    "ProducerInterceptor": "client.interceptors",
    "ProducerRecord": "client.interceptors",
    "ProducerUnusable": "client.errors",
    "RangeLost": "client.errors",
    "RebalanceListener": "client.rebalance_listener",
    "RequestRefused": "client.errors",
    "ResourceType": "client.config_requests",
    "Retry": "client.parallel_policy",
    "TopicPartition": "protocol.ids",
    "TransactionAborted": "client.errors",
    "TransactionError": "client.errors",
    "TransactionMisuse": "client.errors",
    "TransactionTimedOut": "client.errors",
    "TransportError": "client.errors",
    "Unplaced": "client.partitioners",
    "UnsupportedByBroker": "client.errors",
    "aread_arrow": "client.frames",
    "aread_pandas": "client.frames",
    "aread_polars": "client.frames",
    "read_arrow": "client.frames",
    "read_pandas": "client.frames",
    "read_polars": "client.frames",
}

# Modules with public names of their own.
_ROOMS = ("serializers", "sync")

_here = _os.path.dirname(__file__)
if not _os.path.isdir(_os.path.join(_here, "broker")):
    # A checkout without symbolic links (a zip archive, Windows): look beside this folder.
    __path__.append(_os.path.dirname(_here))


def __getattr__(name: str) -> object:
    """Load a public name's module when the name is first asked for."""
    if name in _ROOMS:
        return _loaded(name)
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(_loaded(_PLACES[name]), name)
    globals()[name] = value
    return value


def _loaded(name: str) -> object:
    from ottla.loading import Loading

    with Loading():
        return _importlib.import_module(f"{__name__}.{name}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
