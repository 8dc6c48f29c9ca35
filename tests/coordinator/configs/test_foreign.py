"""Settings that operators bring along from Kafka: plug-ins, later features, KRaft."""

from __future__ import annotations

import pytest

from ottla.coordinator.configs.broker_configs import ConfigError, parse_broker_config

COMBINED = {
    "node.id": "1",
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
    "log.dirs": "/data",
}


@pytest.mark.parametrize(
    "quorum",
    [
        {},
        {"controller.quorum.voters": "1@localhost:9093"},
        {"controller.quorum.bootstrap.servers": "localhost:9093"},
    ],
)
def test_a_combined_process_is_a_cluster_of_its_own_as_in_kafka(quorum: dict[str, str]) -> None:
    """One process with both roles and itself as the only voter means the same in Kafka."""
    parsed = parse_broker_config({**COMBINED, **quorum})

    assert parsed.config.broker_id == 1
    assert [end.listener for end in parsed.config.listeners] == ["PLAINTEXT"]
    assert "process.roles has no effect here" in parsed.warnings


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"process.roles": "broker"}, "process.roles is broker"),
        ({"process.roles": "controller"}, "process.roles is controller"),
        ({"controller.quorum.voters": "1@a:9093,2@b:9093,3@c:9093"}, "names 3 voters"),
        ({"controller.quorum.voters": "2@b:9093"}, "another process, 2@b:9093"),
        ({"controller.quorum.bootstrap.servers": "a:9093,b:9093"}, "names 2 controllers"),
        ({"controller.quorum.bootstrap.servers": "b:9095"}, "another process, b:9095"),
    ],
)
def test_settings_that_would_make_another_cluster_are_refused(
    changed: dict[str, str], words: str
) -> None:
    """The broker would start alone and acknowledge records that exist on one machine only."""
    with pytest.raises(ConfigError) as raised:
        parse_broker_config({**COMBINED, **changed})

    (problem,) = raised.value.problems
    assert words in problem
    assert "zookeeper.connect" in problem


def test_voters_without_roles_are_refused_as_well() -> None:
    """A file of a KRaft broker whose roles are written elsewhere."""
    with pytest.raises(ConfigError, match=r"voters.*zookeeper\.connect"):
        parse_broker_config({"controller.quorum.voters": "1@a:9093,2@b:9093"})


def test_zookeeper_says_which_cluster_is_meant() -> None:
    """What is left over from KRaft then only warns: the brokers find each other."""
    parsed = parse_broker_config(
        {
            **COMBINED,
            "process.roles": "broker",
            "controller.quorum.voters": "1@a:9093,2@b:9093",
            "zookeeper.connect": "127.0.0.1:2181",
        }
    )

    assert "controller.quorum.voters has no effect here" in parsed.warnings


@pytest.mark.parametrize(
    "name",
    [
        "metric.reporters",
        "confluent.license.topic.replication.factor",
        "confluent.metrics.reporter.bootstrap.servers",
        "cruise.control.metrics.reporter.bootstrap.servers",
        "strimzi.authorization.anything",
        "client.quota.callback.static.produce",
        "share.coordinator.state.topic.min.isr",
        "group.streams.session.timeout.ms",
        "rsm.config.anything",
    ],
)
def test_plug_ins_and_missing_features_warn_once_each(name: str) -> None:
    """The broker starts without them, and its operator learns that they do nothing."""
    assert parse_broker_config({name: "1"}).warnings.count(f"{name} has no effect here") == 1


@pytest.mark.parametrize("name", ["confluence.x", "log.retention.hour", "zk.connect", "shares"])
def test_other_unknown_names_are_still_refused(name: str) -> None:
    """A slip of the pen in a setting that matters must not pass for a plug-in."""
    with pytest.raises(ConfigError, match="there is no broker setting"):
        parse_broker_config({name: "1"})
