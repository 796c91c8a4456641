"""A small compiler outside the tool. Importing it registers its backends, as an installed one would."""

from oddlib import backends, ops, states  # noqa: F401
