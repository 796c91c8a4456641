"""The private interfaces of torch: each is here, and what happens in a torch that lacks one."""

import json
import sys
import types

import pytest
import torch._functorch.aot_autograd  # its parts import each other
import torch._inductor
from hidden_attributes import hide
from layers import sampled

from minifier.data import losses
from minifier.torch_side import interfaces
from minifier.torch_side.interfaces import TORCH, Interface, InterfaceState
from minifier.torch_side.torch_private import dynamo, registrations
from minifier.torch_side.torch_private.declared import INTERFACES

# Interfaces that came with a later release than the oldest supported one: until then, what they give is lost.
SINCE = {
    "torch.utils._python_dispatch:TorchDispatchMode.supports_higher_order_operators": (2, 9),
    "torch._C._dynamo.eval_frame:_CacheEntry.backend": (2, 10),
}
LOST = {place for place, release in SINCE.items() if release > TORCH}


@pytest.mark.parametrize("interface", INTERFACES, ids=lambda interface: interface.places[0])
def test_this_torch_has_the_interface(interface):
    state = InterfaceState.MISSING if interface.places[0] in LOST else InterfaceState.WORKS
    assert interface.state(load=True) is state and interface.place in interface.places


@pytest.fixture
def module(monkeypatch):
    """A module that stands for one of torch's, with a function and a class."""

    class Wrapper:
        def __init__(self, mode, options=None):
            self.mode = mode

        @staticmethod
        def look(key):
            return f"looked up {key}"

        @classmethod
        def made(cls, mode):
            return cls(mode)

    def lower(graph, inputs, *, level=1):
        return graph, inputs, level

    made = types.ModuleType("torch_like")
    made.Wrapper, made.lower = Wrapper, lower
    monkeypatch.setitem(sys.modules, "torch_like", made)
    with losses.losses_of_a_run():
        yield made


def test_a_replacement_sees_the_calls_arguments_by_name(module):
    seen = []

    def around(call, go_on):
        seen.append(dict(call))
        call["inputs"] = "others"
        return go_on()

    end = Interface(("torch_like:lower",), "all", ("graph", "inputs")).replace(lambda call: call, around)
    assert module.lower("g", inputs="i") == ("g", "others", 1)
    assert seen == [{"graph": "g", "inputs": "i", "level": 1}]
    end()
    assert module.lower("g", "i", level=2) == ("g", "i", 2) and len(seen) == 1


def test_methods_of_all_kinds_are_replaced_in_their_class(module):
    originals = dict(vars(module.Wrapper))
    ends = [
        Interface(("torch_like:Wrapper.look",), "all").replace(len, lambda _, go_on: go_on().upper()),
        Interface(("torch_like:Wrapper.made",), "all").replace(len, lambda _, go_on: (go_on(), "made")),
        Interface(("torch_like:Wrapper.__init__",), "all", ("self", "mode")).replace(
            lambda call: call.update(mode="m"), lambda _, go_on: go_on()
        ),
    ]
    assert module.Wrapper("x").look("key") == module.Wrapper.look("key") == "LOOKED UP KEY"
    made, mark = module.Wrapper.made("x")
    assert (type(made), made.mode, mark, module.Wrapper("x").mode) == (module.Wrapper, "m", "made", "m")
    for end in reversed(ends):
        end()
    assert dict(vars(module.Wrapper)) == originals and module.Wrapper("x").mode == "x"


def test_a_function_with_one_more_parameter_is_called_with_it(module):
    def lower(graph, inputs, stream, *, level=1):
        return graph, inputs, stream, level

    module.lower = lower
    Interface(("torch_like:lower",), "all", ("graph", "inputs")).replace(len, lambda _, go_on: ("seen", go_on()))
    assert module.lower(1, 2, 3) == ("seen", (1, 2, 3, 1)) and losses.losses() == []


def test_a_call_without_a_known_parameter_goes_to_the_original(module):
    heard = []
    losses.on_loss(heard.append)
    Interface(("torch_like:lower",), "graphs", ("graph", "example_inputs")).replace(len, lambda _, go_on: 1 / 0)
    assert module.lower(1, 2) == module.lower(1, 2) == (1, 2, 1)
    assert len(heard) == 1 and "example_inputs" in heard[0] and "graphs" in heard[0]
    with pytest.raises(TypeError, match="required positional"):  # as the original says it
        module.lower(1)


@pytest.mark.parametrize(
    "read", [lambda call: call["graph"].nodes, lambda call: len(call["graph"]), lambda call: call["stream"]]
)
def test_a_call_whose_arguments_cannot_be_read_goes_to_the_original(module, read):
    Interface(("torch_like:lower",), "graphs").replace(read, lambda _, go_on: 1 / 0)
    assert module.lower(1, 2) == module.lower(1, 2) == (1, 2, 1)
    (loss,) = losses.losses()
    assert "torch_like:lower" in loss and "graphs" in loss


def test_an_exception_of_the_original_is_nobody_elses(module):
    def lower(graph):
        return graph.nodes

    module.lower = lower
    Interface(("torch_like:lower",), "graphs").replace(lambda call: call["graph"], lambda _, go_on: go_on())
    with pytest.raises(AttributeError, match="no attribute 'nodes'"):
        module.lower(1)
    assert losses.losses() == []


def test_without_the_function_nothing_is_replaced_and_the_loss_is_told(module):
    gone = Interface(("torch_like:gone", "torch_like:Wrapper.gone", "no_such_module:name"), "graphs")
    gone.replace(len, lambda _, go_on: 1 / 0)()
    assert gone.state(load=True) is InterfaceState.MISSING and gone.find() is None
    (loss,) = losses.losses()
    assert "torch_like:gone" in loss and "graphs" in loss


def test_a_function_without_a_signature_is_not_replaced(module):
    module.lower = max
    lower = Interface(("torch_like:lower",), "graphs", ("graph",))
    lower.replace(len, lambda _, go_on: 1 / 0)()
    assert module.lower is max and lower.state() is InterfaceState.CHANGED
    assert len(losses.losses()) == 1


def test_the_end_leaves_a_later_patch_of_the_script_in_place(module):
    seen = []
    end = Interface(("torch_like:lower",), "all").replace(seen.append, lambda _, go_on: go_on())
    ours = module.lower
    module.lower = patch = lambda *args: ("patched", ours(*args))
    end()
    assert module.lower is patch and module.lower(1, 2) == ("patched", (1, 2, 1)) and seen == []


def test_an_older_place_is_found(module):
    older = Interface(("torch_like:new_name", "torch_like:lower"), "all")
    assert older.place == "torch_like:lower" and older.find() is module.lower
    assert Interface(("torch_like:lower",), "all", ("gone",)).state() is InterfaceState.CHANGED
    assert Interface(("not_loaded_yet:lower",), "all").state() is InterfaceState.NOT_LOADED
    assert Interface(("torch_like:Gone.__init__",), "all").state() is InterfaceState.MISSING


def test_an_attribute_of_a_classs_objects_is_read_by_any_of_its_names(module):
    mode = Interface(("torch_like:Wrapper.kind", "torch_like:Wrapper.mode"), "all")
    gone = Interface(("torch_like:Wrapper.gone",), "modes")
    assert mode.state() is InterfaceState.WORKS and mode.of(module.Wrapper("fast")) == "fast" and losses.losses() == []
    assert gone.state() is InterfaceState.MISSING and gone.of(module.Wrapper("fast")) is None
    (loss,) = losses.losses()
    assert "torch_like:Wrapper.gone" in loss and "modes" in loss


def test_a_value_is_assigned_only_where_it_is(module):
    module.threads = None
    Interface(("torch_like:threads",), "all").assign(1)
    Interface(("torch_like:gone",), "caches").assign(1)
    assert module.threads == 1 and not hasattr(module, "gone") and len(losses.losses()) == 1


def test_each_run_has_its_own_losses(module):
    gone, heard = Interface(("torch_like:gone",), "graphs"), []
    gone.find()
    for _ in range(2):
        with losses.losses_of_a_run():
            assert losses.losses() == []
            losses.on_loss(heard.append)
            assert gone.find() is None and gone.find() is None
            losses.heard("of the script's process")
            assert len(losses.losses()) == 2
    assert len(heard) == 2 and len(losses.losses()) == 1
    losses.on_loss(heard.append)
    assert heard[2] == heard[0], "who comes later hears what is known"


def train():
    x = torch.ones(3, requires_grad=True)
    torch.compile(lambda x: (x.sin() * 2).sum(), backend="aot_eager")(x).backward()
    assert x.grad.tolist() == pytest.approx((torch.ones(3).cos() * 2).tolist())


def observe_calls():
    dynamo.observe_backend_calls(lambda compiler, gm, inputs, call: call())


def observe_traces():
    dynamo.observe_tracing(lambda compiler, find: None)


def test_a_later_run_in_a_process_tells_of_a_missing_function_as_well(forked):
    def work():
        place, find = "torch.library:Library.define", interfaces._find
        registrations.note_registrations()
        interfaces._find = lambda p, *, load: interfaces._ABSENT if p == place else find(p, load=load)
        with losses.losses_of_a_run():
            registrations.note_registrations()
            return place, losses.losses()

    place, lost = forked(work)
    assert [sentence for sentence in lost if place in sentence]


ATTRIBUTES = [
    ("torch._dynamo.output_graph:OutputGraph.compiler_fn", observe_calls, train),
    ("torch._dynamo.output_graph:OutputGraph.compiler_fn", observe_traces, train),
    ("torch._dynamo.output_graph:OutputGraph.cleanup", observe_traces, train),
    ("torch._dynamo.symbolic_convert:InstructionTranslatorBase.output", observe_traces, train),
]


@pytest.mark.parametrize(("place", "observe", "use"), sampled(ATTRIBUTES))
def test_the_script_goes_on_where_an_attribute_of_torchs_objects_has_another_name(place, observe, use, forked):
    def work():
        hide(place)
        with losses.losses_of_a_run():
            observe()
            use()
            return losses.losses()

    name = place.rpartition(".")[2].removeprefix("backed_")
    found = forked(work)  # of what an earlier test of this process observes, too
    assert found and all(name in each and "; lost: " in each for each in found), found


def test_the_doctor_tells_what_is_here_and_what_is_lost(project):
    done = project.minify("doctor", "--json")
    found = json.loads(done.stdout)
    assert done.code == 0 and found["torch"] == torch.__version__ and found["problem"] == ""
    assert "inductor" in found["backends"]
    assert {row["interface"] for row in found["interfaces"] if row["state"] != "works"} == LOST
    assert torch.__version__ in project.minify("doctor").stdout
