"""The plugin as its users have it: in a run of pytest of its own."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points

import pytest

from tests.tidy.tree import ROOT

pytest_plugins = ["pytester"]
# Each test is a run of its own, with processes that load everything anew.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

PLUGIN = "ottla.pytest_plugin"
USES = """
    from confluent_kafka import Consumer, Producer

    def send(servers, topic, value):
        failed = []
        producer = Producer({"bootstrap.servers": servers, "message.timeout.ms": 20000})
        producer.produce(topic, value, on_delivery=lambda error, _: error and failed.append(error))
        producer.flush(20)
        assert failed == []
"""


def run(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    """In a process of its own; the plugin by name only where it is not installed."""
    installed = {point.value for point in entry_points(group="pytest11")}
    plugin = [] if PLUGIN in installed else ["-p", PLUGIN]
    # Nothing of it is about coroutines, and its own settings would be warned about.
    return pytester.runpytest_subprocess("-p", "no:asyncio", *plugin, *arguments)


def test_the_plugin_loads_nothing_before_it_is_used() -> None:
    """Every run of pytest in the environment pays for what is loaded here."""
    code = "import sys, ottla.pytest_plugin; print([n for n in sys.modules if 'ottla.' in n])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )

    assert done.stdout.strip() == f"['{PLUGIN}']"


def test_fixtures_give_brokers_and_topics(pytester: pytest.Pytester) -> None:
    """One broker for all tests, a topic for each, and a cluster for those that break it."""
    pytester.makepyfile(
        USES
        + """
    seen = []

    def test_first(ottla_broker, ottla_topic):
        seen.append((ottla_broker.bootstrap_servers, ottla_topic))
        send(ottla_broker.bootstrap_servers, ottla_topic, b"a")

    def test_second(ottla_broker, ottla_topic, ottla_client_config):
        seen.append((ottla_broker.bootstrap_servers, ottla_topic))
        send(ottla_broker.bootstrap_servers, ottla_topic, b"b")
        consumer = Consumer(ottla_client_config)
        consumer.subscribe([ottla_topic])
        assert consumer.poll(20).value() == b"b"
        consumer.close()
        assert seen[0][0] == seen[1][0] and seen[0][1] != seen[1][1]

    def test_cluster(ottla_cluster, ottla_topic):
        assert len(ottla_cluster.brokers) == 3
        ottla_cluster.faults.kill(ottla_cluster.leader(ottla_topic))
        send(ottla_cluster.bootstrap_servers, ottla_topic, b"a")
"""
    )

    run(pytester).assert_outcomes(passed=3)


def test_options_and_factories_make_variants(pytester: pytest.Pytester) -> None:
    """Settings belong into a file or a command, not into every test."""
    pytester.makeini("[pytest]\nottla_brokers = 2\nottla_settings =\n    num.partitions=5\n")
    pytester.makeconftest(
        """
    from ottla.pytest_plugin import cluster_fixture, topic_fixture

    lonely = cluster_fixture(1, settings={"num.partitions": 7})
    wide_topic = topic_fixture("lonely", partitions=3)
"""
    )
    pytester.makepyfile(
        """
    from confluent_kafka.admin import AdminClient

    def partitions(cluster, topic):
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        return len(admin.list_topics(topic, timeout=60).topics[topic].partitions)

    def test_ini(ottla_cluster):
        assert len(ottla_cluster.brokers) == 2
        assert ottla_cluster.settings["num.partitions"] == "5"
        assert ottla_cluster.settings["compression.type"] == "gzip"

    def test_factories(lonely, wide_topic):
        assert len(lonely.brokers) == 1
        assert lonely.settings["num.partitions"] == "7"
        assert partitions(lonely, wide_topic) == 3
"""
    )

    run(pytester, "--ottla-setting", "compression.type=gzip").assert_outcomes(passed=2)


def test_a_failing_test_tells_what_was_injected(pytester: pytest.Pytester) -> None:
    """With the fixture in a section, with a cluster of the test's own in a note."""
    pytester.makepyfile(
        """
    import ottla

    def test_fixture(ottla_cluster):
        ottla_cluster.faults.kill(2)
        assert False

    def test_own():
        with ottla.Cluster() as cluster:
            cluster.faults.lose_reply("PRODUCE", 3)
            assert False

    def test_good(ottla_cluster):
        ottla_cluster.faults.kill(1)
"""
    )
    result = run(pytester)

    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines(
        [
            "*ottla: ottla_cluster*",
            "cluster of 3 at 127.0.0.1:*",
            "*s  kill(2)",
            "*cluster of 1 at 127.0.0.1:*",
            "*s  lose_reply(PRODUCE, 3, broker=None)",
        ]
    )
    result.stdout.no_fnmatch_line("*kill(1)*")


def test_fixtures_that_fail_tell_what_was_injected(pytester: pytest.Pytester) -> None:
    """Most of a failover test is in its fixtures; what they broke is not the next test's."""
    pytester.makepyfile(
        """
    import pytest

    @pytest.fixture
    def broken(ottla_cluster):
        ottla_cluster.faults.jump_clock(11)
        raise RuntimeError

    @pytest.fixture
    def breaking(ottla_cluster):
        yield
        ottla_cluster.faults.jump_clock(22)
        raise RuntimeError

    def test_before(broken):
        pass

    def test_after(breaking):
        pass

    def test_neither(ottla_topic):
        assert False
"""
    )
    result = run(pytester, "--ottla-brokers", "1")

    result.assert_outcomes(errors=2, passed=1, failed=1)
    result.stdout.fnmatch_lines(
        [
            "*ERROR at setup of test_before*",
            "*ottla: ottla_cluster*",
            "*jump_clock(11, broker=None)",
            "*ERROR at teardown of test_after*",
            "*ottla: ottla_cluster*",
            "*jump_clock(22, broker=None)",
        ]
    )
    text = result.stdout.str()
    assert text.count("  jump_clock(11, ") == text.count("  jump_clock(22, ") == 1


def test_a_fixture_may_override_another_of_its_name(pytester: pytest.Pytester) -> None:
    """Both run at the same time; the end of the second one broke the run. What is injected into
    the first afterwards is told."""
    fixture = "from ottla.pytest_plugin import cluster_fixture\n"
    pytester.makeconftest(fixture + "cluster = cluster_fixture(brokers=1, scope='session')")
    test = "def test_{0}(cluster):\n    cluster.faults.jump_clock({1})\n    assert {2}"
    pytester.makepyfile(
        test_a=test.format("a", 11, True),
        test_b=f"{fixture}cluster = cluster_fixture(brokers=1, scope='module')\n"
        + test.format("b", 22, True),
        test_c=test.format("c", 33, False),
    )
    result = run(pytester)

    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["*jump_clock(33, broker=None)"])


def test_fixtures_say_what_they_are(pytester: pytest.Pytester) -> None:
    """``pytest --fixtures`` shows a description of each."""
    listed = run(pytester, "--fixtures").stdout.str()

    for name in ("ottla_broker", "ottla_cluster", "ottla_topic", "ottla_client_config"):
        told = listed.split(f"\n{name}", 1)[1].splitlines()[1]
        assert told.strip(), name
        assert "no docstring" not in told


def test_no_brokers_are_refused(pytester: pytest.Pytester) -> None:
    """The plugin used to start three brokers instead."""
    pytester.makepyfile("def test_one(ottla_cluster): pass")
    result = run(pytester, "--ottla-brokers", "0")

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*ClusterError: a cluster has at least one broker"])


def test_workers_of_xdist_do_not_meet(pytester: pytest.Pytester) -> None:
    """Two workers on one port is what makes a suite red on Mondays."""
    pytest.importorskip("xdist")
    pytester.makepyfile(
        USES
        + """
    import pytest

    @pytest.mark.parametrize("number", range(6))
    def test_one(number, ottla_broker, ottla_topic):
        send(ottla_broker.bootstrap_servers, ottla_topic, b"a")
"""
    )

    run(pytester, "-n", "2").assert_outcomes(passed=6)


def test_a_setting_that_is_none_is_refused(pytester: pytest.Pytester) -> None:
    """Silence would run the tests with other settings than were meant."""
    pytester.makepyfile("def test_one(ottla_broker): pass")

    result = run(pytester, "--ottla-setting", "nonsense")

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*wants KEY=VALUE, not 'nonsense'*"])


@pytest.mark.parametrize(
    ("ini", "words"),
    [
        ("ottla_brokers = many", "*UsageError: ottla_brokers is a number of brokers, not 'many'"),
        ("ottla_log_level = loud", "*UsageError: brokers log DEBUG*, not 'loud'"),
    ],
)
def test_an_option_that_is_none_is_told_by_its_name(
    pytester: pytest.Pytester, ini: str, words: str
) -> None:
    """A bare ValueError would not name the option in the file."""
    pytester.makeini(f"[pytest]\n{ini}\n")
    pytester.makepyfile("def test_one(ottla_cluster): pass")

    result = run(pytester)

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([words])
