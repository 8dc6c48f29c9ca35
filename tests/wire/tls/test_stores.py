"""Tests of settings and stores: what is accepted, and what each refusal tells to do."""

from __future__ import annotations

import pickle
import ssl
from typing import TYPE_CHECKING

import pytest

from ottla.broker.security.certificates import pkcs12
from ottla.wire.tls.client_tls import FileTls, read_file
from ottla.wire.tls.contexts import client_context, server_context
from ottla.wire.tls.failures import TlsError, spoken
from ottla.wire.tls.session import TlsSession
from ottla.wire.tls.settings import BadTls, tls_settings
from ottla.wire.tls.stores import material_of
from tests.support import certificates

if TYPE_CHECKING:
    from pathlib import Path

BROKER = certificates.issued("broker")
ENCRYPTED = """-----BEGIN ENCRYPTED PRIVATE KEY-----
MAA=
-----END ENCRYPTED PRIVATE KEY-----
"""


def server(**texts: str | None) -> ssl.SSLContext:
    """The context of a listener with these settings, their dots as underscores."""
    settings = tls_settings({name.replace("_", "."): value for name, value in texts.items()})
    return server_context(settings, material_of(settings, read_file))


def client(**texts: str | None) -> ssl.SSLContext:
    """The same of a client."""
    settings = tls_settings({name.replace("_", "."): value for name, value in texts.items()})
    return client_context(settings, material_of(settings, read_file))


def agree(broker: ssl.SSLContext, peer: ssl.SSLContext, host: str = "127.0.0.1") -> TlsSession:
    """The broker's session after a handshake. Raises ssl.SSLError."""
    ours = TlsSession(broker, is_server=True)
    theirs = TlsSession(peer, is_server=False, server_name=host)
    for _ in range(4):
        theirs.shake()
        ours.incoming.write(theirs.outgoing.read())
        ours.shake()
        theirs.incoming.write(ours.outgoing.read())
    return ours


@pytest.fixture
def store(tmp_path: Path) -> str:
    """A PKCS12 store with the broker's key and the authority."""
    path = tmp_path / "broker.p12"
    path.write_bytes(pkcs12(BROKER, "secret", certificates.authority().certificate))
    return str(path)


def test_pem_texts_and_files_and_pkcs12_make_the_same_listener(store: str) -> None:
    """KIP-651's forms, librdkafka's and Java's stores, in every type that is left out or given."""
    trusting = client(ssl_ca_location=certificates.trust())
    for broker in (
        server(ssl_keystore_location=certificates.store("broker")),
        server(ssl_keystore_location=certificates.store("broker"), ssl_keystore_type="PEM"),
        server(
            ssl_keystore_type="PEM",
            ssl_keystore_key=BROKER.key,
            ssl_keystore_certificate_chain=BROKER.certificate,
        ),
        server(
            ssl_keystore_key=BROKER.key.replace("\n", "\\n"),
            ssl_keystore_certificate_chain=BROKER.certificate.replace("\n", "\\n"),
        ),
        server(
            ssl_key_location=certificates.key_file("broker"),
            ssl_certificate_location=certificates.certificate_file("broker"),
        ),
        server(ssl_keystore_location=store, ssl_keystore_password="secret"),
        server(
            ssl_keystore_location=store, ssl_keystore_password="secret", ssl_keystore_type="JKS"
        ),
    ):
        assert agree(broker, trusting).version == "TLSv1.3"


def test_authorities_are_read_from_every_kind_of_store(store: str) -> None:
    """A PKCS12 trust store is what Java installations have."""
    broker = server(ssl_keystore_location=certificates.store("broker"))
    authority = certificates.authority().certificate
    for trusting in (
        client(ssl_truststore_location=certificates.trust()),
        client(ssl_truststore_certificates=authority, ssl_truststore_type="PEM"),
        client(ssl_ca_pem=authority),
        client(ssl_truststore_location=store, ssl_truststore_password="secret"),
        # As in Java, the broker's own certificate may stand in the trust store.
        client(ssl_truststore_certificates=BROKER.certificate),
    ):
        agree(broker, trusting)
    with pytest.raises(ssl.SSLCertVerificationError):
        agree(broker, client(ssl_ca_location=certificates.trust("other")))


def test_a_certificate_of_a_client_does_not_make_a_server() -> None:
    """Otherwise each client could stand in for a broker; the extended key usage tells."""
    fake = server(ssl_keystore_location=certificates.store("client"))
    trusting = client(
        ssl_ca_location=certificates.trust(), ssl_endpoint_identification_algorithm=""
    )
    with pytest.raises(ssl.SSLCertVerificationError, match="purpose"):
        agree(fake, trusting)


def test_an_unverified_connection_has_to_be_asked_for() -> None:
    """librdkafka's enable.ssl.certificate.verification; an empty algorithm spares the name."""
    elsewhere = server(ssl_keystore_location=certificates.store("elsewhere"))
    agree(elsewhere, client(enable_ssl_certificate_verification="false"))
    with pytest.raises(ssl.SSLCertVerificationError):
        agree(elsewhere, client(ssl_ca_location=certificates.trust()))
    with pytest.raises(ssl.SSLCertVerificationError):
        agree(elsewhere, client(ssl_endpoint_identification_algorithm=""))


def test_contexts_allow_nothing_that_is_broken() -> None:
    """Old versions, renegotiation, compression, and suites without authenticated encryption."""
    for context in (
        server(ssl_keystore_location=certificates.store("broker")),
        client(ssl_ca_location=certificates.trust()),
    ):
        assert context.minimum_version is ssl.TLSVersion.TLSv1_2
        assert context.options & ssl.OP_NO_RENEGOTIATION
        assert context.options & ssl.OP_NO_COMPRESSION
        for suite in context.get_ciphers():
            assert suite["aead"], suite["name"]
            assert suite["strength_bits"] >= 128


@pytest.mark.parametrize(
    ("suites", "found"),
    [
        ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "ECDHE-ECDSA-AES256-GCM-SHA384"),
        ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305"),
        ("ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-ECDSA-AES128-GCM-SHA256"),
    ],
)
def test_suites_have_the_names_of_java_or_of_openssl(suites: str, found: str) -> None:
    """Existing files name suites as Java does."""
    keys = certificates.store("broker")
    broker = server(
        ssl_keystore_location=keys, ssl_cipher_suites=suites, ssl_enabled_protocols="TLSv1.2"
    )
    session = agree(broker, client(ssl_ca_location=certificates.trust()))
    assert (session.version, session.cipher) == ("TLSv1.2", found)


@pytest.mark.parametrize(
    ("texts", "sentence"),
    [
        ({"ssl_keystore_location": "JKS"}, "keytool -importkeystore -srckeystore .*-deststoretype"),
        ({"ssl_keystore_location": "EMPTY"}, "is empty"),
        ({"ssl_keystore_location": "NOISE"}, "neither a PEM file nor a PKCS12 store"),
        ({"ssl_keystore_location": "NOISE", "ssl_keystore_type": "PEM"}, "is no PEM file"),
        ({"ssl_keystore_location": "KEY"}, "holds no certificate"),
        ({"ssl_keystore_location": "CERTIFICATE"}, "holds no private key"),
        ({"ssl_keystore_location": "MIXED"}, "do not belong together"),
        ({"ssl_keystore_location": "P12", "ssl_keystore_password": "wrong"}, "password"),
        ({"ssl_keystore_location": "P12"}, "password"),
        ({"ssl_keystore_location": "LOCKED"}, "set ssl.key.password"),
        ({"ssl_keystore_location": "LOCKED", "ssl_key_password": "x"}, "is not its password"),
        ({"ssl_keystore_key": BROKER.key}, "certificate.chain is missing"),
        ({"ssl_keystore_certificate_chain": BROKER.certificate}, "ssl.keystore.key is missing"),
        ({"ssl_truststore_location": "a", "ssl_truststore_certificates": "b"}, "not both"),
        ({"ssl_enabled_protocols": "TLSv1.1"}, "older versions are broken"),
        ({"ssl_client_auth": "maybe"}, "none, requested, required"),
        ({"ssl_client_auth": "required"}, "needs ssl.truststore.location"),
        ({"ssl_keystore_type": "BKS"}, "of the type PEM or PKCS12"),
        ({"ssl_endpoint_identification_algorithm": "ldap"}, "is https, or empty"),
        ({"ssl_cipher_suites": "NONSENSE"}, "names no suite that is known"),
        ({"ssl_cipher_suites": "ECDHE-RSA-AES128-SHA"}, "no longer secure"),
    ],
)
def test_what_cannot_be_used_is_refused_with_what_to_do(
    texts: dict[str, str], sentence: str, tmp_path: Path, store: str
) -> None:
    """None of them may end in a listener with other keys, or with none."""
    contents = {
        "JKS": b"\xfe\xed\xfe\xed\0\0\0\2",
        "EMPTY": b"",
        "NOISE": b"\x30\x82 noise",
        "KEY": BROKER.key.encode(),
        "CERTIFICATE": BROKER.certificate.encode(),
        "MIXED": (BROKER.key + certificates.issued("client").certificate).encode(),
        "LOCKED": (ENCRYPTED + BROKER.certificate).encode(),
    }
    location = texts.get("ssl_keystore_location", "")
    if location in contents:
        (tmp_path / "store").write_bytes(contents[location])
        texts = {**texts, "ssl_keystore_location": str(tmp_path / "store")}
    elif location == "P12":
        texts = {**texts, "ssl_keystore_location": store}
    elif not location and not texts.keys() & {"ssl_keystore_key", "ssl_keystore_certificate_chain"}:
        texts = {**texts, "ssl_keystore_location": certificates.store("broker")}
    with pytest.raises(BadTls, match=sentence):
        server(**texts)


def test_a_client_takes_renewed_files_by_itself(tmp_path: Path) -> None:
    """A mirror runs for years, and its authority is replaced meanwhile."""
    path = tmp_path / "ca.pem"
    path.write_text(certificates.other_authority().certificate)
    ours = FileTls(tls_settings({"ssl.ca.location": str(path)}))
    broker = server(ssl_keystore_location=certificates.store("broker"))
    with pytest.raises(ssl.SSLCertVerificationError):
        _shake(broker, ours)
    path.write_text(certificates.authority().certificate + "\n")
    _shake(broker, ours)
    path.unlink()
    with pytest.raises(TlsError, match="no such file"):
        ours.session("127.0.0.1")


def _shake(broker: ssl.SSLContext, ours: FileTls) -> None:
    here, there = ours.session("127.0.0.1"), TlsSession(broker, is_server=True)
    for _ in range(4):
        here.shake()
        there.incoming.write(here.outgoing.read())
        there.shake()
        here.incoming.write(there.outgoing.read())


def test_a_folder_of_authorities_is_read_as_with_librdkafka(tmp_path: Path) -> None:
    """Files are found there by the hash of their subject; an empty folder trusts none."""
    ours = FileTls(tls_settings({"ssl.ca.location": str(tmp_path)}))
    broker = server(ssl_keystore_location=certificates.store("broker"))
    with pytest.raises(ssl.SSLCertVerificationError):
        _shake(broker, ours)


def test_settings_of_a_client_can_be_sent_to_other_processes_and_show_no_secret() -> None:
    """Spark sends them to its executors; a log line of them must not have keys in it."""
    texts = {
        "ssl.keystore.key": BROKER.key,
        "ssl.keystore.certificate.chain": BROKER.certificate,
        "ssl.key.password": "open sesame",
    }
    ours = FileTls(tls_settings(texts))
    ours.session("127.0.0.1")

    assert pickle.loads(pickle.dumps(ours)) == ours
    assert hash(pickle.loads(pickle.dumps(ours))) == hash(ours)
    for shown in (repr(ours), str(ours.settings), f"{ours.settings.own}"):
        assert "PRIVATE" not in shown
        assert "sesame" not in shown


@pytest.mark.parametrize(
    ("first", "what"),
    [
        (b"GET ", "HTTP"),
        (b"\x16\x03\x01\x02", "TLS"),
        (b"SSH-", "SSH"),
        (b"\0\0\0\x23", "Kafka's protocol without TLS"),
        (b"\xff\xff\xff\xff", ""),
        (b"", ""),
    ],
)
def test_peers_are_told_apart_by_their_first_bytes(first: bytes, what: str) -> None:
    """What stands in the log has to lead to the client that is set up wrongly."""
    assert spoken(first) == what
