"""What the options of run and reduce become, from the command line, [tool.minify] and the environment."""

import click
import pytest
from click.testing import CliRunner

from minifier.data.failure import Aspect, Tolerance
from minifier.data.settings import Settings
from minifier.errors import UsageError
from minifier.flow.cli.commands import cli
from minifier.flow.cli.options import Options, reduction_options
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


@pytest.fixture
def shown(tmp_path, monkeypatch):
    """Write a pyproject.toml above the current folder; return what `--show-config` prints by option."""

    def write(text, command="run", status=0, **environment):
        (tmp_path / "pyproject.toml").write_text(text)
        (tmp_path / "sub").mkdir(exist_ok=True)
        monkeypatch.chdir(tmp_path / "sub")
        done = CliRunner().invoke(cli, [command, "--show-config"], env=environment)
        assert done.exit_code == status, done.output
        if status:
            return done.output
        return {line.partition(" ")[0]: line.split()[1:] for line in done.output.splitlines()}

    return write


def test_the_environment_comes_before_the_file_and_the_file_before_the_default(shown, tmp_path):
    table = "[tool.minify]\ntimeout = 5\nworkers = 3\nskip-pass = ['sizes', 'dtypes']\nquiet = true\n"
    options = shown(table, MINIFY_WORKERS="2", MINIFY_MAX_PROBES="40")
    path = str(tmp_path / "pyproject.toml")
    assert options["timeout"] == ["5.0", path] and options["workers"] == ["2", "MINIFY_WORKERS"]
    assert options["skip-pass"] == ["sizes,", "dtypes", path] and options["quiet"] == ["True", path]
    assert options["max-probes"] == ["40", "MINIFY_MAX_PROBES"] and options["memory"] == ["default"]
    options = shown("[tool.minify]\nbackend = 'speedy'\nverify = 1\n", "reduce")
    assert options["verify"][0] == "1" and "backend" not in options
    assert shown("[tool.other\n")["timeout"] == ["default"], "somebody else's file"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[tool.minify]\ntimeout = 'long'\n", "timeout = 'long'"),
        ("[tool.minify]\ntimeouts = 3\n", "timeouts"),
        ("[tool.minify]\npredicate = 'differs.py'\n", "predicate"),
        ("[tool]\nminify = 3\n# tool.minify", "tool.minify"),
        ("[tool.minify\n", "TOML"),
    ],
)
def test_a_wrong_table_is_told_with_its_place(shown, tmp_path, text, said):
    output = " ".join(shown(text, status=2).split())
    assert said in output and str(tmp_path / "pyproject.toml") in output


def test_a_value_of_the_environment_is_refused_like_one_of_the_command_line(shown):
    assert "--workers" in shown("", status=2, MINIFY_WORKERS="many")


def test_a_run_uses_the_table(minify, project):
    project.write("[tool.minify]\nbackend = 'no-such-backend'\n", "pyproject.toml")
    done = minify("import torch\ntorch.compile(torch.sin)(torch.ones(2))")
    assert done.code == 1 and "no-such-backend" in done.stderr
