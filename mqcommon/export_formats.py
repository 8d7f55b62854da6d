"""The formats of files of messages, and the name endings that tell them."""

from pathlib import Path

__all__ = ["FORMATS", "format_of"]

FORMATS = ("jsonl", "jsonl.zst", "csv", "parquet")
"""Formats of an export; the names are file extensions."""


def format_of(path: Path, chosen: str | None = None) -> str:
    """The chosen format, or the one that the file's name ends with.

    Raises ValueError if neither is a format.
    """
    if chosen is not None:
        if chosen not in FORMATS:
            raise ValueError(f"format {chosen!r} is not one of {', '.join(FORMATS)}")
        return chosen
    for name in FORMATS:
        if path.name.endswith(f".{name}"):
            return name
    raise ValueError(
        f"{path.name!r} does not name a format: end it with .jsonl, .jsonl.zst, .csv or .parquet, "
        "or give --format"
    )
