"""The reference of the admin client, docs/admin.md, written from its docstrings.

``python -m tests.deploy.admin_page`` writes the page.
"""

from __future__ import annotations

import inspect
import re
from enum import Enum
from types import CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from ottla.client.admin import Admin
from ottla.client.administration.acls import AclAdmin
from ottla.client.administration.brokers import BrokerAdmin
from ottla.client.administration.features import FeatureAdmin
from ottla.client.administration.placements import Placements
from ottla.client.administration.quotas import QuotaAdmin
from ottla.client.administration.tokens import TokenAdmin
from ottla.client.administration.transactions import TransactionAdmin
from ottla.client.administration.users import UserAdmin
from ottla.client.group.administration import GroupAdmin
from ottla.wire.api import RequestApi
from tests.tidy.tree import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = ROOT / "docs" / "admin.md"
PARTS: dict[str, type] = {
    "admin": Admin,
    "admin.acls": AclAdmin,
    "admin.brokers": BrokerAdmin,
    "admin.features": FeatureAdmin,
    "admin.groups": GroupAdmin,
    "admin.placements": Placements,
    "admin.quotas": QuotaAdmin,
    "admin.tokens": TokenAdmin,
    "admin.transactions": TransactionAdmin,
    "admin.users": UserAdmin,
}
LINE_MAX = 90
# A heading of a docstring in Google's style.
SECTION = re.compile(r"^(Args|Returns|Raises|Example|Source|Attributes):\s*(.*)$")
INTRO = """# Admin client

Each method of `ottla.Admin`: arguments, results, errors, and the requests that it sends. The
blocking client `ottla.sync.Admin` has the same methods, without `await`. Settings and connections
are those of every client ([client](client.md)); what the methods mean for topics and groups is on
the pages about [consumers](consumer.md), [transactions](transactions.md) and
[security](security.md).

```python
import ottla

async with ottla.Admin("127.0.0.1:9092") as admin:
    await admin.create_topic(ottla.NewTopic("orders", partition_count=6))
    print(await admin.groups.offsets("billing"))
```

`Requests` names what a method sends, with the versions that this client speaks; the broker and the
client choose the newest that both have. Not listed are those by which every client finds brokers,
leaders and coordinators: ApiVersions, Metadata and FindCoordinator.

Every method that sends a request may also raise these errors, which the entries do not repeat:

| error | when |
|---|---|
| `TransportError` | no broker answered in the time of a call (`call_timeout_ms`), or the \
connection was lost; `was_sent` says whether a change may have been made |
| `AuthenticationFailed` | the login or the certificate was refused |
| `RequestRefused` | the broker refused; `code` is Kafka's error, such as \
TOPIC_AUTHORIZATION_FAILED |
| `UnsupportedByBroker` | the broker does not offer the request, or none of the versions listed \
below |

"""


def page() -> str:
    """Return the whole page."""
    text = INTRO
    for name in PARTS:
        text += f"- [`{name}`](#{name.replace('.', '')})\n"
    for name, kind in PARTS.items():
        text += f"\n## `{name}`\n\n{_first_lines(kind)}\n"
        for method, function in methods_of(kind):
            text += _entry(name, kind, method, function)
    return text


def methods_of(kind: type) -> Iterator[tuple[str, FunctionType]]:
    """The public methods in the order of the source, those of base classes first."""
    seen: dict[str, FunctionType] = {}
    for base in reversed(kind.__mro__):
        seen |= {
            name: value
            for name, value in vars(base).items()
            if isinstance(value, FunctionType) and not name.startswith("_")
        }
    yield from seen.items()


def _first_lines(kind: type) -> str:
    return _code(_sections(inspect.getdoc(kind) or "")[""].strip())


def _entry(part: str, kind: type, method: str, function: FunctionType) -> str:
    sections = _sections(inspect.getdoc(function) or "")
    text = f"\n### `{part}.{method}`\n\n```python\n{_signature(method, function)}\n```\n\n"
    text += f"{_code(sections[''].strip())}\n"
    rows = _items(sections.get("Args", ""))
    if rows:
        text += "\n| argument | meaning |\n|---|---|\n"
        text += "".join(f"| `{name}` | {_cell(meaning)} |\n" for name, meaning in rows)
    if "Returns" in sections:
        text += f"\nReturns: {_joined(sections['Returns'])}\n"
    errors = _items(sections.get("Raises", ""))
    if errors:
        text += "\n| error | when |\n|---|---|\n"
        text += "".join(f"| `{name}` | {_cell(when)} |\n" for name, when in errors)
    if "Example" in sections:
        text += f"\n```python\n{inspect.cleandoc(sections['Example'])}\n```\n"
    requests = requests_of(kind, function)
    if requests:
        ranges = [_range(name, *requests[name]) for name in sorted(requests)]
        text += f"\nRequests: {', '.join(ranges)}.\n"
    return text


def _range(name: str, first: int, last: int) -> str:
    return f"{name} {first} to {last}" if last > first else f"{name} {first}"


def _signature(method: str, function: FunctionType) -> str:
    """As the source has it, one argument a line if it is long."""
    found = inspect.signature(function)
    shown, has_star = [], False
    for one in found.parameters.values():
        if one.kind is inspect.Parameter.KEYWORD_ONLY and not has_star:
            has_star = True
            shown.append("*")
        if one.name != "self":
            shown.append(_parameter(one))
    prefix = "await " if inspect.iscoroutinefunction(function) else ""
    line = f"{prefix}{method}({', '.join(shown)}) -> {found.return_annotation}"
    if len(line) <= LINE_MAX:
        return line
    arguments = "".join(f"    {one},\n" for one in shown)
    return f"{prefix}{method}(\n{arguments}) -> {found.return_annotation}"


def _parameter(one: inspect.Parameter) -> str:
    text = f"{one.name}: {one.annotation}"
    if one.default is inspect.Parameter.empty:
        return text
    default: Any = one.default
    if isinstance(default, Enum):
        return f"{text} = {default}"
    is_plain = default is None or isinstance(default, (str, int, float, tuple))
    has_fields = hasattr(default, "_fields")
    shown = repr(default) if is_plain and not has_fields else f"{type(default).__name__}()"
    return f"{text} = {shown}"


def _sections(docstring: str) -> dict[str, str]:
    """The parts of a docstring by their headings; the text before the first is under ``""``."""
    found, name = {"": ""}, ""
    for line in docstring.splitlines():
        heading = SECTION.match(line)
        if heading is not None:
            name = heading[1]
            found[name] = f"    {heading[2]}\n" if heading[2] else ""
        else:
            found[name] += f"{line}\n"
    return found


def _items(text: str) -> list[tuple[str, str]]:
    """The entries ``name: meaning`` of a section, each perhaps over several lines."""
    found: list[tuple[str, str]] = []
    for line in text.splitlines():
        entry = re.match(r"^    (\*{0,2}\w+): (.*)$", line)
        if entry is not None:
            found.append((entry[1], entry[2]))
        elif line.strip() and found:
            name, meaning = found[-1]
            found[-1] = name, f"{meaning} {line.strip()}"
    return found


def _cell(text: str) -> str:
    return _code(text).replace("|", "\\|")


def _joined(text: str) -> str:
    return _code(" ".join(text.split()))


def _code(text: str) -> str:
    return text.replace("``", "`")


def requests_of(kind: type, function: FunctionType) -> dict[str, tuple[int, int]]:
    """The requests that a method sends, each with the versions that this client speaks.

    Found by following the names that its code uses: constants, functions and its own methods."""
    found: dict[str, tuple[int, int]] = {}
    seen: set[int] = set()
    _follow(kind, function, found, seen)
    return found


def _follow(
    kind: type, function: FunctionType, found: dict[str, tuple[int, int]], seen: set[int]
) -> None:
    if id(function) in seen:
        return
    seen.add(id(function))
    names = list(_names_in(function.__code__))
    for name in names:
        value: Any = function.__globals__.get(name)
        if isinstance(value, RequestApi):
            _note(found, [value])
        elif isinstance(value, ModuleType):
            constants = [getattr(value, one, None) for one in names]
            _note(found, [one for one in constants if isinstance(one, RequestApi)])
            for one in constants:
                if isinstance(one, FunctionType):
                    _follow(kind, one, found, seen)
        elif isinstance(value, FunctionType) and value.__module__.startswith("ottla.client"):
            _follow(kind, value, found, seen)
        method = getattr(kind, name, None)
        if isinstance(method, FunctionType):
            _follow(kind, method, found, seen)


def _note(found: dict[str, tuple[int, int]], apis: list[RequestApi[Any, Any]]) -> None:
    """Add the requests; of several declarations of one, the widest range of versions counts."""
    for api in apis:
        first, last = found.get(api.name, api.versions)
        found[api.name] = min(first, api.versions.first), max(last, api.versions.last)


def _names_in(code: CodeType) -> Iterator[str]:
    """The names that a function and the functions inside of it use."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names_in(constant)


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
