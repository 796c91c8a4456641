"""Write docs/gallery.md: runs of reported failures of tests/corpus/, each with its last lines and its repro.

`python scripts/gallery.py` takes about ten minutes; after names of programs, only theirs are made anew.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

import click
import torch

HERE = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(HERE / "benchmarks"))

from programs import CORPUS, Program  # noqa: E402

PAGE = HERE / "docs" / "gallery.md"
# One of each kind: what raises, dies and differs; the inputs, the gradients, the layout; inductor, AOTAutograd, Dynamo.
SHOWN = (
    "darkest_pixel_uint8_min",
    "hyperbolic_prior_softmax",
    "spectral_gain_foreach_div",
    "ring_buffer_alias_output",
    "sign_code_gradient_segfault",
    "overlapping_second_batch",
    "strided_audio_frames",
    "annealed_celu_alpha",
    "shuffle_unit_layout",
    "shape_in_log_line",
)
INTRODUCTION = f"""<!-- made by scripts/gallery.py -->
# Gallery

Ten failures of torch {torch.__version__.partition("+")[0]} that people reported, in models of the kind that they use.
Nothing is planted. Each was run with `minify run NAME.py` and nothing else. Below are the last lines on the terminal,
and the whole repro.
"""


def entry(name: str, folder: Path) -> str:
    """Run a program under `minify run` in this folder; return its part of the page."""
    of_corpus = Program.read(CORPUS / f"{name}.py")
    program = of_corpus.path.read_text(encoding="utf-8").partition('"""\n\n')[2]
    (folder / f"{name}.py").write_text(program, encoding="utf-8")
    minify = [sys.executable, "-m", "minifier"]
    subprocess.run([*minify, "run", "--quiet", f"{name}.py"], cwd=folder, stdin=subprocess.DEVNULL, check=False)
    out = f"minify-out/{name}-1"
    shown = subprocess.run([*minify, "show", out], cwd=folder, capture_output=True, text=True, check=True)
    lines = (shown.stdout + shown.stderr).strip()
    repro = (folder / out / "repro.py").read_text(encoding="utf-8").strip()
    indented = "".join(f"    {line}".rstrip() + "\n" for line in program.strip().splitlines())
    return (
        f"## {name}\n\n{of_corpus.what} [The report]({of_corpus.facts['source']}).\n\n"
        f'??? note "The program, {len(program.splitlines())} lines"\n\n    ```python\n{indented}    ```\n\n'
        f"```\n{lines}\n```\n\n```python\n{repro}\n```\n"
    )


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(SHOWN))
def main(names: tuple[str, ...]) -> None:
    """Make the page, or the parts of these NAMES, anew."""
    found = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    parts = {part.partition("\n")[0]: f"## {part}" for part in re.split(r"^## ", found, flags=re.MULTILINE)[1:]}
    with tempfile.TemporaryDirectory(prefix="minify-gallery-") as folder:
        for name in names or SHOWN:
            parts[name] = entry(name, Path(folder))
            page = [INTRODUCTION, *(parts[each].strip() + "\n" for each in SHOWN if each in parts)]
            PAGE.write_text("\n".join(page), encoding="utf-8")


if __name__ == "__main__":
    main()
