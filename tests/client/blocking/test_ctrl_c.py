"""Ctrl-C ends every call that waits.

Each program runs in a process of its own, against a broker. The address of the NameServer is its
first argument.
"""

from __future__ import annotations

import os
import signal
import socket
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from mqserver.embedded.standalone import Standalone
from mqserver.embedded.subprocess_servers import SubprocessServers
from tests.client.programs import Program, run
from tests.waiting import until

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def namesrv(mq_broker: Standalone) -> str:
    return mq_broker.namesrv


@pytest.fixture
def topic(mq_broker: Standalone) -> str:
    return mq_broker.topic()


@pytest.fixture
def silent() -> Iterator[str]:
    """A NameServer that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


BLOCKING = """
    import sys, threading
    from mqclient import Connection, LitePullConsumer, Message, Producer, PushConsumer

    def tell():
        seen, main, pause = 0, threading.main_thread().ident, threading.Event()
        while seen < 5:
            waits = sys._current_frames()[main].f_code.co_name in ("_wait", "wait", "block_on")
            seen = seen + 1 if waits else 0
            pause.wait(0.01)
        print("ready", flush=True)

    namesrv, topic = sys.argv[1:]
    producer = Producer(namesrv, timeout=300, connection=Connection(request_timeout=300))
    push = PushConsumer("push_" + topic, namesrv)
    lite = LitePullConsumer("lite_" + topic, namesrv)
    try:
        {setup}
        threading.Thread(target=tell, daemon=True).start()
        {call}
        print("returned")
    except KeyboardInterrupt:
        print("interrupted")
    {client}.close()
"""
BLOCKING_ON_A_LOOP = """
    import asyncio, sys
    from mqclient.aio import Connection, LitePullConsumer, Message, Producer, PushConsumer

    namesrv, topic = sys.argv[1:]

    async def main():
        producer = Producer(namesrv, timeout=300, connection=Connection(request_timeout=300))
        push = PushConsumer("push_" + topic, namesrv)
        lite = LitePullConsumer("lite_" + topic, namesrv)
        try:
            {setup}
            asyncio.get_running_loop().call_soon(print, "ready")
            {call}
            print("returned")
        finally:
            await {client}.close()

    sys.stdout.reconfigure(line_buffering=True)
    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        print("interrupted")
"""
CALLS = {
    # name: client, setup, the interrupted call, how it ends
    "send": ("producer", "producer.start()", "producer.send(Message(topic, b'x'))"),
    "request": ("producer", "producer.start()", "producer.request(Message(topic, b'x'))"),
    "run": ("push", "push.subscribe(topic, '*', print)", "push.run()"),
    "wait_assigned": (
        "push",
        "push.subscribe('No' + topic, '*', print); push.start()",
        "push.wait_assigned(3600)",
    ),
    "poll": ("lite", "lite.subscribe(topic); lite.start()", "lite.poll(timeout=300)"),
    "next": ("lite", "lite.subscribe(topic); lite.start()", "next(iter(lite))"),
    "lite_wait_assigned": (
        "lite",
        "lite.subscribe('No' + topic); lite.start()",
        "lite.wait_assigned(3600)",
    ),
}


def interrupted(program: str, name: str, namesrv: str, topic: str) -> tuple[int, str, str]:
    client, setup, call = CALLS[name]
    if program is BLOCKING_ON_A_LOOP:
        setup = setup.replace("producer.start()", "await producer.start()")
        setup = setup.replace("; ", "; await ")
        call = "await " + call.replace("next(iter(lite))", "anext(lite)")
    text = textwrap.dedent(program).format(client=client, setup=setup, call=call)
    with Program(text, namesrv, topic) as running:
        running.wait_for("ready")
        return running.end(signal.SIGINT)


@pytest.mark.parametrize("program", [BLOCKING, BLOCKING_ON_A_LOOP], ids=["sync", "aio"])
@pytest.mark.parametrize("name", CALLS)
def test_ctrl_c_ends_every_call_that_waits(
    namesrv: str, silent: str, topic: str, name: str, program: str
) -> None:
    """Senders ask a NameServer that never answers; consumers wait for messages or for a topic."""
    server = silent if name == "send" else namesrv
    wanted = "returned\n" if name == "run" else "interrupted\n"
    code, out, log = interrupted(program, name, server, topic)
    told = [line for line in log.splitlines() if f"of topic No{topic} until it exists" not in line]
    assert (code, out, told) == (0, wanted, [])


def test_ctrl_c_ends_a_send_to_a_broker_that_hangs() -> None:
    """The route is known, so the sending thread itself waits for the answer."""
    text = textwrap.dedent(BLOCKING).format(
        client="producer",
        setup="producer.start(); producer.send(Message(topic, b'x')); print('sent', flush=True); "
        "sys.stdin.readline()",
        call="producer.send(Message(topic, b'x'))",
    )
    with Standalone(process=True) as mq, Program(text, mq.namesrv, mq.topic()) as running:
        running.wait_for("sent")
        assert isinstance(mq.servers, SubprocessServers)
        os.kill(mq.servers.pid, signal.SIGSTOP)
        threads = list(Path(f"/proc/{mq.servers.pid}/task").iterdir())
        assert until(lambda: all(" T " in (one / "stat").read_text() for one in threads))
        assert running.process.stdin
        running.process.stdin.write("\n")
        running.process.stdin.flush()
        running.wait_for("ready")
        assert running.end(signal.SIGINT) == (0, "interrupted\n", "")
        mq.kill()


ANOTHER_THREADS = """
    import signal, sys, threading
    from mqclient import LitePullConsumer

    namesrv, topic = sys.argv[1:]

    def receive():
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)

    with LitePullConsumer("lite_" + topic, namesrv) as consumer:
        consumer.subscribe(topic)
        threading.Timer(0.2, receive).start()
        try:
            consumer.poll(timeout=300)
        except KeyboardInterrupt:
            print("interrupted")
"""


def test_ctrl_c_that_another_thread_receives_ends_a_call(namesrv: str, topic: str) -> None:
    """The kernel chooses the thread. Python runs the handler only when the main thread wakes."""
    assert run(ANOTHER_THREADS, namesrv, topic) == (0, "interrupted\n", "")
