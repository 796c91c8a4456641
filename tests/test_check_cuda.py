"""scripts/check_cuda.py, as far as it goes without a GPU."""

import importlib.util
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent.parent / "scripts" / "check_cuda.py"


@pytest.fixture
def check_cuda(monkeypatch):
    spec = importlib.util.spec_from_file_location("check_cuda", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "check_cuda", module)  # its dataclass looks itself up
    spec.loader.exec_module(module)
    return module


def test_each_point_is_a_script(check_cuda):
    for name, point in check_cuda.POINTS.items():
        for text in (point.script, *point.modules.values()):
            compile(text, name, "exec")


def test_an_unknown_point_is_refused_with_the_known_ones(check_cuda, capsys):
    assert check_cuda.main(["no such point"]) == 2
    said = capsys.readouterr().err
    assert "no point is called 'no such point'" in said and all(f"\n  {name}\n" in said for name in check_cuda.POINTS)
