"""Tests of the setting that binds principals to broker ids."""

from __future__ import annotations

import pytest

from ottla.coordinator.configs.broker_configs import ConfigError, parse_broker_config
from ottla.coordinator.configs.broker_principals import may_speak_as

CERTIFICATE = "User:CN=broker-{id},O=Example"


def test_a_principal_speaks_as_the_broker_that_it_names() -> None:
    """Not as one whose id begins or ends with the same digits, nor in another case."""
    assert may_speak_as("User:broker-{id}", "User:broker-3", 3)
    for principal in ("User:broker-2", "User:broker-33", "User:Broker-3", "User:broker-{id}"):
        assert not may_speak_as("User:broker-{id}", principal, 3)
    assert may_speak_as(CERTIFICATE, "User:CN=broker-3,O=Example", 3)


def test_several_forms_count_while_the_brokers_change() -> None:
    """From certificates to passwords, say, broker by broker."""
    both = f"{CERTIFICATE}; User:broker-{{id}}"

    assert may_speak_as(both, "User:CN=broker-1,O=Example", 1)
    assert may_speak_as(both, "User:broker-1", 1)
    assert not may_speak_as(both, "User:broker-1", 2)


def test_without_the_setting_nothing_is_bound() -> None:
    """As in Kafka: ClusterAction is enough."""
    assert may_speak_as("", "User:ANONYMOUS", 7)


@pytest.mark.parametrize("value", ["User:broker", "broker-{id}", "User:a-{id};User:b"])
def test_a_value_without_the_place_of_the_id_is_refused(value: str) -> None:
    """It would let one principal speak as every broker, or none."""
    settings = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": "/d"}
    with pytest.raises(ConfigError, match=r"ottla\.broker\.principals"):
        parse_broker_config({**settings, "ottla.broker.principals": value})
