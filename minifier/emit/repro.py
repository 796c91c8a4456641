"""From a Case to the text of its repro, and the files that go beside it."""

from __future__ import annotations

import platform
import shutil
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

from minifier.case import BackendReference, Case, Graph, Input, Node, State, Stored, TensorInput, TensorMeta
from minifier.case.literals import imported_paths, literal
from minifier.case.switches import contexts, statements
from minifier.case.values import contiguous_stride
from minifier.emit.graph_source import function_source
from minifier.emit.input_source import TENSOR_FILE, input_lines
from minifier.emit.module_source import constructor
from minifier.emit.naming import Names
from minifier.emit.template import Filling, fill


class Template(str, Enum):
    """The forms a repro can take, in the order in which they are tried."""

    COMPILE_FUNCTION = "compile_function"
    CALL_REPEATEDLY = "call_repeatedly"
    CALL_BACKEND = "call_backend"


def templates_for(case: Case) -> tuple[Template, ...]:
    """The forms that can show the Case's failure, the one a maintainer would like best first."""
    if case.calls > 1:
        return (Template.CALL_REPEATEDLY,)
    return (Template.COMPILE_FUNCTION, Template.CALL_BACKEND)


@dataclass(frozen=True, slots=True)
class Repro:
    """A script and the form it has. `tensors` is the file of values to be put beside it, if it reads one."""

    text: str
    template: Template
    tensors: Path | None = None

    def write(self, folder: Path) -> Path:
        """Writes repro.py, and the values it reads, into `folder`."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "repro.py"
        path.write_text(self.text, encoding="utf-8")
        if self.tensors is not None:
            shutil.copyfile(self.tensors, folder / TENSOR_FILE)
        return path


def _lifted(case: Case) -> Case:
    """Tensors that the graph holds as attributes become inputs: a function has nothing else to hold them."""
    nodes: list[Node] = []
    inputs: list[Input] = []
    known = {item.name: item for item in case.inputs}
    for node in case.graph.nodes:
        if node.op == "get_attr" and node.target in case.graph.attributes:
            assert isinstance(node.value, TensorMeta)
            stored = Stored(case.graph.attributes[node.target])
            plain = contiguous_stride(node.value.shape)  # as the file has them
            meta = replace(node.value, requires_grad=False, stride=plain, offset=0, storage=None)
            inputs.append(TensorInput(node.name, meta, stored))
            nodes.append(replace(node, op="placeholder", target=node.name))
            continue
        if node.op == "placeholder":
            inputs.append(known[node.name])
        nodes.append(node)
    return replace(case, graph=Graph(tuple(nodes), {}, case.graph.modules), inputs=tuple(inputs))


def _settings(state: State) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(imports, statements) for configuration, default dtype and switches."""
    functions = [path for _, _, value in state.config for path in imported_paths(value)]
    modules = [
        *(module for module, _, _ in state.config),
        *(path.partition(":")[0] for path in functions if ":" in path),
    ]
    imports = dict.fromkeys(f"import {module}" for module in modules)
    lines = [f"{module}.{key} = {literal(value)}" for module, key, value in state.config]
    if state.default_dtype != "float32":
        lines.append(f"torch.set_default_dtype(torch.{state.default_dtype})")
    return tuple(imports), (*lines, *statements(state))


def _backend_arguments(backend: BackendReference, template: Template) -> tuple[str, ...]:
    found = []
    if backend.mode is not None:
        found.append(f"mode={literal(backend.mode)}")
    if backend.options is not None:
        found.append(f"options={literal(backend.options)}")
    if backend.dynamic is not None and template is not Template.CALL_BACKEND:
        found.append(f"dynamic={backend.dynamic}")
    return tuple(found)


def _footer(case: Case) -> tuple[str, ...]:
    import torch

    versions = [f"torch {torch.__version__}"]
    if case.backend.distribution:
        versions.append(f"{case.backend.distribution} {case.backend.version}")
    versions += [f"Python {platform.python_version()}", f"{platform.system()} {platform.machine()}"]
    lines = [case.failure.line, ", ".join(versions)]
    if case.folders:
        lines.append(
            f"Needs the folder with {', '.join(_own_modules(case))}, beside the failing script, on PYTHONPATH."
        )
    return tuple(lines)


def _operator_imports(case: Case) -> tuple[str, ...]:
    """Imports that register custom operators, if any are left in the graph."""
    return case.script.imports if any(node.target.startswith("torch.ops.") for node in case.graph.ops) else ()


def _own_modules(case: Case) -> list[str]:
    """Top-level names that are found only in the script's own folders."""
    lines = [line.split()[1] for line in (*case.backend.imports, *_operator_imports(case))]
    settings = [module for module, _, _ in case.state.config]
    paths = [*lines, *settings, *(node.target.partition(":")[0] for node in case.graph.ops if ":" in node.target)]
    tops = sorted({path.partition(".")[0] for path in paths})
    places = [Path(folder) for folder in case.folders]
    return [top for top in tops if any((p / top).exists() or (p / f"{top}.py").exists() for p in places)]


def write_repro(case: Case, template: Template) -> Repro:
    """The script in this form; raises NoRepro where the Case has something that no script can hold yet."""
    case = _lifted(case)
    backend_names = [line.split()[-1] for line in case.backend.imports]
    called = [node.target.partition(":")[2].partition(".")[0] for node in case.graph.ops if ":" in node.target]
    packages = (
        node.target.partition(".")[0].partition(":")[0] for node in case.graph.ops if node.op == "call_function"
    )
    names = Names({*called, *packages, *(name.partition(".")[0] for name in backend_names)})
    inputs = {node.name: names.for_input(case, node.name) for node in case.graph.placeholders}
    modules = {
        target: f"module{i or ''}"
        for i, target in enumerate(case.graph.modules)
        if not case.graph.modules[target].graph
    }
    source = function_source(case.graph, names, inputs, modules.__getitem__)
    input_imports, made, stored = input_lines(case, inputs)
    config_imports, settings = _settings(case.state)
    built = [f"{name} = {constructor(target, case.graph.modules[target])}" for target, name in modules.items()]
    text = fill(
        template.value,
        Filling(
            imports=(*case.backend.imports, *_operator_imports(case), *config_imports, *input_imports, *source.imports),
            settings=(*settings, *built),
            before=tuple(source.before),
            parameters=tuple(source.parameters),
            body=tuple(source.body),
            inputs=tuple(made),
            arguments=tuple(source.parameters),
            calls=case.calls,
            backend=case.backend.expression,
            backend_arguments=_backend_arguments(case.backend, template),
            contexts=contexts(case.state),
            footer=_footer(case),
        ),
    )
    return Repro(text, template, case.tensors if stored else None)
