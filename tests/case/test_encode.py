"""Plain data to JSON and back."""

import json
import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from minifier.case import Ref
from minifier.case.decode import unpack_arg
from minifier.case.encode import pack_arg
from minifier.case.literals import index, literal
from minifier.case.values import Constant, Imported, Size
from minifier.errors import CannotSave

NAMES = st.just("x")
NUMBERS = st.one_of(st.integers(), st.floats(), st.complex_numbers(), st.booleans())
HASHABLE = st.one_of(
    st.none(), st.integers(), st.booleans(), st.text(max_size=5), st.tuples(st.integers(), st.text(max_size=2))
)
CONSTANTS = st.sampled_from(
    [
        Constant("dtype", "float32"),
        Constant("dtype", "float8_e4m3fn"),
        Constant("device", "cpu"),
        Constant("device", "cuda:1"),
        Constant("layout", "strided"),
        Constant("memory_format", "channels_last"),
        Imported("torch.nn.functional.gelu"),
        Imported("acme:Mode.FAST"),
    ]
)
ENDS = st.one_of(st.none(), st.integers(-9, 9), NAMES.map(Ref))
LEAVES = st.one_of(
    st.none(), NUMBERS, st.text(max_size=8), st.just(...), CONSTANTS, NAMES.map(Ref),
    st.builds(slice, ENDS, ENDS, ENDS), st.builds(range, st.integers(0, 9), st.integers(0, 9)),
    st.lists(ENDS, max_size=3).map(lambda items: Size(tuple(items))), st.frozensets(HASHABLE, max_size=3).map(set),
)  # fmt: skip
ARGUMENTS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(HASHABLE, inner, max_size=3),
    ),
    max_leaves=8,
)


def shown(value):
    """Equality that tells 1 from True, 0.0 from -0.0 and takes nan for itself."""
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [shown(item) for item in value]
    if isinstance(value, set):
        return "set", sorted(map(repr, map(shown, value)))
    if isinstance(value, dict):
        return "dict", [(shown(key), shown(item)) for key, item in value.items()]
    if isinstance(value, slice):
        return "slice", shown((value.start, value.stop, value.step))
    if isinstance(value, Size):
        return "Size", shown(value.items)
    return type(value).__name__, repr(value)


@given(ARGUMENTS)
def test_any_argument_comes_back_through_json(value):
    written = json.dumps(pack_arg(value), allow_nan=False)
    assert shown(unpack_arg(json.loads(written))) == shown(value)


@pytest.mark.parametrize("value", [b"bytes", object(), lambda: None, {"a": object()}, [slice(object(), 1)]])
def test_what_has_no_readable_form_is_named(value):
    with pytest.raises(CannotSave, match=r"a value of type builtins\.\w+"):
        pack_arg(value)


NOT_ZERO = st.floats().filter(bool)  # a zero's sign is lost in what Python itself writes for a complex number
LITERALS = st.recursive(
    st.one_of(
        st.none(),
        st.integers(),
        st.booleans(),
        st.floats(),
        st.builds(complex, NOT_ZERO, NOT_ZERO),
        st.text(max_size=8),
        st.just(...),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(HASHABLE, inner, max_size=3),
        st.frozensets(HASHABLE, max_size=3).map(set),
    ),
    max_leaves=6,
)


@given(LITERALS)
@example(complex(math.inf, -math.nan))
@example([complex(-1.5, -math.inf)])
@example(-0.0)
def test_a_literal_is_python_for_the_value(value):
    assert shown(eval(literal(value), {})) == shown(value)


class Subscript:
    def __getitem__(self, item):
        return item


ENDS_OF_NUMBERS = st.none() | st.integers(-9, 9)
PARTS = st.one_of(
    st.integers(-9, 9), st.none(), st.just(...), st.lists(st.integers(0, 3), max_size=2), st.booleans(),
    st.builds(slice, ENDS_OF_NUMBERS, ENDS_OF_NUMBERS, ENDS_OF_NUMBERS),
    st.lists(st.integers(0, 3), max_size=2).map(tuple),
)  # fmt: skip


@given(st.one_of(PARTS, st.lists(PARTS, max_size=3).map(tuple)))
def test_what_stands_between_brackets_means_the_same_index(value):
    assert shown(eval(f"subscript[{index(value)}]", {"subscript": Subscript()})) == shown(value)
