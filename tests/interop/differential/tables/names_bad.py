"""Every code of the NameServer's table with fields and bodies that make no sense."""

from __future__ import annotations

from mqserver.names.processors import PROCESSORS
from tests.interop.differential.case import Case
from tests.interop.differential.tables.bad import spoiled

CASES = [
    case
    for code in PROCESSORS
    for case in spoiled(int(code), Case("", int(code), server="namesrv"))
]
