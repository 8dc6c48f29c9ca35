"""The import drawing of ``drawing.py``, executed, and who may touch the world."""

from __future__ import annotations

import ast
import re

import pytest

from tests.tidy.drawing import ALLOWED, COMPOSES, SURFACES
from tests.tidy.tree import (
    PACKAGES,
    ROOT,
    Module,
    imported_names,
    modules_of_tests,
    product_modules,
    resolve,
)

MACHINE_FOLDERS = (
    "protocol",
    "coordinator",
    "broker.replica",
    "broker.policy",
    "client.group.assignors",
)
# In other rooms the module says so itself.
PURE = re.compile(r"\bPure\b")
NOT_MACHINES = ("coordinator.store", "coordinator.store.served")
# Which of two equal record codecs is loaded is a matter of the environment, and no machine's input.
READS_THE_ENVIRONMENT = ("ottla.protocol.records.preference", "os")
BANNED_IN_MACHINES = {
    "asyncio",
    "socket",
    "ssl",
    "os",
    "pathlib",
    "threading",
    "time",
    "random",
    "secrets",
    "uuid",
    "logging",
    "shutil",
    "subprocess",
    "tempfile",
    "ctypes",
}


def _modules() -> tuple[list[Module], frozenset[str]]:
    modules = product_modules()
    return modules, frozenset(module.name for module in modules)


def _own_imports(module: Module, known: frozenset[str]) -> set[str]:
    """The product modules that a file imports, without the root."""
    found = set()
    for _node, name in imported_names(module):
        target = resolve(name, known)
        if target is not None and target != "ottla" and target != module.name:
            found.add(target.removeprefix("ottla."))
    return found


def _is_allowed(target: str, allowed: set[str]) -> bool:
    folder = target.rpartition(".")[0]
    return target in allowed or folder in allowed


def test_every_import_follows_the_drawing() -> None:
    """An arrow that is not drawn is how a tree of rooms becomes a heap."""
    modules, known = _modules()
    wrong = []
    for module in modules:
        if module.folder in COMPOSES or (not module.folder and module.name != "ottla"):
            continue
        allowed = ALLOWED[module.folder] | {module.folder}
        wrong += [
            f"{module.name} imports {target}"
            for target in sorted(_own_imports(module, known))
            if not _is_allowed(target, allowed)
        ]

    assert wrong == []


def test_rooms_use_only_the_surface_of_a_room() -> None:
    """Inner modules can change as long as only their own room knows them."""
    modules, known = _modules()
    wrong = [
        f"{module.name} imports {target}"
        for module in modules
        for target in sorted(_own_imports(module, known))
        for folder, _, name in [target.rpartition(".")]
        if folder in SURFACES and module.folder != folder and name not in SURFACES[folder]
    ]

    assert wrong == []


def test_messages_and_handlers_do_not_import_their_siblings() -> None:
    """Code that two siblings share belongs a level lower, never in one of them."""
    modules, known = _modules()
    wrong = [
        f"{module.name} imports {target}"
        for module in modules
        if module.folder.startswith(("protocol.messages", "broker.handlers."))
        for target in sorted(_own_imports(module, known))
        if target.rpartition(".")[0] == module.folder
    ]

    assert wrong == []


def test_no_two_rooms_are_circular() -> None:
    """Two folders that import each other are one room, or a part of one is in the wrong place."""
    modules, known = _modules()
    rooms: dict[str, set[str]] = {}
    for module in modules:
        if not module.folder or module.path.name == "__init__.py":
            continue
        above = {target.rpartition(".")[0] for target in _own_imports(module, known)}
        rooms.setdefault(module.folder, set()).update(above - {module.folder, ""})
    settled: set[str] = set()
    while ready := {room for room in rooms.keys() - settled if rooms[room] <= settled}:
        settled |= ready
    circular = {room: rooms[room] - settled for room in rooms.keys() - settled}

    assert circular == {}


def test_there_is_no_import_cycle() -> None:
    """A cycle means that two files share a concept that has no file of its own."""
    modules, known = _modules()
    graph = {module.name.removeprefix("ottla."): _own_imports(module, known) for module in modules}
    done: set[str] = set()

    def visit(name: str, trail: tuple[str, ...]) -> list[str]:
        if name in trail:
            return [" -> ".join([*trail[trail.index(name) :], name])]
        if name in done:
            return []
        found = [cycle for target in sorted(graph[name]) for cycle in visit(target, (*trail, name))]
        done.add(name)
        return found

    cycles = [cycle for name in sorted(graph) for cycle in visit(name, ())]

    assert cycles == []


def _is_machine(module: Module) -> bool:
    in_room = any(
        module.folder == folder or module.folder.startswith(folder + ".")
        for folder in MACHINE_FOLDERS
    )
    says_so = PURE.search(ast.get_docstring(module.tree) or "") is not None
    return (in_room and module.folder not in NOT_MACHINES) or says_so


def test_machines_touch_nothing_but_values() -> None:
    """Time, chance, files and sockets are arguments; otherwise nothing can be simulated."""
    wrong = []
    for module in product_modules():
        if not _is_machine(module):
            continue
        wrong += [
            f"{module.where(node)} imports {name}"
            for node, name in imported_names(module)
            if name.split(".")[0] in BANNED_IN_MACHINES
            and (module.name, name) != READS_THE_ENVIRONMENT
        ]
        wrong += [
            f"{module.where(node)} is asynchronous"
            for node in module.nodes
            if isinstance(node, ast.AsyncFunctionDef | ast.Await)
            and module.name != "ottla.protocol.ports"
        ]

    assert wrong == []


# Beside the files of real seams: kazoo brings a thread and a socket of its own. The seam that
# a simulation puts something else in is the store's interface, or ``Link`` just above kazoo.
REAL_WORLD = {
    "coordinator.store.zookeeper_client",
    # Where threads of an application wait for messages.
    "client.classic.send_thread",
    "client.classic.streams",
    "client.process.loop_thread",
    "client.process.threads",
    "wire.clock",
    "wire.real",
    "wire.signals",
    "wire.unix",
    # Starts the processes of brokers.
    "broker.processes.child_process",
}


def test_shells_reach_the_world_through_the_seams_only() -> None:
    """A call to the real clock or the real disk is a hole in the simulation."""
    banned = {"time", "random", "secrets", "socket", "select", "threading", "subprocess"}
    wrong = []
    for module in product_modules():
        short = module.name.removeprefix("ottla.")
        real = short in REAL_WORLD or module.folder == "broker.system"
        is_command = module.folder.startswith(("broker.cli", "client.cli"))
        if real or is_command or module.folder in ("broker.testing", ""):
            continue
        wrong += [
            f"{module.where(node)} imports {name}: use the seams of protocol/ports.py"
            for node, name in imported_names(module)
            if name.split(".")[0] in banned
        ]
        for call in module.nodes:
            if isinstance(call, ast.Attribute) and call.attr in (
                "call_later",
                "call_at",
                "wait_for",
                "run_in_executor",
                "timeout_at",
            ):
                owner = ast.unparse(call.value)
                if "loop" in owner or owner == "asyncio":
                    wrong.append(f"{module.where(call)} {owner}.{call.attr}: use the Clock seam")

    assert wrong == []


# Their functions that load a part when it is first needed do nothing else.
LOADERS = {
    "ottla.broker.api.handlers",
    "ottla.broker.api.rare_handlers",
    "ottla.broker.cli.optional_parts",
    "ottla.broker.coordinating.groups",
    "ottla.broker.coordinating.transactions",
    "ottla.broker.handlers.data.fetch_straight",
    "ottla.broker.log.recovery.old_segments",
    "ottla.broker.log.recovery.recovery",
    "ottla.broker.log.storage.scan",
    "ottla.broker.metadata.settings",
    "ottla.broker.metrics.groups",
    "ottla.broker.security.listener_logins",
    "ottla.broker.server.http_pages",
    "ottla.broker.server.parts",
    "ottla.broker.server.stores",
    "ottla.broker.testing.cluster",
    "ottla.broker.testing.connecting",
    "ottla.client.admin",
    "ottla.client.cli.web.command",
    "ottla.client.fetching.completed_fetch",
    "ottla.client.settings.sasl",
    "ottla.coordinator.configs.broker_configs",
    "ottla.verb_loaders",
    "ottla.wire.messages",
}


def _only_loads(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a function imports and returns what it has imported, without any other step."""
    steps = function.body[ast.get_docstring(function) is not None :]
    return (
        bool(steps)
        and isinstance(steps[-1], ast.Return)
        and all(isinstance(step, ast.ImportFrom) for step in steps[:-1])
    )


def test_parts_are_loaded_by_import_and_not_by_text() -> None:
    """A name in a text is found by no type checker, no editor and none of these tests."""
    wrong = [
        module.where(node)
        for module in product_modules()
        if module.name in LOADERS or module.folder == "broker.api"
        for node in module.nodes
        if isinstance(node, ast.Name | ast.Attribute)
        and ast.unparse(node).endswith(("import_module", "__import__"))
    ]

    assert wrong == []


def test_imports_stand_at_the_top() -> None:
    """A hidden import hides an arrow; only lazy loading of parts is excused."""
    excused = {
        "ottla.__init__",
        "ottla",
        "ottla.__main__",
        "ottla.protocol.records.compression",
        # kazoo takes longer to load than an embedded store to open.
        "ottla.coordinator.store.zookeeper",
        # The package cryptography is an extra, and takes long to load.
        "ottla.wire.tls.stores",
        # The standard library's temporary files bring its archives.
        "ottla.wire.tls.contexts",
        "ottla.broker.security.bearer_tokens",
        # TLS is loaded by commands whose files have secrets only.
        "ottla.client.settings.profiles",
        # RE2 is loaded by brokers with rules only.
        "ottla.broker.security.principals",
        "ottla.broker.security.certificates",
    }
    wrong = [
        module.where(node)
        for module in product_modules()
        if module.name not in excused
        for function in module.nodes
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        if not (module.name in LOADERS and _only_loads(function))
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]

    assert wrong == []


def test_no_module_imports_the_bare_folders() -> None:
    """``import protocol`` works from the root and is a second copy of every module."""
    wrong = [
        f"{module.where(node)} imports {name}"
        for module in product_modules() + modules_of_tests()
        for node, name in imported_names(module)
        if name.split(".")[0] in PACKAGES
    ]

    assert wrong == []


@pytest.mark.parametrize("package", PACKAGES)
def test_package_files_hold_no_logic(package: str) -> None:
    """An ``__init__`` with logic runs for every import of any file of the package."""
    wrong = []
    for path in sorted((ROOT / package).rglob("__init__.py")):
        body = ast.parse(path.read_text("utf-8")).body
        extra = [
            node for node in body[1:] if not isinstance(node, ast.ImportFrom | ast.Assign | ast.If)
        ]
        if not body or not isinstance(body[0], ast.Expr) or extra:
            wrong.append(str(path.relative_to(ROOT)))

    assert wrong == []
