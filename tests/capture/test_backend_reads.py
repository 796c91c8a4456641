"""What a backend read in the script's process is named if its failure does not come back elsewhere."""

import json

import pytest
from failing_scripts import CALLS_ACME, REFUSES_WHAT_IT_READ

from minifier.errors import NoRepro

ACME = """
import json
import os
import torch

path, fast = os.environ.get("ACME_CONFIG"), "ACME_FAST" in os.environ
refused = json.load(open(path))["refused"] if path else ""
"""
ACME += REFUSES_WHAT_IT_READ


def test_what_the_backend_read_is_named_where_the_failure_does_not_come_back(bureau):
    """The script takes its variable back, so that nothing but the import of the backend knew it."""
    (bureau.folder / "acme.py").write_text(ACME)
    (bureau.folder / "settings.json").write_text(json.dumps({"refused": "tanh"}))
    bureau.capture(
        "import os\nos.environ['ACME_CONFIG'] = os.path.join(os.path.dirname(__file__), 'settings.json')\n"
        + CALLS_ACME.replace("import torch\n", "import torch\ndel os.environ['ACME_CONFIG']\n", 1)
    )
    assert set(bureau.case().backend.variables) == {"ACME_CONFIG", "ACME_FAST"}
    with pytest.raises(NoRepro) as error:
        bureau.reduce()
    assert "ACME_CONFIG" in str(error.value) and "settings.json" in str(error.value)
