"""The settings of a run from the values of its options, which are checked ahead of the run."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

from minifier.errors import UsageError
from minifier.failure.difference import Aspect, Tolerance
from minifier.settings import Settings

_MIB = 2**20
_UNCONDITIONAL = ("ops", "statements")  # these passes are always made


def settings_of(values: dict[str, Any]) -> Settings:
    """Return the settings for these values, by option. Raises UsageError for invalid or contradictory values."""
    for option in ("match", "match_log"):
        _check_pattern("--" + option.replace("_", "-"), values[option])
    memory = values["memory"]
    return Settings(
        match=values["match"],
        match_log=values["match_log"],
        timeout=values["timeout"],
        memory=memory * _MIB if memory is not None else None,
        workers=values["workers"],
        budget=values["budget"],
        max_probes=values["max_probes"],
        include_data=values["include_data"],
        bundle_private=values["bundle_private"],
        compare=values["compare"],
        measure=_tolerance(values),
        verify=values["verify"],
        passes=None if values["passes"] is None else _check_passes("--passes", values["passes"].split(",")),
        skipped=_check_passes("--skip-pass", values["skip_pass"]),
        level=values.get("level", "auto"),
        silent_fallbacks=values.get("fallbacks", False),
        cluster=values["cluster"],
    )


def _check_passes(option: str, names: Iterable[str]) -> tuple[str, ...]:
    """Return the stripped names. Raises UsageError for an unknown pass."""
    from minifier.passes.table import TABLE
    from minifier.source import passes as of_scripts

    known = [name for name in dict((*TABLE, *of_scripts.TABLE)) if name not in _UNCONDITIONAL]
    chosen = tuple(filter(None, (name.strip() for name in names)))
    for name in chosen:
        if name in _UNCONDITIONAL:
            raise UsageError(f"{option}: the pass {name} is always made.")
        if name not in known:
            similar = get_close_matches(name, known, 1)
            hint = f" Did you mean {similar[0]}?" if similar else f" There are {', '.join(known)}."
            raise UsageError(f"{option}: there is no pass {name}.{hint}")
    return chosen


def _check_pattern(option: str, pattern: str | None) -> None:
    if pattern is not None:
        try:
            re.compile(pattern)
        except re.error as error:
            raise UsageError(f"{option} {pattern!r} is not a regular expression: {error}.") from None


def _tolerance(values: dict[str, Any]) -> Tolerance:
    rtol, atol, file = values["rtol"], values["atol"], values["predicate"]
    if (rtol is None) is not (atol is None):
        raise UsageError("--rtol and --atol go together: give both, or neither.")
    predicate = ""
    if file is not None and rtol is not None:
        raise UsageError("--predicate decides alone: leave out --rtol and --atol.")
    if file is not None:
        try:
            predicate = file.read_text(encoding="utf-8")
            code = compile(predicate, str(file), "exec", dont_inherit=True)
        except OSError as error:
            raise UsageError(f"--predicate {file} cannot be read: {error.strerror}.") from None
        except SyntaxError as error:
            raise UsageError(f"--predicate {file} is not valid Python: line {error.lineno}: {error.msg}.") from None
        except ValueError as error:
            raise UsageError(f"--predicate {file} is not Python source: {error}.") from None
        if "differs" not in code.co_names:
            raise UsageError(f"--predicate {file} does not define differs(compiled, eager).")
    return Tolerance(
        rtol, atol, tuple(Aspect(name) for name in values["ignore"]), predicate, values["compare"] == "strict"
    )
