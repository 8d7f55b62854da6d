"""How clients behave inside a process of the user: forks, signals, exits, blocked loops, files.

Each program runs in a process of its own, against a broker. The address of the NameServer is its
first argument.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

from mqclient import Connection, LitePullConsumer, Message, Producer, PushConsumer, aio
from mqclient.consumer.push import queue_locks
from mqcommon.message import MessageQueue
from mqcommon.wire.calls import offset_calls
from mqserver.embedded.standalone import Standalone
from mqserver.embedded.testing import Probe
from tests.client.cluster import NAMESRV, Cluster
from tests.client.programs import Program, run
from tests.waiting import until

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def namesrv(mq_broker: Standalone) -> str:
    return mq_broker.namesrv


@pytest.fixture
def topic(mq_broker: Standalone) -> str:
    return mq_broker.topic()


# --- processes


IN_PROCESSES = """
    import concurrent.futures, multiprocessing, sys
    from mqclient import ClosedError, Message, Producer, PushConsumer

    namesrv, topic, method = sys.argv[1:]
    parents = None

    def in_child(number):
        if parents is not None:  # a fork copies it
            try:
                parents.send(Message(topic, b"x"))
            except ClosedError as error:
                assert "make a new one after" in str(error), error
            parents.close()
        with Producer(namesrv) as own:
            return own.send(Message(topic, b"child %d" % number)).status.value

    if __name__ == "__main__":
        with Producer(namesrv) as parents, PushConsumer("parents", namesrv) as consumer:
            consumer.subscribe(topic, "*", lambda messages, context: None)
            parents.send(Message(topic, b"parent"))
            context = multiprocessing.get_context(method)
            with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as pool:
                print(*pool.map(in_child, range(4)))
            parents.send(Message(topic, b"parent again"))
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_child_process_makes_clients_of_its_own(
    mq_broker: Standalone, topic: str, method: str, tmp_path: Path
) -> None:
    script = tmp_path / "script.py"  # spawn imports the main module again
    script.write_text(textwrap.dedent(IN_PROCESSES))
    command = [sys.executable, str(script), mq_broker.namesrv, topic, method]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "SEND_OK " * 3 + "SEND_OK\n", "")
    found = sorted(message.body for message in mq_broker.messages(topic))
    assert found == [b"child 0", b"child 1", b"child 2", b"child 3", b"parent", b"parent again"]


FORKED_ON_A_LOOP = """
    import asyncio, os, sys, traceback, warnings
    from mqclient.aio import ClosedError, LitePullConsumer, Message, Producer, PushConsumer

    namesrv, topic = sys.argv[1:]

    async def handle(messages, context):
        pass

    async def refused(call):
        try:
            await call()
        except ClosedError as error:
            assert "make a new one after" in str(error), error
        else:
            raise AssertionError("a client of the parent works in the child")

    async def in_child(producer, push, lite):
        await refused(lambda: producer.send(Message(topic, b"x")))
        await refused(push.wait_assigned)
        await refused(lite.poll)
        async with Producer(namesrv) as own:
            await own.send(Message(topic, b"child"))

    async def main():
        push = PushConsumer("push_" + topic, namesrv)
        push.subscribe(topic, "*", handle)
        lite = LitePullConsumer("lite_" + topic, namesrv)
        lite.subscribe(topic)
        async with Producer(namesrv) as producer, push, lite:
            await producer.send(Message(topic, b"parent"))
            warnings.simplefilter("ignore", DeprecationWarning)  # of forks with threads
            child = os.fork()
            if child == 0:
                try:
                    asyncio.run(in_child(producer, push, lite))
                    print("the child ends", flush=True)
                    os._exit(0)
                finally:
                    traceback.print_exc()
                    os._exit(1)
            _, status = await asyncio.to_thread(os.waitpid, child, 0)
            await producer.send(Message(topic, b"parent again"))
            print("exit code", os.waitstatus_to_exitcode(status))

    asyncio.run(main())
"""


def test_a_forked_child_of_a_loop_makes_clients_of_its_own(
    mq_broker: Standalone, topic: str
) -> None:
    output = run(FORKED_ON_A_LOOP, mq_broker.namesrv, topic)
    assert output == (0, "the child ends\nexit code 0\n", "")
    found = sorted(message.body for message in mq_broker.messages(topic))
    assert found == [b"child", b"parent", b"parent again"]


@pytest.mark.parametrize("face", [Producer, PushConsumer, LitePullConsumer, aio.Producer])
def test_a_client_cannot_be_sent_to_another_process(face: type) -> None:
    client = face("127.0.0.1:9876") if face.__name__ == "Producer" else face("g")
    with pytest.raises(TypeError, match="cannot pickle"):
        pickle.dumps(client)


# --- the end of the interpreter


LEFT_RUNNING = """
    import sys, threading, warnings
    from mqclient import LitePullConsumer, Message, Producer, PushConsumer

    warnings.simplefilter("ignore", ResourceWarning)  # unclosed clients are reported by it
    namesrv, topic = sys.argv[1:]
    handling = threading.Event()

    def handle(messages, context):
        handling.set()
        threading.Event().wait()

    producer = Producer(namesrv)
    producer.start()
    producer.send(Message(topic, b"x"))
    push = PushConsumer("left_" + topic, namesrv, consume_from="earliest")
    push.subscribe(topic, "*", handle)
    push.start()
    assert handling.wait(60)
    lite = LitePullConsumer("lite_" + topic, namesrv, consume_from="earliest")
    lite.subscribe(topic)
    lite.start()
    assert lite.poll(timeout=60)
    print("the end")
"""

LEFT_RUNNING_ON_A_LOOP = """
    import asyncio, sys, warnings
    from mqclient.aio import LitePullConsumer, Message, Producer, PushConsumer

    warnings.simplefilter("ignore", ResourceWarning)
    namesrv, topic = sys.argv[1:]

    async def main():
        handling = asyncio.Event()

        async def handle(messages, context):
            handling.set()
            await asyncio.sleep(3600)

        producer = Producer(namesrv)
        await producer.start()
        await producer.send(Message(topic, b"x"))
        push = PushConsumer("left_" + topic, namesrv, consume_from="earliest")
        push.subscribe(topic, "*", handle)
        await push.start()
        await asyncio.wait_for(handling.wait(), 60)
        lite = LitePullConsumer("lite_" + topic, namesrv, consume_from="earliest")
        lite.subscribe(topic)
        await lite.start()
        assert await lite.poll(timeout=60)
        print("the end")

    asyncio.run(main())
"""


def test_an_exit_with_running_aio_clients_is_clean(namesrv: str, topic: str) -> None:
    assert run(LEFT_RUNNING_ON_A_LOOP, namesrv, topic) == (0, "the end\n", "")


def test_an_exit_with_running_consumers_closes_them(namesrv: str, topic: str) -> None:
    code, out, errors = run(LEFT_RUNNING, namesrv, topic)
    assert (code, out) == (0, "the end\n")
    lines = sorted(errors.splitlines())
    assert len(lines) == 3, errors
    assert lines[0].startswith("1 handlers still run after 5 s")
    assert lines[1].startswith(f"<LitePullConsumer lite_{topic} ")
    assert lines[2].startswith(f"<PushConsumer left_{topic} ")
    assert "was not closed" in lines[1] and "was not closed" in lines[2]


# --- SIGTERM


DRAINING = """
    import sys, threading
    from mqclient import PushConsumer

    namesrv, topic = sys.argv[1:]
    stop = threading.Event()

    def handle(message):
        print("began", flush=True)
        stop.wait(1.0)
        print("finished", flush=True)

    consumer = PushConsumer("draining_" + topic, namesrv, threads=1, consume_from="earliest")
    consumer.on_message(topic)(handle)
    consumer.run()
    print("returned")
"""
DRAINING_ON_A_LOOP = """
    import asyncio, sys
    from mqclient.aio import PushConsumer

    namesrv, topic = sys.argv[1:]

    async def handle(message):
        print("began", flush=True)
        await asyncio.sleep(1.0)
        print("finished", flush=True)

    async def main():
        consumer = PushConsumer("draining_" + topic, namesrv, threads=1, consume_from="earliest")
        consumer.on_message(topic)(handle)
        await consumer.run()
        print("returned")

    asyncio.run(main())
"""


@pytest.mark.parametrize("program", [DRAINING, DRAINING_ON_A_LOOP], ids=["sync", "aio"])
def test_sigterm_lets_the_message_in_hand_finish(mq_broker: Standalone, program: str) -> None:
    topic = mq_broker.topic(queues=1)
    with Producer(mq_broker.namesrv) as producer:
        producer.send([Message(topic, b"in hand"), Message(topic, b"next"), Message(topic, b"x")])
    with Program(program, mq_broker.namesrv, topic) as running:
        running.wait_for("began")
        assert running.end(signal.SIGTERM) == (0, "finished\nreturned\n", "")
    with LitePullConsumer(f"draining_{topic}", mq_broker.namesrv) as reader:
        (queue,) = reader.queues(topic)
        assert reader.committed(queue) == 1, "the messages after it are left to other members"


# --- blocked loops


def test_heartbeats_go_on_while_the_users_loop_is_blocked() -> None:
    """The blocking clients have a loop of their own: 2 minutes without a heartbeat, and a broker
    gives a member's queues to others.
    """
    cluster = Cluster(T=1)
    cluster.put("T", b"1")
    handling, over = threading.Event(), threading.Event()

    def handle(_messages: object, _context: object) -> None:
        handling.set()
        assert over.wait(60)

    async def blocked() -> None:
        before = len(cluster.heartbeats)
        assert until(lambda: len(cluster.heartbeats) >= before + 3)  # it blocks: no `await`

    options = {"transport": cluster.transport, "consume_from": "earliest"}
    consumer = PushConsumer("g", NAMESRV, connection=Connection(heartbeat_interval=0.01), **options)  # type: ignore
    consumer.subscribe("T", "*", handle)
    with consumer:
        assert handling.wait(60)
        asyncio.run(blocked())
        assert consumer.assignment()
        over.set()


async def test_heartbeats_go_on_while_a_loop_with_clients_is_blocked() -> None:
    """A thread repeats the last heartbeat that the loop sent."""
    cluster = Cluster(T=1)
    options = {"transport": cluster.transport, "connection": Connection(heartbeat_interval=0.01)}
    consumer = aio.PushConsumer("g", NAMESRV, **options)  # type: ignore[arg-type]
    consumer.subscribe("T", "*", lambda _messages, _context: None)
    async with consumer:
        await consumer.wait_assigned()
        before = len(cluster.heartbeats)
        assert until(lambda: len(cluster.heartbeats) >= before + 3)  # it blocks: no `await`
        last = cluster.heartbeats[-1]
        assert last.client_id == cluster.members[0]
        assert [data.group_name for data in last.consumer_data_set] == ["g"]
    beats = len(cluster.heartbeats)
    assert until(lambda: "mqclient-backup" not in {one.name for one in threading.enumerate()})
    assert len(cluster.heartbeats) == beats


async def test_locks_are_renewed_while_the_loop_is_blocked(
    mq: Standalone, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_locks, "LOCK_INTERVAL", 0.05)  # interval of the thread
    topic = mq.topic(queues=1)
    queue = MessageQueue(topic, "broker-a", 0)
    consumer = aio.PushConsumer("g_blocked", mq.namesrv, orderly=True)
    consumer.subscribe(topic, "*", lambda _messages, _context: None)
    async with consumer:
        await consumer.wait_assigned()
        with Probe(mq.broker_address) as broker:
            forget = offset_calls.unlock_queues("g_blocked", consumer.client_id, [queue])
            take = offset_calls.lock_queues("g_blocked", "another", [queue])
            give = offset_calls.unlock_queues("g_blocked", "another", [queue])

            def is_ours_again() -> bool:
                taken = take.result(broker.call(take.request), "")
                broker.call(give.request)
                return not taken

            broker.call(forget.request)
            assert until(is_ours_again)  # it blocks: no `await`


FORGOTTEN = """
    import asyncio, gc, sys, threading, warnings
    from mqclient import aio

    namesrv, topic = sys.argv[1:]
    warnings.simplefilter("ignore", ResourceWarning)

    async def start():
        consumer = aio.PushConsumer("g_forgotten", namesrv)
        consumer.subscribe(topic, "*", print)
        await consumer.start()

    def leave_a_client_behind():
        loop = asyncio.new_event_loop()
        loop.set_exception_handler(lambda loop, context: None)  # tasks that never end
        loop.run_until_complete(start())
        return [one for one in threading.enumerate() if one.name == "mqclient-backup"]

    (thread,) = leave_a_client_behind()
    gc.collect()
    thread.join(20)
    assert not thread.is_alive()
"""


def test_a_client_dropped_with_its_loop_is_collected(namesrv: str, topic: str) -> None:
    code, _, complaints = run(FORGOTTEN, namesrv, topic)
    assert code == 0, complaints


# --- files


WRITING = """
    import sys
    from mqclient import LitePullConsumer, Message, Producer, PushConsumer

    namesrv, topic = sys.argv[1:]
    with Producer(namesrv) as producer:
        producer.send(Message(topic, b"x"))
    with PushConsumer("all_" + topic, namesrv, model="broadcasting") as consumer:
        consumer.subscribe(topic, "*", print)
        consumer.wait_assigned()
    with LitePullConsumer("lite_" + topic, namesrv, consume_from="earliest") as consumer:
        consumer.subscribe(topic)
        print(len(consumer.poll(timeout=60)))
"""


def test_nothing_is_written_to_the_home_directory(namesrv: str, topic: str, tmp_path: Path) -> None:
    """RocketMQ's client writes its logs and broadcasting offsets to the home directory."""
    home = tmp_path / "home"
    home.mkdir()
    places = {"HOME": str(home), "XDG_CONFIG_HOME": "", "XDG_CACHE_HOME": ""}
    assert run(WRITING, namesrv, topic, **places) == (0, "1\n", "")
    for command in (["send", topic, "x"], ["tail", topic, "--from", "earliest", "--count", "1"]):
        line = [sys.executable, "-m", "mqclient.cli", *command, "-n", namesrv]
        subprocess.run(line, env={**os.environ, **places}, check=True, capture_output=True)
    assert list(home.iterdir()) == []
