"""The SCRAM credential that a broker stores, and how it is derived from a password.

The record's text is Kafka's, as it stands in the metadata store and as Kafka's tools write it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from typing import TYPE_CHECKING

from ottla.protocol.data_classes import dataclass
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from ottla.protocol.secret import Secret

ITERATIONS_MIN = 4096
ITERATIONS_MAX = 16_384
SALT_BYTES = 16
_FIELDS = ("salt", "stored_key", "server_key", "iterations")


class ScramMechanism(NamedTuple):
    """A mechanism: its name, its number in the credential APIs, and hashlib's name of its hash."""

    name: str
    number: int
    algorithm: str


SCRAM_SHA_256 = ScramMechanism("SCRAM-SHA-256", 1, "sha256")
SCRAM_SHA_512 = ScramMechanism("SCRAM-SHA-512", 2, "sha512")
SCRAM_MECHANISMS = {one.name: one for one in (SCRAM_SHA_256, SCRAM_SHA_512)}
SCRAM_BY_NUMBER = {one.number: one for one in SCRAM_MECHANISMS.values()}


@dataclass(frozen=True, slots=True)
class ScramRecord:
    """Checks a proof, and proves to the client that the broker knows the user.

    It is not the password, but its holder can try passwords against it: it is never logged."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"ScramRecord(***, iterations={self.iterations})"

    def text(self) -> str:
        """In Kafka's form."""
        salt, stored_key, server_key = (
            base64.b64encode(one).decode() for one in (self.salt, self.stored_key, self.server_key)
        )
        return (
            f"salt={salt},stored_key={stored_key},server_key={server_key},"
            f"iterations={self.iterations}"
        )


def salted_password(algorithm: str, password: Secret, salt: bytes, iterations: int) -> bytes:
    """Hash the password by PBKDF2, which makes guesses of passwords expensive."""
    return hashlib.pbkdf2_hmac(algorithm, password.reveal().encode(), salt, iterations)


def client_key_of(algorithm: str, salted: bytes) -> bytes:
    """Derive the client key, which proves that a client knows the password."""
    return hmac.digest(salted, b"Client Key", algorithm)


def server_key_of(algorithm: str, salted: bytes) -> bytes:
    """What signs the broker's last message."""
    return hmac.digest(salted, b"Server Key", algorithm)


def record_from_salted(
    mechanism: ScramMechanism, salted: bytes, salt: bytes, iterations: int
) -> ScramRecord:
    """Return the record of a salted password, as AlterUserScramCredentials contains it."""
    algorithm = mechanism.algorithm
    stored_key = hashlib.new(algorithm, client_key_of(algorithm, salted)).digest()
    return ScramRecord(salt, stored_key, server_key_of(algorithm, salted), iterations)


def record_of(
    mechanism: ScramMechanism, password: Secret, salt: bytes, iterations: int = ITERATIONS_MIN
) -> ScramRecord:
    """Return the record of a password. Takes 1 to 6 ms of CPU: do not call it on an event loop."""
    salted = salted_password(mechanism.algorithm, password, salt, iterations)
    return record_from_salted(mechanism, salted, salt, iterations)


def is_password(mechanism: ScramMechanism, record: ScramRecord, password: Secret) -> bool:
    """Whether the record belongs to this password. As expensive as ``record_of``."""
    made = record_of(mechanism, password, record.salt, record.iterations)
    return hmac.compare_digest(made.stored_key, record.stored_key)


def unknown_user_record(mechanism: ScramMechanism, key: bytes, user: str) -> ScramRecord:
    """The record of a user that does not exist: the same salt whenever it is asked for, so that a
    stranger cannot tell it from a stored one. No password matches it.

    Args:
        mechanism: Whose record it is.
        key: A secret of the broker, better one that all brokers share.
        user: As the client wrote it.
    """
    seed = hmac.digest(key, f"{mechanism.name}\0{user}".encode(), "sha512")
    size = hashlib.new(mechanism.algorithm).digest_size
    stored_key = hmac.digest(seed, b"stored", "sha512")[:size]
    server_key = hmac.digest(seed, b"server", "sha512")[:size]
    return ScramRecord(seed[:SALT_BYTES], stored_key, server_key, ITERATIONS_MIN)


def parse_record(mechanism: ScramMechanism, text: str) -> ScramRecord:
    """Parse a stored record. Raises ValueError, whose message does not contain the text."""
    fields: dict[str, str] = {}
    for item in text.split(","):
        name, _, value = item.partition("=")
        if name in fields or name not in _FIELDS:
            raise ValueError("a SCRAM credential has a field that is repeated or unknown")
        fields[name] = value
    if len(fields) != len(_FIELDS):
        raise ValueError("a SCRAM credential lacks a field")
    try:
        salt, stored_key, server_key = (
            base64.b64decode(fields[name], validate=True) for name in _FIELDS[:3]
        )
        iterations = int(fields["iterations"])
    except (binascii.Error, ValueError):
        raise ValueError("a SCRAM credential is not written in base64 and digits") from None
    size = hashlib.new(mechanism.algorithm).digest_size
    if not salt or len(stored_key) != size or len(server_key) != size:
        raise ValueError("a SCRAM credential belongs to another mechanism")
    if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
        raise ValueError(
            f"a SCRAM credential has {iterations} iterations; between {ITERATIONS_MIN} and "
            f"{ITERATIONS_MAX} are allowed"
        )
    return ScramRecord(salt, stored_key, server_key, iterations)
