"""``ottla trace produce`` where a broker is down, and where the user lacks a right."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ottla import Acl, Cluster
from ottla.client.administration.request_tracing import RequestTraceClient
from ottla.protocol.ports import Address
from ottla.protocol.properties import format_properties
from ottla.wire.errors import BrokerUnreachable

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from tests.client.cli.command import Ottla


def test_a_follower_that_is_down_is_named_and_not_waited_for(ottla: Ottla) -> None:
    """In an incident some broker is down: the others still tell."""
    with Cluster(brokers=3, settings={"min.insync.replicas": "2"}) as cluster:
        cluster.create_topic("traced", 1, replication_factor=3)
        leader = cluster.leader("traced", 0)
        down = next(node for node in cluster.brokers if node != leader)
        cluster.faults.kill(down)
        arguments = ("trace", "produce", "traced", "-b", cluster.address_of(leader))
        found = ottla(*arguments, "--json")
        as_text = ottla(*arguments)

    assert (found.status, as_text.status) == (0, 0), found.errors
    document = json.loads(found.output)
    assert str(down) not in document["clocks"]
    assert str(leader) in document["clocks"]
    assert any(one["what"] == "appends the record" for one in document["steps"])
    said = as_text.output.decode()
    assert f"not asked, because they are down or do not trace: broker {down}" in said


def test_a_dead_follower_that_metadata_still_lists_is_left_out(
    ottla: Ottla, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is listed until its session ends, and in that time an operator asks first."""
    ask = RequestTraceClient._ask
    with Cluster(brokers=3) as cluster:
        cluster.create_topic("traced", 1, replication_factor=3)
        leader = cluster.leader("traced", 0)
        dead = {next(node for node in cluster.brokers if node != leader)}

        async def told(self: RequestTraceClient, node: int, offset: int) -> dict[str, Any] | None:
            if node in dead:
                raise BrokerUnreachable(Address("127.0.0.1", 1), "connection refused")
            return await ask(self, node, offset)

        monkeypatch.setattr(RequestTraceClient, "_ask", told)
        arguments = ("trace", "produce", "traced", "-b", cluster.address_of(leader))
        found = ottla(*arguments)
        dead.add(leader)
        failed = ottla(*arguments)

    assert found.status == 0, found.errors
    assert "not asked, because they are down or do not trace: broker" in found.output.decode()
    assert failed.status == 1
    assert "cannot reach a broker" in failed.errors


def test_a_user_without_the_right_for_the_cluster_is_refused(ottla: Ottla, tmp_path: Path) -> None:
    """Rights for the topic alone do not show the times of other brokers' work."""
    users, rules = {"alice": "alice-password"}, [Acl("alice", "read,write", topic="traced")]
    ended = []
    with Cluster(security="sasl_plaintext", users=users, acls=rules) as cluster:
        cluster.create_topic("traced")
        for user in ("alice", None):
            path = tmp_path / f"{user}.properties"
            settings = cluster.client_settings("java", user)
            path.write_text(format_properties({name: str(one) for name, one in settings.items()}))
            login = ("--command-config", str(path), "-b", cluster.bootstrap_servers)
            ended.append(ottla("trace", "produce", "traced", *login))

    refused, allowed = ended
    assert (refused.status, refused.output) == (1, b"")
    assert "CLUSTER_AUTHORIZATION_FAILED" in refused.errors
    assert allowed.status == 0, allowed.errors
