"""`minify list`, `minify dedupe` and `minify clean`, on folders that real runs left."""

import json
import shutil

import pytest

pytestmark = pytest.mark.timeout(200)

SCRIPT = """
import torch


def refuses_tanh(gm, inputs):
    if "tanh" in gm.code:
        raise NotImplementedError(f"no tanh in graph {len(gm.graph.nodes)}")
    return gm.forward


@torch.compile(backend=refuses_tanh)
def f(x):
    return BODY


f(torch.ones(2, 3))
"""


@pytest.fixture
def runs(project):
    """Two runs of scripts with one failure, and a third that was interrupted."""
    for name, body in (("first.py", "x.sin().tanh()"), ("second.py", "(x * 2).cos().tanh() + 1")):
        project.write(SCRIPT.replace("BODY", body), name)
        done = project.finish(project.start_warm("run", "--verify", "1", name), 150)
        assert done.code == 0 and f"\nrepro     minify-out/{name[:-3]}-1/repro.py\n" in done.stderr, done.stderr
    place = project.folder / "minify-out"
    shutil.copytree(place / "first-1", place / "third-1")
    (place / "third-1" / "result.json").unlink()
    (place / "third-1" / "repro.py").unlink()
    return project


def test_runs_are_listed_grouped_and_removed(runs):
    def changed(*arguments):
        return runs.finish(runs.start_warm(*arguments), 100)

    place = runs.folder / "minify-out"
    listed = runs.minify("list").stdout
    assert "2 -> 1 ops" in listed and "4 -> 1 ops" in listed and "refuses_tanh: NotImplementedError: no tanh" in listed
    (interrupted,) = [line for line in listed.splitlines() if " interrupted " in line]
    assert "refuses_tanh: NotImplementedError: no tanh" in interrupted, "it is in the captured Case"
    (key,) = {
        json.loads((place / name / "result.json").read_text())["failure"]["key"] for name in ("first-1", "second-1")
    }
    grouped = runs.minify("dedupe", "minify-out").stdout
    assert f"{key}  2 runs" in grouped and "third-1" not in grouped
    refused = runs.minify("clean")
    assert refused.code == 2 and "--yes" in refused.stderr and (place / "third-1").exists()
    assert changed("clean", "--yes").code == 0 and not (place / "third-1").exists()
    assert runs.minify("clean").stdout == "nothing to remove\n"
    assert changed("clean", "--all", "--yes", "minify-out/first-1").code == 0
    assert not (place / "first-1").exists() and (place / "second-1" / "repro.py").exists()
    changed("clean", "--all", "--yes")
    assert not place.exists()


def test_folders_of_others_are_none(refusing):
    refusing.write("{}", "minify-out/notes/run.json")
    refusing.write("not json", "minify-out/other/result.json")
    assert refusing.minify("list").stdout == "no runs in minify-out\n"
    assert refusing.minify("clean", "--all", "--yes").stdout == "nothing to remove\n"
    assert (refusing.folder / "minify-out" / "notes" / "run.json").exists()


def test_a_missing_folder(refusing):
    done = refusing.minify("dedupe", "gone")
    assert done.code == 2 and "gone is not a folder" in done.stderr
