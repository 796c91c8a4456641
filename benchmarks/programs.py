"""Failing programs, with what a run of `minify run` on each has to come to.

A program is a script whose docstring says what happens and, in lines below, what is to be reached:

    source: https://...        where the failure was reported; left out where it is made up
    reach: exit 0, 1 op        the exit code, and the most ops (or statements) that the repro may have
    shows: REGEX               has to match in the repro: the op at fault and the error, which tell it from another's
    hides: REGEX               must not match in the repro
    says: REGEX                has to match in the last lines that `minify run` prints
    run: --dynamic -- --lr 1   options of `minify run`, then the script's arguments
    torch: >=2.10              releases that show the failure
    needs: openvino            packages, or `cuda`, that the program cannot do without
    cause: tracing             what a study of silent wrong results (arXiv 2604.08720) says is at fault; see silent.py
    layer: test                `make test` runs it; with `soak`, `make soak` does; else `make corpus` alone

A folder is a program too: its `main.py` is the script, and what else is in it stands beside the script.
"""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import re
import shlex
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

ROOT = Path(__file__).resolve().parents[1]
CORPUS = ROOT / "tests" / "corpus"
PACKAGES = ROOT / "tests" / "cases"  # of the backends that programs import
_LINE = re.compile(r"^(source|reach|shows|hides|says|run|torch|needs|cause|layer): (.+)$", re.MULTILINE)
_REACH = re.compile(r"exit (?P<exit>\d)(?:, (?P<size>\d+) (?:ops?|statements?))?")
_LAYERS = ("test", "soak", "corpus")


@dataclass(frozen=True, slots=True)
class Program:
    """A failing program. `size` is the most ops, or statements, of its repro; None where there is none to be had."""

    path: Path
    what: str
    exit: int
    size: int | None
    facts: Mapping[str, str]

    @classmethod
    def read(cls, path: Path) -> Program:
        """Read the docstring of a script, or of a folder's main.py. Raises ClickException if it lacks `reach:`."""
        script = path / "main.py" if path.is_dir() else path
        text = ast.get_docstring(ast.parse(script.read_text(encoding="utf-8"))) or ""
        facts = dict(_LINE.findall(text))
        reach = _REACH.fullmatch(facts.get("reach", ""))
        if reach is None or facts.get("layer", "test") not in _LAYERS:
            raise click.ClickException(f"{script}: its docstring lacks `reach: exit 0, 1 op`, or has another `layer:`")
        what = " ".join(text.partition("\n\n")[0].split())
        return cls(path, what, int(reach["exit"]), int(reach["size"]) if reach["size"] else None, facts)

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def layer(self) -> str:
        return self.facts.get("layer", "corpus")

    @property
    def options(self) -> Sequence[str]:
        """What stands between `minify run` and the script."""
        return shlex.split(f" {self.facts.get('run', '')} ".partition(" -- ")[0])

    @property
    def arguments(self) -> Sequence[str]:
        """The script's own arguments."""
        return shlex.split(f" {self.facts.get('run', '')} ".partition(" -- ")[2])

    def lacks(self) -> str:
        """Return the first thing that is not here and that the program needs; empty if all is."""
        import torch

        for name in self.facts.get("needs", "").split():
            there = torch.cuda.is_available() if name == "cuda" else importlib.util.find_spec(name) is not None
            if not there:
                return name
        asked = re.fullmatch(r"(>=|<=|==)([\d.]+)", self.facts.get("torch", ">=0"))
        if asked is None:
            raise click.ClickException(f"{self.path}: `torch: {self.facts['torch']}` is not like `torch: >=2.10`")
        release, other = _numbers(torch.__version__), _numbers(asked[2])
        holds = {">=": release >= other, "<=": release[: len(other)] <= other, "==": release[: len(other)] == other}
        return "" if holds[asked[1]] else f"torch {self.facts['torch']}"

    def put_into(self, folder: Path) -> Path:
        """Copy the program into an empty folder; return the path of its script."""
        if self.path.is_dir():
            shutil.copytree(self.path, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
            return folder / "main.py"
        return Path(shutil.copy(self.path, folder))

    def missed(self, code: int, printed: str, out: Path) -> list[str]:
        """Compare a run's exit code, what it printed, and its output folder with what is to be reached.

        Returns a sentence for each difference.
        """
        if code != self.exit:
            return [f"exit {code} for {self.exit}"]
        repro = out / "repro.py"
        text = repro.read_text(encoding="utf-8") if repro.exists() else ""
        return [*self._missed_of_texts(text, printed), *self._missed_of_repro(result_in(out), text)]

    def _missed_of_texts(self, repro: str, printed: str) -> Iterator[str]:
        for fact, text, wanted in (("shows", repro, True), ("hides", repro, False), ("says", printed, True)):
            pattern = self.facts.get(fact)
            if pattern and (re.search(pattern, text, re.DOTALL) is not None) != wanted:
                yield f"{fact}: {pattern}"

    def _missed_of_repro(self, result: Mapping[str, Any], repro: str) -> Iterator[str]:
        if self.size is None:
            return
        size = size_in(result)
        if size is None or size > self.size:
            yield f"{size} for {self.size} ops or statements"
        if not repro or result["verified"]["control"] != "passed":
            yield "no repro that passes in eager"


def programs(names: Iterable[str] = ()) -> list[Program]:
    """Read the programs of the corpus: all, or those whose names have one of these regular expressions in them."""
    patterns = [re.compile(name) for name in names]
    paths = (path for path in sorted(CORPUS.iterdir()) if path.suffix == ".py" or (path / "main.py").exists())
    return [Program.read(path) for path in paths if not patterns or any(p.search(path.stem) for p in patterns)]


def environment() -> dict[str, str]:
    """Return the variables that a program runs with: its backends can be imported."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPATH": os.pathsep.join(filter(None, (str(PACKAGES), kept.get("PYTHONPATH", ""))))}


def result_in(out: Path) -> dict[str, Any]:
    """Return result.json of an output folder; empty if there is none."""
    path = out / "result.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def size_in(result: Mapping[str, Any]) -> int | None:
    """Return how many ops, or statements of a reduced script, a result.json says are left."""
    return result.get("statements_after" if result.get("level") == "source" else "ops_after")


def _numbers(release: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", release.partition("+")[0])))
