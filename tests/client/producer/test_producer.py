"""The producer against a scripted cluster: queues, retries, errors."""

import asyncio
import gc
import warnings

import pytest

from mqclient import (
    BrokerError,
    ClientTimeout,
    ClosedError,
    Connection,
    NoRouteError,
    NotDurableError,
    UnreachableError,
)
from mqclient.aio import Message, MessageQueue, Producer, SendStatus
from mqcommon.wire import Frame, RequestCode
from mqcommon.wire.bodies.route import BrokerData, QueueData, TopicRouteData
from tests.client.cluster import BROKER, NAMESRV, Cluster


def producer(cluster: Cluster, **options) -> Producer:
    return Producer(NAMESRV, transport=cluster.transport, queue_index_start=0, **options)


def two_brokers(cluster: Cluster) -> None:
    """Topic T on broker-a and broker-b, one queue each."""
    data = TopicRouteData(
        [BrokerData("broker-b", "C", {0: "b:1"}), BrokerData("broker-a", "C", {0: "a:1"})],
        [QueueData("broker-b", 1, 1), QueueData("broker-a", 1, 1)],
    )
    cluster.transport.scripts[105] = lambda _a, _r: Frame(0, body=data.to_json())


async def test_queues_rotate_and_results_print_as_rocketmqs():
    cluster = Cluster(T=4)
    async with producer(cluster) as sender:
        results = [await sender.send(Message("T", b"Hello")) for _ in range(5)]
        assert [r.message_queue.queue_id for r in results] == [0, 1, 2, 3, 0]
        assert [r.queue_offset for r in results] == [0, 0, 0, 0, 1]
        assert str(results[4]) == (
            f"SendResult [sendStatus=SEND_OK, msgId={results[4].msg_id}, "
            f"offsetMsgId=7F00000100002A9F0000000000000001, messageQueue=MessageQueue "
            f"[topic=T, brokerName=broker-a, queueId=0], queueOffset=1]"
        )
        assert results[0].raise_for_status() is results[0]
        assert await sender.queues("T") == [MessageQueue("T", "broker-a", i) for i in range(4)]


async def test_queues_of_a_new_route_have_their_turn_at_once():
    cluster = Cluster(T=1)
    async with producer(cluster) as sender:
        first = [await sender.send(Message("T", b"m")) for _ in range(2)]
        assert {r.message_queue for r in first} == {MessageQueue("T", "broker-a", 0)}
        two_brokers(cluster)
        await sender._client.routes.refresh("T")
        later = [await sender.send(Message("T", b"m")) for _ in range(4)]
        assert [r.message_queue.broker_name for r in later] == ["broker-a", "broker-b"] * 2
        asked = [address for address, request in cluster.transport.sent if request.code == 310]
        assert asked[-4:] == ["a:1", "b:1"] * 2


async def test_request_fields_are_rocketmqs():
    cluster = Cluster(T=1)
    async with producer(cluster, group="g") as sender:
        await sender.send(Message("T", b"Hello", tags="A", flag=7))
    (request,) = cluster.requests(RequestCode.SEND_MESSAGE_V2)
    fields = dict(request.fields)
    assert list(fields) == list("abcdefghijkmn")
    assert fields.pop("g").isdecimal()
    assert "TAGS\x01A" in fields.pop("i")
    assert fields == {
        "a": "g", "b": "T", "c": "TBW102", "d": "4", "e": "0", "f": "0", "h": "7",
        "j": "0", "k": "false", "m": "false", "n": "broker-a",
    }  # fmt: skip
    assert request.version == 407


async def test_an_unknown_topic_borrows_the_template_until_it_exists():
    cluster = Cluster(TBW102=8)
    async with producer(cluster) as sender:
        first = await sender.send(Message("New", b"x"))
        assert first.message_queue == MessageQueue("New", "broker-a", 0)
        await sender.send(Message("New", b"x"))
        asked = len(cluster.requests(RequestCode.GET_ROUTEINFO_BY_TOPIC))
        await sender.send(Message("New", b"x"))
        assert len(cluster.requests(RequestCode.GET_ROUTEINFO_BY_TOPIC)) == asked


async def test_no_route_says_how_to_create_the_topic():
    async with producer(Cluster()) as sender:
        with pytest.raises(NoRouteError) as caught:
            await sender.send(Message("X", b"x"))
    assert str(caught.value) == (
        "no route for topic 'X' at NameServer 127.0.0.1:9876: it does not exist and "
        "autoCreateTopicEnable is off; create it: mqadmin updateTopic -n 127.0.0.1:9876 "
        "-c DefaultCluster -t X"
    )


@pytest.mark.parametrize("code", [17, 14, 1, 16, 204, 205])
async def test_another_broker_is_tried_after_these_codes(code):
    cluster = Cluster()
    two_brokers(cluster)
    good = cluster.send
    cluster.transport.scripts[310] = lambda address, request: (
        Frame(code, remark="no") if address == "a:1" else good(address, request)
    )
    async with producer(cluster) as sender:
        result = await sender.send(Message("T", b"x"))
    assert result.message_queue.broker_name == "broker-b"
    ids = {f.fields["i"] for f in cluster.requests(RequestCode.SEND_MESSAGE_V2)}
    assert len(ids) == 1, "duplicates made by a retry must share one UNIQ_KEY"


async def test_a_dead_broker_is_avoided_and_the_error_names_its_source():
    cluster = Cluster()
    two_brokers(cluster)
    good = cluster.send
    dead = {"a:1"}
    cluster.transport.scripts[310] = lambda address, request: (
        UnreachableError("refused", address) if address in dead else good(address, request)
    )
    async with producer(cluster) as sender:
        for _ in range(3):
            result = await sender.send(Message("T", b"x"))
            assert result.message_queue.broker_name == "broker-b"
        dead.add("b:1")
        with pytest.raises(UnreachableError, match=r"that NameServer .* advertises for it"):
            await sender.send(Message("T", b"x"), timeout=0.1)


async def test_busy_is_not_retried():
    cluster = Cluster(T=2)
    cluster.transport.scripts[310] = lambda _a, _r: Frame(2, remark="[REJECTREQUEST]")
    async with producer(cluster) as sender:
        with pytest.raises(BrokerError, match="SYSTEM_BUSY") as caught:
            await sender.send(Message("T", b"x"))
        assert caught.value.code == 2
        assert len(cluster.requests(RequestCode.SEND_MESSAGE_V2)) == 1


async def test_a_given_queue_is_not_retried():
    cluster = Cluster(T=4)
    async with producer(cluster) as sender:
        queue = MessageQueue("T", "broker-a", 3)
        result = await sender.send(Message("T", b"x"), queue=queue)
        assert result.message_queue == queue
        cluster.transport.scripts[310] = lambda _a, _r: Frame(1, remark="no")
        with pytest.raises(BrokerError):
            await sender.send(Message("T", b"x"), queue=queue)
        assert len(cluster.requests(RequestCode.SEND_MESSAGE_V2)) == 2
        with pytest.raises(ValueError, match="does not belong"):
            await sender.send(Message("U", b"x"), queue=queue)


async def test_lesser_durability_is_a_result_and_an_error_on_request():
    cluster = Cluster(T=1)
    good = cluster.send

    def lesser(address, request):
        reply = good(address, request)
        reply.code = 10
        return reply

    cluster.transport.scripts[310] = lesser
    async with producer(cluster) as sender:
        result = await sender.send(Message("T", b"x"))
        assert result.status is SendStatus.FLUSH_DISK_TIMEOUT
        with pytest.raises(NotDurableError, match=result.msg_id):
            result.raise_for_status()


async def test_the_timeout_covers_all_tries():
    cluster = Cluster(T=2)
    cluster.transport.scripts[310] = lambda _a, _r: ClientTimeout("no answer")
    async with producer(cluster) as sender:
        await sender.queues("T")
        with pytest.raises(ClientTimeout, match="may be stored even so"):
            await sender.send(Message("T", b"x"), timeout=1e-9)
        assert len(cluster.requests(RequestCode.SEND_MESSAGE_V2)) == 1


async def test_the_timeout_covers_the_search_for_a_route():
    cluster = Cluster(T=1)

    async def never(_address, _request):
        await asyncio.Event().wait()

    cluster.transport.scripts[105] = never
    async with producer(cluster) as sender:
        with pytest.raises(ClientTimeout, match="did not answer in time for topic 'T'"):
            await sender.send(Message("T", b"x"), timeout=0.02)


async def test_oneway_and_batch():
    cluster = Cluster(T=1)
    async with producer(cluster) as sender:
        await sender.send_oneway(Message("T", b"x"))
        result = await sender.send([Message("T", b"1"), Message("T", b"2")])
        assert len(result.msg_ids) == 2
        assert result.msg_ids == tuple(one.msg_id for one in result.messages)
    (oneway,) = cluster.requests(RequestCode.SEND_MESSAGE_V2)
    assert oneway.is_oneway
    (batch,) = cluster.requests(RequestCode.SEND_BATCH_MESSAGE)
    assert batch.fields["m"] == "true"
    assert not batch.is_oneway


async def test_address_map_is_used_to_connect():
    cluster = Cluster(T=1)
    async with producer(
        cluster, connection=Connection(address_map={BROKER: "localhost:7"})
    ) as sender:
        await sender.send(Message("T", b"x"))
    assert {a for a, f in cluster.transport.sent if f.code == 310} == {"localhost:7"}


async def test_heartbeat_and_farewell():
    cluster = Cluster(T=1)
    async with producer(cluster, group="g") as sender:
        await sender.send(Message("T", b"x"))
        await sender._client.heartbeat()
        (beat,) = cluster.heartbeats
        assert [item.group_name for item in beat.producer_data_set] == ["g"]
        assert beat.client_id == sender.client_id
    (farewell,) = cluster.requests(RequestCode.UNREGISTER_CLIENT)
    assert farewell.fields == {"clientID": sender.client_id, "producerGroup": "g"}
    with pytest.raises(ClosedError, match="closed; make a new one"):
        await sender.send(Message("T", b"x"))


async def test_states_are_named():
    sender = producer(Cluster(T=1))
    with pytest.raises(ClosedError, match="not started; call start"):
        await sender.send(Message("T", b"x"))
    with pytest.raises(TypeError, match="str"):
        await sender.start() or await sender.send("text")  # type: ignore[arg-type]
    await sender.close()
    with pytest.raises(ClosedError):
        await sender.start()


async def test_an_unclosed_producer_is_reported():
    async def leave_open():
        sender = producer(Cluster(T=1))
        await sender.start()

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        await leave_open()
        gc.collect()
    assert any("unclosed <Producer" in str(item.message) for item in caught)
