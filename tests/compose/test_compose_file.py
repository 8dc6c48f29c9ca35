"""The compose file holds together: what no schema sees."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys

import pytest

from ottla.broker.cli.parsers import start_parser
from ottla.client.cli.parsers.spark import parser as spark_parser
from ottla.coordinator.configs.broker_configs import (
    BrokerConfig,
    parse_broker_config,
    settings_from_environment,
)
from tests.compose.composition import (
    COMPOSE_FILE,
    IMAGE,
    ROOT,
    Composition,
    Service,
    exec_form,
    last_stage,
    stage_of,
)

FILE = Composition()
BROKERS = pytest.mark.parametrize("broker", FILE.brokers, ids=lambda broker: broker.name)


def _config(broker: Service) -> BrokerConfig:
    parsed = parse_broker_config(settings_from_environment(broker.environment))
    assert not parsed.warnings, f"{broker.name}: {parsed.warnings}"
    return parsed.config


def test_it_is_a_compose_file() -> None:
    """By the schema of the compose specification, which comes with the checker."""
    done = subprocess.run(
        [
            sys.executable,
            *("-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec"),
            str(COMPOSE_FILE),
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr


def test_there_are_three_brokers_and_a_zookeeper() -> None:
    """Three is the least with which one may fail and acks=all goes on."""
    assert sorted(FILE.services) == ["broker1", "broker2", "broker3", "zookeeper"]
    assert len({_config(broker).broker_id for broker in FILE.brokers}) == 3


def test_services_wait_for_services_that_exist_and_can_be_healthy() -> None:
    """A condition on a service without a check never comes true."""
    running = {**FILE.services, **FILE.watchers}
    for service in (*running.values(), *FILE.jobs.values()):
        for name, condition in service.depends_on.items():
            assert name in running
            assert condition["condition"] == "service_healthy"
            assert "healthcheck" in running[name].written


def test_every_service_has_a_check_with_limits() -> None:
    """A check that hangs says nothing, and a container without one is always called well."""
    for service in (*FILE.services.values(), *FILE.watchers.values()):
        check = service.written["healthcheck"]
        assert check["test"][0] == "CMD"
        assert {"interval", "timeout", "retries", "start_period"} <= check.keys()


def test_ports_of_the_machine_are_taken_once_and_for_this_machine_alone() -> None:
    """Two services cannot share one, and no user is asked for a password."""
    every = (*FILE.services.values(), *FILE.watchers.values())
    published = [port for service in every for port in service.published]

    assert len({port.host_port for port in published}) == len(published)
    assert {port.host for port in published} == {"127.0.0.1"}


@BROKERS
def test_every_variable_is_a_setting_with_an_effect(broker: Service) -> None:
    """A slip in a name would leave the default in force, silently."""
    settings = settings_from_environment(broker.environment)
    named = [name for name in broker.environment if name.startswith("KAFKA_")]

    assert len(settings) == len(named)
    _config(broker)


@BROKERS
def test_clients_outside_find_what_is_advertised_to_them(broker: Service) -> None:
    """The broker tells them localhost and a port, so that very port must be published."""
    config = _config(broker)
    bound = {end.listener: end for end in config.listeners}
    told = {end.listener: end for end in config.advertised_listeners}
    ports = {port.host_port: port.container_port for port in broker.published}

    assert told["EXTERNAL"].host == "localhost"
    assert ports[told["EXTERNAL"].port] == bound["EXTERNAL"].port
    assert bound["EXTERNAL"].host == bound["INTERNAL"].host == "0.0.0.0"


@BROKERS
def test_containers_find_each_other_by_name(broker: Service) -> None:
    """Brokers and other containers speak over the network of the services, not the machine's."""
    config = _config(broker)
    told = {end.listener: end for end in config.advertised_listeners}
    bound = {end.listener: end for end in config.listeners}

    assert config.inter_broker_listener_name == "INTERNAL"
    assert told["INTERNAL"].host == broker.name
    assert told["INTERNAL"].port == bound["INTERNAL"].port
    assert told["INTERNAL"].port not in {port.container_port for port in broker.published}
    assert config.zookeeper_connect == "zookeeper:2181"


@BROKERS
def test_one_broker_may_fail_and_nothing_stands_still(broker: Service) -> None:
    """Also the topics that the cluster makes for itself need three copies, two of them in sync."""
    config = _config(broker)

    assert config.default_replication_factor == 3
    assert config.min_insync_replicas == 2
    assert config.offsets_topic_replication_factor == 3
    assert config.transaction_state_log_replication_factor == 3
    assert config.transaction_state_log_min_isr == 2


@BROKERS
def test_its_command_is_understood(broker: Service) -> None:
    """What follows the entry point is parsed by the same parser as on a command line."""
    verb, *arguments = broker.command
    assert verb == "start"

    start_parser().parse_args(arguments)


@BROKERS
def test_its_data_is_kept_in_a_volume_of_its_own(broker: Service) -> None:
    """Without one the records go with the container; shared, two brokers would destroy them."""
    volume = broker.mounts["/data"]

    assert _config(broker).log_dirs == ("/data",)
    assert volume in FILE.written["volumes"]
    assert [one.mounts["/data"] for one in FILE.brokers].count(volume) == 1


@BROKERS
def test_its_health_is_asked_for_where_it_is_served(broker: Service) -> None:
    """A check of another port would call every broker ill."""
    address = _config(broker).metrics_listener
    assert address is not None
    port = int(address.rpartition(":")[2])
    (dockerfile_check,) = (one for one in last_stage() if one.name == "HEALTHCHECK")

    assert f"http://127.0.0.1:{port}/readyz" in broker.written["healthcheck"]["test"][-1]
    assert f"http://127.0.0.1:{port}/healthz" in exec_form(dockerfile_check)[-1]
    assert port in {published.container_port for published in broker.published}


@BROKERS
def test_the_three_differ_in_nothing_but_who_they_are(broker: Service) -> None:
    """A setting on one of them alone is a night's search, some day."""
    own = {"KAFKA_BROKER_ID", "KAFKA_LISTENERS", "KAFKA_ADVERTISED_LISTENERS"}
    first = FILE.brokers[0]

    assert {name: value for name, value in broker.environment.items() if name not in own} == {
        name: value for name, value in first.environment.items() if name not in own
    }


def test_all_volumes_are_used() -> None:
    """A volume without a mount is the trace of a slip in a name."""
    every = (*FILE.services.values(), *FILE.jobs.values(), *FILE.watchers.values())
    mounted = {volume for one in every for volume in one.mounts.values()}
    of_the_tree = {volume for volume in mounted if volume.startswith("./")}

    assert mounted - of_the_tree == set(FILE.written["volumes"])
    assert all((ROOT / path).is_dir() for path in of_the_tree)


def test_images_of_others_are_pinned() -> None:
    """The same file brings up the same cluster next year."""
    images = [one.written["image"] for one in (*FILE.services.values(), *FILE.watchers.values())]

    assert FILE.services["zookeeper"].written["image"].startswith("zookeeper:3.9.")
    assert all(image == IMAGE or re.search(r":v?\d+\.\d+\.\d+$", image) for image in images)


def test_spark_runs_when_it_is_asked_for_and_finds_the_brokers() -> None:
    """A user who wants a cluster does not wait for a Java that it does not need."""
    (job,) = FILE.jobs.values()
    assert job.written["profiles"] == ["spark"]
    assert sorted(job.depends_on) == [broker.name for broker in FILE.brokers]
    inside = {
        address.removeprefix("INTERNAL://")
        for broker in FILE.brokers
        for address in broker.environment["KAFKA_ADVERTISED_LISTENERS"].split(",")
        if address.startswith("INTERNAL://")
    }

    assert set(job.environment["OTTLA_BOOTSTRAP"].split(",")) == inside
    assert not job.published


def test_the_stage_of_spark_is_what_its_commands_need() -> None:
    """The command of the file's first lines, as the image of that stage runs it."""
    (job,) = FILE.jobs.values()
    stage = stage_of(job.written["build"]["target"])
    (entry_point,) = (exec_form(one) for one in stage if one.name == "ENTRYPOINT")
    (line,) = (
        line for line in COMPOSE_FILE.read_text("utf-8").splitlines() if "--profile spark" in line
    )
    words = shlex.split(line.partition("--rm spark ")[2])

    assert entry_point == ["ottla", "spark"]
    assert spark_parser().parse_args(words).verb == "load"
    assert words[words.index("--to") + 1].startswith(tuple(job.mounts))
    assert any("openjdk-17-jre-headless" in one.text for one in stage)
