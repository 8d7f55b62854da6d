"""OpenTelemetry: spans for sends, receives and handlers; the context travels in the properties.

Names and attributes follow OpenTelemetry's semantic conventions for messaging. A client that is not
instrumented does nothing of this. Needs the extra `otel`.
"""

from __future__ import annotations

import functools
import inspect
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, TypeVar, cast

from mqclient.consumer.context import ConsumeContext, Handler, is_async
from mqclient.producer.results import SendResult
from mqcommon import extras
from mqcommon.message import Message, ReceivedMessage
from mqcommon.version import version

extras.load("opentelemetry", "tracing")
from opentelemetry import propagate, trace  # noqa: E402
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode  # noqa: E402

__all__ = ["instrument", "processing", "traced"]

C = TypeVar("C")
SCHEMA_URL = "https://opentelemetry.io/schemas/1.29.0"
Attributes = Mapping[str, Any]


def instrument(client: C, tracer_provider: trace.TracerProvider | None = None) -> C:
    """Have a client make spans, for earlier subscriptions too; returns the client.

    client: a producer, push consumer or lite pull consumer, of either face. A producer makes a
    PRODUCER span of each send and request, and puts its context into the messages' properties; a
    transaction makes one when it begins. A push consumer makes a CONSUMER span of each call of a
    handler. A lite pull consumer makes a CLIENT span of each `poll` that brings messages; for a
    loop, see `processing`. tracer_provider: None is the global one. Raises TypeError for anything
    else.
    """
    tracing = _Tracing(client, tracer_provider)
    wrappers = {
        "send": tracing.around_send,
        "send_async": tracing.around_send_async,
        "send_oneway": tracing.around_send,
        "request": tracing.around_send,
        "request_async": tracing.around_send_async,
        "transaction": tracing.around_transaction,
        "poll": tracing.around_poll,
    }
    found = [name for name in wrappers if hasattr(client, name)]
    inner = getattr(client, "_async", client)
    if hasattr(inner, "_wrap_handlers"):
        inner._wrap_handlers(tracing.around_handler)
    elif not found:
        raise TypeError(f"instrument takes a producer or a consumer, not {type(client).__name__}")
    for name in found:
        original = getattr(client, name)
        setattr(client, name, functools.wraps(original)(wrappers[name](name, original)))
    return client


def traced(
    handler: Handler, group: str, tracer_provider: trace.TracerProvider | None = None
) -> Handler:
    """The same handler with a CONSUMER span around each call.

    A span of one message continues the trace of its sender, and of several has a link to each.
    group: the consumer's, for the spans. tracer_provider: None is the global one.
    """
    attributes = {"messaging.consumer.group.name": group}
    return _traced(handler, is_async(handler), _tracer(tracer_provider), lambda: attributes)


def _traced(
    handler: Handler, on_loop: bool, tracer: trace.Tracer, attributes: Callable[[], Attributes]
) -> Handler:
    """A handler in a span. on_loop: it is awaited. attributes: called when it runs, because the
    client has its id by then.
    """
    if on_loop:

        async def handle_async(messages: list[ReceivedMessage], context: ConsumeContext) -> Any:
            with _process_span(tracer, messages, attributes()):
                return await cast(Any, handler)(messages, context)

        return handle_async

    def handle(messages: list[ReceivedMessage], context: ConsumeContext) -> Any:
        span = _start_process(tracer, messages, attributes())
        result = None
        try:
            with trace.use_span(span, record_exception=False, set_status_on_exception=False):
                result = handler(messages, context)
        except BaseException as error:
            _fail(span, error)
            raise
        finally:
            if not isinstance(result, Future):
                span.end()
        if isinstance(result, Future):  # `async def` on the loop of a blocking consumer
            result.add_done_callback(functools.partial(_end_with, span))
        return result

    return handle


@contextmanager
def processing(
    message: ReceivedMessage,
    group: str | None = None,
    tracer_provider: trace.TracerProvider | None = None,
) -> Iterator[Span]:
    """A CONSUMER span around the handling of one message of a lite pull consumer.

    group: the consumer's, for the span; None leaves it out. tracer_provider: None is the global
    one.
    """
    attributes = {"messaging.consumer.group.name": group} if group else {}
    with _process_span(_tracer(tracer_provider), [message], attributes) as span:
        yield span


class _Tracing:
    """Wraps the methods of one client."""

    def __init__(self, client: Any, tracer_provider: trace.TracerProvider | None) -> None:
        self._client = client
        self._tracer = _tracer(tracer_provider)

    def around_send(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        operation = name.removesuffix("_oneway")
        if inspect.iscoroutinefunction(original):

            async def send_async(message: Any, *args: Any, **options: Any) -> Any:
                with self._sending(operation, message) as span:
                    return _sent(span, await original(message, *args, **options))

            return send_async

        def send(message: Any, *args: Any, **options: Any) -> Any:
            with self._sending(operation, message) as span:
                return _sent(span, original(message, *args, **options))

        return send

    def around_send_async(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        operation = name.removesuffix("_async")

        def send_async(message: Any, *args: Any, **options: Any) -> Any:
            span = self._start(operation, message)

            def end(future: Future[Any]) -> None:
                if not future.cancelled() and future.exception() is None:
                    _sent(span, future.result())
                _end_with(span, future)

            try:
                future = original(message, *args, **options)
            except BaseException as error:
                _fail(span, error)
                span.end()
                raise
            future.add_done_callback(end)
            return future

        return send_async

    def around_transaction(self, _name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def transaction(message: Message, *args: Any, **options: Any) -> Any:
            span = self._start("create", message, {_TYPE: "transaction"})
            span.end()
            return original(message, *args, **options)

        return transaction

    def around_handler(self, handler: Handler, on_loop: bool) -> Handler:
        return _traced(handler, on_loop, self._tracer, self._of_the_consumer)

    def _of_the_consumer(self) -> Attributes:
        settings = _settings(self._client)
        return {
            "messaging.client.id": self._client.client_id,
            "messaging.consumer.group.name": settings.group,
            # Members that pull share the queues, and have no option for it.
            "messaging.rocketmq.consumption_model": getattr(settings, "model", "clustering"),
        }

    def around_poll(self, _name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        if inspect.iscoroutinefunction(original):

            async def poll_async(*args: Any, **options: Any) -> Any:
                begun_ns = time.time_ns()
                return self._received(await original(*args, **options), begun_ns)

            return poll_async

        def poll(*args: Any, **options: Any) -> Any:
            begun_ns = time.time_ns()
            return self._received(original(*args, **options), begun_ns)

        return poll

    def _received(self, messages: list[ReceivedMessage], begun_ns: int) -> list[ReceivedMessage]:
        if messages:
            group = _settings(self._client).group
            attributes = {"messaging.client.id": self._client.client_id}
            attributes |= {"messaging.consumer.group.name": group} if group else {}
            span = self._tracer.start_span(
                _named("receive", messages),
                kind=SpanKind.CLIENT,
                attributes=attributes | _attributes("receive", "receive", messages),
                links=_links(messages),
                start_time=begun_ns,
            )
            span.end()
        return messages

    @contextmanager
    def _sending(self, operation: str, message: Any) -> Iterator[Span]:
        span = self._start(operation, message)
        with trace.use_span(span, end_on_exit=True, record_exception=False), _failing(span):
            yield span

    def _start(self, operation: str, message: Any, more: Attributes | None = None) -> Span:
        """A span of a send; its context is in the messages then."""
        messages = [message] if isinstance(message, Message) else list(_messages(message))
        kind = "create" if operation == "create" else "send"
        span = self._tracer.start_span(
            _named(operation, messages),
            kind=SpanKind.PRODUCER,
            attributes={
                "messaging.client.id": self._client.client_id,
                **_attributes(operation, kind, messages),
                **(more or {}),
            },
        )
        context = trace.set_span_in_context(span)
        for one in messages:
            propagate.inject(one.properties, context)
        return span


_TYPE = "messaging.rocketmq.message.type"


def _tracer(provider: trace.TracerProvider | None) -> trace.Tracer:
    return trace.get_tracer("mqclient", version(), provider, SCHEMA_URL)


def _settings(client: Any) -> Any:
    return getattr(client, "_async", client).settings


def _messages(given: object) -> Iterable[Message]:
    """The messages of a batch; nothing of what `send` will refuse."""
    items = given if isinstance(given, Sequence) else ()
    return (item for item in items if isinstance(item, Message))


def _named(operation: str, messages: Sequence[Message | ReceivedMessage]) -> str:
    """The name of a span: the operation, and the topic if there is one."""
    topics = {message.topic for message in messages}
    return f"{operation} {topics.pop()}" if len(topics) == 1 else operation


def _attributes(
    operation: str, kind: str, messages: Sequence[Message | ReceivedMessage]
) -> dict[str, Any]:
    """The attributes that the conventions require for an operation on messages."""
    found: dict[str, Any] = {
        "messaging.system": "rocketmq",
        "messaging.operation.name": operation,
        "messaging.operation.type": kind,
    }
    topics = {message.topic for message in messages}
    if len(topics) == 1:
        found["messaging.destination.name"] = topics.pop()
    if len(messages) != 1:
        return found | {"messaging.batch.message_count": len(messages)}
    (message,) = messages
    found["messaging.message.body.size"] = len(
        message.body if isinstance(message, Message) else message.stored_body
    )
    if message.tags is not None:
        found["messaging.rocketmq.message.tag"] = message.tags
    if message.keys:
        found["messaging.rocketmq.message.keys"] = list(message.keys)
    if isinstance(message, ReceivedMessage):
        found["messaging.message.id"] = message.msg_id
        found["messaging.destination.partition.id"] = str(message.queue_id)
    elif message.delay_level:
        found[_TYPE] = "delay"
        found["messaging.rocketmq.message.delay_time_level"] = message.delay_level
    return found


def _sent(span: Span, result: Any) -> Any:
    """Add the fields of a send's result; returns the result."""
    if isinstance(result, SendResult):
        if len(result.msg_ids) == 1:
            span.set_attribute("messaging.message.id", result.msg_id)
        queue_id = str(result.message_queue.queue_id)
        span.set_attribute("messaging.destination.partition.id", queue_id)
    return result


def _links(messages: Sequence[ReceivedMessage]) -> list[Link]:
    """A link to the span that sent each message."""
    contexts = (
        trace.get_current_span(propagate.extract(message.properties)).get_span_context()
        for message in messages
    )
    return [Link(context) for context in contexts if context.is_valid]


def _start_process(
    tracer: trace.Tracer, messages: Sequence[ReceivedMessage], attributes: Attributes
) -> Span:
    parent = propagate.extract(messages[0].properties) if len(messages) == 1 else None
    return tracer.start_span(
        _named("process", messages),
        context=parent,
        kind=SpanKind.CONSUMER,
        attributes={**_attributes("process", "process", messages), **attributes},
        links=_links(messages) if parent is None else None,
    )


@contextmanager
def _process_span(
    tracer: trace.Tracer, messages: Sequence[ReceivedMessage], attributes: Attributes
) -> Iterator[Span]:
    span = _start_process(tracer, messages, attributes)
    with (
        trace.use_span(
            span, end_on_exit=True, record_exception=False, set_status_on_exception=False
        ),
        _failing(span),
    ):
        yield span


def _end_with(span: Span, future: Future[Any]) -> None:
    """End a span when its work has ended."""
    error = None if future.cancelled() else future.exception()
    if error is not None:
        _fail(span, error)
    span.end()


@contextmanager
def _failing(span: Span) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        _fail(span, error)
        raise


def _fail(span: Span, error: BaseException) -> None:
    kind = type(error)
    span.set_attribute("error.type", f"{kind.__module__}.{kind.__qualname__}")
    span.record_exception(error)
    span.set_status(Status(StatusCode.ERROR, str(error)))
