"""Every code of the NameServer's table with fields and bodies that make no sense, but our own."""

from __future__ import annotations

from mqcommon.wire.codes import OUR_CODES
from mqserver.namesrv.processors import PROCESSORS
from tests.interop.differential.case import Case
from tests.interop.differential.tables.bad import spoiled

CASES = [
    case
    for code in PROCESSORS
    if code not in OUR_CODES
    for case in spoiled(int(code), Case("", int(code), server="namesrv"))
]
