"""Options of `run` and `reduce` from `[tool.minify]` of pyproject.toml and from the environment."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ENVIRONMENT_PREFIX = "MINIFY"  # the environment's name of --max-probes is MINIFY_MAX_PROBES
_TABLE = "tool.minify"
# The file may be a stranger's, in a folder with a Case: it must not name code to run, nor give away data.
_NOT_IN_FILES = ("out", "predicate", "cluster", "include_data", "bundle_private", "trust", "show_config")


def _options(command: click.Command) -> Iterator[click.Option]:
    return (each for each in command.params if isinstance(each, click.Option))


def _name(option: click.Option) -> str:
    """Return the option's longest spelling without dashes ahead."""
    return max(option.opts, key=len).lstrip("-")


def _file_with_table(folder: Path) -> tuple[Path, dict[str, Any]] | None:
    """Return the nearest pyproject.toml with our table, in this folder or above it, and the table."""
    for each in (folder, *folder.parents):
        path = each / "pyproject.toml"
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            continue
        if _TABLE not in text:
            continue
        try:
            table = tomllib.loads(text).get("tool", {}).get("minify")
        except tomllib.TOMLDecodeError as error:
            raise click.UsageError(f"{path} is no TOML: {error}") from error
        if table is not None:
            return path, table
    return None


class ConfiguredCommand(click.Command):
    """A command whose options have defaults in the table, and names in the environment.

    The table may have the options of all configured commands: each takes those that it has.
    """

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """As click does. Raises UsageError for a table with a wrong key or value."""
        found = None if extra.get("resilient_parsing") else _file_with_table(Path.cwd())
        if parent is not None and found is not None:
            own = {each.name for each in self.params}
            values = _of_table(parent, *found)
            extra["default_map"] = {name: value for name, value in values.items() if name in own}
            parent.meta[_TABLE] = found[0]
        return super().make_context(info_name, args, parent, auto_envvar_prefix=ENVIRONMENT_PREFIX, **extra)


def _of_table(context: click.Context, path: Path, table: Any) -> dict[str, Any]:
    """Return the values of the table by parameter name. `context` is that of the group of commands."""
    if not isinstance(table, dict):
        raise click.UsageError(f"{path}: [{_TABLE}] is no table")
    assert isinstance(context.command, click.Group)
    commands = [each for each in context.command.commands.values() if isinstance(each, ConfiguredCommand)]
    options = [each for command in commands for each in _options(command)]
    allowed = {_name(each): each for each in options if each.name not in _NOT_IN_FILES}
    values: dict[str, Any] = {}
    for key, value in table.items():
        option = allowed.get(key)
        if option is None or option.name is None:
            names = ", ".join(sorted(allowed))
            raise click.UsageError(f"{path}: [{_TABLE}] must not have `{key}`; it may have {names}")
        try:
            option.type_cast_value(context, value)
        except click.BadParameter as error:
            raise click.UsageError(f"{path}: [{_TABLE}] {key} = {value!r}: {error.message}") from error
        values[option.name] = value
    return values


def _text(value: Any) -> str:
    """Return an option's value as a text; empty if none was given, which click says by an object of its own."""
    if isinstance(value, tuple):
        return ", ".join(map(_text, value))
    return str(value) if isinstance(value, (bool, int, float, str, Path)) else ""


def _show(context: click.Context, option: click.Parameter, asked: bool) -> None:
    """Print each option that can be configured, its value, and where the value is from; end the command."""
    if not asked or context.resilient_parsing:
        return
    rows = []
    for each in _options(context.command):
        if each.name in ("help", option.name):
            continue
        value, _ = each.handle_parse_result(context, {}, [])
        where = {
            ParameterSource.ENVIRONMENT: f"{ENVIRONMENT_PREFIX}_{(each.name or '').upper()}",
            ParameterSource.DEFAULT_MAP: str(context.meta.get(_TABLE, "")),
        }.get(context.get_parameter_source(each.name or "") or ParameterSource.DEFAULT, "default")
        rows.append((_name(each), _text(value), where))
    widths = [max(len(row[i]) for row in rows) for i in range(2)]
    for name, text, where in rows:
        click.echo(f"{name:{widths[0]}}  {text:{widths[1]}}  {where}".rstrip())
    context.exit()


show_config_option = click.option(
    "--show-config",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show,
    help="Print what the environment, pyproject.toml and the defaults set, and end.",
)
