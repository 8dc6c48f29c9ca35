"""A private key that other users of the machine can read is not used unasked."""

from __future__ import annotations

import asyncio
import logging
import os
from typing import TYPE_CHECKING, Any

import pytest

from ottla.broker.server.stores import CannotStart, open_store
from ottla.coordinator.configs.broker_configs import parse_broker_config
from ottla.wire.tls.client_tls import readers_of
from tests.broker.security.test_tls_clients import admin, listener, secured
from tests.support import certificates
from tests.support.in_process import running_broker

if TYPE_CHECKING:
    from pathlib import Path

ROOT, OTTLA, STRANGERS = 0, 1000, 2000


@pytest.mark.parametrize(
    ("mode", "owner", "group", "others"),
    [
        (0o600, OTTLA, OTTLA, ""),
        (0o400, OTTLA, OTTLA, ""),
        (0o644, OTTLA, OTTLA, "all users (mode 0644)"),
        (0o640, OTTLA, OTTLA, "its group (mode 0640)"),
        (0o620, OTTLA, OTTLA, "its group (mode 0620)"),
        # As Kubernetes gives a secret to the group of a pod.
        (0o440, ROOT, OTTLA, ""),
        (0o640, ROOT, OTTLA, ""),
        (0o660, ROOT, OTTLA, "its group (mode 0660)"),
        (0o640, ROOT, STRANGERS, "its group (mode 0640)"),
        (0o444, ROOT, OTTLA, "all users (mode 0444)"),
    ],
)
def test_owner_group_and_mode_decide_who_can_read_a_file(
    mode: int, owner: int, group: int, others: str
) -> None:
    """The group of the broker may read what root gives it, and no more."""
    found = os.stat_result((0o100000 | mode, 0, 0, 1, owner, group, 0, 0, 0, 0))

    assert readers_of(found, frozenset({OTTLA})) == others


def _key(folder: Path, mode: int) -> Path:
    path = folder / "broker.pem"
    path.touch(mode=0o600)
    path.write_text(certificates.issued("broker").both)
    path.chmod(mode)
    return path


async def test_a_broker_does_not_start_with_a_key_that_all_users_can_read(tmp_path: Path) -> None:
    """The sentence says what to do, and then it starts. The authority may be read by all users."""
    trust = tmp_path / "ca.pem"
    trust.write_text(certificates.authority().certificate)
    trust.chmod(0o644)
    path = _key(tmp_path, 0o644)
    settings = listener(ssl_keystore_location=str(path), ssl_truststore_location=str(trust))
    with pytest.raises(CannotStart, match=rf"mode 0644\) can use it: run chmod 600 {path}"):
        async with running_broker(settings):
            pass

    path.chmod(0o600)
    async with running_broker(settings) as running, admin(running, secured()) as client:
        await client.list_topics()


async def test_an_operator_may_allow_such_keys(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """For a disk that knows no modes; the broker warns then."""
    path = _key(tmp_path, 0o644)
    settings = listener(ssl_keystore_location=str(path), ottla_allow_readable_keys="true")
    async with running_broker(settings) as running, admin(running, secured()) as client:
        await client.list_topics()

    told = [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]
    assert sum("contains a private key, and all users" in text for text in told) == 1


async def test_a_new_key_that_all_users_can_read_leaves_the_old_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A tool that renews certificates may have written it; once it is closed the broker uses it."""
    caplog.set_level(logging.INFO)
    path = _key(tmp_path, 0o600)
    async with running_broker(listener(ssl_keystore_location=str(path))) as running:
        tls = running.broker.parts.tls
        path.write_text(certificates.issued("elsewhere").both)
        path.chmod(0o644)
        tls.refresh()
        tls.refresh()
        async with admin(running, secured()) as client:
            await client.list_topics()
        told = [one.getMessage() for one in caplog.records]
        assert sum("keeps its certificate" in text for text in told) == 1
        path.chmod(0o600)
        tls.refresh()
    told = [one.getMessage() for one in caplog.records]
    assert sum("has a new certificate" in text for text in told) == 1


async def test_the_key_towards_zookeeper_is_looked_at_too(tmp_path: Path) -> None:
    """Who has it can change every znode."""
    path = _key(tmp_path, 0o644)
    texts = {
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "log.dirs": str(tmp_path / "data"),
        "zookeeper.connect": "127.0.0.1:1",
        "zookeeper.ssl.client.enable": "true",
        "zookeeper.ssl.keystore.location": str(path),
    }
    ports: Any = _OfNoUse()
    with pytest.raises(CannotStart, match=f"run chmod 600 {path}"):
        await asyncio.wait_for(
            open_store(ports, ports, parse_broker_config(texts).config, print), 30
        )


class _OfNoUse:
    """Ports of a broker whose data directory is empty."""

    def __init__(self) -> None:
        self.disk = self

    def exists(self, path: str) -> bool:
        return False
