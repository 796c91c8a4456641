"""Scripts in which several backend calls fail."""

import pytest

pytestmark = pytest.mark.timeout(150)

SEVERAL = """
    import torch
    import oddlib

    def attempt(fn, *args):
        try:
            torch.compile(fn, backend="oddlib_tanh")(*args)
        except Exception as error:
            print(type(error).__name__)

    table = torch.zeros(4)
    attempt(lambda table, i: table[i].cos(), table, 9)
    attempt(lambda x: torch.tanh(x.sin()).exp(), table)
    attempt(lambda x: torch.tanh(x.cos()).abs(), table)
"""


def test_the_programs_own_fault_does_not_hide_the_backends(minify):
    done = minify(SEVERAL)
    assert done.code == 0, done.stderr
    assert done.result["failure"]["type"] == "oddlib.backends.LoweringError" and done.ops[1] == 1


def test_a_failure_in_the_words_of_another_can_be_had_by_its_number(minify):
    graphs = """
        import torch
        import oddlib

        for other in (torch.sin, torch.cos):
            try:
                torch.compile(lambda x: torch.tanh(other(x)).exp(), backend="oddlib_tanh")(torch.zeros(4))
            except Exception:
                torch._dynamo.reset()
    """
    done = minify(graphs, given=("--graph", "2"))
    assert done.code == 0, done.stderr
    assert done.ops[1] == 1


def test_an_output_folder_that_is_a_link_stays_one(minify, project):
    target = project.root / "target"
    target.mkdir()
    project.out.symlink_to(target)
    done = minify("import torch\ntorch.compile(lambda t, i: t[i], backend='eager')(torch.zeros(4), 9)\n")
    assert done.code == 1, done.stderr
    assert project.out.is_symlink() and not any(target.iterdir())
