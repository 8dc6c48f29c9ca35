"""Certificates that their authority has revoked: ``ssl.crl.location``."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING

import pytest

from ottla.broker.security.certificates import Issued, revocation_list
from ottla.broker.server.broker import CannotStart
from ottla.broker.system.memory_disk import MemoryDisk
from ottla.wire.errors import AuthenticationFailed
from tests.broker.security.test_tls_clients import admin, listener, secured
from tests.support import certificates
from tests.support.in_process import RunningBroker, running_broker

if TYPE_CHECKING:
    from pathlib import Path


def _lists(path: Path, *revoked: str, signer: str = "authority", days: float = 30) -> str:
    """Write a list that revokes these certificates; the path as a setting."""
    made = certificates.authority() if signer == "authority" else certificates.other_authority()
    issued: list[Issued] = [certificates.issued(name) for name in revoked]
    path.write_text(revocation_list(made.kept, issued, days))
    return str(path)


async def _listed(running: RunningBroker, name: str) -> None:
    """Log in with that certificate."""
    trusted = secured(ssl_keystore_location=certificates.store(name))
    async with admin(running, trusted) as client:
        await client.list_topics()


async def test_a_revoked_certificate_is_refused_from_the_next_reload_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The list is read again like a certificate; others of the authority stay welcome. Log and
    audit log tell the reason."""
    disk = MemoryDisk()
    disk.make_directory("/audit")
    path = tmp_path / "revoked.pem"
    settings = listener(ssl_client_auth="required", ssl_crl_location=_lists(path))
    settings["ottla.audit.log"] = "/audit/lines"
    async with running_broker(settings, disk=disk) as running:
        await _listed(running, "client")
        _lists(path, "client")
        running.broker.parts.tls.refresh()
        with pytest.raises(AuthenticationFailed, match="has refused the certificate"):
            await _listed(running, "client")
        await _listed(running, "broker")
    kept = disk.open("/audit/lines")
    lines = [json.loads(line) for line in kept.pread(kept.size_bytes, 0).splitlines()]
    reasons = {one["reason"] for one in lines if one["event"] == "authentication-failure"}
    assert reasons == {"the client's certificate has been revoked: use another one"}
    assert any("certificate has been revoked" in one.getMessage() for one in caplog.records)


@pytest.mark.parametrize(
    ("signer", "days", "reason"),
    [
        ("authority", -1, "revocation list in ssl.crl.location has expired"),
        ("other", 30, "has no revocation list of its authority"),
    ],
)
async def test_without_a_list_in_force_no_certificate_is_accepted(
    tmp_path: Path, signer: str, days: float, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Whom the missing list names is not known, so the broker refuses every client."""
    lists = _lists(tmp_path / "revoked.pem", signer=signer, days=days)
    caplog.set_level(logging.INFO)
    async with running_broker(
        listener(ssl_client_auth="required", ssl_crl_location=lists)
    ) as running:
        with pytest.raises(AuthenticationFailed):
            await _listed(running, "client")
    assert any(reason in one.getMessage() for one in caplog.records)


async def test_a_file_without_lists_stops_the_start_and_not_a_running_broker(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A running broker keeps the lists that it has."""
    path = tmp_path / "revoked.pem"
    settings = listener(ssl_client_auth="required", ssl_crl_location=str(path))
    with pytest.raises(CannotStart, match=r"ssl\.crl\.location: .* no such file"):
        async with running_broker(settings):
            pass
    path.write_text(certificates.authority().certificate)
    with pytest.raises(CannotStart, match="holds no revocation list in PEM form"):
        async with running_broker(settings):
            pass
    _lists(path, "client")
    async with running_broker(settings) as running:
        for broken in ("", "-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n"):
            path.write_text(broken)
            running.broker.parts.tls.refresh()
            with pytest.raises(AuthenticationFailed):
                await _listed(running, "client")
            await _listed(running, "broker")
    assert sum("keeps its certificate" in one.getMessage() for one in caplog.records) == 2


async def test_a_client_refuses_a_revoked_broker(tmp_path: Path) -> None:
    """With librdkafka's name of the setting, which brokers use, too."""
    async with running_broker(listener()) as running:
        lists = _lists(tmp_path / "revoked.pem", "client")
        async with admin(running, secured(ssl_crl_location=lists)) as client:
            await client.list_topics()
        lists = _lists(tmp_path / "more.pem", "broker")
        with pytest.raises(AuthenticationFailed, match="the broker's certificate has been revoked"):
            async with admin(running, secured(ssl_crl_location=lists)) as client:
                await client.list_topics()


async def test_two_authorities_have_their_lists_in_one_file(tmp_path: Path) -> None:
    """As after a change of the authority."""
    path = tmp_path / "both.pem"
    lists = _lists(path, "client")
    path.write_text(path.read_text() + revocation_list(certificates.other_authority().kept, []))
    trust = tmp_path / "trust.pem"
    trust.write_text(
        certificates.authority().certificate + certificates.other_authority().certificate
    )
    settings = listener(
        ssl_client_auth="required", ssl_crl_location=lists, ssl_truststore_location=str(trust)
    )
    async with running_broker(settings) as running:
        await _listed(running, "stranger")
        with pytest.raises(AuthenticationFailed):
            await _listed(running, "client")


async def test_a_certificate_among_the_lists_is_not_trusted(tmp_path: Path) -> None:
    """An authority's file often has its certificate beside its list; what is trusted is said by the
    trust store alone."""
    path = tmp_path / "revoked.pem"
    lists = _lists(path)
    other = certificates.other_authority()
    path.write_text(path.read_text() + revocation_list(other.kept, []) + other.certificate)
    settings = listener(ssl_client_auth="required", ssl_crl_location=lists)
    async with running_broker(settings) as running:
        await _listed(running, "client")
        with pytest.raises(AuthenticationFailed):
            await _listed(running, "stranger")
