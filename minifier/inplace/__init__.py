"""The tool inside the user's own process: `minifier.wrap`, `minifier.capture`, `pytest --minify`."""

under_run = False
"""Whether `minify run` observes this process: then there is nothing to be done inside of it."""
