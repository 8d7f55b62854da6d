"""Spark's format for the files of a store, under its older path; see `mqpipeline.spark`."""

from mqpipeline.spark.files import StoreDataSource, message_schema, register, wanted_schema

__all__ = ["StoreDataSource", "message_schema", "register", "wanted_schema"]
