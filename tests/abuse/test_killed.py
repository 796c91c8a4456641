"""A reduction that is killed at any moment goes on where it was, and ends with the same."""

import json
import os
import random
import signal
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from clock import wait_until
from vocabulary import CASES, Bureau, in_child, reduced_at

from minifier.data.case.run_folder import JOURNAL
from minifier.data.case.store import load, write_atomically
from minifier.data.failure import Verdict
from minifier.errors import MinifyError, NoRepro, UsageError
from minifier.reduction.journal import BEGUN, Entry, Journal, read_known

pytestmark = pytest.mark.timeout(600)

SCRIPT = """
import torch
import picky


def fn(x):
    for n in range(40):
        x = torch.sin(x) + n
    x = torch.relu(x)
    for n in range(40):
        x = torch.cos(x) * n
    return x.exp()


with torch.no_grad():
    torch.compile(fn, backend="picky_wide_pair")(torch.randn(48, 16))
"""


def start(source: Path, out: Path) -> int:
    """A reduction in a process of its own."""
    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()
            sys.path[0] = str(CASES)
            reduced_at(source, out, workers=1)
            write_atomically(out / "ended", "well")
        except MinifyError as error:
            write_atomically(out / "ended", str(error))
        finally:
            os._exit(0)
    return pid


def lines_of(journal: Path) -> int:
    return journal.read_text().count("\n") if journal.exists() else 0


def reduced_in_spite_of_kills(source: Path, out: Path, chance: random.Random, probes: int, most: int) -> int:
    """A reduction that is killed up to so many times and begun again, until it has ended: how often it was.

    It is killed after some probes, at most so many.
    """
    out.mkdir()
    kills = 0
    while not (out / "ended").exists():
        pid = start(source, out)
        last = lines_of(out / JOURNAL) + chance.randint(1, probes) if kills < most else sys.maxsize

        def event(pid: int = pid, last: int = last) -> str:
            if os.waitpid(pid, os.WNOHANG) != (0, 0):
                return "it has ended"
            return "it is to be killed" if lines_of(out / JOURNAL) >= last else ""

        if wait_until(event) == "it is to be killed":
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            kills += 1
    assert (out / "ended").read_text() == "well"
    return kills


def whole_line(text: str) -> dict[str, Any] | None:
    """A line of a journal; None if a kill has cut it off."""
    try:
        return json.loads(text)
    except ValueError:
        return None


def ends_with_the_same(bureau: Bureau, number_of_kills: int) -> None:
    bureau.capture(SCRIPT)
    _, expected = bureau.reduce()
    probes = lines_of(bureau.folder / "out-1" / JOURNAL) // 2
    chance = random.Random(7)
    kills = number = 0
    while kills < number_of_kills:
        number += 1
        out = bureau.folder / f"killed-{number}"
        kills += reduced_in_spite_of_kills(bureau.graphs / "1", out, chance, probes, number_of_kills - kills)
        minimal = load(out / "minimal")
        assert minimal.graph == expected.graph and minimal.inputs == expected.inputs
        beside = ("check", "bodies", "parts")
        lines = [line for text in (out / JOURNAL).read_text().splitlines() if (line := whole_line(text))]
        asked = Counter(line["key"] for line in lines if line["phase"] not in beside)
        again = [key for key, times in asked.items() if times > 1]
        assert len(again) <= 1, "a probe whose answer was known was made again"
        assert not (out / BEGUN).exists()


@pytest.mark.soak
def test_killed_at_five_random_moments_it_ends_with_the_same(bureau: Bureau):
    ends_with_the_same(bureau, 5)


@pytest.mark.usefixtures("soak")
def test_killed_at_fifty_random_moments_it_ends_with_the_same(bureau: Bureau):
    ends_with_the_same(bureau, 50)


def test_what_the_machine_did_not_survive_is_not_tried_again(tmp_path):
    journal = Journal(tmp_path / JOURNAL)
    lasting, fatal = Entry("delete", "cd34"), Entry("simplify", "ab12")
    journal.begin([lasting])
    journal.end(lasting, Verdict.SAME, 0.1)
    journal.begin([fatal])
    journal.close(finished=False)
    known = read_known(tmp_path / JOURNAL)
    assert known.shown == {"cd34": True} and known.skipped == (), "the machine is still the same"
    begun = tmp_path / BEGUN
    begun.write_text(begun.read_text().replace('"boot": "', '"boot": "another'))
    known = read_known(tmp_path / JOURNAL)
    assert known.skipped == (fatal,) and known.answer("ab12", 9) is False


def test_what_killed_the_process_again_and_again_is_not_tried_for_ever(tmp_path):
    fatal = Entry("prove", "ab12")
    for times in range(5):
        assert read_known(tmp_path / JOURNAL).skipped == (), times
        journal = Journal(tmp_path / JOURNAL)
        journal.begin([fatal])
        journal.close(finished=False)
    known = read_known(tmp_path / JOURNAL)
    assert known.skipped == (fatal,) and known.shown == {"ab12": False}


def test_a_whole_graph_that_takes_the_machine_down_is_not_tried_again(bureau: Bureau):
    bureau.capture(SCRIPT)
    out = bureau.folder / "again"
    out.mkdir()
    journal = Journal(out / JOURNAL)
    journal.begin([Entry("check", "ab12")])
    journal.close(finished=False)
    (out / BEGUN).write_text((out / BEGUN).read_text().replace('"boot": "', '"boot": "another'))

    def work():
        sys.path[0] = str(CASES)
        with pytest.raises(NoRepro, match="It is not tried again"):
            reduced_at(bureau.graphs / "1", out)

    in_child(work, bureau.folder)


def test_two_at_once_in_one_folder(tmp_path):
    first = Journal(tmp_path / JOURNAL)
    with pytest.raises(UsageError, match="another minify is at work"):
        Journal(tmp_path / JOURNAL)
    first.close(finished=False)
    Journal(tmp_path / JOURNAL).close(finished=True)


@pytest.mark.parametrize("damage", ["", "{", '{"phase": 3}\n', "[]\n", '"x"\n', "\0\0\0", '{"begun": 7}\n', "\n\n"])
def test_a_damaged_journal_says_less(tmp_path, damage):
    journal = Journal(tmp_path / JOURNAL)
    journal.begin([Entry("prove", "1")])
    journal.end(Entry("prove", "1"), Verdict.PASS, 0.1)
    journal.close(finished=False)
    for name in (JOURNAL, BEGUN):
        with (tmp_path / name).open("a") as file:
            file.write(damage)
    assert read_known(tmp_path / JOURNAL).shown == {"1": False}
    more = Journal(tmp_path / JOURNAL)
    more.end(Entry("prove", "2"), Verdict.SAME, 0.1)
    more.close(finished=False)
    assert read_known(tmp_path / JOURNAL).shown == {"1": False, "2": True}
