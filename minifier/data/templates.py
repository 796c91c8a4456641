"""The texts of repro_templates/."""

from __future__ import annotations

from importlib.resources import files


def template_source(name: str) -> str:
    """Return the text of a script of repro_templates/, which an installation holds as `minifier.repro_templates`."""
    return files("minifier.repro_templates").joinpath(f"{name}.py").read_text(encoding="utf-8")
