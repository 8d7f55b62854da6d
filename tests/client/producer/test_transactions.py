"""Transactional sends against a scripted cluster, and as RocketMQ's frames have them."""

import asyncio
import logging
import threading

import pytest

import mqclient
from mqclient import (
    CheckLimits,
    ClosedError,
    Message,
    NotDurableError,
    TransactionState,
    UnreachableError,
)
from mqclient.aio import TransactionProducer
from mqcommon.message import offset_msg_id
from mqcommon.property_text import pairs_of
from mqcommon.wire import Frame, RequestCode
from mqcommon.wire.codes import FrameFlag
from mqcommon.wire.frame import decode
from tests.client.cluster import BROKER, NAMESRV, Cluster, record
from tests.common.wire.golden import FOLDER, frames
from tests.waiting import until_async

COMMIT, ROLLBACK, UNKNOWN = TransactionState


async def undecided(_message):
    return None


def producer(cluster: Cluster, check=undecided, **options) -> TransactionProducer:
    options = {"group": "golden_tx", "queue_index_start": 3, **options}
    group = options.pop("group")
    return TransactionProducer(group, NAMESRV, check=check, transport=cluster.transport, **options)


def golden(code: int, place: int = 0, reply_to: int | None = None) -> Frame:
    """A frame of the session that RocketMQ's own producer and broker had."""
    session = frames(FOLDER / "transaction.jsonl.gz")
    kind = (code, reply_to)
    found = [f.data for f in session if (f.line.get("code"), f.line.get("reply_to")) == kind]
    return decode(found[place])


def ends(cluster: Cluster) -> list[Frame]:
    return cluster.requests(RequestCode.END_TRANSACTION)


def decisions(cluster: Cluster) -> list[str]:
    return [end.fields["commitOrRollback"] for end in ends(cluster)]


def question(group="golden_tx", number=0, **fields) -> Frame:
    """A broker's check of half message `number`, which lies at log offset 1000 + number."""
    key = f"KEY{number}"
    properties = {"UNIQ_KEY": key, "PGROUP": group, "TRAN_MSG": "true"}
    body = record(1, number, "TopicTx", b"%d" % number, properties)
    place = {"commitLogOffset": str(1000 + number), "tranStateTableOffset": str(number)}
    where = offset_msg_id("127.0.0.1", 10911, 1000 + number)
    fields = {**place, "msgId": key, "transactionId": key, "offsetMsgId": where, **fields}
    return Frame(39, fields, body, flag=int(FrameFlag.ONEWAY))


async def test_the_frames_are_those_of_rocketmqs_producer():
    cluster = Cluster(TopicTx=4)
    half, stored, end = golden(310), golden(0, reply_to=310), golden(37)
    cluster.transport.scripts[310] = lambda _a, _r: stored
    message = Message("TopicTx", b"tx commit", tags="TagTx", keys="txk-commit")
    properties = dict(pairs_of(half.fields["i"]))
    message.put_property("p", properties["p"])
    message.properties["UNIQ_KEY"] = properties["UNIQ_KEY"]
    message.born_timestamp_ms = int(half.fields["g"])
    async with producer(cluster) as sender, sender.transaction(message) as tx:
        assert tx.result.offset_msg_id == stored.fields["msgId"]
        await tx.commit()
    (sent,) = cluster.requests(RequestCode.SEND_MESSAGE_V2)
    assert dict(pairs_of(sent.fields.pop("i"))) == properties
    assert sent.fields == {key: value for key, value in half.fields.items() if key != "i"}
    assert sent.body == half.body
    (told,) = ends(cluster)
    assert (told.fields, told.flag, told.remark) == (end.fields, end.flag, None)
    assert message.transaction_id == properties["UNIQ_KEY"]
    assert message.properties.keys().isdisjoint({"TRAN_MSG", "PGROUP"}), "the caller's is changed"


@pytest.mark.parametrize(
    ("state", "place"), [(UNKNOWN, 0), (COMMIT, 1), (ROLLBACK, 2)], ids=lambda value: str(value)
)
async def test_the_answer_to_a_check_is_rocketmqs(state, place):
    asked = golden(39, 3 + place)  # the second round of sends got all three answers
    answers = [golden(37, 5 + number) for number in range(7)]
    wanted = next(
        one for one in answers if one.fields["commitLogOffset"] == asked.fields["commitLogOffset"]
    )
    cluster = Cluster(TopicTx=4)
    seen = []

    async def check(message):
        seen.append(message)
        return state

    async with producer(cluster, check) as sender:
        assert sender.settings.group == "golden_tx"
        assert await cluster.transport.push(BROKER, asked) is None
    (told,) = ends(cluster)
    assert (told.fields, told.flag) == (wanted.fields, wanted.flag)
    (message,) = seen
    assert message.transaction_id == asked.fields["msgId"]
    assert message.properties["TRANSACTION_CHECK_TIMES"] == "2"


async def test_leaving_the_block_decides_what_was_not_decided():
    cluster = Cluster(T=1)
    async with producer(cluster) as sender:
        async with sender.transaction(Message("T", b"x")) as tx:
            assert tx.state is UNKNOWN
            await tx.rollback()
            assert tx.state is ROLLBACK
        async with sender.transaction(Message("T", b"x")) as tx:
            pass
        assert tx.state is UNKNOWN
        with pytest.raises(RuntimeError, match="no money"):
            async with sender.transaction(Message("T", b"x")) as tx:
                raise RuntimeError("no money")
        assert tx.state is ROLLBACK
        with pytest.raises(RuntimeError, match="after"):
            async with sender.transaction(Message("T", b"x")) as tx:
                await tx.commit()
                raise RuntimeError("after the decision")
        assert tx.state is COMMIT
        with pytest.raises(ClosedError, match=f"transaction {tx.message.transaction_id} has ended"):
            await tx.rollback()
        with pytest.raises(ClosedError, match="used before"):
            await tx.__aenter__()
    assert decisions(cluster) == ["12", "0", "12", "8"]


async def test_a_cancelled_block_is_rolled_back():
    cluster = Cluster(T=1)
    inside = asyncio.Event()

    async def pay(sender):
        async with sender.transaction(Message("T", b"x")):
            inside.set()
            await asyncio.Event().wait()

    async with producer(cluster) as sender:
        task = asyncio.create_task(pay(sender))
        await inside.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert decisions(cluster) == ["12"]


async def test_a_callback_decides_by_what_it_returns():
    cluster = Cluster(T=1)
    threads = []

    def plain(message):
        threads.append(threading.current_thread())
        assert message.transaction_id
        return COMMIT

    async def on_loop(_message):
        threads.append(threading.current_thread())
        return ROLLBACK

    async def fails(_message):
        raise RuntimeError("connection lost")

    async with producer(cluster) as sender:
        send = sender.send_in_transaction
        assert (await send(Message("T", b"x"), plain)).state is COMMIT
        assert (await send(Message("T", b"x"), on_loop)).state is ROLLBACK
        assert (await send(Message("T", b"x"), undecided)).state is UNKNOWN
        with pytest.raises(RuntimeError, match="connection lost"):
            await send(Message("T", b"x"), fails)
        with pytest.raises(TypeError, match="execute returned 'yes'"):
            await send(Message("T", b"x"), lambda _message: "yes")
    assert decisions(cluster) == ["8", "12", "0", "0", "0"]
    prefix = "executeLocalTransactionBranch exception: "
    assert [end.remark for end in ends(cluster)][:4] == [
        None, None, None, f"{prefix}RuntimeError: connection lost"
    ]  # fmt: skip
    assert threads[0] is not threading.current_thread()
    assert threads[1] is threading.current_thread()


async def test_a_half_message_stored_less_durably_is_rolled_back():
    cluster = Cluster(T=1)
    good = cluster.send

    def lesser(address, request):
        reply = good(address, request)
        reply.code = 10
        return reply

    cluster.transport.scripts[310] = lesser
    async with producer(cluster) as sender:
        with pytest.raises(NotDurableError):
            async with sender.transaction(Message("T", b"x")):
                pytest.fail("the local transaction ran")
    assert decisions(cluster) == ["12"]


async def test_bad_arguments():
    cluster = Cluster(T=1)
    async with producer(cluster) as sender:
        with pytest.raises(ValueError, match="a half message cannot be delayed"):
            async with sender.transaction(Message("T", b"x", delay_level=3)):
                pass
        with pytest.raises(TypeError, match="one Message, not list"):
            async with sender.transaction([Message("T", b"x")]):
                pass
        with pytest.raises(ValueError, match="the body is empty"):
            async with sender.transaction(Message("T", b"")):
                pass
        with pytest.raises(ValueError, match="timeout"):
            sender.transaction(Message("T", b"x"), timeout=-1)
        with pytest.raises(ClosedError, match="has not begun"):
            sender.transaction(Message("T", b"x")).result  # noqa: B018
        assert not cluster.requests(RequestCode.SEND_MESSAGE_V2)
    with pytest.raises(TypeError, match="check must be callable, not str"):
        producer(cluster, "later")
    with pytest.raises(ValueError, match="group"):
        producer(cluster, group="a b")
    with pytest.raises(TypeError, match="topics must be a list"):
        producer(cluster, topics="T")
    with pytest.raises(ValueError, match="concurrency must be 1 to 1_000 checks"):
        producer(cluster, check_limits=CheckLimits(concurrency=0))
    with pytest.raises(TypeError, match="did you mean check_limits"):
        producer(cluster, check_limit=1)


async def test_use_after_close():
    cluster = Cluster(T=1)
    sender = producer(cluster)
    with pytest.raises(ClosedError, match="not started"):
        async with sender.transaction(Message("T", b"x")):
            pass
    await sender.start()
    async with sender.transaction(Message("T", b"x")) as tx:
        await sender.close()
        with pytest.raises(ClosedError, match="closed; make a new one"):
            await tx.commit()
    with pytest.raises(ClosedError, match="closed; make a new one"):
        async with sender.transaction(Message("T", b"x")):
            pass


async def test_an_end_that_is_lost_is_no_error(caplog):
    cluster = Cluster(T=1)
    cluster.transport.scripts[37] = lambda address, _r: UnreachableError("gone", address)
    async with producer(cluster) as sender, sender.transaction(Message("T", b"x")) as tx:
        await tx.commit()
    assert tx.state is COMMIT
    assert "did not end, the broker checks it" in caplog.text


async def test_brokers_know_the_producer_at_its_first_half_message():
    cluster = Cluster(T=1)
    async with producer(cluster) as sender:
        for _ in range(2):
            async with sender.transaction(Message("T", b"x")):
                pass
        codes = [frame.code for _, frame in cluster.transport.sent if frame.code in (34, 310)]
        assert codes == [34, 310, 310]
        assert [one.group_name for one in cluster.heartbeats[0].producer_data_set] == ["golden_tx"]
        cluster.transport.drop(BROKER)
        async with sender.transaction(Message("T", b"x")):
            pass
        codes = [frame.code for _, frame in cluster.transport.sent if frame.code in (34, 310)]
        assert codes == [34, 310, 310, 34, 310]


@pytest.mark.parametrize("options", [{}, {"topics": ["Mine"]}], ids=["template", "topics"])
async def test_brokers_know_a_producer_that_has_sent_nothing(options):
    cluster = Cluster(**({"Mine": 1} if options else {"TBW102": 8}))
    async with producer(cluster, **options):
        await until_async(lambda: cluster.heartbeats)
    assert cluster.heartbeats[0].producer_data_set[0].group_name == "golden_tx"


async def test_a_check_that_fails_or_answers_nonsense_is_unknown(caplog):
    cluster = Cluster()
    outcomes = iter([RuntimeError("no database"), "COMMIT"])

    def check(_message):
        outcome = next(outcomes)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async with producer(cluster, check) as sender:
        for number in range(2):
            await cluster.transport.push(BROKER, question(number=number))
        assert sender.settings.check_limits.concurrency == 1
    assert decisions(cluster) == ["0", "0"]
    assert ends(cluster)[0].remark == "RuntimeError: no database"
    assert "check returned 'COMMIT'" in ends(cluster)[1].remark
    assert caplog.text.count("its state is unknown") == 2


async def test_checks_for_another_group_or_damaged_are_not_answered(caplog):
    cluster = Cluster()
    damaged = question()
    damaged.body = damaged.body[:88] + b"?" + damaged.body[89:]

    async def check(_message):
        pytest.fail("asked")

    async with producer(cluster, check):
        await cluster.transport.push(BROKER, question(group="others"))
        await cluster.transport.push(BROKER, damaged)
    assert not ends(cluster)
    assert "a message of producer group others" in caplog.text
    assert "a damaged message" in caplog.text


async def test_checks_are_bounded():
    cluster = Cluster()
    running, most = 0, 0
    go_on = asyncio.Event()

    async def check(_message):
        nonlocal running, most
        running += 1
        most = max(most, running)
        await go_on.wait()
        running -= 1
        return COMMIT

    async with producer(
        cluster, check, check_limits=CheckLimits(concurrency=2, queue_max=3)
    ) as sender:
        asked = [
            asyncio.create_task(cluster.transport.push(BROKER, question(number=number)))
            for number in range(10)
        ]
        await until_async(lambda: sum(task.done() for task in asked) == 5)
        assert sender._checks._waiting == 3
        go_on.set()
        await asyncio.gather(*asked)
    assert most == 2
    assert decisions(cluster) == ["8"] * 5


async def test_close_lets_a_check_answer_and_begins_no_other(caplog):
    caplog.set_level(logging.WARNING)
    cluster = Cluster()
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def check(_message):
        begun.set()
        await go_on.wait()
        return COMMIT

    sender = producer(cluster, check)
    await sender.start()
    asked = [
        asyncio.create_task(cluster.transport.push(BROKER, question(number=number)))
        for number in range(2)
    ]
    await begun.wait()
    closing = asyncio.create_task(sender.close())
    await until_async(lambda: sender._checks._stopping)
    go_on.set()
    await closing
    await asyncio.gather(*asked)
    assert [end.fields["msgId"] for end in ends(cluster)] == ["KEY0"]


def test_the_blocking_face():
    cluster = Cluster(T=1)
    caller = threading.current_thread()
    threads = []

    def here(_message):
        threads.append(threading.current_thread())
        return COMMIT

    def fails(_message):
        raise RuntimeError("no")

    with mqclient.TransactionProducer(
        "golden_tx", NAMESRV, check=here, transport=cluster.transport
    ) as sender:
        with sender.transaction(Message("T", b"x")) as tx:
            assert tx.message.transaction_id == tx.result.msg_id
            tx.commit()
        with pytest.raises(ClosedError, match="has ended"):
            tx.rollback()
        with pytest.raises(ZeroDivisionError), sender.transaction(Message("T", b"x")):
            raise ZeroDivisionError
        with sender.transaction(Message("T", b"x")) as tx:
            pass
        assert tx.state is UNKNOWN
        with sender.transaction(Message("T", b"x")) as tx:
            tx.rollback()
        assert sender.send_in_transaction(Message("T", b"x"), here).state is COMMIT
        assert threads == [caller], "a database connection may belong to its thread"
        assert sender.send_in_transaction(Message("T", b"x"), undecided).state is UNKNOWN
        with pytest.raises(RuntimeError, match="no"):
            sender.send_in_transaction(Message("T", b"x"), fails)
        assert decisions(cluster) == ["8", "12", "0", "12", "8", "0", "0"]
        sender._running.run(cluster.transport.push(BROKER, question()))
        assert decisions(cluster)[-1] == "8"
        assert threads[1] is not caller
        assert "function" in threads[1].name, "not on the loop that all clients share"
        assert sender.send(Message("T", b"an ordinary one")).status == "SEND_OK"
    with pytest.raises(ClosedError):
        sender.transaction(Message("T", b"x")).__enter__()
    assert repr(sender).startswith("<TransactionProducer golden_tx ")
