"""The settings of TLS under Kafka's names, checked. Pure.

Both sides use them: a listener of a broker, and a client. The names are those of the Java clients
(KIP-651 for PEM) and of librdkafka.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

PROTOCOLS = ("TLSv1.2", "TLSv1.3")
CLIENT_AUTH = ("none", "requested", "required")
# Settings that a broker may have for each listener.
SETTINGS = (
    "ssl.cipher.suites",
    "ssl.client.auth",
    "ssl.crl.location",
    "ssl.enabled.protocols",
    "ssl.endpoint.identification.algorithm",
    "ssl.key.password",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.keystore.type",
    "ssl.truststore.certificates",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.type",
)
STORE_TYPES = ("PEM", "PKCS12", "JKS")


class BadTls(ValueError):
    """Settings or files that cannot be used; one sentence that says what to change."""


class StoreTexts(NamedTuple):
    """One store: a file, or PEM texts. None is not set.

    ``certificates`` and ``key`` are PEM texts; ``certificate_path`` and ``key_path`` are files of
    PEM as librdkafka has them apart."""

    kind: str | None = None
    path: str | None = None
    password: str | None = None
    certificates: str | None = None
    key: str | None = None
    key_password: str | None = None
    certificate_path: str | None = None
    key_path: str | None = None

    def __repr__(self) -> str:
        # Keys and passwords must not appear in logs.
        return f"StoreTexts(kind={self.kind!r}, path={self.path!r}, ...)"

    @property
    def is_set(self) -> bool:
        """Whether it names anything."""
        return any((self.path, self.certificates, self.key, self.certificate_path, self.key_path))

    @property
    def paths(self) -> tuple[str, ...]:
        """The files that it consists of."""
        return tuple(filter(None, (self.path, self.certificate_path, self.key_path)))

    @property
    def key_paths(self) -> tuple[str, ...]:
        """The files that contain the private key."""
        return tuple(filter(None, (self.path, self.key_path)))


class TlsSettings(NamedTuple):
    """``own``: this side's key and certificates; ``trusted``: the authorities of the other side,
    not set for those of the system. ``revoked_path``: a file with those authorities' revocation
    lists. ``client_auth`` is a listener's, ``checks_name`` and ``verifies`` are a client's."""

    own: StoreTexts = StoreTexts()
    trusted: StoreTexts = StoreTexts()
    protocols: tuple[str, ...] = PROTOCOLS
    ciphers: tuple[str, ...] = ()
    client_auth: str = "none"
    checks_name: bool = True
    verifies: bool = True
    revoked_path: str | None = None

    @property
    def paths(self) -> tuple[str, ...]:
        """All files."""
        revoked = () if self.revoked_path is None else (self.revoked_path,)
        return (*self.own.paths, *self.trusted.paths, *revoked)


def tls_settings(texts: Mapping[str, str | None]) -> TlsSettings:
    """The settings in texts by Kafka's names. Raises BadTls."""

    def text(name: str) -> str | None:
        value = texts.get(name)
        return value.strip() or None if value is not None else None

    def items(name: str) -> tuple[str, ...]:
        return tuple(filter(None, (item.strip() for item in (text(name) or "").split(","))))

    own = StoreTexts(
        kind=_kind(text("ssl.keystore.type")),
        path=text("ssl.keystore.location"),
        password=texts.get("ssl.keystore.password") or None,
        certificates=text("ssl.keystore.certificate.chain") or text("ssl.certificate.pem"),
        key=text("ssl.keystore.key") or text("ssl.key.pem"),
        key_password=texts.get("ssl.key.password") or None,
        certificate_path=text("ssl.certificate.location"),
        key_path=text("ssl.key.location"),
    )
    trusted = StoreTexts(
        kind=_kind(text("ssl.truststore.type")),
        path=text("ssl.truststore.location") or text("ssl.ca.location"),
        password=texts.get("ssl.truststore.password") or None,
        certificates=text("ssl.truststore.certificates") or text("ssl.ca.pem"),
    )
    client_auth = (text("ssl.client.auth") or "none").lower()
    if client_auth not in CLIENT_AUTH:
        raise BadTls(f"ssl.client.auth is one of {', '.join(CLIENT_AUTH)}, not {client_auth!r}")
    algorithm = texts.get("ssl.endpoint.identification.algorithm")
    settings = TlsSettings(
        own=own,
        trusted=trusted,
        protocols=_protocols(items("ssl.enabled.protocols")),
        ciphers=items("ssl.cipher.suites"),
        client_auth=client_auth,
        checks_name=_checks_name(algorithm),
        verifies=(text("enable.ssl.certificate.verification") or "true").lower() != "false",
        revoked_path=text("ssl.crl.location"),
    )
    _check(settings)
    return settings


def _kind(text: str | None) -> str | None:
    if text is None:
        return None
    kind = text.upper()
    if kind not in STORE_TYPES:
        raise BadTls(f"a store is of the type PEM or PKCS12, not {text!r}")
    return kind


def _protocols(names: tuple[str, ...]) -> tuple[str, ...]:
    for name in names:
        if name not in PROTOCOLS:
            raise BadTls(
                f"ssl.enabled.protocols knows {' and '.join(PROTOCOLS)}, not {name!r}; older "
                "versions are broken"
            )
    return tuple(name for name in PROTOCOLS if name in names) or PROTOCOLS


def _checks_name(algorithm: str | None) -> bool:
    if algorithm is None:
        return True
    name = algorithm.strip().lower()
    if name not in ("", "https", "none"):
        raise BadTls(
            "ssl.endpoint.identification.algorithm is https, or empty for no check, not "
            f"{algorithm!r}"
        )
    return name == "https"


def _check(settings: TlsSettings) -> None:
    """What Kafka refuses, in the same cases."""
    own, trusted = settings.own, settings.trusted
    has_certificates = own.certificates is not None or own.certificate_path is not None
    has_key = own.key is not None or own.key_path is not None
    if has_key != has_certificates:
        missing = "ssl.keystore.certificate.chain" if has_key else "ssl.keystore.key"
        raise BadTls(f"{missing} is missing: a key and its certificates are set together")
    if own.path is not None and has_key:
        raise BadTls("set either ssl.keystore.location or a key and certificates, not both")
    if trusted.path is not None and trusted.certificates is not None:
        raise BadTls("set either ssl.truststore.location or ssl.truststore.certificates, not both")
    if settings.client_auth != "none" and not trusted.is_set:
        raise BadTls(
            f"ssl.client.auth={settings.client_auth} needs ssl.truststore.location or "
            "ssl.truststore.certificates: the authority that signs the clients' certificates"
        )
