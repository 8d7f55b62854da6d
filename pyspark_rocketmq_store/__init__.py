"""Spark finds the format "rocketmq-store" in this module."""

from mqpipeline.spark.files import StoreDataSource as DefaultSource
from mqpipeline.spark.files import register

__all__ = ["DefaultSource", "register"]
