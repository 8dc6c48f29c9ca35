"""``sasl.jaas.config`` is read as Kafka reads it, and never loads what it names."""

from __future__ import annotations

import pytest

from ottla.protocol.sasl.jaas import parse_jaas

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


def test_an_entry_has_a_user_a_password_and_the_users_of_a_broker() -> None:
    """As in Kafka's documentation, over several lines."""
    entry = parse_jaas(
        f"""{PLAIN} required
            username="admin"
            password='a "b" \\\\ c'
            user_admin="x=1;y"
            user_alice=plain-word;
        """
    )

    assert entry.mechanisms == ("PLAIN",)
    assert entry.text("username") == "admin"
    assert entry.secret("password").reveal() == 'a "b" \\ c'
    assert {name: value.reveal() for name, value in entry.users.items()} == {
        "admin": "x=1;y",
        "alice": "plain-word",
    }
    assert not entry.secret("none")


def test_an_entry_says_its_mechanisms() -> None:
    """One module serves both kinds of SCRAM."""
    assert parse_jaas(f"{SCRAM} required;").mechanisms == ("SCRAM-SHA-256", "SCRAM-SHA-512")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "semicolon"),
        (f"{PLAIN} required", "semicolon"),
        (f"{PLAIN} required; {PLAIN} required;", "more than one"),
        (f"{PLAIN};", "module required"),
        (f'{PLAIN} maybe username="x";', "module required"),
        (f'{PLAIN} required username="hunter2;', "quote"),
        (f'{PLAIN} required username "hunter2";', "name="),
        (f"{PLAIN} required username=;", "name="),
        (f'{PLAIN} required a="hunter2" a="hunter2";', "twice"),
        ("com.sun.security.auth.module.JndiLoginModule required;", "not one of the login modules"),
        ("com.sun.security.auth.module.Krb5LoginModule required;", "GSSAPI"),
        ("os.system required;", "not one of the login modules"),
    ],
)
def test_everything_else_is_refused_with_a_sentence(text: str, problem: str) -> None:
    """A login module is code in Kafka (CVE-2023-25194); here it is a word. No value is shown."""
    with pytest.raises(ValueError, match=problem) as caught:
        parse_jaas(text)

    assert "hunter2" not in str(caught.value)


def test_options_are_not_shown() -> None:
    """Settings are logged."""
    assert "secret" not in repr(parse_jaas(f'{PLAIN} required password="secret";'))
