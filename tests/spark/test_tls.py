"""Spark at servers that take TLS only: driver and workers read the same properties file."""

from __future__ import annotations

from pathlib import Path

import pytest

from mqclient.engine.tls import TlsConfig
from mqpipeline.spark.topics.options import Options
from mqserver import Standalone
from tests.certificates import Authority

TOPIC = "SparkSecured"


def test_reads_and_writes(spark, tmp_path: Path):
    authority = Authority(tmp_path)
    pair = authority.issue("server")
    names = {
        "tls.server.mode": "enforcing",
        "tls.server.certPath": pair.cert,
        "tls.server.keyPath": pair.key,
    }
    settings = {**names, "tls.client.trustCertPath": authority.ca}
    file = tmp_path / "tls.properties"
    file.write_text(f"tls.client.trustCertPath={authority.ca}\n")
    with Standalone(settings=settings, namesrv_settings=names) as mq:
        mq.topic(TOPIC)
        options = {"namesrv": mq.namesrv, "topic": TOPIC, "tlsConfig": str(file)}
        frame = spark.createDataFrame([(b"%d" % number,) for number in range(20)], "body binary")
        frame.write.format("rocketmq").options(**options).mode("append").save()
        rows = spark.read.format("rocketmq").options(**options).load().collect()
        assert sorted(int(bytes(row.body)) for row in rows) == list(range(20))
        with pytest.raises(Exception, match="if it takes only TLS"):
            plain = {"namesrv": mq.namesrv, "topic": TOPIC, "retryTimeout": "0.5"}
            spark.read.format("rocketmq").options(**plain).load().count()


def test_options_name_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("MQ_TLS_CONFIG", raising=False)
    assert Options.parse({}).tls is None
    file = tmp_path / "tls.properties"
    file.write_text("tls.client.verifyHost=false\n")
    assert Options.parse({"tlsConfig": str(file)}).tls == TlsConfig(verify="ca")
    monkeypatch.setenv("MQ_TLS_CONFIG", str(file))
    assert Options.parse({}).tls == TlsConfig(verify="ca")
