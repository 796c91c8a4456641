"""The folder of a hunt, and its pages."""

import json
from dataclasses import replace

import pytest
from case_samples import small_case

from minifier.data.case.store import save
from minifier.data.failure import Kind, Stage
from minifier.errors import UsageError
from minifier.flow.hunt.exploring import HuntOptions
from minifier.flow.hunt.known import gone, new_failures, read_known, write_known
from minifier.flow.hunt.page import write_pages
from minifier.flow.hunt.programs import Program, ProgramFilter
from minifier.flow.hunt.records import ProgramResult, Records
from minifier.flow.hunt.summary import distinct
from minifier.flow.hunt.trial import Answer

HOSTILE = "<script>alert('&')</script>"


def program(subject):
    return Program(subject, "float32", 0, lambda: None, "ops")


@pytest.fixture
def records(tmp_path):
    """A hunt with a failing operator, whose name and message are hostile, one that works, and one without a graph."""
    records = Records(tmp_path / "out")
    records.begin({"backend": "mine"})
    case = small_case()
    save(replace(case, failure=replace(case.failure, message=HOSTILE)), tmp_path / "found" / "case")
    group = records.add(program(HOSTILE).name, program(HOSTILE).kin, tmp_path / "found", case.failure)
    records.note(ProgramResult("ops", HOSTILE, "float32", 0, Answer.FAILS, HOSTILE, group.number))
    records.note(ProgramResult("ops", "neg", "float32", 0, Answer.WORKS))
    records.note(ProgramResult("ops", "item", "float32", 0, Answer.NO_GRAPH, "Data dependent operator"))
    records.note(ProgramResult("ops", "lost", "float32", 0, Answer.FAILS, "it died; its graphs cannot be recorded"))
    return records


def test_a_hunt_is_read_as_it_was_written(records):
    again = Records(records.folder)
    assert again.tried == records.tried
    assert [(each.number, each.kin, each.folder) for each in again.groups] == [(1, HOSTILE, records.groups[0].folder)]


def test_a_reduction_whose_time_was_up_is_not_at_its_end(records):
    (group,) = records.groups
    for status, is_reduced in (("stopped", False), ("no-repro", True), ("reduced", True)):
        (group.folder.path / "result.json").write_text(f'{{"status": "{status}"}}')
        assert (group.is_reduced, distinct(records)[0].status) == (is_reduced, status)


def test_another_hunt_or_a_damaged_line_is_refused(records):
    with pytest.raises(UsageError, match=r"hunt\.json"):
        Records(records.folder).begin({"backend": "other"})
    lines = records.folder / "results.jsonl"
    lines.write_text(lines.read_text().replace('"works"', '"worked"'))
    with pytest.raises(UsageError, match="line 2"):
        Records(records.folder)


def test_only_an_exception_with_a_message_is_one_failure_of_several_operators(records):
    failure = records.groups[0].failure
    assert failure.fingerprint.kind is Kind.EXCEPTION
    assert records.group_for(failure, "other") is records.groups[0]
    silent = replace(failure, fingerprint=replace(failure.fingerprint, message=""))
    wrong = replace(failure, fingerprint=replace(failure.fingerprint, kind=Kind.WRONG_RESULT, stage=Stage.COMPARE))
    for other in (silent, wrong):
        records.groups[0] = replace(records.groups[0], failure=other)
        assert records.group_for(other, "other") is None
        assert records.group_for(other, HOSTILE) is records.groups[0]


def test_the_pages_say_what_fails_and_show_hostile_texts_as_texts(records, monkeypatch):
    monkeypatch.setenv("HUNT_TOKEN", "Data dependent")
    write_pages(HuntOptions("mine", (), ("ops",), ProgramFilter()), records)
    summary = json.loads((records.folder / "summary.json").read_text())
    assert summary["sentence"] == "mine: 1 of 3 in float32 work; 1 failure without a repro, the worst costs 1 program"
    assert summary["failures"][0]["status"] == "not reduced"
    pages = {
        name: (records.folder / name).read_text() for name in ("index.html", "report.md", "junit.xml", "results.csv")
    }
    assert "alert" in pages["index.html"] and "<script>alert" not in pages["index.html"] + pages["junit.xml"]
    assert all("lost" in pages[name] for name in ("index.html", "junit.xml", "results.csv"))
    assert "its graphs cannot be recorded" in pages["report.md"] and "<secret> operator" in pages["report.md"]


def test_known_failures_are_an_entry_each_and_one_that_is_gone_is_told(records, tmp_path):
    path = tmp_path / "known.toml"
    result = {"status": "reduced", "failure": {"key": "0123456789ab"}, "origins": [{"op": "torch.neg"}]}
    (records.groups[0].folder.path / "result.json").write_text(json.dumps(result))
    failures = distinct(records)
    assert read_known(path, True) == {} and len(new_failures(records, failures, {})) == 2
    write_known(path, new_failures(records, failures, {}))
    known = read_known(path, False)
    assert known["0123456789ab"].program == f"ops: {HOSTILE} float32 0" and known["0123456789ab"].since
    assert read_known(records.folder, False).keys() == known.keys(), "that hunt itself"
    assert new_failures(records, failures, known) == {}
    (left,) = new_failures(records, failures, {"0123456789ab": known["0123456789ab"]})
    assert "lost" in left
    fixed = replace(known["0123456789ab"], program="ops: neg float32 0")
    assert gone(records, failures, {"0123456789ab": fixed}) == []
    assert gone(records, [], {"0123456789ab": fixed}) == ["0123456789ab"]
    path.write_text("[a]\nunknown = 1\n")
    with pytest.raises(UsageError, match="--known"):
        read_known(path, False)
