"""Inductor in a probe: alone in its process, answering from no cache."""

from __future__ import annotations

import functools
from pathlib import Path


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
