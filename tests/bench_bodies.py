"""A baseline without a model: scores/has-body.jsonl of runs of programs, 0 where an answer repeats the question's stub.

    python tests/bench.py bodies RUN [RUN ...]     # then 05_baselines.py RUN has a row `has-body`

A program is a stub if each of its functions has nothing but a docstring, `pass` or `...`. Prints for each labelled
run how many answers are stubs.
"""

import argparse
import ast
from pathlib import Path

import common


def is_stub(program):
    try:
        nodes = list(ast.walk(ast.parse(program or "")))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    functions = [node for node in nodes if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    return bool(functions) and not any(map(does_anything, functions))


def does_anything(function):
    """Whether a function has more than constants, as a docstring and `...` are, and `pass`."""
    values = [statement.value for statement in function.body if isinstance(statement, ast.Expr)]
    empty = sum(isinstance(value, ast.Constant) for value in values)
    empty += sum(isinstance(statement, ast.Pass) for statement in function.body)
    return empty < len(function.body)


def main(argv=None):
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="bench.py bodies", description=__doc__, formatter_class=form)
    parser.add_argument("runs", nargs="+", metavar="RUN", type=Path)
    table = []
    for run in parser.parse_args(argv).runs:
        rows = common.read_labels(run)
        scores = [{"id": row["id"], "sample": row["sample"], "score": 1 - is_stub(row["answer"])} for row in rows]
        common.write_jsonl(run / "scores" / "has-body.jsonl", scores)
        wrong = sum(row["label"] == 0 for row in rows)
        table.append([run, len(rows), wrong, sum(row["score"] == 0 for row in scores)])
    print(common.table(["run", "answers", "wrong", "stubs"], table))
