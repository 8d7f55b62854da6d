"""Shared by the export commands: JSON as RocketMQ writes it to files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from mqadmin.command import Arguments, Option
from mqadmin.java_order import properties_order
from mqadmin.java_text import hash_order
from mqadmin.report import Report
from mqcommon.wire.bodies.base import Body

V = TypeVar("V")
DEFAULT_FOLDER = str(Path("/tmp", "rocketmq", "export"))
"""The folder of RocketMQ's commands."""
CLUSTER = Option("c", "clusterName", "choose a cluster to export", required=True)


class ConcurrentMap(dict[str, V]):
    """A Properties or a ConcurrentHashMap: its order is not a HashMap's."""


class Fields(dict[str, V]):
    """The fields of a class, in their order."""


def folder_option(name: str) -> Option:
    """The option -f. name: the file's name."""
    return Option("f", "filePath", f"export {name} path | default {DEFAULT_FOLDER}")


def exported(arguments: Arguments, name: str, content: Mapping[str, object]) -> Report:
    """Write a file and report its path; the rows of JSON have its content too."""
    path = Path(arguments.text("filePath") or DEFAULT_FOLDER, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(java_json(content), encoding="utf-8")
    return Report(
        [{"path": str(path), "content": plain(content)}],
        lambda: f"export {path} success",
        single=True,
        columns=("path",),
    )


def plain(value: object) -> object:
    """A value as JSON can represent it."""
    if isinstance(value, Body):
        return value.to_plain()
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    return sorted(value) if isinstance(value, set) else value


def java_json(value: object, depth: int = 0) -> str:
    """A HashMap as fastjson writes it with PrettyFormat; the fields of a class are sorted.

    A set of texts stays on one line. Members that are None are left out.
    """
    if isinstance(value, set):
        return json.dumps(hash_order(value), ensure_ascii=False, separators=(",", ":"))
    fields = Fields(value.to_plain()) if isinstance(value, Body) else value
    if not isinstance(fields, Mapping):
        return json.dumps(fields, ensure_ascii=False)
    if isinstance(fields, Fields):
        names = list(fields)
    elif isinstance(fields, ConcurrentMap):
        names = properties_order(fields)
    else:
        names = hash_order(fields)
    tabs = "\t" * (depth + 1)
    members = [
        f"\n{tabs}{json.dumps(name, ensure_ascii=False)}:{java_json(fields[name], depth + 1)}"
        for name in names
        if fields[name] is not None
    ]
    end = "\n" + "\t" * depth if members else ""
    return "{" + ",".join(members) + end + "}"
