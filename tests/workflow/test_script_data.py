"""Scripts that read files, arguments and the environment, or look for modules beside themselves; what is left of a run
without a repro."""

import pytest

from minifier.capturing.script import Program
from minifier.flow.whole_script import literals_of

pytestmark = [pytest.mark.timeout(240), pytest.mark.usefixtures("processes")]

BACKEND = """
    import json
    import os
    import sys
    from pathlib import Path

    import torch


    class Compiler:
        def __init__(self, banned):
            self.banned = banned

        def __call__(self, gm, inputs):
            for node in gm.graph.nodes:
                if getattr(node.target, "__name__", "") in self.banned:
                    raise ValueError(f"banned {node.target.__name__}")
            return gm.forward


    compiler = Compiler(READ)


    def f(x):
        return torch.relu(torch.tanh(torch.sin(x)) + 1)


    torch.compile(f, backend=compiler)(torch.ones(3))
"""
FROM_FILE = BACKEND.replace("READ", 'json.loads((Path(__file__).parent / "banned.json").read_text())')


def test_data_of_a_file_that_the_backend_needs(minify, project):
    project.write('["tanh"]', "banned.json")
    done = minify(FROM_FILE)
    assert done.code == 0, done.stderr
    assert 'Compiler(["tanh"])' in done.repro and "json" not in done.repro and "relu" not in done.repro


@pytest.mark.parametrize(
    "change",
    ["open('rows.txt', 'a').write('more')", "os.remove('rows.txt')", "os.system('rm rows.txt')"],
)
def test_nothing_is_changed_while_data_are_evaluated(project, monkeypatch, change):
    project.write("a b", "rows.txt")
    text = f"import os\n\n\ndef load():\n    text = open('rows.txt').read()\n    {change}\n    return text\n"
    path = project.write(f"{text}\n\nROWS = load()\nprint(ROWS[0], open('rows.txt').read())\n")
    monkeypatch.chdir(project.folder)
    assert dict(literals_of(Program(str(path)))) == {"open('rows.txt').read()": '"a b"'}
    assert (project.folder / "rows.txt").read_text().strip() == "a b"


def test_which_data_become_literals(project, monkeypatch):
    project.write("a,b", "rows.txt")
    path = project.write(
        """
        import os, sys, torch
        from pathlib import Path

        ROWS = open("rows.txt").read().split(",")
        SIZE = int(sys.argv[1])
        MODE = os.environ["MODE"]
        TOKEN = os.environ["MY_TOKEN"]
        HOME = sys.argv[2]
        MISSING = open("gone.txt").read()
        LONG = open("rows.txt").read() * 10000
        BYTES = Path("rows.txt").read_bytes()
        """
    )
    monkeypatch.chdir(project.folder)
    monkeypatch.setenv("MODE", "fast")
    monkeypatch.setenv("MY_TOKEN", "abcdefgh")
    assert literals_of(Program(str(path), ("3", "/home/me"))) == {
        'open("rows.txt").read().split(",")': '["a", "b"]',
        "int(sys.argv[1])": "3",
        'os.environ["MODE"]': '"fast"',
        'open("rows.txt").read()': '"a,b"',
        'Path("rows.txt").read_bytes()': "b'a,b'",
    }


@pytest.mark.soak
def test_a_folder_that_the_script_puts_on_the_import_path(minify, project):
    project.write("import torch\ndef risky(x):\n    torch._dynamo.graph_break()\n    return x + 1\n", "lib/mine.py")
    done = minify(
        """
        import os
        import sys

        sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))

        import torch
        from mine import risky


        def f(x):
            return torch.relu(risky(torch.sin(x)))


        torch.compile(f, backend="eager", fullgraph=True)(torch.ones(3))
        """
    )
    assert done.code == 0, done.stderr
    assert "graph_break()" in done.repro and "mine" not in done.repro and "sys" not in done.repro


def test_a_script_that_a_graph_does_not_show_is_kept(minify, project):
    project.write("", "marker")
    done = minify(
        """
        import os

        import torch


        def strict(gm, inputs):
            if os.path.exists("marker"):
                raise ValueError("not here")
            return gm.forward


        torch.compile(lambda x: torch.sin(x) + 1, backend=strict)(torch.ones(3))
        """
    )
    assert done.code == 4, done.stderr
    kept = (done.out / "unverified.py").read_text()
    assert "torch.compile" in kept and done.result["status"] == "no-repro"


def test_a_script_that_ends_well_has_no_source_to_reduce(minify):
    done = minify(
        """
        import torch


        def strict(gm, inputs):
            raise ValueError("never")


        try:
            torch.compile(torch.sin, backend=strict)(torch.ones(3))
        except Exception:
            print("caught")
        """,
        given=["--level", "source"],
    )
    assert done.code == 4 and not done.out.exists()
