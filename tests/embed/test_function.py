"""`minifier.minify` and `minifier.check` of a function, in scripts that are run by plain python."""

import json
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch
from test_in_process import ran
from vocabulary import source_of

import minifier
from minifier.errors import FolderRemoved, ToolFailed, UsageError
from minifier.flow.embed import reducing
from minifier.flow.embed.try_recorded import read_answer

pytestmark = pytest.mark.timeout(300)

HEAD = """
import json, os, queue, signal, threading

def has(gm, name):
    return any(name in str(node.target) for node in gm.graph.nodes)

def fn(x, w=None):
    y = x.sin().cos()
    torch._dynamo.graph_break()
    z = y + 1
    return z.tanh().exp()
"""

DEATH = """
def mine(gm, inputs):
    if has(gm, "tanh"):
        os.kill(os.getpid(), signal.SIGSEGV)
    return gm.forward

asked, answers = queue.SimpleQueue(), queue.SimpleQueue()
def answer():
    while asked.get():
        answers.put(torch.ones(10).sum())

threading.Thread(target=answer).start()
asked.put(True), answers.get()
outcome = minifier.minify(fn, [torch.randn(3)], mine, **ONCE)
asked.put(True), answers.get()
asked.put(False)
failure = outcome.failure.fingerprint
print(json.dumps([failure.stage.value, failure.kind.value, outcome.ops, list(outcome.origin), str(outcome.repro)]))
"""


def test_a_death_is_reduced_and_the_process_and_its_thread_go_on(project):
    done = ran(project, HEAD + DEATH)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    lines = (project.folder / "failing.py").read_text().splitlines()
    origin = f"failing.py:{lines.index('    return z.tanh().exp()') + 1}"
    assert said == ["compile", "signal", 1, [origin], str(project.out / "repro.py")]
    repro = (project.out / "repro.py").read_text()
    assert "tanh" in repro and "exp()" not in repro and "minifier" not in repro
    assert project.litter() == []


STATE = """
import random
import numpy
import minifier_backends.faulty
from minifier.torch_side.torch_private.dynamo import compiled_entries

compilations = []

def counts(gm, inputs):
    compilations.append(gm)
    return gm.forward

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.steps, self.seen = torch.nn.BatchNorm1d(3), 0, []
        self.drop = torch.nn.Dropout()

    def forward(self, x, y):
        self.steps += 1
        self.seen.append(self.steps)
        y.add_(1)
        x = self.drop(self.norm(x)) * torch.rand(3)
        torch._dynamo.graph_break()
        numpy.random.rand(), random.random()
        return (x.tanh() * y).sum()

def state():
    tensors = [model.norm.running_mean, model.norm.num_batches_tracked, y, torch.get_rng_state()]
    texts = [each.tolist() for each in tensors] + [y._version, model.training]
    return texts + [random.getstate()[1], numpy.random.get_state()[1].tolist(), model.norm.weight.grad]

model, x, y = Model(), torch.randn(2, 3), torch.randn(3)
compiled = torch.compile(fn, backend=counts)
compiled(x), torch.compile(model, backend=counts)(x, y)
before, count = state(), len(compilations)
entries = [len(compiled_entries(code)) for code in (fn.__code__, Model.forward.__code__)]
threads = threading.active_count()
for backend, expected in (("faulty_raise", True), ("eager", False)):
    for checked, inputs in ((model, [x, y]), (fn, [torch.ones(5, 7)])):  # sizes that are not to become dynamic
        outcome = minifier.check(checked, inputs, backend)
        assert outcome.failed is bool(outcome) is expected, outcome
    assert state() == before

def hangs(gm, inputs):
    while has(gm, "tanh"):
        signal.pause()
    return gm.forward

assert minifier.check(fn, [torch.ones(5, 7)], hangs, timeout=2).failure.fingerprint.kind.value == "timeout"
after = [len(compiled_entries(code)) for code in (fn.__code__, Model.forward.__code__)]
assert (after, threading.active_count()) == (entries, threads) and 0 not in entries[:2]
compiled(x)
assert len(compilations) == count, "the user's own function was compiled again"
print("as before")
"""


@pytest.mark.parametrize("place", ["terminal", "notebook", "pipe"])
def test_a_line_says_what_is_done_and_goes_in_the_end(tmp_path, monkeypatch, place):
    texts, clock = [], iter([0.0, 0.2, 3.0, 7.0])
    handle = SimpleNamespace(update=lambda data, raw: texts.append(data["text/plain"]))
    if place == "notebook":
        monkeypatch.setattr(reducing, "notebook_shell", lambda: SimpleNamespace(kernel=None))
        monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=lambda *_, **__: handle))
    there, here = os.openpty() if place == "terminal" else os.pipe()
    log = tmp_path / reducing.LOG
    with open(here, "w") as stream, reducing.StatusLine("minify: calling f", stream, lambda: next(clock)) as status:
        for text in ("", "minify: loading\x1b[A torch\nTraceback\n"):
            log.write_text(text)
            status.show_last_of(log)
    lines = ["[0 s] minify: calling f", "[3 s] minify: calling f", "[7 s] minify: loading\\x1b[A torch", ""]
    assert texts == (lines if place == "notebook" else [])
    shown = {"terminal": "\r\x1b[2K".join(["", *lines]), "pipe": "minify: calling f\nminify: loading\\x1b[A torch\n"}
    expected, read = shown.get(place, "").encode(), b""
    while len(read) < len(expected):
        read += os.read(there, 4096)
    assert read == expected
    os.close(there)


def test_a_tensor_is_not_taken_for_a_list_of_arguments():
    with pytest.raises(UsageError, match="inputs is a Tensor"):
        minifier.check(torch.sin, torch.ones(2))


@pytest.mark.soak
def test_a_check_leaves_the_state_of_the_process_as_it_was(project):
    done = ran(project, HEAD + STATE)
    assert (done.returncode, done.stdout) == (0, "as before\n"), done.stderr
    assert not project.out.exists() and project.litter() == []


QUIET = """
outcome = minifier.minify(fn, [torch.randn(3)], "eager", out=sys.argv[1])
print(outcome.failed, outcome.repro, outcome.graphs)
print(outcome)
print(outcome._repr_html_())
print(minifier.minify(lambda x: x, [1], "eager", out=sys.argv[1]))
"""


@pytest.mark.soak
def test_an_outcome_without_a_failure_says_so(project):
    done = ran(project, HEAD + QUIET)
    assert done.returncode == 0, done.stderr
    facts, text, html, empty = done.stdout.splitlines()
    assert facts == "False None 2" and text == "the backend 'eager' gives the values of eager mode; 2 calls compared"
    assert html.startswith("<table>") and "2 calls compared" in html and "was given no graph" in empty
    assert not project.out.exists() and project.litter() == []


INTERRUPTED = """
os.mkfifo("COMPILES")

def mine(gm, inputs):
    open("COMPILES", "w").close()
    signal.pause()

def press():
    open("COMPILES").close()  # once the backend opens it, too
    os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)
threading.Thread(target=press).start()
try:
    minifier.check(fn, [torch.randn(3)], mine)
except KeyboardInterrupt:
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        print("no child is left")
"""


def test_ctrl_c_leaves_neither_a_process_nor_a_folder(project):
    done = ran(project, HEAD + INTERRUPTED.replace("COMPILES", str(project.folder / "compiles")))
    assert (done.returncode, done.stdout) == (0, "no child is left\n"), done.stderr
    assert project.litter() == []


@pytest.mark.usefixtures("processes")
def test_an_error_of_the_other_process_arrives_as_what_it_is(tmp_path):
    removed = str(tmp_path / "removed" / "recorded")
    command = [sys.executable, "-m", "minifier.flow.embed.try_recorded", removed, ""]
    done = subprocess.run(command, stdout=subprocess.PIPE, timeout=200, check=True)
    with pytest.raises(FolderRemoved, match=str(tmp_path / "removed")):
        read_answer(done.stdout, "")
    with pytest.raises(ToolFailed, match="without an answer:\nits last words"):
        read_answer(b"", "its last words")


REFUSED = """
def told(call):
    try:
        call()
    except Exception as error:
        print(type(error).__name__, str(error).splitlines()[0])

def fails(x):
    raise KeyError("by itself")

x = torch.randn(3)
told(lambda: minifier.check(fails, [x], "eager"))
told(lambda: minifier.check(fn, [x], "no_such_backend"))
told(lambda: minifier.check(fn, [x], type("Backend", (), {"__call__": lambda self, gm, inputs: gm.forward})()))
"""


def test_what_cannot_be_done_is_said(project):
    done = ran(project, HEAD + REFUSED)
    assert done.returncode == 0, done.stderr
    itself, unknown, unreachable = done.stdout.splitlines()
    assert itself == "KeyError 'by itself'"
    assert unknown.startswith("InvalidBackend")
    assert unreachable.startswith("NoRepro the backend") and "Assign it to a global name of a module" in unreachable
    assert project.litter() == []


CELLS = '''
cells = ["""
import torch
import minifier
""", """
def mine(gm, inputs):
    if any(node.target is torch.tanh for node in gm.graph.nodes):
        raise LookupError("no <tanh>")
    return gm.forward
""", """
def fn(x):
    return torch.tanh(x.cos()) + 1
""", f"""
outcome = minifier.minify(fn, [torch.randn(3)], mine, out={sys.argv[1]!r}, options=["--verify", "1"])
print(outcome._repr_html_())
"""]
'''

IPYTHON = '''
from IPython.core.interactiveshell import InteractiveShell

cells[0] += "%matplotlib --list\\n"
cells.append(f"""
wrapped = minifier.wrap(mine, out={sys.argv[1]!r} + "-wrapped", options=["--verify", "1"])
torch.compile(fn, backend=wrapped)(torch.randn(3))
""")
for cell in cells:
    InteractiveShell.instance().run_cell(cell, store_history=True)
'''

ENTERED = """
import linecache

del __file__
for number, cell in enumerate(cells):
    name = f"<python-input-{number}>"
    linecache.cache[name] = len(cell), None, cell.splitlines(keepends=True), name
    exec(compile(cell, name, "exec"), globals())
"""


@pytest.mark.soak
@pytest.mark.parametrize("text", [IPYTHON, ENTERED], ids=["IPython", "linecache"])
def test_what_was_entered_into_a_session_is_enough(project, text):
    if text is IPYTHON:
        pytest.importorskip("IPython")
    done = ran(project, CELLS + text)
    assert "return torch.tanh(x)" in done.stdout and "no &lt;tanh&gt;" in done.stdout, done.stdout + done.stderr
    assert text is IPYTHON or "no <tanh>" not in done.stdout
    assert "minify: calling fn under mine\nminify: loading torch\n" in done.stderr
    repro = (project.out / "repro.py").read_text()
    assert "raise LookupError" in repro and "ipython" not in repro
    if text is IPYTHON:
        wrapped = project.out.with_name("out-wrapped") / "repro.py"
        assert f"minifier: the repro is {wrapped}" in done.stdout + done.stderr
        assert "def mine(gm, inputs):" in wrapped.read_text()


@pytest.mark.soak
def test_a_session_whose_source_is_unknown_is_told_what_to_do(project):
    text = """
    import torch, minifier
    def mine(gm, inputs):
        return gm.forward

    minifier.check(torch.sin, [torch.ones(2)], mine)
    """
    done = project.python("-c", source_of(text), timeout=200)
    assert done.returncode == 1
    assert "the source of __main__, which defines mine, is not known. Assign it to a global name" in done.stderr


def test_under_minify_run_the_script_is_as_without(project):
    text = """
    import minifier, torch, minifier_backends.faulty

    print(minifier.minify(lambda x: x.sin().tanh(), [torch.randn(3)], "faulty_raise"))
    """
    done = project.run(text)
    assert done.code == 0 and done.ops == (2, 1), done.stderr


def test_a_backend_that_refuses_dynamic_sizes_fails_while_it_compiles(project):
    text = """
        import torch._dynamo

        def refuses(gm, inputs):
            if any(isinstance(value, torch.SymInt) for value in inputs):
                raise RuntimeError("no dynamic sizes")
            return gm.forward

        x = torch.randn(3)
        torch._dynamo.mark_dynamic(x, 0)
        outcome = minifier.check(lambda x: x.sin(), [x], refuses)
        print(outcome.failure.fingerprint.stage.value, outcome.failure.message)
    """
    done = ran(project, text)
    assert done.stdout.splitlines()[-1:] == ["compile no dynamic sizes"], done.stderr
