"""The recorded sessions of RocketMQ's admin tool, with our NameServer and broker.

Every request is sent; every reply that RocketMQ gave is compared: code, remark, header fields,
body. `replaying_admin` masks a few values, and says why at each.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from mqserver.embedded.standalone import Standalone
from tests.e2e.recorded_admin import RECORDINGS, Found, exchanges
from tests.e2e.replaying_admin import SETTINGS, AdminReplay, write_config

UNANSWERED = {
    ("startMonitoring", 11): "held when the tool was stopped",
    ("clusterAclConfigVersion-off", 52): "RocketMQ without access control never answers it",
    ("cleanUnusedTopic", 105): "the tool had ended before the reply",
}
"""Requests without a recorded reply: name of the session and code, with the reason."""
REGISTERS_BEFORE = {"admin-json": "getNamesrvConfig", "admin-rocketmq": "allocateMQ"}
"""Before these requests the recorded broker registered its whole table, as it does every 30 s and
after a heartbeat's new topic, and so restored a wiped permission."""


@pytest.mark.parametrize("recording", RECORDINGS)
def test_the_servers_say_what_rocketmqs_said(recording: str, plane: str, tmp_path: Path) -> None:
    found = Found(exchanges(recording))
    write_config(found, tmp_path)
    with Standalone(tmp_path, settings={"dataPlane": plane, **SETTINGS}) as mq:
        replay = AdminReplay(mq, found)
        try:
            replay.prepare()
            replay.play(REGISTERS_BEFORE[recording])
        finally:
            replay.close()
    assert not replay.differences, "\n".join(replay.differences)
    unanswered = [one for one in found.recording if one.reply is None]
    assert {(one.session, one.request.code) for one in unanswered} <= UNANSWERED.keys()
    assert replay.compared == len(found.recording) - len(unanswered) > 700
