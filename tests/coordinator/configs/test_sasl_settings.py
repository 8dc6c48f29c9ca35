"""SASL settings of a listener: which text counts, and what is refused before the broker starts."""

from __future__ import annotations

import pytest

from ottla.coordinator.configs.broker_configs import ConfigError, parse_broker_config

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
BOTH = {
    "listeners": "CLIENTS://127.0.0.1:9092,BROKERS://127.0.0.1:9093",
    "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT,BROKERS:PLAINTEXT",
    "inter.broker.listener.name": "BROKERS",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
}


def test_the_most_specific_text_counts() -> None:
    """One broker can have a listener for each kind of client."""
    config = parse_broker_config(
        {
            **BOTH,
            "sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "listener.name.clients.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,OAUTHBEARER",
            "sasl.jaas.config": f'{SCRAM} username="all";',
            "listener.name.clients.plain.sasl.jaas.config": f'{PLAIN} user_a="b";',
            "connections.max.reauth.ms": "1000",
            "listener.name.clients.plain.connections.max.reauth.ms": "2000",
            "listener.name.clients.sasl.server.max.receive.size": "4096",
            "sasl.oauthbearer.jwks.endpoint.url": "file:/keys.json",
            "sasl.oauthbearer.expected.audience": "kafka, other",
            "sasl.oauthbearer.expected.issuer": "https://issuer",
            "ottla.oauthbearer.required.scope": "kafka",
        }
    )

    assert list(config.config.sasl) == ["CLIENTS"]
    sasl = config.config.sasl["CLIENTS"]
    assert sasl.mechanisms == ("PLAIN", "SCRAM-SHA-256", "OAUTHBEARER")
    assert sasl.jaas["PLAIN"].users["a"].reveal() == "b"
    assert sasl.jaas["SCRAM-SHA-256"].text("username") == "all"
    assert sasl.reauth_ms == {"PLAIN": 2000, "SCRAM-SHA-256": 1000, "OAUTHBEARER": 1000}
    assert (sasl.token_bytes_max, sasl.failure_delay_ms) == (4096, 100)
    assert sasl.bearer.jwks_url == "file:/keys.json"
    assert sasl.bearer.audiences == ("kafka", "other")
    assert sasl.bearer.issuer == "https://issuer"
    assert sasl.bearer.required_scopes == ("kafka",)
    assert (sasl.bearer.scope_claim, sasl.bearer.subject_claim) == ("scope", "sub")
    assert (sasl.bearer.clock_skew_s, sasl.bearer.refresh_ms) == (30, 3_600_000)
    assert not sasl.bearer.allows_unsecured
    assert not any("sasl" in warning for warning in config.warnings)


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"sasl.enabled.mechanisms": "GSSAPI"}, "Kerberos.*not supported: set it to some of PLAIN"),
        ({"sasl.enabled.mechanisms": ""}, "names no mechanism"),
        ({"sasl.enabled.mechanisms": "PLAIN,MD5"}, "'MD5', which is none of"),
        ({"sasl.enabled.mechanisms": "OAUTHBEARER"}, "sasl.oauthbearer.jwks.endpoint.url"),
        ({"sasl.jaas.config": "evil.Module required;"}, "evil.Module is not one of"),
        ({"inter.broker.listener.name": "CLIENTS"}, "mechanism.inter.broker.protocol is GSSAPI"),
        (
            {
                "inter.broker.listener.name": "CLIENTS",
                "sasl.mechanism.inter.broker.protocol": "PLAIN",
            },
            "listener.name.clients.plain.sasl.jaas.config with a username",
        ),
    ],
)
def test_what_a_listener_could_not_honour_is_refused(
    settings: dict[str, str], problem: str
) -> None:
    """A broker that came up anyway would admit no client, or any."""
    with pytest.raises(ConfigError, match=problem):
        parse_broker_config({**BOTH, **settings})


def test_brokers_may_log_in_to_each_other() -> None:
    """With a user of their own."""
    config = parse_broker_config(
        {
            "listeners": "SASL_PLAINTEXT://127.0.0.1:9092",
            "sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
            "security.inter.broker.protocol": "SASL_PLAINTEXT",
            "listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config": (
                f'{SCRAM} username="broker" password="hunter2";'
            ),
        }
    ).config

    assert config.inter_broker_listener_name == "SASL_PLAINTEXT"
    assert config.sasl["SASL_PLAINTEXT"].jaas["SCRAM-SHA-512"].text("username") == "broker"
    assert "hunter2" not in repr(config.sasl)
