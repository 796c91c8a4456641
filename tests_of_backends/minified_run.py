"""A script under `minify run`, in the environment of a third party's backend."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

_MODEL = """{imports}

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear({outer}, {inner}), torch.nn.Linear({inner}, {outer})
        self.norm = torch.nn.LayerNorm({inner})

{forward}

torch.manual_seed(0)
model = torch.compile(Model().eval(), backend={backend})
with torch.no_grad():
    model({inputs})
"""


def failing_model(
    forward: str, backend: str, imports: str = "", inputs: str = "torch.randn(4, 6)", sizes: tuple[int, int] = (6, 8)
) -> str:
    """A script that compiles a small model with this method `forward`; `sizes` are those of its two linear layers."""
    outer, inner = sizes
    method = textwrap.indent(textwrap.dedent(forward).strip("\n"), "    ") + "\n"
    head = "\n".join(line for line in (imports, "import torch") if line) + "\n"
    return _MODEL.format(imports=head, outer=outer, inner=inner, forward=method, backend=backend, inputs=inputs)


def minified(text: str, folder: Path) -> tuple[dict[str, Any], str]:
    """(result.json, the repro) of a script of this text."""
    (folder / "failing.py").write_text(text)
    return minified_in(folder, "failing.py")


def minified_in(folder: Path, *arguments: str) -> tuple[dict[str, Any], str]:
    """(result.json, the repro) of `minify run ARGUMENTS...` in this folder."""
    out = folder / "out"
    done = subprocess.run(
        [sys.executable, "-m", "minifier", "run", "--out", str(out), *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=450,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads((out / "result.json").read_text()), (out / "repro.py").read_text()
