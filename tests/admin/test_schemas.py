"""The JSON rows of commands have the fields and types of `schemas/`."""

from __future__ import annotations

import json
import shlex

import pytest

from mqadmin import main
from tests.admin.golden import RecordedCluster, connecting_to
from tests.admin.json_schema import RECORDED_SCHEMAS, check_rows
from tests.admin.test_golden import SAME

RECORDED = {
    *("topicList", "topicRoute", "topicStatus", "topicClusterList", "updateTopic", "statsAll"),
    *("deleteTopic", "updateTopicPerm", "updateOrderConf-get", "updateOrderConf-delete"),
    *("allocateMQ", "queryMsgById", "queryMsgByKey", "queryMsgByUniqueKey", "queryMsgByOffset"),
    *("printMsg", "printMsgByQueue", "consumeMessage", "queryCq", "sendMessage", "sendMsgStatus"),
    *("checkMsgSendRT", "brokerStatus", "brokerConsumeStats", "consumerProgress"),
    *("updateSubGroup", "deleteSubGroup", "updateBrokerConfig", "getBrokerConfig"),
    *("getBrokerConfig-cluster", "cleanExpiredCQ", "cleanUnusedTopic", "deleteExpiredCommitLog"),
    *("producer", "producerConnection", "getNamesrvConfig", "updateNamesrvConfig"),
    *("updateKvConfig", "deleteKvConfig", "wipeWritePerm", "addWritePerm", "consumerConnection"),
    *("getConsumerConfig", "cloneGroupOffset", "resetOffsetByTime", "skipAccumulatedMessage"),
}
VARIANTS = {
    *("topicList-cluster", "topicRoute-list", "consumerProgress-group", "consumerProgress-client"),
    "clusterList-more",
}
"""Recordings of options that make other rows; each has a schema of its name."""
CASES = {
    "clusterList": "clusterList",  # its text has the age of the log, so it is not in SAME
    **{name: SAME[name] for name in sorted(RECORDED | VARIANTS)},
}


@pytest.mark.parametrize("session", CASES)
def test_rows_have_the_fields_of_the_schema(
    session: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = shlex.split(CASES[session])
    cluster = RecordedCluster(session)
    where = ["-n", "127.0.0.1:9876", "--output", "jsonl"]
    assert main([*words, *where], connecting_to(cluster)) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert rows
    check_rows(session if session in VARIANTS else words[0], rows, RECORDED_SCHEMAS)


def test_no_schema_is_left_over() -> None:
    named = {line.split()[0] for line in CASES.values()} | VARIANTS
    assert {path.stem for path in RECORDED_SCHEMAS.glob("*.json")} == named
