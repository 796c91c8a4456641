"""Which installed distribution a backend belongs to."""

import sys
from importlib import metadata

import click

from minifier.capturing.backend_reference import reference
from minifier.data.case import BackendSource


def test_an_instance_that_no_import_reaches_is_of_its_class_distribution():
    backend, _ = reference(click.Command("lower", callback=iter(())), sys.path)
    assert backend.reach is BackendSource.NONE and backend.reason
    assert (backend.distribution, backend.version) == ("click", metadata.version("click"))
