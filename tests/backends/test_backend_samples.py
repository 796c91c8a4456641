"""Every sample, run with plain python, does what its README says."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from clock import wait_until
from layers import sampled
from warm_command import warm_python

SAMPLES = Path(__file__).resolve().parents[2] / "samples"
HANGS = "hangs"
WORKS = 0

# Exit code (negative: killed by that signal) and a text that must be among what is printed.
OUTCOMES = {
    "failing": (1, "LoweringError: no lowering for tanh"),
    "docs_function": (1, "LoweringError: no lowering for cos"),
    "docs_module": (WORKS, "gradient: torch.Size([10, 100])"),
    "docs_control_flow": (1, "sign 1 torch.Size([10])"),
    "docs_densenet": (1, "LoweringError: no lowering for tanh"),
    "recompiles": (1, "DynamicShapeError: tanh needs a size"),
    "stance": (1, "LoweringError: no lowering for tanh"),
    "fullgraph": (1, "LoweringError: no lowering for tanh"),
    "backend_table": (WORKS, "torch.nn.functional.softmax"),
    "backend_aot": (WORKS, "backward graph, "),
    "backend_speedy": (1, "TrainingNotSupported: speedy compiles for inference only"),
    "backend_first_of": (WORKS, "faulty_raise cannot compile this graph: LoweringError"),
    "fault_raise_at_run": (1, "KernelError: kernel of tanh failed"),
    "fault_segfault": (-signal.SIGSEGV, ""),
    "fault_segfault_at_run": (-signal.SIGSEGV, ""),
    "fault_abort": (-signal.SIGABRT, ""),
    "fault_exit": (3, ""),
    "fault_hang": (HANGS, ""),
    "fault_hang_at_run": (HANGS, ""),
    "fault_memory": (1, "MemoryError: arena of 512 MiB exhausted"),
    "fault_wrong_value": (WORKS, "largest difference from eager: 0.00"),
    "fault_nan": (WORKS, "NaNs in eager: 0 in compiled: 4"),
    "fault_dtype": (WORKS, "eager: torch.float32 compiled: torch.float64"),
    "fault_stride": (WORKS, "eager: (4, 1) compiled: (8, 2)"),
    "fault_mutation": (WORKS, "eager: 1.0 compiled: 0.0"),
    "fault_alias": (WORKS, "shares memory in eager: True compiled: False"),
    "fault_gradient": (WORKS, "compiled is 1.02 times eager's"),
    "fault_fallback": (WORKS, "compilation failed, falling back to eager: no lowering for tanh"),
    "fault_inference": (1, "KernelError: kernel of tanh failed: inference tensors"),
    "fault_two_errors": (1, "FusionError: fusion.cc:120: cannot fuse tanh"),
    "fault_flaky": ({0, 1}, ""),
    "fault_second_call": (1, "WorkspaceError: workspace of tanh"),
    "fault_pair": (1, "PartitionError: cannot place softmax and tanh"),
    "fault_adjacent": (1, "FusionError: cannot fuse tanh with softmax"),
    "fault_dynamic": (1, "DynamicShapeError: tanh needs a size"),
    "fault_backward": (1, "LoweringError: no lowering for tanh_backward in a backward graph"),
    "fault_forward_aten": (1, "LoweringError: no lowering for gelu"),
    "fault_installed": (1, "LoweringError: no lowering for tanh"),
}

# These are run by an interpreter of their own, the others in a fork that has torch already.
FRESH = ("failing", "fault_segfault", "fault_installed")


# A handler in Python runs between two steps of the program. faulthandler's own runs within one, and ends a process with
# SIGSEGV that is asked for its stack often enough while it imports torch.
WATCHED = """
import os, runpy, signal, sys, traceback

def tell(number, frame):
    traceback.print_stack(frame)
    print("end of the stack", file=sys.stderr, flush=True)

signal.signal(signal.SIGUSR1, tell)
print("begins", file=sys.stderr, flush=True)
sys.argv = sys.argv[1:]
sys.path.insert(0, os.path.dirname(sys.argv[0]))
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def hangs_in(function: str, script: Path, log: Path) -> bool:
    """Whether the script comes to be in this function three times that it is asked for its stack."""
    with log.open("w") as errors:
        process = subprocess.Popen([sys.executable, "-c", WATCHED, script], stderr=errors)

    def stacks() -> int:
        return log.read_text().count("end of the stack")

    def is_there() -> bool:
        before = stacks()
        process.send_signal(signal.SIGUSR1)
        wait_until(lambda: stacks() > before, process=process)
        return log.read_text().count(f"in {function}") >= 3

    try:
        wait_until(log.read_text, process=process)
        return wait_until(is_there, process=process)
    finally:
        process.kill()
        process.wait()


def run_python(folder: Path, *args: str | Path, fresh: bool = False) -> subprocess.CompletedProcess[str]:
    """Run `python ARGS...` on one thread, so as not to crowd parallel tests; in a fork that has torch, or afresh."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONFAULTHANDLER": ""}
    if not fresh:
        return warm_python(*args, folder=folder, environment=environment, timeout=80)
    command, text = [sys.executable, *map(str, args)], {"capture_output": True, "text": True}
    return subprocess.run(command, cwd=folder, env=environment, timeout=80, check=False, **text)


@pytest.mark.timeout(90)
@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("name", sampled(OUTCOMES, 2))
def test_sample(tmp_path, name):
    expected, text = OUTCOMES[name]
    script = SAMPLES / f"{name}.py"
    if expected == HANGS:
        assert hangs_in("faulty_hang", script, tmp_path / "log"), (tmp_path / "log").read_text()
        return
    done = run_python(tmp_path, script, fresh=name in FRESH)
    assert done.returncode in (expected if isinstance(expected, set) else {expected}), done.stderr
    assert text in done.stdout + done.stderr
    if expected == 1:
        assert done.stderr.startswith("Traceback"), "fails for another reason than its backend's error"


def readme_rows():
    rows = re.findall(r"^\| `(\w+)\.py` \| .+ \| (.+) \|$", (SAMPLES / "README.md").read_text(), re.M)
    assert rows, "the table of samples was not found"
    return dict(rows)


def shell_exit_code(outcome) -> str:
    if outcome == HANGS:
        return "none"
    if isinstance(outcome, set):
        return " or ".join(map(str, sorted(outcome)))
    return str(outcome if outcome >= 0 else 128 - outcome)


def test_the_readme_lists_every_sample_with_its_exit_code():
    assert readme_rows() == {name: shell_exit_code(outcome) for name, (outcome, _) in OUTCOMES.items()}


def test_every_script_is_a_sample_or_the_shared_model():
    assert {path.stem for path in SAMPLES.glob("*.py")} == {*OUTCOMES, "small_model"}


COUNT_OPS = """
import runpy, sys, torch
real, counts = torch.compile, []

def count(gm, example_inputs):
    counts.append(sum(node.op.startswith("call") for node in gm.graph.nodes))
    return gm.forward

torch.compile = lambda model, **_: real(model, backend=count)
runpy.run_path(sys.argv[1], run_name="__main__")
print(counts)
"""


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(
    ("name", "ops"), [("failing", [160]), ("docs_densenet", [431]), ("docs_control_flow", [5, 1, 2])]
)
def test_samples_have_the_graphs_that_they_say(tmp_path, name, ops):
    done = run_python(tmp_path, "-c", COUNT_OPS, SAMPLES / f"{name}.py")
    assert done.stdout.splitlines()[-1] == str(ops), done.stderr
