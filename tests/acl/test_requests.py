"""Both planes serve and refuse the same requests, with RocketMQ's codes, order and remarks."""

from __future__ import annotations

import json
import logging

import pytest

from mqcommon.wire.codes import OUR_CODES, FrameFlag
from mqcommon.wire.frame import Frame, encode
from mqserver.embedded.in_process import InProcessServers
from mqserver.embedded.raw_client import Probe
from mqserver.runtime.guard import ACCOUNT_CODES, ADMIN_CODES
from tests.acl.signing import ADMIN, USER, send, signed

PREFIX = "org.apache.rocketmq.acl.common.AclException: "
PULL = {"queueId": "0", "queueOffset": "0", "maxMsgNums": "1", "sysFlag": "0",
        "commitOffset": "0", "suspendTimeoutMillis": "0", "subVersion": "0"}  # fmt: skip
OFFSET = {"consumerGroup": "g", "queueId": "0", "commitOffset": "0"}


def heartbeat(group: str, *topics: str) -> bytes:
    subscriptions = [{"topic": topic, "subString": "*"} for topic in topics]
    consumer = {"groupName": group, "subscriptionDataSet": subscriptions}
    return json.dumps({"clientID": "c", "consumerDataSet": [consumer]}).encode()


def refusal(reply: Frame) -> str:
    """The reason of the refusal, "" if it was not access control."""
    remark = reply.remark or ""
    if not remark.startswith(PREFIX):
        return ""
    assert reply.code == 1 and reply.serialize == 0 and not reply.fields and not reply.body
    return remark.removeprefix(PREFIX)


TOPIC, GROUP = "No default permission for topic:", "No default permission for group:"
CASES: list[tuple[int, dict[str, str], bytes, str]] = [
    (310, send("AclPub"), b"x", ""),
    (310, send("AclSub"), b"x", TOPIC + "AclSub"),
    (310, send("AclDeny"), b"x", TOPIC + "AclDeny"),
    (310, send("AclOther"), b"x", TOPIC + "AclOther"),
    (310, send("RMQ_SYS_TRACE_TOPIC"), b"x", ""),
    (10, send("AclPub", 10), b"x", ""),
    (10, send("AclSub", 10), b"x", TOPIC + "AclSub"),
    (320, send("AclDeny"), b"x", TOPIC + "AclDeny"),  # RocketMQ 4.9 does not look at batches
    (11, {**PULL, "topic": "AclSub", "consumerGroup": "g"}, b"", ""),
    (11, {**PULL, "topic": "AclPub", "consumerGroup": "g"}, b"", TOPIC + "AclPub"),
    (12, {"topic": "AclPub", "key": "k", "maxNum": "1"}, b"", TOPIC + "AclPub"),
    (34, {}, heartbeat("g", "AclSub", "%RETRY%g"), ""),
    (34, {}, heartbeat("g", "AclSub", "AclPub"), TOPIC + "AclPub"),
    (34, {}, heartbeat("shut"), GROUP + "shut"),
    (34, {}, b"{", "the heartbeat cannot be read"),
    (35, {"clientID": "c", "producerGroup": "p"}, b"", ""),
    (35, {"clientID": "c", "consumerGroup": "shut"}, b"", GROUP + "shut"),
    (36, {"group": "shut", "offset": "0", "delayLevel": "0"}, b"", GROUP + "shut"),
    (38, {"consumerGroup": "shut"}, b"", GROUP + "shut"),
    (38, {"consumerGroup": "g"}, b"", ""),
    (15, {**OFFSET, "topic": "AclSub"}, b"", ""),
    (15, {**OFFSET, "topic": "AclPub"}, b"", TOPIC + "AclPub"),
    (14, {"consumerGroup": "g", "topic": "AclDeny", "queueId": "0"}, b"", ""),
    (30, {"topic": "AclDeny", "queueId": "0"}, b"", ""),
    (999, {}, b"", ""),
    *(
        (code, {}, b"", f"Need admin permission for request code={code}, "
                        "but accessKey=rocketuser is not")
        for code in (17, 25, 200, 207, 215)
    ),
]  # fmt: skip


def test_each_code_asks_for_its_permissions(pair: InProcessServers, probe: Probe) -> None:
    acl = pair_acl(pair)
    acl.put_account({"accessKey": "rocketuser", "groupPerms": ["shut=DENY"]})
    found = [refusal(probe.call(signed(code, fields, body))) for code, fields, body, _ in CASES]
    assert found == [wanted for *_, wanted in CASES]
    admin = [refusal(probe.call(signed(code, fields, body, ADMIN))) for code, fields, body, _ in
             CASES if body != b"{"]  # fmt: skip
    assert set(admin) == {""}


@pytest.mark.parametrize("serialize", [0, 1])
def test_who_is_not_who_he_says(probe: Probe, serialize: int) -> None:
    def ask(fields: dict[str, str], body: bytes = b"x") -> str:
        return refusal(probe.call(Frame(310, fields, body, serialize=serialize)))

    good = signed(310, send("AclPub"), b"x").fields
    assert ask(good) == ""
    assert ask(send("AclPub")) == "No accessKey is configured"
    assert ask({**good, "AccessKey": "nosuchuser"}) == "No acl config for nosuchuser"
    failed = "Check signature failed for accessKey=rocketuser"
    assert ask({name: good[name] for name in good if name != "Signature"}) == failed
    assert ask(signed(310, send("AclPub"), b"x", (USER[0], "wrongsecret")).fields) == failed
    assert ask(good, b"y") == failed
    assert ask({**good, "b": "AclDeny"}) == failed
    assert ask({**good, "extra": "1"}) == failed
    assert ask({**good, "Signature": good["Signature"].rstrip("=")}) == failed
    # Another account's name with our signature.
    assert ask({**good, "AccessKey": "rocketadmin"}).endswith("accessKey=rocketadmin")
    huge = ask({**good, "AccessKey": "k" * 200_000})
    assert huge == "No acl config for " + "k" * 255


def test_a_field_given_twice_is_no_way_around(probe: Probe) -> None:
    """The reader of the binary header would take the last field, which is empty, and check no
    topic.
    """
    full = signed(310, send("AclDeny"), b"x", serialize=1)
    data = bytearray(encode(full))
    twice = b"\x00\x01b" + (0).to_bytes(4, "big")
    ext_at = 8 + 17
    ext = int.from_bytes(data[ext_at : ext_at + 4], "big")
    data[ext_at : ext_at + 4] = (ext + len(twice)).to_bytes(4, "big")
    end = ext_at + 4 + ext
    data[end:end] = twice
    data[:4] = (len(data) - 4).to_bytes(4, "big")
    data[5:8] = (int.from_bytes(data[5:8], "big") + len(twice)).to_bytes(3, "big")
    probe.write(bytes(data))
    assert refusal(probe.read()) == "Check signature failed for accessKey=rocketuser"


def test_one_way_requests_are_refused_in_silence(probe: Probe) -> None:
    probe.write(encode(Frame(310, send("AclPub"), b"x", flag=FrameFlag.ONEWAY, opaque=1)))
    reply = probe.call(signed(30, {"topic": "AclPub", "queueId": "0"}, account=ADMIN))
    assert not refusal(reply)
    assert reply.fields.get("offset", "0") == "0"


def test_nothing_is_stored_for_the_refused(pair: InProcessServers, probe: Probe) -> None:
    context = pair_context(pair)
    before = context.store.max_physical_offset()
    for fields in (send("AclDeny"), send("AclOther")):
        assert refusal(probe.call(signed(310, fields, b"x")))
    assert context.store.max_physical_offset() == before
    assert "AclOther" not in context.topics.wrapper().topic_config_table


def test_refusals_are_one_line_in_the_log(
    pair: InProcessServers, probe: Probe, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(50):
        probe.call(signed(310, {**send("AclPub"), "AccessKey": "x\nERROR forged"}, b"x"))
        probe.call(signed(310, send("AclPub"), b"x", ("evil\nname", "s3cret-words")))
    with caplog.at_level(logging.WARNING, logger="mqserver.broker.acl"):
        pair_acl(pair).look()
        pair_acl(pair).look()
    (record,) = [one for one in caplog.records if one.name.startswith("mqserver.broker.acl")]
    text = record.getMessage()
    assert "refused 50 requests" in text and "\n" not in text and "s3cret" not in text


def pair_context(pair: InProcessServers):  # type: ignore[no-untyped-def]
    assert pair.server is not None
    return pair.server.context


def pair_acl(pair: InProcessServers):  # type: ignore[no-untyped-def]
    acl = pair_context(pair).acl
    assert acl is not None
    return acl


@pytest.mark.parametrize("code", [17, 25, 50, 51, 52, 53, 54, 200, 205, 207, 215, 306, 323, 329])
def test_administration_needs_an_admin_account(probe: Probe, code: int) -> None:
    reply = probe.call(signed(code, {"accessKey": USER[0], "admin": "true"}))
    wanted = f"Need admin permission for request code={code}, but accessKey={USER[0]} is not"
    assert refusal(reply) == wanted


def test_the_codes_of_administration_are_one_table(probe: Probe) -> None:
    """The codes that need an admin account are those that the guard limits to trusted hosts."""
    wanted = "Need admin permission"
    codes = {*range(500), *map(int, OUR_CODES)}
    found = {code for code in codes if refusal(probe.call(signed(code))).startswith(wanted)}
    assert found == ACCOUNT_CODES == ADMIN_CODES | {52}


@pytest.mark.parametrize("where", ["account", "global"])
@pytest.mark.parametrize("skips", [False, True])
def test_a_white_address_makes_nobody_an_admin(
    pair: InProcessServers, probe: Probe, where: str, skips: bool
) -> None:
    acl = pair_acl(pair)
    acl._white_skips_signature = skips
    if where == "account":
        acl.put_account({"accessKey": USER[0], "whiteRemoteAddress": "*"})
    else:
        assert acl.set_white(["*"])
    become = {"accessKey": USER[0], "secretKey": USER[1], "admin": "true"}
    for code in (17, 25, 50, 51, 53, 54, 200):
        assert "Need admin permission" in refusal(probe.call(signed(code, become)))
        assert refusal(probe.call(Frame(code, become))) == "No accessKey is configured"
    assert not refusal(probe.call(signed(310, send("AclDeny"), b"x"))), "messages it may"
    for account, _ in acl._loaded.accounts.values():
        assert account.admin is (account.access_key == ADMIN[0])


def test_an_admin_may_step_down_and_then_nobody_administers(
    pair: InProcessServers, probe: Probe, caplog: pytest.LogCaptureFixture
) -> None:
    me = {"accessKey": ADMIN[0], "secretKey": ADMIN[1], "admin": "false"}
    with caplog.at_level(logging.WARNING, logger="mqserver.broker.acl"):
        assert probe.call(signed(50, me, account=ADMIN)).code == 0
    assert "no account is an admin" in caplog.text
    again = probe.call(signed(50, {**me, "admin": "true"}, account=ADMIN))
    assert "Need admin permission" in refusal(again)


@pytest.mark.parametrize("key", ["aclEnable=false", "rocketmqHome=/tmp", "aclPlainFile=conf/x.yml",
                                 "aclWhiteListSkipsSignature=true"])  # fmt: skip
def test_access_control_cannot_be_turned_off_online(probe: Probe, key: str) -> None:
    reply = probe.call(signed(25, body=key.encode(), account=ADMIN))
    assert reply.code == 16
    assert "cannot change while running" in (reply.remark or "")
    assert "Need admin permission" in refusal(probe.call(signed(50)))


@pytest.mark.parametrize("code", [34, 25, 41, 42, 222])
def test_a_body_that_is_nested_deeply_ends_nothing(probe: Probe, code: int) -> None:
    for body in (b"[" * 2_000_000, b'{"a":' * 400_000):
        assert probe.call(signed(code, body=body, account=ADMIN)).code in (1, 16, 0)
    assert not refusal(probe.call(signed(310, send("AclPub"), b"x")))
