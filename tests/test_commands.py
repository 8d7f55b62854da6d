"""Every sub-command is listed; the sub-commands of `mqstore` and `mqpipeline` are documented."""

from __future__ import annotations

import pkgutil
from importlib import import_module
from pathlib import Path
from types import ModuleType

import click
import pytest

import mqclient.cli
import mqpipeline.cli
import mqstore.cli
from mqclient.cli.main import COMMANDS as CLIENT
from mqclient.cli.main import cli as client_cli
from mqpipeline.cli.main import COMMANDS as PIPELINE
from mqpipeline.cli.main import cli as pipeline_cli
from mqstore.cli import COMMANDS as STORE

ROOT = Path(__file__).parent.parent
GROUPS = {
    "mqstore/cli/__init__.py": (mqstore.cli, STORE),
    "mqclient/cli/main.py": (mqclient.cli, CLIENT),
    "mqpipeline/cli/main.py": (mqpipeline.cli, PIPELINE),
}
"""By the file that lists the commands: the package of their modules, and the list."""


def defined(package: ModuleType) -> dict[str, str]:
    """Commands that a package's modules define outside groups: name to file."""
    found: dict[str, str] = {}
    of_groups: set[str | None] = set()
    for module in pkgutil.iter_modules(package.__path__):
        if module.name == "__main__":
            continue  # it runs the command
        for value in vars(import_module(f"{package.__name__}.{module.name}")).values():
            if isinstance(value, click.Group):
                of_groups |= value.commands.keys()
            elif isinstance(value, click.Command) and value.callback is not None:
                found[str(value.name)] = f"{value.callback.__module__.replace('.', '/')}.py"
    return {name: file for name, file in found.items() if name not in of_groups}


def needs(registry: str) -> None:
    """Skip if an import of the package's commands is not installed."""
    if registry.startswith("mqpipeline"):
        pytest.importorskip("pyspark.sql", exc_type=ImportError)


@pytest.mark.parametrize("registry", GROUPS)
def test_a_command_is_listed(registry: str) -> None:
    needs(registry)
    package, listed = GROUPS[registry]
    for name, file in defined(package).items():
        assert name in listed, f"{file}: add {name} to COMMANDS of {registry}"


@pytest.mark.parametrize("registry", GROUPS)
def test_a_listed_command_exists(registry: str) -> None:
    needs(registry)
    _, listed = GROUPS[registry]
    for name, command in listed.items():
        module = import_module(command.module)
        assert isinstance(getattr(module, name.replace("-", "_"), None), click.Command), (
            f"{registry}: {command.module} has no click command {name}"
        )


def test_the_page_of_offline_tools_has_every_command() -> None:
    page = (ROOT / "docs/offline.md").read_text()
    missing = [name for name in STORE if f"mqstore {name}" not in page]
    assert not missing, f"docs/offline.md: add mqstore {', '.join(missing)}"


def test_the_page_of_jobs_has_every_command() -> None:
    page = (ROOT / "docs/pipeline.md").read_text()
    missing = [name for name in PIPELINE if f"mqpipeline {name}" not in page]
    assert not missing, f"docs/pipeline.md: add mqpipeline {', '.join(missing)}"


SHORT = {"--topic": "-t", "--group": "-g", "--namesrv": "-n"}
SYNONYMS = {"--tag", "--begin", "--end", "--since", "--to-time", "--expression", "--namesrvAddr"}
"""Other words for --tags, --from, --until and --namesrv."""


def options() -> list[tuple[str, click.Option]]:
    """Every option of every command, with the words that lead to it."""
    found: list[tuple[str, click.Option]] = []

    def walk(words: str, command: click.Command) -> None:
        found.extend((words, p) for p in command.params if isinstance(p, click.Option))
        if isinstance(command, click.Group):
            with click.Context(command) as context:
                for name in command.list_commands(context):
                    inner = command.get_command(context, name)
                    assert inner is not None
                    walk(f"{words} {name}", inner)

    for program, cli in PROGRAMS.items():
        walk(program, cli)
    return found


PROGRAMS = {
    "mqstore": mqstore.cli.cli,
    "mqclient": client_cli,
    "mqpipeline": pipeline_cli,
}


def test_options_mean_the_same_in_every_command() -> None:
    pytest.importorskip("pyspark.sql", exc_type=ImportError)
    every = options()
    assert len(every) > 150
    for words, option in every:
        where = f"{words} {'/'.join(option.opts)}"
        assert not SYNONYMS & {*option.opts}, f"{where}: one word for one thing"
        for name, short in SHORT.items():
            assert (name in option.opts) == (short in option.opts), f"{where}: {name} is {short}"
        if {"--from", "--until"} & {*option.opts}:
            assert option.metavar == "TIME", f"{where}: take it from mqcommon.cli.options"


@pytest.mark.parametrize("text", ["-1h", "2026-01-31", "1700000000000"])
def test_times_are_read_alike(text: str) -> None:
    pytest.importorskip("pyspark.sql", exc_type=ImportError)
    times = [(w, o) for w, o in options() if {"--from", "--until"} & {*o.opts}]
    assert len({words.split()[0] for words, _ in times}) == 3
    for words, option in times:
        with click.Context(click.Command(words)) as context:
            assert option.process_value(context, text) is not None
            with pytest.raises(click.BadParameter, match="is not a time"):
                option.process_value(context, "noon")
