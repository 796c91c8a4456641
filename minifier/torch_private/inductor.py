"""Inductor in a probe: in a single process, without a cache of graphs; and its folders."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import tempfile
from pathlib import Path
from types import CodeType

from minifier.interfaces.declared import CACHES, InterfaceState, stands_on
from minifier.interfaces.names import COMPILE_FX, MACHINE_CHECK
from minifier.torch_private.configuration import variable_set

_COMPILE_THREADS = stands_on("torch._inductor.config:compile_threads", loses=CACHES)
_CACHES_OF_GRAPHS = [
    stands_on(place, loses=CACHES)
    for place in (
        "torch._inductor.config:fx_graph_cache",
        "torch._inductor.config:fx_graph_remote_cache",
        "torch._functorch.config:enable_autograd_cache",
    )
]
_THREADS = stands_on(
    "torch._inductor.async_compile:AsyncCompile.pool", loses="inductor in a fork of a process that has compiled"
)
_FOLDER = stands_on("torch._inductor.runtime.cache_dir_utils:default_cache_dir", loses=CACHES)
_VECTORS = stands_on("torch._inductor.cpu_vec_isa:valid_vec_isa_list", loses=CACHES)

INDUCTOR = "inductor"


def compile_in_this_process() -> None:
    """Make inductor compile in this process: its worker processes would outlive a probe."""
    _COMPILE_THREADS.assign(1)


def tame_inductor() -> None:
    """Make inductor compile in this process and without its cache of graphs.

    A cached graph could be the compilation of another candidate. Its cache of compiled C++ is sound: the key is a hash
    of the source.
    """
    compile_in_this_process()
    for setting in _CACHES_OF_GRAPHS:
        setting.assign(False)


def forget_threads() -> None:
    """Let inductor in a forked child start new compile threads, instead of waiting forever for the parent's threads.

    torch forgets its worker processes after a fork, but not these threads.
    """
    if _THREADS.state() is not InterfaceState.NOT_LOADED and (pool := _THREADS.find()) is not None:
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
    find = _FOLDER.find() or _unknown_folder
    return Path(find())


def _unknown_folder() -> str:
    return os.path.join(tempfile.gettempdir(), "minify-unknown-inductor")


@functools.cache
def inductor_cache() -> Path:
    """Return the user's cache folder of inductor, as set at the time of the first call."""
    folder = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    return Path(folder).absolute() if folder else inductor_folder()


_MAX_CHECK_BYTES = 2_000  # of a source by which inductor checks for vector instructions


def link_libraries(into: Path, *, checks_only: bool = False) -> None:
    """Link the libraries that inductor compiled for the user into another cache folder.

    Their names are hashes of source, flags and compiler, so compiling again would make the same. With `checks_only`,
    only link its checks for vector instructions: they take ten seconds to compile and concern no script.
    """
    for library in inductor_cache().glob("??/c*.so"):
        if checks_only and not _is_check(library.with_suffix(".cpp")):
            continue
        place = into / library.parent.name
        place.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            (place / library.name).symlink_to(library)


def _is_check(source: Path) -> bool:
    try:
        return source.stat().st_size < _MAX_CHECK_BYTES and MACHINE_CHECK.encode() in source.read_bytes()
    except OSError:  # there is no source
        return False


def warm_up_inductor(cache: Path) -> None:
    """Make inductor, if imported, check for vector instructions once for all children.

    This takes nearly two seconds, and runs compilers unless the `cache` folder has the libraries. No op runs.
    """
    if _VECTORS.state() is InterfaceState.NOT_LOADED or (valid_vec_isa_list := _VECTORS.find()) is None:
        return
    # Without a compiler, for example, each child will see the error itself.
    with variable_set("TORCHINDUCTOR_CACHE_DIR", str(cache)), contextlib.suppress(Exception):
        valid_vec_isa_list()


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
