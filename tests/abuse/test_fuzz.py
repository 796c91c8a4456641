"""Changed Case folders: each is read, or refused with the place of the defect, and runs nothing."""

from __future__ import annotations

import ast
import os
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from kinds_of_cases import SAMPLES, write_sample
from mutated_cases import CANARY, changes

from minifier.case import Case
from minifier.case.store import load
from minifier.emit.repro import forms_for, write_repro
from minifier.errors import CannotSave, NoRepro, UsageError

pytestmark = pytest.mark.timeout(1800)

SEED = int(os.environ.get("FUZZ_SEED", "1"))


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """The files of each sample, by the sample's name."""
    files = {}
    for name in SAMPLES:
        folder = tmp_path_factory.mktemp("sound")
        write_sample(name, folder)
        files[name] = {path.name: path.read_bytes() for path in folder.iterdir()}
    return files


@pytest.fixture
def canary(tmp_path, monkeypatch):
    """The file that an import of the canary leaves."""
    singing = tmp_path / "singing"
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / f"{CANARY}.py").write_text(f"open({str(singing)!r}, 'w').close()\nthing = print\n")
    monkeypatch.syspath_prepend(tmp_path / "modules")
    yield singing
    sys.modules.pop(CANARY, None)


def read_and_write(folder: Path) -> str:
    """Load the Case and write its first two forms; return the outcome."""
    try:
        case = load(folder)
    except UsageError as error:
        assert any(f"{name}" in str(error) for name in ("case.json", "graph.json", "tensors.safetensors")), error
        assert len(str(error)) < 2000
        return "refused"
    assert isinstance(case, Case)
    for template, variant in forms_for(case)[:2]:
        try:
            repro = write_repro(case, template, variant)
        except (NoRepro, CannotSave):
            return "no repro"
        ast.parse(repro.text)
    return "written"


def fuzz(sound, tmp_path, canary, examples):
    print(f"FUZZ_SEED={SEED}")
    folder, outside = tmp_path / "case", tmp_path / "outside"
    folder.mkdir()
    outside.mkdir()
    outcomes: dict[str, int] = {}

    @seed(SEED)
    @settings(
        max_examples=examples, deadline=10_000, database=None, print_blob=False, suppress_health_check=list(HealthCheck)
    )
    @given(st.data())
    def attempt(data):
        sample = data.draw(st.sampled_from(sorted(SAMPLES)))
        files = sound[sample]
        name, content = data.draw(changes(files))
        for path in folder.iterdir():
            path.unlink()
        for other, text in {**files, name: content}.items():
            (folder / other).write_bytes(text)
        outcome = read_and_write(folder)
        outcomes[outcome] = outcomes.get(outcome, 0) + 1
        assert not canary.exists(), "something of the Case was executed"

    attempt()
    print(outcomes)
    return outcomes


def test_changed_cases(sound, tmp_path, canary):
    outcomes = fuzz(sound, tmp_path, canary, 300)
    assert min(outcomes.get(kind, 0) for kind in ("refused", "written")) > 20


@pytest.mark.usefixtures("soak")
def test_many_changed_cases(sound, tmp_path, canary):
    fuzz(sound, tmp_path, canary, 5000)


@pytest.mark.parametrize("sample", sorted(SAMPLES))
def test_the_samples_are_sound(sample, tmp_path):
    write_sample(sample, tmp_path)
    assert read_and_write(tmp_path) == ("no repro" if sample == "adapted" else "written")
