"""How often the code changes files on its way: ``python -m benchmarks.walks [NAME ...]``.

Each walk is one thing that a user asks for, after a first time that fills the caches. The functions
of the product that the client's and the broker's event loops enter are written down in their order;
a crossing is a step from a function of one file to one of another. That is what a reader follows,
and it depends on no clock but through the timers that happen to fire: the smallest count of several
repetitions is shown. ``--lines`` prints the walk itself.
"""

from __future__ import annotations

import json
import sys
import threading
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import ottla
import ottla.sync
from ottla.client.process.loop_thread import shared_loop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import FrameType

    from ottla.client.process.loop_thread import LoopThread

PRODUCT = str(Path(ottla.__file__).resolve().parent.parent)
# Code of a test cluster and of the benchmarks is on no user's way.
LEFT_OUT = ("broker/testing/", "benchmarks/", "tests/", ".venv/")
REPETITIONS = 5


class Walk(NamedTuple):
    """The functions that one event loop entered, as ``file:function``."""

    steps: list[str]

    @property
    def figures(self) -> dict[str, int]:
        """Calls, functions, files and folders, and how often the walk changes the last two."""
        files = [step.partition(":")[0] for step in self.steps]
        folders = [file.rpartition("/")[0] for file in files]
        return {
            "calls": len(self.steps),
            "functions": len(set(self.steps)),
            "files": len(set(files)),
            "file crossings": _changes(files),
            "folder crossings": _changes(folders),
        }


def _changes(names: list[str]) -> int:
    return sum(before != after for before, after in pairwise(names))


class Tracer:
    """Writes down the functions that the thread of one event loop enters."""

    def __init__(self, thread: LoopThread) -> None:
        self._thread = thread
        self._names: dict[Any, str | None] = {}
        self._steps: list[str] = []

    def start(self) -> None:
        """Forget what was written down, and begin."""
        self._steps = []
        self._set(self._on_event)

    def stop(self) -> Walk:
        """End, and return the walk."""
        self._set(None)
        return Walk(self._steps)

    def _set(self, hook: Callable[[FrameType, str, Any], None] | None) -> None:
        done = threading.Event()

        def install() -> None:
            sys.setprofile(hook)
            done.set()

        self._thread.post(install)
        done.wait()

    def _on_event(self, frame: FrameType, event: str, _argument: Any) -> None:
        if event != "call":
            return
        code = frame.f_code
        name = self._names.get(code, "")
        if name == "":
            name = self._names[code] = _name_of(code.co_filename, code.co_qualname)
        if name is not None:
            self._steps.append(name)


def _name_of(file: str, function: str) -> str | None:
    """None for functions that are not of the product."""
    path = str(Path(file).resolve())
    # Generated code, such as that of named tuples, is in no file.
    if file.startswith("<") or not path.startswith(PRODUCT):
        return None
    path = path[len(PRODUCT) + 1 :]
    return None if path.startswith(LEFT_OUT) else f"{path.removesuffix('.py')}:{function}"


class Scene:
    """A cluster with a topic of one partition and one record, and the walks through it."""

    def __init__(self, cluster: ottla.Cluster, topic: str) -> None:
        self.servers = cluster.bootstrap_servers
        self.topic = topic
        self.walks: list[dict[str, Walk]] = []
        self._cluster = cluster
        cluster.create_topic(topic, partitions=1)
        with ottla.sync.Producer(self.servers) as producer:
            producer.send(topic, b"first", partition=0).result()

    def measure(self, act: Callable[[], object]) -> None:
        """Keep the walk of this action."""
        thread = self._cluster._thread
        assert thread is not None
        tracers = {"client": Tracer(shared_loop()), "broker": Tracer(thread)}
        for tracer in tracers.values():
            tracer.start()
        act()
        self.walks.append({where: tracer.stop() for where, tracer in tracers.items()})


def send(scene: Scene) -> None:
    """One record through ``Producer.send`` until it is acknowledged."""
    with ottla.sync.Producer(scene.servers, linger_ms=0) as producer:

        def sent() -> None:
            producer.send(scene.topic, b"value", partition=0).result()

        sent()
        for _ in range(REPETITIONS):
            scene.measure(sent)


def fetch(scene: Scene) -> None:
    """A record, from its send until a consumer that waits has it."""
    where = ottla.TopicPartition(scene.topic, 0)
    with (
        ottla.sync.Producer(scene.servers, linger_ms=0) as producer,
        ottla.sync.Consumer(scene.servers, offset_reset="latest") as consumer,
    ):
        consumer.assign([where])
        consumer.seek_to_end(where)
        consumer.poll(200)

        def arrived() -> None:
            producer.send(scene.topic, b"value", partition=0)
            while not consumer.poll(2000):
                pass

        arrived()
        for _ in range(REPETITIONS):
            scene.measure(arrived)


def join(scene: Scene) -> None:
    """A member joins a group of its own, until it has its first record."""
    for number in range(REPETITIONS):
        with ottla.sync.Consumer(
            scene.servers, group_id=f"walk-{number}", offset_reset="earliest"
        ) as consumer:

            def joined(consumer: ottla.sync.Consumer = consumer) -> None:
                consumer.subscribe([scene.topic])
                next(iter(consumer))

            scene.measure(joined)


def transaction(scene: Scene) -> None:
    """A transaction of one record, to its commit."""
    with ottla.sync.Producer(scene.servers, transactional_id="walk") as producer:
        producer.init_transactions()

        def committed() -> None:
            with producer.transaction():
                producer.send(scene.topic, b"value", partition=0)

        committed()
        for _ in range(REPETITIONS):
            scene.measure(committed)


def read_arrow(scene: Scene) -> None:
    """A topic as an Arrow table."""
    for _ in range(REPETITIONS):
        scene.measure(lambda: ottla.read_arrow(scene.topic, bootstrap_servers=scene.servers))


WALKS = {walk.__name__: walk for walk in (send, fetch, join, transaction, read_arrow)}


def measured(names: Iterable[str] = WALKS) -> dict[str, dict[str, Walk]]:
    """The shortest walk of each repetition, by name and event loop."""
    found = {}
    with ottla.Cluster() as cluster:
        for name in names:
            scene = Scene(cluster, name)
            WALKS[name](scene)
            found[name] = {
                loop: min((walk[loop] for walk in scene.walks), key=_crossings)
                for loop in ("client", "broker")
            }
    return found


def _crossings(walk: Walk) -> int:
    return walk.figures["file crossings"]


def main(arguments: list[str]) -> int:
    """Measure the named walks, or all."""
    names = [name for name in arguments if name != "--lines"] or list(WALKS)
    for name, walks in measured(names).items():
        for loop, walk in walks.items():
            sys.stdout.write(f"{name:12} {loop}: {json.dumps(walk.figures)}\n")
            if "--lines" in arguments:
                sys.stdout.write("".join(f"    {step}\n" for step in walk.steps))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
