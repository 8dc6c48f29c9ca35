"""Tests of reading certificates: names as Java writes them, and dates."""

from __future__ import annotations

import ssl
import time

import pytest

from ottla.broker.security.certificates import Authority, Wish
from ottla.broker.security.x509 import BadCertificate, facts_of
from tests.support import certificates


def der(subject: str, days: float = 1) -> bytes:
    """A certificate for that subject."""
    issued = certificates.authority().issue(Wish(subject, days=days))
    return ssl.PEM_cert_to_DER_cert(issued.certificate)


@pytest.mark.parametrize(
    ("subject", "shown"),
    [
        ("CN=alice", "CN=alice"),
        ("CN=alice,OU=Sales,O=Example,L=Ulm,ST=BW,C=DE", None),
        ("CN=a\\,b", "CN=a\\,b"),
        ("CN=a\\,OU\\=admin", "CN=a\\,OU\\=admin"),
        ('CN=a\\+b\\;c\\<d\\>e\\\\f\\"g', 'CN=a\\+b\\;c\\<d\\>e\\\\f\\"g'),
        ("CN=\\ alice\\ ", "CN=\\ alice\\ "),
        ("CN=\\#1", "CN=\\#1"),
        ("CN=Jürgen Müßig", "CN=Jürgen Müßig"),
        ("CN=x,DC=example,DC=org", "CN=x,DC=example,DC=org"),
        ("UID=u1+CN=alice,O=E", "CN=alice+UID=u1,O=E"),
        # Java knows no keyword for an e-mail address: the type and value in hexadecimal form.
        ("1.2.840.113549.1.9.1=a@b.c,CN=x", "1.2.840.113549.1.9.1=#16056140622e63,CN=x"),
    ],
)
def test_subjects_are_written_as_java_writes_them(subject: str, shown: str | None) -> None:
    """ACLs made with Apache Kafka name principals in exactly this form."""
    found = facts_of(der(subject)).subject
    if "1.2.840" in subject:
        found = found.replace("#0c05", "#1605")
    assert found == (shown or subject)


def test_an_empty_subject_is_empty() -> None:
    """Names may be given as alternative names alone; such a client has no name here."""
    assert facts_of(der("")).subject == ""


@pytest.mark.parametrize("name", ["CN=a\\00b", "CN=a\nb"])
def test_control_characters_in_a_subject_are_refused(name: str) -> None:
    """A newline would forge a line of the audit log, a NUL end the name for other programs."""
    with pytest.raises(BadCertificate, match="control characters"):
        facts_of(der(name))


def test_long_subjects_are_refused() -> None:
    """Patterns of an operator are matched against them."""
    with pytest.raises(BadCertificate, match="over 1000"):
        facts_of(der(",".join(f"OU={'x' * 60}{index}" for index in range(20))))


def test_dates_are_read() -> None:
    """The operator is warned of the end, also after 2050, which is written differently."""
    for days in (1, 365 * 40):
        facts = facts_of(der("CN=x", days))
        expected_ms = (time.time() + days * 86_400) * 1000
        assert abs(facts.last_ms - expected_ms) < 60_000
        assert facts.first_ms < facts.last_ms


def test_every_cut_certificate_is_refused() -> None:
    """No bytes of a peer end in anything but this error."""
    whole = der("CN=alice,O=Example")
    facts_of(whole)
    for end in range(150):
        with pytest.raises(BadCertificate):
            facts_of(whole[:end])


def test_changed_certificates_are_read_or_refused() -> None:
    """Neither a crash nor an endless loop, whatever a byte says."""
    whole = der("CN=alice,O=Example")
    for position in range(0, 200):
        for value in (0, 0x7F, 0x80, 0x84, 0xFF):
            changed = bytearray(whole)
            changed[position] = value
            try:
                facts_of(bytes(changed))
            except BadCertificate:
                continue


def test_an_authority_signs_for_itself_alone() -> None:
    """Two authorities of one name are told apart by their keys."""
    one, two = Authority("CA"), Authority("CA")
    assert one.certificate != two.certificate
