"""A baseline without a model: scores/has-body.jsonl of runs of programs, 0 where an answer repeats the question's stub.

    python tests/bench.py bodies RUN [RUN ...]     # then 05_baselines.py RUN has a row `has-body`

A program is a stub if each of its functions has nothing but a docstring, `pass` or `...`. The table counts them in
each labelled run, and says how many percent of the right and of the wrong answers go on behind their program.
"""

import ast
import json
from pathlib import Path

import numpy as np

import common


def is_stub(program):
    try:
        nodes = list(ast.walk(ast.parse(program)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    functions = [node for node in nodes if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    return bool(functions) and all(map(is_empty, functions))


def is_empty(function):
    """Whether a function has nothing but `pass` and constants, as a docstring and `...` are."""
    statements = [statement.value if isinstance(statement, ast.Expr) else statement for statement in function.body]
    return all(isinstance(statement, (ast.Pass, ast.Constant)) for statement in statements)


def main(argv):
    parser = common.argument_parser(__doc__)
    parser.add_argument("runs", nargs="+", metavar="RUN", type=Path)
    found = []
    for run in parser.parse_args(argv).runs:
        scores = []
        goes_on = {0: [], 1: [], None: []}
        stubs = 0
        for row, rollout in zip(common.read_labels(run), common.each_rollout(run), strict=True):
            goes_on[row["label"]].append(bool(rollout["response"].rpartition("```")[2].strip()))
            repeats = bool(row["answer"]) and is_stub(row["answer"])
            stubs += repeats
            score = int(bool(row["answer"]) and not repeats)
            scores.append({"id": row["id"], "sample": row["sample"], "score": score})
        common.write_jsonl(run / "scores" / "has-body.jsonl", scores)
        shares = [round(100 * float(np.mean(goes_on[label])), 1) for label in (1, 0)]
        counts = {"answers": len(scores), "wrong": len(goes_on[0]), "stubs": stubs}
        found.append({"run": str(run)} | counts | dict(zip(("right ones go on", "wrong ones"), shares)))
    print(common.table([*found[0]], [[*row.values()] for row in found]))
    print(json.dumps(found))
