"""Inductor in a probe: alone in its process, answering from no cache."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import tempfile
from pathlib import Path

INDUCTOR = "inductor"
INDUCTOR_MODULES = ("torch._inductor.compile_fx", "torch._inductor.codegen.cpp")  # nearly all that compiling imports
# Configuration by which it finds out what the machine can do, so that one answer does not do for all children.
MACHINE_SETTINGS = {("torch._inductor.config", key) for key in ("cpp.vec_isa_ok", "cpp.cxx")}


def tame_inductor() -> None:
    """Makes inductor compile in this process and answer from no cache of whole graphs.

    Its worker processes would outlive a probe, and a cached graph would answer one candidate with the
    compilation of another. Compiled C++ is kept by the hash of its source, which is sound.
    """
    import torch._functorch.config as functorch_config
    import torch._inductor.config as inductor_config

    inductor_config.compile_threads = 1
    inductor_config.fx_graph_cache = False
    inductor_config.fx_graph_remote_cache = False
    functorch_config.enable_autograd_cache = False


def inductor_headers() -> Path | None:
    """The folder with inductor's precompiled C++ headers, which take ten seconds to make; None if there
    are none yet. Inductor looks for them below the temporary folder, whatever its cache folder is."""
    found = inductor_folder()
    return found if (found / "precompiled_headers").is_dir() else None


@functools.cache
def inductor_folder() -> Path:
    """Where inductor keeps things when not told otherwise: below the temporary folder, as that was when
    this was first asked."""
    from torch._inductor.runtime.cache_dir_utils import default_cache_dir

    return Path(default_cache_dir())


@functools.cache
def inductor_cache() -> Path:
    """Where inductor keeps what it compiles, as the user has it when this is first asked."""
    told = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    return Path(told).absolute() if told else inductor_folder()


_CHECK = b"_chk_kernel"  # in the source of what inductor compiles to find out which vector instructions work
_LONGEST_CHECK = 2_000  # bytes


def link_libraries(into: Path, *, checks_only: bool = False) -> None:
    """Puts links to libraries that inductor has compiled for the user into another cache folder. They are kept by a
    hash of source, flags and compiler, so one is what compiling the same again would make. With `checks_only` those
    alone by which inductor finds out what the machine can do: ten seconds of compiling that no script is about."""
    for library in inductor_cache().glob("??/c*.so"):
        if checks_only and not _is_check(library.with_suffix(".cpp")):
            continue
        place = into / library.parent.name
        place.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            (place / library.name).symlink_to(library)


def _is_check(source: Path) -> bool:
    try:
        return source.stat().st_size < _LONGEST_CHECK and _CHECK in source.read_bytes()
    except OSError:  # gone, or never there
        return False


def warm_up_inductor(cache: Path) -> None:
    """Where inductor has been imported, has it find out what the machine can do, once for all children: that takes
    nearly two seconds, and compilers if the answer is not in the `cache` folder. Runs other programs, but no op."""
    if "torch._inductor.cpu_vec_isa" not in sys.modules:
        return
    from torch._inductor.cpu_vec_isa import valid_vec_isa_list

    before = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(cache)
    try:
        with contextlib.suppress(Exception):  # no compiler, say: each child meets that for itself
            valid_vec_isa_list()
    finally:
        if before is None:
            del os.environ["TORCHINDUCTOR_CACHE_DIR"]
        else:
            os.environ["TORCHINDUCTOR_CACHE_DIR"] = before


def link_headers() -> None:
    """Has inductor, when it is imported in this process, find the headers that it compiled for the user, though
    temporary files go elsewhere now."""
    headers = inductor_headers()
    link = Path(tempfile.gettempdir()) / inductor_folder().name
    if headers is not None and not link.exists():
        link.symlink_to(headers)
