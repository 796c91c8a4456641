"""Backends in forms that people publish, each with a fault of the kind that its users report."""

import textwrap
from dataclasses import dataclass

import pytest

pytestmark = [pytest.mark.timeout(300), pytest.mark.usefixtures("soak")]


@dataclass(frozen=True)
class Form:
    """A script that meets the fault, and its repro: at most so many ops, with these texts."""

    script: str
    ops: int
    shows: tuple[str, ...]
    kind: str = "wrong-result"


MODEL = """
import torch
from torch import nn
import torch.nn.functional as F
"""
FORMS = {
    "levels": Form(
        """
        from forms.levels import Compiler, Config, Level

        class Heads(nn.Module):
            def __init__(self):
                super().__init__()
                self.qkv = nn.Linear(8, 24)

            def forward(self, x):
                q, k, v = self.qkv(x).chunk(3, -1)
                q = q.unflatten(-1, (2, 4)).transpose(1, 2)
                scores = q @ k.unflatten(-1, (2, 4)).transpose(1, 2).transpose(2, 3)
                mixed = scores.softmax(-1) @ v.unflatten(-1, (2, 4)).transpose(1, 2)
                return mixed.transpose(1, 2).flatten(2)

        torch.manual_seed(0)
        model = torch.compile(Heads().eval(), backend=Compiler(Config(level=Level.FULL)))
        with torch.no_grad():
            print(model(torch.randn(2, 5, 8)).shape)
        """,
        3,
        ("Compiler(", "Level", "transpose"),
        "exception",
    ),
    "lowered": Form(
        """
        from forms.lowered import Options, backend

        options = Options("cpu", tiles=16)

        class Gate(nn.Module):
            def __init__(self):
                super().__init__()
                self.body = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 6))

            def forward(self, x):
                gate = (self.body(x) + 0.5).clamp(min=0.0)
                return x * gate / (1 + gate.amax(-1, keepdim=True))

        torch.compile(Gate().eval(), backend=backend(options))(torch.randn(4, 6))
        """,
        2,
        ("clamp", "Options("),
        "exception",
    ),
    "importer": Form(
        """
        from forms.importer import Importer

        importer = Importer(verbose=True)

        class Patches(nn.Module):
            def __init__(self):
                super().__init__()
                self.conv = nn.Conv2d(3, 8, 4, 4)
                self.norm = nn.LayerNorm(8)

            def forward(self, x):
                y = self.conv(x).flatten(2).permute(0, -1, 1)
                return self.norm(y).relu().mean(1)

        with torch.no_grad():
            print(torch.compile(Patches().eval(), backend=importer)(torch.randn(2, 3, 16, 16)))
        """,
        2,
        ("permute", "Importer("),
        "exception",
    ),
    "pieces": Form(
        """
        import forms.pieces

        class Pooled(nn.Module):
            def __init__(self):
                super().__init__()
                self.qkv = nn.Linear(8, 24)
                self.head = nn.Linear(8, 3)

            def forward(self, x):
                q, k, v = self.qkv(x).chunk(3, -1)
                mixed = F.scaled_dot_product_attention(q, k, v)
                return self.head(F.gelu(mixed).mean(-2))

        torch.manual_seed(0)
        model = torch.compile(Pooled().eval(), backend="pieces", dynamic=True)
        with torch.no_grad():
            for tokens in (4, 6):
                print(model(torch.randn(2, tokens, 8)))
        """,
        1,
        ("mean", 'backend="pieces"'),
    ),
    "halves": Form(
        """
        from forms.halves import backend

        class RMSNorm(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.weight = nn.Parameter(torch.ones(width))

            def forward(self, x):
                return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight

        model = nn.Sequential(nn.Linear(4, 8), RMSNorm(8), nn.SiLU(), nn.Linear(8, 2))
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        compiled = torch.compile(model, backend=backend)
        loss = compiled(torch.randn(5, 4)).square().mean()
        loss.backward()
        optimizer.step()
        """,
        2,
        ("rsqrt", ".backward("),
        "exception",
    ),
    "programs": Form(
        """
        import forms.programs

        class Tagger(nn.Module):
            def __init__(self):
                super().__init__()
                self.body = nn.Sequential(nn.Embedding(20, 8), nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 5))

            def forward(self, ids):
                return self.body(ids).softmax(-1).argmax(-1)

        with torch.no_grad():
            print(torch.compile(Tagger().eval(), backend="programs")(torch.arange(6).reshape(2, 3)).dtype)
        """,
        1,
        ("argmax", 'backend="programs"'),
    ),
    "sessions": Form(
        """
        from forms.sessions import make_backend

        class Gated(nn.Module):
            def __init__(self):
                super().__init__()
                self.gate, self.up, self.down = nn.Linear(6, 12), nn.Linear(6, 12), nn.Linear(12, 6)

            def forward(self, x):
                gate, up = torch.sigmoid(self.gate(x)), torch.tanh(self.up(x))
                return self.down(torch.cat([gate, up], 0)).relu()

        torch.manual_seed(0)
        with torch.no_grad():
            print(torch.compile(Gated().eval(), backend=make_backend(dynamic=False))(torch.randn(3, 6)).sum())
        """,
        2,
        ("sigmoid", "SessionBackend("),
    ),
    "profiled": Form(
        """
        from forms.profiled import make_stage_backend

        class Energy(nn.Module):
            def __init__(self):
                super().__init__()
                self.body = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))

            def forward(self, x):
                y = self.body(x)
                return (y * y).sum() + x.sin().mean()

        with torch.no_grad():
            torch.compile(Energy(), backend=make_stage_backend(stage=3))(torch.randn(3, 4))
        """,
        2,
        ("make_stage_backend(",),
        "exception",
    ),
    "cached": Form(
        """
        import forms.cached

        def warm(x):
            return (x * 2.0).sin() + 1.0

        def train(x):
            return (x * 3.0).sin() + 4.0

        torch.manual_seed(0)
        x = torch.randn(5)
        first = torch.compile(warm, backend="cached")(x)
        second = torch.compile(train, backend="cached")(x)
        torch.testing.assert_close(second, train(x))
        """,
        1,
        ('backend="cached"', "earlier"),
    ),
    "arrays": Form(
        """
        import forms.arrays

        class Mixer(nn.Module):
            def __init__(self):
                super().__init__()
                self.first, self.last = nn.Linear(6, 16), nn.Linear(16, 6)

            def forward(self, x):
                hidden = torch.tanh(self.first(x))
                return torch.relu(self.last(torch.softmax(hidden, 0) + hidden))

        torch.manual_seed(0)
        with torch.no_grad():
            print(torch.compile(Mixer().eval(), backend="arrays")(torch.randn(4, 6)))
        """,
        1,
        ("softmax", 'backend="arrays"'),
    ),
}


@pytest.mark.parametrize("name", FORMS)
def test_the_fault_is_reduced(project, name):
    form = FORMS[name]
    done = project.run(MODEL + textwrap.dedent(form.script))
    assert done.code == 0, done.stderr
    assert done.ops[1] <= form.ops and done.result["one_minimal"], done.repro
    assert all(text in done.repro for text in form.shows), done.repro
    assert done.result["failure"]["kind"] == form.kind
