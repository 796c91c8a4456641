"""The line of a repro that names the modules it needs beside it."""

from minifier.emit.footer import needed_folder


def test_modules_that_lie_in_the_scripts_folders_are_named(tmp_path):
    (tmp_path / "backend.py").touch()
    (tmp_path / "passes").mkdir()
    (line,) = needed_folder({"torch", "passes", "backend"}, [str(tmp_path)])
    assert line == "Needs the folder with backend, passes on PYTHONPATH."
    assert needed_folder({"torch"}, [str(tmp_path)]) == [] == needed_folder({"backend"}, [])
