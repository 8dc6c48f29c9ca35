"""Fetch 0-3: records for consumers of the formats before record batches.

0 and 1 are answered in format 0, 2 and 3 in format 1; what a log holds in that format or an older
one is sent as it is. Before 3 the last message may be cut off at the limit of its partition, also
if it is the first: the consumer learns from its size that it has to ask for more. Conversion takes
place in a worker, step by step, and answers have a bounded size (conversions.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.engine.deferred import DeferredAnswer
from ottla.broker.handlers.data import fetch
from ottla.broker.partitions.conversions import ANSWER_ENOUGH_BYTES
from ottla.protocol.errors import ErrorCode
from ottla.protocol.message_sets.lowering import Lowering, LoweringPlan
from ottla.protocol.messages.fetch import FetchResponse
from ottla.protocol.ports import FileRegion

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any

    from ottla.broker.engine.context import RequestContext
    from ottla.broker.handlers.services import Services
    from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, PartitionData

# The first versions with format 1, and with a limit for the whole answer (KIP-74).
_TIMESTAMP_VERSION = 2
_LIMIT_VERSION = 3


def handle(
    services: Services, context: RequestContext, request: FetchRequest
) -> DeferredAnswer[Any]:
    """Read as for later versions, then convert what was read."""
    return _OldFetch(services, context, request).read()


class _OldFetch:
    """One request under way."""

    def __init__(self, services: Services, context: RequestContext, request: FetchRequest) -> None:
        self._services = services
        self._context = context
        self._request = request
        self._wanted: dict[tuple[str, int], FetchPartition] = {}
        self._limits: dict[tuple[str, int], int] = {}
        for topic in request.topics:
            for wanted in topic.partitions:
                place = topic.topic, wanted.partition
                self._wanted[place] = wanted
                self._limits[place] = wanted.partition_max_bytes
                partition = services.partitions.find(*place)
                if partition is not None and wanted.partition_max_bytes >= 0:
                    # A batch is larger than the messages in it, of which the first may fit.
                    batch_bytes = partition.settings.append_rules.max_message_bytes
                    wanted.partition_max_bytes = max(wanted.partition_max_bytes, batch_bytes)

    def read(self) -> DeferredAnswer[Any]:
        """The answer, as work to be carried out once there is enough to read."""
        later: DeferredAnswer[Any] = DeferredAnswer()
        outcome = fetch.handle(self._services, self._context, self._request)
        if isinstance(outcome, DeferredAnswer):
            outcome.then(lambda response: later.complete(self._convert(response)))
        elif isinstance(outcome, FetchResponse):
            later.complete(self._convert(outcome))
        else:
            later.complete(self._warm_then_convert(outcome))
        return later

    async def _warm_then_convert(self, reading: Coroutine[Any, Any, FetchResponse]) -> Any:
        return await self._convert(await reading)

    async def _convert(self, response: FetchResponse) -> FetchResponse | DeferredAnswer[Any]:
        conversions = self._services.reads.conversions
        parts = [(one.topic, part) for one in response.responses for part in one.partitions]
        has_passed, has_content = False, not parts
        # The first of them gets what there is, so it is not always the same one.
        start = self._context.correlation_id % len(parts) if parts else 0
        if self._context.api_version >= _LIMIT_VERSION:
            start = 0
        left_bytes, enough_bytes = max(0, self._request.max_bytes), ANSWER_ENOUGH_BYTES
        async with conversions.turns:
            for topic, part in (*parts[start:], *parts[:start]):
                has_passed |= await self._lower(topic, part, (left_bytes, enough_bytes))
                size_bytes = len(part.records or b"")
                left_bytes = max(0, left_bytes - size_bytes)
                enough_bytes = max(0, enough_bytes - size_bytes)
                has_content |= size_bytes > 0 or part.error_code != ErrorCode.NONE
        if has_passed and not has_content:
            # There were only markers of transactions: wait for what comes behind them.
            return self.read()
        return response

    async def _lower(self, topic: str, part: PartitionData, room: tuple[int, int]) -> bool:
        """Convert a partition's records; whether there were markers only, which are passed.

        ``room``: how many bytes there may be, and how many are enough."""
        left_bytes, enough_bytes = room
        services, place = self._services, (topic, part.partition_index)
        region, part.records = part.records, b""
        partition = services.partitions.find(*place)
        if part.error_code != ErrorCode.NONE or partition is None:
            return False
        if not partition.settings.lowers_formats:
            _fail(part, ErrorCode.UNSUPPORTED_VERSION)
            return False
        if not isinstance(region, FileRegion) or not left_bytes or not enough_bytes:
            return False
        version, wanted = self._context.api_version, self._wanted[place]
        plan = LoweringPlan(
            magic=0 if version < _TIMESTAMP_VERSION else 1,
            from_offset=wanted.fetch_offset,
            max_bytes=min(self._limits[place], left_bytes),
            may_cut=version < _LIMIT_VERSION,
            enough_bytes=enough_bytes,
        )
        file, start = region.file, region.position
        lowering = Lowering(
            lambda position, count: file.pread(count, start + position), region.size_bytes, plan
        )
        try:
            await services.reads.conversions.run(lowering)
        except OSError:
            _fail(part, ErrorCode.UNKNOWN_SERVER_ERROR)
            return False
        if lowering.failure is not None:
            _fail(part, lowering.failure.code)
            return False
        part.records = lowering.data
        partition.traffic.lowered_count += lowering.record_count
        if part.records or lowering.next_offset <= wanted.fetch_offset:
            return False
        wanted.fetch_offset = lowering.next_offset
        return True


def _fail(part: PartitionData, error: ErrorCode) -> None:
    part.error_code = error
    part.high_watermark = part.last_stable_offset = part.log_start_offset = -1
