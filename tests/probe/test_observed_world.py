"""The world that a backend sees: in the script, in a probe, in the comparing run and in the repro.

The observing backend writes down all that it sees. Each field that differs from the script's stands in a table here,
with the reason; each row of a table is needed.
"""

import faulthandler
import fnmatch
import json
import os
import subprocess
import sys

import pytest
import torch
from vocabulary import in_child, source_of

from minifier.capturing.capture import capture
from minifier.capturing.script import Program, take_the_place_of
from minifier.capturing.script_limits import Comparing, Terms
from minifier.data.case.store import load
from minifier.data.failure import Stage, Tolerance
from minifier.reduction.probe.children import Limits, run_children
from minifier.reduction.probe.evaluate import evaluate
from minifier.reduction.probe.prepared_case import prepare_case
from minifier.repro.emit.forms import Template
from minifier.repro.emit.repro import write_repro
from minifier.repro.verify import Conditions, run_script

pytestmark = [pytest.mark.timeout(300), pytest.mark.usefixtures("soak")]

SCRIPT = source_of("""
    import sys

    import torch

    import minifier_backends.observing


    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first = torch.nn.Linear(4, 6)
            self.scale = torch.nn.Parameter(torch.ones(6))

        def forward(self, x, y):
            h = torch.relu(self.first(x)) * self.scale
            a, b = h.chunk(2, dim=1)
            return torch.tanh(a + y.view(-1)[:3]), b


    options = {"to": sys.argv[1], "refuses": sys.argv[2]}
    torch.manual_seed(0)
    model = Net()
    y = torch.randn(40)[3:7]
    torch.compile(model, backend="observing", options=options)(torch.randn(2, 4), y)
""")
OWN_FOLDERS = "each of the tool's processes has folders of its own, which go away with it"
OUTPUT = "what a backend prints again is not the script's output"
MODULES = "the tool's own modules, and those that Dynamo's tracing imports"
STACK = "Dynamo is not on the stack of a probe, the tool is"
FRAMES = "the tool's own frames are added"
MAIN = "a probe does not run the script's statements, and keeps no names of it"
OF_PROBE = {
    "process.environment.TMPDIR": OWN_FOLDERS,
    "process.environment.*_CACHE_DIR": OWN_FOLDERS,
    "process.folder": OWN_FOLDERS,
    "process.standard_files": OUTPUT,
    "process.main*": MAIN,
    "process.modules": MODULES,
    "process.stack*": STACK,
    "process.recursion_limit": FRAMES,
    "process.thread_count": "a fork has one thread",
    "node.*.trace": "the path of the script is private; its line is there",
    "node.*.source": "an input is a variable of its own, not an attribute of the script's module",
    "node.*.argument.source": "as above",
    "node.*.example": "an op's example value is made from its metadata: it has a `grad_fn`, of another op",
    "node.*.argument.fake": "as above: it is no view",
    "node.*.tensor_dict": "Dynamo marks the parameters of a module as static; a repro has no module",
    "node.output.meta": "the time of its creation",
    "input.*.attributes": "the mark of a static parameter, as above",
    "input.*.version": "how often the script changed the input before the call",
    "input.*.storage_bytes": "a part of a larger tensor comes without the rest",
    "input.*.resizable": "inputs are mapped from a file",
    "symbols.tracked": "the list of inputs for Dynamo's guards, which a probe does not make",
}
OF_COMPARING_RUN = {
    "process.main*": "the script's statements run in a module that the tool made",
    "process.modules": MODULES,
    "process.stack*": STACK,
    "process.recursion_limit": FRAMES,
    "process.standard_files": OUTPUT,
    "process.thread_count": "the tool's process has no threads of its own before the script starts some",
}
OF_REPRO = {
    "process.environment.*": "a repro must not need the variables of one shell",
    "process.argv": "a repro takes no arguments",
    "process.path": "a repro lies in a folder of its own",
    "process.folder": OWN_FOLDERS,
    "process.standard_files": OUTPUT,
    "process.main*": "it is another script",
    "process.modules": "the modules of the observer of its end, and of the file of inputs",
    "process.stack*": "a function in place of a module",
    "modes.seed": "a failure while compiling needs no seed",
    "input.*.value": "the parameters of a function come in another order than a module's",
    "input.*.attributes": "marks of Dynamo's on the parameters of a module",
    "input.*.version": "how often the script changed the input before the call",
    "input.*.storage_bytes": "a part of a larger tensor comes without the rest",
}
BY_NAME = ("node", "symbols")  # sections of the graph, whose nodes the repro names otherwise


def records(path):
    return [flat(json.loads(line)) for line in path.read_text().splitlines()]


def flat(record):
    """The fields, those in a dictionary one by one; ids of modules, which are addresses, are left out."""
    fields = {}
    for name, value in record.items():
        if isinstance(value, dict):
            fields.update({f"{name}.{key}": item for key, item in value.items()})
        else:
            fields[name] = [entry[1:] for entry in value] if name.endswith(".modules") and "node" in name else value
    return fields


def differing(one, other, without=()):
    names = {name for name in {*one, *other} if one.get(name) != other.get(name)}
    return {name for name in names if name.partition(".")[0] not in without}


PLAIN_FRAMES = 1000  # of a new interpreter


@pytest.fixture(scope="module")
def worlds(tmp_path_factory):
    """The records of the script in its own interpreter, a probe, the comparing run and the repro."""
    folder = tmp_path_factory.mktemp("observed")
    script = folder / "failing.py"
    script.write_text(SCRIPT)
    to = folder / "records.jsonl"
    found = {}

    def taken():
        found_now = records(to)
        to.unlink()
        return found_now

    environment = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}

    def python(refuses):
        command = [sys.executable, "failing.py", str(to), refuses]
        subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=False)
        return taken()

    def of_tool(refuses, terms, work):
        """The records that `work(Case)` adds, after a captured run of the script, in a process like the tool's."""

        def run():
            faulthandler.disable()
            os.chdir(folder)
            sys.path[:] = found["script"]["process.path"]
            sys.setrecursionlimit(PLAIN_FRAMES)  # inductor has lifted it where an earlier test has compiled with it
            os.environ.pop("OMP_NUM_THREADS", None)  # which the tests' own processes have, and their torch has read
            torch.set_num_threads(found["script"]["process.torch_threads"][0])
            program = Program("failing.py", (str(to), refuses))
            graphs = folder / f"graphs-{refuses}"
            capture(program, graphs, terms)
            if work is not None:
                to.unlink()
                take_the_place_of(program)
                work(load(graphs / "1"))

        in_child(run, folder, 100)
        return taken()

    def probe(case):
        prepared = prepare_case(case)
        (folder / "scratch").mkdir()
        (ended,) = run_children([lambda: evaluate(prepared, case, Stage.COMPILE)], Limits(60), folder / "scratch")
        assert "refuses tanh" in ended.result["traceback"], ended

    def repro(case):
        place = folder / "repro"
        place.mkdir()
        conditions = Conditions(case.failure.fingerprint, 60)
        run = run_script(write_repro(case, Template.COMPILE_FUNCTION).write(place), conditions)
        assert "refuses tanh" in run.output, run.output

    (found["script"],) = python("tanh")
    _, found["script's run"] = python("nothing")
    (found["probe"],) = of_tool("tanh", Terms(), probe)
    (found["repro"],) = of_tool("tanh", Terms(), repro)
    runs = of_tool("nothing", Terms(comparing=Comparing(Tolerance())), None)
    assert [record["call"] for record in runs] == ["compile", "run"]  # the call that is compared is the script's own
    found["comparing run"] = runs[-1]
    return found


@pytest.mark.parametrize(
    ("of_script", "world", "reasons", "without"),
    [
        ("script", "probe", OF_PROBE, ()),
        ("script's run", "comparing run", OF_COMPARING_RUN, ()),
        ("script", "repro", OF_REPRO, (*BY_NAME, "nodes")),
    ],
)
def test_what_differs_has_a_reason(worlds, of_script, world, reasons, without):
    one, other = worlds[of_script], worlds[world]
    names = differing(one, other, without)
    unexplained = {name for name in names if not any(fnmatch.fnmatch(name, pattern) for pattern in reasons)}
    assert not unexplained, {name: (one.get(name), other.get(name)) for name in sorted(unexplained)}
    unneeded = [pattern for pattern in reasons if not fnmatch.filter(names, pattern)]
    assert not unneeded


def test_inputs_lie_at_the_same_alignment(worlds):
    alignments = {name: value for name, value in worlds["script"].items() if name.endswith(".alignment")}
    assert set(alignments.values()) == {4, 64}
    for world in ("probe", "comparing run", "repro"):
        assert {name: worlds[world][name] for name in alignments} == alignments
