"""Options of producers."""

from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY
from typing import Annotated, Any, Generic

from mqclient.engine.callables import check_takes
from mqclient.engine.metrics import ClientMetrics
from mqclient.engine.middleware import Middleware, middleware_of
from mqclient.engine.namespace import Namespace
from mqclient.engine.serializing import Serialize, W, check_serializer
from mqclient.producer.transactions.state import CheckHandler
from mqclient.settings.checks import check_group, check_topic
from mqclient.settings.clients import COUNTS, ClientOptions, Namesrv, connection_of
from mqclient.settings.declare import ANSWER_MAX_S, Option, by_value, changed, declared
from mqclient.settings.values import CheckLimits, Compression, Linger, Retry, SendLimits, Trace

__all__ = ["ProducerOptions", "SendOptions", "TransactionOptions", "producer_options"]

BODY_BYTES_MAX = 4 * 1024 * 1024


def _topics(name: str, topics: Iterable[str]) -> tuple[str, ...]:
    if isinstance(topics, (str, bytes, Mapping)) or not isinstance(topics, Iterable):
        raise TypeError(f"{name} must be a list of topics, not {topics!r}")
    return tuple(map(check_topic, topics))


def _check(name: str, check: Any) -> Any:
    check_takes(name, check, "message")
    return check


Group = Annotated[str, Option("producer group", read=by_value(check_group), kind="str")]

WRITES = Option(
    "makes the bodies of `message()`: an object with dumps(value), such as Json(), or a function "
    "of the value; None takes bytes",
    read=check_serializer,
    kind="Serializer | Callable",
)


@declared
class SendOptions(ClientOptions, Generic[W]):
    """Options of every producer."""

    _: KW_ONLY
    group: Group = "PYTHON_PRODUCER"
    timeout: Annotated[
        float, Option("longest time for a whole send, retries included", "s", 0.001, ANSWER_MAX_S)
    ] = 3.0
    retry: Annotated[Retry, Option("when a message is sent again")] = Retry()
    linger: Annotated[
        Linger | None,
        Option("gather messages of a topic into batches; None sends each at once"),
    ] = None
    limits: Annotated[
        SendLimits, Option("most messages and bytes in flight; further sends wait")
    ] = SendLimits()
    compression: Annotated[
        Compression | None, Option("how large bodies are compressed; None compresses nothing")
    ] = Compression()
    body_bytes_max: Annotated[
        int, Option("largest body; a larger message raises ValueError", "bytes", 1, 1 << 30)
    ] = BODY_BYTES_MAX
    avoid_slow_brokers: Annotated[
        bool,
        Option("avoid brokers with slow or failed sends, as sendLatencyFaultEnable does"),
    ] = False
    serializer: Annotated[Serialize[W] | None, WRITES] = None
    middleware: Annotated[
        Iterable[Middleware],
        Option(
            "generator functions around each send, the first one outermost; each gets the message "
            "or the list of messages and a SendContext, and yields once",
            read=middleware_of("message"),
            kind="list[Callable]",
        ),
    ] = ()
    metrics: Annotated[ClientMetrics | None, COUNTS] = None
    trace: Annotated[
        Trace | None, Option("send a record of each stored message; None sends none")
    ] = None
    default_topic_queues: Annotated[
        int,
        Option("queues of a topic that the broker creates on the first send", "queues", 1, 65_535),
    ] = 4
    queue_index_start: Annotated[
        int | None,
        Option(
            "index of the first queue to use; None starts at a random one, as RocketMQ does",
            "",
            0,
            1 << 31,
        ),
    ] = None

    def _check(self) -> None:
        object.__setattr__(self, "group", check_group(Namespace(self.namespace).wrap(self.group)))


@declared
class ProducerOptions(SendOptions[W]):
    """Options of a producer."""

    namesrv: Namesrv = None
    _: KW_ONLY
    # Again, because pyright does not infer W from a field of the base.
    serializer: Annotated[Serialize[W] | None, WRITES] = None


def producer_options(
    client: ClientOptions, group: str, *, trace: bool, unit: str | None
) -> ProducerOptions:
    """The options of a producer that connects as another client does."""
    shared = changed(connection_of(client), client_id=changed(client.client_id, unit=unit))
    return ProducerOptions(group=group, trace=Trace() if trace else None, **vars(shared))


@declared
class TransactionOptions(SendOptions[W]):
    """Options of a transaction producer."""

    group: Annotated[
        str,
        Option(
            "producer group; its members answer for each other's transactions",
            read=by_value(check_group),
            kind="str",
        ),
    ]
    namesrv: Namesrv = None
    _: KW_ONLY
    serializer: Annotated[Serialize[W] | None, WRITES] = None
    check: Annotated[
        CheckHandler,
        Option(
            "gets a message whose transaction the broker asks about, also one that another member "
            "sent or that was sent before a restart; returns a TransactionState, or None for "
            "UNKNOWN",
            read=_check,
            kind="Callable",
        ),
    ]
    check_limits: Annotated[
        CheckLimits, Option("checks that run in parallel, and that wait to run")
    ] = CheckLimits()
    topics: Annotated[
        Iterable[str],
        Option(
            "topics to announce the producer for at its start, so that their brokers can send it "
            "checks for messages from before a restart; needed only if the brokers do not create "
            "topics (autoCreateTopicEnable=false)",
            read=_topics,
            kind="list[str]",
        ),
    ] = ()
