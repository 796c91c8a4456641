"""The backends that torch.compile finds: name, tags, origin."""

from __future__ import annotations

from importlib.metadata import entry_points

from minifier.data.torch_names import ENTRY_POINTS
from minifier.flow.prepare import import_torch

OF_TORCH = ("aot_eager", "aot_eager_decomp_partition", "cudagraphs", "eager", "inductor", "openxla", "tvm")


def known_names() -> list[str]:
    """Return the names of torch's own backends and of all entry points. Imports nothing."""
    return sorted({*OF_TORCH, *(point.name for point in entry_points(group=ENTRY_POINTS))})


def known_backends() -> list[tuple[str, str, str]]:
    """Return (name, tags, origin) of every backend that torch.compile finds. Imports torch, and loads entry points."""
    import_torch()
    from minifier.torch_side.torch_private.registrations import backend_table

    rows = []
    for name, loaded, point in backend_table():
        function, problem = loaded, ""
        if loaded is None and point is not None:
            try:
                function = point.load()
            except Exception as error:  # noqa: BLE001 - a broken distribution is listed with its error
                problem = f"{type(error).__name__}: {error}"
        tags = ", ".join(getattr(function, "_tags", ()) or ())
        module = getattr(function, "__module__", None) or type(function).__module__
        if point is not None:
            dist = f"{point.dist.name} {point.dist.version}" if point.dist else "unknown distribution"
            origin = f"entry point {point.value} ({dist})"
        else:
            origin = "torch" if module.startswith("torch") else f"module {module}"
        rows.append((name, tags, origin + (f"; cannot be loaded: {problem}" if problem else "")))
    return rows
