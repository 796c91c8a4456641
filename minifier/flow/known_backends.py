"""The backends that torch.compile finds: name, tags, origin."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from typing import Any

from minifier.flow.prepare import import_torch


def loaded_entry_point(point: EntryPoint) -> tuple[Any, str]:
    """Import the backend of an entry point; return (backend, "") or (None, the error)."""
    try:
        return point.load(), ""
    except Exception as error:  # noqa: BLE001 - a broken distribution is listed with its error
        return None, f"{type(error).__name__}: {error}"


def known_backends() -> list[tuple[str, str, str]]:
    """Return (name, tags, origin) of every backend that torch.compile finds. Imports torch, and loads entry points."""
    import_torch()
    from minifier.torch_side.torch_private.registrations import backend_table

    rows = []
    for name, loaded, point in backend_table():
        function, problem = loaded, ""
        if loaded is None and point is not None:
            function, problem = loaded_entry_point(point)
        tags = ", ".join(getattr(function, "_tags", ()) or ())
        module = getattr(function, "__module__", None) or type(function).__module__
        if point is not None:
            dist = f"{point.dist.name} {point.dist.version}" if point.dist else "unknown distribution"
            origin = f"entry point {point.value} ({dist})"
        else:
            origin = "torch" if module.startswith("torch") else f"module {module}"
        rows.append((name, tags, origin + (f"; cannot be loaded: {problem}" if problem else "")))
    return rows
