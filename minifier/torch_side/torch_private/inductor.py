"""Inductor in a probe, AOTInductor's packages, and Triton kernels in graphs."""

from __future__ import annotations

import contextlib
import copy
import functools
import hashlib
import inspect
import os
import re
import sys
import tempfile
import weakref
from collections.abc import Callable
from pathlib import Path
from types import CodeType
from typing import Any

import torch
import torch._inductor
from torch._higher_order_ops.triton_kernel_wrap import kernel_side_table
from torch._ops import OpOverload
from torch.utils._pytree import tree_leaves

from minifier.data.case.store import write_atomically
from minifier.data.torch_names import COMPILE_FX, MACHINE_CHECK
from minifier.torch_side.interfaces import TORCH, Arguments
from minifier.torch_side.torch_private import declared
from minifier.torch_side.torch_private.modes import variable_set


def compile_in_this_process() -> None:
    """Make inductor compile in this process: its worker processes would outlive a probe."""
    declared.COMPILE_THREADS.assign(1)


def tame_inductor() -> None:
    """Make inductor compile in this process and without its cache of graphs.

    A cached graph could be the compilation of another candidate. Its cache of compiled C++ is sound: the key is a hash
    of the source.
    """
    compile_in_this_process()
    for setting in declared.GRAPH_CACHES:
        setting.assign(False)


def raised_ahead_of_loading(traceback: str) -> bool:
    """Whether inductor raised before it has compiled and loaded the code that it writes for a graph."""
    functions = {*re.findall(r", in (?:_recursive_)?(\w+)$", traceback, re.MULTILINE)}
    ahead = {"codegen_and_compile", "joint_graph_passes", "pre_grad_passes"}
    return not ahead.isdisjoint(functions) and declared.LOADING.place.rpartition(".")[2] not in functions


def observe_loading(before: Callable[[], None]) -> None:
    """Call this before inductor compiles and loads the code that it has written for a graph."""

    def around(_: None, go_on: Callable[[], Any]) -> Any:
        before()
        return go_on()

    declared.LOADING.replace(lambda call: None, around)


def forget_threads() -> None:
    """Let inductor in a forked child start new compile threads, instead of waiting forever for the parent's threads.

    torch forgets its worker processes after a fork, but not these threads. Its own pool of threads it makes anew at the
    first use: two threads that use it first at once, this one and autograd's in a build for a device, abort.
    """
    torch.set_num_threads(torch.get_num_threads())
    if (pool := declared.THREADS.find(load=False)) is not None:
        pool.cache_clear()


def inductor_headers() -> Path | None:
    """Return the folder with inductor's precompiled C++ headers, or None without any. They take ten seconds to make.

    Inductor looks for them in the temporary folder, whatever its cache folder is.
    """
    folder = inductor_folder()
    return folder if (folder / "precompiled_headers").is_dir() else None


@functools.cache
def inductor_folder() -> Path:
    """Return inductor's default cache folder, in the temporary folder at the time of the first call.

    If torch does not say, return a folder of a name that it would not take: nothing is found there.
    """
    find = declared.CACHE_FOLDER.find()
    return Path(find()) if find is not None else Path(tempfile.gettempdir(), "minify-unknown-inductor")


@functools.cache
def inductor_cache() -> Path:
    """Return the user's cache folder of inductor, as set at the time of the first call."""
    folder = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    return Path(folder).absolute() if folder else inductor_folder()


_MAX_CHECK_BYTES = 2_000  # of a source by which inductor checks for vector instructions


def link_libraries(into: Path, *, checks_only: bool = False) -> None:
    """Link the libraries that inductor compiled for the user into another cache folder, and its checks of this run.

    Their names are hashes of source, flags and compiler, so compiling again would make the same. With `checks_only`,
    only link its checks for vector instructions: they take ten seconds to compile and concern no script.
    """
    for library in (each for cache in (inductor_cache(), _checks()) for each in cache.glob("??/c*.so")):
        if checks_only and not _is_check(library.with_suffix(".cpp")):
            continue
        place = into / library.parent.name
        place.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            (place / library.name).symlink_to(library)


def _is_check(cpp: Path) -> bool:
    with contextlib.suppress(OSError):  # there is no source, or no longer
        return cpp.stat().st_size < _MAX_CHECK_BYTES and MACHINE_CHECK.encode() in cpp.read_bytes()
    return False


def _checks() -> Path:
    """Return the cache folder of the checks for vector instructions, which the processes of a run share."""
    return Path(tempfile.gettempdir()) / "minify-checks"


def warm_up_inductor(*, patterns: bool) -> None:
    """Make inductor, if imported, check for vector instructions, and register its `patterns`, once for all children.

    The check takes nearly two seconds, and runs compilers for ten unless the user's cache has the libraries, or another
    process of the run has made them. The patterns take a third of a second: most of what a failing graph of a few ops
    needs. The hash of torch's own sources, which is part of the key of each graph in its caches, takes a sixth. No op
    runs.
    """
    if (valid_vec_isa_list := declared.VECTORS.find(load=False)) is None or COMPILE_FX not in sys.modules:
        return
    link_libraries(_checks(), checks_only=True)
    # Without a compiler, for example, each child will see the error itself.
    with variable_set("TORCHINDUCTOR_CACHE_DIR", str(_checks())), contextlib.suppress(Exception):
        valid_vec_isa_list()
    if patterns and (register_patterns := declared.PATTERNS.find()) is not None:
        takes_device = bool(inspect.signature(register_patterns).parameters)  # not before torch 2.10
        with contextlib.suppress(Exception):  # likewise
            register_patterns(*[torch.device("cpu")][:takes_device])
    if (torch_key := declared.KEY.find()) is not None:
        torch_key()
    keep_headers(_checks())


_OF_COMPILER = ("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "GCC_EXEC_PREFIX")  # variables


@functools.cache  # a fork has its parent's
def keep_headers(folder: Path) -> None:
    """Let the forks of this process take the precompiled header that the first of them has found; the folder names it.

    Inductor preprocesses a header in each process to see whether it has changed, for a sixth of a second, also where
    all that it compiles is in its cache.
    """

    def found(key: str, go_on: Callable[[], str]) -> str:
        known = folder / f"header-{hashlib.sha256(key.encode()).hexdigest()}"
        with contextlib.suppress(OSError):  # of the first fork
            if Path(header := known.read_text(encoding="utf-8")).exists():
                return header
        header = go_on()
        with contextlib.suppress(OSError):  # each fork then looks for it itself
            write_atomically(known, header)
        return header

    def asked(call: Arguments) -> str:
        return repr((sorted(call.items()), [os.environ.get(name) for name in _OF_COMPILER]))

    declared.HEADER.replace(asked, found)


def link_headers() -> None:
    """Link the user's precompiled headers into this process's temporary folder, where inductor looks for them."""
    headers = inductor_headers()
    link = Path(tempfile.gettempdir()) / inductor_folder().name
    if headers is not None and not link.exists():
        link.symlink_to(headers)


def inductor_entry() -> CodeType | None:
    """Return the code of inductor's function that compiles a graph; None if inductor is not imported."""
    function = getattr(sys.modules.get(COMPILE_FX), "compile_fx", None)
    function = getattr(function, "__wrapped__", function)
    code = getattr(function, "__code__", None)
    return code if isinstance(code, CodeType) else None


def choose_applications(is_left_out: Callable[[str, str], bool]) -> None:
    """Ask `is_left_out(subsystem, name)` before whatever inductor applies in this process from now on.

    Subsystems are those of torch's CompilerBisector: `joint_graph_passes` with the names of passes, `lowerings` with
    ops. What is left out does not happen.
    """

    def is_disabled(backend: str, subsystem: str, debug_info: Callable[[], str] | None = None) -> bool:
        return is_left_out(subsystem, debug_info() if debug_info is not None else "")

    declared.DISABLES.assign(staticmethod(is_disabled))


# The guards on inputs came with torch 2.9; eager has none.
_UNGUARDED: dict[str, Any] = {"check_guards": False} if TORCH >= (2, 9) else {}

OnCompile = Callable[[torch.export.ExportedProgram, "dict[str, Any] | None", Callable[[], Any]], Any]
OnLoad = Callable[[str, Callable[..., Any]], "Callable[..., Any] | None"]


class _Loader:
    """Replaces a package's loader during a call, so that the package's run is observed; all else is the loader's."""

    def __init__(self, loader: Any, run: Callable[..., Any]) -> None:
        self._loader, self._run = loader, run

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def boxed_run(self, inputs: list[Any], *args: Any, **kwargs: Any) -> Any:
        """Return the package's flat outputs. Empties the list, like the original loader."""
        if args or kwargs:
            declared.RUN_PACKAGE.tell_loss(
                f"{declared.RUN_PACKAGE.place} is called with other arguments than the inputs"
            )
            return self._loader.boxed_run(inputs, *args, **kwargs)
        tensors = tuple(inputs)
        inputs.clear()
        return self._run(*tensors)


def observe_aot_inductor(on_compile: OnCompile, on_load: OnLoad) -> None:
    """Observe the compilation and loading of packages in this process, from now on.

    `on_compile(program, configs, call)` wraps every call of `torch._inductor.aoti_compile_and_package`, and must return
    the result of `call()`, a path. `on_load(path, run)` is called for each loaded package; `run(*tensors)` returns the
    list of its outputs. A result of `on_load` that is not None replaces `run`.
    """
    runs: weakref.WeakKeyDictionary[Any, Callable[..., Any]] = weakref.WeakKeyDictionary()

    def compile_package(read: tuple[Any, Any], go_on: Callable[[], Any]) -> Any:
        program, configs = read
        if not isinstance(program, torch.export.ExportedProgram) or program.example_inputs is None:
            return go_on()  # which raises
        return on_compile(program, configs.copy() if isinstance(configs, dict) and configs else None, go_on)

    def load_package(path: Any, go_on: Callable[[], Any]) -> Any:
        model: Any = go_on()
        if isinstance(path, (str, os.PathLike)):
            declared.LOAD_PACKAGE.read(lambda: observe_runs(model, os.fspath(path)))
        return model

    def observe_runs(model: Any, path: str) -> None:
        run = model.loader.boxed_run
        observed = on_load(path, lambda *tensors: run(list(tensors)))
        if observed is not None:
            runs[model] = observed
            observe_calls()

    @functools.cache  # as its module is slow to import
    def observe_calls() -> None:
        declared.CALL_PACKAGE.replace(with_loader, lambda _, go_on: go_on())

    def with_loader(call: Arguments) -> None:
        if (model := call["self"]) in runs:
            call["self"] = copied = copy.copy(model)
            copied.loader = _Loader(model.loader, runs[model])

    declared.COMPILE_PACKAGE.replace(lambda call: (call["exported_program"], call["inductor_configs"]), compile_package)
    declared.LOAD_PACKAGE.replace(lambda call: call["path"], load_package)


def module_of_export(program: torch.export.ExportedProgram) -> tuple[torch.fx.GraphModule, list[Any]]:
    """Return the graph module of an exported program, and its example inputs in the order of its placeholders."""
    gm = program.module(**_UNGUARDED)
    assert isinstance(gm, torch.fx.GraphModule)
    return gm, tree_leaves(program.example_inputs)


def inputs_written_to(gm: torch.fx.GraphModule) -> set[str]:
    """Return the names of the inputs and attributes that an ATen graph writes to, also through views."""
    names: set[str] = set()
    for node in gm.graph.nodes:
        if not isinstance(node.target, OpOverload):
            continue
        for parameter, argument in zip(node.target._schema.arguments, node.args, strict=False):
            if parameter.is_write and isinstance(argument, torch.fx.Node):
                base = _base_of_view(argument)
                names |= {base.name} if base.op in ("placeholder", "get_attr") else set()
    return names


def _base_of_view(node: torch.fx.Node) -> torch.fx.Node:
    while isinstance(node.target, OpOverload) and isinstance(node.args[0], torch.fx.Node):
        if not any(result.alias_info is not None for result in node.target._schema.returns):
            break
        node = node.args[0]
    return node


LAUNCH = torch.ops.higher_order.triton_kernel_wrapper_mutation
_KNOWN = ("kernel_idx", "constant_args_idx", "grid", "tma_descriptor_metadata", "kwargs")


def unknown_arguments(kwargs: dict[str, Any]) -> list[str]:
    """Return the names of a launch's arguments that this tool does not know, and that are not empty."""
    return [name for name, value in kwargs.items() if name not in _KNOWN and value]


def kernel_of(kwargs: dict[str, Any]) -> Any:
    """Return the kernel that a node with these arguments launches."""
    return kernel_side_table.get_kernel(kwargs["kernel_idx"])


def kernel_arguments(kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the kernel's arguments in the order of its parameters; launch options (`num_warps`) come last."""
    constants = kernel_side_table.get_constant_args(kwargs["constant_args_idx"])
    arguments = {**kwargs["kwargs"], **constants}
    order = [name for name in kernel_of(kwargs).arg_names if name in arguments]
    return {name: arguments[name] for name in [*order, *(name for name in arguments if name not in order)]}


def numbered_launch(kernel: Any, arguments: dict[str, Any], grid: list[Any]) -> dict[str, Any]:
    """Return the arguments of a node that launches the kernel. All arguments but nodes go to the side table."""
    in_graph = {name: value for name, value in arguments.items() if isinstance(value, torch.fx.Node)}
    constants = {name: value for name, value in arguments.items() if name not in in_graph}
    unknown = [
        name
        for name, parameter in inspect.signature(LAUNCH.__call__).parameters.items()
        if name not in _KNOWN and parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD
    ]
    return {
        **{name: {} for name in unknown},
        "kernel_idx": kernel_side_table.add_kernel(kernel),
        "constant_args_idx": kernel_side_table.add_constant_args(constants),
        "grid": grid,
        "tma_descriptor_metadata": {},
        "kwargs": in_graph,
    }
