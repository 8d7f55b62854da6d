"""The page of options is generated from the settings classes, which explain each option."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, get_type_hints

import pytest

import mqclient
from mqclient import aio
from scripts.client_options_page import SECTIONS, explained


@pytest.mark.parametrize("title", SECTIONS)
def test_each_option_is_explained_and_typed(title: str) -> None:
    settings, base, options = SECTIONS[title]
    inherited = set() if base is object else {item.name for item in fields(base)}
    own = {item.name for item in fields(settings)} - inherited
    explains: dict[str, Any] = explained(settings)
    missing = own - explains.keys()
    assert not missing, f"say in the docstring of {settings.__name__} what they mean: {missing}"
    untyped = own - {"namesrv", "group"} - get_type_hints(options).keys()
    assert not untyped, f"{options.__name__} lacks {untyped}"


def test_settings_are_exported_by_both_faces() -> None:
    for settings, _, _ in SECTIONS.values():
        name = settings.__name__
        assert getattr(mqclient, name) is getattr(aio, name) is settings
