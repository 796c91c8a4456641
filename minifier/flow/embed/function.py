"""`minifier.check` and `minifier.minify`: a function under a backend, and the result, which a notebook shows.

The graphs of the function are recorded as Cases, without a call of the backend, on copies of the inputs.
"""

from __future__ import annotations

import contextlib
import copy
import html
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch.nn.parameter import is_lazy

from minifier.capturing import script
from minifier.capturing.backend_reference import reference
from minifier.capturing.graph_record import Record
from minifier.capturing.observer import Observer
from minifier.capturing.process_state import reported_baseline
from minifier.capturing.script_limits import Terms
from minifier.data.case import Case, TensorMeta
from minifier.data.case.run_folder import RunFolder, next_place, shown_path, typed_path
from minifier.data.case.store import CASE, FINISHED, load, save
from minifier.data.case.switches import variables
from minifier.data.failure import Failure
from minifier.data.failure.normalise import printable
from minifier.errors import NoRepro, UsageError
from minifier.flow.embed.reducing import LOG, StatusLine, start_reducing, wait_for, wait_for_repro
from minifier.flow.embed.session import free_folder, name_of, source_here, tell
from minifier.flow.embed.try_recorded import read_answer
from minifier.flow.first_failure import ANY_FAILURE
from minifier.flow.folders import keep_source
from minifier.flow.keep_case import keep_case
from minifier.process.progress import counted
from minifier.repro.report.last_block import ResultRow, last_block, lines_of
from minifier.repro.report.privacy import note_private
from minifier.repro.report.write_reports import read_finished
from minifier.torch_side.compare.results import random_state_kept
from minifier.torch_side.torch_private import dynamo, modes

Inputs = Sequence[Any]
"""The positional arguments of a call: tensors and other values."""


def check(
    fn: Callable[..., Any], inputs: Inputs = (), backend: Any = "inductor", *, timeout: float | None = None
) -> FunctionOutcome:
    """Call `fn(*inputs)` once under the backend, and compare with eager; return what the first failure is, if any.

    `fn` is a function or a module. `backend` is whatever torch.compile takes. The backward pass is run too, where the
    results require grad. `timeout` is in seconds, for each graph; by default 120.

    No folder stays. `fn` is called on deep copies of the inputs. The parameters, buffers and gradients of a module, or
    of the module whose method `fn` is, are afterwards as before; so are the global random generators and Dynamo's
    caches. Other side effects stay, as after any call: an optimizer that `fn` steps, a list that it appends to. Raises
    whatever `fn` itself raises without the backend, NoRepro if no other process can have the graph or the backend, and
    MinifyError. Under `minify run` the backend is called here, so that `minify run` sees the failure.
    """
    _refuse_if_no_arguments(inputs)
    if script.under_run:
        torch.compile(fn, backend=backend)(*inputs)
        return FunctionOutcome(name_of(backend))
    with _first_failing_call(fn, inputs, backend, timeout) as (folder, graphs, _):
        failure = load(folder.case).failure if folder is not None else None
        return FunctionOutcome(name_of(backend), failure, graphs)


def minify(
    fn: Callable[..., Any],
    inputs: Inputs = (),
    backend: Any = "inductor",
    *,
    out: Path | str | None = None,
    timeout: float | None = None,
    options: Sequence[str] = (),
) -> FunctionOutcome:
    """Call `fn(*inputs)` as `check` does, and reduce the first failure to a verified repro, in another process.

    `out` is by default `minify-out/<name of fn>-<n>`. If the folder is in use, a number is appended. It is made only
    for a failure. `options` are command-line options of `minify reduce`. Raises as `check` does.
    """
    if script.under_run:
        return check(fn, inputs, backend)
    _refuse_if_no_arguments(inputs)
    with _first_failing_call(fn, inputs, backend, timeout) as (found, graphs, status):
        if found is None:
            return FunctionOutcome(name_of(backend), graphs=graphs)
        words = "".join(character if character.isalnum() else "-" for character in name_of(fn)).strip("-")
        place = next_place(words or "function").absolute() if out is None else free_folder(out)
        keep_case(found.case, place)
        limit = [] if timeout is None else ["--timeout", str(timeout)]
        try:
            wait_for_repro(start_reducing(place, [*limit, *options]), place, status)
        except KeyboardInterrupt as interrupt:
            tell(interrupt, f"minifier: `minify reduce {typed_path(place)}` goes on from here")
            raise
    return outcome_of(place, graphs)


def _refuse_if_no_arguments(inputs: Any) -> None:
    """Raise UsageError for a tensor, say, which Python would unpack along its first dimension."""
    if not isinstance(inputs, (list, tuple)):
        kind = type(inputs).__name__
        raise UsageError(f"inputs is a {kind}: give the arguments of the call as a list or tuple, like [x].")


@contextlib.contextmanager
def _first_failing_call(
    fn: Callable[..., Any], inputs: Inputs, backend: Any, timeout: float | None
) -> Iterator[tuple[RunFolder | None, int, StatusLine]]:
    """Yield the folder of the first failing call, or None, the number of graphs, and the line that says what is done.

    The folder is removed then.
    """
    with (
        tempfile.TemporaryDirectory(prefix="minify-") as temporary,
        StatusLine(f"minify: calling {name_of(fn)} under {name_of(backend)}") as status,
    ):
        recorded = Path(temporary)
        graphs = record_graphs(fn, inputs, backend, recorded)
        yield (_tried(recorded, timeout, status) if graphs else None), graphs, status


def _tried(recorded: Path, timeout: float | None, status: StatusLine) -> RunFolder | None:
    """Make the recorded calls in another process. Raises the error of that process."""
    limit = "" if timeout is None else str(timeout)
    with (
        open(os.memfd_create("minify-answer"), "w+b") as answer,  # in memory: a full disk does not matter
        tempfile.TemporaryFile("w+") as diagnostics,
        subprocess.Popen(
            [sys.executable, "-m", "minifier.flow.embed.try_recorded", str(recorded), limit],
            stdin=subprocess.DEVNULL,
            stdout=answer,
            stderr=diagnostics,
            start_new_session=True,
        ) as process,
    ):
        wait_for(process, status.tick)
        for file in (answer, diagnostics):
            file.seek(0)
        folder = read_answer(answer.read(), diagnostics.read())
    return None if folder is None else RunFolder(folder)


# Copies by the selection, which works in frames and without https too.
_COPY_BUTTON = (
    "<button onclick=\"getSelection().selectAllChildren(this.nextElementSibling); document.execCommand('copy')\">"
    "Copy</button>"
)


@dataclass(frozen=True, repr=False)
class FunctionOutcome:
    """The result of `minifier.check` and `minifier.minify`; `sentence` says it. `check` tells the first three fields.

    backend: the name of the backend.
    failure: the first failure, or None. `failure.sentence` describes it.
    graphs: the number of graphs that Dynamo made of the function; None under `minify run`, which compares them itself.
    repro: the path of the verified repro; None without one.
    ops: the number of ops that are left in the repro; None if nothing was reduced.
    ops_before: the number of ops of the failing graph.
    origin: the lines of the user's code, like `model.py:14`, that the ops which are left come from.
    folder: the output folder, with the reports.
    """

    backend: str
    failure: Failure | None = None
    graphs: int | None = None
    repro: Path | None = None
    ops: int | None = None
    ops_before: int = 0
    origin: tuple[str, ...] = ()
    folder: Path | None = None
    _rows: tuple[ResultRow, ...] = ()

    @property
    def failed(self) -> bool:
        """Whether there was a failure."""
        return self.failure is not None

    def __bool__(self) -> bool:
        return self.failed

    @property
    def sentence(self) -> str:
        """Whether the backend is right, or how it fails, in one sentence."""
        backend = f"the backend {self.backend!r}"
        if self.failure is not None:
            return f"{backend} fails: {self.failure.sentence}"
        if self.graphs is None:
            return f"{backend} was called, and minify run looks how that ends"
        if not self.graphs:
            return f"{backend} was given no graph"
        return f"{backend} gives the values of eager mode; {counted(self.graphs, 'call')} compared"

    def __repr__(self) -> str:
        if not self._rows:
            return printable(self.sentence, kept="")
        return printable("\n".join(line for line, _ in lines_of(self._rows, None)))

    def _repr_html_(self) -> str:
        """Return the rows of the result, and the repro with a button that copies it, for a notebook.

        All texts are escaped.
        """
        rows = "".join(
            f"<tr><th style='text-align:left'>{html.escape(row.label)}</th>"
            f"<td style='text-align:left;white-space:pre-wrap'>{html.escape(row.text)}</td></tr>"
            for row in self._rows or (ResultRow("failed" if self.failed else "passed", self.sentence),)
        )
        shown = f"<table>{rows}</table>"
        if self.repro is not None and self.repro.exists():
            source = html.escape(self.repro.read_text(encoding="utf-8"))
            shown += f'{_COPY_BUTTON}<pre style="font-family:monospace">{source}</pre>'
        return shown


def outcome_of(out: Path, graphs: int) -> FunctionOutcome:
    """Read the output folder of a reduction that has ended, or that died; the log is named then."""
    folder = RunFolder(out)
    case = load(folder.case)
    minimal = load(folder.minimal) if (folder.minimal / CASE).exists() else None
    if (out / FINISHED).exists():
        finished, _ = read_finished(out)
        rows, failure = last_block(finished), finished.failure
        ops = finished.summary.ops_after if finished.summary is not None else None
    else:
        log, failure, ops = out / LOG, case.failure, None
        rows = (
            ResultRow("failed", f"{case.backend.name}: {failure.sentence}"),
            ResultRow("no repro", f"{shown_path(log)} says why: {_last_line(log)}"),
            ResultRow("saved", shown_path(out)),
        )
    repro = folder.repro if folder.repro.exists() else None
    places = tuple(dict.fromkeys(node.place for node in (minimal or case).graph.ops if node.place))
    return FunctionOutcome(
        case.backend.name, failure, graphs, repro, ops, len(case.graph.ops), places, out, tuple(rows)
    )


def _last_line(log: Path) -> str:
    lines = log.read_text(encoding="utf-8").strip().splitlines() if log.exists() else []
    return lines[-1] if lines else "it is empty"


class _Recorder:
    """A backend that runs each graph in eager mode and saves it, with the inputs of its first call, as a Case.

    The Case names the backend under test, which is never called.
    """

    def __init__(self, observer: Observer, backend: Any) -> None:
        self.__name__ = name_of(backend)
        self.records: list[Record] = []
        self._observer, self._backend = observer, backend

    def __call__(self, gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        """Record the graph, and return its function."""
        compiler = dynamo.compiler_for(self._backend, None, None, None)
        path = self._observer.run.baseline.path
        record = self._observer.record(gm, list(inputs), lambda: (reference(compiler, path), ""))
        self.records.append(record)

        def run(*args: Any) -> Any:
            if not record.runs:
                record.runs = 1
                record.keep(args, 1)
            return gm.forward(*args)

        return run


def record_graphs(
    function: Callable[..., Any], inputs: Sequence[Any], backend: Any, folder: Path, dynamic: bool | None = None
) -> int:
    """Call the function once on copies of its inputs, compiled by a backend that only records.

    Returns the number of graphs. The called graphs are Cases in sub-folders of `folder`, by number, in the order of
    their compilation. The state that `state_kept` restores and Dynamo's caches are afterwards as before. Raises
    whatever the function itself raises, and NoRepro if a graph cannot be saved.
    """
    dynamo.compiler_for(backend, None, None, None)  # raises torch's own error for an unknown name
    baseline = replace(reported_baseline(tuple(variables(os.environ))), environment=dict(os.environ))
    observer = Observer(folder, name_of(function), baseline, Terms(in_place=True))
    end_noting = modes.note_inference_mode()
    try:
        recorder = _Recorder(observer, backend)
        with (
            state_kept(function),
            dynamo.dynamo_caches_restored(lambda compiler: dynamo.asked_backend(compiler).function is recorder),
        ):
            dynamo.isolated_compile(function, recorder, dynamic)(*copied(list(inputs), {}))
    finally:
        observer.close()
        end_noting()
    _finish(recorder.records, folder)
    return len(recorder.records)


def _finish(records: Sequence[Record], folder: Path) -> None:
    """Complete the Cases of called graphs: the script's source and private texts, and whether a backward follows."""
    source, is_file = source_here()
    keep_source(folder, source)
    note_private(folder)
    for record in records:
        if record.unsaved:
            raise NoRepro(f"graph {record.number} cannot be saved, so no other process can run it: {record.unsaved}")
        if not record.runs:
            shutil.rmtree(record.folder)
            continue
        case = load(record.folder)
        if not is_file:  # its line counts from its cell, the source has all cells
            case = replace(case, script=replace(case.script, line=0))
        save(replace(case, failure=ANY_FAILURE, backward=_trains(case)), record.folder)


def _trains(case: Case) -> bool:
    """Whether a backward pass through the graph is possible."""
    values = [case.graph.node(name).value for name in case.graph.output.refs()]
    has_gradient = any(isinstance(value, TensorMeta) and value.requires_grad for value in values)
    return has_gradient and case.state.grad and not case.state.inference


@contextlib.contextmanager
def state_kept(function: Callable[..., Any]) -> Iterator[None]:
    """Restore afterwards the random generators, and a module's parameters, buffers and gradients.

    The module is the function itself, or the one whose method it is.
    """
    numpy = sys.modules.get("numpy")
    of_python, of_numpy = random.getstate(), numpy.random.get_state() if numpy is not None else None
    owner = getattr(function, "__self__", function)
    modules = list(owner.modules()) if isinstance(owner, torch.nn.Module) else []
    held: list[tuple[dict[str, Any], dict[str, Any]]] = [
        (names, dict(names)) for module in modules for names in (module._parameters, module._buffers)
    ]
    tensors = [
        (tensor, tensor.detach().clone(), tensor.grad, None if tensor.grad is None else tensor.grad.clone())
        for _, before in held
        for tensor in before.values()
        if tensor is not None and not is_lazy(tensor)
    ]
    try:
        with random_state_kept():
            yield
    finally:
        random.setstate(of_python)
        if numpy is not None:
            numpy.random.set_state(of_numpy)
        for names, before in held:
            names.clear()
            names.update(before)
        with torch.no_grad():
            for tensor, value, grad, content in tensors:
                _restore(tensor, value)
                tensor.grad = grad
                if grad is not None and content is not None:
                    _restore(grad, content)


def _restore(tensor: torch.Tensor, value: torch.Tensor) -> None:
    if not torch.equal(tensor, value):  # a write would raise the version, for which a graph of the user's may look
        tensor.copy_(value)


def copied(value: Any, memo: dict[int, Any]) -> Any:
    """Return a deep copy of an argument; the argument itself if it cannot be copied.

    With one `memo` for all arguments, tensors of one memory have one memory again. A result of autograd becomes a leaf.
    """
    if isinstance(value, torch.Tensor) and not value.is_leaf:
        return value.detach().clone().requires_grad_()
    if type(value) in (list, tuple):
        return type(value)(copied(each, memo) for each in value)
    if type(value) is dict:
        return {key: copied(each, memo) for key, each in value.items()}
    try:
        return copy.deepcopy(value, memo)
    except (TypeError, RuntimeError, NotImplementedError):
        return value
