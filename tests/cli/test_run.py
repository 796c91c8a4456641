"""`minify run` from end to end: one run that the other commands read, and runs that the corpus has no place for."""

import json
import re
import shlex
import shutil
import subprocess
import sys

import pytest
from failing_scripts import DEFINITION, NO_TANH, ONE_OP, OPS
from vocabulary import CASES, Project, run_alone, tree
from warm_command import warm_command, warm_python

pytestmark = pytest.mark.timeout(240)


@pytest.fixture(scope="module")
def finished(tmp_path_factory, processes):
    """A project and its finished run, in which no test changes anything."""
    project = Project(tmp_path_factory.mktemp("finished"))
    return project, project.run(ONE_OP, verify=3)


def test_the_results(finished):
    project, done = finished
    assert done.code == 0 and done.ops == (OPS, 1), done.stderr
    result = done.result
    assert result["verified"] == {"runs": 3, "same": 3, "control": "passed"} and result["one_minimal"] is True
    assert (result["version"], result["status"], result["repro"], result["others"]) == (1, "reduced", "repro.py", [])
    assert (result["failure"]["stage"], result["failure"]["kind"]) == ("compile", "exception")
    assert result["failure"]["type"] == "oddlib.backends.LoweringError" and result["probes"]["total"] <= 20
    assert result["backend"]["name"] == "oddlib_tanh" and result["backend"]["imports"] == ["import oddlib"]
    wanted = {"repro.py", "report.md", "result.json", "bundle.zip", "case", "minimal", "journal.jsonl"}
    assert wanted <= {path.name for path in done.out.iterdir()}
    assert re.search(r"import oddlib.*torch\.tanh\(x.*backend=\"oddlib_tanh\"", done.repro, re.DOTALL)
    assert not re.search(r"torch\.(sin|cos)|no_grad|set_|environ|config", done.repro)
    assert "Warning" not in done.stderr.partition("Traceback")[0], "warnings that the script did not cause"
    alone = run_alone(done.out / "repro.py", project.root / "elsewhere", fresh=True)
    assert alone.returncode == 1 and "LoweringError: no lowering for tanh" in alone.stderr


def test_show_prints_the_last_lines_and_report_the_command_that_files_an_issue(finished):
    project, done = finished
    without_torch = project.root / "without-torch"
    without_torch.mkdir()
    (without_torch / "torch.py").write_text("raise ImportError('torch was imported')")
    shown = project.minify("show", done.out, path=(without_torch,), fresh=True)
    assert shown.code == 0 and done.stderr.endswith(shown.stdout)
    filed = project.minify("report", "--github", done.out)
    assert filed.code == 0 and shlex.split(filed.stdout.splitlines()[-1])[:3] == ["gh", "issue", "create"]
    assert "torch.tanh(" in (done.out / "issue.md").read_text()


def test_reduce_takes_a_case_and_changes_nothing_in_its_folder(finished):
    project, done = finished
    before = tree(done.out / "case")
    again = project.minify("reduce", "--out", project.root / "again", "--verify", "1", done.out / "case")
    assert again.code == 0 and (project.root / "again" / "repro.py").read_text() == done.repro
    assert tree(done.out / "case") == before


def test_check_and_test_know_the_failure(finished, tmp_path):
    """`minify test` writes no test for a repro that does not fail."""
    project, done = finished
    folder = tmp_path / "copy"
    shutil.copytree(done.out, folder)
    assert project.minify("check", folder).code == 1
    for text, code in ((done.repro, 0), (done.repro.replace("torch.tanh", "torch.sin"), 4)):
        (folder / "repro.py").write_text(text)
        tests = tmp_path / f"tests-{code}"
        written = project.minify("test", folder, "-o", tests, "--trust")
        assert written.code == code and tests.exists() is (code == 0), written.stderr
    (path,) = (tmp_path / "tests-0").iterdir()
    text = path.read_text()
    assert "raises=BackendCompilerFailed" in text and "strict=True" in text and 'backend="oddlib_tanh"' in text
    assert project.minify("test", folder, "-o", path.parent, "--trust").code == 2 and path.read_text() == text
    assert project.minify("test", project.folder).code == 2, "there is no repro"


@pytest.mark.soak
def test_a_death_is_expected_in_an_interpreter_of_its_own(project):
    call = 'torch.compile(lambda x: x.sin().tanh() + 1, backend="faulty_abort")(torch.randn(3))'
    project.run(f"import minifier_backends.faulty\nimport torch\n{call}\n")
    done = project.minify("test", project.out, "-o", project.out / "tests")
    assert done.code == 0, done.stderr
    (folder,) = (each for each in (project.out / "tests").iterdir() if each.is_dir())
    assert (folder / "repro.py").read_text() == (project.out / "repro.py").read_text()
    assert folder.name in (project.out / "tests" / f"test_{folder.name.removeprefix('repro_')}.py").read_text()


def test_every_failing_graph_in_turn(minify):
    text = """
        import torch
        import oddlib

        for function, backend in (
            (torch.sin, "oddlib_tanh"),
            (lambda x: torch.cos(torch.tanh(x)), "oddlib_tanh"),
            (lambda x: torch.tanh(torch.softmax(x, -1)) + 1, "oddlib_pair"),
        ):
            try:
                torch.compile(function, backend=backend)(torch.randn(4, 8))
            except Exception:
                torch._dynamo.reset()
    """
    done = minify(text, given=["--all"], timeout=200)
    assert done.code == 0, done.stderr
    results = [json.loads(path.read_text()) for path in sorted(done.out.glob("graph-*/result.json"))]
    assert [(each["ops_after"], each["backend"]["name"]) for each in results] == [
        (1, "oddlib_tanh"),
        (2, "oddlib_pair"),
    ]
    assert all(len(each["others"]) == 1 for each in results)


def test_the_script_sees_what_it_would_see_without_the_tool(project):
    """Where a minifier changes what is compiled, the bug may vanish: graph, inputs and results stay as they are."""
    script = project.write(
        DEFINITION
        + """
def backend(gm, example_inputs):
    print(gm.print_readable(print_output=False), [type(x).__name__ for x in example_inputs])
    return gm.forward

torch.manual_seed(0)
compiled = torch.compile(f, backend=backend)
for size in (4, 5, 6):
    print(compiled(torch.randn(size, 8)).sum().item(), torch.rand(1).item())
"""
    )
    environment = {"PYTHONPATH": str(CASES), "HOME": str(project.root), "PATH": "/usr/bin:/bin"}
    plain = warm_python(script.name, folder=project.folder, environment=environment, timeout=100)
    command = warm_command().start(["run", "--compare", "never", script.name], project.folder, environment)
    assert plain.returncode == 0 and command.communicate(100)[0] == plain.stdout, plain.stderr


MODEL = """
import sys
import torch

assert __name__ == "__main__" and sys.argv[1:] == ["one", "--two"]
print(torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh())(torch.randn(3, 4)).sum())
"""
FINDER = """
import importlib.util
import sys

class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name in ("unlisted", "unlisted_main"):
            return importlib.util.spec_from_file_location(name, FOLDER + f"/{name}.py")

sys.meta_path.append(Finder)
"""


@pytest.mark.soak
def test_modules_that_a_finder_of_an_editable_install_finds(project):
    """Setuptools and other builders install such a finder at the start of the interpreter, from a .pth file."""
    project.write(NO_TANH, "elsewhere/unlisted.py")
    project.write(MODEL, "elsewhere/unlisted_main.py")
    project.write(FINDER.replace("FOLDER", repr(str(project.folder / "elsewhere"))), "start/sitecustomize.py")
    options = ("--out", project.out, "--verify", "1", "--backend", "unlisted:no_tanh", "-m", "unlisted_main")
    done = project.minify("run", *options, "one", "--two", PYTHONPATH=str(project.folder / "start"))
    assert done.ops[1] == 1, done.stderr


@pytest.mark.soak
def test_variables_of_the_users_shell(project):
    """No folder of the import path is lost, and torch's own minifier, which one of them starts, stays out of it."""
    project.write(NO_TANH, "../libraries/acme.py")
    done = project.run(
        "import acme, torch\ntorch.compile(lambda x: torch.tanh(x.sin()), backend='no_tanh')(torch.ones(3))",
        path=[project.root / "libraries"],
        **{"PYTHONSAFEPATH": "1", "TORCHDYNAMO_REPRO_AFTER": "dynamo", "TORCHDYNAMO_REPRO_LEVEL": "2"},
    )
    assert done.code == 0 and done.ops[1] == 1, done.stderr
    assert "minifier_launcher" not in done.stderr and not list(project.folder.glob("**/minifier_launcher.py"))


@pytest.mark.soak
@pytest.mark.parametrize("closing", ["<&- >&-", ">&-", "2>&-"])
def test_standard_files_may_be_closed(project, closing):
    project.write(ONE_OP)
    command = f'trap "" CHLD; exec {sys.executable} -m minifier run --verify 1 --out {project.out} failing.py {closing}'
    done = subprocess.run(["bash", "-c", command], cwd=project.folder, env=project.environment(), check=False)
    assert done.returncode == 0 and (project.out / "repro.py").exists()
