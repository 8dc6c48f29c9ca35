"""Errors for subscriptions to clients' metrics: tools tell them apart by Kafka's codes."""

from __future__ import annotations

import pytest

from ottla.coordinator.configs.client_metrics import ClientMetricsRules
from ottla.coordinator.configs.config_changes import ConfigAlteration
from ottla.protocol.configs import ConfigOperation
from ottla.protocol.errors import ErrorCode, KafkaError

# As ClientMetricsConfigs.validate and ConfigurationControlManager of Kafka 4 answer.
BAD = [
    ("interval", "1000", ErrorCode.INVALID_REQUEST),
    ("interval.ms", "99", ErrorCode.INVALID_REQUEST),
    ("interval.ms", "3600001", ErrorCode.INVALID_REQUEST),
    ("interval.ms", "-1", ErrorCode.INVALID_REQUEST),
    ("interval.ms", "soon", ErrorCode.INVALID_CONFIG),
    ("interval.ms", "2147483648", ErrorCode.INVALID_CONFIG),
    ("match", "client_id", ErrorCode.INVALID_CONFIG),
    ("match", "colour=red", ErrorCode.INVALID_CONFIG),
    ("match", "client_id=(", ErrorCode.INVALID_CONFIG),
]


@pytest.mark.parametrize(("name", "value", "code"), BAD)
def test_a_bad_subscription_gets_the_code_that_kafka_gives(
    name: str, value: str, code: ErrorCode
) -> None:
    """Both for the whole set and for one change of it."""
    with pytest.raises(KafkaError) as whole:
        ClientMetricsRules.check({name: value})
    with pytest.raises(KafkaError) as one:
        ClientMetricsRules.change({}, [ConfigAlteration(name, ConfigOperation.SET, value)])

    assert whole.value.code is code
    assert one.value.code is code
    assert name in one.value.message


def test_deleting_an_unknown_setting_changes_nothing() -> None:
    """Kafka accepts it: a tool deletes what it does not want, without asking what there is."""
    deletion = ConfigAlteration("interval", ConfigOperation.DELETE, None)

    assert ClientMetricsRules.change({"metrics": "*"}, [deletion]) == {"metrics": "*"}


def test_an_interval_at_its_bounds_is_taken() -> None:
    """100 ms and an hour are KIP-714's bounds, both included."""
    for text in ("100", "3600000", " 5000 "):
        assert ClientMetricsRules.check({"interval.ms": text})
