"""Which client is asked for which metrics, and when it may push."""

from __future__ import annotations

from functools import partial

import pytest

from ottla.broker.telemetry.demands import ClientIdentity, demand_of
from ottla.broker.telemetry.instances import INSTANCES_MAX, ClientInstance, ClientInstances
from ottla.coordinator.configs.client_metrics import metrics_subscription
from ottla.protocol.errors import ErrorCode, KafkaError

CLIENT = ClientIdentity(bytes([7] * 16), "shop-1", "librdkafka", "2.16.0", "127.0.0.1", "5000")


def refused(call: object) -> ErrorCode:
    """The error that the call ends with; NONE if it succeeds."""
    assert callable(call)
    try:
        call()
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE


def test_all_patterns_of_a_subscription_must_match_the_whole_text() -> None:
    """Kafka matches whole texts: a client id that only begins alike is another client."""
    both = {"metrics": "a", "match": "client_id=shop-.*,client_software_name=librdkafka"}
    part = {"metrics": "b", "match": "client_id=shop"}
    other = {"metrics": "c", "match": "client_software_version=1.*"}
    port = {"metrics": "d", "match": "client_source_port=5000"}

    found = demand_of([metrics_subscription(one) for one in (both, part, other, port)], CLIENT)

    assert found.metrics == ("a", "d")


def test_the_shortest_interval_and_the_widest_demand_count() -> None:
    """Two subscriptions of one client are one push."""
    first = {"metrics": "a,b", "interval.ms": "5000"}
    second = {"metrics": "*", "interval.ms": "9000"}

    found = demand_of([metrics_subscription(one) for one in (first, second)], CLIENT)

    assert (found.metrics, found.interval_ms) == (("*",), 5000)


def test_the_subscription_id_depends_on_metrics_and_client() -> None:
    """A client that turns to another broker must not have to ask again."""
    one = [metrics_subscription({"metrics": "a"})]
    other = [metrics_subscription({"metrics": "b"})]
    neighbour = CLIENT._replace(instance_id=bytes([8] * 16))

    ids = [demand_of(*pair).subscription_id for pair in ((one, CLIENT), (one, CLIENT))]
    others = [demand_of(*pair).subscription_id for pair in ((other, CLIENT), (one, neighbour))]

    assert ids[0] == ids[1]
    assert len({ids[0], *others}) == 3
    assert all(-(1 << 31) <= number < 1 << 31 for number in (*ids, *others))


def instance() -> ClientInstance:
    """A client that is to push every second."""
    subscription = metrics_subscription({"metrics": "a", "interval.ms": "1000"})
    return ClientInstance(CLIENT, demand_of([subscription], CLIENT), revision=1)


def test_a_client_that_asks_or_pushes_too_often_is_refused() -> None:
    """A broken client must not keep a broker busy; the first push may come at any time."""
    one = instance()
    number = one.demand.subscription_id

    def push_at(now_ms: float) -> ErrorCode:
        return refused(lambda: one.push(now_ms, number, terminating=False))

    asked = [refused(partial(one.ask, now)) for now in (0, 999)]
    pushed = [push_at(now) for now in (10, 11, 1009, 1010)]

    assert asked == [ErrorCode.NONE, ErrorCode.THROTTLING_QUOTA_EXCEEDED]
    assert pushed == [
        ErrorCode.NONE,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
        ErrorCode.NONE,
    ]


def test_a_client_whose_subscription_has_changed_asks_again_at_once() -> None:
    """Otherwise a change would take two intervals to arrive."""
    one = instance()
    one.ask(0)

    code = refused(lambda: one.push(5, one.demand.subscription_id + 1, terminating=False))
    one.last_error = code

    assert code is ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    assert refused(lambda: one.ask(6)) is ErrorCode.NONE


def test_the_last_push_is_taken_early_and_is_the_last() -> None:
    """What a client measured before its end is what one looks for after an incident."""
    one = instance()
    number = one.demand.subscription_id
    one.ask(0)
    one.push(1, number, terminating=False)

    last = refused(lambda: one.push(2, number, terminating=True))
    after = refused(lambda: one.push(5000, number, terminating=False))

    assert (last, after) == (ErrorCode.NONE, ErrorCode.INVALID_REQUEST)


def test_clients_are_forgotten_after_three_intervals_and_at_the_bound() -> None:
    """Each restart of a client is a new instance: they would fill the memory."""
    gone: list[bytes] = []
    all_of_them = ClientInstances(gone.append)
    template = instance()
    for number in range(INSTANCES_MAX + 1):
        identity = CLIENT._replace(instance_id=number.to_bytes(16, "big"))
        one = ClientInstance(identity, template.demand, 1)
        one.ask(number)
        all_of_them.add(one)

    assert (len(all_of_them), gone) == (INSTANCES_MAX, [bytes(16)])
    all_of_them.expire(60_000 + INSTANCES_MAX - 1)
    assert len(all_of_them) == 1


@pytest.mark.parametrize(
    "values",
    [
        {"match": "client_id"},
        {"match": "user=me"},
        {"match": "client_id=("},
        {"interval.ms": "99"},
        {"interval.ms": "3600001"},
    ],
)
def test_subscriptions_that_make_no_sense_are_refused(values: dict[str, str]) -> None:
    """The administrator hears it, and not the log of each broker."""
    with pytest.raises(ValueError, match=r"match|legal values"):
        metrics_subscription(values)
