"""What a capture's log tells of the calls ahead of the failing one."""

from dataclasses import replace

import pytest
from case_samples import call, graph, meta, output, placeholder, small_case

from minifier.capturing.captured import EVENTS, EventLog
from minifier.capturing.read_run import read_calls_ahead
from minifier.data.case import Drawn, Ref, TensorInput
from minifier.data.case.store import save

VALUE = meta(2)
GRAPH = graph(placeholder("x", VALUE), call("y", "torch.tanh", Ref("x"), value=VALUE), output("y"))
CASE = replace(small_case(), graph=GRAPH, inputs=(TensorInput("x", VALUE, Drawn("randn")),))


@pytest.fixture
def log(tmp_path):
    """`log("compiled 1", "ran 1", ...)`: the events of a capture whose graphs all have this Case."""

    def write(*events: str, forwards: dict[int, int] | None = None, same: tuple[int, ...] = ()) -> None:
        log, begun = EventLog(tmp_path / EVENTS), set()
        for event in events:
            name, number, *of = event.split()
            if number not in begun:
                begun.add(number)
                save(replace(CASE, script=replace(CASE.script, imports=(f"import ops{number}",))), tmp_path / number)
                function = 8 if int(number) in same else int(number)
                log.write("compiling", number=int(number), of=function, forward=(forwards or {}).get(int(number)))
            log.write(name, number=int(number), **({"call": int(of[0])} if of else {}))

    return write


def told(folder, number, call):
    found = read_calls_ahead(folder, number, call)
    return [(each.case.script.imports[0][-1], each.call.times, each.call.backward, each.late) for each in found]


def test_the_graphs_that_were_compiled_before_with_their_calls(log, tmp_path):
    log("compiled 1", "ran 1", "compiled 2", "ran 2", "ran 1", "ran 1", "failed 3 0", "compiled 4", "ran 4")
    assert told(tmp_path, 3, 0) == [("1", 3, False, False), ("2", 1, False, False)]


def test_a_graph_compiled_between_the_calls_of_the_failing_one_is_late(log, tmp_path):
    log("compiled 1", "ran 1", "compiled 2", "ran 2", "compiled 3", "ran 3", "failed 2 2")
    assert told(tmp_path, 2, 2) == [("1", 1, False, False), ("3", 1, False, True)]


def test_a_graph_whose_backward_was_compiled_has_a_backward_pass(log, tmp_path):
    log("compiled 1", "ran 1", "compiled 2", "ran 2", "compiled 3", "failed 4 0", forwards={2: 1, 4: 3})
    assert told(tmp_path, 4, 0) == [("1", 1, True, False)], "the failing graph's own forward is not ahead of it"


def test_a_call_that_never_ended_follows_all_events(log, tmp_path):
    log("compiled 1", "ran 1", "compiled 2", "ran 2")
    assert told(tmp_path, 2, 1) == [("1", 1, False, False)]


def test_graphs_of_another_backend_or_without_a_case_are_left_out(log, tmp_path):
    log("compiled 1", "compiled 2", "compiled 3", "failed 4 0")
    save(replace(CASE, backend=replace(CASE.backend, options={"level": 4})), tmp_path / "1")
    (tmp_path / "2" / "case.json").unlink()
    assert [number for number, *_ in told(tmp_path, 4, 0)] == ["3"]


def test_one_object_is_one_backend_however_it_was_written_back(log, tmp_path):
    log("compiled 1", "compiled 2", "failed 3 0", same=(1, 3))
    for number in (1, 2):
        other = replace(CASE.backend, expression="acme.Backend()")
        save(
            replace(CASE, script=replace(CASE.script, imports=(f"import ops{number}",)), backend=other),
            tmp_path / str(number),
        )
    assert [number for number, *_ in told(tmp_path, 3, 0)] == ["1"]
