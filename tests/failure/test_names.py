"""Names of stages, kinds, verdicts and aspects, as they stand in Cases, journals and command lines that are kept."""

from minifier.data.failure import Aspect, Kind, Stage, Verdict


def test_names_that_are_kept_in_files_do_not_change():
    assert [each.value for each in Stage] == [
        "capture",
        "compile",
        "run",
        "backward-compile",
        "backward-run",
        "compare",
    ]
    assert [each.value for each in Kind] == [
        "exception", "signal", "exit", "timeout", "out-of-memory", "wrong-result", "non-finite", "silent-fallback",
    ]  # fmt: skip
    assert [each.value for each in Verdict] == ["SAME", "OTHER", "PASS", "INVALID", "UNRESOLVED"]
    assert [each.value for each in Aspect] == [
        "values", "non-finite", "shape", "dtype", "stride", "device", "aliasing", "mutation", "overwritten",
        "gradient", "autograd", "no-exception", "structure", "predicate",
    ]  # fmt: skip
