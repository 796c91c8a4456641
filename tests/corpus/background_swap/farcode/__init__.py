"""A client of a compiler on another machine. Importing it registers its backend."""

import torch._dynamo

from farcode.compiler import backend

if "farcode" not in torch._dynamo.list_backends():
    torch._dynamo.register_backend(backend.compile_far_away, name="farcode")
