"""Spark finds the format "rocketmq-store" in this module."""
