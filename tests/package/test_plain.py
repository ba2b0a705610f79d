"""The package is plain: read whole in the page, one step a line, nothing squeezed, and short.

Each rule takes the text of a module and gives its complaints: (line, what to do about it).
"""

import ast
import io
import re
import tokenize
from importlib.metadata import version
from pathlib import Path

import pytest

import tinyllm

PACKAGE = Path(tinyllm.__file__).parent
MODULES = sorted(PACKAGE.glob("*.py"))
WIDTH, LENGTH = 96, 500
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


# ------------------------------------------------------------------ the rules

def width(text):
    for number, line in enumerate(text.split("\n"), 1):
        if len(line) > WIDTH:
            yield number, f"{len(line)} characters: break the line, the page shows {WIDTH}"


def blank_lines(text):
    """A comment on the lines above a definition, and its decorators, belong to it."""
    lines = text.split("\n")
    for node in ast.parse(text).body:
        if isinstance(node, DEFINITIONS):
            first = min([node.lineno] + [decorator.lineno for decorator in node.decorator_list])
            above = first - 1  # as an index of lines: the line before it, from 1
            while above and lines[above - 1].startswith("#"):
                above -= 1
            if above and lines[above - 1].strip():
                yield first, f"put a blank line above {node.name}"


def one_statement_a_line(text):
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.OP and token.string == ";":
            yield token.start[0], "give each statement a line of its own, without ;"
    for node in ast.walk(ast.parse(text)):
        for part in ("body", "orelse", "finalbody"):
            body = getattr(node, part, None)
            if isinstance(body, list) and body and not isinstance(node, ast.Module):
                before = text.split("\n")[body[0].lineno - 1][: body[0].col_offset]  # of the first statement, on its line
                if before.strip():
                    yield body[0].lineno, "put what follows the colon on a line of its own"


def statements_that_do_something(text):
    """What stands as a statement is a call, a docstring, await or yield."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr):
            value = node.value
            docstring = isinstance(value, ast.Constant) and isinstance(value.value, str)
            if not docstring and not isinstance(value, (ast.Call, ast.Await, ast.Yield, ast.YieldFrom)):
                what = type(value).__name__
                yield node.lineno, f"a {what} as a statement: write an if, a loop, or one call a line"


def docstrings(text):
    """A string as a statement stands first in its module, class or function."""
    tree = ast.parse(text)
    firsts = {id(node.body[0]) for node in ast.walk(tree) if isinstance(node, (ast.Module, *DEFINITIONS)) and node.body}
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and id(node) not in firsts:
            yield node.lineno, "a string in the middle: make it a comment"


def lambdas_that_do_one_thing(text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Lambda):
            body = node.body
            while isinstance(body, ast.Subscript):      # (f(x), g(x))[1]
                body = body.value
            calls = sum(isinstance(part, ast.Call) for part in ast.iter_child_nodes(body))
            if isinstance(body, (ast.Tuple, ast.List)) and calls or isinstance(body, ast.BoolOp) and calls > 1:
                yield node.lineno, "a lambda that does several things: define a function with a name"


def few_names_at_once(text):
    """Two things that belong together may be assigned together; what one call returns may be unpacked."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Assign) and isinstance(node.value, (ast.Tuple, ast.List)) and len(node.value.elts) >= 3:
            if any(isinstance(target, (ast.Tuple, ast.List)) and len(target.elts) >= 3 for target in node.targets):
                yield node.lineno, "three or more names assigned at once: give each a line"


def public_signatures(text, public=tuple(tinyllm.__all__)):
    """A public function says the type of all that it takes and of what it gives, and so do the methods of a public class."""
    for node in ast.parse(text).body:
        if isinstance(node, DEFINITIONS) and node.name in public:
            functions = node.body if isinstance(node, ast.ClassDef) else [node]
            for function in functions:
                if isinstance(function, DEFINITIONS[:2]) and not function.name.startswith("_"):
                    arguments = function.args
                    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
                    untyped = [argument.arg for argument in every if argument and not argument.annotation and argument.arg not in ("self", "cls")]
                    if untyped or not function.returns:
                        yield function.lineno, f"say in the signature of {function.name} the types of {', '.join([*untyped, 'the result'])}"


RULES = [width, blank_lines, one_statement_a_line, statements_that_do_something, docstrings, lambdas_that_do_one_thing,
         few_names_at_once, public_signatures]


def names_in_stub(module=None):
    """What __init__.pyi imports, from one module or from all: name -> module."""
    stub = ast.parse((PACKAGE / "__init__.pyi").read_text("utf-8"))
    return {alias.name: node.module for node in stub.body if isinstance(node, ast.ImportFrom) and module in (None, node.module)
            for alias in node.names}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_a_module_is_plain(rule, path):
    arguments = [names_in_stub(path.stem)] if rule is public_signatures else []  # train of cli.py is not the public one
    complaints = [f"{path.name}:{line}: {what}" for line, what in rule(path.read_text("utf-8"), *arguments)]
    assert not complaints, "\n".join(complaints)


def too_long(texts):
    """The sum that `wc -l tinyllm/*.py` prints."""
    lines = sum(text.count("\n") for text in texts)
    if lines >= LENGTH:
        yield f"{lines} lines: carry less, fewer than {LENGTH} are promised (blank lines and docstrings count)"


def test_the_package_is_short():
    assert not list(too_long(path.read_text("utf-8") for path in MODULES))


# ------------------------------------------------------------------ the rules bite

DEF = "def f(x: int):\n    return x\n"


@pytest.mark.parametrize("rule, bad", [
    (width, "x = 1" + " " * 88 + "# é\n\n" + "y" * 97),
    (blank_lines, "import os\n" + DEF), (blank_lines, DEF + "class A:\n    x = 1\n"), (blank_lines, DEF + "# said\n" + DEF),
    (blank_lines, "x = 1\n@cache\n" + DEF), (blank_lines, "x = 1\n# said\n@cache\n" + DEF), (blank_lines, '"""Doc."""\nasync ' + DEF),
    (one_statement_a_line, "x = 1; y = 2\n"), (one_statement_a_line, "x = 1;\n"), (one_statement_a_line, "if x: y()\n"),
    (one_statement_a_line, "for x in y: z()\n"), (one_statement_a_line, "while x: pass\n"), (one_statement_a_line, "with x: y()\n"),
    (one_statement_a_line, "def f(): return 1\n"), (one_statement_a_line, "class A: pass\n"),
    (one_statement_a_line, "if x:\n    y()\nelse: z()\n"), (one_statement_a_line, "if x:\n    y()\nelif z: z()\n"),
    (one_statement_a_line, "try: x()\nfinally:\n    y()\n"), (one_statement_a_line, "try:\n    x()\nfinally: y()\n"),
    (one_statement_a_line, "try:\n    x()\nexcept E: y()\n"), (one_statement_a_line, "match x:\n    case 1: y()\n"),
    (statements_that_do_something, "a and f()\n"), (statements_that_do_something, "f() if a else g()\n"),
    (statements_that_do_something, "f(), g()\n"), (statements_that_do_something, "a == b\n"),
    (statements_that_do_something, "[f(x) for x in y]\n"), (statements_that_do_something, "not f()\n"),
    (statements_that_do_something, "(x := f())\n"), (statements_that_do_something, "f()[0]\n"),
    (statements_that_do_something, "def f():\n    if a:\n        a or f()\n"), (statements_that_do_something, "...\n"),
    (docstrings, "x = 1\n'said'\n"), (docstrings, "def f():\n    return 1\n    'said'\n"),
    (lambdas_that_do_one_thing, "f = lambda x: (g(x), h(x))\n"), (lambdas_that_do_one_thing, "f = lambda x: [g(x), h(x)]\n"),
    (lambdas_that_do_one_thing, "f = lambda x: (g(x), x)[1]\n"), (lambdas_that_do_one_thing, "f = lambda x: g(x) or h(x)\n"),
    (lambdas_that_do_one_thing, "f(y, key=lambda x: (a(x), b(x), c(x)))\n"),
    (few_names_at_once, "a, b, c = 1, 2, 3\n"), (few_names_at_once, "[a, b, c] = [1, 2, 3]\n"),
    (few_names_at_once, "def f():\n    a, self.b, c[0] = x, y, z\n"), (few_names_at_once, "(a, b, c) = d = (1, 2, 3)\n"),
    (public_signatures, "def train(model: int, ids):\n    pass\n"), (public_signatures, "def split(ids: int):\n    pass\n"),
    (public_signatures, "def split(ids) -> tuple:\n    pass\n"), (public_signatures, "async def train(model, *, ids, **more):\n    pass\n"),
    (public_signatures, "class TinyLLM:\n    def __init__(self) -> None:\n        pass\n    def save(self, path):\n        pass\n"),
])
def test_a_rule_bites(rule, bad):
    complaints = list(rule(bad))
    assert complaints and all(1 <= line <= bad.count("\n") + 1 and len(what) > 20 for line, what in complaints)


@pytest.mark.parametrize("rule, good", [
    (width, "é" * 96 + "\n"), (blank_lines, DEF + "\n" + DEF), (blank_lines, "# said\n# twice\n" + DEF),
    (blank_lines, "x = 1\n\n# said\n@cache\n@other(1)\n" + DEF), (blank_lines, "class A:\n    x = 1\n    def f(self):\n        pass\n"),
    (one_statement_a_line, "x = {'a;b': 1}  # ; x: y\nif x:\n    y()\nelif z:\n    f(lambda: 1)\nelse:\n    if a:\n        y()\n"),
    (one_statement_a_line, "try:\n    x()\nexcept E:\n    y()\nelse:\n    y()\nfinally:\n    z()\n"),
    (one_statement_a_line, "class A:\n    @cache\n    def f(self):\n        return [x for x in y]\n"),
    (one_statement_a_line, "match x:\n    case 1:\n        y()\n"), (one_statement_a_line, "def f(\n    x,\n):\n    '''Two\n    lines.'''\n"),
    (statements_that_do_something, "'doc'\nf()\nasync def g():\n    await h()\n    x = yield 1\n    yield x\n"),
    (docstrings, "'doc'\nclass A:\n    'doc'\n    def f(self):\n        'doc'\n"),
    (lambdas_that_do_one_thing, "f = lambda x: g(h(x))\ng = lambda step: min(50 * step, n - step) / n\nh = lambda x: x[0], 1\n"),
    (few_names_at_once, "a, b = 1, 2\na, b, c = f()\na = b = c = 0\nx = (1, 2, 3)\nq, k, v = (f(x) for _ in range(3))\n"),
    (public_signatures, "def train(model: int, *ids: int) -> list:\n    pass\n"),
    (public_signatures, "def helper(x):\n    pass\nclass Other:\n    def f(self, x):\n        pass\n"),
])
def test_a_rule_leaves_plain_code_alone(rule, good):
    assert not list(rule(good))


def test_every_rule_is_shown_to_bite():
    shown = {parameter[0] for parameter in test_a_rule_bites.pytestmark[0].args[1]}
    assert shown == set(RULES)
    assert list(too_long(["\n" * 499, "\n"])) and not list(too_long(["\n" * 499]))


# ------------------------------------------------------------------ what others read of the package

def test_its_types_are_declared():
    assert (PACKAGE / "py.typed").is_file(), "an empty file py.typed tells type checkers that the package has annotations"


def test_its_version_is_the_installed_one():
    assert tinyllm.__version__ == version("tinyllm-book"), "install again: pip install -e ."


def test_its_stub_names_what_is_public_and_nothing_else():
    """lazy_loader makes __all__ of the stub; here the stub is read by itself, and what it says is looked up."""
    assert set(names_in_stub()) == set(tinyllm.__all__) - {"__version__"}, "name in __init__.pyi exactly what is public"
    for name, module in names_in_stub().items():
        assert getattr(tinyllm, name).__module__ == f"tinyllm.{module}"
    text = (PACKAGE / "__init__.pyi").read_text("utf-8")
    assert re.findall(r"^(\w+): (\w+)$", text, re.M) == [("__version__", "str")]
