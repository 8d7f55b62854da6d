"""Errors of the jobs; each text is one line for the user.

PipelineError
+-- UsageError      an argument is wrong: a path, a schema, a topic
+-- BusyError       another run works on the same lake
"""

__all__ = ["BusyError", "PipelineError", "UsageError"]


class PipelineError(Exception):
    """A job failed; the text gives the reason and what to do."""


class UsageError(PipelineError):
    """An argument names something that does not exist or cannot be used."""


class BusyError(PipelineError):
    """Another run works on the same lake, or took over from this one."""
