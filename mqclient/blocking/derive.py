"""Derives a blocking face from an asyncio one: `send = sync(aio.Producer.send)`.

A derived method has the arguments, result, errors and docstring of the asyncio method, for type
checkers, completion and `help()`. A method with a body of its own is decorated with `like`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, TypeVar

from mqclient.blocking.loop_thread import LoopThread
from mqclient.engine.client_type import ClientType

__all__ = ["BlockingFace", "like", "like_plain", "plain", "sync"]

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")
C = TypeVar("C", bound=Callable[..., Any])


class BlockingFace(metaclass=ClientType):
    """The asyncio object whose methods are derived, and the loop that runs them."""

    _async: Any

    def _where(self) -> LoopThread:
        """The running loop. Raises ClosedError before the start."""
        raise NotImplementedError

    @property
    def _is_new(self) -> bool:
        """Whether the client has not started, so that no loop runs its methods."""
        return False


def sync(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[Any, P], R]:
    """The method that runs an asyncio one to its end."""
    name = method.__name__

    @functools.wraps(method)
    def run(face: BlockingFace, /, *arguments: P.args, **options: P.kwargs) -> R:
        where = face._where()
        work: Coroutine[Any, Any, R] = getattr(face._async, name)(*arguments, **options)
        return where.run(work)

    return run


def plain(
    method: Callable[Concatenate[Any, P], R], *, before_start: bool = False
) -> Callable[Concatenate[Any, P], R]:
    """The method that calls a plain one on the loop.

    before_start: it may be called before the start too, in the caller's thread.
    """
    name = method.__name__

    @functools.wraps(method)
    def call(face: BlockingFace, /, *arguments: P.args, **options: P.kwargs) -> R:
        function = getattr(face._async, name)
        if before_start and face._is_new:
            found: R = function(*arguments, **options)
            return found
        result: R = face._where().call(functools.partial(function, *arguments, **options))
        return result

    return call


def like(method: Callable[..., Coroutine[Any, Any, Any]]) -> Callable[[C], C]:
    """Decorate a method that has the arguments of an asyncio one; a test compares them.

    Its docstring comes after the docstring of the asyncio method.
    """
    return lambda own: _with_doc_of(method, own)


def like_plain(
    method: Callable[Concatenate[Any, P], R],
) -> Callable[[Callable[Concatenate[S, P], R]], Callable[Concatenate[S, P], R]]:
    """`like` for a method of the asyncio face that is no coroutine."""
    return lambda own: _with_doc_of(method, own)


def _with_doc_of(method: object, own: C) -> C:
    about = (inspect.getdoc(method), inspect.cleandoc(own.__doc__ or ""))
    own.__doc__ = "\n\n".join(part for part in about if part)
    return own
