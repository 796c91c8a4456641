"""What the passes change may make an op removable: the ops are proved again on the simplified Case."""

from chains import chain, names
from fake_prober import passes, raises, targets, when

from minifier.failure import Verdict


def rows(case):
    return case.inputs[0].meta.shape[0] if case.inputs else 0


def needs_two(case):
    """The op alone suffices where the input has one row."""
    return "tanh" in targets(case) and ("sin" in targets(case) or rows(case) == 1)


def test_an_op_that_a_smaller_size_makes_removable_goes(reduce):
    done = reduce(chain("cos", "sin", "exp", "tanh", "abs", shape=(4, 3)), when(needs_two, raises()))
    assert names(done.case) == ["tanh"] and rows(done.case) == 1
    assert (
        done.summary.one_minimal and done.summary.ops_after == 1 and set(done.summary.passes.values()) == {"fixpoint"}
    )


def proofs(done):
    """The probes of the second proof; a pass has tried the graph without its last op."""
    return [line for line in (done.folder / "journal.jsonl").read_text().splitlines() if '"phase": "again"' in line]


def test_where_no_pass_changes_anything_nothing_is_proved_again(reduce):
    fault = when(lambda case: {"sin", "tanh"} <= set(targets(case)), raises())
    done = reduce(chain("cos", "sin", "tanh", shape=(1,)), fault, passes=())
    assert names(done.case) == ["sin", "tanh"] and proofs(done) == []


def test_a_budget_that_ends_in_the_second_proof_leaves_it_open(reduce):
    case = chain("cos", "sin", "exp", "tanh", "abs", shape=(4, 3))
    fault = when(lambda case: {"sin", "tanh"} <= set(targets(case)), raises())
    whole = reduce(case, fault)
    number = whole.summary.probes["total"]
    assert len(proofs(whole)) == 1 and whole.summary.one_minimal
    cut = reduce(case, fault, max_probes=number - 1)
    assert not cut.summary.one_minimal and cut.summary.stopped_because == "the probe budget was used up"


def test_an_op_without_an_answer_in_the_second_proof_leaves_it_open(reduce):
    def fault(case):
        if "sin" not in targets(case) and rows(case) == 1:
            return passes(seconds=1e9)
        return raises() if {"sin", "tanh"} <= set(targets(case)) else passes()

    done = reduce(chain("cos", "sin", "exp", "tanh", "abs", shape=(4, 3)), fault)
    assert names(done.case) == ["sin", "tanh"] and not done.summary.one_minimal and done.summary.unanswered >= 1
    assert done.summary.probes[Verdict.UNRESOLVED.value] >= 1
