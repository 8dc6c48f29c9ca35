"""Settings are called what the person at the command line has called them."""

from __future__ import annotations

from ottla.broker.cli.wording import reworded


def test_names_become_options_and_options_names() -> None:
    """Advice is written once, for both kinds of reader."""
    sentence = "log.dirs is full: change log.dirs=/d, or --port"

    assert reworded(sentence, []) == "--data-dir is full: change --data-dir=/d, or --port"
    assert reworded(sentence, ["listeners"]).endswith(", or listeners")
    assert reworded("use --data-dir.", ["log.dirs"]) == "use log.dirs."


def test_other_settings_keep_their_names() -> None:
    """A name within a longer one is another setting."""
    sentence = "advertised.listeners, listeners.x, log.dirs.y, --host-name"

    assert reworded(sentence, []) == sentence
    assert reworded(sentence, ["listeners", "log.dirs"]) == sentence
