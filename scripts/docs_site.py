"""Hooks of mkdocs: a page for each public package, and no links out of the site."""

from __future__ import annotations

import re
from typing import Any

from mkdocs.structure.files import File, Files

PACKAGES = (
    *("mqclient", "mqclient.aio", "mqclient.admin", "mqclient.serializers", "mqclient.logging"),
    *("mqclient.otel", "mqclient.oms", "mqstore", "mqserver.testing", "mqpipeline"),
)
"""Those whose `__all__` is public."""
MORE = {
    "mqclient.admin": (
        *("topics.Topics", "brokers.Brokers", "groups.Groups", "producers.Producers"),
        *("offsets.Offsets", "resets.Resets", "messages.Messages", "namesrv.NameServers"),
        "access.Access",
    )
}
"""What a page has besides: the types of attributes, here those of `Admin`."""
OUTSIDE = re.compile(r"\[([^\]]+)\]\(\.\./[^)]*\)")


def on_files(files: Files, config: Any) -> Files:
    """Make the pages of the API."""
    for package in PACKAGES:
        names = [package, *(f"{package}.{name}" for name in MORE.get(package, ()))]
        text = f"# {package}\n\n" + "".join(f"::: {name}\n\n" for name in names)
        files.append(File.generated(config, f"api/{package}.md", content=text))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """A link to a file of the repository that is no page becomes its text."""
    return OUTSIDE.sub(r"\1", markdown)
