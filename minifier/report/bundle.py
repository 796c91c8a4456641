"""bundle.zip: the repro, the report, the result and the reduced graph. No weights, no inputs, no paths,
unless the user agrees."""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path

from minifier.emit.input_source import TENSOR_FILE
from minifier.report.outcome import Outcome
from minifier.report.privacy import without_private_paths


def write_bundle(folder: Path, outcome: Outcome, include_data: bool) -> Path:
    """Writes bundle.zip into the output folder.

    `include_data` is the user's word that real values may go along: those that a repro reads from a file,
    which is there only if the failure needs exactly these.
    """
    path = folder / "bundle.zip"
    beside = folder / f".bundle.{os.getpid()}"
    private = outcome.case.script.path
    with zipfile.ZipFile(beside, "w", zipfile.ZIP_DEFLATED) as bundle:
        for name in ("repro.py", "report.md", "result.json", "minimal/graph.json"):
            if (folder / name).exists():
                bundle.writestr(name, without_private_paths((folder / name).read_text(encoding="utf-8"), private))
        if include_data and outcome.repro is not None and outcome.repro.tensors is not None:
            bundle.write(folder / TENSOR_FILE, TENSOR_FILE)
        if (folder / "minimal" / "case.json").exists():
            data = json.loads((folder / "minimal" / "case.json").read_text(encoding="utf-8"))
            for part, field in (("script", "path"), ("script", "folders"), ("backend", "folders")):
                data[part].pop(field, None)
            bundle.writestr("minimal/case.json", without_private_paths(json.dumps(data, indent=1), private))
    os.replace(beside, path)
    return path
