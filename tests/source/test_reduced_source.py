"""The reduction of a script, its texts judged by a function: passes left out, budgets, interruptions, odd scripts."""

import re

import libcst as cst
import pytest

from minifier import search
from minifier.data.failure import Verdict
from minifier.repro.source import reduce
from minifier.repro.source.passes import SourcePass
from minifier.repro.source.reduce import reduce_source
from minifier.repro.source.script import Edit, Script
from tests.source.fake_lab import FakeLab

SOURCE = "import os\na = 1\nb = f(a, 2)\nunused = 3\nfail(b, a)  # here\n"


def reduced(text, needs=("fail",), folders=(), **options):
    lab = FakeLab(lambda source: all(need in source for need in needs))
    return reduce_source(lab, text, (), search.Budget(), folders, **options), lab


@pytest.mark.parametrize(
    ("wanted", "left"),
    [
        (lambda name: True, "fail()\n"),
        (lambda name: False, "fail(b, a)  # here\n"),
        (lambda name: name == "comments", "fail(b, a)\n"),
    ],
    ids=["all", "none", "comments"],
)
def test_only_wanted_passes_are_tried(wanted, left):
    done, _ = reduced(SOURCE, wants=wanted)
    assert (done.source, done.minimal) == (left, True)


def test_the_last_proof_goes_on_until_no_statement_can_be_removed():
    """Each removal broke the script when it was first tried: `left` before `3` was gone, `held` before `left` was."""

    def accepts(source):
        is_held = "left(" not in source or "held(" in source
        return "fail" in source and is_held and ("left(" in source or "3" not in source)

    lab = FakeLab(accepts)
    lab.refusal = Verdict.OTHER
    done = reduce_source(lab, "left()\nheld()\nfail(3)\n", (), search.Budget())
    assert (done.source, done.minimal) == ("fail()\n", True)


def test_arguments_go_together():
    done, lab = reduced(f"fail(c, {', '.join(f'{name}=x.{name}' for name in 'abdefghijkl')})\n", ("fail(c", "=x.d"))
    assert (done.source, done.minimal) == ("fail(c, d=x.d)\n", True) and lab.total < 40


def test_a_float_becomes_shorter_also_where_no_point_is_left():
    lab = FakeLab(lambda source: re.search(r"fail\((1\.5|2)\)", source) is not None)
    assert reduce_source(lab, "fail(1.5)\n", (), search.Budget()).source == "fail(2)\n"


class InterruptedLab(FakeLab):
    """The n-th question is interrupted."""

    def __init__(self, left):
        super().__init__(lambda source: "fail" in source)
        self.left = left

    def holds(self, sources):
        self.left -= len(sources)
        if self.left < 0:
            raise KeyboardInterrupt
        return super().holds(sources)


@pytest.mark.parametrize("most", range(0, 12, 2))
@pytest.mark.parametrize("how", ["interrupted", "no more probes"])
def test_what_was_reached_stays(how, most):
    lab = InterruptedLab(most if how == "interrupted" else 1000)
    done = reduce_source(lab, SOURCE, (), search.Budget(max_probes=most if how == "no more probes" else None))
    assert "fail" in done.source and len(done.source) <= len(SOURCE) and lab.total <= max(most, 1)
    assert not done.minimal or done.source == "fail()\n"
    assert most or done.source == SOURCE


@pytest.mark.parametrize("fewest", [1, 3, 37, 999])
def test_the_smallest_number_that_fails_is_found_by_bisection(fewest):
    lab = FakeLab(lambda source: (match := re.fullmatch(r"f\((\d+)\)\n", source)) and int(match[1]) >= fewest)
    assert reduce_source(lab, "f(1000)\n", (), search.Budget()).source == f"f({fewest})\n"
    assert sum(bool(re.fullmatch(r"f\(\d+\)\n", text)) for text in lab.verdicts) <= 15


@pytest.mark.parametrize(
    "text",
    [
        'print(f"a" f"{b}")\n',
        'x = f(1)\nassert g(x), f"got {x} " "here"\n',
        "m = mask\nif(m): fail()\n",
        "a = lambda: 1\nx = not(a)\n",
        "a = 1\ntry: pass\nexcept E as a: pass\n",
        "with(a), b: pass\n",
    ],
)
def test_what_libcst_refuses_is_no_candidate(text):
    lab = FakeLab(lambda source: source.strip() != "")
    done = reduce_source(lab, text, (), search.Budget())
    assert done.minimal and len(done.source) <= len(text) and lab.warnings == []


def test_a_long_chain_of_calls():
    """libcst visits it by recursion."""
    done, _ = reduced(f"def f(x):\n    fail()\n    return x{'.relu()' * 300}\nf(1)\n")
    assert done.minimal and "relu" not in done.source


def test_a_pass_that_fails_is_told_and_the_search_goes_on(monkeypatch):
    def lister(script):
        yield from (Edit({node: [cst.Integer("3")]}) for node in script.nodes if isinstance(node, cst.Integer))
        raise TypeError("no node\nof this kind")

    monkeypatch.setattr(reduce, "COARSE_PASSES", [SourcePass("faulty", "", lister), *reduce.COARSE_PASSES])
    done, lab = reduced("a = 2\nfail(1 + a)\n")
    assert (done.source, done.minimal) == ("fail()\n", True)
    assert {("faulty" in sentence, type(error)) for sentence, error in lab.warnings} == {(True, TypeError)}


def test_an_edit_that_libcst_refuses_is_no_error_of_ours():
    script = Script("f(1)\n")
    assert script.after([Edit({script.module.body[0].body[0].value.func: []})]) is None


def test_modules_that_import_each_other(tmp_path):
    (tmp_path / "ca.py").write_text("import cb\ndef y(n): return cb.x(n)\n")
    (tmp_path / "cb.py").write_text("import ca\ndef x(n): return ca.y(n - 1)\n")
    done, _ = reduced("import ca\nca.y(3)\n", ("y(", "import"), [str(tmp_path)])
    assert done.minimal


def test_an_import_that_is_replaced_by_itself_leaves_the_other_edits(tmp_path):
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "__init__.py").write_text("from pkg import sub\n")
    line = "from pkg import sub"
    done, _ = reduced(f"{line}\n# c\nfail(sub.g(1 + 2))\n", (line, "fail"), [str(tmp_path)])
    assert done.source == f"{line}\nfail()\n"
