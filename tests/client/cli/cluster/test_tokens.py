"""``ottla tokens`` against brokers that let in users with a password, or with a token."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING

import pytest

from ottla import Acl, Cluster
from ottla.client.cli.parsers.tokens import duration
from ottla.protocol.properties import format_properties, parse_properties
from tests.client.cli.command import is_one_sentence

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.client.cli.command import Ottla

USERS = {"alice": "alice-pw", "bob": "bob-pw"}
HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """One broker: each command meets what the one before it has done."""
    secret = {"delegation.token.secret.key": "cluster-secret"}
    rules = [Acl("bob", "read", topic="t")]
    with Cluster(security="sasl_plaintext", users=USERS, acls=rules, settings=secret) as made:
        yield made


def login(cluster: Cluster, folder: Path, user: str) -> tuple[str, str]:
    """The options of a command of that user."""
    path = folder / f"{user}.properties"
    settings = {name: str(one) for name, one in cluster.client_settings("java", user).items()}
    path.write_text(format_properties(settings))
    return "--command-config", str(path)


def listed(ottla: Ottla, *options: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(ottla("tokens", "list", "--json", *options).output)
    return found


def test_a_token_is_created_saved_used_renewed_and_expired(
    cluster: Cluster, ottla: Ottla, tmp_path: Path
) -> None:
    """Its secret is in the new file and nowhere else."""
    alice, bob = login(cluster, tmp_path, "alice"), login(cluster, tmp_path, "bob")
    saved = tmp_path / "worker.properties"
    made = ottla("tokens", "create", "--renewer", "User:bob", "--save", str(saved), *alice)
    assert made.status == 0, made.errors
    lines = made.output.decode().splitlines()
    assert lines[0].split("  ")[0] == "TOKEN ID"
    token_id, *_rest = words = lines[1].split()
    assert words[1:4] == ["User:alice", "User:alice", "User:bob"]
    settings = parse_properties(saved.read_text())
    assert settings["security.protocol"] == "SASL_PLAINTEXT"
    assert settings["bootstrap.servers"] == cluster.bootstrap_servers
    secret = settings["sasl.jaas.config"].split('password="')[1].split('"')[0]
    assert secret not in made.output.decode()
    assert os.stat(saved).st_mode & 0o777 == 0o600

    created = ottla("topics", "list", "--json", "--command-config", str(saved))
    assert (created.status, json.loads(created.output)) == (0, [])
    refused = ottla("tokens", "create", "--command-config", str(saved))
    assert refused.status == 1
    assert is_one_sentence(refused.errors)
    assert "with a token" in refused.errors

    renewed = ottla("tokens", "renew", token_id, "--for", "1h", "--json", *bob)
    expires_ms = json.loads(renewed.output)["expires_ms"]
    assert abs(expires_ms - time.time() * 1000 - HOUR_MS) < 300_000
    (one,) = listed(ottla, *bob)
    assert (one["token_id"], one["expires_ms"]) == (token_id, expires_ms)
    assert "hmac" not in one
    assert listed(ottla, "--show-hmac", *alice)[0]["hmac"] == secret
    assert listed(ottla, "--owner", "User:carol", *alice) == []

    expired = ottla("tokens", "expire", token_id, *alice)
    assert expired.output.decode().startswith(f"expired {token_id}: it expires 2")
    assert listed(ottla, *alice) == []
    assert ottla("topics", "list", "--command-config", str(saved)).status == 1


def test_without_a_file_the_secret_is_shown(cluster: Cluster, ottla: Ottla, tmp_path: Path) -> None:
    """Once: it is the only place where it is."""
    alice = login(cluster, tmp_path, "alice")
    (made,) = json.loads(ottla("tokens", "create", "--max-lifetime", "1h", "--json", *alice).output)
    assert len(made["hmac"]) == 88
    assert made["max_ms"] - made["issued_ms"] == HOUR_MS
    for later in (("--in", "30m"), ()):
        assert ottla("tokens", "expire", made["token_id"], *later, *alice).status == 0


def test_mistakes_are_said_in_one_sentence(cluster: Cluster, ottla: Ottla, tmp_path: Path) -> None:
    """With what to write instead; a file is neither overwritten nor left behind."""
    alice, bob = login(cluster, tmp_path, "alice"), login(cluster, tmp_path, "bob")
    there, new = tmp_path / "there", tmp_path / "new"
    there.write_text("mine")
    for arguments, status, part in (
        (("create", "--max-lifetime", "7 days"), 2, "90s, 30m, 12h or 7d"),
        (("create", "--owner", "alice"), 2, "User:NAME"),
        (("create", "--save", str(there)), 2, "exists already"),
        (("create", "--save", str(tmp_path / "no" / "folder")), 1, "no such file"),
        (("create", "--owner", "User:alice", "--save", str(new)), 1, "CreateTokens"),
        (("renew", "unknown"), 1, "no token 'unknown'"),
    ):
        ended = ottla("tokens", *arguments, *bob)
        assert (ended.status, part in ended.errors) == (status, True), ended.errors
        assert is_one_sentence(ended.errors)
    assert there.read_text() == "mine"
    assert not new.exists()
    assert listed(ottla, *alice) == []


def test_times_have_units() -> None:
    """A number alone could be anything."""
    assert [duration(one) for one in ("5ms", "90s", "30m", "12h", "7d")] == [
        5,
        90_000,
        1_800_000,
        12 * HOUR_MS,
        168 * HOUR_MS,
    ]
    for wrong in ("", "5", "d", "1w", "-1d", "1.5h", "1d ", "٣d"):
        with pytest.raises(ValueError, match="not a time"):
            duration(wrong)
