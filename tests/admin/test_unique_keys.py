"""The id that a send prints, looked up by queryMsgById and by the admin API, at our broker."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

from mqadmin import main as mqadmin
from mqclient.admin import unique_keys
from mqclient.blocking.admin import Admin
from mqclient.cli import main as mqclient
from mqclient.errors import NoRouteError, NotFoundError
from mqserver.embedded.standalone import Standalone

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def mq() -> Iterator[Standalone]:
    with Standalone() as both:
        yield both


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command; its exit code, output and errors."""

    def run_one(*words: str) -> tuple[int, str, str]:
        code = mqadmin(words)
        output = capsys.readouterr()
        return code, output.out, output.err

    return run_one


@pytest.fixture
def sent(mq: Standalone, capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    """What `mqclient send` printed of a message."""
    topic = mq.topic()
    assert mqclient(["send", topic, "hello", "-n", mq.namesrv, "--output", "jsonl"]) == 0
    mq.wait_dispatched()
    row: dict[str, str] = json.loads(capsys.readouterr().out)
    return row


def test_the_id_that_a_send_printed_is_found(
    mq: Standalone, run: Run, sent: dict[str, str]
) -> None:
    find = ("queryMsgById", "-n", mq.namesrv, "--output", "json", "-i", sent["msgId"])
    for words in (find, (*find, "-t", sent["topic"])):
        code, output, errors = run(*words)
        assert (code, errors) == (0, "")
        row = json.loads(output)
        assert (row["body"], row["topic"]) == ("hello", sent["topic"])
        assert row["offsetMsgId"] == sent["offsetMsgId"]


def test_an_unknown_key_and_a_wrong_topic_are_said(
    mq: Standalone, run: Run, sent: dict[str, str]
) -> None:
    unknown = sent["msgId"][:-4] + "FFFF"
    words = ("queryMsgById", "-n", mq.namesrv, "-i", unknown)
    code, _, errors = run(*words)
    assert (code, f"no message with the unique key {unknown} in any topic" in errors) == (1, True)
    code, _, errors = run(*words, "-t", mq.topic("Other"))
    assert (code, "in topic Other" in errors) == (1, True)
    code, _, errors = run(*words, "-t", "NoSuchTopic")
    assert (code, "no route for topic 'NoSuchTopic'" in errors) == (1, True)


def test_an_offset_id_of_no_broker_may_be_a_key_of_the_topic(
    mq: Standalone, sent: dict[str, str]
) -> None:
    with Admin(mq.namesrv) as admin:
        message = admin.messages.view(sent["offsetMsgId"])
        assert message.body == b"hello"
        nowhere = "7F00000100000001" + "0" * 16
        with pytest.raises(NotFoundError, match=f"unique key {nowhere} in topic"):
            admin.messages.view(nowhere, sent["topic"])
        with pytest.raises(NoRouteError):
            admin.messages.view(sent["msgId"], "NoSuchTopic")


def test_with_too_many_topics_the_error_names_another_command(
    mq: Standalone, run: Run, sent: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unique_keys, "TOPICS_MAX", 1)
    code, _, errors = run("queryMsgById", "-n", mq.namesrv, "-i", sent["msgId"])
    assert code == 2
    command = errors.strip().rpartition("mqadmin ")[2].replace("TOPIC", sent["topic"])
    assert run(*command.split())[0] == 0


def test_help_names_the_option_beyond_rocketmq_s(run: Run) -> None:
    assert "Also: -t,--topic <arg>" in run("help", "queryMsgById")[1]
