"""A consume-transform-produce pipeline, aiokafka."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import KafkaError

from tests.interop.programs.python.pipelining import Leaving, Orders, Positions, place_of, tell


class Pipeline:
    def __init__(self, orders: Orders) -> None:
        self._orders = orders
        self._positions = Positions()
        self._producer: Any = AIOKafkaProducer(
            bootstrap_servers=orders.address,
            transactional_id=orders.transactional_id,
            transaction_timeout_ms=orders.transaction_timeout_ms,
            linger_ms=5,
        )
        self._consumer: Any = AIOKafkaConsumer(
            orders.source,
            bootstrap_servers=orders.address,
            group_id=orders.group,
            isolation_level="read_committed",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            session_timeout_ms=orders.session_ms,
            heartbeat_interval_ms=500,
        )

    async def start(self) -> None:
        await self._producer.start()
        await self._consumer.start()

    async def step(self) -> None:
        """Read up to a batch and carry it over."""
        found = await self._consumer.getmany(timeout_ms=500, max_records=self._orders.batch)
        records = [
            (where, record)
            for where, several in found.items()
            for record in several
            if self._positions.is_new(where, record.offset)
        ]
        if not records:
            return
        try:
            async with self._producer.transaction():
                await self._carry(records)
        except KafkaError as error:
            # The next transaction fails at once where nothing but a new producer helps.
            tell("aborting", text=repr(error))
            await self._rewind()
        else:
            tell("committed", count=len(records))

    async def _carry(self, records: list[tuple[Any, Any]]) -> None:
        sent = []
        ends: dict[Any, int] = {}
        for where, record in records:
            partition = place_of(record.value, self._orders.target_partitions)
            sent.append(
                await self._producer.send(self._orders.target, record.value, partition=partition)
            )
            ends[where] = record.offset + 1
        await asyncio.gather(*sent)
        await self._producer.send_offsets_to_transaction(ends, self._orders.group)

    async def _rewind(self) -> None:
        self._positions.forget()
        for where in self._consumer.assignment():
            self._consumer.seek(where, await self._consumer.committed(where) or 0)

    async def close(self) -> None:
        await self._consumer.stop()
        await self._producer.stop()


async def main() -> None:
    # Standard error is shown when a test fails.
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(name)s %(message)s")
    leaving = Leaving()
    pipeline = Pipeline(Orders())
    await pipeline.start()
    tell("ready")
    while not leaving.is_set:
        await pipeline.step()
    await pipeline.close()
    tell("left")


asyncio.run(main())
