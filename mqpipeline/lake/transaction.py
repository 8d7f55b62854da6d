"""Adds files to a lake atomically and exactly once, even if a run is killed.

1. `begin` saves the plan with a new run id, and deletes the staging folders of earlier runs that
   were never committed.
2. The job writes its files to the run's staging folder.
3. `commit` saves the list of renames. From now on the run counts as done.
4. It renames the files into the lake, and deletes the files that they replace. If the lake is a
   Delta table, it adds the files to the table's log.
5. It saves the new progress of the job.

A run that is killed before step 3 has changed nothing. After step 3, the next start completes it. A
Spark task that outlives its driver writes to a staging folder that is never committed.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from msgspec.structs import replace

from mqpipeline.errors import BusyError, UsageError
from mqpipeline.lake import layout, state
from mqpipeline.lake.delta import DeltaLog, is_table
from mqpipeline.lake.state import COMMITTING, IDLE, WRITING, State
from mqpipeline.lake.storage import Lake

__all__ = ["Observer", "Transaction", "check", "opened"]

Observer = Callable[[str], None]
"""Called after each step with the step's name."""


class Transaction:
    """One run of a job on a lake; created by `opened`."""

    def __init__(self, lake: Lake, name: str, found: State, on_step: Observer) -> None:
        self.lake = lake
        self.state = found
        self._name = name
        self._on_step = on_step
        self._run = ""
        self._log = DeltaLog(lake) if found.settings.get("format") == "delta" else None

    @property
    def staging(self) -> str:
        """The folder for the files of this run."""
        return f"{layout.staging_path(self._name)}/{self._run}"

    def begin(self, plan: Mapping[str, tuple[int, int]]) -> None:
        """Save the plan with a new run id, which stops an earlier run of this name."""
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
        """Move staged files into the lake. moves: each path in `staging` and its path in the
        lake."""
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
        """Complete the commit of a killed run; returns whether there was one."""
        if self.state.step != COMMITTING:
            if self.lake.is_local:  # this run has the lock, so no other run writes there
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
        """Save the state; raises BusyError if another run has taken over."""
        found = state.load(self.lake, self._name, new.job)
        if found.run != self._run:
            raise BusyError(
                f"another run of {self._name} took over this lake; this run stops without its "
                f"uncommitted files"
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
    """Start the only run of a job on a lake, after completing the commit of a killed run.

    settings: must be the same as in the first run of the job. alone: whether no other job may work
    on the lake. Raises BusyError, UsageError.
    """
    check(lake, name, job, settings)
    whole = f"lake {lake.where} is being compacted: start again after the compaction"
    if alone:
        whole = f"a job works on lake {lake.where}: start again after it has stopped"
    busy = f"another run of {name} works on lake {lake.where}: wait for it, or use another --name"
    with (
        lake.locked(layout.lock_path("lake"), whole, shared=not alone),
        lake.locked(layout.lock_path(name), busy),
    ):
        found = check(lake, name, job, settings)
        run = Transaction(lake, name, replace(found, settings=dict(settings)), on_step)
        run.finish()
        yield run


def check(lake: Lake, name: str, job: str, settings: Mapping[str, str]) -> State:
    """The state of a job; UsageError if its settings or the lake's format have changed."""
    found = state.load(lake, name, job)
    _check_format(lake, found, settings.get("format", "parquet"))
    for key, value in settings.items():
        before = found.settings.get(key, value)
        if before != value:
            raise UsageError(
                f"job {name} of this lake ran with {key} = {before} before, not {value}: keep "
                f"{before}, or use another --name and lake"
            )
    return found


def _check_format(lake: Lake, found: State, wanted: str) -> None:
    """Refuse to mix formats: readers of a Delta table ignore files that its log does not name."""
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
