"""A torch that lacks one of the private interfaces: its feature alone is lost, and the run says which."""

import contextlib
import io
import json
import os
import subprocess
import sys
import textwrap

import pytest
import torch._functorch.aot_autograd
import torch._inductor  # noqa: F401
from vocabulary import in_child

from minifier.flow.cli.entry import command_line
from minifier.torch_side import interfaces
from minifier.torch_side.interfaces import InterfaceState
from minifier.torch_side.torch_private.declared import EVERYTHING, INTERFACES

pytestmark = [pytest.mark.usefixtures("soak"), pytest.mark.timeout(300)]

NO_TANH = """
    import torch
    from torch._dynamo.backends.common import aot_autograd


    def lower(gm, inputs):
        if any("tanh" in str(node.target) for node in gm.graph.nodes):
            raise NotImplementedError("no lowering for tanh")
        return gm


    no_tanh = aot_autograd(fw_compiler=lower)
"""
TRAINS = """
    import torch
    from backend import no_tanh


    def step(x, weight):
        hidden = torch.relu(x @ weight) + 1
        return (torch.tanh(hidden) * hidden).sum()


    torch.compile(step, backend=no_tanh)(torch.ones(2, 3), torch.ones(3, 4, requires_grad=True)).backward()
"""


@pytest.mark.parametrize("missing", INTERFACES, ids=lambda interface: interface.places[0])
def test_what_is_lost_is_said_and_the_rest_works(project, missing):
    project.write(NO_TANH, "backend.py")
    project.write(TRAINS)

    def work():
        find = interfaces._find
        interfaces._find = lambda place, *, load: (
            interfaces._ABSENT if place in missing.places else find(place, load=load)
        )
        os.chdir(project.folder)
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            code = command_line(["run", "--verify", "1", "--out", str(project.out), "failing.py"])
        return code, said.getvalue()

    code, said = in_child(work, project.folder.parent, timeout=240)
    if missing.loses == EVERYTHING:
        assert code == 2 and missing.places[0] in said and "minify doctor" in said, said
        return
    result = json.loads((project.out / "result.json").read_text())
    assert code == 0 and "no lowering for tanh" in (project.out / "repro.py").read_text(), said
    lost = [sentence for sentence in result["unsupported"] if missing.loses in sentence]
    assert lost == [sentence for sentence in lost if missing.places[0] in sentence and sentence in said]
    assert lost or missing.state() is InterfaceState.NOT_LOADED, "it is lost, and nobody says so"


EACH_IMPORTED_NAME = """
    import ast
    import contextlib
    import importlib
    import io
    import json
    import os
    import sys
    from pathlib import Path

    import torch._dynamo
    import torch._functorch.aot_autograd
    import torch._higher_order_ops.triton_kernel_wrap

    from minifier.flow.cli.entry import command_line
    from minifier.torch_side import interfaces


    def imported():
        for file in sorted(Path(interfaces.__file__).with_name("torch_private").glob("*.py")):
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "torch":
                    yield from (f"{node.module}:{alias.name}" for alias in node.names)


    def without(place):
        module, _, name = place.partition(":")
        delattr(importlib.import_module(module), name)
        told, said = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(told), contextlib.redirect_stderr(said):
            codes = command_line(["run", "failing.py"]), command_line(["doctor", "--json"])
        problem = json.loads(told.getvalue())["problem"]
        assert codes == (2, 2), codes
        assert name in said.getvalue() and "minify doctor" in said.getvalue(), said.getvalue()
        assert name in problem


    places = [place for place in dict.fromkeys(imported()) if place.replace(":", ".") not in sys.modules]
    assert "minifier.torch_side.torch_private" not in sys.modules and len(places) > 30
    for place in places:
        if os.fork() == 0:
            status = 1
            try:
                without(place)
                status = 0
            except BaseException as error:
                print(place, repr(error), flush=True)
            finally:
                os._exit(status)
        os.wait()
"""


@pytest.mark.timeout(900)  # a fork that imports torch for each name
def test_each_imported_name_is_named_where_it_is_missing(project):
    project.write("print('never run')\n")
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(EACH_IMPORTED_NAME)],
        cwd=project.folder,
        capture_output=True,
        text=True,
        timeout=880,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr
