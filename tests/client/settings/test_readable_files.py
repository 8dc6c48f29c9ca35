"""Secrets of a client that other users of the machine can read."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from ottla.client.settings.profiles import read_properties
from ottla.client.settings.security import security_from
from tests.support import certificates

OPEN, CLOSED = 0o644, 0o600


@pytest.mark.parametrize(
    ("mode", "text", "is_told"),
    [
        (OPEN, "sasl.username=u\nsasl.password=p\n", True),
        (CLOSED, "sasl.username=u\nsasl.password=p\n", False),
        (OPEN, "bootstrap.servers=h:1\nssl.keystore.location=k.pem\n", False),
    ],
)
def test_a_password_in_a_file_that_all_can_read_is_warned_of_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, mode: int, text: str, *, is_told: bool
) -> None:
    """The file is read by each command; the password in it is not named."""
    path = tmp_path / "client.properties"
    path.write_text(text)
    path.chmod(mode)

    with caplog.at_level(logging.WARNING):
        read_properties(path)
        read_properties(path)

    sentence = (
        f"{path} contains sasl.password, and all users (mode 0644) can use it: run chmod 600 {path}"
    )
    assert caplog.messages == ([sentence] if is_told else [])


@pytest.mark.parametrize(("mode", "is_told"), [(OPEN, True), (CLOSED, False)])
def test_a_key_that_all_can_read_is_warned_of_and_used(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, mode: int, *, is_told: bool
) -> None:
    """A client does not refuse it, unlike a broker; a certificate is no secret."""
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    key.write_bytes(Path(certificates.key_file("broker")).read_bytes())
    certificate.write_bytes(Path(certificates.certificate_file("broker")).read_bytes())
    key.chmod(mode)
    certificate.chmod(OPEN)
    properties = {
        "security.protocol": "SSL",
        "ssl.key.location": str(key),
        "ssl.certificate.location": str(certificate),
    }

    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            tls = security_from(properties).tls
            assert tls is not None
            tls.session("localhost")

    sentence = (
        f"{key} contains a private key, and all users (mode 0644) can use it: run chmod 600 {key}"
    )
    assert caplog.messages == ([sentence] if is_told else [])
