"""Exported programs, and the calls by which AOTInductor compiles them."""

import torch
import torch._inductor

from minifier import torch_private as private


class _Counting(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(2))
        self.scale = torch.nn.Parameter(torch.ones(2))

    def forward(self, x, *, y):
        self.count.view(-1).add_(1)
        return x.clone().mul_(self.scale) + y + self.count


def test_an_exported_program_has_its_inputs_in_order_and_tells_what_it_writes_to():
    x, y = torch.ones(2), torch.zeros(2)
    gm, inputs = private.module_of_export(torch.export.export(_Counting(), (x,), {"y": y}))
    assert inputs[0] is x and inputs[1] is y
    assert [node.name for node in gm.graph.find_nodes(op="placeholder")] == ["x", "y"]
    assert private.inputs_written_to(gm) == {"count"}


def test_calls_of_aot_inductor_are_seen_until_it_is_ended():
    original = torch._inductor.aoti_compile_and_package
    seen = []
    end = private.observe_aot_inductor(
        lambda program, configs, call: seen.append((type(program).__name__, configs)) or "path",
        lambda path, run: None,
    )
    program = torch.export.export(_Counting(), (torch.ones(2),), {"y": torch.ones(2)})
    assert torch._inductor.aoti_compile_and_package(program, inductor_configs={"max_autotune": False}) == "path"
    end()
    assert seen == [("ExportedProgram", {"max_autotune": False})]
    assert torch._inductor.aoti_compile_and_package is original
