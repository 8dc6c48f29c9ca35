"""``ottla start --secure`` as a person uses it: one option, and one file for every client verb."""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import stat
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from ottla.broker.cli import secure
from ottla.broker.cli.secure_files import ADMIN, jaas_of
from ottla.protocol.properties import format_properties, parse_properties
from tests.support.sasl_broker import sasl_settings
from tests.tidy.tree import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TIMEOUT_S = 60


@contextmanager
def started(directory: Path, *options: str) -> Iterator[dict[str, str]]:
    """The broker's client settings, while it serves."""
    command = [sys.executable, "-m", "ottla", "start", "--secure", "--port", "0"]
    broker = subprocess.Popen(
        [*command, "--data-dir", str(directory), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert broker.stdout is not None
        line = broker.stdout.readline()
        assert line.startswith("ottla: ready at "), broker.communicate(timeout=TIMEOUT_S)
        yield parse_properties((directory / "secure" / "client.properties").read_text())
    finally:
        broker.terminate()
        _, errors = broker.communicate(timeout=TIMEOUT_S)
    assert broker.returncode == 0, errors
    assert "--command-config" in errors


def ottla(*words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run a verb to its end."""
    return subprocess.run(
        [sys.executable, "-m", "ottla", *words],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


def librdkafka(settings: dict[str, str], **changes: Any) -> AdminClient:
    """An admin client of librdkafka, which has no ``sasl.jaas.config``."""
    password = settings["sasl.jaas.config"].partition('password="')[2].partition('"')[0]
    return AdminClient(
        {
            "bootstrap.servers": settings["bootstrap.servers"],
            "security.protocol": settings["security.protocol"],
            "sasl.mechanism": settings["sasl.mechanism"],
            "sasl.username": ADMIN,
            "sasl.password": password,
            "ssl.ca.location": settings["ssl.truststore.location"],
            **changes,
        }
    )


def test_one_file_is_enough_for_every_client_verb(tmp_path: Path) -> None:
    """Create, produce and consume as the super user; a restart keeps users, topics and tokens."""
    data, worker = tmp_path / "data", str(tmp_path / "worker.properties")
    with started(data) as settings:
        file = ("--command-config", str(data / "secure" / "client.properties"))
        created = ottla("topics", "create", "orders", *file)
        assert created.returncode == 0, created.stderr
        sent = ottla("produce", "orders", *file, stdin="one\ntwo\n")
        assert sent.returncode == 0, sent.stderr
        made = ottla("tokens", "create", "--save", worker, *file)
        assert made.returncode == 0, made.stderr
        assert set(librdkafka(settings).list_topics(timeout=30).topics) >= {"orders"}
    with started(data) as settings:
        read = ottla("consume", "orders", "-o", "beginning", "-e", *file)
        assert (read.returncode, read.stdout) == (0, "one\ntwo\n"), read.stderr
        address = settings["bootstrap.servers"]
        by_token = ottla("topics", "list", "-b", address, "--command-config", worker)
        assert (by_token.returncode, "orders" in by_token.stdout) == (0, True), by_token.stderr


def test_clients_without_password_certificate_or_right_are_refused(tmp_path: Path) -> None:
    """Each of the three is refused with its own sentence, and at once."""
    data = tmp_path / "data"
    with started(data) as settings:
        address = settings["bootstrap.servers"]
        client = str(data / "secure" / "client.properties")
        plaintext = ottla("topics", "list", "-b", address)
        assert (plaintext.returncode, "TLS" in plaintext.stderr) == (1, True)
        login = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="{}" '
        wrong = login.format(ADMIN) + 'password="wrong";'
        denied = ottla(
            "topics", "list", "--command-config", client, "-X", f"sasl.jaas.config={wrong}"
        )
        assert denied.returncode == 1
        assert "password" in denied.stderr.lower()
        made = ottla(
            "users",
            "create",
            "alice",
            "--password-stdin",
            "--command-config",
            client,
            stdin="a b\n",
        )
        assert made.returncode == 0, made.stderr
        alice = f'sasl.jaas.config={login.format("alice")}password="a b";'
        listed = ottla("topics", "list", "--json", "--command-config", client, "-X", alice)
        assert listed.returncode == 0, listed.stderr
        assert json.loads(listed.stdout) == []
        refused = ottla("topics", "create", "hers", "--command-config", client, "-X", alice)
        assert refused.returncode == 1
        stranger = librdkafka(settings, **{"sasl.password": "wrong"})
        with pytest.raises(KafkaException):
            stranger.list_topics(timeout=3)


def test_brokers_of_one_process_log_in_to_each_other(tmp_path: Path) -> None:
    """A topic with three replicas gets its acknowledgements over the encrypted listeners."""
    data = tmp_path / "data"
    with started(data, "--brokers", "3"):
        # The users' records are in there, against which passwords could be tried.
        assert stat.S_IMODE((data / "metadata-store").stat().st_mode) == 0o700
        file = ("--command-config", str(data / "secure" / "client.properties"))
        created = ottla("topics", "create", "copies", "-r", "3", *file)
        assert created.returncode == 0, created.stderr
        sent = ottla("produce", "copies", *file, stdin="one\n")
        assert sent.returncode == 0, sent.stderr
        health = ottla("cluster", "health", *file)
        assert health.returncode == 0, health.stdout


def test_page_leads_to_a_user_with_rights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each line of the page's first example works as written, and the user gets exactly them."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    page = (ROOT / "docs" / "security.md").read_text("utf-8")
    _start, script = re.findall(r"```sh\n(.*?)```", page, re.DOTALL)[:2]
    script = script.replace("ottla ", f"{sys.executable} -m ottla ")
    with started(tmp_path / "secured") as settings:
        ended = subprocess.run(
            ["sh", "-e", "-c", script],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        assert ended.returncode == 0, ended.stderr
        alice = jaas_of("alice", "correct horse")
        sent = ottla("produce", "orders", "-X", f"sasl.jaas.config={alice}", stdin="one\n")
        assert sent.returncode == 0, sent.stderr
        read = ["consume", "orders", "-o", "beginning", "-e", "-g", "alice"]
        got = ottla(*read, "-X", f"sasl.jaas.config={alice}")
        assert (got.returncode, got.stdout) == (0, "one\n"), got.stderr
        refused = ottla("topics", "delete", "orders", "-X", f"sasl.jaas.config={alice}")
        assert refused.returncode == 1
        assert "orders" in librdkafka(settings).list_topics(timeout=30).topics


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--zookeeper", "127.0.0.1:1", "--id", "1"), "see docs/security.md"),
        (("-o", "listeners=PLAINTEXT://127.0.0.1:0"), "needs one listener"),
    ],
)
def test_contradicting_options_are_refused(
    tmp_path: Path, options: tuple[str, ...], sentence: str
) -> None:
    """A start that is less secure than it says must not happen."""
    port = () if "listeners" in options[1] else ("--port", "0")
    ended = ottla("start", "--secure", *port, "--data-dir", str(tmp_path), *options)
    assert ended.returncode == 1
    assert sentence in ended.stderr


@pytest.mark.parametrize("option", ["--port", "--host"])
def test_an_address_by_options_does_not_replace_closed_listeners(
    tmp_path: Path, option: str
) -> None:
    """The broker would let everyone in, although its settings ask for logins."""
    value = "0" if option == "--port" else "127.0.0.1"
    closed = ("-o", "listeners=SASL_SSL://127.0.0.1:0")
    ended = ottla("start", option, value, "--data-dir", str(tmp_path), *closed)

    assert ended.returncode == 1
    assert ended.stderr == (
        "ottla: the settings name SASL_SSL://127.0.0.1:0 to listen on, and --host and --port would "
        "open one PLAINTEXT address instead: leave these two options out\n"
    )


def test_other_users_of_the_machine_cannot_read_what_a_broker_with_users_writes(
    tmp_path: Path,
) -> None:
    """A credential in the metadata store is enough to try passwords against; logs have records. The
    settings come from a file here, and --secure is not given."""
    audit, data = tmp_path / "audit.log", tmp_path / "data"
    settings = tmp_path / "broker.properties"
    texts = sasl_settings("PLAIN", "SCRAM-SHA-256")
    texts |= {"log.dirs": str(data), "ottla.audit.log": str(audit)}
    settings.write_text(format_properties(texts))
    settings.chmod(0o600)
    # Of a time before the broker had users.
    data.mkdir(mode=0o755)
    audit.touch(mode=0o644)
    command = [sys.executable, "-m", "ottla", "start", "--config", str(settings)]
    command += ["--add-scram", "SCRAM-SHA-256=[name=alice,password=alice-secret]"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as broker:
        assert broker.stdout is not None
        try:
            assert broker.stdout.readline().startswith("ottla: ready at ")
            core_limit = resource.prlimit(broker.pid, resource.RLIMIT_CORE)[0]
        finally:
            broker.terminate()

    assert core_limit == 0, "a core dump would contain the passwords"
    assert stat.S_IMODE((data / "metadata-store").stat().st_mode) == 0o700
    found = [path for path in (audit, data, *data.rglob("*")) if path.exists()]
    assert len(found) > 3
    assert not [path for path in found if stat.S_IMODE(path.stat().st_mode) & 0o007]


def test_what_all_users_of_the_machine_share_stays_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker of root must not close /dev/null or /tmp to all other programs."""
    monkeypatch.setattr(secure, "forbid_core_dumps", lambda: None)
    pipe, shared, link = (tmp_path / name for name in ("device", "shared", "audit.log"))
    os.mkfifo(pipe)
    pipe.chmod(0o666)
    shared.mkdir()
    shared.chmod(0o1777)
    link.symlink_to(pipe)
    settings = {"log.dirs": str(shared), "ottla.audit.log": str(link)}
    before = os.umask(0o077)
    try:
        secure.close_files({**settings, "zookeeper.connect": "127.0.0.1:2181"})
    finally:
        os.umask(before)

    assert stat.S_IMODE(pipe.stat().st_mode) == 0o666
    assert stat.S_IMODE(shared.stat().st_mode) == 0o1777


def test_a_secure_broker_in_memory_leaves_no_file(tmp_path: Path) -> None:
    """Its key and passwords are in a directory that only their owner can enter, until its end."""
    broker = subprocess.Popen(
        [sys.executable, "-m", "ottla", "start", "--secure", "--memory", "--port", "0"],
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert broker.stdout is not None
    broker.stdout.readline()
    (made,) = tmp_path.iterdir()
    assert stat.S_IMODE(made.stat().st_mode) == 0o700
    settings = made / "secure" / "client.properties"
    listed = ottla("topics", "list", "--command-config", str(settings))
    broker.terminate()
    broker.communicate(timeout=TIMEOUT_S)

    assert (listed.returncode, listed.stderr) == (0, "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("mode", "text", "is_told"),
    [
        (0o644, "sasl.jaas.config=x", True),
        (0o644, "listener.name.a.ssl.key.password=x", True),
        (0o600, "sasl.jaas.config=x", False),
        (0o644, "num.partitions=3", False),
    ],
)
def test_a_settings_file_with_passwords_is_the_owners(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, mode: int, text: str, is_told: bool
) -> None:
    """A warning, not a refusal: stock installations of Kafka have such files."""
    file = tmp_path / "server.properties"
    file.write_text(f"{text}\n")
    file.chmod(mode)
    secure.warn_of_surroundings(argparse.Namespace(config=str(file), settings=[]))

    assert (f"run chmod 600 {file}" in caplog.text) is is_told


def test_root_and_passwords_on_the_command_line_are_warned_of(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list of processes shows the command line to all users; the values are not logged."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    options = ["num.partitions=3", "ssl.keystore.password=hidden"]
    secure.warn_of_surroundings(argparse.Namespace(config=None, settings=options))
    (warning,) = [one.getMessage() for one in caplog.records]
    assert "ssl.keystore.password in the list of processes" in warning
    assert "hidden" not in warning
    caplog.clear()

    monkeypatch.setattr(os, "geteuid", lambda: 0)
    secure.warn_of_surroundings(argparse.Namespace(config=None, settings=[]))
    assert "the broker runs as root" in caplog.text
