"""The JSON rows of commands have the fields and types of `schemas/`."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from mqadmin import main
from mqclient.admin import Admin
from tests.admin.golden import RecordedCluster
from tests.admin.json_schema import SCHEMAS, check_rows
from tests.admin.test_golden import SAME

RECORDED = {
    *("updateSubGroup", "deleteSubGroup", "updateBrokerConfig", "getBrokerConfig"),
    *("getBrokerConfig-cluster", "cleanExpiredCQ", "cleanUnusedTopic", "deleteExpiredCommitLog"),
    *("producer", "producerConnection", "getNamesrvConfig", "updateNamesrvConfig"),
    *("updateKvConfig", "deleteKvConfig", "wipeWritePerm", "addWritePerm", "consumerConnection"),
    *("getConsumerConfig", "cloneGroupOffset", "resetOffsetByTime", "skipAccumulatedMessage"),
}
MORE = {
    "consumerStatus": "consumerStatus -g cli_consumer",
    "exportConfigs": "exportConfigs -c DefaultCluster -f {folder}",
    "exportMetadata": "exportMetadata -c DefaultCluster -f {folder}",
    "exportMetrics": "exportMetrics -c DefaultCluster -f {folder}",
}
CASES = {name: SAME[name] for name in sorted(RECORDED)} | MORE
OWN = {
    *("dlq_list", "dlq_peek", "dlq_purge", "dlq_redrive", "lag", "lag_total"),
    *("offsets_copy", "offsets_export", "offsets_import", "offsets_reset", "offsets_skip"),
}
"""Schemas that `test_own_commands.py` checks."""


@pytest.mark.parametrize("session", CASES)
def test_rows_have_the_fields_of_the_schema(
    session: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = shlex.split(CASES[session].format(folder=tmp_path))
    cluster = RecordedCluster(session)
    where = ["-n", "127.0.0.1:9876", "--output", "jsonl"]
    assert main([*words, *where], lambda _given: Admin("127.0.0.1:9876", transport=cluster)) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert rows
    check_rows(words[0], rows)


def test_every_command_has_a_schema() -> None:
    named = {line.split()[0] for line in CASES.values()} | OWN
    assert named <= {path.stem for path in SCHEMAS.glob("*.json")}
