"""From an operator's texts to a broker's typed configuration."""

from __future__ import annotations

from dataclasses import fields

import pytest

from ottla.coordinator.configs.broker_configs import (
    BrokerConfig,
    ConfigError,
    broker_config,
    embedded_store_defaults,
    for_embedded_store,
    parse_broker_config,
)
from ottla.coordinator.configs.broker_configs_table import BROKER_CONFIGS
from ottla.coordinator.configs.configs import ConfigSources, TopicConfig, topic_config
from ottla.coordinator.configs.definitions import ConfigType


def _config(**texts: str) -> BrokerConfig:
    return parse_broker_config(
        {name.replace("_", "."): text for name, text in texts.items()}
    ).config


def test_nothing_set_is_a_broker_on_this_machine() -> None:
    """Bind to the loopback unless told otherwise; Kafka's defaults for the rest."""
    parsed = parse_broker_config({})

    assert parsed.warnings == ()
    assert [end.host for end in parsed.config.listeners] == ["127.0.0.1"]
    assert parsed.config.log_dirs == ("ottla-data",)
    assert parsed.config.broker_id == -1
    assert parsed.config.zookeeper_connect is None
    assert parsed.config.message_max_bytes == 1048588
    assert parsed.config.auto_create_topics_enable is True


def test_texts_become_typed_values() -> None:
    """Field names are the settings' own, with underscores."""
    config = _config(
        broker_id="7",
        num_partitions="12",
        delete_topic_enable="false",
        log_dirs="/a, /b",
        broker_rack="r1",
        zookeeper_connect="zk:2181/ottla",
        ottla_fetch_zero_copy="false",
        max_connections_per_ip_overrides="10.0.0.1:5, [::1]:9",
    )

    assert (config.broker_id, config.num_partitions, config.delete_topic_enable) == (7, 12, False)
    assert config.log_dirs == ("/a", "/b")
    assert (config.broker_rack, config.zookeeper_connect) == ("r1", "zk:2181/ottla")
    assert config.fetch_zero_copy is False
    assert config.max_connections_per_ip_overrides == {"10.0.0.1": 5, "::1": 9}


def test_annotations_agree_with_the_table() -> None:
    """The values come out of a table, so the type checker cannot see a wrong annotation."""
    expected = {
        ConfigType.BOOL: "bool",
        ConfigType.INT: "int",
        ConfigType.SHORT: "int",
        ConfigType.LONG: "int",
        ConfigType.DOUBLE: "float",
        ConfigType.LIST: "tuple[str, ...]",
        ConfigType.STRING: "str",
        ConfigType.PASSWORD: "str",
    }
    config = _config()
    for field in fields(BrokerConfig):
        name = field.name.replace("_", ".")
        definition = BROKER_CONFIGS.get(name) or BROKER_CONFIGS.get(f"ottla.{name}")
        if definition is None or name in ("listeners", "advertised.listeners", "log.dirs"):
            continue
        if name in ("inter.broker.listener.name", "max.connections.per.ip.overrides"):
            continue
        suffix = " | None" if definition.default is None else ""
        assert field.type == expected[definition.config_type] + suffix, field.name
        assert (getattr(config, field.name) is None) == (definition.default is None)
    topic = topic_config({}, ConfigSources())
    for field in fields(TopicConfig):
        assert type(getattr(topic, field.name)).__name__ == str(field.type).partition("[")[0]


@pytest.mark.parametrize("text", ["0.0.0.0:9404", "broker-1:0", "[::1]:9404"])
def test_where_figures_are_served_is_an_address(text: str) -> None:
    """One that cannot be is found at the start, not when the first probe fails."""
    assert _config(ottla_metrics_listener=text).metrics_listener == text


@pytest.mark.parametrize("text", ["9404", ":9404", "host", "host:65536", "http://host:9404"])
def test_what_is_no_address_is_refused(text: str) -> None:
    """With the name of the setting and what it wants."""
    with pytest.raises(ConfigError, match=r"ottla\.metrics\.listener.*host:port"):
        _config(ottla_metrics_listener=text)


def test_log_dir_counts_where_log_dirs_is_not_set() -> None:
    """The older name is still in many files."""
    assert _config(log_dir="/x").log_dirs == ("/x",)
    assert _config(log_dir="/x", log_dirs="/y").log_dirs == ("/y",)


def test_node_id_stands_for_broker_id() -> None:
    """A KRaft node's file gives the number under that name."""
    assert _config(node_id="4").broker_id == 4
    assert _config(node_id="4", broker_id="4").broker_id == 4
    with pytest.raises(ConfigError, match="one number"):
        _config(node_id="4", broker_id="5")


def test_unknown_names_are_errors_that_name_the_nearest() -> None:
    """A typing slip that passes in silence costs a night; this one costs a minute."""
    with pytest.raises(ConfigError) as raised:
        parse_broker_config({"log.retention.hour": "1", "completely.else.where": "2"})

    first, second = raised.value.problems
    assert "log.retention.hours" in first
    assert "completely.else.where" in second


def test_all_problems_are_reported_at_once() -> None:
    """An operator should not need five starts to find five mistakes."""
    with pytest.raises(ConfigError) as raised:
        parse_broker_config({"num.partitions": "0", "port": "9092", "broker.id": "x", "q": ""})

    assert len(raised.value.problems) == 4
    assert "listeners" in raised.value.problems[1]


@pytest.mark.parametrize(
    "settings",
    [
        {"log.retention.hours": "0"},
        {"remote.log.storage.system.enable": "true"},
        {"zookeeper.metadata.migration.enable": "true"},
        {"log.dirs": "/a,/a"},
        {"max.connections.per.ip.overrides": "10.0.0.1"},
        {"security.inter.broker.protocol": "TLS"},
    ],
)
def test_what_would_not_do_what_it_says_is_refused(settings: dict[str, str]) -> None:
    """Each of them would start a broker that behaves otherwise than its file."""
    with pytest.raises(ConfigError):
        parse_broker_config(settings)


def test_kafka_settings_without_effect_are_accepted_with_one_warning_each() -> None:
    """Existing files must start; their owner learns what is ignored."""
    parsed = parse_broker_config(
        {
            "ssl.provider": "SunJSSE",
            "process.roles": "broker,controller",
            "listener.name.internal.ssl.provider": "SunJSSE",
            "sasl.login.class": "x",
            "rsm.config.anything": "1",
            "num.io.threads": "4",
        }
    )

    assert len(parsed.warnings) == 5
    assert all("no effect" in warning for warning in parsed.warnings)
    assert not any("secret" in warning for warning in parsed.warnings)
    assert not any("num.io.threads" in warning for warning in parsed.warnings)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("zookeeper.ssl.crl.enable", "which is not done here"),
        ("zookeeper.ssl.ocsp.enable", "which is not done here"),
    ],
)
def test_protection_that_is_not_there_may_not_be_asked_for(name: str, reason: str) -> None:
    """An operator who believes that the nodes are protected does not look for a warning."""
    with pytest.raises(ConfigError, match=f"{name} cannot be true: .*{reason}"):
        parse_broker_config({name: "true"})
    assert parse_broker_config({name: "false"}).config.zookeeper_ssl_client_enable is False


def test_keys_for_zookeeper_are_in_pem_files() -> None:
    """Java's own formats are refused at the start, by name, and not when a session is wanted."""
    enabled = {"zookeeper.ssl.client.enable": "true"}
    store = "zookeeper.ssl.truststore"

    assert parse_broker_config({**enabled, f"{store}.location": "/x.pem"}).warnings == ()
    parse_broker_config({**enabled, f"{store}.location": "/x", f"{store}.type": "pem"})
    parse_broker_config({f"{store}.location": "/x.jks"})
    with pytest.raises(ConfigError, match=r"truststore\.type has to be PEM: /x\.jks cannot"):
        parse_broker_config({**enabled, f"{store}.location": "/x.jks"})
    with pytest.raises(ConfigError, match=r"truststore\.type has to be PEM: /x\.pem cannot"):
        parse_broker_config({**enabled, f"{store}.location": "/x.pem", f"{store}.type": "JKS"})


def test_names_from_the_environment_find_their_capitals() -> None:
    """KAFKA_ZOOKEEPER_CLIENTCNXNSOCKET cannot say where the capitals are."""
    parsed = parse_broker_config({"zookeeper.clientcnxnsocket": "x"})

    assert parsed.config.static == {"zookeeper.clientCnxnSocket": "x"}
    with pytest.raises(ConfigError, match=r"nearest known one is log\.dirs"):
        parse_broker_config({"Log.Dirs": "/x"})


def test_dynamic_settings_lie_over_the_file() -> None:
    """KIP-226: for one broker before for all before its file."""
    sources = ConfigSources(
        per_broker={"num.io.threads": "3"},
        cluster_wide={"num.io.threads": "2", "num.network.threads": "5"},
        static={"num.io.threads": "1", "num.network.threads": "1", "num.partitions": "9"},
    )

    config = broker_config(sources)

    assert (config.num_io_threads, config.num_network_threads, config.num_partitions) == (3, 5, 9)


@pytest.mark.parametrize(
    ("brokers", "expected"), [(1, ("1", "1", "1", "1")), (5, ("3", "3", "3", "2"))]
)
def test_internal_topics_fit_a_cluster_in_one_process(
    brokers: int, expected: tuple[str, ...]
) -> None:
    """Kafka's default of three replicas would leave one broker without groups."""
    assert tuple(embedded_store_defaults(brokers).values()) == expected


def test_what_an_operator_says_of_internal_topics_counts_with_the_embedded_store() -> None:
    """Defaults give way; three replicas that were asked for are not silently one."""
    silent = broker_config(ConfigSources(static={}))
    explicit = broker_config(
        ConfigSources(static={"offsets.topic.replication.factor": "3", "broker.id": "7"})
    )

    assert for_embedded_store(silent, 1).offsets_topic_replication_factor == 1
    kept = for_embedded_store(explicit, 1)
    assert (kept.offsets_topic_replication_factor, kept.broker_id) == (3, 7)


@pytest.mark.requirement("REP-11")
@pytest.mark.parametrize("release", ["", "0.9.0.1", "0.80", "0.10.2", "3.9-IV0"])
def test_the_lag_in_messages_is_ignored_with_a_warning_from_kafka_0_9_on(release: str) -> None:
    """Files that were written before still have it; a burst would take every follower out."""
    settings = {"inter.broker.protocol.version": release} if release else {}
    parsed = parse_broker_config({"replica.lag.max.messages": "4000", **settings})

    assert parsed.config.lag_messages_max is None
    assert parsed.warnings[0] == "replica.lag.max.messages has no effect here"


@pytest.mark.parametrize("release", ["0.8", "0.8.0", "0.8.2.X", " 0.8.2.2 "])
def test_the_lag_in_messages_counts_in_a_cluster_with_the_rules_of_kafka_0_8(release: str) -> None:
    """Also where it is not set: the rule is the release's, with a limit of 4,000."""
    settings = {"inter.broker.protocol.version": release}
    default = parse_broker_config(settings)
    chosen = parse_broker_config({**settings, "replica.lag.max.messages": "7"})

    assert (default.config.lag_messages_max, default.warnings) == (4_000, ())
    assert (chosen.config.lag_messages_max, chosen.warnings) == (7, ())
