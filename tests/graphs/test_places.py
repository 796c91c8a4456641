"""Each op of a captured graph has the file and the line of the user's code that it comes from."""

from __future__ import annotations

import inspect
import sys
from types import SimpleNamespace

import pytest
import torch

from minifier.torch_side.fx.graphs import read_graph
from minifier.torch_side.fx.script_objects import line_of_script
from minifier.torch_side.fx.tensors import TensorFile


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(2, 2)

    def forward(self, x):
        x = self.linear(x)  # torch's own code calls the op
        return x.tanh()


def graphs_of(function, *args):
    """Return the graphs that Dynamo hands over when this function is called, as this tool reads them."""
    graphs = []

    def keep(gm, inputs):
        graphs.append(read_graph(gm, TensorFile()))
        return gm.forward

    torch.compile(function, backend=keep)(*args)
    return graphs


def test_an_op_has_the_line_of_the_users_code_that_made_it():
    (graph,) = graphs_of(Model(), torch.ones(1, 2))
    first = inspect.getsourcelines(Model.forward)[1]
    assert [op.place for op in graph.ops] == [f"test_places.py:{first + 1}", f"test_places.py:{first + 2}"]
    assert graph.ops[1].source == "return x.tanh()"


def test_an_op_of_a_notebook_has_the_cell_and_the_line(monkeypatch):
    compiler = pytest.importorskip("IPython.core.compilerop").CachingCompiler()
    code = "import torch\ndef f(x):\n    y = x.sin()\n    return y.tanh()\n"
    file, names = compiler.cache(code, 7), {}
    exec(compile(code, file, "exec"), names)
    shell = SimpleNamespace(get_ipython=lambda: SimpleNamespace(compile=compiler))
    monkeypatch.setitem(sys.modules, "IPython", shell)
    (graph,) = graphs_of(names["f"], torch.ones(2))
    assert [op.place for op in graph.ops] == ["cell 7, line 3", "cell 7, line 4"]


class Trainer:
    def __init__(self, model):
        self.model = model

    def step(self, x):
        return self.model(x)


def by_closure(model):
    def step(x):
        return model(x)

    return lambda x: step(x)


class Stacked(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList([Model(), Model()])

    def forward(self, x):
        return self.layers[1](x)


STACKED, HELD = Stacked(), [Stacked()]


@pytest.mark.parametrize(
    ("function", "args", "path"),
    [
        (STACKED, (), "layers.1"),
        (lambda x: STACKED(x), (), "layers.1"),
        (lambda x: HELD[0](x), (), "layers.1"),
        (lambda model, x: model.layers[1](x), (STACKED,), "layers.1"),
        (by_closure(STACKED), (), "layers.1"),
        (Trainer(STACKED).step, (), "model.layers.1"),
    ],
)
def test_the_path_of_an_ops_module_is_whole(function, args, path):
    """Only the variable that holds the model is left out, whether or not Dynamo counts the model among the modules."""
    (graph,) = graphs_of(function, *args, torch.ones(1, 2))
    assert [op.module[1] for op in graph.ops] == [f"{path}.linear", path]


def test_below_an_exit_handler_of_the_script_stands_the_tools_own_main():
    exec("def run(handler): return handler()", tool := {"__name__": "minifier.capturing.script"})
    main = {"__name__": "__main__", "look": line_of_script, "run": tool["run"]}
    exec(compile("\nlines = look(), run(look)", "main.py", "exec"), main)
    assert main["lines"] == (2, 0)
