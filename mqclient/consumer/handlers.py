"""Handlers as programs write them: what one takes is read when it is given.

A handler takes one message or a list of them, with or without the ConsumeContext. The annotation of
its first argument decides; without one, the method that it is given to.
"""

from __future__ import annotations

import builtins
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, Literal, NamedTuple, Protocol, TypeVar, get_origin, overload

from mqclient.consumer.context import ConsumeContext, Handler, HandlerResult, is_async
from mqclient.engine.middleware import Middleware, around, around_await, check_kind
from mqcommon.message import Message, ReceivedMessage

__all__ = [
    "AnyHandler",
    "Decorates",
    "ListHandler",
    "Made",
    "MessageHandler",
    "OneMessage",
    "made_handler",
]

Answer = HandlerResult | Awaitable[HandlerResult]
T = TypeVar("T")
A = TypeVar("A", bound=Answer)
MessageHandler = (
    Callable[[ReceivedMessage[T]], Answer] | Callable[[ReceivedMessage[T], ConsumeContext], Answer]
)
"""A handler of one message with a value of a type."""
ListHandler = (
    Callable[[list[ReceivedMessage[T]]], Answer]
    | Callable[[list[ReceivedMessage[T]], ConsumeContext], Answer]
)
"""A handler of several messages of one queue."""
AnyHandler = MessageHandler[T] | ListHandler[T]


class Decorates(Protocol[T]):
    """Decorates a function of T, which may take the context too, and returns it."""

    @overload
    def __call__(self, function: Callable[[T], A], /) -> Callable[[T], A]: ...

    @overload
    def __call__(
        self, function: Callable[[T, ConsumeContext], A], /
    ) -> Callable[[T, ConsumeContext], A]: ...


Kind = Literal["message", "messages"]

_KIND_OF_TYPE: dict[str, Kind] = {
    "ReceivedMessage": "message",
    **dict.fromkeys(("list", "List", "Sequence", "Collection", "Iterable"), "messages"),
}
_KIND_OF_NAME: dict[str, Kind] = {
    **dict.fromkeys(("message", "msg"), "message"),
    **dict.fromkeys(("messages", "msgs", "batch"), "messages"),
}
_NEVER_PASSED = (bytes, bytearray, str, int, float, bool, dict, tuple, set, Message, ConsumeContext)
_OTHERS = {"message": "on_message", "messages": "on_batch"}


class Made(NamedTuple):
    """A handler as the consumer calls it. on_loop: it is awaited. one_message: of one at a time."""

    handler: Handler
    on_loop: bool
    one_message: bool


class OneMessage:
    """The handler of a function that takes one message, and no context.

    function: may be called itself, which costs less than to make a list and a context.
    """

    __slots__ = ("function",)

    def __init__(self, function: Callable[[ReceivedMessage], Any]) -> None:
        self.function = function

    def __call__(self, messages: list[ReceivedMessage], _context: object) -> Any:
        """Call the function with the only message."""
        return self.function(messages[0])


def made_handler(
    function: AnyHandler[Any], method: str, kind: Kind | None, middleware: tuple[Middleware, ...]
) -> Made:
    """The handler that calls a function with what it takes, with middleware around each call.

    method: that it was given to, for errors. kind: what this method passes; None lets the
    annotation decide. Raises TypeError for a function that takes something else.
    """
    if not callable(function):
        raise TypeError(f"handler must be callable, not {type(function).__name__}")
    kind, with_context = _taken(function, method, kind)
    on_loop = is_async(function)
    for one in middleware:
        check_kind(one, function, on_loop)
    call = _call(function, kind, with_context)
    return Made(_with(call, on_loop, middleware), on_loop, kind == "message")


def _taken(function: AnyHandler[Any], method: str, kind: Kind | None) -> tuple[Kind, bool]:
    """What a function takes, and whether it takes the context too."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # written in C, without a signature
        return kind or "messages", kind is None
    found = [
        item
        for item in signature.parameters.values()
        if item.kind not in (item.KEYWORD_ONLY, item.VAR_KEYWORD)
    ]
    annotated = _annotated(found[0]) if found else None
    if found and annotated is None:
        _check_annotation(function, found[0].annotation, method)
    named = _KIND_OF_NAME.get(found[0].name) if found else None
    taken = annotated or kind or "messages"
    other = annotated or named or taken
    name = f"{getattr(function, '__qualname__', repr(function))}{signature}"
    if other != (kind or taken):
        passed = {"message": "one message", "messages": "a list of messages"}
        hint = f"use @consumer.{_OTHERS[other]}(topic)"
        if kind is None:
            hint += ", or annotate it: ReceivedMessage"
        raise TypeError(
            f"handler {name} takes {passed[other]}, and {method} passes {passed[kind or taken]}; "
            f"{hint}"
        )
    with_context = _takes_context(found)
    arguments = (taken, "context") if with_context else (taken,)
    try:
        signature.bind(*arguments)
    except TypeError:
        raise TypeError(
            f"handler {name} cannot be called with ({taken}) or ({taken}, context)"
        ) from None
    return taken, with_context


def _annotated(parameter: inspect.Parameter) -> Kind | None:
    annotation = parameter.annotation
    if isinstance(annotation, str):
        head = annotation.partition("[")[0].rpartition(".")[2].strip("'\" ")
    else:
        head = getattr(get_origin(annotation) or annotation, "__name__", "")
    return _KIND_OF_TYPE.get(head)


def _check_annotation(function: Any, annotation: Any, method: str) -> None:
    """Raise TypeError for an annotation of the first argument that no message is ever one of."""
    if isinstance(annotation, str):
        scope = getattr(function, "__globals__", {})
        annotation = scope.get(annotation, vars(builtins).get(annotation))
    kind = get_origin(annotation) or annotation
    if kind in _NEVER_PASSED:
        hint = "; the bytes are message.body" if kind in (bytes, str) else ""
        raise TypeError(
            f"handler {getattr(function, '__qualname__', repr(function))} takes {kind.__name__}, "
            f"and {method} passes a ReceivedMessage or a list of them; annotate it so{hint}"
        )


def _takes_context(positional: list[inspect.Parameter]) -> bool:
    """Whether a function needs a second argument, or names it as the context."""
    if any(item.kind is item.VAR_POSITIONAL for item in positional):
        return True
    if len(positional) < 2:
        return False
    second = positional[1]
    return (
        second.default is second.empty
        or second.name == "context"
        or second.annotation in (ConsumeContext, "ConsumeContext")
    )


def _call(function: Any, kind: Kind, with_context: bool) -> Handler:
    """The function as a handler of a list and a context."""
    if kind == "messages":
        if with_context:
            return function  # type: ignore[no-any-return]
        return lambda messages, _context: function(messages)
    if with_context:
        return lambda messages, context: function(messages[0], context)
    return OneMessage(function)


def _with(call: Callable[..., Any], on_loop: bool, middleware: tuple[Middleware, ...]) -> Handler:
    if not middleware:
        return call
    if on_loop:
        return lambda messages, context: around_await(
            middleware, (messages, context), lambda: call(messages, context)
        )
    return lambda messages, context: around(
        middleware, (messages, context), lambda: call(messages, context)
    )
