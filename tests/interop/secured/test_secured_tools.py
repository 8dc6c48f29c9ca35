"""Kafka's tools for rules, users, quotas and delegation tokens, over SASL_SSL."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

import ottla
from ottla.protocol.properties import format_properties
from tests.interop.support.clients import JAVA_VERSIONS, needs
from tests.interop.support.environments import java_classpath
from tests.interop.test_java_tools import CONSOLE_CONSUMER, TOOLS
from tests.interop.test_rights_tool import SCRAM, TOOL, shown

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

COUNT = 3
CONFIGS = "kafka.admin.ConfigCommand"
# The console producer tells of a refusal to its log alone.
WRITER = f"{TOOLS}.ProducerPerformance"
WRITTEN = f"{COUNT} records sent"
READ = f"Processed a total of {COUNT} messages"
REFUSED = "ClusterAuthorizationException"


class SecuredTools:
    """The tools of one version. Each call names the user who runs it, or the file of a login."""

    def __init__(self, version: str, cluster: ottla.Cluster, folder: Path) -> None:
        needs("java", "mvn")
        old = version.startswith("3.")
        self.acls = "kafka.admin.AclCommand" if old else f"{TOOLS}.AclCommand"
        self._classes = java_classpath(version)
        self._cluster = cluster
        self._folder = folder

    def file_of(self, user: str, **login: str) -> str:
        """Settings of a user that the cluster knows, or of another login over the same TLS."""
        known = user if not login else None
        settings = {
            name: str(value)
            for name, value in self._cluster.client_settings("java", user=known).items()
        }
        if login:
            words = "".join(f' {name}="{value}"' for name, value in login.items())
            settings["sasl.jaas.config"] = f"{SCRAM} required{words};"
        assert settings["security.protocol"] == "SASL_SSL"
        path = self._folder / f"{user}.properties"
        path.write_text(format_properties(settings))
        return str(path)

    def run(self, tool: str, login: str, *arguments: str) -> str:
        """What it says on both of its outputs, also when it fails."""
        option = {WRITER: "--producer.config", CONSOLE_CONSUMER: "--consumer.config"}
        words = [tool, option.get(tool, "--command-config"), login, *arguments]
        if tool != WRITER:
            words += ["--bootstrap-server", self._cluster.bootstrap_servers]
        done = subprocess.run(
            ["java", "-Xmx256m", "-cp", self._classes, *words],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return done.stdout + done.stderr


@pytest.fixture
def cluster() -> Iterator[ottla.Cluster]:
    """Two users: a super user makes rules for alice, and eve has none."""
    with ottla.Cluster(
        security="sasl_ssl",
        users={"alice": "alice-pw", "eve": "eve-pw"},
        acls=[],
        settings={"delegation.token.secret.key": "secret-of-the-cluster"},
    ) as made:
        made.create_topic("t")
        yield made


@pytest.fixture(params=JAVA_VERSIONS)
def tools(request: pytest.FixtureRequest, cluster: ottla.Cluster, tmp_path: Path) -> SecuredTools:
    """Of each version of Kafka."""
    return SecuredTools(request.param, cluster, tmp_path)


def _written(tools: SecuredTools, login: str) -> str:
    load = ("--num-records", str(COUNT), "--record-size", "10", "--throughput", "-1")
    return tools.run(WRITER, login, "--topic", "t", *load)


def _read(tools: SecuredTools, login: str) -> str:
    options = ("--topic", "t", "--group", "g", "--from-beginning", "--timeout-ms", "10000")
    return tools.run(CONSOLE_CONSUMER, login, *options, "--max-messages", str(COUNT))


def test_kafkas_tool_makes_rules_that_hold(tools: SecuredTools) -> None:
    """kafka-acls: what a rule allows works, and no more than that; others may not make any."""
    admin, alice, eve = (tools.file_of(name) for name in ("admin", "alice", "eve"))
    assert "AuthorizationException" in _written(tools, alice)
    made = ("--add", "--allow-principal", "User:alice", "--topic", "t")
    assert REFUSED in tools.run(tools.acls, eve, *made, "--producer")
    tools.run(tools.acls, admin, *made, "--producer")
    tools.run(tools.acls, admin, *made, "--consumer", "--group", "g")

    listed = tools.run(tools.acls, admin, "--list", "--topic", "t")
    assert listed.count("principal=User:alice") == 4, listed
    assert WRITTEN in _written(tools, alice)
    assert READ in _read(tools, alice)
    tools.run(tools.acls, admin, "--remove", "--force", *made[1:], "--producer")
    assert "AuthorizationException" in _written(tools, alice)


def test_kafkas_tool_makes_users_who_log_in(tools: SecuredTools) -> None:
    """kafka-configs for users: a credential is made, shown without its secret, and removed."""
    admin, eve = tools.file_of("admin"), tools.file_of("eve")
    carol = tools.file_of("carol", username="carol", password="carols-password")
    which = ("--entity-type", "users", "--entity-name", "carol")
    added = ("--add-config", "SCRAM-SHA-256=[iterations=8192,password=carols-password]")
    assert "SaslAuthenticationException" in tools.run(tools.acls, carol, "--list")
    assert REFUSED in tools.run(CONFIGS, eve, "--alter", *which, *added)
    assert "Completed updating config" in tools.run(CONFIGS, admin, "--alter", *which, *added)

    described = tools.run(CONFIGS, admin, "--describe", *which)
    assert "SCRAM-SHA-256=iterations=8192" in described, described
    assert "carols-password" not in described
    # She is known now, and may do nothing.
    assert REFUSED in tools.run(tools.acls, carol, "--list")
    tools.run(CONFIGS, admin, "--alter", *which, "--delete-config", "SCRAM-SHA-256")
    assert "SaslAuthenticationException" in tools.run(tools.acls, carol, "--list")


def test_kafkas_tool_sets_quotas_of_users(tools: SecuredTools) -> None:
    """kafka-configs for quotas: set, shown, removed, and refused to others."""
    admin, eve = tools.file_of("admin"), tools.file_of("eve")
    which = ("--entity-type", "users", "--entity-name", "alice")
    added = ("--add-config", "producer_byte_rate=1024,consumer_byte_rate=2048")
    assert REFUSED in tools.run(CONFIGS, eve, "--alter", *which, *added)
    tools.run(CONFIGS, admin, "--alter", *which, *added)

    described = tools.run(CONFIGS, admin, "--describe", *which)
    assert "producer_byte_rate=1024.0" in described, described
    assert "consumer_byte_rate=2048.0" in described, described
    tools.run(CONFIGS, admin, "--alter", *which, "--delete-config", "producer_byte_rate")
    left = tools.run(CONFIGS, admin, "--describe", *which)
    assert "producer_byte_rate" not in left
    assert "consumer_byte_rate=2048.0" in left


def test_kafkas_tool_makes_tokens_that_log_in(tools: SecuredTools) -> None:
    """kafka-delegation-tokens: made, renewed, used by a producer and a consumer, ended."""
    admin, alice, eve = (tools.file_of(name) for name in ("admin", "alice", "eve"))
    rule = ("--add", "--allow-principal", "User:alice", "--topic", "t")
    tools.run(tools.acls, admin, *rule, "--producer")
    tools.run(tools.acls, admin, *rule, "--consumer", "--group", "g")
    said = tools.run(TOOL, alice, "--create", "--max-life-time-period", "-1")
    (token,) = shown(said)
    of_token = tools.file_of(
        "token", username=token.token_id, password=token.hmac, tokenauth="true"
    )

    assert WRITTEN in _written(tools, of_token)
    assert READ in _read(tools, of_token)
    owner = ("--describe", "--owner-principal", "User:alice")
    assert shown(tools.run(TOOL, alice, *owner)) == [token]
    assert shown(tools.run(TOOL, eve, *owner)) == []
    one = ("--hmac", token.hmac)
    refused = tools.run(TOOL, eve, "--renew", *one, "--renew-time-period", "-1")
    assert "DelegationTokenOwnerMismatchException" in refused, refused
    renewed = tools.run(TOOL, alice, "--renew", *one, "--renew-time-period", "-1")
    assert "Completed renew operation" in renewed, renewed
    ended = tools.run(TOOL, alice, "--expire", *one, "--expiry-time-period", "-1")
    assert "Completed expire operation" in ended, ended
    assert "SaslAuthenticationException" in tools.run(TOOL, of_token, *owner)
