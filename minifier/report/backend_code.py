"""The files of a backend's modules: their source lines may be in a report, since its authors read that report."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.machinery import PathFinder

from minifier.capturing.script import find_module
from minifier.case import BackendReference, BackendSource
from minifier.process.distributions import names_by_package


def files_of_backend(backend: BackendReference) -> tuple[str, ...]:
    """Return the files and folders of the modules that the backend is imported from, as they are installed here.

    A backend that the script defines has none: its imports are the script's own.
    """
    if backend.reach in (BackendSource.DEFINED, BackendSource.NONE):
        return ()
    modules = {line.split()[1] for line in backend.imports}
    if backend.distribution is not None:
        modules |= {module for module, names in names_by_package().items() if backend.distribution in names}
    return tuple(dict.fromkeys(path for module in sorted(modules) for path in _files(module, backend.folders)))


def _files(module: str, folders: tuple[str, ...]) -> Iterator[str]:
    """Yield the folder of the module's package, or the module's file. Of a namespace package, go on to its parts."""
    names = module.split(".")
    spec = find_module(names[0], folders)
    for end in range(2, len(names) + 1):
        if spec is None or spec.has_location or spec.submodule_search_locations is None:
            break
        spec = PathFinder.find_spec(".".join(names[:end]), list(spec.submodule_search_locations))
    if spec is not None and spec.has_location:
        yield from spec.submodule_search_locations or [str(spec.origin)]
