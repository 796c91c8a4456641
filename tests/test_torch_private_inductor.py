"""What the tool knows of where inductor keeps things, and of what it finds out about the machine."""

import importlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import torch

from minifier.data.torch_names import INDUCTOR_MODULES, MACHINE_SETTINGS
from minifier.torch_side import torch_private as private

pytestmark = [
    pytest.mark.timeout(240),
    pytest.mark.skipif(shutil.which("g++") is None, reason="inductor needs a C++ compiler"),
]


@pytest.fixture(scope="module")
def users(tmp_path_factory) -> Path:
    """A cache folder in which inductor has compiled something for a user."""
    folder = tmp_path_factory.mktemp("users")
    script = "import torch\ntorch.compile(lambda x: x.relu().exp())(torch.ones(64))\n"
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(folder), "OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, "-c", script], env=environment, check=True, timeout=200)
    return folder


def libraries(folder: Path) -> set[str]:
    return {path.name for path in folder.glob("??/*.so")}


def compiled_in(folder: Path, work):
    """What `work` gives in a process that has this as its cache folder, and what was compiled there meanwhile."""
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(folder)
    before = {path for path in folder.glob("??/*.so") if not path.is_symlink()}
    done = work()
    return done, {path.name for path in folder.glob("??/*.so") if not path.is_symlink()} - {p.name for p in before}


def test_what_was_compiled_for_the_user_is_not_compiled_again(users, forked, tmp_path, soak):
    def work():
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(users)
        private.inductor_cache.cache_clear()
        private.link_libraries(tmp_path)
        private.link_libraries(tmp_path)  # nothing is lost where they are there already
        private.tame_inductor()
        return compiled_in(tmp_path, lambda: float(torch.compile(lambda x: x.relu().exp())(torch.ones(64))[0]))

    value, new = forked(work, 200)
    assert libraries(users) and libraries(tmp_path) == libraries(users)
    assert value == pytest.approx(2.71828, abs=1e-3) and new == set()


def test_what_inductor_finds_out_of_the_machine_takes_no_compiler_again(users, forked, tmp_path, soak):
    def work():
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(users)
        private.inductor_cache.cache_clear()
        private.link_libraries(tmp_path, checks_only=True)
        checks = libraries(tmp_path)
        import torch._inductor.cpu_vec_isa as isa

        isa.valid_vec_isa_list.cache_clear()
        tempfile.tempdir = str(tmp_path / "run")
        private.warm_up_inductor()
        known = isa.valid_vec_isa_list.cache_info().currsize
        new = {path.name for path in (tmp_path / "run").rglob("*.so") if not path.is_symlink()}
        return checks, known, new, os.environ["TORCHINDUCTOR_CACHE_DIR"]

    checks, known, new, variable = forked(work, 200)
    assert checks < libraries(users) and checks, "of what a script compiles nothing is taken"
    assert known == 1 and new == set() and variable == str(users)


def test_what_a_process_of_the_run_finds_out_of_the_machine_is_for_the_others(forked, tmp_path, soak):
    def work():
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(tmp_path / "users, empty")
        private.inductor_cache.cache_clear()
        tempfile.tempdir = str(tmp_path / "run")
        import torch._inductor.cpu_vec_isa  # noqa: F401

        private.warm_up_inductor()
        private.link_libraries(tmp_path / "of another", checks_only=True)
        return libraries(tmp_path / "of another")

    assert forked(work, 200)


def find_headers_elsewhere(folder: Path) -> None:
    ours, theirs = folder / "ours", folder / "theirs"
    ours.mkdir(), theirs.mkdir()
    tempfile.tempdir = str(theirs)
    (private.inductor_folder() / "precompiled_headers").mkdir(parents=True)
    tempfile.tempdir = str(ours)
    private.link_headers()
    private.link_headers()
    from torch._inductor.codecache import _HEADER_DIR

    assert _HEADER_DIR.startswith(str(ours)), _HEADER_DIR
    assert Path(_HEADER_DIR).resolve().is_relative_to(theirs), _HEADER_DIR


@pytest.mark.usefixtures("soak")
def test_headers_are_found_from_another_temporary_folder(tmp_path):
    """In a fresh interpreter, as inductor looks for its headers once, when it is imported."""
    work = "import sys, test_torch_private_inductor as it; it.find_headers_elsewhere(it.Path(sys.argv[1]))"
    subprocess.run([sys.executable, "-c", work, tmp_path], cwd=Path(__file__).parent, check=True, timeout=100)


def test_what_is_imported_for_it_is_there():
    """As one that is gone would only be passed over."""
    for name in INDUCTOR_MODULES:
        importlib.import_module(name)
    for module, key in MACHINE_SETTINGS:
        assert private.has_config(module, key)
    assert private.INDUCTOR in torch._dynamo.list_backends(None)


def compile_again_in_a_fork() -> None:
    def compiles(n):
        torch._dynamo.reset()
        assert torch.compile(lambda x: torch.tanh(x) * n, backend="inductor")(torch.ones(3)).shape == (3,)

    torch._inductor.config.compile_threads = 2
    compiles(2)
    if (pid := os.fork()) == 0:
        private.forget_threads()
        compiles(3)
        os._exit(17)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 17


@pytest.mark.usefixtures("soak")
def test_a_fork_of_a_process_that_has_compiled_starts_threads_of_its_own(tmp_path):
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", "import test_torch_private_inductor as it; it.compile_again_in_a_fork()"]
    subprocess.run(command, cwd=Path(__file__).parent, env=environment, check=True, timeout=200)


def test_the_function_that_compiles_a_graph_is_known():
    compile_fx = importlib.import_module("torch._inductor.compile_fx")
    assert private.inductor_entry() is compile_fx.compile_fx.__code__


def test_applications_are_left_out(forked):
    def work():
        from torch._inductor.compiler_bisector import CompilerBisector

        noted = []
        private.choose_applications(lambda *names: noted.append(names) or names[1] == "cos")
        ask = CompilerBisector.disable_subsystem
        asked = [ask("inductor", "lowerings", (lambda name=name: name)) for name in ("sin", "cos")]
        return noted, [*asked, ask("inductor", "joint_graph_passes")]

    assert forked(work, 60) == (
        [("lowerings", "sin"), ("lowerings", "cos"), ("joint_graph_passes", "")],
        [False, True, False],
    )


def test_a_graph_whose_code_is_written_is_known_before_the_code_is_compiled(forked, tmp_path):
    class Written(BaseException):
        pass

    def stop():
        raise Written

    def work():
        private.tame_inductor()
        private.observe_loading(stop)

        def compiled():
            with pytest.raises(Written):
                torch.compile(lambda x: x.relu().exp())(torch.ones(64))

        return compiled_in(tmp_path, compiled)[1]

    assert not {name for name in forked(work, 200) if name.endswith(".so")} - libraries(tmp_path)


FRAMES = '  File "compile_fx.py", line 1, in {}\n    ...\n'


@pytest.mark.parametrize(
    ("functions", "ahead"),
    [
        (["codegen_and_compile", "run", "call_function"], True),
        (["_recursive_joint_graph_passes", "apply"], True),
        (["codegen_and_compile", "compile_to_module", "_compile_to_module_lines", "exec"], False),
        (["aot_dispatch_autograd", "post_compile"], False),
    ],
)
def test_a_failure_ahead_of_the_code_is_told_by_its_frames(functions, ahead):
    traceback = "".join(map(FRAMES.format, functions)) + "RuntimeError: it"
    assert private.raised_ahead_of_loading(traceback) is ahead
