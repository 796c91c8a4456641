"""Scripts that torch.compile itself refuses, from the command line to a verified repro."""

import pytest
from vocabulary import CASES, run_alone

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
    assert result["seconds"]["script"] > 0
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
