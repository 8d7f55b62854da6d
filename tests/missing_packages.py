"""Lets a test run as if a package were not installed."""

import sys
from importlib.abc import MetaPathFinder

import pytest


class _Without(MetaPathFinder):
    def __init__(self, package: str) -> None:
        self._package = package

    def find_spec(self, name: str, _path: object, _target: object = None) -> None:
        if name.partition(".")[0] == self._package:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def hide(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    """Hide a package until the test ends."""
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [_Without(package), *sys.meta_path])
