"""Make a CUDA build of torch importable without a GPU and without any nvidia package.

    python cuda_stubs.py SITE_PACKAGES/torch

The registry's torch is a CUDA build, whose nvidia packages take several GB. Without them its libraries do not load.
This script compiles an empty library for each one that is missing, into torch/lib, where torch looks first: every
function that torch wants of it answers "no device". CUDA cannot be used then; ops on CPU, torch.compile and inductor
can.

Needs gcc, readelf and nm. Linux on x86_64 or aarch64.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

_OF_THE_SYSTEM = re.compile(
    r"(libc|libm|libdl|librt|libpthread|libgcc_s|libstdc\+\+|libz|libquadmath|libgomp[^.]*|libgfortran)\.so|ld-linux|"
    r"libcuda\.so\.1$"
)
# Symbols without a version.
_OF_NVIDIA = re.compile(r"p?nccl|cu(File|file|sparse|dnn|blas|fft|solver|pti)|nv(rtc|shmem|tx)|cuda[A-Z]|__cuda")
_TEXTS = re.compile(r"Get(ErrorString|ErrorName|LastErrorString|LastErrorMessage|StatusString|StatusName)$")
_NO_DEVICE = 100  # cudaErrorNoDevice
_ANSWERS = {  # what torch asks while it is imported
    "__cudaRegisterFatBinary": "void *NAME(void) { static void *handle[8]; return handle; }",
    "cudaGetLastError": "int NAME(void) { return 0; }",
    "cudaPeekAtLastError": "int NAME(void) { return 0; }",
    "cudaRuntimeGetVersion": "int NAME(int *version) { *version = 0; return 0; }",
    "cudaDriverGetVersion": "int NAME(int *version) { *version = 0; return 0; }",
    "cudaGetDeviceCount": f"int NAME(int *count) {{ *count = 0; return {_NO_DEVICE}; }}",
}

Versions = dict[str, set[str]]  # symbols by their version


def missing_libraries(folder: Path) -> tuple[dict[str, Versions], set[str]]:
    """Return the symbols that torch's libraries want of each library that is not there, and those without a version."""
    libraries = [path for path in folder.glob("*.so*") if path.is_file() and not path.is_symlink()]
    own = {path.name for path in folder.iterdir()}
    wanted: dict[str, Versions] = {}
    library_of: dict[str, str] = {}  # by symbol version
    for path in libraries:
        for name in re.findall(r"\(NEEDED\).*\[(.*)\]", _output("readelf", "-d", path)):
            if name not in own and not _OF_THE_SYSTEM.match(name):
                wanted.setdefault(name, defaultdict(set))
        library = ""
        for line in _output("readelf", "-VW", path).splitlines():
            if file := re.search(r"File: (\S+)", line):
                library = file[1]
            elif (version := re.search(r"Name: (\S+)\s+Flags", line)) and library:
                library_of[version[1]] = library
    plain = set()
    for path in libraries:
        for line in _output("nm", "-D", "--undefined-only", "--with-symbol-versions", path).splitlines():
            symbol, _, version_name = line.split()[-1].partition("@")
            version_name = version_name.lstrip("@")
            if library_of.get(version_name) in wanted:
                wanted[library_of[version_name]][version_name].add(symbol)
            elif not version_name and _OF_NVIDIA.match(symbol):
                plain.add(symbol)
    return wanted, plain


def source_of(symbols: Iterable[str]) -> str:
    """Return C source that defines these functions."""
    lines = []
    for symbol in sorted(symbols):
        if symbol in _ANSWERS:
            lines.append(_ANSWERS[symbol].replace("NAME", symbol))
        elif _TEXTS.search(symbol):
            lines.append(f'const char *{symbol}(void) {{ return "no CUDA"; }}')
        else:
            status = 0 if symbol.startswith(("__cudaRegister", "__cudaUnregister")) else _NO_DEVICE
            lines.append(f"long {symbol}(void) {{ return {status}; }}")
    return "\n".join(lines) + "\n"


def compile_stub(folder: Path, name: str, versions: Versions, plain: set[str]) -> None:
    """Compile the library of this name, with its symbols in their versions."""
    symbols = set().union(*versions.values()) | plain
    command = ["gcc", "-shared", "-fPIC", "-w", "-x", "c", "-", "-o", str(folder / name), f"-Wl,-soname,{name}"]
    version_file = folder / "stub.map"
    if versions:
        version_file.write_text(
            "".join(f"{v} {{ global: {' '.join(f'{s};' for s in sorted(names))} }};\n" for v, names in versions.items())
        )
        command.append(f"-Wl,--version-script={version_file}")
    subprocess.run(command, input=source_of(symbols), text=True, check=True)
    version_file.unlink(missing_ok=True)


def _output(*command: str | Path) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def main() -> None:
    """Write all stubs; the first has the symbols that name no library."""
    folder = Path(sys.argv[1]) / "lib"
    wanted, plain = missing_libraries(folder)
    for name, versions in sorted(wanted.items()):
        compile_stub(folder, name, versions, plain)
        plain = set()
    print(f"{len(wanted)} libraries stand in for nvidia's")


if __name__ == "__main__":
    main()
