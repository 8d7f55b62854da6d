"""Bodies that producers compress: the flag, the stream, and consumers that read them."""

from __future__ import annotations

import zlib

import lz4.frame
import pytest
import zstandard

from mqclient import Compression, LitePullConsumer, Message, Producer
from mqclient.producer.compression import compress
from mqclient.producer.outgoing import prepare
from mqclient.settings.producers import ProducerOptions
from mqcommon.message import DecodeError, decompress_body

KINDS = {"zlib": 0x301, "lz4": 0x101, "zstd": 0x201}
BODY = b"a body that repeats itself, " * 400


@pytest.mark.parametrize(("kind", "flag"), KINDS.items())
def test_the_flag_names_the_stream(kind, flag) -> None:
    outgoing = prepare(Message("T", BODY), ProducerOptions(compression=Compression(kind)))
    assert outgoing.sys_flag == flag
    assert len(outgoing.body) < len(BODY)
    unpack = {
        "zlib": zlib.decompress,
        "lz4": lz4.frame.decompress,
        "zstd": lambda body: zstandard.ZstdDecompressor().decompress(body),
    }
    assert unpack[kind](outgoing.body) == BODY == decompress_body(outgoing.body, flag)
    small = prepare(Message("T", BODY[:4095]), ProducerOptions(compression=Compression(kind)))
    assert small.sys_flag == 0


@pytest.mark.parametrize(("kind", "flag"), KINDS.items())
def test_a_body_that_would_grow_without_bound_is_refused(kind, flag) -> None:
    bomb, found = compress(bytes((64 << 20) + 1), Compression(kind, level=1))
    assert found == flag
    assert len(bomb) < 1 << 20
    with pytest.raises(DecodeError, match="grows beyond 67108864 bytes"):
        decompress_body(bomb, flag)
    with pytest.raises(DecodeError, match=r"cut short|does not decompress"):
        decompress_body(bomb[:-1000], flag | 0x1)


def test_bad_settings() -> None:
    with pytest.raises(ValueError, match="method must be 'zlib' or 'lz4' or 'zstd', not 'gzip'"):
        Producer("h:1", compression=Compression("gzip"))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="level must be 0 to 9 for 'zlib', not 10"):
        Producer("h:1", compression=Compression(level=10))
    with pytest.raises(ValueError, match="level must be 1 to 22 for 'zstd', not 0"):
        Producer("h:1", compression=Compression("zstd", level=0))
    strong = ProducerOptions(compression=Compression("zstd", level=22))
    assert prepare(Message("T", BODY), strong).sys_flag == 0x201


def test_a_consumer_reads_all_of_them(mq) -> None:
    topic = mq.topic()
    for kind in KINDS:
        with Producer(mq.namesrv, compression=Compression(kind)) as sender:
            sender.send(Message(topic, BODY, tags=kind))
    with LitePullConsumer("compressed", mq.namesrv, consume_from="earliest") as consumer:
        consumer.subscribe(topic)
        read = {}
        for message in consumer:
            read[message.tags] = (message.sys_flag & 0x701, message.body)
            if len(read) == len(KINDS):
                break
    assert read == {kind: (flag, BODY) for kind, flag in KINDS.items()}
