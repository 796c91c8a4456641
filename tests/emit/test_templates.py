"""The templates are scripts in their own right."""

import os
from pathlib import Path

import pytest
from warm_command import warm_python

from minifier.capturing.script import AOT_INDUCTOR
from minifier.data.templates import template_source
from minifier.repro.emit.repro import Template

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
