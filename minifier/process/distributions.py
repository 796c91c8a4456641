"""Installed distributions: their names, versions and commits, and the modules that each has."""

from __future__ import annotations

import functools
import json
import re
import subprocess
from collections.abc import Collection
from importlib import metadata
from urllib.parse import unquote, urlsplit

_NAME = re.compile(r"[A-Za-z0-9._-]+")
_ON_GITHUB = re.compile(r"://github\.com/([\w.-]+/[\w-]+(?:\.(?!git\b)[\w-]+)*)")
_GIT_SECONDS = 10


@functools.cache
def names_by_package() -> dict[str, list[str]]:
    """Return the names of the distributions that have each top-level module.

    An installation that was cut off, or an unpacked source distribution, may leave a folder of metadata with no name.
    """
    names: dict[str, list[str]] = {}
    for each in metadata.distributions():
        for module in _top_modules(each) if each.name else ():
            names.setdefault(module, []).append(each.name)
    return names


def _top_modules(distribution: metadata.Distribution) -> set[str]:
    """Return the top-level modules by the list that setuptools writes, or else by the files.

    `metadata.packages_distributions` of Python 3.10 looks at the list alone.
    """
    listed = distribution.read_text("top_level.txt")
    if listed is not None:
        return set(listed.split())
    files = [file for file in distribution.files or () if file.suffix in (".py", ".so")]
    return {file.parts[0].partition(".")[0] for file in files}


def imported_beside_torch(packages: Collection[str]) -> list[str]:
    """Return `name version` of each distribution that has any of the top-level modules.

    torch, its requirements and this tool are left out. Installations from git, and editable checkouts, have the commit
    too.
    """
    names = {_canonical(name) for package in packages for name in names_by_package().get(package, ())}
    return [_described(name) for name in sorted(names - _needed_by("torch") - {"torch", "torch-minify"})]


def github_repository(name: str) -> str:
    """Return `owner/name` of the repository that an installed distribution names; "" if none is named."""
    try:
        told = metadata.metadata(name)
    except metadata.PackageNotFoundError:  # the run was made elsewhere
        return ""
    urls = [url for field in ("Project-URL", "Home-page", "Download-URL") for url in told.get_all(field, ())]
    return next((match[1] for url in urls if (match := _ON_GITHUB.search(url))), "")


def installed() -> str:
    """Return a line `name==version` for each installed distribution, as `pip freeze` prints them."""
    pairs = {(_canonical(each.name), each.version) for each in metadata.distributions() if each.name}
    return "".join(f"{name}=={version}\n" for name, version in sorted(pairs))


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@functools.cache
def _needed_by(name: str) -> frozenset[str]:
    """Return the canonical names of all distributions that `name` requires, directly or not."""
    needed: set[str] = set()
    left = [name]
    while left:
        try:
            requirements = metadata.requires(left.pop()) or []
        except metadata.PackageNotFoundError:  # an optional requirement
            continue
        own = [each for each in requirements if "extra ==" not in each]
        names = {_canonical(match[0]) for each in own if (match := _NAME.match(each))}
        left += names - needed
        needed |= names
    return frozenset(needed)


def _described(name: str) -> str:
    found = metadata.distribution(name)
    commit = _commit(found)
    return f"{name} {found.version}" + (f" at commit {commit}" if commit else "")


def _commit(found: metadata.Distribution) -> str:
    """Return the commit that was installed, or the commit of an editable checkout; "" if unknown."""
    told = found.read_text("direct_url.json")
    if told is None:
        return ""
    origin = json.loads(told)
    if "vcs_info" in origin:
        return str(origin["vcs_info"]["commit_id"])
    if not origin.get("dir_info", {}).get("editable"):
        return ""
    folder = unquote(urlsplit(origin["url"]).path)
    command = ["git", "-C", folder, "describe", "--always", "--dirty", "--exclude=*"]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=_GIT_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):  # no git, or a folder that does not answer
        return ""
    return ended.stdout.strip()
