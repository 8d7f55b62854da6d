"""Each command against a recorded cluster: our text is Java's, byte for byte."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from mqadmin import main
from mqadmin.catalogue import command_of, is_rocketmqs, names
from mqadmin.report import Stream
from mqclient.admin import Admin
from mqcommon.wire import RequestCode
from tests.admin.golden import GOLDEN, RecordedCluster, connecting_to, text

Run = Callable[..., tuple[int, str, str]]

SAME = {
    "topicList": "topicList",
    "topicList-cluster": "topicList -c",
    "topicRoute": "topicRoute -t CliTopic",
    "topicRoute-list": "topicRoute -t CliTopic -l",
    "topicRoute-wiped": "topicRoute -t CliTopic",
    "clusterList-more": "clusterList -m",
    "updateTopic": "updateTopic -c DefaultCluster -t AdmTopic",
    "updateTopic-broker": "updateTopic -b 127.0.0.1:10911 -t AdmTopicB -r 2 -w 2 -p 4",
    "updateTopic-order": "updateTopic -c DefaultCluster -t AdmOrder -r 4 -w 4 -o true",
    "consumerProgress": "consumerProgress",
    "consumerProgress-group": "consumerProgress -g cli_consumer",
    "consumerProgress-client": "consumerProgress -g cli_consumer -s true",
    "consumerProgress-offline": "consumerProgress -g cli_consumer",
    "brokerConsumeStats": "brokerConsumeStats -b 127.0.0.1:10911",
    "brokerStatus": "brokerStatus -b 127.0.0.1:10911",
    "brokerStatus-cluster": "brokerStatus -c DefaultCluster",
    "statsAll": "statsAll",
    "statsAll-active": "statsAll -a",
    "statsAll-topic": "statsAll -t CliTopic",
    "queryMsgById": "queryMsgById -i 7F00000100002A9F000000000000E731",
    "updateSubGroup": "updateSubGroup -c DefaultCluster -g adm_group",
    "updateSubGroup-full": "updateSubGroup -b 127.0.0.1:10911 -g adm_group2 -s true -m false "
    "-d true -q 2 -r 5 -i 0 -w 1 -a true",
    "deleteSubGroup": "deleteSubGroup -c DefaultCluster -g adm_group",
    "updateBrokerConfig": "updateBrokerConfig -b 127.0.0.1:10911 -k flushDelayOffsetInterval "
    "-v 10000",
    "updateBrokerConfig-unknown": "updateBrokerConfig -b 127.0.0.1:10911 -k noSuchKey -v 1",
    "getBrokerConfig": "getBrokerConfig -b 127.0.0.1:10911",
    "getBrokerConfig-cluster": "getBrokerConfig -c DefaultCluster",
    "cleanExpiredCQ": "cleanExpiredCQ -b 127.0.0.1:10911",
    "cleanUnusedTopic": "cleanUnusedTopic -b 127.0.0.1:10911",
    "deleteExpiredCommitLog": "deleteExpiredCommitLog -b 127.0.0.1:10911",
    "producer": "producer -b 127.0.0.1:10911",
    "producerConnection": "producerConnection -g cli_producer -t CliTopic",
    "getNamesrvConfig": "getNamesrvConfig",
    "updateNamesrvConfig": "updateNamesrvConfig -k orderMessageEnable -v false",
    "updateKvConfig": "updateKvConfig -s NS1 -k k1 -v v1",
    "deleteKvConfig": "deleteKvConfig -s NS1 -k k1",
    "wipeWritePerm": "wipeWritePerm -b broker-a",
    "addWritePerm": "addWritePerm -b broker-a",
    "consumerConnection": "consumerConnection -g cli_consumer",
    "getConsumerConfig": "getConsumerConfig -g cli_consumer",
    "cloneGroupOffset": "cloneGroupOffset -s cli_consumer -d cli_clone -t CliTopic",
    "resetOffsetByTime": "resetOffsetByTime -g cli_consumer -t CliTopic -s now",
    "skipAccumulatedMessage": "skipAccumulatedMessage -g cli_consumer -t CliTopic",
    "allocateMQ": "allocateMQ -t CliTopic -i 10.0.0.1,10.0.0.2,10.0.0.3",
    "deleteTopic": "deleteTopic -c DefaultCluster -t AdmTopic",
    "deleteTopic-unknown": "deleteTopic -c DefaultCluster -t NoSuchTopic",
    "topicClusterList": "topicClusterList -t CliTopic",
    "topicStatus": "topicStatus -t CliTopic",
    "updateOrderConf-get": "updateOrderConf -t CliTopic -m get",
    "updateOrderConf-put": "updateOrderConf -t CliTopic -m put -v broker-a:4",
    "updateOrderConf-delete": "updateOrderConf -t CliTopic -m delete",
    "updateTopicPerm": "updateTopicPerm -b 127.0.0.1:10911 -t AdmTopicB -p 6",
    "updateTopicPerm-same": "updateTopicPerm -b 127.0.0.1:10911 -t AdmTopicB -p 6",
    "consumeMessage": "consumeMessage -t CliTopic -b broker-a -i 0 -o 0 -c 2",
    "consumeMessage-topic": "consumeMessage -t CliTopic -c 3",
    "printMsg": "printMsg -t CliTopic",
    "printMsgByQueue": "printMsgByQueue -t CliTopic -a broker-a -i 0 -p true -d true -f true",
    "queryCq": "queryCq -t CliTopic -q 0 -i 0 -c 3 -b 127.0.0.1:10911 -g cli_consumer",
    "queryMsgByKey": "queryMsgByKey -t CliTopic -k cli-key-1",
    "queryMsgByOffset": "queryMsgByOffset -t CliTopic -b broker-a -i 0 -o 0",
    "queryMsgByUniqueKey": "queryMsgByUniqueKey -i C000020A5CC24E0E2F2A68AEAD2F0000 -t CliTopic",
    "sendMessage": "sendMessage -t CliTopic -p 'hello from the command line' -k cli-sent -c TagA",
    "sendMessage-queue": "sendMessage -t CliTopic -p 'to queue one' -b broker-a -i 1",
    "sendMsgStatus": "sendMsgStatus -b broker-a -s 32 -c 3",
    "checkMsgSendRT": "checkMsgSendRT -t CliTopic -a 3 -s 16",
}
MASKS = [
    (r"\b[0-9A-F]{32}\b", "ID"),
    (r"^rt=\d+ms", "rt=N"),
    (r"(?<=    )\d+$", "N"),
    (r"(?<=Avg RT: )[\d.]+", "N"),
    (r"^(broker-a  +)\d(?=     SEND_OK)", r"\1N"),
]
"""What a command that sends prints differently each time: ids, durations, the first queue."""
SENDING = ("sendM", "checkMsgSendRT")


COMPARED_LIVE = {
    "clusterAclConfigVersion",
    "clusterRT",
    "deleteAclConfig",
    "getAclConfig",
    "queryMsgTraceById",
    "startMonitoring",
    "updateAclConfig",
    "updateGlobalWhiteAddr",
}
"""Commands whose recording has no session, or never ends: `tests/interop` compares them with
Java's.
"""

WRITES_FILES = {"consumerStatus", "exportConfigs", "exportMetadata", "exportMetrics"}
"""Commands that `test_golden_files.py` compares."""


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command line against a recorded session: exit code, output, errors."""

    def run_one(session: str, line: str, form: str = "rocketmq") -> tuple[int, str, str]:
        cluster = RecordedCluster(session)
        words = [*shlex.split(line), "-n", "127.0.0.1:9876", "--output", form]
        code = main(words, connecting_to(cluster))
        output = capsys.readouterr()
        return code, output.out, output.err

    return run_one


@pytest.mark.parametrize("session", SAME)
def test_text_is_java_s(
    run: Run, session: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    code, output, errors = run(session, SAME[session])
    # Java leaves out the last newline in places; a terminal wants it.
    expected = text(session).rstrip("\n") + "\n"
    # The recording has {tmp}, {store} and {home} for the folders of Java's machine.
    output = re.sub(r"(/\w+)+/mq(store|home)\b", r"{\2}", output)
    output = output.replace(str(tmp_path), "{tmp}").rstrip("\n") + "\n"
    if session.startswith(SENDING):
        output, expected = masked(output), masked(expected)
    assert output == expected
    assert (code, errors) == (0, "")


def masked(text: str) -> str:
    for pattern, word in MASKS:
        text = re.sub(pattern, word, text, flags=re.MULTILINE)
    return text


@pytest.mark.parametrize("name", sorted(filter(is_rocketmqs, names())))
def test_a_command_is_compared_with_java_s(name: str) -> None:
    if name in COMPARED_LIVE | WRITES_FILES:
        return
    recorded = [path.stem for path in GOLDEN.glob("*.txt") if path.stem.partition("-")[0] == name]
    assert recorded, (
        f"record the output of {name} in tests/golden/cli (see tests/golden/README.md), "
        "or compare it with Java's in tests/interop and list it in COMPARED_LIVE"
    )
    case = any(line.split()[0] == name for line in SAME.values())
    assert case, f"add a case for {name} to SAME of tests/admin/test_golden.py"


async def test_rounds_of_sends_are_shown_as_java_shows_them() -> None:
    command = command_of("clusterRT")
    async with Admin("127.0.0.1:9876", transport=RecordedCluster("clusterRT")) as admin:
        result = await command.run(admin, command.parse(["-a", "2", "-s", "16", "-i", "0"]))
        assert isinstance(result, Stream)
        lines = []
        async for piece in result.pieces:
            lines.append(piece.text)
            if len(lines) == 4:
                break
    duration = re.compile(r"\d\.\d\d")
    expected = text("clusterRT").splitlines()[:4]
    assert [duration.sub("N", str(line)) for line in lines] == [
        duration.sub("N", line) for line in expected
    ]


def test_load_of_a_cluster_is_java_s_but_for_the_age_of_its_log(run: Run) -> None:
    code, output, _ = run("clusterList", "clusterList")
    age = re.compile(r"\d+\.\d\d(?= \d\.\d{4}$)", re.MULTILINE)
    assert age.sub("AGE", output) == age.sub("AGE", text("clusterList")).rstrip("\n") + "\n"
    assert code == 0


def test_the_body_of_a_message_is_saved_where_the_text_says(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    _, output, _ = run("queryMsgById", SAME["queryMsgById"])
    path = next(line.split()[-1] for line in output.splitlines() if "Body Path" in line)
    assert Path(path).parent == tmp_path / "rocketmq" / "msgbodys"
    assert Path(path).read_bytes()


@pytest.mark.parametrize(
    ("session", "line", "words"),
    [
        ("topicRoute-unknown", "topicRoute -t NoSuchTopic", "no route for topic 'NoSuchTopic'"),
        ("consumerProgress-unknown", "consumerProgress -g no_such_group", "no_such_group"),
        (
            "updateTopic-bad",
            "updateTopic -c DefaultCluster -t 'bad topic'",
            "allowing only ^[%|a-zA-Z0-9_-]+$",
        ),
        (
            "queryMsgById-bad",
            "queryMsgById -i 7F00000100002A9F00000000000FFFFF",
            "can not find message by the offset, 1048575",
        ),
        ("topicStatus-unknown", "topicStatus -t NoSuchTopic", "no route for topic 'NoSuchTopic'"),
        ("queryMsgByKey-none", "queryMsgByKey -t CliTopic -k nope", "no message with the key nope"),
        (
            "queryMsgTraceById",
            "queryMsgTraceById -i C000020A5CC24E0E2F2A68AEAD2F0000",
            "no message with the key C000020A5CC24E0E2F2A68AEAD2F0000",
        ),
    ],
)
def test_refusals_are_one_line_and_exit_code_1(
    run: Run, session: str, line: str, words: str
) -> None:
    code, output, errors = run(session, line)
    assert (code, output) == (1, "")
    assert words in errors
    assert errors.count("\n") == 1


def test_an_unreachable_broker_is_exit_code_3(run: Run) -> None:
    code, _, errors = run("updateTopic-broker", "updateTopic -b 127.0.0.1:1 -t AdmTopicB")
    assert code == 3
    assert "127.0.0.1:1" in errors


def test_json_of_a_message(run: Run) -> None:
    _, output, _ = run("queryMsgById", SAME["queryMsgById"], "json")
    row = json.loads(output)
    assert row["offsetMsgId"] == "7F00000100002A9F000000000000E731"
    assert row["properties"]["TAGS"] == row["tags"] == "TagA"
    assert row["tracks"] == [
        {"consumerGroup": "cli_consumer", "trackType": "CONSUMED", "exceptionDesc": None}
    ]


def test_json_lines_are_one_object_each(run: Run) -> None:
    _, output, _ = run("consumerProgress-group", SAME["consumerProgress-group"], "jsonl")
    rows = [json.loads(line) for line in output.splitlines()]
    assert len(rows) == 5
    assert rows[1] == {
        "topic": "CliTopic",
        "brokerName": "broker-a",
        "queueId": 0,
        "brokerOffset": 3,
        "consumerOffset": 3,
        "diff": 0,
        "lastTimestamp": 1795247482637,
    }


def test_csv_has_a_header_and_nested_values_as_json(run: Run) -> None:
    _, output, _ = run("topicRoute-list", SAME["topicRoute-list"], "csv")
    header, row = output.splitlines()
    assert header == "cluster,brokerName,brokerAddrs,readQueueNums,writeQueueNums,perm"
    assert row == 'DefaultCluster,broker-a,"{""0"": ""127.0.0.1:10911""}",4,4,6'


def test_topics_are_created_with_java_s_request() -> None:
    """The recorded cluster answers only what Java asked, field for field."""
    cluster = RecordedCluster("updateTopic-order")
    main(
        SAME["updateTopic-order"].split(),
        connecting_to(cluster),
    )
    codes = [request.code for request in cluster.asked]
    assert RequestCode.UPDATE_AND_CREATE_TOPIC in codes
    assert RequestCode.PUT_KV_CONFIG in codes
