"""AOTAutograd, inductor and the handler of fatal signals: what no whole run would notice if a release changes it."""

import ctypes
import faulthandler
import gc
import importlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import weakref
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from case_samples import small_case
from functorch.compile import make_boxed_func
from torch._dynamo.backends.common import aot_autograd
from vocabulary import in_child

from minifier.data.case import BackendReference, BackendSource
from minifier.data.failure.fingerprint import DAMAGED_HEAP, native_identity
from minifier.data.torch_names import INDUCTOR_MODULES, MACHINE_SETTINGS
from minifier.process.child import Child, supervise
from minifier.process.descriptors import StackFile, after_stack_file, stack_file
from minifier.process.interrupts import uninterrupted
from minifier.reduction.probe import prepared_case
from minifier.torch_side.torch_private import aot, inductor, modes

pytestmark = pytest.mark.timeout(240)
needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="inductor needs a C++ compiler")


def boxed(gm, example_inputs):
    return make_boxed_func(gm.forward)


def trained(backend):
    """A step of training through the backend; gives the gradient."""
    x = torch.ones(2, 3, requires_grad=True)
    torch.compile(lambda x: torch.tanh(x).sum(), backend=backend)(x).backward()
    return x.grad


def test_a_compiler_for_inference_is_seen_and_what_was_compiled_is_not_kept(forked):
    def work():
        parts, runs, compiled = [], [], []

        def on_compile(token, part, gm, inputs, call):
            made = call()
            parts.append(part)
            compiled.append(weakref.ref(made))
            return made

        def on_run(token, args, call):
            runs.append(token)
            return call()

        aot.observe_aot_compilers(lambda: "token", on_compile, on_run)
        backend = aot_autograd(fw_compiler=boxed, bw_compiler=boxed, inference_compiler=boxed)
        torch.compile(torch.tanh, backend=backend)(torch.ones(2))
        trained(backend)
        alive = [made() is not None for made in compiled]
        torch._dynamo.reset()
        gc.collect()
        return parts, runs, alive[-1], compiled[-1]() is None

    assert forked(work) == (["aot-inference", "aot-forward", "aot-backward"], ["token"], True, True)


@needs_compiler
@pytest.mark.usefixtures("soak")
def test_a_backward_that_is_in_the_cache_on_disk_is_compiled_all_the_same(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "inductor"))

    def step():
        torch._dynamo.reset()  # a child begins with what its parent has compiled and counted
        torch._dynamo.utils.counters.clear()
        x = torch.ones(3, requires_grad=True)
        torch.compile(torch.tanh, backend="inductor")(x).sum().backward()
        return dict(torch._dynamo.utils.counters["aot_autograd"])

    def observed():
        parts, runs = [], []
        aot.observe_aot_compilers(
            lambda: "token",
            lambda token, part, gm, inputs, call: parts.append(part) or call(),
            lambda token, args, call: runs.append(token) or call(),
        )
        step()
        seen = list(parts), list(runs)
        return *seen, step()["autograd_cache_hit"], len(parts)

    assert in_child(step, tmp_path, 180)["autograd_cache_miss"] == 1
    assert in_child(step, tmp_path, 180)["autograd_cache_hit"] == 1
    # What this process has compiled is found in the cache, as it is without the hooks.
    assert in_child(observed, tmp_path, 180) == (["aot-forward", "aot-backward"], ["token"], 1, 2)


def test_inductor_compiles_in_this_process_and_from_no_cache(forked):
    def work():
        inductor.tame_inductor()
        config = importlib.import_module("torch._inductor.config")
        caches = config.fx_graph_cache, config.fx_graph_remote_cache, torch._functorch.config.enable_autograd_cache
        return config.compile_threads, caches

    assert forked(work) == (1, (False, False, False))


@needs_compiler
def test_inductor_is_made_ready_once_for_all_and_its_settings_stay(forked):
    def work():
        before = torch._inductor.config.compile_threads
        prepared_case.built_devices = lambda: []
        prepared_case.preload_for_run(replace(small_case(), backend=BackendReference("inductor", BackendSource.NONE)))
        patterns = importlib.import_module("torch._inductor.fx_passes.joint_graph").lazy_init
        return torch._inductor.config.compile_threads == before, patterns.cache_info().currsize

    assert forked(work, 100) == (True, 1)


def test_a_precompiled_header_is_looked_for_once_for_all_forks(forked, tmp_path):
    header = tmp_path / "header.h"
    header.touch()

    def work():
        codecache, asked = importlib.import_module("torch._inductor.codecache"), []
        codecache._precompile_header = lambda header, hashable_cmd_line, **more: asked.append(more) or header
        inductor.keep_headers(tmp_path)
        return asked, {codecache._precompile_header(str(header), "g++", fast=fast) for fast in (True, True, False)}

    assert forked(work) == ([{"fast": True}, {"fast": False}], {str(header)})


@needs_compiler
def test_what_was_compiled_for_the_user_is_not_compiled_again(forked, tmp_path, soak):
    """The libraries of another cache folder are linked, and found by inductor."""
    users, ours = tmp_path / "users", tmp_path / "ours"

    def compiled_in(folder):
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(folder)
        inductor.tame_inductor()
        return float(torch.compile(lambda x: x.relu().exp())(torch.ones(64))[0])

    def linked():
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(users)
        inductor.inductor_cache.cache_clear()
        inductor.link_libraries(ours)
        inductor.link_libraries(ours)  # nothing is lost where they are there already
        return compiled_in(ours)

    assert forked(lambda: compiled_in(users), 200) == forked(linked, 200) == pytest.approx(2.71828, abs=1e-3)
    libraries = [path for path in ours.glob("??/*.so")]
    assert libraries and all(path.is_symlink() for path in libraries)


FIND_HEADERS = """
import sys, tempfile
from pathlib import Path
from minifier.torch_side.torch_private import inductor

ours, theirs = Path(sys.argv[1], "ours"), Path(sys.argv[1], "theirs")
ours.mkdir(), theirs.mkdir()
tempfile.tempdir = str(theirs)
(inductor.inductor_folder() / "precompiled_headers").mkdir(parents=True)
tempfile.tempdir = str(ours)
inductor.link_headers()
inductor.link_headers()
from torch._inductor.codecache import _HEADER_DIR

assert _HEADER_DIR.startswith(str(ours)), _HEADER_DIR
assert Path(_HEADER_DIR).resolve().is_relative_to(theirs), _HEADER_DIR
"""


@needs_compiler
@pytest.mark.usefixtures("soak")
def test_headers_are_found_from_another_temporary_folder(tmp_path):
    """In a fresh interpreter, as inductor looks for its headers once, when it is imported."""
    subprocess.run([sys.executable, "-c", FIND_HEADERS, tmp_path], check=True, timeout=100)


def test_what_is_imported_for_it_is_there():
    """As one that is gone would only be passed over."""
    for name in INDUCTOR_MODULES:
        importlib.import_module(name)
    for module, key in MACHINE_SETTINGS:
        assert modes.has_config(module, key)


def compile_again_in_a_fork() -> None:
    def compiles(n):
        torch._dynamo.reset()
        assert torch.compile(lambda x: torch.tanh(x) * n, backend="inductor")(torch.ones(3)).shape == (3,)

    torch._inductor.config.compile_threads = 2
    compiles(2)
    if (pid := os.fork()) == 0:
        inductor.forget_threads()
        compiles(3)
        os._exit(17)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 17


@needs_compiler
@pytest.mark.usefixtures("soak")
def test_a_fork_of_a_process_that_has_compiled_starts_threads_of_its_own(tmp_path):
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", "import test_torch_private_compilers as it; it.compile_again_in_a_fork()"]
    subprocess.run(command, cwd=Path(__file__).parent, env=environment, check=True, timeout=200)


FRAMES = '  File "compile_fx.py", line 1, in {}\n    ...\n'


@pytest.mark.parametrize(
    ("functions", "ahead"),
    [
        (["codegen_and_compile", "run", "call_function"], True),
        (["codegen_and_compile", "compile_to_module", "_compile_to_module_lines", "exec"], False),
    ],
)
def test_a_failure_ahead_of_the_code_is_told_by_its_frames(functions, ahead):
    traceback = "".join(map(FRAMES.format, functions)) + "RuntimeError: it"
    assert inductor.raised_ahead_of_loading(traceback) is ahead


@pytest.mark.timeout(60)
def test_a_process_that_aborts_in_the_allocator_dies_of_it(processes, tmp_path):
    """There torch's handler waits for the allocator's lock, which its own thread holds."""
    stacks, output = StackFile(tmp_path / "stacks", 1.0), tmp_path / "output"

    def run():
        faulthandler.disable()
        os.dup2(os.open(output, os.O_WRONLY | os.O_CREAT), 2)
        stack_file(stacks.path)
        with after_stack_file():
            modes.print_native_stacks()
        threading.Thread(target=threading.Event().wait, daemon=True).start()  # so there is a lock
        allocator = ctypes.CDLL(None)
        allocator.malloc.restype = ctypes.c_void_p
        allocator.free.argtypes = [ctypes.c_void_p]
        chunks = [allocator.malloc(4000) for _ in range(3)]
        allocator.free(chunks[1])
        allocator.free(chunks[1])
        os._exit(0)

    with uninterrupted():
        child = Child.forked(run, 30, stacks=stacks)
    supervise([child])
    assert (child.signal, child.timed_out) == (signal.SIGABRT, False)
    assert native_identity(output.read_text()) == DAMAGED_HEAP
