"""The files of a cluster that is secure from its first start: authority, certificate, passwords.

``ottla start --secure`` writes them once and reuses them. Only their owner
can read the private ones.
"""

from __future__ import annotations

import os
import secrets
from typing import TYPE_CHECKING

from ottla.broker.security.certificates import Authority, Issued, Wish, is_good_for
from ottla.protocol.data_classes import dataclass
from ottla.protocol.properties import format_properties, parse_properties
from ottla.protocol.sasl.scram_record import SCRAM_MECHANISMS

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

ADMIN = "admin"
BROKER = "broker"
TOKEN_SECRET = "delegation.token.secret.key"
MECHANISM = "SCRAM-SHA-256"
# The names of a machine that only its own programs reach.
LOCAL_NAMES = ("localhost", "127.0.0.1", "::1")
_LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule"
_PASSWORD_BYTES = 24
_OWNER_ONLY_DIRECTORY = 0o700
_OWNER_ONLY = 0o600
_READABLE = 0o644


@dataclass(frozen=True, slots=True, repr=False)
class SecureFiles:
    """The directory, and the passwords of its two users.

    ``admin`` is a super user for people and tools, ``broker`` the brokers' own."""

    directory: Path
    passwords: dict[str, str]

    @property
    def authority(self) -> Path:
        """The certificate that clients and brokers trust."""
        return self.directory / "ca.pem"

    @property
    def certificate(self) -> Path:
        """The brokers' key and certificate."""
        return self.directory / "broker.pem"

    @property
    def client_properties(self) -> Path:
        """The settings of a client that logs in as ``admin``."""
        return self.directory / "client.properties"

    def __repr__(self) -> str:
        return f"SecureFiles({str(self.directory)!r})"


def secure_files(directory: Path, names: tuple[str, ...]) -> SecureFiles:
    """Create what is missing in the directory. Raises CryptographyMissing and OSError.

    Args:
        directory: Created if missing.
        names: DNS names and addresses by which clients and brokers reach the brokers; a certificate
            that lacks one of them, or is about to expire, is replaced.
    """
    close_to_others(directory)
    passwords = kept_passwords(directory / "passwords.properties", (ADMIN, BROKER))
    files = SecureFiles(directory, passwords)
    kept_token_secret(directory)
    authority = kept_authority(files.authority, directory / "ca.key")
    keep_certificate(authority, files.certificate, Wish(f"CN={BROKER}", names, is_both=True))
    return files


def close_to_others(directory: Path) -> None:
    """Make the directory, if missing, one that only its owner can enter. Raises OSError."""
    directory.mkdir(mode=_OWNER_ONLY_DIRECTORY, parents=True, exist_ok=True)
    directory.chmod(_OWNER_ONLY_DIRECTORY)


def write_client_properties(files: SecureFiles, bootstrap: str) -> Path:
    """Write the settings of a client that logs in as ``admin``; their path. Raises OSError."""
    settings = client_settings(files, ADMIN, bootstrap)
    write_file(files.client_properties, format_properties(settings))
    return files.client_properties


def client_settings(files: SecureFiles, user: str, bootstrap: str) -> dict[str, str]:
    """The settings of a client of that user, by Kafka's names."""
    return {
        "bootstrap.servers": bootstrap,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": MECHANISM,
        "sasl.jaas.config": jaas_of(user, files.passwords[user]),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(files.authority.absolute()),
    }


def broker_settings(files: SecureFiles, listener: str = "SASL_SSL") -> dict[str, str]:
    """The settings of a broker with that one listener, for its clients and for other brokers."""
    prefix = f"listener.name.{listener.lower()}"
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(files.certificate.absolute()),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(files.authority.absolute()),
        "sasl.enabled.mechanisms": ",".join(SCRAM_MECHANISMS),
        "sasl.mechanism.inter.broker.protocol": MECHANISM,
        f"{prefix}.{MECHANISM.lower()}.sasl.jaas.config": jaas_of(BROKER, files.passwords[BROKER]),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:{ADMIN};User:{BROKER}",
        **kept_token_secret(files.directory),
    }


def jaas_of(user: str, password: str) -> str:
    """The login of that user, as ``sasl.jaas.config`` has it."""
    return f'{_LOGIN} required username="{user}" password="{password}";'


def kept_passwords(path: Path, users: Iterable[str]) -> dict[str, str]:
    """The passwords in the file, with new ones for users that it lacks. Raises OSError."""
    kept = parse_properties(path.read_text("utf-8")) if path.exists() else {}
    made = {user: secrets.token_urlsafe(_PASSWORD_BYTES) for user in users if user not in kept}
    if made:
        write_file(path, format_properties({**kept, **made}))
    return {**kept, **made}


def kept_token_secret(directory: Path) -> dict[str, str]:
    """The setting that lets the brokers issue delegation tokens. Raises OSError."""
    return kept_passwords(directory / "tokens.properties", (TOKEN_SECRET,))


def kept_authority(certificate: Path, key: Path) -> Authority:
    """The authority of these files, made if missing. Raises CryptographyMissing and OSError."""
    if certificate.exists() and key.exists():
        return Authority.load(Issued(certificate.read_text(), key.read_text()))
    made = Authority()
    write_file(key, made.kept.key)
    write_file(certificate, made.certificate, _READABLE)
    return made


def keep_certificate(authority: Authority, path: Path, wish: Wish) -> None:
    """Issue it unless the file holds one for these names that lasts. Raises OSError."""
    if not path.exists() or not is_good_for(path.read_text(), wish.names):
        write_file(path, authority.issue(wish).both)


def write_file(path: Path, text: str, mode: int = _OWNER_ONLY) -> None:
    """Write a file that has its mode from its first byte on, in place of an older one."""
    temporary = path.with_name(f".{path.name}.new")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    temporary.replace(path)
