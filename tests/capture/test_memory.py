"""A script that takes memory without end: the machine survives, and the backend that did it has failed."""

import resource
import signal

import pytest
import torch

from minifier.data.failure import Fingerprint, Kind, Stage, Verdict
from minifier.process import machine
from minifier.process.machine import limit_data, spare_memory
from minifier.reduction.probe.children import Limits, run_children
from minifier.reduction.probe.verdicts import judge
from minifier.repro.verify import Conditions, run_script, verify
from minifier.torch_side.fx.tensors import StoredTensors

pytestmark = pytest.mark.timeout(120)

MIB = 2**20
SCRIPT = """
import torch
import oddlib.deadly

torch.compile(lambda x: torch.tanh(x) + 1, backend="oddlib_ends", options={"stage": STAGE, "how": HOW})(torch.ones(3))
"""

ABORTS = """
import ctypes

new = ctypes.CDLL("libstdc++.so.6")._Znwm
new.argtypes, new.restype = (ctypes.c_size_t,), ctypes.c_void_p
while True:
    new(2**20)
"""


def failed(bureau, stage, how, **terms):
    """What the script showed, and its one failing call."""
    captured = bureau.capture(SCRIPT.replace("STAGE", repr(stage)).replace("HOW", repr(how)), **terms)
    (failing,) = captured.failing
    return captured, failing


@pytest.mark.parametrize(("stage", "how"), [("compile", "hoard"), ("run", "hoard text")])
def test_a_backend_that_takes_memory_for_ever(bureau, stage, how):
    _, failing = failed(bureau, stage, how, memory=500 * MIB)
    assert (failing.stage, failing.unsaved) == (Stage(stage), "")
    assert failing.failure.type == ("MemoryError" if how == "hoard text" else "RuntimeError")
    found = failing.failure.fingerprint
    assert (found.kind, found.types, found.message) == (Kind.OUT_OF_MEMORY, (), "no more memory")
    assert (found.site.module, found.site.function) == ("oddlib.deadly", "run" if stage == "run" else "oddlib_ends")
    case = bureau.case()
    assert case.failure == failing.failure
    assert torch.equal(StoredTensors(case.tensors).get(case.inputs[0].source.key), torch.ones(3))
    if stage == "compile":
        _summary, case = bureau.reduce(memory=500 * MIB)
        assert [node.target for node in case.graph.ops] == ["torch.tanh"]


@pytest.fixture
def little_memory(monkeypatch):
    """The machine seems to have 1.3 GiB that are free, and to be short of it from then on."""
    told = iter([1300 * MIB])
    monkeypatch.setattr(machine, "available", lambda: next(told, 0))


def test_what_is_available_ends_at_the_limit_of_the_control_group(tmp_path, monkeypatch):
    texts = {"max": 5 * MIB, "current": 4 * MIB, "stat": f"anon 9\nactive_file {MIB}\ninactive_file {MIB}"}
    for name, text in texts.items():
        (tmp_path / f"memory.{name}").write_text(f"{text}\n")
    (tmp_path / "cpu.max").write_text("100000 100000\n")
    monkeypatch.setattr(machine, "CONTROL_GROUPS", tmp_path)
    monkeypatch.setattr(torch.version, "cuda", None)
    assert (machine.available(), machine.free_memory(1 / 3), machine.cores()) == (3 * MIB, MIB, 1)
    (tmp_path / "memory.max").write_text("max\n")
    assert machine.available() > 5 * MIB


def test_without_a_limit_an_allocation_fails_when_most_is_used(bureau, little_memory):
    captured, failing = failed(bureau, "compile", "hoard")
    found = failing.failure.fingerprint
    assert (found.kind, found.site.function) == (Kind.OUT_OF_MEMORY, "oddlib_ends")
    assert failing.unsaved == "" and captured.end.status == 1 and bureau.case().failure == failing.failure


@pytest.mark.soak
def test_memory_that_a_script_shares_with_a_large_process_does_not_count(bureau, little_memory):
    """As in a notebook: the forked script shares more than the machine has left, and is not killed for it."""
    held = bytearray(b"x") * (1500 * MIB)
    _, failing = failed(bureau, "compile", "hoard text")
    assert failing.failure.fingerprint.site.function == "oddlib_ends" and len(held) == 1500 * MIB


@pytest.mark.soak
def test_native_code_that_aborts_without_memory(bureau, little_memory):
    """Only the exhausted machine tells the script's SIGABRT from others; a probe's output names std::bad_alloc."""
    captured, failing = failed(bureau, "run", "hoard in C++")
    assert failing.failure.fingerprint == Fingerprint(Stage.RUN, Kind.OUT_OF_MEMORY, message="no more memory")
    assert captured.end.signal == signal.SIGABRT and "in end" in failing.failure.traceback
    _summary, case = bureau.reduce(memory=500 * MIB)
    assert [node.target for node in case.graph.ops] == ["torch.tanh"]


def test_what_uses_up_a_reserve_is_ended(bureau, little_memory):
    captured, failing = failed(bureau, "compile", "use up")
    found = failing.failure.fingerprint
    assert (found.stage, found.kind, found.message) == (Stage.COMPILE, Kind.OUT_OF_MEMORY, "no more memory")
    assert captured.end.signal == 9
    assert "in end" in failing.failure.traceback


def test_what_is_only_reserved_does_not_count(bureau):
    """A terabyte, of which a page is touched: no lack of memory, in the script nor in a probe."""
    _, failing = failed(bureau, "compile", "reserve")
    assert failing.failure.message == "the arena is too small"
    _summary, case = bureau.reduce()
    assert [node.target for node in case.graph.ops] == ["torch.tanh"]


def test_probes_that_use_up_a_reserve_are_ended(forked, tmp_path, little_memory):
    def work():
        from oddlib.deadly import end

        (ended,) = run_children([lambda: end("use up")], Limits(60.0), tmp_path)
        judged = judge(ended, Fingerprint(Stage.COMPILE, Kind.OUT_OF_MEMORY, message="no more memory"))
        return ended.exhausted, ended.timed_out, "in end" in ended.output, judged.verdict

    assert forked(work) == (True, False, True, Verdict.SAME)


@pytest.mark.usefixtures("processes")
def test_a_script_may_reserve_what_it_likes_where_its_memory_is_not_the_question(tmp_path):
    script = tmp_path / "repro.py"
    script.write_text("import mmap\nmmap.mmap(-1, 2**40, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000)\n")
    assert run_script(script, Conditions(Fingerprint(Stage.RUN, Kind.EXCEPTION), 60)).status == 0


def test_files_that_are_mapped_do_not_count_and_the_limit_is_not_raised(forked, tmp_path):
    import mmap

    path = tmp_path / "large"
    with path.open("wb") as file:
        file.truncate(1000 * MIB)

    def work():
        limit_data(200 * MIB)
        with path.open("rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        limit = resource.getrlimit(resource.RLIMIT_DATA)
        limit_data(4000 * MIB)
        assert resource.getrlimit(resource.RLIMIT_DATA) == limit
        try:
            bytearray(300 * MIB)
        except MemoryError:
            with spare_memory():
                bytearray(300 * MIB)
            assert resource.getrlimit(resource.RLIMIT_DATA) == limit
            return len(mapped)
        return None

    assert forked(work) == 1000 * MIB


@pytest.mark.usefixtures("processes")
def test_a_repro_keeps_to_the_limit(tmp_path):
    script = tmp_path / "repro.py"
    script.write_text("hoard = []\nwhile True:\n    hoard.append(bytearray(2**20))\n")
    sought = Fingerprint(Stage.RUN, Kind.OUT_OF_MEMORY, message="no more memory")
    check = verify(script, Conditions(sought, timeout=60, memory=300 * MIB), runs=1)
    assert check.holds and check.runs[0].failure.type == "MemoryError"
    script.write_text(ABORTS)
    assert verify(script, Conditions(sought, timeout=60, memory=300 * MIB), runs=1).holds
    of_a_signal = Fingerprint(Stage.RUN, Kind.SIGNAL, message="SIGABRT")
    assert verify(script, Conditions(of_a_signal, timeout=60, memory=300 * MIB), runs=1).holds
    script.write_text("import os\nos.abort()\n")
    assert not verify(script, Conditions(sought, timeout=60, memory=300 * MIB), runs=1).holds
