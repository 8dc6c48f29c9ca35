"""Certificates for tests, made once per process: an authority, brokers, clients, and bad ones."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path

from ottla.broker.security.certificates import Authority, Issued, Wish

LOCAL = ("127.0.0.1", "::1", "localhost")


@cache
def authority() -> Authority:
    """The one that all tests trust."""
    return Authority("Test CA")


@cache
def other_authority() -> Authority:
    """One that no test trusts."""
    return Authority("Other CA")


@cache
def issued(name: str) -> Issued:
    """``broker``, ``client``, ``expired`` (a broker's), ``elsewhere`` (a broker's with another
    name), ``stranger`` (a client's of the other authority)."""
    wishes = {
        "broker": Wish("CN=broker,O=Test", LOCAL, is_both=True),
        "simulated": Wish("CN=broker,O=Test", ("broker-0",), is_both=True),
        "client": Wish("CN=alice,OU=Sales,O=Test,C=DE"),
        "expired": Wish("CN=broker,O=Test", LOCAL, is_both=True, days=-1),
        "elsewhere": Wish("CN=broker", ("elsewhere.example",), is_both=True),
        "stranger": Wish("CN=mallory"),
        "retired": Wish("CN=alice", days=-1),
    }
    signer = other_authority() if name == "stranger" else authority()
    return signer.issue(wishes[name])


@cache
def _folder() -> Path:
    made = Path(tempfile.mkdtemp(prefix="ottla-test-certificates-"))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


def store(name: str) -> str:
    """The path of a PEM file with the key and certificate of that name."""
    return _written(f"{name}.pem", issued(name).both)


def certificate_file(name: str) -> str:
    """The path of its certificate alone."""
    return _written(f"{name}.crt", issued(name).certificate)


def key_file(name: str) -> str:
    """The path of its key alone."""
    return _written(f"{name}.key", issued(name).key)


def trust(name: str = "authority") -> str:
    """The path of a PEM file with the authority: ``authority`` or ``other``."""
    made = authority() if name == "authority" else other_authority()
    return _written(f"{name}.ca.pem", made.certificate)


def _written(name: str, content: str) -> str:
    path = _folder() / name
    if not path.exists():
        path.write_text(content)
        path.chmod(0o600)
    return str(path)
