"""`pytest --minify` in a project of its own."""

import pytest
from vocabulary import Project

pytestmark = pytest.mark.timeout(200)

TESTS = """
import pytest
import torch
import oddlib


def compiled(fn):
    torch._dynamo.reset()
    return torch.compile(fn, backend="oddlib_tanh")


def test_works():
    compiled(torch.sin)(torch.ones(2))


def test_fails_in_the_backend():
    compiled(lambda x: (x.sin() + 1).tanh())(torch.ones(2, 3))


def test_expects_it():
    with pytest.raises(Exception):
        compiled(torch.tanh)(torch.ones(2))


def test_fails_by_itself():
    assert compiled(torch.sin)(torch.ones(2)).sum() == 7
"""


def pytest_on(project: Project, *options: str) -> str:
    project.write(TESTS, "test_models.py")
    done = project.python("-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", *options)
    assert "2 failed, 2 passed" in done.stdout, done.stdout + done.stderr
    return done.stdout


@pytest.mark.usefixtures("soak")
def test_a_test_that_fails_in_a_backend_has_a_repro_in_its_report(project):
    said = pytest_on(project, "--minify", "--minify-options", "--verify 1")
    section = said.partition("- minify -")[2]
    assert "return x.tanh()" in section and 'torch.compile(fn, backend="oddlib_tanh")' in section
    assert said.count("- minify -") == 1, "the other failure has nothing to do with a backend"
    (folder,) = (project.folder / "minify-out").iterdir()
    assert folder.name == "test_models-py-test_fails_in_the_backend-1" and (folder / "report.md").exists()


def test_without_the_option_nothing_is_different(project):
    assert "- minify -" not in pytest_on(project)
    assert not (project.folder / "minify-out").exists()
