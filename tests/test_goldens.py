"""Repros, each form among them, and a report and a last block of each kind of failure, as files in goldens/.

`pytest --update-goldens tests/test_goldens.py` writes them anew; the change is read in the diff.
"""

from __future__ import annotations

import io
import platform
import re
from dataclasses import replace

import pytest
import torch
from case_samples import call, graph, meta, output, placeholder
from failing_cases import CASES
from outcomes import finished, summed_up, text_of
from rich.console import Console as RichConsole

import minifier
from minifier.data.case import BackendReference, BackendSource, Call, Drawn, Level, Ref, Script, State, TensorInput
from minifier.data.failure import ElementPair
from minifier.flow.cli.console import Console
from minifier.reduction.summary import OtherFailure
from minifier.repro.emit.forms import forms_for
from minifier.repro.emit.repro import Repro, write_repro
from minifier.repro.report import sections
from minifier.repro.report.outcome import Outcome

ACME = BackendReference("acme", BackendSource.EXPRESSION, "acme.Backend(2)", ("import acme",))
EARLIER = Call(
    graph(placeholder("x", meta(5)), call("y", "torch.relu", Ref("x"), value=meta(5)), output("y")),
    (TensorInput("x", meta(5), Drawn("ones")),),
)
EXCEPTION = CASES["exception"]
STATE = State(
    grad=False,
    autocast=(("cpu", "bfloat16"),),
    default_dtype="float64",
    config=(("torch._dynamo.config", "cache_size_limit", 3),),
    environment=(("TORCHINDUCTOR_FREEZING", "1"),),
)
REPROS = {
    **{name: CASES[name] for name in ("random", "no gradient", "flaky", "a second size")},
    **{name: CASES[name] for name in ("mutation", "gradient", "aliasing", "overwritten", "no exception")},
    **{name: CASES[name] for name in ("predicate", "backward of two results")},
    "state": replace(EXCEPTION, state=STATE),
    "a pause": replace(CASES["values"], before=(Call(pause=0.3),)),
    "a pause after another graph": replace(
        EXCEPTION, backend=ACME, before=(EARLIER, Call(times=2), replace(EARLIER, pause=1.0))
    ),
    "silent fallback": replace(
        CASES["silent fallback"],
        failure=replace(CASES["silent fallback"].failure, message="DEBUG acme: gave up\nno use ("),
    ),
}


def without_versions(text: str) -> str:
    """The text without the versions of what is installed here."""
    for version, name in (
        (torch.__version__, "TORCH"),
        (platform.python_version(), "PYTHON"),
        (minifier.__version__, "MINIFY"),
        (platform.release(), "RELEASE"),
        (platform.machine(), "MACHINE"),
    ):
        text = re.sub(rf"(?<![\w.]){re.escape(version)}(?![\w.])", name, text)
    return text


@pytest.mark.parametrize("name", REPROS)
def test_each_repro(golden, name):
    case = REPROS[name]
    form = forms_for(case)[len(forms_for(case)) // 2 if case.state.environment else 0]
    golden(f"repros/{name.replace(' ', '_').replace('=', '_')}.py", without_versions(write_repro(case, *form).text))


def run_of(name: str, **changes) -> Outcome:
    """A finished run on a Case of three ops, reduced to the one op of this Case."""
    case = CASES[name]
    case = replace(case, script=Script("failing", file="failing.py", line=12))
    (op,) = case.graph.ops
    sin = call("first", "torch.sin", Ref("x"), value=op.value)
    middle = replace(op, args=(Ref("first"), *op.args[1:]))
    last = call("last", "torch.cos", Ref(op.name), value=op.value)
    nodes = graph(*case.graph.placeholders, sin, middle, last, output("last"))
    minimal = replace(
        case,
        graph=replace(
            case.graph, nodes=tuple(replace(n, place="model.py:7") if n.is_op else n for n in case.graph.nodes)
        ),
    )
    return finished(replace(case, graph=nodes), minimal, write_repro(case, *forms_for(case)[0]), **changes)


STACK = """Stack (most recent call last):
  File "/opt/python/site-packages/acme/lowering.py", line 3, in lower
  File "/home/me/failing.py", line 12, in hook
  File "/opt/python/site-packages/torch/__init__.py", line 2568, in __call__
"""


def with_stack(given: Outcome) -> Outcome:
    return replace(given, minimal=replace(given.minimal, failure=replace(given.minimal.failure, traceback=STACK)))


OTHER = OtherFailure(
    type="oddlib.LoweringError", message="no lowering for erf\nmore of it", where="oddlib.lower", stage="compile",
    kind="exception", sightings=2, ops=1, case="others/1", near=True,
)  # fmt: skip


def runs() -> dict[str, Outcome]:
    """A run of each kind of failure; together they have every section of a report."""
    wrong = CASES["values"].failure
    elements = (ElementPair((0, 3), "1.5", "1.4999999", 1.0), ElementPair((1, 0), "nan", "2"))
    wrong = replace(wrong, differences=(replace(wrong.differences[0], elements=elements),))
    values = run_of("values")
    values = replace(values, case=replace(values.case, failure=wrong), minimal=replace(values.minimal, failure=wrong))
    phases = {"loading": 2.71, "script": 5.8, "reducing": 24.9, "verifying": 25.3}
    exception, hang = run_of("exception"), run_of("hang", environment="Is this machine known: no", phases=phases)
    source = replace(exception.case, level=Level.SOURCE, backend=replace(exception.case.backend, name="torch.compile"))
    program = Repro("import torch\n\ntorch.compile(torch.tanh)(torch.ones(2))\n", None)
    others = (OTHER,) * 4
    needs = ("Dimension 0 of `x` cut to 1.", "A simpler number in the place of `-2.5` in the call of `torch.add`.")
    return {
        "exception": summed_up(
            replace(exception, nearest="-x = torch.randn(2, 3)\n+x = torch.ones(2, 3)\n"),
            backends=(("eager", "passes"),), needs=needs, passes={"sizes": "fixpoint"}, others=others,
            notes=("a note",),
        ),
        "wrong result": summed_up(values, guilt="none", cause="not known"),
        "signal": with_stack(run_of("signal", others=("graph 2 fails too",))),
        "hang": summed_up(hang, one_minimal=False, stopped_because="the probe budget was used up"),
        "source level": summed_up(finished(source, replace(source, graph=graph(output())), program), ops_before=160),
        "backward": run_of("backward", fallbacks=("a fallback",), backend_fallbacks=("The backend left", "one graph")),
        "no repro": replace(
            exception, repro=None, verification=None, reason="another failure\n- a\n+ b"
        ),
    }  # fmt: skip


@pytest.mark.parametrize("kind", runs())
def test_each_kind_of_failure(golden, kind, monkeypatch):
    monkeypatch.setattr(sections, "imported_beside_torch", lambda names: ["acme 1.5"])
    outcome = runs()[kind]
    golden(f"reports/{kind.replace(' ', '_')}.md", without_versions(text_of(outcome)))
    screens = {width: shown(outcome, width) for width in (100, 60)}
    golden(f"screens/{kind.replace(' ', '_')}.txt", "".join(f"--- {n} columns\n{text}" for n, text in screens.items()))


def shown(outcome: Outcome, columns: int) -> str:
    """The last block of the run on a terminal of so many columns."""
    text = io.StringIO()
    to = RichConsole(file=text, force_terminal=True, width=columns, color_system=None, _environ={"TERM": "xterm"})
    Console(to=to).final(outcome)
    return "".join(f"{line.rstrip()}\n" for line in text.getvalue().splitlines())
