"""Reads an account's keys from a file (RocketMQ's `tools.yml`), never from a command line.

The file has `accessKey`, `secretKey` and optionally `securityToken`. Commands read the file that
`--credentials` names, else `conf/tools.yml` below ROCKETMQ_HOME, as Java's mqadmin does.
"""

from __future__ import annotations

import os
from pathlib import Path

from mqclient.settings.identity import Credentials

__all__ = ["default_file", "read_credentials"]

FILE_BYTES_MAX = 64 << 10
_NAMES = ("accessKey", "secretKey", "securityToken")


def default_file() -> Path | None:
    """`tools.yml` of the RocketMQ home in the environment, if there is one."""
    home = os.environ.get("ROCKETMQ_HOME")
    path = Path(home) / "conf" / "tools.yml" if home else None
    return path if path and path.is_file() else None


def read_credentials(path: Path | str | None) -> Credentials | None:
    """Read the account of every client. None is the default file; None without one.

    Raises ValueError for a file without both keys, naming the file and never its text; OSError.
    """
    found = Path(path) if path is not None else default_file()
    if found is None:
        return None
    import yaml

    with found.open("rb") as file:
        text = file.read(FILE_BYTES_MAX + 1)
    if len(text) > FILE_BYTES_MAX:
        raise ValueError(f"{found} is over {FILE_BYTES_MAX} bytes, too large for a tools.yml")
    try:
        data = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        raise ValueError(f"{found} is not YAML") from None
    values = data if isinstance(data, dict) else {}
    access, secret, token = (str(values.get(name) or "") for name in _NAMES)
    if path is None and not access and not secret:
        return None
    if not access or not secret:
        raise ValueError(f"{found} needs accessKey and secretKey")
    return Credentials(access, secret, token or None)
