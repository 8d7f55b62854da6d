"""Properties of a server's reply are bounded, and the error names the server."""

import pytest

from mqclient.aio import Admin, LitePullConsumer, Producer
from mqclient.errors import ProtocolError
from mqcommon.message import Message
from mqcommon.wire import Frame
from tests.client.cluster import BROKER, NAME, NAMESRV, Cluster
from tests.client.reading import Q0
from tests.waiting import until_async

MANY = {f"name{number}": "" for number in range(1001)}
TOO_MANY = "1001 extension fields: must be 0 to 1000"


async def test_fields_of_a_name_servers_reply():
    cluster = Cluster(T=1)
    cluster.transport.scripts[105] = lambda _a, _r: Frame(0, MANY)
    async with Producer(NAMESRV, transport=cluster.transport) as producer:
        with pytest.raises(ProtocolError, match=f"^NameServer {NAMESRV} .*{TOO_MANY}"):
            await producer.queues("T")


async def test_fields_of_a_brokers_reply_to_a_question():
    cluster = Cluster(T=1)
    cluster.transport.scripts[26] = lambda _a, _r: Frame(0, MANY, b"a=b")
    async with Admin(NAMESRV, transport=cluster.transport) as admin:
        with pytest.raises(ProtocolError, match=f"^{BROKER} .*{TOO_MANY}"):
            await admin.brokers.config(BROKER)


async def test_fields_of_the_reply_to_a_send():
    cluster = Cluster(T=1)
    good = cluster.send
    cluster.transport.scripts[310] = lambda a, r: Frame(0, MANY | good(a, r).fields)
    async with Producer(NAMESRV, transport=cluster.transport) as producer:
        with pytest.raises(ProtocolError, match=f"^broker {NAME} .*10.. extension fields"):
            await producer.send(Message("T", b"x"))


async def test_fields_of_the_reply_to_a_pull(caplog):
    cluster = Cluster(T=1)
    cluster.transport.scripts[11] = lambda _a, _r: Frame(1, MANY)
    async with LitePullConsumer(None, NAMESRV, transport=cluster.transport) as consumer:
        consumer.assign([Q0])
        await until_async(lambda: TOO_MANY in caplog.text)
    assert f"pulling {Q0} failed: broker {NAME} sent an answer" in caplog.text


@pytest.mark.parametrize("code", [26, 319])
async def test_the_configuration_of_a_server(code):
    cluster = Cluster(T=1)
    cluster.transport.scripts[code] = lambda _a, _r: Frame(0, body=b"a=b\n" * (1 << 18) + b"\n")
    async with Admin(NAMESRV, transport=cluster.transport) as admin:
        with pytest.raises(ProtocolError, match="1048577 bytes of configuration"):
            await (admin.brokers.config(BROKER) if code == 26 else admin.namesrv.config())
