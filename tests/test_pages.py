"""The pages and tables that `make pages` writes are up to date."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import pages

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    return dict(pages.texts())


@pytest.mark.parametrize("path", [*pages.WRITTEN, *pages.TABLES])
def test_a_page_is_what_the_code_says(texts: dict[str, str], path: str) -> None:
    assert (ROOT / path).read_text() == texts[path], f"{path} is out of date: run `make pages`"
