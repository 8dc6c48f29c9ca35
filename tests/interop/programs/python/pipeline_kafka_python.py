"""A consume-transform-produce pipeline, kafka-python 3."""

from __future__ import annotations

import logging
import os
import threading
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata

from tests.interop.programs.python.pipelining import Leaving, Orders, Positions, place_of, tell

# It forgets the request that it wanted to send to an unreachable coordinator, and then waits for
# ever: in production a supervisor has to watch for this.
HUNG_S = 15.0


class Pipeline:
    def __init__(self, orders: Orders) -> None:
        self._orders = orders
        self._positions = Positions()
        self._producer: Any = KafkaProducer(
            bootstrap_servers=orders.address.split(","),
            transactional_id=orders.transactional_id,
            transaction_timeout_ms=orders.transaction_timeout_ms,
            linger_ms=5,
        )
        self._producer.init_transactions()
        self._consumer: Any = KafkaConsumer(
            orders.source,
            bootstrap_servers=orders.address.split(","),
            group_id=orders.group,
            isolation_level="read_committed",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            session_timeout_ms=orders.session_ms,
            heartbeat_interval_ms=500,
            max_poll_records=orders.batch,
        )
        # What it learns of a topic after it has joined makes it join again; if a poll ends while
        # it does, it never takes what it is given.
        self._consumer.partitions_for_topic(orders.source)

    def step(self) -> None:
        """Read a batch and carry it over."""
        found = self._consumer.poll(timeout_ms=500)
        records = [
            (where, record)
            for where, several in found.items()
            for record in several
            if self._positions.is_new(where, record.offset)
        ]
        if not records:
            return
        watch = threading.Timer(HUNG_S, self._give_up)
        watch.start()
        try:
            self._carry(records)
        except KafkaError as error:
            tell("aborting", text=repr(error))
            # Raises where nothing but a new producer helps.
            self._producer.abort_transaction()
            self._rewind()
        else:
            tell("committed", count=len(records))
        finally:
            watch.cancel()

    def _give_up(self) -> None:
        tell("hung")
        os._exit(1)

    def _carry(self, records: list[tuple[Any, Any]]) -> None:
        self._producer.begin_transaction()
        sent = []
        ends: dict[Any, Any] = {}
        for where, record in records:
            partition = place_of(record.value, self._orders.target_partitions)
            sent.append(self._producer.send(self._orders.target, record.value, partition=partition))
            ends[where] = OffsetAndMetadata(record.offset + 1, "", -1)
        self._producer.send_offsets_to_transaction(ends, self._consumer.group_metadata())
        self._producer.commit_transaction()
        for one in sent:
            one.get(timeout=0)

    def _rewind(self) -> None:
        self._positions.forget()
        for where in self._consumer.assignment():
            self._consumer.seek(
                TopicPartition(*where), self._consumer.committed(where, timeout_ms=60_000) or 0
            )

    def close(self) -> None:
        self._consumer.close()
        self._producer.close()


def main() -> None:
    # Standard error is shown when a test fails.
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(name)s %(message)s")
    leaving = Leaving()
    pipeline = Pipeline(Orders())
    tell("ready")
    while not leaving.is_set:
        pipeline.step()
    pipeline.close()
    tell("left")


main()
