"""Pytest fixtures: a broker for the session, a cluster for a test, a topic for a test.

Every pytest run in the environment loads this file, so it loads nothing of Ottla before a test
uses a fixture. ``cluster_fixture`` and ``topic_fixture`` create variants in a ``conftest.py``.
Each worker of pytest-xdist has its own brokers, on free ports.
"""

from __future__ import annotations

import logging
import re
import sys
import uuid
from typing import TYPE_CHECKING, Any, Literal

import pytest

import ottla

if TYPE_CHECKING:
    import os
    from collections.abc import Generator, Iterator, Mapping, Sequence

    from ottla.broker.testing.cluster import Cluster
    from ottla.client.administration.acl import Acl
    from ottla.protocol.acls import AclRule

CLUSTER_MODULE = "ottla.broker.testing.cluster"
CLUSTER_BROKERS = 3
LOG_LINES = 30
TOPIC_NAME_MAX = 200
# The running clusters of ``cluster_fixture``, and those that a test has used, by their fixtures.
_RUNNING = pytest.StashKey["dict[str, Cluster]"]()
_USED = pytest.StashKey["dict[str, Cluster]"]()

Scope = Literal["session", "package", "module", "class", "function"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options. Each has an ini setting of the same name; the command line wins.

    Args:
        parser: Pytest's parser of options.
    """
    group = parser.getgroup("ottla", "brokers that speak Kafka's protocol")
    group.addoption(
        "--ottla-brokers", type=int, metavar="N", help="how many brokers ottla_cluster has (3)"
    )
    group.addoption(
        "--ottla-setting",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a setting of all brokers, by Kafka's name; may be repeated",
    )
    group.addoption(
        "--ottla-subprocess",
        action="store_true",
        default=None,
        help="run each broker in a process of its own",
    )
    group.addoption(
        "--ottla-log-level", metavar="LEVEL", help="what brokers log, INFO or DEBUG for more"
    )
    parser.addini("ottla_brokers", f"how many brokers ottla_cluster has ({CLUSTER_BROKERS})")
    parser.addini("ottla_settings", "KEY=VALUE, a setting of all brokers in each line", "linelist")
    parser.addini("ottla_subprocess", "run each broker in a process of its own", "bool")
    parser.addini("ottla_log_level", "what brokers log, INFO or DEBUG for more")


def cluster_fixture(
    brokers: int | None = None,
    *,
    scope: Scope = "function",
    settings: Mapping[str, object] | None = None,
    data_dir: str | os.PathLike[str] | None = None,
    subprocess: bool | None = None,
    security: str | None = None,
    users: Mapping[str, str] | None = None,
    acls: Sequence[Acl | AclRule] | None = None,
) -> Any:
    """Create a fixture that is a running cluster.

    An argument that is None takes its value from the options of pytest.

    Args:
        brokers: How many brokers; None (default) for ``--ottla-brokers``.
        scope: How long the cluster lives (default ``"function"``).
        settings: Settings of all brokers by Kafka's names, beside ``--ottla-setting``.
        data_dir: As for ``ottla.Cluster``; None (default) keeps all data in memory.
        subprocess: Whether each broker runs in its own process; None (default) for
            ``--ottla-subprocess``.
        security: As for ``ottla.Cluster``; None (default) for plaintext.
        users: As for ``ottla.Cluster``: passwords by names; none by default.
        acls: As for ``ottla.Cluster``: what users may do; None (default) for everything.

    Returns:
        The fixture, whose value is an ``ottla.Cluster``.

    Example:
        pair = cluster_fixture(brokers=2, settings={"min.insync.replicas": 2})
    """

    @pytest.fixture(scope=scope)
    def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
        """A running ottla.Cluster; clients take its bootstrap_servers, faults breaks it."""
        config = request.config
        level = config.getoption("ottla_log_level") or config.getini("ottla_log_level")
        if level:
            logging.getLogger("ottla").setLevel(_level(level))
        in_processes = subprocess
        if in_processes is None:
            in_processes = bool(
                config.getoption("ottla_subprocess") or config.getini("ottla_subprocess")
            )
        made = ottla.Cluster(
            _cluster_brokers(config) if brokers is None else brokers,
            settings={**_settings(config), **(settings or {})},
            data_dir=data_dir,
            subprocess=in_processes,
            security=security,
            users=users,
            acls=acls,
        )
        running = config.stash.setdefault(_RUNNING, {})
        name = str(request.fixturename)
        # A fixture may override another of its name: both run, and the inner one ends first.
        outer = running.get(name)
        with made:
            running[name] = made
            try:
                yield made
            finally:
                _put_back(running, name, outer)

    return cluster


def _put_back(running: dict[str, Cluster], name: str, outer: Cluster | None) -> None:
    if outer is None:
        running.pop(name, None)
    else:
        running[name] = outer


def topic_fixture(
    cluster: str | None = None,
    *,
    partitions: int = 1,
    replication_factor: int | None = None,
    configs: Mapping[str, object] | None = None,
) -> Any:
    """Create a fixture that is the name of a new, empty topic.

    Args:
        cluster: The name of the fixture of the cluster; None (default) for ``ottla_cluster`` if the
            test uses it, else ``ottla_broker``.
        partitions: How many partitions (default 1).
        replication_factor: How many replicas; None (default) for the cluster's default.
        configs: Topic settings by Kafka's names; none by default.

    Returns:
        The fixture, whose value is the topic's name.

    Example:
        wide_topic = topic_fixture(partitions=12)
    """

    @pytest.fixture
    def topic(request: pytest.FixtureRequest) -> str:
        """The name of an empty topic that is unique to this test."""
        name = f"{_readable(request.node.name)}-{uuid.uuid4().hex[:8]}"
        where = request.getfixturevalue(cluster or _cluster_of(request))
        where.create_topic(name, partitions, replication_factor=replication_factor, configs=configs)
        return name

    return topic


ottla_broker = cluster_fixture(1, scope="session")
ottla_cluster = cluster_fixture()
ottla_topic = topic_fixture()


@pytest.fixture
def ottla_client_config(request: pytest.FixtureRequest) -> dict[str, str]:
    """The settings for confluent-kafka's clients: how to connect, and a group that no other test
    uses."""
    cluster = request.getfixturevalue(_cluster_of(request))
    return {
        **cluster.client_settings("confluent"),
        "group.id": f"{_readable(request.node.name)}-{uuid.uuid4().hex[:8]}",
        "auto.offset.reset": "earliest",
    }


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add to a failed test what was injected into its clusters and what they logged.

    Args:
        item: The test.
    """
    report = yield
    used = _clusters_of(item)
    if report.failed:
        for name, cluster in used.items():
            report.sections.append((f"ottla: {name}", cluster.report(LOG_LINES)))
    if report.when == "teardown":
        item.stash.setdefault(_USED, {}).clear()
    return report


def _clusters_of(item: pytest.Item) -> dict[str, Cluster]:
    """The clusters that the test and its fixtures have used so far, including stopped ones."""
    used = item.stash.setdefault(_USED, {})
    module = sys.modules.get(CLUSTER_MODULE)
    if module is not None:
        # Also during setup: a cluster that a fixture uses is no argument of the test.
        running = item.config.stash.get(_RUNNING, {})
        names = getattr(item, "fixturenames", ())
        used.update({name: made for name, made in running.items() if name in names})
        arguments = getattr(item, "funcargs", {})
        used.update(
            {name: value for name, value in arguments.items() if isinstance(value, module.Cluster)}
        )
    return used


def _cluster_of(request: pytest.FixtureRequest) -> str:
    return "ottla_cluster" if "ottla_cluster" in request.fixturenames else "ottla_broker"


def _cluster_brokers(config: pytest.Config) -> int:
    found = config.getoption("ottla_brokers")
    if found is None:
        found = config.getini("ottla_brokers") or CLUSTER_BROKERS
    try:
        return int(found)
    except ValueError:
        raise pytest.UsageError(f"ottla_brokers is a number of brokers, not {found!r}") from None


def _level(name: str) -> int:
    found = logging.getLevelName(name.upper())
    if not isinstance(found, int):
        raise pytest.UsageError(f"brokers log DEBUG, INFO, WARNING or ERROR, not {name!r}")
    return found


def _settings(config: pytest.Config) -> dict[str, str]:
    settings: dict[str, str] = {}
    for line in (*config.getini("ottla_settings"), *config.getoption("ottla_setting")):
        name, equals, value = line.partition("=")
        if not equals:
            raise pytest.UsageError(f"a setting of Ottla wants KEY=VALUE, not {line!r}")
        settings[name.strip()] = value.strip()
    return settings


def _readable(name: str) -> str:
    """The test's name in the characters that topics and groups may have."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-")[:TOPIC_NAME_MAX]
