"""Builds SSL contexts of the standard library from settings and the content of stores."""

from __future__ import annotations

import contextlib
import os
import ssl
from typing import TYPE_CHECKING

from ottla.protocol.named_tuples import NamedTuple
from ottla.wire.tls.settings import BadTls

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ottla.wire.tls.settings import TlsSettings

_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
# For TLS 1.2 only suites with forward secrecy and authenticated encryption.
_CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20:DHE+AESGCM:DHE+CHACHA20:!aNULL:!eNULL"
_TLS13_SUITES = ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")


class TlsMaterial(NamedTuple):
    """The content of the stores as PEM. ``own``: a key and its certificate chain; ``revoked``:
    revocation lists."""

    own: bytes | None
    own_password: str | None
    trusted: str | None
    trusted_directory: str | None = None
    revoked: bytes | None = None

    def __repr__(self) -> str:
        return "TlsMaterial(...)"


def server_context(settings: TlsSettings, material: TlsMaterial) -> ssl.SSLContext:
    """Return the SSL context of a listener. Raises BadTls."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _set_common(context, settings)
    context.options |= ssl.OP_CIPHER_SERVER_PREFERENCE
    if material.own is None:
        raise BadTls(
            "a listener for SSL needs a key and certificates: set ssl.keystore.location, or "
            "ssl.keystore.key and ssl.keystore.certificate.chain"
        )
    _load_own(context, material)
    if settings.client_auth != "none":
        assert material.trusted is not None, "checked with the settings"
        _trust(context, material.trusted)
        is_required = settings.client_auth == "required"
        context.verify_mode = ssl.CERT_REQUIRED if is_required else ssl.CERT_OPTIONAL
        _revoke(context, material.revoked)
        # A resumed session could continue after the client's certificate has expired.
        context.num_tickets = 0
        context.options |= ssl.OP_NO_TICKET
    return context


def client_context(settings: TlsSettings, material: TlsMaterial) -> ssl.SSLContext:
    """Return the SSL context of connections to brokers. Raises BadTls."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    _set_common(context, settings)
    context.check_hostname = settings.checks_name and settings.verifies
    if not settings.verifies:
        context.verify_mode = ssl.CERT_NONE
    if material.trusted is not None:
        _trust(context, material.trusted)
    elif material.trusted_directory is not None:
        context.load_verify_locations(capath=material.trusted_directory)
    else:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    _revoke(context, material.revoked)
    if material.own is not None:
        _load_own(context, material)
    return context


def _set_common(context: ssl.SSLContext, settings: TlsSettings) -> None:
    versions = [_VERSIONS[name] for name in settings.protocols]
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    # As in Java, a certificate in the trust store is trusted, whether or not it signed itself.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    names = [name for name in settings.ciphers if name not in _TLS13_SUITES]
    if settings.ciphers and not names:
        context.minimum_version = ssl.TLSVersion.TLSv1_3
    try:
        context.set_ciphers(":".join(map(_openssl_name, names)) if names else _CIPHERS)
    except ssl.SSLError:
        raise BadTls(
            f"ssl.cipher.suites names no suite that is known: {', '.join(names)}"
        ) from None
    for found in context.get_ciphers():
        if not found.get("aead", True):
            raise BadTls(
                f"ssl.cipher.suites allows {found['name']}, which is no longer secure: name "
                "suites with GCM or CHACHA20"
            )


def _openssl_name(name: str) -> str:
    """OpenSSL's name for a suite that Java calls TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256."""
    if not name.startswith("TLS_"):
        return name
    exchange, _, rest = name.removeprefix("TLS_").partition("_WITH_")
    rest = rest.replace("AES_128", "AES128").replace("AES_256", "AES256")
    if rest.startswith("CHACHA20_POLY1305"):
        rest = "CHACHA20-POLY1305"
    return "-".join((exchange + "_" + rest).split("_"))


def _trust(context: ssl.SSLContext, pem: str) -> None:
    try:
        context.load_verify_locations(cadata=pem)
    except (ssl.SSLError, ValueError) as error:
        raise BadTls(f"the trust store holds no certificates in PEM form: {error}") from error
    if not context.cert_store_stats()["x509"]:
        raise BadTls("the trust store holds no certificate")


def _revoke(context: ssl.SSLContext, lists: bytes | None) -> None:
    """Refuse certificates that the lists name, and certificates whose authority has no list, or
    only an expired one: a missing list must not readmit what it revoked."""
    if lists is None:
        return
    try:
        with _as_file(lists) as path:
            context.load_verify_locations(cafile=path)
    except (ssl.SSLError, OSError) as error:
        raise BadTls(f"ssl.crl.location holds no revocation list that can be read: {error}") from (
            error
        )
    if not context.cert_store_stats()["crl"]:
        raise BadTls("ssl.crl.location holds no revocation list that can be read")
    context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF


def _load_own(context: ssl.SSLContext, material: TlsMaterial) -> None:
    assert material.own is not None
    if b"PRIVATE KEY" not in material.own:
        raise BadTls("the key store holds no private key in PEM form")
    if b"BEGIN CERTIFICATE" not in material.own:
        raise BadTls("the key store holds no certificate in PEM form")
    try:
        with _as_file(material.own) as path:
            # Without this, ssl would ask for a password at the terminal and block.
            context.load_cert_chain(path, password=material.own_password or "")
    except ssl.SSLError as error:
        raise BadTls(_about_own(error, material)) from error
    except (OSError, ValueError) as error:
        raise BadTls(f"the key store cannot be used: {error}") from error


def _about_own(error: ssl.SSLError, material: TlsMaterial) -> str:
    assert material.own is not None
    if error.reason == "KEY_VALUES_MISMATCH":
        return "the private key and the first certificate of the key store do not belong together"
    if b"ENCRYPTED" in material.own:
        if material.own_password is None:
            return "the private key is encrypted: set ssl.key.password"
        return "the private key cannot be decrypted: ssl.key.password is not its password"
    return f"the key store cannot be used: {(error.reason or str(error)).replace('_', ' ').lower()}"


@contextlib.contextmanager
def _as_file(content: bytes) -> Iterator[str]:
    """A path under which the standard library can read the content, in memory where possible."""
    if hasattr(os, "memfd_create") and os.path.isdir("/proc/self/fd"):
        descriptor = os.memfd_create("ottla-tls", os.MFD_CLOEXEC)
        try:
            os.write(descriptor, content)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    import tempfile

    with tempfile.NamedTemporaryFile(prefix="ottla-tls-") as file:
        file.write(content)
        file.flush()
        yield file.name
