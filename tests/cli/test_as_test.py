"""`minify test`: the repro of a finished run as a test for pytest, which has to fail as expected."""

import pytest

pytestmark = pytest.mark.timeout(200)

RAISES = """
import minifier_backends.faulty
import torch

torch.compile(lambda x: x.sin().tanh() + 1, backend="faulty_raise")(torch.randn(3))
"""
DIES = """
import minifier_backends.faulty
import torch

torch.compile(lambda x: x.sin().tanh() + 1, backend="faulty_abort")(torch.randn(3))
"""


def test_an_exception_is_expected_in_the_process_of_the_test(project):
    project.run(RAISES)
    done = project.minify("test", project.out, "-o", project.out / "tests")
    path = project.out / "tests" / "test_faulty_raise_tanh.py"
    assert done.code == 0, done.stderr
    text = path.read_text()
    assert done.stdout.strip() == str(path) and text.count("\ndef test_") == 1 and "subprocess" not in text
    assert "raises=BackendCompilerFailed" in text and "strict=True" in text and 'backend="faulty_raise"' in text
    again = project.minify("test", project.out, "-o", project.out / "tests")
    assert again.code == 2 and "is there already" in again.stderr and path.read_text() == text


def test_a_death_is_expected_in_an_interpreter_of_its_own(project, soak):
    project.run(DIES)
    done = project.minify("test", project.out, "-o", project.out / "tests")
    assert done.code == 0, done.stderr
    (folder,) = (each for each in (project.out / "tests").iterdir() if each.is_dir())
    assert (folder / "repro.py").read_text() == (project.out / "repro.py").read_text()
    assert folder.name in (project.out / "tests" / f"test_{folder.name.removeprefix('repro_')}.py").read_text()


def test_a_repro_that_passes_is_no_expected_failure(project):
    project.run(RAISES)
    text = (project.out / "repro.py").read_text()
    (project.out / "repro.py").write_text(text.replace('backend="faulty_raise"', 'backend="eager"'))
    done = project.minify("test", project.out, "-o", project.out / "tests", "--trust")
    assert done.code == 4 and "1 failed" in done.stderr and not (project.out / "tests").exists()


def test_a_folder_without_a_repro_has_no_test(project):
    done = project.minify("test", project.folder)
    assert done.code == 2 and "has no repro" in done.stderr
