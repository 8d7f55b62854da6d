"""Java's servers and ours, side by side, for all families of the script."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import cache
from typing import get_args

import pytest

from tests.interop.differential.families import FAMILIES
from tests.interop.differential.masking import Outcome
from tests.interop.differential.stand import Kind, Stand

KINDS: tuple[Kind, ...] = get_args(Kind)
Play = dict[Kind, dict[str, Outcome]]


class Stands:
    """One stand of each kind; each family is played once, on all of them at the same time."""

    def __init__(self, stands: dict[Kind, Stand]) -> None:
        self._stands = stands
        self.play = cache(self._play)

    def _play(self, family: str) -> Play:
        with ThreadPoolExecutor(len(KINDS)) as pool:
            plays = {
                kind: pool.submit(stand.play, FAMILIES[family])
                for kind, stand in self._stands.items()
            }
            return {kind: play.result() for kind, play in plays.items()}


@pytest.fixture(scope="package")
def stands(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stands]:
    """The running servers."""
    homes = {kind: tmp_path_factory.mktemp(f"differential_{kind}") for kind in KINDS}
    with ExitStack() as stack, ThreadPoolExecutor(len(KINDS)) as pool:
        starting = {kind: pool.submit(Stand, homes[kind], kind) for kind in KINDS}
        started: dict[Kind, Stand] = {}
        for kind, start in starting.items():
            started[kind] = start.result()
            stack.callback(started[kind].stop)
        yield Stands(started)
