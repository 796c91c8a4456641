"""What a backend read in the script's process is named if its failure does not come back elsewhere."""

import json

import pytest

from minifier.errors import NoRepro

ACME = """
import json
import os
import torch

path, fast = os.environ.get("ACME_CONFIG"), "ACME_FAST" in os.environ
refused = json.load(open(path))["refused"] if path else ""


@torch._dynamo.register_backend
def acme(gm, example_inputs):
    if any(node.target is getattr(torch, refused, None) for node in gm.graph.nodes):
        raise NotImplementedError(f"no lowering for {refused}")
    return gm.forward
"""
CALL = """
import acme
import torch

torch.compile(lambda x: torch.tanh(torch.sin(x)) + 1, backend="acme")(torch.ones(3))
"""


def test_what_the_backend_read_is_named_where_the_failure_does_not_come_back(bureau):
    """The script takes its variable back, so that nothing but the import of the backend knew it."""
    (bureau.folder / "acme.py").write_text(ACME)
    (bureau.folder / "settings.json").write_text(json.dumps({"refused": "tanh"}))
    bureau.capture(
        "import os\nos.environ['ACME_CONFIG'] = os.path.join(os.path.dirname(__file__), 'settings.json')\n"
        + CALL.replace("import torch\n", "import torch\ndel os.environ['ACME_CONFIG']\n", 1)
    )
    assert set(bureau.case().backend.variables) == {"ACME_CONFIG", "ACME_FAST"}
    with pytest.raises(NoRepro) as error:
        bureau.reduce()
    assert "ACME_CONFIG" in str(error.value) and "settings.json" in str(error.value)
