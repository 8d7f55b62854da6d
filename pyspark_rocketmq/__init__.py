"""Spark finds the format "rocketmq" in this module."""

from mqclient.spark.source import RocketMQDataSource as DefaultSource
from mqclient.spark.source import register

__all__ = ["DefaultSource", "register"]
