"""Rows of edits: merged, galloped over, and not tried again where that has no use."""

import contextlib

import libcst as cst

from minifier import search
from minifier.data.failure import Verdict
from minifier.repro.source.edit_search import EditSearch, Stopped, is_readable
from minifier.repro.source.script import Edit
from tests.source.fake_lab import FakeLab

SOURCE = "".join(f"{name}\n" for name in "abcdefghijklmnop")


def words(script):
    """The removal of each statement."""
    return [Edit({node: []}) for node in script.tree.statements]


def names(*texts):
    """The replacement of each of these names by another."""
    return lambda script: [
        Edit({node: [cst.Name("z")]}) for node in script.nodes if isinstance(node, cst.Name) and node.value in texts
    ]


def searched(accepts, lister=words, is_doubtful=False, **budget):
    lab = FakeLab(accepts)
    edits = EditSearch(lab, SOURCE, search.Budget(**budget))
    with contextlib.suppress(Stopped):
        edits.run("words", lister, is_doubtful)
    return edits.source.split(), lab.total, edits


def test_the_needed_word_is_found_by_halving():
    left, probes, _ = searched(lambda source: "f" in source)
    assert left == ["f"] and probes <= 8


def test_doubtful_edits_begin_singly():
    def accepts(source):
        return set("abcdefgh") <= set(source)

    left, probes, _ = searched(accepts, is_doubtful=True)
    assert left == list("abcdefgh") and probes <= 13
    assert probes < searched(accepts)[1]


def test_a_refused_edit_is_tried_again_once_and_only_if_the_script_passed():
    lab = FakeLab(lambda source: "f" in source)
    edits = EditSearch(lab, SOURCE, search.Budget())
    edits.run("words", words)
    before = lab.total
    edits.run("words", words)
    assert lab.total == before and edits.reopen() and not edits.reopen()
    lab.accepts = lambda source: True
    lab.verdicts.clear()
    edits.run("words", words)
    assert edits.source.split() == [] and lab.total == 1


def test_an_edit_that_broke_the_script_is_not_tried_again():
    lab = FakeLab(lambda source: "f" in source)
    lab.refusal = Verdict.OTHER
    edits = EditSearch(lab, SOURCE, search.Budget())
    edits.run("words", words)
    assert not edits.reopen()


def test_edits_of_a_line_of_which_one_was_refused_come_last():
    source = "f(a1)(a2)\nf(b1)(b2)\n"
    lab = FakeLab(lambda source: "a1" in source and "a2" in source)
    edits = EditSearch(lab, source, search.Budget())
    edits.run("a name", names("a1"))
    lab.asked_texts.clear()
    edits.run("names", names("a1", "a2", "b1", "b2"))
    assert lab.asked_texts[0] == "f(a1)(a2)\nf(z)(z)\n"


def test_no_more_probes_than_the_budget():
    left, probes, _ = searched(lambda source: "f" in source, max_probes=3)
    assert probes == 3 and "f" in left and len(left) < 16


def test_no_source_comes_back():
    def swap(script):
        node = script.tree.statements[0]
        return [Edit({node: [cst.Expr(cst.Name("b" if node.value.value == "a" else "a"))]})]

    left, probes, _ = searched(lambda source: True, swap)
    assert left[0] == "b" and probes == 1


def test_the_names_of_functions_that_an_edit_moves_are_known_to_its_probe():
    lab = FakeLab(lambda source: True)
    seen = []
    lab.accepts = lambda source: seen.append(lab.moved) or "a" in source
    edits = EditSearch(lab, SOURCE, search.Budget())
    edits.run(
        "good", lambda script: [Edit({script.tree.statements[1]: []}, (("f", "g"),))] if "b" in script.source else []
    )
    edits.run("bad", lambda script: [Edit({script.tree.statements[0]: []}, (("g", "h"),))])
    assert seen == [(("f", "g"),), (("f", "g"), ("g", "h"))] and lab.moved == (("f", "g"),)


def test_an_edit_that_leads_to_a_source_that_cannot_be_read_is_refused(monkeypatch):
    unreadable = SOURCE.replace("b\n", "")
    monkeypatch.setattr("minifier.repro.source.edit_search.is_readable", lambda _, source: source != unreadable)
    edits = EditSearch(FakeLab(lambda source: "a" in source), SOURCE, search.Budget())
    edits.run("words", lambda script: words(script)[1:2])
    assert edits.source == SOURCE


def test_a_chain_of_many_calls_can_be_read():
    lab = FakeLab(lambda _: True)
    assert is_readable(lab, "x = a" + ".relu()" * 300 + "\n") and not is_readable(lab, "x = = a\n")
    assert lab.warnings == []
