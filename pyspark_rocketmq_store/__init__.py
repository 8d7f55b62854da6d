"""Spark finds the format "rocketmq-store" in this module."""

from mqstore.spark import StoreDataSource as DefaultSource
from mqstore.spark import register

__all__ = ["DefaultSource", "register"]
