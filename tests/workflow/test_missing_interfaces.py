"""A torch that lacks one of the private interfaces: its feature alone is lost, and the run says which."""

import contextlib
import io
import json
import os

import pytest
import torch._functorch.aot_autograd
import torch._inductor  # noqa: F401
from failing_scripts import NO_TANH_OF_AOT, TRAINS
from vocabulary import in_child

from minifier.flow.cli.entry import command_line
from minifier.torch_side import interfaces
from minifier.torch_side.interfaces import InterfaceState
from minifier.torch_side.torch_private.declared import EVERYTHING, INTERFACES

pytestmark = [pytest.mark.usefixtures("soak"), pytest.mark.timeout(300)]


@pytest.mark.parametrize("missing", INTERFACES, ids=lambda interface: interface.places[0])
def test_what_is_lost_is_said_and_the_rest_works(project, missing):
    project.write(NO_TANH_OF_AOT, "backend.py")
    project.write("import torch\nfrom backend import no_tanh\n\n" + TRAINS.replace("DYNAMIC", "None"))

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
