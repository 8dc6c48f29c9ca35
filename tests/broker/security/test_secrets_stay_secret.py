"""A scanner for secrets (SEC-16): passwords with a mark go through a secure broker and its clients,
and are then looked for wherever an operator, another user or a thief may look."""

from __future__ import annotations

import base64
import contextlib
import logging
import os
import subprocess
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import ottla
from ottla.broker.security.certificates import pkcs12
from ottla.broker.server.first_users import FirstUser
from ottla.broker.system.memory_disk import MemoryDisk
from ottla.client.cluster.config_requests import ConfigChange, ResourceType
from ottla.client.settings.config import ClientConfig
from ottla.coordinator.configs.broker_configs import parse_broker_config
from ottla.protocol.configs import ConfigOperation
from ottla.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.protocol.ports import Address
from ottla.protocol.properties import format_properties, parse_properties
from ottla.protocol.sasl.scram_record import SCRAM_SHA_512
from ottla.protocol.secret import Secret
from ottla.wire.errors import AuthenticationFailed, RequestRefused
from tests.broker.security.test_bearer_tokens import unsigned
from tests.broker.security.test_login import log_in
from tests.broker.security.test_tls_fetches import TlsClient
from tests.support import certificates
from tests.support.broker_process import ROOT, BrokerProcess
from tests.support.hostile.secret_scan import check_process, hits, secrets_of
from tests.support.hostile.secure_process import HOST, SecureProcess
from tests.support.pages import read_page
from tests.support.ports import free_row
from tests.support.sasl_broker import jaas, running_broker

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MARK = "m4rk-of-a-s3cret-"
ADMIN, KEYS, BROKERS, STORE, ENCODER = (
    f"{MARK}{word}" for word in ["admin", "keys", "brokers", "zk", "enc"]
)
SCRAM, WRONG, IN_CONFIG = (f"{MARK}{word}" for word in ("scram", "wrong", "config"))
TOKEN = unsigned(sub=f"{MARK}subject")
# The resource type BROKER_LOGGER (KIP-412).
LOGGERS = 8


def test_the_scanner_finds_a_planted_secret() -> None:
    """Else it would find nothing for ever."""
    encoded = base64.b64encode(b"\0alice\0" + ADMIN.encode()).decode()
    places = {"log": f"x {ADMIN}\n", "token": encoded, "hex": KEYS.encode().hex(), "clean": "x"}

    found = [" ".join(one.split()[:3]) for one in hits([ADMIN, KEYS], places)]
    assert found == [f"{ADMIN} in log", f"{ADMIN} in token", f"{KEYS} in hex"]


def test_the_scanner_knows_the_secrets_of_settings(tmp_path: Path) -> None:
    """Passwords of users and stores; no names and paths."""
    found = secrets_of(_settings(tmp_path))
    assert found == sorted([ADMIN, KEYS, BROKERS, STORE, ENCODER])


def test_each_broker_of_the_tests_is_scanned_when_it_stops(tmp_path: Path) -> None:
    """Its log, its audit log and its data; what it has for its clients is left out."""
    data, log, audit = (tmp_path / name for name in ("data", "log", "audit"))
    command = ["-o", f"ssl.key.password={KEYS}", "-o", f"ottla.audit.log={audit}"]
    for name in ("secure", "t-0"):
        (data / name).mkdir(parents=True)
    (data / "secure" / "passwords.properties").write_text(KEYS)
    log.write_text("a line\n")
    check_process(command, log, data)
    for place in (log, audit, data / "t-0" / "partition.metadata"):
        place.write_text(f"a line with {KEYS}\n")
        with pytest.raises(AssertionError, match=f"{KEYS} in {place}"):
            check_process(command, log, data)
        place.unlink()


async def test_the_log_of_a_broker_in_this_process_is_scanned() -> None:
    """Also what a level of this test's own lets through, and tracebacks."""
    settings = {"ssl.key.password": KEYS}
    with pytest.raises(AssertionError, match="in the log"):
        async with running_broker(settings):
            logging.getLogger("ottla.planted").error("a line with %s", KEYS)
    async with running_broker(settings):
        logging.getLogger("ottla.planted").error("a line")


async def test_the_disk_of_a_broker_in_this_process_is_scanned() -> None:
    """For its settings, and for the passwords of its first users."""
    user = FirstUser("alice", SCRAM_SHA_512, Secret(SCRAM))
    async with running_broker({}, first_users=[user]):
        pass
    disk = MemoryDisk()
    with pytest.raises(AssertionError, match=f"{SCRAM} in /data/planted"):
        async with running_broker({}, disk, first_users=[user]):
            disk.open("/data/planted", create=True).append([SCRAM.encode()])


@pytest.mark.parametrize("on_disk", [False, True])
def test_each_cluster_of_the_tests_is_scanned_when_it_stops(
    tmp_path: Path, *, on_disk: bool
) -> None:
    """Its log, and its data wherever that is; clean ones pass."""
    where = tmp_path / "data" if on_disk else None
    settings: Any = {"security": "sasl_plaintext", "users": {"alice": SCRAM}, "data_dir": where}
    with ottla.Cluster(**settings) as cluster:
        cluster.create_topic("t")
    with pytest.raises(AssertionError, match=f"{SCRAM} in the log"), ottla.Cluster(**settings):
        logging.getLogger("ottla.planted").error("a line with %s", SCRAM)
    if where is not None:
        (where / "planted").write_text(SCRAM)
        with pytest.raises(AssertionError, match=f"{SCRAM} in {where}"), ottla.Cluster(**settings):
            pass


class FromFile(SecureProcess):
    """All its settings are in a file, as an operator of a secure broker has them."""

    def __init__(self, data_dir: Path, settings: Mapping[str, str]) -> None:
        super().__init__(data_dir, settings)
        self.file = data_dir.parent / "server.properties"
        self.file.write_text(format_properties(self._settings))
        self.file.chmod(0o600)

    def command(self) -> list[str]:
        """The command line without a setting."""
        command = [sys.executable, "-m", "ottla", "start", "--data-dir", str(self.data_dir)]
        return [*command, "--config", str(self.file), "-v"]


def _settings(folder: Path) -> dict[str, str]:
    """A broker with as many secrets as it can have."""
    store = folder / "broker.p12"
    store.write_bytes(
        pkcs12(certificates.issued("broker"), KEYS, certificates.authority().certificate)
    )
    store.chmod(0o600)
    plain = jaas("PLAIN", user_admin=ADMIN)
    return {
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512,OAUTHBEARER",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": plain,
        "listener.name.sasl_ssl.plain.sasl.jaas.config": plain,
        "sasl.jaas.config": jaas("SCRAM-SHA-512", username="broker", password=BROKERS),
        "ssl.keystore.location": str(store),
        "ssl.keystore.password": KEYS,
        "ssl.truststore.location": certificates.trust(),
        "ottla.zookeeper.digest": f"broker:{STORE}",
        "password.encoder.secret": ENCODER,
        "ottla.oauthbearer.allow.unsecured.tokens": "true",
        "authorizer.class.name": "ottla.acl",
        "super.users": "User:admin;User:ANONYMOUS",
        "ottla.audit.log": str(folder / "audit.log"),
        "ottla.audit.topic": "true",
        "ottla.metrics.listener": f"{HOST}:{free_row(1)}",
    }


def _client(mechanism: str, **more: str) -> dict[str, str]:
    return {
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": certificates.trust(),
        "sasl.mechanism": mechanism,
        **{name.replace("_", "."): value for name, value in more.items()},
    }


async def _trace_all(broker: SecureProcess) -> None:
    """Turn every logger up to TRACE, as Kafka's tool does."""
    async with TlsClient(HOST, broker.tls_port) as client:
        assert (await log_in(client, f"\0admin\0{ADMIN}".encode())).error_code == 0
        loggers = DescribeConfigsRequest([DescribeConfigsResource(LOGGERS, "1", None)])
        described = (await client.call(4, loggers)).results[0]
        changes = [AlterableConfig(one.name, 0, "TRACE") for one in described.configs]
        request = IncrementalAlterConfigsRequest([AlterConfigsResource(LOGGERS, "1", changes)])
        assert (await client.call(1, request)).responses[0].error_code == 0


async def _use(where: str) -> list[str]:
    """Do with secrets what users do; what they are shown meanwhile."""
    shown: list[str] = []
    admin_login = _client("PLAIN", sasl_username="admin", sasl_password=ADMIN)
    async with ottla.Admin(where, security=admin_login) as admin:
        await admin.users.set_password("alice", SCRAM)
        await admin.create_topic(ottla.NewTopic("t", 1))
        for name in (
            "sasl.jaas.config",
            "ssl.keystore.password",
            "listener.name.x.ssl.key.password",
        ):
            change = ConfigChange(name, ConfigOperation.SET, IN_CONFIG)
            with pytest.raises(RequestRefused) as refused:
                await admin.alter_configs(ResourceType.BROKER, "1", [change])
            shown.append(_traceback(refused.value))
        shown += [repr(await admin.describe_configs(ResourceType.BROKER, "1"))]
        shown += [repr(await admin.users.describe_users()), repr(admin), repr(admin.__dict__)]
    for login in (
        _client("SCRAM-SHA-512", sasl_username="alice", sasl_password=SCRAM),
        {**_client("OAUTHBEARER"), "oauth_cb": lambda _config: (TOKEN, 2e9)},
    ):
        config = ClientConfig.from_properties(login)
        shown += [repr(config), str(config)]
        with contextlib.suppress(RequestRefused):
            async with ottla.Producer(where, security=login) as producer:
                await producer.send("t", b"x", partition=0)
    for mechanism in ("PLAIN", "SCRAM-SHA-512"):
        wrong = _client(mechanism, sasl_username="admin", sasl_password=WRONG)
        with pytest.raises(AuthenticationFailed) as failed:
            async with ottla.Admin(where, security=wrong) as admin:
                await admin.list_topics()
        shown.append(_traceback(failed.value))
    return shown


def _traceback(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))


def _files(folder: Path, *, without: Iterable[Path] = ()) -> dict[str, bytes]:
    left_out = set(without)
    return {
        str(path): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not left_out & {path, *path.parents}
    }


def _of_process(broker: BrokerProcess) -> dict[str, bytes]:
    folder = Path(f"/proc/{broker.process_id}")
    return {name: (folder / name).read_bytes() for name in ("cmdline", "environ")}


async def test_no_secret_is_shown_or_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Tried: logs at TRACE, the audit log, answers, errors, tracebacks, reprs, metrics, the process
    table, and all that is on the disk but for the file that the operator has written."""
    caplog.set_level(logging.DEBUG)
    broker = FromFile(tmp_path / "data", _settings(tmp_path))
    metrics = broker._settings["ottla.metrics.listener"].rpartition(":")
    with broker:
        await _trace_all(broker)
        shown = await _use(f"{HOST}:{broker.tls_port}")
        places: dict[str, bytes | str] = {
            **_of_process(broker),
            "metrics": read_page(Address(metrics[0], int(metrics[2])), "/metrics").text,
            "client's log": caplog.text,
            **{f"shown {number}": text for number, text in enumerate(shown)},
        }
    places |= _files(tmp_path, without=[broker.file])
    settings = parse_broker_config(parse_properties(broker.file.read_text())).config
    token = SaslAuthenticateRequest(f"\0admin\0{ADMIN}".encode())
    places["reprs"] = f"{settings!r} {settings.sources!r} {settings.sasl!r} {token!r}"

    # The scan was of something: requests at TRACE, and failures in the audit log.
    assert "api 3 version" in broker.stderr()
    assert (tmp_path / "audit.log").read_text().count("authentication-failure") >= 2
    secrets = [ADMIN, KEYS, BROKERS, STORE, ENCODER, SCRAM, WRONG, IN_CONFIG, TOKEN]
    found = hits(secrets, places)
    assert found == [], "\n".join(found)


BROKEN = {
    "listener.name.sasl_ssl.plain.sasl.jaas.config": f'NoLoginModule required user_x="{ADMIN}";',
    "sasl.jaas.config": f'{ADMIN} required password="{BROKERS}',
    "ssl.keystore.password": f"not-it-{KEYS}",
    "ottla.zookeeper.digest": STORE,
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_start_that_fails_does_not_say_the_secret_that_is_wrong(
    tmp_path: Path, name: str
) -> None:
    """Tried: settings with a mistake, whose values an error might repeat."""
    settings = {**_settings(tmp_path), name: BROKEN[name]}
    broker = FromFile(tmp_path / "data", settings)
    with contextlib.suppress(RuntimeError), broker:
        pass

    said: dict[str, bytes | str] = {
        "stderr": broker.stderr(),
        **_files(tmp_path, without=[broker.file]),
    }
    assert broker.stderr()
    assert hits([ADMIN, KEYS, BROKERS, STORE], said) == []


def _ottla(*arguments: str, home: Path, given: str = "") -> str:
    """What a command says, on both of its outputs."""
    command = [sys.executable, "-m", "ottla", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "XDG_CONFIG_HOME": str(home)}
    done = subprocess.run(
        command, input=given, capture_output=True, text=True, cwd=ROOT, env=environment, check=False
    )
    return done.stdout + done.stderr


def test_a_secure_start_and_its_commands_show_no_password(tmp_path: Path) -> None:
    """Tried: ``ottla start --secure``, a user and a profile made with secrets on standard input, a
    delegation token that is made, listed and used."""
    home = tmp_path / "home"
    worker = home / "worker.properties"
    home.mkdir()
    with BrokerProcess(tmp_path / "data", extra=["--secure", "-v"]) as broker:
        secure = tmp_path / "data" / "secure"
        passwords = parse_properties((secure / "passwords.properties").read_text())
        login = ("--command-config", str(secure / "client.properties"))
        alice = ("-X", "sasl.username=alice", "-X", "sasl.mechanism=SCRAM-SHA-256")
        ends = ("-X", "security.protocol=SASL_SSL", "-X", f"ssl.ca.location={secure / 'ca.pem'}")
        said = [
            _ottla("users", "create", "alice", "--password-stdin", *login, home=home, given=SCRAM),
            _ottla("users", "list", *login, home=home),
            _ottla(
                *("profile", "create", "p", "-b", broker.address, *alice, *ends, "--password"),
                home=home,
                given=SCRAM,
            ),
            _ottla("profile", "list", home=home),
            _ottla("topics", "list", "--profile", "p", home=home),
            _ottla("tokens", "create", "--save", str(worker), *login, home=home),
            _ottla("tokens", "list", "--json", *login, home=home),
            _ottla("topics", "list", "--command-config", str(worker), home=home),
            _ottla("topics", "list", "--profile", "p", "-X", f"sasl.password={WRONG}", home=home),
        ]
        places: dict[str, bytes | str] = {**_of_process(broker), "said": "\n".join(said)}
        of_tokens = parse_properties((secure / "tokens.properties").read_text())
    login_text = parse_properties(worker.read_text())["sasl.jaas.config"]
    token_hmac = login_text.partition('password="')[2].partition('"')[0]
    assert len(token_hmac) == 88
    files = _files(home)
    assert files
    assert any(SCRAM.encode() in content for content in files.values())
    assert all(Path(path).stat().st_mode & 0o077 == 0 for path in files)
    assert "not accepted" in said[-1] or "refused" in said[-1], said[-1]
    places |= _files(tmp_path, without=[secure, home])
    secrets = [*passwords.values(), *of_tokens.values(), token_hmac, SCRAM, WRONG]
    assert hits(secrets, places) == []
