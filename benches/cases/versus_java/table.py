"""The rows with the goals of the design; the goal is "better than Java" if it sets none."""

from __future__ import annotations

from benches.cases.versus_java.at_rest import Memory, Start
from benches.cases.versus_java.loads import ONEWAY_SECONDS_MAX, Connections, Latency, Oneway
from benches.cases.versus_java.routes import Routes
from benches.cases.versus_java.rows import Goal, Need, Row
from benches.cases.versus_java.under_load import ASYNC, SYNC, Load, NativeSend, OpenLoop, paced_java
from benches.lib.java_client import JavaConsume, JavaSend
from benches.lib.loads import Case

RATE, CPU = "messages_per_s", "broker_cpu_us_per_message"
BATCH = 32
BATCH_BODY = 128
BATCH_THREADS = 16


def at_least(figure: str, value: float) -> Goal:
    """A goal: the median must not be lower than `value`."""
    return Goal(figure, Need.AT_LEAST, value)


def at_most(figure: str, value: float) -> Goal:
    """A goal: the median must not be higher than `value`."""
    return Goal(figure, Need.AT_MOST, value)


def times_java(value: float = 1.0, figure: str = RATE) -> Goal:
    """A goal: the median must be at least `value` times the faster Java server's."""
    return Goal(figure, Need.TIMES_JAVA, value)


def routes(brokers: int, goal: float) -> Row:
    """A row: routes per second of a topic of `brokers` brokers."""
    return Row(
        f"routes-{brokers}",
        f"NameServer, routes of a topic of {brokers} brokers",
        Routes(brokers),
        (
            at_least("routes_per_s", goal),
            at_most("namesrv_anonymous_mb", 100),
            times_java(1, "routes_per_s"),
        ),
        "routes_per_s",
    )


def java_send(threads: int, batch: int = 1, body_bytes: int = 1024, flush: str = ASYNC) -> Load:
    """A load: the Java client's synchronous sends."""
    return Load(
        lambda session: JavaSend(session.client, threads, batch, body_bytes),
        flush,
        beside_disk=flush == SYNC and threads == 1,
        beside_limit=True,
    )


def native(
    case: Case, flush: str = ASYNC, seconds: float | None = None, limit: bool = False
) -> Load:
    """A load of our own generator."""
    is_lone_sync = flush == SYNC and case.threads == 1
    return Load(lambda _: case, flush, case.consume, seconds, is_lone_sync, limit)


JAVA_BACKLOG = Load(lambda of: JavaConsume(of.client, of.backlog_messages), backlog=True)
BATCHES = Case("batches", BATCH_THREADS, produce={"batch": BATCH, "body_bytes": BATCH_BODY})
IN_FLIGHT = {"in_flight": 64}
PACED = NativeSend("paced", produce=IN_FLIGHT)
HALF = Goal("p999_us", Need.OF_JAVA, 0.5)
LATENCY = Latency(10_000.0)
STORM = Connections(5_000)
NONE_FAILED = at_most("failed", 0)

ROWS = (
    Row(
        "java-async-64",
        "Java client, 64 threads",
        java_send(64),
        (times_java(1.8), at_most(CPU, 5)),
    ),
    Row("java-async-1", "Java client, 1 thread", java_send(1), (times_java(2.2), at_most(CPU, 16))),
    Row(
        "java-batch",
        "Java client, 16 threads, batches of 32 x 128 B",
        java_send(BATCH_THREADS, BATCH, BATCH_BODY),
        (times_java(2),),
    ),
    Row(
        "java-sync-64",
        "Java client, SYNC_FLUSH, 64 threads",
        java_send(64, flush=SYNC),
        (times_java(1.8),),
    ),
    Row(
        "java-sync-1",
        "Java client, SYNC_FLUSH, 1 thread",
        java_send(1, flush=SYNC),
        (times_java(), at_most("added_us", 120)),
    ),
    Row("java-consume", "Java client, consume a backlog", JAVA_BACKLOG, (times_java(),)),
    Row(
        "java-open-loop",
        "Java client, 64 threads, open loop",
        OpenLoop(paced_java(64)),
        (HALF,),
        "p999_us",
    ),
    Row(
        "native-async-64",
        "Native client, 64 in flight on one connection",
        native(Case("64", produce=IN_FLIGHT)),
        (times_java(),),
    ),
    Row(
        "native-async-64-rocketmq",
        "Native client, 64 in flight, ROCKETMQ headers, rounds of 10 s",
        native(Case("64", produce=IN_FLIGHT, headers="rocketmq"), seconds=10.0, limit=True),
        (at_least(RATE, 400_000), times_java()),
    ),
    Row(
        "native-async-64-threads",
        "Native client, 64 threads",
        native(Case("64", 64)),
        (times_java(),),
    ),
    Row(
        "native-async-1",
        "Native client, 1 thread",
        native(Case("1")),
        (at_most("p50_us", 60), times_java()),
    ),
    Row(
        "native-batch",
        "Native client, 16 threads, batches of 32 x 128 B",
        native(BATCHES),
        (at_least(RATE, 1_000_000), times_java()),
    ),
    Row(
        "native-sync-64",
        "Native client, SYNC_FLUSH, 64 threads",
        native(Case("64", 64), SYNC),
        (times_java(),),
    ),
    Row(
        "native-sync-1",
        "Native client, SYNC_FLUSH, 1 thread",
        native(Case("1"), SYNC),
        (at_most("added_us", 60), times_java()),
    ),
    Row(
        "native-consume",
        "Native client, consume a backlog",
        native(Case("backlog", consume=True)),
        (at_least(RATE, 600_000), at_most(CPU, 1), times_java()),
    ),
    Row(
        "native-open-loop",
        "Native client, open loop",
        OpenLoop(lambda _: PACED),
        (HALF,),
        "p999_us",
    ),
    Row(
        "native-latency",
        f"Native client, from a message's sender to its reader, {LATENCY.rate:,.0f} messages/s",
        Load(lambda _: LATENCY),
        (Goal("p50_us", Need.OF_JAVA, 1), Goal("p999_us", Need.OF_JAVA, 1), NONE_FAILED),
        "p999_us",
    ),
    Row(
        "native-connect",
        f"Native client, {STORM.connections:,} connections at once",
        Load(lambda _: STORM, seconds=0.0),
        (times_java(1, "connections_per_s"), NONE_FAILED),
        "connections_per_s",
    ),
    Row(
        "native-oneway",
        "Native client, oneway on one connection, what is stored",
        Load(lambda _: Oneway(), seconds=ONEWAY_SECONDS_MAX),
        (times_java(),),
    ),
    Row(
        "memory",
        "Memory of the broker",
        Memory(),
        (at_most("idle_anonymous_mb", 30), at_most("anonymous_mb", 100)),
        "anonymous_mb",
    ),
    Row(
        "start",
        "Start, empty store, to the open port",
        Start(),
        (at_most("broker_start_ms", 120), at_most("namesrv_start_ms", 120), at_most("call_ms", 50)),
        "broker_start_ms",
    ),
    routes(4, 40_000),
    routes(100, 10_000),
)
