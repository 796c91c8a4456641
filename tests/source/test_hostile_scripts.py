"""Scripts on which edits once raised, never ended, or changed the backend under test."""

import pytest

from minifier import search
from minifier.source.reduce import reduce_source
from minifier.source.reduce_script import of_its_backend
from tests.source.edited import edited


class Lab:
    """Texts that `holds` accepts show the failure; each is asked once, as in the laboratory of a run."""

    whole, workers, phase = (), 1, ""

    def __init__(self, accepts):
        self.accepts, self.known, self.asked = accepts, {}, 0

    @property
    def total(self):
        return len(self.known)

    def holds(self, sources):
        self.asked += len(sources)
        assert self.asked < 3000, "the reduction does not end"
        return [self.known.setdefault(source, self.accepts(source)) for source in sources]


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
    done = reduce_source(Lab(lambda source: source.strip() != ""), text, (), search.Budget())
    assert done.minimal and len(done.source) <= len(text)


def test_modules_that_import_each_other(tmp_path):
    (tmp_path / "ca.py").write_text("import cb\ndef y(n): return cb.x(n)\n")
    (tmp_path / "cb.py").write_text("import ca\ndef x(n): return ca.y(n - 1)\n")
    lab = Lab(lambda source: "y(" in source and "import" in source)
    assert reduce_source(lab, "import ca\nca.y(3)\n", (), search.Budget(), [str(tmp_path)]).minimal


def test_an_import_that_is_replaced_by_itself_leaves_the_other_edits(tmp_path):
    package = tmp_path / "pkg"
    package.mkdir()
    (package / "__init__.py").write_text("from pkg import sub\n")
    lab = Lab(lambda source: "from pkg import sub" in source and "fail" in source)
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


def test_assignments_that_the_backend_reads_stay():
    text = (
        "LIMIT = 50\nOTHER = 3\ndef my(gm, inputs):\n    return gm if LIMIT else None\ntorch.compile(g, backend=my)\n"
    )
    assert "LIMIT = 50" in of_its_backend(text, None) and "OTHER = 3" not in of_its_backend(text, None)


def test_an_attribute_of_a_call_is_put_where_it_is_used_once_only():
    text = "x1 = f(x0, x0).T\nx2 = f(x1, x1).T\nx3 = f(x2, x2).T\ng(x3, x3)\n"
    assert edited(text, "aliases") == []
