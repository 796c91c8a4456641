"""What a backend's function returns is compared as torch.compile's caller gets it: Dynamo takes outputs by position."""

import pytest
from capture_looks import looked
from layers import sampled

pytestmark = pytest.mark.timeout(150)

SCRIPT = """
import torch

def backend(gm, inputs):
    return lambda *args: {returned}

f = torch.compile(lambda x: {results}, backend=backend)
try:
    f(torch.randn(4, 3))
except IndexError:
    pass
"""


@pytest.mark.parametrize(
    ("returned", "results", "aspect"),
    sampled(
        [
            ("gm(*args)[0]", "x.sin().cos()", "shape"),
            ("gm(*args)[0]", "(x.sin(), x[1].cos())", "values"),
            ("list(gm(*args))", "(x.sin(), x.cos())", None),
            ("dict(enumerate(gm(*args)))", "(x.sin(), x.cos())", None),
            ("(*gm(*args), None)", "x.sin().cos()", None),
            ("gm(*args)[0]", "x.sum()", None),
            ("gm(*args)[:1]", "(x.sin(), x.cos())", None),
        ]
    ),
    ids=["a tensor", "a tensor for two", "a list", "a dict", "too many", "a number's tensor", "too few"],
)
def test_a_result_of_another_form(bureau, returned, results, aspect):
    found, said, _ = looked(bureau, SCRIPT.format(returned=returned, results=results))
    assert [each.failure.fingerprint.message for each in found.captured.failing] == ([aspect] if aspect else [])
    if "sum" in results or ":1" in returned:  # Dynamo raises, which is no wrong result
        assert "IndexError" in said and found.compared.compared == ()
