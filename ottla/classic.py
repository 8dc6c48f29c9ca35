"""The first producer and consumer APIs of Kafka: ``ottla.classic``.

The calls, callbacks and settings of Kafka 0.7 and 0.8 over today's protocol. Consumer groups live
in ZooKeeper, where consumers of 0.8 can share them. Names are Pythonic, the documents' names are
aliases. See docs/classic.md. New programs use ``ottla.sync`` or ``ottla``.
"""

from __future__ import annotations

from ottla.client.classic.announcement import Announcement
from ottla.client.classic.connector import ConnectorFactory, ConsumerConnector
from ottla.client.classic.message_sets import (
    ByteBufferMessageSet,
    MessageAndOffset,
    MultiFetchResponse,
    OutOfRange,
)
from ottla.client.classic.message_sets import ClassicFetch as FetchRequest
from ottla.client.classic.plug_ins import (
    CallbackHandler,
    DefaultEncoder,
    DefaultPartitioner,
    EventHandler,
    Message,
    QueueItem,
    StringEncoder,
)
from ottla.client.classic.plug_ins import TopicEvents as ProducerData
from ottla.client.classic.producer import ClassicProducer
from ottla.client.classic.reaching import NoBrokers
from ottla.client.classic.registry.member import RebalanceFailed
from ottla.client.classic.registry.topic_filter import TopicFilter
from ottla.client.classic.registry.topic_filter import blacklist as Blacklist  # noqa: N812
from ottla.client.classic.registry.topic_filter import whitelist as Whitelist  # noqa: N812
from ottla.client.classic.send_thread import QueueFull
from ottla.client.classic.simple import EARLIEST_TIME, LATEST_TIME, SimpleConsumer
from ottla.client.classic.streams import ConsumerTimedOut, KafkaStream, MessageAndMetadata

Consumer = ConnectorFactory
Producer = ClassicProducer
KeyedMessage = ProducerData
QueueFullException = QueueFull
OutOfRangeException = OutOfRange
ConsumerTimeoutException = ConsumerTimedOut
ConsumerRebalanceFailedException = RebalanceFailed

__all__ = [
    "EARLIEST_TIME",
    "LATEST_TIME",
    "Announcement",
    "Blacklist",
    "ByteBufferMessageSet",
    "CallbackHandler",
    "Consumer",
    "ConsumerConnector",
    "ConsumerRebalanceFailedException",
    "ConsumerTimedOut",
    "ConsumerTimeoutException",
    "DefaultEncoder",
    "DefaultPartitioner",
    "EventHandler",
    "FetchRequest",
    "KafkaStream",
    "KeyedMessage",
    "Message",
    "MessageAndMetadata",
    "MessageAndOffset",
    "MultiFetchResponse",
    "NoBrokers",
    "OutOfRange",
    "OutOfRangeException",
    "Producer",
    "ProducerData",
    "QueueFull",
    "QueueFullException",
    "QueueItem",
    "RebalanceFailed",
    "SimpleConsumer",
    "StringEncoder",
    "TopicFilter",
    "Whitelist",
]
