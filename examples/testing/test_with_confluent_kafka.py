"""A test-suite of a program that uses confluent-kafka: blocking calls, plain functions.

    pip install ottla confluent-kafka pytest
    pytest examples/testing

The fixtures come with Ottla; there is nothing to import and nothing to configure.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, Producer

if TYPE_CHECKING:
    import ottla

# ---- the program ----


def bill(orders: Consumer, invoices: Producer, topic: str) -> bool:
    """Turn the next order into an invoice, exactly once per order. False if there is none."""
    order = orders.poll(10.0)
    if order is None or order.error() is not None:
        return False
    found = json.loads(order.value())
    total = sum(price * count for price, count in found["items"])
    invoices.produce(topic, json.dumps({"order": found["id"], "total": total}), key=order.key())
    if invoices.flush(20) != 0:
        raise TimeoutError("the invoice was not taken")
    orders.commit(message=order, asynchronous=False)
    return True


# ---- its tests ----


def make_producer(bootstrap_servers: str) -> Producer:
    return Producer({"bootstrap.servers": bootstrap_servers, "enable.idempotence": True})


def read_all(config: dict[str, str], topic: str, count: int) -> list[dict[str, object]]:
    consumer = Consumer({**config, "group.id": "reader"})
    consumer.subscribe([topic])
    found = [json.loads(message.value()) for message in consumer.consume(count, timeout=20)]
    consumer.close()
    return found


def test_an_order_becomes_an_invoice(
    ottla_broker: ottla.Cluster, ottla_topic: str, ottla_client_config: dict[str, str]
) -> None:
    producer = make_producer(ottla_broker.bootstrap_servers)
    producer.produce(ottla_topic, json.dumps({"id": 7, "items": [[5, 2], [1, 1]]}))
    producer.flush(20)
    orders = Consumer({**ottla_client_config, "enable.auto.commit": False})
    orders.subscribe([ottla_topic])

    assert bill(orders, producer, f"{ottla_topic}-invoices")
    orders.close()

    invoices = read_all(ottla_client_config, f"{ottla_topic}-invoices", 1)
    assert invoices == [{"order": 7, "total": 11}]


def test_a_lost_acknowledgement_makes_no_second_invoice(
    ottla_cluster: ottla.Cluster, ottla_topic: str, ottla_client_config: dict[str, str]
) -> None:
    """The broker stores the invoice, and its answer gets lost: the client sends it once more."""
    producer = make_producer(ottla_cluster.bootstrap_servers)
    producer.produce(ottla_topic, json.dumps({"id": 8, "items": [[3, 3]]}))
    producer.flush(20)
    ottla_cluster.create_topic("invoices")
    orders = Consumer({**ottla_client_config, "enable.auto.commit": False})
    orders.subscribe([ottla_topic])
    ottla_cluster.faults.lose_reply("Produce")

    assert bill(orders, producer, "invoices")
    orders.close()
    producer.produce("invoices", json.dumps("the end"))
    producer.flush(20)

    assert read_all(ottla_client_config, "invoices", 2) == [{"order": 8, "total": 9}, "the end"]


def test_orders_survive_the_death_of_the_leader(
    ottla_cluster: ottla.Cluster, ottla_topic: str, ottla_client_config: dict[str, str]
) -> None:
    producer = make_producer(ottla_cluster.bootstrap_servers)
    producer.produce(ottla_topic, json.dumps({"id": 9, "items": [[1, 1]]}))
    producer.flush(20)

    ottla_cluster.faults.kill(ottla_cluster.leader(ottla_topic))

    assert read_all(ottla_client_config, ottla_topic, 1) == [{"id": 9, "items": [[1, 1]]}]
