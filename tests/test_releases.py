"""Releases of torch: which are refused, and ahead of what; which were not tested."""

import pytest
import torch

from minifier.data import losses, torch_names
from minifier.flow import prepare

OLD = "torch 2.7.1+cu128"


@pytest.mark.parametrize(
    ("version", "release", "is_before"),
    [
        ("2.13.0", (2, 13), False),
        ("2.13.0+cpu", (2, 13), False),
        ("2.8.1+gitabcdef", (2, 8), False),
        ("2.15.0.dev20260301+cpu", (2, 15), True),
        ("2.15.0a0+gitdeadbee", (2, 15), True),
        ("2.15.0rc2", (2, 15), True),
        ("2.8.0a0+5228986c39.nv25.05", (2, 8), True),
    ],
)
def test_a_version_is_of_a_release_or_ahead_of_it(version, release, is_before):
    assert (torch_names.release_of(version), torch_names.is_before_release(version)) == (release, is_before)


def test_a_nightly_build_and_a_newer_release_were_not_tested(monkeypatch):
    newest = torch_names.shown(torch_names.NEWEST_TORCH)
    assert torch_names.why_untested(f"{newest}.0+cpu") == torch_names.why_untested("2.8.0") == ""
    assert torch_names.why_untested(f"{newest}.0.dev20260301") and newest in torch_names.why_untested("99.0.0")
    with losses.losses_of_a_run():
        lost = prepare.doubts()
        monkeypatch.setattr(torch_names, "NEWEST_TORCH", (2, 7))
        line, *others = prepare.doubts()
    assert others == lost and torch.__version__ in line and "2.7" in line


@pytest.fixture
def old(project):
    """A project with a torch on its import path that is too old, and notes that it is imported."""
    project.write(f"import pathlib\npathlib.Path({str(project.root)!r}, 'imported').touch()\n", "torch.py")
    project.write("Metadata-Version: 2.1\nName: torch\nVersion: 2.7.1+cu128\n", "torch-2.7.1.dist-info/METADATA")
    yield project
    assert not (project.root / "imported").exists()


@pytest.mark.parametrize("command", ["run", "check"])
def test_an_older_torch_is_refused_before_it_is_imported(old, command):
    script = [old.write("print('never run')\n")] if command in ("run", "check") else []
    done = old.minify(command, *script, path=(old.folder,), fresh=True)
    assert (done.code, done.stdout) == (128 if command == "check" else 2, "")
    assert len(done.stderr.splitlines()) == 1 and OLD in done.stderr


@pytest.mark.parametrize("name", ["wrap", "minify"])
def test_an_older_torch_is_refused_in_the_users_process(old, name):
    done = old.python("-c", f"import minifier; minifier.{name}")
    assert done.returncode == 1 and done.stderr.splitlines()[-1].startswith(f"minifier.errors.UsageError: {OLD}")


def test_an_older_torch_is_refused_by_pytest(old):
    old.write("def test(): pass\n", "test_models.py")
    done = old.python("-m", "pytest", "--minify", "-p", "no:cacheprovider", "-p", "no:xdist")
    assert done.returncode == 4 and "--minify" in done.stderr and OLD in done.stderr


@pytest.mark.soak
def test_an_older_torch_without_metadata_is_refused_once_it_is_imported(project):
    project.write("__version__ = '2.7.1+cu128'\n", "torch.py")
    done = project.run("print('never run')\n", path=(project.folder,), fresh=True)
    assert done.code == 2 and OLD in done.stderr.splitlines()[-1]


NEVER_COUNTS = """
    import contextlib, io, json, torch
    import torch._dynamo.source
    del torch._dynamo.source.LocalSource
    from minifier.flow.cli.entry import command_line
    raise SystemExit(command_line(["run", "never.py"]) if command_line(["doctor"]) == 2 else "the doctor is content")
"""


def test_a_name_that_everything_needs_is_named_where_it_is_missing(project):
    """And the doctor counts no others."""
    project.write("print('never run')\n", "never.py")
    done = project.python("-c", "\n".join(line.strip() for line in NEVER_COUNTS.splitlines()))
    assert "LocalSource" in done.stdout.splitlines()[-1] and done.returncode == 2, done.stderr
    assert "LocalSource" in done.stderr and "minify doctor" in done.stderr
