"""What the options of run and reduce become."""

import click
import pytest
from click.testing import CliRunner

from minifier.cli.commands import cli
from minifier.cli.options import Options, reduction_options
from minifier.errors import UsageError
from minifier.failure import Aspect, Tolerance
from minifier.passes.table import TABLE as GRAPH_PASSES
from minifier.settings import Settings
from minifier.source.passes import TABLE as SCRIPT_PASSES

pytestmark = pytest.mark.timeout(60)


def given(*arguments):
    """The values that click hands to a command with these arguments."""
    found = {}

    @click.command()
    @reduction_options
    def command(**values):
        found.update(values)

    command.main(list(arguments), standalone_mode=False)
    return found


def settings_of(values):
    return Options.of(values).settings


def test_each_command_is_told_in_a_line_that_is_whole():
    shown = CliRunner().invoke(cli, ["--help"], terminal_width=80).output
    listed = shown.partition("Commands:")[2]
    assert all(f"  {name} " in listed for name in cli.commands) and "..." not in listed


def test_without_options():
    settings = settings_of(given())
    assert settings == Settings() and settings.compare == "auto"


def test_how_results_are_compared(tmp_path):
    file = tmp_path / "differs.py"
    file.write_text("def differs(compiled, eager):\n    return True\n")
    ignored = ["--ignore", "stride", "--ignore", "no-exception"]
    settings = settings_of(given("--compare", "always", "--rtol", "0.5", "--atol", "0", *ignored))
    measure = Tolerance(0.5, 0.0, (Aspect.STRIDE, Aspect.NO_EXCEPTION))
    assert (settings.compare, settings.measure) == ("always", measure)
    assert settings_of(given("--predicate", str(file))).measure == Tolerance(predicate=file.read_text())


def test_each_pass_that_is_listed_can_be_chosen_but_for_those_that_are_always_made():
    names = sorted({*dict(GRAPH_PASSES), *dict(SCRIPT_PASSES)} - {"ops", "statements"})
    assert sorted(settings_of(given("--passes", ",".join(names))).passes) == names
    for name in ("ops", "statements"):
        with pytest.raises(UsageError, match=f"the pass {name} is always made"):
            settings_of(given("--skip-pass", name))


def test_patterns_and_limits():
    settings = settings_of(given("--match", "a+", "--match-log", "b+", "--timeout", "3", "--memory", "100"))
    assert (settings.match, settings.match_log, settings.timeout) == ("a+", "b+", 3)
    assert settings.memory == 100 * 2**20
