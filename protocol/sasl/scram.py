"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677), the broker's side and the client's.

The broker keeps no password, only what checks a proof. The grammar is strict: attributes in their
order and once, base64 in its canonical form, no channel binding. Kafka adds one extension, by which
the user is the id of a delegation token (``tokenauth=true``). Names are compared as they are
written: Kafka does not normalise them either.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from typing import TYPE_CHECKING

from ottla.protocol.named_tuples import NamedTuple
from ottla.protocol.sasl.exchange import failed
from ottla.protocol.sasl.scram_record import (
    ITERATIONS_MIN,
    ScramMechanism,
    ScramRecord,
    client_key_of,
    salted_password,
    server_key_of,
)

if TYPE_CHECKING:
    from ottla.protocol.secret import Secret

# A broker that asks for more iterations would occupy the client's CPU for seconds.
ITERATIONS_ACCEPTED_MAX = 100_000
MESSAGE_BYTES_MAX = 4096
_TOKEN_EXTENSION = "tokenauth"
_NONCE = re.compile(r"[\x21-\x2b\x2d-\x7e]{1,512}")
_EXTENSION = re.compile(r"([A-Za-z]+)=([^\0,]+)")
_ITERATIONS = re.compile(r"[1-9][0-9]{0,8}", re.ASCII)


class ScramClaim(NamedTuple):
    """The client's first message: the user, or the id of the client's delegation token."""

    user: str
    is_token: bool


class ScramServer:
    """The broker's side of one login: ``claim``, then ``challenge``, then ``finish``.

    Args:
        mechanism: One of the two.
        nonce: The broker's, printable and without a comma; at least 128 unpredictable bits.
    """

    def __init__(self, mechanism: ScramMechanism, nonce: str) -> None:
        assert _NONCE.fullmatch(nonce), "a nonce is printable"
        self._mechanism = mechanism
        self._own_nonce = nonce
        self._nonce = ""
        self._header = ""
        self._first_bare = ""
        self._challenge = ""
        self._record: ScramRecord | None = None
        self._is_genuine = False

    def claim(self, message: bytes) -> ScramClaim:
        """Read the client's first message. Raises KafkaError."""
        text = _text(message)
        flag, _, rest = text.partition(",")
        if flag not in ("n", "y"):
            raise failed("the client asks for channel binding or sends no GS2 header")
        authorization_id, comma, bare = rest.partition(",")
        if not comma:
            raise failed("the first message ends in its header")
        attributes = bare.split(",")
        if len(attributes) < 2 or not attributes[0].startswith("n="):
            raise failed("the first message has no user where one belongs")
        user = _name(attributes[0][2:])
        if authorization_id and authorization_id != f"a={attributes[0][2:]}":
            raise failed("the client asks for an authorization id that is not its user")
        client_nonce = _value(attributes[1], "r", _NONCE)
        extensions = _extensions(attributes[2:])
        self._header = f"{flag},{authorization_id},"
        self._first_bare = bare
        self._nonce = client_nonce + self._own_nonce
        return ScramClaim(user, extensions.get(_TOKEN_EXTENSION, "").lower() == "true")

    def challenge(self, record: ScramRecord, *, is_genuine: bool) -> bytes:
        """The broker's first message.

        Args:
            record: The user's, or a made-up one of a user that does not exist.
            is_genuine: False for the made-up one: the proof is checked and refused.
        """
        assert self._nonce, "the client speaks first"
        assert not self._challenge, "one challenge for each login"
        self._record, self._is_genuine = record, is_genuine
        salt = base64.b64encode(record.salt).decode()
        self._challenge = f"r={self._nonce},s={salt},i={record.iterations}"
        return self._challenge.encode()

    def finish(self, message: bytes) -> bytes:
        """Check the client's proof; the broker's last message. Raises KafkaError."""
        record, self._record = self._record, None
        assert record is not None, "a proof answers a challenge, once"
        without_proof, found, proof_text = _text(message).rpartition(",p=")
        if not found:
            raise failed("the final message has no proof")
        attributes = without_proof.split(",")
        if len(attributes) < 2 or not attributes[0].startswith("c="):
            raise failed("the final message has no channel binding attribute")
        if _decoded(attributes[0][2:]) != self._header.encode():
            raise failed("the final message repeats another header")
        nonce = _value(attributes[1], "r", _NONCE)
        # Compare the whole nonce, not its end (CVE-2024-56128).
        if not hmac.compare_digest(nonce.encode(), self._nonce.encode()):
            raise failed("the nonce is not the one of this login")
        _extensions(attributes[2:])
        proof = _decoded(proof_text)
        algorithm = self._mechanism.algorithm
        if len(proof) != hashlib.new(algorithm).digest_size:
            raise failed("the proof has another length than the hash")
        signed = f"{self._first_bare},{self._challenge},{without_proof}".encode()
        client_key = _xor(proof, hmac.digest(record.stored_key, signed, algorithm))
        stored_key = hashlib.new(algorithm, client_key).digest()
        is_right = hmac.compare_digest(stored_key, record.stored_key)
        if not (is_right and self._is_genuine):
            raise failed("the user is unknown or the password is wrong")
        signature = hmac.digest(record.server_key, signed, algorithm)
        return b"v=" + base64.b64encode(signature)


class ScramClient:
    """The client's side of one login.

    Args:
        mechanism: One of the two.
        user: A user's name, or the id of a delegation token.
        password: The user's password, or the token's HMAC in base64.
        nonce: The client's; at least 128 unpredictable bits.
        is_token: Whether the user is the id of a delegation token.
    """

    def __init__(
        self,
        mechanism: ScramMechanism,
        user: str,
        password: Secret,
        nonce: str,
        *,
        is_token: bool = False,
    ) -> None:
        if not user or "\0" in user:
            raise failed("a user is empty or contains a NUL character")
        self.mechanism = mechanism.name
        self._algorithm = mechanism.algorithm
        self._password = password
        self._nonce = nonce
        escaped = user.replace("=", "=3D").replace(",", "=2C")
        extension = f",{_TOKEN_EXTENSION}=true" if is_token else ""
        self._first_bare = f"n={escaped},r={nonce}{extension}"
        self._expected: bytes | None = None

    def first(self) -> bytes:
        """Who the client is."""
        return f"n,,{self._first_bare}".encode()

    def next(self, challenge: bytes) -> bytes | None:
        """The proof that answers the broker's challenge; None once the broker has proved, too,
        that it knows the password. Raises KafkaError."""
        if self._expected is None:
            return self._proof(_text(challenge))
        kind, _, value = _text(challenge).partition("=")
        if kind == "e":
            raise failed(f"the broker refuses: {value}")
        signature = _decoded(value.partition(",")[0]) if kind == "v" else b""
        if not hmac.compare_digest(signature, self._expected):
            raise failed("the broker has not proved that it knows the password")
        return None

    def _proof(self, challenge: str) -> bytes:
        attributes = challenge.split(",")
        if len(attributes) < 3:
            raise failed("the broker's challenge is too short")
        nonce = _value(attributes[0], "r", _NONCE)
        if not nonce.startswith(self._nonce) or len(nonce) == len(self._nonce):
            raise failed("the broker's nonce does not continue the client's")
        if not attributes[1].startswith("s="):
            raise failed("the broker's challenge has no salt")
        salt = _decoded(attributes[1][2:])
        iterations = int(_value(attributes[2], "i", _ITERATIONS))
        _extensions(attributes[3:])
        if not ITERATIONS_MIN <= iterations <= ITERATIONS_ACCEPTED_MAX or not salt:
            raise failed(
                f"the broker asks for {iterations} iterations; between {ITERATIONS_MIN} and "
                f"{ITERATIONS_ACCEPTED_MAX} are accepted"
            )
        algorithm = self._algorithm
        without_proof = f"c={base64.b64encode(b'n,,').decode()},r={nonce}"
        signed = f"{self._first_bare},{challenge},{without_proof}".encode()
        salted = salted_password(algorithm, self._password, salt, iterations)
        client_key = client_key_of(algorithm, salted)
        stored_key = hashlib.new(algorithm, client_key).digest()
        proof = _xor(client_key, hmac.digest(stored_key, signed, algorithm))
        self._expected = hmac.digest(server_key_of(algorithm, salted), signed, algorithm)
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()


def _text(message: bytes) -> str:
    if len(message) > MESSAGE_BYTES_MAX:
        raise failed(f"a SCRAM message has more than {MESSAGE_BYTES_MAX} bytes")
    if b"\0" in message:
        raise failed("a SCRAM message contains a NUL character")
    try:
        return bytes(message).decode("utf-8", "strict")
    except UnicodeDecodeError:
        raise failed("a SCRAM message is not UTF-8") from None


def _name(escaped: str) -> str:
    """Decode a user's name; the only escapes are those of comma and equals sign."""
    head, *rest = escaped.split("=")
    name = head
    for part in rest:
        character = {"2C": ",", "3D": "="}.get(part[:2])
        if character is None:
            raise failed("the user's name has an escape that SCRAM does not have")
        name += character + part[2:]
    if not name:
        raise failed("the user's name is empty")
    return name


def _value(attribute: str, letter: str, pattern: re.Pattern[str]) -> str:
    value = attribute[2:]
    if attribute[:2] != f"{letter}=" or not pattern.fullmatch(value):
        raise failed(f"the attribute {letter} is missing, misplaced or malformed")
    return value


def _extensions(attributes: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for attribute in attributes:
        match = _EXTENSION.fullmatch(attribute)
        if match is None or match[1] in found or match[1] in ("m", "n", "r", "c", "p"):
            raise failed("an extension is malformed, repeated or mandatory")
        found[match[1]] = match[2]
    return found


def _decoded(text: str) -> bytes:
    """Strict base64: one text for each value."""
    try:
        value = base64.b64decode(text.encode(), validate=True)
    except (binascii.Error, ValueError):
        raise failed("an attribute is not base64") from None
    if base64.b64encode(value).decode() != text:
        raise failed("an attribute is not canonical base64")
    return value


def _xor(left: bytes, right: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(left, right, strict=True))
