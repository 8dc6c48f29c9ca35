"""Logins from Kafka's names of settings, and what cannot be one."""

from __future__ import annotations

import pytest

from ottla.client.administration.tokens import DelegationToken
from ottla.client.settings.config import ClientConfig
from ottla.client.settings.security import security_from
from ottla.protocol.errors import KafkaError
from ottla.protocol.secret import Secret
from ottla.wire.sasl import PasswordSasl

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
BASE = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-512"}
ALICE = {**BASE, "sasl.username": "alice", "sasl.password": "hunter2"}
TOKEN = DelegationToken("id", Secret("aG1hYw=="), "User:alice", "User:alice", (), 0, 0, 0)


@pytest.mark.parametrize(
    "properties",
    [
        ALICE,
        {**BASE, "sasl.jaas.config": f'{SCRAM} username="alice" password="hunter2";'},
        {
            "security.protocol": "sasl_plaintext",
            "sasl.mechanisms": "scram-sha-512",
            "sasl.username": "alice",
            "sasl.password": "hunter2",
        },
    ],
)
def test_the_names_of_both_clients_mean_the_same(properties: dict[str, str]) -> None:
    """Java has a JAAS text, librdkafka a name and a password."""
    expected = PasswordSasl("SCRAM-SHA-512", "alice", Secret("hunter2"))

    assert security_from(properties).sasl == expected
    assert security_from(properties).tls is None
    config = ClientConfig.from_properties(properties)
    assert config.security.sasl == expected
    assert "hunter2" not in repr(config)


def test_sasl_ssl_is_both() -> None:
    """A password in an encrypted connection."""
    security = security_from({**ALICE, "security.protocol": "SASL_SSL"})

    assert security.sasl is not None
    assert security.tls is not None


def test_a_delegation_token_is_told_in_jaas() -> None:
    """As with Kafka's client."""
    jaas = f'{SCRAM} username="id" password="hmac" tokenauth="true";'

    assert security_from({**BASE, "sasl.jaas.config": jaas}).sasl == PasswordSasl(
        "SCRAM-SHA-512", "id", Secret("hmac"), is_token=True
    )


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"sasl.mechanism": None}, "GSSAPI .*not supported: set it to one of PLAIN"),
        ({"sasl.mechanism": "MD5"}, "not 'MD5'"),
        ({"sasl.mechanisms": "PLAIN"}, "different mechanisms"),
        ({"sasl.password": None}, "set sasl.username and sasl.password"),
        ({"sasl.username": ""}, "set sasl.username and sasl.password"),
        ({"sasl.jaas.config": "evil.Module required;"}, "evil.Module is not one of"),
        ({"sasl.mechanism": "PLAIN", "sasl.jaas.config": f"{SCRAM};"}, "not one of PLAIN"),
        ({"sasl.mechanism": "OAUTHBEARER"}, "source of tokens"),
        ({"sasl.pasword": "hunter2"}, "sasl.password"),
        ({"security.protocol": "SASL"}, "not supported"),
    ],
)
def test_what_cannot_log_in_is_refused_with_a_sentence(
    changes: dict[str, str | None], sentence: str
) -> None:
    """Before a connection is made, and without the password."""
    with pytest.raises(ValueError, match=sentence) as caught:
        security_from({**ALICE, **changes})

    assert "hunter2" not in str(caught.value)


def test_a_login_without_sasl_is_warned_of() -> None:
    """The password would seem to protect something."""
    with pytest.warns(UserWarning, match="sasl.password has no effect"):
        security_from({"security.protocol": "PLAINTEXT", "sasl.password": "x"})


async def test_a_function_gives_the_token() -> None:
    """With or without the argument and the time that confluent-kafka's functions have."""
    bearer = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}

    async def later() -> str:
        return "three"

    for function, token in (
        (lambda _config: ("one", 1.5), b"one"),
        (lambda: "two", b"two"),
        (later, b"three"),
    ):
        sasl = security_from({**bearer, "oauth_cb": function}).sasl
        assert sasl is not None
        assert b"Bearer " + token in (await sasl.begin()).first()

    def broken() -> str:
        raise OSError("no file")

    sasl = security_from({**bearer, "oauth_cb": broken}).sasl
    assert sasl is not None
    with pytest.raises(KafkaError, match=r"oauth_cb has failed.*no file"):
        await sasl.begin()


@pytest.mark.parametrize(
    "before",
    [
        {},
        {"sasl.username": "alice", "sasl.password": "pw"},
        {"sasl.jaas.config": f'{SCRAM} username="alice" password="pw";'},
        {"sasl.mechanism": "PLAIN", "sasl.username": "alice", "sasl.password": "pw"},
    ],
)
@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_the_settings_of_a_token_override_those_of_a_password(
    before: dict[str, str], mechanism: str
) -> None:
    """A job takes the settings of its driver and another login; so do those of Kafka alone."""
    expected = PasswordSasl(mechanism, "id", Secret("aG1hYw=="), is_token=True)
    login = TOKEN.login_settings(mechanism)
    assert security_from({**BASE, **before, **login}).sasl == expected
    kafkas = {name: login[name] for name in ("sasl.mechanism", "sasl.jaas.config")}
    assert security_from({**BASE, **kafkas}).sasl == expected
    with pytest.raises(ValueError, match="SCRAM-SHA-256 or"):
        TOKEN.login_settings("PLAIN")


def test_a_token_needs_scram() -> None:
    """PLAIN would send its secret to a broker that does not know it as a password."""
    single = {"sasl.username": "id", "sasl.password": "hmac", "sasl.tokenauth": "true"}
    with pytest.raises(ValueError, match=r"by SCRAM: set sasl\.mechanism"):
        security_from({**BASE, **single, "sasl.mechanism": "PLAIN"})
    found = security_from({**BASE, **single, "sasl.mechanism": "SCRAM-SHA-256"}).sasl
    assert found == PasswordSasl("SCRAM-SHA-256", "id", Secret("hmac"), is_token=True)
