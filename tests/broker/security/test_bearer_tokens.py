"""OAUTHBEARER: which tokens let a client in, with keys of a file and of an issuer on loopback."""

from __future__ import annotations

import asyncio
import base64
import http.client
import http.server
import json
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import confluent_kafka
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from ottla.broker.security.bearer_tokens import BearerTokens
from ottla.client.producer import Producer
from ottla.coordinator.configs.sasl_settings import BearerSettings
from ottla.protocol.errors import KafkaError
from ottla.protocol.secret import Secret
from ottla.wire.clock import RealClock
from ottla.wire.errors import AuthenticationFailed
from tests.support.sasl_broker import running_broker, sasl_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
EC = ec.generate_private_key(ec.SECP256R1())
NOW = int(time.time())
CLAIMS = {
    "sub": "alice",
    "iss": "https://issuer",
    "aud": ["kafka"],
    "scope": "kafka other",
    "exp": NOW + 3600,
}


def public_key(key: Any, key_id: str, algorithm: Any) -> dict[str, Any]:
    found = json.loads(algorithm.to_jwk(key.public_key()))
    return {**found, "kid": key_id, "use": "sig"}


KEYS = {
    "keys": [
        public_key(RSA, "rsa", jwt.algorithms.RSAAlgorithm),
        public_key(EC, "ec", jwt.algorithms.ECAlgorithm),
        {"kty": "oct", "kid": "shared", "k": "c2VjcmV0"},
        {"kty": "RSA", "kid": "broken"},
    ]
}


def signed(key: Any = RSA, algorithm: str = "RS256", key_id: str = "rsa", **changes: Any) -> str:
    claims = {name: value for name, value in {**CLAIMS, **changes}.items() if value is not None}
    return jwt.encode(claims, key, algorithm, headers={"kid": key_id})


def unsigned(**changes: Any) -> str:
    parts = ({"alg": "none"}, {**CLAIMS, **changes})
    texts = [
        base64.urlsafe_b64encode(json.dumps(one).encode()).decode().rstrip("=") for one in parts
    ]
    return ".".join([*texts, ""])


class Inline:
    """Work that would run in a thread."""

    async def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return function(*arguments)


def settings_of(url: str, **changes: Any) -> BearerSettings:
    found: dict[str, Any] = {
        "jwks_url": url,
        "issuer": "https://issuer",
        "audiences": ("kafka", "second"),
        "required_scopes": ("kafka",),
        "scope_claim": "scope",
        "subject_claim": "sub",
        "clock_skew_s": 30,
        "refresh_ms": 3_600_000,
        "allows_unsecured": not url,
    }
    return BearerSettings(**{**found, **changes})


@pytest.fixture
def keys(tmp_path: Path) -> str:
    """The URL of a file with the public keys."""
    path = tmp_path / "keys.json"
    path.write_text(json.dumps(KEYS))
    return path.as_uri()


class StandingClock(RealClock):
    """A clock whose date stays the one that the tokens of this file were made for."""

    def wall_ms(self) -> int:
        return NOW * 1000


async def user_of(settings: BearerSettings, token: str) -> str:
    return (await BearerTokens(settings, StandingClock(), Inline()).check(Secret(token))).user


@pytest.mark.parametrize(
    "token",
    [
        signed(),
        signed(EC, "ES256", "ec"),
        signed(RSA, "PS512"),
        signed(aud="second"),
        signed(scope=["kafka"]),
        signed(exp=NOW - 10),
        signed(nbf=NOW + 10),
        signed(iat=NOW + 60),
    ],
)
async def test_a_token_that_the_issuer_signed_names_the_user(keys: str, token: str) -> None:
    """With 30 seconds of tolerance between two clocks."""
    assert await user_of(settings_of(keys), token) == "alice"


class Patient:
    """Work in a thread that takes its time."""

    def __init__(self) -> None:
        self.may_end = asyncio.Event()
        self.calls: list[str] = []

    async def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        self.calls.append(function.__name__)
        if function.__name__ == "fetched":
            await self.may_end.wait()
        return function(*arguments)


async def test_clients_that_come_while_the_keys_are_fetched_wait_for_them(keys: str) -> None:
    """After a start all clients come at once. A client takes a refused login for final."""
    offload = Patient()
    tokens = BearerTokens(settings_of(keys), StandingClock(), offload)
    logins = [asyncio.create_task(tokens.check(Secret(signed()))) for _ in range(5)]
    for _ in range(5):
        await asyncio.sleep(0)
    offload.may_end.set()

    assert {one.user for one in await asyncio.gather(*logins)} == {"alice"}
    assert offload.calls.count("fetched") == 1


async def test_a_server_of_keys_that_speaks_no_http_leaves_those_that_are_known(
    keys: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error is none of the operating system's."""

    def broken(_url: str, **_options: Any) -> Any:
        raise http.client.BadStatusLine("SSH-2.0")

    tokens = BearerTokens(settings_of(keys, refresh_ms=0), StandingClock(), Inline())
    await tokens.check(Secret(signed()))
    tokens._tried_ms = None
    monkeypatch.setattr("urllib.request.urlopen", broken)

    assert (await tokens.check(Secret(signed()))).user == "alice"


PUBLIC = RSA.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def confused() -> str:
    """Signed with the public key as if it were a shared secret."""
    import hashlib
    import hmac

    header = {"alg": "HS256", "kid": "rsa"}
    texts = [
        base64.urlsafe_b64encode(json.dumps(one).encode()).rstrip(b"=") for one in (header, CLAIMS)
    ]
    signature = hmac.new(PUBLIC, b".".join(texts), hashlib.sha256).digest()
    return b".".join([*texts, base64.urlsafe_b64encode(signature).rstrip(b"=")]).decode()


@pytest.mark.parametrize(
    ("token", "reason"),
    [
        (signed(exp=NOW - 60), "expired"),
        (signed(exp=None), "no time of expiry"),
        (signed(exp="soon"), "no number"),
        (signed(nbf=NOW + 60), "not valid yet"),
        (signed(iss="https://other"), "another issuer"),
        (signed(iss=None), "another issuer"),
        (signed(aud="other"), "another audience"),
        (signed(aud=None), "another audience"),
        (signed(scope="other"), "lacks a scope"),
        (signed(scope=None), "lacks a scope"),
        (signed(sub=""), "no user"),
        (signed(sub=None), "no user"),
        (signed(EC, "ES256", "rsa"), "OAUTHBEARER"),
        (signed(rsa.generate_private_key(public_exponent=65537, key_size=2048)), "Signature"),
        (signed(key_id="nobody"), "no key has the id"),
        (signed("secret" * 8, "HS256", "shared"), "no key has the id"),
        (confused(), "alg"),
        (unsigned(), "no key has the id"),
        (signed()[:-6] + "AAAAAA", "Signature"),
        ("not.a.token", "not a JWT"),
        ("", "not a JWT"),
    ],
)
async def test_every_other_token_is_refused(keys: str, token: str, reason: str) -> None:
    """Each is what an attacker, or another service with the same issuer, would send."""
    with pytest.raises(KafkaError, match=reason):
        await user_of(settings_of(keys), token)


async def test_unsecured_tokens_count_only_where_the_operator_says_so() -> None:
    """Any client can make one."""
    assert await user_of(settings_of(""), unsigned()) == "alice"
    with pytest.raises(KafkaError, match="expired"):
        await user_of(settings_of(""), unsigned(exp=NOW - 60))
    with pytest.raises(KafkaError, match="not an unsecured JWT"):
        await user_of(settings_of(""), signed())


async def test_the_user_may_stand_in_another_claim(keys: str) -> None:
    """Issuers differ."""
    settings = settings_of(keys, subject_claim="preferred_username", scope_claim="scp")
    token = signed(preferred_username="bob", scp=["kafka"], scope=None)

    assert await user_of(settings, token) == "bob"


@contextmanager
def issuer() -> Iterator[tuple[str, list[str]]]:
    """An issuer on loopback: its URL, and what it was asked for."""
    asked: list[str] = []

    class Pages(http.server.BaseHTTPRequestHandler):
        def _answer(self, document: Any) -> None:
            asked.append(self.path)
            body = json.dumps(document).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self) -> None:
            self._answer(KEYS)

        def do_POST(self) -> None:
            form = self.rfile.read(int(self.headers["Content-Length"])).decode()
            assert form == "grant_type=client_credentials&scope=kafka"
            given = base64.b64decode(self.headers["Authorization"].split()[1]).decode()
            assert given == "app:s%26cret"
            self._answer({"access_token": signed(sub="app"), "expires_in": 3600})

        def log_message(self, *_arguments: object) -> None: ...

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Pages)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", asked
    finally:
        server.shutdown()
        server.server_close()


async def test_clients_log_in_with_tokens_of_an_issuer() -> None:
    """Our client asks the issuer itself, confluent-kafka is given a token; a bad one is refused."""
    with issuer() as (url, asked):
        settings = {
            **sasl_settings("OAUTHBEARER"),
            "sasl.oauthbearer.jwks.endpoint.url": f"{url}/keys",
            "sasl.oauthbearer.expected.audience": "kafka",
        }
        async with running_broker(settings) as running:
            address = running.broker.address
            where = f"{address.host}:{address.port}"
            ours = {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.oauthbearer.token.endpoint.url": f"{url}/token",
                "sasl.oauthbearer.client.id": "app",
                "sasl.oauthbearer.client.secret": "s&cret",
                "sasl.oauthbearer.scope": "kafka",
            }
            async with Producer(where, security=ours, allow_auto_create=True) as producer:
                await producer.send("bearer", b"by ottla")
            sessions = [peer.principal for peer in running.broker.parts.logins._sessions]
            assert not sessions or set(sessions) == {"User:app"}
            assert asked.count("/token") == 1
            assert asked.count("/keys") == 1

            def confluent() -> int:
                producer = confluent_kafka.Producer(
                    {
                        "bootstrap.servers": where,
                        "security.protocol": "SASL_PLAINTEXT",
                        "sasl.mechanism": "OAUTHBEARER",
                        "oauth_cb": lambda _config: (signed(), NOW + 3600),
                    }
                )
                producer.produce("bearer", b"by confluent")
                return int(producer.flush(60))

            assert await asyncio.to_thread(confluent) == 0
            wrong = {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "OAUTHBEARER",
                "oauth_cb": lambda: signed(aud="other"),
            }
            with pytest.raises(AuthenticationFailed, match="OAUTHBEARER failed"):
                async with Producer(where, security=wrong) as producer:
                    await producer.send("bearer", b"never")
