"""A toy broker that speaks just enough Kafka for the workload, with old bugs on request.

It is there to try the clients, the chaos and the checkers on: correct as it is, every run must
pass; with any of its bugs, some run must fail. A simulator that does not find these is not to be
trusted with the real broker.
"""

from __future__ import annotations

import asyncio
import struct
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from ottla.protocol.apis import API, ApiKey
from ottla.protocol.compile import decoder, encode
from ottla.protocol.errors import ErrorCode
from ottla.protocol.headers import decode_request_header, write_response_header
from ottla.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from ottla.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from ottla.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from ottla.protocol.messages.init_producer_id import InitProducerIdResponse
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from ottla.protocol.ports import Address, Ports, SocketOptions
from ottla.wire.messages import request_of
from tests.simulation.clients.batches import Batch, Damaged, read_batches

if TYPE_CHECKING:
    from ottla.protocol.ports import File, Socket

BUGS = (
    "no deduplication",
    "answers before fsync",
    "believes the second fsync",
    "forgets producers at restart",
    "overwrites the last batch at restart",
    "answers out of order",
    "shows what is not committed",
)


SERVED = [
    API[key]
    for key in (
        ApiKey.PRODUCE,
        ApiKey.FETCH,
        ApiKey.LIST_OFFSETS,
        ApiKey.API_VERSIONS,
        ApiKey.CREATE_TOPICS,
        ApiKey.INIT_PRODUCER_ID,
    )
]


class ToyLog:
    """One partition: a file, its end, and the last batches of each producer."""

    def __init__(self, file: File, bugs: frozenset[str]) -> None:
        self.file = file
        self.end = self.synced_end = 0
        self.places: list[tuple[int, int]] = []
        self.producers: dict[tuple[int, int], list[tuple[int, int, int]]] = defaultdict(list)
        self.epochs: dict[int, int] = {}
        self._bugs = bugs
        content = memoryview(file.pread(file.size_bytes, 0))
        position = 0
        try:
            for batch in read_batches(content):
                if batch.base_offset != self.end:
                    break
                if "forgets producers at restart" not in bugs:
                    self._remember(batch)
                self.places.append((self.end, position))
                position += batch.size_bytes
                self.end = batch.last_offset + 1
        except Damaged:
            pass
        if "overwrites the last batch at restart" in bugs and self.places:
            self.end, position = self.places.pop()
        file.truncate(position)
        self.synced_end = self.end

    def append(self, records: bytearray) -> tuple[ErrorCode, int]:
        """Code and base offset."""
        batch = next(read_batches(memoryview(bytes(records))))
        verdict = self._judge(batch)
        if verdict is not None:
            return verdict
        struct.pack_into(">q", records, 0, self.end)
        struct.pack_into(">i", records, 12, 0)
        base_offset, self.end = self.end, self.end + len(batch.values)
        self.places.append((base_offset, self.file.size_bytes))
        self.file.append([records])
        self._remember(batch._replace(base_offset=base_offset))
        return ErrorCode.NONE, base_offset

    def read(self, offset: int, end: int) -> bytes:
        """One batch, the one with that offset."""
        for number, (base, position) in enumerate(self.places):
            last = number + 1 == len(self.places)
            following = self.end if last else self.places[number + 1][0]
            if base <= offset < following <= end:
                stop = self.file.size_bytes if last else self.places[number + 1][1]
                return self.file.pread(stop - position, position)
        return b""

    def _judge(self, batch: Batch) -> tuple[ErrorCode, int] | None:
        if batch.producer_id < 0:
            return None
        if batch.producer_epoch < self.epochs.get(batch.producer_id, -1):
            return ErrorCode.INVALID_PRODUCER_EPOCH, -1
        known = self.producers[batch.producer_id, batch.producer_epoch]
        if "no deduplication" not in self._bugs:
            for sequence, _, base_offset in known:
                if sequence == batch.base_sequence:
                    return ErrorCode.NONE, base_offset
        expected = known[-1][1] if known else 0
        if known and batch.base_sequence != expected:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
        return None

    def _remember(self, batch: Batch) -> None:
        if batch.producer_id < 0:
            return
        self.epochs[batch.producer_id] = batch.producer_epoch
        known = self.producers[batch.producer_id, batch.producer_epoch]
        known.append(
            (batch.base_sequence, batch.base_sequence + len(batch.values), batch.base_offset)
        )
        del known[:-5]


class ToyBroker:
    """Requests of a connection one after the other, each to its end."""

    def __init__(self, ports: Ports, bugs: frozenset[str]) -> None:
        assert bugs <= {*BUGS}
        self._ports = ports
        self._bugs = bugs
        self._logs: dict[tuple[str, int], ToyLog] = {}
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        disk = self._ports.disk
        disk.make_directory("/data")
        await disk.fsync_directory("/")
        for name in await disk.scan("/data"):
            topic, _, partition = name.rpartition("-")
            await self._open(topic, int(partition))
        self._listener = self._ports.net.listen(Address("", 9092), SocketOptions())
        self._listener.on_readable(self._accept)

    async def stop(self) -> None:
        self._listener.close()

    def on_failure(self, callback: object) -> None:
        """Ignored: the toy aborts on a failure."""

    async def _open(self, topic: str, partition: int) -> None:
        disk, directory = self._ports.disk, f"/data/{topic}-{partition}"
        disk.make_directory(directory)
        file = disk.open(f"{directory}/{0:020}.log", create=True)
        await disk.fsync_directory(directory)
        await disk.fsync_directory("/data")
        if (topic, partition) not in self._logs:
            self._logs[topic, partition] = ToyLog(file, self._bugs)

    def _accept(self) -> None:
        socket = self._listener.accept()
        self._tasks.append(asyncio.ensure_future(self._serve(socket)))

    async def _serve(self, socket: Socket) -> None:
        try:
            while True:
                size = int.from_bytes(await _read(socket, 4))
                answer = await self._answer(await _read(socket, size))
                if "answers out of order" in self._bugs and self._ports.random.random() < 0.02:
                    answer = answer[:4] + b"\0\0\0\0" + answer[8:]
                await _write(socket, answer)
        except (OSError, EOFError):
            socket.close()

    async def _answer(self, frame: bytes) -> bytes:
        header, position = decode_request_header(frame)
        key = ApiKey(header.api_key)
        request, _ = decoder(request_of(key), header.api_version)(frame, position)
        response = await getattr(self, f"_on_{key.name.lower()}")(request)
        if response is None:
            return b""
        out = bytearray(4)
        write_response_header(out, key, header.api_version, header.correlation_id)
        out += encode(response, header.api_version)
        out[:4] = (len(out) - 4).to_bytes(4)
        return bytes(out)

    async def _on_api_versions(self, _: Any) -> ApiVersionsResponse:
        served = [ApiVersion(spec.key, spec.first_version, spec.last_version) for spec in SERVED]
        return ApiVersionsResponse(api_keys=served)

    async def _on_create_topics(self, request: Any) -> CreateTopicsResponse:
        for topic in request.topics:
            for partition in range(topic.num_partitions):
                await self._open(topic.name, partition)
        return CreateTopicsResponse(
            topics=[CreatableTopicResult(topic.name) for topic in request.topics]
        )

    async def _on_init_producer_id(self, _: Any) -> InitProducerIdResponse:
        number = int.from_bytes(self._ports.random.token(4))
        return InitProducerIdResponse(producer_id=number, producer_epoch=0)

    async def _on_produce(self, request: Any) -> ProduceResponse | None:
        topic = request.topic_data[0]
        data = topic.partition_data[0]
        log = self._logs[topic.name, data.index]
        try:
            code, base_offset = await self._append(log, bytearray(data.records))
        except OSError as error:
            if "believes the second fsync" not in self._bugs:
                self._ports.process.abort(str(error))
            raise
        if request.acks == 0:
            return None
        found = PartitionProduceResponse(index=data.index, error_code=code, base_offset=base_offset)
        return ProduceResponse(
            responses=[TopicProduceResponse(name=topic.name, partition_responses=[found])]
        )

    async def _append(self, log: ToyLog, records: bytearray) -> tuple[ErrorCode, int]:
        code, base_offset = log.append(records)
        if "answers before fsync" not in self._bugs and log.synced_end < log.end:
            end = log.end
            await log.file.fsync()
            log.synced_end = max(log.synced_end, end)
        return code, base_offset

    async def _on_list_offsets(self, request: Any) -> ListOffsetsResponse:
        topic = request.topics[0]
        asked = topic.partitions[0]
        log = self._logs[topic.name, asked.partition_index]
        found = ListOffsetsPartitionResponse(
            asked.partition_index, offset=0 if asked.timestamp == -2 else self._committed(log)
        )
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(topic.name, [found])])

    async def _on_fetch(self, request: Any) -> FetchResponse:
        await self._ports.clock.sleep(min(request.max_wait_ms, 20))
        responses = []
        for topic in request.topics:
            found = []
            for asked in topic.partitions:
                log = self._logs[topic.topic, asked.partition]
                committed = self._committed(log)
                end = log.end if "shows what is not committed" in self._bugs else committed
                code = ErrorCode.NONE
                if asked.fetch_offset > end:
                    code = ErrorCode.OFFSET_OUT_OF_RANGE
                records = log.read(asked.fetch_offset, end)
                found.append(
                    PartitionData(
                        partition_index=asked.partition,
                        error_code=code,
                        high_watermark=committed,
                        log_start_offset=0,
                        records=records,
                    )
                )
            responses.append(FetchableTopicResponse(topic=topic.topic, partitions=found))
        return FetchResponse(responses=responses)

    def _committed(self, log: ToyLog) -> int:
        return log.end if "answers before fsync" in self._bugs else log.synced_end


async def _ready(register: Any) -> None:
    ready = asyncio.Event()
    register(ready.set)
    await ready.wait()
    register(None)


async def _read(socket: Socket, count: int) -> bytes:
    content = b""
    while len(content) < count:
        await _ready(socket.on_readable)
        buffer = memoryview(bytearray(count - len(content)))
        size = socket.recv_into(buffer)
        if size == 0:
            raise EOFError
        content += buffer[:size]
    return content


async def _write(socket: Socket, content: bytes) -> None:
    while content:
        try:
            content = content[socket.sendmsg([content]) :]
        except BlockingIOError:
            await _ready(socket.on_writable)
