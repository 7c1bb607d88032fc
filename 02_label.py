"""Judge every rollout of a run: by its tests, or by the reference answer.

    python 02_label.py RUN [RUN ...]         # writes labels.jsonl into each run
    python 02_label.py DATASET --self-check  # do reference solutions pass?

RUN is a folder that 01_generate.py made. labels.jsonl has a row for each
rollout, in the same order: {"id", "sample", "label": 1|0|null, "answer",
"group", "reason", "stamp"}. A label of null means that the rollout could not
be judged; the reason says why. Equal answers to a problem share a group
number, so that votes need no maths. The stamp is of what decides the label:
the problem, the response, the judge (this file; for programs sandbox_exec.py,
too) and --timeout. Only rollouts whose stamp differs are judged again.

To judge maths elsewhere, copy this file alone:

    import importlib
    judge = importlib.import_module("02_label")
    answer = judge.answer_of(r"The answer is $x = \\frac{1}{2}$.")
    print(judge.same("0.5", answer))  # True
"""

import ast
import cmath
import json
import math
import operator
import random
import re
import sys
import textwrap
import time
import warnings
from collections import Counter, deque, namedtuple
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache, partial
from itertools import chain
from pathlib import Path

try:
    import common
except ModuleNotFoundError:  # a copy of this file alone judges, and labels no runs
    common = None


# ---- Labels of a run

SAVED_EVERY = 60  # seconds; a killed run goes on from there
MANY_ANSWERS = 20  # answers, of which at least one should be right


def main():
    options = parse_args()
    if options.self_check:
        failures = [self_check(dataset, options) for dataset in options.targets]
        raise SystemExit(1 if any(failures) else 0)
    print_summaries([label_run(Path(run), options) for run in options.targets], options)


def parse_args(words=None):
    parser = common.argument_parser(__doc__)
    add = parser.add_argument
    add("targets", nargs="+", metavar="RUN", help="run folders; with --self-check data set names or files")
    add("--self-check", action="store_true", help="judge the data set's own reference solutions and stubs")
    add("--workers", type=int, help="programs judged at the same time (default: one a core)")
    add("--timeout", type=float, default=10, help="processor seconds for a program (default 10)")
    add("--unsafe", action="store_true", help="run programs even where nothing can confine them")
    add("--json", action="store_true", help="print a last line of JSON, for programs")
    options = parser.parse_args(words)
    for name in ("workers", "timeout"):
        value = getattr(options, name)
        if value is not None and not 0 < value < math.inf:
            common.die(f"--{name} {value}: give a number above 0")
    return options


def label_run(run, options):
    """Bring the run's labels.jsonl up to date, unless a person made it; return the run's row of the table."""
    rollouts = common.read_rollouts(run)
    keys = common.keys_of(common.align(rollouts, None, run / "rollouts.jsonl"))
    problems = common.check_same_problems(run, rollouts)
    path = run / "labels.jsonl"
    earlier = common.read_jsonl(path, needs=("id", "sample", "label")) if path.is_file() else []
    if not earlier or any("stamp" in row for row in earlier):
        labels = update_labels(path, problems, rollouts, earlier, options)
        if labels != earlier:
            common.write_jsonl(path, labels)
    return summary_of(run, problems, common.read_labels(run, keys))


def update_labels(path, problems, rollouts, earlier, options):
    """Return the labels of all rollouts, and judge those that have none, or null, or another stamp."""
    stamps = stamps_of(problems, rollouts, options)
    found = {key: row for key, row in zip(common.keys_of(earlier), earlier) if key in stamps}
    labels = {key: row for key, row in found.items() if is_settled(row, stamps[key])}
    again = {key: row["label"] for key, row in found.items() if key not in labels}
    # Answers share groups, so all of a problem are judged at once
    whole = {problem for problem, _ in stamps.keys() - labels.keys() if problems[problem]["kind"] != "code"}
    to_judge = [row for key, row in zip(stamps, rollouts) if key not in labels or row["id"] in whole]
    saved = time.monotonic()
    for label in judge_rollouts(problems, to_judge, options):
        key = label["id"], label["sample"]
        labels[key] = label | {"stamp": stamps[key]}
        if time.monotonic() > saved + SAVED_EVERY:
            common.write_jsonl(path, (found | labels).values())
            saved = time.monotonic()
    if again:
        changed = sum(labels[key]["label"] != label for key, label in again.items())
        said = f"{len(again)} of {len(earlier)} labels judged again, {changed} changed"
        print(f"{path.parent}: {said}", file=sys.stderr)
    return [labels[key] for key in stamps]


def stamps_of(problems, rollouts, options):
    """{(id, sample): the stamp of what decides its label}: problem, response, judge and time limit."""
    of_problem = {}
    for key, problem in problems.items():
        limit = f"-{options.timeout:g}s" if problem["kind"] == "code" else ""
        of_problem[key] = f"{common.stamp(problem)}-{common.judge_stamp(problem['kind'])}{limit}"
    stamps = [f"{of_problem[row['id']]}-{common.stamp(row['response'])}" for row in rollouts]
    return dict(zip(common.keys_of(rollouts), stamps))


def is_settled(row, stamp):
    """Return whether a label is of the same stamp, and neither null nor wrong for want of a package."""
    is_judged = row["label"] is not None and not packages_needed(row)
    is_final = is_judged or reason_in(row) in ("no tests", "no reference", "no answer")
    return row.get("stamp") == stamp and is_final


def packages_needed(row):
    """Return the packages that a wrong program could not import: none or one."""
    reason = reason_in(row) if row["label"] == 0 else ""
    return re.findall(r"ModuleNotFoundError: No module named '([^'.]+)'", reason)


def reason_in(row):
    return row.get("reason", "made by hand")


def judge_rollouts(problems, rollouts, options):
    """Yield the labels of rollouts: of answers at once, of programs as they finish."""
    rollouts_of = {}
    for row in rollouts:
        rollouts_of.setdefault(row["id"], []).append(row)
    programs = {}  # (id, program) -> the rollouts that gave it: equal programs run once
    for key, rows in rollouts_of.items():
        if problems[key]["kind"] != "code":
            yield from judge_answers(problems[key], rows)
            continue
        for row in rows:
            program = extract_code(row["response"], problems[key])
            if "tests" in problems[key]:
                programs.setdefault((key, program), []).append(row)
            else:
                yield make_label(row, program, None, None, "no tests")
    jobs = [((key, program), sandbox_job(problems[key], program, options)) for key, program in programs]
    for (key, program), result in common.progress(run_jobs(jobs, options), len(jobs), "judge", "program"):
        for row in programs[key, program]:
            yield make_label(row, program, None, result.passed, result.reason)


def judge_answers(problem, rows):
    """Return the labels of answers, which are compared with a reference, and with each other for votes."""
    extract, group = readers_of(problem)
    answers = [extract(row["response"]) for row in rows]
    verdicts = {answer: verdict(problem, answer) for answer in {*answers}}
    return [make_label(row, answer and answer[:1000], number, *verdicts[answer])
            for row, answer, number in zip(rows, answers, group(answers))]  # fmt: skip


def readers_of(problem):
    """Return two functions for a problem: one takes the answer from a response, one groups answers."""
    if problem["kind"] == "code":
        return partial(extract_code, problem=problem), groups_of
    if problem["kind"] == "text":
        return words_of, partial(groups_of, equal=same_words)
    return answer_of, groups_of


def verdict(problem, answer):
    """Return (right? or None for not judged, the reason) for an answer to a problem."""
    if problem.get("answer") is None:
        return None, "no answer" if answer is None else "no reference"
    if answer is None:
        return False, "no answer"
    equal = same_words if problem["kind"] == "text" else same
    right = any(equal(reference, answer) for reference in references_of(problem))
    return right, "equal" if right else "different"


def references_of(problem):
    """Return the references of a problem, any of which is right."""
    answer = problem["answer"]
    return [*map(str, answer)] if isinstance(answer, list) else [str(answer)]


def same_words(reference, answer, forgiving=None):
    """Has a text the same letters, digits and signs as the reference, or has the end of "it is so"?"""
    given = (answer, stated(answer) or answer)
    return letters_and_signs(reference) in map(letters_and_signs, given)


TYPED = str.maketrans({  # the signs of a keyboard for those of a typesetter
    "’": "'", "‘": "'", "“": '"', "”": '"', "«": '"', "»": '"', "−": "-", "–": "-", "—": "-", "…": "..."})


def letters_and_signs(text):
    """Return a text without blanks, case, a full stop at its end, and quotes or bold type around it."""
    text = "".join(text.translate(TYPED).split()).casefold().removesuffix(".")
    return re.sub(r"""^(?:\*\*|["'`])+(.+?)\.?(?:\*\*|["'`])+$""", r"\1", text)


def make_label(row, answer, group, right, reason):
    """Return a row of labels.jsonl, but for its stamp."""
    if row.get("finish") == "length" and right is False:
        reason = f"cut at the length limit: {reason}"
    return {"id": row["id"], "sample": row["sample"], "label": None if right is None else int(right),
            "answer": answer, "group": group, "reason": reason}  # fmt: skip


def sandbox_job(problem, program, options):
    given = {name: problem[name] for name in ("tests", "style", "entry_point", "prelude") if name in problem}
    return {"code": program, "cpu_s": options.timeout, **given}


def run_jobs(jobs, options):
    """Yield (key, result) of each (key, job) as it finishes."""
    from sandbox_exec import Pool

    if not jobs:
        return
    try:
        pool = Pool(options.workers, unsafe=options.unsafe)
    except (RuntimeError, OSError) as error:
        common.die(f"programs cannot be judged on this machine: {error} (--unsafe runs them all the same)")
    with pool:
        print(textwrap.fill(pool.banner, 110), file=sys.stderr)
        yield from pool.imap_unordered(jobs)


def percent_of(part, whole):
    return round(100 * part / whole, 2) if whole else None


def summary_of(run, problems, labels):
    """Return a row of the table that is printed."""
    judged = [row for row in labels if row["label"] is not None]
    right = [row for row in judged if row["label"]]
    reasons = Counter()  # in full where a rollout was not judged
    for row in labels:
        reasons[reason_in(row)[:100] if row["label"] is None else reason_in(row).partition(":")[0]] += 1
    solved_percent = percent_of(len({row["id"] for row in right}), len({row["id"] for row in judged}))
    return {
        "run": str(run), "problems": len(problems), "rollouts": len(labels), "right": len(right),
        "right_percent": percent_of(len(right), len(judged)), "wrong": len(judged) - len(right),
        "not_judged": len(labels) - len(judged), "oracle_percent": solved_percent,
        "no_answer": sum(reason_in(row).endswith(("no answer", "no code")) for row in labels),
        "reasons": dict(reasons.most_common()), "notes": notes_on(problems, judged),
    }  # fmt: skip


def notes_on(problems, judged):
    """Return sentences on packages that programs need, and on a kind of problem of which nothing is right."""
    notes = []
    lacking = Counter(name for row in judged for name in packages_needed(row))
    if lacking:
        needed = f"{lacking.total()} programs need {', '.join(sorted(lacking))}, which are not here"
        notes.append(f"{needed}, and count as wrong; install them and run 02 again")
    for kind in common.asked_as(problems.values()):
        rows = [row for row in judged if problems[row["id"]]["kind"] == kind]
        if len(rows) >= MANY_ANSWERS and not any(row["label"] for row in rows):
            row = next((row for row in rows if row.get("answer")), rows[0])
            pair = f"{problems[row['id']].get('answer', 'tests')!r} and {row.get('answer', '')!r:.90}"
            notes.append(f"none of {len(rows)} answers of the kind {kind} is right; for example {pair}")
    return notes


def print_summaries(summaries, options):
    columns = [name for name in summaries[0] if name not in ("reasons", "notes")]
    header = [name.replace("_percent", " %").replace("_", " ") for name in columns]
    print(common.table(header, [[row[name] for name in columns] for row in summaries]))
    for row in summaries:
        reasons = ", ".join(f"{count} {reason}" for reason, count in row["reasons"].items())
        for said in (f"reasons: {reasons}", *row["notes"]):
            print(f"{row['run']}: {said}")
        if row["not_judged"] == row["rollouts"]:
            print(f"{row['run']}: nothing to judge: no problem has an answer or tests; 04 can still select")
    if options.json:
        print(json.dumps({"runs": summaries}))


def self_check(dataset, options):
    """Print what the judge gets wrong about the data set's own solutions, answers and stubs; return it."""
    problems = {row["id"]: row | {"prompt": ""} for row in common.load_problems(dataset)}
    rollouts = []
    for key, problem in problems.items():
        responses = []
        if problem["kind"] == "code" and "tests" in problem:
            name = problem.get("entry_point", "main")
            responses.append(("stub", f"```python\ndef {name}(*args, **kwargs):\n    pass\n```"))
            if "solution" in problem:
                responses.append(("solution", f"```python\n{problem['solution']}\n```"))
        elif problem["kind"] != "code" and problem.get("answer") is not None:
            for reference in references_of(problem):
                responses.append(("answer", f"Therefore the answer is $\\boxed{{{reference}}}$."))
        rollouts += [{"id": key, "sample": what, "response": text} for what, text in responses]
    labels = list(judge_rollouts(problems, rollouts, options))
    counts = Counter(label["sample"] for label in labels)
    wrong = [label for label in labels if label["label"] != (label["sample"] != "stub")]
    failures = [f"{label['id']}: its {label['sample']}: {label['reason']}" for label in wrong]
    if not labels:
        failures.append(f"{dataset}: nothing to check: no problem has an answer or tests")
    for failure in sorted(failures):
        print(failure)
    counts = {"problems": len(problems), "solutions": counts["solution"], "stubs": counts["stub"],
              "answers": counts["answer"], "failures": len(failures)}  # fmt: skip
    print(f"{dataset}:", ", ".join(f"{count} {name}" for name, count in counts.items()))
    if options.json:
        print(json.dumps({"dataset": str(dataset), **counts}))
    return failures


# ---- Extraction of code. The last of the most likely blocks counts:
#
#   4   it defines what is asked for; 3: it is the body of the function that the prompt opens
#   2   it defines some function; where tests ask for none, it reads input
#   1   it is Python; 0: it is not

FENCED = re.compile(  # a block, closed or cut off at the end
    r"^(.*[>:*][ \t]*|[ \t]*)"  # what stands before it on its line: words, a tag, a quotation's >
    r"(```+|~~~+)[^`\n]*\n(.*?)(?:\2[`~]*[ \t]*$|\Z)", re.M | re.S)
READS_INPUT = re.compile(r"\binput\(|\bstdin\b|\bopen\(0")


def split_reasoning(text):
    """Return (reasoning, answer) of a response, by <think> or gpt-oss's channels; "" if it is cut before."""
    final = [*re.finditer(r"<\|channel\|>final[^<]*(?:<\|constrain\|>[^<]*)?<\|message\|>", text)]
    if final:
        answer = re.split(r"<\|(?:return|end|call)\|>", text[final[-1].end() :])[0]
        return text[: final[-1].start()], answer
    bare_channels = re.match(r"(analysis|commentary)[^\W_]", text)  # without their tokens: 'analysisWe'
    for end in ("assistantfinal", "</think>") if bare_channels else ("</think>",):
        reasoning, found, answer = text.rpartition(end)
        if found:
            return reasoning, answer
    cut = "<|channel|>" in text or bare_channels or text.lstrip().startswith("<think>")
    return (text, "") if cut else ("", text)


def extract_code(response, problem):
    """Return the program of a response, or None: the best of its blocks, or the text if it is a program."""
    final = CONTROL_TOKENS.sub("", split_reasoning(response)[1]).replace("\r\n", "\n").replace("\r", "\n")
    blocks = [block for block in code_blocks(final) if block.strip()]
    candidates = [ranked(block, problem) for block in reversed(blocks or [final])]
    rank, program = max(candidates, key=lambda candidate: candidate[0])
    if blocks or rank > 2 or rank and is_program(parsed(final)):
        return program
    return None


def ranked(block, problem):
    """(rank, program) of a block; the ranks stand above."""
    name = problem.get("entry_point")
    tree = parsed(block)
    if tree and name in defined(tree):
        return 4, block
    body = as_body(block, problem)
    if body:
        return 3, body
    if not tree:
        return 0, block
    is_likely = defined(tree) if name else READS_INPUT.search(block)
    if "tests" not in problem:  # nothing says what is asked for
        is_likely = is_likely or defined(tree)
    return 2 if is_likely else 1, with_wanted_name(block, tree, problem)


def code_blocks(text):
    """Fenced blocks, and <output> parts that hold none."""
    blocks = []
    for before, _, code in FENCED.findall(re.sub(r"(?m)</output>\s*$", "", text)):
        lines = [line.removeprefix(before) for line in code.split("\n")]
        blocks.append("\n".join(lines).rstrip("\n"))
    outputs = re.findall(r"<output>(.*?)(?:</output>|\Z)", text, re.S)
    return blocks + [output.strip("\n") for output in outputs if "```" not in output and "~~~" not in output]


def parsed(code):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a model's slips, such as 1if x
            return ast.parse(code)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None


def is_program(tree):
    """print(sum(map(int, input().split()))) is a program; prose that parses ("Hello", "Answer: 5") is not."""
    calls = any(isinstance(node, ast.Call) for node in ast.walk(tree))
    prose = len(tree.body) == 1 and isinstance(tree.body[0], (ast.Expr, ast.AnnAssign)) and not calls
    return bool(tree.body) and not prose


def defined(tree):
    """Names of the functions and classes at the top of a program."""
    return [node.name for node in tree.body if hasattr(node, "name")]


def as_body(code, problem):
    """The prompt with the completion, where the prompt opens a function and the completion is its body."""
    prelude = problem.get("prelude", "").rstrip("\n") + "\n"
    opened = parsed(prelude + "    pass\n")
    if not opened or problem.get("entry_point") not in defined(opened):
        return None
    alone = parsed(code)
    if alone:  # a body that stands at the margin has a return outside of functions
        loose = [top for top in alone.body if not hasattr(top, "name")]
        if not any(isinstance(node, ast.Return) for top in loose for node in ast.walk(top)):
            return None
        code = textwrap.indent(code, "    ")
    elif not code.lstrip("\n").startswith((" ", "\t")):
        return None
    program = prelude + code + "\n"
    return program if parsed(program) else None


def with_wanted_name(code, tree, problem):
    """Tests written against one name (KodCode) also take a program whose single function has another."""
    functions = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    wanted = problem.get("entry_point")
    is_pytest = re.search(r"^\s*def test_", str(problem.get("tests")), re.M)
    if wanted and is_pytest and len(functions) == 1 and wanted not in defined(tree):
        return f"{code}\n\n{wanted} = {functions[0]}\n"
    return code


# ---- Extraction of answers. The first line that finds something decides:
#
#   the last box, with those joined to it               \boxed{2} and \boxed{3}            2, 3
#   what a phrase announces                             The answer is 5 cm.                5 cm
#   the last formula of the last sentence with one      So x = 5, as wanted.               x = 5
#   all of a response of a few words                    no real roots                      no real roots
#
# What a sentence says of its formula is not read: "x is not 5" gives 5. Formulas are first set between START
# and END in place of $...$ and the like, so that each is one word.

START, END = "\x02", "\x03"
CONTROL_TOKENS = re.compile(r"<\|[^|<>]{1,40}\|>|<(?:/?s|eos|end_of_turn)>")


def answer_of(response: str) -> str | None:
    """The answer that a response gives, as it is written there, or None. It never sees the reference."""
    reasoning, final = split_reasoning(response)
    final = in_tags(CONTROL_TOKENS.sub("", final[-100_000:].replace(r"\boxed{}", "")))
    if not final:
        return joined_boxes(reasoning)  # the response was cut off while reasoning
    found = boxed_or_announced(final)
    if found:
        return found
    text = with_marks(final[-8000:])
    bare = unmarked(text)
    is_short = len(bare.split()) <= 6 and re.search(r"\w", bare) and not ANNOUNCEMENT.search(bare)
    if is_short and CHOICE.fullmatch(bare):
        return bare
    return ending(text) or (bare if is_short else None)


def in_tags(text):
    """What stands in the last <answer> tags, else the text."""
    return text.rpartition("<answer>")[2].partition("</answer>")[0].strip() or text.strip()


def words_of(response):
    """For problems whose answer is text: the last "Answer: ...", a box, the end of "it is Tokyo", or all."""
    final = in_tags(BOLD.sub("", CONTROL_TOKENS.sub("", split_reasoning(response)[1])))
    lines = ANSWER_LINE.findall(final)
    return lines[-1] if lines else joined_boxes(final) or stated(final) or final or None


ANSWER_LINE = re.compile(r"(?im)^[-*># ]*(?:(?:the|my) )?(?:final |correct )?answer *:\s*(\S.*)")
STATEMENT = re.compile(  # no question, and nothing that is denied
    r"(?i)((?:(?!\b(?:not|never|nobody|cannot)\b|n['’]t\b).)*\b(?:is|are|was|were)\b):? +(\S.*[^?])")


def stated(text):
    """Tokyo, of "The capital is Tokyo.": of the last sentence with the word answer, else of the first."""
    found = [*filter(None, map(STATEMENT.fullmatch, re.split(r"(?<=[.!?])\s+|\n", text)))]
    answers = [statement for statement in found if "answer" in statement[1].lower()]
    chosen = answers[-1:] or found[:1]
    return chosen[0][2] if chosen else None


def boxed_or_announced(text):
    """The last box; without one, what a phrase announces."""
    return joined_boxes(text) or announced(with_marks(text[-8000:]))


def with_marks(text):
    """The text with each formula between START and END, and a full stop for the mark of "It is 42!"."""

    def mark(formula):
        return f"{START}{' '.join(formula[formula.lastindex].split())}{END}"

    text = re.sub(r"[一-鿿]+", r" \g<0> ", re.sub(f"[{START}{END}]", "", text))
    text = FORMULA.sub(mark, text)
    return re.sub(rf"(?m)(?:(?<={END})|(?<=\*\*)|((?:^|[a-z]) *-?\d[\d,.]*))!+(?=\s*$| [A-Z])", r"\1.", text)


FORMULA = re.compile(  # its content is the group that matched; $18 and $5 are sums of money
    r"\$\$([^$]{1,2000})\$\$"
    r"|(?<!\\)\$((?:[^$\\]|\\.)+)(?<! )\$"
    r"|(?<!\\)\\[(\[]((?:(?!(?<!\\)\\[(\[]).){1,2000}?)(?<!\\)\\[)\]]",  # \( ... \) and \[ ... \]
    re.S)


def unmarked(text):
    """The text without marks, bold type and what stands around an answer."""
    text = re.sub(f"[ {START}{END}]+", " ", BOLD.sub("", text)).strip(' *_`"\n')
    return text.strip(" ,;:?*\n").rstrip(" .。_\\")


Box = namedtuple("Box", "start end content")
BOX = re.compile(r"\\(?:boxed|fbox)\b\s*")
UNSEEN = re.compile(  # what LaTeX does not print between two boxes
    r"\\(?:q?quad|(?:text|mbox)(?= *\{))(?![a-z])|\\[()\[\]\\,;:! ]|[{}$~&*]")
BETWEEN_BOXES = re.compile(
    r"[\s,;.、和]*"  # punctuation, or nothing
    r"(?:(?:for )?(?:part )?\(?[a-h\d]\)?[.:)]?[\s,;.]*)?"  # the part of the problem that a box answers
    r"(?:(?:and|or|as well as)[\s,:]*)?"
    r"(?:\\?[a-zA-Z]\w{0,8}(?:_ *\w+|\(\w\))? *= *)?",  # its name: y_2 =
    re.I)
LABELLED = re.compile(r"(?:^|[,;]|\band\b|\n)[ $*]*[A-Za-z]+:[ $*\\(]*$")  # ..., minimum: \boxed{-1}


def joined_boxes(text):
    """The content of the last box; of the last few, if a comma, "and", a union or a name joins them."""
    answer = ""
    next_start = None
    for box in reversed(boxes_of(text)):
        between = UNSEEN.sub(" ", text[box.end : next_start]) if answer else ""
        is_union = between.strip() == r"\cup"
        both_labelled = LABELLED.match(between) and LABELLED.search(text, max(0, box.start - 30), box.start)
        if not is_union and not both_labelled and not BETWEEN_BOXES.fullmatch(between):
            break
        if box.content != answer:
            answer = box.content + (r" \cup " if is_union else ", " if answer else "") + answer
        next_start = box.start
    return answer or None


def boxes_of(text):
    """The last twenty boxes, but for those within others and those that hold nothing."""
    found = []
    starts = deque(BOX.finditer(text), maxlen=20)
    for box in starts:
        end, is_closed = end_of_box(text, box.end())
        if found and box.start() < found[-1].end or not is_closed and box is not starts[-1]:
            continue  # within another box, or its brace is forgotten
        content = unmarked(text[box.end() : end].removeprefix("{"))
        before = text[max(0, box.start() - 9) : box.start()]
        sign = "-" if re.search(r"(?:^|[=$:(\s])[-–−] ?$", before) else ""
        if content:
            found.append(Box(box.start(), end + 1, sign + content))
    return found


def end_of_box(text, start):
    """(where the content of a box ends, as \\boxed{5} or \\boxed 5 does; has its brace a counterpart?)"""
    depth = 0
    for brace in re.compile(r"\\.|[{}]", re.S).finditer(text, start, start + 2000):
        depth += {"{": 1, "}": -1}.get(brace[0], 0)
        if not depth:
            return brace.start(), True
    return re.compile(r"\{[^$\n]*|[^\s$]*").match(text, start).end(), text[start : start + 1] != "{"


# ---- Units, and what a sentence states

UNIT_NAMES = [  # the first one counts
    "mm millimeter", "cm centimeter", "m meter", "km kilometer", "in inch inches", "ft foot feet", "mi mile",
    "g gram", "kg kilogram", "lb pound", "oz ounce", "s sec second", "min minute", "h hr hour", "day", "week",
    "month", "year", "l liter", "cent", "dollar", "degree", "rad radian", "mi/h mph", "km/h kph"]
UNITS = {name: names.split()[0] for names in UNIT_NAMES for name in names.split()}
UNITS |= {name + "s": unit for name, unit in UNITS.items() if len(name) > 2} | {"unit": "", "units": ""}

ANNOUNCEMENT = re.compile(
    r"####"
    # "the answer", up to sixty characters (with whole formulas), and "is" or a colon
    r"|(?:answer|result|(?:correct|right|best) (?:choice|option))s?\b"
    r"(?:[^\n.:=$\x02]|\x02[^\x03]{1,200}\x03|\.\d){0,60}?(?:\b(?:is|are(?! looking)|be)\b|['’]s\b|[:=]|\n)"
    r"|\b(?:option|choice|choose) (?=[*$\x02]*\(?[A-J]\b)"  # a lettered choice
    r"|(?<!不)(?:答案?|选|[是为])[\s：:]*(?=[\s*]*[A-J\d\x02$(-])",  # the same in Chinese
    re.I)
WEAK = re.compile("(?i)result|option|choice|choose")  # rather "the answer is"
LEAD_IN = re.compile(r"(?:\n *- |[\s:*}])*")  # marks before an answer, as in \text{Answer: } 5
NEUTRAL = re.compile(  # words that may stand between "the answer is" and a formula, as "half of" may not
    r"(?i)(?:(?:"
    r"therefore|thus|hence|so|just|only|\w+ly|that|it|there|we|is|are|equals|equal to|have|get|the|an"
    r"|ordered|pair|point|interval|set|number|value|of|[a-z]|\w+ (?:has|had|makes?|earns?|gets?|needs?|pays?)"
    r")(?![A-Za-z])[\s,:;*]*)*")
SENTENCE_END = re.compile(r"(?<=[.?])[\s*]+(?=\S)|(?<=!)[\s*]+(?=[A-Z])|\n")  # but not in 5! ways
SIDE_CLAUSE = re.compile(r"(, where|,? \(?(?:because|since))\b|,? \(?(?:where|when|if|that)\b")
VERB = re.compile(r"[=:]|\b(?:is|are|was|were|equals?)\b")
TENTATIVE = re.compile(r"(?i)\b(?:maybe|perhaps)\b[^.?!\n]*$")  # before "the answer is"
QUESTION = re.compile(r"(?:[^.?!\n]|\.\d)*\?")  # behind it: 723?
TEXT_END = re.compile(  # an answer in words ends here: even, as both are
    r",?\s+(?:as|so|but|not|which|where|when|because|since|is (?:the|correct|right))\b")
BOLD_END = re.compile(r"\*\*([^*]+)(?<!:)\*\*\W*$")
QUANTITY = r"\d+(?:[.,]\d+)*[ ](?!and\b|or\b)[a-z]+\b"
LONG_UNITS = "|".join(name for name in UNITS if len(name) > 3)
SPACED_UNITS = "|".join(name for name in UNITS if len(name) > 1 and name != "in")
# A formula among words: whole words that are two quantities (3 apples and 5 pears), or made of these pieces
FORMULA_RUN = re.compile(rf"""(?x)
    (?: (?<!\S) | (?<=[A-Za-z]:) | (?==) )(?!\s)      # it begins with a word, behind "Total:", or at AB|=5
    (?:
        {QUANTITY} (?:,?[ ](?:and[ ])?{QUANTITY})+
        |
        (?:
            \x02[^\x03]*\x03                          # a formula that was in dollars
            | \\(?:[a-zA-Z]+|.)                       # \frac, \%
            | \{{[A-Za-z ,]*\}}                       # the words of \text{{square feet}}
            | (?<![A-Za-z])(?:[A-Za-z]|[A-Z]{{2,3}}(?=[ ]?=))(?![A-Za-z])  # x, and the AB of AB = 5
            | (?<=[\d\x03}}])(?!(?:st|nd|rd|th)\b)    # glued to a number: 25cm, 12pi, 2ab, but not 11th
              (?:[A-Za-z]{{2,3}}|sqrt|percent|{LONG_UNITS})(?![A-Za-z])
            | (?<=[\d\x03}}][ ])(?:{SPACED_UNITS})\b   # behind a number: 25 cm, but not 5 in
            | \b(?:and|or|to(?=[ ]\d)|minus|negative|sqrt|pi|infinity|sin|cos|tan|log|ln)(?![A-Za-z])
            | \b(?:percent|million|billion|thousand|hundred|dozen|half|\w+dths?)\b
            | (?!\{{[A-Za-z ,]*\}}) [^\sA-Za-z\\\x02\x03'’] | ['’](?![A-Za-z])   # digits and signs; no it's
            | [ ](?=[^\s$])
        )+
        (?: (?!\S)(?![ ]+[\d×]) | (?=/[A-Za-z]) )   # ends with one, before "/day", not in 2 1/2-inch
    )""")
LOOSE_ENDS = re.compile(  # no part of a formula: a, I, and, the A of A: 5
    r"^(?:[ aAI]|and\b|or\b)+(?= [^-+=])|^[A-Z]: |(?:[ (]|\b(?:and|or|[aAI]))+$")
FORMULA_SIGN = re.compile(
    r"[\d=^<>π√∞]|\\(?:frac|sqrt|pi|infty)\b|^\W*\([A-J]\)\W*$|^[a-z](?: ?[-+] ?[a-z]|!)?$")


def announced(text):
    """The answer that a text announces last, or None."""
    last_first = reversed([*ANNOUNCEMENT.finditer(text)][-5:])
    for phrase in sorted(last_first, key=lambda phrase: bool(WEAK.match(phrase[0]))):
        tail = text[phrase.end() : phrase.end() + 1000]
        if QUESTION.match(tail) or TENTATIVE.search(text, max(0, phrase.start() - 60), phrase.start()):
            continue
        found = announced_in(SENTENCE_END.split(tail[LEAD_IN.match(tail).end() :])[0])
        if found:
            return found
    return None


def announced_in(sentence):
    """The answer in what follows "the answer is": a formula that no other words precede, or the words."""
    formulas = formulas_of(sentence)
    if formulas and NEUTRAL.fullmatch(formulas[0][0]):
        return formulas[0][1]
    bold = BOLD_END.search(sentence)
    return unmarked(bold[1] if bold else TEXT_END.split(sentence)[0])


def ending(text):
    """The last formula in the first clause of the last sentence that has one: x = 5, when y = 2."""
    for sentence in reversed(SENTENCE_END.split(text)[-8:]):
        bold = BOLD_END.search(sentence)
        if bold:
            return unmarked(bold[1])
        formulas = [formula for _, formula in formulas_of(main_clause(sentence[-400:]))]
        if formulas:
            no_letters = [formula for formula in formulas if not formula.isalpha()]
            return (no_letters or formulas)[-1]
    return None


def main_clause(sentence):
    """A sentence up to a side clause: x = 5, where y = 2; but not the days when it rains are 2."""
    for clause in SIDE_CLAUSE.finditer(sentence):
        before = sentence[: clause.start()]
        says_which = clause[0][0] == " " and not VERB.search(before) and VERB.search(sentence, clause.end())
        if clause[1] or formulas_of(before) and not says_which:
            return before
    return sentence


def formulas_of(text):
    """(words before it, formula) for each formula of a text."""
    found = []
    for run in FORMULA_RUN.finditer(text):
        formula = unmarked(LOOSE_ENDS.sub("", run[0].strip(" \n").lstrip("= ")))
        if START in run[0] or FORMULA_SIGN.search(formula):
            found.append((text[: run.start()], formula))
    return found


# ---- Equality of answers. A text is brought to one spelling, then parsed into a tree whose numbers are
# computed on the way, and the trees of two answers are compared part by part. Rational numbers are exact,
# others count to 11 digits, and expressions in variables are equal if their values at four points are. No
# equation is solved and nothing is simplified.
#
# Where graders differ: a decimal is not an endless number however many of its digits it gives (0.333333 is
# not 1/3), unless the reference is the rounded one; 45 degrees is 45, not pi/4: another unit, another answer.

CHARACTERS = 1000  # of an answer; a longer one is compared as text, as is one with more than so many
BITS = 20_000  # in an exact number


@dataclass(slots=True)
class Tree:
    """What an answer says. The kind tells which of the fields are used."""

    kind: str
    number: object = None  # of a value: a Fraction, a complex number or a list of four
    decimals: int = 0  # of a value: 2.50 was written with two
    unit: str = ""  # of a value: cm^2, mi/h, %, "base 8"
    brackets: str = ""  # of a tuple: "()" or an interval's "(]"; of a list "()"
    items: list = ()  # of a tuple, a list or a set: trees
    label: str = None  # of an equation: the name on its left
    content: object = None  # of an equation, or a lettered choice: the tree of what stands on its right
    differences: list = None  # of an equation: left minus right at four points, divided by the first of these
    combines: bool = False  # of an equation: on its left is a sum of names; a + b = 5 may stand for 5
    words: str = ""  # of a text


class Unreadable(Exception):
    """Not a formula, or one beyond the limits, so it is compared as text."""


def same(reference: str | None, answer: str | None, forgiving: bool = True) -> bool:
    """Does an answer say the same as the reference? Both as people write them: LaTeX, plain text or words.

    same("\\\\frac{1}{2}", "x = 0.5")    same("20\\\\%", "1/5")    not same("1/3", "0.33")

    `forgiving`, a reference may leave something open: 0.33 stands for 1/3, 52 for 52_8, 20% for 0.2. Two
    answers that vote are not forgiven this: else 20 would be in one group with 20%, and 20% with 0.2.
    """
    if reference is None or answer is None:
        return False
    return alike(read(str(reference)), read(str(answer)), forgiving)


def groups_of(answers, equal=same):
    """A number for each answer: those that are the same share one, over others if need be; None has none."""

    def in_group(answer, group):
        return any(equal(other, answer, False) or equal(answer, other, False) for other in group)

    groups = []
    for answer in dict.fromkeys(answers):
        if answer is not None:
            joined = [group for group in groups if in_group(answer, group)]
            groups = [group for group in groups if group not in joined] + [[*chain(*joined), answer]]
    groups.sort(key=lambda group: answers.index(group[0]))
    numbers = {answer: number for number, group in enumerate(groups) for answer in group}
    return [numbers.get(answer) for answer in answers]


@lru_cache(maxsize=2000)
def read(raw):
    """The tree of what a text says."""
    text = clean(raw)
    if len(text) > CHARACTERS:
        return Tree("text", words=text)
    choice = CHOICE.fullmatch(text)
    if choice:
        return Tree("choice", label=choice[1], content=read(choice[2]))
    based = re.fullmatch(r"(\d+)_(\d+)", text)
    if based:
        return Tree("value", Fraction(based[1]), unit="base " + based[2])
    try:
        return formula(text)
    except (Unreadable, ZeroDivisionError, OverflowError, RecursionError):
        return read_prose(raw, text)


CHOICE = re.compile(r'\(?([A-J])(?:[.)]|: ) *(?!["a-z]*(?:or|and|if|llion)\b|[,^!*/_+∪∩])(\S.*)')  # (C) 12


def read_prose(raw, text):
    """What a text says that is not a formula as a whole: the answer it announces, or its words."""
    inner = boxed_or_announced(raw)
    if inner and len(inner) < len(raw) and clean(inner) != text:
        return read(inner)
    equation = re.fullmatch(r"([^<>,;!-][^<>,;!]*)(?:=|\b(?:is|are|equals)\b(?= *[-±\d\\(\[]))(.*\S.*)", text)
    if equation and not CHANGING_WORDS & {*re.findall("[a-z]+", equation[1])}:
        return read(equation[2])  # \arg z = 5, the area is 5
    words = re.sub(r"\"|(?<!\w)'|'(?!\w)", "", text).casefold().strip()
    if not re.search(r"\b(?:not|never|neither|n?or|and|if|cannot|\w+n't)\b", words):
        words = re.sub(r"^[a-z ]*\b(?:is|are) (?=[a-z])", "", words)  # the function is even
    words = re.sub(r"[\s{},;:?]|\.(?!\d)", "", re.sub(r"^(?:the|an?) (?=\S)", "", words))
    is_empty = re.fullmatch("no(?:real)?solutions?(?:exists?)?", words)
    return CONSTANTS["emptyset"] if is_empty else Tree("text", words=words)


def formula(text):
    """The tree of a formula. A ± stands for two answers."""
    if re.search("[±∓]", text):
        two = [formula(text.translate(str.maketrans("±∓", signs))) for signs in ("+-", "-+")]
        return Tree("set", items=[*chain(*(tree.items or [tree] for tree in two))])
    parser = Parser(tokens_of(text))
    trees = parser.items()
    if parser.next != "":
        raise Unreadable(parser.next)
    return trees[0] if len(trees) == 1 else Tree("list", brackets="()", items=trees)


CHANGING_WORDS = set(re.findall(r"\w+", """
    if for where when unless except not no neither never more less fewer greater than least most over above
    below between but plus minus squared cubed times factorial choose root short half halves third thirds
    fourths fifths tenths hundredth hundredths thousandths
"""))  # after a number they make something else of it: 5 squared, 5 or more, 5 if x > 0


def alike(a, b, forgiving):
    """Do two trees say the same? Forgiving, `a` is the reference, and 1, 2 stands for (1, 2)."""
    kinds = {a.kind, b.kind}
    if a == b:
        return True
    if len(kinds) == 2 and kinds & {"choice", "equation"}:
        return any(alike(x, y, forgiving) for x in views(a) for y in views(b, forgiving))
    if kinds == {"choice"}:
        return a.label == b.label
    if kinds == {"equation"}:
        return same_equation(a, b, forgiving)
    if kinds == {"value"}:
        return same_value(a, b, forgiving)
    if kinds == {"tuple"} or kinds == {"tuple", "list"} and forgiving:
        return a.brackets == b.brackets and all_alike(a.items, b.items, forgiving)
    return kinds <= {"list", "set"} and same_items(a, b, forgiving)


def views(tree, combines=False):
    """What a tree stands for: x = 5 for 5, (B) 12 for B and for 12; if so asked, a + b = 5 for 5."""
    if tree.kind == "choice":
        return [value_tree(point_of(tree.label)), tree.content]
    if tree.kind == "equation":
        return [tree.content] if tree.label is not None or combines and tree.combines else []
    return [tree]


def all_alike(trees, others, forgiving):
    return len(trees) == len(others) and all(alike(a, b, forgiving) for a, b in zip(trees, others))


def same_value(a, b, forgiving):
    """Do numbers and units agree? 20% is 20, and, of a reference, 0.2."""
    if "%" in (a.unit, b.unit) and a.unit != b.unit:
        percent, other = (a, b) if a.unit == "%" else (b, a)
        is_plain = abs(percent.number) >= 1 or forgiving and percent is a
        in_hundredths = forgiving and agree(percent.number / 100, other.number)
        return not other.unit and (in_hundredths or is_plain and agree(percent.number, other.number))
    equal = agree(a.number, b.number) or forgiving and is_rounded(a, b)
    return equal and units_agree(a.unit, b.unit, forgiving)


def units_agree(gold, given, forgiving):
    """5 cm is neither 5 m nor 5 cm^2; 5 is, and $5 is $5 per hour. 52 does for 52_8, not the other way."""
    if "base" in gold + given:
        return gold == given or forgiving and not given
    fits = gold == given or not gold or not given or given == "dollar" == gold.split("/")[0]
    return fits or "^" in (gold[0], given[0]) and gold.partition("^")[2] == given.partition("^")[2]


def is_rounded(reference, given):
    """Is the reference a rounded decimal, and the answer the endless number that it was? 0.33 and 1/3."""
    places = reference.decimals
    exact = given.number
    if not places or given.decimals or isinstance(exact, list) or exact.imag or not abs(exact) < 10**9:
        return False
    has_two_digits = abs(reference.number * 10**places) >= (10 if places > 1 else 100)
    endless = not isinstance(exact, Fraction) or (10**60 * exact).denominator != 1
    return has_two_digits and endless and abs(Fraction(exact.real) - reference.number) * 2 * 10**places <= 1


def same_items(a, b, forgiving):
    """Do two lists or sets hold the same? In any order, unless only one has several names: x = 1, y = 2."""
    names = [{item.label.split("_")[0] for item in tree.items if item.label} for tree in (a, b)]
    if a.kind == b.kind == "list" and (len(names[0]) > 1) != (len(names[1]) > 1):
        return all_alike(a.items, b.items, forgiving)
    pairs = [[alike(x, y, forgiving) for y in b.items] for x in a.items]
    return len(a.items) == len(b.items) and all(map(any, pairs)) and all(map(any, zip(*pairs)))


def same_equation(a, b, forgiving):
    """x = 5 beside x = 5.0, y = 2x beside f(x) = 2x, and 2x + 4y = 6 beside x + 2y = 3."""
    functions = all(re.fullmatch(r"y|\w\(\w\)", tree.label or "") for tree in (a, b))
    if (a.label == b.label is not None or functions) and alike(a.content, b.content, forgiving):
        return True
    return bool(a.differences and b.differences) and agree(a.differences, b.differences)


# ---- One spelling for what people write in many ways. What follows is text still.


def by_name(spellings):
    """Return {spelling: what it stands for} of {what it stands for: its spellings}."""
    return {name: sign for sign, names in spellings.items() for name in names.split()}


SIGNS = by_name({  # one spelling of a sign or a command: the characters and commands that stand for the same
    "<=": r"≤ ⩽ \le \leq \leqslant", ">=": r"≥ ⩾ \ge \geq \geqslant", "<": r"\lt", ">": r"\gt",
    "!=": r"≠ \ne \neq", "≈": r"\approx", "∈": r"\in", "=": r"≡ \equiv",
    "-": r"− – — \setminus", "*": r"× · ⋅ \times \cdot", "/": r"÷ ⁄ ∕ \div", "±": r"\pm", "∓": r"\mp",
    "∪": r"\cup", r"\emptyset ": r"∅ \varnothing", r"\{": r"\lbrace", r"\}": r"\rbrace",
    "|": r"\lvert \rvert \vert \mid", ",": r"、 或 和", "'": r"’ ′ \prime", "%": r"\%", " cents ": "¢",
    r"\frac": r"\dfrac \tfrac \cfrac", r"\frac{1}{2}": "½", r"\sqrt ": "√", r"\infty ": "∞", r"\pi ": "π",
    "(": r"\langle", ")": r"\rangle", r"\theta ": "θ", r"\mathbb{R}": "ℝ", r"^\circ ": "° º", ".": "。",
    " ":  # what only changes the looks
        r"“ ” £ € ¥ \boxed \displaystyle \rm \bf \mathbf \vec \left \right \big \Big \bigg \Bigg \bigl "
        r"\bigr \quad \qquad \( \) \[ \] \, \; \:",
})  # fmt: skip
SIGNS |= {r"\ ": " ", "~": " ", "\u00a0": " ", "\u2009": " ", "\u202f": " "}  # blanks
SIGNS |= {chr(0xFF01 + n): chr(0x21 + n) for n in range(94)}  # the wide characters of Chinese texts
SIGNS |= {"⁰¹²³⁴⁵⁶⁷⁸⁹"[n]: f"^{n}" for n in range(10)}
BOLD = re.compile(r"(?<![\w)])\*\*|\*\*(?![\w(])")  # 2**3 stays
SCALES = {"dozen": 12, "hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9}


def marked(match):
    """What \\text{...} holds: its words with a mark ("cm) that keeps them apart from letters (c times m)."""
    word = r"(?<![\\A-Za-z])[A-Za-z]{2,}|(?<=^ )[A-Za-z](?=,? *$)"
    return " " + re.sub(word, r'"\g<0>', match[1]) + " "


def digits_only(match):
    return re.sub(r"\D", "", match[0])


def without_commas(match):
    """A text that is no tuple, without the commas of its thousands."""
    return re.sub(r"(?<![\d.,])\d{1,3}(?:,\d{3})+(?!\d|,\d)", digits_only, match[0])


def repeating(match):
    """0.1 and the period 6 -> the fraction 1/6, as text."""
    start, period = match.groups()
    places = len(start.partition(".")[2])
    nines = 10 ** len(period) - 1
    return f"({int(start.replace('.', '') or 0) * nines + int(period)}/{10**places * nines})"


def rows_of(match):
    """A matrix as a tuple of rows, a vector as a tuple; other environments as a list."""
    rows = [row.replace("&", ",") for row in re.split(r"\\\\(?:\[\w+\])?", match[2]) if row.strip()]
    if "matrix" not in match[1] and match[1] != "array":
        return ", ".join(row.replace(",", " ") for row in rows)
    return f"({', '.join(f'({row})' for row in rows)})"


# Each rewrite has an example of what it changes, behind it or above it.
REWRITES = [(re.compile(pattern), replacement) for pattern, replacement in [
    # \text{cm} -> "cm
    (r"\\(?:[mh]box|text\w*|emph|math(?:rm|bf)|operatorname\*?) *\{([^{}]*(?:\{[^{}]*\}[^{}]*)*)\}", marked),
    (r"(?<=\d)(?: *\{ *, *\}|,\\!) *(?=\d{3}(?!\d))|\\!", ""),  # 10{,}080 and 10,\!080 -> 10080
    (r"(?<![\d.,_^])\d{1,3}(?:[ ']\d{3})+(?![\d,])", digits_only),  # 10 080 -> 10080
    (r"^(?![(\[{]|\\\{).*", without_commas),  # 10,080 -> 10080, but not in (10,080)
    (r"^ *(?:\\\$|\$(?!.*\$)) *([\d.]+)", r'\1 "dollars '),  # $5 -> 5 dollars
    (r"(?<![\w.^)])(\d+)!=(?=\d)", r"\1! ="),  # 5!=120 -> 5! =120
    (r"^(-?[\d.]+) ([mghsl])$", r'\1 "\2'),  # 150 g -> 150 "g
    (r"\\?\$", " "),
    (r"(?s)(?:\\\{ *)?\\begin *\{(?!vm)(\w+)\*?\}(?:\{[lcr|]+\})?(.*?)\\end *\{\w+\*?\}", rows_of),
    (r"(?i)^ *(?:about|exactly|approximately|[=≈])|^[A-Z]: (?=[-\\$\d])", ""),  # about 12 -> 12, A: 12 -> 12
    (r'\\mathbb *\{? *R *\}?|(?i:^ *"?(?:all )?"?real(?:s|(?: "?numbers)) *$)', r"(-\\infty,\\infty)"),
    (r"\^ *\{? *\\circ *\}?(?: *[CF] *$)?", ' "degrees '),  # 90^\circ -> 90 degrees
    (r'(?<=[\d}]) *"?(mi|k?m|ft) */ *"?(hr?|s) *$', r' "\1/"\2'),  # 60 km/h -> 60 "km/"h
    (r"(?<![\w.])(\d*\.\d*)\\(?:overline|bar|dot) *\{? *(\d+) *\}?", repeating),  # 0.1\overline{6} -> (15/90)
    (r"(?<![\d./^_a-zA-Z}])(\d+) +(\d+) */ *(\d+)(?![\d/])", r"\1\\frac{\2}{\3}"),  # 2 1/3 -> 2\frac{1}{3}
    (r'"?\b(?:square|sq) +"?([a-z]+)', r' "\1^2'),  # square feet -> feet^2
    (r'"?\bcubic +"?([a-z]+)', r' "\1^3'),
    (r'"?\bper +"?(?=[a-z])', '/"'),  # miles per hour -> miles/hour
    (r"_ *\{ *(\w+) *\}", r"_\1"),  # x_{1} -> x_1
    (r'(?<=\d) *\^? *\{? *"?(?:st|nd|rd|th) *\}?$', ""),  # 12^{th} -> 12
    (r"[,;] *[a-z] *(?:∈|\bin\b) *(?:\\mathbb)? *\{? *Z *\}?$", ""),  # n pi, n in Z -> n pi
    (r"^ *([A-Za-z]\w*) *≈", r"\1 ="),  # x ≈ 5 -> x = 5
    (r"(?<=\S)[\s,;(]*(?:≈|\b(?:since|because|approximately)\b).*$", ""),  # 5 ≈ 4.99 -> 5
    (r'[,;] *(?="?(?:and|or)\b)', ""),  # 1, 2, and 3 -> 1, 2 and 3
    (r"\s+", " "),  # blanks
]]
SIGN = re.compile(r"\\(?:[A-Za-z]+|.)|[^\x00-\x7f]|~", re.S)


def clean(text):
    """One spelling for what people write in many ways; still text."""
    text = text.strip()
    if re.fullmatch(r"-?[0-9]+", text) or len(text) > CHARACTERS:
        return text
    text = BOLD.sub("", text).strip("*_` \n\t")
    text = SIGN.sub(lambda match: SIGNS.get(match[0], match[0]), text)
    for pattern, replacement in REWRITES:
        text = pattern.sub(replacement, text)
    return text.strip(" ,;:`").rstrip(" .,;:")


# ---- Numbers: a Fraction where it is exact, else complex; an expression in variables is the list of its
# values at four points, where None stands for a point at which it has none.


def value_tree(value):
    return Tree("value", value if isinstance(value, (complex, list)) else Fraction(value))


def is_number(tree):
    return tree.kind == "value" and not isinstance(tree.number, list)


def agree(a, b):
    """Equal up to the rounding of floating point; a long decimal is not the endless number it is near."""
    if isinstance(a, list) or isinstance(b, list):
        several = [values if isinstance(values, list) else [values] * 4 for values in (a, b)]
        return all(x is y is None or None not in (x, y) and agree(x, y) for x, y in zip(*several))
    exact = [value for value in (a, b) if isinstance(value, Fraction)]
    if a == b or len(exact) == 2:
        return a == b
    if exact and (exact[0].denominator > 10**6 or abs(exact[0]) > 10**9):
        return False
    return abs(a - b) <= 1e-11 * abs(a) < math.inf


@lru_cache(maxsize=1000)
def point_of(name):
    """The values of a variable: in (0, 1), above 2, negative, large."""
    draw = random.Random(name.encode(errors="replace")).randint
    return [
        Fraction(draw(1, 9000), 9001), 2 + Fraction(draw(1, 49999), 7001),
        -Fraction(draw(1, 39999), 9007), 20 + Fraction(draw(1, 99989), 997)]  # fmt: skip


def compute(name, *trees):
    """The value of an operation on numbers, or on expressions at each of their points."""
    if name == "union":
        return Tree("set", items=[*chain(*(tree.items if tree.kind == "set" else [tree] for tree in trees))])
    if name == "minus" and trees[1].kind == "set":  # without these
        return Tree("tuple", brackets="\\", items=[*trees])
    if any(tree.kind != "value" or tree.number == math.inf for tree in trees):
        raise Unreadable("a calculation with something else than numbers")
    numbers = [tree.number / 100 if tree.unit == "%" else tree.number for tree in trees]
    if not any(isinstance(n, list) for n in numbers):
        return value_tree(computed(name, numbers))
    values = []
    for point in range(4):
        there = [n[point] if isinstance(n, list) else n for n in numbers]
        try:
            values.append(None if None in there else computed(name, there))
        except ZeroDivisionError:
            values.append(None)
    if values.count(None) > 2:
        raise Unreadable("too complex")
    return value_tree(values)


def computed(name, numbers):
    if name in OF_INTEGERS:
        if not all(isinstance(n, Fraction) and n.denominator == 1 and abs(n) <= 1500 for n in numbers):
            raise Unreadable("too complex")
        numbers = [*map(int, numbers)]
    elif name in OF_FLOATS:
        numbers = [*map(complex, numbers)]
    try:
        value = OPERATIONS[name](*numbers)
    except (ValueError, TypeError):  # ln 0, (-1)!, sin of two numbers
        raise ZeroDivisionError from None
    if isinstance(value, (int, Fraction)):
        value = Fraction(value)
        if value.numerator.bit_length() + value.denominator.bit_length() > BITS:
            raise Unreadable("too complex")
        return value
    if not abs(value) < 1e300 or name in OF_FLOATS and abs(value) > 1e12:
        raise ZeroDivisionError  # tan of a right angle
    return value


def power(a, b):
    if isinstance(a, Fraction) and isinstance(b, Fraction):
        if abs(b) * max(a.numerator.bit_length(), a.denominator.bit_length()) > BITS:
            raise Unreadable("too complex")
        if b.denominator == 1:
            return a ** int(b)
    return complex(a) ** complex(b)


OF_INTEGERS = {"factorial": math.factorial, "binom": math.comb}
OF_FLOATS = {name: getattr(cmath, name) for name in ("sin", "cos", "tan", "exp")} | {
    "ln": cmath.log, "log": cmath.log10, "arcsin": cmath.asin, "arccos": cmath.acos, "arctan": cmath.atan,
    "cot": lambda x: 1 / cmath.tan(x), "sec": lambda x: 1 / cmath.cos(x), "csc": lambda x: 1 / cmath.sin(x),
}  # fmt: skip
OPERATIONS = OF_INTEGERS | OF_FLOATS | {
    "add": operator.add, "minus": operator.sub, "mul": operator.mul, "div": operator.truediv, "pow": power,
    "abs": abs, "floor": math.floor, "ceil": math.ceil,
}  # fmt: skip


# ---- Tokens of LaTeX and plain text: one name for what has several. A word has a mark before it: "cm

PLAIN = by_name({  # words and signs of plain text
    ",": "and or", "-": "minus negative", "=": "is are equals ==", "\\infty": "infinity inf oo",
    "%": "percent pct", "*": "times", "\\sqrt": "sqrt", "\\pi": "pi", "∪": "union", "^": "**",
})  # fmt: skip
WORDS = {name for name in UNITS if len(name) > 1} | {"of", "to", "per", "the", "men", "odd", "yes"}
TOKEN = re.compile(
    r"(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3}(?![\w.]))?"  # 12, .5, 1.5e-3
    r'|"?[A-Za-z]+|\\[A-Za-z]+|\\.'  # abc, "cm, \frac
    r"|<=|>=|!=|==|\*\*|\.\.\.|\S", re.S)
CLOSING = {
    "(": (")", "]"), "[": (")", "]"), "{": ("}",), "\\{": ("\\}",),
    "|": ("|",), "\\lfloor": ("\\rfloor",), "\\lceil": ("\\rceil",)}  # fmt: skip
AROUND = {"||": "abs", "\\lfloor\\rfloor": "floor", "\\lceil\\rceil": "ceil"}
RELATIONS = {"=", "<", ">", "<=", ">=", "!=", "∈"}
# How strongly they bind
OPERATORS = {"∪": ("union", 1), "+": ("add", 4), "-": ("minus", 4), "*": ("mul", 5), "/": ("div", 5)}
NO_FACTOR = {"", "...", "\\}", "\\\\", "\\rfloor", "\\rceil", *RELATIONS, *OPERATORS, *"^_!%',:;)]}&|"}
GREEK = re.compile("alpha|beta|gamma|delta|epsilon|theta|lambda|mu|rho|sigma|tau|phi|varphi|omega|ell")
NAME = r"(?:[A-Za-z]+|\\(?!pi\b)[a-zA-Z]+)(?: ')*(?: _ (?:\{ [^{}]* \}|\S+))?(?: ')*"
LABEL = re.compile(  # x, f(x), sin x, |AB|, floor(100r): not solved for
    rf"{NAME}(?: \( [^()]* \))?|\\(?:sin|cos|tan) {NAME}|\| {NAME} \||\\lfloor [^|=]* \\rfloor")
SUM_OF_NAMES = re.compile(rf"{NAME}(?: [-+] {NAME})+")
CONSTANTS = {
    "pi": value_tree(complex(math.pi)), "e": value_tree(complex(math.e)), "i": value_tree(1j),
    "infty": Tree("value", math.inf), "emptyset": Tree("set")}  # fmt: skip


def tokens_of(text):
    tokens = []
    for match in TOKEN.finditer(text):
        token = match[0]
        word = token.strip('"').lower()
        is_product = text[match.start() - 1 : match.start()].isdigit() or len(word) < 4  # 2abcd, abc
        if word in PLAIN:
            tokens.append(PLAIN[word])
        elif word in SCALES or word in CHANGING_WORDS:
            tokens.append(word if word in SCALES else "~" + word)
        elif token in OF_FLOATS:
            tokens.append("\\" + token)
        elif word.isalpha() and len(token) > 1 and token.isascii():
            # a product of variables: abc; but AB, II are one name
            is_word = token[0] == '"' or not is_product or word in WORDS
            tokens += ['"' + word] if is_word else [token] if token.isupper() else token
        else:
            tokens.append(token)
    return tokens


# ---- The parser makes a tree from tokens by recursive descent. No text is ever run as code.


class Parser:
    """Each method reads one thing from the tokens and returns its tree."""

    def __init__(self, tokens):
        self.tokens = [*tokens, ""]
        self.at = 0  # the place among the tokens

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
        token = self.take(*expected)
        if token is None:
            raise Unreadable(self.next)
        return token

    def items(self):
        """Relations separated by commas, semicolons, "and" or "or"."""
        found = [self.relation()]
        while self.take(",", ";"):
            found.append(self.relation())
        return found

    def relation(self):
        operators = []
        sides = []
        while True:
            start = self.at
            tree = self.expression()
            sides.append((tree, " ".join(self.tokens[start : self.at])))
            if self.next not in RELATIONS:
                return related(operators, sides) if operators else tree
            operators.append(self.take())

    def expression(self, least=0):
        """A value and what follows it, up to an operator that binds less than `least`."""
        sign = self.take("+", "-")
        node = signed(sign, self.expression(max(5, least))) if sign else self.power()
        while True:
            name, binding = OPERATORS.get(self.next, ("mul", 5))
            if binding < least:
                return node
            is_measure = is_number(node) or node.kind == "value" and self.next[1:] in UNITS
            if self.next in OPERATORS:
                self.take()
                node = compute(name, node, self.expression(binding + 1))
            elif self.take("%"):
                node = replace(node, unit="%") if is_number(node) else compute("div", node, value_tree(100))
            elif self.next in SCALES and is_number(node):
                node = compute("mul", node, value_tree(SCALES[self.take()]))
            elif self.next[:1] == '"' and is_measure:
                node = replace(node, unit=self.units())
            elif self.next in NO_FACTOR or node.unit:
                return node
            else:
                node = self.adjacent(node)

    def adjacent(self, node):
        """A product where no sign stands between: 2x. But 3 1/2 is a sum."""
        before = self.tokens[self.at - 1]
        after_power = self.tokens[self.at - 2] == "^"
        digit_next = self.next[0] in "0123456789."
        if before[:1] == '"' or digit_next and before not in "!)}" and not after_power:
            raise Unreadable("a number after a factor")
        may_be_mixed = before.isdigit() and not after_power and self.next == "\\frac" and is_number(node)
        factor = self.power()
        if may_be_mixed and isinstance(factor.number, Fraction) and 0 < factor.number < 1:
            return compute("add", node, factor)
        return compute("mul", node, factor)

    def units(self):
        """The units after a number as one word, such as cm^2 or mi/h; nouns among them are dropped."""
        found = ""
        while self.next[:1] == '"':
            found += UNITS.get(self.take()[1:], "")
            if self.take("^"):
                found += f"^{self.group().number}"
            if self.next in ("/", "*") and self.tokens[self.at + 1][:1] == '"':
                found += self.take()
        return found.strip("/*")

    def power(self):
        node = self.atom()
        while True:
            if self.take("^"):
                sign = self.take("-")
                node = compute("pow", node, signed(sign, self.group() if self.next == "{" else self.power()))
            elif self.take("!"):
                node = compute("factorial", node)
            else:
                return node

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
        token = self.need()
        if token[0] in "0123456789" or token[0] == "." and token.strip("."):
            decimals = 0 if "e" in token.lower() else len(token.partition(".")[2])
            return Tree("value", Fraction(token), decimals)
        if token in CLOSING:
            return self.bracket(token)
        if token.isalpha() and token.isascii():
            return self.letter(token)
        if token[0] == "\\":
            return self.command(token[1:])
        raise Unreadable(f"a value expected at {token!r}")

    def letter(self, name):
        """A constant, a variable, or f(x) as a name, as f is a function."""
        if name in CONSTANTS and self.next not in ("_", "'"):
            return CONSTANTS[name]
        if self.take("_"):
            name += "_" + self.need()
        if name in "fghFGH" and re.match(r"\( [^()]* \)", " ".join(self.tokens[self.at : self.at + 20])):
            while name[-1] != ")":
                name += self.take()
        return value_tree(point_of(name))

    def bracket(self, opening):
        """(5), (1, 2), [0, 1), {1, 2}, |x|: a thing in brackets, a tuple, an interval, a set, an absolute."""
        closing = CLOSING[opening]
        if self.take(*closing):
            return CONSTANTS["emptyset"]
        items = self.items()
        brackets = opening + self.need(*closing)
        if brackets in AROUND:
            return compute(AROUND[brackets], *items)
        if len(items) == 1:
            return items[0]
        if ")" not in closing:
            return Tree("set", items=items)
        return Tree("tuple", brackets=brackets, items=items)

    def command(self, name):
        if name in OF_FLOATS:
            return self.function(name)
        if name in ("frac", "binom"):
            return compute("div" if name == "frac" else name, self.group(True), self.group(True))
        if name == "sqrt":
            degree = value_tree(2)
            if self.take("["):
                degree = self.expression()
                self.need("]")
            return compute("pow", self.group(), compute("div", value_tree(1), degree))
        if name not in CONSTANTS and not GREEK.fullmatch(name):
            raise Unreadable(f"unknown command {name}")
        return self.letter(name)

    def function(self, name):
        """sin x, sin^2 x, sin(2x), log_2 8."""
        base = compute("ln", self.group(True)) if self.take("_") else None
        exponent = signed(self.take("-"), self.group()) if self.take("^") else None
        node = self.atom() if self.next == "(" else self.expression(5)
        if node.unit == "degree":
            node = compute("mul", node, value_tree(complex(math.pi / 180)))
        if name in ("sin", "cos", "tan") and exponent and exponent.number == -1:
            return compute("arc" + name, node)
        node = compute("div", compute("ln", node), base) if base else compute(name, node)
        return compute("pow", node, exponent) if exponent else node


def signed(sign, tree):
    if sign != "-":
        return tree
    return replace(tree, number=-tree.number) if is_number(tree) else compute("mul", value_tree(-1), tree)


def related(operators, sides):
    """The tree of a chain of relations. A side is a tree and its text."""
    (first, text), (last, _) = sides[0], sides[-1]
    if not {*operators} <= {"=", "∈"}:
        return inequality(operators, sides)
    name = re.sub(r"[ {}]", "", text)
    if last.kind != "value" or first.kind != "value" or "∈" in operators:
        return Tree("equation", label=name, content=last)
    if is_number(first) and is_number(last) or agree(first.number, last.number):
        return last  # a calculation: its last part is the answer
    gaps = compute("minus", first, last).number
    unit = next((gap for gap in gaps if gap), math.inf)
    differences = [gap and gap / unit for gap in gaps]  # the same for multiples of the equation
    label = name if LABEL.fullmatch(text) else None
    combines = last.number != 0 and SUM_OF_NAMES.fullmatch(text) is not None
    return Tree("equation", label=label, content=last, differences=differences, combines=combines)


def inequality(operators, sides):
    """x > 2, 2 < x or 1 <= x < 3, as the interval of the numbers that it allows."""
    signs = {each[0] for each in operators}
    if signs == {">"}:
        operators, sides = operators[::-1], sides[::-1]
    trees = [tree for tree, _ in sides]
    middle = next((n for n, tree in enumerate(trees) if isinstance(tree.number, list)), None)
    is_name = middle is not None and LABEL.fullmatch(sides[middle][1])
    if signs not in ({"<"}, {">"}) or not is_name or len(sides) > 3:
        raise Unreadable("no interval")
    low = trees[0] if middle else signed("-", CONSTANTS["infty"])
    high = trees[-1] if middle < len(trees) - 1 else CONSTANTS["infty"]
    closed_low = middle and "=" in operators[0]
    closed_high = middle < len(trees) - 1 and "=" in operators[-1]
    brackets = ("[" if closed_low else "(") + ("]" if closed_high else ")")
    content = Tree("tuple", brackets=brackets, items=[low, high])
    return Tree("equation", label=re.sub(r"[ {}]", "", sides[middle][1]), content=content)


if __name__ == "__main__":
    if not common:
        print(__doc__)
        sys.exit("error: to label runs, this file needs common.py and sandbox_exec.py beside it")
    common.entry(main, "labels are kept, but for those of the last minute; run it again")
