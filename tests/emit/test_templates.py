"""The templates are scripts in their own right, and show the forms of a repro as they are written."""

import ast
import os
from dataclasses import replace
from pathlib import Path

import pytest
from failing_cases import CASES
from warm_command import warm_python

from minifier.capturing.script import AOT_INDUCTOR
from minifier.data.case import BackendReference, BackendSource
from minifier.data.templates import template_source
from minifier.repro.emit.forms import Template
from minifier.repro.emit.repro import write_repro

FOLDER = Path(__file__).resolve().parents[2] / "repro_templates"
SCRIPTS = sorted(path for path in FOLDER.glob("*.py") if path.name != "__init__.py")


@pytest.mark.usefixtures("processes")
@pytest.mark.timeout(90)
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_template_runs_with_its_own_values(script, tmp_path):
    done = warm_python(script, folder=tmp_path, environment=dict(os.environ), timeout=80)
    assert (done.returncode, done.stderr) == (0, "")


def test_each_form_has_a_template_that_imports_torch_alone_and_is_in_the_package():
    assert {path.stem for path in SCRIPTS} == {template.value for template in Template} | {AOT_INDUCTOR}
    for script in SCRIPTS:
        lines = [line for line in script.read_text().splitlines() if line.startswith(("import", "from"))]
        assert lines and all(line.split()[1].partition(".")[0] == "torch" for line in lines)
        assert template_source(script.stem) == script.read_text()


SHOWN = {
    Template.COMPILE_FUNCTION: CASES["exception"],
    Template.CALL_BACKEND: CASES["exception"],
    Template.RUN_BACKWARD: CASES["backward"],
    Template.COMPARE: CASES["values"],
}


def statements(text):
    return [ast.unparse(node) for node in ast.parse(text).body]


@pytest.mark.parametrize("template", Template)
def test_a_template_is_the_repro_of_its_own_values(template):
    case = replace(SHOWN[template], backend=BackendReference("eager", BackendSource.REGISTERED, '"eager"'))
    written = statements(write_repro(case, template).text)
    shown = statements(template_source(template.value))
    helpers = {each for each in shown if each.startswith("def ") and each not in written}
    assert written == [each for each in shown if each not in helpers]
    assert (len(helpers) > 0) is (template is Template.COMPARE)
