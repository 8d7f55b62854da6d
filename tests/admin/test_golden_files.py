"""The text and the files of commands that write files, compared with Java's; and what RocketMQ's
commands do where ours ask more than Java's."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from mqadmin import main
from mqcommon.wire import Frame, RequestCode, ResponseCode
from tests.admin.golden import GOLDEN, RecordedCluster, connecting_to, text
from tests.admin.json_schema import check_rows

EXPORTS = {
    "exportConfigs": ("configs.json", "export-configs.json"),
    "exportMetadata": ("metadata.json", "export-metadata.json"),
    "exportMetrics": ("metrics.json", "export-metrics.json"),
}
Run = Callable[..., str]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command line against a recorded session, in an empty folder; its output."""

    def run_one(session: str, line: str, more: dict[int, Frame] | None = None) -> str:
        cluster = RecordedCluster(session, more)
        words = [*line.split(), "-n", "127.0.0.1:9876", "--output", "rocketmq"]
        code = main(words, connecting_to(cluster))
        output = capsys.readouterr()
        assert (code, output.err) == (0, "")
        return output.out

    monkeypatch.chdir(tmp_path)
    return run_one


@pytest.mark.parametrize("name", EXPORTS)
def test_an_export_is_java_s_byte_for_byte(run: Run, name: str, tmp_path: Path) -> None:
    file_name, recorded = EXPORTS[name]
    output = run(name, f"{name} -c DefaultCluster -f {tmp_path}/made")
    # The recording has {folder} for the folder of -f.
    assert output == text(name).replace("{folder}", f"{tmp_path}/made").rstrip("\n") + "\n"
    when = re.compile(r'"exportTime":\d+')
    ours = when.sub("TIME", (tmp_path / "made" / file_name).read_text())
    assert ours == when.sub("TIME", (GOLDEN / recorded).read_text())


def test_the_state_of_members_is_java_s(run: Run, tmp_path: Path) -> None:
    output = run("consumerStatus", "consumerStatus -g cli_consumer")
    folder = re.compile(r"\b\d{13}(?=/)")
    assert folder.sub("TIME", output) == folder.sub("TIME", text("consumerStatus"))
    (path,) = (path for path in tmp_path.rglob("*") if path.is_file())
    assert str(path.relative_to(tmp_path)) in output
    assert path.read_text() == (GOLDEN / "consumerRunningInfo.txt").read_text()


def test_the_state_of_one_member_is_printed(run: Run) -> None:
    line = "consumerStatus -g cli_consumer -i 192.0.2.10@23746#3380168938787"
    assert run("consumerStatus", line) == (GOLDEN / "consumerRunningInfo.txt").read_text()


def test_a_reset_without_members_is_java_s(run: Run) -> None:
    """Java searches for the time only; we also look which message the search has found."""
    none_at = {
        "nextBeginOffset": "0",
        "minOffset": "0",
        "maxOffset": "5",
        "suggestWhichBrokerId": "0",
    }
    more = {
        int(RequestCode.GET_MIN_OFFSET): Frame(0, {"offset": "0"}),
        int(RequestCode.GET_MAX_OFFSET): Frame(0, {"offset": "5"}),
        int(RequestCode.PULL_MESSAGE): Frame(int(ResponseCode.PULL_NOT_FOUND), none_at),
    }
    output = run(
        "resetOffsetByTime-old", "resetOffsetByTime -g cli_consumer -t CliTopic -s 0", more
    )
    assert output == text("resetOffsetByTime-old")


@pytest.mark.parametrize("name", ["consumerStatus", *EXPORTS])
def test_rows_have_the_fields_of_the_schema(
    name: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    options = f"-c DefaultCluster -f {tmp_path}" if name in EXPORTS else "-g cli_consumer"
    words = f"{name} {options} -n 127.0.0.1:9876 --output jsonl"
    cluster = RecordedCluster(name)
    assert main(words.split(), connecting_to(cluster)) == 0
    (row,) = map(json.loads, capsys.readouterr().out.splitlines())
    check_rows(name, [row])


def test_the_rows_of_an_export_have_the_content_of_the_file(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = f"exportConfigs -c DefaultCluster -f {tmp_path} -n 127.0.0.1:9876 --output json"
    cluster = RecordedCluster("exportConfigs")
    assert main(words.split(), connecting_to(cluster)) == 0
    row = json.loads(capsys.readouterr().out)
    assert row["path"] == str(tmp_path / "configs.json")
    assert row["content"] == json.loads((tmp_path / "configs.json").read_text())
