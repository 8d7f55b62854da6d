"""The audit as one HTML page with tables and plots; it loads nothing from the network."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from typing import Any
from xml.etree.ElementTree import Element

from mqpipeline.jobs.audit import AuditReport

__all__ = ["page"]

_STYLE = (
    "body{font:15px sans-serif;margin:2em auto;max-width:70em}table{border-collapse:collapse}"
    "td,th{padding:.2em .8em;border-bottom:1px solid #ddd;text-align:right}"
    "td:first-child,th:first-child{text-align:left}svg{max-width:44em;display:block}"
)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
DELAYS = ("p50Ms", "p95Ms", "p99Ms", "maxMs")


def page(report: AuditReport, title: str) -> str:
    """The HTML text of the page."""
    parts = [f"<h1>{escape(title)}</h1>", "<h2>Topics</h2>", _table(report.topics)]
    for topic in [row["topic"] for row in report.topics]:
        hours = [row for row in report.hours if row["topic"] == topic]
        parts += [f"<h2>{escape(topic)}</h2>", *_plots(hours, "producer to store")]
        parts.append(_table([row for row in report.queues if row["topic"] == topic]))
    for topic, group in sorted({(row["topic"], row["group"]) for row in report.consumption}):
        rows = [row for row in report.consumption if (row["topic"], row["group"]) == (topic, group)]
        parts += [f"<h2>{escape(topic)} to group {escape(group)}</h2>"]
        parts += _plots(rows, "producer to consumer")
    return (
        f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{_STYLE}</style></head><body>{''.join(parts)}</body></html>\n"
    )


def _table(rows: Sequence[dict[str, Any]]) -> str:
    if not rows:
        return "<p>none</p>"
    head = "".join(f"<th>{escape(name)}</th>" for name in rows[0])
    lines = (
        "".join(f"<td>{'' if value is None else escape(str(value))}</td>" for value in row.values())
        for row in rows
    )
    return f"<table><tr>{head}</tr>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"


def _plots(hours: Sequence[dict[str, Any]], what: str) -> list[str]:
    import pygal

    labels = [row["hour"] for row in hours]
    delays = _chart(pygal.Line, f"milliseconds from {what}", labels)
    for name in DELAYS:
        delays.add(name.removesuffix("Ms"), [row[name] for row in hours])
    counts = _chart(pygal.Bar, "messages", labels)
    counts.add("messages", [row["messages"] for row in hours])
    drawn = (
        chart.render(is_unicode=True, disable_xml_declaration=True) for chart in (delays, counts)
    )
    return [_COMMENT.sub("", picture) for picture in drawn]


def _chart(kind: Any, title: str, labels: Sequence[str]) -> Any:
    from pygal.style import CleanStyle

    chart = kind(
        title=title, x_labels=labels, js=(), width=800, height=320, x_label_rotation=30,
        style=CleanStyle, legend_at_bottom=True, show_legend=kind.__name__ == "Line",
    )  # fmt: skip
    chart.add_xml_filter(_without_scripts)
    return chart


def _without_scripts(root: Element) -> Element:
    for parent in root.iter():
        for script in parent.findall("script"):
            parent.remove(script)
    return root
