"""`minify run` on programs without a failure: every alarm is a false one.

`python benchmarks/silence.py [WORD...]`; see README.md beside it.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import click

PROGRAM = Path(__file__).resolve().parent / "sound" / "program.py"
sys.path.insert(0, str(PROGRAM.parent))

_LIMIT_SECONDS = 1200
_NOTHING = 1  # the exit code if nothing failed
_RIGHT = "nothing-failed", "nothing-compiled"  # Dynamo compiles nothing of an nn.LSTM
_FOR_EACH = (
    ("--backend=inductor",),
    ("--backend=inductor", "--train"),
    ("--backend=inductor", "--dtype=bfloat16"),
    ("--backend=aot_eager", "--train", "--dtype=bfloat16"),
)
_OF_IMAGES = "resnet unet separable upscaler volumes patches convnext vit"
_FURTHER = {
    ("--backend=inductor", "--channels-last"): _OF_IMAGES,
    ("--backend=inductor", "--channels-last", "--train"): _OF_IMAGES,
    ("--backend=inductor", "--autocast", "--train"): "perceptron resnet language translator bert gpt2 llama t5",
    ("--backend=inductor", "--dynamic"): "perceptron resnet language patches contrast gpt2 llama roberta",
    ("--backend=eager", "--train"): "policy neighbours",
}
_NO_BFLOAT16 = {"spectrum"}  # no Fourier transform of that dtype


@dataclass(frozen=True, slots=True)
class Heard:
    """How the run of a program ended, and why; `word` is "ALARM" unless it said that nothing failed."""

    program: tuple[str, ...]
    word: str
    reason: str


def programs() -> Iterator[tuple[str, ...]]:
    """Yield the arguments of each program: a model's name, and options."""
    from models import MODELS
    from transformer_models import MODELS as TRANSFORMERS

    for name in (*MODELS, *TRANSFORMERS):
        for options in _FOR_EACH:
            if name not in _NO_BFLOAT16 or "--dtype=bfloat16" not in options:
                yield name, *options
    for options, names in _FURTHER.items():
        for name in names.split():
            yield name, *options


def heard(program: Sequence[str], out: Path) -> Heard:
    """Run the program under `minify run`, whose output goes to `out`."""
    command = [sys.executable, "-m", "minifier", "run", "--quiet", "--json", "--out", str(out), str(PROGRAM), *program]
    ended = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_LIMIT_SECONDS, check=False
    )
    last = ended.stdout.splitlines()[-1] if ended.stdout else ""
    result = json.loads(last) if last.startswith("{") else {}
    reason = result.get("reason") or result.get("failure", {}).get("message") or ended.stderr[-500:]
    if ended.returncode != _NOTHING or result.get("cause") not in _RIGHT:
        word = "ALARM"
    else:
        word = "partly" if re.search("not compared|could be compared", reason) else "silent"
    return Heard(tuple(program), word, reason)


@click.command()
@click.argument("words", nargs=-1)
@click.option("--list", "only_list", is_flag=True, help="Print the programs, run none.")
@click.option("--at-once", default=1, show_default=True, help="How many programs run at once.")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="Keep the output folders here.")
def main(words: tuple[str, ...], only_list: bool, at_once: int, out: Path | None) -> None:
    """Run the programs whose arguments contain all WORDS, by default all, and print each that raised an alarm."""
    chosen = [program for program in programs() if all(any(word in part for part in program) for word in words)]
    if only_list:
        click.echo("\n".join(" ".join(program) for program in chosen))
        return
    results: list[Heard] = []
    with tempfile.TemporaryDirectory(prefix="minify-silence-") as folder, ThreadPoolExecutor(at_once) as pool:
        places = [(out or Path(folder)) / "-".join(part.lstrip("-") for part in program) for program in chosen]
        for result in pool.map(heard, chosen, places):
            results.append(result)
            shown = f"\n{result.reason}" if result.word != "silent" else ""
            click.echo(f"{result.word:6}  {' '.join(result.program)}{shown}")
    words_said = Counter(result.word for result in results)
    click.echo(f"{len(results)} programs: {words_said['ALARM']} alarms, {words_said['partly']} compared in part.")
    sys.exit(1 if words_said["ALARM"] else 0)


if __name__ == "__main__":
    main()
