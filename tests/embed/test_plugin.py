"""`pytest --minify` in a project of its own."""

import re

import pytest
from vocabulary import Project

from minifier.flow.embed.pytest_plugin import script_of

pytestmark = pytest.mark.timeout(400)

TESTS = """
import pytest
import torch
import oddlib
import wronglib


def compiled(fn, backend="oddlib_tanh"):
    torch._dynamo.reset()
    return torch.compile(fn, backend=backend)


def test_works():
    compiled(torch.sin)(torch.ones(2))


def test_fails_in_the_backend():
    compiled(lambda x: (x.sin() + 1).tanh())(torch.ones(2, 3))


def test_fails_alike():
    compiled(lambda x: (x.cos() * 2).tanh() + 1)(torch.ones(4))


def test_expects_it():
    with pytest.raises(Exception):
        compiled(torch.tanh)(torch.ones(2))


def test_fails_by_itself():
    assert compiled(torch.sin)(torch.ones(2)).sum() == 7


def test_is_wrong():
    x = torch.ones(4)
    torch.testing.assert_close(compiled(lambda x: x.cos() + 1, "wrong_cos")(x), x.cos() + 1)
"""
WRONG = """
from torch._dynamo import register_backend


@register_backend
def wrong_cos(gm, inputs):
    def run(*args):
        out = gm(*args)
        is_odd = any("cos" in str(node.target) for node in gm.graph.nodes)
        return tuple(each * 1.5 for each in out) if is_odd else out

    return run
"""
DIFFERS = """
import torch


def test_eager_differs():
    actual = torch.compile(torch.sin, backend="eager")(torch.ones(2))
    torch.testing.assert_close(actual, torch.zeros(2))
"""


FAILS_COMPILED = """
import torch

SIZE = 4


def scale(x):
    return x * 2 if torch.compiler.is_compiling() else x


def test_compiled():
    x = torch.ones(SIZE)
    torch.testing.assert_close(torch.compile(scale, backend="eager")(x), x)


class TestScale:
    def test_compiled(self):
        test_compiled()
"""


def pytest_on(project: Project, *options: str, of: str = "") -> str:
    project.write(WRONG, "wronglib.py")
    project.write(TESTS, "test_models.py")
    done = project.python("-m", "pytest", "-p", "no:cacheprovider", *options, "test_models.py", "-k", of)
    assert "failed" in done.stdout, done.stdout + done.stderr
    return done.stdout


def summary(said: str) -> list[dict[str, str]]:
    """Return the rows of each failure in the summary, by label."""
    parts = re.split(r"=+ minify =+\n", said)[1].partition("\n=")[0].strip().split("\n\n")
    return [{row[:9].strip(): row[10:] for row in re.sub(r"\n {10}", " ", part).splitlines()} for part in parts]


@pytest.mark.usefixtures("soak")
def test_each_distinct_failure_has_one_repro_after_the_tests(project):
    said = pytest_on(project, "--minify", "--minify-options", "--verify 1", "-n2")
    assert "4 failed, 2 passed" in said
    place, wrong = "minify-out/test_models-py-test_fails_", "minify-out/test_models-py-test_is_wrong-1/repro.py"
    twice, once = sorted(summary(said), key=lambda rows: "1 other test" not in rows["in"])
    assert twice["repro"].startswith(place) and once["repro"] == wrong and once["failed"].startswith("wrong_cos")
    assert twice["reduced"].endswith("-> 1 ops") and once["reduced"].endswith("-> 1 ops")
    assert len(said.split("- minify -")) == 4, "the failure of the test itself has nothing to do with a backend"
    assert len(list((project.folder / "minify-out").glob("test*"))) == 2


@pytest.mark.usefixtures("soak")
def test_a_difference_that_eager_shows_too_has_no_repro(project):
    project.write(DIFFERS, "test_eager.py")
    done = project.python("-m", "pytest", "-p", "no:cacheprovider", "--minify", "test_eager.py")
    (rows,) = summary(done.stdout)
    assert rows["in"].startswith("test_eager.py::test") and "minify-out/" in rows["no repro"] and "repro" not in rows


def scale_on(project: Project, name: str) -> str:
    project.write(FAILS_COMPILED, "test_scale.py")
    options = ("-p", "no:cacheprovider", "--minify", "--minify-options=--verify 1", f"test_scale.py::{name}")
    return project.python("-m", "pytest", *options, timeout=390).stdout


@pytest.mark.usefixtures("soak")
def test_a_test_that_fails_by_its_own_assertion_has_a_repro_with_its_code(project):
    (rows,) = summary(scale_on(project, "test_compiled"))
    text = (project.folder / rows["repro"]).read_text()
    assert "is_compiling()" in text and "pytest" not in text and "test_scale" not in text
    assert len(list((project.folder / "minify-out").glob("test*"))) == 1


@pytest.mark.usefixtures("soak")
def test_a_call_of_pytest_is_no_repro(project):
    assert "installed command" in scale_on(project, "TestScale")
    assert not list((project.folder / "minify-out").glob("*/*.py"))


@pytest.mark.parametrize(("name", "is_whole"), [("test_compiled", True), ("TestScale::test_compiled", False)])
def test_the_script_of_a_test_is_its_module(tmp_path, name, is_whole):
    (tmp_path / "test_scale.py").write_text(f'"""Scales."""\nfrom __future__ import annotations\n{FAILS_COMPILED}')
    text = script_of(f"test_scale.py::{name}", tmp_path)
    assert bool(text) is is_whole
    compile(text, "test_scale.py", "exec", dont_inherit=True)  # the import from __future__ comes first


@pytest.mark.soak
def test_without_time_each_failure_is_named_all_the_same(project):
    said = pytest_on(project, "--minify", "--minify-budget", "0", of="fails")
    (rows,) = summary(said)
    assert "1 other test" in rows["in"] and "--minify-budget" in rows["no repro"]
    assert (project.folder / "minify-out" / "test_models-py-test_fails_in_the_backend-1" / "case").exists()


@pytest.mark.soak
def test_without_the_option_nothing_is_different(project):
    said = pytest_on(project, of="fails")
    assert "- minify -" not in said and "= minify =" not in said
    assert not (project.folder / "minify-out").exists()
