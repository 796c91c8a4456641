"""Backends that a function made while it runs: the definitions that make such a backend again, run elsewhere."""

import pytest
import torch
from vocabulary import source_of

from minifier.capturing.local_backend import local_backend
from minifier.torch_side.torch_private import dynamo

MODULE = source_of("""
    import functools

    import torch

    FOUND = []
    SHIFT = 100


    def seen(look, backend):
        FOUND.append(look(backend))


    def lower(gm, factor, log):
        log.append(gm)
        return gm * factor + SHIFT + len(log)


    class Lowering:
        def __init__(self, level):
            self.rules = {"level": level}

        def register(self, name):
            def keep(value):
                self.rules[name] = value

            return keep

        def compile(self, gm):
            return gm * self.rules["level"] + self.rules.get("more", 0)


    def a_lambda(look):
        log, factor = [], 3
        seen(look, lambda gm: lower(gm, factor, log))




    def a_method_after_other_calls(look):
        lowering = Lowering(4)
        lowering.register("more")(50)
        seen(look, lowering.compile)


    def in_a_partial(look):
        lowering = Lowering(4)
        seen(look, functools.partial(lower, factor=2, log=lowering.rules.setdefault("log", [])))


    def values_of_an_outer_function(look):
        log = []
        lowering = Lowering(6)
        passed_on(look, lowering, log, torch.ones(2), 2)


    def passed_on(look, what, log, unused, times):
        for step in range(times):
            if step == 1:
                seen(look, lambda gm: what.compile(gm) + lower(gm, step, log))


    def of_a_factory(look):
        scale = compute(5)
        backend = factory(scale)
        seen(look, backend)


    def factory(scale):
        doubled = scale * 2

        def backend(gm):
            return gm * doubled

        return backend


    def compute(number):
        return number + 1


    def an_attribute(look):
        trainer = Trainer(Lowering(8))
        trainer.fit(look)


    class Trainer:
        def __init__(self, lowering):
            self.made = lowering
            self.steps = []

        def fit(self, look):
            self.steps.append(1)
            seen(look, lambda gm: self.made.compile(gm) + SHIFT)




    def an_object_that_a_class_gets(look):
        Keeper(look, Lowering(9))


    class Keeper:
        def __init__(self, look, what):
            self.rules = what.rules
            seen(look, lambda gm: what.compile(gm))


    def a_tensor(look):
        list(map(functools.partial(with_tensor, look), [torch.randn(2)]))


    def with_tensor(look, weight):
        seen(look, lambda gm: gm * weight.sum())


    def a_local_name_of_two(look):
        log = [1, 2, 3]
        uses_another(look, Lowering(len(log)), log)


    def uses_another(look, what, first):
        log = []
        seen(look, lambda gm: lower(gm, len(first), log))


    def two_lambdas(look):
        pair = [lambda gm: gm + 1, lambda gm: gm + 2]
        seen(look, pair[1])
""")


@pytest.fixture
def functions(imported):
    return imported("odd_locals", MODULE)


def made_in(functions, name):
    """What `local_backend` found in the function of this name, and what the backend itself returned there for 1."""
    results = []

    def look(backend):
        source = local_backend(backend)
        results.append(backend(1))
        return source

    getattr(functions, name)(look)
    ((source,), (result,)) = functions.FOUND, results
    return source, result


@pytest.mark.parametrize(
    "name",
    [
        "a_lambda",
        "a_method_after_other_calls",
        "in_a_partial",
        "values_of_an_outer_function",
        "of_a_factory",
        "an_attribute",
        "an_object_that_a_class_gets",
        "two_lambdas",
    ],
)
def test_the_definitions_make_a_backend_that_does_the_same(functions, name):
    source, result = made_in(functions, name)
    names = {}
    exec("\n".join([*source.imports, source.definitions]), names)
    assert eval(source.expression, names)(1) == result
    assert "torch.ones" not in source.definitions


@pytest.mark.parametrize("name", ["a_tensor", "a_local_name_of_two"])
def test_what_no_statements_make_again(functions, name):
    source, _ = made_in(functions, name)
    assert source is None


def test_what_is_read_at_a_call_of_torch_compile_is_known_when_the_backend_is_called():
    found = []

    def noting(gm, example_inputs):
        return gm.forward

    torch._dynamo.reset()
    end_watching = dynamo.observe_backend_calls(
        lambda compiler_fn, gm, inputs, call: found.append(dynamo.asked_backend(compiler_fn).noted) or call()
    )
    end = dynamo.note_at_compile(lambda backend: backend.__name__)
    torch.compile(torch.sin, backend=noting)(torch.ones(2))
    end()
    torch.compile(torch.cos, backend=noting)(torch.ones(2))
    end_watching()
    assert found == ["noting", None]
