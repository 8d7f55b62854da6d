"""Files become part of a lake all together, and once, wherever a run is killed.

1. `begin` saves the plan with a new run id. Files of earlier runs that were never committed lie in
   staging folders that no later step reads; they are deleted.
2. The job writes its files below the run's staging folder.
3. `commit` saves the list of renames. From here on the run counts as done.
4. It renames the files into the lake, and deletes those that they replace. Where the lake is a
   Delta table, it adds the files to the table's log.
5. It saves how far the job is now.

A run that is killed before 3 has changed nothing. One that is killed after it is carried on by
the next start. A task that outlives its driver writes into a staging folder that nobody commits.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from msgspec.structs import replace

from mqpipeline import layout, state
from mqpipeline.delta import DeltaLog, is_table
from mqpipeline.errors import BusyError, UsageError
from mqpipeline.state import COMMITTING, IDLE, WRITING, State
from mqpipeline.storage import Lake

__all__ = ["Observer", "Transaction", "check", "opened"]

Observer = Callable[[str], None]
"""Told each step that was made."""


class Transaction:
    """One job's run on a lake. Use `opened`."""

    def __init__(self, lake: Lake, name: str, found: State, on_step: Observer) -> None:
        self.lake = lake
        self.state = found
        self._name = name
        self._on_step = on_step
        self._run = ""
        self._log = DeltaLog(lake) if found.settings.get("format") == "delta" else None

    @property
    def staging(self) -> str:
        """The folder below which this run writes its files."""
        return f"{layout.staging_path(self._name)}/{self._run}"

    def begin(self, plan: Mapping[str, tuple[int, int]]) -> None:
        """Save what will be written; whatever ran before under this name must not go on."""
        self._run = uuid.uuid4().hex
        self.state = replace(self.state, run=self._run, step=WRITING, plan=dict(plan))
        state.save(self.lake, self._name, self.state)
        self._on_step("planned")
        self.lake.delete_folder(layout.staging_path(self._name))

    def commit(
        self,
        moves: Sequence[tuple[str, str]],
        done: Mapping[str, int],
        rows: int,
        deletes: Sequence[str] = (),
    ) -> None:
        """Make staged files part of the lake. moves: from below `staging`, to the lake's path."""
        self._on_step("staged")
        staged = [(f"{self.staging}/{source}", target) for source, target in moves]
        if self._log is not None:
            self._log.prepare(staged)
        counts = {"rows": self.state.rows + rows, "files": self.state.files + len(moves)}
        self._save(
            replace(
                self.state, step=COMMITTING, moves=staged, deletes=list(deletes),
                done={**self.state.done, **done}, **counts,
            )
        )  # fmt: skip
        self._on_step("journaled")
        self._carry_out()

    def finish(self) -> bool:
        """Carry out what an earlier run has committed to; whether there was anything."""
        if self.state.step != COMMITTING:
            if self.lake.is_local:  # nobody else has the lock, so no live run writes there
                self.lake.delete_folder(layout.staging_path(self._name))
            return False
        self._run = self.state.run
        self._carry_out()
        return True

    def _carry_out(self) -> None:
        for source, target in self.state.moves:
            self.lake.move(source, target)
            self._on_step("moved")
        for path in self.state.deletes:
            self.lake.delete(path)
            self._on_step("deleted")
        changed = [*(target for _, target in self.state.moves), *self.state.deletes]
        self.lake.sync({path.rpartition("/")[0] for path in changed})
        if self._log is not None:
            added = [target for _, target in self.state.moves]
            self._log.commit(self._name, self.state.rows, added)
            self._on_step("logged")
        self._save(replace(self.state, step=IDLE, plan={}, moves=[], deletes=[]))
        self._on_step("committed")
        self.lake.delete_folder(layout.staging_path(self._name))

    def _save(self, new: State) -> None:
        """Save, unless another run has taken over."""
        found = state.load(self.lake, self._name, new.job)
        if found.run != self._run:
            raise BusyError(
                f"another run of {self._name} took over this lake; this one ends, and what it "
                f"has not committed is dropped"
            )
        state.save(self.lake, self._name, new)
        self.state = new


@contextmanager
def opened(
    lake: Lake,
    name: str,
    job: str,
    settings: Mapping[str, str],
    on_step: Observer = lambda step: None,
    alone: bool = False,
) -> Iterator[Transaction]:
    """The only run of a job on a lake; first it finishes what an earlier one committed to.

    settings: what must be as it was when the job first ran. alone: no other job may work on the
    lake. Raises BusyError, UsageError.
    """
    check(lake, name, job, settings)
    whole = f"lake {lake.where} is being compacted: start again when that has ended"
    if alone:
        whole = f"a job works on lake {lake.where}: start again when it has stopped"
    busy = f"another run of {name} works on lake {lake.where}: let it end, or use another --name"
    with (
        lake.locked(layout.lock_path("lake"), whole, shared=not alone),
        lake.locked(layout.lock_path(name), busy),
    ):
        found = check(lake, name, job, settings)
        run = Transaction(lake, name, replace(found, settings=dict(settings)), on_step)
        run.finish()
        yield run


def check(lake: Lake, name: str, job: str, settings: Mapping[str, str]) -> State:
    """The state of a job; UsageError if its settings were others before, or the lake's format."""
    found = state.load(lake, name, job)
    _check_format(lake, found, settings.get("format", "parquet"))
    for key, value in settings.items():
        before = found.settings.get(key, value)
        if before != value:
            raise UsageError(
                f"job {name} of this lake ran with {key} = {before}, now it is {value}: keep it, "
                f"or use another --name and lake"
            )
    return found


def _check_format(lake: Lake, found: State, wanted: str) -> None:
    """Files that a Delta table's log does not name would never be read from it."""
    if is_table(lake) and wanted != "delta":
        raise UsageError(
            f"lake {lake.where} is a Delta table, and this job writes plain Parquet: use to-lake "
            f"--format delta, and Delta's own OPTIMIZE to compact, or another lake"
        )
    is_new = not found.done and found.step != COMMITTING
    if wanted == "delta" and is_new and not is_table(lake) and any(lake.walk(".parquet")):
        raise UsageError(
            f"lake {lake.where} holds plain Parquet and is no Delta table: use another lake, or "
            f"--format parquet"
        )
