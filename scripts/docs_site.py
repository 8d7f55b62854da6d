"""mkdocs hooks: generate an API page for each public package, show programs where pages name them,
and remove links out of the site."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent

PACKAGES = (
    *("mqclient", "mqclient.aio", "mqclient.admin", "mqclient.serializers", "mqclient.mock"),
    *("mqclient.middleware", "mqclient.metrics", "mqclient.logging", "mqclient.otel"),
    "mqclient.oms",
    *("mqstore", "mqserver.testing", "mqpipeline"),
)
"""Packages whose `__all__` is public."""
MORE = {
    "mqclient.admin": (
        *("topics.Topics", "brokers.Brokers", "groups.Groups", "producers.Producers"),
        *("offsets.Offsets", "resets.Resets", "messages.Messages", "namesrv.NameServers"),
        "access.Access",
    )
}
"""Additional classes on a page: the types of the attributes of `Admin`."""
PROGRAM = re.compile(r"^\[[^\]]+\]\(([^)]*\.py)\)$", re.MULTILINE)
"""A link to a program that stands alone on a line."""
UPWARDS = re.compile(r"\[([^\]]+)\]\((\.\./[^)]*)\)")


def on_files(files: Files, config: Any) -> Files:
    """Generate the API pages."""
    for package in PACKAGES:
        names = [package, *(f"{package}.{name}" for name in MORE.get(package, ()))]
        text = f"# {package}\n\n" + "".join(f"::: {name}\n\n" for name in names)
        files.append(File.generated(config, f"api/{package}.md", content=text))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Replace a program's link by the program, and other links out of the site by their text."""
    folder = posixpath.join("docs", posixpath.dirname(page.file.src_uri))

    def place(link: str) -> str:
        return posixpath.normpath(posixpath.join(folder, link))

    def program(match: re.Match[str]) -> str:
        path = place(match[1])
        return f'```python title="{path}"\n{(ROOT / path).read_text()}```'

    def inside(match: re.Match[str]) -> str:
        return match[0] if place(match[2]).startswith("docs/") else match[1]

    return UPWARDS.sub(inside, PROGRAM.sub(program, markdown))
