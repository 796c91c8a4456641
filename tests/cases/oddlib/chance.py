"""A backend that comes and goes, as often and in the order that a test wants."""

import fcntl
from pathlib import Path

from torch._dynamo import register_backend

from oddlib.backends import called


class Stuttered(RuntimeError):
    """A device did not answer."""


def drawn(plan):
    """The next letter of the file, across all processes; the last two again and again once it is used up."""
    with Path(plan).open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        now, later = (letters := file.read())[0], letters[1:]
        file.seek(0)
        file.write(later if len(letters) > 2 else later + now)
        file.truncate()
    return now


@register_backend
def oddlib_chance(gm, example_inputs, *, options=None):
    """Fails at a call where the plan has an F, with a P not."""

    def run(*args):
        if drawn(options["plan"]) == "F":
            raise Stuttered("the device did not answer")
        return gm.forward(*args)

    return run if "tanh" in set(called(gm)) else gm.forward
