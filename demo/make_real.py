"""Make four problem files for a real but small language model: sums, and functions of one line.

Reads nothing. Writes demo/{word_a,word_b,func_a,func_b}.jsonl, in a second, the same to the byte everywhere.

    python demo/make_real.py
    FLAGS_01="--temperature .7 --top-k 40 --max-new-tokens 64" \
        bash run_all.sh HuggingFaceTB/SmolLM2-135M-Instruct demo/word_a.jsonl demo/word_b.jsonl

Examples open each chat, or such a model would not keep to a form. The two files of a family share these,
but no template and no sum; a scorer is calibrated on one and used on the other.
"""

import argparse
import json
import random
from pathlib import Path

WORDS, FUNCTIONS = 200, 150  # problems in a file
NAMES = ["Ana", "Ben", "Cleo", "Dan", "Eva", "Finn", "Gina", "Hugo"]
THINGS = ["pens", "coins", "cards", "shells", "apples", "stamps", "books", "eggs"]

WORD_CHAT = [
    ("Tom has 5 plums and buys 7 more. How many plums does Tom have?", "5 + 7 = 12. The answer is 12."),
    ("Tom has 9 plums and eats 4. How many plums are left?", "9 - 4 = 5. The answer is 5."),
    ("Each of 3 plates holds 6 plums. How many plums are there?", "3 * 6 = 18. The answer is 18."),
    ("What is 8 plus 6?", "8 + 6 = 14. The answer is 14."),
]
WORD_TEMPLATES = {
    "word_a": {
        "What is {x} + {y}?": "+",
        "{who} has {x} {things} and gets {y} more. How many {things} does {who} have now?": "+",
        "What is {x} - {y}?": "-",
        "{who} has {x} {things} and gives away {y}. How many {things} are left?": "-",
        "What is {x} * {y}?": "*",
        "There are {x} bags with {y} {things} in each. How many {things} are there?": "*",
    },
    "word_b": {
        "Find the sum of {x} and {y}.": "+",
        "There are {x} {things} in a box. {who} adds {y} {things}. How many {things} are in the box?": "+",
        "What is {x} minus {y}?": "-",
        "A shop has {x} {things} and sells {y}. How many {things} does the shop still have?": "-",
        "What is {x} times {y}?": "*",
        "{who} buys {x} boxes of {y} {things}. How many {things} does {who} have?": "*",
    },
}
SIZES = {"+": (3, 29, 2, 9), "-": (10, 29, 2, 9), "*": (2, 14, 2, 12)}  # of the two numbers

FUNCTION_CHAT = [
    ("Write a Python function half(n) that returns n divided by 2.", "def half(n):\n    return n / 2"),
    ("Write a Python function starts_with_q(s) that returns True if s starts with 'q'.",
     "def starts_with_q(s):\n    return s.startswith('q')"),
    ("Write a Python function squares(xs) that returns a list of the squares of xs.",
     "def squares(xs):\n    return [x ** 2 for x in xs]"),
]  # fmt: skip
FUNCTION_TEMPLATES = {  # of n (a number), s (a text) or xs (a list of numbers): what to return, and how
    "func_a": {
        "add_{k}(n) that returns n plus {k}": "n + {k}",
        "times_{k}(n) that returns n times {k}": "n * {k}",
        "remainder_{k}(n) that returns the remainder of n divided by {k}": "n % {k}",
        "is_above_{k}(n) that returns True if n is greater than {k}": "n > {k}",
        "subtract_from_{k}(n) that returns {k} minus n": "{k} - n",
        "max_with_{k}(n) that returns the larger of n and {k}": "max(n, {k})",
        "first_{k}(s) that returns the first {k} letters of s": "s[:{k}]",
        "repeat_{k}(s) that returns s repeated {k} times": "s * {k}",
        "ends_with_{c}(s) that returns True if s ends with '{c}'": "s.endswith('{c}')",
        "count_{c}(s) that returns how often '{c}' is in s": "s.count('{c}')",
        "add_{k}_to_each(xs) that returns a list of x plus {k} for each x in xs": "[x + {k} for x in xs]",
        "sum_plus_{k}(xs) that returns the sum of xs plus {k}": "sum(xs) + {k}",
        "above_{k}(xs) that returns a list of each x in xs greater than {k}": "[x for x in xs if x > {k}]",
        "contains_{k}(xs) that returns True if {k} is in xs": "{k} in xs",
        "drop_{k}(xs) that returns xs without the first {k} numbers": "xs[{k}:]",
    },
    "func_b": {
        "minus_{k}(n) that returns n minus {k}": "n - {k}",
        "square_plus_{k}(n) that returns the square of n plus {k}": "n * n + {k}",
        "divide_by_{k}(n) that returns n // {k}": "n // {k}",
        "is_multiple_of_{k}(n) that returns True if n is a multiple of {k}": "n % {k} == 0",
        "is_below_{k}(n) that returns True if n is less than {k}": "n < {k}",
        "distance_to_{k}(n) that returns the absolute value of n minus {k}": "abs(n - {k})",
        "last_{k}(s) that returns the last {k} letters of s": "s[-{k}:]",
        "append_{c}(s) that returns s plus '{c}'": "s + '{c}'",
        "has_{c}(s) that returns True if '{c}' is in s": "'{c}' in s",
        "remove_{c}(s) that returns s without '{c}'": "s.replace('{c}', '')",
        "length_plus_{k}(s) that returns the length of s plus {k}": "len(s) + {k}",
        "times_{k}_each(xs) that returns a list of x times {k} for each x in xs": "[x * {k} for x in xs]",
        "count_{k}(xs) that returns how often {k} is in xs": "xs.count({k})",
        "not_{k}(xs) that returns a list of each x in xs that is not {k}": "[x for x in xs if x != {k}]",
        "max_times_{k}(xs) that returns the largest number in xs times {k}": "max(xs) * {k}",
    },
}


def chat(examples, prompt):
    turns = [turn for asked, answer in examples for turn in (("user", asked), ("assistant", answer))]
    return [{"role": role, "content": text} for role, text in [*turns, ("user", prompt)]]


def word_problems(family, rng, used):
    """Templates in turn; no sum twice, in neither file."""
    for n in range(WORDS):
        text, sign = list(WORD_TEMPLATES[family].items())[n % len(WORD_TEMPLATES[family])]
        while True:
            low, high, least, most = SIZES[sign]
            x, y = rng.randint(low, high), rng.randint(least, most)
            if (x, sign, y) not in used:
                break
        used.add((x, sign, y))
        result = {"+": x + y, "-": x - y, "*": x * y}[sign]
        prompt = text.format(x=x, y=y, who=rng.choice(NAMES), things=rng.choice(THINGS))
        yield {"kind": "math", "messages": chat(WORD_CHAT, prompt), "answer": str(result),
               "solution": f"{x} {sign} {y} = {result}. The answer is {result}."}  # fmt: skip


def inputs(parameter, k, c, rng):
    """Ten values of the parameter; some meet k or c at its edge."""
    if parameter == "n":
        return [k, k + 1, k - 1, 3 * k, 0, *(rng.randint(-9, 60) for _ in range(5))]
    if parameter == "s":
        letters, lengths = [c, *"abcdeimorstu "], [1, k, k + 1, *rng.choices(range(2, 13), k=6)]
        return ["", *("".join(rng.choices(letters, k=length)) + c * (length % 2) for length in lengths)]
    numbers, lengths = [k, k, k + 1, k - 1, *range(-5, 15)], [1, 2, k + 2, *rng.choices(range(2, 9), k=7)]
    return [rng.choices(numbers, k=length) for length in lengths]


def functions(family, rng):
    """Templates in turn, each with other numbers and letters; the asserts hold what the reference returns."""
    used, templates = set(), list(FUNCTION_TEMPLATES[family].items())
    while len(used) < FUNCTIONS:
        text, body = templates[len(used) % len(templates)]
        k, c = rng.randint(2, 14), rng.choice("abcdeimorstu")
        text, body = text.format(k=k, c=c), body.format(k=k, c=c)
        if body in used:
            continue
        used.add(body)
        name, parameter = text[: text.index(")")].split("(")
        works = eval(f"lambda {parameter}: {body}")
        asserts = [f"assert {name}({value!r}) == {works(value)!r}" for value in inputs(parameter, k, c, rng)]
        yield {"kind": "code", "messages": chat(FUNCTION_CHAT, f"Write a Python function {text}."),
               "tests": "\n".join(asserts), "entry_point": name,
               "solution": f"def {name}({parameter}):\n    return {body}"}  # fmt: skip


def main(args):
    args.out.mkdir(parents=True, exist_ok=True)
    used = set()
    makers = {family: word_problems(family, random.Random(family), used) for family in WORD_TEMPLATES}
    makers |= {family: functions(family, random.Random(family)) for family in FUNCTION_TEMPLATES}
    for family, rows in makers.items():
        lines = [json.dumps({"id": f"{family}/{n}"} | row) + "\n" for n, row in enumerate(rows)]
        (args.out / f"{family}.jsonl").write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    style = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=style)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent, help="folder to write to")
    main(parser.parse_args())
