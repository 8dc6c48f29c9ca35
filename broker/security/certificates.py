"""Creates a certificate authority and certificates, for tests and for a first secure start.

Keys are P-256: a handshake costs half as much as with RSA. Needs the package cryptography.
"""

from __future__ import annotations

import datetime
import ipaddress
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from ottla.protocol.named_tuples import NamedTuple
from ottla.protocol.version import install_advice

if TYPE_CHECKING:
    from collections.abc import Sequence

_DAY = datetime.timedelta(days=1)
# Clocks of other machines may be slow.
_BEFORE = datetime.timedelta(hours=1)


class CryptographyMissing(Exception):
    """The package cryptography is not installed; the message says how to install it."""


class Issued(NamedTuple):
    """A certificate and its private key, as PEM."""

    certificate: str
    key: str

    @property
    def both(self) -> str:
        """A key store: the key, then its certificate."""
        return self.key + self.certificate

    def __repr__(self) -> str:
        return "Issued(...)"


class Wish(NamedTuple):
    """The content of a certificate to be created.

    Args:
        subject: The common name, and any other parts, such as ``CN=broker-1,O=Example``.
        names: DNS names and addresses that it is for.
        is_server: Whether its owner may be a server; otherwise it is a client's.
        is_both: Whether its owner may be both, as a broker is.
        days: How long it is valid, from now on; negative for one that has expired.
    """

    subject: str
    names: tuple[str, ...] = ()
    is_server: bool = False
    is_both: bool = False
    days: float = 365


class Authority:
    """Signs certificates. Raises CryptographyMissing.

    Args:
        name: Its common name.
        days: How long its own certificate is valid.
    """

    def __init__(self, name: str = "Ottla CA", days: float = 3650) -> None:
        modules = _modules()
        x509, ec = modules.x509, modules.ec
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _parsed_name(f"CN={name}")
        now = datetime.datetime.now(datetime.UTC)
        builder = _builder(self._name, self._name, self._key.public_key(), now, days)
        builder = builder.add_extension(x509.BasicConstraints(True, 0), critical=True)
        self._certificate = _signed(
            builder.add_extension(_key_usage(is_authority=True), critical=True), self._key
        )
        self.certificate = _pem(self._certificate)

    @classmethod
    def load(cls, kept: Issued) -> Authority:
        """Load an authority from its certificate and key. Raises CryptographyMissing."""
        modules = _modules()
        loaded = cls.__new__(cls)
        loaded._key = modules.serialization.load_pem_private_key(kept.key.encode(), None)
        loaded._certificate = modules.x509.load_pem_x509_certificate(kept.certificate.encode())
        loaded._name = loaded._certificate.subject
        loaded.certificate = kept.certificate
        return loaded

    @property
    def kept(self) -> Issued:
        """Return the authority's certificate and private key, to be saved in files."""
        return Issued(self.certificate, _key_pem(self._key))

    def issue(self, wish: Wish) -> Issued:
        """A new key and its certificate."""
        modules = _modules()
        x509, ec, oid = modules.x509, modules.ec, modules.oid
        key = ec.generate_private_key(ec.SECP256R1())
        now = datetime.datetime.now(datetime.UTC)
        subject = _parsed_name(wish.subject)
        builder = _builder(subject, self._name, key.public_key(), now, wish.days)
        builder = builder.add_extension(x509.BasicConstraints(False, None), critical=True)
        builder = builder.add_extension(_key_usage(is_authority=False), critical=True)
        uses = []
        if wish.is_server or wish.is_both:
            uses.append(oid.ExtendedKeyUsageOID.SERVER_AUTH)
        if not wish.is_server or wish.is_both:
            uses.append(oid.ExtendedKeyUsageOID.CLIENT_AUTH)
        builder = builder.add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        builder = builder.add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
            critical=False,
        )
        if wish.names:
            names = x509.SubjectAlternativeName([_general_name(name) for name in wish.names])
            builder = builder.add_extension(names, critical=False)
        return Issued(_pem(_signed(builder, self._key)), _key_pem(key))


def revocation_list(kept: Issued, revoked: Sequence[Issued], days: float = 30) -> str:
    """Return the authority's revocation list in PEM form; it expires after that many days, or has
    expired if they are negative. Raises CryptographyMissing."""
    modules = _modules()
    x509 = modules.x509
    key = modules.serialization.load_pem_private_key(kept.key.encode(), None)
    authority = x509.load_pem_x509_certificate(kept.certificate.encode())
    now = datetime.datetime.now(datetime.UTC)
    last = now + days * _DAY
    builder = (
        x509.CertificateRevocationListBuilder()
        .issuer_name(authority.subject)
        .last_update(min(now, last) - _BEFORE)
        .next_update(last)
    )
    for one in revoked:
        serial = x509.load_pem_x509_certificate(one.certificate.encode()).serial_number
        entry = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(now)
        builder = builder.add_revoked_certificate(entry.build())
    return _pem(_signed(builder, key))


def is_good_for(pem: str, names: tuple[str, ...], days: float = 30) -> bool:
    """Whether the certificate contains all these names and stays valid for that long.

    Raises CryptographyMissing, and ValueError for a text without a certificate."""
    x509 = _modules().x509
    certificate = x509.load_pem_x509_certificate(pem.encode())
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        found = ()
    until = datetime.datetime.now(datetime.UTC) + days * _DAY
    is_long = certificate.not_valid_after_utc > until
    return bool(is_long) and {_general_name(name) for name in names} <= set(found)


def pkcs12(issued: Issued, password: str, authority: str = "") -> bytes:
    """Return a PKCS12 store with the key, its certificate and the authority's. Raises
    CryptographyMissing."""
    modules = _modules()
    x509, serialization = modules.x509, modules.serialization
    from cryptography.hazmat.primitives.serialization import pkcs12 as store

    key = serialization.load_pem_private_key(issued.key.encode(), None)
    certificate = x509.load_pem_x509_certificate(issued.certificate.encode())
    others = x509.load_pem_x509_certificates(authority.encode()) if authority else None
    encryption = serialization.BestAvailableEncryption(password.encode())
    content: bytes = store.serialize_key_and_certificates(
        b"ottla", key, certificate, others, encryption
    )
    return content


def _modules() -> SimpleNamespace:
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.x509 import oid
    except ImportError:
        raise CryptographyMissing(
            f"making certificates needs the package cryptography: {install_advice('security')}"
        ) from None
    return SimpleNamespace(x509=x509, hashes=hashes, serialization=serialization, ec=ec, oid=oid)


def _builder(
    subject: Any, issuer: Any, public_key: Any, now: datetime.datetime, days: float
) -> Any:
    x509 = _modules().x509
    first, last = now - _BEFORE, now + days * _DAY
    if last <= first:
        first = last - _DAY
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(first)
        .not_valid_after(last)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
    )


def _signed(builder: Any, key: Any) -> Any:
    return builder.sign(key, _modules().hashes.SHA256())


def _key_usage(*, is_authority: bool) -> Any:
    x509 = _modules().x509
    return x509.KeyUsage(
        digital_signature=not is_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        encipher_only=False,
        decipher_only=False,
    )


def _parsed_name(text: str) -> Any:
    x509 = _modules().x509
    return x509.Name.from_rfc4514_string(text)


def _general_name(name: str) -> Any:
    x509 = _modules().x509
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _key_pem(key: Any) -> str:
    serialization = _modules().serialization
    pem: bytes = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return pem.decode()


def _pem(signed: Any) -> str:
    encoding = _modules().serialization.Encoding.PEM
    pem: bytes = signed.public_bytes(encoding)
    return pem.decode()
