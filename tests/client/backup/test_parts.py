"""Access rules, quotas and users in a backup, and what becomes of them in another cluster."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from ottla import Acl, Cluster
from ottla.protocol.properties import format_properties
from tests.client.cli.command import in_process

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.client.cli.command import Ottla

USERS = {"alice": "alice-password", "bob": "bob-password"}
RULES = [
    Acl("alice", "read", topic="orders"),
    Acl("bob", "write", topic="ord", prefixed=True),
    Acl("bob", "read", topic="orders", deny=True),
]
PARTS = ("--with", "acls", "--with", "quotas", "--with", "users")


@pytest.fixture
def closed() -> Iterator[Cluster]:
    """The cluster that is backed up: users, rules and a quota."""
    with Cluster(security="sasl_plaintext", users=USERS, acls=RULES) as made:
        yield made


@pytest.fixture
def empty() -> Iterator[Cluster]:
    """The one that is restored to: its admin only, and no rule."""
    with Cluster(security="sasl_plaintext", users={}, acls=[]) as made:
        yield made


@pytest.fixture
def ottla(capfdbinary: pytest.CaptureFixture[bytes]) -> Ottla:
    return in_process(capfdbinary)


def login(cluster: Cluster, folder: Path, name: str) -> tuple[str, ...]:
    """The options of a command of the cluster's admin."""
    path = folder / f"{name}.properties"
    settings = {key: str(one) for key, one in cluster.client_settings("java").items()}
    path.write_text(format_properties(settings))
    return "-b", cluster.bootstrap_servers, "--command-config", str(path)


def _listed(ottla: Ottla, verb: str, options: tuple[str, ...]) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(ottla(verb, "list", "--json", *options).output)
    return found


def test_rules_and_quotas_are_restored_and_users_are_named(
    closed: Cluster, empty: Cluster, ottla: Ottla, tmp_path: Path
) -> None:
    """The rules protect the restored topics at once; no cluster tells passwords."""
    of_source, of_target = login(closed, tmp_path, "source"), login(empty, tmp_path, "target")
    closed.create_topic("orders")
    quota = ottla("quotas", "set", "--user", "alice", "producer_byte_rate=5000", *of_source)
    assert quota.status == 0, quota.errors
    place = str(tmp_path / "backup")

    made = ottla("backup", "create", *of_source, place, *PARTS)
    restored = ottla("backup", "restore", *of_target, place, *PARTS)

    assert (made.status, restored.status) == (0, 0), (made.errors, restored.errors)
    assert "with 'ottla users create': admin, alice, bob" in restored.errors
    for verb in ("acls", "quotas"):
        before, after = _listed(ottla, verb, of_source), _listed(ottla, verb, of_target)
        assert before
        assert after == before
    names = {one["name"] for one in _listed(ottla, "users", of_target)}
    assert names.isdisjoint(USERS)
    kept = (tmp_path / "backup" / "manifests" / "00000001.json").read_text()
    assert "alice" in kept
    assert "password" not in kept


def test_parts_that_are_not_asked_for_are_left_out(
    closed: Cluster, empty: Cluster, ottla: Ottla, tmp_path: Path
) -> None:
    """Rules of another cluster may open what is closed here: a restore has to ask for them."""
    of_source, of_target = login(closed, tmp_path, "source"), login(empty, tmp_path, "target")
    closed.create_topic("orders")
    place = str(tmp_path / "backup")
    ottla("backup", "create", *of_source, place, *PARTS)

    restored = ottla("backup", "restore", *of_target, place)

    assert restored.status == 0
    assert "users create" not in restored.errors
    assert _listed(ottla, "acls", of_target) == []
