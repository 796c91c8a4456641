"""Objects of the script as values of a configuration: written by their definition."""

import pytest
from layers import sampled

pytestmark = pytest.mark.timeout(150)

BACKEND = """
import torch._inductor.config as config


def backend(gm, inputs):
    if config.post_grad_custom_post_pass is not None:
        config.post_grad_custom_post_pass(gm.graph)
    return gm.forward
"""
SCRIPT = """
    import acme
    import torch
    import torch._inductor.config as config


    class Refuse:
        def __init__(self, op):
            self.op = op

        def __call__(self, graph):
            if any(node.target is self.op for node in graph.nodes):
                raise NotImplementedError("refused")

        def uuid(self):
            return b"1"


    def refuse(graph):
        Refuse(torch.tanh)(graph)


    HELD = Refuse(torch.tanh)
    config.post_grad_custom_post_pass = {value}


    @torch.compile(backend=acme.backend)
    def fn(x):
        return torch.relu(torch.tanh(x + 1)) * 2


    fn(torch.ones(3))
"""


@pytest.fixture
def reduced(project):
    """`reduced(value)` is the run of a script that configures this value, which its backend reads."""
    project.write(BACKEND, "acme.py")
    return lambda value, script=SCRIPT: project.run(script.format(value=value))


@pytest.mark.parametrize(
    ("value", "written"),
    sampled([("Refuse(torch.tanh)", "= Refuse("), ("HELD", "= HELD"), ("refuse", "= refuse")]),
)
def test_an_object_of_the_script_is_in_the_repro(reduced, value, written):
    done = reduced(value)
    assert done.code == 0, done.stderr
    assert done.ops[1] == 1 and done.result["verified"]["control"] == "passed", done.stderr
    line = next(line for line in done.repro.splitlines() if line.startswith("torch._inductor.config."))
    assert written in line and "class Refuse:" in done.repro
    assert done.repro.index("class Refuse:") < done.repro.index(line) < done.repro.index("def fn(")


@pytest.mark.soak
def test_an_object_that_the_failure_does_not_need_is_left_out(reduced):
    needs_none = SCRIPT.replace("import acme\n", "import oddlib\n").replace("acme.backend", '"oddlib_tanh"')
    done = reduced("Refuse(torch.tanh)", needs_none)
    assert done.code == 0, done.stderr
    assert done.ops[1] == 1 and "Refuse" not in done.repro and "inductor" not in done.repro


REFUSING = """
class Refuse:
    def __init__(self, op):
        self.op = op

    def __call__(self, graph):
        if any(node.target is self.op for node in graph.nodes):
            raise NotImplementedError("refused")

    def uuid(self):
        return b"1"


def refused(graph):
    if any("tanh" in str(node.target) for node in graph.nodes):
        raise NotImplementedError("refused")
"""


@pytest.mark.parametrize("value", ["refusing.Refuse(torch.tanh)", "refusing.refused"])
def test_an_object_of_a_module_in_another_folder_is_imported_from_there(reduced, project, value):
    project.write(REFUSING, "passes/refusing.py")
    script = SCRIPT.replace(
        "    import acme\n", "    import sys\n    sys.path.append('passes')\n    import acme, refusing\n"
    )
    done = reduced(value, script)
    assert done.code == 0, done.stderr
    assert done.ops[1] == 1 and done.result["verified"]["control"] == "passed", done.stderr
    assert "Needs the folder with acme, refusing on PYTHONPATH" in done.repro
