import asyncio
import contextlib
import multiprocessing
import socket
from collections.abc import AsyncIterator
from threading import Event, Thread

import pytest

from mqclient.engine.mock import MockTransport
from mqclient.engine.transport import Transport
from mqclient.errors import ClientTimeout, ClosedError, RocketMQError, UnreachableError
from mqcommon.wire.frame import Frame, decode, encode

DEADLINE = 60.0
ONEWAY = 2


class EchoServer:
    """Answers by the request's body: silence, hang-up, garbage, a request of its own, or echo."""

    def __init__(self) -> None:
        self.received: asyncio.Queue[Frame] = asyncio.Queue()
        self.connections = 0

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[str]:
        server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        yield f"{host}:{port}"
        server.close()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                word = await reader.readexactly(4)
                frame = decode(word + await reader.readexactly(int.from_bytes(word)))
                self.received.put_nowait(frame)
                if frame.body == b"hang up":
                    break
                writer.write(self.answer(frame))
        writer.close()

    def answer(self, frame: Frame) -> bytes:
        match frame.body:
            case b"silent":
                return b""
            case b"garbage":
                return b"\xff\xff\xff\xff nonsense"
            case b"bad header":
                return b"\0\0\0\x06\0\0\0\x02[]"
            case b"ask me":
                return encode(Frame(40, {"consumerGroup": "g"}, opaque=7))
        return (
            b"" if frame.is_oneway or frame.is_response else encode(frame.reply(0, body=frame.body))
        )


@pytest.fixture
def echo() -> EchoServer:
    return EchoServer()


@pytest.fixture
async def address(echo: EchoServer) -> AsyncIterator[str]:
    async with echo.running() as address:
        yield address


@pytest.fixture
async def transport(address: str) -> AsyncIterator[Transport]:
    transport = Transport()
    yield transport
    await transport.aclose()


def body(text: bytes) -> Frame:
    return Frame(10, {"topic": "T"}, text)


@pytest.mark.parametrize("serialize", [0, 1])
async def test_many_calls_share_one_connection(
    echo: EchoServer, address: str, transport: Transport, serialize: int
) -> None:
    def request(number: int) -> Frame:
        return Frame(10, {"n": str(number)}, b"%d" % number, serialize=serialize)

    calls = [transport.call(address, request(number), DEADLINE) for number in range(300)]
    replies = await asyncio.gather(*calls)
    assert [reply.body for reply in replies] == [b"%d" % number for number in range(300)]
    assert {reply.serialize for reply in replies} == {serialize}
    assert echo.connections == 1


async def test_large_bodies_come_back_whole(address: str, transport: Transport) -> None:
    large = bytes(range(256)) * (8 * 1024 * 4)
    reply = await transport.call(address, body(large), DEADLINE)
    assert reply.body == large


async def test_timeout_and_cancelling_leave_the_connection_usable(
    echo: EchoServer, address: str, transport: Transport
) -> None:
    with pytest.raises(ClientTimeout, match=f"no reply from {address} within 50ms"):
        await transport.call(address, body(b"silent"), 0.05)
    to_cancel = Frame(10, {"topic": "ToCancel"}, b"silent")
    cancelled = asyncio.create_task(transport.call(address, to_cancel, DEADLINE))
    # The first request is never sent if its time ran out before there was a connection.
    while (await echo.received.get()).fields != to_cancel.fields:
        pass
    cancelled.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    assert (await transport.call(address, body(b"x"), DEADLINE)).body == b"x"
    assert echo.connections == 1


@pytest.mark.parametrize(
    ("request_body", "why"),
    [
        (b"hang up", "end of stream"),
        (b"garbage", "frame length -1 is not between 4 and 16777212"),
        (b"bad header", "bad JSON header: not an object"),
    ],
)
async def test_a_broken_connection_is_said_and_made_again(
    address: str, transport: Transport, request_body: bytes, why: str
) -> None:
    gone: list[str] = []
    transport.on_close(gone.append)
    with pytest.raises(UnreachableError, match=f"connection to {address} closed: {why}") as e:
        await transport.call(address, body(request_body), DEADLINE)
    assert e.value.address == address
    assert (await transport.call(address, body(b"x"), DEADLINE)).body == b"x"
    assert gone == [address]


async def test_nobody_listening(transport: Transport) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        host, port = unused.getsockname()
        closed = f"{host}:{port}"
        with pytest.raises(UnreachableError, match=f"cannot connect to {closed}: "):
            await transport.call(closed, body(b"x"), DEADLINE)


async def test_oneway_returns_without_a_reply(
    echo: EchoServer, address: str, transport: Transport
) -> None:
    await transport.oneway(address, Frame(10, {}, b"x", flag=ONEWAY), DEADLINE)
    assert (await echo.received.get()).is_oneway


async def test_requests_of_the_server_are_answered(
    echo: EchoServer, address: str, transport: Transport
) -> None:
    async def answer(peer: str, request: Frame) -> Frame:
        assert (peer, request.code) == (address, 40)
        return request.reply(0, body=b"heard")

    transport.on_request(answer)
    await transport.oneway(address, Frame(10, {}, b"ask me", flag=ONEWAY), DEADLINE)
    asked, heard = await echo.received.get(), await echo.received.get()
    assert (asked.body, heard.body, heard.opaque) == (b"ask me", b"heard", 7)
    assert heard.is_response


def flood(listener: socket.socket, begin: Event, request: bytes, count: int) -> None:
    """Send `count` requests to the first client, once `begin` is set; wait until it closes."""
    connection, _ = listener.accept()
    with connection:
        begin.wait(DEADLINE)
        for _ in range(count):
            connection.sendall(request)
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(4096):
            pass


async def test_requests_over_64_mib_are_dropped_and_counted(
    transport: Transport, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[int] = []
    closed = asyncio.Event()

    async def hear(address: str, request: Frame) -> None:
        heard.append(len(request.body))

    transport.on_request(hear)
    transport.on_close(lambda address: closed.set())
    mib = 1 << 20
    request = encode(Frame(40, {}, bytes(mib)))
    begin = Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = Thread(target=flood, args=(listener, begin, request, 70))
        server.start()
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        await transport.oneway(address, Frame(10, {}, flag=ONEWAY), DEADLINE)
        begin.set()
        server.join(DEADLINE)  # the event loop is busy until the client has received all
    await asyncio.wait_for(closed.wait(), DEADLINE)
    assert heard == [mib] * 63
    assert transport.requests_dropped == 7
    assert "dropped 7 requests of servers" in caplog.text


async def test_closing_fails_what_waits_and_what_comes_later(
    echo: EchoServer, address: str, transport: Transport
) -> None:
    waiting = asyncio.create_task(transport.call(address, body(b"silent"), DEADLINE))
    await echo.received.get()
    await transport.aclose()
    with pytest.raises(ClosedError):
        await waiting
    with pytest.raises(ClosedError):
        await transport.call(address, body(b"x"), DEADLINE)
    await transport.aclose()


async def test_too_many_in_flight_are_refused(address: str) -> None:
    transport = Transport(in_flight_max=1)
    first = asyncio.create_task(transport.call(address, body(b"silent"), DEADLINE))
    await asyncio.sleep(0)
    with pytest.raises(RocketMQError, match="1 requests are in flight already"):
        await transport.call(address, body(b"x"), DEADLINE)
    await transport.aclose()
    with pytest.raises(ClosedError):
        await first


async def test_a_forked_child_gets_a_clear_error_the_parent_none(
    echo: EchoServer, address: str, transport: Transport
) -> None:
    assert (await transport.call(address, body(b"x"), DEADLINE)).body == b"x"
    context = multiprocessing.get_context("fork")
    child = context.Process(target=_use_in_child, args=(transport, address))
    child.start()
    await asyncio.to_thread(child.join, DEADLINE)
    assert child.exitcode == 0
    assert (await transport.call(address, body(b"x"), DEADLINE)).body == b"x"
    assert echo.connections == 1


def _use_in_child(transport: Transport, address: str) -> None:
    async def main() -> None:
        with pytest.raises(ClosedError, match="make a new one after a fork"):
            await transport.call(address, body(b"x"), DEADLINE)
        await transport.aclose()

    asyncio.run(main())


async def test_the_mock_answers_by_code_and_logs() -> None:
    async def later(address: str, request: Frame) -> Frame:
        return request.reply(17, "no route")

    mock = MockTransport({10: lambda a, r: r.reply(0), 11: later, 12: lambda a, r: OSError()})
    assert (await mock.call("a:1", Frame(10, opaque=5), 1)).opaque == 5
    assert (await mock.call("a:1", Frame(11), 1)).remark == "no route"
    with pytest.raises(OSError):
        await mock.call("a:1", Frame(12), 1)
    await mock.oneway("a:2", Frame(99), 1)
    assert [frame.code for _, frame in mock.sent] == [10, 11, 12, 99]
