"""Middleware: a generator around each send, or around each call of a handler.

It yields once, where the send or the handler runs:

    def timed(message, context):
        started = time.monotonic()
        result = yield
        print(context.operation, result, time.monotonic() - started)

The yield gives the result, or raises the error. What the generator raises is the outcome, and so is
what it returns, unless that is None. If it catches an error and ends, there is no error. If it ends
without a yield, nothing is sent, or no handler is called. An async generator may await; it works
with `async def` handlers, and with the sends of the asyncio producer.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable
from concurrent.futures import Future
from contextvars import copy_context
from typing import Any, NamedTuple

from mqclient.engine.callables import check_takes

__all__ = [
    "Middleware",
    "SendContext",
    "around",
    "around_await",
    "around_future",
    "check_kind",
    "middleware_of",
]

Middleware = Callable[[Any, Any], Generator[None, Any, Any] | AsyncGenerator[None, Any]]
"""Gets what is sent and a SendContext, or the messages of a handler and its ConsumeContext."""
Arguments = tuple[Any, Any]


class SendContext(NamedTuple):
    """How a message is sent. operation: "send", "oneway", "request" or "transaction"."""

    operation: str


def middleware_of(argument: str) -> Callable[[str, Any], tuple[Middleware, ...]]:
    """The check of an option of middleware. argument: the name of what each of them gets first."""

    def read(name: str, given: Any) -> tuple[Middleware, ...]:
        if callable(given) or not isinstance(given, Iterable):
            raise TypeError(f"{name} must be a list of generator functions, not {given!r}")
        made = tuple(given)
        for one in made:
            check_takes(name, one, argument, "context")
            if not _is_generator(one) and not is_async(one):
                raise TypeError(
                    f"{name} {_name(one)} must be a generator function: it yields once, where the "
                    "send or the handler runs"
                )
        return made

    return read


def is_async(middleware: Middleware) -> bool:
    """Whether it is an async generator."""
    call = getattr(middleware, "__call__", None)  # noqa: B004
    return inspect.isasyncgenfunction(middleware) or inspect.isasyncgenfunction(call)


def check_kind(middleware: Middleware, function: object, on_loop: bool) -> None:
    """Raise TypeError if an async middleware would be around a function that is not awaited."""
    if is_async(middleware) and not on_loop:
        raise TypeError(
            f"middleware {_name(middleware)} is an async generator, and {_name(function)} is no "
            "`async def`; write one of them as the other is"
        )


def _is_generator(middleware: Middleware) -> bool:
    call = getattr(middleware, "__call__", None)  # noqa: B004
    return inspect.isgeneratorfunction(middleware) or inspect.isgeneratorfunction(call)


def _name(function: object) -> str:
    return getattr(function, "__qualname__", type(function).__name__)


def around(
    middleware: tuple[Middleware, ...], arguments: Arguments, work: Callable[[], Any]
) -> Any:
    """Call `work`, the first middleware outermost. A coroutine that it returns is awaited later."""
    if not middleware:
        return work()
    generator = _plain(middleware[0](*arguments))
    if (ended := _begin(generator)) is not None:
        return ended.value
    try:
        outcome = around(middleware[1:], arguments, work)
    except BaseException as error:
        return _fail(generator, error)
    if inspect.isawaitable(outcome):
        return _later(generator, outcome)
    return _end(generator, outcome)


async def around_await(
    middleware: tuple[Middleware, ...], arguments: Arguments, work: Callable[[], Awaitable[Any]]
) -> Any:
    """Await `work()`, the first middleware outermost."""
    if not middleware:
        return await work()
    generator = middleware[0](*arguments)
    inner = around_await(middleware[1:], arguments, work)
    try:
        if isinstance(generator, AsyncGenerator):
            return await _around_async(generator, inner)
        if (ended := _begin(generator)) is not None:
            return ended.value
        return await _later(generator, inner)
    finally:
        inner.close()  # it has ended, or was never begun


def around_future(
    middleware: tuple[Middleware, ...], arguments: Arguments, start: Callable[[], Future[Any]]
) -> Future[Any]:
    """Start work that ends with a future; the future that is returned gets the outcome.

    Both halves of each middleware see the context variables of the caller, and run where the work
    ends. Raises what a middleware or `start` raises before the work began.
    """
    context, generators = copy_context(), list[Generator[None, Any, Any]]()
    outer: Future[Any] = Future()
    for one in middleware:
        generator = _plain(one(*arguments))
        try:
            ended = context.run(_begin, generator)
        except BaseException as error:
            return _settled(outer, context.run, generators, error, None)
        if ended is not None:
            return _settled(outer, context.run, generators, None, ended.value)
        generators.append(generator)
    try:
        inner = context.run(start)
    except BaseException as error:
        return _settled(outer, context.run, generators, error, None)

    def finish(done: Future[Any]) -> None:
        if done.cancelled():
            outer.cancel()
        if outer.cancelled():
            outer.set_running_or_notify_cancel()
            for generator in reversed(generators):
                context.run(generator.close)
            return
        error = done.exception()
        _settled(outer, context.run, generators, error, None if error else done.result())

    outer.add_done_callback(lambda future: inner.cancel() if future.cancelled() else None)
    inner.add_done_callback(finish)
    return outer


def _settled(
    outer: Future[Any],
    run: Callable[..., Any],
    generators: list[Generator[None, Any, Any]],
    error: BaseException | None,
    result: Any,
) -> Future[Any]:
    """Run the second halves, innermost first, and end the future."""
    for generator in reversed(generators):
        try:
            if error is not None:
                result = run(_fail, generator, error)
                error = None
            else:
                result = run(_end, generator, result)
        except BaseException as failure:
            error = failure
    if outer.set_running_or_notify_cancel():
        if error is not None:
            outer.set_exception(error)
        else:
            outer.set_result(result)
    return outer


# --- one generator


def _plain(generator: Generator[None, Any, Any] | AsyncGenerator[None, Any]) -> Any:
    assert isinstance(generator, Generator), "check_kind has refused others"
    return generator


def _begin(generator: Generator[None, Any, Any]) -> StopIteration | None:
    """Run it up to its yield; its end if it does not yield."""
    try:
        next(generator)
    except StopIteration as end:
        return end
    return None


def _end(generator: Generator[None, Any, Any], result: Any) -> Any:
    try:
        generator.send(result)
    except StopIteration as end:
        return result if end.value is None else end.value
    raise _second(generator)


def _fail(generator: Generator[None, Any, Any], error: BaseException) -> Any:
    try:
        generator.throw(error)
    except StopIteration as end:
        return end.value
    raise _second(generator)


async def _later(generator: Generator[None, Any, Any], work: Awaitable[Any]) -> Any:
    try:
        result = await work
    except BaseException as error:
        return _fail(generator, error)
    return _end(generator, result)


async def _around_async(generator: AsyncGenerator[None, Any], work: Awaitable[Any]) -> Any:
    """Await work within an async generator, which cannot return a value."""
    try:
        await anext(generator)
    except StopAsyncIteration:
        return None
    try:
        result = await work
    except BaseException as error:
        try:
            await generator.athrow(error)
        except StopAsyncIteration:
            return None
    else:
        try:
            await generator.asend(result)
        except StopAsyncIteration:
            return result
    await generator.aclose()
    raise _twice(generator)


def _second(generator: Generator[None, Any, Any]) -> RuntimeError:
    generator.close()
    return _twice(generator)


def _twice(generator: object) -> RuntimeError:
    return RuntimeError(f"middleware {_name(generator)} yielded twice; it may yield once")
