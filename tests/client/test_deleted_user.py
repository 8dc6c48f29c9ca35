"""A client whose user is deleted hears of it at once, with the reason."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

import ottla
from ottla import sync
from ottla.wire.errors import AuthenticationFailed

if TYPE_CHECKING:
    from collections.abc import Iterator

# A tenth of the time that a producer would try by default.
SOON_S = 12


@pytest.fixture
def cluster() -> Iterator[ottla.Cluster]:
    """One broker, and a user without limits."""
    with ottla.Cluster(security="sasl_plaintext", users={"alice": "alice-pw"}) as made:
        made.create_topic("t")
        yield made


def _producer(cluster: ottla.Cluster, **settings: Any) -> sync.Producer:
    security = cluster.client_settings(user="alice")
    return sync.Producer(str(security.pop("bootstrap.servers")), security=security, **settings)


@pytest.mark.parametrize("acks", ["all", 1])
def test_a_producer_whose_user_is_deleted_fails_at_once(cluster: ottla.Cluster, acks: Any) -> None:
    """It would try until the time for a delivery is over, two minutes by default."""
    with _producer(cluster, acks=acks) as producer:
        producer.send("t", b"1").result()
        cluster.faults.delete_user("alice")
        begun_s = time.monotonic()
        with pytest.raises(AuthenticationFailed, match="not accepted"):
            producer.send("t", b"2").result()
        assert time.monotonic() - begun_s < SOON_S


def test_a_new_topic_is_not_waited_for_either(cluster: ottla.Cluster) -> None:
    """The lookup of a topic has a time limit of its own."""
    cluster.create_topic("u")
    with _producer(cluster) as producer:
        producer.send("t", b"1").result()
        cluster.faults.delete_user("alice")
        begun_s = time.monotonic()
        with pytest.raises(AuthenticationFailed, match="not accepted"):
            producer.send("u", b"2").result()
        assert time.monotonic() - begun_s < SOON_S


def test_a_producer_that_waits_for_no_answer_hears_of_it_too(cluster: ottla.Cluster) -> None:
    """With ``acks=0`` only the end of the connection can tell it; what it had sent into it is lost
    with that, as such a producer accepts."""
    with _producer(cluster, acks=0) as producer:
        producer.send("t", b"1").result()
        cluster.faults.delete_user("alice")
        with pytest.raises(AuthenticationFailed, match="not accepted"):
            _send_on(producer)


def _send_on(producer: sync.Producer) -> None:
    deadline_s = time.monotonic() + SOON_S
    while time.monotonic() < deadline_s:
        producer.send("t", b"2").result()
        time.sleep(0.05)
