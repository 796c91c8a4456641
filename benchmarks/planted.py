"""Plants one fault at a time in the tool, and runs the tests that should notice it.

    python benchmarks/planted.py                  all faults: about half an hour
    python benchmarks/planted.py --only emit      the faults of one part

The faults are mistakes that a person makes: a step left out, a condition lost, a wrong call counted. The tests are
those of `make test`, in a copy of the project.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Fault:
    """`old` becomes `new`, once, in a file of the tool; `tests` are asked, the likeliest to notice first."""

    path: str
    old: str
    new: str
    tests: str

    @property
    def part(self) -> str:
        """The part of the tool that has the fault: the innermost folder."""
        return Path(self.path).parent.name.replace("capturing", "capture")


FAULTS = (
    # A call that changed its inputs counts as one that left them as they were.
    Fault(
        "capturing/observer.py",
        "record.failed(stage, error, args, number, _versions(args) != versions_before)",
        "record.failed(stage, error, args, number, False)",
        "capture",
    ),
    # The inputs of another call than the failing one are kept.
    Fault(
        "capturing/observer.py", "record.keep(args, number)", "record.keep(args, number - 1)", "capture workflow cli"
    ),
    # The graph is saved after the backend call only: nothing is left of a call that kills the process.
    Fault(
        "capturing/graph_record.py", "self._save(self._inputs_by_shape(), _PENDING, tensors=None)", "pass", "capture"
    ),
    # Eager runs on what the compiled call left in the tensors that the graph holds.
    Fault("capturing/comparing.py", "with as_before(live, tensors):", "if True:", "capture compare embed"),
    # A wrong result is compared in another random state than that of the script's call.
    Fault("capturing/comparing.py", "finish(results, call.random)", "finish(results, {})", "capture compare"),
    # The script's default dtype and other global settings are not set in a probe.
    Fault("reduction/probe/evaluate.py", "    set_globals(case.state)", "    pass", "probe state"),
    # A graph that fails at its second call is called once.
    Fault(
        "reduction/probe/program.py",
        "(self._call() for _ in range(call.times))",
        "(self._call() for _ in range(0))",
        "probe engine capture workflow",
    ),
    # A probe that somebody killed counts as another failure.
    Fault("reduction/probe/verdicts.py", " or ended.signal == signal.SIGKILL", "", "probe engine"),
    # A candidate on which eager fails too counts as one that passes.
    Fault(
        "reduction/probe/evaluate.py",
        "if (error := comparison.eager_error) is not None:",
        "if (error := None) is not None:",
        "probe compare engine",
    ),
    # The backward pass of a candidate does not run.
    Fault(
        "reduction/probe/program.py",
        "                run_backward(result)\n            wait",
        "            wait",
        "training",
    ),
    # (-x) ** 2 is written as -x ** 2.
    Fault("repro/emit/graph_source.py", 'f"({t})" if t.startswith("-") else t', "t", "emit"),
    # Autocast that the script has switched off is written as switched on.
    Fault("repro/emit/graph_source.py", '["enabled=False"] if enabled is False else []', "[]", "emit state"),
    # Keyword arguments of calls are lost.
    Fault("repro/emit/graph_source.py", '*(f"{key}={self.value(item)}" for key, item in kwargs.items())', "", "emit"),
    # The view of a storage begins at its first element.
    Fault("repro/emit/input_source.py", 'offset = f", {meta.offset}" if meta.offset else ""', 'offset = ""', "emit"),
    # A leaf that needs a gradient is none in the repro.
    Fault(
        "repro/emit/input_source.py", 'f"{window}.requires_grad_()" if meta.requires_grad else window', "window", "emit"
    ),
    # A control that fails does not matter.
    Fault(
        "repro/verify/verdict.py",
        "return self.agrees and self.passes_in_eager is not False",
        "return self.agrees",
        "verify",
    ),
    # The runs of pre-started interpreters count, though one of them does not show the failure.
    Fault(
        "repro/verify/verdict.py",
        "done, waiting, may_be_ahead = fresh_runs,",
        "done, waiting, may_be_ahead = done,",
        "verify",
    ),
    # A hang that the repro ends itself is an exit status.
    Fault("repro/verify/verdict.py", "if end.status == 1 and guarded:", "if False:", "verify cli emit"),
    # Results that do not share memory count as wrong values.
    Fault("repro/verify/verdict.py", '("do not share memory as in eager", Aspect.ALIASING),', "", "verify compare"),
    # An interpreter that the kernel killed is not replaced.
    Fault("repro/verify/verdict.py", "return run.status == -signal.SIGKILL and", "return False and", "verify abuse"),
    # The last proof, each statement alone, is left out.
    Fault(
        "repro/source/reduce.py",
        "    return edits.source == before\n\n\ndef _removals",
        "    return True\n\n\ndef _removals",
        "source",
    ),
    # A failure that needs luck counts as one.
    Fault("repro/source/probe.py", "for _ in range(_RUNS_OF_DRAWS - 1):", "for _ in range(0):", "source"),
    # The script's own check may go.
    Fault("repro/source/probe.py", "not all(each.holds(run) for each in self.conditions)", "False", "source"),
    # The script runs without its arguments.
    Fault("repro/source/reduce_script.py", "if not program.arguments:", "if True:", "source workflow cli"),
    # A failure in a function that was inlined is another one.
    Fault("repro/source/probe.py", "for name in names[1:])", "for name in names[:0])", "source"),
)


def plant(fault: Fault, project: Path) -> None:
    """Put the fault into the copy of the project. Raises SystemExit if the code has changed."""
    file = project / "minifier" / fault.path
    text = (ROOT / "minifier" / fault.path).read_text(encoding="utf-8")
    if text.count(fault.old) != 1:
        sys.exit(f"{fault.path} has {text.count(fault.old)} times: {fault.old}")
    file.write_text(text.replace(fault.old, fault.new), encoding="utf-8")


def noticed_by(fault: Fault, project: Path) -> str:
    """Return the id of the first test that fails; empty if none does."""
    for folder in fault.tests.split():
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-x", "-m", "not soak", "-p", "no:cacheprovider", f"tests/{folder}"],
            cwd=project,
            check=False,
            env=os.environ | {"PYTHONPATH": str(project)},
            capture_output=True,
            text=True,
        )
        failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED ", "ERROR "))]
        if done.returncode not in (0, 1) and not failed:
            sys.exit(f"pytest ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        if failed:
            return failed[0].split(maxsplit=1)[1].partition(" - ")[0]
    return ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="the part: capture, probe, emit, verify or source")
    chosen = [fault for fault in FAULTS if parser.parse_args().only in fault.part]
    caught = 0
    with tempfile.TemporaryDirectory(prefix="planted-") as folder:
        project = Path(folder) / "project"
        skipped = shutil.ignore_patterns(".git", ".venv*", "minify-out", "__pycache__", ".*_cache", "site")
        shutil.copytree(ROOT, project, ignore=skipped)
        for fault in chosen:
            plant(fault, project)
            test = noticed_by(fault, project)
            shutil.copy(ROOT / "minifier" / fault.path, project / "minifier" / fault.path)
            caught += bool(test)
            print(f"{fault.part:8} {fault.old.strip().splitlines()[0][:60]:60} {test or 'NOT NOTICED'}", flush=True)
    print(f"{caught} of {len(chosen)} faults were noticed")


if __name__ == "__main__":
    main()
