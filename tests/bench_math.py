"""Speed of the maths judge in processor time: ordinary answers on one core; extraction, equality and groups.

python tests/bench.py math [--answers 10000]
"""

import importlib
import json
import random
import time

import common

KINDS = {  # share in MATH-500, a reference and right answers to vary (N; M is 2N); wrong ones have another N
    "integers": (62, "N", ["N.0", "x = N", "N \\text{ units}"]),
    "fractions": (12, "\\frac{N}{7}", ["N/7", "\\dfrac{N}7", "\\frac{M}{14}"]),
    "decimals": (4, "N.25", ["N + \\frac{1}{4}", "N.250", "N\\frac14"]),
    "tuples": (4, "(N, -3)", ["(N,-3)", "\\left(N.0, -3\\right)", "(x,y)=(N,-3)"]),
    "intervals": (3, "[N,\\infty)", ["x \\ge N", "N \\le x", "x \\in [N, \\infty)"]),
    "polynomials": (6, "x^2+Nx", ["x(x+N)", "Nx+x^2", "x^{2} + N x"]),
    "roots": (7, "N\\sqrt{3}", ["\\frac{3\\cdot N}{\\sqrt{3}}", "N \\cdot \\sqrt3", "\\sqrt{3}\\cdot N"]),
    "text": (2, "\\text{row N}", ["row N", "Row N."]),
}
FORMS = (
    "We compute step by step, 3 + 4 = 7.\n\nTherefore the answer is $\\boxed{%s}$.", "So \\boxed{%s}",
    "The answer is $%s$.",
)  # fmt: skip


def make_answers(count, seed=0):
    """(reference, response, right?) in the proportions of MATH-500."""
    rng = random.Random(seed)
    shares = [share for share, *_ in KINDS.values()]
    for kind in rng.choices([*KINDS], shares, k=count):
        _, reference, spellings = KINDS[kind]
        n = rng.randint(2, 5000)
        right = rng.random() < 0.6
        given = n if right else n + rng.randint(1, 9)
        answer = rng.choice([reference] * right + spellings)
        answer = answer.replace("N", str(given)).replace("M", str(2 * given))
        yield reference.replace("N", str(n)), rng.choice(FORMS) % answer, right


def main(argv):
    parser = common.argument_parser(__doc__)
    parser.add_argument("--answers", type=int, default=10_000)
    options = parser.parse_args(argv)
    judge = importlib.import_module("02_label")
    seconds = 0.0
    misjudged = 0
    for reference, response, right in make_answers(options.answers):
        start = time.process_time()
        answer = judge.answer_of(response)
        found, _ = judge.verdict({"kind": "math", "prompt": "", "answer": reference}, answer)
        judge.groups_of([answer])
        seconds += time.process_time() - start
        misjudged += found != right
    line = {"answers": options.answers, "seconds": round(seconds, 3), "misjudged": misjudged}
    line["ms_each"] = round(1000 * seconds / options.answers, 4)
    print(common.table([*line], [[*line.values()]]))
    print(json.dumps(line))
