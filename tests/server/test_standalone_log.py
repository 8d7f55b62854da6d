"""`mqserver standalone` keeps a log, as a broker does, and names settings that it ignores."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from mqserver.embedded.testing import free_port
from scripts.server_process import ServerProcess


@pytest.mark.parametrize("chosen", [False, True])
def test_the_log_has_start_and_stop_of_both(chosen: bool, tmp_path: Path) -> None:
    data, port = tmp_path / "data", free_port()
    words = ["--data", str(data), "--set", f"listenPort={port}"]
    words += ["--set-namesrv", f"listenPort={free_port()}", "--set", "dLegerGroup=g"]
    folder = data / "mqstack" / "logs"
    if chosen:
        folder = tmp_path / "elsewhere"
        words += ["--set", f"logDir={folder}"]
    run = [sys.executable, "-m", "mqserver.cli", "standalone", *words]
    process = ServerProcess(run, cwd=tmp_path, ready="ready: ")
    output = process.output
    process.stop()
    assert f"log: {folder}/standalone.log" in output
    assert "--set: dLegerGroup has no effect here" in output
    text = (folder / "standalone.log").read_text()
    for line in (
        " starts in process ",
        "boot success",
        " accepts requests at ",
        " is stopping: it unregisters",
        "unregistered after ",
        "requests are answered after ",
        " its store was closed in ",
        "broker broker-a id 0 joined cluster ",
        "broker broker-a id 0 at ",
        "the NameServer has stopped",
    ):
        assert line in text, text
    assert "dLegerGroup has no effect here" in text


def test_a_temporary_store_has_its_log_on_standard_error(tmp_path: Path) -> None:
    words = ["--set", f"listenPort={free_port()}", "--set-namesrv", f"listenPort={free_port()}"]
    run = [sys.executable, "-m", "mqserver.cli", "standalone", *words]
    process = ServerProcess(run, cwd=tmp_path, ready="ready: ", env={"TMPDIR": str(tmp_path)})
    try:
        assert "log: " not in process.output
        assert not [name for _, _, names in os.walk(tmp_path) for name in names if ".log" in name]
    finally:
        process.stop()
