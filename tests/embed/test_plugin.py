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


def table(said: str) -> list[list[str]]:
    """Return the cells of the table's rows."""
    lines = said.partition("failure  ")[2].splitlines()[1:]
    return [re.split(r" {2,}", line) for line in lines[: next(i for i, line in enumerate(lines) if line[0] == "=")]]


@pytest.mark.usefixtures("soak")
def test_each_distinct_failure_has_one_repro_after_the_tests(project):
    said = pytest_on(project, "--minify", "--minify-options", "--verify 1", "-n2")
    assert "4 failed, 2 passed" in said
    place, wrong = "minify-out/test_models-py-test_fails_", "minify-out/test_models-py-test_is_wrong-1/repro.py"
    rows = sorted(table(said), key=lambda row: row[1], reverse=True)
    assert [row[1:3] for row in rows] == [["2", "1"], ["1", "1"]]
    assert rows[0][-1].startswith(place) and rows[1][-1] == wrong and rows[1][0].startswith("wrong_cos")
    assert len(said.split("- minify -")) == 4, "the failure of the test itself has nothing to do with a backend"
    assert len(list((project.folder / "minify-out").iterdir())) == 2


@pytest.mark.usefixtures("soak")
def test_a_difference_that_eager_shows_too_has_no_repro(project):
    project.write(DIFFERS, "test_eager.py")
    done = project.python("-m", "pytest", "-p", "no:cacheprovider", "--minify", "test_eager.py")
    (row,) = table(done.stdout)
    assert row[0].startswith("test_eager.py::test") and "minify-out/" in row[-1] and "repro.py" not in row[-1]


def scale_on(project: Project, name: str) -> str:
    project.write(FAILS_COMPILED, "test_scale.py")
    options = ("-p", "no:cacheprovider", "--minify", "--minify-options=--verify 1", f"test_scale.py::{name}")
    return project.python("-m", "pytest", *options, timeout=390).stdout


@pytest.mark.usefixtures("soak")
def test_a_test_that_fails_by_its_own_assertion_has_a_repro_with_its_code(project):
    ((*_, place),) = table(scale_on(project, "test_compiled"))
    text = (project.folder / place).read_text()
    assert "is_compiling()" in text and "pytest" not in text and "test_scale" not in text
    assert len(list((project.folder / "minify-out").iterdir())) == 1


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
    ((_, tests, repro),) = table(said)
    assert tests == "2" and "--minify-budget" in repro
    assert (project.folder / "minify-out" / "test_models-py-test_fails_in_the_backend-1" / "case").exists()


@pytest.mark.soak
def test_without_the_option_nothing_is_different(project):
    said = pytest_on(project, of="fails")
    assert "- minify -" not in said and "= minify =" not in said
    assert not (project.folder / "minify-out").exists()
