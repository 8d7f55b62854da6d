"""The shape of the code: sizes, layers and names that the architecture page promises.

docs/architecture.md explains the limits; a file that outgrows them is split, not excused.
"""

import ast
import re
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator
from graphlib import TopologicalSorter
from math import ceil
from pathlib import Path

import pytest

from tests import prose
from tests.sources import ROOT, name, nodes_of, text_of, tracked

# Hard limits. A new file aims at 400 lines of Python or 500 of Rust, and is split by idea.
FILE_LINES = {".py": 600, ".pyx": 600, ".pxd": 600, ".rs": 800, ".java": 600, ".pyi": 720}
FUNCTION_LINES = 70
USUAL_FUNCTION_LINES = 40
COLUMNS = 100

# Rust crate -> crates it may depend on. Cargo holds the code to the manifests, this the manifests
# to the layers. `testing` is for tests alone.
RUST_LAYERS = {
    "base": set(),
    "format": set(),
    "log": {"base"},
    "net": {"format"},
    "statefile": {"format", "log"},
    "store": {"base", "format", "log", "statefile"},
    "render": {"format"},
    "offline": {"base", "format", "log", "render", "statefile", "store"},
    "ha": {"base", "format", "net", "store"},
    "server": {"base", "format", "net", "store"},
    "client": {"format", "net"},
    "bulk": {"client", "format", "net"},
    "bench": {"base", "client", "format", "net"},
    "py": {
        "base",
        "bench",
        "bulk",
        "client",
        "format",
        "ha",
        "log",
        "net",
        "offline",
        "render",
        "server",
        "statefile",
        "store",
    },
    "testing": set(),
}
# Files of a crate that import each other in a circle. The list only gets shorter: a circle that is
# not here fails, and so does an entry that is no longer one.
RUST_CIRCLES = [
    "offline: verify verify/delays verify/index verify/log verify/queues",
]
# Folders of a crate, and the files at its top, from the lowest: each imports only those before it.
RUST_FOLDERS = {
    "server": [
        "limits",
        "settings",
        "route",
        "alarm",
        "bounded_queue",
        "handoff_bytes",
        "stats",
        "state",
        "tables",
        "operations",
        "clients",
        "fair",
        "handoff",
        "waiting",
        "core",
        "requests",
        "dispatch",
        "conn",
        "supervise",
        "server",
    ],
}
# Python package -> packages of ours that it may import.
PYTHON_LAYERS = {
    "mqcommon": set(),
    "mqstore": {"mqcommon"},
    "mqclient": {"mqcommon"},
    "mqserver": {"mqcommon", "mqstore", "mqclient"},
    "mqadmin": {"mqcommon", "mqclient"},
    "mqpipeline": {"mqcommon", "mqstore", "mqclient"},
}
KEPT_PATHS = {"mqclient/spark.py": "mqpipeline", "mqstore/spark.py": "mqpipeline"}
"""Public paths whose code is in a package above: each imports the names from there."""
SERVER_AS_CLIENT = {
    "mqserver/registration/discovery.py": {"mqclient.engine"},
    "mqserver/registration/link.py": {"mqclient.engine"},
    "mqserver/registration/registrar.py": {"mqclient.engine"},
    "mqserver/broker/replication/peer.py": {"mqclient.engine", "mqclient.settings.identity"},
    "mqserver/broker/replication/slave.py": {"mqclient.engine", "mqclient.errors"},
    "mqserver/broker/replication/returning.py": {"mqclient.engine", "mqclient.errors"},
    # Programs that use a client as any user does.
    "mqserver/commands/quickstart.py": {"mqclient"},
    "mqserver/namesrv/product.py": {"mqclient"},
}
"""Server files that act as a client of other servers, and their permitted imports."""
CORE_DOORS = {
    "mqstore/store.py",
    "mqcommon/message.py",
    "mqstore/offline/materialize.py",
    "mqstore/offline/repairing.py",
    "mqstore/offline/reader.py",
    "mqstore/errors.py",
    "mqcommon/fastjson.py",
    "mqcommon/files.py",
    "mqcommon/core_logs.py",
    "mqstore/arrow.py",
    "mqclient/engine/ranges.py",
    "mqclient/engine/transport.py",
    "mqclient/producer/in_flight.py",
    "mqcommon/wire/bodies/registration.py",
    "mqclient/cli/bench.py",
    "mqpipeline/spark/topics/row_sink.py",
    "mqserver/tls/expiry.py",
    "mqserver/runtime/listener.py",
    "mqserver/broker/replication/master.py",
    "mqserver/broker/replication/replication.py",
    "mqserver/broker/replication/slave.py",
}
UNCLEAR_PERCENT = 2
"""Largest share of a room's lines of prose that may hold a phrase of `prose.py`."""
STILL_UNCLEAR: dict[str, int] = {}
"""Rooms with a higher limit, in percent. Entries shrink: one that is higher than needed fails."""


SOURCES = tracked("*.py", "*.pyx", "*.pxd", "*.rs", "*.java", "*.pyi")
PYTHON = [path for path in SOURCES if path.suffix == ".py"]
PACKAGES = [path for path in PYTHON if name(path).split("/")[0] in PYTHON_LAYERS]
RUST = [path for path in SOURCES if re.fullmatch(r"rust/\w+/src/.*\.rs", name(path))]


def test_there_is_something_to_check() -> None:
    assert len(PACKAGES) > 50
    assert len(RUST) > 40


def test_files_are_short_enough() -> None:
    counts = {path: text_of(path).count("\n") for path in SOURCES}
    long = [f"{name(p)}: {n} lines" for p, n in counts.items() if n > FILE_LINES[p.suffix]]
    assert not long, f"where is the seam? {long}"


def test_lines_are_narrow_enough() -> None:
    wide = [
        f"{name(path)}:{number}"
        for path in SOURCES
        if path.suffix != ".java"
        for number, line in enumerate(text_of(path).split("\n"), 1)
        # Remarks to the linters do not count.
        if len(line) > COLUMNS and len(line.split("  # noqa")[0].split("  # type:")[0]) > COLUMNS
    ]
    assert not wide, f"lines over {COLUMNS} columns: {wide}"


def python_functions() -> Iterator[tuple[str, int]]:
    for path in PYTHON:
        for node in nodes_of(path):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                yield f"{name(path)}:{node.lineno} {node.name}", lines


def rust_functions() -> Iterator[tuple[str, int]]:
    """Functions as rustfmt lays them out: the closing brace has the indent of the `fn`."""
    opening = re.compile(
        r"^(\s*)(?:pub(?:\([^)]*\))? )?(?:const |async |unsafe |extern \S+ )*fn (\w+)"
    )
    for path in (p for p in SOURCES if p.suffix == ".rs"):
        lines = text_of(path).splitlines()
        for start, line in enumerate(lines):
            match = opening.match(line)
            if not match or line.rstrip().endswith(";"):
                continue
            closing = match[1] + "}"
            for end in range(start, len(lines)):
                if lines[end] == closing or (end > start and lines[end] == match[1] + ");"):
                    yield f"{name(path)}:{start + 1} {match[2]}", end - start + 1
                    break


def test_functions_are_short() -> None:
    functions = [*python_functions(), *rust_functions()]
    too_long = [f"{where}: {lines}" for where, lines in functions if lines > FUNCTION_LINES]
    assert not too_long, too_long
    long = [f"{where}: {lines}" for where, lines in functions if lines > USUAL_FUNCTION_LINES]
    assert len(long) <= 0.05 * len(functions), (len(long), len(functions), long)


def test_rust_crates_are_those_of_the_layers() -> None:
    manifest = tomllib.loads((ROOT / "rust/Cargo.toml").read_text())
    assert set(manifest["workspace"]["members"]) == RUST_LAYERS.keys()
    assert {name(path).split("/")[1] for path in RUST} == RUST_LAYERS.keys()


@pytest.mark.parametrize("crate", RUST_LAYERS)
def test_rust_crates_look_down_only(crate: str) -> None:
    manifest = tomllib.loads((ROOT / "rust" / crate / "Cargo.toml").read_text())
    needs = manifest["dependencies"]
    ours = {need.removeprefix("mqstack-") for need in needs if need.startswith("mqstack-")}
    assert ours <= RUST_LAYERS[crate]
    # Tests look down as well: what needs an upper room is tested there.
    for_tests = {need.removeprefix("mqstack-") for need in manifest.get("dev-dependencies", {})}
    assert for_tests & RUST_LAYERS.keys() <= RUST_LAYERS[crate] | {"testing"}
    assert ("pyo3" in needs) == (crate == "py")
    # Versions are said once, in the workspace.
    for need, bound in (needs | manifest.get("dev-dependencies", {})).items():
        assert bound["workspace"] is True, need
    assert manifest["lints"]["workspace"] is True


def use_paths(tree: str) -> Iterator[str]:
    """The paths of a Rust use tree: `a::{b, c}` gives `a::b` and `a::c`."""
    opening = tree.find("{")
    if opening < 0:
        yield tree.split(" as ")[0].strip()
        return
    start, depth = opening + 1, 0
    for at in range(start, len(tree)):
        if depth == 0 and tree[at] in ",}":
            if part := tree[start:at].strip():
                yield from (tree[:opening].strip() + path for path in use_paths(part))
            start = at + 1
        depth += {"{": 1, "}": -1}.get(tree[at], 0)


def rust_needs(path: Path) -> Iterator[str]:
    """Paths within its own crate that a Rust file names, its tests excluded."""
    text = text_of(path).split("#[cfg(test)]\nmod tests {")[0]
    text = re.sub(r"//.*", "", text)
    use = re.compile(r"^\s*(?:pub(?:\([^)]*\))? )?use ([^;]+);", re.M)
    for tree in use.findall(text):
        yield from use_paths(tree)
    yield from re.findall(r"\b(?:crate|super|self)(?:::\w+)+", use.sub("", text))


def rust_imports(src: Path) -> dict[str, set[str]]:
    """Modules of a crate by file, `a/b` for `crate::a::b`, each with those it needs."""
    files = {}
    for path in RUST:
        relative = path.relative_to(src) if path.is_relative_to(src) else None
        if relative and not re.search(r"(^|[/_])tests?(\.rs|/)", relative.as_posix()):
            parts = relative.with_suffix("").parts
            files[parts[:-1] if parts[-1] in ("mod", "lib") else parts] = path
    graph: dict[str, set[str]] = {}
    for module, path in files.items():
        needs = graph.setdefault("/".join(module) or "lib", set())
        for need in rust_needs(path):
            first, *parts = need.split("::")
            if first not in ("crate", "super", "self"):
                continue
            whole = [*({"crate": (), "self": module, "super": module[:-1]}[first]), *parts]
            while "super" in whole:
                at = whole.index("super")
                whole[at - 1 : at + 1] = []
            found = max((m for m in files if tuple(whole[: len(m)]) == m), key=len)
            if found != module:
                needs.add("/".join(found) or "lib")
    return graph


def circles(graph: dict[str, set[str]]) -> set[tuple[str, ...]]:
    """The strongly connected components of more than one file."""
    reached: dict[str, set[str]] = {}
    for start in graph:
        seen: set[str] = set()
        todo = [start]
        while todo:
            fresh = graph[todo.pop()] - seen
            seen |= fresh
            todo += fresh
        reached[start] = seen
    return {
        tuple(sorted(other for other in reached[file] if file in reached[other]))
        for file in graph
        if file in reached[file]
    }


@pytest.mark.parametrize("crate", RUST_LAYERS)
def test_no_files_of_a_rust_crate_import_each_other_in_a_circle(crate: str) -> None:
    found = {
        f"{crate}: {' '.join(c)}" for c in circles(rust_imports(ROOT / "rust" / crate / "src"))
    }
    assert found == {circle for circle in RUST_CIRCLES if circle.startswith(f"{crate}: ")}


@pytest.mark.parametrize("crate", RUST_FOLDERS)
def test_folders_of_a_rust_crate_look_down_only(crate: str) -> None:
    order = RUST_FOLDERS[crate]
    graph = rust_imports(ROOT / "rust" / crate / "src")
    del graph["lib"]
    assert {file.split("/")[0] for file in graph} == set(order)
    upwards = [
        f"{file} imports {need}"
        for file, needs in graph.items()
        for need in needs
        if need == "lib" or order.index(need.split("/")[0]) > order.index(file.split("/")[0])
    ]
    assert not upwards, upwards


def walks() -> dict[str, tuple[int, list[Path]]]:
    """The paths of requests in docs/architecture.md: most files, and the files in order."""
    page = (ROOT / "docs/architecture.md").read_text()
    block = re.search(r"### Walks\n.*?```text\n(.*?)```", page, re.DOTALL)
    assert block
    found: dict[str, tuple[int, list[Path]]] = {}
    for line in block[1].splitlines():
        if not line.startswith(" "):
            title, most = line.split(", at most ")
            found[title] = (int(most), [])
        else:
            for word in line.split():
                room, _, file = word.partition("/")
                is_python = word.endswith(".py")
                path = ROOT / word if is_python else ROOT / f"rust/{room}/src/{file}.rs"
                found[title][1].append(path)
    return found


@pytest.mark.parametrize("walk", walks())
def test_walks_are_short_and_never_lead_back(walk: str) -> None:
    most, files = walks()[walk]
    assert all(path.is_file() for path in files), files
    assert len(set(files)) == len(files) <= most
    order, src, entered = RUST_FOLDERS["server"], ROOT / "rust/server/src", -1
    for at, path in enumerate(files):
        if not path.is_relative_to(src):
            continue
        folder = path.relative_to(src).with_suffix("").parts[0]
        if at == 0 or not files[at - 1].is_relative_to(src):
            entered = max(entered, order.index(folder))
        assert order.index(folder) <= entered, f"{folder} is above the folder where it began"


@pytest.mark.parametrize(
    "path", [p for p in RUST if "server/src/operations/" in name(p)], ids=lambda path: path.stem
)
def test_operations_know_no_frame_and_no_connection(path: Path) -> None:
    """So that another protocol can call them. What is above `operations` they cannot import."""
    foreign = re.compile(r"\bmq_net\b|\bmq_format::(?:remoting|codes)\b|\btokio\b")
    assert not foreign.findall(text_of(path))


def imported_modules(path: Path) -> set[str]:
    """Absolute names of a module's imports."""
    package = list(path.relative_to(ROOT).with_suffix("").parts[:-1])
    found = set()
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            found |= {module, *(f"{module}.{alias.name}" for alias in node.names)}
    return found


def door_nodes(path: Path) -> Iterator[ast.AST]:
    """The nodes of a package's door that run, so none for type checkers."""
    tree = ast.parse(text_of(path))
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = []
    yield from ast.walk(tree)


def own_imports(path: Path, modules: dict[str, Path]) -> set[str]:
    """The modules of ours that a module imports.

    Imports for type checkers count, but not those in the door of a package (`__init__.py`): it
    offers the names of the modules below it and loads them when they are used.
    """
    found = set()
    for node in door_nodes(path) if path.name == "__init__.py" else nodes_of(path):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= names & modules.keys() or {node.module}
    return found & modules.keys()


def test_no_modules_import_each_other_in_a_circle() -> None:
    modules = {
        name(path).removesuffix(".py").removesuffix("/__init__").replace("/", "."): path
        for path in PACKAGES
    }
    graph = {module: own_imports(path, modules) - {module} for module, path in modules.items()}
    TopologicalSorter(graph).prepare()  # CycleError names the circle


def test_python_packages_look_down_only() -> None:
    wrong = [f"{name(path)} imports {need}" for path in PACKAGES for need in imports_upward(path)]
    assert not wrong, wrong


def imports_upward(path: Path) -> set[str]:
    """Imports of a module that its layer does not permit."""
    package = name(path).split("/")[0]
    imports = imported_modules(path)
    ours = {m.split(".")[0] for m in imports} & PYTHON_LAYERS.keys() - {package}
    wrong = ours - {KEPT_PATHS.get(name(path))} - PYTHON_LAYERS[package]
    if package == "mqserver":
        allowed = tuple(SERVER_AS_CLIENT.get(name(path), ()))
        of_client = {m for m in imports if m.split(".")[0] == "mqclient"}
        wrong |= {m for m in of_client if not m.startswith(allowed)}
    if name(path) not in CORE_DOORS:
        wrong |= imports & {"mqcommon._core"}
    if name(path) != "mqcommon/message.py":
        wrong |= imports & {"mqcommon._codec"}
    if package != "mqpipeline":
        wrong |= {m for m in imports if m.split(".")[0] == "pyspark"}
    return wrong


def test_processors_and_state_know_their_place() -> None:
    wrong = []
    for path in PACKAGES:
        imports, forbidden = imported_modules(path), r"(socket|asyncio)(\.|$)"
        if "/processors/" in name(path):
            forbidden += r"|.*\.processors"
        elif "/state/" in name(path):
            forbidden += r"|.*processors|mqstore\.store"
        else:
            continue
        wrong += [f"{name(path)} imports {m}" for m in imports if re.match(forbidden, m)]
    assert not wrong, wrong


def test_names_of_tests_are_short() -> None:
    """At most 60 letters that say the behaviour."""
    found = re.compile(r"^ *(?:async )?def (test_\w{56,})", re.MULTILINE)
    long = [f"{name(path)}: {test}" for path in PYTHON for test in found.findall(text_of(path))]
    assert not long, long


def room_of(path: Path) -> str:
    """The package or crate of a file; the files at the top are one room."""
    parts = name(path).split("/")
    return "/".join(parts[: 2 if parts[0] == "rust" else 1]) if len(parts) > 1 else "top"


@pytest.mark.parametrize("turn", prose.TURNS, ids=lambda turn: turn.better)
def test_each_turn_of_phrase_is_found(turn: prose.Turn) -> None:
    assert prose.found_in(turn.example) is turn


def test_prose_is_understood_at_first_reading() -> None:
    lines: Counter[str] = Counter()
    marked: dict[str, list[str]] = defaultdict(list)
    for path in SOURCES:
        if path.suffix != ".java" and path != Path(prose.__file__):
            room, (count, found) = room_of(path), prose.read(path)
            lines[room] += count
            marked[room] += [
                f"{name(path)}:{number}: {line} | instead: {turn.better}"
                for number, line, turn in found
            ]
    wrong = [f"{room} is no room: remove it" for room in STILL_UNCLEAR.keys() - lines.keys()]
    for room, found_lines in marked.items():
        needed = max(UNCLEAR_PERCENT, ceil(100 * len(found_lines) / max(lines[room], 50)))
        limit = STILL_UNCLEAR.get(room, UNCLEAR_PERCENT)
        if needed > limit:
            wrong += [f"{room}: {needed} % of its lines, not at most {limit} %:", *found_lines]
        elif needed < limit:
            wrong.append(f"{room}: needs {needed} % only: lower or remove its entry")
    assert not wrong, "\n".join(wrong)


def test_text_speaks_of_the_software_only() -> None:
    machine_path = re.compile(r"(?<![\w.])/(?:work|farm|root)/|/tmp/[a-z]")
    for path in tracked(
        "*.py", "*.rs", "*.md", "*.toml", "*.pyx", "*.java", "Makefile", "scripts/*"
    ):
        if path == Path(__file__):
            continue
        found = machine_path.search(text_of(path))
        assert not found, f"{name(path)}: {found[0] if found else ''}"


def test_text_names_only_pages_of_this_repository() -> None:
    """A page is named by its path from the root, or from the folder of the text as links are."""
    pages = {name(path) for path in tracked("*.md")}
    # A name in quotes is a path that code opens, with its folder before it.
    page = re.compile(r"""(?<![\w*{/"'-])((?:\.\./)*)((?:[\w-]+/)*[\w-]+\.md)\b""")
    foreign = re.compile(r"\.\./shared\b|(?<![\w/.])reference/\w")
    wrong = []
    for path in tracked("*.py", "*.rs", "*.md", "*.toml", "*.pyx", "*.pyi", "*.java", "scripts/*"):
        if path == Path(__file__):
            continue
        text = text_of(path)
        wrong += [f"{name(path)}: {found}" for found in foreign.findall(text)]
        for up, found in page.findall(text):
            is_tail = "/" in found and any(known.endswith(f"/{found}") for known in pages)
            is_here = (path.parent / up / found).is_file() or found == "RESULTS.md"
            if not (found in pages or is_tail or is_here):
                wrong.append(f"{name(path)}: {found}")
    assert not wrong, f"name RocketMQ's class and method, not a page that no reader has: {wrong}"
