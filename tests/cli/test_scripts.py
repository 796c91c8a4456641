"""What a script may do, and how a backend may be given: captured, reduced, and shown once."""

import pytest
from failing_scripts import DEFINITION
from forked_script import run_forked
from layers import sampled
from vocabulary import CASES

from minifier.repro.emit.repro import Template, write_repro
from minifier.repro.verify import Conditions

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def shown(bureau, tmp_path):
    """Reduces a script and runs its repro once; gives the minimal Case and the repro's text."""

    def go(text, number=1):
        captured = bureau.capture(text)
        assert captured.failing, captured
        summary, case = bureau.reduce(number)
        assert summary.one_minimal, summary
        repro = write_repro(case, Template.COMPILE_FUNCTION)
        path = repro.write(tmp_path / "repro")
        run = run_forked(path, case.failure.fingerprint, path=[str(CASES)])
        assert Conditions(case.failure.fingerprint, 60).are_met(run), f"{repro.text}\n{run.output}"
        return case, repro.text

    return go


GIVEN = {
    "instance": ("from oddlib.backends import strict", "torch.compile(f, backend=strict)(x)", "backend=strict"),
    "aot_autograd": (
        "from torch._dynamo.backends.common import aot_autograd\nfrom oddlib.backends import refusing",
        "torch.compile(f, backend=aot_autograd(fw_compiler=refusing))(x)",
        "aot_autograd(",
    ),
    "default": ("", 'torch.compiler.set_default_backend("oddlib_tanh")\ntorch.compile(f)(x)', '"oddlib_tanh"'),
    "Module.compile": (
        "",
        "class M(torch.nn.Module):\n    def forward(self, x):\n        return f(x)\n\n"
        "m = M()\nm.compile(backend='oddlib_tanh')\nm(x)",
        '"oddlib_tanh"',
    ),
    "optimize": ("", 'torch._dynamo.optimize("oddlib_tanh")(f)(x)', '"oddlib_tanh"'),
    "function": ("from oddlib.backends import oddlib_tanh", "torch.compile(f, backend=oddlib_tanh)(x)", "oddlib_tanh"),
}


@pytest.mark.parametrize("how", sampled(GIVEN, 6))
def test_however_the_backend_is_given(shown, how):
    imports, call, written = GIVEN[how]
    case, text = shown(f"{imports}\n{DEFINITION}\nx = torch.randn(4, 8)\n{call}\n")
    assert [node.target for node in case.graph.ops] == ["torch.tanh"] and written in text


def test_options_are_kept_and_only_those_that_matter(shown):
    call = 'torch.compile(f, backend="oddlib_options", options={"fusion": "aggressive", "depth": 3}, dynamic=False)'
    case, text = shown(f"{DEFINITION}\nwith torch.no_grad():\n    {call}(torch.randn(4, 8))\n")
    assert '"fusion"' in text and "depth" not in text and "dynamic" not in text and "no_grad" not in text
    assert len(case.graph.ops) == 1


@pytest.mark.soak
def test_a_backend_that_empties_its_graph_before_it_fails(shown):
    case, _ = shown(DEFINITION + 'torch.compile(f, backend="oddlib_rewrites")(torch.randn(4, 8))\n')
    assert [node.target for node in case.graph.ops] == ["torch.tanh"]


@pytest.mark.soak
def test_a_layout_that_the_failure_needs_stays(shown):
    case, text = shown(
        """
        import torch
        import oddlib

        def f(x, w):
            return torch.sin(torch.cos(x) + 1).sum() + torch.matmul(x, w).cos()

        torch.compile(f, backend="oddlib_transposed")(torch.randn(8, 4).t(), torch.randn(8, 3))
        """
    )
    assert len(case.graph.ops) == 1 and ".t()" in text


@pytest.mark.soak
def test_the_failing_one_of_several_graphs_is_found(shown):
    case, _ = shown(
        """
        import torch
        import oddlib

        def f(x):
            x = torch.cos(torch.sin(x))
            torch._dynamo.graph_break()
            x = torch.exp(torch.tanh(x)) + 1
            torch._dynamo.graph_break()
            return torch.sin(x)

        torch.compile(f, backend="oddlib_tanh")(torch.randn(3))
        """,
        number=2,
    )
    assert [node.target for node in case.graph.ops] == ["torch.tanh"] and case.script.graph_number == 2


def test_a_custom_op_of_the_backends_package(shown):
    case, text = shown(
        """
        import torch
        import oddlib
        from oddlib import ops

        def f(x):
            return torch.sum(torch.tanh(ops.twice(torch.sin(x), 0.5)))

        torch.compile(f, backend="oddlib_tanh")(torch.randn(3))
        """
    )
    assert len(case.graph.ops) == 1 and "oddlib.twice" not in text


ENDINGS = {
    "its error": ("f(x)", 1),
    "swallowed": ("try:\n    f(x)\nexcept Exception:\n    pass", 0),
    "os._exit": ("import os\ntry:\n    f(x)\nexcept Exception:\n    os._exit(5)", 5),
    "closed both": (
        "import sys\ntry:\n    f(x)\nexcept Exception:\n    sys.stdout.close()\n    sys.stderr.close()\n"
        "    raise SystemExit(7)",
        7,
    ),
    "no stdout": ("import sys\nsys.stdout = None\nf(x)", 1),
    "busy with another": ("try:\n    1 / 0\nexcept ZeroDivisionError:\n    f(x)", 1),
    "in a thread": ("import threading\nt = threading.Thread(target=f, args=(x,))\nt.start()\nt.join()", 0),
    "exit handler": ("import atexit\natexit.register(f, x)", 0),
    "own hook": ("import sys\nsys.excepthook = lambda *_: print('hook')\nf(x)", 1),
}


@pytest.mark.parametrize("how", ENDINGS)
def test_however_the_script_ends_the_failure_is_seen(bureau, how):
    ending, status = ENDINGS[how]
    captured = bureau.capture(
        f"{DEFINITION}\nf = torch.compile(f, backend='oddlib_tanh')\nx = torch.randn(4, 8)\n{ending}\n"
    )
    assert [failing.failure.message for failing in captured.failing] == ["no lowering for tanh"]
    assert captured.end.status == status and captured.end.signal is None
    assert bureau.case().failure.fingerprint.types == ("oddlib.backends.LoweringError",)


def test_dynamo_asking_to_trace_again_is_no_failure(bureau):
    captured = bureau.capture(
        """
        import torch

        @torch.compile(backend="eager")
        def f(x):
            x = torch.sin(x)
            print("a graph break")
            return x.nonzero() * 2

        f(torch.ones(3)), f(torch.ones(4)), f(torch.ones(5, 2))
        """
    )
    assert captured.failing == () and captured.graphs >= 4 and captured.end.status == 0


@pytest.mark.parametrize(("backend", "kind"), sampled([("faulty_segfault", "signal"), ("faulty_exit", "exit")]))
def test_a_backend_that_ends_the_process_while_compiling_leaves_the_case(bureau, backend, kind):
    captured = bureau.capture(
        f"""
        import torch
        import minifier_backends.faulty

        torch.compile(lambda x: torch.cos(torch.tanh(x)), backend="{backend}")(torch.ones(3))
        """
    )
    (failing,) = captured.failing
    assert (failing.stage.value, failing.failure.fingerprint.kind.value) == ("compile", kind)
    assert [node.target for node in bureau.case().graph.ops] == ["torch.tanh", "torch.cos"]
    summary, minimal = bureau.reduce()
    assert [node.target for node in minimal.graph.ops] == ["torch.tanh"] and summary.one_minimal


def test_the_state_at_the_call_is_what_is_saved(bureau):
    bureau.capture(
        DEFINITION
        + """
import torch._inductor.config

torch._inductor.config.max_fusion_size = 17
torch.set_default_dtype(torch.float64)
with torch.inference_mode(), torch.autocast("cpu", dtype=torch.bfloat16):
    torch.compile(f, backend="oddlib_tanh")(torch.randn(4, 8))
"""
    )
    state = bureau.case().state
    # Dynamo leaves inference mode for the time of a compilation; grad mode it keeps.
    assert (state.grad, state.inference, state.default_dtype) == (False, True, "float64")
    assert state.autocast == (("cpu", "bfloat16"),)
    assert ("torch._inductor.config", "max_fusion_size", 17) in state.config and state.skipped == ()


def test_the_state_of_an_ordinary_script_is_the_default(bureau):
    from minifier.data.case import State

    bureau.capture(DEFINITION + 'torch.compile(f, backend="oddlib_tanh")(torch.randn(4, 8))\n')
    # The one variable is that of these tests, see conftest.py.
    assert bureau.case().state == State(environment=(("OMP_NUM_THREADS", "1"),))


def test_inputs_are_saved_as_they_are(bureau):
    bureau.capture(
        """
        import torch
        import oddlib

        base = torch.arange(12.0)
        w = torch.nn.Parameter(torch.ones(3))

        @torch.compile(backend="oddlib_tanh")
        def f(x, y, w, n):
            return torch.tanh(x.sum() + y.sum() + w.sum()) * n

        f(base[2:8].view(3, 2).t(), base, w, 5)
        """
    )
    case = bureau.case()
    x, y, w = case.inputs
    assert (x.meta.shape, x.meta.stride, x.meta.offset) == ((2, 3), (1, 2), 2)
    assert (x.source.shared, x.source.base, x.source.key) == (True, y.name, y.source.key)
    assert w.parameter and w.meta.requires_grad
