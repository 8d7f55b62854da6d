"""A finding of a health check, and the text of all findings."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from mqadmin.report import Row

__all__ = ["SEVERITIES", "Finding", "number", "row_of", "text_of"]

Severity = Literal["error", "warning", "info"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")
"""The worst first. An error stops messages or opens the cluster; a warning may become one."""
SHOWN_MAX = 20
"""Most findings of one check in the text; JSON and CSV have all."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong.

    check: its kind, like "broker.disk". subject: the server, topic or group. what: a sentence.
    figure, unit: the measured number, if there is one. advice: what to do.
    """

    severity: Severity
    check: str
    subject: str
    what: str
    advice: str
    figure: float | None = None
    unit: str | None = None


def row_of(finding: Finding) -> Row:
    """A finding as a row for JSON and CSV."""
    return {
        "severity": finding.severity,
        "check": finding.check,
        "subject": finding.subject,
        "finding": finding.what,
        "figure": finding.figure,
        "unit": finding.unit,
        "advice": finding.advice,
    }


def text_of(findings: Sequence[Finding], checked: str) -> str:
    """The findings in two lines each, then the number of them.

    checked: the numbers of servers, topics and groups that were asked about, as words.
    """
    shown: dict[tuple[str, str], list[Finding]] = defaultdict(list)
    for finding in findings:
        shown[finding.severity, finding.check].append(finding)
    lines = []
    for (severity, check), same in shown.items():
        for finding in same[:SHOWN_MAX]:
            lines.append(f"{severity:<8} {finding.subject}: {finding.what}")
            lines.append(f"{'':<8} -> {finding.advice}")
        if len(same) > SHOWN_MAX:
            rest = f"{len(same) - SHOWN_MAX} more of {check}"
            lines.append(f"{'':<8} and {rest}; --output jsonl shows all")
    counts = [
        number(sum(one.severity == severity for one in findings), word)
        for severity, word in (("error", "error"), ("warning", "warning"), ("info", "note"))
    ]
    return "\n".join([*lines, f"{', '.join(counts)}; checked {checked}"])


def number(count: int, word: str) -> str:
    """A count with its word: 1 broker, 2 brokers."""
    return f"{count} {word}" if count == 1 else f"{count} {word}s"
