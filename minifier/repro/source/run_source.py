"""Run a source text as a script, in this process."""

from __future__ import annotations

import ast
import contextlib
import hashlib
import itertools
import os
import random
import re
import sys
import tempfile
from typing import Any

import torch

from minifier.data.failure import Stage
from minifier.data.failure.evidence import stage_shown
from minifier.data.failure.observed import describe, text
from minifier.process.machine import own_frames
from minifier.reduction.probe.children import AHEAD, fall_silent, imports_told, tell
from minifier.repro.source.conditions import DRAWN, DRAWS_AS_EAGER, EXIT, BackendWatch
from minifier.repro.source.statement_tree import ORDINARY_FRAMES
from minifier.torch_side.compare.results import random_digest
from minifier.torch_side.fx.script_objects import FILE, define

_SEED = 0
_EXITS = re.compile(r"(sys\.|os\.)?_?exit\(|raise SystemExit\b|quit\(")


def run_source(
    source: str, *, compiled: bool = True, file: str = FILE, watch: BackendWatch | None = None
) -> dict[str, Any]:
    """Run the source as `__main__`, and return its exception or {"status": "pass"}.

    If the source exits with a non-zero status, this process ends with the same status. `compiled=False` makes
    torch.compile run everything in eager mode. `file` is the script's `__file__`. `watch` takes part in backend calls.
    """
    if watch is not None:
        watch.start()
    with imports_told():
        result = _run(source, file, compiled=compiled)
    if result["status"] == "exit":
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(result["code"])
    return result


def run_after_control(source: str, file: str = FILE, watch: BackendWatch | None = None) -> dict[str, Any]:
    """Run the source in eager mode, in a fork of this process and in a folder of its own; if it passes, compiled.

    Only the compiled run tells facts, at its end also whether both leave torch's generators in the same state.
    """
    tell(stage=AHEAD)
    reading, writing = os.pipe()
    control = os.fork()
    if control == 0:
        fall_silent()
        os.chdir(tempfile.mkdtemp())
        result = run_source(source, compiled=False, file=file)
        os.write(writing, random_digest())
        os._exit(result["status"] != "pass")
    os.close(writing)
    if os.waitpid(control, 0)[1] != 0:
        return {"status": "invalid", "links": []}
    in_eager = b""
    os.set_blocking(reading, False)  # a process that the script has left may hold the other end
    with contextlib.suppress(BlockingIOError):
        in_eager = os.read(reading, hashlib.sha256().digest_size)
    tell(stage=Stage.COMPILE.value)
    result = run_source(source, file=file, watch=watch)
    tell(**{DRAWS_AS_EAGER: in_eager == random_digest()})
    return result


def in_eager(source: str) -> str:
    """Return the script with a first statement that makes torch.compile run everything in eager mode."""
    return with_first(source, 'import torch; torch.compiler.set_stance("force_eager")\n')


def with_first(source: str, statements: str) -> str:
    """Return the script with these statements ahead of all but its docstring and its imports from __future__."""
    first = list(itertools.takewhile(_comes_first, ast.parse(source).body))
    return _with_line(source, statements, first[-1] if first else None)


def seeded(source: str) -> str:
    """Insert the seed of the probes after `import torch` and the imports that follow it; no change without that import.

    A reduced script may have lost its own seed, and fail for some random numbers only.
    """
    body = ast.parse(source).body
    from_torch = list(itertools.dropwhile(lambda node: not _is_import_torch(node), body))
    if not from_torch:
        return source
    imports = list(itertools.takewhile(_is_import, from_torch))
    return _with_line(source, f"\ntorch.manual_seed({_SEED})\n", imports[-1])


def said_of_exit(source: str) -> str:
    """Say where a script ends itself: "where not torch.equal(x, y)", "at sys.exit(f())"; "" if at several places."""
    tree = ast.parse(source)
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    nodes = (node for node in ast.walk(tree) if isinstance(node, (ast.Call, ast.Raise)))
    ends = [node for node in nodes if _EXITS.match(ast.unparse(node))]
    if len(ends) != 1:
        return ""
    node: ast.AST = ends[0]
    while not isinstance(node, (ast.Module, ast.FunctionDef, ast.AsyncFunctionDef)):
        inner, node = node, parents[node]
        if isinstance(node, ast.If) and inner is not node.test:
            test = node.test if inner in node.body else ast.UnaryOp(ast.Not(), node.test)
            return f"where {ast.unparse(test)}"
    return f"at {ast.unparse(ends[0])}"


def _is_import_torch(node: ast.stmt) -> bool:
    return isinstance(node, ast.Import) and "torch" in {alias.asname or alias.name for alias in node.names}


def _is_import(node: ast.stmt) -> bool:
    return isinstance(node, (ast.Import, ast.ImportFrom))


def _with_line(source: str, line: str, ahead: ast.stmt | None) -> str:
    """Insert the line after the statement `ahead`, or as the first line."""
    after = ahead.end_lineno if ahead is not None else 0
    lines = source.splitlines(keepends=True)
    return "".join([*lines[:after], line, *lines[after:]])


def _comes_first(node: ast.stmt) -> bool:
    """Return whether the statement is a docstring, or an import from __future__."""
    if isinstance(node, ast.ImportFrom):
        return node.module == "__future__"
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _run(source: str, file: str, *, compiled: bool) -> dict[str, Any]:
    sys.argv = ["repro.py"]
    sys.setrecursionlimit(ORDINARY_FRAMES + own_frames())
    if not compiled:
        torch.compiler.set_stance("force_eager")
    torch.manual_seed(_SEED)  # the forks of one process would all begin with the numbers of that process
    random.seed()  # as in a fresh interpreter
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed()
    before = _states_of_draws()
    try:
        define(source, file)
    except SystemExit as exit_:
        links = describe(exit_)
        code = links[0]["exit status"]
        tell(**{EXIT: [link["frames"] for link in links]}, stage=stage_shown(links).value)
        return {"status": "exit", "code": code} if code else {"status": "pass"}
    except BaseException as error:  # noqa: BLE001 - any exception is a result
        links = describe(error)
        return {"status": "fail", "stage": stage_shown(links).value, "links": links, "traceback": text(error)}
    finally:
        after = _states_of_draws()  # of the generators that were loaded before
        drawn = {name: repr(state) for name, state in after.items() if name in before and state != before[name]}
        tell(**{DRAWN: {name: hashlib.sha256(state.encode()).hexdigest() for name, state in drawn.items()}})
    return {"status": "pass"}


def _states_of_draws() -> dict[str, Any]:
    states: dict[str, Any] = {"random": random.getstate(), "torch": torch.get_rng_state().tolist()}
    if (numpy := sys.modules.get("numpy")) is not None:
        states["numpy"] = [part.tolist() if hasattr(part, "tolist") else part for part in numpy.random.get_state()]
    return states
