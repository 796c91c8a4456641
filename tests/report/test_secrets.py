"""Nothing private leaves in a bundle that nobody agreed to."""

import zipfile

import pytest
from vocabulary import CASES, Project

from minifier.repro.report.privacy import PRIVATE, Ownership, note_private, noted_names, shareable, without_source

pytestmark = pytest.mark.timeout(200)

SCRIPT = '''
# COMMENT_SECRET: talk to the lab in Basel
import os
import sys

import torch
import oddlib

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "PATH_SECRET_lib"))
from colleague import head  # COMMENT_SECRET

API = "STRING_SECRET"
os.environ["SCRIPT_TOKEN"] = "TOKEN_SECRET"


class Model(torch.nn.Module):
    """STRING_SECRET of the model"""

    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.full((3,), 0.73519082))
        self.register_buffer("table", torch.tensor([4711.0, 4712.0, 4713.0]))

    def forward(self, x):
        x = x * self.scale + self.table  # COMMENT_SECRET
        x = head(x, label="STRING_SECRET")
        return torch.tanh(x) + len(API)


with torch.no_grad():
    torch.compile(Model(), backend="oddlib_tanh")(torch.full((2, 3), 0.91827364))
'''
COLLEAGUE = """
def head(x, label):
    value = x.sin()  # COMMENT_SECRET
    return value.cos()
"""
SECRETS = ("_SECRET", "SECRET_", "0.7351", "4711", "0.9182", "maria.quinn", "quinnbox", "hunter2000")


@pytest.fixture
def given(tmp_path):
    root = tmp_path / "home" / "maria.quinn" / "PATH_SECRET_project"
    root.mkdir(parents=True)
    return Project(root)


def contents(path):
    with zipfile.ZipFile(path) as bundle:
        return {name: bundle.read(name) for name in bundle.namelist()}


@pytest.mark.usefixtures("processes")
def test_nothing_of_a_script_full_of_secrets_is_in_the_bundle(given, tmp_path):
    given.write(COLLEAGUE, "PATH_SECRET_lib/colleague.py")
    private = {"USER": "maria.quinn", "LOGNAME": "maria.quinn", "HOME": str(tmp_path / "home" / "maria.quinn")}
    done = given.run(SCRIPT, path=(CASES, given.folder / "PATH_SECRET_lib"), MY_API_KEY="hunter2000", **private)
    assert done.code == 0 and done.ops[1] == 1, done.stderr
    found = contents(done.out / "bundle.zip")
    assert {"repro.py", "report.md", "result.json", "minimal/case.json"} <= set(found)
    for name, data in {**found, "names": "\n".join(found).encode()}.items():
        for secret in (*SECRETS, str(tmp_path)):
            assert secret not in data.decode(), f"{secret} is in {name}"


def test_lines_of_the_script_are_not_in_a_traceback():
    trace = (
        'Traceback (most recent call last):\n  File "/x/secret.py", line 3, in fn\n    key = "SECRET"\n          ^^^^\n'
        f'  File "{torch_file()}", line 7, in tanh\n    return input.tanh()\nValueError: no\n'
    )
    assert without_source(trace).splitlines() == [
        "Traceback (most recent call last):",
        '  File "/x/secret.py", line 3, in fn',
        f'  File "{torch_file()}", line 7, in tanh',
        "    return input.tanh()",
        "ValueError: no",
    ]


def torch_file() -> str:
    import torch

    return torch.__file__


def test_names_are_taken_out_of_prose(monkeypatch):
    monkeypatch.setattr("socket.gethostname", lambda: "quinnbox.example.org")
    monkeypatch.setenv("LOGNAME", "mquinn")
    text = "on quinnbox.example.org and quinnbox mquinn sat in /home/somebody/x; mquinney did not"
    assert shareable(text) == "on <host> and <host> <user> sat in <path>/<user>/x; mquinney did not"
    monkeypatch.setattr("socket.gethostname", lambda: "localhost")
    monkeypatch.setenv("LOGNAME", "root")
    assert shareable("the root of localhost") == "the root of localhost"


@pytest.mark.parametrize("name", ["torch", "data", "root", "max", "localhost", "user"])
def test_a_machine_or_user_called_like_a_word_of_code_stays(name, monkeypatch):
    monkeypatch.setattr("socket.gethostname", lambda: name)
    monkeypatch.setenv("LOGNAME", name)
    text = f"import {name}; {name}.compile({name}) fails in {name}._inductor"
    assert shareable(text) == text
    assert name not in shareable(f"/home/{name}/lib/x.py")


def test_names_of_the_machine_where_it_was_captured_are_private_too(tmp_path, monkeypatch):
    monkeypatch.setattr("socket.gethostname", lambda: "quinnbox.example")
    note_private(tmp_path)
    monkeypatch.undo()
    assert shareable("no space left on quinnbox", Ownership(names=noted_names(tmp_path))) == "no space left on <host>"
    assert shareable("no space left on quinnbox") == "no space left on quinnbox"
    (tmp_path / PRIVATE).write_text('{"damaged": ')
    assert noted_names(tmp_path) == ()
