"""Help text in the layout of commons-cli, which RocketMQ's mqadmin uses."""

from __future__ import annotations

import textwrap

from mqadmin.catalogue import is_rocketmqs
from mqadmin.command import Command, Option
from mqadmin.contexts import CONTEXT_VARIABLE
from mqadmin.report import FORMATS
from mqclient.cli import connection

WIDTH = 110


def usage(command: Command) -> str:
    """What `mqadmin help COMMAND` prints."""
    return f"{_usage_lines(command)}\n{_option_lines(command)}"


def _usage_lines(command: Command) -> str:
    """The options in one line, wrapped; choices are joined by a bar where the first stands."""
    parts = []
    for option in command.all_options:
        if option.short in command.either:
            if option.short == min(command.either):
                chosen = (o for o in command.all_options if o.short in command.either)
                parts.append(" | ".join(_synopsis(o) for o in chosen))
                parts.append("")  # commons-cli leaves two spaces after a group
        else:
            words = _synopsis(option)
            parts.append(words if option.required else f"[{words}]")
    name = f"{command.name} {command.positional}".rstrip()
    text = f"usage: mqadmin {name} {' '.join(parts)}"
    return "\n".join(_wrap(text.rstrip(), indent=7))


def _wrap(text: str, indent: int) -> list[str]:
    """Break at the last space that fits, as commons-cli does; later lines are indented."""
    lines = []
    while len(text) > WIDTH:
        cut = text.rfind(" ", 0, WIDTH + 1)
        lines.append(text[:cut].rstrip())
        text = " " * indent + text[cut:].strip()
    return [*lines, text]


def _synopsis(option: Option) -> str:
    return f"{option.flags[0]} <arg>" if option.takes_value else option.flags[0]


def _option_lines(command: Command) -> str:
    names = {
        option: f"{_flags(option)}{' <arg>' if option.takes_value else ''}"
        for option in command.all_options
    }
    width = max(map(len, names.values())) + 3
    lines = []
    for option, name in names.items():
        text = textwrap.wrap(option.help, WIDTH - width)
        lines += [f"{name:<{width}}{text[0]}", *(" " * width + more for more in text[1:])]
    return "\n".join(lines)


def _flags(option: Option) -> str:
    """The option's names; a long name without a short one is aligned with the others."""
    long = f"--{option.long}"
    return f" -{option.short},{long}" if option.short else f"    {long}"


def full_help(command: Command) -> str:
    """RocketMQ's usage, then what this command has beyond RocketMQ's."""
    ours = (
        f"Also: {_flags(option).strip()}{' <arg>' if option.takes_value else ''}   {option.help}\n"
        for option in command.more_options
    )
    confirmed = YES_NOTE if command.effect is not None else ""
    in_pipe = "RocketMQ's text" if is_rocketmqs(command.name) else "jsonl"
    output = OUTPUT_NOTE.format(in_pipe=in_pipe)
    connecting = CONNECTION_NOTE if command.connects else ""
    address = ADDRESS_NOTE if command.connects else ""
    return f"{usage(command)}\n\n{''.join(ours)}{connecting}{confirmed}{output}{address}"


CONNECTION_NOTE = "".join(
    f"Also: {flag} {value}   {words}\n"
    for flag, value, words in (
        *((option.flag, option.value, option.help) for option in connection.OPTIONS),
        ("--context", "NAME", f"saved context, see mqadmin context list [{CONTEXT_VARIABLE}]"),
    )
)
YES_NOTE = "Also: --yes   do not ask for confirmation on a terminal\n"
OUTPUT_NOTE = (
    f"Also: --output {'|'.join(FORMATS)} (table on a terminal, otherwise {{in_pipe}});"
    "\n--watch SECONDS repeats the command until it is stopped;"
    "\n--debug shows the traceback of a defect."
)
ADDRESS_NOTE = (
    f"\nThe address comes from -n, else --context, {CONTEXT_VARIABLE}, NAMESRV_ADDR, the current "
    "context, else it is 127.0.0.1:9876."
)
