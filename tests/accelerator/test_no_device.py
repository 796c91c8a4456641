"""A run asks for no device in the processes that fork: CUDA cannot be used in forks of a process that has asked."""

import json
import os
import sys
from dataclasses import replace

import pytest
import torch
from case_samples import small_case
from failing_scripts import NO_TANH_OF_AOT, TRAINS
from vocabulary import in_child

from minifier.flow.cli.entry import command_line
from minifier.reduction.probe import prepared_case
from minifier.reduction.probe.prepared_case import PreparedCase, preload
from minifier.torch_side.fx.tensors import StoredTensors

pytestmark = pytest.mark.timeout(240)

SCRIPT = NO_TANH_OF_AOT + TRAINS.replace("DYNAMIC", "True")
ASKED = [(torch.cuda, "is_available"), (torch.cuda, "_lazy_init"), (torch.accelerator, "is_available")]
# Functions that run in a child alone, and what the child is for.
CHILDREN = {
    ("minifier.capturing.capture", "_in_child"): "script",
    ("minifier.reduction.probe.children", "run_job"): "probe",
    ("minifier.repro.report.environment", "_collect"): "facts",
}


def stack():
    """The (module, function) pairs of this process's stack; a fork has its parent's frames too."""
    frame = sys._getframe(2)
    while frame is not None:
        yield frame.f_globals.get("__name__", ""), frame.f_code.co_name
        frame = frame.f_back


def log_questions(path):
    """Log each question about a device, with its process's purpose and stack."""
    for module, name in ASKED:
        original = getattr(module, name)

        def asked(*args, _name=f"{module.__name__}.{name}", _original=original, **kwargs):
            frames = list(stack())
            purpose = next((CHILDREN[frame] for frame in frames if frame in CHILDREN), "")
            own = [f"{module}:{function}" for module, function in frames if module.startswith("minifier.")]
            with path.open("a") as file:
                file.write(json.dumps([_name, purpose, own[:8]]) + "\n")
            return _original(*args, **kwargs)

        setattr(module, name, asked)


@pytest.mark.soak
def test_neither_the_main_process_nor_the_reduction_asks_for_a_device(project):
    log = project.folder.parent / "asked"
    project.write(SCRIPT)

    def work():
        os.chdir(project.folder)
        prepared_case.built_devices = lambda: [torch.cuda]
        log_questions(log)
        return command_line(["run", "--verify", "1", "--out", str(project.out), "failing.py"])

    assert in_child(work, project.folder.parent, timeout=200) == 0
    asked = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    assert [each for each in asked if not each[1]] == []
    assert {purpose for _, purpose, _ in asked} == {"script", "probe", "facts"}


@pytest.mark.parametrize(("device", "by_nvml", "warmed"), [("cpu", -1, 1), ("cuda:0", -1, 0), ("cuda:0", 1, 1)])
def test_inductor_is_warmed_up_where_that_starts_no_driver_of_the_graphs_device(
    device, by_nvml, warmed, processes, tmp_path
):
    """Its check of the machine compiles C++, for which torch asks whether there is a GPU."""
    case = small_case()
    item = replace(case.inputs[0], meta=replace(case.inputs[0].meta, device=device))
    prepared = PreparedCase(replace(case, inputs=(item, *case.inputs[1:])), StoredTensors(None))

    def work():
        calls = []
        torch.cuda._is_compiled = lambda: True
        torch.cuda._device_count_nvml = lambda: by_nvml
        prepared_case.inductor.warm_up_inductor = lambda **options: calls.append(options)
        prepared.preload(["torch.utils"])
        return calls

    assert in_child(work, tmp_path) == [{"patterns": False}] * warmed


def test_a_module_that_asks_for_a_device_is_left_to_the_children(processes, tmp_path):
    (tmp_path / "odd_asking.py").write_text("import torch\n\nHAS_CUDA = torch.cuda.is_available()\n")
    (tmp_path / "odd_silent.py").write_text("import torch\n")

    def work():
        sys.path.insert(0, str(tmp_path))
        torch.cuda._is_compiled = lambda: True
        torch.cuda._device_count_nvml = lambda: -1  # there is no NVML
        question = torch.cuda.is_available
        preload(["odd_asking", "odd_silent"])
        return "odd_asking" in sys.modules, "odd_silent" in sys.modules, torch.cuda.is_available is question

    assert in_child(work, tmp_path) == (False, True, True)
