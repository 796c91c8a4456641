"""Whatever only reads a folder runs nothing of it: wherever a Case can hold code, there is code that writes a file."""

import json
import shutil
import zipfile

import pytest
from failing_scripts import ONE_OP

from minifier.flow.foreign_code import foreign_code_in, foreign_code_of

pytestmark = pytest.mark.timeout(200)


def mined(folder, canary):
    """Put code that writes the canary into every string of a Case that is executed in a reduction."""
    line, module = f"open({str(canary)!r}, 'a').close()", "import canary_module"
    data = json.loads((folder / "case.json").read_text())
    data["definitions"] = f"{line}\n"
    data["backend"].update(
        expression=f"({line} or 'eager')", imports=[module], ahead=[module], folders=[str(canary.parent)]
    )
    data["script"].update(imports=[module], path=[str(canary.parent)], ops=["canary::op"])
    data["measure"] = {"is": "Tolerance", "predicate": f"{line}\ndef differs(a, b):\n    {line}\n"}
    data["state"]["environment"] = [["TORCH_CANARY", "1"]]
    made = {"made": [f"({line})", [module], []]}
    data["state"]["config"] = {"tuple": [{"tuple": ["torch._dynamo.config", "verbose", made]}]}
    (folder / "case.json").write_text(json.dumps(data))
    (canary.parent / "canary_module.py").write_text(f"{line}\n")
    graph = json.loads((folder / "graph.json").read_text())
    for node in graph["nodes"]:
        if node["op"] == "call_function":
            node["target"], node["args"]["tuple"] = "canary_module:evil", [*node["args"]["tuple"], made]
    (folder / "graph.json").write_text(json.dumps(graph))


@pytest.fixture
def canary(tmp_path):
    (tmp_path / "mine").mkdir()
    return tmp_path / "mine" / "canary"


def test_no_reader_runs_anything(project, canary):
    assert project.run(ONE_OP).code == 0
    for place in ("case", "minimal"):
        mined(project.out / place, canary)
    (project.out / "repro.py").write_text(f"open({str(canary)!r}, 'a').close()\n")
    for arguments in (
        ("report", "--include-data", "--github", project.out),
        ("show", project.out),
        ("reduce", project.out / "minimal"),
        ("reduce", project.out),
        ("check", project.out / "bundle.zip"),
    ):
        done = project.minify(*arguments)
        assert not canary.exists(), (arguments, done.stderr)
        assert "Traceback" not in done.stderr, (arguments, done.stderr)
        if arguments[0] in ("reduce", "check"):
            assert done.code == (128 if arguments[0] == "check" else 2) and "--trust" in done.stderr
        else:
            assert done.code == 0, done.stderr
    # A run of the same script, which seems to have been interrupted, is found and let be.
    interrupted = project.folder / "minify-out" / "failing-1"
    shutil.copytree(project.out / "case", interrupted / "case")
    shutil.copy(project.out / "run.json", interrupted)
    done = project.finish(project.start_warm("run", "--max-probes", "0", "--verify", "1", "failing.py"), 100)
    assert "failing-1" in done.stderr and not canary.exists()
    with zipfile.ZipFile(project.out / "bundle.zip") as bundle:
        assert json.loads(bundle.read("result.json"))["mark"] is None

    assert foreign_code_in(project.out) and foreign_code_of(project.out / "repro.py") and not canary.exists()
    project.minify("reduce", "--trust", "--max-probes", "0", "--out", project.root / "trusted", project.out / "case")
    assert canary.exists(), "the mines are live"
