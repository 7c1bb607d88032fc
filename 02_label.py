"""Judge every rollout of a run: run its code against the tests, or compare its answer with the reference.

    python 02_label.py RUN [RUN ...]            # reads problems.jsonl and rollouts.jsonl, writes labels.jsonl
    python 02_label.py DATASET --self-check     # may these labels be trusted? reference solutions pass, stubs fail

RUN is a folder that 01_generate.py made. A row of labels.jsonl: {"id", "sample", "label": 1|0|null, "answer", "group",
"reason"}, one for each rollout, in the same order. null means could not be judged, and why; answers of one problem that
are equal share a group number (null: no answer, or code), so that votes need no maths.

In this file: the judge, then extraction of code and answers, then equality of answers, then the parser of formulas.
Model-written programs run in the sandbox only; model-written formulas are parsed here and never evaluated as code.
"""

import argparse
import ast
import hashlib
import json
import math
import operator
import re
import sys
import textwrap
import time
import zlib
from collections import Counter, namedtuple
from fractions import Fraction
from functools import lru_cache, partial, reduce
from itertools import product
from pathlib import Path

import common
from common import split_reasoning

CPU_S = 10  # seconds of processor time for one program and its tests

# ---------------------------------------------------------------------------------------------------------------------
# The judge


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("targets", nargs="+", metavar="RUN", help="run folders; with --self-check data set names or files")
    add("--self-check", action="store_true", help="judge the data set's own reference solutions and stubs")
    add("--workers", type=int, help="programs judged at the same time (default: one a core)")
    add("--timeout", type=float, default=CPU_S, help=f"seconds of processor time for a program (default {CPU_S})")
    add("--again", action="store_true", help="judge once more what is judged already")
    add("--json", action="store_true", help="a last line of JSON, for programs")
    options = parser.parse_args()
    if options.self_check:
        failures = [line for target in options.targets for line in self_check(target, options)]
        raise SystemExit(1 if failures else 0)
    report([label_run(Path(run), options) for run in options.targets], options)


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
    labels, inputs = run / "labels.jsonl", [run / "rollouts.jsonl", run / "problems.jsonl"]
    return labels.is_file() and labels.stat().st_mtime >= max(path.stat().st_mtime for path in inputs)


def unfinished(run):
    return run / ".labels.unfinished.jsonl"


def judge_all(run, problems, rollouts, options):
    """Labels of all rollouts. Those of a finished problem are kept at once: a killed run goes on from there."""
    inputs = b"".join((run / name).read_bytes() for name in ("rollouts.jsonl", "problems.jsonl"))
    stamp = {"inputs": hashlib.sha256(inputs).hexdigest(), "timeout": options.timeout}
    done = [] if options.again else kept_labels(unfinished(run), stamp)
    if not done:
        common.write_jsonl(unfinished(run), [stamp])
    left = rollouts.keys() - {label["id"] for label in done}
    code = {key: rows for key, rows in rollouts.items() if key in left and is_code(problems[key])}
    answers = {key: rows for key, rows in rollouts.items() if key in left and key not in code}
    judged = (judge_answers(problems[key], rows) for key, rows in answers.items())
    with open(unfinished(run), "a", encoding="utf-8") as kept:
        for source, total in ((judged, len(answers)), (judge_programs(problems, code, options), len(code))):
            for labels in common.progress(source, total, f"label {run}", "problem"):
                kept.write(json.dumps(labels, ensure_ascii=False) + "\n")
                kept.flush()
                done += labels
    return done


def kept_labels(path, stamp):
    """What an interrupted run of the same inputs has judged; a torn last line does not count."""
    lines = path.read_text(encoding="utf-8", errors="replace").split("\n")[:-1] if path.is_file() else []
    ours = lines and json.loads(lines[0]) == stamp
    return [label for line in lines[1:] for label in json.loads(line)] if ours else []


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
    answer = answer and answer[:1000].encode(errors="replace").decode()  # half of a surrogate pair cannot be written
    key = {"id": row["id"], "sample": row["sample"]}
    return {**key, "label": label, "answer": answer, "group": number, "reason": reason}


def judge_programs(problems, rollouts, options):
    """Labels of problems with tests, as each is done; equal programs for one problem run once."""
    programs = {key: [extract_code(row["response"], problems[key]) for row in rows] for key, rows in rollouts.items()}
    jobs = [(key, code) for key, codes in programs.items() for code in dict.fromkeys(codes)]
    jobs = [((key, code), job_of(problems[key], code, options)) for key, code in jobs]
    waiting, reasons = Counter(key for (key, _), _ in jobs), {}
    for (key, code), result in run_all(jobs, options):
        reasons[key, code] = (None if result.passed is None else int(result.passed)), result.reason
        waiting[key] -= 1
        if not waiting[key]:
            verdicts = [reasons[key, code] for code in programs[key]]
            yield [label_row(row, label, None, None, reason) for row, (label, reason) in zip(rollouts[key], verdicts)]


def job_of(problem, code, options):
    fields = ("tests", "style", "entry_point", "prelude")
    given = {name: problem[name] for name in fields if problem.get(name) is not None}
    return {"code": code, "cpu_s": options.timeout, **given}


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


def report(summaries, options):
    columns = ("problems", "rollouts", "right", "right_percent", "wrong", "not_judged", "oracle_percent", "no_answer")
    header = ("run", "problems", "rollouts", "right", "right %", "wrong", "not judged", "oracle %", "no answer")
    print(common.table(header, [[line["run"], *(line[column] for column in columns)] for line in summaries]))
    for line in summaries:
        print(f"{line['run']}: " + ", ".join(f"{count} {reason}" for reason, count in line["reasons"].items()))
        if line["not_judged"] == line["rollouts"]:
            print(f"{line['run']}: nothing to judge: no answers or tests; 04 can still select")
    if options.json:
        print(json.dumps({"runs": summaries}))


def self_check(dataset, options):
    """What a judge must get right before anyone trusts it; the lines that tell of failures."""
    path = Path(dataset)
    problems = common.read_jsonl(path / "problems.jsonl") if path.is_dir() else common.load_problems(dataset)
    code = [row for row in problems if is_code(row)]
    answers = [row for row in problems if row["kind"] != "code" and row.get("answer") is not None]
    solved = {row["id"] for row in code if "solution" in row}
    jobs = [((row["id"], "solution"), job_of(row, row["solution"], options)) for row in code if row["id"] in solved]
    jobs += [((row["id"], "stub"), job_of(row, stub_of(row), options)) for row in code]
    failures = []
    for (key, what), result in common.progress(run_all(jobs, options), len(jobs), f"check {dataset}", "program"):
        unjudged_stub = what == "stub" and result.passed is None and key in solved  # whose tests work for the solution
        if result.passed is not (what == "solution") and not unjudged_stub:
            failures.append(f"{key}: its {what}: {result.reason}")
    unequal = [row for row in answers if not equals_itself(row)]
    failures += [f"{row['id']}: the answer {row['answer']!r} is not judged equal to itself" for row in unequal]
    print("".join(line + "\n" for line in sorted(failures)), end="")
    print(
        f"{dataset}: {len(solved)} reference solutions, {len(code)} stubs and {len(answers)} answers checked, "
        f"{len(failures)} failures; {len(code) - len(solved)} problems have tests but no reference solution, "
        f"{len(problems) - len(code) - len(answers)} nothing to check"
    )
    counts = {"problems": len(problems), "solutions": len(solved), "stubs": len(code), "answers": len(answers)}
    if options.json:
        print(json.dumps({"dataset": str(dataset), **counts, "failures": len(failures)}))
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
OPENING = re.compile(r"^(.*[>:*][ \t]*)(```+|~~~+)([ \t]*\w*[ \t]*)$")  # on the line of a tag, or of the words before it
INPUT = re.compile(r"\binput\(|\bstdin\b|\bopen\(0")


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
    able = [(block, tree) for block, tree in trees if tree and (defined(tree) if name else INPUT.search(block))]
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
        line = re.sub(r"</output>\s*$", "", line)
        fence = FENCE.match(line) or opened is None and OPENING.match(line)
        if opened is None and fence:
            opened, lines = fence, []
        elif opened is not None and fence and fence[2].startswith(opened[2]) and not fence[3].strip():
            blocks.append(dedented(lines, opened[1]))
            opened = None
        elif opened is not None and line.rstrip().endswith(opened[2]):
            blocks.append(dedented([*lines, line.rstrip()[: -len(opened[2])]], opened[1]))
            opened = None
        elif opened is not None:
            lines.append(line)
    if opened is not None:
        blocks.append(dedented(lines, opened[1]))
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


def as_body(code, problem):
    """prompt + completion, where the prompt opens a function and the completion is its body."""
    prelude = problem.get("prelude", "")
    if problem.get("entry_point") not in defined(parsed(prelude + "\n    pass\n") or ast.parse("")):
        return None
    tree = parsed(code)
    if tree is None and code.lstrip("\n").startswith((" ", "\t")):
        body = code
    else:
        loose = [node for top in tree.body if not hasattr(top, "name") for node in ast.walk(top)] if tree else []
        body = textwrap.indent(code, "    ") if any(isinstance(node, ast.Return) for node in loose) else None
    program = body and prelude.rstrip("\n") + "\n" + body + "\n"
    return program if program and parsed(program) else None


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
FORMULA = re.compile(
    r"\$\$(.{1,2000}?)\$\$|\$ ([^$]+) \$|\$(?! )([^$]+)(?<! )\$(?!\d)|\\\((.{1,2000}?)\\\)|\\\[(.{1,2000}?)\\\]", re.S
)
PHRASE = re.compile(
    r"####|<answer>|(?:^|\n)\W{0,20}A(?:ns)?:|(?<!\w)(?:answers?|results?|(?:correct|right) (?:option|choice))\b"
    r"(?:[^\n.:=$]|\.\d){0,60}?(?:\bis\b|\bare\b|\bbe\b|:|=|\n)",
    re.I,
)
LEAD_IN = re.compile(
    r"(?:\n *- |[\s:*_=#>,]|(?:therefore|thus|then|hence|so|simply|just|indeed|option|choice|equal to|it (?:is|equals)|it's)\b"
    r"|there (?:is|are)\b|not\b *[-$\d\\(][^,.;\n]*?(?:[,;]|\bbut\b)|(?:finally|(?:we|this) (?:have|get|find|obtain|conclude|gives?))\b)*",
    re.I,
)
CONNECTOR = re.compile(r"(?:\s|,|;|and|or|\\text\{ *(?:and|or) *\})*")
NUMBER = re.compile(
    r"(?<![\w.])-?(?:\d+(?:,\d{3})*(?:\.\d+)?|\.\d+)(?:e[+-]?\d+|[/:]\d+)?%?(?: ?π)?"
    r"(?! *[+*/^=]|(?!cm|mm|km|kg|ml|ft|mph|th|st|nd|rd)[A-Za-z\d])"
)
SENTENCE_END = re.compile(
    r"</answer>|(?<!\.)\.(?=\s|$)|\n"
    r"|[,;]?\s+\(?(?:since|because|which|where|as|when|so|but|and (?:we|this|it)|i\.e\.|that is|or (?:about|roughly|approximately)"
    r"|rather than|instead of)(?!\w)|\s+\((?:or|about)\b|,\s+not\b"
)
SPECIAL = re.compile(r"<\|[^|<>]{1,40}\|>|</?s>|<eos>|<end_of_turn>|\n(?:I hope this|Let me know|Feel free)[^\n]*$")
QED = re.compile(r"\$\s*\\(?:(?:black)?square|qed|checkmark)\s*\$|\\(?:(?:black)?square|qed|checkmark)(?![a-z])|[∎■□✓✔✅]")
ASIDE = re.compile(  # at the end: "(since x > 0)" and "because x > 0" are not the answer
    r"\s\((?:since|because|as|where|when|rejecting|discarding)\b[^()\n]*\)[\s.]*$"
    r"|(?<=[\w$)}\]]),?\s+(?:since|because)\b(?![^\n]*\b(?:so|thus|then|hence|therefore|we|is)\b)[^\n]*$"
)
TAIL = 20_000  # characters of a response in which a phrase, formula or number is looked for


def extract_answer(response, reference=None):
    """The answer a response gives, or None: the last box of its final part, what a phrase announces, or its end."""
    reasoning, final = split_reasoning(response)
    final = QED.sub("", SPECIAL.sub("", final)).replace("−", "-").strip()
    found = boxes(final or reasoning)
    if found:
        return join_boxes(found, reference)
    if not final:
        return None  # cut off while reasoning, and nothing boxed yet
    if "**" in final:
        final = re.sub(r"(?<![\w)])\*\*|\*\*(?![\w(])", "", final)  # bold; 2**3 stays
    final = final[-TAIL:]
    announcements = (announced(final[phrase.end() :]) for phrase in reversed([*PHRASE.finditer(final)][-3:]))
    candidates = [answer for answer in announcements if answer]
    if not candidates:
        bare = final[LEAD_IN.match(final).end() :]
        return bare if len(bare) <= 300 and is_bare(bare) else last_formula_or_number(final, reference)
    if reference is not None and is_integer(reference):  # "the answer is m + n, where ..., so it is 204"
        after = last_formula_or_number(final[final.rfind(candidates[0]) + len(candidates[0]) :], reference)
        candidates = [answer for answer in [*candidates, after or ""] if is_integer(answer)] or candidates
    return candidates[0]


def is_integer(answer):
    found = analyse(answer)
    keys = [key[1] if key[0] in ("given", "gold") else key for key in [*found.keys, *found.values]]
    return any(key[0] == "num" and whole(key[1]) for key in keys)


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
    opened = [start for start, is_box in stack if is_box]
    if opened and not found:  # the brace is forgotten
        found = [(0, content) for content in re.findall(r"\A[^$\n]+", text[opened[-1] :].strip())]
    return [content for _, content in found]


def join_boxes(found, reference):
    """The last box; where the reference lists n answers, the last n boxes if they hold one each."""
    wanted, distinct = len(items_of(reference)), list(dict.fromkeys(found))
    if wanted < 2 or len(distinct) < wanted or len(items_of(found[-1])) > 1:
        return found[-1]
    return ", ".join(distinct[-wanted:])


def items_of(answer):
    """What an answer lists; one thing if it is no list."""
    node = None if answer is None else analyse(answer).node
    return node[1] if node and node[0] in ("list", "set") else [node]


def announced(tail):
    """The answer at the start of the text that follows "the answer is"."""
    tail = tail[LEAD_IN.match(tail).end() :]
    formula, ends = FORMULA.search(tail), SENTENCE_END.finditer(tail)
    end = next((end for end in ends if tail.count("{", 0, end.start()) <= tail.count("}", 0, end.start())), None)
    sentence = tail[: end.start()] if end else tail
    near = len(sentence)
    if end and end[0].endswith(("i.e.", "that is")) and analyse(trimmed(sentence)).kind == "text":
        near = end.end() + 1  # between 2 and 5, i.e. $(2, 5)$
    if formula and formula.start() <= near:
        return formula_run(tail, formula)
    return trimmed(sentence) or None


def trimmed(text):
    text = text.strip(' *_`"\n')
    return text if text.endswith("...") else text.rstrip(" .,;*_")


def formula_run(text, formula):
    """A formula and those joined to it by commas, "and" or "or"."""
    parts = []
    while formula:
        parts.append(trimmed(next(group for group in formula.groups() if group is not None)))
        gap = CONNECTOR.match(text, formula.end())
        formula = FORMULA.match(text, gap.end()) if gap[0].strip() else None
    return ", ".join(parts)


def is_bare(text):
    """A response that is nothing but an answer."""
    if FORMULA.search(text):
        return False
    if len(text.split()) <= (3 if re.search(r"\d", text) else 6):
        return True
    return analyse(text).kind != "text" and not re.search(r"[A-Za-z]{2,},? +[a-z]{2,}\b", text)


def last_formula_or_number(text, reference):
    """The last formula or number; where the reference lists several, with those joined to it."""
    text = ASIDE.sub("", text)
    formulas = [*FORMULA.finditer(text)]
    formulas = [f for f in formulas if re.search(r"[\d=<>^+]|\\[a-z]", f[0])] or formulas  # rather not "$x$"
    numbers = [n for n in NUMBER.finditer(text) if not formulas or n.start() >= formulas[-1].end()]
    numbers = [n for n in numbers if text[: n.start()].rstrip()[-1:] not in ("+", "-", "*", "/", "^")]
    if numbers or not formulas:
        sentence = re.split(r"[.:!?]\s|\n|\$", text.strip(" .\n"))[-1]  # x = 5 and y = 3; z = 6 - 5i
        endings = [sentence[word.start() :] for word in re.finditer(r"(?![-–—] )\S+", sentence)][-12:]
        ties = r"\b(?:is|are|equals)\b" + r"|(?<![<>!])=" * (reference is not None and is_integer(reference))
        endings = [sentence[LEAD_IN.match(sentence).end() :], *re.split(ties, sentence)[-1:], *endings]
        whole = next((ending.strip() for ending in endings if is_formula(ending)), None)
        if whole or not numbers:
            return whole
    run = numbers or formulas
    first = len(run) - 1
    while first and re.fullmatch(CONNECTOR, text[run[first - 1].end() : run[first].start()]):
        first -= 1
    if run is formulas:
        return formula_run(text, formulas[first])
    return ", ".join(number[0] for number in run[first:]) if len(items_of(reference)) > 1 else run[-1][0]


def is_formula(text):
    words = re.search(
        r"(?<![A-Za-z\\])(?:(?!and\b|sqrt|sin|cos|tan|log)[A-Za-z]{3}|(?:an|as|at|by|he|if|in|is|it|of|on|so|to|we)\b)", text
    )
    return not words and len(text) <= 300 and analyse(text).kind != "text"  # one too complex ends the search


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
#
# Where graders differ: a decimal is not an endless number however many of its digits it gives (0.333333 is not 1/3),
# unless the reference is the rounded one; and 45 degrees is 45, not pi/4: an answer in another unit is another answer.

CHARACTERS, TOKENS, DEPTH, BITS, SECONDS = 2000, 500, 50, 40_000, 1.5  # beyond these an answer is "too complex"
DIGITS = 70  # of arithmetic that is not exact; 40 of them are compared
CLOCK = [0.0]  # when the evaluation under way gives up
Answer = namedtuple("Answer", "text kind node keys values unit")
# text: the answer in one spelling; kind: math, text or too complex; node: the parser's tree; keys: what the answer is;
# values: what it also stands for beside an answer of another form: 5 for x = 5, an interval for an inequality. Two
# answers are equal if a key of one is a key or value of the other. A value tagged "either" counts in both directions
# but not for grouping (.2 for 20%), one tagged "given" or "gold" only on that side (7 for x + y = 7; 52 for 52_8).


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
            bare = [analyse(one.text.removesuffix(unit)) if one.text == other else one for one in (gold, given)]
            shared = shared_key(*bare)
    if not shared:
        return False, "too complex" if "too complex" in (given.kind, gold.kind) else "different"
    if given.node and given.node != gold.node and repeats(given, prompt):
        return False, "different"
    return True, "equal: " + how(shared)


def shared_key(gold, given):
    units, others = known_units(gold.unit), known_units(given.unit)
    if not (units <= others or others <= units):
        return None  # 5 cm is not 5 m; 5 cm may be sloppy for 5 cm^2, and $5 for $5 per hour
    if "text" in (gold.kind, given.kind):
        return ("text",) if plain_words(gold.text) == plain_words(given.text) or gold.keys == given.keys else None
    accepted = {value[1] if value[0] in ("either", "given") else value for value in given.values}
    stands_for = {value[1] if value[0] in ("either", "gold") else value for value in gold.values}
    shared = [key for key in gold.keys if key in given.keys or key in accepted]
    shared += [key for key in given.keys if key in stands_for]
    if not shared and (gold.keys[0][0] == "eq") != (given.keys[0][0] == "eq"):
        shared = [key for key in stands_for if key in accepted]  # p = 1/4 and 25%
    return shared[0] if shared else None


def known_units(unit):
    """What an answer is measured in, without powers: mi and h of miles per hour; nothing if a word is no unit."""
    words = re.sub(r"\^\S*|\b(?:square|sq|cubic|per)\b|/", " ", unit or "").split()
    return set("/".join(UNITS[word] for word in words).split("/")) if words and UNITS.keys() >= set(words) else set()


def how(key):
    """exact: by spelling or rational numbers; numeric: by constants to 40 digits; symbolic: with variables."""
    if isinstance(key, (tuple, frozenset)):
        return max((how(part) for part in key), key=("exact", "numeric", "symbolic").index, default="exact")
    if not isinstance(key, str):
        return "exact"
    numeric = re.match(r"-?\d+\.\d|rounded", key)
    return "symbolic" if key in ("expr", "eq", "ineq") else "numeric" if numeric else "exact"


def is_rounding(gold, given):
    CLOCK[0] = time.monotonic() + SECONDS
    try:
        return rounds_to(gold, given)
    except (Unreadable, TooComplex, ZeroDivisionError, OverflowError):
        return False


def rounds_to(gold, given):
    """Is the reference a rounded decimal, and the answer the number that it was? 0.33 and 1/3."""
    gold, given = (node[2][-1] if node[0] == "rel" and set(node[1]) <= {"=", "≈"} else node for node in (gold, given))
    if gold[0] in ("seq", "mat", "list"):
        pairs = list(zip(children(gold), children(given)))
        alike = gold[:-1] == given[:-1] and len(gold[-1]) == len(given[-1]) and len(pairs) == len([*children(given)])
        labelled = gold[0] == "list" and any(item[0] == "rel" for pair in pairs for item in pair)
        return alike and not labelled and all(item_key(a) == item_key(b) or rounds_to(a, b) for a, b in pairs)
    decimal, places = gold[1:] if gold[0] == "num" else (0, 0)
    decimals = given[0] == "num" and given[2]
    written = decimals or given[0] in CONTAINERS | {"pct"} or variables(given) or is_infinite(given)
    digits = abs(decimal * 10**places)
    if written or digits < 10 or not (places >= 2 or places and digits >= 100):
        return False
    value = real(rational(evaluate(given, 0)))
    endless = value is not None and not (isinstance(value, Fraction) and (10**60 * value).denominator == 1)
    return endless and abs(calculate("add", value, -decimal)) * 2 * 10**places <= 1


def repeats(given, prompt):
    """Is the answer a formula that the question already holds, handed back as it stands?"""
    if given.node[0] in ("num", "var", "const", "neg", "seq", "list", "set", "mat") or not prompt:
        return False

    def bare(text):
        text = re.sub(r"\\left|\\right|\\[,!;: ]|[${}]", " ", re.sub(r"\\[dt]frac", r"\\frac", text))
        return re.sub(r" *([-+*/^=<>(),]) *", r"\1", text)

    pattern = " *".join(re.escape(part) for part in re.findall(r"\\[a-zA-Z]+|\S", bare(given.text)))
    return bool(re.search(rf"(?<![\w.^*/+\-(\\]){pattern}(?![\w^*/+\-(\\]|\.\d)", bare(prompt)))


def group(answers, reference=None, prompt=""):
    """(verdicts, group numbers) of the answers to one problem: equal answers share a number, None has none.

    With a reference the right answers are one group; the others, or all without one, are grouped by their keys.
    """
    distinct = {answer: analyse(answer) for answer in answers if answer is not None}
    no_verdict = None, "no reference"
    verdicts = {answer: no_verdict if reference is None else equal(reference, answer, prompt) for answer in distinct}
    parent = {}

    def root(item):
        while parent.setdefault(item, item) != item:
            item = parent[item]
        return item

    for answer, given in distinct.items():
        keys = given.keys
        if verdicts[answer][0]:
            keys = ["right"]
        elif reference is not None and shared_key(analyse(reference), given):
            keys = [("text", given.text)]  # it repeats the question
        for key in keys:
            parent[root(("answer", answer))] = root(key)
    for answer, given in distinct.items():
        for value in given.values if not verdicts[answer][0] else ():
            if value in parent:
                parent[root(("answer", answer))] = root(value)
    numbers = {}
    for answer in distinct:
        numbers.setdefault(root(("answer", answer)), len(numbers))
    return verdicts, [None if answer is None else numbers[root(("answer", answer))] for answer in answers]


@lru_cache(maxsize=50_000)
def analyse(text):
    money = "\\$" in text or text.count("$") == 1
    text = clean(text)
    CLOCK[0] = time.monotonic() + SECONDS
    try:
        if len(text) > CHARACTERS:
            raise TooComplex
        found = special_form(text) or formula(text)
        return found._replace(unit=f"dollar {found.unit or ''}".strip()) if money else found
    except (TooComplex, OverflowError, RecursionError):
        return Answer(text, "too complex", None, (("text", text),), (), None)
    except (Unreadable, ZeroDivisionError):
        head, sign, tail = text.rpartition("=")
        if sign and tail.strip() and not re.search(r"[<>,;!≠]|\\n", head):
            return analyse(tail)._replace(text=text)  # "area of ABC = 5"
        return Answer(text, "text", None, (("text", plain_words(text)),), (), None)


def formula(text):
    joined = text if re.match(r"[(\[]|\\?\{", text) else THOUSANDS.sub(lambda m: m[0].replace(",", ""), text)
    node, unit = read(joined)
    keys, values = keys_of(node)
    if joined != text and re.fullmatch(r"[\d,]+", text):
        values = values + keys_of(read(text)[0])[0]  # 1,234 may be two numbers, too
    return Answer(text, "math", node, tuple(keys), tuple(values), unit)


def read(text):
    """(tree, unit) of a formula. Each ± stands for two answers; where there is a ∓, the signs go together."""
    signs = re.findall("[±∓]", text)
    if len(signs) > 4:
        raise TooComplex
    linked = [["+-"["±∓".index(sign) ^ n] for sign in signs] for n in (0, 1)]
    choices = map(iter, linked if "∓" in signs else product("+-", repeat=len(signs)))
    parsers = [Parser(re.sub("[±∓]", lambda _, choice=choice: next(choice), text)) for choice in choices]
    nodes = [parser.answer() for parser in parsers]
    if len(nodes) > 1:
        items = [item for node in nodes for item in (node[1] if node[0] in ("list", "set") else [node])]
        distinct = [item for n, item in enumerate(items) if item not in items[:n]]
        nodes[0] = ("set" if nodes[0][0] == "set" else "list", distinct)
    return nodes[0], " ".join(parsers[0].unit)


def special_form(text):
    """Answers with a grammar of their own: choices, digits in a base, times of day, words."""
    if re.fullmatch(r"-?\d{1,300}", text):
        number = ("num", Fraction(text), 0)
        return Answer(text, "math", number, (number[:2],), (), "")
    choice = CHOICE.fullmatch(text)
    if choice:
        rest = analyse(choice[2] or choice[4]) if choice[2] or choice[4] else None
        return Answer(text, "math", None, (("choice", choice[1] or choice[3]),), rest.keys if rest else (), "")
    base = BASE.fullmatch(text)
    if base:
        number = (("gold", number_key(Fraction(base[1]))),) if base[1].isdigit() else ()
        key = ("base", base[1].lstrip("0"), NUMBER_WORDS.get(base[2], base[2]))
        return Answer(text, "math", None, (key,), number, "")
    words = plain_words(text)
    clock = CLOCK_TIME.fullmatch(words)
    if clock and (clock[3] or clock[2] and math.gcd(int(clock[1]), int(clock[2])) > 1):  # 12:30; 11:21 is a ratio, too
        hour, minute = int(clock[1]), int(clock[2] or 0)
        also = [("time", hour, minute, ""), *(formula(f"{hour}:{minute}").keys if minute else ())]
        key = ("time", hour, minute, clock[3] or "")
        return Answer(text, "math", None, (key,), tuple(("either", value) for value in also), "")
    if re.fullmatch(r"(?:there (?:is|are) )?no (?:real )?solutions?(?: exists?)?|empty set", words):
        return formula(r"\emptyset")._replace(text=text)
    if re.fullmatch(r"(?:all|any|(?:set of )?(?:all )?(?:the )?) ?real(?:s| numbers?)", words):
        return formula(r"\reals")._replace(text=text)
    return None


def plain_words(text):
    plain = re.sub(r"\\text *\{([^{}]*)\}", r" \1 ", text)
    if re.search(r"[\\^_=<>]", plain):
        return re.sub(r"\s", "", plain)
    plain = re.sub(r"[\s{}\",]+", " ", plain).strip(" .,;:!?'").casefold()
    return re.sub(r"^(?:the|an?) (?=\w)", "", {"dne": "undefined", "does not exist": "undefined"}.get(plain, plain))


THOUSANDS = re.compile(r"(?<![\d.,])\d{1,3}(?:,\d{3})+(?!\d|,\d)")
UNIT_NAMES = (
    "mm millimeter millimetre|cm centimeter centimetre|m meter metre|km kilometer kilometre|in inch inches|ft foot feet"
    "|yd yard|mi mile|mg milligram|g gram|kg kilogram|lb lbs pound|oz ounce|s sec second|ms millisecond|min minute"
    "|h hr hrs hour|day|week|month|year yr yrs|ml milliliter|l liter litre|cent|dollar usd|°|rad radian"
    "|mi/h mph|km/h kmh kph|m/s mps"
)
UNITS = {
    name + plural: names.split()[0]
    for names in UNIT_NAMES.split("|")
    for name in names.split()
    for plural in ("", "s")[: 1 + (len(name) > 2)]
}
NUMBERS = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"
NUMBER_WORDS = {word: str(n) for n, word in enumerate(NUMBERS.split())}
CHOICE = re.compile(r"\(? *([A-J]) *\)(?!\s*(?:or\b|and\b|,))[\s:.]*(.*)|([A-J])(?:[.):]\s+(.+))?", re.S)
CLOCK_TIME = re.compile(r"([01]?\d|2[0-4])(?::([0-5]\d))?(?: ?([ap])\.? ?m\.?)?")
BASE = re.compile(
    r"[({]?([0-9][0-9A-Za-z]*)[)}]?(?: *_ *\{?|(?= *\(?(?:\\text\{)?\(?base)) *\(?(?:\\text *\{)? *\(?(?:base[ -]*\}?)? *"
    r"([12]?[0-9]|3[0-6]|" + "|".join(NUMBER_WORDS) + r")[ )}]*"
)


# ---------------------------------------------------------------------------------------------------------------------
# The parser: LaTeX or plain text -> nested tuples. Recursive descent over tokens, no look-back, no evaluation of text.
#
#   ("num", Fraction, decimals)  ("var", name)  ("const", "pi"|"e"|"i"|"inf")  ("add", a, b)  ("mul", a, b)
#   ("div", a, b)  ("pow", a, b)  ("neg", a)  ("pct", a)  ("fn", name, a, ...)  ("det", rows)
#   ("sum"|"prod", counter, from, to, a)  ("rel", ops, sides)  ("mod", a, modulus)  ("ratio", parts)
#   ("seq", "(]", items)  ("list", items)  ("set", items)  ("mat", rows)  ("union"|"cap"|"minus", a, b)  ("reals",)  ("empty",)

SUPERSCRIPTS, SUBSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺ⁿ", "₀₁₂₃₄₅₆₇₈₉₋₊ₙ"
UNICODE = str.maketrans({
    "−": "-", "–": "-", "—": "-", "×": "*", "·": "*", "⋅": "*", "∙": "*", "÷": "/", "⁄": "/", "∕": "/", "≤": "<=",
    "≥": ">=", "⩽": "<=", "⩾": ">=", "≠": "!=", "∞": r"\infty ", "π": r"\pi ", "√": r"\sqrt ", "º": "°",
    "½": r"\frac{1}{2}", "⅓": r"\frac{1}{3}", "⅔": r"\frac{2}{3}", "¼": r"\frac{1}{4}", "¾": r"\frac{3}{4}",
    "…": "...", "’": "'", "′": "'", "“": '"', "”": '"', "ℝ": r"\mathbb{R}", "ℤ": r"\mathbb{Z}", "∅": r"\emptyset ",
    "∖": r"\setminus ", "θ": r"\theta ", "α": r"\alpha ", "β": r"\beta ", "λ": r"\lambda ", "φ": r"\phi ",
    "⟨": "(", "⟩": ")", "≡": "=", "∛": r"\cbrt ", "⇒": r"\Rightarrow ", "→": r"\Rightarrow ", "¢": " cents", "£": "", "€": "", "¥": "",
    "\u00a0": " ", "\u2009": " ", "\u202f": " ", "\u200b": "",
})  # fmt: skip
# Spellings made equal before the parser sees them, in this order.
REWRITES = [
    (re.compile(pattern), replacement)
    for pattern, replacement in [
        (r"\\\\\s*\[[\d.]+ *\w+\]", r"\\\\ "),  # \\[4pt]
        (r"\\(?:boxed|fbox)(?![a-zA-Z])|(?<!\\)\\[()\[\]]|\\?\$|\\(?:text)?color *\{[^{}]*\}|\bUSD\b", " "),
        (r"& *(?=[=<>,]|\\(?:[lg]eq?|in|approx)(?![a-z]))|(?<=[=<>,]) *&", " "),  # x &= 1
        (r"\\(?:left|right|middle)(?![a-zA-Z])\s*\.?|\\[bB]igg?[lrm]?(?![a-zA-Z])", ""),
        (r"\\(?:[dtc]|nice|s)frac", r"\\frac"),
        (r"\\[dt]binom", r"\\binom"),
        (r"(?<=\d)(?:\{,\}|,\\[!,;: ]) *(?=\d{3}(?!\d))", ""),
        (r"(?<=\d)\{,\}(?=\d)", "."),
        (r"(?<![\d.,_^])\d{1,3}(?:(?:\\[,;:! ]|[ ~'])\d{3})+(?![\d,])", lambda m: re.sub(r"\D", "", m[0])),
        (r"(?<!\\)\\[!,;:> ]|~|\\q?quad|\\[hv]space\*?\{[^{}]*\}", " "),
        (r"\\(?:displaystyle|textstyle|limits|nolimits|rm|bf|it|large|Large|small)(?![a-zA-Z])", " "),
        (r"\\(?:mathbf|boldsymbol|bm|mathit|mathcal|mathsf|mathnormal|underline|vec|overrightarrow)(?![a-zA-Z])", ""),
        (
            r"(?<=[\w})]) *(?:[,;(]|where|for|with)[ (]*[a-z] *(?:\\in(?![a-z])|∈) *"
            r"(?:\\\w+)? *\{? *[ZNQR] *\}?(?:[_^]\{?[^{}\\]*\}?)? *\)?\s*$",
            "",
        ),  # , k in Z
        (r"\\(?:mathbb|Bbb) *\{? *R *\}?", r"\\reals "),
        (r"\\reals *- *(?=\\\{)", r"\\reals \\setminus "),
        (r"\\(?:mathbb|Bbb) *\{? *([A-Z]) *\}?", r"\\set\1 "),
        (
            r"\\(?:mbox|hbox|textbf|textit|textrm|textsf|textnormal|emph|mathrm|operatorname\*?|text) *"
            r"\{([^{}]*(?:\{[^{}]*\}[^{}]*)*)\}",
            lambda m: inline_text(m[1]),
        ),
        (r"(?<=.)[ ,;(]*\\text\{[ ,;(]*(?:since|because|or about|about|approximately)\b.*$", ""),  # 27 (since 3^3)
        (r"\\frac *\{ *\\text\{([^{}]*)\} *\} *\{ *\\text\{([^{}]*)\} *\}", r"\\text{\1/\2}"),
        (r"(?<=[\d})]) *\((?:\\text *\{)?(?!base|mod)[a-z ]{3,}\}?\)$", ""),  # 12 (ways)
        (r"(?<=\d) ([a-z]+/[a-z]+)(?:\^\{?2\}?)?$", lambda m: speed(m)),  # 60 m/s
        (r"(?<=[\d}]) *\\text\{[A-Z]\}$", ""),  # 4.2 K
        (r"\\frac *\{ *d *([a-z]) *\} *\{ *d *[a-z] *\}", r"\1'"),
        (r"(?<=\d) *(?:to|\\text\{ *to *\}) *(?=\d)|\{:\}", ":"),
        (r"(?<=\d) *\^? *(\{ *)?(?:\\text *)?(?:\{ *(?:st|nd|rd|th) *\}|(?:st|nd|rd|th)\b)(?(1) *\})", ""),  # 7th
        (r"\(? *\\?(?:text\{ *)?\b[pb]?mod(?![a-z]) *\}? *\{? *(\w+) *\}? *\)?$", r" \\pmod{\1}"),
        (r"(?<=[)\]]) *U *(?=[(\[])", "∪"),
        (r"\^ *\{? *\\(?:circ|degree)(?![a-zA-Z]) *\}?|(?<=\d)\^\{?o\}?(?![a-z])|\\(?:degree|textdegree)(?![a-zA-Z])", "°"),
        (r"° *\{? *(?:\\text\{)?[CF] *\}?$", "°"),
        (r"\\%", "%"),
        (r"(\d*\.\d*)\\(?:overline|bar|dot) *\{? *(\d+) *\}?", lambda m: repeating(m)),
        (r"(?<![\w.])(\d+\.\d*)\((\d+)\)(?!\w)", lambda m: repeating(m)),
        (r"(\d*\.\d{0,20}?)(\d{1,12}?)\2+(?:\.\.\.|\\[lc]?dots(?![a-z]))", lambda m: repeating(m)),
        (r"(?:(=) *)?(-?\d*\.\d+)(?:\.\.\.|\\[lc]?dots(?![a-z]))", lambda m: "≈"[: bool(m[1])] + m[2]),  # = 1.4...
        (r"(?<=\d) *x *(?=10 *\^)", "*"),
        (r"(?<![\d./^_a-zA-Z}])(\d+) +(\d+) */ *(\d+)(?![\d/])", r"\1\\frac{\2}{\3}"),
        (r"(?:\{ *\})?[_^] *\{?(\w+)\}? *C *_ *\{?(\w+)\}?|\bC_\{?(\w+)\}?\^\{?(\w+)\}?", r"\\binom{\1\3}{\2\4}"),
        (r"^(?!.*(?<![\\a-zA-Z])[abAB](?![a-z]))(.*[a-z].*\+ *)c$", r"\1C"),  # a constant of integration
        (r"(?<=[a-z])-(?=hal[fv]|third|quarter|(?:four|fif|six|seven|eigh|nin|ten)th)", " "),  # two-thirds
        (r"\*\*", "^"),
        (r"\\not *=", "!="),
        (r"\b[fgh] *\^ *\{? *-1 *\}? *\((?=[a-z]\) *=)", "F("),  # f^{-1}(x) = ... is a function as any other
        (r"(?<=[a-z])\.(?= ?[a-z])", ""),  # sq. cm
        (r"\\pm(?![a-z])|\+/-|^\+-", "±"),
        (r"\\mp(?![a-z])", "∓"),
        (r"(?i)^ *(?:(?:the )?(?:final )?answers?(?: is\b| are\b|:)|(?:option|choice) +(?=\(?[a-j]\)?$))", ""),
        (r"(?i)^ *(?:about |exactly |approximately |approx\.? |roughly |the (?=[a-z])|an (?=[a-z])|=|≈|\\approx)", ""),
        (r"^ *\{([^{},;:|]*)\} *$", r"\1"),
    ]
]  # fmt: skip
TRIGONOMETRIC = {"sin", "cos", "tan", "cot", "sec", "csc"}
FUNCTIONS = TRIGONOMETRIC | set(
    re.findall(r"\w+", "arcsin arccos arctan arccot sinh cosh tanh exp ln lg log abs floor ceil gcd lcm max min det")
)
LETTERS = (
    "alpha beta gamma delta epsilon varepsilon zeta eta theta vartheta iota kappa lambda mu nu xi rho sigma tau "
    "upsilon phi varphi chi psi omega Gamma Delta Theta Lambda Xi Sigma Phi Psi Omega ell hbar"
)
GREEK = set(LETTERS.split())


def by_name(spellings):
    return {name: sign for sign, names in spellings.items() for name in names.split()}


NAMES = by_name({
    "<=": "le leq leqslant leqq", "<": "lt", ">=": "ge geq geqslant geqq", ">": "gt", "!=": "ne neq",
    "=": "equiv coloneqq", "≈": "approx simeq", "∈": "in", "∪": "cup bigcup", "∩": "cap bigcap", "*": "times cdot ast", "/": "div",
    "(": "langle", ")": "rangle", "[": "lbrack", "]": "rbrack", "\\{": "lbrace", "\\}": "rbrace", ":": "colon",
    "|": "lvert rvert vert mid lVert rVert", ",": "lor vee", "...": "ldots cdots dots", "i": "imath",
    "'": "prime", "\\\\": "cr", "\\emptyset": "varnothing", "\\setminus": "backslash", "\\Rightarrow": "implies", "\\tan": "tg",
    "\\cot": "ctg cotg", "\\csc": "cosec", "\\arcsin": "asin", "\\arccos": "acos", "\\arctan": "atan arctg", "\\arccot": "arcctg",
})  # fmt: skip
PLAIN_WORDS = by_name({
    ",": "and or", "-": "minus negative", "=": "is are equals", "\\infty": "infinity inf infty oo", "∪": "union U", "°": "degrees degree deg",
    "%": "percent", "*": "times", "\\sqrt": "sqrt", "\\cbrt": "cbrt", "\\pi": "pi", "\\abs": "abs", "\\floor": "floor",
    "\\ceil": "ceil", "\\gcd": "gcd", "\\lcm": "lcm", "\\max": "max", "\\binom": "binom", "\\frac": "frac",
    "\\emptyset": "emptyset",
})  # fmt: skip
CONDITIONS = {"if", "for", "where", "when", "with", "as", "since", "because", "any", "all"}
BRANCHES = {'"if', '"for', '"when', '"else', '"otherwise'}  # of these, a second one opens another case
SMALL_WORDS = {"yes", "no", "odd", "sq", "of", "to", "per", "the", "in", "dne"}
SCALES = {"dozen": 12, "hundred": 10**2, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
PARTS = ("half", "third", "quarter", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
SCALES |= {part: Fraction(1, n) for n, part in enumerate(PARTS, 2)} | {"fourth": Fraction(1, 4)}
TOKEN = re.compile(
    r"(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][+-]?\d+(?![\w.]))?|\d+\.(?!\d)|\\text\{[^{}]*\}|\\[A-Za-z]+|\\."
    r"|[A-Za-z]+|<=|>=|!=|=>|==|:=|\.\.\.|\S",
    re.S,
)
RELATIONS = {"=", "<", ">", "<=", ">=", "!=", "≈", "∈"}
SET_OPERATIONS = {"∪": "union", "∩": "cap", "\\setminus": "minus"}
NO_FACTOR = RELATIONS | set(SET_OPERATIONS) | set("+-*/^_!%°',;:)]}&") | {
    "", "...", "\\}", "\\\\", "\\rfloor", "\\rceil", "\\end", "\\Rightarrow", "\\choose", "\\over", "\\pmod",
}  # fmt: skip


def clean(text):
    """One spelling for what people write in many ways; still text."""
    text = text.strip()
    if re.fullmatch(r"-?\d+", text) or len(text) > 2 * CHARACTERS:
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
    if (word in FUNCTIONS or NAMES.get(word, " ")[0] in "\\<>=!*") and word not in UNITS:
        return f"\\{word} "
    if word.lower().strip(" ,") in PLAIN_WORDS:
        return f" {word.lower().strip(' ,')} "
    words = re.search(r"[A-Za-z]{2}|[a-z]/[a-z]", re.sub(r"\\(?!cdot)[a-z]+", "", word))
    if words or re.fullmatch(r"[~ ]+[A-Za-z]|[mshgl]", inner):
        return "\\text{" + re.sub("[{}]", "", word) + "}"
    return f" {word} "


def repeating(match):
    """0.1 and 6 -> the fraction 1/6, as text."""
    start, period = match.groups()
    if len(start + period) > 1000:
        return match[0]
    places = len(start) - start.index(".") - 1
    whole = int(start.replace(".", "") or 0) * (10 ** len(period) - 1) + int(period)
    return f"({whole}/{10**places * (10 ** len(period) - 1)})"


def speed(match):
    return f" \\text{{{match[1]}}}" if set(match[1].split("/")) <= UNITS.keys() else match[0]


def tokens_of(text):
    tokens = []
    for match in TOKEN.finditer(text):
        token, before = match[0], text[match.start() - 1 : match.start()]
        if token.startswith("\\text{"):
            for word in re.findall(r"[^\s,]+|,", token[6:-1]):
                plain = len(word) == 1 and word not in UNITS or word.isupper() and word.isalpha() or word[0].isdigit()
                plain |= word.lower() in NUMBER_WORDS
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
    if lower in NUMBER_WORDS and not glued:
        return [NUMBER_WORDS[lower]]
    if lower in PLAIN_WORDS or (word in FUNCTIONS or word in GREEK) and word not in UNITS:
        return [PLAIN_WORDS.get(lower) or "\\" + word]
    if NAMES.get(word, " ")[0] in "\\<>=!*" and len(word) > 2:
        return [NAMES[word]]
    split = re.fullmatch(r"(arcsin|arccos|arctan|sin|cos|tan|cot|sec|csc|ln|log|sqrt|pi)([a-z])", word)
    if split and lower not in UNITS:
        return ["\\" + split[1], split[2]]
    if len(word) > 3 and not glued or lower in UNITS or lower in CONDITIONS or lower in SMALL_WORDS or lower in SCALES:
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
        items = self.items(",", ";", "\\\\")
        if self.next != "" or not items:
            raise Unreadable(f"cannot read {self.next!r}")
        return items[0] if len(items) == 1 else ("list", items)

    def items(self, *separators):
        """Relations separated by commas, semicolons, "and" or "or"."""
        separators = separators or (",", ";")
        self.depth += 1
        if self.depth > DEPTH:
            raise TooComplex
        found = [self.relation()]
        while self.take(*separators):
            while self.take(*separators):
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
        if self.take("\\pmod"):
            return ("mod", sides[-1], self.group_or_token())
        if self.next.startswith('"') and self.next[1:].lower() in CONDITIONS and self.depth == 1:
            if BRANCHES & set(self.tokens[self.at + 1 :]):
                raise Unreadable("more than one case")
            self.at = len(self.tokens) - 1  # "... for n > 1": the condition is no part of the answer
        return ("rel", tuple(ops), sides) if ops else sides[0]

    def set_expression(self):
        parts = [self.sum()]
        while self.next == ":" and not self.bars and self.take():
            parts.append(self.sum())
        node = ("ratio", parts) if len(parts) > 1 else parts[0]
        while self.next in SET_OPERATIONS:
            node = (SET_OPERATIONS[self.take()], node, self.sum())
        if self.take("\\over"):
            return ("div", node, self.sum())
        return ("fn", "binom", node, self.sum()) if self.take("\\choose") else node

    def sum(self):
        node = signed(self.take("+", "-"), self.product())
        while self.next in ("+", "-"):
            node = ("add", node, signed(self.take(), self.product()))
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
                while self.unit and self.unit[-1] in SCALES:
                    node = times(node, ("num", Fraction(SCALES[self.unit.pop()]), 0))
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
        while self.next.startswith('"') and self.next[1:].lower() not in CONDITIONS:
            word = self.take()[1:].lower()
            self.unit.append("half" if word == "halves" else word[:-1] if word[:-1] in SCALES else word)
            if self.unit[-1] in SCALES:
                break
            if self.take("^"):
                self.unit.append("^" + spelled(self.exponent()))
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
                below = "" if mark == "'" else self.raw_group() if self.next == "{" else self.take() or ""
                node = ("var", node[1] + mark + below)
            else:
                return node

    def raised(self, base):
        if self.take("'"):
            return ("var", base[1] + "'") if base[0] == "var" else base
        if self.next in ("T", "\\top") and base[0] in ("mat", "seq"):
            self.take()
            rows = base[1] if base[0] == "mat" else [base[2]]
            return ("mat", [list(column) for column in zip(*rows)])
        return ("pow", base, self.exponent())

    def exponent(self):
        sign = self.take("+", "-")
        return signed(sign, self.group_or_token() if self.next == "{" else self.power())

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
            inner = self.sum()
            node = ("det", inner[1]) if inner[0] == "mat" else ("fn", "abs", inner)
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
        if end and self.tokens[end + 1] == "=" and (token.isupper() or token in "fghpqy"):
            name, self.at = token + "".join(self.tokens[self.at : end + 1]), end + 1
            return ("var", name)
        if token in "fghC" and self.next == "(":
            arguments = self.arguments()
            if token != "C":
                return ("fn", "call " + token, *arguments)
            if len(arguments) == 2 and arguments[0][1] != 0:
                return ("fn", "binom", *arguments)
            raise Unreadable("a point")
        return ("var", token)

    def inside(self, *closing, bars=0):
        """(items, the bracket that closes them); bars: in {x | ...} a bar is no absolute value."""
        outside, self.bars = self.bars, bars
        items = self.items()
        self.bars = outside
        self.need(*closing)
        return items, self.tokens[self.at - 1]

    def bracket(self, opening):
        items, closing = self.inside(")", "]")
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
        if self.take("\\begin"):
            node = self.environment()
            self.take(closing)
            return node
        rest = set(self.tokens[self.at :])
        items, end = self.inside(closing, "|", ":", bars=int(bool({"|", ":"} & rest and RELATIONS & rest)))
        if end != closing:
            return described(items, self.inside(closing)[0])
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
        if name in ("sum", "prod"):
            return self.series(name)
        if name in FUNCTIONS:
            return self.function(name)
        if name in ("overline", "angle", "triangle", "hat", "bar", "tilde", "widehat"):
            named = self.group_or_token()
            while name in ("angle", "triangle") and self.next.isalpha():
                named = ("mul", named, self.atom())
            return ("var", f"{name} {spelled(named)}")
        raise Unreadable(f"unknown command {name}")

    def series(self, name):
        """\\sum_{k=1}^{n} k^2"""
        self.need("_")
        start = self.group_or_token()
        self.need("^")
        end = self.exponent()
        if start[0] != "rel" or start[1] != ("=",) or start[2][0][0] not in ("var", "const"):
            raise Unreadable("a series without a counter")
        return (name, *start[2], end, self.product())

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
        if name == "det" and arguments[0][0] == "mat":
            return ("det", arguments[0][1])
        if exponent == ("num", Fraction(-1), 0) and name in TRIGONOMETRIC:
            return ("fn", "arc" + name, *arguments)
        node = ("fn", name, *arguments)
        if name == "log" and base:
            node = ("div", ("fn", "ln", *arguments), ("fn", "ln", base))
        return ("pow", node, exponent) if exponent else node

    def arguments(self):
        opening = self.take("(", "\\{")
        if opening:
            return self.inside(")" if opening == "(" else "\\}")[0]
        node, others = signed(self.take("-"), self.power()), {"(", "["} | {"\\" + name for name in FUNCTIONS}
        while self.starts_factor() and self.next not in others and not self.next[0].isdigit():
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
        rows = [[]]
        while self.next not in ("\\end", ""):
            if self.take("\\\\"):
                rows.append([])
            elif not self.take("&"):
                rows[-1].append(self.items())
        self.need("\\end")
        self.raw_group()
        rows = [row for row in rows if row]
        if not rows:
            raise Unreadable("nothing within")
        relations = any(item[0] == "rel" for row in rows for cell in row for item in cell)
        if name.endswith("matrix") or name == "array" and not relations:
            rows = [[cell[0] for cell in row] for row in rows]
            single = name == "array" and len(rows) == len(rows[0]) == 1
            return rows[0][0] if single else ("det" if name == "vmatrix" else "mat", rows)
        lines = [[item for cell in row for item in cell] for row in rows]
        if name == "cases" and all(len(line) > 1 for line in lines):
            return ("set", [("seq", name, line) for line in lines])  # values, each with its condition
        return ("list", [item for line in lines for item in line])


def described(items, conditions):
    """{x | conditions}, {(x, y) | ...}: the conditions say it all. {2k pi | k in Z}: the integers k do not matter."""
    head = items[0][2][0] if items[0][:2] == ("rel", ("∈",)) else items[0]
    integers = [("rel", ("∈",), [("var", name), ("var", "set Z")]) for name in sorted(variables(head))]
    if len(items) == 1 and head[0] not in ("var", "seq") and conditions == integers:
        return head
    if len(items) > 1 or head[0] != "var" and not (head[0] == "seq" and all(item[0] == "var" for item in head[2])):
        raise Unreadable("a set of values with conditions")
    if head != items[0] and items[0][2][1] != ("reals",):
        conditions = [items[0], *conditions]
    return conditions[0] if len(conditions) == 1 else ("list", conditions)


def spelled(node):
    """A node as a name."""
    if node[0] == "num":
        return f"{node[1].numerator:x}/{node[1].denominator:x}"  # in base 16: no limit of digits
    return "".join([part for part in node[1:] if isinstance(part, str)] + list(map(spelled, children(node))))


def signed(sign, node):
    if sign == "-" and node[0] == "mat":
        return times(("num", Fraction(-1), 0), node)
    if sign == "-" and node[0] == "num":
        return ("num", -node[1], node[2])
    return ("neg", node) if sign == "-" else node


def times(a, b):
    for one, other in ((a, b), (b, a)):
        if one[0] == "mat" and other[0] not in CONTAINERS:
            return ("mat", [[("mul", other, cell) for cell in row] for row in one[1]])
    if a[0] in CONTAINERS or b[0] in CONTAINERS:
        raise Unreadable("a product of things that are not numbers")
    return ("mul", a, b)


CONTAINERS = {"rel", "mod", "seq", "list", "set", "mat", "union", "cap", "minus", "ratio", "reals", "empty"}
CONSTANTS = {
    "pi": ("const", "pi"),
    "infty": ("const", "inf"),
    "emptyset": ("empty",),
    "reals": ("reals",),
} | {"set" + letter: ("var", "set " + letter) for letter in "CNPQZ"}


# ---------------------------------------------------------------------------------------------------------------------
# Keys of what the parser made: (keys, values), see Answer


def keys_of(node):
    kind = node[0]
    if kind in MAKE_KEYS:
        found = MAKE_KEYS[kind](node)
        if not found[0]:
            raise Unreadable("relations that say nothing")
        return found
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
    items = node[1]
    if any(item[0] == "rel" and set(item[1]) <= INEQUALITIES for item in items):
        together = joint_solutions(items)
        if together:
            return [("ineq", *together)], [("iv", together[1])]
    each = tuple(item_key(item) for item in items)
    in_order = ("either", ("seq", "()", each))
    named = [item for item in items if item[0] == "rel" and item[1][0] in "=≈" and is_label(item[2][0])]
    labels = [spelled(item[2][0]) for item in named]
    if len({label.split("_")[0] for label in labels}) == len(items):
        pairs = sorted(zip(labels, each))  # x = 1, y = 2: also the point (1, 2), by the letters or as written
        point = ("seq", "()", tuple(key for _, key in pairs))
        return [("assign", frozenset(pairs))], [point, in_order, ("list", bag(each))]
    return [("list", bag(each))], [in_order, ("set", frozenset(each))]


def set_keys(node):
    keys = frozenset(item_key(item) for item in node[1])
    return [("set", keys), *(keys if len(keys) == 1 and node[1][0][0] not in CONTAINERS - {"rel"} else ())], []


def sequence_keys(node):
    intervals = [("iv", set_of(node))] if is_interval(node) else []
    return [("seq", node[1], tuple(item_key(item) for item in node[2])), *intervals], []


def matrix_keys(node):
    rows = tuple(tuple(item_key(cell) for cell in row) for row in node[1])
    flat = tuple(key for row in rows for key in row)
    return [("mat", rows)], [("seq", "()", flat)] if len(rows) in (1, len(flat)) else []


def ratio_keys(node):
    keys = tuple(expression_key(("div", part, node[1][0])) for part in node[1])
    return [("ratio", keys)], [expression_key(("div", *node[1]))] if len(keys) == 2 else []


def residue_keys(node):
    """3 modulo 7 is 10 modulo 7; it also answers a question for the remainder 3."""
    residue, modulus = written, _ = expression_key(node[1]), expression_key(node[2])
    if whole(residue[1]) and whole(modulus[1]) and modulus[1] > 0:
        residue = ("num", residue[1] % modulus[1])
    return [("mod", residue, modulus)], [("given" if residue == written else "either", residue)]  # 128 mod 3 is 2


def set_of_numbers_keys(node):
    ends, members = found = set_of(node)
    only_points = members and not any(members[::2])
    return [("iv", found)] + ([("set", frozenset(ends))] if only_points else []), []


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
    found, endless = solutions(node), any(map(is_infinite, sides))
    if not set(ops) <= INEQUALITIES:
        raise Unreadable("relations that do not go together")
    keys = [("ineq", *found)] if found else []
    if not endless:
        gaps = [(op, ("add", right, ("neg", left))) for op, left, right in comparisons(node)]
        keys.append(("ineq", frozenset((op, proportions(gap, positive=op != "!=")) for op, gap in gaps)))
    return keys, [("iv", found[1])] if found else []


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
    own = equation(first, last)
    if not is_label(first):
        return own, [("given", right)] if len(variables(first)) > 1 and right != ("num", Fraction(0)) else []
    keys, values = keys_of(last)
    function = re.fullmatch(r"([a-zA-Z]\()(\w)\)", spelled(first))
    if function:  # f(t) = 2t is f(x) = 2x, and also y = 2x and y = 2t
        renamed = replaced(last, ("var", function[2]), ("var", "x"))
        graphs = equation(("var", "y"), renamed) + equation(("var", "y"), last)
        own, values = equation(("var", function[1]), renamed), [*values, *(("either", graph) for graph in graphs)]
    return own, [*keys, *values]


def equation(left, right):
    """Keys that are the same for all multiples: as it stands, and without denominators (y = 1/x is xy = 1)."""
    difference = ("add", left, ("neg", right))
    return [("eq", proportions(difference, value)) for value in (evaluate, lambda *at: as_fraction(*at)[0])]


def replaced(node, old, new):
    """The expression with something else in place of a variable."""
    if node == old:
        return new
    return type(node)(replaced(part, old, new) if isinstance(part, (tuple, list)) else part for part in node)


def is_label(node):
    """x, f(x), AB, |v|, sin x: names for an answer, not equations to be solved."""
    return node[0] == "var" or node[0] == "fn" and node[1] in TRIGONOMETRIC | {"abs"} and is_label(node[2])


# A set of real numbers is (ends, members): its ends as keys, in order, and whether it holds what lies before, at and
# after each. [0, 1) is ((0, 1), (False, True, True, False, False)).

PLUS, MINUS, INEQUALITIES = ("num", "inf"), ("num", "-inf"), {"<", ">", "<=", ">=", "!="}
LINE, NOTHING = ((), (True,)), ((), (False,))
COMBINE = {"union": operator.or_, "cap": operator.and_, "minus": operator.gt}  # True > False: in one, not in the other


def combined(both, a, b):
    """Union, intersection or difference of two sets."""
    ends = {*a[0], *b[0]}
    if any(approximate(end) is None for end in ends):  # a < x < b: nobody knows the order
        return (("expr", both.__name__, (a, b) if both is operator.gt else frozenset((a, b))),), ()
    ends = sorted(ends, key=approximate)
    members = [both(*pair) for pair in zip(sampled(a, ends), sampled(b, ends))]
    kept = [n for n in range(len(ends)) if len(set(members[2 * n : 2 * n + 3])) > 1]
    return tuple(ends[n] for n in kept), (members[0], *(m for n in kept for m in members[2 * n + 1 : 2 * n + 3]))


def sampled(one, ends):
    """Whether the set holds what lies before, at and after each of all these ends."""
    members, n = [one[1][0]], 0
    for end in ends:
        own = n < len(one[0]) and one[0][n] == end
        members += one[1][2 * n + 1 : 2 * n + 3] if own else members[-1:] * 2
        n += own
    return members


def ray(end, closed, up):
    """All numbers above an end, or below."""
    if end in (PLUS, MINUS):
        return LINE if (end == MINUS) == up else NOTHING
    return (end,), (not up, closed, up)


def set_of(node):
    kind = node[0]
    if kind in ("reals", "empty"):
        return LINE if kind == "reals" else NOTHING
    if kind in COMBINE:
        parts = [part if part[0] in CONTAINERS else ("set", [part]) for part in node[1:]]
        return combined(COMBINE[kind], *map(set_of, parts))
    if kind == "set":
        points = [((item_key(item),), (False, True, False)) for item in node[1]]
        return reduce(partial(combined, operator.or_), points)
    found = solutions(node) if kind == "rel" else None
    if found:
        return found[1]
    if not is_interval(node):
        raise Unreadable("not a set of numbers")
    low, high = map(expression_key, node[2])
    return combined(operator.and_, ray(low, node[1][0] == "[", True), ray(high, node[1][1] == "]", False))


def is_interval(node):
    if node[0] != "seq" or len(node[2]) != 2 or any(item[0] in CONTAINERS for item in node[2]):
        return False
    low, high = (approximate(expression_key(item)) for item in node[2])
    return None in (low, high) or low < high or low == high and node[1] == "[]"


def is_infinite(node):
    return node == ("const", "inf") or node == ("neg", ("const", "inf"))


def joint_solutions(items):
    """x > 1, x < 3: an interval. x < 1, x > 3: no number is both, so it means a union. None, if not of one variable."""
    found = []
    for item in items:
        if item[0] != "rel" and items[0][:2] == ("rel", ("!=",)):
            item = ("rel", ("!=",), [items[0][2][0], item])  # x != 0, 1
        found.append(solutions(item) if item[0] == "rel" else None)
    if None in found or len({name for name, _ in found}) > 1:
        return None
    both = reduce(partial(combined, operator.and_), [numbers for _, numbers in found])
    either = reduce(partial(combined, operator.or_), [numbers for _, numbers in found])
    return found[0][0], either if both == NOTHING else both


def solutions(node):
    """(variable, set of numbers) of an inequality, or None if it is not linear in one variable."""
    ops, sides = node[1], node[2]
    if ops == ("∈",):
        return spelled(sides[0]), set_of(sides[1])
    if not set(ops) <= INEQUALITIES | {"="}:
        return None
    middle = sides[1][1] if len(sides) == 3 and sides[1][0] == "var" else None
    found = [solved(op, left, right, middle) for op, left, right in comparisons(node)]
    if None in found or len({name for name, _ in found}) > 1:
        return None
    return found[0][0], reduce(partial(combined, operator.and_), [numbers for _, numbers in found])


def comparisons(node):
    """(op, left, right) of each link of a chain, > turned into <."""
    links = zip(node[1], node[2], node[2][1:])
    return [(op.replace(">", "<"), right, left) if ">" in op else (op, left, right) for op, left, right in links]


def solved(op, left, right, middle=None):
    """(variable, the numbers for which left op right)."""
    for side, other in ((left, right), (right, left)):
        alone = side[0] == "var" and side[1] not in variables(other)
        if alone and (middle == side[1] or not middle and other[0] != "var"):
            end, points = expression_key(other), {"!=": (True, False, True), "=": (False, True, False)}
            return side[1], ((end,), points[op]) if op in points else ray(end, op == "<=", side is right)
        if side[:2] == ("fn", "abs") and not variables(other) and op in ("<", "<="):  # |u| < c: -c < u < c
            pairs = [(side[2], other), (("neg", other), side[2])]
            parts = [solved(op, *(pair if side is left else pair[::-1])) for pair in pairs]
            both = operator.and_ if side is left else operator.or_
            return None if None in parts else (parts[0][0], combined(both, parts[0][1], parts[1][1]))
    names, difference = variables(("add", left, right)), ("add", right, ("neg", left))
    if len(names) != 1 or op not in ("<", "<="):
        return None
    x, f = zip(*((point(*names, k), evaluate(difference, k)) for k in range(4)))  # a x + b > 0: x > -b/a or x < -b/a
    slopes = [calculate("div", calculate("add", f[k], -f[0]), x[k] - x[0]) for k in (1, 2, 3)]
    if len(set(map(number_key, slopes))) > 1 or not real(slopes[0]):
        return None
    end = calculate("add", x[0], -calculate("div", f[0], slopes[0]))
    return *names, ray(number_key(end), op == "<=", real(slopes[0]) > 0)


MAKE_KEYS = {
    "list": list_keys, "set": set_keys, "seq": sequence_keys, "mat": matrix_keys, "rel": relation_keys,
    "ratio": ratio_keys, "mod": residue_keys,
} | dict.fromkeys(("union", "cap", "minus", "reals", "empty"), set_of_numbers_keys)  # fmt: skip

# ---------------------------------------------------------------------------------------------------------------------
# Values of expressions: a Fraction where exact, else a number of mpmath with 70 digits


def expression_key(node):
    """A constant's number; an expression's values at four points, without those not real if others are."""
    if is_infinite(node):
        return PLUS if node[0] == "const" else MINUS
    if not variables(node):
        return number_key(evaluate(node, 0))
    values = [value_at(node, k, evaluate) for k in range(4)]
    if values.count(None) > 2:
        raise TooComplex
    reals = [value if value is not None and real(value) is not None else None for value in values]
    chosen = values if has_i(node) or not any(reals) else reals
    keys = tuple(value if value is None else number_key(value) for value in chosen)
    return keys[0] if len(set(keys)) == 1 else ("expr", keys)


def proportions(node, value=None, positive=False):
    """The values of an expression divided by the first (or its size): the same for all (positive) multiples."""
    values = [value_at(node, k, value or evaluate) for k in range(4)]
    known = [value for value in values if value]
    if len(known) < 2:
        raise TooComplex
    unit = abs(known[0]) if positive else known[0]
    return tuple(value if value is None else number_key(calculate("div", value, unit)) for value in values)


def value_at(node, k, value):
    try:
        return value(node, k)
    except (ZeroDivisionError, TooComplex):
        if time.monotonic() > CLOCK[0]:
            raise TooComplex from None
        return None


def as_fraction(node, k):
    """(numerator, denominator) of an expression's value."""
    if node[0] == "neg":
        a, b = as_fraction(node[1], k)
        return -a, b
    if node[0] == "pow" and node[2][0] == "num" and node[2][1] < 0:
        return as_fraction(("div", ("num", Fraction(1), 0), ("pow", node[1], ("num", -node[2][1], 0))), k)
    if node[0] not in ("add", "mul", "div"):
        return evaluate(node, k), Fraction(1)
    (a, b), (c, d) = as_fraction(node[1], k), as_fraction(node[2], k)
    if node[0] == "add" and b == d:
        return calculate("add", a, c), b
    if node[0] == "add":
        return calculate("add", calculate("mul", a, d), calculate("mul", c, b)), calculate("mul", b, d)
    c, d = (d, c) if node[0] == "div" else (c, d)
    if not d:
        raise ZeroDivisionError
    return calculate("mul", a, c), calculate("mul", b, d)


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
    found = set().union(*map(variables, children(node)))
    return found - {node[1][1]} if node[0] in ("sum", "prod") else found


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
    if kind in ("sum", "prod"):
        return series(node, k)
    if kind == "det":
        return determinant([[evaluate(cell, k) for cell in row] for row in node[1]])
    if kind != "const" or node[1] == "inf":
        raise Unreadable(f"no value: {kind}")
    mp = multiprecision()
    return {"pi": +mp.pi, "e": +mp.e, "i": mp.mpc(0, 1)}[node[1]]


def series(node, k):
    kind, counter, start, end, term = node
    start, end = evaluate(start, k), evaluate(end, k)
    if not whole(start) or not whole(end) or end - start > 1000:
        raise TooComplex
    total = Fraction(int(kind == "prod"))
    for n in range(int(start), int(end) + 1):
        value = evaluate(replaced(term, counter, ("num", Fraction(n), 0)), k)
        total = calculate("add" if kind == "sum" else "mul", total, value)
    return total


def determinant(rows):
    """By the first row; a zero there costs nothing."""
    if any(len(row) != len(rows) for row in rows):
        raise Unreadable("no determinant")
    if len(rows) > 6:
        raise TooComplex
    total = Fraction(int(not rows))
    for n, value in enumerate(rows[0] if rows else ()):
        if value:
            minor = determinant([row[:n] + row[n + 1 :] for row in rows[1:]])
            total = calculate("add", total, calculate("mul", value * (-1) ** n, minor))
    return total


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


def whole(value):
    return isinstance(value, Fraction) and value.denominator == 1


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
    x = arguments[0]
    if name.startswith("call "):  # an unknown function: any that obeys no law will do
        weights = [point(name, 1) + n for n in range(len(arguments))]
        return sum(w * multiprecision().sin(w * v**2) for w, v in zip(map(inexact, weights), map(inexact, arguments)))
    if name == "binom" and len(arguments) == 2:
        n, k = map(rational, arguments)
        if all(whole(value) and 0 <= value <= 3000 for value in (n, k)):
            return Fraction(math.comb(int(n), int(k)))
        return calculate("div", factorial(n), calculate("mul", factorial(k), factorial(calculate("add", n, -k))))
    if name in ("max", "min") and all(real(value) is not None for value in arguments):
        return {"max": max, "min": min}[name](map(real, arguments), key=inexact)
    if name in ("gcd", "lcm") and all(map(whole, arguments)):
        return Fraction(getattr(math, name)(*map(int, arguments)))
    if len(arguments) > 1 or name in ("binom", "max", "min", "gcd", "lcm", "det"):
        raise Unreadable(f"{name} of these")
    if name == "abs":
        return abs(x)
    if name == "factorial":
        return factorial(rational(x))
    if real(x) is not None and name in ("floor", "ceil"):
        x = rational(x)
        return Fraction(int(getattr(math if isinstance(x, Fraction) else multiprecision(), name)(real(x))))
    return elementary(name, inexact(x))


def elementary(name, x):
    """sin, ln and the like, with care where rounding hides a zero or a pole."""
    mp, logarithm = multiprecision(), name in ("ln", "log", "lg")
    if abs(x) > 10**6 and not logarithm:
        raise TooComplex
    if logarithm and not x:
        raise ZeroDivisionError
    value = getattr(mp, "log" if logarithm else name.replace("arc", "a"))(x)
    rounding = mp.mpf(10) ** (20 - DIGITS)
    if name in TRIGONOMETRIC and abs(value) < rounding:
        return Fraction(0)  # sin pi
    if name in TRIGONOMETRIC and abs(value) * rounding > 1:
        raise ZeroDivisionError  # tan of a right angle
    return value / mp.log(10) if name in ("log", "lg") else value


def factorial(x):
    if not abs(x) <= (3000 if whole(x) else 1000):
        raise TooComplex
    if whole(x):
        if x < 0:
            raise ZeroDivisionError
        return calculate("mul", Fraction(1), Fraction(math.factorial(int(x))))
    return multiprecision().gamma(inexact(x) + 1)


if __name__ == "__main__":
    common.entry(main, "judged problems are kept in the run folder; the same command goes on with the others")
