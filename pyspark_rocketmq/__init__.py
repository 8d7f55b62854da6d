"""Spark finds the format "rocketmq" in this module."""
