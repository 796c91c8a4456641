"""What `minify check` needs of a bundle, taken out of a zip file that anybody may have made."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path

from minifier.emit.input_source import TENSOR_FILE
from minifier.errors import UsageError

# Entries by their whole name, and how many bytes each may have. Nothing else is taken out, so no name leads outside.
_WANTED = {"repro.py": 2**22, "result.json": 2**24, TENSOR_FILE: 2**32}
_PIECE = 2**20


def unpack_bundle(path: Path, into: Path) -> Path:
    """Puts the repro and what belongs to it into a folder; gives the script. Raises UsageError where the file is no
    sound bundle, or one of its parts is larger than any that this tool writes."""
    try:
        with zipfile.ZipFile(path) as bundle:
            names = bundle.namelist()
            if "repro.py" not in names:
                raise UsageError(f"{path} has no repro.py: it is not a bundle, or that of a run without a repro.")
            for name in _WANTED:
                if names.count(name) > 1:
                    raise UsageError(f"{path} has {name} more than once: this is no bundle of minify's.")
                if name in names:
                    _copy(bundle, name, into / name)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError, OSError) as error:
        raise UsageError(f"{path} cannot be unpacked: {error}. Ask for it again.") from None
    return into / "repro.py"


def _copy(bundle: zipfile.ZipFile, name: str, to: Path) -> None:
    if bundle.getinfo(name).compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise UsageError(f"{name} in it is compressed in a way that minify never does.")
    left = _WANTED[name]
    with bundle.open(name) as source, to.open("wb") as file:
        while piece := source.read(min(_PIECE, left + 1)):  # what the file says of its size is not believed
            left -= len(piece)
            if left < 0:
                raise UsageError(f"{name} in it has more than {_WANTED[name]} bytes: no repro of minify's is so large.")
            file.write(piece)
