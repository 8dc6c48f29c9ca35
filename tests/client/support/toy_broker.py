"""A toy cluster on real sockets, just honest enough to try a client on.

It keeps batches in lists, checks sequences as a broker does, and lets a test decide the fate of
each request: answered, answered with an error, dropped before or after it took effect.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.protocol.apis import API, ApiKey
from ottla.protocol.compile import decode, encode
from ottla.protocol.errors import ErrorCode
from ottla.protocol.headers import decode_request_header, write_response_header
from ottla.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsResponse,
    FinalizedFeatureKey,
)
from ottla.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.protocol.ports import Address, SocketOptions
from ottla.wire.frames import FrameReader
from ottla.wire.messages import request_of
from tests.client.support.toy_log import (
    ToyPartition,
    toy_epoch_ends,
    toy_fetch,
    toy_list_offsets,
    toy_produce,
)
from tests.client.support.toy_offsets import OFFSETS, VERSIONS, ToyOffsets
from tests.client.support.toy_transactions import TRANSACTIONAL, ToyTransactions

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.protocol.ids import Uuid
    from ottla.protocol.ports import Listener, Net, Socket


class Fate(Enum):
    """What happens to a request instead of being served."""

    DROP_BEFORE = "the connection goes before the request takes effect"
    DROP_AFTER = "the connection goes after the request took effect"
    SILENCE = "the request takes effect and is never answered"
    SWALLOW = "the request takes no effect and is never answered"


class Seen(NamedTuple):
    """One request as it arrived."""

    node_id: int
    api_key: ApiKey
    version: int
    request: Any


@dataclass
class ToyTopic:
    """A topic: who leads which partition, and what is in it."""

    topic_id: Uuid
    partitions: list[ToyPartition]


Judge = "Callable[[Seen], Fate | ErrorCode | None]"


@dataclass
class ToyCluster:
    """State that all toy brokers share."""

    net: Net
    topics: dict[str, ToyTopic] = field(default_factory=dict)
    nodes: dict[int, ToyBroker] = field(default_factory=dict)
    seen: list[Seen] = field(default_factory=list)
    # Decides the fate of each request; None serves it.
    judge: Callable[[Seen], Fate | ErrorCode | None] = lambda seen: None
    versions: dict[ApiKey, tuple[int, int]] = field(default_factory=dict)
    next_producer_id: int = 4000
    uses_topic_ids: bool = True
    # Level of transaction.version, and how often it has been changed; None reports no features.
    transaction_version: int | None = None
    features_epoch: int = 1
    # Brokers that have missed an election: the leader of everything in the view of each.
    misled: dict[int, int] = field(default_factory=dict)
    # Brokers without updates: the topics as each knows and serves them.
    behind: dict[int, dict[str, ToyTopic]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.transactions = ToyTransactions(self)
        self.offsets = ToyOffsets()

    def start(self, node_count: int = 1) -> None:
        """Have that many brokers; those that run already stay."""
        for node_id in range(len(self.nodes) + 1, node_count + 1):
            self.nodes[node_id] = ToyBroker(self, node_id)

    @property
    def bootstrap(self) -> str:
        return str(self.nodes[1].address)

    def add_topic(self, name: str, partition_count: int = 1) -> ToyTopic:
        topic_id = len(self.topics).to_bytes(15) + b"\x07" if self.uses_topic_ids else bytes(16)
        nodes = sorted(self.nodes)
        topic = ToyTopic(
            topic_id,
            [ToyPartition(nodes[number % len(nodes)]) for number in range(partition_count)],
        )
        self.topics[name] = topic
        return topic

    def topics_of(self, node_id: int) -> dict[str, ToyTopic]:
        """The topics in the view of that broker."""
        return self.behind.get(node_id, self.topics)

    def counts(self) -> Counter[ApiKey]:
        """How many requests of each API have arrived."""
        return Counter(seen.api_key for seen in self.seen)

    def close(self) -> None:
        for node in self.nodes.values():
            node.close()


class ToyBroker:
    """One listening node."""

    def __init__(self, cluster: ToyCluster, node_id: int, port: int = 0) -> None:
        self.cluster = cluster
        self.node_id = node_id
        self.connections: list[ToyConnection] = []
        self.listener: Listener = cluster.net.listen(Address("127.0.0.1", port), SocketOptions())
        self.address = self.listener.address
        self.listener.on_readable(self._on_readable)

    def _on_readable(self) -> None:
        try:
            socket = self.listener.accept()
        except BlockingIOError:
            return
        self.connections.append(ToyConnection(self, socket))

    def drop_connections(self) -> None:
        for connection in self.connections:
            connection.close()
        self.connections.clear()

    def close(self) -> None:
        self.listener.close()
        self.drop_connections()


class ToyConnection:
    """One accepted connection; answers are assumed to fit into the socket's buffer in turns."""

    def __init__(self, broker: ToyBroker, socket: Socket) -> None:
        self._broker = broker
        self._socket = socket
        self._frames = FrameReader(1 << 28)
        self._unsent = bytearray()
        self._closed = False
        socket.on_readable(self._on_readable)

    def _on_readable(self) -> None:
        try:
            count = self._socket.recv_into(self._frames.window())
        except BlockingIOError:
            return
        except OSError:
            self.close()
            return
        if count == 0:
            self.close()
            return
        for frame in self._frames.received(count):
            if not self._closed:
                self._on_request(frame)
        assert self._frames.breach is None

    def _on_request(self, frame: memoryview) -> None:
        header, position = decode_request_header(frame)
        key, version = ApiKey(header.api_key), header.api_version
        cluster = self._broker.cluster
        if key is ApiKey.API_VERSIONS and version > API[key].last_version:
            raise AssertionError("a version from the future")
        request = decode(request_of(key), version, frame[position:])
        seen = Seen(self._broker.node_id, key, version, request)
        cluster.seen.append(seen)
        fate = cluster.judge(seen)
        if fate is Fate.DROP_BEFORE:
            self.close()
            return
        if fate is Fate.SWALLOW:
            return
        error = fate if isinstance(fate, ErrorCode) else ErrorCode.NONE
        response = self._serve(seen, error)
        if fate is Fate.DROP_AFTER:
            self.close()
            return
        if response is None or fate is Fate.SILENCE:
            return
        if key is ApiKey.API_VERSIONS and error is ErrorCode.UNSUPPORTED_VERSION:
            version = 0
        out = bytearray(4)
        write_response_header(out, key, version, header.correlation_id)
        out += encode(response, version)
        out[:4] = (len(out) - 4).to_bytes(4)
        self._unsent += out
        self._flush()

    def _flush(self) -> None:
        try:
            sent = self._socket.sendmsg([bytes(self._unsent)])
        except BlockingIOError:
            sent = 0
        except OSError:
            self.close()
            return
        del self._unsent[:sent]
        self._socket.on_writable(self._flush if self._unsent else None)

    def _serve(self, seen: Seen, error: ErrorCode) -> object | None:
        cluster = self._broker.cluster
        topics = cluster.topics_of(seen.node_id)
        match seen.api_key:
            case ApiKey.API_VERSIONS:
                return toy_api_versions(cluster, error)
            case ApiKey.METADATA:
                return toy_metadata(cluster, seen.request, seen.node_id)
            case key if key in TRANSACTIONAL:
                return cluster.transactions.serve(seen, error)
            case key if key in OFFSETS:
                return cluster.offsets.serve(seen, error)
            case ApiKey.PRODUCE:
                error = error or cluster.transactions.judge_produce(seen.request, seen.version)
                return toy_produce(cluster.topics, seen.request, seen.node_id, error)
            case ApiKey.FETCH:
                return toy_fetch(topics, seen.request, seen.node_id, error)
            case ApiKey.LIST_OFFSETS:
                return toy_list_offsets(topics, seen.request, error)
            case ApiKey.OFFSET_FOR_LEADER_EPOCH:
                return toy_epoch_ends(cluster.topics, seen.request, error)
        raise AssertionError(f"the toy does not serve {seen.api_key.name}")

    def stop_reading(self) -> None:
        """Let the peer's bytes pile up."""
        self._socket.on_readable(None)

    def close(self) -> None:
        self._closed = True
        self._socket.close()


SERVED = (
    ApiKey.PRODUCE,
    ApiKey.FETCH,
    ApiKey.LIST_OFFSETS,
    ApiKey.OFFSET_FOR_LEADER_EPOCH,
    ApiKey.METADATA,
    ApiKey.API_VERSIONS,
    *OFFSETS,
    *TRANSACTIONAL,
)


def toy_api_versions(cluster: ToyCluster, error: ErrorCode) -> ApiVersionsResponse:
    """Everything served, at every version that has a codec unless the test says otherwise."""
    response = ApiVersionsResponse(int(error))
    for key in SERVED:
        full = VERSIONS.get(key, (API[key].first_version, API[key].last_version))
        first, last = cluster.versions.get(key, full)
        response.api_keys.append(ApiVersion(key, first, last))
    if cluster.transaction_version is not None:
        response.finalized_features_epoch = cluster.features_epoch
        level = cluster.transaction_version
        response.finalized_features = [FinalizedFeatureKey("transaction.version", level, 0)]
    return response


def toy_metadata(cluster: ToyCluster, request: MetadataRequest, node_id: int) -> MetadataResponse:
    """The toy cluster's metadata, with a wrong leader if this broker is misled."""
    topics, misled = cluster.topics_of(node_id), cluster.misled.get(node_id)
    names = sorted(topics)
    if request.topics is not None:
        names = [topic.name or "" for topic in request.topics]
    response = MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id, node.address.host, node.address.port)
            for node_id, node in sorted(cluster.nodes.items())
        ],
        cluster_id="toy",
        controller_id=1,
    )
    for name in names:
        topic = topics.get(name)
        if topic is None:
            code = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            response.topics.append(MetadataResponseTopic(code, name))
            continue
        partitions = [
            MetadataResponsePartition(
                0,
                number,
                misled or partition.leader_id,
                partition.leader_epoch,
                [1],
                [1],
            )
            for number, partition in enumerate(topic.partitions)
        ]
        response.topics.append(
            MetadataResponseTopic(0, name, topic.topic_id, partitions=partitions)
        )
    return response
