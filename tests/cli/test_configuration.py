"""Options from [tool.minify] and from the environment."""

import pytest
from click.testing import CliRunner

from minifier.cli.commands import cli


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
    assert options["max-probes"] == ["40", "MINIFY_MAX_PROBES"] and options["verify"] == ["3", "default"]
    assert options["memory"] == ["default"]


def test_reduce_takes_what_it_has_of_the_table(shown):
    options = shown("[tool.minify]\nbackend = 'speedy'\nverify = 1\n", "reduce")
    assert options["verify"][0] == "1" and "backend" not in options


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[tool.minify]\ntimeout = 'long'\n", "timeout = 'long': 'long' is not a valid number"),
        ("[tool.minify]\ntimeouts = 3\n", "must not have `timeouts`; it may have all, atol,"),
        ("[tool.minify]\npredicate = 'differs.py'\n", "must not have `predicate`"),
        ("[tool]\nminify = 3\n# tool.minify", "is no table"),
        ("[tool.minify\n", "is no TOML"),
    ],
)
def test_a_wrong_table_is_told_with_its_place(shown, tmp_path, text, said):
    output = " ".join(shown(text, status=2).split())
    assert said in output and str(tmp_path / "pyproject.toml") in output


def test_other_files_are_left_alone(shown):
    assert shown("[tool.other\n")["timeout"] == ["default"]


def test_a_value_of_the_environment_is_refused_like_one_of_the_command_line(shown):
    assert "Invalid value for '--workers'" in shown("", status=2, MINIFY_WORKERS="many")


def test_a_run_uses_the_table(minify, project):
    project.write("[tool.minify]\nbackend = 'no-such-backend'\n", "pyproject.toml")
    done = minify("import torch\ntorch.compile(torch.sin)(torch.ones(2))")
    assert done.code == 1 and "no-such-backend" in done.stderr
