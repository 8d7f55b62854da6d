"""Spark's format for topics, under its older path; see `mqpipeline.spark`."""

from mqpipeline.spark.topics import deduplicated, register

__all__ = ["deduplicated", "register"]
