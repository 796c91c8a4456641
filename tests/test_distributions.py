"""The distributions that a repro imports, as a report names them."""

import json
import subprocess
from importlib import metadata

import pytest

from minifier.process.distributions import github_repository, imported_beside_torch, installed, names_by_package
from minifier.repro.verify import Conditions, run_script


@pytest.fixture
def distribution(tmp_path, monkeypatch):
    """Installs a distribution with one module and what pip notes about its origin."""

    def install(name, origin=None, fields=""):
        site = tmp_path / "site"
        info = site / f"{name}-1.5.dist-info"
        info.mkdir(parents=True)
        (site / f"{name}.py").write_text("")
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.5\n{fields}")
        (info / "RECORD").write_text(f"{name}.py,,\n")
        if origin is not None:
            (info / "direct_url.json").write_text(json.dumps(origin))
        monkeypatch.syspath_prepend(str(site))
        names_by_package.cache_clear()

    yield install
    names_by_package.cache_clear()


@pytest.mark.parametrize(
    ("url", "repository"),
    [
        ("Project-URL: Source, https://github.com/acme/npu-compiler.git", "acme/npu-compiler"),
        ("Home-page: https://github.com/acme/npu.js/issues", "acme/npu.js"),
        ("Home-page: https://acme.example/github.com", ""),
        ("Summary: https://github.com/acme/npu", ""),
    ],
)
def test_the_repository_of_a_distribution(distribution, url, repository):
    distribution("acme_compiler", fields=f"{url}\n")
    assert github_repository("acme-compiler") == repository and github_repository("no-such") == ""


def test_what_torch_needs_itself_is_left_out(distribution):
    distribution("acme_compiler")
    imported = {"acme_compiler", "torch", "sympy", "mpmath", "minifier", "os", "__main__"}
    assert imported_beside_torch(imported) == ["acme-compiler 1.5"]
    assert "acme-compiler==1.5\n" in installed() and f"torch=={metadata.version('torch')}\n" in installed()


def test_metadata_without_a_name_are_passed_over(distribution, tmp_path):
    distribution("acme")
    cut_off = tmp_path / "site" / "acme.egg-info"  # as an unpacked source distribution has it
    cut_off.mkdir()
    (cut_off / "SOURCES.txt").write_text("acme.py\n")
    assert imported_beside_torch({"acme"}) == ["acme 1.5"]
    assert "None" not in installed()


def test_the_commit_of_an_installation_from_a_repository(distribution):
    distribution("acme", {"url": "https://example.com/acme", "vcs_info": {"vcs": "git", "commit_id": "0123abc"}})
    assert imported_beside_torch({"acme"}) == ["acme 1.5 at commit 0123abc"]


@pytest.mark.usefixtures("processes")
@pytest.mark.timeout(60)
def test_the_commit_of_an_editable_checkout(distribution, tmp_path):
    checkout = tmp_path / "a folder"
    checkout.mkdir()
    git = ["git", "-C", str(checkout), "-c", "user.name=a", "-c", "user.email=a@example.com"]
    subprocess.run([*git, "init", "-q"], check=True, timeout=20)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "one"], check=True, timeout=20)
    head = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True, timeout=20).stdout
    distribution("acme", {"url": checkout.as_uri(), "dir_info": {"editable": True}})
    (said,) = imported_beside_torch({"acme"})
    name, _, commit = said.rpartition(" ")
    assert name == "acme 1.5 at commit" and head.startswith(commit) and len(commit) >= 7


@pytest.mark.usefixtures("processes")
@pytest.mark.timeout(60)
def test_a_run_tells_what_it_has_imported(tmp_path):
    script = tmp_path / "repro.py"
    script.write_text("import wave\nraise ValueError\n")
    assert "wave" in run_script(script, Conditions(None, 50)).packages
