"""The stage of an exception that ended a script, found from its frames."""

from __future__ import annotations

from collections.abc import Sequence

from minifier.failure.fingerprint import was_wrapped
from minifier.failure.frames import Link
from minifier.failure.kinds import Stage

_RUNTIME_WRAPPERS = "torch._functorch._aot_autograd.runtime_wrappers"
# Frames (module, function) of a backward pass; the first match tells the stage.
_FRAMES_OF_BACKWARD = (
    ((_RUNTIME_WRAPPERS, "get_or_compile"), Stage.BACKWARD_COMPILE),
    ((_RUNTIME_WRAPPERS, "_backward_impl"), Stage.BACKWARD_RUN),
    (("torch.autograd.graph", "_engine_run_backward"), Stage.BACKWARD_RUN),
)
_COMPILING = {  # of a frame of the script, and of one of its graphs
    ("torch._dynamo.convert_frame", "_compile"),
    ("torch._dynamo.output_graph", "_call_user_compiler"),
}


def stage_shown(links: Sequence[Link]) -> Stage:
    """Return the stage of an exception that ended a script: compilation, run, or backward pass."""
    frames = {(frame[0], frame[1]) for link in links for frame in link["frames"]}
    for frame, stage in _FRAMES_OF_BACKWARD:
        if frame in frames:
            return stage
    if any("torch._dynamo.exc.TorchDynamoException" in link["bases"] for link in links):
        return Stage.COMPILE
    if was_wrapped(links) or not _COMPILING.isdisjoint(frames):
        return Stage.COMPILE
    return Stage.RUN
