"""docs/operations/tested.md says what the tests and the workflows say."""

from __future__ import annotations

from pathlib import Path

from scripts.java_rocketmq import INTEROP, VERSUS
from scripts.tested_page import page, rocketmq

PAGE = Path(__file__).parent.parent / "docs" / "operations" / "tested.md"


def test_the_page_follows_the_tests() -> None:
    wanted = "run: python -m scripts.tested_page > docs/operations/tested.md"
    assert PAGE.read_text() == page(), wanted


def test_the_versions_of_rocketmq() -> None:
    assert rocketmq(INTEROP).startswith("4.9.")
    assert rocketmq(VERSUS).startswith("5.")
