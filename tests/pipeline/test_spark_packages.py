"""Spark's packages for Delta and Avro, which there are for PySpark 4.2, with what jobs write."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PYSPARK = "pyspark==4.2.0"
PACKAGES = "io.delta:delta-spark_4.2_2.13:4.4.0,org.apache.spark:spark-avro_2.13:4.2.0"

SCRIPT = """
import json, sys
from pyspark.sql import SparkSession
import mqserver
from mqclient import Message, Producer
from mqpipeline import to_lake
from mqpipeline.jobs.bodies import Body

folder, packages = sys.argv[1:]
settings = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "Asia/Shanghai",
    "spark.jars.packages": packages,
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
spark = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()

def send(mq, topic, bodies):
    with Producer(mq.namesrv) as producer:
        for body in bodies:
            producer.send(Message(topic, body))
    mq.wait_dispatched()

def bodies(frame):
    return sorted(bytes(row.body).decode() for row in frame.collect())

found = {}
with mqserver.Standalone() as mq:
    topic, table = mq.topic("Orders"), f"{folder}/table"
    job = {"namesrv": mq.namesrv, "spark": lambda: spark, "file_format": "delta"}
    send(mq, topic, (b"m %d" % i for i in range(20)))
    to_lake(table, [topic], **job, rows_max=3)
    found["delta"] = bodies(spark.read.format("delta").load(table))
    spark.sql(f"OPTIMIZE delta.`{table}`")
    send(mq, topic, [b"m 20"])
    to_lake(table, [topic], **job)
    found["optimized"] = bodies(spark.read.format("delta").load(table))
    topic, schema = mq.topic("Avro"), f"{folder}/order.avsc"
    fields = [{"name": "id", "type": "int"}, {"name": "item", "type": "string"}]
    with open(schema, "w") as file:
        json.dump({"type": "record", "name": "Order", "fields": fields}, file)
    send(mq, topic, [bytes([2 * 7, 2 * 4]) + b"book", b"\\xff"])
    report = to_lake(
        f"{folder}/avro", [topic], namesrv=mq.namesrv, spark=lambda: spark,
        body=Body("avro", schema),
    )
    found["unparsed"] = report.topics[topic].unparsed
    values = spark.read.parquet(f"{folder}/avro").collect()
    found["values"] = [None if row.value is None else list(row.value) for row in values]
print(json.dumps(found))
"""


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_spark_reads_a_delta_table_and_decodes_avro(tmp_path):
    packages = tmp_path / "packages"
    install = [sys.executable, "-m", "pip", "install", "-q", "--target", str(packages), PYSPARK]
    subprocess.run(install, check=True)
    search = os.pathsep.join([str(packages), str(ROOT)])
    environment = {**os.environ, "PYTHONPATH": search, "PYSPARK_PYTHON": sys.executable}
    environment.pop("SPARK_HOME", None)
    words = [sys.executable, "-c", SCRIPT, str(tmp_path), PACKAGES]
    done = subprocess.run(words, env=environment, stdout=subprocess.PIPE, check=True, text=True)
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["delta"] == sorted(f"m {i}" for i in range(20))
    assert found["optimized"] == sorted(f"m {i}" for i in range(21))
    assert found["unparsed"] == 1
    assert sorted(found["values"], key=bool) == [None, [7, "book"]]
