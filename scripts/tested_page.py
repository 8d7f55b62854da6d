"""Writes the page about the tested versions, from the tests and the files that run them.

`make pages` updates docs/operations/tested.md.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from scripts.java_rocketmq import INTEROP, VERSUS, Project

ROOT = Path(__file__).resolve().parent.parent
TESTS = ROOT / "tests" / "interop"
WORKFLOWS = ROOT / ".github" / "workflows"
OF_THE_TESTS = {"test_harness", "test_stand"}
"""Modules that test the tests."""
WITH_5 = ("java5", "OUR_CLIENTS_AT")
"""Words of a module that runs RocketMQ 5."""

HEAD = """# Tested versions

`make pages` writes this page from the tests and from the files that run them.

| software | versions | tested how |
|---|---|---|
"""
AFTER = """
Clients of RocketMQ in other languages (Go, C++, JavaScript) speak the protocol of the Java client.
The tests do not run them.

## Tests with RocketMQ's own programs

Servers, client and tools of RocketMQ come from Maven Central. Tests with RocketMQ 5 run in
`make soak`, the others in `make test`.

| tests/interop/ | RocketMQ | subject |
|---|---|---|
"""


def page() -> str:
    """The page as Markdown."""
    rows = [f"| {what} | {versions} | {how} |\n" for what, versions, how in _versions()]
    return HEAD + "".join(rows) + AFTER + "".join(f"{row}\n" for row in _modules())


def rocketmq(project: Project) -> str:
    """The version of RocketMQ in a project's pom.xml."""
    (version,) = re.findall(r"<rocketmq\.version>(.*?)<", project.pom.read_text())
    return str(version)


def _versions() -> Iterator[tuple[str, str, str]]:
    check, release = _workflow("check")["jobs"]["check"], _workflow("release")["jobs"]
    yield "RocketMQ", f"{rocketmq(INTEROP)}", "servers, Java client and `mqadmin`, both directions"
    yield (
        "RocketMQ 5",
        f"{rocketmq(VERSUS)}",
        "servers with our clients, and side by side in benches",
    )
    java, python = _set_up(check, "java-version"), _set_up(check, "python-version")
    yield "Java", java, "runs RocketMQ and Spark"
    yield "CPython", python, "all tests"
    newest = ", ".join(release["try"]["strategy"]["matrix"]["python"])
    yield "CPython", newest, "the wheel sends and consumes on each, before a release"
    yield "PySpark", _bounds("pyspark"), "source, sink and jobs"
    yield "PyArrow", _bounds("pyarrow"), "columns, Parquet"
    yield "Linux", check["runs-on"].replace("-", " "), "all tests"
    yield "Linux kernel", _kernel(), "benches"
    wheels = (ROOT / "scripts" / "wheels").read_text()
    libraries = ", ".join(f"`{name}`" for name in re.findall(r"platform=(\w+)", wheels))
    names = [row["name"] for row in release["linux"]["strategy"]["matrix"]["machine"]]
    yield "wheels for Linux", libraries, f"built for {' and '.join(names)} before a release"


def _workflow(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((WORKFLOWS / f"{name}.yml").read_text())
    return found


def _set_up(job: dict[str, Any], key: str) -> str:
    """A version that a step of a job installs."""
    (version,) = (str(step["with"][key]) for step in job["steps"] if key in step.get("with", {}))
    return version


def _bounds(package: str) -> str:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = project["optional-dependencies"]["dev"]
    (bounds,) = (line.removeprefix(package) for line in wanted if re.match(rf"{package}\W", line))
    return f"`{bounds}`"


def _kernel() -> str:
    found = re.search(r"\bLinux (\d+\.\d+)", (ROOT / "benches" / "RESULTS.md").read_text())
    assert found, "benches/RESULTS.md names the kernel"
    return found[1]


def _modules() -> Iterator[str]:
    """A row for each module of the interop tests, with the first sentence about it."""
    four, five = rocketmq(INTEROP), rocketmq(VERSUS)
    for path in sorted(TESTS.rglob("test_*.py")):
        text = path.read_text()
        if path.stem in OF_THE_TESTS:
            continue
        about = ast.get_docstring(ast.parse(text)) or ""
        first = " ".join(about.partition("\n\n")[0].split())
        versions = f"{four}, {five}" if any(word in text for word in WITH_5) else four
        if re.search(r"^pytestmark = pytest.mark.soak", text, re.MULTILINE):
            versions = five
        yield f"| `{path.relative_to(TESTS).with_suffix('')}` | {versions} | {first} |"
