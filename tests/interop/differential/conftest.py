"""Java's servers and ours, side by side, for all tables of the script."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache
from typing import get_args

import pytest

from tests.interop.differential.case_tables import CASE_TABLES, GUARDED_TABLES
from tests.interop.differential.masking import Outcome
from tests.interop.differential.stand import Kind, Stand

KINDS: tuple[Kind, ...] = get_args(Kind)
Play = dict[Kind, dict[str, Outcome]]


class Stands:
    """Stands of each kind; each table is played once, on all of them at the same time."""

    def __init__(self, open_ones: dict[Kind, Stand], guarded: dict[Kind, Stand]) -> None:
        self._open, self._guarded = open_ones, guarded
        self.play = cache(self._play)

    def _play(self, table: str) -> Play:
        stands = self._guarded if table in GUARDED_TABLES else self._open
        with ThreadPoolExecutor(len(KINDS)) as pool:
            plays = {
                kind: pool.submit(stand.play, CASE_TABLES[table]) for kind, stand in stands.items()
            }
            return {kind: play.result() for kind, play in plays.items()}


@pytest.fixture(scope="package")
def stands(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stands]:
    """The running servers: JVMs are slow to start and to stop, so all do at the same time."""
    wanted = [(kind, guarded) for kind in KINDS for guarded in (False, True)]
    with ThreadPoolExecutor(len(wanted)) as pool:
        starting = {
            (kind, guarded): pool.submit(
                Stand, tmp_path_factory.mktemp(f"differential_{kind}"), kind, guarded
            )
            for kind, guarded in wanted
        }
        wait(starting.values())
        started = {key: start.result() for key, start in starting.items() if not start.exception()}
        try:
            sides = [
                {kind: starting[kind, guarded].result() for kind in KINDS}
                for guarded in (False, True)
            ]
            yield Stands(*sides)
        finally:
            for stop in [pool.submit(stand.stop) for stand in started.values()]:
                stop.result()
