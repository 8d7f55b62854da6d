"""The error tree, and what its texts say."""

import re
from pathlib import Path

import pytest

import mqclient
import mqclient.aio
from mqclient import (
    BrokerError,
    ClientTimeout,
    ClosedError,
    NoRouteError,
    NotDurableError,
    ProtocolError,
    RocketMQError,
    UnreachableError,
    errors,
)
from mqclient.consumer.pull_answer import read_pull_answer
from mqcommon.message import MessageQueue
from mqcommon.wire import Frame, RequestCode
from mqcommon.wire.calls import offset_calls
from tests.client.cluster import Cluster


def test_tree():
    for kind in (BrokerError, NoRouteError, ClientTimeout, UnreachableError, ClosedError):
        assert issubclass(kind, RocketMQError)
    assert issubclass(NotDurableError, BrokerError)
    assert issubclass(ClientTimeout, TimeoutError)
    assert issubclass(UnreachableError, ConnectionError)


@pytest.mark.parametrize("name", [*errors.__all__])
def test_each_error_says_whether_to_retry_and_what_to_do(name):
    kind = getattr(errors, name)
    assert name.endswith(("Error", "Timeout"))
    error = kind.__new__(kind)
    error.code, error.remark, error.broker, error.server, error.args = 2, "", "", "", ("it",)
    assert error.retryable is (
        name
        in {
            *("AddressServerError", "BackPressureTimeout", "BrokerError", "ClientTimeout"),
            *("NotDurableError", "UnreachableError"),
        }
    )
    assert error.next_step


def test_the_next_step_is_the_end_of_the_text():
    assert NoRouteError("no route; create it").next_step == "create it"
    assert NoRouteError("no route").next_step == "create the topic"
    assert BrokerError(17).retryable is False


def test_broker_error_text():
    error = BrokerError(2, "[REJECTREQUEST]", "broker-a")
    assert str(error).startswith("broker-a answered SYSTEM_BUSY (2): [REJECTREQUEST]; ")
    assert (error.code, error.remark, error.broker) == (2, "[REJECTREQUEST]", "broker-a")
    assert str(BrokerError(4711)) == "code 4711"


def test_calls_turn_bad_codes_into_errors():
    call = offset_calls.max_offset(MessageQueue("T", "a", 0))
    assert call.result(Frame(0, {"offset": "7"})) == 7
    with pytest.raises(BrokerError, match="h:1 answered SYSTEM_ERROR"):
        call.result(Frame(1, remark="x"), "h:1")
    query = offset_calls.query_consumer_offset("g", MessageQueue("T", "a", 0))
    assert query.result(Frame(22)) is None


def test_every_exported_name_exists():
    for name in mqclient.__all__:
        assert getattr(mqclient, name) is not None
    assert set(mqclient.__all__) <= set(dir(mqclient))
    with pytest.raises(AttributeError, match="no attribute 'Consumer'"):
        mqclient.Consumer  # noqa: B018


def test_the_clients_page_names_every_error():
    page = (Path(__file__).parents[2] / "docs" / "client" / "errors.md").read_text()
    named = re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)
    assert sorted(named) == errors.__all__


SENSELESS = [
    Frame(0),
    Frame(0, {"offset": "many", "msgId": "x", "queueId": "1"}),
    Frame(0, {"offset": "9" * 30}, body=b"\x00{not json"),
    Frame(0, body=b'{"brokerDatas":5,"queueDatas":[7],"brokerAddrTable":[1]}'),
]


@pytest.mark.parametrize("answer", SENSELESS)
async def test_a_senseless_answer_is_an_error_with_the_server(answer):
    queue = MessageQueue("T", "broker-a", 0)
    cluster = Cluster(T=1)
    scripts = cluster.transport.scripts
    async with (
        mqclient.aio.Producer(transport=cluster.transport) as producer,
        mqclient.aio.Admin(transport=cluster.transport) as admin,
    ):
        await producer.send(mqclient.Message("T", b"x"))
        for code in (RequestCode.SEND_MESSAGE_V2, RequestCode.GET_MAX_OFFSET):
            scripts[int(code)] = lambda _address, _request: answer
        with pytest.raises(ProtocolError, match="broker-a sent an answer that cannot be read"):
            await producer.send(mqclient.Message("T", b"x"))
        with pytest.raises(ProtocolError, match=r"127\.0\.0\.1:10911 sent an answer"):
            await admin.offsets.maximum(queue)
        if answer.body:
            scripts[int(RequestCode.GET_ROUTEINFO_BY_TOPIC)] = lambda _address, _request: answer
            with pytest.raises(ProtocolError, match=r"127\.0\.0\.1:9876 sent an answer"):
                await admin.topics.route("T")
            with pytest.raises(ProtocolError, match=r"NameServer 127\.0\.0\.1:9876 sent"):
                await producer.queues("U")


def test_a_senseless_answer_to_a_pull_names_the_broker():
    with pytest.raises(ProtocolError, match="broker broker-a sent"):
        read_pull_answer(Frame(0, {"nextBeginOffset": "soon"}), "broker-a")
