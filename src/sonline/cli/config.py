"""``--config FILE``: the options of a command from a TOML file."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Annotated, Any

import typer

from sonline.errors import ParameterError
from sonline.files import replacing


def _read(context: typer.Context, path: Path | None) -> Path | None:
    """Use the values of a file as defaults of the options."""
    if path is None or context.resilient_parsing:
        return path
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ParameterError(f"--config {path}: not TOML: {error}") from error
    names = {
        option.removeprefix("--").replace("-", "_"): parameter.name
        for parameter in context.command.params
        for option in [*parameter.opts, *parameter.secondary_opts, parameter.name or ""]
    }
    several = {option.name for option in context.command.params if getattr(option, "multiple", 0)}
    values: dict[str, Any] = {}
    for key, value in content.items():
        word = key.replace("-", "_")
        if word not in names or word in ("config", "save_config", "save_to"):
            raise ParameterError(f"--config {path}: there is no option --{key.replace('_', '-')}")
        if isinstance(value, dict):
            raise ParameterError(f"--config {path}: {key} must be a value, not a table")
        name = names[word] or word
        values[name] = [value] if name in several and not isinstance(value, list) else value
    context.default_map = values
    return path


Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        help="TOML file with options, such as passes = 3. The command line takes precedence.",
        callback=_read,
        is_eager=True,
    ),
]
SaveConfig = Annotated[
    Path | None, typer.Option("--save-config", help="Write the options of this run to a TOML file.")
]


def save_config(path: Path, context: typer.Context) -> None:
    """Write the options of a run that are not the defaults, for ``--config``."""
    lines = []
    for parameter in context.command.params:
        value = context.params.get(parameter.name or "")
        if parameter.name in ("config", "save_to", "help") or value in (None, [], ()):
            continue
        if value == parameter.get_default(context, call=True) and parameter.name not in (
            context.default_map or {}
        ):
            continue
        name = next((opt for opt in parameter.opts if opt.startswith("--")), parameter.name or "")
        lines.append(f"{name.removeprefix('--')} = {_toml(value)}\n")
    with replacing(path) as file:
        file.write("".join(lines).encode())


def _toml(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, (int, float)) else json.dumps(str(value))
