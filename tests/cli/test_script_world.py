"""Backends that need more of the script's world than a graph: its imports, its arguments, threads, Dynamo itself."""

import pytest
from vocabulary import in_child

from minifier.data.case.store import load
from minifier.data.settings import Settings
from minifier.flow.first_failure import how_it_fails
from minifier.reduction.explain import explain
from minifier.reduction.probe.prepared_case import StartsThreads

pytestmark = pytest.mark.timeout(150)

CALL = "torch.compile(lambda x: torch.tanh(x + 1) * 2, backend={})(torch.randn(4))\n"
NAMES = """
import torch


def names(gm):
    return {getattr(node.target, "__name__", node.target) for node in gm.graph.nodes}
"""
FAILS = """

def refuse(gm, example_inputs):
    if "tanh" in names(gm):
        raise ValueError("no lowering for tanh")
    return gm.forward
"""
NEEDS_A_PATCH = "import torch\n\nif not torch.patched_for_lower:\n    raise ImportError('unpatched')\n" + NAMES + FAILS
SYMBOLS = (
    NAMES
    + """

def lower(gm, example_inputs):
    if "tanh" in names(gm):
        # A symbol of no input: Dynamo cannot write a guard on it.
        environment = torch._guards.TracingContext.get().fake_mode.shape_env
        source = torch._dynamo.source.ConstantSource("lower")
        symbol = environment.create_symbol(5, source, torch.fx.experimental.symbolic_shapes.DimDynamic.DYNAMIC)
        size = environment.create_symintnode(symbol, hint=5, source=source)
        bool(size % 2 == 1)
    return gm.forward
"""
)
ON_THE_STACK = """
import sys


def refuse(gm, example_inputs):
    frame = sys._getframe()
    while frame is not None and frame.f_code.co_name != "compile_and_call_fx_graph":
        frame = frame.f_back
    if frame is not None and any(node.name.startswith("tanh") for node in gm.graph.nodes):
        raise ValueError("no lowering for tanh")
    return gm.forward
"""
QUEUE = """
import queue
import threading

orders, answers = queue.Queue(), queue.Queue()


def work():
    while True:
        names = orders.get()
        answers.put("tanh" in " ".join(names))


threading.Thread(target=work, daemon=True).start()


def refuse(gm, example_inputs):
    orders.put([node.name for node in gm.graph.nodes])
    if answers.get():
        raise ValueError("no lowering for tanh")
    return gm.forward
"""


def test_an_import_for_its_effect_comes_first_in_the_repro(project):
    project.write("import torch\n\ntorch.patched_for_lower = True\n", "zz_patch.py")
    project.write(NEEDS_A_PATCH, "lower.py")
    done = project.run("import zz_patch  # noqa: F401\nimport torch\nimport lower\n" + CALL.format("lower.refuse"))
    assert done.code == 0, done.stderr
    assert done.ops == (3, 1) and done.result["level"] == "dynamo"
    assert done.repro.startswith("import zz_patch\nimport torch\n")


@pytest.mark.soak
def test_guards_that_a_backend_makes_impossible_are_its_failure(project):
    project.write(SYMBOLS, "lower.py")
    done = project.run("import torch\nimport lower\n" + CALL.format("lower.lower"))
    assert done.code == 0, done.stderr
    assert done.ops == (3, 1) and done.result["level"] == "dynamo"
    assert "torch.tanh(x)" in done.repro and "backend=lower" in done.repro


def test_a_failure_that_only_dynamos_own_call_shows(project):
    project.write(ON_THE_STACK, "lower.py")
    done = project.run("import torch\nimport lower\n" + CALL.format("lower.refuse"))
    assert done.code == 0, done.stderr
    assert done.ops == (3, 1) and done.result["level"] == "dynamo"
    assert load(done.out / "minimal").through_dynamo


def test_a_backend_sees_the_arguments_of_the_script(project):
    reads = "import sys\n" + NAMES + FAILS.replace('"no lowering for tanh"', 'f"no lowering with {sys.argv[1:]}"')
    project.write(reads, "lower.py")
    project.write("import torch\nimport lower\n" + CALL.format("lower.refuse"))
    done = project.minify("run", "--out", project.out, "--verify", "1", "failing.py", "--level", "hard")
    assert "no lowering with ['--level', 'hard']" in done.stderr
    assert "does not show the failure" not in done.stderr


@pytest.mark.soak
def test_an_idle_thread_started_at_import_costs_nothing(project):
    idle = "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()\n"
    project.write(idle + NAMES + FAILS, "lower.py")
    done = project.run("import torch\nimport lower\n" + CALL.format("lower.refuse"))
    assert done.code == 0, done.stderr
    assert done.ops == (3, 1) and "each probe now imports it" not in done.stderr


@pytest.mark.usefixtures("soak")
def test_a_thread_that_the_backend_waits_for_is_there_in_each_probe(project):
    project.write(QUEUE, "lower.py")
    done = project.run("import torch\nimport lower\n" + CALL.format("lower.refuse"))
    assert done.code == 0, done.stderr
    assert done.ops == (3, 1) and "each probe now imports it" in done.stderr


MEMORY = """
    import torch


    def load(gm, example_inputs):
        def run(*args):
            if any(value._is_zerotensor() for value in args):
                raise RuntimeError("an operand has no memory")
            return gm(*args)

        return run
"""


@pytest.mark.soak
def test_an_input_without_memory_has_none_in_a_probe_and_in_the_repro(project):
    """The gradient of sgn is zero, and torch makes it without memory; the example values of Dynamo have some."""
    project.write(MEMORY, "loader.py")
    done = project.run(
        """
        import torch
        import loader

        x = torch.randn(2, 3, requires_grad=True)
        (gradient,) = torch.autograd.grad(torch.sgn(x).sum(), x)
        torch.compile(lambda x, y: torch.cos(torch.sin(x)) + y, backend=loader.load)(x.detach(), gradient)
        """
    )
    assert done.code == 0 and done.ops == (3, 1), done.stderr
    assert "torch._efficientzerotensor(" in done.repro


def test_a_backend_that_fails_on_any_graph_is_shown_with_one_op(project):
    project.write("import torch\n\n\ndef refuse(gm, example_inputs):\n    raise ValueError('no device')\n", "lower.py")
    done = project.run("import torch\nimport lower\n" + CALL.format("lower.refuse"))
    assert done.code == 0, done.stderr
    assert done.ops == (3, 1) and done.result["level"] == "dynamo"
    assert "fails on any graph" in done.repro and "the backend fails on any graph" in done.stderr


def test_no_call_is_repeated_in_a_fork_without_its_backends_threads(bureau):
    (bureau.folder / "lower.py").write_text(QUEUE)
    bureau.capture("import torch\nimport lower\n" + CALL.format("lower.refuse"))

    def repeated(late):
        try:
            return how_it_fails(load(bureau.graphs / "1"), Settings(timeout=20), late)
        except StartsThreads:
            return None

    assert in_child(lambda: repeated(False), bureau.folder) is None
    assert in_child(lambda: repeated(True), bureau.folder).message == "no lowering for tanh"


def test_a_program_is_explained_by_processes_with_the_threads_of_its_backend(bureau):
    with_option = QUEUE.replace("inputs):", "inputs, options=None):").replace(
        "if answers.get()", "if answers.get() and options"
    )
    (bureau.folder / "lower.py").write_text(with_option)
    bureau.capture("import torch\nimport lower\n" + CALL.format("lower.refuse, options={'level': 2}"))

    def changes(timeout, late):
        case, artifacts = load(bureau.graphs / "1"), bureau.folder / "artifacts"
        try:
            return explain(case, Settings(timeout=timeout), 60.0, artifacts, lambda _: None, late).changes
        except StartsThreads:
            return None

    assert in_child(lambda: changes(2, late=False), bureau.folder) is None
    assert in_child(lambda: changes(20, late=True), bureau.folder) == ('without options={"level": 2}',)
