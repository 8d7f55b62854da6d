"""`mqstack` leaves a command's words to that command, options and exit codes included."""

from __future__ import annotations

import pytest

from mqserver import mqstack


@pytest.mark.parametrize(
    ("line", "code", "shown"),
    [
        ("admin help topicRoute", 0, "usage: mqadmin topicRoute"),
        ("admin topicRoute -h", 0, "usage: mqadmin topicRoute"),
        ("store ls --help", 0, "Usage: mqstore ls"),
        ("client nonsense", 2, "No such command 'nonsense'"),
        ("server --no-such-option", 2, "--no-such-option"),
        ("nonsense", 2, "No such command 'nonsense'"),
        ("--help", 0, "pipeline"),
    ],
)
def test_words_reach_the_command(
    line: str,
    code: int,
    shown: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("sys.argv", ["mqstack", *line.split()])
    with pytest.raises(SystemExit) as end:
        mqstack.main()
    assert end.value.code == code
    output = capsys.readouterr()
    assert shown in output.out + output.err
