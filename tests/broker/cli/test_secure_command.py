"""``ottla secure create``: what it writes for brokers on several hosts, and what it keeps."""

from __future__ import annotations

import ssl
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from ottla.broker.security.certificates import is_good_for
from ottla.client.settings.config import ClientConfig
from ottla.coordinator.configs.broker_configs import parse_broker_config
from ottla.protocol.properties import parse_properties

if TYPE_CHECKING:
    from pathlib import Path

BROKERS = ("--broker", "1=kafka1,10.0.0.1", "--broker", "2=kafka2")
CLIENTS = ("--clients", "kafka1:9093,kafka2:9093")


def create(directory: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the verb to its end."""
    return subprocess.run(
        [sys.executable, "-m", "ottla", "secure", "create", str(directory), *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_each_broker_gets_a_certificate_and_a_user_of_its_own(tmp_path: Path) -> None:
    """Who it is can then be told from the others, and its secrets changed alone."""
    done = create(tmp_path, *BROKERS, *CLIENTS)

    assert done.returncode == 0, done.stderr
    assert (
        f"ottla start --config {tmp_path}/broker-1/broker.properties "
        "-o listeners=SASL_SSL://kafka1:9093 -o inter.broker.listener.name=SASL_SSL\n"
    ) in done.stdout
    first, second = (tmp_path / f"broker-{number}" for number in (1, 2))
    assert is_good_for((first / "broker.pem").read_text(), ("kafka1", "10.0.0.1"))
    assert not is_good_for((first / "broker.pem").read_text(), ("kafka2",))
    assert is_good_for((second / "broker.pem").read_text(), ("kafka2",))
    settings = parse_properties((first / "broker.properties").read_text())
    assert 'username="broker-1"' in settings["sasl.jaas.config"]
    assert settings["super.users"] == "User:admin;User:broker-1;User:broker-2"
    other = parse_properties((second / "broker.properties").read_text())
    secret = "delegation.token.secret.key"
    assert len(settings[secret]) > 20
    assert settings[secret] == other[secret]
    listening = {
        "listeners": "SASL_SSL://10.0.0.1:9093",
        "security.inter.broker.protocol": "SASL_SSL",
        "log.dirs": str(tmp_path),
    }
    parsed = parse_broker_config({**settings, **listening})
    assert not parsed.warnings
    context = ssl.create_default_context(cafile=first / "ca.pem")
    context.load_cert_chain(first / "broker.pem")


def test_a_second_run_keeps_what_is_there_and_adds_a_broker(tmp_path: Path) -> None:
    """New certificates and passwords would shut out the brokers that run."""
    create(tmp_path, *BROKERS, *CLIENTS)
    kept = ["ca.pem", "ca.key", "tokens.properties", "broker-1/broker.pem"]
    before = [(tmp_path / name).read_bytes() for name in kept]
    passwords = parse_properties((tmp_path / "passwords.properties").read_text())
    done = create(tmp_path, *BROKERS, "--broker", "3=kafka3", *CLIENTS)

    assert done.returncode == 0, done.stderr
    assert [(tmp_path / name).read_bytes() for name in kept] == before
    after = parse_properties((tmp_path / "passwords.properties").read_text())
    assert after.keys() - passwords.keys() == {"broker-3"}
    assert passwords.items() <= after.items()
    settings = parse_properties((tmp_path / "broker-1" / "broker.properties").read_text())
    assert "User:broker-3" in settings["super.users"]


def test_the_file_for_clients_is_understood_by_the_client(tmp_path: Path) -> None:
    """It holds the authority itself, so it may be copied anywhere."""
    create(tmp_path, *BROKERS, *CLIENTS)
    text = (tmp_path / "client" / "client.properties").read_text()
    settings = parse_properties(text)

    assert settings.pop("bootstrap.servers") == "kafka1:9093,kafka2:9093"
    assert settings["ssl.truststore.certificates"] == (tmp_path / "ca.pem").read_text()
    config = ClientConfig.from_properties(settings)
    assert config.security is not None
    password = parse_properties((tmp_path / "passwords.properties").read_text())["admin"]
    assert password in text
    assert password not in repr(config)


def test_mistakes_are_said_before_a_file_is_written(tmp_path: Path) -> None:
    """Half a cluster's files would be kept by the next run."""
    place = tmp_path / "made"
    wrong = [
        (("--broker", "1=", *CLIENTS), "--broker wants ID=HOST"),
        (("--broker", "x=kafka1", *CLIENTS), "--broker wants ID=HOST"),
        (("--broker", "1=a", "--broker", "1=b", *CLIENTS), "two brokers have the same id"),
        (("--broker", "1=a", "--clients", "kafka1:x"), "kafka1:x"),
    ]
    for words, sentence in wrong:
        done = create(place, *words)
        assert (done.returncode, place.exists()) == (2, False), done.stderr
        assert sentence in done.stderr


@pytest.mark.parametrize("address", ["a", "a:", "a:x", "::1", "kafka1:9093,b"])
def test_an_address_of_clients_has_a_port(tmp_path: Path, address: str) -> None:
    """No default fits: a client of such a file would ask for TLS at the port for plaintext."""
    done = create(tmp_path / "made", *BROKERS, "--clients", address)

    assert done.returncode == 2
    assert "HOST:PORT" in done.stderr or "is no broker address" in done.stderr
    assert not (tmp_path / "made").exists()
