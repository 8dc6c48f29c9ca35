"""A test-suite of a program that logs in: users, access rules, and how they are taken away.

pip install '.[security]' confluent-kafka pytest
pytest examples/testing
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import confluent_kafka
import pytest

import ottla
from ottla.pytest_plugin import cluster_fixture

if TYPE_CHECKING:
    from collections.abc import Iterator

secured = cluster_fixture(
    1,
    scope="module",
    security="sasl_ssl",
    users={"shop": "shop-password", "report": "report-password"},
    acls=[
        ottla.Acl("shop", "write,describe", topic="orders"),
        ottla.Acl("report", "read", topic="orders", group="report"),
    ],
)

# ---- the program ----


def place_order(settings: dict[str, Any], order: bytes) -> str:
    """Return "placed", or the name of the error."""
    outcome: list[str] = []
    producer = confluent_kafka.Producer({**settings, "message.timeout.ms": 10_000})
    producer.produce(
        "orders", order, on_delivery=lambda error, _: outcome.append(error.name() if error else "")
    )
    producer.flush(30)
    return (outcome[0] if outcome else "not sent") or "placed"


# ---- its tests ----


@pytest.fixture(scope="module", autouse=True)
def orders(secured: ottla.Cluster) -> None:
    """The topic of all these tests."""
    secured.create_topic("orders")


@pytest.fixture
def cluster(secured: ottla.Cluster) -> Iterator[ottla.Cluster]:
    """The cluster; what a test took away is given back after it."""
    yield secured
    secured.faults.clear()


def test_the_shop_places_orders(cluster: ottla.Cluster) -> None:
    assert place_order(cluster.client_settings("confluent", user="shop"), b"tea") == "placed"


def test_the_report_may_only_read(cluster: ottla.Cluster) -> None:
    settings = cluster.client_settings("confluent", user="report")
    assert place_order(settings, b"tea") == "TOPIC_AUTHORIZATION_FAILED"


def test_orders_are_refused_once_the_rules_are_gone(cluster: ottla.Cluster) -> None:
    settings = cluster.client_settings("confluent", user="shop")
    cluster.faults.remove_acls("shop")
    assert place_order(settings, b"tea") == "TOPIC_AUTHORIZATION_FAILED"
