"""Reading server.properties and environment variables."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.coordinator.configs.properties import (
    ConfigError,
    parse_properties,
    settings_from_environment,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("a=b", {"a": "b"}),
        ("a = b ", {"a": "b "}),
        ("a: b\n", {"a": "b"}),
        ("a b c", {"a": "b c"}),
        ("a", {"a": ""}),
        ("a=", {"a": ""}),
        ("=b", {"": "b"}),
        ("a==b", {"a": "=b"}),
        ("  a\t=\tb", {"a": "b"}),
        ("# comment\n! other\n\n  # indented\na=b", {"a": "b"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=b\\\n   c", {"a": "bc"}),
        ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
        ("a=b\\\n# no comment", {"a": "b# no comment"}),
        ("# comment \\\na=b", {"a": "b"}),
        ("a=b\\", {"a": "b"}),
        ("a\\ b\\:c\\=d=e", {"a b:c=d": "e"}),
        (r"a=\t\n\r\f\u00e9\z\\", {"a": "\t\n\r\f\u00e9z\\"}),
        ("a=1\r\nb=2\rc=3\n", {"a": "1", "b": "2", "c": "3"}),
        ("path=C:\\\\data", {"path": "C:\\data"}),
    ],
)
def test_java_properties_are_read_as_java_does(text: str, expected: dict[str, str]) -> None:
    """Operators bring their file along; each line of it must mean what it meant."""
    assert parse_properties(text) == expected


def test_malformed_unicode_escape_is_an_error() -> None:
    """Java refuses the file too; guessing would hide a typing slip in a path."""
    with pytest.raises(ConfigError, match="escape"):
        parse_properties(r"log.dirs=C:\users")


def _escape(text: str) -> str:
    special = {"\\": "\\\\", " ": "\\ ", ":": "\\:", "=": "\\=", "#": "\\#", "!": "\\!"}
    control = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"}
    return "".join((special | control).get(char, char) for char in text)


@settings(deadline=None)
@given(st.dictionaries(st.text(max_size=8), st.text(max_size=8), max_size=5))
def test_whatever_is_escaped_comes_back(values: dict[str, str]) -> None:
    """No character is lost or given a meaning once it is escaped."""
    text = "\n".join(f"{_escape(key)}={_escape(value)}" for key, value in values.items())

    assert parse_properties(text) == values


def test_environment_variables_become_settings() -> None:
    """The same compose file as for Apache's image (its own rule for underscores)."""
    environment = {
        "KAFKA_LOG_RETENTION_HOURS": "24",
        "KAFKA_A__B_C___D": "x",
        "KAFKA_LISTENERS": "PLAINTEXT://:9092",
        "PATH": "/bin",
        "XKAFKA_NUM_PARTITIONS": "3",
    }

    assert settings_from_environment(environment) == {
        "log.retention.hours": "24",
        "a_b.c-d": "x",
        "listeners": "PLAINTEXT://:9092",
    }


@pytest.mark.parametrize(
    "variable",
    [
        "KAFKA_HEAP_OPTS",
        "KAFKA_OPTS",
        "KAFKA_JMX_PORT",
        "KAFKA_LOG4J_ROOT_LOGLEVEL",
        "KAFKA_PORT",
        "KAFKA_PORT_9092_TCP_ADDR",
        "KAFKA_SERVICE_HOST",
        "KAFKA_SERVICE_PORT_CLIENT",
        "KAFKA_UI_SERVICE_PORT",
        "KAFKA_UI_PORT_80_TCP",
    ],
)
def test_variables_that_are_no_settings_are_left_alone(variable: str) -> None:
    """Scripts and Kubernetes set these beside every broker; they must not stop one."""
    assert settings_from_environment({variable: "tcp://10.0.0.1:80"}) == {}


def test_bitnamis_names_are_settings_as_well() -> None:
    """The same compose file as for Bitnami's image; of two forms its own one counts."""
    environment = {
        "KAFKA_CFG_NUM_PARTITIONS": "3",
        "KAFKA_NUM_PARTITIONS": "1",
        "KAFKA_KRAFT_CLUSTER_ID": "abcdefghijklmnopqrstuv",
        "KAFKA_CLUSTER_ID": "abcdefghijklmnopqrstuv",
        "KAFKA_VOLUME_DIR": "/bitnami/kafka",
        "ALLOW_PLAINTEXT_LISTENER": "yes",
    }

    assert settings_from_environment(environment) == {"num.partitions": "3"}


@pytest.mark.parametrize(
    "variable",
    [
        "KAFKA_CLIENT_USERS",
        "KAFKA_CLIENT_PASSWORDS",
        "KAFKA_INTER_BROKER_USER",
        "KAFKA_INTER_BROKER_PASSWORD",
        "KAFKA_CERTIFICATE_PASSWORD",
        "KAFKA_TLS_CLIENT_AUTH",
        "KAFKA_SSL_KEYSTORE_FILENAME",
        "KAFKA_SSL_KEY_CREDENTIALS",
    ],
)
def test_logins_that_only_scripts_make_are_refused(variable: str) -> None:
    """Left alone, the broker would run without the logins that its operator asked for."""
    with pytest.raises(ConfigError, match=f"{variable} is read by scripts") as raised:
        settings_from_environment({variable: "hidden-value"})

    assert "hidden-value" not in str(raised.value)
    assert settings_from_environment({variable: ""}) == {}
