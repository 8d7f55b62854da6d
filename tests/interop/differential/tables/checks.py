"""Half messages without an end: the broker asks their producer (39, 323). At guarded brokers,
which ask every second and twice at most.
"""

from __future__ import annotations

import time
from dataclasses import replace

from tests.interop.differential.accounts import ADMIN
from tests.interop.differential.case import Case, body_of
from tests.interop.differential.tables.send import create, send

TOPIC = "CheckTopic"
NOW = str(int(time.time() * 1000))
HALF = "TRAN_MSG\x01true\x02PGROUP\x01{by}\x02UNIQ_KEY\x01unique-{name}\x02WAIT\x01true"


def producer(name: str) -> Case:
    """The heartbeat of a producer whose group and connection have its name."""
    data = {"clientID": name, "consumerDataSet": [], "producerDataSet": [{"groupName": name}]}
    return Case(f"producer {name}", 34, None, body_of(data), connection=name)


def half(name: str, by: str, more: str = "", born: str = NOW) -> Case:
    """A half message."""
    text = HALF.format(name=name, by=by) + more
    case = send(f"half {name}", b=TOPIC, e="1", f="4", g=born, i=text)
    return replace(case, keep=name, loose=("queueOffset",))


def asked(case: Case, by: str) -> Case:
    """The case, after which a producer is asked."""
    return replace(case, hears=(by, 39), keep=case.keep or case.name)


def end(name: str, of: str, state: str, by: str) -> Case:
    """END_TRANSACTION as the producer answers when it is asked."""
    values = {
        "producerGroup": by, "tranStateTableOffset": f"${{{of}_told.tranStateTableOffset}}",
        "commitLogOffset": f"${{{of}_told.commitLogOffset}}", "commitOrRollback": state,
        "msgId": of, "fromTransactionCheck": "true", "transactionId": of,
    }  # fmt: skip
    return Case(name, 37, values)


def ended(name: str, by: str) -> list[Case]:
    """A half message that is committed at once."""
    values = {
        "producerGroup": by, "tranStateTableOffset": f"${{{name}.queueOffset}}", "msgId": name,
        "commitLogOffset": f"${{{name}.phy}}", "commitOrRollback": "8", "transactionId": name,
    }  # fmt: skip
    return [half(name, by), Case(f"{name} is ended", 37, values)]


def end_of(topic: str, offset: int, queue_id: int = 0) -> Case:
    """A queue that gets this long."""
    where = {"topic": topic, "queueId": str(queue_id)}
    return Case(f"{topic} {offset}", 30, where, until={"offset": str(offset)})


LOST = "TRANS_CHECK_MAX_TIME_TOPIC"
PULL = {
    "consumerGroup": "CID_RMQ_SYS_look", "topic": LOST, "queueId": "0", "queueOffset": "0",
    "maxMsgNums": "8", "sysFlag": "4", "commitOffset": "0", "suspendTimeoutMillis": "0",
    "subscription": "*", "subVersion": "0", "expressionType": "TAG",
}  # fmt: skip

PLAIN = [
    create(TOPIC),
    producer("first"),
    producer("second"),
    asked(half("one", "first"), "first"),
    end("commit", "one", "8", "first"),
    end_of(TOPIC, 1, 1),
    Case("pull the committed", 11, {**PULL, "topic": TOPIC, "queueId": "1"}),
    asked(half("immune", "second", "\x02CHECK_IMMUNITY_TIME_IN_SECONDS\x010"), "second"),
    replace(end("undecided", "immune", "0", "second"), silent=True),
    end("rollback", "immune", "12", "second"),
    half("ancient", "second", born="1"),
    end_of(LOST, 1),
    half("spared", "first", "\x02CHECK_IMMUNITY_TIME_IN_SECONDS\x0160"),
    half("stubborn", "second"),
    *ended("younger", "second"),
    asked(Case("a first time", 30, {"topic": TOPIC, "queueId": "0"}), "second"),
    asked(Case("a second time", 30, {"topic": TOPIC, "queueId": "0"}), "second"),
    end_of(LOST, 3),
    Case("pull the given up", 11, PULL),
    asked(Case("resume", 323, {"msgId": "${stubborn.msgId}"}), "second"),
    end("rollback of the resumed", "resume", "12", "second"),
    end("commit of nobody's", "resume", "8", "third"),
]
CASES = [replace(case, account=ADMIN) for case in PLAIN]
