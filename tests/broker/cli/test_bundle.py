"""``ottla doctor --bundle``: what a maintainer gets, and that no secret is in it."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
import tarfile
from typing import TYPE_CHECKING

from ottla.broker.cli.bundle import HIDDEN, redacted, write_bundle
from ottla.protocol.properties import format_properties
from tests.broker.security.test_secrets_stay_secret import MARK
from tests.support.broker_process import BrokerProcess
from tests.support.hostile.secret_scan import hits
from tests.support.ports import free_row
from tests.support.sasl_broker import jaas

if TYPE_CHECKING:
    from pathlib import Path

SECRETS = [f"{MARK}{word}" for word in ("store", "login", "plugin", "zk", "url", "token", "plain")]


def settings() -> dict[str, str]:
    """A secret in each place where an operator may have one."""
    store, login, plugin, zk, url, token, plain = SECRETS
    return {
        "ssl.keystore.password": store,
        "ssl.keystore.key": store,
        "sasl.jaas.config": jaas("PLAIN", username="broker", password=login),
        "listener.name.sasl_ssl.plain.sasl.jaas.config": jaas("PLAIN", user_admin=plain),
        "confluent.plugin.setting": plugin,
        "ottla.zookeeper.digest": f"user:{zk}",
        "sasl.oauthbearer.jwks.endpoint.url": f"https://user:{url}@idp.example/keys",
        "delegation.token.secret.key": token,
        "log.retention.ms": "60000",
    }


def test_only_values_of_known_settings_that_are_no_secret_are_shown() -> None:
    """A name that no table has may be that of a plug-in's password."""
    shown = redacted(settings())

    assert hits(SECRETS, {"settings": json.dumps(shown)}) == []
    assert shown["log.retention.ms"] == "60000"
    assert shown["sasl.oauthbearer.jwks.endpoint.url"] == f"https://{HIDDEN}@idp.example/keys"
    assert shown["confluent.plugin.setting"] == HIDDEN


def test_a_bundle_is_its_owners_and_replaces_nothing(tmp_path: Path) -> None:
    """It tells of hosts, topics and groups."""
    path = tmp_path / "bundle.tar.gz"
    write_bundle(str(path), {"a.txt": "text\n"})

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    done = subprocess.run(
        [sys.executable, "-m", "ottla", "doctor", "--local", "--bundle", str(path)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "file exists; name another file" in done.stderr


def test_a_bundle_has_what_a_maintainer_asks_for_and_no_secret(tmp_path: Path) -> None:
    """Of a broker that runs with these settings; the secrets are looked for in each of its files,
    also in hexadecimal digits and base64."""
    metrics = free_row(1)
    given = {
        **{name: value for name, value in settings().items() if not name.startswith("ssl.")},
        "ottla.metrics.listener": f"127.0.0.1:{metrics}",
    }
    for name in ("sasl.jaas.config", "ottla.zookeeper.digest"):
        del given[name]
    file = tmp_path / "server.properties"
    file.write_text(format_properties(given))
    path = tmp_path / "bundle.tar.gz"
    words = ("--config", str(file), "--bundle", str(path))
    with BrokerProcess(tmp_path / "data", extra=("--config", str(file))) as broker:
        done = subprocess.run(
            [sys.executable, "-m", "ottla", "doctor", "-b", broker.address, *words],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )

    assert "read it before you send it" in done.stderr
    with tarfile.open(path) as archive:
        documents = {}
        for entry in archive:
            content = archive.extractfile(entry)
            assert content is not None
            documents[entry.name.removeprefix("ottla-bundle/")] = content.read()
    assert documents.keys() == {
        "cluster.json",
        "findings.json",
        "groups.json",
        "log-dirs.json",
        "machine.json",
        "metrics.txt",
        "settings.properties",
        "topics.json",
    }
    assert hits(SECRETS, documents) == []
    cluster = json.loads(documents["cluster.json"])
    assert cluster["brokers"][0]["settings"]["log.retention.ms"] == ["60000", "STATIC_BROKER"]
    assert b"log.retention.ms=60000\n" in documents["settings.properties"]
    assert b"kafka_brokers 1" in documents["metrics.txt"]
    assert json.loads(documents["machine.json"])["python"] == sys.version
