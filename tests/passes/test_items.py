"""Results of an op of several that nothing needs."""

from case_text import case_of
from pass_rows import is_shown, made

TOPK = """
    x: float32[4]
    topk: (float32[2], int64[2]) = torch.topk(x, 2)
    values: float32[2] = operator.getitem(topk, 0)
    places: int64[2] = operator.getitem(topk, 1)
    return values, places
"""


def test_items_that_no_op_reads_go_one_by_one():
    found = made("items", case_of(TOPK))
    assert list(found) == ["item values", "item places"]
    assert is_shown(
        found["item values"][0],
        """
        x: float32[4]
        topk: (float32[2], int64[2]) = torch.topk(x, 2)
        places: int64[2] = operator.getitem(topk, 1)
        return places,
        """,
    )
