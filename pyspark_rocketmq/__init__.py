"""Spark finds the format "rocketmq" in this module."""

from mqpipeline.spark.topics.source import RocketMQDataSource as DefaultSource
from mqpipeline.spark.topics.source import register

__all__ = ["DefaultSource", "register"]
