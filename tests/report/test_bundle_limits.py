"""A report fits into an issue and a bundle onto it, whatever the run was."""

import zipfile
from dataclasses import replace

import pytest
from case_samples import small_case
from hypothesis import given, settings
from hypothesis import strategies as st
from outcomes import write_run

from minifier.data.case import Level
from minifier.errors import UsageError
from minifier.repro.emit.repro import Repro
from minifier.repro.report.markdown import LIMIT, Report, Section, fence, folded, items, markdown, prose, table
from minifier.repro.report.outcome import Outcome
from minifier.repro.report.write_reports import Consent, fitting, read_finished, write_bundle, write_reports

LINES = st.integers(0, 2000).map(lambda count: "\n".join(f"line {number} of it" for number in range(count)))
BLOCKS = st.one_of(
    LINES.map(prose),
    st.builds(fence, LINES, st.sampled_from(["", "python", "diff"])),
    LINES.map(lambda text: items(text.splitlines())),
    LINES.map(lambda text: table(("a",), [(line,) for line in text.splitlines()])),
    LINES.map(lambda text: folded("more", fence(text))),
)
SECTIONS = st.builds(Section, st.text("abc", min_size=1), st.tuples(BLOCKS), weight=st.integers(0, 3))


@settings(max_examples=20)
@given(st.lists(SECTIONS, max_size=8), st.sampled_from([2_000, 20_000, LIMIT]))
def test_a_report_is_never_longer_than_an_issue_may_be(sections, limit):
    report = Report("title", tuple(sections))
    text = markdown(report, limit)
    assert len(text) <= limit and text.startswith("# title\n")
    if len(markdown(report, 10**9)) <= limit:
        assert text == markdown(report, 10**9)


def test_what_is_left_out_is_listed_the_least_important_first():
    long = Section("Long", (fence("word\n" * 2000),), weight=1)
    report = Report("t", (Section("Needed", ("this",)), replace(long, title="Longer", weight=3), long))
    text = markdown(report, 15_000)
    assert "## Long\n" in text and "## Longer\n" not in text and text.endswith("Longer\n")


def test_half_a_program_is_not_shown():
    report = Report("t", (Section("Minified repro", (fence("x = 1\n" * 9000, "python"),)),))
    text = markdown(report, 20_000)
    assert "x = 1" not in text and "repro.py" in text


@pytest.fixture
def finished(tmp_path):
    """A run without a reduction: (its output folder, its Outcome)."""
    case = small_case()
    values = tmp_path / "inputs.safetensors"
    values.write_bytes(bytes(range(256)) * 40)
    repro = Repro("import oddlib  # reads inputs.safetensors\n", None, values)
    outcome = Outcome(case, case, None, repro, None, "", 1.0, 2.0, environment="Python: 3")
    write_run(tmp_path, outcome)
    return tmp_path, outcome


@pytest.mark.parametrize("include", [False, True])
def test_values_go_along_if_the_user_says_so(finished, include):
    out, outcome = finished
    with zipfile.ZipFile(write_reports(out, outcome, Consent(include)).bundle) as bundle:
        assert ("inputs.safetensors" in bundle.namelist()) is include
        assert {"repro.py", "report.md", "report.html", "result.json", "minimal/case.json"} <= set(bundle.namelist())
        assert "/somewhere" not in bundle.read("minimal/case.json").decode()


def test_what_is_too_large_is_left_out_and_listed(tmp_path):
    text = "".join(str(hash(n)) for n in range(40_000)).encode()
    entries, left_out = fitting(
        {"repro.py": b"x = 1", "artifacts/graph.py": text, "inputs.safetensors": b"y" * 9000}, limit=(1 << 21) + 60_000
    )
    write_bundle(tmp_path / "bundle.zip", entries)
    assert left_out == (("artifacts/graph.py", len(text)),)
    assert (tmp_path / "bundle.zip").stat().st_size <= 60_000
    with zipfile.ZipFile(tmp_path / "bundle.zip") as file:
        assert file.namelist() == ["repro.py", "inputs.safetensors", "LEFT_OUT.txt"]
        assert f"artifacts/graph.py: {len(text)} bytes" in file.read("LEFT_OUT.txt").decode()
    assert not list(tmp_path.glob(".bundle*"))


def test_the_entries_of_the_bundle_are_named(finished):
    out, outcome = finished
    written = write_reports(out, outcome, Consent(True))
    with zipfile.ZipFile(written.bundle) as bundle:
        sizes = {entry.filename: entry.file_size for entry in bundle.infolist()}
    listed = (out / "report.md").read_text().partition("### Files in bundle.zip\n")[2]
    assert sizes == dict(written.entries) and all(name in listed for name in sizes)


def test_a_finished_run_is_read_back_as_it_was(finished):
    out, outcome = finished
    write_reports(out, outcome, Consent(True))
    reports = [(out / name).read_text() for name in ("report.md", "report.html", "result.json")]
    again, consent = read_finished(out)
    assert consent == Consent(True) and again.repro.text == outcome.repro.text and again.environment == "Python: 3"
    write_reports(out, again, consent)
    assert [(out / name).read_text() for name in ("report.md", "report.html", "result.json")] == reports


@pytest.mark.parametrize("level", [Level.DYNAMO, Level.SOURCE])
def test_scripts_of_the_graph_stay_where_the_script_itself_was_reduced(finished, level):
    """The reason why it was names them."""
    out, outcome = finished
    (out / "attempts" / "repro-1").mkdir(parents=True)
    write_reports(out, replace(outcome, case=replace(outcome.case, level=level)))
    assert (out / "attempts").exists() is (level is Level.SOURCE)


@pytest.mark.parametrize("damage", ["", "[]", "{}", '{"version": 9}', '{"version": 1, "status": "odd"}', "\0"])
def test_a_damaged_run_is_told(finished, damage):
    out, outcome = finished
    write_reports(out, outcome)
    (out / "finished.json").write_text(damage)
    with pytest.raises(UsageError, match=r"finished\.json is damaged"):
        read_finished(out)
    (out / "finished.json").unlink()
    with pytest.raises(UsageError, match="not the output folder"):
        read_finished(out)
