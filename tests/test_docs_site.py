"""The site builds without the network, strictly, with every public name; a broken link fails."""

from __future__ import annotations

import html
import os
import re
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

pytest.importorskip("mkdocstrings")

from scripts.docs_site import PACKAGES

ROOT = Path(__file__).parent.parent
MISSING = "nowhere" + ".md"
FOREIGN = re.compile(r"""<(?:script|link|img|iframe)\b[^>]*(?:src|href)=["']?(?:https?:)?//""")


def build(config: Path, site: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", config, "-d", site],
        cwd=ROOT,
        env={**os.environ, "http_proxy": "http://127.0.0.1:1", "https_proxy": "http://127.0.0.1:1"},
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    run = build(ROOT / "mkdocs.yml", folder)
    assert run.returncode == 0, run.stderr
    return folder


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_is_there(site: Path, package: str) -> None:
    if package == "mqpipeline":
        pytest.importorskip("pyspark.sql", exc_type=ImportError)
    page = (site / f"api/{package}.html").read_text()
    missing = [
        name for name in import_module(package).__all__ if f'id="{package}.{name}"' not in page
    ]
    assert not missing


def test_the_rooms_of_admin_are_there(site: Path) -> None:
    page = (site / "api/mqclient.admin.html").read_text()
    assert 'id="mqclient.admin.resets.Resets.reset"' in page
    assert 'id="mqclient.admin.topics.Topics.delete"' in page


def test_the_site_has_a_home(site: Path) -> None:
    home = (site / "index.html").read_text()
    docs = ROOT / "docs"
    for page in docs.rglob("*.md"):
        path = page.relative_to(docs).with_suffix(".html")
        assert page.stem == "index" or f'href="{path}' in home, path


def test_the_cookbook_shows_every_program(site: Path) -> None:
    page = html.unescape(re.sub(r"<[^>]+>", "", (site / "client/cookbook.html").read_text()))
    for program in (ROOT / "examples").rglob("*.py"):
        for line in filter(None, program.read_text().splitlines()):
            assert line in page, f"{program.name}: {line}"


def test_links_between_folders_stay(site: Path) -> None:
    assert 'href="../migrate.html"' in (site / "operations/incident.html").read_text()
    assert "examples/README.md" not in (site / "client/index.html").read_text()


def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 20
    assert not [page.name for page in pages if FOREIGN.search(page.read_text())]


def test_a_broken_link_fails(tmp_path: Path) -> None:
    docs = shutil.copytree(ROOT / "docs", tmp_path / "docs")
    with (docs / "tls.md").open("a") as page:
        page.write(f"\nSee [nowhere]({MISSING}).\n")
    config = tmp_path / "mkdocs.yml"
    text = (ROOT / "mkdocs.yml").read_text()
    hooks = f"hooks: [{ROOT / 'scripts/docs_site.py'}]"
    text = text.replace("hooks: [scripts/docs_site.py]", hooks).replace(
        "paths: [.]", f"paths: [{ROOT}]"
    )
    config.write_text(text)
    run = build(config, tmp_path / "site")
    assert run.returncode == 1, run.stderr
    assert MISSING in run.stderr


def test_the_site_stays_out_of_git() -> None:
    ignored = subprocess.run(["git", "check-ignore", "-q", "build/site/index.html"], cwd=ROOT)
    assert ignored.returncode == 0
