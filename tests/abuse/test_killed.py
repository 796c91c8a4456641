"""A reduction that is killed at any moment goes on where it was, and ends with the same."""

import pytest

from minifier.data.case.run_folder import JOURNAL
from minifier.data.failure import Verdict
from minifier.errors import UsageError
from minifier.reduction.journal import BEGUN, Entry, Journal, read_known

pytestmark = pytest.mark.timeout(600)


def test_what_the_machine_did_not_survive_is_not_tried_again(tmp_path):
    journal = Journal(tmp_path / JOURNAL)
    lasting, fatal = Entry("delete", "cd34"), Entry("simplify", "ab12")
    journal.begin([lasting])
    journal.end(lasting, Verdict.SAME, 0.1)
    journal.begin([fatal])
    journal.close(finished=False)
    known = read_known(tmp_path / JOURNAL)
    assert known.verdicts == {"cd34": Verdict.SAME} and known.skipped == (), "the machine is still the same"
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
    assert known.skipped == (fatal,) and known.answer("ab12", 9) is False


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
    assert read_known(tmp_path / JOURNAL).verdicts == {"1": Verdict.PASS}
    more = Journal(tmp_path / JOURNAL)
    more.end(Entry("prove", "2"), Verdict.SAME, 0.1)
    more.close(finished=False)
    assert read_known(tmp_path / JOURNAL).verdicts == {"1": Verdict.PASS, "2": Verdict.SAME}
