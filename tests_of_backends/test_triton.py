"""Graphs that launch Triton kernels of the script's. Run by `make test-backends`, in an environment of its own."""

import importlib.util
import json
import shutil
from pathlib import Path

import pytest
import triton
from minified_run import minified
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

pytestmark = pytest.mark.timeout(300)

SCRIPT = """
import torch
import triton
import triton.language as tl
import triton_on_cpu

FACTOR: tl.constexpr = tl.constexpr(3)
UNUSED: tl.constexpr = tl.constexpr(4)


@triton.jit
def unused(x):
    return x + UNUSED


@triton.jit
def scaled(x):
    return x * FACTOR


{decorator}@triton.jit
def kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, scaled(x), mask=mask)


def fn(x):
    y = torch.relu(x) + 1
    z = torch.zeros_like(y)
    n = y.numel()
    kernel[(triton.cdiv(n, 128),)](y, z, n{arguments})
    return torch.sin(z) * 2 + y


torch.manual_seed(0)
torch.compile(fn, backend="{backend}")(torch.randn(4, 256))
"""
TUNED = '@triton.autotune([triton.Config({"BLOCK": 128})], key=["n"])\n'


def script(decorator="", arguments=", BLOCK=128", backend="masked"):
    return SCRIPT.format(decorator=decorator, arguments=arguments, backend=backend)


@pytest.fixture
def folder(tmp_path):
    shutil.copy(Path(__file__).with_name("triton_on_cpu.py"), tmp_path)
    return tmp_path


def head(repro, folder):
    """What stands ahead of the function of the repro, as a module."""
    path = folder / "head.py"
    path.write_text(repro.partition("\ndef fn(")[0])
    spec = importlib.util.spec_from_file_location("head", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_backend_that_refuses_a_kernel(folder):
    result, repro = minified(script(), folder)
    assert (result["level"], result["ops_after"]) == ("dynamo", 1)
    assert (result["verified"]["runs"], result["verified"]["same"]) == (3, 3)
    assert "unused" not in repro.lower() and "def scaled(x):" in repro and "FACTOR" in repro
    assert "    return kernel[(8, 1, 1)](x_ptr=x, out_ptr=y, n=1024, BLOCK=128)\n" in repro


def test_the_kernel_of_the_repro_compiles_for_a_gpu(folder):
    _, repro = minified(script(), folder)
    signature = {"x_ptr": "*fp32", "out_ptr": "*fp32", "n": "i32", "BLOCK": "constexpr"}
    source = ASTSource(fn=head(repro, folder).kernel, signature=signature, constexprs={"BLOCK": 128})
    compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32))
    assert ".visible .entry kernel" in compiled.asm["ptx"]


def test_a_kernel_that_is_launched_wrongly(folder):
    result, repro = minified(script(backend="halved"), folder)
    assert (result["failure"]["kind"], result["level"]) == ("wrong-result", "dynamo")
    assert result["ops_after"] <= 2 and "kernel[(" in repro
    assert (result["verified"]["runs"], result["verified"]["same"]) == (3, 3)


def test_a_kernel_that_is_tuned(folder):
    result, repro = minified(script(decorator=TUNED, arguments=""), folder)
    assert (result["level"], result["ops_after"]) == ("dynamo", 1)
    assert "@triton.autotune(" in repro and "BLOCK=" not in repro


def test_a_kernel_of_a_module(folder):
    text = script().replace("torch.manual_seed", "#")
    (folder / "kernels.py").write_text(text.partition("def fn(")[0])
    body = "def fn(" + text.partition("def fn(")[2]
    imports = "import torch\nimport triton\nfrom kernels import kernel\nimport triton_on_cpu\n\n\n"
    result, repro = minified(imports + body, folder)
    assert (result["level"], result["ops_after"]) == ("dynamo", 1)
    assert "from kernels import kernel\n" in repro and json.dumps(result["backend"]).count("triton_on_cpu")
