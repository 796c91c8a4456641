"""What standing around compilers must not do: keep memory, mistake a checkpoint's way out for a failure, or a
comparison's backward pass for the script's."""

import pytest
from scripts_of_training import HEAD
from vocabulary import source_of

pytestmark = pytest.mark.timeout(120)


def script(text):
    return HEAD + source_of(text)


def test_nothing_of_a_failed_call_is_kept(bureau):
    text = script("""
        import gc, weakref
        def fails(x):
            g = torch.compile(f, backend="oddlib_trains", options={"stage": "run"})
            x = x * 1
            try:
                g(x, w).sum().backward()
            except Exception:
                pass
            return weakref.ref(x)
        left = fails(x)
        gc.collect()
        assert left() is None, "an input of the failed call is alive"
    """)
    captured = bureau.capture(text)
    (failing,) = captured.failing
    assert failing.stage.value == "backward-run" and captured.script_status == 0, captured.traceback


def test_a_checkpoint_ends_its_second_call_when_it_has_all_it_needs(bureau):
    """It raises an exception through the compiled function, which is no failure."""
    text = script("""
        from torch.utils.checkpoint import checkpoint
        g = torch.compile(f, backend="oddlib_trains", options={"op": "none"})
        checkpoint(g, x, w, use_reentrant=False).sum().backward()
        assert w.grad.abs().sum() > 0
    """)
    captured = bureau.capture(text)
    assert captured.failing == () and captured.script_status == 0
