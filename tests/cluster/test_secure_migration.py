"""An open cluster is closed broker by broker, its secrets are changed, and it is opened again,
while clients write.

Three processes with ZooKeeper, from PLAINTEXT to SASL_SSL with access rules; idempotent producers
on both sides, and a stranger that tries the protected listener all the time.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.broker.cli.secure_files import jaas_of
from ottla.broker.security.certificates import Authority, Issued, Wish
from ottla.protocol.properties import format_properties, parse_properties
from tests.cluster.support.load import PARTITIONS, QUIET, Load, check
from tests.support.broker_process import ROOT, BrokerProcess
from tests.support.ports import free_ports
from tests.zookeeper.servers import ZooKeeperServer

if TYPE_CHECKING:
    from pathlib import Path

BROKERS = (1, 2, 3)
COMMON = {
    "zookeeper.session.timeout.ms": "18000",
    "min.insync.replicas": "2",
    "default.replication.factor": "3",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "listener.security.protocol.map": "CLEAR:PLAINTEXT,SECURE:SASL_SSL",
}
# Of what ottla secure create writes, this closes the cluster; it comes last.
CLOSING = ("authorizer.class.name", "super.users", "ottla.broker.principals")
METADATA = struct.pack(">hhih4sibb", 3, 8, 1, 4, b"none", -1, 0, 0) + b"\0"
UNAVAILABLE_S = 15.0


class ByFile(BrokerProcess):
    """A broker that gets all of its settings from a file."""

    def command(self) -> list[str]:
        file = self.data_dir.parent / f"{self.data_dir.name}.properties"
        return [sys.executable, "-m", "ottla", "start", "--config", str(file)]

    def configure(self, settings: dict[str, str]) -> None:
        """For its next start."""
        file = self.data_dir.parent / f"{self.data_dir.name}.properties"
        file.write_text(format_properties({**settings, "log.dirs": str(self.data_dir)}))


class Site:
    """The cluster and its phases."""

    def __init__(self, folder: Path, zookeeper: str) -> None:
        self.folder = folder
        self.zookeeper = zookeeper
        ports = free_ports(2 * len(BROKERS))
        self.clear = dict(zip(BROKERS, ports, strict=False))
        self.secure = dict(zip(BROKERS, ports[len(BROKERS) :], strict=True))
        self.brokers = {one: ByFile(folder / f"data-{one}") for one in BROKERS}
        places = [f"--broker={one}=localhost,127.0.0.1" for one in BROKERS]
        clients = f"--clients={self.addresses(self.secure)}"
        self.ottla("secure", "create", str(folder / "secured"), *places, clients)

    def ottla(self, *words: str, password: str = "") -> None:
        """Run a verb to its end."""
        subprocess.run(
            [sys.executable, "-m", "ottla", *words],
            input=password,
            text=True,
            timeout=120,
            check=True,
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
        )

    @staticmethod
    def addresses(ports: dict[int, int]) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in ports.values())

    def written(self, node_id: int) -> dict[str, str]:
        """What the command has written for that broker."""
        file = self.folder / "secured" / f"broker-{node_id}" / "broker.properties"
        return parse_properties(file.read_text())

    def password(self, user: str) -> str:
        kept = parse_properties((self.folder / "secured" / "passwords.properties").read_text())
        return kept[user]

    def client(self, user: str, password: str) -> dict[str, Any]:
        """librdkafka's settings for the protected listener."""
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.username": user,
            "sasl.password": password,
            "ssl.ca.location": str(self.folder / "secured" / "ca.pem"),
        }

    def settings(self, node_id: int, phase: int, **changed: str) -> dict[str, str]:
        """Of a broker: 0 open, 1 with both listeners, 2 brokers by the protected one, 3 closed."""
        clear = f"CLEAR://127.0.0.1:{self.clear[node_id]}"
        secure = f"SECURE://127.0.0.1:{self.secure[node_id]}"
        made = {
            **COMMON,
            "zookeeper.connect": self.zookeeper,
            "broker.id": str(node_id),
            "listeners": (clear, f"{clear},{secure}", f"{clear},{secure}", secure)[phase],
            "inter.broker.listener.name": "CLEAR" if phase < 2 else "SECURE",
        }
        if phase in (1, 2):
            made["ottla.inter.broker.listeners"] = "CLEAR,SECURE"
        if phase > 0:
            written = self.written(node_id)
            closing = {name: written.pop(name) for name in CLOSING}
            made |= written
            if phase == 3:
                made |= closing
            elif phase == 2:
                made["authorizer.class.name"] = closing["authorizer.class.name"]
                made["super.users"] = closing["super.users"] + ";User:ANONYMOUS"
                made["allow.everyone.if.no.acl.found"] = "true"
        return made | {name.replace("_", "."): value for name, value in changed.items()}

    def roll(
        self, phase: int, load: Load, connecting: dict[str, Any], *, is_changed: bool = False
    ) -> float:
        """Restart the brokers one by one in that phase, with their changed passwords or the first
        ones; the longest time without progress."""
        gaps = []
        for node_id, broker in self.brokers.items():
            begun = time.monotonic()
            assert broker.stop() == 0, broker.stderr()[-3000:]
            login = jaas_of(f"broker-{node_id}", f"new-{node_id}")
            changed = {"sasl_jaas_config": login} if is_changed else {}
            broker.configure(self.settings(node_id, phase, **changed))
            broker.start()
            self.wait_until_whole(connecting)
            load.wait_for_all()
            gaps.append(load.longest_gap(begun, time.monotonic()))
        return max(gaps)

    def wait_until_whole(self, connecting: dict[str, Any]) -> None:
        """Until all replicas are in sync, as one broker says."""
        admin = AdminClient(connecting, logger=QUIET)
        deadline = time.monotonic() + 90
        while time.monotonic() < deadline:
            with contextlib.suppress(KafkaException):
                topics = admin.list_topics(timeout=10).topics
                if all(
                    len(part.isrs) == len(BROKERS)
                    for topic in topics.values()
                    for part in topic.partitions.values()
                ):
                    return
            time.sleep(0.1)
        raise AssertionError("\n".join(one.stderr()[-3000:] for one in self.brokers.values()))


class Stranger:
    """Asks the protected listeners for metadata without a login, in clear text and over TLS."""

    def __init__(self, site: Site) -> None:
        self.tries = 0
        self.answers: list[bytes] = []
        self._site = site
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        context = ssl.create_default_context(cafile=self._site.folder / "secured" / "ca.pem")
        while not self._stop.wait(0.2):
            for port in self._site.secure.values():
                for is_encrypted in (False, True):
                    with contextlib.suppress(OSError):
                        self._ask(port, context if is_encrypted else None)

    def _ask(self, port: int, context: ssl.SSLContext | None) -> None:
        with socket.create_connection(("127.0.0.1", port), 2) as plain:
            peer = (
                plain
                if context is None
                else context.wrap_socket(plain, False, True, True, "localhost")
            )
            self.tries += 1
            peer.sendall(struct.pack(">i", len(METADATA)) + METADATA)
            answer = peer.recv(1000)
            # An alert of TLS may come back to a clear text; anything else is an answer.
            if answer and (context is not None or answer[0] != 0x15):
                self.answers.append(answer)
            peer.close()

    def finish(self) -> None:
        self._stop.set()
        self._thread.join()


def _create(connecting: dict[str, Any], *names: str) -> None:
    admin = AdminClient(connecting, logger=QUIET)
    made = admin.create_topics([NewTopic(name, PARTITIONS, len(BROKERS)) for name in names])
    for future in made.values():
        future.result(60)


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_a_live_cluster_is_closed_given_other_secrets_and_opened(tmp_path: Path) -> None:
    """SEC-19: no acknowledged record is lost, no record is refused, and no client without a login
    is served on the protected listener at any moment."""
    with ZooKeeperServer() as zookeeper:
        site = Site(tmp_path, zookeeper.address)
        for node_id, broker in site.brokers.items():
            broker.configure(site.settings(node_id, 0))
        with contextlib.ExitStack() as stack:
            for broker in site.brokers.values():
                stack.enter_context(broker)
            stranger = Stranger(site)
            stack.callback(stranger.finish)
            _close(site)
            _change_secrets(site)
            _open_again(site)
        assert stranger.tries > 50
        assert stranger.answers == []


def _close(site: Site) -> None:
    clear = site.addresses(site.clear)
    connecting: dict[str, Any] = {"bootstrap.servers": clear}
    _create(connecting, "open", "closed")
    gaps = []
    load = Load(clear, "open")
    try:
        load.wait_for_all()
        gaps.append(site.roll(1, load, connecting))
        for user in ("admin", *(f"broker-{one}" for one in BROKERS)):
            word = site.password(user)
            site.ottla("users", "create", user, "--password-stdin", "-b", clear, password=word)
        site.ottla("users", "create", "alice", "--password-stdin", "-b", clear, password="a-pw")
        gaps.append(site.roll(2, load, connecting))
    finally:
        load.finish()
    check(load, clear)
    # The clients move; from now on rules count for the topics that have some.
    secure = site.addresses(site.secure)
    alice = Load(secure, "closed", site.client("alice", "a-pw"))
    admin = {"bootstrap.servers": secure, **site.client("admin", site.password("admin"))}
    try:
        alice.wait_for_all()
        file = str(site.folder / "secured" / "client" / "client.properties")
        allow = ("--allow", "User:alice", "--command-config", file)
        site.ottla("acls", "add", *allow, "--operation", "read,write", "--topic", "closed")
        site.ottla("acls", "add", *allow, "--operation", "read", "--group", "unused")
        gaps.append(site.roll(3, alice, admin))
    finally:
        alice.finish()
    check(alice, secure)
    for port in site.clear.values():
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), 1)
    refused = AdminClient(
        {"bootstrap.servers": secure, **site.client("alice", "a-pw")}, logger=QUIET
    )
    (future,) = refused.create_topics([NewTopic("mine", 1, 1)]).values()
    with pytest.raises(KafkaException, match="AUTHORIZATION"):
        future.result(30)
    assert max(gaps) < UNAVAILABLE_S, gaps
    print("longest time without acknowledgements, by phase:", gaps)


def _change_secrets(site: Site) -> None:
    """Each broker has a user of its own, so its password is changed while it is down; new
    certificates are taken by running brokers."""
    secure = site.addresses(site.secure)
    admin = {"bootstrap.servers": secure, **site.client("admin", site.password("admin"))}
    file = str(site.folder / "secured" / "client" / "client.properties")
    connecting = site.client("admin", site.password("admin"))
    _create(admin, "changed")
    load = Load(secure, "changed", connecting)
    try:
        load.wait_for_all()
        for node_id, broker in site.brokers.items():
            begun = time.monotonic()
            assert broker.stop() == 0
            word = f"new-{node_id}"
            user = f"broker-{node_id}"
            create = ("users", "create", user, "--password-stdin", "--command-config", file)
            site.ottla(*create, password=word)
            login = jaas_of(user, word)
            broker.configure(site.settings(node_id, 3, sasl_jaas_config=login))
            broker.start()
            site.wait_until_whole(admin)
            load.wait_for_all()
            assert load.longest_gap(begun, time.monotonic()) < UNAVAILABLE_S
        serials = [_serial(port) for port in site.secure.values()]
        made = site.folder / "secured"
        authority = Authority.load(
            Issued((made / "ca.pem").read_text(), (made / "ca.key").read_text())
        )
        for node_id in BROKERS:
            wish = Wish(f"CN=broker-{node_id}", ("localhost", "127.0.0.1"), is_both=True)
            (made / f"broker-{node_id}" / "broker.pem").write_text(authority.issue(wish).both)
        deadline = time.monotonic() + 60
        while any(_serial(port) in serials for port in site.secure.values()):
            assert time.monotonic() < deadline, "new certificates are not taken"
            time.sleep(0.5)
        load.wait_for_all()
    finally:
        load.finish()
    check(load, secure)


def _open_again(site: Site) -> None:
    """The same steps in the reverse order, as an operator does when clients cannot follow."""
    secure, clear = site.addresses(site.secure), site.addresses(site.clear)
    login = site.client("admin", site.password("admin"))
    admin = {"bootstrap.servers": secure, **login}
    _create(admin, "opening")
    gaps = []
    load = Load(secure, "opening", login)
    try:
        load.wait_for_all()
        gaps.append(site.roll(2, load, admin, is_changed=True))
    finally:
        load.finish()
    check(load, secure)
    connecting: dict[str, Any] = {"bootstrap.servers": clear}
    _create(connecting, "reopened")
    load = Load(clear, "reopened")
    try:
        load.wait_for_all()
        gaps.append(site.roll(1, load, connecting, is_changed=True))
        gaps.append(site.roll(0, load, connecting))
    finally:
        load.finish()
    check(load, clear)
    for port in site.secure.values():
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), 1)
    assert max(gaps) < UNAVAILABLE_S, gaps


def _serial(port: int) -> str:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with (
        socket.create_connection(("127.0.0.1", port), 10) as plain,
        context.wrap_socket(plain) as peer,
    ):
        certificate = peer.getpeercert(binary_form=True)
    assert certificate is not None
    return certificate.hex()
