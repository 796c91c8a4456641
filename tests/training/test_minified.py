"""Scripts that train, minified to a repro that is run once more."""

import signal

import pytest
from clock import wait_until
from layers import sampled
from scripts_of_training import HEAD, one_step
from vocabulary import Held, run_alone, source_of

pytestmark = pytest.mark.timeout(600)


def script(text):
    return HEAD + source_of(text)


def outcome(done):
    """Stage, kind, level and number of ops that are left."""
    result = done.result
    return result["failure"]["stage"], result["failure"]["kind"], result["level"], result["ops_after"]


def shown(done, folder):
    """What the repro prints when it is run alone."""
    assert done.code == 0 and done.result["verified"] == {"runs": 1, "same": 1, "control": "passed"}, done.stderr
    again = run_alone(done.out / "repro.py", folder / "alone")
    assert again.returncode != 0
    return again.stderr


def body(repro):
    """The lines of the function."""
    lines = repro[repro.index("def fn(") :].split("\n\n")[0].splitlines()
    return [line.strip() for line in lines[1:]]


def test_an_exception_in_the_backward_compiler(minify, tmp_path):
    done = minify(one_step("faulty_backward"), timeout=400)
    assert "no lowering for tanh_backward in a backward graph" in shown(done, tmp_path)
    assert outcome(done) == ("backward-compile", "exception", "aot-backward", 1) and done.result["one_minimal"]
    assert body(done.repro) == ["return torch.tanh(x)"] and "y.backward(torch.randn_like(y))" in done.repro
    assert done.result["template"] == "run_backward"


@pytest.mark.usefixtures("soak")
def test_a_death_in_the_second_backward_pass(minify, tmp_path):
    done = minify(
        script(
            """
            g = torch.compile(f, backend="oddlib_trains", options={"stage": "run", "call": 2, "how": "SIGSEGV"})
            optimizer = torch.optim.SGD([w], lr=0.1)
            for step in range(3):
                optimizer.zero_grad()
                g(x + step, w).pow(2).sum().backward()
                optimizer.step()
            """
        ),
        timeout=400,
    )
    assert outcome(done) == ("backward-run", "signal", "aot-backward", 1)
    shown(done, tmp_path)
    assert body(done.repro) == ["return torch.tanh(x)"]
    assert "for _ in range(2):" in done.repro and ".backward(" in done.repro


@pytest.mark.soak
def test_wrong_gradients_in_bf16(minify, tmp_path):
    done = minify(
        script(
            """
            def f(x, w):
                for _ in range(5):
                    x = torch.sin(x) * 1.5
                return torch.sigmoid(torch.tanh(x @ w) * 2 - 0.5)

            x, w = x.bfloat16(), w.detach().bfloat16().requires_grad_()
            torch.compile(f, backend="faulty_gradient", options={"factor": 1.5})(x, w).sum().backward()
            """
        ),
        timeout=400,
    )
    assert outcome(done) == ("compare", "wrong-result", "dynamo", 1)
    assert "Mismatched elements" in shown(done, tmp_path)
    assert body(done.repro) == ["return torch.tanh(x)"] and "torch.autograd.grad(" in done.repro


@pytest.mark.parametrize("backend", sampled(["oddlib_mirrors", "oddlib_mirrors_aten"]))
def test_gradients_that_are_wrong_where_they_are_not_the_same_everywhere(minify, tmp_path, backend):
    done = minify(script(f"torch.compile(f, backend={backend!r})(x, w).sum().backward()\n"), timeout=400)
    assert outcome(done) == ("compare", "wrong-result", "dynamo", 1)
    assert "Mismatched elements" in shown(done, tmp_path) and body(done.repro) == ["return torch.tanh(x)"]


def test_a_backward_pass_without_aotautograd(minify, tmp_path):
    done = minify(script("torch.compile(f, backend='oddlib_raises_in_autograd')(x, w).sum().backward()\n"), timeout=400)
    assert outcome(done) == ("backward-run", "exception", "dynamo", 1)
    assert "gradient of tanh ran over" in shown(done, tmp_path)
    assert body(done.repro) == ["return torch.tanh(x)"] and ".backward(" in done.repro


@pytest.mark.soak
def test_no_backward_pass_where_the_failure_needs_none(minify, tmp_path):
    """The backend cannot do any backward pass either: a repro that makes one would show that."""
    done = minify(
        script(
            "torch.compile(f, backend='faulty_raise', options={'stage': 'run', 'op': 'tanh'})(x, w).sum().backward()\n"
        ),
        timeout=400,
    )
    assert outcome(done) == ("run", "exception", "dynamo", 1)
    shown(done, tmp_path)
    assert "backward" not in done.repro and "requires_grad" not in done.repro


@pytest.mark.usefixtures("soak")
def test_the_aten_graph_where_dynamos_does_not_show_the_failure(minify, tmp_path):
    done = minify(
        script(
            """
            x.odd_mark = True
            torch.compile(f, backend="oddlib_lowers")(x, w)
            """
        ),
        timeout=400,
    )
    assert outcome(done) == ("compile", "exception", "aot-forward", 1)
    assert "no lowering for aten.tanh" in shown(done, tmp_path)
    assert body(done.repro) == ["return torch.ops.aten.tanh(x)"]
    assert any("the failure shows with the ATen graph" in line for line in done.says)


@pytest.mark.usefixtures("soak")
def test_interrupted_while_the_forward_graph_is_reduced_and_resumed(project, tmp_path):
    project.write(script('torch.compile(f, backend="oddlib_trains_slowly")(x, w).sum().backward()\n'))
    held = Held(project, '"phase"', 5)
    process = project.start_warm("run", "--out", project.out, "--verify", "1", "failing.py", **held.environment)
    held.wait(process)
    process.send_signal(signal.SIGINT)
    wait_until(lambda: "interrupted: ending the search" in process.printed_errors(), process=process)
    held.release()
    done = project.finish(process, timeout=300)
    assert done.code == 3 and done.result["stopped_because"] and done.result["repro"], done.stderr
    assert outcome(done)[:3] == ("backward-compile", "exception", "aot-backward") and done.ops[1] > 2

    again = project.minify("reduce", "--verify", "1", project.out, timeout=400)
    assert again.code == 0 and outcome(again) == (*outcome(done)[:3], 2), again.stderr
    assert ".backward(" in again.repro and len(body(again.repro)) <= 3
    checked = project.minify("check", project.out / "repro.py", timeout=100)
    assert checked.code == 1 and "still there" in checked.stdout

    other = project.minify(
        *("reduce", "--verify", "1", project.out / "case", "--out", tmp_path / "other", "--match", "no lowering"),
        timeout=400,
    )
    assert other.code == 0 and ".backward(" in (tmp_path / "other" / "repro.py").read_text(), other.stderr


@pytest.mark.soak
def test_the_graph_of_compiled_autograd(minify, tmp_path):
    """Dynamo's graph of a backward pass calls functions that only this process has; the ATen graph does not."""
    done = minify(
        script(
            """
            import torch._dynamo.config
            torch._dynamo.config.compiled_autograd = True
            options = {"level": "forward", "op": "tanh_backward"}
            torch.compile(lambda: f(x, w).sum().backward(), backend="faulty_raise", options=options)()
            """
        ),
        timeout=400,
    )
    assert outcome(done) == ("compile", "exception", "aot-forward", 1)
    assert "no lowering for tanh_backward" in shown(done, tmp_path)
    assert any("cannot be saved" in line for line in done.says)


CUSTOM_BACKWARD = """
import torch

@torch.library.custom_op("clips::scaled", mutates_args=())
def scaled(x: torch.Tensor) -> torch.Tensor:
    return x * 2

@scaled.register_fake
def _(x):
    return torch.empty_like(x)

def backward(ctx, gradient):
    return torch.from_numpy(gradient.numpy() * 2)

scaled.register_autograd(backward)
fn = torch.compile(lambda x: torch.ops.clips.scaled(x.sin()).cos(), backend="aot_eager")
fn(torch.randn(3, requires_grad=True)).sum().backward()
"""
IN_PLACE = """
import torch

fn = torch.compile(lambda x: torch.tanh(x * 2).unsqueeze_(0) + 1, backend="aot_eager")
y = fn(torch.randn(3, requires_grad=True))
"""


@pytest.mark.soak
def test_a_backward_that_cannot_be_traced_fails_while_the_graph_is_compiled(minify, tmp_path):
    done = minify(CUSTOM_BACKWARD)
    assert outcome(done) == ("compile", "exception", "dynamo", 1)
    assert ".numpy() is not supported" in run_alone(done.out / "repro.py", tmp_path / "alone").stderr


def test_a_backward_that_fails_in_eager_mode_too_is_the_programs_own(minify):
    """AOTAutograd traces it though the script never runs it: a repro without a backward pass would pass in eager."""
    done = minify(IN_PLACE)
    assert done.code == 1 and "backward pass fails without the backend as well" in done.stderr
    assert not list(done.out.glob("**/repro.py"))
