"""Changes of the access files: by administrators, by hand, by several files."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest
import yaml

from mqcommon.wire.frame import Frame
from mqserver.broker.acl.control import AccessControl, check_files
from mqserver.broker.acl.files import AclPaths
from mqserver.broker.broker import Broker
from mqserver.config.broker_table import BROKER
from mqserver.config.load import load, pairs
from mqserver.config.loaded import SettingsError
from mqserver.embedded.in_process import InProcessServers
from mqserver.embedded.raw_client import Probe
from mqserver.embedded.standalone import Standalone
from mqserver.runtime.data_plane import Tables
from tests.acl.signing import ADMIN, PLAIN_ACL, USER, home_with, send, signed
from tests.acl.test_requests import pair_acl, refusal

NEW = ("newaccount", "n3w-secret-words")


def change(probe: Probe, **fields: str) -> Frame:
    return probe.call(signed(50, fields, account=ADMIN))


def may_send(probe: Probe, topic: str, account: tuple[str, str]) -> str:
    return refusal(probe.call(signed(310, send(topic), b"x", account)))


def test_an_account_comes_changes_and_goes(probe: Probe, home: Path) -> None:
    path = home / "conf" / "plain_acl.yml"
    assert may_send(probe, "T1", NEW) == "No acl config for newaccount"
    reply = change(probe, accessKey=NEW[0], secretKey=NEW[1], topicPerms="T1=PUB,T2=SUB")
    assert (reply.code, reply.remark) == (0, None)
    assert may_send(probe, "T1", NEW) == ""  # at once: the reply comes after the publication
    assert may_send(probe, "T2", NEW) == "No default permission for topic:T2"
    reply = change(probe, accessKey=NEW[0], secretKey=NEW[1], defaultTopicPerm="PUB|SUB")
    assert reply.code == 0 and may_send(probe, "T3", NEW) == ""
    account = yaml.safe_load(path.read_text())["accounts"][-1]
    assert account == {"accessKey": NEW[0], "secretKey": NEW[1], "admin": False,
                       "topicPerms": ["T1=PUB", "T2=SUB"],
                       "defaultTopicPerm": "PUB|SUB"}  # fmt: skip
    assert probe.call(signed(51, {"accessKey": NEW[0]}, account=ADMIN)).code == 0
    assert may_send(probe, "T1", NEW) == "No acl config for newaccount"
    assert yaml.safe_load(path.read_text())["dataVersion"][0]["counter"] == 3


def test_a_new_secret_counts_at_once(probe: Probe) -> None:
    assert may_send(probe, "AclPub", USER) == ""
    assert change(probe, accessKey=USER[0], secretKey=NEW[1]).code == 0
    assert may_send(probe, "AclPub", USER).startswith("Check signature failed")
    assert may_send(probe, "AclPub", (USER[0], NEW[1])) == ""


@pytest.mark.parametrize(
    ("fields", "code", "remark"),
    [
        ({"secretKey": "12345678"}, 1, "accessKey is missing"),
        ({"accessKey": "short", "secretKey": NEW[1]}, 209, "length should longer than 6"),
        ({"accessKey": "someaccount"}, 209, "secretKey=null cannot be null"),
        ({"accessKey": "someaccount", "secretKey": NEW[1], "topicPerms": "T"}, 209,
         "Parse Resource format error for T."),
        ({"accessKey": "someaccount", "secretKey": NEW[1], "groupPerms": "G=ALL"}, 209,
         "Parse resource permission error for G=ALL."),
        ({"accessKey": "someaccount", "secretKey": NEW[1], "whiteRemoteAddress": "300.1.1.1"}, 209,
         "Netaddress examine Exception netaddress is 300.1.1.1"),
        ({"accessKey": "someaccount", "secretKey": "s" * 200_000}, 209,
         "a value has 200000 characters"),
    ],
)  # fmt: skip
def test_bad_accounts_change_nothing(
    probe: Probe, home: Path, fields: dict[str, str], code: int, remark: str
) -> None:
    reply = change(probe, **fields)
    assert reply.code == code and remark in (reply.remark or ""), reply
    assert NEW[1] not in (reply.remark or "")
    assert (home / "conf" / "plain_acl.yml").read_text() == PLAIN_ACL
    assert [entry.name for entry in (home / "conf").iterdir()] == ["plain_acl.yml"]


def test_white_lists(probe: Probe, home: Path) -> None:
    def update(addresses: str, path: str | None = None) -> Frame:
        fields = {"globalWhiteAddrs": addresses}
        if path is not None:
            fields["aclFileFullPath"] = path
        return probe.call(signed(53, fields, account=ADMIN))

    assert may_send(probe, "AclDeny", USER) == "No default permission for topic:AclDeny"
    assert update("10.10.103.*,127.0.0.1").code == 0
    assert may_send(probe, "AclDeny", USER) == ""
    forged = signed(310, send("AclDeny"), b"x", (USER[0], "wrong-secret"))
    assert refusal(probe.call(forged)).startswith("Check signature failed")
    assert refusal(probe.call(Frame(310, send("AclDeny")))) == "No accessKey is configured"
    before = (home / "conf" / "plain_acl.yml").read_text()
    other = home / "conf" / "acl" / "other.yml"
    for path in (str(other), "/etc/passwd", f"{home}/conf/../../x.yml", f"{home}/conf", "a\0b"):
        reply = update("10.0.0.1", path)
        assert reply.code == 211
        assert reply.remark == "The globalWhiteAddresses[10.0.0.1] has been updated failed."
    assert update("nonsense").code == 211
    assert (home / "conf" / "plain_acl.yml").read_text() == before
    other.parent.mkdir()
    other.write_text("accounts: []\n")
    assert update("192.168.0.*", str(other)).code == 0
    assert yaml.safe_load(other.read_text())["globalWhiteRemoteAddresses"] == ["192.168.0.*"]


def test_what_administrators_see_has_no_secret(probe: Probe) -> None:
    reply = probe.call(signed(54, account=ADMIN))
    shown = json.loads(reply.body)
    assert [account["accessKey"] for account in shown["plainAccessConfigs"]] == [USER[0], ADMIN[0]]
    assert {account["secretKey"] for account in shown["plainAccessConfigs"]} == {"******"}
    for secret in (USER[1], ADMIN[1]):
        assert secret.encode() not in reply.body
    fields = probe.call(signed(52, account=ADMIN)).fields
    assert (fields["brokerName"], fields["clusterName"]) == ("broker-a", "DefaultCluster")
    assert json.loads(fields["version"])["counter"] == 0
    (path,) = json.loads(fields["allAclFileVersion"])
    assert path.endswith("conf/plain_acl.yml")


def test_edits_by_hand_are_taken_and_bad_ones_are_not(
    pair: InProcessServers, probe: Probe, home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, acl = home / "conf" / "plain_acl.yml", pair_acl(pair)
    path.write_text(PLAIN_ACL.replace("AclDeny=DENY", "AclDeny=PUB"))
    acl.look()
    assert may_send(probe, "AclDeny", USER) == ""
    stamp = path.stat().st_mtime_ns
    path.write_text("accounts: [")
    os.utime(path, ns=(stamp + 1, stamp + 1))
    for _ in range(3):
        acl.look()
    assert may_send(probe, "AclDeny", USER) == ""
    assert len([r for r in caplog.records if "the old rules stay" in r.getMessage()]) == 1
    path.unlink()
    acl.look()
    assert may_send(probe, "AclDeny", USER) == "", "an editor may be replacing it"
    acl.look()
    assert may_send(probe, "AclPub", USER) == "No acl config for rocketuser"


def test_a_file_that_is_empty_for_a_moment_keeps_its_rules(
    pair: InProcessServers, probe: Probe, home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, acl = home / "conf" / "plain_acl.yml", pair_acl(pair)
    for text in ("", "# being saved\n"):
        path.write_text(text)
        for _ in range(3):
            acl.look()
        assert may_send(probe, "AclPub", USER) == ""
    warned = [r for r in caplog.records if "is empty; to remove its rules" in r.getMessage()]
    assert len(warned) == 2
    path.write_text("accounts: []")
    acl.look()
    assert may_send(probe, "AclPub", USER) == "No acl config for rocketuser"


def test_the_watch_finds_a_change_by_itself(tmp_path: Path) -> None:
    home, seen = home_with(tmp_path), threading.Event()

    class Watched(Tables):
        def publish(self, table, rows, replace=False):  # type: ignore[no-untyped-def]
            if "thirdaccount" in rows[""][0]:
                seen.set()

    acl = AccessControl(AclPaths(home, "conf/plain_acl.yml"), Watched(), lambda: 1, watch_s=0.01)
    acl.load()
    acl.start(lambda: (0, None))
    (home / "conf" / "acl").mkdir()
    account = "accounts:\n- accessKey: thirdaccount\n  secretKey: 12345678\n"
    (home / "conf" / "acl" / "third.yml").write_text(account)
    assert seen.wait(60)
    acl.stop()


def test_an_account_is_changed_in_the_file_that_has_it(
    pair: InProcessServers, probe: Probe, home: Path
) -> None:
    folder = home / "conf" / "acl"
    folder.mkdir()
    mine = "accounts:\n- accessKey: seconduser\n  secretKey: another-secret\n  admin: true\n"
    (folder / "a.yml").write_text(mine)
    pair_acl(pair).look()
    assert may_send(probe, "AclDeny", ("seconduser", "another-secret")) == ""
    assert change(probe, accessKey="seconduser", secretKey=NEW[1]).code == 0
    assert yaml.safe_load((folder / "a.yml").read_text())["accounts"][0]["secretKey"] == NEW[1]
    assert (home / "conf" / "plain_acl.yml").read_text() == PLAIN_ACL


def test_a_key_that_two_files_have_is_refused_with_its_line(
    pair: InProcessServers, probe: Probe, home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = home / "conf" / "acl"
    folder.mkdir()
    mine = "accounts:\n- accessKey: rocketuser\n  secretKey: another-secret\n  admin: true\n"
    (folder / "a.yml").write_text(mine)
    pair_acl(pair).look()
    assert may_send(probe, "AclPub", USER) == "", "the old rules stay"
    assert "account 1, line 3: 'rocketuser' has an account in" in caplog.text


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        ({}, "aclEnable=true needs rocketmqHome"),
        ({"rocketmqHome": "HOME"}, "plain_acl.yml: account 1, line 1: The accessKey=x"),
    ],
)
def test_a_broker_with_bad_accounts_does_not_start(
    tmp_path: Path, settings: dict[str, str], wanted: str
) -> None:
    home = home_with(tmp_path / "home", "accounts: [{accessKey: x}]")
    named = {key: str(home) if value == "HOME" else value for key, value in settings.items()}
    both = Standalone(tmp_path / "store", settings={"aclEnable": "true", **named})
    broker = Broker(load(BROKER, flags=pairs(both.broker_settings, "test")))
    with pytest.raises(SettingsError, match=wanted):
        broker.start()
    with pytest.raises(SettingsError, match=wanted):
        check_files(broker.settings)


def test_without_access_control_changes_and_queries_fail() -> None:
    with Standalone() as mq, Probe(mq.broker_address, timeout=60) as probe:
        for code, failure in ((50, 209), (51, 210), (53, 211)):
            fields = {"accessKey": "someaccount", "globalWhiteAddrs": "10.0.0.1"}
            reply = probe.call(Frame(code, fields))
            assert reply.code == failure
            assert "set aclEnable=true" in (reply.remark or "")
        probe.write(b"".join(map(_encoded, (52, 54))))
        assert probe.call(Frame(26)).code == 0


def _encoded(code: int) -> bytes:
    from mqcommon.wire.frame import encode

    return encode(Frame(code, opaque=900_000 + code))
