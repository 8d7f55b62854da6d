"""The shape of the code: sizes, layers and names that the architecture page promises.

Limits are those of docs/architecture.md; a file that outgrows them is split, not excused.
"""

import ast
import re
import subprocess
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
# Hard limits. A new file aims at 400 lines of Python, 500 of Rust, and is split by idea.
FILE_LINES = {".py": 600, ".pyx": 600, ".pxd": 600, ".rs": 800, ".java": 600, ".pyi": 720}
FUNCTION_LINES = 70
USUAL_FUNCTION_LINES = 40
COLUMNS = 100

# Rust room -> rooms it may use. `bytes` and `clock` are open to all.
RUST_ROOMS = {
    "format": set(),
    "filter": {"format"},
    "log": set(),
    "net": {"format"},
    "store": {"filter", "format", "log"},
    "client": {"format", "net"},
    "server": {"filter", "format", "net", "store"},
    "py": {"filter", "format", "log", "net", "store", "client", "server"},
}
PYTHON_ORDER = ["mqstore", "mqclient", "mqserver"]
CORE_DOORS = {
    "mqstore/store.py",
    "mqstore/message.py",
    "mqstore/offline/made.py",
    "mqstore/offline/mend.py",
    "mqstore/offline/reader.py",
    "mqstore/errors.py",
    "mqstore/fastjson.py",
    "mqstore/files.py",
    "mqstore/logs.py",
    "mqstore/arrow.py",
    "mqclient/transport.py",
    "mqclient/wire/bodies/registration.py",
    "mqclient/cli/bench.py",
    "mqserver/expiry.py",
    "mqserver/listener.py",
}


def tracked(*patterns: str) -> list[Path]:
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *patterns],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [ROOT / line for line in listing.stdout.splitlines() if (ROOT / line).is_file()]


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


SOURCES = tracked("*.py", "*.pyx", "*.pxd", "*.rs", "*.java", "*.pyi")
PYTHON = [path for path in SOURCES if path.suffix == ".py"]
PACKAGES = [path for path in PYTHON if name(path).split("/")[0] in PYTHON_ORDER]
RUST = [path for path in SOURCES if path.suffix == ".rs" and "/rust/src/" in path.as_posix()]


def test_there_is_something_to_check() -> None:
    assert len(PACKAGES) > 50
    assert len(RUST) > 40


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_file_is_short_enough(path: Path) -> None:
    lines = path.read_text().splitlines()
    limit = FILE_LINES[path.suffix]
    assert len(lines) <= limit, f"{len(lines)} lines: where is the seam?"


@pytest.mark.parametrize("path", [p for p in SOURCES if p.suffix != ".java"], ids=name)
def test_lines_are_narrow_enough(path: Path) -> None:
    # Remarks to the linters do not count.
    lines = [
        line.split("  # noqa")[0].split("  # type:")[0] for line in path.read_text().split("\n")
    ]
    wide = [number for number, line in enumerate(lines, 1) if len(line) > COLUMNS]
    assert not wide, f"lines over {COLUMNS} columns: {wide}"


def python_functions() -> Iterator[tuple[str, int]]:
    for path in PYTHON:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                yield f"{name(path)}:{node.lineno} {node.name}", lines


def rust_functions() -> Iterator[tuple[str, int]]:
    """Functions as rustfmt lays them out: the closing brace has the indent of the `fn`."""
    opening = re.compile(
        r"^(\s*)(?:pub(?:\([^)]*\))? )?(?:const |async |unsafe |extern \S+ )*fn (\w+)"
    )
    for path in (p for p in SOURCES if p.suffix == ".rs"):
        lines = path.read_text().splitlines()
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


def rust_uses(path: Path) -> set[str]:
    """First segment of every `crate::` path outside test modules."""
    text = path.read_text().split("#[cfg(test)]")[0]
    uses = set(re.findall(r"\bcrate::(\w+)", text))
    for group in re.findall(r"\buse crate::\{(.*?)\};", text, re.DOTALL):
        uses |= set(re.findall(r"(?:^|,)\s*(\w+)", group))
    return uses & set(RUST_ROOMS)


@pytest.mark.parametrize("path", RUST, ids=name)
def test_rust_rooms_look_down_only(path: Path) -> None:
    room = path.relative_to(ROOT / "rust/src").parts[0]
    if room not in RUST_ROOMS:
        assert rust_uses(path) == set() or room == "lib.rs"
        return
    assert rust_uses(path) <= RUST_ROOMS[room] | {room}
    if room != "py":
        assert "pyo3" not in path.read_text()


def imported_modules(path: Path) -> set[str]:
    """Absolute names of what a module imports."""
    package = list(path.relative_to(ROOT).with_suffix("").parts[:-1])
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            found |= {module, *(f"{module}.{alias.name}" for alias in node.names)}
    return found


@pytest.mark.parametrize("package", ["mqserver"])
def test_no_modules_import_each_other_in_a_circle(package: str) -> None:
    modules = {
        name(path).removesuffix(".py").replace("/", "."): path
        for path in PACKAGES
        if name(path).startswith(f"{package}/") and path.stem != "__init__"
    }
    graph = {module: imported_modules(path) & modules.keys() for module, path in modules.items()}
    TopologicalSorter(graph).prepare()  # CycleError names the circle


@pytest.mark.parametrize("path", PACKAGES, ids=name)
def test_python_packages_look_down_only(path: Path) -> None:
    package = name(path).split("/")[0]
    above = PYTHON_ORDER[PYTHON_ORDER.index(package) + 1 :]
    imports = imported_modules(path)
    assert not [m for m in imports if m.split(".")[0] in above]
    if "mqstore._core" in imports:
        assert name(path) in CORE_DOORS
    if "mqstore._codec" in imports:
        assert name(path) == "mqstore/message.py"
    if any(m.split(".")[0] == "pyspark" for m in imports):
        assert "spark" in name(path)


@pytest.mark.parametrize(
    "path", [p for p in PACKAGES if "/processors/" in name(p) or "/state/" in name(p)], ids=name
)
def test_processors_and_state_know_their_place(path: Path) -> None:
    imports = imported_modules(path)
    assert not [m for m in imports if m.split(".")[0] in ("socket", "asyncio")]
    if "/processors/" in name(path):
        assert not [m for m in imports if ".processors" in m]
    if "/state/" in name(path):
        assert not [m for m in imports if "processors" in m or m.startswith("mqstore.store")]


def test_text_speaks_of_the_software_only() -> None:
    machine_path = re.compile(r"(?<![\w.])/(?:work|farm|root)/|/tmp/[a-z]")
    for path in tracked(
        "*.py", "*.rs", "*.md", "*.toml", "*.pyx", "*.java", "Makefile", "scripts/*"
    ):
        if path == Path(__file__):
            continue
        found = machine_path.search(path.read_text())
        assert not found, f"{name(path)}: {found[0] if found else ''}"
