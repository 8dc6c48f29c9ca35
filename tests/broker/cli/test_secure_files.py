"""A first secure start makes its files once, for their owner alone, and keeps them."""

from __future__ import annotations

import ssl
import stat
from typing import TYPE_CHECKING

from ottla.broker.cli.secure_files import (
    ADMIN,
    BROKER,
    LOCAL_NAMES,
    broker_settings,
    jaas_of,
    secure_files,
    write_client_properties,
)
from ottla.broker.security.certificates import Authority, Wish, is_good_for
from ottla.protocol.properties import parse_properties

if TYPE_CHECKING:
    from pathlib import Path

BOOTSTRAP = "127.0.0.1:9093"


def test_files_are_made_once_and_kept(tmp_path: Path) -> None:
    """A second start must not change passwords and certificates under clients that have them."""
    first = secure_files(tmp_path / "secure", LOCAL_NAMES)
    contents = {path.name: path.read_bytes() for path in first.directory.iterdir()}
    second = secure_files(tmp_path / "secure", LOCAL_NAMES)
    assert second == first
    assert {path.name: path.read_bytes() for path in first.directory.iterdir()} == contents
    assert set(contents) == {
        "broker.pem",
        "ca.key",
        "ca.pem",
        "passwords.properties",
        "tokens.properties",
    }


def test_only_the_owner_can_read_what_is_private(tmp_path: Path) -> None:
    """Only the authority's certificate is readable by all: clients need it."""
    files = secure_files(tmp_path / "secure", LOCAL_NAMES)
    write_client_properties(files, BOOTSTRAP)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in files.directory.iterdir()}
    assert stat.S_IMODE(files.directory.stat().st_mode) == 0o700
    assert {name for name, mode in modes.items() if mode & 0o077} <= {"ca.pem"}


def test_certificate_is_replaced_when_the_broker_has_another_name(tmp_path: Path) -> None:
    """The authority stays, so that clients go on trusting it."""
    first = secure_files(tmp_path / "secure", LOCAL_NAMES)
    authority, certificate = first.authority.read_text(), first.certificate.read_text()
    names = (*LOCAL_NAMES, "kafka.example")
    assert not is_good_for(certificate, names)
    second = secure_files(tmp_path / "secure", names)
    assert second.authority.read_text() == authority
    assert is_good_for(second.certificate.read_text(), names)
    assert is_good_for(second.certificate.read_text(), LOCAL_NAMES)


def test_certificate_is_replaced_before_it_expires(tmp_path: Path) -> None:
    """A broker that is restarted once a year must not stop being trusted in between."""
    soon = Authority().issue(Wish("CN=broker", LOCAL_NAMES, is_both=True, days=20))
    assert not is_good_for(soon.certificate, LOCAL_NAMES)
    assert is_good_for(soon.certificate, LOCAL_NAMES, days=10)


def test_clients_trust_the_kept_authority_after_a_restart(tmp_path: Path) -> None:
    """OpenSSL takes the certificate that an authority from a file has signed."""
    secure_files(tmp_path / "secure", LOCAL_NAMES)
    files = secure_files(tmp_path / "secure", (*LOCAL_NAMES, "other"))
    server, client = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.certificate)
    broker = context.wrap_bio(client, server, server_side=True)
    trusting = ssl.create_default_context(cafile=str(files.authority))
    user = trusting.wrap_bio(server, client, server_hostname="localhost")
    for _ in range(3):
        for side in (user, broker):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    assert user.version() == "TLSv1.3"


def test_settings_of_broker_and_client_fit_together(tmp_path: Path) -> None:
    """Both super users log in with the passwords that were made."""
    files = secure_files(tmp_path / "secure", LOCAL_NAMES)
    client = parse_properties(write_client_properties(files, BOOTSTRAP).read_text())
    assert client["sasl.jaas.config"] == jaas_of(ADMIN, files.passwords[ADMIN])
    assert client["bootstrap.servers"] == BOOTSTRAP
    broker = broker_settings(files)
    login = broker["listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config"]
    assert login == jaas_of(BROKER, files.passwords[BROKER])
    assert files.passwords[ADMIN] != files.passwords[BROKER]
    assert files.passwords[ADMIN] not in repr(files)
