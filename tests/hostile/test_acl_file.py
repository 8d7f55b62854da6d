"""Wrong access files are read, or refused with a reason; errors show no secret."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from mqserver.broker.acl.errors import AclError
from mqserver.broker.acl.files import AclFile, read, write
from tests.examples import examples
from tests.hostile.inputs import JUNK, spoiled, spoiled_bytes

SECRET = "12345678-secret"
GOOD: dict[str, Any] = {
    "globalWhiteRemoteAddresses": ["10.10.103.*", "192.168.0.1-10", "::1"],
    "accounts": [
        {
            "accessKey": "RocketMQ",
            "secretKey": SECRET,
            "whiteRemoteAddress": "192.168.1.*",
            "admin": False,
            "defaultTopicPerm": "DENY",
            "defaultGroupPerm": "SUB",
            "topicPerms": ["topicA=DENY", "topicB=PUB|SUB", "%RETRY%g=SUB"],
            "groupPerms": ["groupA=DENY", "groupB=SUB"],
        },
        {"accessKey": "rocketmq2", "secretKey": SECRET, "admin": True},
    ],
    "dataVersion": [{"counter": 2, "timestamp": 1_700_000_000_000}],
}
TEXT = """\
globalWhiteRemoteAddresses:
  - 10.10.103.*
accounts:
  - accessKey: RocketMQ
    secretKey: 12345678-secret
    admin: false
    topicPerms:
      - topicA=DENY
      - topicB=PUB|SUB
"""

DOCUMENTS = st.one_of(
    spoiled(GOOD).map(lambda value: json.dumps(value).encode()),  # JSON is YAML
    spoiled_bytes(TEXT.encode()),
    JUNK.map(lambda value: json.dumps(value).encode()),
    st.text(st.sampled_from("-:[]{}&*!|>'\"%@`#,? \n\t\x00aé1."), max_size=60).map(str.encode),
    st.binary(max_size=60),
)


@given(document=DOCUMENTS)
@example(b"[" * 50_000)
@example(b"a: &a [x, x]\nb: *a\n")
@example(b"accounts: !!python/object/apply:os.system [true]\n")
@example(b"accounts:\n  - {accessKey: 2001-01-01, secretKey: 1e999}\n")
@example(b"? [a, b]\n: c\n")
@example(b"accounts: [{[a]: b}]\n")
@example(json.dumps({"accounts": [{"accessKey": "\ud800" * 8, "secretKey": SECRET}]}).encode())
@example(b"dataVersion: [{counter: 0x%s, timestamp: 1}]\n" % (b"f" * 5_000))
@example(b"note: 0x%s\n" % (b"f" * 5_000))
@examples(200)
def test_any_file_is_read_or_refused(tmp_path: Path, document: bytes) -> None:
    path = tmp_path / "plain_acl.yml"
    path.write_bytes(document)
    try:
        found = read(path, 7)
    except AclError as error:
        assert str(path) in str(error)
        assert SECRET not in str(error)
        assert len(str(error)) < 2_000
        return
    for account in found.accounts:
        "".join([account.access_key, account.secret_key, *account.topics, *account.groups]).encode()
        assert SECRET not in repr(account)
    try:
        again = written(path, found)
    except AclError as error:
        assert "cannot be written" in str(error)
        assert path.read_bytes() == document, "the file is what it was"
    else:
        assert again.accounts == found.accounts


def written(path: Path, found: AclFile) -> AclFile:
    write(path, found.data)
    return read(path, 7)
