"""A consume-transform-produce pipeline, confluent-kafka (librdkafka)."""

from __future__ import annotations

from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from tests.interop.programs.python.pipelining import WAIT_S, Leaving, Orders, place_of, tell


class Pipeline:
    def __init__(self, orders: Orders) -> None:
        self._orders = orders
        self._read: list[Any] = []
        self._producer = Producer(
            {
                "bootstrap.servers": orders.address,
                "transactional.id": orders.transactional_id,
                "transaction.timeout.ms": orders.transaction_timeout_ms,
                "linger.ms": 5,
            }
        )
        self._consumer = Consumer(
            {
                "bootstrap.servers": orders.address,
                "group.id": orders.group,
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "session.timeout.ms": orders.session_ms,
                "heartbeat.interval.ms": 500,
                # The connection is rested for these two, whatever has happened to its broker.
                "reconnect.backoff.ms": 50,
                "reconnect.backoff.max.ms": 500,
            }
        )

    def start(self) -> None:
        self._producer.init_transactions(WAIT_S)
        self._consumer.subscribe(
            [self._orders.source],
            on_assign=self._on_change,
            on_revoke=self._on_change,
            on_lost=self._on_change,
        )

    def _on_change(self, _consumer: Any, _partitions: Any) -> None:
        # Their next owner begins where the group has committed.
        self._read.clear()

    def step(self) -> None:
        """Read up to a whole batch, or what there is, and carry it over."""
        while len(self._read) < self._orders.batch:
            found = self._consumer.consume(self._orders.batch - len(self._read), 0.5)
            self._read += [message for message in found if message.error() is None]
            if not found:
                break
        if not self._read:
            return
        try:
            self._carry()
            tell("committed", count=len(self._read))
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            tell("aborting", text=str(error.args[0]))
            self._producer.abort_transaction(WAIT_S)
            self._rewind()
        self._read.clear()

    def _carry(self) -> None:
        self._producer.begin_transaction()
        ends: dict[tuple[str, int], int] = {}
        for message in self._read:
            value = message.value()
            self._producer.produce(
                self._orders.target,
                value,
                partition=place_of(value, self._orders.target_partitions),
            )
            ends[(message.topic(), message.partition())] = message.offset() + 1
        self._producer.send_offsets_to_transaction(
            [TopicPartition(*where, end) for where, end in ends.items()],
            self._consumer.consumer_group_metadata(),
            WAIT_S,
        )
        self._producer.commit_transaction(WAIT_S)

    def _rewind(self) -> None:
        for where in self._consumer.committed(self._consumer.assignment(), WAIT_S):
            where.offset = max(where.offset, 0)
            self._consumer.seek(where)

    def close(self) -> None:
        self._consumer.close()


def main() -> None:
    leaving = Leaving()
    pipeline = Pipeline(Orders())
    pipeline.start()
    tell("ready")
    while not leaving.is_set:
        pipeline.step()
    pipeline.close()
    tell("left")


main()
