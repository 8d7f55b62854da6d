"""mkdocs hooks: generate an API page for each public package, and remove links out of the site."""

from __future__ import annotations

import re
from typing import Any

from mkdocs.structure.files import File, Files

PACKAGES = (
    *("mqclient", "mqclient.aio", "mqclient.admin", "mqclient.serializers", "mqclient.mock"),
    *("mqclient.logging", "mqclient.otel", "mqclient.oms"),
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
OUTSIDE = re.compile(r"\[([^\]]+)\]\(\.\./[^)]*\)")


def on_files(files: Files, config: Any) -> Files:
    """Generate the API pages."""
    for package in PACKAGES:
        names = [package, *(f"{package}.{name}" for name in MORE.get(package, ()))]
        text = f"# {package}\n\n" + "".join(f"::: {name}\n\n" for name in names)
        files.append(File.generated(config, f"api/{package}.md", content=text))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace links to files outside the site by their text."""
    return OUTSIDE.sub(r"\1", markdown)
