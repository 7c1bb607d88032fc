"""Speed of the maths judge, in processor time: ordinary answers to ordinary problems on one core, extraction, equality and groups together.

    python tests/bench.py math [--answers 10000]

A table by kind of answer and, last, one JSON object. Where Math-Verify is installed, it judges a part of the same answers,
interleaved with ours, and the ratio is given.
"""

import argparse
import importlib
import json
import random
import time

import common

KINDS = {  # a reference and right answers to vary; wrong ones are another problem's
    "integers": lambda n: (str(n), [f"{n:,}", f"{n}.0", f"x = {n}", f"{n} \\text{{ units}}"]),
    "fractions": lambda n: (f"\\frac{{{n}}}{{7}}", [f"{n}/7", f"\\dfrac{{{n}}}7", f"\\frac{{{2 * n}}}{{14}}"]),
    "decimals": lambda n: (f"{n}.25", [f"\\frac{{{4 * n + 1}}}{{4}}", f"{n}.250", f"{n}\\frac14"]),
    "tuples": lambda n: (f"({n}, -3)", [f"({n},-3)", f"\\left({n}.0, -3\\right)", f"(x,y)=({n},-3)"]),
    "intervals": lambda n: (f"[{n},\\infty)", [f"x \\ge {n}", f"{n} \\le x", f"x \\in [{n}, \\infty)"]),
    "polynomials": lambda n: (f"x^2+{n}x", [f"x(x+{n})", f"{n}x+x^2", f"x^{{2}} + {n} x"]),
    "roots": lambda n: (f"{n}\\sqrt{{3}}", [f"\\sqrt{{{3 * n * n}}}", f"{n} \\cdot \\sqrt3", f"\\sqrt{{3}}\\cdot {n}"]),
    "text": lambda n: (f"\\text{{row {n}}}", [f"row {n}", f"Row {n}."]),
}
SHARES = {
    "integers": 62,
    "fractions": 12,
    "decimals": 4,
    "tuples": 4,
    "intervals": 3,
    "polynomials": 6,
    "roots": 7,
    "text": 2,
}
FORMS = (
    "We compute step by step, 3 + 4 = 7.\n\nTherefore the answer is $\\boxed{%s}$.",
    "So \\boxed{%s}",
    "The answer is $%s$.",
)


def make_answers(count, seed=0):
    """(kind, reference, response, right?) in the proportions of MATH-500."""
    rng = random.Random(seed)
    for kind in rng.choices([*SHARES], [*SHARES.values()], k=count):
        n = rng.randint(2, 5000)
        reference, spellings = KINDS[kind](n)
        right = rng.random() < 0.6
        answer = rng.choice([reference, *spellings] if right else KINDS[kind](n + rng.randint(1, 9))[1])
        yield kind, reference, rng.choice(FORMS) % answer, right


def main(argv):
    parser = argparse.ArgumentParser(
        prog="bench.py math", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--answers", type=int, default=10_000)
    options = parser.parse_args(argv)
    judge, verify = importlib.import_module("02_label"), math_verify()
    seconds, theirs, counts, wrong = {}, {}, {}, 0
    for n, (kind, reference, response, right) in enumerate(make_answers(options.answers)):
        start = time.process_time()
        answer = judge.answer_of(response)
        found = judge.verdict({"kind": "math", "prompt": "", "answer": reference}, answer)
        judge.groups_of([answer])
        seconds[kind] = seconds.get(kind, 0) + time.process_time() - start
        counts[kind] = counts.get(kind, 0) + 1
        wrong += found[0] != right
        if verify and n % 10 == 0:
            start = time.process_time()
            verify(reference, response)
            theirs.setdefault(kind, []).append(time.process_time() - start)
    total, each = sum(seconds.values()), {kind: 1000 * seconds[kind] / counts[kind] for kind in counts}
    rows = [
        [
            kind,
            counts[kind],
            f"{each[kind]:.3f}",
            f"{1000 * sum(theirs[kind]) / len(theirs[kind]):.2f}" if kind in theirs else None,
        ]
        for kind in counts
    ]
    print(common.table(["answers", "count", "ms each", "Math-Verify ms"], rows))
    print(f"{options.answers} answers in {total:.2f} s on one core, {wrong} judged otherwise than they were made")
    result = {
        "answers": options.answers,
        "seconds": round(total, 3),
        "ms_each": round(1000 * total / options.answers, 4),
        "misjudged": wrong,
    }
    if theirs:
        samples = [value for values in theirs.values() for value in values]
        result |= {"math_verify_ms_each": round(1000 * sum(samples) / len(samples), 3)}
        result |= {"ratio": round(result["math_verify_ms_each"] / result["ms_each"], 1)}
    print(json.dumps(result))


def math_verify():
    """Math-Verify as it is meant to be used, or None where it is not installed."""
    try:
        from math_verify import parse, verify
    except ImportError:
        return None
    return lambda reference, response: verify(parse(f"${reference}$"), parse(response))
