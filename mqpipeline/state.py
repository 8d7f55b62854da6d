"""The state of a job on a lake, `_mqpipeline/NAME.json`: what is done, and what is under way."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import msgspec

from mqpipeline import layout
from mqpipeline.errors import PipelineError, UsageError
from mqpipeline.storage import Lake

__all__ = ["COMMITTING", "IDLE", "VERSION", "WRITING", "State", "all_states", "load", "save"]

VERSION = 1

IDLE, WRITING, COMMITTING = "idle", "writing", "committing"


class State(msgspec.Struct, frozen=True, kw_only=True):
    """One job's state. It changes in three steps, each one a new file.

    `writing`: a run plans `plan` and writes its files to its staging folder, nobody sees them.
    `committing`: all files are written; `moves` and `deletes` are being carried out, and a restart
    carries them out again. `idle`: the lake has the files, `done` says how far the job is.
    """

    version: int = VERSION
    job: str
    step: str = IDLE
    run: str = ""
    """The run that may change the state; another one in this place ends it."""
    settings: dict[str, str] = {}
    """What must stay the same from run to run, such as `by`."""
    done: dict[str, int] = {}
    """The next offset of each queue or store."""
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
    """The state of a job, a new one if it never ran; UsageError if it cannot be used."""
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
                f"{lake.full(path)} is of version {version}, this mqpipeline knows {VERSION}: "
                f"use the newer one"
            )
        state = msgspec.json.decode(content, type=State)
    except msgspec.DecodeError as error:
        raise PipelineError(
            f"{lake.full(path)} is damaged ({error}): restore it; without it the job would read "
            f"all messages again"
        ) from None
    if state.job != job:
        raise UsageError(f"--name {name} belongs to a {state.job} job of this lake: use another")
    return state


def all_states(lake: Lake) -> Iterator[tuple[str, State]]:
    """Name and state of every job of a lake, without those that cannot be read."""
    for file in lake.names(layout.CONTROL):
        name, dot, _ = file.partition(".json")
        content = lake.read(layout.state_path(name)) if dot else None
        if content is not None:
            with suppress(msgspec.DecodeError):
                yield name, msgspec.json.decode(content, type=State)


def save(lake: Lake, name: str, state: State) -> None:
    """Replace the state of a job."""
    lake.replace(layout.state_path(name), msgspec.json.format(msgspec.json.encode(state)))
