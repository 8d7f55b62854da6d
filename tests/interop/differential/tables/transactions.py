"""Broker: half messages, their ends (37), and the check that is resumed (323)."""

from __future__ import annotations

from dataclasses import replace

from tests.interop.differential.case import Case, spoiled
from tests.interop.differential.tables.send import create, send

TOPIC = "TransactionTopic"
HALF = "TRAN_MSG\x01true\x02PGROUP\x01p\x02UNIQ_KEY\x01{key}"


def half(name: str, **letters: str) -> Case:
    """A half message, whose reply is kept under its name."""
    letters = {"b": TOPIC, "f": "4", "i": HALF.format(key=name), **letters}
    return replace(send(f"half {name}", **letters), keep=name)


def end(name: str, state: str, of: str, **fields: str) -> Case:
    """END_TRANSACTION."""
    values = {
        "producerGroup": "p", "tranStateTableOffset": f"${{{of}.queueOffset}}",
        "commitLogOffset": f"${{{of}.phy}}", "commitOrRollback": state, "msgId": of,
        "fromTransactionCheck": "false", "transactionId": of,
    }  # fmt: skip
    return Case(name, 37, {**values, **fields})


NUMBERS = ("tranStateTableOffset", "commitLogOffset", "commitOrRollback")

CASES = [
    create(TOPIC),
    replace(send("plain", b=TOPIC), keep="plain"),
    *(half(name) for name in "abcdef"),
    half("x", i="TRAN_MSG\x01true"),
    half("y", f="0"),
    half("z", i="TRAN_MSG\x01false", f="4"),
    half("r", f="8"),
    end("commit", "8", "a"),
    end("commit twice", "8", "a"),
    end("rollback", "12", "b"),
    end("commit the rolled back", "8", "b"),
    replace(end("unknown", "0", "c"), silent=True),
    end("commit, binary header", "8", "c"),
    end("wrong group", "8", "d", producerGroup="q"),
    end("wrong queue offset", "8", "d", tranStateTableOffset="999"),
    end("wrong place", "8", "d", commitLogOffset="1000000000"),
    end("place -1", "8", "d", commitLogOffset="-1"),
    end("wrong state", "5", "d"),
    end("state -1", "-1", "d"),
    end("no half message", "8", "plain"),
    end("rollback of no half message", "12", "plain"),
    replace(end("unknown, from a check", "0", "d", fromTransactionCheck="true"), silent=True),
    end("without group in the message", "8", "x"),
    *spoiled(end("bad end", "8", "e", producerGroup="q"), numbers=NUMBERS, words=("msgId",)),
    end("from a check", "8", "f", fromTransactionCheck="true"),
    Case("stored", 30, {"topic": TOPIC, "queueId": "0"}, until={"offset": "6"}),
    Case("resume", 323, {"msgId": "7F00000100002A9F00000000000FFFFF"}),
    *spoiled(Case("bad resume", 323, {"msgId": "zz"}), words=("msgId",)),
]
