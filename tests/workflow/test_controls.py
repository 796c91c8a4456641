"""What the ends of a script without its backends tell of the part at fault."""

import pytest

from minifier.data.case import BackendReference, BackendSource
from minifier.data.failure import Failure, Fingerprint, Kind, Stage
from minifier.data.failure.fingerprint import DAMAGED_HEAP
from minifier.data.failure.frames import STDLIB_FOLDERS, Frame
from minifier.flow.explain import end_of_control, part_of_script
from minifier.reduction.probe.children import ChildEnd
from minifier.reduction.summary import ALIKE
from minifier.repro.source.reduce_script import ReducedScript

OWN = "/home/ann/failing.py"
PACKAGES = "/usr/lib/python3.11/site-packages"
TORCH = [f"{PACKAGES}/torch/{name}.py" for name in ("_dynamo/eval_frame", "_dynamo/convert_frame", "_refs/__init__")]
IN_TORCH = [OWN, *TORCH]
OF_A_COMPILED_FUNCTION = [OWN, TORCH[0], OWN, *TORCH]
IN_A_FAKE_KERNEL = [OWN, *TORCH, OWN, TORCH[2]]
IN_PYTHONS_PACKAGES = [OWN, *TORCH, f"{STDLIB_FOLDERS[0]}/site-packages/speedy/lower.py", TORCH[2]]
IN_A_BACKEND = [OWN, *TORCH, f"{PACKAGES}/speedy/lower.py", TORCH[2]]


def part(files, kind=Kind.EXCEPTION, raised_by="torch._refs", backend="acme", is_checked=False, **ends):
    traceback = "".join(f'  File "{file}", line 1, in f\n' for file in files)
    raising = Frame(raised_by, "view") if raised_by else None
    fingerprint = Fingerprint(Stage.COMPILE, kind, types=("builtins.RuntimeError",), raising=raising)
    failure = Failure(fingerprint, "RuntimeError", "shape '[3, 5]' is invalid", traceback)
    reduced = ReducedScript("", 1, 1, True, (), 0.0, 0.0, failure, (), (), **ends)
    reference = BackendReference(backend, BackendSource.REGISTERED)
    return part_of_script(reduced, failure, reference, is_checked=is_checked)[0]


@pytest.mark.parametrize("files", [IN_TORCH, OF_A_COMPILED_FUNCTION])
def test_torchs_own_exception_is_the_fault_of_the_first_part_that_shows_it(files):
    assert part(files, without_backends=True) == "Dynamo"
    assert part(files, in_aot_eager=True) == "AOTAutograd"
    assert part(files) == part(files, in_aot_eager=False) == "", "of a backend, or of one that is not known"
    assert part(files, in_aot_eager=False, backend="inductor") == "inductor" and part(files, backend="inductor") == ""


def test_an_exception_of_the_script_for_want_of_a_value_is_no_fault_of_its_own():
    assert part([OWN], raised_by="__main__", without_backends=True, is_checked=True) == "Dynamo"


@pytest.mark.parametrize(
    "how",
    [
        {"files": IN_A_FAKE_KERNEL},
        {"files": IN_A_BACKEND},
        {"files": IN_PYTHONS_PACKAGES},
        {"files": IN_TORCH, "raised_by": "__main__"},
        {"files": IN_TORCH, "raised_by": "torchvision.ops"},
        {"files": IN_TORCH, "raised_by": "", "kind": Kind.SIGNAL},
    ],
    ids=[
        "a fake kernel that calls torch",
        "a backend",
        "a backend in Python's own folder",
        "the script",
        "another package",
        "a death",
    ],
)
def test_no_part_of_torch_is_named_where_other_code_may_be_at_fault(how):
    assert part(**how, without_backends=True) == part(**how, in_aot_eager=True) == ""


@pytest.mark.parametrize(
    ("written", "number", "is_alike"),
    [("free(): invalid pointer\n", 6, True), ("", 11, True), ("LLVM ERROR: no\n", 6, False), ("", 8, False)],
)
def test_a_control_dies_alike_as_a_probe_does(written, number, is_alike):
    sought = Fingerprint(Stage.RUN, Kind.SIGNAL, message="SIGABRT", native=DAMAGED_HEAP)
    ended = ChildEnd(None, 0.1, signal=number, written=written)
    assert (end_of_control(ended, Failure(sought, "signal", "SIGABRT")) == ALIKE) is is_alike
