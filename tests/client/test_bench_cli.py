"""`mqclient bench` against our own servers in this process."""

import json

import pytest
from click.testing import CliRunner

from mqclient.cli.bench import bench
from mqserver import Standalone


def run(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(bench, arguments)
    return result.exit_code, result.stdout, result.stderr


@pytest.mark.parametrize("headers", ["json", "rocketmq"])
def test_what_was_produced_is_consumed(mq_broker: Standalone, headers: str) -> None:
    topic = mq_broker.topic()
    place = ("-n", mq_broker.namesrv, "-t", topic, "--headers", headers, "--warmup", "0")
    produced = run("produce", *place, "--count", "500", "--in-flight", "32", "--body-bytes", "99")
    assert produced[0] == 0, produced
    report = json.loads(produced[1])
    assert (report["messages"], report["bytes"], report["refused"]) == (500, 49_500, {})
    mq_broker.wait_dispatched()
    code, out, _ = run("consume", *place, "--threads", "2", "--output", "json")
    assert code == 0
    assert json.loads(out)[0]["messages"] == 500


def test_a_batch_is_many_messages(mq_broker: Standalone) -> None:
    place = ("-n", mq_broker.namesrv, "-t", mq_broker.topic(), "--warmup", "0")
    code, out, _ = run("produce", *place, "--batch", "10", "--count", "200", "--output", "csv")
    header, row = out.splitlines()
    assert code == 0
    assert header.startswith("messages,seconds,messages_per_second")
    assert row.startswith("200,")


def test_errors_have_exit_codes_and_words(mq_namesrv: str) -> None:
    code, _, words = run("consume", "-n", mq_namesrv, "-t", "Nowhere")
    assert code == 1
    assert "answered code 17: No topic route info" in words
    code, _, words = run("produce", "-n", "127.0.0.1:1")
    assert code == 3
    assert words.startswith("Error: 127.0.0.1:1: ")
    code, _, words = run("produce", "--threads", "0")
    assert code == 2
    assert "threads 0 is not between 1 and 4096" in words
