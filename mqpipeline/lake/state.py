"""The state of a job on a lake, `_mqpipeline/NAME.json`: its progress and its current step."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import msgspec

from mqpipeline.errors import PipelineError, UsageError
from mqpipeline.lake import layout
from mqpipeline.lake.storage import Lake

__all__ = ["COMMITTING", "IDLE", "VERSION", "WRITING", "State", "all_states", "load", "save"]

VERSION = 1

IDLE, WRITING, COMMITTING = "idle", "writing", "committing"


class State(msgspec.Struct, frozen=True, kw_only=True):
    """One job's state. It goes through three steps; each step replaces the file.

    `writing`: a run writes the files of `plan` to its staging folder, invisible to readers.
    `committing`: all files are written, and the run executes `moves` and `deletes`; after a crash
    the next start executes them again. `idle`: the files are in the lake, and `done` has the
    progress.
    """

    version: int = VERSION
    job: str
    step: str = IDLE
    run: str = ""
    """Id of the run that may change the state; a run that finds another id here must stop."""
    settings: dict[str, str] = {}
    """Settings that must not change between runs, such as `by`."""
    done: dict[str, int] = {}
    """The next offset to read, of each queue or store."""
    plan: dict[str, tuple[int, int]] = {}
    """The range of each queue or store that is being written."""
    moves: list[tuple[str, str]] = []
    deletes: list[str] = []
    rows: int = 0
    """Messages written so far, by all runs."""
    files: int = 0


class _Version(msgspec.Struct):
    version: int


def load(lake: Lake, name: str, job: str) -> State:
    """The state of a job, a new one if the job never ran; UsageError if it cannot be used."""
    if not layout.is_job_name(name):
        raise UsageError(f"--name {name!r}: give letters, digits, '_' and '-', but not 'lake'")
    path = layout.state_path(name)
    content = lake.read(path)
    if content is None:
        return State(job=job)
    try:
        version = msgspec.json.decode(content, type=_Version).version
        if version > VERSION:
            raise UsageError(
                f"{lake.full(path)} has version {version}, but this mqpipeline knows only "
                f"{VERSION}: use a newer mqpipeline"
            )
        state = msgspec.json.decode(content, type=State)
    except msgspec.DecodeError as error:
        raise PipelineError(
            f"{lake.full(path)} is damaged ({error}): restore it from a backup; without it the job "
            f"would read all messages again"
        ) from None
    if state.job != job:
        raise UsageError(f"--name {name} belongs to a {state.job} job of this lake: use another")
    return state


def all_states(lake: Lake) -> Iterator[tuple[str, State]]:
    """Name and state of every job of a lake; skips states that cannot be decoded."""
    for file in lake.names(layout.CONTROL):
        name, dot, _ = file.partition(".json")
        content = lake.read(layout.state_path(name)) if dot else None
        if content is not None:
            with suppress(msgspec.DecodeError):
                yield name, msgspec.json.decode(content, type=State)


def save(lake: Lake, name: str, state: State) -> None:
    """Replace the state of a job."""
    lake.replace(layout.state_path(name), msgspec.json.format(msgspec.json.encode(state)))
