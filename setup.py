"""Maps the folder of templates into the package; the rest of the build's settings are in pyproject.toml."""

from setuptools import find_packages, setup

setup(
    packages=[*find_packages(include=["minifier", "minifier.*"]), "minifier.repro_templates"],
    package_dir={"minifier.repro_templates": "repro_templates"},
)
