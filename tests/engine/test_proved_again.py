"""What the passes change may make an op removable: the ops are proved again on the simplified Case."""

from chains import chain, names
from fake_prober import passes, raises, targets, when

CASE = chain("cos", "sin", "exp", "tanh", "abs", shape=(4, 3))
BOTH = when(lambda case: {"sin", "tanh"} <= set(targets(case)), raises())


def rows(case):
    return case.inputs[0].meta.shape[0] if case.inputs else 0


def test_an_op_that_a_smaller_size_makes_removable_goes(reduce):
    needs_two = lambda case: "tanh" in targets(case) and ("sin" in targets(case) or rows(case) == 1)  # noqa: E731
    done = reduce(CASE, when(needs_two, raises()))
    assert names(done.case) == ["tanh"] and rows(done.case) == 1 and done.summary.one_minimal


def test_a_budget_that_ends_in_the_second_proof_leaves_it_open(reduce):
    whole = reduce(CASE, BOTH)
    assert names(whole.case) == ["sin", "tanh"] and whole.summary.one_minimal
    cut = reduce(CASE, BOTH, max_probes=whole.summary.probes["total"] - 1)
    assert not cut.summary.one_minimal and cut.summary.stopped_because


def test_an_op_without_an_answer_in_the_second_proof_leaves_it_open(reduce):
    def fault(case):
        return passes(seconds=1e9) if "sin" not in targets(case) and rows(case) == 1 else BOTH(case)

    done = reduce(CASE, fault)
    assert names(done.case) == ["sin", "tanh"] and not done.summary.one_minimal and done.summary.unanswered >= 1
