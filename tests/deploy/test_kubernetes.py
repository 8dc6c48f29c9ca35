"""The manifests for Kubernetes: legal, consistent, and a broker that starts with them."""

from __future__ import annotations

import re
import signal
import time
import urllib.request
from typing import TYPE_CHECKING, Any

import kubernetes_validate
import pytest
import yaml

from ottla.broker.cli.parsers import start_parser
from ottla.coordinator.configs.broker_configs import (
    parse_broker_config,
    settings_from_environment,
)
from ottla.protocol.version import __version__
from tests.support.broker_process import BrokerProcess
from tests.support.ports import HOST, free_ports
from tests.tidy.tree import ROOT
from tests.zookeeper.servers import ZooKeeperServer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FOLDER = ROOT / "deploy" / "kubernetes"
KUSTOMIZATION: dict[str, Any] = yaml.safe_load((FOLDER / "kustomization.yaml").read_text("utf-8"))
# The oldest with a pod's number as a label that is on by default, and the newest with a schema.
VERSIONS = ("1.28", "1.36")
# What the API server would fill in.
FIELDS = {"metadata.name": "ottla-2", "metadata.namespace": "shop"}
POD_INDEX = "metadata.labels['apps.kubernetes.io/pod-index']"
PROBE_S = 30.0


def manifests() -> Iterator[dict[str, Any]]:
    """All objects of the kustomization."""
    for name in KUSTOMIZATION["resources"]:
        yield from yaml.safe_load_all((FOLDER / name).read_text("utf-8"))


def the(kind: str, name: str = "ottla") -> dict[str, Any]:
    """The only object of this kind and name."""
    (one,) = (m for m in manifests() if (m["kind"], m["metadata"]["name"]) == (kind, name))
    return one


def pod() -> dict[str, Any]:
    """What a pod of the brokers is."""
    template: dict[str, Any] = the("StatefulSet")["spec"]["template"]
    return template


def container() -> dict[str, Any]:
    """Its only container."""
    (one,) = pod()["spec"]["containers"]
    assert isinstance(one, dict)
    return one


def environment(index: int) -> dict[str, str]:
    """The variables of a pod, as Kubernetes expands them."""
    fields = {**FIELDS, POD_INDEX: str(index)}
    made: dict[str, str] = {}
    for one in container()["env"]:
        text = one.get("value")
        if text is None:
            text = fields[one["valueFrom"]["fieldRef"]["fieldPath"]]
        made[one["name"]] = re.sub(r"\$\((\w+)\)", lambda name: made[name[1]], text)
    return made


@pytest.mark.parametrize("version", VERSIONS)
def test_the_schemas_of_kubernetes_allow_them(version: str) -> None:
    """Strictly: an unknown field would be dropped without a word."""
    assert {one["kind"] for one in manifests()} >= {"StatefulSet", "PodDisruptionBudget"}
    for one in manifests():
        kubernetes_validate.validate(one, version, strict=True)


def test_every_file_is_part_of_the_kustomization() -> None:
    """And the image has the version of this tree."""
    files = {path.name for path in FOLDER.glob("*.yaml")} - {"kustomization.yaml"}

    assert set(KUSTOMIZATION["resources"]) == files
    assert [image["newTag"] for image in KUSTOMIZATION["images"]] == [__version__]


def test_its_settings_are_brokers_of_one_cluster() -> None:
    """Each with its own number and the name under which the others find it."""
    configs = []
    for index in range(the("StatefulSet")["spec"]["replicas"]):
        settings = settings_from_environment(environment(index))
        parsed = parse_broker_config(settings)
        assert parsed.warnings == ()
        configs.append(parsed.config)
    (told,) = configs[2].advertised_listeners

    assert [config.broker_id for config in configs] == [0, 1, 2]
    assert told.host == "ottla-2.ottla-brokers.shop.svc"
    assert {config.zookeeper_connect for config in configs} == {"zookeeper:2181/ottla"}
    assert not start_parser().parse_args(container()["args"][1:]).verbose
    assert the("StatefulSet")["spec"]["serviceName"] == "ottla-brokers"
    assert the("Service", "ottla-brokers")["spec"]["publishNotReadyAddresses"] is True


def test_selectors_find_the_brokers() -> None:
    """A label that is spelled otherwise selects no pod, and nothing says so."""
    labels = pod()["metadata"]["labels"]
    budget = the("PodDisruptionBudget")["spec"]
    selectors = [
        the("StatefulSet")["spec"]["selector"]["matchLabels"],
        budget["selector"]["matchLabels"],
        the("NetworkPolicy")["spec"]["podSelector"]["matchLabels"],
        the("Service")["spec"]["selector"],
        the("Service", "ottla-brokers")["spec"]["selector"],
    ]

    assert all(selector.items() <= labels.items() for selector in selectors)
    # One at a time: with min.insync.replicas of 2 out of 3 no producer waits.
    assert budget["maxUnavailable"] == 1
    assert environment(0)["KAFKA_MIN_INSYNC_REPLICAS"] == "2"


def test_the_container_has_no_rights_to_spare() -> None:
    """The restricted level of Kubernetes' pod security standards, and a read-only root."""
    security = container()["securityContext"]

    assert pod()["spec"]["securityContext"]["runAsNonRoot"] is True
    assert pod()["spec"]["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert security["allowPrivilegeEscalation"] is False
    assert security["readOnlyRootFilesystem"] is True
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert pod()["spec"]["automountServiceAccountToken"] is False


def as_process(folder: Path, store: str) -> BrokerProcess:
    """Broker 2 with the variables of its pod; only names of hosts, ports and paths are changed."""
    settings = settings_from_environment(environment(2))
    port, metrics = free_ports(2)
    settings |= {
        "zookeeper.connect": settings["zookeeper.connect"].replace("zookeeper:2181", store),
        "listeners": f"PLAINTEXT://{HOST}:{port}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{port}",
        "ottla.metrics.listener": f"{HOST}:{metrics}",
        # Alone, this broker could not make topics with three replicas.
        "offsets.topic.replication.factor": "1",
    }
    for replaced in ("listeners", "log.dirs"):
        settings.pop(replaced)
    return BrokerProcess(folder / "logs", options=settings, port=port)


def probe(broker: BrokerProcess, metrics: str, name: str) -> int:
    """What the kubelet gets from a probe of the container."""
    asked = container()[name]["httpGet"]
    assert asked["port"] == "metrics"
    with urllib.request.urlopen(f"http://{metrics}{asked['path']}", timeout=PROBE_S) as answer:
        assert broker.is_running
        status: int = answer.status
        return status


def test_a_pod_starts_answers_its_probes_and_ends_in_time(tmp_path: Path) -> None:
    """Also when its store has gone for good, which is when a cluster is torn down: the kubelet
    kills what has not ended within the grace period, and a killed broker checks its logs."""
    grace_s = pod()["spec"]["terminationGracePeriodSeconds"]
    with ZooKeeperServer() as store:
        broker = as_process(tmp_path, str(store.address))
        metrics = broker._options["ottla.metrics.listener"]
        broker.start()
        try:
            for name in ("startupProbe", "livenessProbe", "readinessProbe"):
                assert probe(broker, metrics, name) == 200
            store.kill()
            begin = time.monotonic()
            broker.signal(signal.SIGTERM)
            status = broker.wait()
        finally:
            if broker.is_running:
                broker.kill()

    assert status == 0, broker.stderr()
    assert time.monotonic() - begin < grace_s / 2
    assert (tmp_path / "logs" / ".kafka_cleanshutdown").exists()
