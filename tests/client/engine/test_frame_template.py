"""Requests made from a template: what goes out, and how answers come back."""

import asyncio
import contextlib
import gc
import pickle
import signal
import weakref
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from mqclient.blocking.loop_thread import LoopThread
from mqclient.engine.transport import Transport
from mqclient.errors import ClientTimeout, ClosedError
from mqclient.producer.results import SendResult, SendStatus
from mqcommon.message import MessageQueue
from mqcommon.wire.frame import Frame, FrameError, decode, encode

DEADLINE = 60.0
SENT = {"msgId": "7F00000100002A9F0000000000000001", "queueId": "3", "queueOffset": "41"}
PULLED = {
    "suggestWhichBrokerId": "1", "nextBeginOffset": "7", "minOffset": "2", "maxOffset": "9",
}  # fmt: skip


class Broker:
    """Answers every request with `answer`, or not at all if it is None; records the frames."""

    def __init__(self, answer: Frame | None) -> None:
        self.answer = answer
        self.together = 1
        """Number of answers that leave in one write."""
        self.received: asyncio.Queue[Frame] = asyncio.Queue()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[str]:
        server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        yield f"{host}:{port}"
        server.close()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answers: list[bytes] = []
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                word = await reader.readexactly(4)
                frame = decode(word + await reader.readexactly(int.from_bytes(word)))
                self.received.put_nowait(frame)
                if self.answer is not None and not frame.is_oneway:
                    answer = frame.reply(
                        self.answer.code, "why", self.answer.fields, self.answer.body
                    )
                    answers.append(encode(answer))
                if answers and len(answers) >= self.together:
                    writer.write(b"".join(answers))
                    answers.clear()
        writer.close()


@pytest.fixture
def broker() -> Broker:
    """A transport that reports every message as stored, until a test sets another answer."""
    return Broker(Frame(0, SENT))


@pytest.fixture
async def address(broker: Broker) -> AsyncIterator[str]:
    async with broker.running() as address:
        yield address


@pytest.fixture
async def transport(address: str) -> AsyncIterator[Transport]:
    transport = Transport()
    yield transport
    await transport.aclose()


def template(address: str, reply: str, serialize: int = 1):
    fields = [("a", "group"), ("f", None), ("i", None), ("k", "false"), ("l", None)]
    return Transport.template(address, 310, fields, serialize, reply)


@pytest.mark.parametrize("serialize", [0, 1])
async def test_fields_go_out_in_order_and_none_is_left_out(broker, address, transport, serialize):
    made = template(address, "sent", serialize)
    await transport.request(made, (-7, "p\x01é\x02", None), b"body", DEADLINE)
    request = await broker.received.get()
    assert list(request.fields.items()) == [
        ("a", "group"), ("f", "-7"), ("i", "p\x01é\x02"), ("k", "false"),
    ]  # fmt: skip
    assert (request.code, request.body, request.serialize) == (310, b"body", serialize)
    assert request.language == 3
    assert request.version == 407
    assert not request.is_oneway


async def test_what_is_not_a_request_is_refused(address, transport):
    made = template(address, "sent")
    with pytest.raises(TypeError, match="3 open fields, 2 values"):
        await transport.request(made, (0, ""), b"", DEADLINE)
    with pytest.raises(FrameError, match="limit"):
        await transport.request(made, (0, "", None), bytes(1 << 24), DEADLINE)
    with pytest.raises(FrameError, match="bytes of text"):
        await transport.request(made, (0, "x" * (3 << 20), None), b"", DEADLINE)
    assert (await transport.request(made, (0, "", None), b"", DEADLINE)).queue_id == 3
    with pytest.raises(ValueError, match="reply kind"):
        template(address, "perhaps")


@pytest.mark.parametrize("code", [0, 10, 11, 12])
async def test_a_stored_message_is_read_without_a_frame(broker, address, transport, code):
    extra = {"transactionId": "t", "MSG_REGION": "R", "TRACE_ON": "false"}
    broker.answer = Frame(code, {**SENT, **extra})
    reply = await transport.request(template(address, "sent"), (0, "", None), b"", DEADLINE)
    assert (reply.code, reply.queue_id, reply.queue_offset) == (code, 3, 41)
    assert (reply.offset_msg_id, reply.transaction_id) == (SENT["msgId"], "t")
    assert (reply.region_id, reply.trace_on) == ("R", False)


@pytest.mark.parametrize(
    "answer",
    [
        Frame(2, {}),
        Frame(0, {"msgId": "x"}),
        Frame(0, {**SENT, "queueOffset": "many"}),
    ],
)
async def test_any_other_answer_is_a_frame(broker, address, transport, answer):
    broker.answer = answer
    reply = await transport.request(template(address, "sent"), (0, "", None), b"", DEADLINE)
    assert (reply.code, reply.remark, reply.fields) == (answer.code, "why", answer.fields)


@pytest.mark.parametrize("code", [0, 19, 20, 21])
async def test_a_pull_is_numbers_and_a_body(broker, address, transport, code):
    broker.answer = Frame(code, PULLED, b"records")
    made = template(address, "pulled")
    reply = await transport.request(made, (0, "", None), b"", DEADLINE)
    assert reply == (code, 7, 2, 9, 1, b"records")


async def test_timeout_oneway_and_closing(broker, address, transport):
    broker.answer = None
    made = template(address, "sent")
    values = (0, "", None)
    with pytest.raises(ClientTimeout, match=f"no reply from {address}"):
        await transport.request(made, values, b"", 0.05)
    await transport.request(made, values, b"", DEADLINE, oneway=True)
    while not (await broker.received.get()).is_oneway:  # late request, probe
        pass
    waiting = transport.request(made, values, b"", DEADLINE)
    await broker.received.get()
    await transport.aclose()
    with pytest.raises(ClosedError):
        await waiting
    with pytest.raises(ClosedError):
        transport.block_on(made, values, b"", DEADLINE)


async def test_a_thread_waits_past_the_loop(broker, address, transport):
    made = template(address, "sent")
    await transport.request(made, (0, "", None), b"", DEADLINE)

    def send(timeout):
        return transport.block_on(made, (0, "", None), b"x", timeout)

    replies = await asyncio.gather(*(asyncio.to_thread(send, DEADLINE) for _ in range(20)))
    assert {reply.queue_offset for reply in replies} == {41}
    broker.answer = Frame(2)
    assert (await asyncio.to_thread(send, DEADLINE)).code == 2
    broker.answer = None
    with pytest.raises(ClientTimeout):
        await asyncio.to_thread(send, 0.05)


async def test_threads_answered_together_do_not_wait_for_absent_ones(broker, address, transport):
    made = template(address, "sent")
    await transport.request(made, (0, "", None), b"", DEADLINE)
    broker.together = count = 12
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(count) as pool:
        for _ in range(3):
            calls = [
                loop.run_in_executor(pool, transport.block_on, made, (0, "", None), b"x", DEADLINE)
                for _ in range(count)
            ]
            replies = await asyncio.gather(*calls)
            assert {reply.queue_offset for reply in replies} == {41}


class Interrupted(Exception):
    pass


def test_a_signal_ends_the_wait_of_the_main_thread():
    def interrupt(*_):
        raise Interrupted

    thread, broker, stack = LoopThread(), Broker(None), contextlib.AsyncExitStack()

    async def start() -> tuple[Transport, str]:
        address = await stack.enter_async_context(broker.running())
        transport = Transport()
        await transport.request(
            template(address, "sent"), (0, "", None), b"", DEADLINE, oneway=True
        )
        return transport, address

    transport, address = thread.run(start())
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with pytest.raises(Interrupted):
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            transport.block_on(template(address, "sent"), (0, "", None), b"", DEADLINE)
        broker.answer = Frame(0, SENT)
        reply = transport.block_on(template(address, "sent"), (0, "", None), b"", DEADLINE)
        assert reply.queue_offset == 41
    finally:
        signal.signal(signal.SIGALRM, before)
        thread.run(transport.aclose())
        thread.run(stack.aclose())
        thread.stop()


async def test_a_result_compares_prints_and_pickles_by_its_values(broker, address, transport):
    broker.answer = Frame(10, SENT)
    reply = await transport.request(template(address, "sent"), (0, "", None), b"", DEADLINE)
    result = SendResult(reply, "id", MessageQueue("T", "b", 0))
    copy = pickle.loads(pickle.dumps(result))
    assert copy == result
    assert copy.status is SendStatus.FLUSH_DISK_TIMEOUT
    assert copy.message_queue == MessageQueue("T", "b", 3)
    assert copy.region_id == "DefaultRegion"
    assert copy.trace_on
    assert "queue_offset=41" in repr(copy)
    assert result != "SEND_OK"


async def test_an_open_transport_is_collected_with_its_future():
    async def leave_open() -> weakref.ref[Transport]:
        broker, transport = Broker(None), Transport()
        async with broker.running() as address:
            waiting = transport.request(template(address, "sent"), (0, "", None), b"", DEADLINE)
            await broker.received.get()
            waiting.add_done_callback(lambda _: transport)  # the cycle
            asyncio.get_running_loop().remove_reader(transport._wake)
        return weakref.ref(transport)

    left = await leave_open()
    gc.collect()
    assert left() is None
