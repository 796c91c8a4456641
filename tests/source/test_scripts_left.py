"""Scripts that torch.compile itself refuses, from the command line to a verified repro."""

import random

import pytest
from vocabulary import CASES, in_child, run_alone

from minifier import search
from minifier.source.failing_statement import lines_of
from minifier.source.first_runs import KnownRun, first_failure
from minifier.source.probe import SourceLab
from minifier.source.reduce import reduce_source

pytestmark = [pytest.mark.timeout(240), pytest.mark.usefixtures("processes")]

REFUSED = """
    \"\"\"Dynamo has no way through `update`.\"\"\"
    import argparse
    import torch


    class Counter:
        def __init__(self, start):
            self.count = start

        def update(self, x):
            self.count += 1
            print("count", self.count)
            return x * self.count


    def before(x):
        for _ in range(5):
            x = torch.sin(x) + 1
        return x


    @torch.compile(fullgraph=True, backend="eager")
    def f(x, counter):
        x = before(x)
        x = counter.update(x)
        return torch.relu(x).sum()


    parser = argparse.ArgumentParser()
    parser.add_argument("--size", type=int, default=4)
    size = parser.parse_args().size
    print(f(torch.randn(size), Counter(size)))
"""


def test_the_script_is_reduced_where_there_is_no_graph(minify, project, tmp_path):
    done = minify(REFUSED, "--size", "8")
    assert done.code == 0, done.stderr
    result = done.result
    assert result["level"] == "source" and result["one_minimal"] and result["ops_after"] is None
    assert result["failure"]["type"] == "torch._dynamo.exc.Unsupported"
    assert result["verified"] == {"runs": 1, "same": 1, "control": "passed"}
    assert result["statements_after"] <= 7 < result["statements_before"]
    for gone in ("before", "relu", "argparse", "sum", "size"):
        assert gone not in done.repro
    assert "print(" in done.repro and "# torch._dynamo.exc.Unsupported" in done.repro
    again = run_alone(done.out / "repro.py", tmp_path / "alone", CASES)
    assert again.returncode == 1 and "Unsupported" in again.stderr
    assert project.minify("check", done.out / "repro.py").code == 1


def test_a_fault_of_the_program_is_not_one_of_torch_compile(minify):
    done = minify(
        """
        import torch

        @torch.compile(backend="eager")
        def f(x):
            return x @ torch.ones(3, 3)

        f(torch.ones(2, 2))
        """
    )
    assert done.code == 1 and not done.out.exists()


def lines_of_a_script(seed):
    """A script of some 300 lines, one of which Dynamo refuses."""
    draw = random.Random(seed)
    functions = []
    for number in range(40):
        body = [f"x = torch.{draw.choice(['sin', 'cos', 'relu', 'abs'])}(x) * {draw.randint(1, 9)}" for _ in range(5)]
        called = f"x = step{draw.randrange(number)}(x)" if number and draw.random() < 0.7 else "x = x + 1"
        functions.append([f"def step{number}(x):", *(f"    {line}" for line in (*body, called, "return x"))])
    guilty = draw.randrange(len(functions))
    functions[guilty].insert(draw.randint(1, 6), "    torch._dynamo.graph_break()")
    calls = [f"    x = step{n}(x)" for n in sorted({guilty, *draw.sample(range(40), 8)})]
    head = ["import torch", "import torch._dynamo", ""]
    main = [
        '@torch.compile(fullgraph=True, backend="eager")',
        "def f(x):",
        *calls,
        "    return x",
        "",
        "f(torch.ones(4))",
    ]
    return "\n".join([*head, *("\n".join(each) + "\n" for each in functions), *main, ""])


@pytest.mark.usefixtures("soak")
@pytest.mark.parametrize("seeds", [range(4), range(4, 8)], ids=str)
def test_planted_faults_in_scripts_of_three_hundred_lines(seeds, tmp_path):
    def work():
        import torch._dynamo  # noqa: F401

        found = []
        for seed in seeds:
            scratch = tmp_path / str(seed)
            scratch.mkdir()
            lab = SourceLab(scratch, scratch / "journal.jsonl", None, workers=2)
            source, failure = first_failure(lab, lines_of_a_script(seed), None, KnownRun(), "script")
            reduced = reduce_source(lab, source, lines_of(failure), search.Budget())
            found.append((reduced.minimal, lab.total, reduced.statements, "graph_break()" in reduced.source))
        return found

    found = in_child(work, tmp_path, 220)
    assert all(minimal and is_found and statements <= 6 for minimal, _, statements, is_found in found)
    assert sum(probes for _, probes, *_ in found) / len(seeds) < 200
