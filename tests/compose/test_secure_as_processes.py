"""The secure compose file means a closed cluster: its services as processes, with a real ZooKeeper.

Its job makes what its header promises; brokers and clients log in with that, and no other client
gets in.
"""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

import ottla
from ottla.protocol.properties import parse_properties
from ottla.wire.errors import AuthenticationFailed
from tests.compose.composition import SECURE_FILE
from tests.compose.processes import Cluster
from tests.zookeeper.shared import need_zookeeper

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """All services, healthy by their own checks."""
    need_zookeeper()
    directory: Path = tmp_path_factory.mktemp("secure-compose")
    with Cluster(directory, SECURE_FILE) as running:
        running.wait_until_healthy()
        yield running


def _client_file(cluster: Cluster) -> Path:
    return cluster.directory / "secure" / "client" / "client.properties"


def _settings(cluster: Cluster) -> tuple[str, dict[str, str]]:
    settings = parse_properties(_client_file(cluster).read_text("utf-8"))
    return settings.pop("bootstrap.servers"), settings


async def test_the_client_file_is_all_that_a_client_needs(cluster: Cluster) -> None:
    """From a copy elsewhere, too: it holds the authority. One of three brokers may be killed."""
    servers, security = _settings(cluster)
    async with ottla.Admin(servers, security=security) as admin:
        await admin.create_topic(ottla.NewTopic("orders", 3, 3))
    async with ottla.Producer(servers, security=security) as producer:
        for number in range(60):
            if number == 30:
                cluster.kill("broker2")
            await (await producer.send("orders", b"%d" % number, partition=number % 3))
    found: list[bytes] = []
    async with ottla.Consumer(
        servers, group_id="g", offset_reset="earliest", security=security
    ) as consumer:
        await consumer.subscribe(["orders"])
        async for record in consumer:
            found.append(record.value or b"")
            if len(found) == 60:
                break
    assert sorted(found, key=int) == [b"%d" % number for number in range(60)]
    cluster.start("broker2")
    cluster.wait_until_healthy("broker2")


def test_the_command_of_the_header_works_from_anywhere(cluster: Cluster, tmp_path: Path) -> None:
    """The file is copied out of a volume to where the operator is."""
    copy = tmp_path / "client.properties"
    copy.write_bytes(_client_file(cluster).read_bytes())
    done = subprocess.run(
        [sys.executable, "-m", "ottla", "users", "list", "--command-config", str(copy)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=tmp_path,
    )

    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()[1:]] == [
        "admin",
        "broker-1",
        "broker-2",
        "broker-3",
    ]


async def test_no_client_gets_in_without_a_password(cluster: Cluster) -> None:
    """Neither in clear text, nor as a user that does not exist, nor as one without any rule."""
    servers, security = _settings(cluster)
    wrong = {**security, "sasl.username": "admin", "sasl.password": "admin"}
    del wrong["sasl.jaas.config"]
    with pytest.raises(AuthenticationFailed):
        async with ottla.Admin(servers, security=wrong) as admin:
            await admin.list_topics()
    with pytest.raises(ottla.ClientError):
        async with ottla.Admin(servers, request_timeout_ms=5_000) as admin:
            await admin.list_topics()
    async with ottla.Admin(servers, security=security) as admin:
        await admin.users.set_password("eve", "eve-password", "SCRAM-SHA-256")
    wrong |= {"sasl.username": "eve", "sasl.password": "eve-password"}
    async with ottla.Admin(servers, security=wrong) as admin:
        with pytest.raises(ottla.RequestRefused) as refused:
            await admin.create_topic(ottla.NewTopic("mine", 1))
    assert "AUTHORIZATION_FAILED" in refused.value.code.name


def test_secrets_are_readable_by_their_owner_only(cluster: Cluster) -> None:
    """And a broker's directory has the secrets of that broker alone."""
    made = cluster.directory / "secure"
    for folder, _folders, files in os.walk(made):
        assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
        for name in files:
            mode = stat.S_IMODE(os.stat(os.path.join(folder, name)).st_mode)
            assert mode == (0o644 if folder == str(made) and name == "ca.pem" else 0o600)
    passwords = parse_properties((made / "passwords.properties").read_text("utf-8"))
    of_brokers = {user: word for user, word in passwords.items() if user != "zookeeper"}
    for number in (1, 2, 3):
        text = (made / f"broker-{number}" / "broker.properties").read_text("utf-8")
        assert [user for user, word in of_brokers.items() if word in text] == [f"broker-{number}"]
        assert "PRIVATE KEY" not in text
    assert not any(word in SECURE_FILE.read_text("utf-8") for word in passwords.values())
    logs = "".join(cluster.log(f"broker{number}") for number in (1, 2, 3))
    assert not any(word in logs for word in passwords.values())


def test_users_in_zookeeper_are_hidden_from_strangers(cluster: Cluster) -> None:
    """Their records are enough to try passwords against."""
    stranger = KazooClient(f"127.0.0.1:{cluster.zookeeper.port}")
    stranger.start(30)
    try:
        with pytest.raises(NoAuthError):
            stranger.get("/config/users/admin")
        with pytest.raises(NoAuthError):
            stranger.set("/controller_epoch", b"99")
    finally:
        stranger.stop()
        stranger.close()


async def test_the_job_may_run_again_while_the_brokers_run(cluster: Cluster) -> None:
    """``up`` runs it each time: it must neither end sessions nor change a file that counts."""
    made = cluster.directory / "secure"
    kept = ["ca.pem", "ca.key", "passwords.properties", "broker-1/broker.pem"]
    before = [(made / name).read_bytes() for name in kept]
    servers, security = _settings(cluster)
    async with ottla.Producer(servers, security=security) as producer:
        await (await producer.send("orders", b"before", partition=0))
        cluster.run_first_job("secure")
        await (await producer.send("orders", b"after", partition=0))

    assert [(made / name).read_bytes() for name in kept] == before
