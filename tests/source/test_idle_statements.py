"""What a script does not need goes before what has to be compiled to know: statements that do nothing."""

from minifier import search
from minifier.repro.source.reduce import reduce_source
from tests.source.fake_lab import FakeLab


def test_a_statement_that_an_edit_leaves_idle_goes_ahead_of_all_other_edits():
    def accepts(source):
        is_bound = "a.base = b" in source
        is_large = any(f"fail({number}" in source for number in range(500, 1001))
        return is_large and (is_bound or "a.base" not in source)

    def reduced(most):
        lab = FakeLab(accepts)
        budget = search.Budget(max_probes=most)
        text = "a.base = b\nfail(1000, a.base)\n"
        return reduce_source(lab, text, (), budget, wants=lambda name: name in ("elements", "numbers")), lab.asked_texts

    _, asked = reduced(None)
    assert reduced(asked.index("a.base = b\nfail(1000)\n") + 3)[0].source == "fail(1000)\n"
