"""What ends the process while compiled code runs: the call is known, and a second run has its inputs."""

import pytest
import torch
from layers import sampled
from vocabulary import Lines, in_child, source_of

from minifier.capturing.capture import capture
from minifier.capturing.script import Program
from minifier.torch_side.fx.tensors import StoredTensors

pytestmark = pytest.mark.timeout(120)

HEAD = """
import os, signal, threading
import torch
import oddlib.deadly

def f(x, y):
    return torch.cos(torch.tanh(x) + y)

def compiled(**options):
    return torch.compile(f, backend="oddlib_ends", options=options)

"""


def script(text):
    return HEAD + source_of(text)


@pytest.mark.parametrize("how", sampled(["SIGSEGV", "SIGKILL", "exit", "thread"], 2))
def test_a_death_at_run_time_is_seen_again_with_the_inputs_of_that_call(bureau, how):
    text = script(f"""
        g = compiled(how={how!r}, call=3, empties=True)
        for i in range(5):
            g(torch.full((3,), float(i)), torch.ones(3))
    """)
    captured = bureau.capture(text)
    (failing,) = captured.failing
    message = {"exit": "exit status 7", "thread": "SIGSEGV"}.get(how, how)
    kind = "exit" if how == "exit" else "signal"
    assert (failing.stage.value, failing.number, failing.call) == ("run", 1, 3) and failing.inputs_lost
    assert (failing.failure.fingerprint.kind.value, failing.failure.message) == (kind, message)

    seen, case, said = bureau.capture_again(captured)
    assert "running the script again" in said and seen.inputs_lost == ""
    assert case.calls == 3 and case.failure == seen.failure and case.failure.message == message
    x, y = (StoredTensors(case.tensors).get(item.source.key) for item in case.inputs)
    assert torch.equal(x, torch.full((3,), 2.0)) and torch.equal(y, torch.ones(3))
    if message != "SIGKILL" and how != "exit":
        lines = case.failure.traceback.splitlines()
        assert "failing.py" in lines[1] and "minifier/" not in case.failure.traceback
        assert how == "thread" or "os.kill(os.getpid()" in lines[-1]


def test_a_death_that_does_not_come_again_is_said(bureau):
    text = script("""
        if os.path.exists("/dev/shm/%d" % 0) or os.path.exists(__file__ + ".ran"):
            os._exit(0)
        open(__file__ + ".ran", "w").close()
        compiled()(torch.ones(3), torch.ones(3))
    """)
    captured = bureau.capture(text)
    seen, case, said = bureau.capture_again(captured)
    assert "did not fail in call 1 of graph 1" in said and "chance" in said and "shapes alone" in said
    assert seen == captured.failing[0] and case.failure.message == "SIGSEGV" and case.tensors is None


def test_another_signal_the_second_time_is_what_counts(bureau):
    text = script("""
        again = os.path.exists(__file__ + ".ran")
        open(__file__ + ".ran", "w").close()
        compiled(how="SIGABRT" if again else "SIGSEGV")(torch.ones(3), torch.ones(3))
    """)
    captured = bureau.capture(text)
    seen, case, said = bureau.capture_again(captured)
    assert seen.failure.message == case.failure.message == "SIGABRT" and "the first time it was SIGSEGV" in said


def test_a_death_after_a_swallowed_failure_of_the_same_graph_does_not_take_its_case(bureau):
    captured = bureau.capture("""
        import os
        import torch
        import oddlib

        def backend(gm, inputs):
            def run(*args):
                if float(args[0].sum()) == 0:
                    raise ValueError("all zeros")
                if float(args[0].sum()) < 0:
                    os._exit(4)
                return gm.forward(*args)
            return run

        f = torch.compile(lambda x: torch.tanh(x) + 1, backend=backend)
        try:
            f(torch.zeros(2))
        except ValueError:
            pass
        f(-torch.ones(2))
    """)
    first, second = captured.failing
    assert (first.call, second.call) == (1, 2) and bureau.case().failure.type == "ValueError"
    seen, case, _ = bureau.capture_again(captured, index=1)
    assert case.failure.message == "exit status 4" and case.calls == 2 and seen.call == 2
    assert torch.equal(StoredTensors(case.tensors).get(case.inputs[0].source.key), -torch.ones(2))


NOT_OURS = {
    "a forked child's death": (
        "g = compiled(call=2)\ng(x, x)\npid = os.fork()\nif pid == 0:\n    g(x, x)\n    os._exit(0)\nos.waitpid(pid, 0)"
    ),
    "ended from outside": (
        "g = compiled(how='wait', call=2)\ng(x, x)\n"
        "def end():\n    oddlib.deadly.WAITS.wait()\n    os.kill(os.getpid(), 15)\n"
        "threading.Thread(target=end).start()\ng(x, x)"
    ),
    "a thread left behind": (
        "g = compiled(how='wait', call=1)\nthreading.Thread(target=g, args=(x, x), daemon=True).start()\n"
        "oddlib.deadly.WAITS.wait()"
    ),
}


@pytest.mark.parametrize("name", NOT_OURS)
def test_what_is_no_failure_of_a_backend(bureau, name):
    captured = bureau.capture(script("x = torch.ones(3)\n" + NOT_OURS[name]))
    assert captured.failing == () and captured.graphs == 1


def test_of_calls_in_several_threads_the_one_that_got_the_signal_is_taken(bureau):
    captured = bureau.capture("""
        import signal, threading
        import torch

        begun = {"dies": threading.Event(), "waits": threading.Event()}

        def backend(gm, inputs):
            def run(*args):
                name = threading.current_thread().name
                if name in begun:
                    begun[name].set()
                    begun["waits"].wait()
                    if name == "dies":
                        signal.raise_signal(signal.SIGSEGV)
                    signal.pause()
                return gm.forward(*args)
            return run

        x = torch.ones(3)
        one = torch.compile(lambda x: x + 1, backend=backend)
        two = torch.compile(lambda x: x * 2, backend=backend)
        one(x), two(x)
        threads = [threading.Thread(target=one, args=(x,), name="dies")]
        threads.append(threading.Thread(target=two, args=(x,), name="waits"))
        for thread in threads:
            thread.start()
            begun[thread.name].wait()
        for thread in threads:
            thread.join()
    """)
    (failing,) = captured.failing
    assert failing.failure.message == "SIGSEGV" and failing.call == 2
    assert [node.target for node in bureau.case(failing.number).graph.ops] == ["operator.add"]


@pytest.mark.parametrize(
    ("how", "said"),
    sampled([("close", "all files are closed"), ("open", "[Errno 24] Too many open files: '/dev/null'")]),
)
def test_a_backend_that_opens_or_closes_all_files(bureau, how, said):
    captured = bureau.capture(script(f"compiled(stage='compile', how={how!r})(torch.ones(3), torch.ones(3))"))
    (failing,) = captured.failing
    assert failing.unsaved == "" and failing.failure.message == said
    _summary, case = bureau.reduce()
    assert [node.target for node in case.graph.ops] == ["torch.tanh"]


@pytest.mark.parametrize(
    ("kills", "said"), [(1, ["running it again"]), (2, ["running it again", "again: that counts"])]
)
def test_a_script_that_is_killed_twice_is_said_to_fail_by_that(bureau, kills, said):
    path = bureau.folder / "failing.py"
    text = script(f"""
        with open(__file__ + ".runs", "a+") as runs:
            runs.write("x")
            runs.seek(0)
            number = len(runs.read())
        if number <= {kills}:
            os.kill(os.getpid(), signal.SIGKILL)
    """)
    path.write_text(text)

    def work():
        listening = Lines()
        captured = capture(Program(str(path), ()), bureau.graphs, ui=listening)
        return captured.was_killed, listening.lines

    was_killed, lines = in_child(work, bureau.folder, 60)
    assert was_killed is (kills > 1) and len(lines) == len(said)
    assert all(part in line for part, line in zip(said, lines, strict=True))
