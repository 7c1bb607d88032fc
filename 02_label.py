"""Judge every rollout of a run: run its code against the tests, or compare its answer with the reference.

    python 02_label.py RUN [RUN ...]            # reads problems.jsonl and rollouts.jsonl, writes labels.jsonl
    python 02_label.py DATASET --self-check     # are these labels to be trusted? solutions pass, stubs fail

RUN is a folder that 01_generate.py made. A row of labels.jsonl: {"id", "sample", "label": 1|0|null, "answer",
"group", "reason"}, one for each rollout, in the same order. null means could not be judged, and why; answers
of one problem that are equal share a group number (null: no answer, or code), so that votes need no maths.

To judge maths elsewhere, copy this file and common.py's split_reasoning:

    judge = importlib.import_module("02_label")
    answer = judge.answer_of("Adding up, the answer is $x = \\frac{1}{2}$.")     # it never sees the reference
    judge.same("0.5", answer)                                                    # True

In this file: the judge, then extraction of code and of answers, then equality of answers and the parser.
Model-written programs run in the sandbox only; model-written formulas are parsed and never run as code.
"""

import argparse
import ast
import cmath
import hashlib
import json
import math
import operator
import re
import sys
import textwrap
import warnings
import zlib
from collections import Counter, namedtuple
from fractions import Fraction
from functools import lru_cache, partial, reduce
from itertools import chain
from pathlib import Path

import common
from common import split_reasoning

CPU_S = 10  # seconds of processor time for one program and its tests

# ------------------------------------------------------------------------------------------------------------
# The judge


def main():
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    add = parser.add_argument
    add("targets", nargs="+", metavar="RUN", help="run folders; with --self-check data set names or files")
    add("--self-check", action="store_true", help="judge the data set's own reference solutions and stubs")
    add("--workers", type=int, help="programs judged at the same time (default: one a core)")
    add("--timeout", type=float, default=CPU_S, help=f"processor seconds for a program (default {CPU_S})")
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
    rows = common.read_jsonl(run / "problems.jsonl", needs=("id", "kind", "prompt"))
    problems = {row["id"]: row for row in rows}
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
    """Labels of all rollouts. Those of a finished problem are kept: a killed run goes on from there."""
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
    """Labels of one problem whose answers are compared: with the reference and, for votes, mutually."""
    if problem["kind"] == "code":
        return [label_row(row, None, None, None, "no tests") for row in rows]
    extract, group = (text_of, text_groups) if problem["kind"] == "text" else (answer_of, groups_of)
    answers = [extract(row["response"]) for row in rows]
    verdicts = {answer: verdict(problem, answer) for answer in dict.fromkeys(answers)}
    judged = zip(rows, answers, group(answers))
    return [label_row(row, label, answer, number, reason)
            for row, answer, number in judged for label, reason in [verdicts[answer]]]


def verdict(problem, answer):
    """(1, 0 or None, the reason) for an answer to a problem."""
    if problem.get("answer") is None:
        return None, "no answer" if answer is None else "no reference"
    if answer is None:
        return 0, "no answer"
    reference = str(problem["answer"])
    if problem["kind"] == "text":
        right = words_of(answer) == words_of(reference)
    elif (answer != reference and repeats(answer, problem["prompt"])
          and read(answer).text != read(reference).text):
        return 0, "repeats the question"
    else:
        right = same(reference, answer)
        if not right and read(answer).thing[0] == "too complex":
            return 0, "too complex"
    return int(right), "equal" if right else "different"


def words_of(text):
    return re.sub(r"\W+", " ", text).strip().casefold() or text.strip()


def text_groups(answers):
    numbers = {}
    return [answer and numbers.setdefault(words_of(answer), len(numbers)) for answer in answers]


def label_row(row, label, answer, number, reason):
    if row.get("finish") == "length" and label == 0:
        reason = f"cut at the length limit: {reason}"
    answer = answer and answer[:1000].encode(errors="replace").decode()  # half of a surrogate pair
    key = {"id": row["id"], "sample": row["sample"]}
    return {**key, "label": label, "answer": answer, "group": number, "reason": reason}


def judge_programs(problems, rollouts, options):
    """Labels of problems with tests, as each is done; equal programs for one problem run once."""
    programs = {key: [extract_code(row["response"], problems[key]) for row in rows]
                for key, rows in rollouts.items()}
    wanted = [(key, code) for key, codes in programs.items() for code in dict.fromkeys(codes)]
    jobs = [((key, code), job_of(problems[key], code, options)) for key, code in wanted]
    waiting, reasons = Counter(key for key, _ in wanted), {}
    for (key, code), result in run_all(jobs, options):
        reasons[key, code] = (None if result.passed is None else int(result.passed)), result.reason
        waiting[key] -= 1
        if not waiting[key]:
            verdicts = [reasons[key, code] for code in programs[key]]
            yield [label_row(row, label, None, None, reason)
                   for row, (label, reason) in zip(rollouts[key], verdicts)]


def job_of(problem, code, options):
    fields = ("tests", "style", "entry_point", "prelude", "beside")
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
        announce(pool.banner)
        yield from pool.imap_unordered(jobs)


@lru_cache
def announce(banner):
    """Once a command, however many runs it labels."""
    print(textwrap.fill(banner, 110), file=sys.stderr)


def summary(run, problems, labels):
    judged = [row for row in labels if row["label"] is not None]
    right = sum(row["label"] for row in judged)
    solved, judgeable = {row["id"] for row in judged if row["label"]}, {row["id"] for row in judged}
    reasons = [row["reason"][:100] if row["label"] is None else row["reason"].partition(":")[0]
               for row in labels]
    return {
        "run": str(run), "problems": len(problems), "rollouts": len(labels),
        "right": right, "wrong": len(judged) - right, "not_judged": len(labels) - len(judged),
        "no_answer": sum(row["reason"].endswith(("no answer", "no code")) for row in labels),
        "right_percent": percent(right, len(judged)), "oracle_percent": percent(len(solved), len(judgeable)),
        "reasons": dict(Counter(reasons).most_common()),
    }  # fmt: skip


def percent(part, whole):
    return round(100 * part / whole, 2) if whole else None


def report(summaries, options):
    columns = ["problems", "rollouts", "right", "right_percent", "wrong", "not_judged", "oracle_percent"]
    columns.append("no_answer")
    header = ["run", *(column.replace("_percent", " %").replace("_", " ") for column in columns)]
    print(common.table(header, [[line["run"], *(line[column] for column in columns)] for line in summaries]))
    for line in summaries:
        counts = ", ".join(f"{count} {reason}" for reason, count in line["reasons"].items())
        print(f"{line['run']}: {counts}")
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
    jobs = [((row["id"], "solution"), job_of(row, row["solution"], options))
            for row in code if row["id"] in solved]
    jobs += [((row["id"], "stub"), job_of(row, stub_of(row), options)) for row in code]
    failures = []
    results = common.progress(run_all(jobs, options), len(jobs), f"check {dataset}", "program")
    for (key, what), result in results:
        # a stub that cannot be judged is none, where the tests work for the solution
        unjudged_stub = what == "stub" and result.passed is None and key in solved
        if result.passed is not (what == "solution") and not unjudged_stub:
            failures.append(f"{key}: its {what}: {result.reason}")
    unequal = [row for row in answers if not equals_itself(row)]
    failures += [f"{row['id']}: the answer {row['answer']!r} is not equal to itself" for row in unequal]
    print("".join(line + "\n" for line in sorted(failures)), end="")
    print(
        f"{dataset}: {len(solved)} reference solutions, {len(code)} stubs and {len(answers)} answers "
        f"checked, {len(failures)} failures; {len(code) - len(solved)} problems have tests but no reference "
        f"solution, "
        f"{len(problems) - len(code) - len(answers)} nothing to check"
    )
    counts = {"problems": len(problems), "solutions": len(solved), "stubs": len(code)}
    counts["answers"] = len(answers)
    if options.json:
        print(json.dumps({"dataset": str(dataset), **counts, "failures": len(failures)}))
    return failures


def equals_itself(problem):
    """Would its own reference answer, in a box, be judged right?"""
    extract = text_of if problem["kind"] == "text" else answer_of
    answer = extract(f"Therefore the answer is $\\boxed{{{problem['answer']}}}$.")
    return verdict({**problem, "prompt": ""}, answer)[0] == 1


def stub_of(problem):
    """The reference solution with empty functions; it must fail."""
    tree = parsed(problem["solution"]) if "solution" in problem else None
    if tree is None:
        name = problem.get("entry_point")
        return f"def {name}(*args, **kwargs):\n    pass\n" if name else "pass\n"
    if isinstance(problem["tests"], dict):
        return "pass\n"
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            node.body = [ast.Pass()]
    return ast.unparse(tree) + "\n"


# ------------------------------------------------------------------------------------------------------------
# Extraction of code

FENCE = re.compile(r"^([ \t]*)(```+|~~~+)(.*)$")
OPENING = re.compile(r"^(.*[>:*][ \t]*)(```+|~~~+)([ \t]*\w*[ \t]*)$")  # on the line of a tag or of words
INPUT = re.compile(r"\binput\(|\bstdin\b|\bopen\(0")


def extract_code(response, problem):
    """The program a response gives, or None.

    The last block that defines the wanted name; else the last that is the body of the function the prompt
    opens; else the last that defines a function or class (or, where no name is asked for, reads input),
    before one that only uses them; else the last; else the text itself, if it is a program.
    """
    final = SPECIAL.sub("", split_reasoning(response)[1]).replace("\r\n", "\n").replace("\r", "\n")
    blocks = [block for block in code_blocks(final) if block.strip()]
    name, trees = problem.get("entry_point"), [(block, tree) for block in blocks if (tree := parsed(block))]

    def last(serves):
        return next((block for block in reversed(trees) if serves(*block)), None)

    found = last(lambda _, tree: name in defined(tree)) or last(lambda _, tree: name in assigned(tree))
    if found:
        return found[0]
    body = next(filter(None, (as_body(block, problem) for block in reversed(blocks or [final]))), None)
    if body:
        return body
    found = last(lambda block, tree: defined(tree) if name else INPUT.search(block))
    found = found or last(lambda _, tree: assigned(tree)) or last(lambda *_: True)
    if found:
        return with_wanted_name(*found, problem)
    tree = None if blocks else parsed(final)
    if tree and is_program(tree):
        return with_wanted_name(final, tree, problem)
    return blocks[-1] if blocks else None


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
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a model's slips, such as 1if x
            return ast.parse(code)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None


def is_program(tree):
    """Prose that parses ("Hello", "Answer: 5") is none; print(sum(map(int, input().split()))) is one."""
    lone = tree.body[0] if len(tree.body) == 1 else None
    calls = any(isinstance(node, ast.Call) for node in ast.walk(tree))
    prose = isinstance(lone, (ast.Expr, ast.AnnAssign)) and not calls
    return bool(tree.body) and not prose


def defined(tree):
    """Names of the functions and classes at the top of a program."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return [node.name for node in tree.body if isinstance(node, kinds)]


def assigned(tree):
    targets = [target for node in tree.body if isinstance(node, ast.Assign) for target in node.targets]
    return [target.id for target in targets if isinstance(target, ast.Name)]


def as_body(code, problem):
    """prompt + completion, where the prompt opens a function and the completion is its body."""
    prelude = problem.get("prelude", "")
    if problem.get("entry_point") not in defined(parsed(prelude + "\n    pass\n") or ast.parse("")):
        return None
    tree = parsed(code)
    if tree is None and code.lstrip("\n").startswith((" ", "\t")):
        body = code
    else:
        tops = [top for top in tree.body if not hasattr(top, "name")] if tree else []
        loose = [node for top in tops for node in ast.walk(top)]
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


# ------------------------------------------------------------------------------------------------------------
# Answers: which one does a response give? Formulas are set between START and END in place of $...$ and the
# like, so that a sentence can be cut between them.

START, END, TAIL = "\x02", "\x03", 8000  # only this many characters from the end are searched for phrases
BOX, BRACE = re.compile(r"\\(?:boxed|fbox)\b\s*"), re.compile(r"\\.|[{}]", re.S)
BARE_BOX = re.compile(r"[^\s$\\{}]+")
JOINS_BOXES = re.compile(
    r"[\s$,;.、和]*(?:(?:and|or|\\text *\{ *(?:and|or) *\})[\s$]*)?(?:[a-zA-Z](?:_\{?\w\}?)? *= *)?"
)
FORMULA = re.compile(
    r"\$\$([^$]{1,2000})\$\$|\$ ([^$]+) \$|\$(?! )([^$]+)(?<! )\$(?!\d)|\\\(((?:(?!\\\().){1,2000}?)\\\)"
    r"|\\\[((?:(?!\\\[).){1,2000}?)\\\]"
    r"|(\\begin\{(align|gather|equation|[pb]matrix)\*?\}.{1,2000}?\\end\{\7\*?\})",
    re.S,
)
LINES = re.compile(
    r"\s*\\begin\{(?:align|gather|equation)(?:ed)?\*?\}(?:.*\\\\)?(.*?\w.*?)(?:\\\\)?\s*\\end\{", re.S)
ANSWER = re.compile(  # what announces an answer
    r"####|<answer>|(?:^|\n)\W{0,20}A(?:ns)?:|(?<!\w)(?:answers?|(?:correct|right) (?:option|choice))\b"
    r"(?:(?!\b(?:not|never)\b|n't\b|cannot)[^\n.:=$]|\.\d){0,60}?(?:\bis\b|\bare\b|\bbe\b|[:=→]|\n| - )"
    r"|\b(?:option|choice)\s+(?=[*$\x02]*\(?[A-J]\b)"
    r"|答案(?:应该)?(?:是|为|：|:)+|[选答](?:择|：|:)*(?=[\s*]*[A-J\d\x02$(-])",
    re.I,
)
RESULT = re.compile(
    r"(?<!\w)results?\b(?:[^\n.:=$]|\.\d){0,40}?(?:\bis\b|[:=])"
    r"|(?:是|为|有|：|等于|了|需要|得)(?=[\s*]*[\d\x02$(-])", re.I
)
LEAD_IN = re.compile(
    r"(?:\n *- |[\s:*_=#>,}]|(?:therefore|thus|then|hence|so|simply|just|indeed|option|choice"
    r"|equal to|it (?:is|equals)|it's"
    r"|there (?:is|are)|finally|(?:we|this) (?:have|get|find|obtain|conclude|gives?(?: us)?)|comes out to)\b"
    r"|not\b *[-$\d\\(\x02][^,.;\n]*?(?:[,;]|\bbut\b)"
    r"|(?:(?:the|an?|ordered|pair|point|interval|triple|vector|set|number|value|of|coordinates) +)+"
    r"(?=[\d(\[\\\x02$-]))*",
    re.I,
)
VERB = re.compile(
    r"\b(?:is|are|be|equals?|costs?|gives?(?: us)?|get|got|obtain|have|has)\b"
    r"(?=[\s*]*(?:minus|negative|[-–−]?\s?[\d\x02$(√.]))"
)
NOT_ANSWERS = re.compile(
    r"(?:[Cc]orrect|[Rr]ight|[Ww]rong|[Ii]ncorrect|clear|obvious|obtained|given|found|shown|as follows"
    r"|below|above|unique"
    r"|not (?:known|clear)|in (?:the )?(?:form|simplest|box)|that|what|to|of|we|you|and)\b(?!\))[^\d\x02]*$"
)
CONNECTOR = re.compile(r"(?:\s|,|;|and|or|\\text\{ *(?:and|or) *\})*")
SIGN = re.compile(r"(?:[-–—−]|minus\b|negative\b)\s*")
NUMBER = re.compile(
    r"(?<![\w.])(?:-|− ?)?\$?(?:\d+(?:,\d{3})*(?:\.\d+)?|\.\d+)(?:e[+-]?\d+|[/:]\d+)?%?(?: ?π)?"
    r"(?! *[+*/^=]|(?!cm|mm|km|kg|ml|ft|mph|th|st|nd|rd)[A-Za-z\d])"
)
SENTENCE_END = re.compile(
    r"</answer>|(?<!\.)\.(?=\s|$|\*)|[。，]|\n|(?<=[\d\x03])\s*[\u4e00-\u9fff]"
    r"|[,;]?\s+\(?(?:since|because|which|where|as|when|so|but|and (?:we|this|it)|i\.e\.|that is"
    r"|or (?:about|roughly|approximately)|rather than|instead of|is (?:the|correct|right))(?!\w)"
    r"|\s+\((?:or|about)\b|,\s+(?:not|no|wait)\b"
)
SENTENCE = re.compile(r"(?<=[.!?:])(?<!\\[!:])[\s*]+(?=\S)|\n|[。；]")
SPECIAL = re.compile(
    r"<\|[^|<>]{1,40}\|>|</?s>|<eos>|<end_of_turn>|\n(?:I hope this|Let me know|Feel free)[^\n]*$")
QED = re.compile(
    r"\$\s*\\(?:(?:black)?square|qed|checkmark)\s*\$|\\(?:(?:black)?square|qed|checkmark)(?![a-z])"
    r"|[∎■□✓✔✅]"
)
CHATTER = re.compile(
    r"\W*(?:I hope|Let me know|Feel free|Note|This (?:match|agree|is because|work|confirm|satisf)|Check"
    r"|Verif|Please"
    r"|If you)|.*:$"
)
ASIDE = re.compile(  # at the end: "(since x > 0)" and "because x > 0" are not the answer
    r"\s\((?:since|because|as|where|when|about|or|rejecting|discarding)\b[^()\n]*\)[\s.]*$"
    r"|(?<=[\w$)}\]\x03]),?\s+(?:since|because|attained|achieved|which|where)\b"
    r"(?![^\n]*\b(?:so|thus|then|hence|therefore|we)\b)[^\n]*$"
)
CLAUSE = re.compile(r"(?is)^.*(?:^|[,;:]|\s)\s*(?:so|hence|thus|therefore|then)\b(?=.*[\d\x02])[\s,:]*")
SUBJECT = re.compile(
    r"(.*?[\d\x03]\S*) (?:is|are) "
    r"(?:indeed|also|our|my|the (?:final |correct |right )?(?:answer|result|number|value|solution)s?)\b"
)
NEGATED = re.compile(
    r"(?i)(?:\b(?:not|cannot|never|neither|(?:at|more|less|fewer|greater) (?:least|most|than))|n't)"
    r"(?: \w+){0,2} *$"
)
RETRACTED = re.compile(r"\b(?:wait|actually|correction|scratch that|sorry|oops)\b", re.I)
PROSE = re.compile(  # words that no formula has
    r"(?<![A-Za-z\\{])"
    r"(?:(?!and\b|sqrt|sin|cos|tan|log|minus|negative|infinity|degrees?\b|percent|text|mod|pi\b)"
    r"(?:[a-z]{3}|[A-Z][a-z]{2})|(?:an|as|at|by|he|if|is|it|of|on|so|we)\b)"
)
NUMBER_AND_NOUN = re.compile(
    r"[^A-Za-z]*[\d%](?: (?!and\b|or\b)[A-Za-z/]+)*(?: \d+(?<=base \d))?\.?"
    r"|(?:\\[a-z]+|[^A-Za-z])*[\d}π](?: (?!and\b|or\b)[A-Za-z]+){1,3}\.?"
)
ORDINARY = re.compile(r"(?!sqrt|minus|negative|sin|cos|tan|log|ln|pi)(?:\(?[A-Za-z]{2}|[^\w\x03$\\(\[{]*$)")


def answer_of(response):
    """The answer a response gives, as it is written there, or None. It never sees the reference.

    In this order: the last box of the part after the reasoning, what "the answer is" announces, the whole of
    a short response, the end of its last sentence that says something.
    """
    reasoning, final = split_reasoning(response)
    final = QED.sub("", SPECIAL.sub("", once_escaped(final[-100_000:]))).strip()
    found = told(final) or (boxed(reasoning) if not final else None)
    if found or not final:
        return found  # cut off while reasoning, and nothing boxed yet
    text = with_marks(final[-TAIL:])
    bare = text[LEAD_IN.match(text).end() :]
    one_formula = START not in bare[1:] and bare.find(END) in (-1, len(bare) - 1, len(bare) - 2)
    if one_formula and is_bare(unmarked(bare)):
        return unmarked(bare)
    sentences = SENTENCE.split(text)[-8:]
    return next(filter(None, (ending(part) for part in reversed(sentences) if not CHATTER.match(part))), None)


def told(text):
    """The answer that a text gives in a box or announces, or None."""
    found = boxed(text)
    if found:
        return found
    text = with_marks(text[-TAIL:])
    phrases = [phrase for kind in (RESULT, ANSWER) for phrase in [*kind.finditer(text)][-3:]]
    return next(filter(None, (announced(text[phrase.end() :]) for phrase in reversed(phrases))), None)


def with_marks(text):
    def mark(formula):
        inner = next(group for group in formula.groups() if group is not None)
        last_line = LINES.match(inner)
        inner = last_line[1].strip().lstrip("&= ") if last_line else inner
        return f"{START}{' '.join(inner.split())}{END}"

    text = re.sub(r"(?<=\d)，(?=[-\d])", ",", text.translate({ord("（"): "(", ord("）"): ")", ord("−"): "-"}))
    return FORMULA.sub(mark, re.sub(rf"[{START}{END}]|[ \t]+(?=[ \t])", "", text))


def unmarked(text):
    text = BOLD.sub("", text.replace(START, " ").replace(END, " ")).strip(' *_`"\n')
    return text if text.endswith("...") else text.rstrip(" .,;:?*_")


def boxed(text):
    """The content of the last box; of the last few, if they are joined by commas or "and"."""
    found = boxes(text)
    parts = found[-1:]
    for box in reversed(found[:-1]):
        gap = text[box[1] : parts[0][0]][:40]
        if not JOINS_BOXES.fullmatch(gap):
            break
        parts.insert(0, box)
    minus = [re.search(r"(?:^|[=$:(\s])[-−–] ?$", text[max(0, box[0] - 3) : box[0]]) for box in parts]
    return ", ".join(dict.fromkeys("-" * bool(sign) + box[2] for sign, box in zip(minus, parts))) or None


def boxes(text):
    """(start, end, content) of the last non-empty boxes that are not within another, in order."""
    found = []
    for box in [*BOX.finditer(text)][-20:]:
        start, bare = box.end(), BARE_BOX.match(text, box.end())
        if found and box.start() < found[-1][1]:
            continue
        stop = bare.end() if bare else closing_brace(text, start)
        if stop is None and not found:  # the brace is forgotten
            stop = re.compile(r"[^$\n]*").match(text, start).end()
        content = unmarked(text[start:stop].removeprefix("{")) if stop else ""
        if content:
            found.append((box.start(), stop + (text[stop : stop + 1] == "}"), content))
    return found


def closing_brace(text, start):
    depth = 0
    for brace in BRACE.finditer(text, start, start + 2000):
        depth += {"{": 1, "}": -1}.get(brace[0], 0)
        if not depth:
            return brace.start()
    return None


def announced(tail):
    """The answer at the start of the text that follows "the answer is"."""
    tail = tail[LEAD_IN.match(tail[:1000]).end() :][:1000]
    end = next((end for end in SENTENCE_END.finditer(tail) if not within_formula(tail, end.start())), None)
    sentence, rest = (tail[: end.start()], tail[end.start() :].partition("\n\n")[0]) if end else (tail, "")
    retracted = RETRACTED.search(tail.partition("\n\n")[0])
    if retracted:
        return ending(tail[retracted.end() :].partition("\n\n")[0])
    sentence = re.sub(r"^(\W*[\d,.]*\d)!+\s*$", r"\1", sentence)  # the answer is 42! is no factorial
    sign = SIGN.match(sentence)
    at = sign.end() if sign else 0
    found = formula_run(sentence, at) if sentence[at : at + 1] == START else beginning(unmarked(sentence))
    if end and end[0].endswith(("i.e.", "that is")) and read(found).thing[0] == "text":
        return announced(rest[len(end[0]) :])  # between 2 and 5, i.e. (2, 5)
    if not found or NOT_ANSWERS.match(found):
        return None
    value = re.match(rf" *= *([^{END}\n]+)", rest.partition(found)[2]) if re.search("[a-z]", found) else None
    return value[1] if value else found  # m + n, where ..., so m + n = 204


def within_formula(text, at):
    in_braces = text.count("{", 0, at) > text.count("}", 0, at)
    return in_braces or text.rfind(START, 0, at) > text.rfind(END, 0, at)


def beginning(text):
    """The longest beginning of a text that is a formula, if no word that changes it follows, or all."""
    words = re.sub(r"\\text *\{|\bI\b.*", " ", text).split()[:14]
    if is_formula(text):
        return text
    for n in range(len(words), 0, -1):
        if words[0] not in ("a", "A") and is_formula(" ".join(words[:n])):
            rest = " ".join(words[n:])
            next_word = rest.partition(" ")[0].lower().strip("(,.;")
            more = re.search(r"\d|\b(?:none|more|less|fewer|greater)\b", rest)
            changed = next_word in ("and", "or") and more
            changed = changed or next_word in NO_NOUNS and not re.match(r"more(?! than)", rest)
            return text if changed else unmarked(" ".join(words[:n]))
    return re.sub(r"(?i)^(yes|no|true|false)\b[,;].*", r"\1", text)


def formula_run(text, at):
    """The formula at this place with its sign, those joined to it, and what changes its meaning."""
    parts, gap = [], None
    while not gap or gap[0].strip() and text[at : at + 1] == START:
        before = text[:at]
        sign = re.search(r"(?:^|[^\w\s]\s*|\s)(?:[-–—−]|minus|negative)\s*$", before)
        sign = sign and before[-3:] != "\n- "
        stop = text.find(END, at)
        parts.append("-" * bool(sign) + unmarked(text[at + 1 : stop]))
        gap = CONNECTOR.match(text, stop + 1)
        more = SIGN.match(text, gap.end())
        at = more.end() if more else gap.end()
    rest = text[stop + 1 :].strip()
    word = re.match(r"[^\s.,;]*", rest)[0].lower()
    cases = word != "for" or re.search(r"\b(?:and|or|if|else)\b", rest[3:])  # 11 for n = 5 is 11
    changed = word in SCALES or word in ("or", "times", "percent", "cents") or word[:1] in ("%", "\\", "¢")
    return ", ".join(parts) + (f" {unmarked(rest)}" if changed or word in NO_NOUNS and cases else "")


def is_bare(text):
    """A response that is nothing but an answer."""
    if is_formula(text):
        return not re.search(r"[A-Za-z]{2,},? +[a-z]{2,}\b", text) or len(text.split()) <= 3
    few = 0 < len(text.strip(",:").split()) <= 6
    return few and not re.search(r"\d", text) and not ANSWER.search(text)


def ending(sentence):
    """The answer that a sentence ends in, if it was not announced: so x = 5 and y = 3. He has 7 nickels."""
    sentence = sentence.strip()[-400:]
    bold = re.search(r"\*\*([^*]+)\*\*\W*$", sentence)
    if bold and not bold[1].rstrip().endswith(":"):
        return unmarked(bold[1])
    sentence = CLAUSE.sub("", BOLD.sub("", ASIDE.sub("", sentence)))
    subject = SUBJECT.match(sentence)
    sentence = subject[1] if subject else sentence
    verbs = [*VERB.finditer(sentence)]
    if verbs and not NEGATED.search(sentence[: verbs[-1].end()]):
        found = announced(sentence[verbs[-1].end() :])
        if found and (is_formula(found) or not re.search(r"\d", found) or NO_NOUNS & {*found.split()}):
            return found
    words = re.findall(r"[^\s\x02]*\x02[^\x03]*\x03\S*|\S+", sentence)[-14:]
    for n, word in enumerate(words):
        if not ORDINARY.match(word) and not NEGATED.search(" ".join(words[:n])):
            found = unmarked(" ".join(words[n:]))
            if is_formula(found) or n == len(words) - 1 and START in word and word.rstrip(".")[-1:] == END:
                return found
    text = unmarked(" ".join(words))
    numbers = [number for number in NUMBER.finditer(text) if not NEGATED.search(text[: number.start()])]
    return beginning(text[numbers[-1].start() :]) if numbers else None


def is_formula(text):
    """Does a text say something as a formula? A lone word does not."""
    if CLOCK.fullmatch(plain_words(clean(text[:300]))):
        return True
    if len(text) > 300 or not re.search(r"[\d=<>^+]|\\[a-z]|[π√∞]|^[a-z]$|^[a-z] ?- ?[a-z]$", text):
        return False
    plain = re.sub(r"\\(?:text|mbox|mathrm)\s*\{[^{}]*\}", "", text)
    if PROSE.search(plain) and not NUMBER_AND_NOUN.fullmatch(text):
        return False
    return read(text).thing[0] not in ("text", "too complex")


def text_of(response):
    """For problems whose answer is text: a box, what a phrase announces, or the whole final part."""
    final = SPECIAL.sub("", split_reasoning(response)[1]).strip()
    return boxed(final) or (told(final) if len(final.split()) > 3 else None) or final or None


# ------------------------------------------------------------------------------------------------------------
# Equality of answers: a text is cleaned (one spelling), parsed (a tree) and settled (its numbers evaluated: a
# thing), and things are compared part by part. Numbers are computed, never simplified or solved: rational
# ones exactly, others to 11 digits, expressions with variables at four fixed points (polynomials exactly).
#
#   ("value", value, decimals)      a number or expression, written with so many decimals   5, 2.50, x^2 + 1
#   ("percent", value)              20%
#   ("tuple", brackets, things)  ("list", things)  ("set", things)  ("matrix", width, things)
#   ("reals", ends, members)        a set of real numbers, see `combined`                   (0, 1) U (2, 3)
#   ("equation", label, thing, keys, loose)    or an inequality: its thing is a set of reals    x = 5, x > 2
#   ("choice", letter, thing or None)  ("text", words)                                      (C) 12, even
#
# Where graders differ: a decimal is not an endless number however many of its digits it gives (0.333333 is
# not 1/3), unless the reference is the rounded one; 45 degrees is 45, not pi/4: another unit, another answer.

CHARACTERS, TOKENS, DEPTH, BITS, STEPS = 1000, 400, 40, 20_000, 6000  # more and an answer is "too complex"
LEFT = [0]  # steps that the reading under way may still take
Reading = namedtuple("Reading", "text thing units")


class TooComplex(Exception):
    """Beyond the limits."""


class Unreadable(Exception):
    """Not a formula: compared as text."""


def same(reference, answer, forgiving=True):
    """Does an answer say the same as the reference? Both as people write them: LaTeX, plain text or words.

    same("\\\\frac{1}{2}", "x = 0.5")    same("20\\\\%", "1/5")    not same("1/3", "0.33")

    A reference is forgiven more than another answer would be (0.33 for 1/3, 52 for 52_8, 0.2 for 20%, 1, 2
    for (1, 2)). Not `forgiving`, it is a relation that does not lead from 20 over 20% to 0.2, as votes need.
    """
    gold, given = read(reference), read(answer)
    if gold.text == given.text:
        return True
    if not units_agree(gold.units, given.units, forgiving):
        return False
    kinds = gold.thing[0], given.thing[0]
    if "text" in kinds and (kinds == ("text", "text") or not re.search(r"\d", gold.text)):
        return plain_words(gold.text) == plain_words(given.text) or alike(gold.thing, given.thing, forgiving)
    return alike(gold.thing, given.thing, forgiving)


def groups_of(answers):
    """A number for each answer: those that are the same share one, over others if need be; None has none."""
    groups = []
    for answer in dict.fromkeys(answer for answer in answers if answer is not None):
        def equal(other, answer=answer):
            return same(other, answer, False) or same(answer, other, False)

        joined = [group for group in groups if any(map(equal, group))]
        groups = [group for group in groups if group not in joined] + [[*chain(*joined), answer]]
    groups.sort(key=lambda group: answers.index(group[0]))
    numbers = {answer: n for n, group in enumerate(groups) for answer in group}
    return [numbers.get(answer) for answer in answers]


def repeats(answer, prompt):
    """Is the answer a formula of the question, handed back as it stands?"""
    formulas = re.findall(f"{START}(.*?){END}", with_marks(prompt)) if "$" in prompt or "\\" in prompt else []
    spelling = re.compile(r"\\left|\\right|(?<=\\)[dt](?=frac)| ")
    answer, *formulas = (spelling.sub("", clean(part)) for part in (answer, *formulas))
    return answer in formulas and not re.fullmatch(r"[-+]?[\w.,]*|[(\[{].*", answer)


@lru_cache(maxsize=2000)
def read(raw):
    """What a text says: the text in one spelling, a thing to compare, and the units it is measured in."""
    text, LEFT[0] = clean(raw), STEPS
    money = {"dollar"} if re.search(r"\\\$|^[^$]*\$[^$]*$|\bUSD\b", raw[:CHARACTERS]) else set()
    try:
        if len(text) > CHARACTERS:
            raise TooComplex
        thing, words = special(text) or formula(text)
        return Reading(text, thing, frozenset(money | known_units(words)))
    except (TooComplex, OverflowError, RecursionError):
        return Reading(text, ("too complex", text), frozenset())
    except (Unreadable, ZeroDivisionError):
        head, sign, tail = text.rpartition("=")
        named = head.count("{") == head.count("}") and not re.search(r"[<>,;!≠]|\\n", head)
        if sign and tail.strip() and named and not NO_NOUNS & {*re.findall("[a-z]+", head)}:
            return read(tail)._replace(text=text)  # \arg z = 5
        inner = told(raw)
        if inner and len(inner) < len(raw) and clean(inner) != text:
            return read(inner)  # the text is prose that announces its answer
        return Reading(text, ("text", plain_words(text)), frozenset())


def formula(text):
    """(thing, words after numbers) of a formula. A ± stands for two answers."""
    signs = ("+-", "-+") if re.search("[±∓]", text) else ("+-",)
    parsers = [Parser(text.replace("±", upper).replace("∓", lower)) for upper, lower in signs]
    nodes = [parser.answer() for parser in parsers]
    if len(nodes) > 1:
        items = [item for node in nodes for item in (node[1] if node[0] in ("list", "set") else [node])]
        distinct = [item for n, item in enumerate(items) if item not in items[:n]]
        nodes[0] = ("set" if nodes[0][0] == "set" else "list", distinct)
    return settle(nodes[0]), parsers[0].words


def special(text):
    """Answers with a grammar of their own: integers, choices, times of day, words for sets."""
    if re.fullmatch(r"-?[0-9]{1,300}", text):
        return ("value", Fraction(text), 0), []
    choice = CHOICE.fullmatch(text)
    if choice:
        content = choice[2] or choice[4] or choice[5]
        return ("choice", choice[1] or choice[3], content and read(content).thing), []
    words = plain_words(text)
    clock = CLOCK.fullmatch(words)
    # 12:30; 11:21 is a ratio
    if clock and (clock[3] or clock[2] and math.gcd(int(clock[1]), int(clock[2])) > 1):
        return ("text", f"{int(clock[1])}:{int(clock[2] or 0)} {clock[3]}"), []
    if re.fullmatch(r"(?:there (?:is|are) )?no (?:real )?solutions?(?: exists?)?|empty set|无解", words):
        return ("reals", *NOTHING), []
    if re.fullmatch(r"(?:(?:all|any|set of(?: all)?) ?)?(?:the )?real(?:s| numbers?)", words):
        return ("reals", *LINE), []
    return None


def plain_words(text):
    plain = re.sub(r'"(?=\w)', " ", text)
    if re.search(r"[\\^_=<>]", plain):
        return re.sub(r"\s", "", plain)
    plain = re.sub(r"[\s{}\",]+", " ", plain).strip(" .,;:'").casefold()
    plain = re.sub(r"(?<=\d)(?:st|nd|rd|th)\b", "", plain)
    plain = re.sub(r"(?<=[a-z])[!?]+$", "", plain)
    plain = {"dne": "undefined", "does not exist": "undefined"}.get(plain, plain)
    negated = re.search(r"\b(?:not|never|neither|n?or|and|if|cannot|\w+n't)\b", plain)
    subject = not negated and re.match(r"[a-z ]*\b(?:is|are) (?=[a-z])", plain)
    return re.sub(r"^(?:the|an?) (?=\w)", "", plain[subject.end() :] if subject else plain)


def known_units(words):
    """mi and h of miles per hour, cm and cm^2; none if a word is no unit; bases and moduli as they are."""
    words = [word for word in words if word not in ("square", "sq", "cubic", "cu", "per")]
    marks = {word for word in words if word.startswith(("base", "mod"))}
    parts = [(word.partition("^")[0], word) for word in words if word not in marks]
    if not all(unit in UNITS for unit, _ in parts):
        return marks
    return marks | {part + word[len(unit) :] for unit, word in parts for part in UNITS[unit].split("/")}


def units_agree(gold, given, forgiving):
    """5 cm is neither 5 m nor 5 cm/s; 5 cm does for 5 cm^2, $5 for $5 per hour, 52 for 52_8."""
    marks = {unit for unit in gold ^ given if unit.startswith(("base", "mod"))}
    excused = all(forgiving and (unit in gold) == unit.startswith("base") for unit in marks)
    gold, given = gold - marks, given - marks
    kinds = [{unit.partition("^")[0] for unit in units} for units in (gold, given)]
    sloppy = kinds[0] == kinds[1] and (gold <= given or given <= gold) or given == {"dollar"} <= gold
    return excused and (not gold or not given or sloppy)


UNIT_NAMES = (
    "mm millimeter millimetre|cm centimeter centimetre|m meter metre|km kilometer kilometre|in inch inches"
    "|ft foot feet|yd yard|mi mile|mg milligram|g gram|kg kilogram|lb lbs pound|oz ounce|s sec second"
    "|ms millisecond|min minute"
    "|h hr hrs hour|day|week|month|year yr yrs|ml milliliter|l liter litre|cent|dollar usd|°|rad radian"
    "|mi/h mph|km/h kmh kph|m/s mps"
)
UNITS = {
    name + plural: names.split()[0]
    for names in UNIT_NAMES.split("|")
    for name in names.split()
    for plural in ("", "s")[: 1 + (len(name) > 2)]
}
TO_TWENTY = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen twenty"
)
NUMBER_WORDS = {word: str(n) for n, word in enumerate(TO_TWENTY.split())}
NO_CONTENT = r"(?:(?:or|and|if|for|when|[a-z]|\w+llion|thousand|hundred|dozen)\b|[,^!*/_+±]|\\(?:pm|cup|cap))"
CHOICE = re.compile(rf'\(? *([A-J]) *\)(?!\s*"?{NO_CONTENT})[\s:.]*(.*)|([A-J])(?:[.)] *(.*)|: (.+))', re.S)
CLOCK = re.compile(r"([01]?[0-9]|2[0-4])(?::([0-5][0-9]))?(?: ?([ap])\.? ?m\.?)?")

# ------------------------------------------------------------------------------------------------------------
# Comparison


def alike(a, b, forgiving):
    """Do two things say the same? `a` is the reference, if one is. One kind may be seen as the other."""
    if a == b:
        return True
    if a[0] == b[0]:
        return a[0] in COMPARE and COMPARE[a[0]](a, b, forgiving)
    return any(alike(view, b, forgiving) for view in views(a, b[0], forgiving, gold=True)) or any(
        alike(a, view, forgiving) for view in views(b, a[0], forgiving, gold=False)
    )


def views(thing, wanted, forgiving, gold):
    """What a thing also stands for beside a thing of the wanted kind."""
    kind, inner = thing[:2]
    if kind == "percent":
        yield from [("value", inner, 0)] * (abs(inner) >= 1 or gold and forgiving)
        yield from [("value", inner / 100, 0)] * forgiving
    elif kind == "choice":
        yield ("value", value_of(("var", inner)), 0)
        yield from filter(None, thing[2:])
    elif kind == "equation" and (inner or not gold and thing[4] and wanted == "value"):
        yield from filter(None, thing[2:3])
    elif kind == "tuple" and wanted == "reals":
        yield from [("reals", *numbers) for numbers in [interval(*thing[1:])] if numbers]
    elif kind == "set" and len(inner) == 1 and wanted in ("value", "percent", "equation"):
        yield inner[0]
    elif kind == "set" and wanted == "reals" and are_real(inner):
        points = [((item[1],), (False, True, False)) for item in inner]
        yield ("reals", *reduce(partial(combined, operator.or_), points))
    elif kind == "list" and wanted == "set":
        yield ("set", [*map(unlabelled, inner)])
    elif kind == "list" and wanted in ("tuple", "matrix"):
        labels = labels_of(inner)  # x = 1, y = 2 is the point (1, 2), by the letters or as written
        if len({label.split("_")[0] for label in labels}) == len(inner):
            yield ("tuple", "()", [*map(unlabelled, sorted(inner, key=lambda item: item[1]))])
        yield from [("tuple", "()", [*map(unlabelled, inner)])] * forgiving
    elif kind == "matrix" and wanted == "tuple" and (inner == 1 or inner == len(thing[2]) and forgiving):
        yield ("tuple", "()", thing[2])


def labels_of(things):
    return {thing[1] for thing in things if thing[0] == "equation" and thing[1]}


def unlabelled(thing):
    return thing[2] if labels_of([thing]) else thing


def all_alike(these, those, forgiving):
    return len(these) == len(those) and all(map(partial(alike, forgiving=forgiving), these, those))


def alike_lists(a, b, forgiving):
    """In any order; but x = 1, y = 2 beside 1, 2 in this one."""
    labels = [{label.split("_")[0] for label in labels_of(one[1])} for one in (a, b)]
    if set() in labels and len(a[1]) in map(len, labels):
        return all_alike(a[1], b[1], forgiving)
    left = list(b[1])
    for item in a[1]:
        match = next((n for n, other in enumerate(left) if alike(item, other, forgiving)), None)
        if match is None:
            return False
        del left[match]
    return not left


def alike_sets(a, b, forgiving):
    def fit(item, other):
        return (item[0] == "set") == (other[0] == "set") and alike(item, other, forgiving)

    each = all(any(fit(item, other) for other in b[1]) for item in a[1])
    return each and all(any(fit(item, other) for item in a[1]) for other in b[1])


def rounds_to(gold, given, forgiving):
    """Is the reference a rounded decimal, and the answer the endless number that it was? 0.33 and 1/3."""
    (value, places), number = gold[1:], given[1]
    if not (forgiving and places and isinstance(value, Fraction) and is_real(number)) or given[2]:
        return False
    if abs(number) > 10**9:
        return False
    endless = not isinstance(number, Fraction) or (10**60 * number).denominator != 1
    precise = abs(value * 10**places) >= (10 if places > 1 else 100)
    return precise and endless and abs(Fraction(number.real) - value) * 2 * 10**places <= 1


def alike_equations(a, b, forgiving):
    if any(agree(key, other) for key in a[3] for other in b[3]):
        return True
    functions = all(re.fullmatch(r"y|\w\(\w\)", label or "") for label in (a[1], b[1]))
    return bool(a[1] and b[1] and (a[1] == b[1] or functions)) and alike(a[2], b[2], forgiving)


COMPARE = {
    "value": lambda a, b, forgiving: agree(a[1], b[1]) or rounds_to(a, b, forgiving),
    "percent": lambda a, b, forgiving: agree(a[1], b[1]),
    "tuple": lambda a, b, forgiving: a[1] == b[1] and all_alike(a[2], b[2], forgiving),
    "matrix": lambda a, b, forgiving: a[1] == b[1] and all_alike(a[2], b[2], forgiving),
    "reals": lambda a, b, forgiving: a[2] == b[2] and agree([*a[1]], [*b[1]]),
    "choice": lambda a, b, forgiving: a[1] == b[1],
    "list": alike_lists, "set": alike_sets, "equation": alike_equations,
}  # fmt: skip

# ------------------------------------------------------------------------------------------------------------
# One spelling

MARKS = {  # superscripts and subscripts
    sign: ("[" + marks + "]+", str.maketrans(marks, "0123456789-+n"))
    for sign, marks in (("^", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺ⁿ"), ("_", "₀₁₂₃₄₅₆₇₈₉₋₊ₙ"))
}
UNICODE = str.maketrans({
    "−": "-", "–": "-", "—": "-", "×": "*", "·": "*", "⋅": "*", "∙": "*", "÷": "/", "⁄": "/", "∕": "/",
    "≤": "<=",
    "≥": ">=", "⩽": "<=", "⩾": ">=", "≠": "!=", "∞": r"\infty ", "π": r"\pi ", "√": r"\sqrt ", "º": "°",
    "½": r"\frac{1}{2}", "⅓": r"\frac{1}{3}", "⅔": r"\frac{2}{3}", "¼": r"\frac{1}{4}", "¾": r"\frac{3}{4}",
    "…": "...", "’": "'", "′": "'", "“": "", "”": "", "ℝ": r"\mathbb{R}", "ℤ": r"\mathbb{Z}",
    "∅": r"\emptyset ",
    "∖": r"\setminus ", "θ": r"\theta ", "α": r"\alpha ", "β": r"\beta ", "λ": r"\lambda ", "φ": r"\phi ",
    "⟨": "(", "⟩": ")", "≡": "=", "∛": r"\cbrt ", "⇒": r"\Rightarrow ", "→": r"\Rightarrow ", "¢": " cents ",
    "£": "", "€": "", "¥": "", "、": ",", "。": ".", "\u00a0": " ", "\u2009": " ", "\u202f": " ", "\u200b": "",
} | {chr(0xFF01 + n): chr(0x21 + n) for n in range(94)})  # fmt: skip
BOLD = re.compile(r"(?<![\w)])\*\*|\*\*(?![\w(])")  # 2**3 stays
REWRITES = [  # spellings made equal before the parser sees them, in this order
    (re.compile(pattern), replacement)
    for pattern, replacement in [
        (r"\\(?:text)?color *\{[^{}]*\}|\bUSD\b", " "),
        (r"\\\\\s*\[[\d.]+ *\w+\]", r"\\\\ "),  # \\[4pt]
        (r"(?:\\left *)?\\\{ *(?=\\begin)", ""),
        (r"^(?:\\left)?\|([a-z])(?:\\right)?\| *(<=?|\\l(?:t|eq?)(?:slant)?(?![a-z])) *([^<>=]+)$",
         r"-(\3) \2 \1 \2 \3"),
        (r"& *(?=[=<>]|\\[lg]e)", " "),  # x &= 1
        (r"\\(?:[mh]box|text(?:bf|it|rm|sf|normal)?|emph|math(?:rm|bf)|operatorname\*?) *"
         r"\{([^{}]*(?:\{[^{}]*\}[^{}]*)*)\}", lambda m: marked(m[1])),
        (r"(?<=\d)(?: *\{ *, *\}|,\\[!,;: ]) *(?=\d{3}(?!\d))", ""),  # 10{,}080
        (r"(?<=\d)\{ *, *\}(?=\d)", "."),
        (r"(?<![\d.,_^])\d{1,3}(?:(?:\\[,;:! ]|[ ~'])\d{3})+(?![\d,])", lambda m: re.sub(r"\D", "", m[0])),
        (r"(?<!\\)\\[!,;:> ]|~|\\?\$|\\q?quad(?![a-z])", " "),
        (r"^(?![(\[{]|\\\{).*", lambda m: THOUSANDS.sub(lambda n: n[0].replace(",", ""), m[0])),
        (r"(?<=[\w})]) *(?:[,;(]|where|for|with)[ (]*[j-t] *(?:\\in(?![a-z])|∈) *(?:\\\w+)* *\{? *[\"ZNQR]+"
         r" *\}?(?:[_^]\{?[^{}\\]*\}?)? *\)?\s*$", ""),  # , k in Z
        (r"\\(?:mathbb|Bbb) *\{? *R *\}?", r"\\reals "),
        (r"\\reals *- *(?=(?:\\left *)?\\\{)", r"\\reals \\setminus "),
        (r"\\(?:mathbb|Bbb) *\{? *([A-Z]) *\}?", r"\\set\1 "),
        (r'(?<=\S)[\s,;("]+(?:since|because|or about|about|approximately)\b.*$', ""),  # 27 (since 3^3)
        (r'^\s*[({]?(\d+)[)}]? *(?:_ *\{?|(?=\(?[ "]*(?:in )?"?base))[( "]*(?:in )?"?(?:base[ -]*)?"?'
         r"(?:([12]?\d|3[0-6])|(" + "|".join(NUMBER_WORDS) + r"))[ )}]*$",
         lambda m: f'{m[1]} "base{m[2] or NUMBER_WORDS[m[3]]}'),  # 52_8
        (r'\(? *\\?"?\b[pb]?mod(?![a-z]) *\}? *\{? *(\d+) *\}? *\)?\s*$', r' "mod\1'),
        (r'(?<=[\d})]) *\(( *"?(?!mod)[a-z-]{3,})+ *\)\s*$', ""),  # 12 (ways)
        (r'\\frac *\{ *"(\w+) *\} *\{ *"(\w+) *\}', r'"\1/"\2'),
        (r"(?<=[\d}]) *([a-z]+) */ *([a-z]+)(?=(?:\^\{?2\}?)?$)", lambda m: speed(m)),  # 60 m/s
        (r"\\frac *\{ *d *([a-z]) *\} *\{ *d *[a-z] *\}", r"\1'"),
        (r'(?<=\d) *"?to *(?=\d)|\{:\}', ":"),
        (r"\^ *\{? *\\(?:circ|degree)(?![a-zA-Z]) *\}?|(?<=\d)\^\{?o\}?(?![a-z])"
         r"|\\(?:text)?degree(?![a-zA-Z])", "°"),
        (r'° *\{? *"?[CF] *\}?\s*$', "°"),
        (r"(\d*\.\d*)\\(?:overline|bar|dot) *\{? *(\d+) *\}?", lambda m: repeating(m)),
        (r"(?<![\w.])(\d+\.\d*)\((\d+)\)(?!\w)", lambda m: repeating(m)),
        (r"(\d*\.\d{0,20}?)(\d{1,12}?)\2+(?:\.\.\.|\\[lc]?dots(?![a-z]))", lambda m: repeating(m)),
        (r"(?:(=) *)?(-?\d*\.\d+)(?:\.\.\.|\\[lc]?dots(?![a-z]))",
         lambda m: "≈"[: bool(m[1])] + m[2]),  # = 1.4...
        (r"(?<![\d./^_a-zA-Z}])(\d+) +(\d+) */ *(\d+)(?![\d/])", r"\1\\frac{\2}{\3}"),
        (r"(?:\{ *\})?[_^] *\{?(\w+)\}? *C *_ *\{?(\w+)\}?|\bC_\{?(\w+)\}?\^\{?(\w+)\}?"
         r"|\bC\((\w+), *(\w+)\)(?! *=)",
         r"\\binom{\1\3\5}{\2\4\6}"),
        (r'(?<=[a-z])-(?="?(?:hal[fv]|third|quarter|(?:four|fif|six|seven|eigh|nin|ten)th))', " "),
        (r"\*\*", "^"),
        (r"\\not *=", "!="),
        (r'(?i)^ *an? (?="?(?:half|third|quarter|(?:four|fif|six|seven|eigh|nin|ten)th|dozen)\b)', "1 "),
        (r"\b[fgh] *\^ *\{? *-1 *\}? *\((?=[a-z]\) *=)", "F("),  # f^{-1}(x) = ... is a function as any other
        (r'(?<=[a-z])\.(?= *"?[a-z])', ""),  # sq. cm
        (r"\\pm(?![a-z])|\+/-|^\+-", "±"),
        (r"\\mp(?![a-z])", "∓"),
        (r'(?i)^[ "]*(?:(?:about|exactly|approximately|approx\.?|roughly) |(?:the|an) (?=[a-z])|=|≈'
         r'|\\approx)', ""),
        (r"\s+", " "),
    ]
]  # fmt: skip
THOUSANDS = re.compile(r"(?<![\d.,])\d{1,3}(?:,\d{3})+(?!\d|,\d)")
ESCAPED_TWICE, COMMAND = re.compile(r"(?<!\\)\\\\[a-zA-Z]{2}"), re.compile(r"(?<!\\)\\[a-zA-Z]{2}")


@lru_cache(maxsize=2000)
def clean(text):
    """One spelling for what people write in many ways; still text."""
    text = text.strip()
    if re.fullmatch(r"-?[0-9]+", text) or len(text) > CHARACTERS:
        return text
    text = BOLD.sub("", once_escaped(text))
    if not text.isascii():
        for sign, (pattern, plain) in MARKS.items():
            text = re.sub(pattern, lambda m, s=sign, p=plain: f"{s}{{{m[0].translate(p)}}}", text)
        text = text.translate(UNICODE)
    text = text.replace('"', " ").strip("*_` \n\t")
    for pattern, replacement in REWRITES:
        text = pattern.sub(replacement, text)
    return text.strip(" ,;:`").rstrip(" .,;:")


def once_escaped(text):
    """Undo a second escape (\\\\frac for \\frac), where no command is escaped once."""
    return text.replace("\\\\", "\\") if ESCAPED_TWICE.search(text) and not COMMAND.search(text) else text


def marked(inner):
    """What \\text{...} holds: its words with a mark ("cm) that keeps them apart from letters (c times m)."""
    units = "=" not in inner and ("/" in inner or "cdot" in inner)
    single = inner if inner in "mshgl" else inner[1:] if inner[:1] in " ~" and "=" not in inner else ""

    def mark(match):
        word = match[0]
        if (word in FUNCTIONS or NAMES.get(word, "")[:1] == "\\") and word not in UNITS:
            return f"\\{word} "
        letter = len(word) == 1 and word != single and not (units and word in UNITS)
        return word if letter or word.isupper() and word != single else '"' + word

    return " " + re.sub(r"(?<!\\)\b[A-Za-z]+(?![A-Za-z])", mark, inner.replace("~", " ")) + " "


def speed(match):
    return f' "{match[1]}/"{match[2]}' if {match[1], match[2]} <= UNITS.keys() else match[0]


def repeating(match):
    """0.1 and 6 -> the fraction 1/6, as text."""
    start, period = match.groups()
    nines, places = 10 ** len(period) - 1, len(start) - start.index(".") - 1
    return f"({int(start.replace('.', '') or 0) * nines + int(period)}/{10**places * nines})"


# ------------------------------------------------------------------------------------------------------------
# The parser: LaTeX or plain text -> nested tuples. Recursive descent over tokens, no evaluation of text.
#
#   ("num", Fraction, decimals)  ("var", name)  ("const", "pi"|"e"|"i"|"inf")  ("add"|"mul"|"div"|"pow", a, b)
#   ("neg", a)  ("pct", a)  ("fn", name, a, ...)  ("rel", ops, sides)  ("ratio", parts)
#   ("seq", "(]", items)  ("list"|"set", items)  ("mat", rows)  ("union"|"cap"|"minus", a, b)  ("reals",)
#   ("empty",)



def word_set(text):
    return set(text.split())


TRIGONOMETRIC = {"sin", "cos", "tan", "cot", "sec", "csc"}
FUNCTIONS = TRIGONOMETRIC | word_set(
    "arcsin arccos arctan arccot sinh cosh tanh exp ln lg log abs floor ceil gcd lcm max min"
)
GREEK = word_set(
    "alpha beta gamma delta epsilon varepsilon zeta eta theta vartheta iota kappa lambda mu nu xi rho sigma "
    "tau upsilon phi varphi chi psi omega Gamma Delta Theta Lambda Xi Sigma Phi Psi Omega ell hbar"
)


def by_name(spellings):
    return {name: sign for sign, names in spellings.items() for name in names.split()}


NAMES = by_name({  # of commands
    "<=": "le leq leqslant leqq", "<": "lt", ">=": "ge geq geqslant geqq", ">": "gt", "!=": "ne neq",
    "=": "equiv coloneqq", "≈": "approx simeq sim", "∈": "in", "∪": "cup bigcup", "∩": "cap",
    "/": "div", "(": "langle", ")": "rangle", "[": "lbrack", "]": "rbrack", "\\{": "lbrace", "\\}": "rbrace",
    "|": "lvert rvert vert mid lVert rVert", ",": "lor vee", "...": "ldots cdots dots", "i": "imath",
    "'": "prime", "\\\\": "cr", "\\emptyset": "varnothing", "\\setminus": "backslash", "%": "%", ":": "colon",
    "\\tan": "tg", "\\cot": "ctg cotg", "\\csc": "cosec", "\\arcsin": "asin", "\\arccos": "acos",
    "\\arctan": "atan arctg", "\\frac": "dfrac tfrac cfrac nicefrac sfrac", "\\binom": "dbinom tbinom",
    '"angstrom': "AA", "*": "times cdot ast", "\\Rightarrow": "implies",
    "": "boxed fbox displaystyle textstyle limits nolimits rm bf it large Large small quad qquad boldsymbol "
        "bm mathit mathcal mathsf underline vec overrightarrow left right middle big Big bigg Bigg bigl bigr "
        "Bigl Bigr biggl biggr "
        "( ) [ ] , ! ; : > $ blacksquare square qed left. right. middle.",
})  # fmt: skip
PLAIN_WORDS = by_name({
    ",": "and or", "-": "minus negative", "=": "is are equals", "\\infty": "infinity inf infty oo",
    "°": "degrees degree deg", "%": "percent pct", "*": "times", "\\sqrt": "sqrt", "\\cbrt": "cbrt",
    "\\pi": "pi", "∪": "union U",
    "\\abs": "abs", "\\floor": "floor", "\\ceil": "ceil", "\\gcd": "gcd", "\\lcm": "lcm", "\\max": "max",
    "\\binom": "binom", "\\frac": "frac", "\\emptyset": "emptyset",
})  # fmt: skip
NO_NOUNS = word_set(  # words that change what is said of the number before them
    "if for where with when unless except not no none nor neither never cannot more less fewer greater than "
    "least most "
    "over under above "
    "below between from only but plus divided squared cubed factorial choose either else otherwise"
)
SMALL_WORDS = word_set("yes no odd sq of to per the in dne st nd rd th one six ten two")
SCALES = {"dozen": 12, "hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9,
          "trillion": 10**12}
PARTS = "half third quarter fifth sixth seventh eighth ninth tenth"
SCALES |= {part: Fraction(1, n) for n, part in enumerate(PARTS.split(), 2)}
SCALES |= {"fourth": Fraction(1, 4), "halve": Fraction(1, 2)}
TOKEN = re.compile(
    r'(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][+-]?[0-9]+(?![\w.]))?|[0-9]+\.(?!\d)'
    r'|\\(?:left|right|middle)\s*\.'
    r'|"[A-Za-z]+[0-9]*|[A-Za-z]+|\\[A-Za-z]+|\\.|<=|>=|!=|=>|==|:=|\.\.\.|\S',
    re.S,
)
RELATIONS = {"=", "<", ">", "<=", ">=", "!=", "≈", "∈"}
OPERATORS = {  # how strongly they bind
    "\\over": ("div", 0), "\\choose": ("binom", 0), "∪": ("union", 1), "∩": ("cap", 1),
    "\\setminus": ("minus", 1),
    ":": ("ratio", 2), "+": ("add", 4), "-": ("add", 4), "*": ("mul", 5), "/": ("div", 5),
}  # fmt: skip
CLOSING = {"", "...", "\\}", "\\\\", "\\rfloor", "\\rceil", "\\end"}
NO_FACTOR = RELATIONS | OPERATORS.keys() | set("^_!%°',;)]}&") | CLOSING
CONTAINERS = word_set("rel seq list set mat union cap minus ratio reals empty")
CONSTANTS = {"pi": ("const", "pi"), "infty": ("const", "inf"), "emptyset": ("empty",), "reals": ("reals",)}
CONSTANTS |= {"set" + letter: ("var", "set " + letter) for letter in "CNPQZ"}
CONSTANTS |= {name: ("var", name) for name in GREEK}
NO_ARGUMENT = NO_FACTOR | {"(", "[", "|"} | {"\\" + name for name in FUNCTIONS}
ONE = ("num", Fraction(1), 0)


def tokens_of(text):
    tokens = []
    for match in TOKEN.finditer(text):
        token, before = match[0], text[match.start() - 1 : match.start()]
        if token[0] == "\\":
            token = NAMES.get(token[1:].replace(" ", ""), token)
            tokens += [token] * bool(token)
        elif token[0] == '"' and len(token) > 1:
            lower = token[1:].lower()
            tokens.append(NUMBER_WORDS.get(lower) or PLAIN_WORDS.get(lower) or '"' + lower)
        elif token.isascii() and token.isalpha() and len(token) > 1:
            tokens += letters(token, glued=before.isalnum() or before in ")}" and before)
        else:
            tokens.append({"=>": "\\Rightarrow", "==": "=", ":=": "="}.get(token, token))
    if len(tokens) > TOKENS:
        raise TooComplex
    return tokens


def letters(word, glued):
    """A run of letters: a name we know, a word, a function, or a product of variables."""
    lower = word.lower()
    if lower in NUMBER_WORDS and not glued:
        return [NUMBER_WORDS[lower]]
    if lower in PLAIN_WORDS or word in FUNCTIONS | GREEK and word not in UNITS:
        return [PLAIN_WORDS.get(lower) or "\\" + word]
    if len(word) > 3 and not glued or any(lower in words for words in (UNITS, NO_NOUNS, SMALL_WORDS, SCALES)):
        return ['"' + lower]
    return [word] if word.isupper() else list(word)  # AB, II: one name


class Parser:
    """Recursive descent: each method reads one thing from the tokens and returns its tree."""

    def __init__(self, text):
        self.tokens, self.words = tokens_of(text) + [""], []
        self.at = self.depth = self.bars = self.trig = 0
        while "\\Rightarrow" in self.tokens:
            del self.tokens[: self.tokens.index("\\Rightarrow") + 1]

    @property
    def next(self):
        return self.tokens[self.at]

    def take(self, *expected):
        """The next token, if it is one of those expected (any, if none is named); else None."""
        if self.next == "" or expected and self.next not in expected:
            return None
        self.at += 1
        return self.tokens[self.at - 1]

    def need(self, *expected):
        if self.take(*expected) is None:
            raise Unreadable(f"{' or '.join(expected)} expected at {self.next!r}")
        return self.tokens[self.at - 1]

    def answer(self):
        items = self.items(",", ";", "\\\\")
        if self.next != "":
            raise Unreadable(f"cannot read {self.next!r}")
        return items[0] if len(items) == 1 else ("list", items)

    def items(self, *separators, bars=0):
        """Relations separated by commas, semicolons, "and" or "or". In {x | ...} a bar ends it."""
        separators, found, outside, self.bars = separators or (",", ";"), [], self.bars, bars
        self.depth += 1
        if self.depth > DEPTH:
            raise TooComplex
        while not found or self.take(*separators):
            while found and self.take(*separators):
                pass  # ", and"
            found.append(self.relation())
        self.depth, self.bars = self.depth - 1, outside
        return found

    def relation(self):
        if self.next[:1] == '"':  # the area of ABC =
            end = self.tokens.index("=", self.at) if "=" in self.tokens[self.at :] else 0
            skipped = self.tokens[self.at : end]
            if not end or any(token in ",;<>\\\\" or token[1:] in NO_NOUNS for token in skipped):
                raise Unreadable("words")
            self.at = end + 1
        start, ops, sides = self.at, [], [self.expression()]
        label = "".join(token for token in self.tokens[start : self.at] if token not in "{}")
        while self.next in RELATIONS:
            ops.append(self.take())
            sides.append(self.expression())
        return ("rel", tuple(ops), sides, label) if ops else sides[0]

    def expression(self, least=0):
        """Operators that bind at least so much, the strongest first."""
        sign = self.take("+", "-")
        node = last = signed(sign, self.expression(5)) if sign else self.power()
        while True:
            name, binding = OPERATORS.get(self.next, ("mul", 5))
            if binding < least or self.next == ":" and self.bars:
                return node
            if self.next in OPERATORS:
                op, signs = self.take(), self.take("+", "-") if binding == 5 else None
                right = last = signed(signs, self.expression(binding + 1))
                node = joined(name, node, signed("-", right) if op == "-" else right)
                last = right if op == "*" else None
            elif self.take("%"):
                node = ("pct", node)
            elif self.next[:1] == '"' and self.nouns(node):
                while self.words and self.words[-1] in SCALES:
                    node = joined("mul", node, ("num", Fraction(SCALES[self.words.pop()]), 0))
            elif self.next in NO_FACTOR or self.next[0] == '"' or self.next == "|" and self.bars:
                return node
            else:
                node, last = self.adjacent(node, last)

    def adjacent(self, node, last):
        """(product, its last factor) where no sign stands between: 2x, but 3 1/2 is a sum."""
        after = self.tokens[self.at - 1]
        number = self.next[0] in "0123456789." and after not in "!)}" and not (last and last[0] == "pow")
        if after[:1] == '"' or number:
            raise Unreadable("a number after a factor")
        factor = self.power()
        mixed = node is last and node[0] == "num" and node[2] == 0 and factor[0] == "div"
        if mixed and factor[1][0] == factor[2][0] == "num" and factor[1][1] < factor[2][1]:
            return ("add", node, factor if node[1] >= 0 else signed("-", factor)), None
        return joined("mul", node, factor), factor

    def nouns(self, node):
        """Units and nouns after a number are noted and dropped."""
        known = UNITS.keys() | SCALES.keys() | {"square", "units"}
        unknown = variables(node) and self.next[1:] not in known
        if self.next[1:] in NO_NOUNS or node[0] in CONTAINERS | {"var"} or unknown:
            return False
        while self.next[:1] == '"' and self.next[1:] not in NO_NOUNS:
            word = self.take()[1:]
            self.words.append(word[:-1] if word[:-1] in SCALES else word)
            if self.words[-1] in SCALES:
                break
            if self.take("^"):
                self.words.append(f"{self.words[-1]}^{self.exponent()[1:2]}")
            if self.next in ("/", "*") and self.tokens[self.at + 1][:1] == '"':
                self.take()
        return True

    def power(self):
        node = self.atom()
        while True:
            following = "".join(self.tokens[self.at + 1 : self.at + 3])
            if self.next == "^" and re.fullmatch(r'"(?:st|nd|rd|th).*|\{"(?:st|nd|rd|th)', following):
                self.at += 4 if following[0] == "{" else 2  # 7^{th}
            elif node[0] == "var" and (self.next == "'" or self.next == "^" and following[:1] == "'"):
                self.at += 1 if self.next == "'" else 2
                node = ("var", node[1] + "'")
            elif node[0] == "var" and self.take("_"):
                node = ("var", f"{node[1]}_{self.raw_group() if self.next == '{' else self.take() or ''}")
            elif self.take("^"):
                node = ("pow", node, self.exponent())
            elif self.take("!"):
                node = ("fn", "factorial", node)
            elif self.take("°"):
                node = joined("mul", node, ("const", "degree")) if self.trig else node
                self.words.append("°")
            else:
                return node

    def exponent(self):
        return signed(self.take("+", "-"), self.group() if self.next == "{" else self.power())

    def group(self, digit=False):
        """A group in braces or one thing; of \\frac and \\binom also one digit of a number: \\frac12."""
        if digit and self.next.isdigit() and len(self.next) > 1:
            self.tokens[self.at : self.at + 1] = [self.next[0], self.next[1:]]
        if not self.take("{"):
            return self.atom()
        node = self.relation()
        self.need("}")
        return node

    def atom(self):
        self.depth += 1
        if self.depth > DEPTH:
            raise TooComplex
        token = self.need(*[self.next] * (self.next != ""))
        if token[0] in "0123456789" or token[0] == "." and token.strip("."):
            exponent = token.lower().partition("e")[2]
            if exponent and abs(int(exponent)) > BITS // 4:
                raise TooComplex
            node = ("num", Fraction(token), 0 if exponent else len(token.partition(".")[2]))
        elif token in ("(", "[", "{", "\\{"):
            node = self.bracket(token)
        elif token == "|":
            self.bars += 1
            node = ("fn", "abs", self.expression())
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
        """A constant, a variable, or a function with its arguments as a name: f(x), P(X = 1) before "="."""
        depth, end = 0, self.at
        while self.next == "(" and end < len(self.tokens) and (depth or end == self.at):
            depth += (self.tokens[end] == "(") - (self.tokens[end] == ")")
            end += 1
        before_equals = self.tokens[min(end, len(self.tokens) - 1)] == "="
        before_equals = before_equals and (token.isupper() or token in "pqyuvrs")
        if end == self.at or depth or token not in "fghFGH" and not before_equals:
            return ("const" if token in "ie" else "var", token)
        name, self.at = token + "".join(self.tokens[self.at : end]), end
        return ("var", name)

    def bracket(self, opening):
        braces = {"{": "}", "\\{": "\\}"}.get(opening)
        if braces and self.take(braces):
            return ("empty",)
        rest = set(self.tokens[self.at :])
        items = self.items(bars=int(bool(braces and {"|", ":"} & rest and RELATIONS & rest)))
        closing = self.need(braces, "|", ":") if braces else self.need(")", "]")
        if braces and closing != braces:
            items = described(items, self.items())
            self.need(braces)
            return items
        if opening == "[" and all(item[:2] == ("seq", "[]") for item in items):
            return ("mat", [item[2] for item in items])
        if opening == "\\{" or opening == "{" and len(items) > 1:
            return ("set", items)
        if len(items) > 1:
            return ("seq", opening + closing, items)
        if opening + closing not in ("()", "[]", "{}"):
            raise Unreadable("brackets that do not match")
        return items[0]

    def command(self, name):
        if name in CONSTANTS:
            return CONSTANTS[name]
        if name == "begin":
            return self.environment()
        if name in FUNCTIONS:
            return self.function(name)
        if name in ("frac", "binom"):
            arguments = self.group(True), self.group(True)
            return ("div", *arguments) if name == "frac" else ("fn", name, *arguments)
        if name in ("sqrt", "cbrt"):
            degree = ("num", Fraction(2 if name == "sqrt" else 3), 0)
            if self.take("["):
                degree = self.expression()
                self.need("]")
            return ("pow", self.group(), ("div", ONE, degree))
        if name in ("lfloor", "lceil"):
            inner = self.expression()
            self.need("\\rfloor", "\\rceil")
            return ("fn", name[1:], inner)
        raise Unreadable(f"unknown command {name}")

    def function(self, name):
        """sin x, sin^2 x, sin 2x, log_2 8, ln|x|, max(a, b)."""
        base = self.group() if self.take("_") else None
        exponent = signed(self.take("-"), self.group()) if self.take("^") else None
        self.trig += name in TRIGONOMETRIC
        opening = self.take("(", "\\{")
        if opening:
            arguments = self.items()
            self.need(")" if opening == "(" else "\\}")
        else:
            arguments = [signed(self.take("-"), self.power())]
            while self.next not in NO_ARGUMENT and self.next[0] not in '"0123456789':
                arguments = [("mul", *arguments, self.power())]
        self.trig -= name in TRIGONOMETRIC
        if exponent == ("num", Fraction(-1), 0) and name in TRIGONOMETRIC:
            return ("fn", "arc" + name, *arguments)
        node = ("fn", name, *arguments)
        if name == "log" and base:
            node = ("div", ("fn", "ln", *arguments), ("fn", "ln", base))
        return ("pow", node, exponent) if exponent else node

    def raw_group(self):
        self.need("{")
        start = self.at
        while self.take() not in ("}", None):
            pass
        return "".join(self.tokens[start : self.at - 1]).replace('"', "")

    def environment(self):
        """A matrix; or, where its cells are relations, a list."""
        name, rows = self.raw_group(), [[]]
        if name == "vmatrix":
            raise Unreadable("a determinant")
        if name == "array":
            self.raw_group()  # the columns
        while self.next not in ("\\end", ""):
            if self.take("\\\\"):
                rows.append([])
            elif not self.take("&"):
                rows[-1].append(self.items())
        self.need("\\end")
        self.raw_group()
        rows = [row for row in rows if row]
        cells = [item for row in rows for cell in row for item in cell]
        if not cells or name == "cases" and all(len(row) > 1 for row in rows):
            raise Unreadable("values, each with its condition, or no rows at all")
        if any(item[0] == "rel" for item in cells) or len(cells) == 1:
            return cells[0] if len(cells) == 1 else ("list", cells)
        return ("mat", [[cell[0] for cell in row] for row in rows])


def described(items, conditions):
    """{x | conditions}, {(x, y) | ...}: the conditions say it all. {2k pi | k in Z}: k does not matter."""
    head = items[0][2][0] if items[0][:2] == ("rel", ("∈",)) else items[0]
    members = [condition[2][1] for condition in conditions if condition[:2] == ("rel", ("∈",))]
    if members == [("var", "set Z")] * len(conditions):
        return head
    if len(items) > 1 or head[0] not in ("var", "seq"):
        raise Unreadable("a set of values with conditions")
    conditions = [items[0]] * (head != items[0] and items[0][2][1] != ("reals",)) + conditions
    return conditions[0] if len(conditions) == 1 else ("list", conditions)


def signed(sign, node):
    if sign == "-" and node[0] == "num":
        return ("num", -node[1], node[2])
    if sign != "-":
        return node
    return joined("mul", ("num", Fraction(-1), 0), node) if node[0] == "mat" else ("neg", node)


def joined(name, a, b):
    if name == "ratio":
        return ("ratio", [*(a[1] if a[0] == "ratio" else [a]), b])
    if name in ("union", "cap", "minus") or not {a[0], b[0]} & (CONTAINERS | {"mat"}):
        return ("fn", "binom", a, b) if name == "binom" else (name, a, b)
    for one, other in ((a, b), (b, a)):
        if name == "mul" and one[0] == "mat" and other[0] not in CONTAINERS:
            return ("mat", [[("mul", other, cell) for cell in row] for row in one[1]])
    raise Unreadable("calculation with things that are not numbers")


def children(node):
    for part in node[1:]:
        for item in part if isinstance(part, list) else [part]:
            if isinstance(item, list):
                yield from item
            elif isinstance(item, tuple):
                yield item


def variables(node):
    return {node[1]} if node[0] == "var" else set().union(*map(variables, children(node)))


def has_i(node):
    return node == ("const", "i") or any(map(has_i, children(node)))


# ------------------------------------------------------------------------------------------------------------
# From trees to things


def settle(node):
    """What a tree says, its numbers evaluated."""
    kind, inner = node[0], node[1] if len(node) > 1 else None
    if kind == "rel":
        equation = set(node[1]) <= {"=", "≈", "∈"}
        return settled_equation(*node[1:]) if equation else settled_inequality(*node[1:])
    if kind in COMBINE or kind in ("reals", "empty"):
        return ("reals", *set_of(node))
    if kind == "set":
        return ("set", [settle(item) for item in inner])
    if kind == "list":
        return settled_list([settle(item) for item in inner])
    if kind == "seq":
        return ("tuple", inner, [settle(item) for item in node[2]])
    if kind == "mat" and len(set(map(len, inner))) == 1:
        return ("matrix", len(inner[0]), [settle(cell) for row in inner for cell in row])
    if kind == "ratio" and len(inner) > 2:  # 3:4:5 is 6:8:10; 3:4 is 3/4
        return ("tuple", ":", [settle(("div", part, inner[0])) for part in inner])
    if kind == "pct" and not variables(inner):
        return ("percent", value_of(inner))
    return ("value", value_of(("div", *inner) if kind == "ratio" else node), node[2] if kind == "num" else 0)


def settled_list(things):
    """x > 1, x < 3: an interval. x < 1, x > 3: no number is both, so a union. 1/2 or 50%: one number."""
    label = things[0][1]
    relations = [thing for thing in things if thing[0] == "equation" and thing[1] == label and thing[2]]
    sets = [thing[2][1:] for thing in relations if thing[2][0] == "reals"]
    if len(sets) == len(things):
        both = reduce(partial(combined, operator.and_), sets)
        together = both if both[1] != (False,) else reduce(partial(combined, operator.or_), sets)
        return ("equation", things[0][1], ("reals", *together), [], False)
    if things[-1][0] == "equation" and things[-1][4] and len(labels_of(things)) == len(things) - 1:
        return things[-1]  # m = 3, n = 7, and m + n = 10
    other_ways = len(set(map(str, things))) > 1 and {thing[0] for thing in things} <= {"value", "percent"}
    one = other_ways and all(alike(thing, things[0], True) for thing in things)
    return things[0] if one else ("list", things)


def settled_equation(ops, sides, label):
    if "≈" in ops and (len(ops) > 1 or not is_label(sides[0])):
        cut = ops.index("≈")  # the exact value, not what it is about
        return settle(("rel", ops[:cut], sides[: cut + 1], label) if cut else sides[0])
    first, last = sides[0], sides[-1]
    if last[0] in CONTAINERS or first[0] == "seq" or "∈" in ops:
        return ("equation", label, settle(last), [], False)
    if is_label(last) and not is_label(first):
        first, last, label = last, first, last[1]
    if not variables(first) | variables(last) or agree(value_of(first), value_of(last)):
        return settle(last)  # a calculation: its last part is the answer
    thing, keys = settle(last), [proportions(("add", first, ("neg", last)))]
    loose = len(variables(first)) > 1 and thing[1] != 0  # beside a reference of 5, a + b = 5 will do
    return ("equation", label if is_label(first) else None, thing, keys, loose)


def settled_inequality(ops, sides, label):
    links = [(op, a, b) if op[0] != ">" else (op.replace(">", "<"), b, a)
             for op, a, b in zip(ops, sides, sides[1:])]
    if not set(ops) <= {"<", ">", "<=", ">=", "!="}:
        raise Unreadable("relations that do not go together")
    solved = [solution(*link, sides[1] if len(sides) == 3 else None) for link in links]
    if None in solved or len({name for name, _ in solved}) > 1:
        gaps = [[op, *proportions(("add", b, ("neg", a)), positive=op != "!=")] for op, a, b in links]
        return ("equation", None, None, [sorted(gaps, key=str)], False)
    numbers = reduce(partial(combined, operator.and_), [numbers for _, numbers in solved])
    return ("equation", solved[0][0], ("reals", *numbers), [], False)


def is_label(node):
    """x, f(x), AB^2, |v|, sin x, floor(10x): names for an answer, not equations to be solved."""
    if node[0] == "pow":
        return node[1][0] == "var" and node[1][1].isupper() and len(node[1][1]) > 1
    function = node[1] if node[0] == "fn" else ""
    named = function in ("floor", "ceil") or function in ("abs", *TRIGONOMETRIC) and is_label(node[2])
    return node[0] == "var" or named


# A set of real numbers is (ends, members): its ends in order, and whether it holds what lies before, at and
# after each.
# [0, 1) is ((0, 1), (False, True, True, False, False)).

LINE, NOTHING = ((), (True,)), ((), (False,))
COMBINE = {"union": operator.or_, "cap": operator.and_, "minus": operator.gt}  # True > False: only in one


def combined(both, a, b):
    """Union, intersection or difference of two sets."""
    ends = sorted({*a[0], *b[0]}, key=lambda end: end.real)
    members = [both(*pair) for pair in zip(sampled(a, ends), sampled(b, ends))]
    kept = [n for n in range(len(ends)) if len(set(members[2 * n : 2 * n + 3])) > 1]
    around = [m for n in kept for m in members[2 * n + 1 : 2 * n + 3]]
    return tuple(ends[n] for n in kept), (members[0], *around)


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
    if abs(end) == math.inf:
        return LINE if (end.real < 0) == up else NOTHING
    return (end,), (not up, closed, up)


def set_of(node):
    if node[0] in ("reals", "empty"):
        return LINE if node[0] == "reals" else NOTHING
    if node[0] in COMBINE:
        return combined(COMBINE[node[0]], *map(set_of, node[1:]))
    thing = settle(node if node[0] in CONTAINERS else ("set", [node]))
    found = thing if thing[0] == "reals" else next(views(thing, "reals", False, False), thing)
    if found[0] != "reals":
        raise Unreadable("not a set of numbers")
    return found[1:]


def interval(brackets, items):
    """The numbers of (a, b], or None."""
    if len(items) == len(brackets) == 2 and are_real(items):
        low, high = items[0][1], items[1][1]
        if low.real < high.real:
            above, below = ray(low, brackets[0] == "[", True), ray(high, brackets[1] == "]", False)
            return combined(operator.and_, above, below)
    return None


def solution(op, left, right, middle):
    """(variable, the numbers for which left op right), or None where that would have to be solved for."""
    for side, other in ((left, right), (right, left)):
        if side[0] == "var" and not variables(other) and middle in (None, side):
            end = value_of(other)
            hole = ((end,), (True, False, True))
            return side[1], hole if op == "!=" else ray(end, op == "<=", side is right)
    return None


# ------------------------------------------------------------------------------------------------------------
# Values of expressions: a Fraction where exact, else complex; with variables a list of values at four points


def agree(a, b):
    """Equal up to the rounding of floating point; a long decimal is not the endless number it is near."""
    if isinstance(a, list) or isinstance(b, list):
        return type(a) is type(b) and len(a) == len(b) and all(map(agree, a, b))
    exact = [value for value in (a, b) if isinstance(value, Fraction)]
    if a == b or len(exact) == 2 or not isinstance(a, NUMBERS) or not isinstance(b, NUMBERS):
        return a == b
    if exact and (exact[0].denominator > 10**6 or abs(exact[0]) > 10**9):
        return False
    return abs(a - b) <= 1e-11 * abs(a) < math.inf


def are_real(things):
    return all(thing[0] == "value" and is_real(thing[1]) for thing in things)


def is_real(value):
    return not isinstance(value, list) and (not value.imag or abs(value.imag) <= 1e-12 * abs(value.real))


def value_of(node):
    if node in (INFINITY, ("neg", INFINITY)):
        return math.inf if node == INFINITY else -math.inf
    if not variables(node):
        return evaluate(node, 0)
    values = values_of(node)
    if not has_i(node) and any(map(is_real, filter(None, values))):
        values = [value if value is not None and is_real(value) else None for value in values]
    return values[0] if all(agree(values[0], value) for value in values) else values


def values_of(node):
    """The values at four points, None where there is none."""
    values = []
    for k in range(4):
        try:
            values.append(evaluate(node, k))
        except (ZeroDivisionError, TooComplex):
            spend(0)
            values.append(None)
    if values.count(None) > 2:
        raise TooComplex
    return values


def proportions(node, positive=False):
    """The values of an expression divided by the first (or its size): the same for (positive) multiples."""
    values = values_of(node)
    unit = next((value for value in values if value), None)
    if not unit:
        raise TooComplex
    return [value if value is None else value / (abs(unit) if positive else unit) for value in values]


def spend(steps):
    LEFT[0] -= steps
    if LEFT[0] < 0:
        raise TooComplex


INTEGERS = {"n": (5, 8, 13, 21), "k": (2, 3, 4, 6), "m": (3, 7, 9, 17)}


@lru_cache(maxsize=1000)
def point(name, k):
    """The k-th value of a variable: within (0, 1), above 2, negative, large; natural for n, k and m."""
    if name in INTEGERS:
        return Fraction(INTEGERS[name][k])
    h = zlib.crc32(name.encode(errors="replace")) * 2654435761 >> 7 * k
    low, digits, scale = ((0, 8998, 9001), (2, 49999, 7001), (0, 39999, -9007), (20, 99989, 997))[k]
    return low + Fraction(1 + h % digits, scale)


def evaluate(node, k):
    """The value of an expression with its variables at their k-th points."""
    spend(1)
    kind, inner = node[0], node[1] if len(node) > 1 else None
    if kind in ("num", "var"):
        return inner if kind == "num" else point(inner, k)
    if kind == "const" and inner in CONSTANT_VALUES:
        return CONSTANT_VALUES[inner]
    name = inner if kind == "fn" else kind
    if name not in OPERATIONS:
        raise Unreadable(f"no value: {name}")
    values = [evaluate(part, k) for part in children(node)]
    if name in OF_INTEGERS:
        if not all(isinstance(n, Fraction) and n.denominator == 1 and abs(n) <= 1500 for n in values):
            raise TooComplex
        spend(100)
        values = map(int, values)
    elif name in OF_FLOATS:
        values = [complex(x) for x in values]
        if abs(values[0]) > 10**6 and name not in ("ln", "log", "lg"):
            raise TooComplex
    try:
        value = OPERATIONS[name](*values)
    except (ValueError, TypeError):  # ln 0, floor of a complex number
        raise TooComplex from None
    value = Fraction(value) if isinstance(value, int) else value
    if isinstance(value, Fraction):
        bits = value.numerator.bit_length() + value.denominator.bit_length()
        spend(bits * bits // 10**6)
        if bits > BITS:
            raise TooComplex
    elif not abs(value) < math.inf or name in TRIGONOMETRIC and abs(value) > 1e12:
        raise ZeroDivisionError  # tan of a right angle
    elif name in ("add", *TRIGONOMETRIC) and abs(value) < 1e-13 * (abs(values[0]) if name == "add" else 1):
        return Fraction(0)  # nothing but rounding is left; sin pi
    return value


def power(a, b):
    if isinstance(a, Fraction) and isinstance(b, Fraction):
        if abs(b) * max(a.numerator.bit_length(), a.denominator.bit_length()) > BITS and abs(a) != 1:
            raise TooComplex
        if b.denominator == 1:
            return a ** int(b)
        if a < 0 and b.denominator % 2:  # the real root of a negative number
            return complex(-a) ** complex(b) * (-1) ** b.numerator
    return complex(a) ** complex(b)


NUMBERS = (Fraction, complex, float, int)
INFINITY = ("const", "inf")
CONSTANT_VALUES = {"pi": complex(math.pi), "e": complex(math.e), "i": 1j, "degree": complex(math.pi / 180)}
OF_INTEGERS = {"factorial": math.factorial, "binom": math.comb, "gcd": math.gcd, "lcm": math.lcm}
OF_FLOATS = {name: getattr(cmath, name) for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh", "exp")} | {
    "ln": cmath.log, "log": cmath.log10, "lg": cmath.log10,
    "arcsin": cmath.asin, "arccos": cmath.acos, "arctan": cmath.atan,
    "cot": lambda x: 1 / cmath.tan(x), "sec": lambda x: 1 / cmath.cos(x), "csc": lambda x: 1 / cmath.sin(x),
    "arccot": lambda x: cmath.atan(1 / x),
}  # fmt: skip
OPERATIONS = OF_INTEGERS | OF_FLOATS | {
    "add": operator.add, "mul": operator.mul, "div": operator.truediv, "neg": operator.neg, "pow": power,
    "pct": lambda x: x / 100, "abs": abs,
    "max": partial(max, key=lambda x: x.real), "min": partial(min, key=lambda x: x.real),
    "floor": lambda x: math.floor(x.real), "ceil": lambda x: math.ceil(x.real),
}  # fmt: skip


if __name__ == "__main__":
    common.entry(main, "judged problems are kept in the run folder; the same command goes on with the others")
