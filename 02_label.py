"""Judge every rollout of a run: run its code against the tests, or compare its answer with the reference.

    python 02_label.py RUN [RUN ...]            # reads problems.jsonl and rollouts.jsonl, writes labels.jsonl
    python 02_label.py DATASET --self-check     # may these labels be trusted? reference solutions pass, stubs fail

RUN is a folder that 01_generate.py made. A row of labels.jsonl: {"id", "sample", "label": 1|0|null, "answer", "group",
"reason"}, one for each rollout, in the same order. null means could not be judged, and why; answers of one problem that
are equal share a group number (null: no answer, or code), so that votes need no maths. The last line printed is JSON.

In this file: the judge, then extraction of code and answers, then equality of answers, then the parser of formulas.
Model-written programs run in the sandbox only; model-written formulas are parsed here and never evaluated as code.
"""

import argparse
import ast
import hashlib
import json
import math
import re
import sys
import textwrap
import time
import zlib
from collections import Counter, namedtuple
from fractions import Fraction
from functools import lru_cache
from itertools import product
from pathlib import Path

from tqdm import tqdm

import common
from common import split_reasoning

CPU_S = 10  # seconds of processor time for one program and its tests

# ---------------------------------------------------------------------------------------------------------------------
# The judge


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "targets", nargs="+", metavar="RUN", help="run folders; with --self-check data set names or files"
    )
    parser.add_argument(
        "--self-check", action="store_true", help="judge the data set's own reference solutions and stubs"
    )
    parser.add_argument("--workers", type=int, help="programs judged at the same time (default: one a core)")
    parser.add_argument(
        "--timeout", type=float, default=CPU_S, help=f"seconds of processor time a program may use (default {CPU_S})"
    )
    parser.add_argument("--again", action="store_true", help="judge once more what is judged already")
    options = parser.parse_args()
    if options.self_check:
        failures = [line for target in options.targets for line in self_check(target, options)]
        raise SystemExit(1 if failures else 0)
    summaries = [label_run(Path(run), options) for run in options.targets]
    report(summaries)


def label_run(run, options):
    """Write the run's labels.jsonl, or find it written; return the counts for the table."""
    if not run.is_dir():
        common.die(f"{run}: no such run folder; make one with 01_generate.py")
    rollouts = common.read_rollouts(run)
    keys = common.keys_of(common.align(rollouts, None, run / "rollouts.jsonl"))
    common.check_same_problems(run, rollouts)
    problems = {row["id"]: row for row in common.read_jsonl(run / "problems.jsonl", needs=("id", "kind", "prompt"))}
    if not rollouts:
        common.die(f"{run}: rollouts.jsonl is empty; run 01_generate.py again")
    if options.again or not is_finished(run):
        rows = {row["id"]: [] for row in rollouts}
        for row in rollouts:
            rows[row["id"]].append(row)
        labels = judge_all(run, problems, rows, options)
        common.write_jsonl(run / "labels.jsonl", common.align(labels, keys, run))
        unfinished(run).unlink(missing_ok=True)
    return summary(run, problems, common.read_labels(run, keys))


def is_finished(run):
    labels = run / "labels.jsonl"
    return labels.is_file() and all(
        labels.stat().st_mtime >= (run / name).stat().st_mtime for name in ("rollouts.jsonl", "problems.jsonl")
    )


def unfinished(run):
    return run / ".labels.unfinished.jsonl"


def judge_all(run, problems, rollouts, options):
    """Labels of all rollouts. Those of a finished problem are kept at once: a killed run goes on from there."""
    digest = hashlib.sha256(
        b"".join((run / name).read_bytes() for name in ("rollouts.jsonl", "problems.jsonl"))
    ).hexdigest()
    stamp = {"inputs": digest, "timeout": options.timeout}
    done = [] if options.again else kept_labels(unfinished(run), stamp)
    left = {key: rows for key, rows in rollouts.items() if key not in {label["id"] for label in done}}
    if not done:
        common.write_jsonl(unfinished(run), [stamp])
    code = {key: rows for key, rows in left.items() if is_code(problems[key])}
    answers = {key: rows for key, rows in left.items() if key not in code}
    judged = (judge_answers(problems[key], rows) for key, rows in answers.items())
    with open(unfinished(run), "a", encoding="utf-8") as kept:
        for source, total in ((judged, len(answers)), (judge_programs(problems, code, options), len(code))):
            for labels in tqdm(source, total=total, desc=f"{run}", unit="problem", delay=2):
                kept.write(json.dumps(labels, ensure_ascii=False) + "\n")
                kept.flush()
                done += labels
    return done


def kept_labels(path, stamp):
    """What an interrupted run of the same inputs has judged; a torn last line does not count."""
    lines = path.read_text(encoding="utf-8", errors="replace").split("\n")[:-1] if path.is_file() else []
    return (
        [label for line in lines[1:] for label in json.loads(line)] if lines and json.loads(lines[0]) == stamp else []
    )


def is_code(problem):
    return problem["kind"] == "code" and "tests" in problem


def judge_answers(problem, rows):
    """Labels of one problem whose answers are compared, with the reference and with each other."""
    reference = reference_of(problem)
    if problem["kind"] == "code":
        return [label_row(row, None, None, None, "no tests") for row in rows]
    extract, compare = (extract_answer, group) if problem["kind"] == "math" else (extract_text, group_texts)
    answers = [extract(row["response"], reference) for row in rows]
    verdicts, groups = compare(answers, reference, problem["prompt"])
    labels = []
    for row, answer, number in zip(rows, answers, groups):
        right, reason = verdicts[answer] if answer is not None else (None if reference is None else False, "no answer")
        labels.append(label_row(row, None if right is None else int(right), answer, number, reason))
    return labels


def reference_of(problem):
    """The reference answer, if there is one; a solution that ends in a box gives the content of the box."""
    if problem.get("answer") is None:
        return None
    found = boxes(str(problem["answer"])) if problem["kind"] == "math" else None
    return found[-1] if found else str(problem["answer"])


def label_row(row, label, answer, number, reason):
    return {
        "id": row["id"],
        "sample": row["sample"],
        "label": label,
        "answer": answer and answer[:1000],
        "group": number,
        "reason": reason,
    }


def judge_programs(problems, rollouts, options):
    """Labels of problems with tests, as each is done; equal programs for one problem run once."""
    programs = {key: [extract_code(row["response"], problems[key]) for row in rows] for key, rows in rollouts.items()}
    jobs = [(key, code) for key, codes in programs.items() for code in dict.fromkeys(codes)]
    waiting, reasons = Counter(key for key, _ in jobs), {}
    for (key, code), result in run_all(
        [((key, code), job_of(problems[key], code, options)) for key, code in jobs], options
    ):
        reasons[key, code] = (None if result.passed is None else int(result.passed)), result.reason
        waiting[key] -= 1
        if not waiting[key]:
            verdicts = [reasons[key, code] for code in programs[key]]
            yield [label_row(row, label, None, None, reason) for row, (label, reason) in zip(rollouts[key], verdicts)]


def job_of(problem, code, options):
    fields = {
        name: problem[name] for name in ("tests", "style", "entry_point", "prelude") if problem.get(name) is not None
    }
    return {"code": code, "cpu_s": options.timeout, **fields}


def run_all(jobs, options):
    """(key, result) of each (key, job), as they finish."""
    from sandbox_exec import Pool

    if not jobs:
        return
    try:
        pool = Pool(options.workers)
    except (RuntimeError, OSError) as error:
        common.die(f"programs cannot be judged on this machine: {error}")
    with pool:
        print(pool.banner, file=sys.stderr)
        yield from pool.imap_unordered(jobs)


def summary(run, problems, labels):
    judged = [row for row in labels if row["label"] is not None]
    right = sum(row["label"] for row in judged)
    solved, judgeable = {row["id"] for row in judged if row["label"]}, {row["id"] for row in judged}
    reasons = [row["reason"][:100] if row["label"] is None else row["reason"].partition(":")[0] for row in labels]
    return {
        "run": str(run), "problems": len(problems), "rollouts": len(labels),
        "right": right, "wrong": len(judged) - right, "not_judged": len(labels) - len(judged),
        "no_answer": sum(reason in ("no answer", "no code") for reason in reasons),
        "right_percent": percent(right, len(judged)), "oracle_percent": percent(len(solved), len(judgeable)),
        "reasons": dict(Counter(reasons).most_common()),
    }  # fmt: skip


def percent(part, whole):
    return round(100 * part / whole, 2) if whole else None


def report(summaries):
    columns = ("problems", "rollouts", "right", "right_percent", "wrong", "not_judged", "oracle_percent", "no_answer")
    header = ("run", "problems", "rollouts", "right", "right %", "wrong", "not judged", "oracle %", "no answer")
    print(common.table(header, [[line["run"], *(line[column] for column in columns)] for line in summaries]))
    for line in summaries:
        print(f"{line['run']}: " + ", ".join(f"{count} {reason}" for reason, count in line["reasons"].items()))
        if line["not_judged"] == line["rollouts"]:
            print(
                f"{line['run']}: nothing to judge, no answers or tests; the groups are written, 04 can still select"
            )
    print(json.dumps({"runs": summaries}))


def self_check(dataset, options):
    """What a judge must get right before anyone trusts it; the lines that tell of failures."""
    problems = (
        common.read_jsonl(Path(dataset) / "problems.jsonl") if Path(dataset).is_dir() else common.load_problems(dataset)
    )
    code = [row for row in problems if is_code(row)]
    jobs = [((row["id"], "solution"), job_of(row, row["solution"], options)) for row in code if "solution" in row]
    jobs += [((row["id"], "stub"), job_of(row, stub_of(row), options)) for row in code]
    failures, checked = [], {key for key, _ in jobs}
    for (key, what), result in tqdm(
        run_all(jobs, options), total=len(jobs), desc=str(dataset), unit="program", delay=2
    ):
        if result.passed is not (what == "solution") and (
            what == "solution" or result.passed or (key, "solution") not in checked
        ):
            failures.append(f"{key}: its {what}: {result.reason}")
    answers = [row for row in problems if row["kind"] != "code" and row.get("answer") is not None]
    failures += [
        f"{row['id']}: the answer {row['answer']!r} is not judged equal to itself"
        for row in answers
        if not equals_itself(row)
    ]
    print("\n".join(sorted(failures)), end="\n" if failures else "")
    solutions = sum("solution" in row for row in code)
    print(
        f"{dataset}: {solutions} reference solutions, {len(code)} stubs and {len(answers)} answers checked, "
        f"{len(failures)} failures; {len(code) - solutions} problems have tests but no reference solution, "
        f"{len(problems) - len(code) - len(answers)} nothing to check"
    )
    counts = {
        "problems": len(problems),
        "solutions": solutions,
        "stubs": len(code),
        "answers": len(answers),
        "failures": len(failures),
    }
    print(json.dumps({"dataset": str(dataset), **counts}))
    return failures


def equals_itself(problem):
    reference = reference_of(problem)
    if problem["kind"] == "text":
        return group_texts([extract_text(reference, reference)], reference, "")[0].popitem()[1][0]
    answer = extract_answer(f"Therefore the answer is $\\boxed{{{reference}}}$.", reference)
    return answer is not None and equal(reference, answer)[0]


def stub_of(problem):
    """The reference solution with empty functions; it must fail."""
    try:
        tree = ast.parse(problem["solution"])
    except (KeyError, SyntaxError):
        return f"def {problem['entry_point']}(*args, **kwargs):\n    pass\n" if "entry_point" in problem else "pass\n"
    if isinstance(problem["tests"], dict):
        return "pass\n"
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            node.body = [ast.Pass()]
    return ast.unparse(tree) + "\n"


# ---------------------------------------------------------------------------------------------------------------------
# Extraction of code

FENCE = re.compile(r"^([ \t]*)(```+|~~~+)(.*)$")


def extract_code(response, problem):
    """The program a response gives, or None.

    The last block that parses and defines the wanted name; else the last that parses and defines anything; else the
    last; else the text itself, if it is a program or the body of the function that the prompt opens.
    """
    final = SPECIAL.sub("", split_reasoning(response)[1]).replace("\r\n", "\n").replace("\r", "\n")
    if not final.strip():
        return None
    blocks = [block for block in code_blocks(final) if block.strip()]
    name = problem.get("entry_point")
    trees = [(block, parsed(block)) for block in blocks]
    wanted = [block for block, tree in trees if tree and name in defined(tree)]
    if wanted:
        return wanted[-1]
    for block in reversed(blocks) if blocks else [final]:
        body = as_body(block, problem)
        if body:
            return body
    able = [(block, tree) for block, tree in trees if tree and (defined(tree) if name else reads_input(block))]
    able = able or [(block, tree) for block, tree in trees if tree]
    if able:
        return with_wanted_name(*able[-1], problem)
    if blocks:
        return blocks[-1]
    tree = parsed(final)
    return with_wanted_name(final, tree, problem) if tree and (defined(tree) or len(tree.body) > 1) else None


def code_blocks(text):
    """Fenced blocks, closed or cut off at the end, and <output> parts that hold none."""
    blocks, opened = [], None
    for line in text.split("\n"):
        fence = FENCE.match(line)
        if opened is None and fence:
            opened, lines = fence, []
        elif opened is not None and fence and fence[2].startswith(opened[2]) and not fence[3].strip():
            blocks.append(dedented(lines, opened[1]))
            opened = None
        elif opened is not None and line.rstrip().endswith(opened[2]) and "</output>" not in line:
            blocks.append(dedented([*lines, line.rstrip()[: -len(opened[2])]], opened[1]))
            opened = None
        elif opened is not None:
            lines.append(line)
    if opened is not None:
        blocks.append(dedented(lines, opened[1]).replace("</output>", ""))
    outputs = re.findall(r"<output>(.*?)(?:</output>|\Z)", text, re.S)
    return blocks + [output.strip("\n") for output in outputs if "```" not in output and "~~~" not in output]


def dedented(lines, indent):
    return "\n".join(line[len(indent) :] if line.startswith(indent) else line for line in lines)


def parsed(code):
    try:
        return ast.parse(code)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None


def defined(tree):
    """Names of functions, classes and assigned variables at the top of a program."""
    names = [node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))]
    targets = [target for node in tree.body if isinstance(node, ast.Assign) for target in node.targets]
    return names + [target.id for target in targets if isinstance(target, ast.Name)]


def reads_input(code):
    return re.search(r"\binput\(|\bstdin\b|\bopen\(0", code)


def as_body(code, problem):
    """prompt + completion, where the prompt opens a function and the completion is its body."""
    prelude = problem.get("prelude", "")
    if problem.get("entry_point") not in defined(parsed(prelude + "\n    pass\n") or ast.parse("")):
        return None
    tree = parsed(code)
    if tree is None and code.lstrip("\n").startswith((" ", "\t")):
        body = code
    elif tree and any(
        isinstance(node, ast.Return) for top in tree.body if not hasattr(top, "name") for node in ast.walk(top)
    ):
        body = textwrap.indent(code, "    ")
    else:
        return None
    program = prelude.rstrip("\n") + "\n" + body + "\n"
    return program if parsed(program) else None


def with_wanted_name(code, tree, problem):
    """Tests written against one name (KodCode) also take a program whose single function has another."""
    functions = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    wanted = problem.get("entry_point")
    if wanted and problem.get("style") == "pytest" and len(functions) == 1 and wanted not in defined(tree):
        return f"{code}\n\n{wanted} = {functions[0]}\n"
    return code


# ---------------------------------------------------------------------------------------------------------------------
# Extraction of answers

BOX_PART = re.compile(r"\\(?:boxed|fbox)\b\s*|\\.|[{}]", re.S)
FORMULA = re.compile(r"\$\$(.+?)\$\$|\$ ([^$]+) \$|\$(?! )([^$]+)(?<! )\$(?!\d)|\\\((.+?)\\\)|\\\[(.+?)\\\]", re.S)
PHRASE = re.compile(
    r"####|<answer>|(?:^|\n)\W*A:|(?<!\w)(?:answers?|results?|(?:correct|right) (?:option|choice))\b"
    r"(?:[^\n.:=$]|\.\d){0,60}?(?:\bis\b|\bare\b|\bbe\b|:|=|\n)",
    re.I,
)
CONNECTOR = re.compile(r"(?:\s|,|;|and|or|\\text\{ *(?:and|or) *\})*")
NUMBER = re.compile(
    r"(?<![\w.])-?(?:\d+(?:,\d{3})*(?:\.\d+)?|\.\d+)(?:/\d+)?%?"
    r"(?! *[+*/^=]|(?!cm|mm|km|kg|ml|ft|mph|th|st|nd|rd)[A-Za-z\d])"
)
SENTENCE_END = re.compile(r"</answer>|(?<!\.)\.(?=\s|$)|\n|[,;]?\s+(?:since|because|which|where|as|when|so|but)\b")
SPECIAL = re.compile(r"<\|[^|<>]{1,40}\|>|</?s>|<eos>|<end_of_turn>")
TAIL = 20_000  # characters of a response in which a phrase, formula or number is looked for


def extract_answer(response, reference=None):
    """The answer a response gives, or None: the last box of its final part, what a phrase announces, or its end."""
    reasoning, final = split_reasoning(response)
    final = SPECIAL.sub("", final).strip()
    found = boxes(final or reasoning)
    if found:
        return join_boxes(found, reference)
    if not final:
        return None  # cut off while reasoning, and nothing boxed yet
    if "**" in final:
        final = re.sub(r"(?<![\w)])\*\*|\*\*(?![\w(])", "", final)  # bold; 2**3 stays
    final = final[-TAIL:]
    candidates = [
        answer
        for answer in (announced(final[phrase.end() :]) for phrase in reversed([*PHRASE.finditer(final)][-3:]))
        if answer
    ]
    if not candidates:
        return final if len(final) <= 300 and is_bare(final) else last_formula_or_number(final)
    if reference is not None and is_integer(analyse(reference).keys):  # "the answer is m + n, where ..., so it is 204"
        after = last_formula_or_number(final[final.rfind(candidates[0]) + len(candidates[0]) :])
        candidates = [
            answer
            for answer in [*candidates, after]
            if answer and is_integer(analyse(answer).keys + analyse(answer).values)
        ] or candidates
    return candidates[0]


def is_integer(keys):
    keys = (key[1] if key[0] == "given" else key for key in keys)
    return any(key[0] == "num" and isinstance(key[1], Fraction) and key[1].denominator == 1 for key in keys)


def boxes(text):
    """The contents of all non-empty boxes, in order; one pass, so that ten thousand nested ones cost nothing."""
    found, stack, boxed = [], [], False
    for part in BOX_PART.finditer(text):
        if part[0].startswith(("\\boxed", "\\fbox")):
            boxed = text[part.end() : part.end() + 1] == "{"
            bare = re.compile(r"[^\s$\\{}]+").match(text, part.end())
            if bare:
                found.append((part.start(), bare[0].rstrip(".,;")))
        elif part[0] == "{":
            stack.append((part.end(), boxed))
            boxed = False
        elif part[0] == "}" and stack:
            start, is_box = stack.pop()
            if is_box and text[start : part.start()].strip():
                while found and found[-1][0] >= start:
                    found.pop()  # a box within this one
                found.append((start, text[start : part.start()].strip()))
    return [content for _, content in found]


def join_boxes(found, reference):
    """The last box; where the reference lists n answers, the last n boxes if they hold one each."""
    wanted = len(items_of(reference)) if reference is not None else 1
    distinct = list(dict.fromkeys(found))
    if wanted < 2 or len(distinct) < wanted or len(items_of(found[-1])) > 1:
        return found[-1]
    return ", ".join(distinct[-wanted:])


def items_of(answer):
    """What an answer lists; one thing if it is no list."""
    node = analyse(answer).node
    node = spread(node) if node else ("",)
    return node[1] if node[0] in ("list", "set") else [node]


def announced(tail):
    """The answer at the start of the text that follows "the answer is"."""
    tail = re.sub(
        r"^(?:[\s:*_=#>,]|(?:therefore|thus|then|hence|simply|just|indeed|option|choice|equal to)\b)+",
        "",
        tail,
        flags=re.I,
    )
    formula = FORMULA.search(tail)
    end = SENTENCE_END.search(tail)
    sentence = tail[: end.start()] if end else tail
    if formula and formula.start() <= len(sentence):
        return formula_run(tail, formula)
    return trimmed(sentence) or None


def trimmed(text):
    text = text.strip(' *_`"\n')
    return text if text.endswith("...") else text.rstrip(" .,;*_")


def formula_run(text, formula):
    """A formula and those joined to it by commas, "and" or "or"."""
    parts = [next(group for group in formula.groups() if group is not None)]
    while True:
        gap = CONNECTOR.match(text, formula.end())
        following = FORMULA.match(text, gap.end())
        if not following or not gap[0].strip():
            return ", ".join(map(trimmed, parts))
        formula = following
        parts.append(next(group for group in formula.groups() if group is not None))


def is_bare(text):
    """A response that is nothing but an answer."""
    return (
        len(text.split()) <= 3
        and not FORMULA.search(text)
        or analyse(text).kind != "text"
        and not re.search(r"[A-Za-z]{2,},? +[a-z]{2,}\b", text)
    )


def last_formula_or_number(text):
    formulas = [
        f for f in FORMULA.finditer(text) if not re.search(r"\\(?:blacksquare|square|checkmark|qed)", f[0], re.I)
    ]
    formulas = [f for f in formulas if re.search(r"[\d=<>^+]|\\[a-z]", f[0])] or formulas  # rather not "$x$"
    numbers = [n for n in NUMBER.finditer(text) if not formulas or n.start() >= formulas[-1].end()]
    numbers = [n for n in numbers if text[: n.start()].rstrip()[-1:] not in ("+", "-", "*", "/", "^")]
    if numbers:
        ending = re.search(r"=([^=$\n]+)$", text)  # z = 6 - 5i
        whole = ending and ending[1].strip(" .") or ""
        return whole if whole and analyse(whole).kind == "math" else numbers[-1][0]
    if not formulas:
        return None
    first = len(formulas) - 1
    while first and re.fullmatch(CONNECTOR, text[formulas[first - 1].end() : formulas[first].start()]):
        first -= 1
    return formula_run(text, formulas[first])


def extract_text(response, reference=None):
    """For problems whose answer is text: a box, what a phrase announces, or the whole final part."""
    final = SPECIAL.sub("", split_reasoning(response)[1]).strip()
    phrases = list(PHRASE.finditer(final[-TAIL:]))
    found = boxes(final)
    if not found and phrases and len(final.split()) > 3:
        found = [announced(final[-TAIL:][phrases[-1].end() :]) or final]
    return found[-1] if found else final or None


def group_texts(answers, reference, prompt):
    """As `group`, for texts: equal are those with the same words."""
    same = lambda text: re.sub(r"\W+", " ", text).strip().casefold() or text.strip()
    verdicts, numbers = {}, {}
    for answer in dict.fromkeys(answer for answer in answers if answer is not None):
        numbers.setdefault(same(answer), len(numbers))
        right = None if reference is None else same(answer) == same(reference)
        verdicts[answer] = right, {None: "no reference", True: "equal: exact", False: "different"}[right]
    return verdicts, [None if answer is None else numbers[same(answer)] for answer in answers]


# ---------------------------------------------------------------------------------------------------------------------
# Equality: an answer is turned into keys, which are equal when the answers are. Keys are computed, not searched for:
# rational numbers exactly, other constants to 40 of 70 digits, expressions with variables by their values at four
# fixed points (polynomials exactly). So n answers need n keys, no simplifier is waited for, and equality is transitive.

CHARACTERS, TOKENS, DEPTH, BITS, SECONDS = 2000, 500, 50, 40_000, 1.5  # beyond these an answer is "too complex"
DIGITS = 70  # of arithmetic that is not exact; 40 of them are compared
CLOCK = [0.0]  # when the evaluation under way gives up
Answer = namedtuple("Answer", "text kind node keys values unit")
# text: the answer in one spelling; kind: math, text or too complex; node: the parser's tree; keys: what the answer is;
# values: what it also stands for beside an answer of another form: 5 for x = 5, an interval for an inequality. Two
# answers are equal if a key of one is a key or value of the other. A value tagged "either" counts in both directions
# but not for grouping (.2 for 20%), one tagged "given" or "gold" only on that side (7 for x + y = 7; .5 for .5%).


class TooComplex(Exception):
    """Beyond the limits."""


class Unreadable(Exception):
    """Not a formula: compared as text."""


def equal(reference, answer, prompt=""):
    """(equal?, reason) of two answers as they were written."""
    gold, given = analyse(reference), analyse(answer)
    if gold.text == given.text:
        return True, "equal: exact"
    shared = shared_key(gold, given)
    if not shared and gold.node and given.node and is_rounding(gold.node, given.node):
        shared = ("num", "rounded", "")
    for unit, other in ((gold.unit, given.text), (given.unit, gold.text)):
        if not shared and unit and unit.isalpha() and other.endswith(unit):  # 108m, its unit not yet known as one
            shared = shared_key(
                *(analyse(one.text.removesuffix(unit)) if one.text == other else one for one in (gold, given))
            )
    if not shared:
        return False, "too complex" if "too complex" in (given.kind, gold.kind) else "different"
    if given.node and given.node != gold.node and repeats(given, prompt):
        return False, "different"
    return True, "equal: " + how(shared)


def shared_key(gold, given):
    if gold.unit != given.unit and gold.unit in UNITS and given.unit in UNITS and UNITS[gold.unit] != UNITS[given.unit]:
        return None  # 5 cm is not 5 m
    accepted = {value[1] if value[0] in ("either", "given") else value for value in given.values}
    stands_for = {value[1] if value[0] in ("either", "gold") else value for value in gold.values}
    for key in gold.keys:
        if key in given.keys or key in accepted:
            return key
    return next((key for key in given.keys if key in stands_for), None)


def how(key):
    """exact: by spelling or rational numbers; numeric: by constants to 40 digits; symbolic: with variables."""
    if isinstance(key, (tuple, frozenset)):
        return max((how(part) for part in key), key=("exact", "numeric", "symbolic").index, default="exact")
    if not isinstance(key, str):
        return "exact"
    return (
        "symbolic" if key in ("expr", "eq", "ineq") else "numeric" if re.match(r"-?\d+\.\d|rounded", key) else "exact"
    )


def is_rounding(gold, given):
    CLOCK[0] = time.monotonic() + SECONDS
    try:
        return rounds_to(gold, given)
    except (Unreadable, TooComplex, ZeroDivisionError, OverflowError):
        return False


def rounds_to(gold, given):
    """A reference that is a rounded decimal: 1/3 and 0.33. Or six or more right digits of a number without end."""
    gold, given = (node[2][-1] if node[0] == "rel" and set(node[1]) <= {"=", "≈"} else node for node in (gold, given))
    if gold[0] == given[0] and gold[0] in ("seq", "mat", "list"):
        if gold[0] == "seq" and gold[1] != given[1] or len(gold[-1]) != len(given[-1]):
            return False
        pairs = list(zip(gold[-1], given[-1]))
        if gold[0] == "list" and any(item[0] == "rel" for pair in pairs for item in pair):
            return False
        if gold[0] == "mat":
            pairs = (
                [pair for rows in pairs for pair in zip(*rows)]
                if all(len(a) == len(b) for a, b in pairs)
                else [(gold, ("empty",))]
            )
        return all(item_key(a) == item_key(b) or rounds_to(a, b) for a, b in pairs)
    for rounded, exact, digits in ((gold, given, 2), (given, gold, 6)):
        decimal, places = literal(rounded)
        if places and not literal(exact)[1] and exact[0] not in CONTAINERS | {"pct", "pm"} and not variables(exact):
            value = real(rational(evaluate(exact, 0))) if not is_infinite(exact) else None
            endless = value is not None and not (isinstance(value, Fraction) and (10**60 * value).denominator == 1)
            significant = len(str(abs(int(decimal * 10**places)))) if int(decimal * 10**places) else 0
            enough = significant >= digits and (places >= digits or digits == 2 and significant > 2)
            return endless and enough and abs(calculate("add", value, -decimal)) * 2 * 10**places <= 1
    return False


def literal(node):
    """(value, decimal places) of a number written out; places are 0 for anything else."""
    if node[0] == "neg":
        value, places = literal(node[1])
        return -value, places
    return (node[1], node[2]) if node[0] == "num" else (Fraction(0), 0)


def repeats(given, prompt):
    """Is the answer a formula that the question already holds, handed back as it stands?"""
    if given.node[0] in ("num", "var", "const", "neg", "seq", "list", "set", "mat") or not prompt:
        return False
    bare = lambda text: re.sub(
        r" *([-+*/^=<>(),]) *",
        r"\1",
        re.sub(r"\\left|\\right|\\[,!;: ]|[${}]", " ", re.sub(r"\\[dt]frac", r"\\frac", text)),
    )
    pattern = " *".join(re.escape(part) for part in re.findall(r"\\[a-zA-Z]+|\S", bare(given.text)))
    return bool(re.search(rf"(?<![\w.^*/+\-(\\]){pattern}(?![\w^*/+\-(\\]|\.\d)", bare(prompt)))


def group(answers, reference=None, prompt=""):
    """(verdicts, group numbers) of the answers to one problem: equal answers share a number, None has none.

    With a reference the right answers are one group; the others, or all without one, are grouped by their keys.
    """
    distinct = list(dict.fromkeys(answer for answer in answers if answer is not None))
    verdicts = {
        answer: (None, "no reference") if reference is None else equal(reference, answer, prompt) for answer in distinct
    }
    parent = {}

    def root(item):
        while parent.setdefault(item, item) != item:
            item = parent[item]
        return item

    for answer in distinct:
        parent[root(("answer", answer))] = root("right") if verdicts[answer][0] else root(("answer", answer))
    others = [analyse(answer) for answer in distinct if not verdicts[answer][0]]
    for answer, given in zip((answer for answer in distinct if not verdicts[answer][0]), others):
        for key in given.keys if not reference or not shared_key(analyse(reference), given) else [("text", given.text)]:
            parent[root(("answer", answer))] = root(key)
    for answer, given in zip((answer for answer in distinct if not verdicts[answer][0]), others):
        for value in given.values:
            if value in parent:
                parent[root(("answer", answer))] = root(value)
    numbers = {}
    for answer in distinct:
        numbers.setdefault(root(("answer", answer)), len(numbers))
    return verdicts, [None if answer is None else numbers[root(("answer", answer))] for answer in answers]


@lru_cache(maxsize=50_000)
def analyse(text):
    text = clean(text)
    CLOCK[0] = time.monotonic() + SECONDS
    try:
        if len(text) > CHARACTERS:
            raise TooComplex
        return special_form(text) or formula(text)
    except (TooComplex, OverflowError, RecursionError):
        return Answer(text, "too complex", None, (("text", text),), (), None)
    except (Unreadable, ZeroDivisionError):
        head, sign, tail = text.rpartition("=")
        if sign and tail.strip() and not re.search(r"[<>,;!]", head):
            return analyse(tail)._replace(text=text)  # "area of ABC = 5"
        return Answer(text, "text", None, (("text", plain_words(text)),), (), None)


def formula(text):
    joined = text if re.match(r"[(\[]|\\?\{", text) else THOUSANDS.sub(lambda m: m[0].replace(",", ""), text)
    parser = Parser(joined)
    node = parser.answer()
    keys, values = keys_of(spread(node))
    if joined != text and re.fullmatch(r"[\d,]+", text):
        values = values + keys_of(spread(Parser(text).answer()))[0]  # 1,234 may be two numbers, too
    return Answer(text, "math", node, tuple(keys), tuple(values), "".join(parser.unit))


def special_form(text):
    """Answers with a grammar of their own: choices, digits in a base, words."""
    if re.fullmatch(r"-?\d{1,300}", text):
        number = ("num", Fraction(text), 0)
        return Answer(text, "math", number, (number[:2],), (), "")
    choice = re.fullmatch(r"\(([A-J])\)[\s:.]*(.*)|([A-J])(?:[.):]\s+(.+))?", text, re.S)
    if choice:
        rest = analyse(choice[2] or choice[4]) if choice[2] or choice[4] else None
        return Answer(text, "math", None, (("choice", choice[1] or choice[3]),), rest.keys if rest else (), "")
    base = BASE.fullmatch(text)
    if base:
        number = (number_key(Fraction(base[1])),) if base[1].isdigit() else ()
        return Answer(
            text, "math", None, (("base", base[1].lstrip("0"), NUMBER_WORDS.get(base[2], base[2])),), number, ""
        )
    words = plain_words(text)
    if words in NUMBER_WORDS:
        return Answer(text, "math", None, (("num", Fraction(NUMBER_WORDS[words])),), (), "")
    if words in ("no solution", "no solutions", "no real solution", "no real solutions", "empty set"):
        return formula(r"\emptyset")._replace(text=text)
    if words in ("all real numbers", "all reals", "any real number", "real numbers", "set of all real numbers"):
        return formula(r"\reals")._replace(text=text)
    return None


def plain_words(text):
    plain = re.sub(r"\\text *\{([^{}]*)\}", r" \1 ", text)
    if not re.search(r"[\\^_=<>]", plain):
        plain = re.sub(r"^(?:the|an?) ", "", re.sub(r"[\s{}\"]+", " ", plain).strip(" .,;:!?'").casefold())
    return re.sub(r"\s", "", plain) if re.search(r"[\\^_=<>]", plain) else plain


def spread(node):
    """Each ± as two answers."""
    if node[0] in ("list", "set"):
        return (node[0], [version for item in node[1] for version in versions(item)])
    both = versions(node)
    return ("list", both) if len(both) > 1 else node


def versions(node):
    signs = signs_in(node)
    if not signs:
        return [node]
    if len(signs) > 4:
        raise TooComplex
    linked = -1 in signs  # with a ∓ the signs go together
    choices = [[s * sign for sign in signs] for s in (1, -1)] if linked else product((1, -1), repeat=len(signs))
    return [fix_signs(node, iter(choice)) for choice in choices]


def signs_in(node):
    inner = [sign for part in children(node) for sign in signs_in(part)]
    return ([node[2]] if node[0] == "pm" else []) + inner


def fix_signs(node, choice):
    if not isinstance(node, (tuple, list)):
        return node
    if isinstance(node, tuple) and node and node[0] == "pm":
        sign = next(choice)
        inner = fix_signs(node[1], choice)
        return inner if sign > 0 else ("neg", inner)
    return type(node)(fix_signs(part, choice) for part in node)


THOUSANDS = re.compile(r"(?<![\d.,])\d{1,3}(?:,\d{3})+(?!\d|,\d)")
UNITS = {
    name: unit
    for unit, names in {
        "mm": "millimeter millimeters", "cm": "centimeter centimeters centimetre centimetres",
        "m": "meter meters metre metres",
        "km": "kilometer kilometers kilometre kilometres", "in": "inch inches", "ft": "foot feet", "yd": "yard yards",
        "mi": "mile miles",
        "mg": "milligram milligrams", "g": "gram grams", "kg": "kilogram kilograms", "lb": "lbs pound pounds",
        "oz": "ounce ounces",
        "ms": "millisecond milliseconds", "s": "sec second seconds", "min": "minute minutes mins",
        "h": "hr hrs hour hours", "day": "days",
        "week": "weeks", "month": "months", "year": "years yr yrs", "ml": "milliliter milliliters",
        "l": "liter liters litre litres",
        "cent": "cents", "dollar": "dollars usd", "°": "", "rad": "radian radians", "mph": "", "kmh": "km/h kph",
        "am": "a.m.", "pm": "p.m.",
    }.items()
    for name in [unit, *names.split()]
}  # fmt: skip
NUMBERS = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"
NUMBER_WORDS = {word: str(n) for n, word in enumerate(NUMBERS.split())}
BASE = re.compile(
    r"[({]?([0-9][0-9A-Za-z]*)[)}]?(?: *_ *\{?|(?= *\(?(?:\\text\{)?\(?base)) *\(?(?:\\text *\{)? *\(?(?:base[ -]*\}?)?"
    r"([12]?[0-9]|3[0-6]|" + "|".join(NUMBER_WORDS) + r")[ )}]*"
)


# ---------------------------------------------------------------------------------------------------------------------
# The parser: LaTeX or plain text -> nested tuples. Recursive descent over tokens, no look-back, no evaluation of text.
#
#   ("num", Fraction, decimals)  ("var", name)  ("const", "pi"|"e"|"i"|"inf")  ("add", a, b)  ("mul", a, b)
#   ("div", a, b)  ("pow", a, b)  ("neg", a)  ("pm", a, sign)  ("pct", a)  ("fn", name, a, ...)  ("rel", ops, sides)
#   ("seq", "(]", items)  ("list", items)  ("set", items)  ("mat", rows)  ("union", a, b)  ("minus", a, b)
#   ("ratio", parts)  ("reals",)  ("empty",)

SUPERSCRIPTS, SUBSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺ⁿ", "₀₁₂₃₄₅₆₇₈₉₋₊ₙ"
UNICODE = str.maketrans({
    "−": "-", "–": "-", "—": "-", "×": "*", "·": "*", "⋅": "*", "∙": "*", "÷": "/", "⁄": "/", "∕": "/", "≤": "<=",
    "≥": ">=", "⩽": "<=", "⩾": ">=",
    "≠": "!=", "∞": r"\infty ", "π": r"\pi ", "√": r"\sqrt ", "º": "°", "½": r"\frac{1}{2}", "⅓": r"\frac{1}{3}",
    "⅔": r"\frac{2}{3}",
    "¼": r"\frac{1}{4}", "¾": r"\frac{3}{4}", "…": "...", "’": "'", "′": "'", "“": '"', "”": '"', "ℝ": r"\mathbb{R}",
    "ℤ": r"\mathbb{Z}",
    "∅": r"\emptyset ", "∖": r"\setminus ", "θ": r"\theta ", "α": r"\alpha ", "β": r"\beta ", "λ": r"\lambda ",
    "φ": r"\phi ", "⟨": "(", "⟩": ")",
    "\u00a0": " ", "\u2009": " ", "\u202f": " ", "\u200b": "", "£": "", "€": "", "¥": "", "⇒": r"\Rightarrow ",
    "→": r"\Rightarrow ",
})  # fmt: skip
# Spellings made equal before the parser sees them, in this order.
REWRITES = [
    (re.compile(pattern), replacement)
    for pattern, replacement in [
        (r"\\\\\s*\[[\d.]+ *\w+\]", r"\\\\ "),  # \\[4pt]
        (r"\\(?:boxed|fbox)(?![a-zA-Z])|(?<!\\)\\[()\[\]]|\\?\$", " "),
        (r"\\(?:left|right|middle)(?![a-zA-Z])\s*\.?|\\[bB]igg?[lrm]?(?![a-zA-Z])", ""),
        (r"\\[dtc]frac", r"\\frac"),
        (r"\\[dt]binom", r"\\binom"),
        (r"(?<=\d)(?:\{,\}|,\\[!,;: ]) *(?=\d{3}(?!\d))", ""),
        (r"(?<=\d)\{,\}(?=\d)", "."),
        (r"(?<![\d.,])\d{1,3}(?:(?:\\[,;:! ]|[ ~'])\d{3})+(?![\d,])", lambda m: re.sub(r"\D", "", m[0])),
        (r"(?<!\\)\\[!,;:> ]|~|\\q?quad|\\[hv]space\*?\{[^{}]*\}", " "),
        (r"\\(?:displaystyle|textstyle|limits|nolimits|rm|bf|it)(?![a-zA-Z])", " "),
        (r"\\(?:mathbf|boldsymbol|bm|mathit|mathcal|mathsf|mathnormal|underline|vec)(?![a-zA-Z])", ""),
        (r"\\mathbb *\{? *R *\}?", r"\\reals "),
        (r"\\mathbb *\{? *([A-Z]) *\}?", r"\\integers "),
        (
            r"\\(?:mbox|hbox|textbf|textit|textrm|textsf|textnormal|emph|mathrm|operatorname\*?|text) *\{([^{}]*)\}",
            lambda m: inline_text(m[1]),
        ),
        (r"\\frac *\{ *\\text\{([^{}]*)\} *\} *\{ *\\text\{([^{}]*)\} *\}", r"\\text{\1/\2}"),
        (r"(?<=[\d})]) *\((?:\\text *\{)?(?!base)[a-z ]{3,}\}?\)$", ""),  # 12 (ways)
        (r"(?<=\d) (?=[a-z]/[a-z](?:\^\{?\d\}?)?$)(.*)", r" \\text{\1}"),  # 60 m/s
        (r"\{:\}", ":"),
        (r"(?<=[)\]]) *U *(?=[(\[])", "∪"),
        (r"\^ *\{? *\\(?:circ|degree)(?![a-zA-Z]) *\}?|\\(?:degree|textdegree)(?![a-zA-Z])", "°"),
        (r"° *\{? *[CF] *\}?$", "°"),
        (r"\\%", "%"),
        (r"(\d*\.\d*)\\(?:overline|bar|dot) *\{? *(\d+) *\}?", lambda m: repeating(m[1], m[2])),
        (r"(?<![\w.])(\d+\.\d*)\((\d+)\)(?!\w)", lambda m: repeating(m[1], m[2])),
        (r"(\d*\.\d{0,20}?)(\d{1,12}?)\2+(?:\.\.\.|\\[lc]?dots(?![a-z]))", lambda m: repeating(m[1], m[2])),
        (r"(?<=\d) *x *(?=10 *\^)", "*"),
        (r"(?<![\d./^_a-zA-Z}])(\d+) +(\d+) */ *(\d+)(?![\d/])", r"\1\\frac{\2}{\3}"),
        (r"\*\*", "^"),
        (r"\+/-|^\+-", "±"),
        (r"(?i)^ *(?:(?:the )?(?:final )?answers?(?: is\b| are\b|:)|(?:option|choice) +(?=\(?[a-j]\)?$))", ""),
        (r"(?i)^ *(?:about |approximately |approx\.? |roughly |=|≈|\\approx)", ""),
    ]
]  # fmt: skip
FUNCTIONS = frozenset(
    re.findall(r"\w+", "sin cos tan cot sec csc arcsin arccos arctan arccot sinh cosh tanh exp ln lg log")
)
TRIGONOMETRIC = {"sin", "cos", "tan", "cot", "sec", "csc"}
LETTERS = (
    "alpha beta gamma delta epsilon varepsilon zeta eta theta vartheta iota kappa lambda mu nu xi rho sigma tau upsilon "
    "phi varphi chi psi omega Gamma Delta Theta Lambda Xi Sigma Phi Psi Omega ell hbar"
)
GREEK = frozenset(LETTERS.split())
NAMES = {
    "le": "<=", "leq": "<=", "leqslant": "<=", "leqq": "<=", "lt": "<", "ge": ">=", "geq": ">=", "geqslant": ">=",
    "geqq": ">=", "gt": ">",
    "ne": "!=", "neq": "!=", "approx": "≈", "simeq": "≈", "equiv": "=", "in": "∈", "cup": "∪", "times": "*",
    "cdot": "*", "ast": "*",
    "div": "/", "pm": "±", "mp": "∓", "varnothing": "\\emptyset", "lbrace": "\\{", "rbrace": "\\}", "lbrack": "[",
    "rbrack": "]",
    "langle": "(", "rangle": ")", "lvert": "|", "rvert": "|", "vert": "|", "mid": "|", "lVert": "|", "rVert": "|",
    "colon": ":",
    "land": ",", "wedge": ",", "lor": ",", "vee": ",", "backslash": "\\setminus", "tg": "\\tan", "ctg": "\\cot",
    "cotg": "\\cot",
    "arctg": "\\arctan", "arcctg": "\\arccot", "cosec": "\\csc", "asin": "\\arcsin", "acos": "\\arccos",
    "atan": "\\arctan",
    "implies": "\\Rightarrow", "ldots": "...", "cdots": "...", "dots": "...", "imath": "i", "prime": "'",
}  # fmt: skip
PLAIN_WORDS = {
    "and": ",", "or": ",", "is": "=", "are": "=", "equals": "=", "infinity": "\\infty", "inf": "\\infty",
    "infty": "\\infty", "oo": "\\infty",
    "union": "∪", "U": "∪", "degrees": "°", "degree": "°", "deg": "°", "percent": "%", "times": "*", "sqrt": "\\sqrt",
    "cbrt": "\\cbrt",
    "pi": "\\pi", "abs": "\\abs", "floor": "\\floor", "ceil": "\\ceil", "binom": "\\binom", "frac": "\\frac",
    "emptyset": "\\emptyset",
}  # fmt: skip
CONDITIONS = {"if", "for", "where", "when", "with", "as", "since", "because", "any", "all"}
SCALES = {"hundred": 10**2, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
TOKEN = re.compile(
    r"(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][+-]?\d+(?![\w.]))?|\d+\.(?!\d)|\\text\{[^{}]*\}|\\[A-Za-z]+|\\."
    r"|[A-Za-z]+|<=|>=|!=|=>|==|:=|\.\.\.|\S",
    re.S,
)
RELATIONS = {"=", "<", ">", "<=", ">=", "!=", "≈", "∈"}
NO_FACTOR = (
    RELATIONS
    | set("+-*/^_!%°',;:)]}±∓∪&")
    | {
        "\\}",
        "\\\\",
        "\\setminus",
        "\\cap",
        "\\rfloor",
        "\\rceil",
        "\\end",
        "...",
        "\\Rightarrow",
        "\\choose",
        "\\over",
        "",
    }
)


def clean(text):
    """One spelling for what people write in many ways; still text."""
    text = text.strip()
    if re.fullmatch(r"-?\d+", text):
        return text
    if len(text) > 10 * CHARACTERS:
        return text
    if not text.isascii():
        for marks, sign, plain in ((SUPERSCRIPTS, "^", "0123456789-+n"), (SUBSCRIPTS, "_", "0123456789-+n")):
            table = str.maketrans(marks, plain)
            text = re.sub(f"[{marks}]+", lambda m, s=sign, t=table: f"{s}{{{m[0].translate(t)}}}", text)
        text = text.translate(UNICODE)
    text = text.strip('*_`" \n\t')
    for pattern, replacement in REWRITES:
        text = pattern.sub(replacement, text)
    return text.strip(' \n\t,;:`"').rstrip(" .,;:")


def inline_text(inner):
    """What a \\text{...} holds: a function's name, a formula, or words to keep apart from the formula's letters."""
    word = inner.replace("~", " ").strip()
    if word in FUNCTIONS or word in NAMES and word not in UNITS:
        return f"\\{word} "
    if word.lower().strip(" ,") in PLAIN_WORDS:
        return f" {word.lower().strip(' ,')} "
    if re.search(r"[A-Za-z]{2}|[a-z]/[a-z]", word) or re.fullmatch(r"[~ ]+[A-Za-z]|[mshgl]", inner):
        return f"\\text{{{word}}}"
    return f" {word} "


def repeating(start, period):
    """0.1 and 6 -> the fraction 1/6, as text."""
    places = len(start) - start.index(".") - 1
    whole = int(start.replace(".", "") or 0) * (10 ** len(period) - 1) + int(period)
    return f"({whole}/{10**places * (10 ** len(period) - 1)})"


def tokens_of(text):
    tokens = []
    for match in TOKEN.finditer(text):
        token, before = match[0], text[match.start() - 1 : match.start()]
        if token.startswith("\\text{"):
            for word in re.findall(r"[^\s,]+|,", token[6:-1]):
                plain = len(word) == 1 or word.isupper() and word.isalpha() or word[0].isdigit()
                tokens.extend(tokens_of(word) if plain else [PLAIN_WORDS.get(word, '"' + word)])
        elif token[0] == "\\":
            tokens.append(NAMES.get(token[1:], token))
        elif token.isalpha() and token.isascii() and len(token) > 1:
            tokens.extend(letters(token, glued=before.isalnum() or before in ")}" and before))
        else:
            tokens.append({"=>": "\\Rightarrow", "==": "=", ":=": "="}.get(token, token))
    if len(tokens) > TOKENS:
        raise TooComplex
    return tokens


def letters(word, glued):
    """A run of letters: a name we know, a word, a function glued to its variable, or a product of variables."""
    lower = word.lower()
    if lower in PLAIN_WORDS or word in FUNCTIONS or word in GREEK:
        return [PLAIN_WORDS.get(lower) or "\\" + word]
    if word in NAMES and len(word) > 2:
        return [NAMES[word]]
    split = re.fullmatch(r"(arcsin|arccos|arctan|sin|cos|tan|cot|sec|csc|ln|log|sqrt|pi)([a-z])", word)
    if split and lower not in UNITS:
        return ["\\" + split[1], split[2]]
    if (
        len(word) > 3
        and not glued
        or lower in UNITS
        or lower in CONDITIONS
        or lower in ("yes", "no", "odd", "sq", "of", "to", "per", "the", "in", "dne")
    ):
        return ['"' + word]
    return [word] if word.isupper() else list(word)  # AB, II: one name


class Parser:
    def __init__(self, text):
        self.tokens, self.at, self.depth, self.bars, self.trig, self.unit = tokens_of(text) + [""], 0, 0, 0, 0, []

    @property
    def next(self):
        return self.tokens[self.at]

    def take(self, *expected):
        """The next token, if it is one of those expected (any, if none is named); else None."""
        token = self.next
        if token == "" or expected and token not in expected:
            return None
        self.at += 1
        return token

    def need(self, *expected):
        if self.take(*expected) is None:
            raise Unreadable(f"{' or '.join(expected)} expected at {self.next!r}")

    def answer(self):
        while "\\Rightarrow" in self.tokens:
            del self.tokens[: self.tokens.index("\\Rightarrow") + 1]
        items = self.items()
        if self.next != "" or not items:
            raise Unreadable(f"cannot read {self.next!r}")
        return items[0] if len(items) == 1 else ("list", items)

    def items(self):
        """Relations separated by commas, semicolons, "and" or "or"."""
        self.depth += 1
        if self.depth > DEPTH:
            raise TooComplex
        found = [self.relation()]
        while self.take(",", ";"):
            while self.take(",", ";"):
                pass  # ", and"
            if self.next in ("", ")", "]", "\\}"):
                break
            found.append(self.relation())
        self.depth -= 1
        return found

    def relation(self):
        if self.next.startswith('"'):  # the area of ABC =
            end = self.tokens.index("=", self.at) if "=" in self.tokens[self.at :] else 0
            if not end or {",", ";", "<", ">"} & set(self.tokens[self.at : end]):
                raise Unreadable("words")
            self.at = end + 1
        sides, ops = [self.set_expression()], []
        while self.next in RELATIONS:
            ops.append(self.take())
            sides.append(self.set_expression())
        if self.next.startswith('"') and self.next[1:].lower() in CONDITIONS and self.depth == 1:
            self.at = len(self.tokens) - 1  # "... for n > 1": the condition is no part of the answer
        return ("rel", tuple(ops), sides) if ops else sides[0]

    def set_expression(self):
        parts = [self.sum()]
        while self.next == ":" and not self.bars and self.take():
            parts.append(self.sum())
        node = ("ratio", parts) if len(parts) > 1 else parts[0]
        while self.next in ("∪", "\\setminus"):
            node = ("union" if self.take() == "∪" else "minus", node, self.sum())
        return node

    def sum(self):
        node = signed(self.take("+", "-", "±", "∓"), self.product())
        while self.next in ("+", "-", "±", "∓"):
            sign = self.take()
            node = ("add", node, signed(sign, self.product()))
        return node

    def product(self):
        node = last = self.power()
        while True:
            if self.take("*"):
                last = self.signed_power()
                node = times(node, last)
            elif self.take("/"):
                node, last = ("div", node, self.signed_power()), None
            elif self.take("%"):
                node = ("pct", node)
            elif self.next.startswith('"'):
                if not self.words_after(node):
                    return node
                node = (
                    times(node, ("num", Fraction(SCALES.get(self.unit[-1], 1)), 0)) if self.unit[-1] in SCALES else node
                )
            elif self.starts_factor():
                if self.next[0] in "0123456789." and self.tokens[self.at - 1] not in ("!", ")", "}"):
                    raise Unreadable("a number after a factor")
                factor = self.power()
                mixed = node is last and node[0] == "num" and node[2] == 0 and factor[0] == "div"
                if mixed and factor[1][0] == factor[2][0] == "num" and factor[1][1] < factor[2][1]:
                    node = ("add", node, factor)  # 3 1/2
                else:
                    node = times(node, factor)
                last = None
            else:
                return node

    def words_after(self, node):
        """Units and nouns after a value are noted and dropped."""
        if self.next[1:].lower() in CONDITIONS or node[0] in CONTAINERS | {"var"}:
            return False
        while self.next.startswith('"'):
            word = self.take()[1:].lower()
            if word in CONDITIONS:
                self.at -= 1
                break
            self.unit.append(word)
            if self.take("^"):
                self.unit.append("^" + spelled(self.group_or_token()))
            if self.next == "/" and self.tokens[self.at + 1].startswith('"'):
                self.unit.append(self.take())
        return True

    def starts_factor(self):
        return self.next not in NO_FACTOR and not self.next.startswith('"') and not (self.next == "|" and self.bars)

    def signed_power(self):
        return signed(self.take("+", "-"), self.power())

    def power(self):
        node = self.atom()
        while True:
            if self.take("^"):
                node = self.raised(node)
            elif self.take("!"):
                node = ("fn", "factorial", node)
            elif self.take("°"):
                node = ("div", times(node, ("const", "pi")), ("num", Fraction(180), 0)) if self.trig else node
                self.unit.append("°")
            elif self.next in ("_", "'") and node[0] == "var":
                mark = self.take()
                node = (
                    "var",
                    node[1]
                    + mark
                    + ("" if mark == "'" else self.raw_group() if self.next == "{" else self.take() or ""),
                )
            else:
                return node

    def raised(self, base):
        if self.take("'"):
            return ("var", base[1] + "'") if base[0] == "var" else base
        if self.next in ("T", "\\top") and base[0] in ("mat", "seq"):
            self.take()
            rows = base[1] if base[0] == "mat" else [base[2]]
            return ("mat", [list(column) for column in zip(*rows)])
        sign = self.take("+", "-")
        exponent = self.group_or_token() if self.next == "{" else self.power()
        return ("pow", base, signed(sign, exponent))

    def group_or_token(self):
        if self.take("{"):
            node = self.relation()
            self.need("}")
            return node
        return self.atom()

    def argument(self):
        """Of \\frac and \\binom: a group, or one digit of a number: \\frac12."""
        if self.next.isdigit() and len(self.next) > 1:
            self.tokens[self.at : self.at + 1] = [self.next[0], self.next[1:]]
        return self.group_or_token()

    def atom(self):
        self.depth += 1
        if self.depth > DEPTH:
            raise TooComplex
        token = self.take()
        if token is None:
            raise Unreadable("the end")
        if token[0].isdigit() or token[0] == "." and token.strip("."):
            exponent = token.lower().partition("e")[2]
            if exponent and abs(int(exponent)) > BITS // 4:
                raise TooComplex
            node = ("num", Fraction(token), 0 if exponent else len(token.partition(".")[2]))
        elif token in ("(", "["):
            node = self.bracket(token)
        elif token in ("{", "\\{"):
            node = self.braces(token)
        elif token == "|":
            self.bars += 1
            node = ("fn", "abs", self.sum())
            self.bars -= 1
            self.need("|")
        elif token[0] == "\\" and len(token) > 1:
            node = self.command(token[1:])
        elif token.isalpha():
            node = self.letter(token)
        else:
            raise Unreadable(f"a value expected at {token!r}")
        self.depth -= 1
        return node

    def letter(self, token):
        if token in "ie":
            return ("const", token)
        end = self.tokens.index(")", self.at) if self.next == "(" and ")" in self.tokens[self.at :] else 0
        if end and self.tokens[end + 1] == "=" and (token.isupper() or token in "fghpq"):
            name, self.at = token + "".join(self.tokens[self.at : end + 1]), end + 1
            return ("var", name)
        if token in "fgh" and self.next == "(":
            self.take()
            arguments = self.items()
            self.need(")")
            return ("fn", "call " + token, *arguments)
        return ("var", token)

    def bracket(self, opening):
        bars, self.bars = self.bars, 0
        items = self.items()
        closing = self.take(")", "]")
        self.bars = bars
        if closing is None:
            raise Unreadable("a bracket is not closed")
        if opening == "[" and all(item[:2] == ("seq", "[]") for item in items):
            return ("mat", [item[2] for item in items])
        if len(items) > 1:
            return ("seq", opening + closing, items)
        if opening + closing not in ("()", "[]"):
            raise Unreadable("brackets that do not match")
        return items[0]

    def braces(self, opening):
        closing = "}" if opening == "{" else "\\}"
        if self.take(closing):
            return ("empty",)
        if self.next == "\\begin":
            node = self.environment() if self.take() else None
            self.take(closing)
            return node
        bars, self.bars = (
            self.bars,
            1 if {"|", ":"} & set(self.tokens[self.at :]) and RELATIONS & set(self.tokens[self.at :]) else 0,
        )
        items = self.items()
        if self.take("\\choose"):
            items = [("fn", "binom", items[0], self.sum())]
        self.bars = bars
        if self.take("|", ":"):
            items = self.items()[:1]  # {x | condition}: the condition says it all
            self.need(closing)
            return items[0]
        self.need(closing)
        return items[0] if len(items) == 1 and opening == "{" else ("set", items)

    def command(self, name):
        if name in CONSTANTS:
            return CONSTANTS[name]
        if name in GREEK:
            return ("var", name)
        if name == "frac":
            return ("div", self.argument(), self.argument())
        if name == "binom":
            return ("fn", "binom", self.argument(), self.argument())
        if name in ("sqrt", "cbrt"):
            degree = ("num", Fraction(2 if name == "sqrt" else 3), 0)
            if self.take("["):
                degree = self.sum()
                self.need("]")
            return ("pow", self.group_or_token(), ("div", ("num", Fraction(1), 0), degree))
        if name in ("lfloor", "lceil"):
            inner = self.sum()
            self.need("\\rfloor", "\\rceil")
            return ("fn", name[1:], inner)
        if name == "begin":
            return self.environment()
        if name in FUNCTIONS or name in ("abs", "floor", "ceil"):
            return self.function(name)
        if name in ("overline", "angle", "triangle", "hat", "bar", "tilde", "widehat", "overrightarrow"):
            named = self.group_or_token()
            while name in ("angle", "triangle") and self.next.isalpha():
                named = ("mul", named, self.atom())
            return ("var", f"{name} {spelled(named)}")
        raise Unreadable(f"unknown command {name}")

    def function(self, name):
        """sin x, sin^2 x, sin 2x, log_2 8, ln|x|, max(a, b)."""
        base = exponent = None
        while self.next in ("_", "^"):
            if self.take("_"):
                base = self.group_or_token()
            elif self.take("^"):
                exponent = self.group_or_token() if self.next != "-" else signed(self.take(), self.atom())
        self.trig += name in TRIGONOMETRIC
        arguments = self.arguments()
        self.trig -= name in TRIGONOMETRIC
        if name == "log" and base:
            node = ("div", ("fn", "ln", *arguments), ("fn", "ln", base))
        elif exponent == ("neg", ("num", Fraction(1), 0)) and name in TRIGONOMETRIC:
            return ("fn", "arc" + name, *arguments)
        else:
            node = ("fn", name, *arguments)
        return ("pow", node, exponent) if exponent else node

    def arguments(self):
        if self.take("("):
            bars, self.bars = self.bars, 0
            found = self.items()
            self.need(")")
            self.bars = bars
            return found
        node = signed(self.take("-"), self.power())
        while (
            self.starts_factor()
            and self.next not in ("(", "[")
            and self.next[1:] not in FUNCTIONS
            and not self.next[0].isdigit()
        ):
            node = ("mul", node, self.power())
        return [node]

    def raw_group(self):
        self.need("{")
        start = self.at
        while self.take() not in ("}", None):
            pass
        return "".join(self.tokens[start : self.at - 1]).strip('"')

    def environment(self):
        name = self.raw_group()
        if name == "array":
            self.raw_group()  # the columns
        rows, end = [[]], self.tokens.index("\\end", self.at) if "\\end" in self.tokens[self.at :] else self.at
        if not name.endswith("matrix") and RELATIONS & set(self.tokens[self.at : end]):
            for n in range(end - 1, self.at - 1, -1):
                if self.tokens[n] == "&":
                    self.tokens[n : n + 1] = (
                        [] if {self.tokens[n - 1], self.tokens[n + 1]} & (RELATIONS | {","}) else [","]
                    )
        while self.next not in ("\\end", ""):
            if self.take("\\\\"):
                rows.append([])
            elif not self.take("&"):
                rows[-1].append(self.items())
        self.need("\\end")
        self.raw_group()
        rows = [row for row in rows if row]
        if (
            name.endswith("matrix")
            or name == "array"
            and all(item[0] != "rel" for row in rows for cell in row for item in cell)
        ):
            if name == "vmatrix":
                raise Unreadable("a determinant")
            rows = [[cell[0] for cell in row] for row in rows]
            return rows[0][0] if name == "array" and len(rows) == len(rows[0]) == 1 else ("mat", rows)
        lines = [[item for cell in row for item in cell] for row in rows]
        if name == "cases" and all(len(line) > 1 for line in lines):
            return ("set", [("seq", name, line) for line in lines])  # values, each with its condition
        return ("list", [item for line in lines for item in line])


def spelled(node):
    """A node as a name."""
    if node[0] == "num":
        return str(node[1])
    return "".join(spelled(part) if isinstance(part, tuple) else str(part) for part in node[1:])


def signed(sign, node):
    if sign == "-" and node[0] == "mat":
        return times(("num", Fraction(-1), 0), node)
    return {None: node, "+": node, "-": ("neg", node), "±": ("pm", node, 1), "∓": ("pm", node, -1)}[sign]


def times(a, b):
    if is_domain(b):
        return a  # (k in Z)
    for one, other in ((a, b), (b, a)):
        if one[0] == "mat" and other[0] not in CONTAINERS:
            return ("mat", [[("mul", other, cell) for cell in row] for row in one[1]])
    if a[0] in CONTAINERS or b[0] in CONTAINERS:
        raise Unreadable("a product of things that are not numbers")
    return ("mul", a, b)


CONTAINERS = {"rel", "seq", "list", "set", "mat", "union", "minus", "ratio", "reals", "empty"}
CONSTANTS = {
    "pi": ("const", "pi"),
    "infty": ("const", "inf"),
    "emptyset": ("empty",),
    "reals": ("reals",),
    "integers": ("var", "integers"),
}


# ---------------------------------------------------------------------------------------------------------------------
# Keys of what the parser made: (keys, values), see Answer


def keys_of(node):
    kind = node[0]
    if kind in MAKE_KEYS:
        return MAKE_KEYS[kind](node)
    if kind != "pct":
        return [expression_key(node)], []
    amount = evaluate(node[1], 0)
    plain = number_key(amount) if abs(amount) >= 1 else ("gold", number_key(amount))
    return [("pct", number_key(amount))], [plain, ("either", number_key(calculate("div", amount, Fraction(100))))]


def item_key(node):
    """The one key of an item of a list, set, tuple or matrix: without its label."""
    keys, values = keys_of(node)
    return values[0] if node[0] == "rel" and node[1][-1] in "=≈" and values else keys[0]


def bag(keys):
    """What does not depend on the order, but on how often each is there."""
    return frozenset(Counter(keys).items())


def list_keys(node):
    items = [item for n, item in enumerate(node[1]) if not n or not is_domain(item)]
    if len(items) == 1:
        return keys_of(items[0])
    if items and items[0][0] == "rel" and set(items[0][1]) <= INEQUALITIES:
        together = joined_intervals(items)
        if together:
            return together
    each = tuple(item_key(item) for item in items)
    in_order = ("either", ("seq", "()", each))
    labels = [label_of(item) for item in items]
    if None not in labels and len({label.split("_")[0] for label in labels}) == len(items):
        pairs = sorted(
            zip(labels, each)
        )  # x = 1, y = 2: also the point (1, 2), in the order of the letters or as written
        return [("assign", frozenset(pairs))], [
            ("seq", "()", tuple(key for _, key in pairs)),
            in_order,
            ("list", bag(each)),
        ]
    return [("list", bag(each))], [in_order, ("set", frozenset(each))]


def set_keys(node):
    keys = frozenset(item_key(item) for item in node[1])
    return [("set", keys), *(keys if len(keys) == 1 else ())], []


def sequence_keys(node):
    intervals = [("iv", intervals_of(node))] if is_interval(node) else []
    return [("seq", node[1], tuple(item_key(item) for item in node[2])), *intervals], []


def matrix_keys(node):
    rows = tuple(tuple(item_key(cell) for cell in row) for row in node[1])
    flat = tuple(key for row in rows for key in row)
    return [("mat", rows)], [("seq", "()", flat)] if len(rows) in (1, len(flat)) else []


def ratio_keys(node):
    keys = tuple(expression_key(("div", part, node[1][0])) for part in node[1])
    return [("ratio", keys)], [expression_key(("div", *node[1]))] if len(keys) == 2 else []


def interval_keys(node):
    intervals = intervals_of(node)
    points = frozenset(low for low, _, high, _ in intervals if low == high)
    return [("iv", intervals)] + ([("set", points)] if len(points) == len(intervals) else []), []


def relation_keys(node):
    ops, sides = node[1], node[2]
    if "≈" in ops and (len(ops) > 1 or not is_label(sides[0])):
        cut = ops.index("≈")
        keys, values = keys_of(("rel", ops[:cut], sides[: cut + 1]) if cut else sides[0])
        return keys, values + keys_of(sides[-1])[0]
    if set(ops) <= {"=", "≈"}:
        return equation_keys(sides[0], sides[-1])
    if ops == ("∈",):
        return [key for key in keys_of(sides[1])[0] if key[0] != "seq"], []
    found = joined_intervals([node]) if ops == ("!=",) else inequality_keys(ops, sides)
    if not found:
        raise Unreadable("an inequation")
    return found


def equation_keys(first, last):
    if first[0] == last[0] == "seq" and len(first[2]) == len(last[2]):
        pairs = frozenset((spelled(a), item_key(b)) for a, b in zip(first[2], last[2]))
        return [("assign", pairs)], keys_of(last)[0]
    if last[0] in CONTAINERS:
        return keys_of(last)
    if is_label(last) and not is_label(first):
        first, last = last, first
    left, right = expression_key(first), expression_key(last)
    if left == right or left[0] == right[0] == "num":
        return [right], []  # an identity or a calculation: its last part is the answer
    keys = [("eq", proportions(("add", first, ("neg", last))))]
    if is_label(first):
        return keys, [right]
    return keys, [("given", right)] if len(variables(first)) > 1 and right != ("num", Fraction(0)) else []


def is_label(node):
    """x, f(x), AB: names for an answer, not equations to be solved."""
    return node[0] == "var" or node[:2] == ("fn", "abs") and is_label(node[2])


def label_of(node):
    """The name in `name = value`, else None."""
    return spelled(node[2][0]) if node[0] == "rel" and node[1][0] in "=≈" and is_label(node[2][0]) else None


def is_domain(node):
    """k in Z, n in N: says what a letter stands for."""
    return node[0] == "rel" and node[1] == ("∈",) and node[2][1] in (("var", "integers"), ("reals",))


# Intervals: sorted tuples of disjoint (low, closed?, high, closed?), the ends as keys

PLUS, MINUS, INEQUALITIES = ("num", "inf"), ("num", "-inf"), {"<", ">", "<=", ">=", "!="}
LINE = ((MINUS, False, PLUS, False),)


def inequality_keys(ops, sides):
    if set(ops) <= {">", ">="}:
        ops, sides = tuple(op.replace(">", "<") for op in reversed(ops)), sides[::-1]
    if not set(ops) <= {"<", "<="} or len(sides) > 3:
        raise Unreadable("relations that do not go together")
    ends = [n for n, side in enumerate(sides) if not is_infinite(side)]
    if len(ends) == 1:
        return [("ineq", spelled(sides[ends[0]]), LINE)], [("iv", LINE)]
    ops, sides = (ops[ends[0] : ends[-1]], sides[ends[0] : ends[-1] + 1]) if ends else ((), [])
    pairs = list(zip(sides, sides[1:]))
    keys = [("ineq", ops, tuple(proportions(("add", right, ("neg", left)), positive=True) for left, right in pairs))]
    middle = sides[1][1] if len(sides) == 3 and sides[1][0] == "var" else None
    halves = [half_line(left, right, op == "<=", middle) for (left, right), op in zip(pairs, ops)]
    if (
        not halves
        or None in halves
        or len({half[0] for half in halves}) > 1
        or len({half[1] for half in halves}) < len(halves)
    ):
        return keys, []
    bounds = {is_lower: bound for _, is_lower, bound in halves}
    intervals = merged([(*bounds.get(True, (MINUS, False)), *bounds.get(False, (PLUS, False)))])
    return [*keys, ("ineq", halves[0][0], intervals)], [("iv", intervals)]


def half_line(left, right, closed, middle):
    """(variable, is the bound below it?, (bound, closed?)) for left < right; None if neither side can be solved for."""
    for side, other in ((left, right), (right, left)):
        if (
            side[0] == "var"
            and side[1] not in variables(other)
            and (middle == side[1] or not middle and other[0] != "var")
        ):
            return side[1], side is right, (expression_key(other), closed)
    names, difference = variables(("add", left, right)), ("add", right, ("neg", left))
    if len(names) != 1:
        return None
    x, f = zip(
        *((point(*names, k), evaluate(difference, k)) for k in (0, 1, 3))
    )  # > 0; a x + b means x > -b/a or x < -b/a
    slopes = [calculate("div", calculate("add", f[n], -f[0]), x[n] - x[0]) for n in (1, 2)]
    if number_key(slopes[0]) != number_key(slopes[1]) or not real(slopes[0]):
        return None
    bound = calculate("add", x[0], -calculate("div", f[0], slopes[0]))
    return *names, real(slopes[0]) > 0, (number_key(bound), closed)


def is_infinite(node):
    return node == ("const", "inf") or node == ("neg", ("const", "inf"))


def is_interval(node):
    if node[0] != "seq" or len(node[2]) != 2 or any(item[0] in CONTAINERS for item in node[2]):
        return False
    low, high = (approximate(expression_key(item)) for item in node[2])
    return None in (low, high) or low < high or low == high and node[1] == "[]"


def intervals_of(node):
    if node[0] in ("reals", "empty"):
        return LINE if node[0] == "reals" else ()
    if node[0] == "set":
        return merged([(key, True, key, True) for key in map(item_key, node[1])])
    if node[0] == "union":
        return merged(intervals_of(node[1]) + intervals_of(node[2]))
    if node[0] == "minus":
        return without(intervals_of(node[1]), intervals_of(node[2] if node[2][0] in CONTAINERS else ("set", [node[2]])))
    found = [key[1] for key in relation_keys(node)[1] if key[0] == "iv"] if node[0] == "rel" else []
    if found:
        return found[0]
    if not is_interval(node):
        raise Unreadable("not an interval")
    low, high = map(expression_key, node[2])
    return merged([(low, node[1][0] == "[" and low != MINUS, high, node[1][1] == "]" and high != PLUS)])


def merged(intervals):
    if any(None in (approximate(low), approximate(high)) for low, _, high, _ in intervals):
        return bag(intervals) if len(intervals) > 1 else tuple(intervals)
    done = []
    for low, low_closed, high, high_closed in sorted(intervals, key=lambda i: (approximate(i[0]), not i[1])):
        last = done[-1] if done else None
        if last and (approximate(low) < approximate(last[2]) or low == last[2] and (low_closed or last[3])):
            further = approximate(high) > approximate(last[2])
            done[-1] = (
                (*last[:2], high, high_closed) if further else (*last[:3], last[3] or high == last[2] and high_closed)
            )
        else:
            done.append((low, low_closed, high, high_closed))
    return tuple(done)


def without(intervals, cuts):
    for cut_low, cut_low_closed, cut_high, cut_high_closed in cuts:
        parts = []
        for low, low_closed, high, high_closed in intervals:
            if approximate(cut_high) < approximate(low) or approximate(high) < approximate(cut_low):
                parts.append((low, low_closed, high, high_closed))
                continue
            parts += [(low, low_closed, cut_low, not cut_low_closed)] if approximate(low) < approximate(cut_low) else []
            parts += (
                [(cut_high, not cut_high_closed, high, high_closed)]
                if approximate(cut_high) < approximate(high)
                else []
            )
        intervals = tuple(parts)
    return intervals


def joined_intervals(items):
    """x < 1 or x > 3: a union. x > 1 and x < 3: an interval. x != 1, x != 2: all but these. Else None."""
    names, parts, holes = set(), [], []
    for item in items:
        if item[0] == "rel" and item[1] == ("!=",):
            name, hole = item[2] if item[2][0][0] == "var" else item[2][::-1]
            names.add(spelled(name) if name[0] == "var" else None)
            holes.append(expression_key(hole))
        elif holes and item[0] != "rel":
            holes.append(expression_key(item))  # x != 0, 1
        else:
            keys = relation_keys(item)[0] if item[0] == "rel" else []
            found = next((key for key in keys if key[0] == "ineq" and isinstance(key[1], str)), (None, None, ()))
            names.add(found[1])
            parts += found[2]
    if (
        len(names) != 1
        or None in names
        or any(approximate(end) is None for end in [*holes, *(e for i in parts for e in i[::2])])
    ):
        return None
    intervals = merged(parts) if parts else LINE
    if len(parts) == 2 and intervals == LINE:
        low, high = max(parts, key=lambda i: approximate(i[0])), min(parts, key=lambda i: approximate(i[2]))
        intervals = ((*low[:2], *high[2:]),)
    intervals = without(intervals, [(hole, True, hole, True) for hole in holes])
    return [("ineq", names.pop(), intervals)], [("iv", intervals)]


MAKE_KEYS = {"list": list_keys, "set": set_keys, "seq": sequence_keys, "mat": matrix_keys, "rel": relation_keys,
             "ratio": ratio_keys, "union": interval_keys, "minus": interval_keys, "reals": interval_keys,
             "empty": interval_keys}  # fmt: skip,

# ---------------------------------------------------------------------------------------------------------------------
# Values of expressions: a Fraction where exact, else a number of mpmath with 70 digits


def expression_key(node):
    """A constant's number; an expression's values at four points, without those not real if others are."""
    if is_infinite(node):
        return PLUS if node[0] == "const" else MINUS
    if not variables(node):
        return number_key(evaluate(node, 0))
    values = [value_at(node, k) for k in range(4)]
    if values.count(None) > 2:
        raise TooComplex
    reals = [value if value is not None and real(value) is not None else None for value in values]
    keys = tuple(
        value if value is None else number_key(value) for value in (values if has_i(node) or not any(reals) else reals)
    )
    return keys[0] if len(set(keys)) == 1 else ("expr", keys)


def proportions(node, positive=False):
    """The values of an expression divided by the first (or its size): the same for all (positive) multiples."""
    values = [value_at(node, k) for k in range(4)]
    known = [value for value in values if value]
    if len(known) < 2:
        raise TooComplex
    unit = abs(known[0]) if positive else known[0]
    return tuple(value if value is None else number_key(calculate("div", value, unit)) for value in values)


def value_at(node, k):
    try:
        return evaluate(node, k)
    except (ZeroDivisionError, TooComplex):
        if time.monotonic() > CLOCK[0]:
            raise TooComplex from None
        return None


def children(node):
    for part in node[1:]:
        for item in part if isinstance(part, list) else [part]:
            if isinstance(item, list):
                yield from item
            elif isinstance(item, tuple):
                yield item


def variables(node):
    if node[0] == "var":
        return {node[1]}
    return set().union(*map(variables, children(node)))


def has_i(node):
    return node == ("const", "i") or any(map(has_i, children(node)))


INTEGERS = {"n": (5, 8, 13, 21), "k": (2, 3, 4, 6), "m": (3, 7, 9, 17)}


@lru_cache(maxsize=1000)
def point(name, k):
    """The k-th value of a variable: within (0, 1), above 2, negative, large; natural numbers for n, k and m."""
    if name in INTEGERS:
        return Fraction(INTEGERS[name][k])
    h = zlib.crc32(name.encode(errors="replace")) * 2654435761 >> 7 * k
    return (
        Fraction(1 + h % 8998, 9001),
        2 + Fraction(h % 49999, 7001),
        -Fraction(1 + h % 39999, 9007),
        20 + Fraction(h % 99989, 997),
    )[k]


def evaluate(node, k):
    """The value of an expression with its variables at their k-th points."""
    if time.monotonic() > CLOCK[0]:
        raise TooComplex
    kind = node[0]
    if kind == "num":
        return node[1]
    if kind == "var":
        return point(node[1], k)
    if kind == "neg":
        return -evaluate(node[1], k)
    if kind == "pct":
        return calculate("div", evaluate(node[1], k), Fraction(100))
    if kind in ("add", "mul", "div"):
        return calculate(kind, evaluate(node[1], k), evaluate(node[2], k))
    if kind == "pow":
        return power(evaluate(node[1], k), evaluate(node[2], k))
    if kind == "fn":
        return apply(node[1], [evaluate(part, k) for part in node[2:]])
    if kind != "const" or node[1] == "inf":
        raise Unreadable(f"no value: {kind}")
    mp = multiprecision()
    return {"pi": +mp.pi, "e": +mp.e, "i": mp.mpc(0, 1)}[node[1]]


@lru_cache(maxsize=1)
def multiprecision():
    import mpmath  # comes with sympy, which comes with torch; only roots, pi and functions need it

    mpmath.mp.dps = DIGITS
    return mpmath.mp


def inexact(value):
    return multiprecision().mpf(value.numerator) / value.denominator if isinstance(value, Fraction) else value


def calculate(kind, a, b):
    """a + b, a b or a / b: exact if both are."""
    if isinstance(a, Fraction) != isinstance(b, Fraction) and not (kind == "mul" and 0 in (a, b)):
        a, b = inexact(a), inexact(b)
    if kind == "div" and not b:
        raise ZeroDivisionError
    value = a + b if kind == "add" else a * b if kind == "mul" else a / b
    if isinstance(value, Fraction):
        if value.numerator.bit_length() + value.denominator.bit_length() > BITS:
            raise TooComplex
    elif kind == "add" and abs(value) < abs(a) * multiprecision().mpf(10) ** (15 - DIGITS):
        return Fraction(0)  # nothing but rounding is left
    return value if value else Fraction(0)


def power(a, b):
    b = rational(b)
    if not a:
        if real(b) is None or real(b) < 0:
            raise ZeroDivisionError
        return Fraction(int(not b))
    if isinstance(a, Fraction) and isinstance(b, Fraction):
        if abs(b) * max(a.numerator.bit_length(), a.denominator.bit_length()) > BITS and abs(a) != 1:
            raise TooComplex
        if b.denominator == 1:
            return a ** int(b)
        if a < 0 and b.denominator % 2:  # the real root of a negative number
            return power(-a, b) * (-1) ** b.numerator
    mp, a, b = multiprecision(), inexact(a), inexact(b)
    if abs(b * mp.log(a)) > 100_000:
        raise TooComplex
    return mp.power(a, b)


def real(value):
    """The value if it is real, else None."""
    if isinstance(value, Fraction) or not hasattr(value, "imag") or not value.imag:
        return value if isinstance(value, Fraction) else value.real
    return value.real if abs(value.imag) <= abs(value) * multiprecision().mpf(10) ** (20 - DIGITS) else None


def rational(value):
    """A value that is a small fraction up to rounding, as that fraction; others as they are."""
    if not value:
        return Fraction(0)
    if isinstance(value, Fraction) or real(value) is None or not 1e-15 < abs(real(value)) < 1e30:
        return value
    sign, mantissa, exponent, _ = real(value)._mpf_
    near = Fraction((-1) ** sign * int(mantissa)) * Fraction(2) ** exponent
    small = near.limit_denominator(10**10)
    return small if abs(near - small) < abs(near) / 10 ** (DIGITS - 20) else value


def number_key(value):
    value = rational(value)
    if isinstance(value, Fraction):
        return ("num", value)
    mp = multiprecision()
    if real(value) is not None:
        return ("num", mp.nstr(real(value), 40), "")
    parts = [
        part if abs(part) > abs(value) * mp.mpf(10) ** (20 - DIGITS) else mp.mpf(0) for part in (value.real, value.imag)
    ]
    return ("num", *(str(part) if isinstance(part, Fraction) else mp.nstr(part, 40) for part in map(rational, parts)))


def approximate(key):
    """A number for ordering; None if the key is none."""
    return float(key[1]) if key[0] == "num" and (len(key) == 2 or not key[2]) else None


def apply(name, arguments):
    """A named function of numbers."""
    mp, x = multiprecision(), arguments[0]
    if name.startswith("call "):  # an unknown function: any that obeys no law will do
        weights = [point(name, 1) + n for n in range(len(arguments))]
        return sum(w * mp.sin(w * inexact(v) ** 2) for w, v in zip(weights, map(inexact, arguments)))
    if name == "binom" and len(arguments) == 2:
        n, k = map(rational, arguments)
        if all(isinstance(value, Fraction) and value.denominator == 1 and 0 <= value <= 3000 for value in (n, k)):
            return Fraction(math.comb(int(n), int(k)))
        return calculate("div", factorial(n), calculate("mul", factorial(k), factorial(calculate("add", n, -k))))
    if len(arguments) > 1:
        raise Unreadable(f"{name} of several numbers")
    if name == "abs":
        return abs(x)
    if name == "factorial":
        return factorial(rational(x))
    if real(x) is not None and name in ("floor", "ceil"):
        x = rational(x)
        return Fraction(getattr(math, name)(x) if isinstance(x, Fraction) else int(getattr(mp, name)(real(x))))
    x = inexact(x)
    logarithm = name in ("ln", "log", "lg")
    if abs(x) > 10**6 and not logarithm:
        raise TooComplex
    if logarithm and not x:
        raise ZeroDivisionError
    value = mp.log(x) if logarithm else getattr(mp, name.replace("arc", "a"))(x)
    rounding = mp.mpf(10) ** (20 - DIGITS)
    if name in TRIGONOMETRIC and abs(value) < rounding:
        return Fraction(0)  # sin pi
    if name in TRIGONOMETRIC and abs(value) * rounding > 1:
        raise ZeroDivisionError  # tan of a right angle
    return value if name not in ("log", "lg") else value / mp.log(10)


def factorial(x):
    if not abs(x) <= (3000 if isinstance(x, Fraction) and x.denominator == 1 else 1000):
        raise TooComplex
    if isinstance(x, Fraction) and x.denominator == 1:
        if x < 0:
            raise ZeroDivisionError
        return calculate("mul", Fraction(1), Fraction(math.factorial(int(x))))
    return multiprecision().gamma(inexact(x) + 1)


if __name__ == "__main__":
    main()
