"""The passes by name, as journals, reports and `minify passes` have them."""

from minifier.passes.table import DATA, OF_VALUES, SIMPLIFICATIONS, TABLE

NAMES = [
    "ops",
    "bodies",
    "parts",
    "data",
    "bypass",
    "pairs",
    "withheld",
    "outputs",
    "merge",
    "operands",
    "items",
    "together",
    "arguments",
    "literals",
    "layout",
    "dtypes",
    "sizes",
    "dims",
    "static",
    "config",
    "switches",
    "environment",
    "training",
    "grad",
    "ambient",
    "options",
    "definitions",
]


def test_every_pass_is_in_the_table_in_the_order_in_which_it_is_tried():
    assert [name for name, _ in TABLE] == NAMES and DATA[0] == "data"
    assert [each.name for each in SIMPLIFICATIONS] == NAMES[4:-1]


def test_passes_that_take_away_what_the_user_set_are_marked_and_those_tried_one_by_one():
    assert [each.name for each in SIMPLIFICATIONS if each.asked] == ["static", "config", "switches", "options"]
    assert [each.name for each in SIMPLIFICATIONS if each.alone] == ["bypass", "pairs", "withheld", "together"]


def test_passes_after_which_the_graph_computes_something_else():
    assert list(OF_VALUES) == [
        "bypass", "pairs", "withheld", "outputs", "merge", "operands", "arguments", "literals", "layout", "dtypes",
        "sizes", "dims",
    ]  # fmt: skip
