"""Writes one clear line instead of a traceback if memory, address space or threads run out.

The usual cause is `ulimit -v`, which Java users know because a JVM does not start under it.
"""

from __future__ import annotations

import errno
import os
import resource
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn

from mqcommon.cli.error_line import end, say_error
from mqcommon.cli.exit_codes import FAILED, INTERRUPTED

LEAST_MIB = 48
"""MiB. With less address space the compiled core aborts the process, which cannot be caught."""
_M_ARENA_MAX = -8
"""The option of glibc's `mallopt` that limits the number of heaps."""
_NOT_LOADED = ("failed to map segment", "annot allocate", "cannot apply", "cannot create shared")
_NO_THREAD = ("can't start new thread", "can't spawn", "failed to spawn thread", "(os error 11)")
_NO_MEMORY = "(os error 12)"


@contextmanager
def telling_shortage(program: str, needs_mib: int = 0) -> Iterator[None]:
    """End the process with one line if the block runs out of memory or threads.

    Ctrl-C ends it with 130, also during an import.
    needs_mib: MiB of address space that the program usually needs; 0 if that depends on its input.
    """
    _save_address_space()
    if (_limit_bytes() or LEAST_MIB << 20) < LEAST_MIB << 20:
        _end(program, "no memory to start with", needs_mib)
    try:
        with _telling_in_threads(program, needs_mib):
            yield
    except BaseException as error:
        if any(isinstance(reason, KeyboardInterrupt) for reason in _reasons(error)):
            raise SystemExit(INTERRUPTED) from None
        missing = shortage(error)
        if missing is None:
            raise
        _end(program, missing, needs_mib)


def _end(program: str, missing: str, needs_mib: int) -> NoReturn:
    end(program, f"{missing}; {_advice(needs_mib)}", FAILED)


def shortage(error: BaseException) -> str | None:
    """The resource that the process could not get, or None if the error has another reason."""
    return next((missing for reason in _reasons(error) if (missing := _missing(reason))), None)


def _reasons(error: BaseException) -> Iterator[BaseException]:
    """The error and the chain of its causes."""
    seen: set[int] = set()
    reason: BaseException | None = error
    while reason is not None and id(reason) not in seen:
        seen.add(id(reason))
        yield reason
        reason = reason.__cause__ or reason.__context__


def _missing(error: BaseException) -> str | None:
    if isinstance(error, MemoryError):
        return "no memory is left"
    text = str(error)
    if isinstance(error, ImportError):
        lines = [line for line in text.splitlines() if any(words in line for words in _NOT_LOADED)]
        return f"no memory to load a module ({lines[0].strip()})" if lines else None
    number = error.errno if isinstance(error, OSError) else None
    if number == errno.ENOMEM or _NO_MEMORY in text:
        return f"no memory is left ({text})"
    is_panic = type(error).__name__ == "PanicException"
    if number == errno.EAGAIN or (
        (isinstance(error, (RuntimeError, OSError)) or is_panic)
        and any(words in text for words in _NO_THREAD)
    ):
        return f"no thread can be started ({text})"
    return None


def _advice(needs_mib: int) -> str:
    limit = _limit_bytes()
    if limit is None:
        return "free memory, or raise the limits on memory and processes (ulimit -u, the container)"
    needs = f" (it usually needs {needs_mib} MiB)" if needs_mib else ""
    return f"the limit on address space is {limit >> 20} MiB; raise ulimit -v{needs}"


def _limit_bytes() -> int | None:
    """The limit on this process's address space; None without one."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if limit == resource.RLIM_INFINITY else limit


@contextmanager
def _telling_in_threads(program: str, needs_mib: int) -> Iterator[None]:
    """Under a limit, let a thread that fails for this reason also write only one line."""
    if _limit_bytes() is None:
        yield
        return
    usual = threading.excepthook

    def tell(ended: threading.ExceptHookArgs) -> None:
        missing = shortage(ended.exc_value) if ended.exc_value is not None else None
        if missing is None:
            usual(ended)
        else:
            say_error(program, f"{missing}; {_advice(needs_mib)}")

    threading.excepthook = tell
    try:
        yield
    finally:
        if threading.excepthook is tell:
            threading.excepthook = usual


def _save_address_space() -> None:
    """Under a limit, make malloc use one heap instead of reserving 64 MiB for each thread.

    Also limit the threads of numpy's OpenBLAS, which reserves address space for each core.
    """
    if _limit_bytes() is None:
        return
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    with suppress(ImportError, OSError, AttributeError, MemoryError):  # not glibc
        import ctypes

        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)
