"""scripts/torches.py: the table of releases, also of a release that cannot be installed."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = """# Releases

| torch | interfaces | quick | runs | lost |
| --- | --- | --- | --- | --- |
| 2.8.0 | 141 passed | 3179 passed | 12 passed | |
"""


@pytest.fixture
def torches(tmp_path, monkeypatch):
    """The script, for a project in another folder, whose environments are not made."""
    spec = importlib.util.spec_from_file_location("torches", ROOT / "scripts" / "torches.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    page = tmp_path / "versions.md"
    page.write_text(PAGE)
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "PAGE", page)
    monkeypatch.setattr(module, "lost", lambda python: "nothing")
    monkeypatch.setattr(module, "LAYERS", {"interfaces": [["test_a.py"]], "quick": [["test_a.py"]], "runs": []})
    return module


def run_for(torches, monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["torches.py", *arguments])
    return torches.main(), [line for line in torches.PAGE.read_text().splitlines() if line.startswith("| 2")]


def test_a_release_that_cannot_be_installed_stops_no_other(torches, monkeypatch, capsys, tmp_path):
    def make(version, folder):
        (folder / "half").mkdir(parents=True)
        if version == "2.9.1":
            raise subprocess.CalledProcessError(1, ["pip"])
        return folder / "python"

    monkeypatch.setattr(torches, "make_environment", make)
    monkeypatch.setattr(torches, "tested", lambda python, layer, folder, workers: (f"1 passed of {layer}", []))
    status, rows = run_for(torches, monkeypatch, "2.9.1", "2.10.0")
    assert status == 1 and "torch 2.9.1 cannot be installed" in capsys.readouterr().out
    assert rows == [
        "| 2.8.0 | 141 passed | 3179 passed | 12 passed |  |",
        "| 2.9.1 | not installed | not installed | not installed |  |",
        "| 2.10.0 | 1 passed of interfaces | 1 passed of quick | 1 passed of runs | nothing |",
    ]
    assert list((tmp_path / ".torches").iterdir()) == []


@pytest.mark.usefixtures("processes")
def test_a_cell_counts_what_passed_failed_and_was_skipped(torches, tmp_path):
    (tmp_path / "test_a.py").write_text(
        "import pytest\n\ndef test_a(): pass\n\ndef test_b(): assert 0\n\ndef test_c(): pytest.skip('not here')\n"
    )
    cell, failed = torches.tested(Path(sys.executable), "interfaces", tmp_path, 1)
    assert cell == "1 passed, 1 failed, 1 skipped" and failed == ["test_a::test_b"]
