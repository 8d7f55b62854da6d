"""Spark at a broker with access control: reads, streams and writes are signed."""

from __future__ import annotations

from pathlib import Path

import pytest

from mqclient import Credentials
from mqpipeline.spark.topics.options import Options
from mqserver import Standalone
from mqserver.embedded.raw_client import Probe
from tests.acl.signing import ADMIN, home_with, signed

TOPIC = "SparkSigned"
KEYS = {"accessKey": ADMIN[0], "secretKey": ADMIN[1]}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("acl")
    settings = {"aclEnable": "true", "rocketmqHome": str(home_with(folder / "home"))}
    with Standalone(folder / "store", settings=settings) as mq:
        fields = {"topic": TOPIC, "defaultTopic": "TBW102", "readQueueNums": "2",
                  "writeQueueNums": "2", "perm": "6", "topicFilterType": "SINGLE_TAG"}  # fmt: skip
        with Probe(mq.broker_address) as broker:
            assert broker.call(signed(17, fields, account=ADMIN)).code == 0
        yield mq


def options(guarded, **more):
    return {"namesrv": guarded.namesrv, "topic": TOPIC, **more}


def write(spark, guarded, bodies, **more):
    frame = spark.createDataFrame([(body,) for body in bodies], "body binary")
    frame.write.format("rocketmq").options(**options(guarded, **more)).mode("append").save()


def test_an_account_reads_and_writes(spark, guarded, tmp_path, capfd):
    write(spark, guarded, [b"%d" % number for number in range(20)], **KEYS)
    file = tmp_path / "tools.yml"
    file.write_text(f"accessKey: {ADMIN[0]}\nsecretKey: '{ADMIN[1]}'\n")
    source = spark.read.format("rocketmq").options(**options(guarded, credentials=str(file)))
    frame = source.load()
    assert sorted(int(bytes(row.body)) for row in frame.collect()) == list(range(20))
    stream = spark.readStream.format("rocketmq").options(**options(guarded, **KEYS))
    stream = stream.option("startingOffsets", "earliest").load()
    sink = stream.writeStream.format("memory").queryName("signed").trigger(availableNow=True)
    sink.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination(60)
    assert spark.sql("select count(*) from signed").first()[0] == 20
    named = spark.read.format("rocketmq").options(**options(guarded, **KEYS)).load()
    named.explain(True)
    plan = named._jdf.queryExecution().toString()
    printed = capfd.readouterr()
    assert not any(ADMIN[1] in text for text in (plan, printed.out, printed.err))
    checkpoint = [path for path in (tmp_path / "checkpoint").rglob("*") if path.is_file()]
    assert checkpoint and not any(ADMIN[1].encode() in path.read_bytes() for path in checkpoint)


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({}, "No accessKey is configured"),
        ({**KEYS, "secretKey": "wrong-s3cret"}, "Check signature failed for accessKey=rocketadmin"),
    ],
)
def test_without_the_right_account_the_broker_s_words_are_raised(spark, guarded, keys, words):
    source = spark.read.format("rocketmq").options(**options(guarded, **keys))
    with pytest.raises(Exception, match=words) as read:
        source.load().count()
    with pytest.raises(Exception, match=words) as written:
        write(spark, guarded, [b"x"], **keys)
    assert not any("wrong-s3cret" in str(caught.value) for caught in (read, written))


def test_options_name_an_account_and_do_not_show_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ROCKETMQ_HOME", raising=False)
    assert Options.parse({}).account is None
    found = Options.parse({**KEYS, "securityToken": "t0ken"})
    wanted = Credentials(ADMIN[0], ADMIN[1])
    assert found.account == Credentials(ADMIN[0], ADMIN[1], "t0ken")
    assert ADMIN[1] not in repr(found) and "t0ken" not in repr(found)
    (tmp_path / "conf").mkdir()
    file = tmp_path / "conf" / "tools.yml"
    file.write_text(f"accessKey: {ADMIN[0]}\nsecretKey: '{ADMIN[1]}'\n")
    assert Options.parse({"credentials": str(file)}).account == wanted
    monkeypatch.setenv("ROCKETMQ_HOME", str(tmp_path))
    assert Options.parse({}).account == wanted
    for given in ({"accessKey": "a"}, {"secretKey": "open-sesame"}):
        with pytest.raises(ValueError, match="go together") as caught:
            Options.parse(given)
        assert "open-sesame" not in str(caught.value)
    with pytest.raises(ValueError, match="not both"):
        Options.parse({**KEYS, "credentials": str(file)})
    with pytest.raises(OSError, match="missing"):
        Options.parse({"credentials": str(tmp_path / "missing")})
