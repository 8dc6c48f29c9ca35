"""The secure compose file holds together, and differs from the plain one in nothing but safety."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from ottla.broker.cli.parsers import secure_parser, start_parser
from ottla.coordinator.configs.broker_configs import (
    BrokerConfig,
    parse_broker_config,
    settings_from_environment,
)
from tests.compose.composition import SECURE_FILE, Composition, Service, last_stage

FILE, PLAIN = Composition(SECURE_FILE), Composition()
BROKERS = pytest.mark.parametrize("broker", FILE.brokers, ids=lambda broker: broker.name)
# What the job writes into the file of each broker, in a form that is short enough for a test.
WRITTEN = {
    "sasl.enabled.mechanisms": "SCRAM-SHA-256",
    "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256",
    "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
    'username="broker" password="x";',
    "authorizer.class.name": "ottla.acl",
    "super.users": "User:broker",
    "broker.id": "1",
}


def _config(broker: Service) -> BrokerConfig:
    parsed = parse_broker_config({**WRITTEN, **settings_from_environment(broker.environment)})
    assert not parsed.warnings, f"{broker.name}: {parsed.warnings}"
    return parsed.config


def test_it_is_a_compose_file() -> None:
    """By the schema of the compose specification, which comes with the checker."""
    checker = (sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec")
    done = subprocess.run(
        [*checker, str(SECURE_FILE)], capture_output=True, text=True, timeout=60, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr


@BROKERS
def test_no_listener_is_open(broker: Service) -> None:
    """Both encrypt and ask for a login; nothing is excused by name."""
    config = _config(broker)

    assert {end.security_protocol for end in config.listeners} == {"SASL_SSL"}
    assert "KAFKA_OTTLA_ALLOW_INSECURE_LISTENERS" not in broker.environment


def test_zookeeper_is_closed_to_other_machines() -> None:
    """No port is published, and its web server is off; the release has no known hole (3.9.2)."""
    zookeeper = FILE.services["zookeeper"]
    version = re.fullmatch(r"zookeeper:(\d+)\.(\d+)\.(\d+)", str(zookeeper.written["image"]))

    assert version is not None
    assert tuple(map(int, version.groups())) >= (3, 9, 2)
    assert "ports" not in zookeeper.written
    assert zookeeper.environment["ZOO_ADMINSERVER_ENABLED"] == "false"


@BROKERS
def test_brokers_start_with_their_own_secrets_and_see_no_others(broker: Service) -> None:
    """The key of the authority and the passwords of all stay with the job."""
    number = broker.name.removeprefix("broker")
    verb, *arguments = broker.command
    parsed = start_parser().parse_args(arguments)

    assert verb == "start"
    assert parsed.config == f"/secure/broker-{number}/broker.properties"
    assert broker.written["volumes"] == [
        f"{broker.name}-data:/data",
        f"{broker.name}-secure:/secure/broker-{number}:ro",
    ]


def test_the_job_makes_what_the_brokers_need() -> None:
    """A certificate for each name that a broker is reached by, and users in the same ZooKeeper."""
    (job,) = FILE.first_jobs.values()
    verb, *arguments = job.command
    parsed = secure_parser().parse_args(arguments)

    assert verb == "secure"
    own = {f"/secure/broker-{number}": f"broker{number}-secure" for number in (1, 2, 3)}
    assert job.mounts == {"/secure": "secure", **own}
    (made,) = (one.text for one in last_stage() if "/secure" in one.text)
    assert all(f" {path}" in made for path in job.mounts)
    assert parsed.directory == "/secure"
    assert parsed.zookeeper == "zookeeper:2181"
    named = dict(text.split("=") for text in parsed.brokers)
    published: list[str] = []
    for broker in FILE.brokers:
        config = _config(broker)
        number = broker.name.removeprefix("broker")
        hosts = {end.host for end in config.advertised_listeners}
        assert hosts <= set(named[number].split(","))
        published += [
            f"{end.host}:{end.port}"
            for end in config.advertised_listeners
            if end.listener == "EXTERNAL"
        ]
    assert parsed.bootstrap == ",".join(published)


def test_brokers_wait_for_the_job_and_for_zookeeper() -> None:
    """Without its files a broker cannot start."""
    for broker in FILE.brokers:
        assert broker.depends_on == {
            "zookeeper": {"condition": "service_healthy"},
            "secure": {"condition": "service_completed_successfully"},
        }


def test_there_is_no_secret_in_the_file() -> None:
    """It is committed to repositories."""
    text = SECURE_FILE.read_text("utf-8")

    assert not re.search(r"(?i)(password|jaas|digest|sasl\.)[\w.]*\s*[:=]", text)
    assert "BEGIN" not in text


@BROKERS
def test_all_else_is_as_in_the_plain_file(broker: Service) -> None:
    """Health, ports, limits and replicas; a difference there is a slip."""
    plain = PLAIN.services[broker.name]
    kept = ("healthcheck", "ports", "read_only", "tmpfs", "cap_drop", "security_opt", "restart")

    assert {key: broker.written[key] for key in kept} == {key: plain.written[key] for key in kept}
    differing = {
        name
        for name in {*plain.environment, *broker.environment}
        if plain.environment.get(name) != broker.environment.get(name)
    }
    assert differing == {
        "KAFKA_BROKER_ID",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP",
        "KAFKA_OTTLA_ALLOW_INSECURE_LISTENERS",
        "KAFKA_ZOOKEEPER_CONNECT",
    }
    assert FILE.services["zookeeper"].written == PLAIN.services["zookeeper"].written
