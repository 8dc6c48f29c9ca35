"""Writes ``client/sync/*.py`` from the asyncio clients, so that both faces cannot drift.

``python -m tests.sync_faces`` writes all files; a test compares the files with what it would write.
Each public method becomes one call.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import subprocess
import sys
import textwrap
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.sync_face_texts import EXAMPLES, PARTS, SECTION, SENTENCES, docstring

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "client" / "sync"

# file -> the classes in it, each after its bases.
FACES = {
    "producer": ["producer:Producer"],
    "consumer": ["consumer:Consumer"],
    "admin": ["admin:Admin"],
    "groups": ["group.administration:GroupAdmin"],
    "placements": ["administration.placements:Placements"],
    "transactions": ["administration.transactions:TransactionAdmin"],
    "features": ["administration.features:FeatureAdmin"],
    "quotas": ["administration.quotas:QuotaAdmin"],
    "tokens": ["administration.tokens:TokenAdmin"],
    "users": ["administration.users:UserAdmin"],
    "brokers": ["administration.brokers:BrokerAdmin"],
    "acls": ["administration.acls:AclAdmin"],
    "parallel": ["parallel.parallel:ParallelRun"],
}
# What is given back in its blocking form, and where that is.
WRAPPED = {"Delivery": "deliveries", "BatchDelivery": "deliveries", "ParallelRun": "parallel"}
HEAD = '''"""Blocking {name}: ``{module}`` on a shared loop thread.

Written by ``python -m tests.sync_faces``, not by hand.
"""

from __future__ import annotations

'''


@dataclass
class Text:
    """One file on its way."""

    imports: set[tuple[str, str]] = field(default_factory=set)
    typing_imports: set[tuple[str, str]] = field(default_factory=set)
    plain_imports: set[str] = field(default_factory=set)
    body: list[str] = field(default_factory=list)


def import_table(module: Any) -> dict[str, tuple[str, str]]:
    """Name in a module -> (module it comes from, its name there)."""
    found: dict[str, tuple[str, str]] = {}
    tree = ast.parse(inspect.getsource(module))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom | ast.Import):
            origin = getattr(node, "module", None) or ""
            found.update({one.asname or one.name: (origin, one.name) for one in node.names})
    lines = [
        line for node in tree.body for line in (node.body if isinstance(node, ast.If) else [node])
    ]
    for line in lines:
        targets: list[ast.expr] = []
        if isinstance(line, ast.Assign):
            targets = line.targets
        elif isinstance(line, ast.AnnAssign):
            targets = [line.target]
        names = [target.id for target in targets if isinstance(target, ast.Name)]
        names += [line.name] if isinstance(line, ast.ClassDef) else []
        found.update({name: (module.__name__, name) for name in names})
    return found


def use(
    text: Text, annotation: str, table: dict[str, tuple[str, str]], *, at_run_time: bool
) -> None:
    """Import whatever an annotation or a default names."""
    for node in ast.walk(ast.parse(annotation, mode="eval")):
        if isinstance(node, ast.Name) and node.id in table and node.id not in WRAPPED:
            module, name = table[node.id]
            wanted = f"{name} as {node.id}" if name != node.id else name
            if not module:
                text.plain_imports.add(wanted)
            elif at_run_time:
                text.imports.add((module, wanted))
            else:
                text.typing_imports.add((module, wanted))


def parameters_of(
    text: Text, function: Any, table: dict[str, tuple[str, str]]
) -> tuple[list[str], list[str]]:
    """The parameters as they are declared and as they are handed on."""
    declared, handed = [], []
    keywords_begun = False
    for parameter in list(inspect.signature(function).parameters.values())[1:]:
        annotation = str(parameter.annotation)
        use(text, annotation.replace("**", ""), table, at_run_time=False)
        line = f"{parameter.name}: {annotation}"
        if parameter.kind is parameter.VAR_POSITIONAL:
            keywords_begun = True
            declared.append(f"*{line}")
            handed.append(f"*{parameter.name}")
            continue
        if parameter.kind is parameter.VAR_KEYWORD:
            declared.append(f"**{line}")
            handed.append(f"**{parameter.name}")
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not keywords_begun:
            keywords_begun = True
            declared.append("*")
        if parameter.default is not parameter.empty:
            default = default_text(function, parameter.name)
            use(text, default, table, at_run_time=True)
            line += f" = {default}"
        declared.append(line)
        value = parameter.name
        if value == "listener":
            text.imports.add(("ottla.client.sync.listener", "for_caller"))
            value = "for_caller(listener)"
        handed.append(f"{parameter.name}={value}" if keywords_begun else value)
    return declared, handed


def default_text(function: Any, name: str) -> str:
    """A default as it is written."""
    tree = ast.parse(inspect.cleandoc("\n" + inspect.getsource(function)))
    definition = tree.body[0]
    assert isinstance(definition, ast.FunctionDef | ast.AsyncFunctionDef)
    arguments = definition.args
    positional = [*arguments.posonlyargs, *arguments.args]
    pairs = list(zip(positional[::-1], arguments.defaults[::-1], strict=False))
    pairs += [
        (argument, default)
        for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        if default is not None
    ]
    return next(ast.unparse(default) for argument, default in pairs if argument.arg == name)


def wrapped(text: Text, annotation: str) -> tuple[str, str]:
    """How a result is given back, ``{}`` standing for it: deliveries get a face of their own."""
    for name in WRAPPED:
        if annotation in (name, f"list[{name}]"):
            text.imports.add((f"ottla.client.sync.{WRAPPED[name]}", name))
        if annotation == name:
            return annotation, f"{name}({{}}, self._loop)"
        if annotation == f"list[{name}]":
            return annotation, f"[{name}(one, self._loop) for one in {{}}]"
    return annotation, "{}"


def method_text(text: Text, name: str, member: Any, table: dict[str, tuple[str, str]]) -> str:
    """One method."""
    if isinstance(member, property):
        assert member.fget is not None
        annotation = str(inspect.signature(member.fget).return_annotation)
        use(text, annotation, table, at_run_time=False)
        return definition(
            name,
            [],
            annotation,
            docstring(member.fget),
            f"return self._call(lambda: self._inner.{name})",
            "@property",
        )
    declared, handed = parameters_of(text, member, table)
    annotation = str(inspect.signature(member).return_annotation)
    call = f"self._inner.{name}({', '.join(handed)})"
    plain = inspect.unwrap(member)
    decorator = ""
    if plain is not member:
        assert annotation == "AsyncIterator[None]", name
        text.typing_imports.add(("contextlib", "AbstractContextManager"))
        annotation, line = "AbstractContextManager[None]", f"return self._within(lambda: {call})"
    elif annotation.startswith("AsyncIterator["):
        inner = annotation.removeprefix("AsyncIterator[").removesuffix("]")
        use(text, inner, table, at_run_time=False)
        text.typing_imports.add(("collections.abc", "Iterator"))
        annotation, line = f"Iterator[{inner}]", f"return self._iterate(lambda: {call})"
    else:
        use(text, annotation, table, at_run_time=False)
        annotation, shape = wrapped(text, annotation)
        if inspect.iscoroutinefunction(plain):
            run = "_take" if name.startswith("poll") else "_run"
            line = f"return {shape.format(f'self.{run}({call})')}"
        else:
            line = f"return {shape.format(f'self._call(lambda: {call})')}"
        if annotation == "None":
            line = line.removeprefix("return ")
    return definition(name, declared, annotation, docstring(member), line, decorator)


def definition(
    name: str, declared: list[str], annotation: str, text: str, line: str, decorator: str
) -> str:
    """The text of a method."""
    signature = ", ".join(["self", *declared])
    end = "\n" if SECTION.search(text) else ""
    doc = textwrap.indent(f'"""{text}{end}"""', "    ") + "\n" if text else ""
    head = f"{decorator}\n" if decorator else ""
    method = f"{head}def {name}({signature}) -> {annotation}:\n{doc}    {line}\n"
    return "".join(f"    {part}\n" if part else "\n" for part in method.splitlines())


def public_members(kind: type[Any]) -> list[tuple[str, Any]]:
    """What a class itself adds, in its order."""
    return [
        (name, member)
        for name, member in vars(kind).items()
        # A rebalance listener is called by the client, not by the application. A part of an Admin
        # that is loaded late is one like the others.
        if not name.startswith(("_", "on_"))
        and not (kind.__name__ == "Admin" and name in PARTS)
        and (inspect.isfunction(member) or isinstance(member, property))
    ]


def bases_with_methods(kind: type[Any]) -> list[type[Any]]:
    """The class and the bases that public methods come from, bases first."""
    return [
        one
        for one in reversed(kind.__mro__)
        if one.__module__.startswith("ottla.client") and public_members(one)
    ]


def class_text(text: Text, kind: type[Any], *, is_last: bool, bases: list[str]) -> str:
    """A class. The last of a file is the one that is used; the others hold some of its methods."""
    table = import_table(sys.modules[kind.__module__])
    parameters = getattr(kind, "__parameters__", ()) if is_last else ()
    heads = [*bases] or ["Face"]
    if parameters:
        text.imports.add(("typing", "Generic"))
        for one in parameters:
            use(text, one.__name__, table, at_run_time=True)
        heads.append(f"Generic[{', '.join(one.__name__ for one in parameters)}]")
    subscript = f"[{', '.join(one.__name__ for one in parameters)}]" if parameters else ""
    name = kind.__name__
    where = kind.__module__
    text.typing_imports.add((where, f"{name} as Async{name}"))
    config = "ClientConfig" if name == "Admin" else f"{name}Config"
    decorated = is_last and name in EXAMPLES
    lines = [f"@lists_settings({config})"] if decorated else []
    lines += [f"class {name}({', '.join(heads)}):"]
    if decorated:
        text.imports.add(("ottla.client.settings.config", config))
        text.imports.add(("ottla.client.settings.listing", "lists_settings"))
    if not is_last:
        lines += [
            f'    """The calls of ``{where.removeprefix("ottla.")}``."""',
            "",
        ]
        lines += ["    @property", f"    def _inner(self) -> Async{name}:"]
        lines += ["        raise NotImplementedError", ""]
    elif kind.__name__ in ["ParallelRun", *(part for _, part in PARTS.values())]:
        lines += [f'    """{SENTENCES.get(name, docstring(kind))}"""', ""]
        text.typing_imports.add(("ottla.client.process.loop_thread", "LoopThread"))
        lines += [f"    def __init__(self, inner: Async{name}, loop: LoopThread) -> None:"]
        lines += ["        super().__init__(loop)", "        self._inner = inner", ""]
    else:
        lines += client_text(text, kind, table, subscript)
    methods = [method_text(text, key, member, table) for key, member in public_members(kind)]
    return "\n".join(lines) + "\n" + "\n".join(methods)


def client_text(
    text: Text, kind: type[Any], table: dict[str, tuple[str, str]], subscript: str
) -> list[str]:
    """The beginning of a whole client: made, entered and left."""
    name = kind.__name__
    # Here the client behind is made and not only named.
    text.typing_imports.discard((kind.__module__, f"{name} as Async{name}"))
    text.imports.add((kind.__module__, f"{name} as Async{name}"))
    text.typing_imports.add(("typing", "Self"))
    text.typing_imports.add(("types", "TracebackType"))
    declared, handed = parameters_of(text, kind.__init__, table)
    made = f"Async{name}{subscript}({', '.join(handed)})"
    arguments, _, _ = docstring(kind).partition("\nArgs:\n")[2].partition("\n\nExample:")
    lines = [
        f'    """``ottla.{name}`` for blocking code; several threads may use it.',
        "",
        "    Args:",
        *(f"    {line}".rstrip() for line in arguments.splitlines()),
        "",
        "    Example:",
        *(f"        {line}" for line in EXAMPLES[name]),
        '    """',
        "",
        f"    def __init__(self, {', '.join(declared)}) -> None:",
        "        super().__init__()",
        f"        self._client = self._call(lambda: {made})",
    ]
    if name == "Admin":
        for part, (file, part_name) in PARTS.items():
            text.imports.add((f"ottla.client.sync.{file}", part_name))
            lines.append(f"        self.{part} = {part_name}(self._client.{part}, self._loop)")
    config = "ClientConfig" if name == "Admin" else f"{name}Config"
    text.imports.add(("ottla.client.settings.config", config))
    lines += [
        "",
        "    @property",
        f"    def config(self) -> {config}:",
        '        """The settings."""',
        "        return self._inner.config\n",
        "    @property",
        f"    def _inner(self) -> Async{name}{subscript}:",
        "        return self._client",
        "",
        "    def __enter__(self) -> Self:",
        "        self._run(self._inner.__aenter__())",
        "        return self\n",
        "    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,",
        "        traceback: TracebackType | None) -> None:",
        "        self._run(self._inner.__aexit__(kind, error, traceback))",
        "",
    ]
    if hasattr(kind, "__aiter__"):
        lines += iteration_text(text, kind, table)
    return lines


def iteration_text(text: Text, kind: type[Any], table: dict[str, tuple[str, str]]) -> list[str]:
    """In steps: a call for each record would cost more than the record."""
    annotation = str(inspect.signature(kind.__aiter__).return_annotation)
    inner = annotation.removeprefix("AsyncIterator[").removesuffix("]")
    use(text, inner, table, at_run_time=False)
    text.typing_imports.add(("collections.abc", "Iterator"))
    for constant in ("RECORDS_PER_STEP", "STEP_WAIT_MS"):
        text.imports.add((kind.__module__, constant))
    return [
        f"    def __iter__(self) -> Iterator[{inner}]:",
        "        while not self._inner._closed:",
        "            records = self._take(self._inner.poll(STEP_WAIT_MS, RECORDS_PER_STEP))",
        "            yield from self._inner._one_by_one(records)\n",
        "    def _give_back(self) -> None:",
        "        self._inner._consumed.rewind()\n",
    ]


def file_text(name: str) -> str:
    """The whole file, formatted."""
    text = Text()
    module_name, class_name = FACES[name][0].split(":")
    kind = getattr(importlib.import_module(f"ottla.client.{module_name}"), class_name)
    kinds = bases_with_methods(kind)
    text.imports.add(("ottla.client.sync.face", "Face"))
    classes = []
    for one in kinds:
        bases = [base.__name__ for base in one.__bases__ if base in kinds]
        classes.append(class_text(text, one, is_last=one is kind, bases=bases))
    typing_only = text.typing_imports - text.imports
    lines = [HEAD.format(name=class_name, module=f"client/{module_name.replace('.', '/')}.py")]
    lines += [f"import {plain}\n" for plain in sorted(text.plain_imports)]
    lines += [f"from {module} import {wanted}\n" for module, wanted in sorted(text.imports)]
    lines += ["from typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n"]
    lines += [f"    from {module} import {wanted}\n" for module, wanted in sorted(typing_only)]
    lines += ["\n\n", "\n\n".join(classes)]
    return formatted("".join(lines))


def formatted(source: str) -> str:
    """As ruff would have it: long docstrings are folded, imports sorted."""
    command = [sys.executable, "-m", "ruff"]
    for arguments in (
        ["check", "--fix-only", "--unsafe-fixes", "--quiet", "--select", "I,F401,TC"],
        ["format", "--quiet"],
    ):
        done = subprocess.run(
            [*command, *arguments, "--stdin-filename", str(FOLDER / "x.py"), "-"],
            input=source,
            capture_output=True,
            text=True,
            check=True,
            cwd=ROOT,
        )
        source = done.stdout
    return source


def main() -> None:
    """Write all of them."""
    for name in FACES:
        (FOLDER / f"{name}.py").write_text(file_text(name), "utf-8")


if __name__ == "__main__":
    main()
