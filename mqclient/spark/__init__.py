"""Spark's source and sink over brokers: format("rocketmq"), in Arrow both ways.

    from mqclient.spark.source import register    # or let Spark find pyspark_rocketmq
    register(spark)
    df = spark.read.format("rocketmq").option("nameserver", "127.0.0.1:9876") \
        .option("topic", "TopicTest").load()
"""
