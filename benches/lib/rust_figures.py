"""Figures of the Rust benches: criterion's estimates, and the JSON output of other benches."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from benches.lib.harness import RESULTS, ROOT

Figures = dict[str, float]
PROFILE = "release"
"""The measured cargo profile, which is also the profile of the wheels."""


def criterion(bench: str, smoke: bool) -> Figures:
    """Rates (bytes or elements per second) or milliseconds of each case of a criterion bench.

    A smoke run executes each case once, in the development profile of the tests, without figures.
    """
    if smoke:
        _cargo("test", "--bench", bench)
        return {}
    home = RESULTS / "criterion"
    shutil.rmtree(home, ignore_errors=True)
    words = ("bench", "--profile", PROFILE, "--bench", bench, "--", "--noplot", "--quiet")
    _cargo(*words, CRITERION_HOME=str(home))
    found = {}
    for path in home.glob("*/*/new/estimates.json"):
        case = "/".join(path.parts[-4:-2])
        found[case] = _rate(path.parent)
    shutil.rmtree(home)
    return found


def printed(bench: str, smoke: bool) -> dict[str, Figures]:
    """The figures that a bench prints as JSON, by part."""
    words = ("test",) if smoke else ("bench", "--profile", PROFILE)
    return _last_line(_cargo(*words, "--bench", bench))


def example(name: str, smoke: bool, *arguments: str) -> dict[str, Figures]:
    """The figures that an example prints, by case. A smoke run skips it: the tests compile it."""
    if smoke:
        return {}
    words = ("run", "--profile", PROFILE, "--example", name, "--", *arguments)
    return _last_line(_cargo(*words))


def _rate(folder: Path) -> float:
    """The rate per second if the bench has a throughput, otherwise the milliseconds of one run."""
    estimates = json.loads((folder / "estimates.json").read_text())
    seconds: float = estimates["median"]["point_estimate"] / 1e9
    throughput = json.loads((folder / "benchmark.json").read_text())["throughput"]
    if throughput is None:
        return seconds * 1e3
    (amount,) = throughput.values()
    return float(amount) / seconds


def _last_line(text: str) -> dict[str, Any]:
    line = next(line for line in reversed(text.splitlines()) if line.startswith("{"))
    found: dict[str, Any] = json.loads(line)
    return found


def _cargo(*words: str, **environment: str) -> str:
    command = ["cargo", words[0], "--quiet", *words[1:]]
    done = subprocess.run(
        command,
        cwd=ROOT / "rust",
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return done.stdout
