"""Where our servers answer otherwise than Java's and should not: each line is work to do."""

from __future__ import annotations

from tests.interop.differential.tolerated import Line

KNOWN_GAPS: tuple[Line, ...] = ()
