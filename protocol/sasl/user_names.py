"""The rules for names of new users.

Names are compared as they are written. Two that look the same must not both exist, so a name in
which a reader cannot see each character is refused when the user is made.
"""

from __future__ import annotations

import unicodedata

from ottla.protocol.sasl.exchange import CREDENTIAL_BYTES_MAX

# Control, format (which includes changes of direction), surrogate, private and unassigned.
_INVISIBLE = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def name_problem(name: str) -> str | None:
    """Return why a new user cannot have the name, None if it can."""
    if not name:
        return "a user needs a name"
    if any(unicodedata.category(character) in _INVISIBLE for character in name):
        return "a user's name cannot contain control, formatting or unassigned characters"
    if len(name.encode()) > CREDENTIAL_BYTES_MAX:
        return f"a user's name has at most {CREDENTIAL_BYTES_MAX} bytes"
    if name != name.strip():
        return "a user's name cannot begin or end with a blank"
    if unicodedata.normalize("NFKC", name) != name:
        return "a user's name has to be written in its normal form (Unicode NFKC)"
    return None
