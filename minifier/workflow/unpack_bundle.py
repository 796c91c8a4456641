"""Extract the repro of a bundle.zip that anybody may have made."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path

from minifier.case.files import MAX_TENSOR_BYTES
from minifier.emit.files_beside import MAX_FILE_BYTES, files_beside
from minifier.emit.input_source import TENSOR_FILE
from minifier.errors import UsageError

# Only entries of these names are extracted, and the files of which repro.py says that it reads them. `files_beside`
# returns names without slashes, so no name leads out of the folder.
_MAX_ENTRY_BYTES = {"repro.py": 2**22, "result.json": 2**24, TENSOR_FILE: MAX_TENSOR_BYTES}
_CHUNK_BYTES = 2**20


def unpack_bundle(path: Path, into: Path) -> Path:
    """Extract a repro and its files from a zip file that anybody may have made; return the script's path.

    Raises UsageError for a damaged bundle, or an entry larger than any that this tool writes.
    """
    try:
        with zipfile.ZipFile(path) as bundle:
            names = bundle.namelist()
            if "repro.py" not in names:
                raise UsageError(f"{path} has no repro.py: it is not a bundle, or that of a run without a repro.")
            script = into / "repro.py"
            for name in _MAX_ENTRY_BYTES:
                _extract_once(bundle, name, into / name)
            for name in files_beside(script.read_text(encoding="utf-8", errors="replace")):
                if name not in _MAX_ENTRY_BYTES:
                    _extract_once(bundle, name, into / name)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError, OSError) as error:
        raise UsageError(f"{path} cannot be unpacked: {error}. Ask for it again.") from None
    return script


def _extract_once(bundle: zipfile.ZipFile, name: str, to: Path) -> None:
    names = bundle.namelist()
    if names.count(name) > 1:
        raise UsageError(f"{bundle.filename} has {name} more than once: this is no bundle of minify's.")
    if name in names:
        _extract(bundle, name, to)


def _extract(bundle: zipfile.ZipFile, name: str, to: Path) -> None:
    if bundle.getinfo(name).compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise UsageError(f"{name} in it is compressed in a way that minify never does.")
    remaining = limit = _MAX_ENTRY_BYTES.get(name, MAX_FILE_BYTES)
    too_large = f"{name} in it has more than {limit} bytes: no repro of minify's is so large."
    if bundle.getinfo(name).file_size > limit:
        raise UsageError(too_large)
    with bundle.open(name) as source, to.open("wb") as file:
        # The size that the zip file declares may be false.
        while chunk := source.read(min(_CHUNK_BYTES, remaining + 1)):
            remaining -= len(chunk)
            if remaining < 0:
                raise UsageError(too_large)
            file.write(chunk)
