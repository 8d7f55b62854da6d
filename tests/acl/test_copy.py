"""A slave replaces its access files by those of its master."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mqserver.broker.acl.control import AccessControl
from mqserver.broker.acl.errors import AclError
from mqserver.broker.acl.files import AclPaths
from mqserver.runtime.data_plane import Tables

ACCOUNT = {"accessKey": "somebody", "secretKey": "12345678"}


@pytest.fixture
def rules(tmp_path: Path) -> AccessControl:
    made = AccessControl(AclPaths(tmp_path, "conf/plain_acl.yml"), Tables(), lambda: 7)
    made.load()
    return made


def test_all_files_become_the_masters(rules: AccessControl) -> None:
    content: dict[str, dict[str, Any]] = {
        "": {"accounts": [ACCOUNT]},
        "team/more.yml": {"accounts": [{**ACCOUNT, "accessKey": "another"}]},
    }
    assert rules.copy(content)
    assert rules.content() == content and not rules.copy(content)
    assert rules.copy({"": content[""]})
    assert rules.content() == {"": content[""]}
    assert not (rules.paths.folder / "team" / "more.yml").exists()


@pytest.mark.parametrize(
    "name", ["../more.yml", "/etc/more.yml", "a/../../b.yml", "tools.yml", "x"]
)
def test_a_path_elsewhere_is_refused(rules: AccessControl, name: str) -> None:
    with pytest.raises(AclError, match="no path of an access file"):
        rules.copy({name: {"accounts": [ACCOUNT]}})
    assert rules.content() == {}


def test_rules_that_cannot_be_used_change_no_file(rules: AccessControl) -> None:
    before: dict[str, dict[str, Any]] = {"": {"accounts": [ACCOUNT]}}
    rules.copy(before)
    with pytest.raises(AclError, match="account 1"):
        rules.copy({"": {"accounts": [{"accessKey": "short"}]}})
    with pytest.raises(AclError, match="already"):
        rules.copy({**before, "more.yml": before[""]})
    assert rules.content() == before
