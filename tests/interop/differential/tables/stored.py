"""Broker: the records that requests leave in the log, each read back by its place (33).

Their places in queues are left out: one side may have refused more before. Delays are of one
second, or too long to end meanwhile.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from tests.interop.differential.case import Case
from tests.interop.differential.tables.groups import BACK
from tests.interop.differential.tables.pull import group, pull
from tests.interop.differential.tables.send import (
    PROPERTIES,
    REPLY,
    REPLY_TOPIC,
    TWO,
    batch,
    create,
    send,
)
from tests.interop.differential.tables.transactions import HALF, end

TOPIC, TAGGED = "StoredTopic", "StoredMultiTag"
LOOSE = ("queueOffset",)
REFUSED = {"over the limit", "delay a word", "delay huge"}
RETRY = {"b": "%RETRY%stored_group", "j": "3"}


def kept(case: Case) -> Iterator[Case]:
    """A send, and the record it left."""
    place = re.sub(r"\W", "_", case.name)
    offset = {"offset": f"${{{place}.phy}}"}
    yield replace(case, keep=place, loose=LOOSE)
    yield Case(f"{case.name}: the record", 33, offset, loose=LOOSE)


def put(name: str, code: int = 310, **letters: str) -> Case:
    return send(name, code=code, **{"b": TOPIC, **letters})


MULTI = create(TAGGED)
KINDS = (
    put("plain"),
    put("flags", h="-7", g="1795248219385", d="9"),
    put("chosen queue", e="3"),
    put("tried before", j="4", l="9"),
    put("of a unit", k="true"),
    put("compressed", f="1"),
    put("many tags", b=TAGGED),
    put("light", i="INNER_MULTI_DISPATCH\x01%LMQ%a,%LMQ%b"),
    put("waits", i="UNIQ_KEY\x01ABC\x02WAIT\x01true"),
    put("waits first", i="WAIT\x01true\x02UNIQ_KEY\x01ABC"),
    put("waits only", i="WAIT\x01true"),
    *(put(name, i=text) for name, text in PROPERTIES.items() if name not in REFUSED),
    put("delay 17", i="DELAY\x0117\x02TAGS\x01A\x02KEYS\x01k"),
    put("delay 17, waits", i="WAIT\x01true\x02DELAY\x0117\x02UNIQ_KEY\x01AB"),
    put("delay 17, trailing separator", i="DELAY\x0117\x02KEYS\x01k\x02"),
    put("half", f="4", i=HALF.format(key="half")),
    put("half, waits", f="4", i="WAIT\x01true\x02" + HALF.format(key="half")),
    put("half with delay", f="4", i="DELAY\x0117\x02" + HALF.format(key="half")),
    put("half with trailing separator", f="4", i=HALF.format(key="half") + "\x02"),
    put("half by flag only", f="4"),
    put("commit by flag", f="8"),
    batch("batch", TWO, b=TOPIC),
    batch("batch without properties", TWO, b=TOPIC, i=""),
    put("retry", **RETRY),
    put("retry, waits", **RETRY, i="WAIT\x01true\x02TAGS\x01A"),
    put("retry, all used", **{**RETRY, "j": "99"}),
    put("reply", code=325, **{**REPLY_TOPIC, **REPLY}),
    put("reply, waits", code=325, **REPLY_TOPIC, i=REPLY["i"] + "\x02WAIT\x01true"),
    put("reply, compressed", code=325, **{**REPLY_TOPIC, **REPLY, "f": "1", "h": "3", "j": "2"}),
    put("reply, trailing separator", code=325, **REPLY_TOPIC, i=REPLY["i"] + "\x02"),
)

GROUP, BACK_GROUP = "stored_group", "stored_back_group"
LATE, SENT_BACK, ENDED = "StoredLate", "StoredBack", "StoredEnded"
DEAD, AGAIN = f"%DLQ%{BACK_GROUP}", f"%RETRY%{BACK_GROUP}"


def there(topic: str, count: int = 1) -> Case:
    return Case(
        f"there: {topic}", 30, {"topic": topic, "queueId": "0"}, until={"offset": str(count)}
    )


def back(name: str, level: str) -> Case:
    fields = {**BACK, "offset": "${sent_back.phy}", "group": BACK_GROUP, "delayLevel": level}
    return Case(name, 36, {**fields, "originTopic": SENT_BACK})


def read(topic: str) -> Case:
    return pull(f"read: {topic}", topic=topic, consumerGroup=GROUP, maxMsgNums="32")


LATER = (
    *(create(topic) for topic in (LATE, SENT_BACK, ENDED)),
    send("soon", b=LATE, i="TAGS\x01A\x02WAIT\x01true\x02DELAY\x011\x02UNIQ_KEY\x01S", h="2"),
    replace(send("to be sent back", b=SENT_BACK, f="1", h="3"), keep="sent_back"),
    replace(send("to be ended", b=ENDED, f="4", i=HALF.format(key="E")), keep="ended", loose=LOOSE),
    there(SENT_BACK),
    # The notice is read after the delayed messages have arrived: no request counts the notices.
    pull("beyond", topic=SENT_BACK, consumerGroup=GROUP, queueOffset="1000"),
    group(BACK_GROUP),
    back("back", "1"),
    back("back to the dead letters", "-1"),
    end("end", "8", "ended"),
    *(case for topic in (LATE, AGAIN, DEAD, ENDED) for case in (there(topic), read(topic))),
    read("OFFSET_MOVED_EVENT"),
)
"""Messages that the broker itself stores because of a request."""

CASES = [
    create(TOPIC),
    replace(MULTI, fields={**(MULTI.fields or {}), "topicFilterType": "MULTI_TAG"}),
    group(GROUP),
    *(case for kind in KINDS for case in kept(kind)),
    *LATER,
]
