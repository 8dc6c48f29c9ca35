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
    from ottla import serializers, sync, tracing
    from ottla.broker.testing.cluster import Cluster
    from ottla.broker.testing.faults import Faults
    from ottla.broker.testing.handles import BrokerHandle, Injected
    from ottla.broker.testing.members import ClusterError
    from ottla.client.admin import Admin
    from ottla.client.administration.acl import Acl
    from ottla.client.administration.placements import ElectionType
    from ottla.client.administration.topic_requests import NewTopic
    from ottla.client.cluster.config_requests import ConfigChange, ResourceType
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
    from ottla.client.process.errors import (
        AbortRequired,
        CommitFailed,
        DeliveryTimedOut,
        DeserializationFailed,
        LogTruncated,
        NoOffset,
        ProducerFenced,
        ProducerUnusable,
        RangeLost,
        TransactionAborted,
        TransactionError,
        TransactionMisuse,
        TransactionTimedOut,
    )
    from ottla.client.producer import Producer
    from ottla.client.records.committed import Committed, ConsumerGroupMetadata
    from ottla.client.records.delivery import BatchDelivery, Delivered, DeliveredBatch, Delivery
    from ottla.client.records.interceptors import (
        ConsumerInterceptor,
        DeliveryReport,
        ProducerInterceptor,
        ProducerRecord,
    )
    from ottla.client.records.partitioners import Unplaced
    from ottla.client.settings.config import ClientConfig, ConsumerConfig, Isolation, ProducerConfig
    from ottla.protocol.configs import ConfigOperation
    from ottla.protocol.errors import ErrorCode
    from ottla.protocol.ids import TopicPartition
    from ottla.protocol.records.columns import Columns
    from ottla.protocol.version import __version__
    from ottla.wire.errors import (
        AnswerTooLarge,
        BrokerUnreachable,
        ClientClosed,
        ClientError,
        RequestRefused,
        TransportError,
        UnsupportedByBroker,
    )

__all__ = [
    "AbortRequired",
    "Acl",
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
    "tracing",
]

_PLACES = {
    "AbortRequired": "client.process.errors",
    "Acl": "client.administration.acl",
    "Admin": "client.admin",
    "AnswerTooLarge": "wire.errors",
    "BatchDelivery": "client.records.delivery",
    "BrokerHandle": "broker.testing.handles",
    "BrokerUnreachable": "wire.errors",
    "ClientClosed": "wire.errors",
    "ClientConfig": "client.settings.config",
    "ClientError": "wire.errors",
    "Cluster": "broker.testing.cluster",
    "ClusterError": "broker.testing.members",
    "Columns": "protocol.records.columns",
    "CommitFailed": "client.process.errors",
    "Committed": "client.records.committed",
    "ConfigChange": "client.cluster.config_requests",
    "ConfigOperation": "protocol.configs",
    "Consumer": "client.consumer",
    "ConsumerConfig": "client.settings.config",
    "ConsumerGroupMetadata": "client.records.committed",
    "ConsumerInterceptor": "client.records.interceptors",
    "ConsumerRecord": "client.fetching.batches",
    "DeadLetter": "client.parallel.policy",
    "Delivered": "client.records.delivery",
    "DeliveredBatch": "client.records.delivery",
    "Delivery": "client.records.delivery",
    "DeliveryReport": "client.records.interceptors",
    "DeliveryTimedOut": "client.process.errors",
    "DeserializationFailed": "client.process.errors",
    "ElectionType": "client.administration.placements",
    "ErrorCode": "protocol.errors",
    "Faults": "broker.testing.faults",
    "FetchedBatch": "client.fetching.batches",
    "HandlerFailed": "client.parallel.policy",
    "Injected": "broker.testing.handles",
    "Isolation": "client.settings.config",
    "LogTruncated": "client.process.errors",
    "NewTopic": "client.administration.topic_requests",
    "NoOffset": "client.process.errors",
    "ParallelLimits": "client.parallel.policy",
    "ParallelRun": "client.parallel.parallel",
    "Producer": "client.producer",
    "ProducerConfig": "client.settings.config",
    "ProducerFenced": "client.process.errors",
    "ProducerInterceptor": "client.records.interceptors",
    "ProducerRecord": "client.records.interceptors",
    "ProducerUnusable": "client.process.errors",
    "RangeLost": "client.process.errors",
    "RebalanceListener": "client.group.rebalance_listener",
    "RequestRefused": "wire.errors",
    "ResourceType": "client.cluster.config_requests",
    "Retry": "client.parallel.policy",
    "TopicPartition": "protocol.ids",
    "TransactionAborted": "client.process.errors",
    "TransactionError": "client.process.errors",
    "TransactionMisuse": "client.process.errors",
    "TransactionTimedOut": "client.process.errors",
    "TransportError": "wire.errors",
    "Unplaced": "client.records.partitioners",
    "UnsupportedByBroker": "wire.errors",
    "__version__": "protocol.version",
    "aread_arrow": "client.frames",
    "aread_pandas": "client.frames",
    "aread_polars": "client.frames",
    "read_arrow": "client.frames",
    "read_pandas": "client.frames",
    "read_polars": "client.frames",
}

# Submodules with their own public names.
_ROOMS = ("serializers", "sync", "tracing")

_here = _os.path.dirname(__file__)
if not _os.path.isdir(_os.path.join(_here, "broker")):
    # A checkout without symbolic links (a zip archive, Windows): look beside this folder.
    __path__.append(_os.path.dirname(_here))


def __getattr__(name: str) -> object:
    """Load a public name's module at its first use."""
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
