"""What of a message counts, and what does not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minifier.data.failure import Fingerprint, Kind, Stage, same
from minifier.data.failure.normalise import headline, normalise, printable, share_words, without_context, words


@given(st.text(max_size=400))
def test_normalising_never_fails_and_is_stable_once_split_into_words(text):
    assert words(normalise(text)) == words(normalise(text))
    assert len(normalise(text)) <= 3 * len(text) + 600


@given(st.lists(st.integers(-(10**6), 10**6), min_size=1, max_size=5), st.integers(0, 2**48))
def test_numbers_shapes_and_addresses_never_matter(sizes, address):
    said = normalise(f"bad shape {sizes} at {address:#x} after {len(sizes)} steps")
    assert said == "bad shape <shape> at <address> after <number> steps"


def numbered(count, last="end"):
    """A message of so many lines that accuse nothing."""
    return "\n".join(["first", *("word " * (i + 1) for i in range(count - 2)), last])


def test_six_lines_are_judged_whole_and_of_seven_the_first_and_the_last():
    assert normalise(numbered(6)).count("\n") == 5
    assert normalise(numbered(7)) == "first\nend"


def test_a_long_line_is_judged_by_its_beginning_and_a_line_that_accuses():
    long = "x" * 600
    assert normalise(long) == long and normalise(f"{long}\nend") == long
    assert normalise(f"first\n\n \n{'y' * 600}\n a.cpp:3: error: no \u2018table\u2019 here\nerror: two\nend") == (
        "first\nerror: no \u2018table\u2019 here"
    )
    assert normalise(f"error: one\n{'y' * 600}") == f"error: one\n{'y' * 589}"


def test_of_more_than_20_000_characters_both_ends_are_looked_at():
    half = f"first\n{'x' * 9_987}\nerror:"
    assert len(half) == 10_000
    assert normalise(f"{half} {'y' * 9_999}").startswith("first\nerror: yyy")
    assert not normalise(f"{half} {'y' * 10_000}").startswith("first\nerror: yyy")
    assert normalise(f"{half}middle{'z' * 9_989}\nerror: end") == "first\nerror: end"


def test_a_message_is_split_into_names_places_and_signs():
    assert words("aten.add.Tensor: <shape> of x, 'y_1'") == [
        "aten.add.Tensor", ":", "<shape>", "of", "x", ",", "'", "y_1", "'",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("", ""),
        ("\n  no kernel for tanh\nsee the log", "no kernel for tanh"),
        (
            "from core.cpp:117:\n\nCheck failed:\n  no such weights\nmore",
            "from core.cpp:117: Check failed: no such weights",
        ),
        ("it failed:", "it failed:"),
        ("a:\nb:\nc:\nd:\ne", "a: b: c:"),
        ("x" * 301, "x" * 300 + " ..."),
        ("C++ compile error\n\nOutput:\n/tmp/k.cpp:3:9: error: no exp", "C++ compile error: no exp"),
        ("'cc -O2 -o k.so' failed\nk.c:1:2: fatal error: no a.h\nmore", "'cc ...' failed: no a.h"),
        ("k.c:1:2: error: no exp", "k.c:1:2: error: no exp"),
        ("<a.B object at 0x7f26caacea40> of 0x55d0c8a1b2f0: error 0x80004005", "<a.B object> of: error 0x80004005"),
    ],
)
def test_the_headline_of_a_message(message, expected):
    assert headline(message) == expected


@pytest.mark.parametrize(
    ("one", "other", "share"),
    [
        ("no kernel for tanh", "no kernel for relu in session amber", True),
        ("no kernel for tanh", "tanh for kernel no", False),
        ("no kernel for tanh", "out of memory", False),
        ("no kernel", "a kernel", True),
        ("", "anything", True),
    ],
)
def test_messages_that_share_half_of_their_words(one, other, share):
    assert share_words(one, other) is share_words(other, one) is share


FRAMES = '  File "/home/me/model.py", line 3, in forward\n    return torch.topk(x, 1)\n           ^^^^^^^^^^^^^^^^\n'
GRAPH = "graph():\n    %x : [num_users=1] = placeholder[target=x]\n    return (%topk,)"


@pytest.mark.parametrize("context", [FRAMES, 7 * FRAMES, GRAPH])
def test_a_quotation_leaves_the_rest(context):
    assert normalise(f"topk is not supported\n{context}\nuse sort") == "topk is not supported\nuse sort"
    assert normalise(f"topk is not supported\n{context}") == "topk is not supported"


def test_a_stack_goes_with_its_heading():
    assert without_context(f"no\nTraceback (most recent call last):\n{FRAMES}yes") == "no\nyes"
    assert without_context(f"no table:\n{FRAMES}yes") == "no table:\nyes"


def identity(message):
    return Fingerprint(Stage.COMPILE, Kind.EXCEPTION, ("E",), message=normalise(message))


@pytest.mark.parametrize("stack", [FRAMES.strip(), FRAMES, None, 3 * FRAMES])
@pytest.mark.parametrize("template", ["no topk at {}", "no topk\n{}", "no topk\nStack trace:\n{}\nuse sort"])
def test_a_graph_without_stacks_shows_the_same_failure(template, stack):
    assert same(identity(template.format(FRAMES)), identity(template.format(stack)))
    assert not same(identity(template.format(FRAMES)), identity(template.format(stack).replace("topk", "sort")))


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "message",
    [
        "cannot tile: got block sizes [" + "1024, " * 40 + "None]",
        "[" + "1 " * 5000 + "x",
        "Command a " * 8000,
        "\n" * 50_000 + "x",
        "x" * 30_000_000,
        "/a" * 50_000,
        "{'a', " * 20_000,
        *(
            f"stack\n{text}\n{FRAMES}"
            for text in ("(" * 100_000, 'File "' * 30_000, "tensor([" * 20_000, "* " * 200_000)
        ),
    ],
    ids=["sizes", "blanks", "commands", "lines", "length", "paths", "sets", "brackets", "files", "tensors", "stars"],
)
def test_a_message_of_any_length_is_short_in_the_end(message):
    assert len(normalise(message)) <= 600


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("no kernel\n\tfor it", "no kernel\n\tfor it"),
        ("\x1b[1;31merror\x1b[0m: no tile", "error: no tile"),
        ("\x1b]0;owned\x07\x1b[2J\r", r"\x1b]0;owned\x07\x1b[2J\r"),
        ("pass\u202egnp\u200b", r"pass\u202egnp\u200b"),
        ("\udc80", r"\udc80"),
        ("演算子\u3000ö\xa0é می\u200cشود", "演算子\u3000ö\xa0é می\u200cشود"),
    ],
    ids=["plain", "colours", "a terminal's title", "hidden", "no UTF-8", "other scripts"],
)
def test_only_what_moves_a_cursor_or_hides_text_is_escaped(text, shown):
    assert printable(text) == shown and printable(shown) == shown


def test_colours_tell_no_failures_apart():
    assert normalise("\x1b[1;31merror\x1b[0m: no tile of 3") == normalise("error: no tile of 5")


def test_a_cell_of_a_table_has_no_second_line():
    assert printable("a\nb", kept="") == r"a\nb"
