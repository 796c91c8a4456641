"""A small compiler outside the tool. Importing it registers its backends, as an installed one would."""

from oddlib import backends, ops  # noqa: F401
