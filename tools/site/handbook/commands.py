"""The reference of commands and their options, as the program itself explains them."""

import inspect
import re
from collections.abc import Iterator
from typing import Any

from handbook.tables import NOTE, code, table

_MARKUP = re.compile(r"\[(/?)(bold|cyan|red|green|yellow|dim|italic)\]")


def commands() -> Iterator[tuple[str, Any]]:
    """Every command by its whole name, in the order of ``cual --help``."""
    import typer

    from cual.cli import app

    yield from _below("cual", typer.main.get_command(app))


def _below(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    inside = getattr(command, "commands", None)
    if inside is None:
        yield name, command
        return
    for word, each in inside.items():
        if not each.hidden:
            yield from _below(f"{name} {word}", each)


def page() -> str:
    """All commands, each with its arguments and options."""
    import typer

    from cual.cli import app

    before = typer.main.get_command(app).params
    every = list(commands())
    parts = [
        "# Commands\n",
        NOTE,
        "Every command explains itself with `--help`; this page is made of the same words. "
        "[On the command line](../terminal.md) goes through the usual ones.\n",
        table(["command", "does"], ([f"[`{name}`](#{_anchor(name)})", _first(each)] for name, each in every)),
        "## Before any command\n",
        _options(before),
        "Exit codes: 0, done; 1, some of it is left to do; 2, an error that the last line explains.\n",
    ]
    for name, command in every:
        parts += [
            f"## {name}\n",
            f"```\n{_usage(name, command)}\n```\n",
            _prose(command.help),
            _arguments(command),
        ]
        parts += [_options(command.params)]
    return "\n".join(part for part in parts if part)


def _anchor(name: str) -> str:
    return name.replace(" ", "-")


def _first(command: Any) -> str:
    return _plain(" ".join((command.help or "").strip().split("\n\n")[0].split()))


def _usage(name: str, command: Any) -> str:
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    words = [_placeholder(p) if p.required else f"[{_placeholder(p)}]" for p in arguments]
    return " ".join([name, *words, "[OPTIONS]"])


def _placeholder(parameter: Any) -> str:
    return (parameter.metavar or parameter.name.upper()) + ("..." if parameter.nargs == -1 else "")


def _arguments(command: Any) -> str:
    rows = (
        [code(_placeholder(p)), _plain(p.help or "")] for p in command.params if p.param_type_name == "argument"
    )
    return table(["argument", "is"], rows)


def _options(parameters: list[Any]) -> str:
    named = [p for p in parameters if p.param_type_name == "option" and not p.hidden and p.name != "help"]
    rows = ([_names(p), _plain(p.help or ""), _default(p)] for p in named)
    return table(["option", "does", "default"], rows)


def _names(option: Any) -> str:
    names = ", ".join(code(name) for name in (*option.opts, *option.secondary_opts))
    return names if option.is_flag else f"{names} {code(option.metavar or option.name.upper())}"


def _default(option: Any) -> str:
    if option.required:
        return "required"
    default = option.default
    if default is None or default is False or default == [] or callable(default):
        return ""
    return code(getattr(default, "value", default) if default is not True else option.opts[0])


def _prose(text: str | None) -> str:
    """Help as Markdown: paragraphs stay, and a line that is nothing but an example becomes a block of code."""
    blocks: list[str] = []
    for paragraph in inspect.cleandoc(text or "").split("\n\n"):
        line = " ".join(paragraph.split())
        if line.startswith("[cyan]") and line.endswith("[/cyan]"):
            blocks.append(f"```sh\n{_MARKUP.sub('', line)}\n```")
        else:
            blocks.append(_plain(line))
    return "\n\n".join(blocks).replace("\n```\n\n```sh\n", "\n") + "\n"


def _plain(text: str) -> str:
    """Help without the marks of the terminal: what is bold or coloured there is code here."""
    shown = re.sub(r"\[(bold|cyan)\](.*?)\[/\1\]", r"`\2`", text)
    shown = re.sub(r"(?<![`\w-])(--[a-z][a-z-]+)(?!`)", r"`\1`", _MARKUP.sub("", shown))
    return re.sub(r"(?<!`)\*(?!`)", r"\\*", shown).replace("<", "&lt;")
