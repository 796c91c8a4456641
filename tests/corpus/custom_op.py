r"""A custom operator and the backend that does not know it both stand in the failing script.

reach: exit 0, 1 op
shows: custom_op\(.*bank::interest.*torch\.ops\.bank\.interest
hides: cumsum|logsumexp
layer: test
"""

import torch
from torch._dynamo import register_backend


@torch.library.custom_op("bank::interest", mutates_args=())
def interest(balance: torch.Tensor, rate: float) -> torch.Tensor:
    return balance * (1 + rate)


@interest.register_fake
def _(balance, rate):
    return torch.empty_like(balance)


@register_backend
def careful(graph_module, example_inputs):
    for node in graph_module.graph.nodes:
        if node.op == "call_function" and "bank" in str(node.target):
            raise TypeError("an operator of an unknown namespace")
    return graph_module.forward


@torch.compile(backend="careful")
def savings(deposits, years):
    """What monthly deposits have come to after some years."""
    balance = deposits
    for _ in range(years):
        balance = torch.cumsum(balance, dim=-1) * 0.9 + deposits.mean()
    balance = torch.ops.bank.interest(balance, 0.03)
    for _ in range(years):
        balance = torch.logsumexp(balance, dim=-1, keepdim=True) + deposits
    return balance[..., -1]


torch.manual_seed(0)
print(savings(torch.rand(4, 12), 12).tolist())
