"""Image, compose file, Kubernetes, systemd and release: well-formed, and they agree."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from mqserver.commands.main import split
from mqserver.config.broker_table import BROKER
from mqserver.config.load import load, pairs
from mqserver.config.loaded import Loaded
from mqserver.config.namesrv_table import NAMESRV

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
TABLES = {"namesrv": NAMESRV, "broker": BROKER}
PORTS = {9876, 10909, 10911, 10912}


def lint(program: str, *words: str | Path) -> None:
    """Run a linter that pip installs beside this interpreter; it must find nothing."""
    run = subprocess.run(
        [Path(sys.executable).parent / program, *words], capture_output=True, text=True, timeout=60
    )
    assert run.returncode == 0, run.stdout + run.stderr


def test_the_dockerfile() -> None:
    lint("hadolint", ROOT / "Dockerfile")
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    (exposed,) = (line.split()[1:] for line in lines if line.startswith("EXPOSE"))
    assert set(map(int, exposed)) == PORTS
    assert [line for line in lines if line.startswith("USER")] == ["USER 10911"]


def test_the_compose_file() -> None:
    lint("check-jsonschema", "--builtin-schema", "vendor.compose-spec", DEPLOY / "compose.yaml")


def test_the_kubernetes_file() -> None:
    lint("kubernetes-validate", "--strict", DEPLOY / "kubernetes.yaml")


def test_the_workflows() -> None:
    workflows = sorted((ROOT / ".github/workflows").glob("*.yml"))
    assert [path.stem for path in workflows] == ["check", "release"]
    lint("check-jsonschema", "--builtin-schema", "vendor.github-workflows", *workflows)
    for path in workflows:
        for script in re.findall(r"run: ((?:scripts/|\.ci/)\S+)", path.read_text()):
            assert (ROOT / script).is_file(), script


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="needs systemd-analyze")
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_the_systemd_units(unit: Path, tmp_path: Path) -> None:
    server = tmp_path / unit.name
    server.write_text(unit.read_text().replace("/opt/mqstack/bin/mqserver", sys.executable))
    run = subprocess.run(
        ["systemd-analyze", "verify", server], capture_output=True, text=True, timeout=60
    )
    found = [line for line in run.stderr.splitlines() if unit.stem in line]
    assert not found


def test_the_units_differ_in_the_server_alone() -> None:
    bodies = {re.sub(r"(?s).*?\[Service\]", "", unit.read_text(), count=1) for unit in UNITS}
    assert len({re.sub(r"\b(namesrv|broker)\b", "SERVER", body) for body in bodies}) == 1


def settings_of(kind: str, settings: dict[str, str]) -> Loaded:
    """The settings of a server; each key must be known and have an effect."""
    loaded = load(TABLES[kind], flags=pairs(settings, "the file"))
    assert not loaded.warnings
    return loaded


@pytest.mark.parametrize("kind", TABLES)
def test_the_configuration_files_of_systemd(kind: str) -> None:
    loaded = load(TABLES[kind], file=DEPLOY / "systemd" / f"{kind}.conf")
    assert not loaded.warnings
    paths = {"namesrv": "kvConfigPath", "broker": "storePathRootDir"}
    assert str(loaded.values[paths[kind]]).startswith("/var/lib/mqstack/")


def commands() -> list[tuple[str, list[str]]]:
    """The servers' words in the compose file and the Kubernetes file."""
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    found = [(name, service["command"]) for name, service in compose.items()]
    for part in yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text()):
        if part["kind"] == "StatefulSet":
            (container,) = part["spec"]["template"]["spec"]["containers"]
            found.append((container["name"], [*container["command"], *container["args"]]))
    return found


@pytest.mark.parametrize(("kind", "words"), commands())
def test_the_settings_of_the_containers(kind: str, words: list[str]) -> None:
    assert words[:3] == ["mqserver", kind, "start"]
    assert all(word.startswith("--set=") for word in words[3:])
    loaded = settings_of(kind, split(word.removeprefix("--set=") for word in words[3:]))
    paths = {"namesrv": "kvConfigPath", "broker": "storePathRootDir"}
    assert str(loaded.values[paths[kind]]).startswith("/data/"), "the volume is at /data"
    health = str(loaded.values["metricsListen"]).rpartition(":")[2]
    assert f":{health}/ready" in (ROOT / "Dockerfile").read_text(), "HEALTHCHECK asks this port"


def test_the_image_has_the_version_of_the_project() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    images = re.findall(r"image: (mqstack:\S+)", (DEPLOY / "kubernetes.yaml").read_text())
    assert set(images) == {f"mqstack:{version}"}


def test_the_page_about_the_installation() -> None:
    """It names the paths, the values and the settings that the files have."""
    page = (ROOT / "docs" / "operations" / "install.md").read_text()
    files = "".join(path.read_text() for path in (DEPLOY / "systemd").iterdir())
    named = re.findall(r"(?:/opt|/etc|/var/lib)/mqstack[/\w.]*", page)
    units = {"/etc/systemd/system/" + unit.name for unit in UNITS}
    unknown = {path for path in named if path not in files} - units - {"/opt/mqstack/bin/pip"}
    assert not unknown
    values = re.findall(r"\b(?:Timeout\w+|Limit\w+|Type|Restart)=[\w-]+", page)
    assert values and not [value for value in values if value not in files]
    assert set(re.findall(r"deploy/[\w/.-]+\w", page)) == {
        path for path in re.findall(r"deploy/[\w/.-]+\w", page) if (ROOT / path).exists()
    }
