"""The reference of settings says what the tables say."""

from __future__ import annotations

from dataclasses import fields

from ottla.client.settings.config import ClientConfig, ConsumerConfig, ProducerConfig
from ottla.client.settings.kafka_names import ALIASES
from ottla.coordinator.configs.broker_configs_table import BROKER_CONFIGS
from ottla.coordinator.configs.topic_configs import TOPIC_CONFIGS
from tests.deploy.settings_page import COMMAND, PAGE, page
from tests.deploy.settings_since import BROKERS, CLIENTS, TOPICS


def test_the_page_is_up_to_date() -> None:
    """An operator reads the page and not the table: a setting that it lacks does not exist."""
    assert PAGE.read_text("utf-8") == page(), f"write the page anew: {COMMAND}"


def test_versions_are_of_settings_that_exist() -> None:
    """Each name once, and on the page."""
    tables = ((BROKERS, set(BROKER_CONFIGS)), (TOPICS, set(TOPIC_CONFIGS)), (CLIENTS, set(ALIASES)))
    for table, known in tables:
        names = [name for one in table.values() for name in one.split()]
        assert sorted(names) == sorted(set(names))
        assert set(names) - known == set()


def test_every_setting_is_on_the_page() -> None:
    """Of brokers with an effect or without, of topics, and each keyword of clients."""
    text = PAGE.read_text("utf-8")
    configs = (ClientConfig, ProducerConfig, ConsumerConfig)
    keywords = {field.name for config in configs for field in fields(config)}

    missing = [
        name
        for name in (*BROKER_CONFIGS, *TOPIC_CONFIGS, *sorted(keywords))
        if f"`{name}`" not in text
    ]
    assert missing == []
