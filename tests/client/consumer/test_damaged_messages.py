"""A damaged message in a broker's reply costs that message alone, and is named in the log."""

import logging

import pytest

from mqcommon.message import decode_messages, decode_reply
from mqcommon.message_row import message_row
from tests.client.cluster import Cluster, record
from tests.client.reading import Q0, Seen, reading

BODIES = [f"body-{number}".encode() for number in range(6)]
DAMAGED = 2


def records() -> list[bytes]:
    return [
        record(0, number, "T", body, {"UNIQ_KEY": f"ID{number}"})
        for number, body in enumerate(BODIES)
    ]


def flipped(stored: bytes, at: int) -> bytes:
    damaged = bytearray(stored)
    damaged[at] ^= 16
    return bytes(damaged)


def body_at(stored: bytes) -> int:
    return stored.index(b"body-")


@pytest.mark.parametrize("at", [4, 8, 39, 87, -1])
def test_a_reply_gives_every_whole_message(at: int) -> None:
    whole = records()
    at = body_at(whole[DAMAGED]) if at < 0 else at
    reply = [*whole]
    reply[DAMAGED] = flipped(whole[DAMAGED], at)
    messages, damaged = decode_reply(b"".join(reply), "broker-a")
    assert [message.body for message in messages] == BODIES[:DAMAGED] + BODIES[DAMAGED + 1 :]
    (found,) = damaged
    assert found.position == DAMAGED
    assert decode_reply(b"".join(whole))[1] == []


def without_checksum(stored: bytes) -> bytes:
    return stored[:8] + bytes(4) + stored[12:]


def test_a_message_that_never_got_a_checksum_is_whole() -> None:
    # A broker of rocketmq-rust stores the messages of a batch in this form.
    messages, damaged = decode_reply(b"".join(map(without_checksum, records())), "broker-a")
    assert [message.body for message in messages] == BODIES
    assert damaged == []
    row = message_row(messages[0], "text")
    assert (row["bodyCRC"], "bodyError" in row) == (0, False)


def test_a_damaged_message_is_named() -> None:
    whole = records()[DAMAGED]
    _, (found,) = decode_reply(flipped(whole, body_at(whole)), "broker-a")
    assert found.message is not None
    assert found.message.msg_id == "ID2"
    text = str(found)
    assert text.startswith(
        "msgId ID2, topic T, queue 0, offset 2, broker broker-a, commit log offset 2000: body CRC"
    )


def test_a_damaged_size_hides_what_follows_it() -> None:
    reply = records()
    reply[DAMAGED] = flipped(reply[DAMAGED], 2)
    messages, (found,) = decode_reply(b"".join(reply))
    assert [message.body for message in messages] == BODIES[:DAMAGED]
    assert found.message is None
    with pytest.raises(ValueError, match="record at byte"):
        decode_messages(b"".join(reply))


@pytest.mark.parametrize("at", [2, 4, 8, 87], ids=["size", "magic", "crc", "body length"])
async def test_a_consumer_passes_a_damaged_message(caplog, at: int) -> None:
    cluster = Cluster(T=1)
    cluster.put("T", *BODIES, UNIQ_KEY="ID")
    stored = cluster.stored[Q0]
    stored[DAMAGED] = flipped(stored[DAMAGED], at)
    seen = Seen()
    with caplog.at_level(logging.ERROR, "mqclient"):
        async with reading(cluster, seen, consume_from="earliest"):
            bodies = await seen.until(len(BODIES) - 1)
    assert bodies == BODIES[:DAMAGED] + BODIES[DAMAGED + 1 :]
    lines = [
        r.getMessage() for r in caplog.records if "skipping a damaged message" in r.getMessage()
    ]
    assert len(lines) == 1


async def test_a_message_that_is_whole_at_the_second_try_is_delivered(caplog) -> None:
    cluster = Cluster(T=1)
    cluster.put("T", *BODIES)
    stored, pull = cluster.stored[Q0], cluster.pull
    whole = stored[DAMAGED]
    stored[DAMAGED] = flipped(whole, 8)

    async def damaged_once(address, request):
        reply = await pull(address, request)
        if request.fields["maxMsgNums"] != "1":
            stored[DAMAGED] = whole
        return reply

    cluster.transport.scripts[11] = damaged_once
    seen = Seen()
    async with reading(cluster, seen, consume_from="earliest"):
        assert await seen.until(len(BODIES)) == BODIES
    assert "pulling a damaged message once more" in caplog.text
    assert "skipping" not in caplog.text
