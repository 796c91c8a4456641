"""A small compiler outside the tool. Importing it registers its backends, as an installed one would."""

from oddlib import backends, states  # noqa: F401
