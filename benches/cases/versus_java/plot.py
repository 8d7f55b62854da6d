"""One SVG per row: every broker's median, with a line from its minimum to its maximum."""

from __future__ import annotations

from pathlib import Path
from xml.etree.ElementTree import Element

import pygal
from pygal.style import CleanStyle

from benches.cases.versus_java.figures import NAMES, written
from benches.cases.versus_java.rows import Measured, Row

WIDTH, HEIGHT = 760, 280


def draw(row: Row, measured: Measured, path: Path) -> bool:
    """Write the plot of the row's main figure; False if no round has it."""
    bars = [
        (name, measured.median(name, row.plot), measured.values(name, row.plot))
        for name in measured.rounds
    ]
    drawn = [(name, median, values) for name, median, values in bars if median is not None]
    if not drawn:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    chart = _chart(f"{row.title}: {NAMES[row.plot]}", drawn)
    chart.uuid = row.name  # the same figures make the same file
    chart.add_xml_filter(_without_scripts)
    path.write_bytes(chart.render() + b"\n")
    return True


def _chart(title: str, bars: list[tuple[str, float, list[float]]]) -> pygal.Bar:
    chart = pygal.Bar(
        title=title,
        width=WIDTH,
        height=HEIGHT,
        js=(),
        style=CleanStyle(value_font_size=12, title_font_size=15, major_label_font_size=11),
        value_formatter=written,
        print_values=True,
        legend_at_bottom=True,
        legend_at_bottom_columns=len(bars),
        x_labels=[""],
        min_scale=3,
        max_scale=6,
        zero=0,
        range=(0, 1.05 * max(max(values) for _, _, values in bars)),
    )
    for name, median, values in bars:
        spread = {"low": min(values), "high": max(values)}
        chart.add(name, [{"value": median, "ci": spread}])
    return chart


def _without_scripts(root: Element) -> Element:
    """Remove the scripts that pygal embeds: the file is only a picture."""
    for parent in root.iter():
        for script in parent.findall("script"):
            parent.remove(script)
    return root
