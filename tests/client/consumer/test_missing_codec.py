"""A body whose codec is not installed costs its message nothing: the queue waits."""

import logging
import sys

import lz4.frame
import pytest

from mqclient import RocketMQError
from mqclient.aio import LitePullConsumer
from mqclient.consumer import pull
from mqclient.consumer.lite import puller
from mqcommon.wire import RequestCode
from tests.client.cluster import NAMESRV, Cluster, record
from tests.client.reading import Q0, Seen, reading
from tests.waiting import until_async

LZ4 = 0x101
OPTIONS = {"consume_from": "earliest"}


@pytest.fixture
def no_lz4(monkeypatch):
    """LZ4 is not installed until the fixture is undone."""
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "lz4", None)
        patch.setitem(sys.modules, "lz4.frame", None)
        for module in (pull, puller):
            patch.setattr(module, "CODEC_PAUSE", 0.01)
        yield patch


def cluster_with_lz4() -> Cluster:
    cluster = Cluster(T=1)
    cluster.put("T", b"0")
    packed = lz4.frame.compress(b"1")
    cluster.stored[Q0].append(record(0, 1, "T", packed, {"UNIQ_KEY": "ID1"}, sys_flag=LZ4))
    cluster.put("T", b"2")
    return cluster


@pytest.mark.parametrize(
    "options", [{}, {"model": "broadcasting"}, {"orderly": True}], ids=["", "broadcasting", "order"]
)
async def test_a_queue_waits_for_a_missing_codec(no_lz4, caplog, options):
    cluster, seen = cluster_with_lz4(), Seen()
    async with reading(cluster, seen, **OPTIONS, **options):
        await seen.until(1)
        await until_async(lambda: pulls_from_1(cluster) > 2)
        assert seen.bodies == [b"0"]
        (line,) = [r for r in caplog.records if r.levelno == logging.ERROR]
        assert "waits at message ID1, offset 1" in line.getMessage()
        assert "pip install 'mqstack[lz4]'" in line.getMessage()
        no_lz4.undo()  # as if it were installed now
        assert await seen.until(3) == [b"0", b"1", b"2"]
    assert not cluster.given_back


def pulls_from_1(cluster: Cluster) -> int:
    pulls = cluster.requests(RequestCode.PULL_MESSAGE)
    return len([frame for frame in pulls if frame.fields["queueOffset"] == "1"])


async def test_poll_names_the_missing_codec(no_lz4):
    cluster = cluster_with_lz4()
    consumer = LitePullConsumer("g", NAMESRV, transport=cluster.transport, **OPTIONS)
    consumer.assign([Q0])
    async with consumer:
        assert [message.body for message in await consumer.poll(32, 60)] == [b"0"]
        with pytest.raises(RocketMQError, match=r"offset 1: .*mqstack\[lz4\]"):
            await consumer.poll(32, 60)
        assert await consumer.position(Q0) == 1
        no_lz4.undo()
        assert (await anext(consumer)).body == b"1"
