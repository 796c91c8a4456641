"""Scripts on which edits once raised, never ended, or changed the backend under test."""

import pytest

from minifier import search
from minifier.source import reduce
from minifier.source.passes import SourcePass
from minifier.source.patches import difference
from minifier.source.reduce import reduce_source
from tests.source.edited import edited
from tests.source.fake_lab import FakeLab


@pytest.mark.parametrize(
    "text",
    [
        'print(f"a" f"{b}")\n',
        'x = f(1)\nassert g(x), f"got {x} " "here"\n',
        "m = mask\nif(m): fail()\n",
        "a = lambda: 1\nx = not(a)\n",
        "def h(a): return not(a)\nfail(h(mask))\n",
        "a = 1\ntry: pass\nexcept E as a: pass\n",
        "with(a), b: pass\n",
    ],
)
def test_what_libcst_refuses_is_no_candidate(text):
    lab = FakeLab(lambda source: source.strip() != "")
    done = reduce_source(lab, text, (), search.Budget())
    assert done.minimal and len(done.source) <= len(text) and lab.warnings == []


def test_a_pass_that_fails_is_told_and_the_search_goes_on(monkeypatch):
    def lister(located):
        yield difference(located.source, located.source.replace("2", "3"))
        raise TypeError("no node\nof this kind")

    passes = [SourcePass("faulty", "", lambda: lister), *reduce.COARSE_PASSES]
    monkeypatch.setattr(reduce, "COARSE_PASSES", passes)
    lab = FakeLab(lambda source: "f(" in source)
    done = reduce_source(lab, "a = 2\nf(1 + a)\n", (), search.Budget())
    assert done.minimal and done.source == "f()\n"
    assert set(lab.warnings) == {"the pass faulty could not list all its edits: TypeError: no node"}


def test_modules_that_import_each_other(tmp_path):
    (tmp_path / "ca.py").write_text("import cb\ndef y(n): return cb.x(n)\n")
    (tmp_path / "cb.py").write_text("import ca\ndef x(n): return ca.y(n - 1)\n")
    lab = FakeLab(lambda source: "y(" in source and "import" in source)
    assert reduce_source(lab, "import ca\nca.y(3)\n", (), search.Budget(), [str(tmp_path)]).minimal


def test_an_import_that_is_replaced_by_itself_leaves_the_other_edits(tmp_path):
    package = tmp_path / "pkg"
    package.mkdir()
    (package / "__init__.py").write_text("from pkg import sub\n")
    lab = FakeLab(lambda source: "from pkg import sub" in source and "fail" in source)
    done = reduce_source(lab, "from pkg import sub\n# c\nfail(sub.g(1 + 2))\n", (), search.Budget(), [str(tmp_path)])
    assert done.source == "from pkg import sub\nfail()\n"


@pytest.mark.parametrize(
    "text",
    [
        'comp = functools.partial(torch.compile, backend="my")\ncomp(g)\n',
        'torch.compile(g, **{"backend": "my", "dynamic": True})\n',
        'kw = {"backend": "my"}\ntorch.compile(g, **kw)\n',
        'torch.compile(g, backend=pick("a", "my"))\n',
    ],
)
def test_an_edit_keeps_the_backend(text):
    codes = edited(text, "elements", "operands")
    assert not [code for code in codes if "compile" in code and "my" not in code]
    assert not [code for code in codes if "pick" in text and 'pick("a", "my")' not in code]


def test_a_parameter_that_names_the_backend_stays():
    text = 'def compile(fn, backend="inductor"):\n    return torch.compile(fn, backend=backend)\ncompile(g, "my")\n'
    assert all('"my"' in code for code in edited(text, "parameters"))


def test_an_attribute_of_a_call_is_put_where_it_is_used_once_only():
    text = "x1 = f(x0, x0).T\nx2 = f(x1, x1).T\nx3 = f(x2, x2).T\ng(x3, x3)\n"
    assert edited(text, "aliases") == []
