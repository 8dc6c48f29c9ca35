"""The list of settings in the help of a client."""

from __future__ import annotations

from dataclasses import fields

from ottla.client.settings.config import ClientConfig, ConsumerConfig, ProducerConfig
from ottla.client.settings.listing import (
    default_text,
    explanations,
    lists_settings,
    settings_text,
)


def test_every_field_of_a_configuration_has_an_explanation() -> None:
    """A setting that is added without one fails here."""
    for config in (ClientConfig, ConsumerConfig, ProducerConfig):
        assert [one.name for one in fields(config) if one.name not in explanations(config)] == []


def test_defaults_are_written_as_keyword_arguments() -> None:
    """A reader can copy them."""
    texts = {one.name: default_text(one) for one in fields(ConsumerConfig)}

    assert texts["offset_reset"] == "'latest'"
    assert texts["isolation"] == "'read_uncommitted'"
    assert texts["fetch_bytes_max"] == "52428800, 50 MiB"
    assert texts["retry_backoff"] == "Backoff(initial_ms=100, limit_ms=1000)"
    assert texts["group_id"] == "None"


def test_an_explanation_on_several_lines_is_joined() -> None:
    """The help wraps it again for the terminal."""
    assert explanations(ProducerConfig)["transaction_timeout_ms"] == (
        "The coordinator aborts transactions that are open for longer, in milliseconds."
    )


def test_a_class_without_docstring_stays_without() -> None:
    """Under ``python -OO`` no class has one."""

    class Bare:
        pass

    assert lists_settings(ClientConfig)(Bare).__doc__ is None


def test_lines_fit_into_a_terminal() -> None:
    """``help`` indents and does not wrap."""
    assert max(map(len, settings_text(ProducerConfig).splitlines())) <= 96
