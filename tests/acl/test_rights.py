"""Every request code has a row that says which right it needs, and the broker keeps to it."""

from __future__ import annotations

import json

from mqcommon.wire.frame import Frame
from mqserver.broker.acl.rights import RIGHTS, Right
from mqserver.broker.table import PROCESSORS
from mqserver.embedded.in_process import InProcessServers
from mqserver.embedded.raw_client import Probe
from tests.acl.signing import ADMIN, USER, send, signed
from tests.acl.test_requests import refusal

CODES = sorted(map(int, PROCESSORS))


def test_every_code_has_a_row() -> None:
    missing = sorted(set(CODES) - set(RIGHTS))
    assert not missing, f"add rows for {missing} to RIGHTS in mqserver/broker/acl/rights.py"


def asking(code: int) -> tuple[dict[str, str], bytes]:
    """A request that names a topic and a group that the account may not use, in every form."""
    fields = {"topic": "AclDeny", "b": "AclDeny", "a": "p", "consumerGroup": "shut"}
    fields |= {"group": "shut", "offset": "0", "key": "k", "maxNum": "1"}
    queue = {"topic": "AclDeny", "brokerName": "broker-a", "queueId": 0}
    consumer = {"groupName": "shut", "subscriptionDataSet": [{"topic": "AclDeny"}]}
    body = {"consumerGroup": "shut", "clientId": "c", "clientID": "c", "mqSet": [queue]}
    return fields, json.dumps({**body, "consumerDataSet": [consumer]}).encode()


def test_an_account_without_rights_is_refused_as_the_table_says(probe: Probe) -> None:
    shut = {"topicPerms": "AclDeny=DENY", "groupPerms": "shut=DENY"}
    keys = {"accessKey": USER[0], "secretKey": USER[1]}
    assert probe.call(signed(50, {**keys, **shut}, account=ADMIN)).code == 0
    of_message = {33, 37}  # the next test covers it: without a message, the end gets no answer
    wrong = []
    for code in sorted(set(CODES) - of_message):
        fields, body = asking(code)
        why, right = refusal(probe.call(signed(code, fields, body, USER))), RIGHTS[code].right
        is_right = bool(why) == (right is not Right.SIGNATURE)
        if not is_right or (right is Right.ADMIN and "Need admin permission" not in why):
            wrong.append((code, right, why))
    assert not wrong


def offset_of(probe: Probe, topic: str) -> tuple[str, str]:
    """The physical offset and the id of a new message."""
    reply = probe.call(signed(310, send(topic), b"secret", ADMIN))
    assert reply.code == 0, reply.remark
    msg_id = reply.fields["msgId"]
    return str(int(msg_id[16:], 16)), msg_id


def test_viewing_or_copying_a_message_needs_its_topics_right(
    pair: InProcessServers, probe: Probe
) -> None:
    offset, msg_id = offset_of(probe, "AclPub")  # the user may send there, not read
    back = {"group": "acl_group", "offset": offset, "delayLevel": "1", "originTopic": "AclSub"}
    direct = {"consumerGroup": "acl_group", "clientId": "c", "msgId": msg_id}
    for code, fields in ((33, {"offset": offset}), (36, back), (309, direct)):
        reply = probe.call(signed(code, fields, b"", USER))
        assert refusal(reply) == "No default permission for topic:AclPub", code
        assert not reply.body
    readable, _ = offset_of(probe, "AclSub")
    assert probe.call(signed(33, {"offset": readable}, b"", USER)).code == 0
    assert probe.call(signed(36, {**back, "offset": readable}, b"", USER)).code == 0
    view = Frame(33, {"offset": offset})
    assert refusal(probe.call(view)) == "No accessKey is configured"
