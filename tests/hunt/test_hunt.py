"""`minify hunt`: a planted backend on a few programs of the user's."""

import json

import pytest
from clock import wait_until
from vocabulary import tree

BACKEND = '''
    """Fails in a way of its own for each of some ops."""

    import contextlib
    import os

    import torch
    from torch._dynamo import register_backend
    from torch._dynamo.source import ConstantSource
    from torch._guards import TracingContext
    from torch.fx.experimental.symbolic_shapes import DimDynamic


    @register_backend
    def faulty(gm, inputs):
        with contextlib.suppress(KeyError):  # which leaves the graph to nobody
            raise KeyError("no kernel is cached")
        ops = {getattr(node.target, "__name__", "") for node in gm.graph.nodes}
        if "logsumexp" in ops:
            raise RuntimeError("no lowering for logsumexp")
        if "hypot" in ops:
            raise RuntimeError("no lowering for hypot")
        if "frac" in ops:
            raise NotImplementedError("frac is not there yet")
        if "erfinv" in ops:
            os.abort()
        if "sign" in ops:
            return gm
        if "round" in ops:
            return lambda *args: gm(*args)
        if "tan" in ops:  # a symbol of no input: Dynamo raises as it writes the guards
            shapes, source = TracingContext.get().fake_mode.shape_env, ConstantSource("lower")
            symbol = shapes.create_symbol(5, source, DimDynamic.DYNAMIC)
            bool(shapes.create_symintnode(symbol, hint=5, source=source) % 2 == 1)
        scale = 1.02 if "sigmoid" in ops else 1.0
        run = torch.fx.Interpreter(gm).run
        return lambda *args: tuple(result * scale for result in run(*args))
'''
PROGRAMS = '''
    import os, torch


    class Gate(torch.nn.Module):
        """Has a state, which no run of it may see of another."""

        def __init__(self):
            super().__init__()
            self.norm, self.linear = torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 4)

        def forward(self, x):
            return torch.sigmoid(self.linear(torch.relu(self.norm(x))))


    def programs():
        x = torch.rand(5, 4)
        yield "gate", Gate(), (x,), {}
        yield "right", torch.nn.BatchNorm1d(4), (x,), {}
        yield "pool", torch.logsumexp, (x,), {"dim": 1}
        yield "loss", lambda value: torch.logsumexp(value * 2, 0).sum(), (x,), {}
        yield "both", lambda value: torch.logsumexp(torch.hypot(value, value), 0), (x,), {}
        yield "frac", torch.frac, (x,), {}
        yield "inverse", lambda values: torch.erfinv(torch.cat(values)), ([x, x],), {}
        yield "sign", torch.sign, (x,), {}
        yield "round", torch.round, (x,), {}
        yield "late", torch.tan, (x,), {}
        yield "length", len, ([1, 2],), {}
        yield "wrong size", lambda value: value.view(7), (x,), {}
        yield "dies by itself", lambda value: value + os.abort(), (x,), {}
        yield "infinite", lambda value: value / 0, (x,), {}
'''
ANSWERS = {
    **dict.fromkeys(["gate", "pool", "loss", "both", "inverse", "late"], "fails"),
    **dict.fromkeys(["wrong size", "infinite", "dies by itself"], "left out"),
    **{"right": "works", "frac": "not supported", "sign": "by fallback", "round": "by fallback", "length": "no graph"},
}

SENTENCE = "faulty: 1 of 10 (2 by fallback) work; 5 distinct failures, the worst costs 3 programs"


# Scripts, with the answer and the numbers of the failures of each.
SCRIPTS = {
    "again": ("compile(lambda x: torch.logsumexp(x * 2, 0), backend='inductor')(torch.ones(3))", "fails", [1]),
    "behind": ("try: compile(torch.logsumexp)(x, 0)\nexcept Exception: compile(torch.sigmoid)(x)", "fails", [1, 2]),
    "branch": ("compile(lambda x: 1 if x.sum() > 0 else 2, fullgraph=True)(x)", "fails", [3]),
    "broken": ("def", "left out", [0]),
    "nothing": ("x.sin()", "no graph", [0]),
    "own": ("def own(*_): raise ValueError('no')\ncompile(torch.sin, backend=own)(x)", "fails", [4]),
    "right": ("compile(torch.sin)(x)", "works", [0]),
    "too": ("compile(lambda x, i: x[i])(x, torch.tensor(9))", "left out", [0]),
}


def lines(out):
    """What came of the programs themselves."""
    found = [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]
    return [line for line in found if not line["behind"]]


def planted(project, *sources):
    """The command that hunts through the planted backend."""
    project.write(BACKEND, "faulty_backend.py")
    project.write(PROGRAMS, "mine.py")
    asked = ["hunt", "--backend", "faulty", "--import", "faulty_backend", "--unsupported", "^NotImplementedError"]
    return [*asked, "--out", project.out, *sources]


@pytest.mark.timeout(400)
def test_each_distinct_failure_has_a_repro_and_a_hunt_goes_on_where_it_was(project):
    asked = planted(project, "mine:programs")
    done = project.minify(*asked, timeout=300)
    assert done.code == 1
    assert {line["subject"]: line["answer"] for line in lines(project.out)} == ANSWERS
    summary = json.loads((project.out / "summary.json").read_text())
    assert summary["sentence"] == SENTENCE
    assert summary["sentence"] in done.says and (project.out / "report.md").read_text().startswith(
        f"# {summary['sentence']}"
    )
    found = {failure["what"]: failure for failure in summary["failures"]}
    assert set(found) == {"torch.sigmoid", "torch.logsumexp", "torch.erfinv", "torch.hypot", "torch.tan"}
    assert set(found["torch.logsumexp"]["subjects"]) == {"pool", "loss", "both"}
    assert found["torch.hypot"]["subjects"] == ["both"], "which logsumexp hides"
    assert found["torch.logsumexp"]["confirmed"] == 2
    for failure in found.values():
        assert failure["status"] == "reduced" and failure["key"]
        assert 'backend="faulty"' in (project.out / failure["folder"] / "repro.py").read_text()

    whole = (project.out / "results.jsonl").read_text()
    kept = whole.splitlines(keepends=True)
    (project.out / "results.jsonl").write_text("".join(kept[:-1]) + kept[-1][:20])  # killed while it wrote
    before = tree(project.out / "failures")
    assert project.minify(*asked, timeout=300).code == 1
    assert tree(project.out / "failures") == before, "what is reduced is not reduced again"
    assert json.loads((project.out / "summary.json").read_text()) == summary


@pytest.mark.timeout(400)
def test_the_scripts_of_a_folder_are_run_as_a_whole(project):
    for name, (text, *_) in SCRIPTS.items():
        project.write(f"import torch\ncompile, x = torch.compile, torch.ones(3)\n{text}", f"scripts/{name}.py")
    assert project.minify(*planted(project, "programs", "scripts"), timeout=300).code == 1
    found = {each["subject"][:-3]: (each["answer"], [each["group"], *each["shows"]]) for each in lines(project.out)}
    assert found == {name: (answer, failures) for name, (_, answer, failures) in SCRIPTS.items()}
    failures = json.loads((project.out / "summary.json").read_text())["failures"]
    branch = "programs scripts: branch.py 0 no-repro 1"
    reduced = {"torch.logsumexp reduced 2", "torch.sigmoid reduced 1", "torch.sin reduced 1", branch}
    assert {f"{each['what']} {each['status']} {each['programs']}" for each in failures} == reduced


def test_what_fails_only_behind_other_programs_is_tried_alone(project):
    project.write(
        """
        from torch._dynamo import register_backend

        compiled = []

        @register_backend
        def once(gm, inputs):
            compiled.append(gm)
            if len(compiled) > 1:
                raise RuntimeError("compiled before")
            return lambda *args: gm.forward(*args)
        """,
        "once_only.py",
    )
    project.write(
        """
        import torch

        def programs():
            for function in (torch.neg, torch.abs, torch.neg):
                yield "op", function, (torch.ones(2),), {}
        """,
        "mine.py",
    )
    asked, step = ["--backend", "once", "--import", "once_only", "--out", project.out], project.root / "step.md"
    done = project.minify("hunt", *asked, "mine:programs", GITHUB_STEP_SUMMARY=str(step))
    assert done.code == 0 and step.read_text() == (project.out / "report.md").read_text()
    assert sorted((line["number"], line["answer"]) for line in lines(project.out)) == [(n, "works") for n in range(3)]


@pytest.mark.parametrize(
    ("arguments", "noun"),
    [
        (["--backend", "eager", "nothing"], "nothing"),
        (["--backend", "eager", "nothing:programs"], "nothing:programs"),
        (["--backend", "eager", "--only", "x", "mine:programs"], "--only"),
        (["--backend", "eager", "--out", "."], "--out"),
        (["--backend", "eager", "programs"], "programs DIR"),
        pytest.param(["--backend", "eager", "--cluster", "127.0.0.1:1"], "ConnectionRefused", marks=pytest.mark.soak),
    ],
)
def test_what_cannot_be_hunted_is_refused(project, arguments, noun):
    project.write("def programs():\n    yield 'a', len, ([],), {}\n", "mine.py")
    done = project.minify("hunt", *arguments)
    assert done.code == 2 and noun in done.stderr


@pytest.mark.usefixtures("soak")
def test_models_of_transformers(project):
    names = ["bert", "gpt2", "llama", "t5", "vit"]
    asked = ["--only", f"^({'|'.join(names)})$", "--out", project.out, "models"]
    done = project.minify("hunt", "--backend", "eager", *asked, timeout=200)
    assert done.code == 0
    assert {line["subject"]: line["answer"] for line in lines(project.out)} == dict.fromkeys(names, "works")


@pytest.mark.usefixtures("soak")
@pytest.mark.timeout(500)
@pytest.mark.parametrize("mark", ["results.jsonl", "failures/*/program.json", "failures/*/minify.log"])
def test_a_hunt_that_is_killed_ends_with_the_same_page(project, mark):
    asked = planted(project, "mine:programs")
    process = project.start(*asked)
    wait_until(lambda: any(project.out.glob(mark)), mark, 200, process)
    process.kill()
    process.communicate()
    assert project.minify(*asked, timeout=300).code == 1
    summary = json.loads((project.out / "summary.json").read_text())
    assert summary["sentence"] == SENTENCE
    assert all((project.out / each["folder"] / "repro.py").exists() for each in summary["failures"])
