"""Reads key stores and trust stores, PEM and PKCS12; the content decides the type."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ottla.protocol.version import install_advice
from ottla.wire.tls.contexts import TlsMaterial
from ottla.wire.tls.settings import BadTls

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.wire.tls.settings import StoreTexts, TlsSettings

_PEM = b"-----BEGIN "
_LIST = re.compile(rb"-----BEGIN X509 CRL-----.*?-----END X509 CRL-----", re.DOTALL)
# The first bytes of Java's own formats, JKS and JCEKS.
_JAVA = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")


def material_of(settings: TlsSettings, read: Callable[[str], bytes]) -> TlsMaterial:
    """What the settings' stores hold; ``read`` gives the content of a file.

    Raises BadTls, with the path in the sentence, and what ``read`` raises but for OSError."""
    own, password = _own(settings.own, read)
    trusted = _trusted(settings.trusted, read)
    return TlsMaterial(own, password, trusted, revoked=_revoked(settings.revoked_path, read))


def _own(store: StoreTexts, read: Callable[[str], bytes]) -> tuple[bytes | None, str | None]:
    """The key with its certificates, and the password that the key still needs."""
    if store.path is not None:
        content = _content(store.path, "ssl.keystore.location", read)
        if content.lstrip().startswith(_PEM):
            return content, store.key_password or store.password
        if store.kind == "PEM":
            raise BadTls(f"ssl.keystore.location: {store.path} is no PEM file")
        return _key_of_pkcs12(store.path, content, store.password), None
    parts: list[bytes] = []
    for text, path, name in (
        (store.key, store.key_path, "ssl.key.location"),
        (store.certificates, store.certificate_path, "ssl.certificate.location"),
    ):
        if text is not None:
            parts.append(unfolded(text).encode())
        elif path is not None:
            parts.append(_content(path, name, read))
    return (b"\n".join(parts) if parts else None), store.key_password


def _trusted(store: StoreTexts, read: Callable[[str], bytes]) -> str | None:
    if store.certificates is not None:
        return unfolded(store.certificates)
    if store.path is None:
        return None
    content = _content(store.path, "ssl.truststore.location", read)
    if _PEM in content:
        return content.decode("utf-8", "replace")
    if store.kind == "PEM":
        raise BadTls(f"ssl.truststore.location: {store.path} is no PEM file")
    return _certificates_of_pkcs12(store.path, content, store.password)


def _revoked(path: str | None, read: Callable[[str], bytes]) -> bytes | None:
    if path is None:
        return None
    # Only the lists: OpenSSL would trust a certificate that stands among them.
    lists = _LIST.findall(_content(path, "ssl.crl.location", read))
    if not lists:
        raise BadTls(
            f"ssl.crl.location: {path} holds no revocation list in PEM form; openssl crl "
            "-inform DER -in LIST.crl -out LIST.pem converts one in DER form"
        )
    return b"\n".join((*lists, b""))


def unfolded(text: str) -> str:
    """PEM on one line, as properties files have it, with the line ends that it needs."""
    return text.replace("\\n", "\n")


def _content(path: str, setting: str, read: Callable[[str], bytes]) -> bytes:
    try:
        content = read(path)
    except OSError as error:
        raise BadTls(f"{setting}: {path}: {(error.strerror or str(error)).lower()}") from error
    if not content:
        raise BadTls(f"{setting}: {path} is empty")
    if content.startswith(_JAVA):
        target = path.rpartition(".")[0] or path
        raise BadTls(
            f"{setting}: {path} is a JKS store, which only Java reads; convert it with: keytool "
            f"-importkeystore -srckeystore {path} -destkeystore {target}.p12 -deststoretype PKCS12"
        )
    return content


def _key_of_pkcs12(path: str, content: bytes, password: str | None) -> bytes:
    key, certificate, others = _loaded(path, content, password)
    if key is None or certificate is None:
        raise BadTls(f"ssl.keystore.location: {path} holds no private key with its certificate")
    serialization = _serialization()
    pem: bytes = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    chain = [certificate, *others]
    return pem + b"".join(one.public_bytes(serialization.Encoding.PEM) for one in chain)


def _certificates_of_pkcs12(path: str, content: bytes, password: str | None) -> str:
    _key, certificate, others = _loaded(path, content, password)
    found = [*([] if certificate is None else [certificate]), *others]
    if not found:
        raise BadTls(f"ssl.truststore.location: {path} holds no certificate")
    encoding = _serialization().Encoding.PEM
    return "".join(one.public_bytes(encoding).decode() for one in found)


def _loaded(path: str, content: bytes, password: str | None) -> tuple[Any, Any, list[Any]]:
    try:
        from cryptography.hazmat.primitives.serialization import pkcs12
    except ImportError:
        raise BadTls(
            "a PKCS12 store needs the package cryptography. Use PEM files, or "
            f"{install_advice('security')}"
        ) from None
    try:
        loaded: tuple[Any, Any, list[Any]] = pkcs12.load_key_and_certificates(
            content, password.encode() if password is not None else None
        )
    except (ValueError, TypeError) as error:
        raise BadTls(
            f"{path} is neither a PEM file nor a PKCS12 store that opens with the password that "
            f"is set ({error})"
        ) from error
    return loaded


def _serialization() -> Any:
    from cryptography.hazmat.primitives import serialization

    return serialization
