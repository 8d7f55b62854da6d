"""Hides what differs from run to run in mqadmin's text: addresses, times, rates."""

from __future__ import annotations

import re

_MASKS = [
    (r"127\.0\.0\.1:\d+", "ADDRESS"),
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(,\d{3})?", "TIME"),
    (r"\d+\.\d\d\(\d*,\d*ms\)", "LOAD"),
    (r"Consume TPS: .*", "Consume TPS: RATE"),
    (r"\b[0-9A-F]{32,56}\b", "ID"),
    (r"(OFFLINE|CLUSTERING) +\d+ ", r"\1 RATE "),  # consumerProgress
    (r"(StatsTopic +\d+) +\d+\.\d\d +\d+", r"\1 RATE SUM"),  # statsAll, before or after a sample
    # clusterList's last columns: page-cache wait, age of the log, share of the disk
    (r"\d+ +\d+\.\d\d +\d\.\d{4}$", "FIGURES"),
]


def without_totals(text: str) -> str:
    """`clusterList -m` without its counts, which depend on what other tests did."""
    return re.sub(r"(broker-a)( \d+){4}$", r"\1 TOTALS", text, flags=re.MULTILINE)


def masked(text: str) -> str:
    """The text without addresses, times and rates; runs of blanks become one."""
    for pattern, word in _MASKS:
        text = re.sub(pattern, word, text, flags=re.MULTILINE)
    return re.sub(r" +", " ", text)
