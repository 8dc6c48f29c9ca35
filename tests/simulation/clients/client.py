"""Base of simulated clients: reconnects to the broker and sends single requests.

A minimal Kafka client that has nothing to do with ``ottla.client``. Each instance picks versions
from its own random source, so that a run mixes old and new clients.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from tests.simulation.clients.wire import Gone, Wire, open_wire
from tests.simulation.history import Watermarks

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ottla.protocol.ports import Address, Ports
    from tests.simulation.history import History, Partition
    from tests.simulation.world.random import SimRandom

EARLIEST, LATEST = -2, -1

RETRIABLE = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
    }
)


class Versions(NamedTuple):
    """The versions that one client speaks: negotiated, from old to new as the seed wants.

    -1 is "the broker does not serve it"."""

    produce: int
    fetch: int
    list_offsets: int
    create_topics: int
    init_producer_id: int
    metadata: int = -1
    delete_topics: int = -1
    delete_records: int = -1

    @staticmethod
    def draw(random: SimRandom, served: Mapping[int, tuple[int, int]]) -> Versions:
        """A client of some age. Topics are named by name, record batches are of format 2."""

        def pick(key: ApiKey, first: int, last: int) -> int:
            low, high = served.get(key, (-1, -1))
            if high < 0:
                return -1
            low, high = max(first, low), min(last, high)
            assert low <= high, f"the broker serves no {key.name} from {first} to {last}"
            return low + random.below(high - low + 1)

        return Versions(
            produce=pick(ApiKey.PRODUCE, 3, 12),
            fetch=pick(ApiKey.FETCH, 4, 12),
            list_offsets=pick(ApiKey.LIST_OFFSETS, 1, 9),
            create_topics=pick(ApiKey.CREATE_TOPICS, 2, 7),
            init_producer_id=pick(ApiKey.INIT_PRODUCER_ID, 0, 5),
            metadata=pick(ApiKey.METADATA, 4, 13),
            delete_topics=pick(ApiKey.DELETE_TOPICS, 1, 5),
            delete_records=pick(ApiKey.DELETE_RECORDS, 0, 2),
        )


class Refused(Exception):
    """An error code that no retry will change."""

    def __init__(self, code: ErrorCode, what: str) -> None:
        super().__init__(f"{code.name} for {what}")
        self.code = code


class Client:
    """Keeps one connection to the one broker; every method retries until it has an answer."""

    def __init__(self, ports: Ports, address: Address, history: History, name: str) -> None:
        self.ports = ports
        self.history = history
        self.name = name
        self.random: SimRandom = ports.random  # type: ignore[assignment]
        self.versions = Versions(3, 4, 1, 2, 0)
        self._address = address
        self._wire: Wire | None = None
        self._connections = 0

    async def wire(self) -> Wire:
        """The connection, reconnected if it is closed. Raises Gone."""
        if self._wire is None or self._wire.closed:
            self._connections += 1
            name = f"{self.name}#{self._connections}"
            self._wire = await open_wire(self.ports, self._address, self.history, name)
        return self._wire

    def disconnect(self) -> None:
        """Drop the connection on purpose."""
        if self._wire is not None:
            self._wire.close()

    async def pause(self) -> None:
        """Wait a little before trying again."""
        await self.ports.clock.sleep(self.random.between(20.0, 150.0))

    async def negotiate(self) -> None:
        """Learn once what the broker serves."""
        request = ApiVersionsRequest(
            client_software_name="simulated-client", client_software_version="1"
        )
        response = await self.ask(request, ApiKey.API_VERSIONS, self.random.choice((0, 2, 3)))
        served = {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}
        self.versions = Versions.draw(self.random, served)

    async def ask(self, message: object, api_key: ApiKey, api_version: int) -> Any:
        """Ask until there is an answer, over as many connections as it takes."""
        while True:
            try:
                return await (await self.wire()).call(message, api_key, api_version)
            except Gone:
                await self.pause()

    async def once(self, message: object, api_key: ApiKey, api_version: int) -> Any:
        """Ask once; None when the outcome is unknown."""
        try:
            return await (await self.wire()).call(message, api_key, api_version)
        except Gone:
            await self.pause()
            return None

    async def create_topic(self, topic: str, partitions: int, settings: Mapping[str, str]) -> None:
        """Until it is there. Raises Refused."""
        configs = [CreatableTopicConfig(name, value) for name, value in settings.items()]
        request = CreateTopicsRequest(
            topics=[CreatableTopic(topic, partitions, 1, configs=configs)], timeout_ms=2_000
        )
        while True:
            response = await self.ask(request, ApiKey.CREATE_TOPICS, self.versions.create_topics)
            code = ErrorCode(response.topics[0].error_code)
            if code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                return
            if code not in RETRIABLE:
                raise Refused(code, f"topic {topic}: {response.topics[0].error_message}")
            await self.pause()

    async def new_producer_id(self) -> tuple[int, int]:
        """Id and epoch, until the broker gives one. Raises Refused."""
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        while True:
            response = await self.ask(
                request, ApiKey.INIT_PRODUCER_ID, self.versions.init_producer_id
            )
            code = ErrorCode(response.error_code)
            if code is ErrorCode.NONE:
                return response.producer_id, response.producer_epoch
            if code not in RETRIABLE:
                raise Refused(code, "a producer id")
            await self.pause()

    async def list_offset(self, partition: Partition, timestamp: int, *, told: bool = True) -> int:
        """The offset for EARLIEST or LATEST, until known; written down if it shall be.

        Raises Refused."""
        topic, number = partition
        request = ListOffsetsRequest(
            replica_id=-1,
            topics=[
                ListOffsetsTopic(
                    topic, [ListOffsetsPartition(partition_index=number, timestamp=timestamp)]
                )
            ],
        )
        while True:
            asked = self.history.tick()
            response = await self.ask(request, ApiKey.LIST_OFFSETS, self.versions.list_offsets)
            found = response.topics[0].partitions[0]
            code = ErrorCode(found.error_code)
            if code is ErrorCode.NONE:
                start, end = (found.offset, -1) if timestamp == EARLIEST else (-1, found.offset)
                answer = Watermarks(asked, self.history.tick(), partition, start, end)
                if told:
                    self.history.watermarks.append(answer)
                return int(found.offset)
            if code not in RETRIABLE:
                raise Refused(code, f"offset {timestamp} of {partition}")
            await self.pause()
