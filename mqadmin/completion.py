"""`mqadmin completion SHELL`: a script that completes commands and options.

The script holds every name, so that completion starts no Python. It reads the names of saved
contexts from their file, in bash and zsh. bash, zsh and fish read it with
`eval "$(mqadmin completion bash)"`, `eval "$(mqadmin completion zsh)"` and
`mqadmin completion fish | source`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mqadmin.catalogue import command_of, description, names, second_words
from mqadmin.command import UsageError
from mqadmin.report import FORMATS

__all__ = ["COMPLETION", "SHELLS", "script"]

COMPLETION = "completion"
FIRST = ("help", "--version", COMPLETION)
"""First words besides the commands."""


CONTEXT_NAMES = (
    """sed -n 's/^    "\\([^"]*\\)": {$/\\1/p' """
    '"${XDG_CONFIG_HOME:-$HOME/.config}/mqadmin/contexts.json" 2>/dev/null'
)
"""Shell words that print the names of saved contexts, as `contexts` writes the file."""
NAMING = ("context use", "context show", "context remove")
"""Commands whose word is the name of a saved context."""


def script(words: Sequence[str]) -> str:
    """The script for the shell that the words name; raises UsageError."""
    if len(words) != 1 or words[0] not in SHELLS:
        raise UsageError(f"usage: mqadmin {COMPLETION} {'|'.join(SHELLS)}")
    return SHELLS[words[0]]()


def _options(name: str) -> list[str]:
    """Every option of a command that can be typed without quotes."""
    command = command_of(name)
    options = [flag for parameter in command.parameters() for flag in parameter.opts]
    return [flag for flag in options if " " not in flag]


def _bash() -> str:
    cases = "\n".join(f'    "{name}") words="{" ".join(_options(name))}" ;;' for name in names())
    seconds = "\n".join(
        f'      {first}) words="{" ".join(words)}" ;;' for first, words in _two_words().items()
    )
    return f"""\
_mqadmin() {{
  local word="${{COMP_WORDS[COMP_CWORD]}}" words=""
  local command="${{COMP_WORDS[1]}}"
  if [ "$COMP_CWORD" -eq 1 ]; then
    words="{" ".join([*_first_words(), *FIRST])}"
  elif [ "${{COMP_WORDS[COMP_CWORD-1]}}" = --output ]; then
    words="{" ".join(FORMATS)}"
  elif [ "${{COMP_WORDS[COMP_CWORD-1]}}" = --context ]; then
    words="$({CONTEXT_NAMES})"
  else
    if [ "$COMP_CWORD" -eq 2 ]; then
      case "$command" in
      help) words="{" ".join(_first_words())}" ;;
      {COMPLETION}) words="{" ".join(SHELLS)}" ;;
{seconds}
      esac
    fi
    case "$command" in {"|".join(_two_words())}) command="$command ${{COMP_WORDS[2]}}" ;; esac
    case "$command" in
{cases}
    esac
    case "$command" in
    {"|".join(f'"{name}"' for name in NAMING)}) words="$words $({CONTEXT_NAMES})" ;;
    esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}}
complete -o default -F _mqadmin mqadmin"""


def _two_words() -> dict[str, list[str]]:
    """The second words of the commands of two words, by the first word."""
    return {first: second_words(first) for first in _first_words() if second_words(first)}


def _first_words() -> list[str]:
    return list(dict.fromkeys(name.split()[0] for name in names()))


def _zsh() -> str:
    """zsh runs the function of bash."""
    return f"autoload -U +X bashcompinit && bashcompinit\n{_bash()}"


def _fish() -> str:
    lines = ["complete -c mqadmin -f"]
    for name in names():
        about = description(name).replace("'", "\\'")
        first, _, second = name.partition(" ")
        seen = f"__fish_seen_subcommand_from {first}"
        if second:
            lines.append(f"complete -c mqadmin -n __fish_use_subcommand -a {first}")
            lines.append(f"complete -c mqadmin -n '{seen}' -a {second} -d '{about}'")
            seen += f"; and __fish_seen_subcommand_from {second}"
        else:
            lines.append(f"complete -c mqadmin -n __fish_use_subcommand -a {name} -d '{about}'")
        for flag in _options(name):
            kind = f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}"
            lines.append(f"complete -c mqadmin -n '{seen}' {kind}")
    return "\n".join(lines)


SHELLS: dict[str, Callable[[], str]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}
"""The script of each shell."""
