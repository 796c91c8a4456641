"""How a candidate of a script is run: it counts only if it passes in eager mode, and its random numbers are seeded."""

import json
from dataclasses import replace

import pytest

from minifier.data.failure import Fingerprint, Frame, Kind, Stage, Verdict, same
from minifier.reduction.probe.verdicts import seen
from minifier.repro.source.conditions import SameDraws
from minifier.repro.source.probe import SourceLab, write_others
from minifier.repro.source.run_source import in_eager, said_of_exit, seeded

pytestmark = pytest.mark.timeout(120)

STANCE = 'import torch; torch.compiler.set_stance("force_eager")'
FAILING = """
import torch

def depth(n):
    if n == 0:
        return 0
    return depth(n - 1) + 1

@torch.compile(backend="eager", fullgraph=True)
def f(x):
    torch._dynamo.graph_break()
    return x + depth(3)

f(torch.ones(2))
"""


def lab_for(source, folder, **options):
    """A lab that looks for the failure which this source shows."""
    lab = SourceLab(folder, folder / "journal.jsonl", None, **options)
    lab.sought = seen(lab.run(source), ()).fingerprint
    return lab


@pytest.mark.parametrize(
    ("source", "first"),
    [
        ("import torch\n", 1),
        ('"""Doc."""\nfrom __future__ import annotations\nimport os\n', 3),
        ('"""Doc\nin lines."""\nimport os\n', 3),
        ("# a comment\nimport os\n", 1),
        ("", 1),
    ],
)
def test_the_stance_is_set_where_a_statement_may_come_first(source, first):
    lines = in_eager(source).splitlines()
    assert lines[first - 1] == STANCE and [line for line in lines if line != STANCE] == source.splitlines()
    compile(in_eager(source), "repro.py", "exec")


@pytest.mark.parametrize(
    ("source", "after"),
    [
        ("import torch\nx = 1\n", "import torch"),
        (
            '"""Doc."""\nfrom __future__ import annotations\nimport torch\nfrom math import pi\n\nx = 1\n',
            "from math import pi",
        ),
        ("import os\nos.environ['A'] = '1'\nimport torch\nimport math\nx = 1\n", "import math"),
        ("from torch import nn\n", None),
        ("import torch as th\n", None),
    ],
)
def test_the_seed_is_set_after_the_first_imports(source, after):
    lines = [line for line in seeded(source).splitlines() if line]
    expected = [line for line in source.splitlines() if line]
    if after:
        expected.insert(expected.index(after) + 1, "torch.manual_seed(0)")
    assert lines == expected


def test_a_failure_that_eager_shows_too_is_none(tmp_path, forked):
    """Without its base case the function recurs for ever, with torch.compile or without."""
    smaller = FAILING.replace("    if n == 0:\n        return 0\n", "").replace("    torch._dynamo.graph_break()\n", "")

    def work():
        lab = lab_for(FAILING, tmp_path, match="")
        return lab.holds([FAILING, smaller]), lab.counts[Verdict.INVALID]

    assert forked(work, 100) == ([True, False], 1)


WRITES = """
import os
import torch

is_first = not os.path.exists("written")
open("written", "w").close()

@torch.compile(backend="eager", fullgraph=True)
def f(x):
    torch._dynamo.graph_break()
    return x

if is_first:
    f(torch.ones(2))
"""


def test_eager_mode_and_the_compiled_run_are_one_probe_and_do_not_meet(tmp_path, forked):
    def work():
        lab = lab_for(WRITES, tmp_path)
        dies = "import os, torch\nos.kill(os.getpid(), 11)\n"
        return lab.holds([WRITES, dies]), lab.total, lab.counts[Verdict.INVALID]

    assert forked(work, 100) == ([True, False], 2, 1)


DRAWING = """import torch
def draws(graph, inputs):
    def run(*inputs):
        torch.rand({count})
        raise ValueError("no")
    return run
torch.compile(lambda x: x + 1, backend=draws)(torch.ones(1))
"""


def test_compiled_code_draws_like_eager_mode_once_it_has_done_so(tmp_path, forked):
    def work():
        own = "import random\nnumber = random.Random(3)\n"  # is run several times
        sources = [start + DRAWING.format(count=count) for start, count in (("", 2), ("", 0), ("", 1), (own, 0))]
        lab = lab_for(sources[0], tmp_path, conditions=[SameDraws()])
        return [lab.holds([source])[0] for source in sources]

    assert forked(work, 100) == [True, True, False, True]


def test_other_failures_are_kept_with_the_shortest_script(tmp_path, forked):
    calls = "torch._dynamo.graph_break()"
    other = FAILING.replace(calls, "print(x)")

    def work():
        lab = lab_for(FAILING, tmp_path)
        lab.holds([FAILING, other + "# longer\n", other, FAILING.replace(f"    {calls}\n", "    x + 'a'\n")])
        write_others(lab.others, tmp_path / "others")
        return [entry.get("failure", "") for entry in map(json.loads, lab.journal.read_text().splitlines())]

    failures = forked(work, 100)
    assert [bool(failure) for failure in failures] == [False, True, True, False]
    (kept,) = (tmp_path / "others").iterdir()
    assert kept.name == "1.py" and "print(x)" in kept.read_text() and "longer" not in kept.read_text()
    assert kept.read_text().splitlines()[-1].startswith("# torch._dynamo.exc.Unsupported: ")


def test_a_failure_may_be_raised_where_a_function_of_the_script_has_gone(tmp_path):
    sought = Fingerprint(Stage.COMPILE, Kind.EXCEPTION, ("ValueError",), Frame("__main__", "check"), message="no")
    lab = SourceLab(tmp_path, tmp_path / "journal.jsonl", sought)
    in_main = replace(sought, raising=Frame("__main__", "main"))
    assert not same(lab.expected, in_main)
    lab.moved = (("check", "main"),)
    assert same(lab.expected, in_main) and same(lab.expected, sought)
    lab.moved = (("other", "f"), ("check", "main"), ("main", "<module>"))
    assert same(lab.expected, replace(sought, raising=Frame("__main__", "<module>")))
    assert not same(lab.expected, replace(sought, raising=Frame("__main__", "f")))
    lab.sought = replace(sought, raising=Frame("torch", "check"))
    assert not same(lab.expected, replace(sought, raising=Frame("torch", "main")))


IN_A_PACKAGE = """
import torch

weight = torch.empty(4)

@torch.compile(backend="eager", fullgraph=True)
def f(bound):
    torch.nn.init.trunc_normal_(weight, a=-bound, b=bound)

f(torch.tensor(1.0))
"""


def test_a_failure_at_another_line_of_the_same_function_of_a_package_is_another(tmp_path, forked):
    """trunc_normal_ branches on its bounds, if they are tensors, and later on what it has drawn."""
    with_numbers = IN_A_PACKAGE.replace("a=-bound, b=bound", "a=-1, b=1")

    def work():
        lab = SourceLab(tmp_path, tmp_path / "journal.jsonl", None)
        sought = seen(lab.run(IN_A_PACKAGE), ()).fingerprint
        lab.sought = replace(sought, at_traced=True)
        strict = lab.holds([IN_A_PACKAGE, with_numbers])
        lab = SourceLab(tmp_path, tmp_path / "journal.jsonl", sought)
        return strict, lab.holds([with_numbers])

    assert forked(work, 100) == ([True, False], [True])


def test_a_source_that_exits_with_an_error_fails(tmp_path, forked):
    def work():
        lab = SourceLab(tmp_path, tmp_path / "journal.jsonl", None)
        found = [seen(lab.run(f"import sys, torch\nsys.exit({code})\n"), ()) for code in ("3", "'bad'", "0")]
        return [failure and (failure.fingerprint.kind, failure.fingerprint.message) for failure in found]

    assert forked(work, 100) == [(Kind.EXIT, "exit status 3"), (Kind.EXIT, "exit status 1"), None]


NEEDS_LUCK = """
import random
import torch

random.random()

def backend(gm, inputs):
    with open(%r, "a+") as calls:
        calls.write("called ")
        calls.seek(0)
        if len(calls.read().split()) <= %d:
            raise RuntimeError("no luck")
    return gm.forward

torch.compile(torch.sin, backend=backend)(torch.ones(2))
"""


@pytest.mark.parametrize(("failing", "holds"), [(5, False), (6, True)])
def test_a_source_that_draws_has_to_fail_for_all_draws(tmp_path, forked, failing, holds):
    """The first call shows what is sought; five runs of the source have to fail as well."""
    source = NEEDS_LUCK % (str(tmp_path / "calls"), failing)
    assert forked(lambda: lab_for(source, tmp_path).holds([source]), 100) == [holds]


CALLS_A_BACKEND = """
import torch

def backend(gm, inputs):
    %s
    open(%r, "a").write("called ")
    return gm.forward

torch.compile(torch.sin, backend=backend)(torch.ones(2))

@torch.compile(backend=backend, fullgraph=True)
def f(x):
    torch._dynamo.graph_break()
    return x

f(torch.ones(2))
"""


@pytest.mark.parametrize(
    ("statement", "is_of_dynamo"),
    [("pass", True), ("torch._dynamo.exc.unimplemented(gb_type='g', context='', explanation='', hints=[])", False)],
)
def test_a_failure_of_dynamo_is_looked_for_without_calling_backends(tmp_path, forked, statement, is_of_dynamo):
    calls = tmp_path / "calls"
    source = CALLS_A_BACKEND % (statement, str(calls))

    def work():
        lab = lab_for(source, tmp_path)
        calls.write_text("")
        lab.leave_out_backends(source)
        left_out = lab.without_backends, lab.holds([source])[0], calls.read_text()
        return left_out, lab.holds_with_backends(source), bool(calls.read_text())

    assert forked(work, 100) == ((is_of_dynamo, True, ""), True, is_of_dynamo)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("if not close(x, y):\n    print('wrong')\n    sys.exit(1)\n", "where not close(x, y)"),
        ("if close(x, y):\n    pass\nelse:\n    raise SystemExit(3)\n", "where not close(x, y)"),
        ("def main():\n    return 1\nsys.exit(main())\n", "at sys.exit(main())"),
        ("if __name__ == '__main__':\n    def end():\n        os._exit(2)\n    end()\n", "at os._exit(2)"),
        ("if a:\n    sys.exit(1)\nif b:\n    sys.exit(2)\n", ""),
        ("loop.exit()\n", ""),
    ],
)
def test_where_a_script_ends_itself_is_said(source, said):
    assert said_of_exit(source) == said
