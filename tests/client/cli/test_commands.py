"""All commands share their error handling and the options for the NameServer address."""

import click
import pytest

from mqadmin import main as mqadmin
from mqadmin.catalogue import command_of
from mqadmin.main import _connected
from mqclient import Credentials
from mqclient.admin import Admin
from mqclient.cli import connection
from mqclient.cli.failures import failure_of
from mqclient.errors import BrokerError, ClientTimeout, NoRouteError, UnreachableError
from mqcommon.cli import exit_codes
from mqcommon.cli.running import CommandError, Failure, refusing_arguments, run


def raising(error):
    def work():
        raise error

    return work


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (BrokerError(16, "not readable", "b"), exit_codes.DENIED),
        (BrokerError(1, "AclException: no", "b"), exit_codes.DENIED),
        (BrokerError(1, "failed", "b"), exit_codes.FAILED),
        (UnreachableError("gone"), exit_codes.UNREACHABLE),
        (ClientTimeout("slow"), exit_codes.UNREACHABLE),
        (NoRouteError("no route", "T", "ns"), exit_codes.FAILED),
        (ImportError("Parquet needs pyarrow"), exit_codes.FAILED),
        (FileNotFoundError(2, "No such file", "f.csv"), exit_codes.FAILED),
    ],
)
def test_an_error_is_one_line_and_an_exit_code(error, code, capsys):
    assert run("mqadmin", raising(error), failure_of, label="mqadmin x") == code
    line = capsys.readouterr().err
    assert line.startswith("mqadmin x: ") and line.count("\n") == 1 and "Errno" not in line


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (KeyboardInterrupt(), exit_codes.INTERRUPTED),
        (click.Abort(), exit_codes.INTERRUPTED),
        (click.UsageError("what?"), exit_codes.USAGE),
        (click.exceptions.Exit(5), 5),
        (CommandError("away", exit_codes.UNREACHABLE), exit_codes.UNREACHABLE),
    ],
)
def test_clicks_own_ends(error, code):
    if isinstance(error, KeyboardInterrupt):
        with pytest.raises(SystemExit) as ended:
            run("mqstore", raising(error), failure_of)
        assert ended.value.code == code
    else:
        assert run("mqstore", raising(error), failure_of) == code


def test_a_defect_is_a_line(capsys):
    assert run("mqstore", raising(ZeroDivisionError("odd\nerror")), failure_of) == exit_codes.DEFECT
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("mqstore: this is a defect of mqstore: ZeroDivisionError: odd error; ")


def test_a_panic_of_the_core_is_a_defect(capsys):
    class PanicException(BaseException):
        pass

    assert run("mqstore", raising(PanicException("index out of range")), failure_of) == 70
    assert "defect of mqstore" in capsys.readouterr().err


def test_arguments_that_are_refused_are_wrong_usage(capsys):
    def work():
        with refusing_arguments():
            raise ValueError("no such letter")

    assert run("mqstore", work, failure_of) == exit_codes.USAGE
    assert capsys.readouterr().err == "mqstore: no such letter\n"


def test_a_judge_of_ones_own_decides(capsys):
    assert run("mqstore", raising(ValueError("odd")), lambda error: Failure(str(error), 9)) == 9
    assert capsys.readouterr().err == "mqstore: odd\n"


def test_mqadmin_takes_the_connection_options_of_mqclient(tmp_path):
    keys = tmp_path / "tools.yml"
    keys.write_text("accessKey: a\nsecretKey: s\n")
    tls = tmp_path / "tls.properties"
    tls.write_text("tls.client.authServer=false\n")
    words = [
        "--address-map",
        "b:1=localhost:2",
        "--credentials",
        str(keys),
        "--tls-config",
        str(tls),
    ]
    command = command_of("topicList")
    arguments = command.parse([*words, "-n", "ns:1"])
    options = arguments.connection
    assert options["connection"].address_map == {"b:1": "localhost:2"}
    assert options["credentials"] == Credentials("a", "s")
    assert options["tls"].verify == "none"
    assert isinstance(_connected(arguments), Admin)


@pytest.mark.parametrize("option", [option.flag for option in connection.OPTIONS])
def test_a_bad_connection_option_is_named(option, capsys):
    assert mqadmin(["topicList", "-n", "127.0.0.1:1", option, "/nowhere"]) == exit_codes.USAGE
    assert f"mqadmin topicList: Invalid value for '{option}': " in capsys.readouterr().err


def test_help_lists_the_connection_options(capsys):
    assert mqadmin(["help", "topicList"]) == 0
    text = capsys.readouterr().out
    assert all(f"Also: {option.flag} {option.value}" in text for option in connection.OPTIONS)
