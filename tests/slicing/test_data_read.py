"""What a script reads from files, its arguments and the environment, found in its text and written as literals."""

import pytest

from minifier.capturing.slicing.data_read import data_read, with_literals

HEAD = "import argparse, io, json, os, sys\nfrom pathlib import Path\nimport torch\n"


def texts(source):
    return [data.text for data in data_read(HEAD + source)]


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("c = Compiler(json.loads((Path(__file__).parent / 'a.json').read_text()))\n",
         ["json.loads((Path(__file__).parent / 'a.json').read_text())"]),
        ("LIMIT = int(sys.argv[1])\n", ["int(sys.argv[1])"]),
        ("mode = os.environ.get('MODE', 'fast')\n", ["os.environ.get('MODE', 'fast')"]),
        ("mode = os.getenv('MODE')\n", ["os.getenv('MODE')"]),
        ("rows = open('rows.txt').read().split()\n", ["open('rows.txt').read().split()"]),
        ("p = argparse.ArgumentParser()\nargs = p.parse_args()\ndef f(x):\n    return x * args.scale\n",
         ["p.parse_args()", "args.scale"]),
        ("def load():\n    return json.load(open('c.json'))\nC = load()\nprint(C['n'])\n",
         ["json.load(open('c.json'))", "C['n']"]),
        ("with open('c.json') as file:\n    C = json.load(file)\n", ["C"]),
        ("try:\n    C = json.load(open('c.json'))\nexcept OSError:\n    C = {}\n", ["C", "json.load(open('c.json'))"]),
    ],
)  # fmt: skip
def test_data_are_found(source, found):
    assert [text for text in texts(source) if text not in ("open('c.json')", "json.load(file)")] == found


OTHERS = [
    "x = torch.ones(3)\n",
    "open('out.txt', 'w').write('a')\n",
    "Path('out.txt').write_text('a')\n",
    "Path('out.txt').open('w')\n",
    "io.open('out.txt', 'w')\n",
    "open('out.txt', mode=MODE)\n",
    "os.environ['MODE'] = 'fast'\n",
    "os.environ.setdefault('MODE', 'fast')\n",
    "os.environ.update(MODE='fast')\n",
    "def f(name):\n    return os.environ[name]\n",
    "sys.argv[1:] = ['a']\n",
    "m = torch.load(open('model.pt', 'rb'))\n",
]


def test_nothing_else_is_taken_for_data():
    for source in OTHERS:
        found = texts(source)
        assert [text for text in found if text != "open('model.pt', 'rb')" and not text.endswith(".open")] == [], source


def test_the_names_and_variables_that_data_need():
    (data,) = data_read(HEAD + "mode = max(os.environ['MODE'], os.getenv('KIND'))\n")
    assert (data.names, data.variables) == (("os",), ("MODE", "KIND"))


def test_literals_take_the_place_of_what_reads_them():
    source = HEAD + "C = json.loads(open('c.json').read())\nx = torch.ones(C['n'])\nprint(sys.argv[1])\n"
    literals = {"json.loads(open('c.json').read())": "{'n': 3}", "C['n']": "3"}
    assert with_literals(source, literals) == HEAD + "C = {'n': 3}\nx = torch.ones(3)\nprint(sys.argv[1])\n"


def test_assignments_take_the_place_of_a_block():
    source = HEAD + "with open('c.json') as file:\n    C = json.load(file)\n    D = 1\nprint(C)\n"
    assert with_literals(source, {"C": "[1]", "D": "1"}) == HEAD + "C = [1]\nD = 1\nprint(C)\n"
    assert with_literals(source, {"C": "[1]"}) == source


@pytest.mark.parametrize("literal", ['["--level", "hard"]', '{"n": "3"}'])
def test_a_literal_in_an_f_string_is_python_before_3_12_too(literal):
    text = with_literals(HEAD + 'print(f"with {sys.argv[1:]}")\n', {"sys.argv[1:]": literal})
    printed = []
    exec(text, {"print": printed.append})
    assert printed == [f"with {eval(literal)}"]
