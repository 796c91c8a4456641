"""The errors of the faulty backends, named and worded as a compiler's own would be."""


class CompilerError(RuntimeError):
    """The base of all of them."""


class LoweringError(CompilerError):
    """The compiler has no code for an op."""


class PartitionError(CompilerError):
    """Two ops cannot be in one graph."""


class FusionError(CompilerError):
    """Two ops cannot be one kernel."""


class DynamicShapeError(CompilerError):
    """An op cannot have a size that is not known when compiling."""


class TransientError(CompilerError):
    """Something outside the graph did not work this time."""


class KernelError(CompilerError):
    """A compiled op failed when it ran."""


class WorkspaceError(KernelError):
    """A compiled op used memory that it no longer owns."""
