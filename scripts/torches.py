"""Test the tool with releases of torch, one after the other, and write the table of docs/reference/versions.md.

    python scripts/torches.py [--keep] [--only LAYER] [--workers N] VERSION...

Each release gets an environment of its own, in `.torches/VERSION`, which is removed afterwards unless `--keep` is
given: 1.2 to 1.7 GB, of which 0.5 to 0.9 GB are fetched. The registry's torch is a CUDA build; see cuda_stubs.py for
how it works without a GPU. A release that cannot be installed is noted in its row, and the next one is tested.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "reference" / "versions.md"
LAYERS = {
    # Each file in a process of its own: a CUDA build refuses to fork after a backward pass.
    "interfaces": [
        [str(path)] for path in [*sorted(ROOT.glob("tests/test_torch_*.py")), ROOT / "tests/test_interfaces.py"]
    ],
    "quick": [["-m", "quick", "tests"]],
    "runs": [["tests_of_torches"]],
}
# Of torch, without nvidia's packages; and of the tool's own build.
_REQUIREMENTS = ("filelock", "fsspec", "jinja2", "networkx", "numpy", "sympy>=1.13.3", "typing-extensions")
_BUILD = ("setuptools>=77.0.3",)


def make_environment(version: str, folder: Path) -> Path:
    """Make an environment with this torch and the tool, unless it is there; return its interpreter."""
    python = folder / "bin" / "python"
    if (folder / ".ready").exists():
        return python
    shutil.rmtree(folder, ignore_errors=True)
    run(sys.executable, "-m", "venv", folder)
    run(python, "-m", "pip", "install", "--quiet", "--no-deps", f"torch=={version}")
    run(python, "-m", "pip", "install", "--quiet", *_REQUIREMENTS, *_BUILD)
    torch = next(folder.glob("lib/python3*/site-packages/torch"))
    if list(torch.glob("lib/libtorch_cuda.so")):
        run(python, ROOT / "scripts" / "cuda_stubs.py", torch)
    run(
        python,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-build-isolation",
        "-e",
        f"{ROOT}[test]",
        "-e",
        ROOT / "backends",
    )
    (folder / ".ready").touch()
    return python


def run(*command: str | Path) -> None:
    """Run a command; raise CalledProcessError if it fails."""
    subprocess.run(list(map(str, command)), cwd=ROOT, check=True)


def tested(python: Path, layer: str, reports: Path, workers: int) -> tuple[str, list[str]]:
    """Run a layer of tests; return the cell of the table, and the names of the tests that failed."""
    passed, skipped, failed = 0, 0, []
    for number, arguments in enumerate(LAYERS[layer]):
        report = reports / f"{layer}-{number}.xml"
        report.unlink(missing_ok=True)  # of an earlier run
        in_parallel = ["-n", str(workers)] if layer == "quick" else []
        command = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}"]
        subprocess.run([*command, *in_parallel, *arguments], cwd=ROOT, check=False)
        if not report.exists():
            failed.append(f"{' '.join(arguments)} (no report)")
            continue
        for case in ET.parse(report).iter("testcase"):
            if case.find("failure") is not None or case.find("error") is not None:
                failed.append(f"{case.get('classname')}::{case.get('name')}")
            elif case.find("skipped") is not None:
                skipped += 1
            else:
                passed += 1
    counts = {"passed": passed, "failed": len(failed), "skipped": skipped}
    return ", ".join(f"{count} {what}" for what, count in counts.items() if count or what == "passed"), failed


def lost(python: Path) -> str:
    """Return the cell with what is lost with this torch, as `minify doctor` says."""
    command = [str(python), "-m", "minifier", "doctor", "--json"]
    said = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    if not said.stdout:
        return "unknown"
    rows = json.loads(said.stdout)["interfaces"]
    return "; ".join(sorted({row["loses"].partition(":")[0] for row in rows if row["loses"]})) or "nothing"


def write_row(version: str, cells: dict[str, str]) -> None:
    """Replace the release's row in the table, or add it; keep the cells of layers that did not run."""
    text = PAGE.read_text(encoding="utf-8")
    head = re.search(r"^\| torch \|.*\n\| ---.*\n", text, re.MULTILINE)
    assert head is not None, f"{PAGE} has no table"
    names = [name.strip() for name in head[0].splitlines()[0].strip("|").split("|")]
    end = head.end()
    rows = {}
    while match := re.compile(r"\|.*\n").match(text, end):
        values = [value.strip() for value in match[0].strip().strip("|").split("|")]
        rows[values[0]] = dict(zip(names, values, strict=True))
        end = match.end()
    rows[version] = {**dict.fromkeys(names, ""), **rows.get(version, {}), "torch": version, **cells}
    ordered = sorted(rows.values(), key=lambda row: [int(part) for part in row["torch"].split(".")])
    table = "".join(f"| {' | '.join(row[name] for name in names)} |\n" for row in ordered)
    PAGE.write_text(text[: head.end()] + table + text[end:], encoding="utf-8")


def main() -> int:
    """Test each release; return 1 if a test failed with one of them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("versions", nargs="+")
    parser.add_argument("--keep", action="store_true", help="leave the environments")
    parser.add_argument("--only", choices=LAYERS, help="run one layer of tests")
    parser.add_argument("--workers", type=int, default=2, metavar="N", help="processes that run quick tests (2)")
    given = parser.parse_args()
    layers = [given.only] if given.only else list(LAYERS)
    all_failed = []
    for version in given.versions:
        folder = ROOT / ".torches" / version
        try:
            python = make_environment(version, folder)
        except (subprocess.CalledProcessError, OSError, StopIteration) as error:
            cells = dict.fromkeys(layers, "not installed")
            all_failed.append(f"torch {version} cannot be installed: {error}")
        else:
            cells = {"lost": lost(python)}
            for layer in layers:
                cells[layer], failed = tested(python, layer, folder, given.workers)
                all_failed += [f"torch {version}, {layer}: {name}" for name in failed]
        write_row(version, cells)
        if not given.keep:
            shutil.rmtree(folder, ignore_errors=True)
    print("\n".join(all_failed))
    return int(bool(all_failed))


if __name__ == "__main__":
    sys.exit(main())
