"""Parses a DER certificate: its subject in Java's form, and its expiry. Pure.

ACLs name principals, which must be the same as in Apache Kafka for the same certificate: the
subject in RFC 2253 form, with Java's keywords and escapes.
"""

from __future__ import annotations

import re

from ottla.protocol.named_tuples import NamedTuple

# Longer names are refused, because patterns are matched against them.
SUBJECT_CHARS_MAX = 1_000
_SEQUENCE, _SET, _OBJECT_ID, _VERSION = 0x30, 0x31, 0x06, 0xA0
# Times in certificates: digits only, in UTC.
_MOMENT = re.compile(r"(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)Z", re.ASCII)
_UTC_TIME, _TIME = 0x17, 0x18
_KEYWORDS = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
# UTF8String, NumericString, PrintableString, T61String, IA5String, UniversalString, BMPString.
_TEXTS = {
    0x0C: "utf-8",
    0x12: "ascii",
    0x13: "ascii",
    0x14: "latin-1",
    0x16: "ascii",
    0x1C: "utf-32-be",
    0x1E: "utf-16-be",
}
_ESCAPED = frozenset(',=+<>#;"\\')


class BadCertificate(ValueError):
    """The bytes are not a certificate, or its subject cannot be used."""


class CertificateFacts(NamedTuple):
    """``subject`` in RFC 2253 form; times in milliseconds since 1970."""

    subject: str
    first_ms: int
    last_ms: int


def facts_of(certificate: bytes) -> CertificateFacts:
    """Return the certificate's facts. Raises BadCertificate."""
    try:
        whole = _Reader(certificate).enter(_SEQUENCE).enter(_SEQUENCE)
        if whole.tag == _VERSION:
            whole.skip()
        for _ in range(3):  # serial number, algorithm, issuer
            whole.skip()
        validity = whole.enter(_SEQUENCE)
        first_ms, last_ms = _milliseconds(*validity.take()), _milliseconds(*validity.take())
        return CertificateFacts(_subject(whole.enter(_SEQUENCE)), first_ms, last_ms)
    except (IndexError, UnicodeDecodeError) as error:
        raise BadCertificate(f"the certificate cannot be read: {error}") from error


class _Reader:
    """Goes through the elements of one DER value."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._position = 0

    @property
    def has_more(self) -> bool:
        return self._position < len(self._content)

    @property
    def tag(self) -> int:
        """Of the next element."""
        return self._content[self._position]

    def take(self) -> tuple[int, bytes]:
        """The tag and content of the next element."""
        tag, length = self.tag, self._content[self._position + 1]
        start = self._position + 2
        if length & 0x80:
            size = length & 0x7F
            if not 1 <= size <= 4:
                raise BadCertificate("the certificate cannot be read: an invalid length")
            length = int.from_bytes(self._content[start : start + size])
            start += size
        end = start + length
        if end > len(self._content):
            raise BadCertificate("the certificate cannot be read: it ends too early")
        self._position = end
        return tag, self._content[start:end]

    def skip(self) -> None:
        self.take()

    def enter(self, wanted: int) -> _Reader:
        tag, content = self.take()
        if tag != wanted:
            raise BadCertificate(f"the certificate cannot be read: tag {tag} instead of {wanted}")
        return _Reader(content)


def _milliseconds(tag: int, content: bytes) -> int:
    text = content.decode("latin-1")
    if tag == _UTC_TIME:
        # A year of two digits means 1950 to 2049 (RFC 5280).
        text = ("19" if text[:2] >= "50" else "20") + text
    elif tag != _TIME:
        raise BadCertificate("the certificate cannot be read: an unknown time format")
    match = _MOMENT.fullmatch(text)
    if match is None:
        raise BadCertificate(f"the certificate cannot be read: the time {text!r}")
    year, month, day, hour, minute, second = map(int, match.groups())
    if not (1 <= month <= 12 and 1 <= day <= 31):
        raise BadCertificate(f"the certificate cannot be read: the time {text!r}")
    seconds = _days_since_1970(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second
    return seconds * 1000


def _days_since_1970(year: int, month: int, day: int) -> int:
    """Count days of the Gregorian calendar; years start in March here, so that a leap day is the
    last day of the year.

    The module datetime would do the same, but importing it slows every broker's start."""
    year -= month <= 2
    days = year * 365 + year // 4 - year // 100 + year // 400
    return days + (153 * ((month + 9) % 12) + 2) // 5 + day - 1 - 719_468


def _subject(names: _Reader) -> str:
    """The last relative name comes first in RFC 2253."""
    parts: list[str] = []
    while names.has_more:
        values = names.enter(_SET)
        shown: list[str] = []
        while values.has_more:
            shown.append(_shown(values.enter(_SEQUENCE)))
        parts.append("+".join(shown))
    subject = ",".join(reversed(parts))
    if len(subject) > SUBJECT_CHARS_MAX:
        raise BadCertificate(f"the certificate's subject has over {SUBJECT_CHARS_MAX} characters")
    return subject


def _shown(pair: _Reader) -> str:
    """One part, such as CN=alice."""
    tag, content = pair.take()
    if tag != _OBJECT_ID:
        raise BadCertificate("the certificate cannot be read: a name without a type")
    object_id = _object_id(content)
    tag, value = pair.take()
    keyword, charset = _KEYWORDS.get(object_id), _TEXTS.get(tag)
    if keyword is None or charset is None:
        return f"{keyword or object_id}=#{_der(tag, value).hex()}"
    text = value.decode(charset)
    if any(ord(sign) < 32 or ord(sign) == 127 for sign in text):
        raise BadCertificate("the certificate's subject has control characters")
    return f"{keyword}={_escaped(text)}"


def _object_id(content: bytes) -> str:
    numbers: list[int] = []
    number = 0
    for byte in content:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))


def _der(tag: int, value: bytes) -> bytes:
    if len(value) < 0x80:
        return bytes((tag, len(value))) + value
    size = (len(value).bit_length() + 7) // 8
    return bytes((tag, 0x80 | size)) + len(value).to_bytes(size) + value


def _escaped(text: str) -> str:
    shown = "".join(f"\\{sign}" if sign in _ESCAPED else sign for sign in text)
    left = len(shown) - len(shown.lstrip(" "))
    right = len(shown) - len(shown.rstrip(" ")) if left < len(shown) else 0
    middle = shown[left : len(shown) - right]
    return "\\ " * left + middle + "\\ " * right
