"""A package of an extra that is not installed is named, with what installs it."""

import re
import tomllib
from pathlib import Path

import pytest

import mqstore
from mqcommon import extras
from tests.missing_packages import hide

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]


def package_of(requirement: str) -> str:
    name = requirement.replace("-", "_")
    name = name[: min(name.find(c) for c in "<>=;[ " if c in name)]
    # The API and the SDK of OpenTelemetry are two packages with one name to import.
    return re.sub("^opentelemetry_(api|sdk)$", "opentelemetry", name)


@pytest.mark.parametrize(("package", "extra"), extras.EXTRAS.items())
def test_each_extra_installs_its_package_and_dev_installs_all(package, extra):
    optional = PROJECT["optional-dependencies"]
    assert package in map(package_of, optional[extra]), "see EXTRAS of mqcommon/extras.py"
    assert package in map(package_of, optional["dev"]), "see pyproject.toml"
    assert package not in map(package_of, PROJECT["dependencies"])


@pytest.mark.parametrize("package", extras.EXTRAS)
def test_a_missing_package_is_named_with_its_extra(monkeypatch, package):
    hide(monkeypatch, package)
    with pytest.raises(ImportError, match=rf"It needs .*mqstack\[{extras.EXTRAS[package]}\]"):
        extras.load(package, "It")


def test_lz4_bodies_are_read():
    frame = pytest.importorskip("lz4.frame", reason="pip install 'mqstack[lz4]'")
    body = b"a body that is long enough " * 50
    assert mqstore.decompress_body(frame.compress(body), 0x101) == body
