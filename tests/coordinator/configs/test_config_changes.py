"""Changes of topic and broker settings, accepted whole or refused with a sentence."""

from __future__ import annotations

import pytest

from ottla.coordinator.configs.config_changes import (
    ConfigAlteration,
    change_broker_configs,
    change_topic_configs,
    check_broker_configs,
    check_topic_configs,
)
from ottla.protocol.configs import ConfigOperation
from ottla.protocol.errors import ErrorCode, KafkaError

SET, DELETE, APPEND, SUBTRACT = ConfigOperation


def test_operations_change_what_they_name_and_nothing_else() -> None:
    """KIP-339: the point of the incremental form is that the rest stays."""
    current = {"retention.ms": "1", "segment.ms": "2", "cleanup.policy": "delete"}

    changed = change_topic_configs(
        current,
        [
            ConfigAlteration("retention.ms", SET, "5"),
            ConfigAlteration("segment.ms", DELETE, None),
            ConfigAlteration("cleanup.policy", APPEND, "compact, delete"),
        ],
    )

    assert changed == {"retention.ms": "5", "cleanup.policy": "delete,compact"}
    assert current["retention.ms"] == "1"


def test_lists_start_from_their_default() -> None:
    """Appending to a policy that is not set must not lose the default one."""
    append = [ConfigAlteration("cleanup.policy", APPEND, "compact")]
    subtract = [ConfigAlteration("cleanup.policy", SUBTRACT, "delete")]

    assert change_topic_configs({}, append) == {"cleanup.policy": "delete,compact"}
    assert change_topic_configs({}, subtract) == {"cleanup.policy": ""}
    assert change_topic_configs({"cleanup.policy": "compact,delete"}, subtract) == {
        "cleanup.policy": "compact"
    }


def test_deleting_what_is_not_set_is_fine() -> None:
    """A repeated request must have the same outcome; names that are unknown can go, too."""
    assert change_topic_configs({"old": "1"}, [ConfigAlteration("old", DELETE, None)]) == {}
    assert change_topic_configs({}, [ConfigAlteration("retention.ms", DELETE, None)]) == {}


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (ConfigAlteration("retention.mss", SET, "5"), ErrorCode.INVALID_CONFIG),
        (ConfigAlteration("retention.ms", SET, "soon"), ErrorCode.INVALID_CONFIG),
        (ConfigAlteration("retention.ms", SET, None), ErrorCode.INVALID_REQUEST),
        (ConfigAlteration("retention.ms", APPEND, "5"), ErrorCode.INVALID_CONFIG),
        (ConfigAlteration("cleanup.policy", APPEND, "melt"), ErrorCode.INVALID_CONFIG),
        (ConfigAlteration("cleanup.policy", SUBTRACT, None), ErrorCode.INVALID_REQUEST),
        (ConfigAlteration("cleanup.policy", 4, "delete"), ErrorCode.INVALID_REQUEST),
        (ConfigAlteration("remote.storage.enable", SET, "true"), ErrorCode.INVALID_CONFIG),
        (ConfigAlteration("max.compaction.lag.ms", SET, "4"), ErrorCode.INVALID_CONFIG),
    ],
)
def test_refused_changes_of_topics(change: ConfigAlteration, code: ErrorCode) -> None:
    """Code and sentence reach the operator who typed the command."""
    with pytest.raises(KafkaError) as raised:
        change_topic_configs({"min.compaction.lag.ms": "5"}, [change])

    assert raised.value.code is code
    assert change.name in raised.value.message or "operation" in raised.value.message


def test_one_name_twice_in_a_request_is_refused() -> None:
    """The order of the two changes would decide by chance."""
    changes = [
        ConfigAlteration("retention.ms", SET, "5"),
        ConfigAlteration("retention.ms", DELETE, None),
    ]

    with pytest.raises(KafkaError) as raised:
        change_topic_configs({}, changes)

    assert raised.value.code is ErrorCode.INVALID_REQUEST


def test_old_broken_values_do_not_block_other_changes() -> None:
    """An operator can repair broken values step by step."""
    current = {"min.compaction.lag.ms": "x", "max.compaction.lag.ms": "3", "no.such": "1"}

    changed = change_topic_configs(current, [ConfigAlteration("retention.ms", SET, "5")])

    assert changed == {**current, "retention.ms": "5"}


def test_the_whole_set_is_checked_for_create_and_alter() -> None:
    """CreateTopics and the older AlterConfigs bring everything at once."""
    assert check_topic_configs({"retention.ms": "5"}) == {"retention.ms": "5"}
    for bad in ({"retention.ms": "x"}, {"nothing": "1"}, {"remote.storage.enable": "true"}):
        with pytest.raises(KafkaError) as raised:
            check_topic_configs(bad)
        assert raised.value.code is ErrorCode.INVALID_CONFIG
    with pytest.raises(KafkaError) as raised:
        check_topic_configs({"retention.ms": None})
    assert raised.value.code is ErrorCode.INVALID_REQUEST


def test_brokers_take_dynamic_settings_only() -> None:
    """KIP-226: a setting that is read once at the start must not seem to change."""
    change = [ConfigAlteration("num.io.threads", SET, "5")]

    assert change_broker_configs({}, change, for_one_broker=False) == {"num.io.threads": "5"}
    assert check_broker_configs({"num.io.threads": "5"}, for_one_broker=True)
    with pytest.raises(KafkaError) as raised:
        check_broker_configs({"broker.id": "5"}, for_one_broker=True)
    assert raised.value.code is ErrorCode.INVALID_REQUEST


def test_addresses_belong_to_single_brokers() -> None:
    """One advertised address for all brokers would send every client to one of them."""
    values = {"advertised.listeners": "PLAINTEXT://h:1"}

    assert check_broker_configs(values, for_one_broker=True) == values
    with pytest.raises(KafkaError) as raised:
        check_broker_configs(values, for_one_broker=False)
    assert raised.value.code is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("name", ["num.io.thread", "retention.ms"])
def test_unknown_settings_of_brokers_are_kept(name: str) -> None:
    """They may be a plug-in's, or those of a broker of a later version."""
    changed = change_broker_configs({}, [ConfigAlteration(name, SET, "5")], for_one_broker=True)

    assert changed == {name: "5"}
    assert check_broker_configs({name: "5"}, for_one_broker=False) == {name: "5"}


def test_a_bad_value_of_a_broker_is_an_invalid_request() -> None:
    """Kafka's code for brokers; for topics it is INVALID_CONFIG."""
    for name, value in (("log.cleaner.threads", "x"), ("num.io.threads", "0")):
        with pytest.raises(KafkaError, match=name) as raised:
            change_broker_configs({}, [ConfigAlteration(name, SET, value)], for_one_broker=True)
        assert raised.value.code is ErrorCode.INVALID_REQUEST
        with pytest.raises(KafkaError) as checked:
            check_broker_configs({name: value}, for_one_broker=True)
        assert checked.value.code is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    "name",
    [
        "ssl.key.password",
        "listener.name.external.ssl.keystore.password",
        "listener.name.external.scram-sha-256.sasl.jaas.config",
    ],
)
def test_a_password_is_not_stored_in_the_clear(name: str) -> None:
    """Kafka refuses it too without a secret to encrypt it with; one of before can be removed."""
    change = [ConfigAlteration(name, SET, "hunter2")]
    with pytest.raises(KafkaError, match="properties file") as raised:
        change_broker_configs({}, change, for_one_broker=True)
    assert raised.value.code is ErrorCode.INVALID_REQUEST
    assert "hunter2" not in str(raised.value)
    with pytest.raises(KafkaError, match="properties file"):
        check_broker_configs({name: "hunter2"}, for_one_broker=True)
    removal = [ConfigAlteration(name, DELETE, None)]
    assert change_broker_configs({name: "hunter2"}, removal, for_one_broker=True) == {}


@pytest.mark.parametrize(
    "name",
    [
        "listener.name.sasl_ssl.ssl.principal.mapping.rules",
        "listener.name.sasl_ssl.connections.max.reauth.ms",
        "listener.name.sasl_ssl.oauthbearer.sasl.oauthbearer.jwks.endpoint.url",
        "listener.name.x.super.users",
    ],
)
def test_what_cannot_change_while_the_broker_runs_cannot_change_for_one_listener(name: str) -> None:
    """Who may alter settings would make certificates those of a super user by other rules. What
    another tool has put there can be removed."""
    with pytest.raises(KafkaError, match="cannot be changed while the broker runs"):
        check_broker_configs({name: "RULE:.*/admin/"}, for_one_broker=True)
    change = ConfigAlteration(name, SET, "RULE:.*/admin/")
    with pytest.raises(KafkaError, match="cannot be changed while the broker runs"):
        change_broker_configs({}, [change], for_one_broker=True)

    removal = ConfigAlteration(name, DELETE, None)
    assert change_broker_configs({name: "x"}, [removal], for_one_broker=True) == {}


def test_a_listeners_own_setting_of_single_brokers_is_not_for_all() -> None:
    """As in Kafka: brokers have key stores of their own."""
    name = "listener.name.ssl.ssl.keystore.location"
    assert check_broker_configs({name: "/x"}, for_one_broker=True) == {name: "/x"}
    with pytest.raises(KafkaError, match="single brokers only"):
        check_broker_configs({name: "/x"}, for_one_broker=False)
