"""Judge every rollout of a run: run its code against the tests, or compare its answer with the reference.

    python 02_label.py RUN [RUN ...]            # reads problems.jsonl and rollouts.jsonl, writes labels.jsonl
    python 02_label.py DATASET --self-check     # do the reference solutions pass, and do empty ones fail?

RUN is a folder that 01_generate.py made. labels.jsonl has a row for each rollout, in the same order: {"id",
"sample", "label": 1|0|null, "answer", "group", "reason", "stamp"}. A label of null means that the rollout
could not be judged, and the reason says why. The answer of code is its program. Equal answers to a problem
share a group number, so that votes need no maths (null: no answer, or code). The stamp is of what decides the
label: the problem, the response, the judge (this file; for programs also sandbox_exec.py) and --timeout. A
second run of this command judges only rollouts whose stamp differs or whose label is null.

To judge maths elsewhere, copy this file alone:

    import importlib
    judge = importlib.import_module("02_label")
    answer = judge.answer_of(r"Adding up, the answer is $x = \\frac{1}{2}$.")    # it never sees the reference
    print(judge.same("0.5", answer))                                             # True

In this file: labels of a run, extraction of code, extraction of answers, equality of answers, the parser.
Model-written programs run in the sandbox only; model-written formulas are parsed and never run as code.
"""

import argparse
import ast
import cmath
import json
import math
import operator
import random
import re
import sys
import textwrap
import warnings
from bisect import bisect
from collections import Counter, namedtuple
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache, partial, reduce
from itertools import chain
from pathlib import Path

try:
    import common
except ModuleNotFoundError:  # a copy of this file alone is no command
    common = None


# ------------------------------------------------------------------------------------------------------------
# Labels of a run


def main():
    options = parse_args()
    if options.self_check:
        failures = [self_check(dataset, options) for dataset in options.targets]
        raise SystemExit(1 if any(failures) else 0)
    print_summaries([label_run(Path(run), options) for run in options.targets], options)


def parse_args(words=None):
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    add = parser.add_argument
    add("targets", nargs="+", metavar="RUN", help="run folders; with --self-check data set names or files")
    add("--self-check", action="store_true", help="judge the data set's own reference solutions and stubs")
    add("--workers", type=int, help="programs judged at the same time (default: one a core)")
    add("--timeout", type=float, default=10, help="processor seconds for a program (default 10)")
    add("--unsafe", action="store_true", help="run programs even where nothing can confine them")
    add("--json", action="store_true", help="print a last line of JSON, for programs")
    options = parser.parse_args(words)
    if options.workers is not None and options.workers < 1:
        common.die(f"--workers {options.workers}: give a number above 0")
    if not 0 < options.timeout < math.inf:
        common.die(f"--timeout {options.timeout}: give a number above 0")
    return options


def label_run(run, options):
    """Bring the run's labels.jsonl up to date, unless a person made it; return the run's row of the table."""
    rollouts = common.read_rollouts(run)
    keys = common.keys_of(common.align(rollouts, None, run / "rollouts.jsonl"))
    common.check_same_problems(run, rollouts)
    problems = {row["id"]: row for row in common.read_jsonl(run / "problems.jsonl")}
    path = run / "labels.jsonl"
    earlier = common.read_jsonl(path, needs=("id", "sample", "label")) if path.is_file() else []
    if not earlier or any("stamp" in row for row in earlier):
        labels = update_labels(run, problems, rollouts, earlier, options)
        if labels != earlier:
            common.write_jsonl(path, labels)
        journal_of(run).unlink(missing_ok=True)
    return summarise(run, problems, common.read_labels(run, keys))


def update_labels(run, problems, rollouts, earlier, options):
    """The labels of all rollouts, of which only those are judged that have none, or null, or another stamp."""
    stamps = stamps_of(problems, rollouts, options)
    rows = earlier + read_journal(run)
    found = {key: row for key, row in zip(common.keys_of(rows), rows) if key in stamps}
    labels = {key: row for key, row in found.items()
              if row.get("stamp") == stamps[key] and not may_get_a_label(row, problems)}  # fmt: skip
    again = {key: row["label"] for key, row in found.items() if key not in labels}
    common.write_jsonl(journal_of(run), labels.values())
    to_judge = rollouts_to_judge(problems, rollouts, labels)
    with open(journal_of(run), "a", encoding="utf-8") as journal:
        for label in judge_rollouts(problems, to_judge, options):
            key = label["id"], label["sample"]
            labels[key] = label | {"stamp": stamps[key]}
            print(json.dumps(labels[key]), file=journal, flush=True)
    if again:
        changed = sum(labels[key]["label"] != label for key, label in again.items())
        print(f"{run}: {len(again)} of {len(earlier)} labels judged again, {changed} changed", file=sys.stderr)
    return [labels[key] for key in stamps]


def journal_of(run):
    """The file that keeps what is judged, for a killed run to resume."""
    return run / ".labels.unfinished.jsonl"


def read_journal(run):
    """The rows of the journal but for its last line, which may be torn."""
    path = journal_of(run)
    text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    return [json.loads(line) for line in text.split("\n")[:-1]]


def stamps_of(problems, rollouts, options):
    """{(id, sample): the stamp of what decides its label}: problem, response, judge and, for code, the limit."""
    of_problem = {}
    for key, problem in problems.items():
        limit = f"-{options.timeout:g}s" if problem["kind"] == "code" else ""
        of_problem[key] = f"{common.stamp(problem)}-{common.judge_stamp(problem['kind'])}{limit}"
    stamps = [f"{of_problem[row['id']]}-{common.stamp(row['response'])}" for row in rollouts]
    return dict(zip(common.keys_of(rollouts), stamps))


def may_get_a_label(row, problems):
    """Is a label null, though its problem has an answer or tests? The sandbox may work the next time."""
    problem = problems[row["id"]]
    return row["label"] is None and ("tests" in problem or problem.get("answer") is not None)


def rollouts_to_judge(problems, rollouts, labels):
    """Those without a label; of answers, which share groups, all of a problem."""
    missing = [row for key, row in zip(common.keys_of(rollouts), rollouts) if key not in labels]
    whole = {row["id"] for row in missing if problems[row["id"]]["kind"] != "code"}
    return [row for row in missing if row["id"] not in whole] + [row for row in rollouts if row["id"] in whole]


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
    """The labels of a problem whose answers are compared with a reference, and with each other for votes."""
    extract, group = readers_of(problem)
    answers = [extract(row["response"]) for row in rows]
    verdicts = {answer: verdict(problem, answer) for answer in {*answers}}
    labels = []
    for row, answer, number in zip(rows, answers, group(answers)):
        labels.append(make_label(row, answer and answer[:1000], number, *verdicts[answer]))
    return labels


def readers_of(problem):
    """Two functions for a problem: one takes the answer from a response, one groups answers."""
    if problem["kind"] == "code":
        return partial(extract_code, problem=problem), groups_of
    if problem["kind"] == "text":
        return words_of, partial(groups_of, equal=same_words)
    return answer_of, groups_of


def verdict(problem, answer):
    """(right? or None for not judged, the reason) for an answer to a problem."""
    if problem.get("answer") is None:
        return None, "no answer" if answer is None else "no reference"
    if answer is None:
        return False, "no answer"
    references = references_of(problem)
    spellings = [read(reference).text for reference in references]
    if problem["kind"] == "text":
        right = any(same_words(reference, answer) for reference in references)
    elif read(answer).text not in spellings and repeats(answer, problem["prompt"]):
        return False, "repeats the question"
    else:
        right = any(same(reference, answer) for reference in references)
        if not right and read(answer).tree.kind == "too complex":
            return False, "too complex"
    return right, "equal" if right else "different"


def references_of(problem):
    """The references of a problem, any of which is right."""
    answer = problem["answer"]
    return [*map(str, answer)] if isinstance(answer, list) else [str(answer)]


def same_words(reference, answer, forgiving=None):
    """For problems whose answer is text: the same letters, digits and signs."""
    return letters_and_signs(reference) == letters_and_signs(answer)


IN_QUOTES = re.compile(r"""(?:\*\*|["'`“‘«])(.+)(?:\*\*|["'`”’»])""")


def letters_and_signs(text):
    """A text without blanks, case, a full stop at its end, and quotes or bold type around it."""
    text = "".join(text.split()).casefold().removesuffix(".")
    quoted = IN_QUOTES.fullmatch(text)
    return letters_and_signs(quoted[1]) if quoted else text


def make_label(row, answer, group, right, reason):
    """A row of labels.jsonl, but for its stamp."""
    if row.get("finish") == "length" and right is False:
        reason = f"cut at the length limit: {reason}"
    if answer is not None:
        answer = answer.encode(errors="replace").decode()  # without the halves of surrogate pairs
    label = None if right is None else int(right)
    key = {"id": row["id"], "sample": row["sample"]}
    return {**key, "label": label, "answer": answer, "group": group, "reason": reason}


def sandbox_job(problem, program, options):
    fields = ("tests", "style", "entry_point", "prelude")
    given = {name: problem[name] for name in fields if problem.get(name) is not None}
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
        print_once(textwrap.fill(pool.banner, 110))
        yield from pool.imap_unordered(jobs)


@lru_cache
def print_once(text):
    """However many runs one command labels."""
    print(text, file=sys.stderr)


def percent(part, whole):
    return round(100 * part / whole, 2) if whole else None


def summarise(run, problems, labels):
    """A row of the table that is printed."""
    judged = [row for row in labels if row["label"] is not None]
    right = [row for row in judged if row["label"]]
    reasons = Counter()  # in full where a rollout was not judged
    for row in labels:
        reasons[row["reason"][:100] if row["label"] is None else row["reason"].partition(":")[0]] += 1
    solved_percent = percent(len({row["id"] for row in right}), len({row["id"] for row in judged}))
    return {
        "run": str(run), "problems": len(problems), "rollouts": len(labels), "right": len(right),
        "right_percent": percent(len(right), len(judged)), "wrong": len(judged) - len(right),
        "not_judged": len(labels) - len(judged), "oracle_percent": solved_percent,
        "no_answer": sum(row["reason"].endswith(("no answer", "no code")) for row in labels),
        "reasons": dict(reasons.most_common()),
    }  # fmt: skip


def print_summaries(summaries, options):
    columns = [name for name in summaries[0] if name != "reasons"]
    header = [name.replace("_percent", " %").replace("_", " ") for name in columns]
    print(common.table(header, [[row[name] for name in columns] for row in summaries]))
    for row in summaries:
        reasons = ", ".join(f"{count} {reason}" for reason, count in row["reasons"].items())
        print(f"{row['run']}: reasons: {reasons}")
        if row["not_judged"] == row["rollouts"]:
            print(f"{row['run']}: nothing to judge: no problem has an answer or tests; 04 can still select")
    if options.json:
        print(json.dumps({"runs": summaries}))


def self_check(dataset, options):
    """Print what the judge gets wrong about the data set's own solutions, answers and stubs; return it."""
    problems = {row["id"]: row | {"prompt": ""} for row in common.load_problems(dataset)}
    rollouts = []
    for key, problem in problems.items():
        responses = {}
        if problem["kind"] != "code" and problem.get("answer") is not None:
            for reference in references_of(problem):
                text = f"Therefore the answer is $\\boxed{{{reference}}}$."
                rollouts.append({"id": key, "sample": "answer", "response": text})
        if problem["kind"] == "code" and "tests" in problem:
            name = problem.get("entry_point", "main")
            responses["stub"] = f"```python\ndef {name}(*args, **kwargs):\n    pass\n```"
            if "solution" in problem:
                responses["solution"] = f"```python\n{problem['solution']}\n```"
        rollouts += [{"id": key, "sample": what, "response": text} for what, text in responses.items()]
    labels = list(judge_rollouts(problems, rollouts, options))
    counts = Counter(label["sample"] for label in labels)
    solved = {label["id"] for label in labels if label["sample"] == "solution"}
    failures = []
    for label in labels:
        wanted = label["sample"] != "stub"
        # a stub that cannot be judged is no failure if the same tests work for a solution
        excused = not wanted and label["label"] is None and label["id"] in solved
        if label["label"] != wanted and not excused:
            failures.append(f"{label['id']}: its {label['sample']}: {label['reason']}")
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


# ------------------------------------------------------------------------------------------------------------
# Extraction of code. The last of the most likely blocks counts:
#
#   4   it defines what is asked for; 3: it is the body of the function that the prompt opens
#   2   it defines some function; where tests ask for none, it reads input
#   1   it is Python; 0: it is not

FENCED = re.compile(  # a block, closed or cut off at the end
    r"^(.*[>:*][ \t]*|[ \t]*)"  # what stands before it on its line: words, a tag, a quotation's >
    r"(```+|~~~+)[^`\n]*\n(.*?)(?:\2[`~]*[ \t]*$|\Z)", re.M | re.S)
READS_INPUT = re.compile(r"\binput\(|\bstdin\b|\bopen\(0")


def split_reasoning(text):
    """(reasoning, answer) of a response, by <think> or gpt-oss's channels; cut while reasoning: no answer."""
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
    """The program that a response gives, or None: the best of its blocks, or the text if it is a program."""
    final = SPECIAL.sub("", split_reasoning(response)[1]).replace("\r\n", "\n").replace("\r", "\n")
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
    if wanted and problem.get("style") == "pytest" and len(functions) == 1 and wanted not in defined(tree):
        return f"{code}\n\n{wanted} = {functions[0]}\n"
    return code


# ------------------------------------------------------------------------------------------------------------
# Extraction of answers. The first line that finds something decides:
#
#   a final answer that is announced after the last box             \boxed{5} The final answer is 6.   6
#   the last box after the reasoning, with those joined to it       \boxed{2} and \boxed{3}   2, 3
#   what a phrase announces                                         The answer is 5 cm.       5 cm
#   a single lettered choice                                        B. 12                     B. 12
#   the last formula of the last sentence that has one              So x = 5, as wanted.      x = 5
#   all of a response of a few words                                no real roots             no real roots
#
# What a sentence says of its formula is not read: "x is not 5" gives 5. Only where a phrase announces "not 5"
# are these words the answer. Formulas are first set between START and END in place of $...$ and the like, so
# that each is one word.

START, END = "\x02", "\x03"
SPECIAL = re.compile(r"<\|[^|<>]{1,40}\|>|<(?:/?s|eos|end_of_turn)>")
EMPTY = re.compile(r"\\(?:(?:black)?square|qed)(?![a-z])|\\(?:boxed|fbox) *\{ *\}")  # no part of an answer


def answer_of(response):
    """The answer that a response gives, as it is written there, or None. It never sees the reference."""
    reasoning, final = split_reasoning(response)
    final = EMPTY.sub("", SPECIAL.sub("", once_escaped(final[-100_000:]))).strip()
    if not final:
        return boxed(reasoning)  # the response was cut off while reasoning
    found = boxed_or_announced(final)
    if found:
        return found
    text = with_marks(final[-8000:])
    bare = unmarked(text[LEAD_IN.match(text).end() :])
    if LETTERED_CHOICE.fullmatch(bare) or re.fullmatch("[A-J]", bare):
        return bare
    in_words = len(bare.split()) <= 6 and not ANNOUNCEMENT.search(bare) and not NEUTRAL.fullmatch(bare)
    return ending(text) or (bare if in_words else None)


def words_of(response):
    """For problems whose answer is text: a box, what a phrase announces, or the whole final part."""
    final = SPECIAL.sub("", split_reasoning(response)[1]).strip()
    found = boxed_or_announced(final) if len(final.split()) > 3 else boxed(final)
    return found or final or None


def boxed_or_announced(text):
    """The last box, but for a final answer that is announced after it; without a box, what is announced."""
    boxes = boxes_of(text)
    if not boxes:
        return announced(with_marks(text[-8000:]))
    later = re.compile("(?i)final answer").search(text, boxes[-1].end)
    final = announced(with_marks(text[later.start() :][-8000:]), FINAL) if later else None
    if final and (is_formula(final) or re.fullmatch("[A-J]", final)):
        return final
    return joined_boxes(text, boxes)


def with_marks(text):
    """The text with each formula between START and END."""

    def mark(formula):
        inner = next(group for group in formula.groups() if group is not None)
        return f"{START}{' '.join(inner.split())}{END}"

    text = re.sub(r"(?<=[一-鿿])(?=[^一-鿿])|(?<=[^一-鿿])(?=[一-鿿])", " ", text)
    text = FORMULA.sub(mark, re.sub(rf"[{START}{END}]|[ \t]+(?=[ \t])", "", text))
    return re.sub(rf"(?:(?<={END})|(?<=\*\*))!+", ".", text)  # $5$! is no factorial


FORMULA = re.compile(  # its content is the group that matched; $18 and $5 are sums of money
    r"\$\$([^$]{1,2000})\$\$"
    r"|\$([^$]+)(?<! )\$"
    r"|(?<!\\)\\[(\[]((?:(?!(?<!\\)\\[(\[]).){1,2000}?)(?<!\\)\\[)\]]",  # \( ... \) and \[ ... \]
    re.S)
LETTERED_CHOICE = re.compile(r"\(?[A-J][.):] \S.{,60}")  # B. 12


def unmarked(text):
    """The text without marks, bold type and what stands around an answer."""
    text = re.sub(rf"{END}\.$", "", BOLD.sub("", text))
    text = re.sub(f"[ {START}{END}]+", " ", text).strip(' *_`"\n')
    return text if text.endswith("...") else text.rstrip(" .。,;:?*_\\")


# ---- Boxes

Box = namedtuple("Box", "start end content")
BOX = re.compile(r"\\(?:boxed|fbox)\b\s*")
UNSEEN = re.compile(  # what LaTeX does not print between two boxes
    r"\\(?:q?quad|(?:text|mbox)(?= *\{))(?![a-z])|\\[()\[\]\\,;:! ]|[{}$~&*]")
BETWEEN_BOXES = re.compile(
    r"[\s,;.、和]*"  # punctuation, or nothing
    # the part of the problem that a box answers: for part (a)
    r"(?:(?:for )?(?:part )?\(?(?:[a-h]|[iv]+|\d)\)?[.:)]?[\s,;.]*)?"
    r"(?:(?:and|or|as well as)[\s,:]*)?"
    r"(?:\\?[a-zA-Z]\w{0,8}(?:_ *\w+|\([a-z\d]\))? *= *)?",  # its name: y_2 =
    re.I)


def boxed(text):
    """The content of the last box, with those joined to it, or None."""
    return joined_boxes(text, boxes_of(text))


def joined_boxes(text, boxes):
    """The content of the last box; of the last few, if a comma, "and", a union or a name joins them."""
    answer = ""
    seen = set()
    next_start = None
    for box in reversed(boxes):
        between = UNSEEN.sub(" ", text[box.end : next_start]) if answer else ""
        is_union = between.strip() == r"\cup"
        if not is_union and not BETWEEN_BOXES.fullmatch(between):
            break
        if box.content not in seen:
            joint = r" \cup " if is_union else ", " if answer else ""
            answer = box.content + joint + answer
        seen.add(box.content)
        next_start = box.start
    return answer or None


def boxes_of(text):
    """The last twenty boxes, but for those within others and those that hold nothing."""
    found = []
    starts = [*BOX.finditer(text)][-20:]
    for box in starts:
        end = end_of_box(text, box.end())
        if found and box.start() < found[-1].end or end is None and box is not starts[-1]:
            continue  # within another box, or its brace is forgotten
        content = text[box.end() : end] if end else re.split(r"[$\n]", text[box.end() :])[0]
        content = unmarked(content.removeprefix("{"))
        before = text[max(0, box.start() - 9) : box.start()]
        sign = "-" if re.search(r"(?:^|[=$:(\s])[-–−] ?$", before) else ""
        if content:
            found.append(Box(box.start(), (end or len(text)) + 1, sign + content))
    return found


def end_of_box(text, start):
    """Where the content of a box ends: at its closing brace, or as \\boxed 5 does."""
    bare = re.compile(r"[^\s$\\{}]+").match(text, start)
    if bare:
        return bare.end()
    depth = 0
    for brace in re.compile(r"\\.|[{}]", re.S).finditer(text, start, start + 2000):
        depth += {"{": 1, "}": -1}.get(brace[0], 0)
        if not depth:
            return brace.start()
    return None


# ---- What a sentence states

ANNOUNCEMENT = re.compile(
    r"####|<answer>"
    # "the answer", up to sixty characters (with whole formulas), and "is" or a colon
    r"|(?:final )?(?:answer|result|(?:correct|right|best) (?:choice|option))s?\b"
    r"(?:[^\n.:=$\x02]|\x02[^\x03]{1,200}\x03|\.\d){0,60}?(?:\b(?:is|are(?! looking)|be)\b|[:=]|\n)"
    # a lettered choice
    r"|\b(?:option|choice|choose)\s+(?=[*$\x02]*\(?[A-J]\b)"
    r"|\b(?:so|hence|thus|therefore),? (?-i:(?=\(?[A-H]\)?\W*$))"
    # the same in Chinese
    r"|(?<!不)(?:答案?|选|[是为])[\s：:]*(?=[\s*]*[A-J\d\x02$(-])",
    re.I)
WEAK_ANNOUNCEMENTS = ("result", "option", "choice", "choose")  # rather "the answer is"
LEAD_IN = re.compile(r"(?:\n *- |[\s:*}])*")  # marks before an answer, as in \text{Answer: } 5
NEUTRAL = re.compile(  # words that may stand between "the answer is" and a formula, as "half of" may not
    r"(?i)(?:(?:"
    r"therefore|thus|then|hence|so|just|only|indeed|\w+ly|about|that|it|there|we|is|are|equals|equal to"
    r"|have|get|find|the|an|ordered|pair|point|interval|vector|set|number|value|of|total|answer|coordinates"
    r"|[a-z]"
    r"|\w+ (?:has|had|makes?|earns?|gets?|needs?|pays?)"  # Tom has
    r")(?![A-Za-z])[\s,:;*]*)*")
FINAL = re.compile(
    r"final answer(?: (?:in|for) [^:.]{,40}:)?\W*(?:(?:(?:would|should|must|will) )?(?:be|is))?", re.I)
NO_ANSWER = re.compile(r"(?:correct|right|given|found|below|above)\b")  # the answer is given below
SENTENCE_END = re.compile(r"(?<=\.)[\s*]+(?=\S)|(?<=!)[\s*]+(?=[A-Z])|</answer>|\n")  # but not in 5! ways
TEXT_END = re.compile(  # an answer in words ends here: even, as both are
    r",?\s+(?:as|so|but|not|which|is (?:the|correct|right))\b")
SIDE_CLAUSE = re.compile(r",?\s+(?:where|when|because)\b|(?:,\s+|\s\()since\b")  # a + b = 17, where b = 9
BOLD_END = re.compile(r"\*\*([^*]+)(?<!:)\*\*\W*$")


def sentences_of(text):
    """The sentences of a text; in "It is 42!" the mark is dropped, as it means no factorial."""
    sentences = SENTENCE_END.split(text)
    return [re.sub(r"((?:^\W*|[a-z] )\d[\d,.]*)!+\s*$", r"\1", sentence) for sentence in sentences]


def announced(text, phrase=None):
    """The answer that a text announces last, by such a phrase, or None."""
    phrases = [each for each in ANNOUNCEMENT.finditer(text) if not phrase or phrase.fullmatch(each[0])][-5:]
    weak = [phrase for phrase in phrases if phrase[0].lower().startswith(WEAK_ANNOUNCEMENTS)]
    strong = [phrase for phrase in phrases if phrase not in weak]
    for phrase in reversed(weak + strong):
        tail = text[phrase.end() : phrase.end() + 1000]
        tail = tail[LEAD_IN.match(tail).end() :]
        found = announced_in(sentences_of(tail)[0])
        if found and not NO_ANSWER.match(found):
            return found
    return None


def announced_in(sentence):
    """The answer in what follows "the answer is": a formula that no other words precede, or the words."""
    formulas = formulas_of(sentence)
    if formulas and NEUTRAL.fullmatch(formulas[0][0]):
        return formulas[0][1]
    bold = BOLD_END.search(sentence)
    if bold:
        return unmarked(bold[1])
    return unmarked(TEXT_END.split(sentence)[0])


def ending(text):
    """The last formula in the main clause of the last sentence that has one: x = 5, when y = 2."""
    for sentence in reversed(sentences_of(text)[-8:]):
        bold = BOLD_END.search(sentence)
        if bold:
            return unmarked(bold[1])
        for part in SIDE_CLAUSE.split(sentence[-400:]):
            formulas = [formula for _, formula in formulas_of(part)]
            if formulas:
                no_letters = [formula for formula in formulas if not formula.isalpha()]
                return (no_letters or formulas)[-1]
    return None


# ---- Formulas among words

# A formula is a run of words that the parser reads; what stands between START and END is one word.
WORD = re.compile(r"[^\s\x02]*\x02[^\x03]*\x03[^\s\x02]*|\S+")
FORMULA_SIGN = re.compile(
    r"[\d=<>^+π√∞]|\\[a-z]"
    r"|^\([A-J]\)(?:[ ,;]+(?:and |or )?\([A-J]\))*$"  # choices: (A) and (C)
    r"|^[a-z](?: ?- ?[a-z]|!)?$")  # x, p - q, n!
PROSE = re.compile(  # three letters that are no part of a formula, or a short word
    r"(?<![A-Za-z\\{])(?:"
    r"(?!and\b|sqrt|sin(?!ce)|cos|tan|log|minus|negative|infinity|degrees?\b|percent|mod)"
    r"(?:[a-z]{3}|[A-Z][a-z]{2})"
    r"|(?:an|as|at|by|do|he|if|in|is|it|of|on|so|to(?! \d)|we)\b)")
ORDINARY = re.compile(  # a word that starts no formula
    r"(?![-–−]$|sqrt|minus|negative|sin|cos|tan|log|ln|pi)(?:[A-Za-z]{2}|[一-鿿]|[^\w\x03$\\(\[{]*$)")
ARTICLE = re.compile(r"(?:[aAI]|\d+(?:st|nd|rd|th)) [A-Za-z]{2}")  # a square, the 7th prime, I guess
NUMBER_AND_UNITS = re.compile(  # 5 miles per hour
    r"(?:\\[a-z]+|[^A-Za-z])*[\d}]((?:[ /](?!in\b)[A-Za-z]+)+)\.?")
IN_BRACKETS = re.compile(r"(?<=[\d\x03)}\]%π]) \([\d\s.+/*%\\-]+\)(?=\W*$)")  # after a formula: 20 (4 * 5)


def formulas_of(text):
    """(words before it, formula) for each formula of a text; a formula is as long as it can be."""
    words = WORD.findall(IN_BRACKETS.sub("", text))
    found = []
    n = 0
    while n < len(words):
        stop = end_of_formula(words, n)
        if stop is None:
            n += 1
            continue
        found.append((" ".join(words[:n]), unmarked(" ".join(words[n:stop]))))
        n = stop
    return found


def end_of_formula(words, start):
    """Where the longest formula ends that starts with this word, or None."""
    if ORDINARY.match(words[start]):
        return None
    for stop in range(min(len(words), start + 24), start, -1):
        if ARTICLE.match(" ".join(words[stop - 1 : stop + 1])):
            continue  # 9, a square
        before = words[start - 1] if start else ""
        if re.match("(?:Step|Case|Part)$", before) and re.match(r"\d+[:)] ", " ".join(words[start:stop])):
            continue  # Step 3: x = 5
        marked = stop == start + 1 and START in words[start]
        if marked or is_formula(unmarked(" ".join(words[start:stop]))):
            return stop
    return None


def is_formula(text):
    """Does a text say something as a formula? A lone word does not."""
    if len(text) > 300 or not FORMULA_SIGN.search(text):
        return False
    plain = re.sub(r"\\(?:text|mbox|mathrm)\s*\{[^{}]*\}", "", text)
    units = NUMBER_AND_UNITS.fullmatch(text)
    of_units = units and all(word in UNITS or word in SCALES for word in re.findall("[A-Za-z]+", units[1]))
    if PROSE.search(plain) and not of_units:
        return False
    tree = read(text).tree
    if tree.kind == "text":  # a time of day, or an inequality that is no set of numbers
        return bool(CLOCK.fullmatch(tree.words) or re.fullmatch(r"\S.*(?:[<>]|\\[lg]eq?(?![a-z])).*\S", text))
    return tree.kind != "too complex"


# ------------------------------------------------------------------------------------------------------------
# Equality of answers. A text is brought to one spelling, then parsed into a tree whose numbers are computed
# on the way, and the trees of two answers are compared part by part. Rational numbers are exact, others
# count to 11 digits, and expressions in variables are equal if their values at four points are. No equation
# is solved and nothing is simplified. The first line that applies decides:
#
#   the same text, or the same words                "the parabola"    "a parabola"    equal
#   units, bases or moduli that do not fit          "5 cm"            "5 m"           different
#   trees of one kind have equal parts              "\frac12"         "0.5"           equal
#   a tree of one kind can be seen as the other     "(2, \infty)"     "x > 2"         equal
#   the reference is the answer, but rounded        "0.33"            "1/3"           equal
#   everything else                                 "1/3"             "0.33"          different
#
# Where graders differ: a decimal is not an endless number however many of its digits it gives (0.333333 is
# not 1/3), unless the reference is the rounded one; 45 degrees is 45, not pi/4: another unit, another answer.

# An answer that exceeds one of these limits is "too complex".
CHARACTERS = 1000
TOKENS = 400
DEPTH = 40  # brackets within brackets
BITS = 20_000  # of an exact number
STEPS = 6000  # of reading one answer
LEFT = [0]  # steps that the reading under way may still take

COLUMN, ROW, RATIO = "", "[", ":"  # "brackets" of a matrix, of its rows, and of 2:3:4
Reading = namedtuple("Reading", "text tree units")


@dataclass(slots=True)
class Tree:
    """What an answer says. The kind tells which of the fields are used."""

    kind: str
    number: object = None  # of a value or a percent: a Fraction, a complex number or a list of four
    decimals: int = 0  # of a value: 2.50 was written with two
    brackets: str = ""  # of a tuple: "()", "(]" or one of the above
    items: list = ()  # of a tuple, a list or a set: trees
    cuts: tuple = ()  # of reals: where this set of real numbers begins and ends, see `combined`
    label: str = None  # of an equation: what stands on its left, "x"; of a choice: its letter
    content: object = None  # of an equation or a choice: the tree of what stands on its right
    differences: list = None  # of an equation: left minus right at four points, divided by the first of these
    combines: bool = False  # of an equation: on its left are several variables; a + b = 5 may stand for 5
    words: str = ""  # of a text, or of what is too complex


class TooComplex(Exception):
    """Beyond the limits."""


class Unreadable(Exception):
    """Not a formula, so it is compared as text."""


def same(reference, answer, forgiving=True):
    """Does an answer say the same as the reference? Both as people write them: LaTeX, plain text or words.

    same("\\\\frac{1}{2}", "x = 0.5")    same("20\\\\%", "1/5")    not same("1/3", "0.33")

    None is equal to nothing, and a number counts as its text. `forgiving`, a reference may leave something
    open: 0.33 stands for 1/3, 52 for 52_8, 20% for 0.2, and 1, 2 for (1, 2). Two answers that vote are not
    forgiven this: else 20 would be in one group with 20%, and 20% with 0.2.
    """
    if reference is None or answer is None:
        return False
    gold, given = read(str(reference)), read(str(answer))
    if with_joined_unit(gold.text) == with_joined_unit(given.text):
        return True
    kinds = gold.tree.kind, given.tree.kind
    of_words = "text" in kinds and not re.search(r"\d", gold.text)
    if of_words and plain_words(gold.text) == plain_words(given.text):
        return True
    if kinds.count("percent") == 1 and (gold.units or given.units):
        return False  # 90% is neither 90 degrees nor 90 cm
    return units_agree(gold.units, given.units, forgiving) and alike(gold.tree, given.tree, forgiving)


def with_joined_unit(text):
    """3 m as 3m."""
    return re.sub(r'(?<=\d)[ "]+(?=[A-Za-z]+$)', "", text)


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


def repeats(answer, prompt):
    """Is the answer a formula of the question, handed back as it stands?"""
    formulas = [tokens_of(clean(part)) for part in re.findall(f"{START}(.*?){END}", with_marks(prompt))]
    is_number_or_tuple = re.fullmatch(r"[-+]?[\w.,]*|[(\[{].*", clean(answer))
    return tokens_of(clean(answer)) in formulas and not is_number_or_tuple


@lru_cache(maxsize=2000)
def read(raw):
    """What a text says: the text in one spelling, its tree, and the units it is measured in."""
    text = clean(raw)
    LEFT[0] = STEPS
    try:
        if len(text) > CHARACTERS:
            raise TooComplex
        tree, words = special(text) or formula(text)
    except (TooComplex, OverflowError, RecursionError):
        return Reading(text, Tree("too complex", words=text), frozenset())
    except (Unreadable, ZeroDivisionError):
        return read_prose(raw, text)
    units = known_units(words)
    if re.search(r"\\\$|^[^$]*\$[^$]*$|\bUSD\b", raw):
        units.add("dollar")
    return Reading(text, tree, frozenset(units))


def read_prose(raw, text):
    """What a text says that is not a formula as a whole: the answer it announces, or its words."""
    inner = boxed_or_announced(raw)
    if inner and len(inner) < len(raw) and clean(inner) != text:
        return read(inner)
    equation = re.fullmatch(r"(.*)(?:=|\b(?:is|are|equals)\b(?= *(?:[-±\d\\(\[]|infinity)))(.*\S.*)", text)
    name = equation[1] if equation else "!"
    is_name = name.count("{") == name.count("}") and not re.search("[<>,;!]", name)
    if is_name and not CHANGING_WORDS & {*re.findall("[a-z]+", name)}:
        return read(equation[2])._replace(text=text)  # \arg z = 5, the area is 5
    return Reading(text, Tree("text", words=plain_words(text)), frozenset())


def formula(text):
    """(tree, words after numbers) of a formula. A ± stands for two answers."""
    tokens = tokens_of(text)
    if len(tokens) > TOKENS:
        raise TooComplex
    if not {"±", "∓"} & {*tokens}:
        return parse(tokens)
    upper, words = parse([{"±": "+", "∓": "-"}.get(token, token) for token in tokens])
    lower, _ = parse([{"±": "-", "∓": "+"}.get(token, token) for token in tokens])
    items = []
    for tree in (upper, lower):
        items += tree.items if tree.kind in ("list", "set") else [tree]
    return Tree("set", items=items) if upper.kind == "set" else settled_list(items), words


def parse(tokens):
    parser = Parser(tokens)
    tree = settled_list(parser.items())
    if parser.next != "":
        raise Unreadable(parser.next)
    return tree, parser.words


def special(text):
    """Answers with a grammar of their own: integers, choices, words for sets, times of day."""
    choice = CHOICE.fullmatch(text)
    if choice:
        content = choice[2] or choice[4]
        tree = read(content).tree if content else None
        return Tree("choice", label=choice[1] or choice[3], content=tree), []
    words = plain_words(text)
    if re.fullmatch(r"(?:there (?:is|are) )?no (?:real )?solutions?(?: exists?)?|empty set|无解", words):
        return NOTHING, []
    if re.fullmatch(r"(?:(?:all|the|set of) )*real(?:s| numbers?)", words):
        return LINE, []
    clock = CLOCK.fullmatch(words)
    if clock and (clock[3] or clock[2] and math.gcd(int(clock[1]), int(clock[2])) > 1):  # 11:21 is a ratio
        half = clock[3] + "m" if clock[3] else ""
        return Tree("text", words=f"{int(clock[1])}:{clock[2] or '00'}{half}"), []
    return None


CHOICE = re.compile(  # (C) 12: the letter in group 1 or 3, what is chosen in group 2 or 4
    r"\(? *([A-J]) *\)"
    r'(?!\s*"?(?:(?:or|and|if|for|when|[a-z]|\w+llion|thousand|hundred|dozen)\b'  # not (C) or (D)
    r"|[,^!*/_+±∪∩]))"  # not (C)^2
    r"[\s:.]*(.*)"
    r"|([A-J])(?:[.)] *|: )(.*)", re.S)  # C. 12
CLOCK = re.compile(r"([01]?[0-9]|2[0-4])(?::([0-5][0-9]))?(?: ?([ap])\.? ?m\.?)?")


def plain_words(text):
    """The words of a text without articles, and without "it is" before them."""
    plain = re.sub(r'"(?=\w)', " ", text)
    if re.search(r"[\\^_=<>∈∪∩±∓*|]", plain):
        return "".join(tokens_of(text))
    plain = re.sub(r"[\s{}\",]+", " ", plain).strip(" .,;:'!?").casefold()
    if not re.search(r"\b(?:not|never|neither|n?or|and|if|cannot|\w+n't)\b", plain):
        plain = re.sub(r"^[a-z ]*\b(?:is|are) (?=[a-z])", "", plain)
    return re.sub(r"^(?:the|an?) (?=\w)", "", plain)


UNIT_NAMES = (
    "mm millimeter millimetre|cm centimeter centimetre|m meter metre|km kilometer kilometre|in inch inches|"
    "ft foot feet|yd yard|mi mile|mg milligram|g gram|kg kilogram|lb lbs pound|oz ounce|s sec second|"
    "ms millisecond|min minute|h hr hrs hour|day|week|month|year yr yrs|ml milliliter|l liter litre|cent|"
    "dollar usd|°|rad radian|mi/h mph|km/h kmh kph|m/s mps")
# Each spelling of a unit -> the unit
UNITS = {name: names.split()[0] for names in UNIT_NAMES.split("|") for name in names.split()}
UNITS |= {name + "s": unit for name, unit in UNITS.items() if len(name) > 2}
MARKS = ("base", "mod")  # of words that are no units, but a base or a modulus


CHANGING_WORDS = set(re.findall(r"\w+", """
    if for where with when unless except not no none nor neither never cannot more less fewer greater than
    least most over under above below between from only but plus minus divided squared cubed doubled halved
    factorial choose either else otherwise provided assuming depending raised root remainder point short past
"""))  # after a number they make something else of it: 5 squared, 5 or more, 5 if x > 0


def known_units(words):
    """mi and h of miles per hour, cm and cm^2; none if a word is no unit; bases and moduli as they are."""
    marks = {word for word in words if word.startswith(MARKS)}
    units = set()
    for word in words:
        name, sign, power = word.partition("^")
        if word in ("square", "sq", "cubic", "cu", "per"):
            continue
        if name not in UNITS:
            return marks
        units |= {part + sign + power for part in UNITS[name].split("/")}
    return marks | units


def units_agree(gold, given, forgiving):
    """5 cm is neither 5 m nor 5 cm/s; 5 cm does for 5 cm^2, $5 for $5 per hour, 52 for 52_8."""
    marks = {unit for unit in gold | given if unit.startswith(MARKS)}
    for mark in marks & (gold ^ given):
        may_be_absent = forgiving and mark.startswith("base" if mark in gold else "mod")
        if not may_be_absent:
            return False
    gold = gold - marks
    given = given - marks
    if not gold or not given or given == {"dollar"} <= gold:
        return True
    same_names = {unit.partition("^")[0] for unit in gold} == {unit.partition("^")[0] for unit in given}
    return same_names and (gold <= given or given <= gold)


def alike(a, b, forgiving):
    """Do two trees say the same? Forgiving, `a` is the reference. One kind may be seen as the other."""
    if a == b:
        return True
    if a.kind != b.kind:
        views_of_a = views(a, b.kind, "reference" if forgiving else "vote")
        views_of_b = views(b, a.kind, "answer" if forgiving else "vote")
        return any(alike(view, b, forgiving) for view in views_of_a) or any(
            alike(a, view, forgiving) for view in views_of_b)  # fmt: skip
    if is_value(a):
        return agree(a.number, b.number) or forgiving and is_rounded(a, b)
    if a.kind == "tuple":
        matrices = {COLUMN, "()"}, {COLUMN, "[]"}, {ROW, "[]"}
        brackets_fit = a.brackets == b.brackets or {a.brackets, b.brackets} in matrices
        return brackets_fit and all_alike(a.items, b.items, forgiving)
    if a.kind in ("list", "set"):
        return same_items(a, b, forgiving)
    if a.kind == "reals":
        ends_agree = [x[1] == y[1] and agree(x[0], y[0]) for x, y in zip(a.cuts, b.cuts)]
        return len(a.cuts) == len(b.cuts) and all(ends_agree)
    if a.kind == "equation":
        return same_equation(a, b, forgiving)
    return a.kind == "choice" and a.label == b.label  # texts that differ are not equal


def all_alike(trees, others, forgiving):
    return len(trees) == len(others) and all(alike(a, b, forgiving) for a, b in zip(trees, others))


def same_items(a, b, forgiving):
    """Do two lists or sets hold the same? In any order, unless only one names its items: x = 1, y = 2."""
    in_order = lettered(a.items) != lettered(b.items) or len(a.items) != len(b.items)
    if a.kind == "list" and in_order:
        return all_alike(a.items, b.items, forgiving)
    pairs = [[alike(x, y, forgiving) for y in b.items] for x in a.items]
    return all(map(any, pairs)) and all(map(any, zip(*pairs)))


def same_equation(a, b, forgiving):
    """x = 5 beside x = 5.0, y = 2x beside f(x) = 2x, and 2x + 4y = 6 beside x + 2y = 3."""
    functions = all(re.fullmatch(r"y|\w\(\w\)", tree.label or "") for tree in (a, b))
    named = a.label and b.label and (a.label == b.label or functions)
    if named and alike(a.content, b.content, forgiving):
        return True
    return bool(a.differences and b.differences) and agree(a.differences, b.differences)


def views(tree, wanted, role):
    """What a tree also stands for beside one of the wanted kind, as "reference", "answer" or "vote"."""
    if tree.kind == "percent":
        if abs(tree.number) >= 1 or role == "reference":
            yield number(tree.number)  # 20% is 20
        if role != "vote":
            yield number(tree.number / 100)  # 20% is 0.2
    elif tree.kind == "choice":
        yield number(point_of(tree.label))  # B is also a variable
        if tree.content:
            yield tree.content
    elif tree.kind == "equation":
        if tree.label or tree.combines and wanted == "value" and role != "reference":
            yield tree.content
    elif tree.kind in ("tuple", "set") and wanted == "reals":
        reals = reals_of(tree)
        if reals:
            yield reals
    elif tree.kind == "list" and wanted in ("set", "tuple"):
        if wanted == "set":
            yield Tree("set", items=tree.items)
        if lettered(tree.items):  # y = 2, x = 1 is (1, 2)
            in_order = [item.content for item in sorted(tree.items, key=label_of)]
            yield Tree("tuple", brackets="()", items=in_order)
        if role != "vote":
            yield Tree("tuple", brackets="()", items=tree.items)


def label_of(tree):
    return tree.kind == "equation" and tree.label or ""


def lettered(trees):
    """Is each of these named, by another letter? x and y are, x_1 and x_2 are not."""
    letters = {label_of(tree).split("_")[0] for tree in trees}
    return "" not in letters and len(letters) == len(trees)


def is_rounded(reference, given):
    """Is the reference a rounded decimal, and the answer the endless number that it was? 0.33 and 1/3."""
    places = reference.decimals
    exact = given.number
    if not places or given.decimals or not isinstance(reference.number, Fraction):
        return False
    if not is_real(given) or abs(exact) > 10**9:
        return False
    has_two_digits = abs(reference.number * 10**places) >= (10 if places > 1 else 100)
    endless = not isinstance(exact, Fraction) or (10**60 * exact).denominator != 1
    return has_two_digits and endless and abs(Fraction(exact.real) - reference.number) * 2 * 10**places <= 1


# ------------------------------------------------------------------------------------------------------------
# One spelling for what people write in many ways. What follows is text still: '"cm' is a word, "cm" may be a
# product of two variables.


def by_name(spellings):
    """The other way round: what each of the spellings stands for."""
    return {name: sign for sign, names in spellings.items() for name in names.split()}


SIGNS = by_name({  # one spelling of a sign or a command: the characters and commands that stand for the same
    "<=": r"≤ ⩽ \le \leq \leqslant", ">=": r"≥ ⩾ \ge \geq \geqslant", "<": r"\lt", ">": r"\gt",
    "=": r"≡ \equiv", "!=": r"≠ \ne \neq", "≈": r"\approx", "∈": r"\in", r"\Rightarrow ": "⇒ →",
    "-": "− – —", "*": r"× · ⋅ ∙ \times \cdot", "/": r"÷ ⁄ ∕ \div", "±": r"\pm", "∓": r"\mp",
    "∪": r"\cup \bigcup", "∩": r"\cap", r"\setminus ": r"∖ \backslash", r"\emptyset ": r"∅ \varnothing",
    "(": r"⟨ \langle", ")": r"⟩ \rangle", r"\{": r"\lbrace", r"\}": r"\rbrace",
    "|": r"\lvert \rvert \vert \mid", ",": r"、 或 和 \lor", ":": "∶", ".": "。", "'": r"’ ′ \prime",
    "...": "…", r"\dots": r"\ldots \cdots", r"\\": r"\cr", "°": "º", "%": r"\%", " cents ": "¢",
    r"\frac": r"\dfrac \tfrac \cfrac \nicefrac", r"\frac{1}{2}": "½", r"\frac{1}{3}": "⅓",
    r"\frac{2}{3}": "⅔", r"\frac{1}{4}": "¼", r"\frac{3}{4}": "¾", r"\binom": r"\dbinom \tbinom",
    r"\sqrt ": "√", r"\cbrt ": "∛", r"\tan": r"\tg", r"\cot": r"\ctg", r"\infty ": "∞", r"\pi ": "π",
    r"\theta ": "θ", r"\alpha ": "α", r"\beta ": "β", r"\lambda ": "λ", r"\phi ": "φ",
    r"\mathbb{R}": "ℝ", r"\mathbb{Z}": "ℤ",
    " ":  # what only changes the looks
        r"“ ” £ € ¥ \boxed \fbox \displaystyle \limits \rm \bf \boldsymbol \mathit \mathcal \mathsf \vec "
        r"\overrightarrow \left \right \middle \big \Big \bigg \Bigg \bigl \bigr \Bigl \Bigr \quad \qquad "
        r"\( \) \[ \]",
})  # fmt: skip
SIGNS |= {"\u200b": "", "\u00a0": " ", "\u2009": " ", "\u202f": " "}  # blanks
SIGNS |= {chr(0xFF01 + n): chr(0x21 + n) for n in range(94)}  # the wide characters of Chinese texts
SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺ⁿ"
SUBSCRIPTS = "₀₁₂₃₄₅₆₇₈₉₋₊ₙ"
SIGNS |= dict(zip(SUPERSCRIPTS + SUBSCRIPTS, 2 * "0123456789-+n"))
BOLD = re.compile(r"(?<![\w)])\*\*|\*\*(?![\w(])")  # 2**3 stays
PARTS = ["third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth"]
SCALES = {name: Fraction(1, n) for n, name in enumerate(PARTS, 3)} | {
    "half": Fraction(1, 2), "halve": Fraction(1, 2), "quarter": Fraction(1, 4), "twentieth": Fraction(1, 20),
    "hundredth": Fraction(1, 100), "thousandth": Fraction(1, 1000),
    "dozen": 12, "hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9, "trillion": 10**12,
}  # fmt: skip
SCALES |= {name + "s": value for name, value in SCALES.items()}
ONES = "one|two|three|four|five|six|seven|eight|nine"
TEENS = "ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|seventeen|eighteen|nineteen"
TENS = "twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety"
NUMBER_WORDS = {word: str(n) for n, word in enumerate(f"zero|{ONES}|{TEENS}".split("|"))}
NUMBER_WORDS |= {word: f"{n}0" for n, word in enumerate(TENS.split("|"), 2)}


def based(match):
    """52_8 and 52 (base eight) -> 52 "base8."""
    base = NUMBER_WORDS.get(match[2], match[2])
    return f'{match[1]} "base{base}' if base.isdigit() else match[0]


def repeating(match):
    """0.1 and the period 6 -> the fraction 1/6, as text."""
    start, period = filter(None, match.groups())
    nines = 10 ** len(period) - 1
    places = len(start) - start.index(".") - 1
    return f"({int(start.replace('.', '') or 0) * nines + int(period)}/{10**places * nines})"


def marked(match):
    """What \\text{...} holds: its words with a mark ("cm) that keeps them apart from letters (c times m)."""
    inner = match[1].replace("~", " ")
    lone = inner.strip() if inner[:1] == " " else ""  # 5\text{ N}

    def mark(word):
        word = word[0]
        command = SIGNS.get("\\" + word, "\\" + word)  # ctg: \cot
        if command[1:] in FUNCTIONS and word not in UNITS:
            return command + " "
        is_variable = len(word) == 1 and ("=" in inner or word not in UNITS) or word.isupper()
        return word if is_variable and word != lone else '"' + word

    return " " + re.sub(r"(?<!\\)\b[A-Za-z]+(?![A-Za-z])", mark, inner) + " "


THOUSANDS = re.compile(r"(?<![\d.,])\d{1,3}(?:,\d{3})+(?!\d|,\d)")


def digits_only(match):
    return re.sub(r"\D", "", match[0])


def without_commas(match):
    """A text that is no tuple, without the commas of its thousands."""
    return THOUSANDS.sub(digits_only, match[0])


# Each rewrite has an example of what it changes, behind it or above it. They are in four steps, one after
# another; within a step the order does not matter.
LAYOUT = [
    # \color{red}5 -> 5, and \{\begin{cases} -> \begin{cases}
    (r"\\(?:text)?color *\{[^{}]*\}|\\\{ *(?=\\begin)", " "),
    (r"\\\\\s*\[[\d.]+ *\w+\]", r"\\\\ "),  # 1 \\[4pt] 2 -> 1 \\ 2
    (r"& *(?=[=<>])", " "),  # x &= 1 -> x = 1
    (rf"(?i)\b({TENS})[- ]({ONES})\b", r"(\1+\2)"),  # twenty-one -> (twenty+one)
    (r"(?<=\d)(?: *\{ *, *\}|,\\[!,;: ]) *(?=\d{3}(?!\d))", ""),  # 10{,}080 and 10,\!080 -> 10080
    # 10\,080 and 10 080 -> 10080
    (r"(?<![\d.,_^])\d{1,3}(?:(?:\\[,;:! ]|[ ~'])\d{3})+(?![\d,])", digits_only),
    (r"\b([a-z])([1-9])(?= *=)", r"\1_\2"),  # x1 = 3 -> x_1 = 3
    (r"\\not *=", "!="),  # x \not= 3 -> x != 3
    (r"(?<![\w.^)])(\d+)!=(?=\d)", r"\1! ="),  # 5!=120 -> 5! =120
]
WORDS_AND_SPACES = [
    # \text{cm} -> "cm
    (r"\\(?:[mh]box|text(?:bf|it|rm|normal)?|emph|math(?:rm|bf)|operatorname\*?) *"
     r"\{([^{}]*(?:\{[^{}]*\}[^{}]*)*)\}", marked),
    (r"(?<!\\)\\[!,;:> ]|~|\\?\$", " "),  # 2\,\pi -> 2 \pi, and $5 -> 5
    (r"^(?![(\[{]|\\\{).*", without_commas),  # 10,080 -> 10080, but not in (10,080)
]
MEANING = [
    # 2\pi k, k∈Z -> 2\pi k
    (r"(?<=[\w})]) *[,;(|:][ (]*[j-t] *∈ *(?:\\\w+)* *\{? *[\"ZQR]+"
     r" *\}?(?:[_^]\{?[^{}\\]*\}?)? *\)?\s*(?=\\?\}?$)", ""),
    # \{x∈\mathbb{R} | x > 2\} -> x > 2, and \{(x, y) : y = x\} -> y = x
    (r"\\\{ *(?:[a-z]|\([a-z], *[a-z]\)) *(?:∈ *\\mathbb *\{?R\}? *)?[|:](.*)\\\}$",
     r"\1"),
    (r"(?<=[)\]]) *U *(?=[(\[])", "∪"),  # (0,1) U (2,3) -> (0,1)∪(2,3)
    (r'(?<=[\d})]) *\(( *"?(?:[a-z]{4,}|one|two|six|ten))+ *\)\s*$', ""),  # 12 (ways) -> 12
    # about 12 -> 12, and = 12 -> 12
    (r'(?i)^[ "]*(?:(?:about|exactly|approximately|roughly) |(?:the|an) (?=[a-z])|[=≈])', ""),
    # 52_8 and 52 (base 8) -> 52 "base8
    (r'^\s*[({]?(\d+)[)}]? *(?:_ *\{?|(?=\(?[ "]*(?:in )?"?base))[( "]*(?:in )?"?(?:base[ -]*)?"?'
     r"([a-z]+|[12]?\d|3[0-6])[ )}]*$", based),
    (r'\(? *\\?"?\b[pb]?mod(?![a-z]) *\}? *\{? *(\d+) *\}? *\)?\s*$', r' "mod\1'),  # 3 (mod 7) -> 3 "mod7
    (r'\\frac *\{ *"(\w+) *\} *\{ *"(\w+) *\}', r'"\1/"\2'),  # \frac{"km}{"h} -> "km/"h
    (r"(?<=[\d}]) *(mi|k?m|ft) */ *(hr?|s)(?=(?:\^\{?2\}?)?$)", r' "\1/"\2'),  # 60 km/h -> 60 "km/"h
    (r"^(-?[\d.,]+) ([mghsl])$", r'\1 "\2'),  # 150 g -> 150 "g
    (r"(?<=\d) */ *(?=(?:day|week|month|year|hour|person)\b)", " "),  # 18/day -> 18 day
    # 90^\circ and 25 °C -> 90° and 25 °
    (r"(?:\^ *\{? *\\(?:circ|degree)(?![a-zA-Z]) *\}?|(?<=\d)\^\{?o\}?(?![a-z])"
     r'|\\(?:text)?degree(?![a-zA-Z])|°)(?: *\{? *"?[CF] *\}?\s*$)?', "°"),
    (r'(?<=\d) *"?to *(?=\d)|\{:\}', ":"),  # 3 to 4 and 3{:}4 -> 3:4
    # 0.1\overline{6} and 0.1(6) -> (15/90)
    (r"(?<![\w.])(\d*\.\d*)(?:\\(?:overline|bar|dot) *\{? *(\d+) *\}?|\((\d+)\)(?!\w))", repeating),
    (r"(\d*\.\d{0,20}?)(\d{1,12}?)\2+(?:\.\.\.|\\dots)", repeating),  # 0.1666... -> (15/90)
    (r"= *(-?\d*\.\d+)(?:\.\.\.|\\dots)", r"≈\1"),  # \sqrt2 = 1.41... -> \sqrt2 ≈1.41
    (r"(?<![\d./^_a-zA-Z}])(\d+) +(\d+) */ *(\d+)(?![\d/])", r"\1\\frac{\2}{\3}"),  # 2 1/3 -> 2\frac{1}{3}
    # C(5, 2) and C_5^2 -> \binom{5}{2}
    (r"\bC(?:_\{?(\w+)\}?\^\{?(\w+)\}?|\((\w+), *(\w+)\)(?! *=))", r"\\binom{\1\3}{\2\4}"),
    (rf'(?<=[a-z])-(?="?(?:{"|".join(SCALES)}))', " "),  # two-thirds -> two thirds
    (rf'(?i)^ *an? (?="?(?:{"|".join(SCALES)})\b)', "1 "),  # a half -> 1 half
    (r'\^ *\{? *"?(st|nd|rd|th)\b *\}?', r' "\1'),  # 7^{th} -> 7 "th
    # f^{-1}(x) = 2x -> F(x) = 2x: a function as any other
    (r"\b[fgh] *\^ *\{? *-1 *\}? *\((?=[a-z]\) *=)", "F("),
    (r"^ *([A-Za-z]\w*) *≈", r"\1 ="),  # x ≈ 5 -> x = 5
]
ENDING = [
    # 5 ≈ 4.99 -> 5, and 5 (since 1+4 = 5) -> 5
    (r'(?<=\S)[\s,;("]*(?:≈|\b(?:since|because|approximately)\b).*$', ""),
    (r"\s+", " "),  # blanks
]
REWRITES = [
    [(re.compile(pattern), replacement) for pattern, replacement in rewrites]
    for rewrites in (LAYOUT, WORDS_AND_SPACES, MEANING, ENDING)
]
ESCAPED_TWICE = re.compile(r"(?<!\\)\\\\[a-zA-Z]{2}")
SIGN = re.compile(r"\\(?:[A-Za-z]+|.)|[^\x00-\x7f]", re.S)
COMMAND = re.compile(r"(?<!\\)\\[a-zA-Z]{2}")


@lru_cache(maxsize=2000)
def clean(text):
    """One spelling for what people write in many ways; still text."""
    text = text.strip()
    if re.fullmatch(r"-?[0-9]+", text) or len(text) > CHARACTERS:
        return text
    text = BOLD.sub("", once_escaped(text))
    text = text.replace('"', " ").strip("*_` \n\t")
    if not text.isascii():
        text = re.sub(f"[{SUPERSCRIPTS}]+", r"^{\g<0>}", text)
        text = re.sub(f"[{SUBSCRIPTS}]+", r"_{\g<0>}", text)
    text = SIGN.sub(lambda match: SIGNS.get(match[0], match[0]), text)
    for pattern, replacement in chain(*REWRITES):
        text = pattern.sub(replacement, text)
    return text.strip(" ,;:`").rstrip(" .,;:")


def once_escaped(text):
    """Undo a second escape (\\\\frac for \\frac), where no command is escaped once."""
    return text.replace("\\\\", "\\") if ESCAPED_TWICE.search(text) and not COMMAND.search(text) else text


# ------------------------------------------------------------------------------------------------------------
# Numbers: a Fraction where it is exact, else complex; an expression in variables is the list of its values at
# four points, where None stands for a point at which it has none.


def number(value):
    return Tree("value", value if isinstance(value, (complex, list)) else Fraction(value))


def is_value(tree):
    return tree.kind in ("value", "percent")


def is_number(tree):
    return is_value(tree) and not isinstance(tree.number, list)


def is_real(tree):
    return tree.kind == "value" and is_number(tree) and is_real_number(tree.number)


def is_real_number(x):
    return not x.imag or abs(x.imag) <= 1e-12 * abs(x.real)


def agree(a, b):
    """Equal up to the rounding of floating point; a long decimal is not the endless number it is near."""
    if isinstance(a, list) or isinstance(b, list):
        pairs = zip(only_real(a), only_real(b))
        return all(x is y is None or None not in (x, y) and agree(x, y) for x, y in pairs)
    exact = [value for value in (a, b) if isinstance(value, Fraction)]
    if a == b or len(exact) == 2:
        return a == b
    if exact and (exact[0].denominator > 10**6 or abs(exact[0]) > 10**9):
        return False
    return abs(a - b) <= 1e-11 * abs(a) < math.inf


def only_real(values):
    """Values at the four points; if some are real, only these count."""
    values = values if isinstance(values, list) else [values] * 4
    real = [value if value is not None and is_real_number(value) else None for value in values]
    return values if real.count(None) == 4 else real


def spend(steps):
    LEFT[0] -= steps
    if LEFT[0] < 0:
        raise TooComplex


INTEGERS = {"n": (5, 8, 13, 21), "k": (2, 3, 4, 6), "m": (3, 7, 9, 17)}


@lru_cache(maxsize=1000)
def point_of(name):
    """The values of a variable: in (0, 1), above 2, negative, large; natural numbers for n, k and m."""
    if name in INTEGERS:
        return [Fraction(n) for n in INTEGERS[name]]
    draw = random.Random(name.encode(errors="replace")).randint
    return [
        Fraction(draw(1, 9000), 9001), 2 + Fraction(draw(1, 49999), 7001),
        -Fraction(draw(1, 39999), 9007), 20 + Fraction(draw(1, 99989), 997)]  # fmt: skip


def compute(name, *trees):
    """The value of an operation on numbers, or on expressions at each of their points."""
    infinite = any(is_number(tree) and abs(tree.number) == math.inf for tree in trees)
    if infinite or not all(map(is_value, trees)):
        raise Unreadable("calculation with what is no number")
    numbers = [tree.number if tree.kind == "value" else tree.number / 100 for tree in trees]
    if not any(isinstance(n, list) for n in numbers):
        return number(computed(name, numbers))
    values = []
    for point in range(4):
        there = [n[point] if isinstance(n, list) else n for n in numbers]
        try:
            values.append(None if None in there else computed(name, there))
        except ZeroDivisionError:
            values.append(None)
    if values.count(None) > 2:
        raise TooComplex
    return number(values)


def computed(name, numbers):
    spend(1)
    if name in OF_INTEGERS:
        spend(100)
        if not all(isinstance(n, Fraction) and n.denominator == 1 and abs(n) <= 1500 for n in numbers):
            raise TooComplex
        numbers = [*map(int, numbers)]
    elif name in OF_FLOATS:
        numbers = [*map(complex, numbers)]
    try:
        value = OPERATIONS[name](*numbers)
    except (ValueError, TypeError):  # ln 0, (-1)!, sin of two numbers
        raise ZeroDivisionError from None
    if isinstance(value, (int, Fraction)):
        value = Fraction(value)
        bits = value.numerator.bit_length() + value.denominator.bit_length()
        spend(bits * bits // 10**6 if bits <= BITS else STEPS)
        return value
    if not abs(value) < math.inf or name in TRIGONOMETRIC and abs(value) > 1e12:
        raise ZeroDivisionError  # tan of a right angle
    size = abs(numbers[0]) if name in ("add", "minus") else name in TRIGONOMETRIC
    return Fraction(0) if abs(value) < 1e-13 * size else value  # nothing but rounding is left; sin pi


def power(a, b):
    if isinstance(a, Fraction) and isinstance(b, Fraction):
        if abs(b) * max(a.numerator.bit_length(), a.denominator.bit_length()) > BITS:
            raise TooComplex
        if b.denominator == 1:
            return a ** int(b)
        if a < 0 and b.denominator % 2:  # the real root of a negative number
            return complex(-a) ** complex(b) * (-1) ** b.numerator
    return complex(a) ** complex(b)


TRIGONOMETRIC = {"sin", "cos", "tan", "cot", "sec", "csc"}
OF_INTEGERS = {"factorial": math.factorial, "binom": math.comb, "gcd": math.gcd, "lcm": math.lcm}
OF_FLOATS = {name: getattr(cmath, name) for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh", "exp")} | {
    "ln": cmath.log, "log": cmath.log10, "lg": cmath.log10,
    "arcsin": cmath.asin, "arccos": cmath.acos, "arctan": cmath.atan,
    "cot": lambda x: 1 / cmath.tan(x), "sec": lambda x: 1 / cmath.cos(x), "csc": lambda x: 1 / cmath.sin(x),
}  # fmt: skip
OPERATIONS = OF_INTEGERS | OF_FLOATS | {
    "add": operator.add, "minus": operator.sub, "mul": operator.mul, "div": operator.truediv, "pow": power,
    "pct": lambda x: x / 100, "abs": abs,
    "max": partial(max, key=lambda x: x.real), "min": partial(min, key=lambda x: x.real),
    "floor": lambda x: math.floor(x.real), "ceil": lambda x: math.ceil(x.real),
}  # fmt: skip


# ------------------------------------------------------------------------------------------------------------
# Tokens of LaTeX and plain text: one name for what has several. A word has a mark before it: "cm


FUNCTIONS = OF_FLOATS.keys() | {"abs", "floor", "ceil", "gcd", "lcm", "max", "min"}
GREEK = set(re.findall("[a-zA-Z]+", """
    alpha beta gamma delta epsilon varepsilon zeta eta theta iota kappa lambda mu nu xi rho sigma tau phi
    varphi chi psi omega Gamma Delta Theta Lambda Sigma Phi Psi Omega ell"""))
PLAIN = by_name({  # words and signs of plain text
    ",": "and or", "-": "minus negative", "=": "is are equals ==", "°": "degrees degree deg", "±": "+/-",
    "\\infty": "infinity inf oo", "%": "percent pct", "*": "times", "\\sqrt": "sqrt", "\\cbrt": "cbrt",
    "\\pi": "pi", "∪": "union", "\\binom": "binom", "\\frac": "frac", "^": "**",
})  # fmt: skip
WORDS = UNITS.keys() | SCALES.keys() | NUMBER_WORDS.keys() | CHANGING_WORDS | {
    "yes", "no", "odd", "all", "men", "cup", "egg", "of", "to", "per", "the", "in", "st", "nd", "rd", "th"}
TOKEN = re.compile(
    r"(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3}(?![\w.]))?"  # 12, .5, 1.5e-3
    r'|"[A-Za-z]+[0-9]*|[A-Za-z]+'  # "cm, abc
    r"|\\[A-Za-z]+|\\."  # \frac
    r"|<=|>=|!=|==|\*\*|\+/-|\.\.\.|\S", re.S)
RELATIONS = {"=", "<", ">", "<=", ">=", "!=", "∈"}
OPERATORS = {  # how strongly they bind
    "\\over": ("div", 0), "\\choose": ("binom", 0), "∪": ("union", 1), "∩": ("cap", 1),
    "\\setminus": ("setminus", 1), "+": ("add", 4), "-": ("minus", 4), "*": ("mul", 5), "/": ("div", 5),
}  # fmt: skip
NO_FACTOR = RELATIONS | OPERATORS.keys() | set("^_!%°':,;)]}&") | {
    "", "...", "\\}", "\\\\", "\\rfloor", "\\rceil", "\\end"}  # fmt: skip
NO_ARGUMENT = NO_FACTOR | {"(", "[", "|"} | {"\\" + name for name in FUNCTIONS}
NAME = r"(?:[A-Za-z]+|\\(?!pi\b)[a-zA-Z]+)(?: ')*(?: _ (?:\{ [^{}]* \}|\S+))?(?: ')*"
LABEL = re.compile(  # names for an answer, not to be solved for
    rf"{NAME}(?: \( [^()]* \))?|[\[(] {NAME} [\])]"  # x, f(x), (x)
    rf"|\\(?:{'|'.join(TRIGONOMETRIC)}) {NAME}|\\lfloor .* \\rfloor")  # sin x, floor of 10x
CONSTANTS = {
    "pi": number(complex(math.pi)), "e": number(complex(math.e)), "i": number(1j),
    "infty": Tree("value", math.inf), "emptyset": Tree("reals")}  # fmt: skip


def tokens_of(text):
    tokens = []
    for match in TOKEN.finditer(text):
        token = match[0]
        before = text[match.start() - 1 : match.start()]
        if token[0] == '"' and len(token) > 1:
            word = token[1:].lower()
            tokens.append(NUMBER_WORDS.get(word) or PLAIN.get(word) or '"' + word)
        elif token.isalpha() and len(token) > 1:
            tokens += letters(token, glued=before.isalnum() or before in ")}" and before)
        else:
            tokens.append(PLAIN.get(token, token))
    return tokens


def letters(word, glued):
    """A run of letters: a name in the tables above, a word, a function, or a product of variables."""
    lower = word.lower()
    if lower in NUMBER_WORDS and not glued:
        return [NUMBER_WORDS[lower]]
    if lower in PLAIN:
        return [PLAIN[lower]]
    if word in FUNCTIONS | GREEK and word not in UNITS:
        return ["\\" + word]
    if len(word) > 3 and not glued or lower in WORDS:
        return ['"' + lower]
    return [word] if word.isupper() else list(word)  # AB, II: one name


# ------------------------------------------------------------------------------------------------------------
# The parser makes a tree from tokens by recursive descent. No text is ever run as code.

Side = namedtuple("Side", "tree text names")  # of a relation


class Parser:
    """Each method reads one thing from the tokens and returns its tree."""

    def __init__(self, tokens):
        self.tokens = [*tokens, ""]
        self.words = []  # units and nouns that were read so far
        self.names = []  # variables that were read so far
        self.at = 0  # the place among the tokens
        self.depth = 0  # brackets that are open
        self.bars = 0  # |...| that are open
        self.trig = 0  # sines and the like that are open: sin 30° is a half, 30° alone is 30

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
        outside = self.bars
        self.bars = 0
        found = [self.relation()]
        while self.take(",", ";"):
            while self.take(",", ";"):
                pass  # ", and"
            found.append(self.relation())
        self.bars = outside
        return found

    def relation(self):
        operators = []
        sides = [self.side()]
        while self.next in RELATIONS:
            operators.append(self.take())
            sides.append(self.side())
        return related(operators, sides) if operators else sides[0].tree

    def side(self):
        """What stands on one side of a relation: an expression, or a ratio such as 3:4."""
        start = self.at
        before = len(self.names)
        parts = [self.expression()]
        while self.take(":"):
            parts.append(self.expression())
        tree = parts[0]
        if len(parts) == 2:  # 3:4 is 3/4
            tree = compute("div", *parts)
        elif len(parts) > 2:  # 3:4:5 is 6:8:10
            tree = Tree("tuple", brackets=RATIO, items=[compute("div", part, parts[0]) for part in parts])
        return Side(tree, " ".join(self.tokens[start : self.at]), set(self.names[before:]))

    def expression(self, least=0):
        """Operators that bind at least so much, the strongest first."""
        sign = self.take("+", "-")
        node = signed(sign, self.expression(5)) if sign else self.power()
        while True:
            name, binding = OPERATORS.get(self.next, ("mul", 5))
            if binding < least:
                return node
            is_word = self.next[:1] == '"'
            if self.next in OPERATORS:
                self.take()
                sign = self.take("+", "-") if binding == 5 else None
                node = joined(name, node, signed(sign, self.expression(binding + 1)))
            elif self.take("%"):
                node = Tree("percent", node.number) if is_number(node) else compute("pct", node)
            elif is_word and self.next[1:] in SCALES and is_number(node):
                node = compute("mul", node, number(SCALES[self.take()[1:]]))
            elif is_word and self.nouns(node):
                pass
            elif self.next in NO_FACTOR or self.next == "|" and self.bars:
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
            return joined("add", node, factor)
        return joined("mul", node, factor)

    def nouns(self, node):
        """Units and nouns after a number are noted and dropped; after anything else, units."""
        after_letter = self.tokens[self.at - 1].isalpha()
        is_unit = not after_letter and (self.next[1:] in UNITS or self.next[1:] in ("square", "units"))
        start = self.at
        while is_value(node) and (is_unit or is_number(node)) and self.next[:1] == '"':
            if self.next[1:] in CHANGING_WORDS or self.next[1:] in SCALES:
                break
            self.words.append(self.take()[1:])
            if self.take("^"):
                self.words.append(f"{self.words[-1]}^{self.exponent().number}")
            if self.next in ("/", "*") and self.tokens[self.at + 1][:1] == '"':
                self.take()
        return self.at > start

    def power(self):
        node = self.atom()
        while True:
            if self.take("^"):
                node = compute("pow", node, self.exponent())
            elif self.take("!"):
                node = compute("factorial", node)
            elif self.take("°"):
                self.words.append("°")
                if self.trig:
                    node = compute("mul", node, number(complex(math.pi / 180)))
            else:
                return node

    def exponent(self):
        return signed(self.take("-"), self.group() if self.next == "{" else self.power())

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
        token = self.need()
        if token[0] in "0123456789" or token[0] == "." and token.strip("."):
            decimals = 0 if "e" in token.lower() else len(token.partition(".")[2])
            node = Tree("value", Fraction(token), decimals)
        elif token in ("(", "[", "{", "\\{"):
            node = self.bracket(token)
        elif token == "|":
            self.bars += 1
            node = compute("abs", self.expression())
            self.bars -= 1
            self.need("|")
        elif token.isalpha() and token.isascii() or token[1:] in GREEK:
            node = self.letter(token)
        elif token[0] == "\\":
            node = self.command(token[1:])
        else:
            raise Unreadable(f"a value expected at {token!r}")
        self.depth -= 1
        return node

    def letter(self, name):
        """A constant, a variable, or f(x) as a name: f is no number."""
        if name in CONSTANTS and self.next not in ("_", "'"):
            return CONSTANTS[name]
        while self.take("'"):
            name += "'"
        if self.take("_"):
            name += "_" + (self.raw_group() if self.next == "{" else self.take() or "")
        if name in "fghFGH" and re.match(r"\( [^()]* \)", " ".join(self.tokens[self.at : self.at + 20])):
            while name[-1] != ")":
                name += self.take()
        self.names.append(name)
        return number(point_of(name))

    def bracket(self, opening):
        """(5), (1, 2), [0, 1), {1, 2}: something in brackets, a tuple, an interval, a set."""
        if opening in ("{", "\\{"):
            closing = "}" if opening == "{" else "\\}"
            if self.take(closing):
                return NOTHING
            items = self.items()
            self.need(closing)
            return items[0] if len(items) == 1 and is_value(items[0]) else Tree("set", items=items)
        items = self.items()
        brackets = opening + self.need(")", "]")
        if len(items) > 1:
            return Tree("tuple", brackets=brackets, items=items)
        if brackets in ("(]", "[)"):
            raise Unreadable("brackets that do not match")
        return items[0]

    def command(self, name):
        if name in FUNCTIONS:
            return self.function(name)
        if name == "begin":
            return self.environment()
        if name == "mathbb":
            name = self.raw_group() if self.next == "{" else self.take()
            return LINE if name == "R" else number(point_of(f"set {name}"))
        if name in ("frac", "binom"):
            return compute("div" if name == "frac" else name, self.group(True), self.group(True))
        if name in ("sqrt", "cbrt"):
            degree = number(2 if name == "sqrt" else 3)
            if self.take("["):
                degree = self.expression()
                self.need("]")
            return compute("pow", self.group(), compute("div", number(1), degree))
        if name in ("lfloor", "lceil"):
            inner = self.expression()
            self.need("\\rfloor", "\\rceil")
            return compute(name[1:], inner)
        if name not in CONSTANTS:
            raise Unreadable(f"unknown command {name}")
        return CONSTANTS[name]

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
                arguments = [compute("mul", *arguments, self.power())]
        self.trig -= name in TRIGONOMETRIC
        if name in ("sin", "cos", "tan") and exponent and exponent.number == -1:
            return compute("arc" + name, *arguments)
        node = compute(name, *arguments)
        if name == "log" and base:
            node = compute("div", compute("ln", *arguments), compute("ln", base))
        return compute("pow", node, exponent) if exponent else node

    def raw_group(self):
        """The text of a group in braces, as it is."""
        self.need("{")
        start = self.at
        while self.take() not in ("}", None):
            pass
        return "".join(self.tokens[start : self.at - 1]).replace('"', "")

    def environment(self):
        """A matrix, as a tuple of rows, or a column; where its cells are relations, a list."""
        name = self.raw_group()
        rows = [[]]
        if name == "array":
            self.raw_group()  # the columns
        while not self.take("\\end"):
            if self.take("\\\\"):
                rows.append([])
            elif not self.take("&"):
                rows[-1] += self.items()
        self.raw_group()
        rows = [row for row in rows if row]
        cells = [*chain(*rows)]
        if not cells or name == "vmatrix":
            raise Unreadable("no rows, or a determinant")
        if len(cells) == 1 or any(item.kind == "equation" for item in cells):
            return settled_list(cells)
        if len(cells) == len(rows):
            return Tree("tuple", brackets=COLUMN, items=cells)
        rows = [Tree("tuple", brackets=ROW, items=row) for row in rows]
        return rows[0] if len(rows) == 1 else Tree("tuple", brackets=COLUMN, items=rows)


def signed(sign, tree):
    if sign != "-":
        return tree
    return replace(tree, number=-tree.number) if is_number(tree) else joined("mul", number(-1), tree)


def joined(name, a, b):
    """Two trees with an operator between them."""
    if name == "minus" and a.kind == "reals":
        name = "setminus"
    if name in COMBINE:
        left, right = reals_of(a), reals_of(b)
        if not left or not right:
            raise Unreadable("not sets of numbers")
        return combined(COMBINE[name], left, right)
    for one, other in ((a, b), (b, a)):
        if name == "mul" and one.kind == "tuple" and one.brackets in (ROW, COLUMN):
            return replace(one, items=[joined(name, cell, other) for cell in one.items])
    return compute(name, a, b)


def settled_list(trees):
    """The tree of what stands in a list: a set of numbers, the one item that counts, or the list itself."""
    first, last = trees[0], trees[-1]
    if len(trees) == 1:
        return first
    # x > 1, x < 3: an interval. x < 1, x > 3: no number is both, so a union.
    same_label = all(label_of(tree) == first.label for tree in trees)
    if same_label and any(tree.content.kind == "reals" for tree in trees) and all(map(reals_of, trees)):
        sets = [*map(reals_of, trees)]
        together = reduce(partial(combined, operator.and_), sets)
        if together == NOTHING:
            together = reduce(partial(combined, operator.or_), sets)
        return Tree("equation", label=first.label, content=together)
    # m = 3, n = 7, and m + n = 10
    if last.kind == "equation" and last.combines and all(map(label_of, trees[:-1])) and not last.label:
        return last
    # 2x = 18 and x = 9
    unsolved = [tree.kind == "equation" and not tree.label for tree in trees]
    if all(unsolved[:-1]) and label_of(last):
        return last
    # 1/2 or 50%: one number in two ways
    other_ways = all(map(is_value, trees)) and any(tree != first for tree in trees)
    if other_ways and all(alike(tree, first, True) for tree in trees):
        return first
    return Tree("list", items=trees)


def related(operators, sides):
    """The tree of a chain of relations."""
    if not set(operators) <= {"=", "∈"}:
        return inequality(operators, sides)
    first, last = sides[0], sides[-1]
    name = re.sub(r"[ {}]", "", first.text)
    if not is_value(last.tree) or first.tree.kind == "tuple" or "∈" in operators or ":" in last.text:
        return Tree("equation", label=name, content=last.tree)
    if not is_value(first.tree):
        raise Unreadable("an equation of things that are not numbers")
    if is_number(first.tree) and is_number(last.tree) or agree(first.tree.number, last.tree.number):
        return last.tree  # a calculation: its last part is the answer
    gaps = compute("minus", first.tree, last.tree).number
    unit = next((gap for gap in gaps if gap), math.inf)
    differences = [gap and gap / unit for gap in gaps]  # the same for multiples of the equation
    is_label = isinstance(first.tree.number, list) and LABEL.fullmatch(first.text)
    combines = len(first.names) > 1 and last.tree.number != 0
    label = name if is_label else None
    return Tree("equation", label=label, content=last.tree, differences=differences, combines=combines)


def inequality(operators, sides):
    """x > 2, 2 < x or 1 <= x < 3, as the set of the numbers that it allows."""
    sets = [half_line(*link) for link in zip(operators, sides, sides[1:])]
    names = set().union(*(side.names for side in sides))
    if len(names) != 1 or None in sets:
        raise Unreadable("no set of numbers")
    return Tree("equation", label=names.pop(), content=reduce(partial(combined, operator.and_), sets))


# ------------------------------------------------------------------------------------------------------------
# Sets of real numbers: a tree of the kind "reals" holds what lies after an odd number of its cuts. A cut is
# just before a number, (x, 0), or just after it, (x, 1): the cuts of [0, 1) are (0, 0) and (1, 0).

LINE = Tree("reals", cuts=((-math.inf, 1), (math.inf, 0)))
NOTHING = Tree("reals")
MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "!=": "!="}
COMBINE = {"union": operator.or_, "cap": operator.and_, "setminus": operator.gt}  # True > False: only in one


def combined(both, a, b):
    """Union, intersection or difference of two sets."""
    spend(3 * len(a.cuts + b.cuts))
    cuts = []
    for cut in sorted({*a.cuts, *b.cuts}):
        if both(bisect(a.cuts, cut) % 2, bisect(b.cuts, cut) % 2) != len(cuts) % 2:
            cuts.append(cut)
    return Tree("reals", cuts=tuple(cuts))


def reals_of(tree):
    """The real numbers of (a, b] or {1, 2}, or None."""
    items = [tree] if tree.kind == "value" else tree.items
    if tree.kind in ("set", "value") and all(map(is_real, items)):
        numbers = sorted({item.number.real for item in items})
        return Tree("reals", cuts=tuple((x, after) for x in numbers for after in (0, 1)))
    if len(tree.brackets) == 2 == len(items) and all(map(is_real, items)):
        low, high = (item.number.real for item in items)
        after_low = tree.brackets[0] == "("
        after_high = tree.brackets[1] == "]"
        return Tree("reals", cuts=((low, after_low), (high, after_high))) if low < high else None
    if label_of(tree):
        return reals_of(tree.content)
    return tree if tree.kind == "reals" else None


def half_line(sign, left, right):
    """The numbers x for which x < 2, 2 < x or |x| < 2 holds; None for other relations. Nothing is solved."""
    if not left.names and sign in MIRRORED:
        sign, left, right = MIRRORED[sign], right, left
    if sign not in MIRRORED or left.names != {left.text} or right.names or not is_real(right.tree):
        return None
    end = right.tree.number.real
    if sign == "!=":
        return combined(operator.gt, LINE, Tree("reals", cuts=((end, 0), (end, 1))))
    below = Tree("reals", cuts=((-math.inf, 1), (end, sign in ("<=", ">"))))
    return below if "<" in sign else combined(operator.gt, LINE, below)


if __name__ == "__main__":
    if not common:
        print(__doc__)
        sys.exit("error: to label runs, this file needs common.py and sandbox_exec.py beside it")
    kept = "the judged problems of a run are kept, those of a self-check are not; run the same command again"
    common.entry(main, kept)
