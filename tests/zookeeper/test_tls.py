"""Brokers and a ZooKeeper that speak TLS to each other, and nothing else."""

from __future__ import annotations

import asyncio
import shutil
import socket
import ssl
import subprocess
import threading
import time
from typing import TYPE_CHECKING

import pytest

from ottla.coordinator.store.zookeeper import ZooKeeperOptions
from ottla.coordinator.store.zookeeper_client import _Handler
from ottla.coordinator.store.zookeeper_tls import Tls, tls_context
from tests.support.broker_process import BrokerProcess
from tests.support.ports import HOST, free_ports
from tests.zookeeper.servers import Settings, ZooKeeperServer
from tests.zookeeper.sessions import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# For brokers that are to find no server that they trust.
IN_VAIN = {"zookeeper.connection.timeout.ms": "1500"}
pytestmark = pytest.mark.skipif(
    shutil.which("openssl") is None, reason="the certificates are made with openssl"
)


def openssl(folder: Path, *arguments: str) -> None:
    """Run one of its commands."""
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An authority (ca.pem), what it has signed, and another authority (other.pem)."""
    folder = tmp_path_factory.mktemp("keys")
    new_key = ("-newkey", "rsa:2048", "-nodes")
    for name in ("ca", "other"):
        openssl(
            folder,
            *("req", "-x509", *new_key, "-days", "2", "-subj", f"/CN={name}"),
            *("-keyout", f"{name}.key", "-out", f"{name}.pem"),
        )
    for name, alias in (("server", f"IP:{HOST}"), ("stranger", "DNS:elsewhere.example")):
        (folder / "names").write_text(f"subjectAltName={alias}\n")
        openssl(
            folder,
            *("req", *new_key, "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", "wish"),
        )
        openssl(
            folder,
            *("x509", "-req", "-in", "wish", "-CA", "ca.pem", "-CAkey", "ca.key", "-days", "2"),
            *("-CAcreateserial", "-extfile", "names", "-out", f"{name}.crt"),
        )
        both = (folder / f"{name}.key").read_text() + (folder / f"{name}.crt").read_text()
        (folder / f"{name}.pem").touch(mode=0o600)
        (folder / f"{name}.pem").write_text(both)
    return folder


def server_of(keys: Path, name: str) -> tuple[ZooKeeperServer, str]:
    """One that takes clients with a certificate only, and its address."""
    (port,) = free_ports(1)
    lines = (
        f"secureClientPort={port}",
        f"secureClientPortAddress={HOST}",
        "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
        f"ssl.keyStore.location={keys / name}.pem",
        "ssl.keyStore.type=PEM",
        f"ssl.trustStore.location={keys / 'ca.pem'}",
        "ssl.trustStore.type=PEM",
    )
    return ZooKeeperServer(Settings(tls=lines)), f"{HOST}:{port}"


@pytest.fixture(scope="module")
def zookeeper(keys: Path) -> Iterator[str]:
    """The address of one whose certificate is for that address."""
    server, address = server_of(keys, "server")
    with server:
        yield address


def options_for(keys: Path, **changed: str) -> dict[str, str]:
    """Kafka's settings of a broker."""
    return {
        "zookeeper.ssl.client.enable": "true",
        "zookeeper.ssl.keystore.location": str(keys / "server.pem"),
        "zookeeper.ssl.truststore.location": str(keys / "ca.pem"),
        "zookeeper.connection.timeout.ms": "60000",
        **{f"zookeeper.ssl.{name.replace('_', '.')}": value for name, value in changed.items()},
    }


def test_a_broker_joins_and_its_session_lives(keys: Path, zookeeper: str, tmp_path: Path) -> None:
    """Answers that TLS has decrypted together must not wait for each other: beats would be late."""
    options = {**options_for(keys), "zookeeper.session.timeout.ms": "6000"}
    extra = ["--zookeeper", zookeeper, "--id", "1"]
    with BrokerProcess(tmp_path / "data", options=options, extra=extra) as broker:
        time.sleep(6.5)
        told = broker.stderr()

    assert "in doubt" not in told
    assert "registered broker 1" in told


async def test_many_requests_at_once_are_answered(keys: Path, zookeeper: str) -> None:
    """Their answers arrive close together and in order."""
    tls = Tls(str(keys / "ca.pem"), str(keys / "server.pem"))
    store = await open_store(zookeeper, ZooKeeperOptions(tls=tls))
    session = await store.connect(60_000)
    begun = time.monotonic()
    await asyncio.gather(*(session.create(f"/many-{number}") for number in range(200)))
    assert len(await session.children("/")) > 200
    took_s = time.monotonic() - begun
    await store.close()

    assert took_s < 60


def test_what_is_decrypted_already_is_seen(keys: Path) -> None:
    """Two answers in one TLS record: the socket does not become readable for the second."""
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(keys / "server.pem")
    with socket.create_server((HOST, 0)) as listening:
        handler = _Handler(60.0, tls_context(Tls(str(keys / "ca.pem"))))

        def serve() -> None:
            accepted = serving.wrap_socket(listening.accept()[0], server_side=True)
            accepted.sendall(b"12")
            accepted.recv(1)
            accepted.close()

        server = threading.Thread(target=serve)
        server.start()
        connected = handler.create_connection(listening.getsockname(), HOST, 60.0)
        assert connected.recv(1) == b"1"
        found = handler.select([connected], [], [], 1.0)
        connected.close()
        server.join()

    assert found == ([connected], [], [])


@pytest.mark.parametrize(
    "changed", [{"truststore_location": "other.pem"}, {"client_enable": "false"}]
)
def test_whom_it_does_not_trust_it_does_not_join(
    keys: Path, zookeeper: str, tmp_path: Path, changed: dict[str, str]
) -> None:
    """Encryption with an unknown peer protects nothing; without TLS the server does not answer."""
    paths = {name: str(keys / value) if "." in value else value for name, value in changed.items()}
    broker = BrokerProcess(
        tmp_path / "data",
        options=options_for(keys, **paths) | IN_VAIN,
        extra=["--zookeeper", zookeeper, "--id", "1"],
    )
    with pytest.raises(RuntimeError, match="no session with ZooKeeper"):
        broker.start()


def test_the_servers_name_is_checked_unless_it_is_said_not_to(keys: Path, tmp_path: Path) -> None:
    """A certificate for another machine was signed by the same authority."""
    server, address = server_of(keys, "stranger")
    extra = ["--zookeeper", address, "--id", "1"]
    lax = options_for(keys, endpoint_identification_algorithm="")
    with server:
        strict = BrokerProcess(tmp_path / "a", options=options_for(keys) | IN_VAIN, extra=extra)
        with pytest.raises(RuntimeError, match="no session with ZooKeeper"):
            strict.start()
        with BrokerProcess(tmp_path / "b", options=lax, extra=extra) as broker:
            assert "registered broker 1" in broker.stderr()


def test_a_file_that_cannot_be_used_is_named_at_the_start(keys: Path) -> None:
    """A wrong file must fail the start, not the first reconnect."""
    with pytest.raises(ValueError, match=r"TLS to ZooKeeper: /nowhere\.pem: No such file"):
        tls_context(Tls("/nowhere.pem"))
    with pytest.raises(ValueError, match=r"ca\.pem"):
        tls_context(Tls(str(keys / "ca.pem"), str(keys / "ca.pem")))


def test_a_host_that_says_nothing_is_given_up_in_time_for_the_others(keys: Path) -> None:
    """Of two servers each has a quarter of the session's timeout."""
    handler = _Handler(0.2, tls_context(Tls(str(keys / "ca.pem"))))
    with socket.create_server((HOST, 0)) as silent:
        begun = time.monotonic()
        with pytest.raises(TimeoutError):
            handler.create_connection(silent.getsockname(), HOST, 600.0)

    assert time.monotonic() - begun < 60
