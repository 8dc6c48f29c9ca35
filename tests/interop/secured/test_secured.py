"""Every foreign client over SASL_SSL with access rules: what is allowed works, the rest is refused.

Each produces, reads in a group, commits a transaction and creates a topic, as a user with rules for
that, as one without any, and with a wrong password.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING, NamedTuple

import pytest

import ottla
from ottla.protocol.properties import format_properties
from tests.interop.support.clients import needs
from tests.interop.support.environments import go_program, java_classpath, node_program
from tests.interop.test_java_tools import CONSOLE_CONSUMER, TOOLS
from tests.support.broker_process import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

COUNT = 20
CALLS = ("produce", "group", "transaction", "admin")
RULES = [
    ottla.Acl("alice", "read,write,describe,create", topic="t-", prefixed=True),
    ottla.Acl("alice", "read,describe", group="g-", prefixed=True),
    ottla.Acl("alice", "write,describe", transactional_id="x-", prefixed=True),
]
# The words of all of them.
REFUSED = re.compile(r"(?i)not authorized|authorization|not permitted|access denied")


class Secured(NamedTuple):
    """A client: the library whose settings it takes, and its command."""

    name: str
    library: str
    command: Callable[[], list[str]]


def _python(which: str) -> Callable[[], list[str]]:
    return lambda: [sys.executable, "-m", "tests.interop.programs.python.secured", which]


def _go(name: str) -> Callable[[], list[str]]:
    def command() -> list[str]:
        needs("go")
        return [str(go_program(name))]

    return command


def _node() -> list[str]:
    needs("node", "npm")
    return ["node", str(node_program("secured.js"))]


CLIENTS = [
    Secured("confluent-kafka", "confluent", _python("confluent")),
    Secured("kafka-python", "kafka-python", _python("kafka_python")),
    # Its context cannot be written as JSON, and the program makes it of the same file.
    Secured("aiokafka", "kafka-python", _python("aio")),
    Secured("franz-go", "franz-go", _go("franzsecured")),
    Secured("sarama", "sarama", _go("saramasecured")),
    Secured("kafkajs", "kafkajs", _node),
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[ottla.Cluster]:
    """Three brokers, one user with rules and one without any."""
    users = {"alice": "alice-pw", "eve": "eve-pw"}
    with ottla.Cluster(brokers=3, security="sasl_ssl", users=users, acls=RULES) as made:
        yield made


def outcomes_of(
    client: Secured, cluster: ottla.Cluster, user: str, password: str = ""
) -> dict[str, str]:
    """What each call came to; with another password the first call alone."""
    text = json.dumps(cluster.client_settings(client.library, user=user))
    orders = {
        "Settings": json.loads(text.replace(f"{user}-pw", password) if password else text),
        "Calls": CALLS[:1] if password else CALLS,
        "Topic": f"t-{client.name}",
        "NewTopic": f"t-new-{client.name}-{user}",
        "Group": f"g-{client.name}",
        "TransactionalID": f"x-{client.name}",
        "Count": COUNT,
    }
    done = subprocess.run(
        client.command(),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "INTEROP_ORDERS": json.dumps(orders)},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_a_client_does_what_its_user_may(client: Secured, cluster: ottla.Cluster) -> None:
    """Unmodified, with the settings that the cluster gives for its library."""
    cluster.create_topic(f"t-{client.name}")
    assert outcomes_of(client, cluster, "alice") == dict.fromkeys(CALLS, "ok")
    refused = outcomes_of(client, cluster, "eve")
    assert {name for name in CALLS if REFUSED.search(refused[name])} == set(CALLS), refused
    # Most libraries try to connect again, and say at last that they could not.
    assert outcomes_of(client, cluster, "alice", "eve-pw")["produce"] != "ok"


@pytest.mark.parametrize("version", ["3.9.1", "4.1.0"])
def test_javas_tools_do_what_their_user_may(
    version: str, cluster: ottla.Cluster, tmp_path: Path
) -> None:
    """The console clients, the one for measuring, which writes transactions, and kafka-topics."""
    needs("java", "mvn")
    topic = f"t-java-{version}"
    cluster.create_topic(topic)
    allowed = _outcomes_of_java(version, cluster, "alice", topic, tmp_path)
    assert allowed == dict.fromkeys((*CALLS, "perf"), "ok")
    refused = _outcomes_of_java(version, cluster, "eve", topic, tmp_path)
    expected = {
        # The console clients tell the refusal to their log alone.
        "perf": "ClusterAuthorizationException|TopicAuthorizationException",
        "group": "Processed a total of 0 messages",
        "transaction": "TransactionalIdAuthorizationException",
        "admin": "(Topic|Cluster)AuthorizationException|may not do this to the topic",
    }
    for name, words in expected.items():
        assert re.search(words, refused[name]), refused[name][-2000:]


def _outcomes_of_java(
    version: str, cluster: ottla.Cluster, user: str, topic: str, folder: Path
) -> dict[str, str]:
    settings = cluster.client_settings("java", user=user)
    file = folder / f"{user}.properties"
    limits = {"max.block.ms": "20000", "delivery.timeout.ms": "20000", "request.timeout.ms": "9000"}
    texts = {name: str(value) for name, value in settings.items()}
    file.write_text(format_properties({**texts, **limits}))
    where = ["--bootstrap-server", cluster.bootstrap_servers]
    classes = java_classpath(version)
    old = version.startswith("3.")
    producer = "kafka.tools.ConsoleProducer" if old else f"{TOOLS}.ConsoleProducer"
    reading = ["--group", f"g-java-{version}", "--from-beginning", "--timeout-ms", "10000"]
    writing = ["--num-records", str(COUNT), "--record-size", "10", "--throughput", "-1"]
    commands = {
        "produce": [producer, *where, "--topic", topic, "--producer.config", str(file)],
        "group": [
            *(CONSOLE_CONSUMER, *where, "--topic", topic, "--consumer.config", str(file)),
            *(*reading, "--max-messages", str(COUNT)),
        ],
        "perf": [
            *(f"{TOOLS}.ProducerPerformance", "--topic", topic, "--producer.config", str(file)),
            *writing,
        ],
        "transaction": [
            *(f"{TOOLS}.ProducerPerformance", "--topic", topic, "--producer.config", str(file)),
            *(*writing, "--transactional-id", f"x-java-{version}"),
            *("--transaction-duration-ms", "100"),
        ],
        "admin": [
            *(f"{TOOLS}.TopicCommand", *where, "--command-config", str(file), "--create"),
            *("--topic", f"t-new-java-{version}", "--partitions", "1"),
        ],
    }
    found = {}
    for name, words in commands.items():
        done = subprocess.run(
            ["java", "-Xmx256m", "-cp", classes, *words],
            input="".join(f"{number}\n" for number in range(COUNT)),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        said = done.stdout + done.stderr
        is_good = done.returncode == 0 and "Exception" not in said
        if name == "group":
            is_good = is_good and f"Processed a total of {COUNT} messages" in said
        found[name] = "ok" if is_good else said
    return found
