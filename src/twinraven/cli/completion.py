"""Prints a completion script for bash, zsh or fish: `eval "$(twinraven completion bash)"`.

The script knows the commands and options by itself, so that a Tab starts no Python. It is written from the parser, and
has to be made anew when TwinRaven is upgraded; a shell that evaluates it at start does that.
"""

from __future__ import annotations

from argparse import SUPPRESS, Namespace

from twinraven.cli.parser import CommandParser, build_parser

_BASH = """\
_twinraven() {{
  local path="" word
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    case "$word" in -*) ;; *) path="$path $word" ;; esac
  done
  local words=""
  case "${{path# }}" in
{cases}  esac
  if [ -n "$words" ]; then COMPREPLY=($(compgen -W "$words" -- "${{COMP_WORDS[COMP_CWORD]}}")); fi
}}
complete -o default -F _twinraven twinraven
"""


def register(parser: CommandParser) -> None:
    parser.add_argument("shell", metavar="SHELL", choices=("bash", "zsh", "fish"), help="bash, zsh or fish")
    parser.runs(run, example="twinraven completion bash")


def run(options: Namespace) -> None:
    print(completion_script(options.shell), end="")


def completion_script(shell: str) -> str:
    """Write the script for one shell."""
    words = _words()
    if shell == "fish":
        return "complete -c twinraven -f\n" + "".join(_fish(path, known) for path, known in words.items())
    cases = "".join(f'    "{path}"*) words="{" ".join(known)}" ;;\n' for path, known in _deepest_first(words))
    bash = _BASH.format(cases=cases)
    return bash if shell == "bash" else f"autoload -U +X bashcompinit && bashcompinit\n{bash}"


def _words() -> dict[str, list[str]]:
    """Map each command, such as `registry list`, to the words that may follow it."""
    found: dict[str, list[str]] = {}
    for parser in build_parser().walk():
        actions = parser._actions  # pyright: ignore[reportPrivateUsage]
        options = [action.option_strings[-1] for action in actions if action.option_strings and action.help != SUPPRESS]
        found[parser.prog.partition(" ")[2]] = [*parser.children, *options]
    return found


def _deepest_first(words: dict[str, list[str]]) -> list[tuple[str, list[str]]]:
    # A case takes the first pattern that fits, and "registry"* fits "registry list" as well.
    return sorted(words.items(), key=lambda item: (-len(item[0]), item[0]))


def _fish(path: str, known: list[str]) -> str:
    steps = path.split()
    seen = " && ".join(f"__fish_seen_subcommand_from {step}" for step in steps) or "__fish_use_subcommand"
    options = "".join(f" -l {word[2:]}" for word in known if word.startswith("--"))
    commands = " ".join(word for word in known if not word.startswith("-"))
    lines = [f"complete -c twinraven -n '{seen}' -a '{commands}'\n"] if commands else []
    return "".join([*lines, f"complete -c twinraven -n '{seen}'{options}\n" if options else ""])
