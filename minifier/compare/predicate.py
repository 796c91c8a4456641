"""The user's own predicate, given as the text of a file."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from typing import Any

from minifier.errors import UsageError

_NAME = "<predicate file>"  # in tracebacks


def _read_predicate(text: str) -> Callable[[list[Any], list[Any]], bool | str]:
    """Return the text's function `differs(compiled, eager)`. Raises UsageError if the text fails or lacks it."""
    scope: dict[str, Any] = {"__name__": "minify_predicate", "__file__": _NAME}
    linecache.cache[_NAME] = (len(text), None, text.splitlines(keepends=True), _NAME)
    try:
        exec(compile(text, _NAME, "exec"), scope)  # the user's own file, named on the command line
    except SyntaxError as error:
        raise UsageError(f"the predicate file is not Python: {error.msg} (line {error.lineno})") from None
    except Exception as error:
        raise UsageError(f"the predicate file fails when it is run: {type(error).__name__}: {error}") from error
    function = scope.get("differs")
    if not callable(function):
        raise UsageError(
            "the predicate file does not define differs(compiled, eager), which is given two lists of outputs "
            "and returns whether they differ, or a sentence that says how"
        )
    return function  # type: ignore[no-any-return]


def predicate_sentence(text: str, compiled: list[Any], eager: list[Any]) -> str:
    """Return the predicate's sentence, empty if the outputs do not differ. Raises UsageError if the predicate fails."""
    function = _read_predicate(text)
    try:
        answer = function(compiled, eager)
    except Exception as error:
        frame, line = error.__traceback__, 0
        while frame is not None:
            line = frame.tb_lineno if frame.tb_frame.f_code.co_filename == _NAME else line
            frame = frame.tb_next
        where = f" (line {line} of the predicate file)" if line else ""
        raise UsageError(
            f"differs(compiled, eager) raises {type(error).__name__}: {error}{where}; it must return a bool or a str"
        ) from error
    if isinstance(answer, str):
        return answer
    if isinstance(answer, (bool, int)) or answer is None or hasattr(answer, "__bool__"):
        return "the predicate says that the outputs differ" if answer else ""
    raise UsageError(f"differs(compiled, eager) returned a {type(answer).__name__}, not a bool or a str")
