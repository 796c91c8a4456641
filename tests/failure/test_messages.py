"""Pairs of messages of real compilers: of one failure, or of two.

The files in messages/ hold groups. A group begins with the source of its first message: the public thread where it was
reported, or the file or call that makes it. The message is shortened. The other `same` messages have what another graph
changes: names, numbers, sizes, quoted context. The `other` messages are of different failures of that compiler.
"""

import re
from itertools import combinations, product
from pathlib import Path

from minifier.data.failure import Fingerprint, Kind, Stage, same
from minifier.data.failure.normalise import normalise

FOLDER = Path(__file__).parent / "messages"
MAX_MISSES = 0.03  # of the pairs of one failure


def read_pairs():
    """Give (compiler and source, whether both are messages of one failure, the two messages) for each pair."""
    for file in sorted(FOLDER.glob("*.txt")):
        for group in re.split(r"^== ", file.read_text(), flags=re.MULTILINE)[1:]:
            source, *rest = re.split(r"^-- (same|other)\n", group, flags=re.MULTILINE)
            texts = list(zip(rest[::2], rest[1::2], strict=True))
            messages, others = ([text for kind, text in texts if kind == wanted] for wanted in ("same", "other"))
            name = f"{file.stem} {source.strip()}"
            yield from ((name, True, pair) for pair in combinations(messages, 2))
            yield from ((name, False, pair) for pair in product(messages, others))


PAIRS = list(read_pairs())


def identity(message):
    return Fingerprint(Stage.COMPILE, Kind.EXCEPTION, ("RuntimeError",), message=normalise(message))


def wrong_pairs():
    """Return (source, whether both are one failure, normalised texts) of each pair that is judged wrongly."""
    return [
        (source, is_same, f"{source}\n{normalise(one)}\n--\n{normalise(other)}")
        for source, is_same, (one, other) in PAIRS
        if same(identity(one), identity(other)) is not is_same
    ]


def test_messages_of_one_failure_are_recognised_and_of_two_are_told_apart():
    wrong = wrong_pairs()
    misses, false_alarms = ([texts for _, is_same, texts in wrong if is_same is kind] for kind in (True, False))
    assert not false_alarms, "\n\n".join(false_alarms)
    assert len(misses) < MAX_MISSES * sum(is_same for _, is_same, _ in PAIRS), "\n\n".join(misses)
