"""Every code of the broker's table, with fields and bodies that make no sense; at guarded brokers,
whose state is still as it was at their start. Java is not asked for codes of our own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from zlib import compress

from mqcommon.wire.codes import OUR_CODES
from mqserver.broker.table import PROCESSORS
from tests.interop.differential.accounts import ADMIN
from tests.interop.differential.case import Case

NAMES = [
    "topic", "queueId", "consumerGroup", "producerGroup", "group", "groupName", "offset",
    "timestamp", "index", "count", "commitOffset", "queueOffset", "maxMsgNums", "sysFlag",
    "suspendTimeoutMillis", "subscription", "subVersion", "expressionType", "key", "maxNum",
    "beginTimestamp", "endTimestamp", "clientID", "clientId", "delayLevel", "originMsgId",
    "originTopic", "unitMode", "maxReconsumeTimes", "tranStateTableOffset", "commitLogOffset",
    "commitOrRollback", "fromTransactionCheck", "msgId", "transactionId", "defaultTopic",
    "defaultTopicQueueNums", "readQueueNums", "writeQueueNums", "perm", "topicFilterType",
    "topicSysFlag", "order", "bornTimestamp", "flag", "properties", "reconsumeTimes", "batch",
    "bname", "removeOffset", "isForce", "clientAddr", "filterGroups", "compareGroup", "srcGroup",
    "destGroup", "offline", "statsName", "statsKey", "isOrder", "jstackEnable", "accessKey",
    "secretKey", "whiteRemoteAddress", "admin", "defaultTopicPerm", "defaultGroupPerm",
    "topicPerms", "groupPerms", "globalWhiteAddrs", "aclFileFullPath", "namespace", "value",
    "brokerName", "brokerAddr", "clusterName", "brokerId", "haServerAddr", "compressed",
    "bodyCrc32", "cluster", "acceptStandardJsonOnly", "a", "b", "c", "d", "e", "f", "g", "h", "i",
    "j", "k", "l", "m", "n",
]  # fmt: skip
#: Codes whose replies show a whole state, which depends on earlier requests that one side refused.
WHOLE = {21, 26, 28, 43, 45, 54, 201, 300, 305, 317, 328}
VALUES: Mapping[str, str] = {
    "words": "abc",
    "climbing words": "../../x",
    "NUL and more": "a\x00b c",
    "long words": "w" * 2000,
    "huge numbers": "9" * 20,
    "minus one": "-1",
    "int max": "2147483647",
    "no words": "",
    "fractions": "1.5",
}
BODIES: Mapping[str, bytes] = {
    "garbage": b"\x00\xff}{" * 20,
    "deep lists": b"[" * 400,
    "deep objects": b'{"a":' * 400,
    "deflated": compress(b"\0" * 1_000_000, 9),
    "nearly JSON": b'{"groupName":"x",',
    "wrong types": b'{"groupName":[],"mqSet":7,"topic":{},"clientID":[1],"consumerDataSet":"x"}',
}


def spoiled(code: int, good: Case) -> Iterator[Case]:
    """A code with each of them."""
    yield replace(good, name=f"{code}, nothing")
    for what, value in VALUES.items():
        yield replace(good, name=f"{code}, {what}", fields=dict.fromkeys(NAMES, value))
    yield replace(
        good, name=f"{code}, strange names", fields={"": "x", "é": "y", " ": "", "9": "z"}
    )
    for what, body in BODIES.items():
        yield replace(good, name=f"{code}, {what}", body=body)
    yield replace(good, name=f"{code}, nothing, oldest version", version=0)
    yield replace(good, name=f"{code}, nothing, newest version", version=2**31 - 1)


def _of(code: int) -> Case:
    return Case("", code, account=ADMIN, loose=("body",) if code in WHOLE else ())


CASES = [
    case
    for code in PROCESSORS
    if code not in OUR_CODES
    for case in spoiled(int(code), _of(int(code)))
]
