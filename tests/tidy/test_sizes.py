"""Size and habit limits, executed; each number is an upper limit that once let a file rot."""

from __future__ import annotations

import ast
import re
from collections import Counter

from tests.tidy.tree import (
    ROOT,
    Module,
    compiled_texts,
    functions,
    length,
    modules_of_tests,
    product_modules,
)

FILE_LINES_MAX = 400
COMPILED_LINES_MAX = 300
FUNCTION_LINES_MAX = 70
ROOM_FILES_MAX = 25
# One file for each message of the protocol.
LONG_ROOMS = {"protocol/messages"}
PARAMETERS_MAX = 5
CONSTRUCTOR_PARAMETERS_MAX = 8
METHODS_MAX = 20
# Tables are read by looking a line up, not from top to bottom.
TABLE_FILES = (
    "protocol.messages.",
    "protocol.errors",
    "coordinator.configs.broker_configs",
    "coordinator.configs.topic_configs",
    "wire.messages",
)
BANNED_WORDS = re.compile(r"(Manager|Helper|Util|Impl|Handler2|Info|Data)$")
BANNED_NAMES = {"hw", "hwm", "leo", "lso", "pid_", "misc"}
# Names that are Kafka's own, from its message descriptors.
MARKS = re.compile(r"\b(TODO|FIXME|XXX)\b")
COMPILED_OPENING = re.compile(r'(#.*\n)*"""\w')


def _is_table(module: Module) -> bool:
    return module.name.removeprefix("ottla.").startswith(TABLE_FILES)


def test_files_are_one_thought_long() -> None:
    """A file that every change touches is where every model codebase went wrong."""
    long_files = [
        f"{module.name}: {module.line_count}"
        for module in product_modules() + modules_of_tests()
        if module.line_count - module.manual_line_count > FILE_LINES_MAX and not _is_table(module)
    ]

    assert long_files == []


def test_rooms_have_few_files() -> None:
    """A folder is a table of contents: past 25 lines it is not read."""
    paths = [module.path for module in product_modules() + modules_of_tests()]
    rooms = Counter(
        path.parent.relative_to(ROOT).as_posix()
        for path in [*paths, *(ROOT / "examples").rglob("*.py")]
        if path.name != "__init__.py"
    )
    crowded = {room: n for room, n in rooms.items() if n > ROOM_FILES_MAX}

    assert crowded.keys() <= LONG_ROOMS, crowded


def test_files_that_are_compiled_are_one_thought_long() -> None:
    """The files that are hardest to read must not be the longest as well."""
    texts = compiled_texts()
    long_files = [
        f"{name}: {len(text.splitlines())}"
        for name, text in texts.items()
        if len(text.splitlines()) > COMPILED_LINES_MAX
    ]

    assert {name.rpartition(".")[2] for name in texts} == {"pyx", "pxd"}
    assert long_files == []


def test_functions_fit_on_a_screen() -> None:
    """Seventy lines is the limit, beside a docstring with sections; most functions have ten."""
    long_functions = [
        f"{module.where(function)} {function.name}"
        for module in product_modules() + modules_of_tests()
        for function in functions(module)
        if length(function) > FUNCTION_LINES_MAX
    ]

    assert long_functions == []


def _parameter_count(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    arguments = function.args
    named = [*arguments.posonlyargs, *arguments.args]
    own = [argument for argument in named if argument.arg not in ("self", "cls")]
    required_keywords = [
        argument
        for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        if default is None
    ]
    return len(own) - len(arguments.defaults) + len(required_keywords)


def test_functions_take_few_things() -> None:
    """An object that holds every collaborator may be called from everywhere."""
    greedy = []
    for module in product_modules():
        for function in functions(module):
            constructor = function.name == "__init__"
            limit = CONSTRUCTOR_PARAMETERS_MAX if constructor else PARAMETERS_MAX
            if _parameter_count(function) > limit:
                greedy.append(f"{module.where(function)} {function.name}")

    assert greedy == []


def _method_count(node: ast.ClassDef) -> int:
    """Functions of a class; properties are what it knows, not what it does."""
    return sum(
        isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef)
        and not item.name.startswith("__")
        and not any(ast.unparse(mark) == "property" for mark in item.decorator_list)
        for item in node.body
    )


def test_classes_have_few_methods() -> None:
    """Past twenty methods a class has two jobs."""
    crowded = [
        f"{module.where(node)} {node.name}: {_method_count(node)}"
        for module in product_modules()
        for node in module.nodes
        if isinstance(node, ast.ClassDef)
        and not any("Protocol" in ast.unparse(base) for base in node.bases)
        and _method_count(node) > METHODS_MAX
    ]

    assert crowded == []


def test_names_say_what_a_thing_is() -> None:
    """If only Manager fits, the thing has two jobs."""
    vague = [
        f"{module.where(node)} {node.name}"
        for module in product_modules()
        if not module.name.startswith("ottla.protocol.messages.")
        for node in module.nodes
        if isinstance(node, ast.ClassDef)
        and BANNED_WORDS.search(node.name)
        and node.name not in ("ErrorInfo",)
    ]
    abbreviated = [
        f"{module.where(node)} {node.id}"
        for module in product_modules()
        for node in module.nodes
        if isinstance(node, ast.Name) and node.id in BANNED_NAMES
    ]

    assert vague + abbreviated == []


def test_every_module_says_what_it_is_for() -> None:
    """A reader decides by the first lines whether this is the file he wants."""
    silent = [
        module.name
        for module in product_modules() + modules_of_tests()
        if ast.get_docstring(module.tree) is None
    ]
    silent += [name for name, text in compiled_texts().items() if not COMPILED_OPENING.match(text)]

    assert silent == []


def test_every_test_says_why_it_matters() -> None:
    """A failing test without a reason is deleted by the next person in a hurry."""
    silent = [
        f"{module.where(function)} {function.name}"
        for module in modules_of_tests()
        for function in functions(module)
        if function.name.startswith("test_")
        and module.path.name.startswith("test_")
        and ast.get_docstring(function) is None
    ]

    assert silent == []


def test_nothing_is_left_for_later() -> None:
    """A known gap is a line in a header and a strict xfail, not a mark in the code."""
    texts = {module.name: module.text for module in product_modules()} | compiled_texts()
    marks = [
        f"{name}: {line.strip()}"
        for name, text in texts.items()
        for line in text.splitlines()
        if MARKS.search(line)
    ]

    assert marks == []


def test_the_library_does_not_print() -> None:
    """Standard output belongs to the commands; a stray line breaks the start contract."""
    prints = [
        module.where(node)
        for module in product_modules()
        for node in module.nodes
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("print", "breakpoint")
    ]

    assert prints == []


def test_tasks_go_through_the_supervisor() -> None:
    """A task without a strong reference dies unseen (hazard P-05)."""
    excused = ("ottla.broker.engine.tasks", "ottla.client", "ottla.wire.pool", "ottla.wire.login")
    stray = [
        module.where(node)
        for module in product_modules()
        if not module.name.startswith(excused)
        for node in module.nodes
        if isinstance(node, ast.Attribute) and node.attr in ("create_task", "ensure_future")
    ]

    assert stray == []
