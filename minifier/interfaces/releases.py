"""Releases of torch: the one that is here, those that work, and those that were tested."""

from __future__ import annotations

import importlib.metadata
import re
import sys

Release = tuple[int, ...]  # the first two numbers of a version, as (2, 13)

OLDEST_TORCH: Release = (2, 8)  # that works
NEWEST_TORCH: Release = (2, 15)  # that is tested
_BEFORE_A_RELEASE = re.compile(r"\d+(\.\d+)*[.-]?(a|alpha|b|beta|c|rc|dev)[.-]?\d*")


def release_of(version: str) -> Release:
    """Return the release that a version belongs to, or leads to."""
    return tuple(map(int, re.findall(r"\d+", version)[:2]))


def is_before_release(version: str) -> bool:
    """Whether the version is a build ahead of its release: nightly, alpha, beta, release candidate."""
    return _BEFORE_A_RELEASE.match(version) is not None


def torchs_version() -> str:
    """Return the version of the torch that is here, without importing it; "" if that is unknown.

    A torch that was built in place has no metadata; once it is imported, it says its version.
    """
    if (torch := sys.modules.get("torch")) is not None:
        return str(torch.__version__)
    try:
        return importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return ""


def why_untested(version: str) -> str:
    """Return why a version of torch counts as not tested; "" for a version of the tested releases."""
    if release_of(version) > NEWEST_TORCH:
        return f"newer than {shown(NEWEST_TORCH)}, the last that was tested"
    return "a build ahead of its release, and only releases were tested" if is_before_release(version) else ""


def shown(release: Release) -> str:
    """Return a release as text: "2.13"."""
    return ".".join(map(str, release))
