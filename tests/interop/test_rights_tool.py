"""Java's ``kafka-acls`` and ``kafka-delegation-tokens``, and console clients with such tokens."""

from __future__ import annotations

import hashlib
import hmac
import re
import subprocess
from base64 import b64decode
from typing import TYPE_CHECKING, NamedTuple

import pytest

from ottla import Acl, Cluster
from ottla.protocol.properties import format_properties
from tests.interop.conftest import Bootstrap
from tests.interop.support.clients import JAVA_VERSIONS, needs
from tests.interop.support.environments import java_classpath
from tests.interop.test_java_tools import CONSOLE_CONSUMER, TOOLS, Tools
from tests.support.broker_process import BrokerProcess

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.interop
OPTIONS = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:ANONYMOUS",
}


@pytest.mark.parametrize("version", JAVA_VERSIONS)
def test_rules_are_added_listed_and_removed(version: str, tmp_path: Path) -> None:
    """Literal, prefixed and for all; what a tool adds as a role is several rules."""
    needs("java", "mvn")
    old = "kafka.admin.AclCommand"
    tool = old if version.startswith("3.") else "org.apache.kafka.tools.AclCommand"
    with BrokerProcess(tmp_path / "data", options=OPTIONS) as broker:
        tools = Tools(version, Bootstrap(broker.address), tmp_path)
        tools.run(tool, "--add", "--allow-principal", "User:app", "--producer", "--topic", "orders")
        tools.run(
            *(tool, "--add", "--allow-principal", "User:app", "--consumer", "--topic", "logs-"),
            *("--group", "g", "--resource-pattern-type", "prefixed"),
        )
        tools.run(
            *(tool, "--add", "--deny-principal", "User:eve", "--operation", "All"),
            *("--topic", "*", "--deny-host", "192.0.2.1"),
        )
        listed = tools.run(tool, "--list")
        of_topic = tools.run(
            tool, "--list", "--topic", "logs-1", "--resource-pattern-type", "match"
        )
        everything = ("--force", "--topic", "orders", "--resource-pattern-type", "any")
        tools.run(tool, "--remove", *everything)
        left = tools.run(tool, "--list")

    assert listed.count("principal=User:app") == 6
    for words in (
        "resourceType=TOPIC, name=orders, patternType=LITERAL",
        "resourceType=TOPIC, name=logs-, patternType=PREFIXED",
        "resourceType=GROUP, name=g, patternType=PREFIXED",
        "principal=User:eve, host=192.0.2.1, operation=ALL, permissionType=DENY",
    ):
        assert words in listed
    assert "name=logs-" in of_topic
    assert "name=*" in of_topic
    assert "name=orders" not in of_topic + left
    assert "name=logs-" in left


TOOL = f"{TOOLS}.DelegationTokenCommand"
SECRET = "secret-of-the-cluster"
USERS = {"alice": "alice-pw", "bob": "bob-pw"}
RULES = [Acl("alice", "read,write,describe,create", topic="t", group="g")]
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


class Shown(NamedTuple):
    """A token as the tool prints it."""

    token_id: str
    hmac: str
    owner: str
    requester: str
    renewers: str


def shown(output: str) -> list[Shown]:
    """The rows of its table."""
    rows = re.findall(r"^(\S+) +(\S{88}) +(\S+) +(\S+) +\[(.*?)\]", output, re.MULTILINE)
    return [Shown(*row) for row in rows]


class Scene:
    """The tool as users run it."""

    def __init__(self, cluster: Cluster, version: str, folder: Path) -> None:
        self.cluster = cluster
        self.folder = folder
        self.version = version
        self.tools = Tools(version, Bootstrap(cluster.bootstrap_servers), folder)

    def config(self, user: str) -> str:
        """The file of a user with a password."""
        return self._file(user, self.cluster.client_settings("java", user))

    def token_config(self, token: Shown, mechanism: str) -> str:
        """The file of a client that logs in with the token."""
        login = f'{SCRAM} required username="{token.token_id}" password="{token.hmac}" '
        return self._file(
            f"token-{mechanism}",
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": mechanism,
                "sasl.jaas.config": f'{login}tokenauth="true";',
            },
        )

    def _file(self, name: str, settings: dict[str, object]) -> str:
        path = self.folder / f"{name}.properties"
        texts = {key: str(value) for key, value in settings.items()}
        path.write_text(format_properties(texts))
        return str(path)

    def run(self, config: str, *arguments: str) -> str:
        return self.tools.run(TOOL, "--command-config", config, *arguments)

    def refusal(self, config: str, *arguments: str) -> str:
        """What the tool says when it fails."""
        address = ["--bootstrap-server", self.cluster.bootstrap_servers]
        command = ["java", "-Xmx256m", "-cp", java_classpath(self.version), TOOL, *address]
        done = subprocess.run(
            [*command, "--command-config", config, *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode != 0
        return done.stdout + done.stderr


@pytest.mark.parametrize("version", JAVA_VERSIONS)
def test_tokens_are_made_used_and_ended_by_kafkas_tools(version: str, tmp_path: Path) -> None:
    """Created, described, renewed by the renewer and expired; clients log in with it meanwhile."""
    needs("java", "mvn")
    settings = {"delegation.token.secret.key": SECRET}
    with Cluster(security="sasl_plaintext", users=USERS, acls=RULES, settings=settings) as cluster:
        cluster.create_topic("t")
        scene = Scene(cluster, version, tmp_path)
        alice, bob = scene.config("alice"), scene.config("bob")
        lifetime = ("--create", "--max-life-time-period", "-1")
        made = scene.run(alice, *lifetime, "--renewer-principal", "User:bob")
        (token,) = shown(made)
        assert token[2:] == ("User:alice", "User:alice", "User:bob")
        expected = hmac.digest(SECRET.encode(), token.token_id.encode(), hashlib.sha512)
        assert b64decode(token.hmac) == expected
        assert shown(scene.run(bob, "--describe", "--owner-principal", "User:bob")) == [token]
        # Without an owner the tool asks for an empty list of them, which to Kafka, too, is none.
        assert shown(scene.run(bob, "--describe")) == []
        renewed = scene.run(bob, "--renew", "--hmac", token.hmac, "--renew-time-period", "60000")
        assert "Completed renew operation" in renewed

        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            config = scene.token_config(token, mechanism)
            scene.tools.produce("t", f"{mechanism}\n", "--producer.config", config)
        told = scene.tools.run(
            *(CONSOLE_CONSUMER, "--topic", "t", "--group", "g", "--from-beginning"),
            *("--max-messages", "2", "--timeout-ms", "20000", "--consumer.config", config),
        )
        assert told.split() == ["SCRAM-SHA-256", "SCRAM-SHA-512"]

        assert "DelegationTokenAuthorization" in scene.refusal(
            bob, *lifetime, "--owner-principal", "User:alice"
        )
        assert "not allowed" in scene.refusal(config, *lifetime)
        ended = scene.run(alice, "--expire", "--hmac", token.hmac, "--expiry-time-period", "-1")
        assert "Completed expire operation" in ended
        assert shown(scene.run(alice, "--describe", "--owner-principal", "User:alice")) == []
        assert "SaslAuthenticationException" in scene.refusal(config, *lifetime)
