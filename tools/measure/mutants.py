"""Do the tests notice when the code is wrong? Change one thing at a time and see.

    python -m tools.measure.mutants [MODULE …]

A mutant is the package with one small change: another operator, another number, a condition turned
round, an argument, a bound or a call left out, a statement deleted. It is killed if a test fails. One that
survives shows what no test looks at, or it computes the same in another way; those are listed, each with
the reason, in CONTRIBUTING.md, which this program reads. It ends with status 1 if any other survives.
"""

import ast
import copy
import gc
import os
import re
import shutil
import signal
import sys
import tempfile
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"
import hypothesis  # noqa: E402, F401 (these four are for the forks)
import pytest  # noqa: E402
import tabulate  # noqa: E402, F401
import torch._dynamo  # noqa: E402, F401

ROOT = Path(__file__).resolve().parents[2]
MODEL = ["tests/package/test_references.py", "tests/package/test_model.py"]
WRITING = ["tests/package/test_generation.py", "tests/package/test_next_symbol.py"]
TRAINING = ["tests/package/test_training.py"]
TESTS = {"model": MODEL, "generation": WRITING, "training": TRAINING}
FIRST = {  # what a mutant of this definition is shown first
    "require": "sizes", "Config": "sizes", "causal_mask": "mask", "Brick": "printing", "HookPoint": "model_is", "Embedding": "embedding",
    "Linear": "linear", "LayerNorm": "norm_is", "Positions": "positions", "Attention": "attention_is or heads_mix",
    "FeedForward": "ffn", "Block": "block_is", "TinyLLM": "model_is or checkpoint or ids",
    "distribution": "distribution or temperature or top_k", "next_logits": "next_symbol or window",
    "generate": "greedy or setting or prompt", "orthogonalize": "muon", "Muon": "muon", "make_optimizers": "optimizer or muon"}
ONLY = {"training": ("orthogonalize", "Muon", "make_optimizers")}    # the rest of it needs whole trainings to be judged
LIMIT = 120  # seconds for the tests of one mutant: one that hangs is noticed too
SWAPS = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Pow: ast.Mult, ast.Mod: ast.Mult,
         ast.FloorDiv: ast.Mult, ast.MatMult: ast.Mult, ast.And: ast.Or, ast.Or: ast.And, ast.Lt: ast.LtE, ast.LtE: ast.Lt,
         ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
         ast.In: ast.NotIn, ast.NotIn: ast.In}


def variants(node):
    """What can stand in the place of this node."""
    match node:
        case ast.operator() | ast.boolop() | ast.cmpop() if type(node) in SWAPS:
            yield SWAPS[type(node)]()
        case ast.Constant(bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(int(value)):
            yield from (ast.Constant(value + 1), ast.Constant(value - 1))
        case ast.Constant(float(value)):
            yield from (ast.Constant(value * 2), ast.Constant(value / 2))
        case ast.UnaryOp(ast.USub() | ast.Not()):
            yield node.operand
        case ast.Slice():
            yield from (changed(node, name, None) for name in ("lower", "upper") if getattr(node, name))
        case ast.IfExp() | ast.If():
            yield changed(node, "test", ast.UnaryOp(ast.Not(), node.test))
        case ast.Call():
            if len(node.args) == 1 and not node.keywords and not isinstance(node.args[0], (ast.Starred, ast.GeneratorExp)):
                yield node.args[0]
            yield from (changed(node, "keywords", [k for k in node.keywords if k is not keyword]) for keyword in node.keywords)
        case ast.FunctionDef() if node.decorator_list:
            yield changed(node, "decorator_list", [])
        case ast.Expr(ast.Constant()):
            pass  # a docstring
        case ast.Assign() | ast.AugAssign() | ast.Expr() | ast.Raise() | ast.Return():
            yield ast.Pass()


def changed(node, name, value):
    node = copy.copy(node)
    setattr(node, name, value)
    return node


def mutants(tree):
    """(line, the changed statement, the source) of each; the tree is as before in between."""
    def visit(node, statement):
        for name, value in ast.iter_fields(node):
            children = value if isinstance(value, list) else [value]
            for i, child in enumerate(children):
                if not isinstance(child, ast.AST) or name in ("annotation", "returns"):
                    continue
                inside = child if isinstance(child, ast.stmt) else statement
                for variant in variants(child):
                    put(node, name, value, i, variant)
                    shown = variant if isinstance(child, ast.stmt) else inside
                    text = ast.unparse(ast.fix_missing_locations(shown)).splitlines()[0]
                    if isinstance(variant, ast.Pass):
                        text = f"without {ast.unparse(child).splitlines()[0]}"
                    yield getattr(inside, "lineno", 0), text, ast.unparse(ast.fix_missing_locations(tree))
                    put(node, name, value, i, child)
                yield from visit(child, inside)

    def put(node, name, value, i, new):
        if isinstance(value, list):
            value[i] = new
        else:
            setattr(node, name, new)

    yield from visit(tree, None)


def definitions(tree):
    """{line: name of the function or class it belongs to}."""
    return {line: part.name for part in tree.body if hasattr(part, "name") for line in range(part.lineno, part.end_lineno + 1)}


def survives(package, module, source, definition=None):
    (package / f"{module}.py").write_text(source, encoding="utf-8")
    tests, first = TESTS[module], FIRST.get(definition)
    if first is None:
        return passes(package, *tests)
    return passes(package, *tests, "-k", first) and passes(package, *tests, "-k", f"not ({first})")


def passes(package, *arguments):
    """Run tests in a fork of this process, which has imported torch already."""
    if (child := os.fork()) == 0:
        signal.alarm(LIMIT)
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1), os.dup2(nowhere, 2)
        status = 9
        try:
            status = pytest.main(["-x", "-q", "--tb=no", "-p", "no:cacheprovider", "--hypothesis-profile=mutants",
                                  "-o", f"pythonpath={package.parent} .", *arguments])
        finally:
            os._exit(status)
    # no test of that name: the others decide
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)


def explained():
    """{(module, changed statement)} of the table in CONTRIBUTING.md."""
    rows = re.findall(r"^\| (\w+) \| ``? ?(.*?) ?``? \| .+ \|$", (ROOT / "CONTRIBUTING.md").read_text("utf-8"), re.M)
    return {(module, text.replace(r"\|", "|")) for module, text in rows}


def main(modules):
    os.chdir(ROOT)
    sys.dont_write_bytecode = True  # or the old bytecode could be taken for a new mutant's
    gc.freeze()  # what is imported by now is the same in all forks
    known, unexplained = explained(), 0
    with tempfile.TemporaryDirectory() as folder:
        package = Path(shutil.copytree(ROOT / "tinyllm", Path(folder) / "tinyllm", ignore=shutil.ignore_patterns("__pycache__")))
        for module in modules or TESTS:
            original = (ROOT / f"tinyllm/{module}.py").read_text("utf-8")
            if not survives(package, module, original):
                sys.exit(f"{module}: its tests fail without any change: {' '.join(TESTS[module])}")
            count, alive, names = 0, [], definitions(ast.parse(original))
            for line, text, source in mutants(ast.parse(original)):
                if names.get(line, "") not in ONLY.get(module, FIRST):
                    continue                                     # imports, module docstring, what is left out
                count += 1
                print(f"{module}: mutant {count}", end="\r", file=sys.stderr)
                if survives(package, module, source, names[line]):
                    alive.append((line, text))
            (package / f"{module}.py").write_text(original, encoding="utf-8")
            print(f"{module}: {count} mutants, {count - len(alive)} killed, {len(alive)} survived", flush=True)
            for line, text in alive:
                fine = (module, text) in known
                unexplained += not fine
                print(f"    tinyllm/{module}.py:{line}: {text}    {'(explained)' if fine else '<- no test sees this'}", flush=True)
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
