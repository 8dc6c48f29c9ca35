"""Names of users, client ids and addresses as Kafka writes them into znodes."""

from __future__ import annotations

import pytest

from ottla.coordinator.store import entities, paths


def test_a_user_called_default_is_not_the_default_user() -> None:
    """One of them owns a password, the other one is the default of all users without a quota."""
    assert entities.quoted("<default>") == "%3Cdefault%3E"
    assert entities.quoted(None) == "<default>"
    assert entities.unquoted("%3Cdefault%3E") == "<default>"
    assert entities.unquoted("<default>") is None


@pytest.mark.parametrize(
    ("name", "quoted"),
    [
        ("alice", "alice"),
        ("CN=a b,O=x/y", "CN%3Da%20b%2CO%3Dx%2Fy"),
        ("a*b+c~d", "a%2Ab%2Bc%7Ed"),
        ("ä", "%C3%A4"),
        (".", "%2E"),
    ],
)
def test_names_are_quoted_as_kafka_does(name: str, quoted: str) -> None:
    """Kafka's tools look for exactly this znode."""
    assert entities.quoted(name) == quoted
    assert entities.unquoted(quoted) == name
    assert paths.config("users", quoted) == f"/config/users/{quoted}"


def test_a_client_of_a_user_has_its_znode_below_the_users() -> None:
    """The announcement names both, as Kafka's brokers expect it."""
    name = entities.quoted_user_client("a b", None)

    assert paths.config("users", name) == "/config/users/a%20b/clients/<default>"
    assert paths.parse_config_change(paths.build_config_change("users", name)) == ("users", name)
    assert entities.split_user(name) == ("a%20b", "<default>")
    assert entities.parents("users", name) == ("a%20b", "a%20b/clients")
    assert entities.parents("clients", "x") == ()


@pytest.mark.parametrize(
    ("entity_type", "path"),
    [
        ("users", "users/../topics"),
        ("users", "users/a/clients/.."),
        ("users", "users/a/clients/b/clients/c"),
        ("users", "users/"),
        ("clients", "clients/a/b"),
        ("ips", "ips/.."),
    ],
)
def test_an_announcement_cannot_lead_elsewhere_in_the_store(entity_type: str, path: str) -> None:
    """The name becomes a path again when the settings are read (A-64)."""
    data = b'{"version":2,"entity_path":"%s"}' % path.encode()

    assert paths.parse_config_change(data) is None


def test_a_version_1_announcement_of_a_client_keeps_the_quoted_name() -> None:
    """Kafka before 0.10.1 announced clients so."""
    data = b'{"version":1,"entity_type":"clients","entity_name":"a%20b"}'

    assert paths.parse_config_change(data) == ("clients", "a%20b")
