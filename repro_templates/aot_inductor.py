import torch


def aot_inductor(gm, example_inputs, options=None):
    program = torch.export.export(gm, tuple(example_inputs))
    return torch._inductor.aoti_load_package(
        torch._inductor.aoti_compile_and_package(program, inductor_configs=options)
    )
