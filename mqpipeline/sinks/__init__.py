"""Spark sinks that the jobs write to."""
