"""What a job refuses or cannot do, said in one line.

PipelineError
+-- UsageError      the caller named something that cannot be: a path, a schema, a topic
+-- BusyError       another run works on the same lake
"""

__all__ = ["BusyError", "PipelineError", "UsageError"]


class PipelineError(Exception):
    """A job ended before its work was done; the text says why, and what to do."""


class UsageError(PipelineError):
    """An argument names something that is not there or cannot be used."""


class BusyError(PipelineError):
    """Another run works on the same lake, or took over from this one."""
