"""What the options of run and reduce become, from the command line and the environment."""

import click
import pytest
import torch
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from minifier.capturing.script import Program
from minifier.data.failure import Aspect, Tolerance
from minifier.data.settings import Settings
from minifier.errors import UsageError
from minifier.flow.check_program import misspelt_backend
from minifier.flow.cli.commands import cli
from minifier.flow.cli.options import Options, reduction_options
from minifier.flow.known_backends import OF_TORCH
from minifier.reduction.passes.table import TABLE as GRAPH_PASSES
from minifier.repro.source.passes import TABLE as SCRIPT_PASSES

pytestmark = pytest.mark.timeout(60)


def settings_of(*arguments):
    """The settings of a command with these arguments."""
    found = {}

    @click.command()
    @reduction_options
    def command(**values):
        found.update(values)

    command.main(list(arguments), standalone_mode=False)
    return Options.of(found).settings


def test_each_command_is_told_in_a_line_that_is_whole():
    listed = CliRunner().invoke(cli, ["--help"], terminal_width=80).output.partition("Commands:")[2]
    assert all(f"  {name} " in listed for name in cli.commands) and "..." not in listed


def test_options_become_settings(tmp_path):
    assert settings_of() == Settings()
    file = tmp_path / "differs.py"
    file.write_text("def differs(compiled, eager):\n    return True\n")
    ignored = ["--ignore", "stride", "--ignore", "no-exception"]
    settings = settings_of("--compare", "always", "--rtol", "0.5", "--atol", "0", *ignored)
    measure = Tolerance(0.5, 0.0, (Aspect.STRIDE, Aspect.NO_EXCEPTION))
    assert (settings.compare, settings.measure) == ("always", measure)
    assert settings_of("--predicate", str(file)).measure == Tolerance(predicate=file.read_text())
    settings = settings_of("--match", "a+", "--match-log", "b+", "--timeout", "3", "--memory", "100")
    assert (settings.match, settings.match_log, settings.timeout, settings.memory) == ("a+", "b+", 3, 100 * 2**20)


def test_each_pass_that_is_listed_can_be_chosen_but_for_those_that_are_always_made():
    names = sorted({*dict(GRAPH_PASSES), *dict(SCRIPT_PASSES)} - {"ops", "statements"})
    assert sorted(settings_of("--passes", ",".join(names)).passes) == names
    for name in ("ops", "statements"):
        with pytest.raises(UsageError, match=name):
            settings_of("--skip-pass", name)


@pytest.mark.parametrize(("value", "said"), [("many", "--workers"), ("0", "--workers")])
def test_a_value_of_the_environment_is_refused_like_one_of_the_command_line(value, said):
    done = CliRunner().invoke(cli, ["run", "failing.py"], env={"MINIFY_WORKERS": value})
    assert done.exit_code == 2 and said in done.output


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("ru", ["run"]),
        ("run --backend induct", ["inductor"]),
        ("run --passes ops,siz", ["ops,sizes"]),
        ("reduce --skip-pass siz", ["sizes"]),
    ],
)
def test_what_is_typed_is_completed(typed, offered):
    *before, last = typed.split()
    found = ShellComplete(cli, {}, "minify", "_MINIFY_COMPLETE").get_completions(before, last)
    assert [each.value for each in found] == offered
    assert set(OF_TORCH) <= set(torch.compiler.list_backends(exclude_tags=()))


@pytest.mark.parametrize(
    ("backend", "near"), [("inductr", "inductor"), ("acme:compilr", "compiler"), ("acme:compiler", ""), ("other", "")]
)
def test_a_misspelt_backend_is_told_before_the_script_runs(tmp_path, monkeypatch, backend, near):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "acme.py").write_text("def compiler(gm, inputs):\n    return gm\n")
    said = misspelt_backend(Program("failing.py", backend=backend))
    assert bool(said) == bool(near) and near in said


def test_sources_are_listed_without_a_backend():
    shown, here = (
        CliRunner().invoke(cli, ["hunt", "--list", *of]) for of in ([], ["programs", __file__.rpartition("/")[0]])
    )
    assert shown.exit_code == 0 and "compose" in shown.output and "MODULE:NAME" in shown.output
    assert here.exit_code == 0 and "--backend" in here.output and "compose" not in here.output
