"""A faulty backend that torch finds by itself, through the entry point `faulty_installed`.

No script has to import anything for it: what a repro needs instead is this distribution.
"""

from minifier_backends.errors import LoweringError
from minifier_backends.planting import Occasion, fault


@fault(takes=("op", "level"))
def faulty_installed(occasion: Occasion) -> None:
    """Raises LoweringError while compiling the op."""
    raise LoweringError(f"no lowering for {occasion.settings.op}")
