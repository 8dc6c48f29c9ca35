"""Listeners, advertised addresses, and which of them brokers use among themselves."""

from __future__ import annotations

import pytest

from ottla.coordinator.configs.broker_configs import parse_broker_config
from ottla.coordinator.configs.definitions import BadValue
from ottla.coordinator.configs.listeners import ListenerTexts, parse_listeners
from ottla.coordinator.metadata.image import Endpoint

MAP = "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,IN:PLAINTEXT,OUT:PLAINTEXT"
LOCAL = "PLAINTEXT://127.0.0.1:9092"


def _texts(listeners: str, advertised: str | None = None) -> ListenerTexts:
    return ListenerTexts(listeners, advertised, MAP, None, None)


def test_one_local_listener() -> None:
    """The configuration that most users start with."""
    found = parse_listeners(_texts(LOCAL))

    assert found.bound == found.advertised
    assert found.bound == (Endpoint("PLAINTEXT", "127.0.0.1", 9092, "PLAINTEXT"),)
    assert found.inter_broker_name == "PLAINTEXT"
    assert found.warnings == ()


def test_two_listeners_with_their_own_advertised_addresses() -> None:
    """The usual set-up in containers: one address inside, another outside (KIP-103)."""
    texts = _texts("in://0.0.0.0:9092, OUT://[::]:9093", "OUT://example.org:443,IN://broker-1:9092")

    found = parse_listeners(texts._replace(inter_broker_name="in"))

    assert [end.host for end in found.bound] == ["0.0.0.0", "::"]
    assert [(end.listener, end.host, end.port) for end in found.advertised] == [
        ("IN", "broker-1", 9092),
        ("OUT", "example.org", 443),
    ]
    assert found.inter_broker_name == "IN"


@pytest.mark.parametrize("told", [None, "localhost", "127.0.0.1", "[::1]"])
def test_a_listener_without_host_stays_on_this_machine(told: str | None) -> None:
    """A plaintext listener for the whole network must be asked for by name."""
    advertised = None if told is None else f"PLAINTEXT://{told}:9092"
    found = parse_listeners(_texts("PLAINTEXT://:9092", advertised))

    assert found.bound[0].host == "127.0.0.1"
    assert found.advertised[0].host == (told or "127.0.0.1").strip("[]")
    assert "0.0.0.0" in found.warnings[0]


def test_advertising_an_address_for_others_asks_for_them() -> None:
    """Compose files write no host and advertise the container's name; they must work."""
    texts = _texts("PLAINTEXT://:9092", "PLAINTEXT://kafka:9092")
    found = parse_listeners(texts._replace(insecure_names="PLAINTEXT"))

    assert found.bound[0].host == "0.0.0.0"
    assert found.advertised[0].host == "kafka"
    assert found.warnings == ()


def test_listeners_of_kraft_controllers_are_left_out() -> None:
    """The same compose file as for a KRaft node brings a broker up."""
    texts = _texts("PLAINTEXT://127.0.0.1:9092,CONTROLLER://:9093")

    found = parse_listeners(texts._replace(controller_names="CONTROLLER"))

    assert [end.listener for end in found.bound] == ["PLAINTEXT"]


def test_port_zero_may_repeat() -> None:
    """Tests let the kernel choose; each listener then gets its own port."""
    found = parse_listeners(
        _texts("IN://127.0.0.1:0,OUT://127.0.0.1:0")._replace(inter_broker_name="IN")
    )

    assert [end.port for end in found.bound] == [0, 0]


@pytest.mark.parametrize(
    ("listeners", "protocol", "name"),
    [
        ("IN://h:1,PLAINTEXT://h:2", None, "PLAINTEXT"),
        ("IN://h:1,PLAINTEXT://h:2", "PLAINTEXT", "PLAINTEXT"),
        ("IN://h:1", None, "IN"),
        ("IN://h:1", "PLAINTEXT", "IN"),
    ],
)
def test_the_listener_among_brokers_is_found(
    listeners: str, protocol: str | None, name: str
) -> None:
    """Kafka's rule, and the only possible answer where there is one listener."""
    texts = _texts(listeners)._replace(inter_broker_protocol=protocol)

    assert parse_listeners(texts).inter_broker_name == name


@pytest.mark.parametrize(
    ("listeners", "names", "warned"),
    [
        ("PLAINTEXT://10.0.0.1:9092", None, True),
        ("PLAINTEXT://10.0.0.1:9092", "plaintext", False),
        ("PLAINTEXT://127.0.0.1:9092", None, False),
        ("PLAINTEXT://[::1]:9092", None, False),
        ("SSL://10.0.0.1:9092", None, False),
        ("SASL_SSL://10.0.0.1:9092", None, False),
    ],
)
def test_an_open_listener_on_a_network_is_warned_of(
    listeners: str, names: str | None, warned: bool
) -> None:
    """Its operator reads at the start what to set, unless the network was said to be trusted."""
    found = parse_listeners(_texts(listeners)._replace(insecure_names=names))

    assert any("in clear text" in text for text in found.warnings) is warned


@pytest.mark.parametrize(
    ("connect", "more", "warned"),
    [
        ("zoo-1:2181,zoo-2:2181/ottla", {}, True),
        ("127.0.0.1:2181,zoo-2:2181", {}, True),
        ("zoo-1", {"ottla.zookeeper.digest": "u:p"}, True),
        ("zoo-1", {"ottla.zookeeper.digest": "u:p", "zookeeper.set.acl": "true"}, False),
        ("127.0.0.1:2181/ottla", {}, False),
        ("[::1]:2181", {}, False),
        ("", {}, False),
    ],
)
def test_a_broker_with_logins_warns_of_a_store_that_others_may_change(
    connect: str, more: dict[str, str], warned: bool
) -> None:
    """The users and the rules are there. Without logins there is little to protect."""
    login = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_a="a-secret";'
    closed = {
        "listeners": "SASL_SSL://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.jaas.config": login,
    }
    settings = {"zookeeper.connect": connect, **more}
    without = parse_broker_config({"listeners": "PLAINTEXT://127.0.0.1:0", **settings})
    found = parse_broker_config({**closed, **settings})

    assert any("ZooKeeper other than" in text for text in found.warnings) is warned
    assert without.warnings == ()


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        (_texts(""), "no listener"),
        (_texts("PLAINTEXT:9092"), "NAME://host:port"),
        (_texts("PLAINTEXT://h"), "NAME://host:port"),
        (_texts("PLAINTEXT://h:65536"), "NAME://host:port"),
        (_texts("PLAINTEXT://h:1/path"), "NAME://host:port"),
        (_texts("PLAINTEXT://::1:9092"), "NAME://host:port"),
        (_texts("PLAINTEXT://h:1,plaintext://h:2"), "twice"),
        (_texts("PLAINTEXT://h:1,IN://h:1"), "h:1"),
        (_texts("OTHER://h:1"), "OTHER"),
        (_texts(LOCAL, "IN://h:1"), "advertised.listeners names IN"),
        (_texts("PLAINTEXT://0.0.0.0:9092"), "advertised.listeners"),
        (_texts(LOCAL, "PLAINTEXT://0.0.0.0:9092"), "advertised.listeners"),
        (_texts(LOCAL)._replace(protocol_map="PLAINTEXT"), "NAME:PROTOCOL"),
        (_texts(LOCAL)._replace(protocol_map="PLAINTEXT:TLS"), "NAME:PROTOCOL"),
        (_texts(LOCAL)._replace(protocol_map="A:SSL,a:SSL"), "twice"),
        (_texts(LOCAL)._replace(inter_broker_name="IN"), "inter.broker.listener.name"),
        (
            _texts(LOCAL)._replace(inter_broker_name="A", inter_broker_protocol="SSL"),
            "only one",
        ),
        (_texts("IN://h:1,OUT://h:2"), "IN, OUT"),
        (_texts("IN://h:1")._replace(inter_broker_protocol="SSL"), "inter.broker.listener.name"),
    ],
)
def test_what_cannot_work_is_an_error_with_a_way_out(texts: ListenerTexts, words: str) -> None:
    """A broker that clients cannot reach, or that speaks plaintext where TLS was configured."""
    with pytest.raises(BadValue, match=words.replace(".", r"\.")):
        parse_listeners(texts)
