"""What the tool knows of where inductor keeps things, and of what it finds out about the machine."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from minifier.torch_private import (
    inductor_cache,
    link_libraries,
    tame_inductor,
    warm_up_inductor,
)

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


def test_what_was_compiled_for_the_user_is_not_compiled_again(users, forked, tmp_path):
    def work():
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(users)
        inductor_cache.cache_clear()
        link_libraries(tmp_path)
        link_libraries(tmp_path)  # nothing is lost where they are there already
        tame_inductor()
        return compiled_in(tmp_path, lambda: float(torch.compile(lambda x: x.relu().exp())(torch.ones(64))[0]))

    value, new = forked(work, 200)
    assert libraries(users) and libraries(tmp_path) == libraries(users)
    assert value == pytest.approx(2.71828, abs=1e-3) and new == set()


def test_what_inductor_finds_out_of_the_machine_takes_no_compiler_again(users, forked, tmp_path):
    def work():
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(users)
        inductor_cache.cache_clear()
        link_libraries(tmp_path, checks_only=True)
        checks = libraries(tmp_path)
        import torch._inductor.cpu_vec_isa as isa

        isa.valid_vec_isa_list.cache_clear()
        warm_up_inductor(tmp_path)
        known = isa.valid_vec_isa_list.cache_info().currsize
        new = {path.name for path in tmp_path.glob("??/*.so") if not path.is_symlink()}
        return checks, known, new, os.environ["TORCHINDUCTOR_CACHE_DIR"]

    checks, known, new, variable = forked(work, 200)
    assert checks < libraries(users) and checks, "of what a script compiles nothing is taken"
    assert known == 1 and new == set() and variable == str(users)


def test_without_a_compiler_nothing_is_found_out(forked, tmp_path):
    def work():
        import torch._inductor.cpu_vec_isa  # noqa: F401

        os.environ["CXX"] = "/nonexistent/g++"
        warm_up_inductor(tmp_path)
        return True

    assert forked(work, 200)


HEADERS = """
import os, sys, tempfile
from pathlib import Path
from minifier.torch_private import inductor_folder, link_headers

ours, theirs = Path(sys.argv[1]) / "ours", Path(sys.argv[1]) / "theirs"
ours.mkdir(), theirs.mkdir()
tempfile.tempdir = str(theirs)
(inductor_folder() / "precompiled_headers").mkdir(parents=True)
tempfile.tempdir = str(ours)
link_headers()
link_headers()
from torch._inductor.codecache import _HEADER_DIR

assert _HEADER_DIR.startswith(str(ours)), _HEADER_DIR
assert Path(_HEADER_DIR).resolve().is_relative_to(theirs), _HEADER_DIR
"""


def test_headers_are_found_from_another_temporary_folder(tmp_path):
    """In a fresh interpreter, as inductor looks for its headers once, when it is imported."""
    subprocess.run([sys.executable, "-c", HEADERS, tmp_path], check=True, timeout=100)
