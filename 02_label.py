"""Judge every rollout of a run: run its code against the tests, or compare its answer with the reference.

    python 02_label.py RUN [RUN ...]            # reads problems.jsonl and rollouts.jsonl, writes labels.jsonl
    python 02_label.py DATASET --self-check     # are these labels to be trusted? solutions pass, stubs fail

RUN is a folder that 01_generate.py made. A row of labels.jsonl: {"id", "sample", "label": 1|0|null, "answer",
"group", "reason", "judged"}, one for each rollout, in the same order. null means could not be judged, and
why; the answer of code is its program; answers of one problem that are equal share a group number (null: no
answer, or code), so that votes need no maths. "judged" changes with the problem and the response: where
neither was edited, nothing is judged again.

To judge maths elsewhere, copy this file alone:

    import importlib
    judge = importlib.import_module("02_label")
    answer = judge.answer_of(r"Adding up, the answer is $x = \\frac{1}{2}$.")    # it never sees the reference
    print(judge.same("0.5", answer))                                             # True

In this file: the judge, extraction of code and of answers, equality of answers, the parser, numbers.
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
from fractions import Fraction
from functools import lru_cache, partial, reduce
from itertools import chain
from pathlib import Path

try:
    import common
except ModuleNotFoundError:  # copied alone, this file is no command
    common = None

CPU_S = 10  # seconds of processor time for one program and its tests
say_once = lru_cache(print)  # in a command, however many runs it labels


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
    add("--json", action="store_true", help="a last line of JSON, for programs")
    options = parser.parse_args()
    for name in ("workers", "timeout"):
        given = getattr(options, name)
        if given is not None and not 0 < given < math.inf:
            common.die(f"--{name} {given}: give a number above 0")
    if options.self_check:
        raise SystemExit(int(any([self_check(dataset, options) for dataset in options.targets])))
    report([label_run(Path(run), options) for run in options.targets], options)


def label_run(run, options):
    """Write the run's labels.jsonl, or find it written; return the counts for the table."""
    rollouts = common.read_rollouts(run)
    inputs = [run / "rollouts.jsonl", run / "problems.jsonl"]
    keys = common.keys_of(common.align(rollouts, None, inputs[0]))
    common.check_same_problems(run, rollouts)
    problems = {row["id"]: row for row in common.read_jsonl(inputs[1])}
    marks = {name: common.mark_of(row) for name, row in problems.items()}
    marks = [f"{marks[row['id']]}-{common.mark_of(row['response'])}" for row in rollouts]
    labels = run / "labels.jsonl"
    kept = run / ".labels.unfinished.jsonl"
    if not labels.is_file() or has_changed(labels, marks):
        rows = judge_all(kept, [options.timeout, common.mark_of(marks)], problems, rollouts, options)
        rows = zip(common.align(rows, keys, run), marks, strict=True)
        common.write_jsonl(labels, ({**row, "judged": mark} for row, mark in rows))
        kept.unlink(missing_ok=True)
    return summary(run, problems, common.read_labels(run, keys))


def has_changed(labels, marks):
    """Was a problem or a response edited since? Labels of a person's own, which have no marks, are kept."""
    judged = [row.get("judged") for row in common.read_jsonl(labels)]
    return any(judged) and judged != marks


def judge_all(kept, stamp, problems, rollouts, options):
    """Labels of all rollouts. Those of a finished problem are kept: a killed run goes on from there."""
    lines = kept.read_text(encoding="utf-8", errors="replace").split("\n") if kept.is_file() else []
    judged = [json.loads(line) for line in lines[:-1]]  # the last one may be torn
    judged = judged if judged[:1] == [stamp] else [stamp]
    common.write_jsonl(kept, judged)
    known = {label["id"] for label in chain(*judged[1:])}
    left = {}
    for row in rollouts:
        if row["id"] not in known:
            left.setdefault(row["id"], []).append(row)
    new = judge_problems(problems, left, options)
    with open(kept, "a", encoding="utf-8") as file:
        for labels in common.progress(new, len(left), f"label {kept.parent}", "problem"):
            print(json.dumps(labels), file=file, flush=True)
            judged.append(labels)
    return [*chain(*judged[1:])]


def judge_problems(problems, rollouts, options):
    """The labels of each problem as it is done: answers, then programs; equal programs run once."""
    programs, found = {}, {}
    for key, rows in rollouts.items():
        if is_code(problems[key]):
            programs[key] = [extract_code(row["response"], problems[key]) for row in rows]
        else:
            yield judge_answers(problems[key], rows)
    jobs = [((key, program), job_of(problems[key], program, options))
            for key in programs for program in dict.fromkeys(programs[key])]
    waiting = Counter(key for (key, _), _ in jobs)
    for (key, program), result in run_all(jobs, options):
        found[key, program] = result.passed if result.passed is None else int(result.passed), result.reason
        waiting[key] -= 1
        if not waiting[key]:
            yield [label_row(row, program, None, *found[key, program])
                   for row, program in zip(rollouts[key], programs[key])]


def is_code(problem):
    return problem["kind"] == "code" and "tests" in problem


def judge_answers(problem, rows):
    """Labels of one problem whose answers are compared: with the reference and, for votes, mutually."""
    if problem["kind"] == "code":
        programs = [extract_code(row["response"], problem) for row in rows]
        return [label_row(row, program, None, None, "no tests") for row, program in zip(rows, programs)]
    extract, group = readers_of(problem["kind"])
    answers = [extract(row["response"]) for row in rows]
    verdicts = {answer: verdict(problem, answer) for answer in {*answers}}
    return [label_row(row, answer and answer[:1000], number, *verdicts[answer])
            for row, answer, number in zip(rows, answers, group(answers))]


def readers_of(kind):
    """What takes the answer from a response, and what groups answers, for problems of a kind."""
    return (text_of, text_groups) if kind == "text" else (answer_of, groups_of)


def verdict(problem, answer):
    """(1, 0 or None, the reason) for an answer to a problem."""
    if problem.get("answer") is None:
        return None, "no answer" if answer is None else "no reference"
    if answer is None:
        return 0, "no answer"
    reference = str(problem["answer"])
    if problem["kind"] == "text":
        right = words_of(answer) == words_of(reference)
    elif read(answer).text != read(reference).text and repeats(answer, problem["prompt"]):
        return 0, "repeats the question"
    else:
        right = same(reference, answer)
        if not right and read(answer).tree[0] == "too complex":
            return 0, "too complex"
    return int(right), "equal" if right else "different"


def words_of(text):
    return re.sub(r"\W+", " ", text).strip().casefold() or text.strip()


def text_groups(answers):
    numbers = {}
    return [answer and numbers.setdefault(words_of(answer), len(numbers)) for answer in answers]


def label_row(row, answer, group, label, reason):
    if row.get("finish") == "length" and label == 0:
        reason = f"cut at the length limit: {reason}"
    answer = answer and answer.encode(errors="replace").decode()  # half of a surrogate pair
    key = {"id": row["id"], "sample": row["sample"]}
    return {**key, "label": label, "answer": answer, "group": group, "reason": reason}


def job_of(problem, code, options):
    fields = ("tests", "style", "entry_point", "prelude", "beside", "strict")
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
        say_once(textwrap.fill(pool.banner, 110), file=sys.stderr)
        yield from pool.imap_unordered(jobs)


def percent(part, whole):
    return round(100 * part / whole, 2) if whole else None


def summary(run, problems, labels):
    judged = [row for row in labels if row["label"] is not None]
    right = sum(row["label"] for row in judged)
    solved = {row["id"] for row in judged if row["label"]}
    reasons = Counter(row["reason"][:100] if row["label"] is None else row["reason"].partition(":")[0]
                      for row in labels)  # fmt: skip
    return {
        "run": str(run), "problems": len(problems), "rollouts": len(labels), "right": right,
        "right_percent": percent(right, len(judged)), "wrong": len(judged) - right,
        "not_judged": len(labels) - len(judged),
        "oracle_percent": percent(len(solved), len({row["id"] for row in judged})),
        "no_answer": sum(row["reason"].endswith(("no answer", "no code")) for row in labels),
        "reasons": dict(reasons.most_common()),
    }  # fmt: skip


def report(summaries, options):
    columns = [name for name in summaries[0] if name != "reasons"]
    header = [name.replace("_percent", " %").replace("_", " ") for name in columns]
    print(common.table(header, [[line[name] for name in columns] for line in summaries]))
    for line in summaries:
        print(f"{line['run']}:", ", ".join(f"{count} {reason}" for reason, count in line["reasons"].items()))
        if line["not_judged"] == line["rollouts"]:
            print(f"{line['run']}: nothing to judge: no answers or tests; 04 can still select")
    if options.json:
        print(json.dumps({"runs": summaries}))


def self_check(dataset, options):
    """What a judge must get right before anyone trusts it; the lines that tell of failures."""
    path = Path(dataset)
    problems = common.read_jsonl(path / "problems.jsonl") if path.is_dir() else common.load_problems(dataset)
    code = {row["id"]: row for row in problems if is_code(row)}
    answers = [row for row in problems if row["kind"] != "code" and row.get("answer") is not None]
    programs = {(key, "solution"): row["solution"] for key, row in code.items() if "solution" in row}
    stub = "def {}(*args, **kwargs):\n    pass\n"  # the wanted name for what does nothing; it must fail
    stubs = {(key, "stub"): stub.format(row.get("entry_point", "main")) for key, row in code.items()}
    failures = []
    for row in answers:  # would it be judged right in a box?
        answer = readers_of(row["kind"])[0](f"Therefore the answer is $\\boxed{{{row['answer']}}}$.")
        if verdict({**row, "prompt": ""}, answer)[0] != 1:
            failures.append(f"{row['id']}: the answer {row['answer']!r} is not equal to itself")
    jobs = [(key, job_of(code[key[0]], program, options)) for key, program in {**programs, **stubs}.items()]
    results = common.progress(run_all(jobs, options), len(jobs), f"check {dataset}", "program")
    for (key, what), result in results:
        # a stub that cannot be judged is none, where the tests work for the solution
        unjudged_stub = what == "stub" and result.passed is None and "solution" in code[key]
        if result.passed is not (what == "solution") and not unjudged_stub:
            failures.append(f"{key}: its {what}: {result.reason}")
    if not answers and not code:
        failures.append(f"{dataset}: nothing to check: no problem has an answer or tests")
    print("".join(line + "\n" for line in sorted(failures)), end="")
    counts = {"problems": len(problems), "solutions": len(programs), "stubs": len(stubs),
              "answers": len(answers), "failures": len(failures)}  # fmt: skip
    print(f"{dataset}:", ", ".join(f"{count} {name}" for name, count in counts.items()))
    if options.json:
        print(json.dumps({"dataset": str(dataset), **counts}))
    return failures


# ------------------------------------------------------------------------------------------------------------
# Extraction of code

FENCE = re.compile(r"^([ \t]*)(```+|~~~+)(.*)$")
OPENING = re.compile(r"^(.*[>:*][ \t]*)(```+|~~~+)([ \t]*\w*[ \t]*)$")  # on the line of a tag or of words
INPUT = re.compile(r"\binput\(|\bstdin\b|\bopen\(0")


def split_reasoning(text):
    """(reasoning, answer) of a response, by <think> or gpt-oss's channels; cut while reasoning: no answer."""
    final = list(re.finditer(r"<\|channel\|>final[^<]*(?:<\|constrain\|>[^<]*)?<\|message\|>", text))
    if final:
        return text[: final[-1].start()], re.split(r"<\|(?:return|end|call)\|>", text[final[-1].end() :])[0]
    skipped = re.match(r"(analysis|commentary)[^\W_]", text)  # channels without their tokens: 'analysisWe'
    for end, begun in (("assistantfinal", skipped), ("</think>", True)):
        reasoning, found, answer = text.rpartition(end)
        if begun and found:
            return reasoning, answer
    cut = "<|channel|>" in text or skipped or text.lstrip().startswith("<think>")
    return (text, "") if cut else ("", text)


def extract_code(response, problem):
    """The program a response gives, or None: the best of its blocks, or the text, if it is a program."""
    final = SPECIAL.sub("", split_reasoning(response)[1]).replace("\r\n", "\n").replace("\r", "\n")
    blocks = [block for block in code_blocks(final) if block.strip()]
    found = [ranked(block, problem) for block in reversed(blocks or [final])]
    rank, program = max(found, key=lambda pair: pair[0])
    return program if blocks or rank > 3 or rank and is_program(parsed(final)) else None


def ranked(block, problem):
    """(how likely it is the program, the program): of equal ones, the last one counts."""
    name, tree, body = problem.get("entry_point"), parsed(block), as_body(block, problem)
    assigned = re.findall(r"^(\w+) *=(?!=)", block, re.M)
    if tree and name in defined(tree) + assigned:
        return 6 if name in defined(tree) else 5, block
    if body:  # of the function that the prompt opens
        return 4, body
    if not tree:
        return 0, block
    defines = defined(tree) if name else INPUT.search(block)  # not what only uses a function
    return 3 if defines else 2 if assigned else 1, with_wanted_name(block, tree, problem)


def code_blocks(text):
    """Fenced blocks, closed or cut off at the end, and <output> parts that hold none."""
    blocks, opened = [], None
    for line in [*text.split("\n"), None]:
        end = line is None
        line = re.sub(r"</output>\s*$", "", line or "")
        if not opened:
            opened, lines = FENCE.match(line) or OPENING.match(line), []
            continue
        closed = end or line.rstrip().endswith(opened[2])
        lines.append(line.rstrip().rstrip("`~") if closed else line)
        if closed:
            blocks.append("\n".join(line.removeprefix(opened[1]) for line in lines).rstrip("\n"))
            opened = None
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
    """Prose that parses ("Hello", "Answer: 5") is none; print(sum(map(int, input().split()))) is one."""
    calls = any(isinstance(node, ast.Call) for node in ast.walk(tree))
    prose = len(tree.body) == 1 and isinstance(tree.body[0], (ast.Expr, ast.AnnAssign)) and not calls
    return bool(tree.body) and not prose


def defined(tree):
    """Names of the functions and classes at the top of a program."""
    return [node.name for node in tree.body if hasattr(node, "name")]


def as_body(code, problem):
    """prompt + completion, where the prompt opens a function and the completion is its body."""
    prelude = problem.get("prelude", "").rstrip("\n") + "\n"
    if problem.get("entry_point") not in defined(parsed(prelude + "    pass\n") or ast.parse("")):
        return None
    alone = parsed(code)  # at the margin a body has a return outside of functions
    loose = [top for top in alone.body if not hasattr(top, "name")] if alone else []
    if alone and not any(isinstance(node, ast.Return) for top in loose for node in ast.walk(top)):
        return None
    indented = code.lstrip("\n").startswith((" ", "\t"))
    program = prelude + textwrap.indent(code, "    " * bool(alone)) + "\n"
    return program if (alone or indented) and parsed(program) else None


def with_wanted_name(code, tree, problem):
    """Tests written against one name (KodCode) also take a program whose single function has another."""
    functions = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    wanted = problem.get("entry_point")
    if wanted and problem.get("style") == "pytest" and len(functions) == 1 and wanted not in defined(tree):
        return f"{code}\n\n{wanted} = {functions[0]}\n"
    return code


# ------------------------------------------------------------------------------------------------------------
# Answers: which one does a response give? In this order, the first that finds something:
#
#   the last box after the reasoning, with those joined to it       \boxed{2} and \boxed{3}   2, 3
#   what a phrase announces                                         The answer is 5 cm.   5 cm
#   a single lettered choice                                        B. 12                 B. 12
#   the last formula of the last sentence that has one              So x = 5, as wanted.  x = 5
#   all of a response of a few words                                no real roots         no real roots
#
# A formula is passed over where the words around it deny it ("not 5", "5 is too large"), only suppose it
# ("assume x = 5") or make something else of it ("half of 5", "at least 5"). Formulas are first set between
# START and END in place of $...$ and the like, so that a formula is one word.

START, END = "\x02", "\x03"
TAIL = 8000  # only this many characters from the end are searched for phrases
BOX = re.compile(r"\\(?:boxed|fbox)\b\s*")
BRACE = re.compile(r"\\.|[{}]", re.S)
UNSEEN = re.compile(  # between two boxes, what LaTeX does not print
    r"\\(?:q?quad|left|right|displaystyle|(?:text|mbox|mathrm)(?= *\{)|(?:begin|end) *\{\w+\*?\})(?![a-z])"
    r"|\\[()\[\]\\,;:! ]|[{}$~&*]")
PART = r"(?:(?:for|in|to|of) )?(?:the )?(?:part|question|case|problem)? ?\(?(?:[a-h]|i{1,3}|i?v|\d)\)?[.:)]?"
BETWEEN_BOXES = re.compile(
    r"[\s,;.、和]*"  # punctuation, or nothing
    rf"(?:{PART}[\s,;.]*)?"  # the part of the problem that a box answers: for part (a)
    r"(?:(?:and|or|as well as)[\s,:]*)?"
    r"(?:\\?[a-zA-Z]\w{0,8}(?:_ *\w+|\([a-z\d]\))?'? *= *)?",  # its name: y_2 =
    re.I)
FORMULA = re.compile(  # its content is the group that matched; $18 and $5 are sums of money
    r"\$\$([^$]{1,2000})\$\$"
    r"|\$([^$]+)(?<! )\$(?!\d)"
    r"|(?<!\\)\\[(\[]((?:(?!(?<!\\)\\[(\[]).){1,2000}?)(?<!\\)\\[)\]]",  # \( ... \) and \[ ... \]
    re.S)
ANSWER = re.compile(  # what announces an answer
    r"####|<answer>"
    # "the answer", up to sixty characters (with whole formulas) that deny nothing, and "is" or a colon
    r"|(?<!\w)(?<!wrong )(?<!incorrect )(?:answer|result)s?\b"
    r"(?:(?!\b(?:not|never|cannot)\b|n't\b)[^\n.:=$\x02]|\x02[^\x03]{1,200}\x03|\.\d){0,60}?"
    r"(?:\b(?:is|are|be)\b|[:=→]|\n)"
    # a lettered choice
    r"|\b(?:option|choice|choose|select)\s+(?=[*$\x02]*\(?[A-J]\b)"
    # the same in Chinese
    r"|答案 *(?:应该)? *[是为：:]+"
    r"|(?<!不)[选答是为有共了得于要：][择：:]*(?=[\s*]*[A-J\d\x02$(-])",
    re.I)
SENTENCE = re.compile(r"(?<=[.!?:])(?<!\\[!:])[\s*]+(?=\S)(?![^\x02]{0,300}\x03)|\n|[。；]")
SENTENCE_END = re.compile(r"(?<=\.)[\s*]+(?=\S)(?![^\x02]{0,300}\x03)|</answer>|\n|[。；]")
CLAUSE_END = re.compile(r"[,;:](?= )|\b(?:so|then|hence|thus|therefore|but)\b")
QUESTION = re.compile(
    r"\W*(?:is|are|was|does|did|can|could|should|would|why|what|how|which)\b.*\?\W*$", re.I | re.S)
LEAD_IN = re.compile(
    r"(?:\n *- |[\s:*_=#>,}]|(?:therefore|thus|hence|so|option|choice|equal to|it (?:is|equals)|it's"
    r"|we (?:have|get|find))\b)*", re.I)
REASON = "since|because|where|which|when|as"
NEUTRAL = re.compile(  # what may stand between "the answer is" and a formula; "the reciprocal of" may not
    r"(?:(?:"
    r"therefore|thus|then|hence|so|simply|just|indeed|exactly|about|approximately|clearly|certainly"
    r"|that|it|there|we|is|are|equals|equal to|have|get|find"
    r"|the|an|ordered|pair|point|interval|vector|set|number|value|of|total|answer|coordinates"
    r"|[a-z]|\x02[^\x03]{1,20}\x03"  # a name: x
    r"|only|not \S+?[,;]? (?:it is|it's|that is)"
    r"|[A-Z]\w* (?:has|had|makes?|earns?|gets?|needs?|pays?)"  # Tom has
    r")(?![A-Za-z])[\s,:;*]*)*", re.I)
ONLY = re.compile(  # not 4 but 5; nothing except 5; no solution other than x = 5
    r"(?i)(?:\b(?:not?|none|nothing|cannot)\b|n't\b)(?:[^.,;:\n]|\.\d){0,60}?,? "
    r"(?:but|other than|except(?: for)?) (?=[-\d\x02(]|[a-z] =)")
TEXT_END = re.compile(
    rf"[,;]?\s+\(?(?:{REASON}|so|but|not|is (?:the|correct|right))\b|(?i:(?<=^yes)|(?<=^no)),")
NOT_ANSWERS = re.compile(
    r"(?:wrong|incorrect|an? (?:mistake|misprint|guess)|\(?[A-J]\)? (?:is|are|and|would|can|must))\b"
    r"|(?:(?i:correct|right)|clear|obvious|given|found|below|above|in the|that"
    r"|what|to|of|we|you|and)\b(?!\))[^\d\x02]*$")
SPECIAL = re.compile(r"<\|[^|<>]{1,40}\|>|<(?:/?s|eos|end_of_turn)>")
QED = re.compile(r"\$\s*\\(?:black)?square\s*\$|\\(?:(?:black)?square|qed)(?![a-z])|[∎■□✓✔✅]")
CHATTER = re.compile(
    r"\W*(?:I hope|Let me know|Note|Check|Verif|If you)|.*:$")
SCENE = re.compile(  # for n = 4, the sum is 5; it rose from 4 to 5
    r"^\W*(?:When|If|For|In|Of|Out of|Given) [^,]*,(?=.*[\d\x02])|(?<=rose|fell|grew) from \S+ to")
RESULT = re.compile(  # 7 + 5, which is 12
    r",? (?:which (?:makes|equals|gives|leaves|is(?= \x02?[-\d.,/]+\x03?\W*$))|i\.e\.,?)"
    r" (\x02[^\x03]*\x03|\S*\d\S*)\W*$")
ASIDE = re.compile(  # after a number, to the end of the sentence: a remark, not the answer
    r"(?<=[\d\x03)}\]%π]),?\s+(?:"
    r"\((?:[\d\s.+/*%\\-]+|[^()]*=[^()]*)\)\W*$"  # (0.5), (4^2 = 16)
    r"|(?:[a-z]+ )?(?:more|fewer|less|[a-z]+er) (?:[a-z]+ )?than (?:[A-Z][a-z]+|[a-z]{3,}s)\W*$"  # than Bob
    r"|(?!(?:when|where|for)\b[^\n]*\b(?:even|odd|otherwise)\b|at (?:least|most)\b"
    r"|which (?:fails|is (?:rejected|excluded|extraneous|impossible|wrong|invalid)))"  # changes what is said
    rf"(?:\((?:or|about)|\(?(?:{REASON}|(?:and )?(?:\w+ly )?not|rather than|instead of|at(?! first)|attained"
    r"|approximately|and (?:it|this)))\b"  # (since x > 0), because x > 0
    r"(?![^\n]*\b(?:so|thus|then|hence|therefore|we|and get|which leaves)\b)"  # but keep a conclusion
    r"[^\n]*$)")
NEGATED = re.compile(  # just before a number: it is refused, or only a part of what is said
    r"(?i)(?:"
    # a negation, and up to two words: is not equal to 5
    r"(?:\b(?:not|cannot|never|neither|nor|without|unequal to)|n't)(?: (?!is\b|are\b)\w+){0,2}"
    r"|\b(?:impossible|wrong) to \w+"
    # a bound: at least 5
    r"|\b(?:at (?:least|most|best)|(?:\w+er|more|less|rather) than|over|under|near|far from)"
    r"|(?<!add )(?<!adds )\bup to"
    # taken away: everything but 5; except at x = 5; we rule out 5
    r"|\b(?:except|besides|apart from|(?:every|all|any)\w*(?: \w+)? but)(?: (?:at|for|when))?(?: x =)?"
    r"|\b(?:reject|exclud|discard|eliminat|ignor|remov|rul\w* out|leav\w* out|throw away|contradict"
    r"|violat|dropp?|omitt?)(?:e|es|ed|ing|s)?(?: (?:the )?(?!is|are)\w+(?: =)?)?"
    # something is made of it: half of 5; twice 5; divisible by 5
    r"|(?:%|\b(?:half|thirds?|square|cube|root|percent|negative|multiples?|divisors?|opposite|inverse))"
    r" of(?: the)?"
    r"|\b(?:(?:half|twice|double|triple)(?: the)?|times|below|modulo|(?:divisible|divided|division|off) by"
    r"|exceeds?|differs from|approach(?:es|ing)?|tends to|as large as|wrong answer is)"
    # there is no value: undefined at x = 5
    r"|\b(?:undefined|no solution(?: exists)?|fails|diverges|a hole|asymptote) (?:at|for|when)(?: x =)?"
    # it is the whole of which the number before is a part: 7 of the 5; it takes 7 hours at 5
    r"|[\d\x03][%)}]* (?:\w+ ){0,2}?(?:out of|of|against|per|in|every|for|at|with|to reach)"
    r"(?: the| his| her| their| [a-z]+'s)?"
    # a step: now add 5; divide both sides by 5; plug in x = 5
    r"|(?<!needs to )\b(?:add|subtract|multiply|divide|substitute|plug)(?: (?!to\b|we\b)[a-z]+){0,3}(?: x =)?"
    r"|\b(?:now|then|we|next) set(?: x =)?"
    # the number of something else: see step 5
    r"|\b(?:problem|page|step|theorem|example|lemma|the case)(?: \w =)?"
    r") *$")
SUPPOSED = re.compile(  # in the clause before a number: it is tried, or thought by others, or not yet the end
    r"(?i)\b(?:"
    r"(?:suppose|assume|imagine|perhaps|maybe|recall|unless|otherwise|whether|I doubt|hardly|by no means"
    r"|(?:do not|don't|does not|doesn't) (?:think|believe|seem))\b"
    r"|let(?:'s| us) (?:try|check|test|say|see)\b"
    r"|(?:could|might|may|would) (?:be tempted|try|think|expect|guess|believe)\b|(?:could|might|may) be *$"
    # what others say: the book says
    r"|(?:some|many|most|one|nobody|people|students|friend|you|book|textbook|hint|question|problem)"
    r" (?:(?:would|might|will) )?(?:sa(?:y|ys|id)|answer|write|thinks?|claims?|suggests?)\b"
    r"|(?:according to|we are told|given that|(?:is given|false|impossible|not true|no way) that)\b"
    # another answer: the naive answer is
    r"|(?:wrong|incorrect|false|tempting|trap|opposite|worst|second-best|old|previous|other|intermediate"
    r"|partial|naive|initial|first) (?:answer|result|guess|choice|sum|step)\b"
    r"|an? (?:upper |lower )?bound\b|the alternative\b|who (?:is|has)\b|whose \w+ (?:is|equals)\b"
    r"|(?:tempting to|mistake to|mistake is to|used to be|thought to be|at first (?:glance|sight)"
    r"|answer to the other|we first|first we|we still (?:have|need) to)\b)"
    # a clause that sets the scene: if x = 5, with n = 5, were x equal to 5, although it looks like 5
    r"|^\W*(?:and |but )?(?:if|when|for|with|let|since|as|case|(?:in order )?to \w+"
    r"|(?:even |al)?though|whereas|while|unlike)"
    r"(?: (?:the )?\w+ (?:=|is|are|was|were))?(?: equal to)? *$"
    r"|^\W*(?:were|had)\b|^\W*(?:even |al)?though\b")
COUNTERFACTUAL = re.compile(r"(?i)\W*(?:if|had|were|with(?:out)?)\b.*\bwould\b")
REJECTED = re.compile(  # just after a number
    r"(?:[a-z]+ )?(?:"
    r"(?:is|are|was|being|be)(?:n't| (?:not|never|tempting|wrong|incorrect|invalid|rejected|excluded"
    r"|impossible|out|too|false|extraneous|(?:a|the) (?:[\w-]+ )*(?:trap|distractor|wrong|mistake)|negative,"
    r"|only|what (?:most|many)))"
    r"|(?:fails|cannot|can't|won't|doesn't|does not|violates|contradicts)\b"
    r"|(?:leads to|gives|we get) a (?:contradiction|negative)|has no\b|(?:might|may|could) be\b"
    r"|(?:must|should|has to|needs to|can) be (?:rejected|discarded|eliminated|excluded|ruled out)"
    r"|would (?:be (?:a mistake|correct|wrong|too|incorrect|impossible)|not|lead|contradict))")
SETTLED = re.compile(r"(?:is|are) (?:indeed|our|my|the (?:\w+ )?(?:answer|result|number|value|solution)s?)\b")
RETRACTED = re.compile(  # what was said before it is taken back
    r"(?:\b(?:wait|actually|correction|sorry|reconsider|I mean|I meant"
    r"|no, it(?:'s| is)|hmm, no|but in fact|but (?:here )?(?:it|the answer) is(?: actually)?(?= [$\x02\d])"
    r"|but is actually|or rather)\b|\.\.\. *no,)", re.I)
WITHDRAWN = re.compile(  # the sentence after an answer: That is wrong.
    r"(?<=[.!?…\n]) *(?:(?:but|however|hmm|(?:oh )?no|oops|wait),? )*"
    r"(?:(?:that|this|it)(?: can't be| cannot be|'s| is| was| must be)"
    r"(?: \w+)? (?:wrong|right|incorrect|invalid|impossible|a mistake|not (?:right|correct))"
    r"|this contradicts [^.\n]*|I (?:misread|forgot|made a mistake)[^.\n]*)(?=[.,:;!]|\s*$)\W*", re.I)
SOLVED = re.compile(r"(?:\d|[a-z] *[-+])[^=]*=[^=]*?,?(?: and)? ([a-z] *=[^=,]+)")  # 2x = 18 and x = 9
PROSE = re.compile(  # three letters that are no part of a formula, or a short word
    r"(?<![A-Za-z\\{])(?:"
    r"(?!and\b|sqrt|sin|cos|tan|log|minus|negative|infinity|degrees?\b|percent|mod|pi\b)"
    r"(?:[a-z]{3}|[A-Z][a-z]{2})"
    r"|(?:an|as|at|by|he|if|in|is|it|of|on|so|we)\b)")
NUMBER_AND_NOUN = re.compile(
    r"(?:\\[a-z]+|[^A-Za-z])*[\d%}π]"  # a number: 3\sqrt{2}
    r"(?:[ /](?!(?:and|or|in|to|of|the|as|at|is|are|can|has)\b)[A-Za-z/]+)*"  # words: apples per day
    r"\.?")
ORDINARY = re.compile(  # a word that starts no formula
    r"(?![-–−]$|sqrt|minus|negative|sin|cos|tan|log|ln|pi)"
    r"(?:\(?[A-Za-z]{2}|[^\w\x03$\\(\[{]*$)")
ARTICLE = re.compile("[aA] [A-Za-z]{2}")
WORD = re.compile(r"[^\s\x02]*\x02[^\x03]*\x03[^\s\x02]*|\S+")  # a formula between marks is one word
CHANGING = (  # words that change what is said of the number before them
    "if|for|where|with|when|unless|except|not|no|none|nor|neither|never|cannot|more|less|fewer|greater|than|"
    "least|most|over|under|above|below|between|from|only|but|plus|divided|squared|cubed|factorial|choose|"
    "either|else|otherwise|provided|assuming|depending|raised|root|remainder|point|short|past")
NO_NOUNS = {*CHANGING.split("|")}
CHANGES = re.compile(  # what follows a number and belongs to the answer, although it is not a unit
    r"(?i)\W*(?:"
    r"(?:and|or)\b.*(?:\d|\([A-J]\)|\b(?:none|more|less|fewer|greater)\b)"  # 5 or more; 5 and 7
    r"|times\b|of (?:(?!a )[a-z]\b|[\d\\])|more than\b|at (?:least|most)\b"  # 5 times x; 5% of x
    r"|\d+ (?:min|sec|inch|cent)"  # 5 hours 15 minutes
    r"|(?:when|for)\b.*\b(?:even|odd|otherwise)\b|whenever\b"
    r"|(?!(?:for|more|but)\b|(?:when|where)\b|over [a-z])"
    rf"(?:{CHANGING})\b)")


def answer_of(response):
    """The answer a response gives, as it is written there, or None. It never sees the reference.

    In this order: the last box of the part after the reasoning, what "the answer is" announces, the last
    formula of the last sentence that has one, the whole of a short response.
    """
    reasoning, final = split_reasoning(response)
    final = QED.sub("", SPECIAL.sub("", once_escaped(final[-100_000:]))).strip()
    found = boxed_or_announced(final) or (boxed(reasoning) if not final else None)
    if found or not final:
        return found  # cut off while reasoning, and nothing boxed yet
    text = with_marks(WITHDRAWN.split(final)[-1][-TAIL:])
    bare = unmarked(text[LEAD_IN.match(text).end() :])
    if re.fullmatch(r"\(?[A-J][.):] (?!(?:is|are|and|would|can|must)\b)\S.{,60}", bare):
        return bare  # B. 12
    sentences = [part for part in SENTENCE.split(text)[-8:]
                 if not CHATTER.match(part) and not QUESTION.match(part)]  # fmt: skip
    few = 0 < len(bare.split()) <= 6 and not re.search(r"\d", bare) and not ANSWER.search(bare)
    return next(filter(None, map(ending, reversed(sentences))), bare if few else None)


def text_of(response):
    """For problems whose answer is text: a box, what a phrase announces, or the whole final part."""
    final = SPECIAL.sub("", split_reasoning(response)[1]).strip()
    return boxed(final) or (boxed_or_announced(final) if len(final.split()) > 3 else None) or final or None


def boxed_or_announced(text):
    """The answer that a text gives in a box or announces, or None."""
    found = boxed(text)
    if found:
        return found
    text = with_marks(WITHDRAWN.split(text)[-1][-TAIL:])
    phrases = [phrase for phrase in [*ANSWER.finditer(text)][-5:] if not is_doubted_phrase(text, phrase)]
    phrases.sort(key=lambda phrase: "result" not in phrase[0].lower())
    return next(filter(None, (announced(text[phrase.end() :]) for phrase in reversed(phrases))), None)


def is_doubted_phrase(text, phrase):
    """Is "the answer is" part of a question, a condition or a supposition?"""
    before = SENTENCE.split(text[max(0, phrase.start() - 300) : phrase.start()])[-1]
    after = re.match(r"[^.!?\n]*\??", text[phrase.end() :][:200])[0]
    return bool(QUESTION.match(before + phrase[0] + after)) or is_supposed(before + phrase[0])


def is_supposed(before):
    """Do the words before a number say that it is tried or thought by others, not that it holds?"""
    sentence = SENTENCE.split(before)[-1]
    return bool(COUNTERFACTUAL.match(sentence) or SUPPOSED.search(CLAUSE_END.split(sentence)[-1]))


def with_marks(text):
    """The text with each formula between START and END, and "nothing but 5" as "only 5"."""

    def mark(formula):
        inner = next(group for group in formula.groups() if group is not None)
        return f"{START}{' '.join(inner.split())}{END}"

    text = text.translate(str.maketrans("（），−", "(),-"))
    text = re.sub(r"(?<=[一-鿿])(?=[^一-鿿])|(?<=[^一-鿿])(?=[一-鿿])", " ", text)
    return ONLY.sub("only ", FORMULA.sub(mark, re.sub(rf"[{START}{END}]|[ \t]+(?=[ \t])", "", text)))


def unmarked(text):
    """The text without marks, bold type and what stands around an answer; formulas in a row become a list."""
    text = re.sub(rf"{END}\.$", "", BOLD.sub("", text))
    text = re.sub(rf"{END}\s*{START}", ", ", text)
    text = re.sub(f"[ {START}{END}]+", " ", text).strip(' *_`"\n')
    return text if text.endswith("...") else text.rstrip(" .,;:?*_\\")


def boxed(text):
    """The content of the last box; of the last few, if a comma, "and", a union or a name joins them."""
    found = []
    starts = [*BOX.finditer(text)][-20:]
    for box in starts:
        stop = closing_brace(text, box.end())
        if found and box.start() < found[-1][1] or stop is None and box is not starts[-1]:
            continue  # within another, or its brace is forgotten
        content = text[box.end() : stop] if stop else re.split(r"[$\n]", text[box.end() :])[0]
        content = unmarked(content.removeprefix("{"))
        minus = re.search(r"(?:^|[=$:(\s])[-–−] ?$", text[max(0, box.start() - 3) : box.start()])
        denied = re.search(r"(?:\bnot|n't)[\s$(\\]*$", text[max(0, box.start() - 9) : box.start()])
        if content and not denied:
            found.append((box.start(), (stop or len(text)) + 1, "-" * bool(minus) + content))
    answer = ""
    seen = set()
    start = None
    for first, stop, content in reversed(found):
        joint = joint_of(text[stop:start]) if answer else ""
        if joint is None:
            break
        if content not in seen:
            answer = content + joint + answer
        seen.add(content)
        start = first
    return answer or None


def joint_of(between):
    """What joins two boxes that have this text between them: ", ", a union sign, or None."""
    seen = UNSEEN.sub(" ", between)
    if seen.strip() in (r"\cup", "∪"):
        return r" \cup "
    return ", " if BETWEEN_BOXES.fullmatch(seen) else None


def closing_brace(text, start):
    """Where the box ends that starts here: \\boxed{5}, \\boxed 5."""
    bare = re.compile(r"[^\s$\\{}]+").match(text, start)
    if bare:
        return bare.end()
    depth = 0
    for brace in BRACE.finditer(text, start, start + 2000):
        depth += {"{": 1, "}": -1}.get(brace[0], 0)
        if not depth:
            return brace.start()
    return None


def announced(tail):
    """The answer in the text that follows "the answer is": its first formula, or all of a short sentence."""
    tail = tail[LEAD_IN.match(tail[:1000]).end() :][:1000]
    paragraph = tail.partition("\n\n")[0]
    retracted = RETRACTED.search(paragraph)
    if retracted:
        return ending(paragraph[retracted.end() :])
    sentence = re.sub(r"\bI [a-z].*", "", without_aside(SENTENCE_END.split(tail)[0]))
    sentence = re.sub(r"^(\W*[\d,.]*\d)!+\s*$", r"\1", sentence)  # the answer is 42! is no factorial
    before, found = first(formulas_of(WORD.findall(sentence)[:24]))
    if not found or not NEUTRAL.fullmatch(before):
        found = unmarked(TEXT_END.split(sentence)[0])
    return None if not found or NOT_ANSWERS.match(found) else found


def without_aside(sentence):
    """A sentence without the remark that it ends in; only the remark, where it is the result."""
    result = RESULT.search(sentence)
    return result[1] if result else ASIDE.sub("", sentence)


def first(formulas):
    """(words before it, formula), rather not of the letter that has the value."""
    return min(formulas, key=lambda pair: bool(re.fullmatch("[A-Za-z]", pair[1])), default=("", None))


def ending(sentence):
    """The answer that a sentence ends in, if it was not announced: so x = 5 and y = 3. He has 7 nickels."""
    sentence = sentence.strip()[-400:]
    bold = re.search(r"\*\*([^*]+)\*\*\W*$", sentence)
    if bold and not bold[1].rstrip().endswith(":"):
        return unmarked(bold[1])
    sentence = SCENE.sub("", without_aside(BOLD.sub("", sentence)))
    return first(reversed([*formulas_of(WORD.findall(sentence)[-24:])]))[1]


def formulas_of(words):
    """(words before it, formula) among the words of a sentence, each as long as it can be; with a word that
    changes what is said, all that follows; none that is refused."""
    n = 0
    while n < len(words):
        stop = end_of_formula(words, n)
        if stop is None:
            n += 1
            continue
        before = " ".join(words[:n])
        rest = " ".join(words[stop:])
        if not is_refused(before, words[n:stop], rest):
            rest = re.sub(r"\\text *\{", "", unmarked(rest))
            found = unmarked(" ".join(words[n:] if CHANGES.match(rest) else words[n:stop]))
            solved = SOLVED.fullmatch(found)
            yield before, solved[1] if solved else found
            if SETTLED.match(rest):
                return  # 18 is indeed 8 + 8 + 2
        n = stop


def end_of_formula(words, start):
    """Where the longest formula ends that starts with this word, or None."""
    if ORDINARY.match(words[start]) or ARTICLE.match(" ".join(words[start : start + 2])):
        return None
    for stop in range(len(words), start, -1):
        if ARTICLE.match(" ".join(words[stop - 1 : stop + 1])):
            continue  # 9, a square
        marked = stop == start + 1 and START in words[start]
        if marked or is_formula(unmarked(" ".join(words[start:stop]))):
            return stop
    return None


def is_refused(before, formula, rest):
    """Is a formula denied, supposed, or a part of something else by the words around it?"""
    after = " ".join(formula[1:]) + " " + rest  # "5 works" is a number and a noun to the parser
    denied = NEGATED.search(before) or REJECTED.match(after.strip()) or REJECTED.match(rest)
    return bool(denied) or is_supposed(before)


def is_formula(text):
    """Does a text say something as a formula? A lone word does not."""
    sign = re.search(r"[\d=<>^+]|\\[a-z]|[π√∞]|^(?:\([A-J]\)|[a-z](?: ?- ?[a-z])?)$", text)
    if len(text) > 300 or not sign:
        return False
    plain = re.sub(r"\\(?:text|mbox|mathrm)\s*\{[^{}]*\}", "", text)
    if PROSE.search(plain) and not NUMBER_AND_NOUN.fullmatch(text):
        return False
    kind, words = read(text).tree[:2]
    return kind not in ("text", "too complex") or kind == "text" and bool(CLOCK.fullmatch(words))


# ------------------------------------------------------------------------------------------------------------
# Equality of answers: a text is cleaned (one spelling), then parsed into a tree whose numbers are computed on
# the way, and trees are compared part by part. Nothing is simplified or solved but linear inequalities:
# rational numbers are exact, others go to 11 digits, expressions in variables have a value at four points.
# In this order:
#
#   the same text, or text beside text         "the parabola"    "a parabola"     equal
#   units, bases and moduli that do not fit    "5 cm"            "5 m"            different
#   trees of one kind, part by part            "\frac12"         "0.5"            equal
#   one kind seen as another                   "(2, \infty)"     "x > 2"          equal
#   a rounded reference of an endless number   "0.33"            "1/3"            equal
#
# The kinds of trees:
#
#   ("value", number, decimals)    Fraction, complex or a list of four; written with so many decimals: 2.50
#   ("percent", number)            20%
#   ("tuple", brackets, trees)     ("list", trees)    ("set", trees)    a matrix is a COLUMN of ROWs
#   ("reals", cuts)                a set of real numbers, see `combined`: (0, 1) U (2, 3)
#   ("equation", label, tree, key, loose)    x = 5; of an inequality the tree is a set of reals: x > 2
#   ("choice", letter, tree or None)         (C) 12
#   ("text", words)                          even
#
# Where graders differ: a decimal is not an endless number however many of its digits it gives (0.333333 is
# not 1/3), unless the reference is the rounded one; 45 degrees is 45, not pi/4: another unit, another answer.

# With more than this, an answer is "too complex".
CHARACTERS = 1000
TOKENS = 400
DEPTH = 40  # brackets within brackets
BITS = 20_000  # of an exact number
STEPS = 6000  # of reading one answer
LEFT = [0]  # steps that the reading under way may still take
COLUMN, ROW = "", "["  # brackets of tuples that are parts of a matrix
Reading = namedtuple("Reading", "text tree units")


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
    kinds = gold.tree[0], given.tree[0]
    words = "text" in kinds and (kinds[0] == kinds[1] or not re.search(r"\d", gold.text))
    glued = [re.sub(r'(?<=\d)[ "]+(?=[A-Za-z]+$)', "", each.text) for each in (gold, given)]  # 3 m is 3m
    if glued[0] == glued[1] or words and plain_words(gold.text) == plain_words(given.text):
        return True
    if kinds.count("percent") == 1 and gold.units | given.units:
        return False  # 90% is neither 90 degrees nor 90 cm
    return units_agree(gold.units, given.units, forgiving) and alike(gold.tree, given.tree, forgiving)


def groups_of(answers):
    """A number for each answer: those that are the same share one, over others if need be; None has none."""
    groups = []
    for answer in dict.fromkeys(answer for answer in answers if answer is not None):
        joined = [group for group in groups
                  if any(same(other, answer, False) or same(answer, other, False) for other in group)]
        groups = [group for group in groups if group not in joined] + [[*chain(*joined), answer]]
    groups.sort(key=lambda group: answers.index(group[0]))
    numbers = {answer: n for n, group in enumerate(groups) for answer in group}
    return [numbers.get(answer) for answer in answers]


def repeats(answer, prompt):
    """Is the answer a formula of the question, handed back as it stands?"""
    formulas = [tokens_of(clean(part)) for part in re.findall(f"{START}(.*?){END}", with_marks(prompt))]
    return tokens_of(clean(answer)) in formulas and not re.fullmatch(r"[-+]?[\w.,]*|[(\[{].*", clean(answer))


@lru_cache(maxsize=2000)
def read(raw):
    """What a text says: the text in one spelling, its tree, and the units it is measured in."""
    text = clean(raw)
    LEFT[0] = STEPS
    money = {"dollar"} if re.search(r"\\\$|^[^$]*\$[^$]*$|\bUSD\b", raw[:CHARACTERS]) else set()
    try:
        if len(text) > CHARACTERS:
            raise TooComplex
        tree, words = special(text) or formula(text)
        return Reading(text, tree, frozenset(money | known_units(words)))
    except (TooComplex, OverflowError, RecursionError):
        return Reading(text, ("too complex", text), frozenset())
    except (Unreadable, ZeroDivisionError):
        inner = boxed_or_announced(raw)
        if inner and len(inner) < len(raw) and clean(inner) != text:
            return read(inner)  # the text is prose that announces its answer
        equation = EQUALS.fullmatch(text)
        head = equation[1] if equation else "{"
        named = head.count("{") == head.count("}") and not re.search(r"[<>,;!≠]|\\n", head)
        if named and not NO_NOUNS & {*re.findall("[a-z]+", head)}:
            return read(equation[2])._replace(text=text)  # \arg z = 5, the area is 5
        return Reading(text, ("text", plain_words(text)), frozenset())


def formula(text):
    """(tree, words after numbers) of a formula. A ± stands for two answers."""
    tokens = tokens_of(text)
    trees = []
    if len(tokens) > TOKENS:
        raise TooComplex
    lines = {} if "\\begin" in tokens else {"\\\\": ","}
    for upper, lower in (("+", "-"), ("-", "+"))[: 1 + bool({"±", "∓"} & {*tokens})]:
        signs = lines | {"±": upper, "∓": lower}
        parser = Parser([signs.get(token, token) for token in tokens])
        trees.append(settled_list(parser.items()))
        if parser.next != "":
            raise Unreadable(parser.next)
    if len(trees) == 1:
        return trees[0], parser.words
    items = [item for tree in trees for item in (tree[1] if tree[0] in ("list", "set") else [tree])]
    distinct = [item for n, item in enumerate(items) if item not in items[:n]]
    return ("set", distinct) if trees[0][0] == "set" else settled_list(distinct), parser.words


def special(text):
    """Answers with a grammar of their own: integers, choices, times of day, words for sets."""
    if re.fullmatch(r"-?[0-9]{1,300}", text):
        return ("value", Fraction(text), 0), []
    choice = CHOICE.fullmatch(text)
    if choice:
        content = choice[2] or choice[4]
        return ("choice", choice[1] or choice[3], content and read(content).tree), []
    words = plain_words(text)
    clock = CLOCK.fullmatch(words)
    if clock and (clock[3] or clock[2] and math.gcd(int(clock[1]), int(clock[2])) > 1):  # 11:21 is a ratio
        return ("text", f"{int(clock[1])}:{clock[2] or '00'}" + f" {clock[3]}m" * bool(clock[3])), []
    if re.fullmatch(r"(?:there (?:is|are) )?no (?:real )?solutions?(?: exists?)?|empty set|无解", words):
        return NOTHING, []
    return (LINE, []) if re.fullmatch(r"(?:(?:all|the|set of) )*real(?:s| numbers?)", words) else None


EQUALS = re.compile(r"(.*)(?:=|\b(?:is|are|equals)\b(?= *(?:[-\d\\(]|infinity)))(.*\S.*)")
CHOICE = re.compile(  # (C) 12: the letter in group 1 or 3, what is chosen in group 2 or 4
    r"\(? *([A-J]) *\)"
    r'(?!\s*"?(?:(?:or|and|if|for|when|[a-z]|\w+llion|thousand|hundred|dozen)\b'  # (C) or (D)
    r"|[,^!*/_+±]|\\(?:pm|cup|cap)))"  # (C)^2
    r"[\s:.]*(.*)"
    r"|([A-J])(?:[.)] *|: )(.*)", re.S)  # C. 12
CLOCK = re.compile(r"([01]?[0-9]|2[0-4])(?::([0-5][0-9]))?(?: ?([ap])\.? ?m\.?)?")


def plain_words(text):
    plain = re.sub(r'"(?=\w)', " ", text)
    if re.search(r"[\\^_=<>]", plain):
        return re.sub(r"\s", "", plain)
    plain = re.sub(r"[\s{}\",]+", " ", plain).strip(" .,;:'").casefold()
    plain = re.sub(r"(?<=\d)(?:st|nd|rd|th)\b|(?<=[a-z])[!?]+$", "", plain)
    plain = {"dne": "undefined", "does not exist": "undefined"}.get(plain, plain)
    negated = re.search(r"\b(?:not|never|neither|n?or|and|if|cannot|\w+n't)\b", plain)
    subject = not negated and re.match(r"[a-z ]*\b(?:is|are) (?=[a-z])", plain)
    return re.sub(r"^(?:the|an?) (?=\w)", "", plain[subject.end() :] if subject else plain)


UNIT_NAMES = (
    "mm millimeter millimetre|cm centimeter centimetre|m meter metre|km kilometer kilometre|in inch inches|"
    "ft foot feet|yd yard|mi mile|mg milligram|g gram|kg kilogram|lb lbs pound|oz ounce|s sec second|"
    "ms millisecond|min minute|h hr hrs hour|day|week|month|year yr yrs|ml milliliter|l liter litre|cent|"
    "dollar usd|°|rad radian|mi/h mph|km/h kmh kph|m/s mps")
UNITS = {  # each spelling of a unit -> the unit
    name + plural: names.split()[0]
    for names in UNIT_NAMES.split("|")
    for name in names.split()
    for plural in ("", "s")[: 1 + (len(name) > 2)]
}  # fmt: skip


def known_units(words):
    """mi and h of miles per hour, cm and cm^2; none if a word is no unit; bases and moduli as they are."""
    words = [word for word in words if word not in ("square", "sq", "cubic", "cu", "per")]
    marks = {word for word in words if word.startswith(("base", "mod"))}
    parts = [word.partition("^") for word in words if word not in marks]
    if not all(unit in UNITS for unit, *_ in parts):
        return marks
    return marks | {part + sign + power for unit, sign, power in parts for part in UNITS[unit].split("/")}


def units_agree(gold, given, forgiving):
    """5 cm is neither 5 m nor 5 cm/s; 5 cm does for 5 cm^2, $5 for $5 per hour, 52 for 52_8."""
    marks = {unit for unit in gold ^ given if unit.startswith(("base", "mod"))}
    excused = all(forgiving and (unit in gold) == unit.startswith("base") for unit in marks)
    gold, given = gold - marks, given - marks
    kinds = [{unit.partition("^")[0] for unit in units} for units in (gold, given)]
    sloppy = kinds[0] == kinds[1] and (gold <= given or given <= gold) or given == {"dollar"} <= gold
    return excused and (not gold or not given or sloppy)


def alike(a, b, forgiving):
    """Do two trees say the same? `a` is the reference, if one is. One kind may be seen as the other."""
    fit = partial(alike, forgiving=forgiving)
    (kind, x, *rest), (other, y, *others) = a, b
    if a == b or kind != other:
        return a == b or any(fit(view, b) for view in views(a, other, forgiving, gold=True)) or any(
            fit(a, view) for view in views(b, kind, forgiving, gold=False))  # fmt: skip
    if kind == "tuple":
        brackets = x == y or {x, y} in ({COLUMN, "()"}, {COLUMN, "[]"}, {ROW, "[]"})
        return brackets and len(rest[0]) == len(others[0]) and all(map(fit, rest[0], others[0]))
    if kind == "list" and lettered(x) != lettered(y):
        return len(x) == len(y) and all(map(fit, x, y))  # x = 1, y = 2 beside 1, 2: in this order
    if kind in ("list", "set"):
        found = [[(p[0] == "set") == (q[0] == "set") and fit(p, q) for q in y] for p in x]
        return all(map(any, found + [*zip(*found)])) and (kind == "set" or len(x) == len(y))
    if kind == "reals":
        return len(x) == len(y) and all(side == t and agree(end, s) for (end, side), (s, t) in zip(x, y))
    if kind == "equation":
        functions = all(re.fullmatch(r"y|\w\(\w\)", label or "") for label in (x, y))
        if x and y and (x == y or functions) and fit(rest[0], others[0]):
            return True
        return None not in (a[3], b[3]) and agree(a[3], b[3])
    if kind in ("value", "percent"):
        return agree(x, y) or kind == "value" and forgiving and rounds_to(x, rest[0], b)
    return kind == "choice" and x == y


def views(tree, wanted, forgiving, gold):
    """What a tree also stands for beside one of the wanted kind."""
    kind, inner = tree[:2]
    if kind == "percent":
        yield from [("value", inner, 0)] * (abs(inner) >= 1 or gold and forgiving)
        yield from [("value", inner / 100, 0)] * forgiving
    elif kind == "choice":
        yield number(point_of(inner))
        yield from filter(None, tree[2:])
    elif kind == "equation" and (inner or not gold and tree[4] and wanted == "value"):
        yield from filter(None, tree[2:3])
    elif wanted == "reals" and kind in ("tuple", "set"):
        yield from filter(None, [reals_of(tree)])
    elif kind == "list" and wanted in ("set", "tuple"):
        items = [item[2] if label_of(item) else item for item in inner]
        yield from [("set", items)] * (wanted == "set")
        if lettered(inner):  # x = 1, y = 2 is (1, 2), by the letters or as written
            yield ("tuple", "()", [item[2] for item in sorted(inner, key=label_of)])
        yield from [("tuple", "()", items)] * forgiving


def label_of(tree):
    return tree[0] == "equation" and tree[1] or ""


def lettered(trees):
    """Is each of these named, by another letter? x, y; not x_1, x_2."""
    letters = {label_of(tree).split("_")[0] for tree in trees}
    return "" not in letters and len(letters) == len(trees)


def rounds_to(value, places, given):
    """Is the reference a rounded decimal, and the answer the endless number that it was? 0.33 and 1/3."""
    number = given[1]
    if not places or given[2] or not isinstance(value, Fraction) or not is_real(given) or abs(number) > 10**9:
        return False
    precise = abs(value * 10**places) >= (10 if places > 1 else 100)
    endless = not isinstance(number, Fraction) or (10**60 * number).denominator != 1
    return precise and endless and abs(Fraction(number.real) - value) * 2 * 10**places <= 1


# ------------------------------------------------------------------------------------------------------------
# One spelling, of what a token table cannot say

MARKS = {  # superscripts and subscripts
    sign: ("[" + marks + "]+", str.maketrans(marks, "0123456789-+n"))
    for sign, marks in (("^", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺ⁿ"), ("_", "₀₁₂₃₄₅₆₇₈₉₋₊ₙ"))
}
UNICODE = str.maketrans({sign: text for text, signs in {
    "-": "−–—", "*": "×·⋅∙", "/": "÷⁄∕", "<=": "≤⩽", ">=": "≥⩾", "!=": "≠", "=": "≡", r"\infty ": "∞",
    r"\pi ": "π", r"\sqrt ": "√", r"\cbrt ": "∛", "°": "º", r"\frac{1}{2}": "½", r"\frac{1}{3}": "⅓",
    r"\frac{2}{3}": "⅔", r"\frac{1}{4}": "¼", r"\frac{3}{4}": "¾", "...": "…", "'": "’′", r"\mathbb{R}": "ℝ",
    r"\mathbb{Z}": "ℤ", r"\emptyset ": "∅", r"\setminus ": "∖", r"\theta ": "θ", r"\alpha ": "α",
    r"\beta ": "β", r"\lambda ": "λ", r"\phi ": "φ", "(": "⟨", ")": "⟩", r"\Rightarrow ": "⇒→",
    " cents ": "¢", "": "“”£€¥\u200b", ",": "、或和", ":": "∶", ".": "。", " ": "\u00a0\u2009\u202f",
}.items() for sign in signs} | {chr(0xFF01 + n): chr(0x21 + n) for n in range(94)})  # fmt: skip
BOLD = re.compile(r"(?<![\w)])\*\*|\*\*(?![\w(])")  # 2**3 stays
PART = r"(?:hal[fv]|third|quarter|(?:four|fif|six|seven|eigh|nin|ten)th)"
DOTS = r"(?:\.\.\.|\\[lc]?dots(?![a-z]))"
ONES = "one|two|three|four|five|six|seven|eight|nine"
TENS = "twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety"
TEENS = "ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|seventeen|eighteen|nineteen"
NUMBER_WORDS = {word: str(n) for n, word in enumerate(f"zero|{ONES}|{TEENS}".split("|"))} | {
    f"{ten}-{one}".strip("-"): f"{n}{m}" for n, ten in enumerate(TENS.split("|"), 2)
    for m, one in enumerate(["", *ONES.split("|")])}  # fmt: skip
REWRITES = [(re.compile(pattern), replacement) for pattern, replacement in [
    # what is seen but not said
    (r"\\(?:text)?color *\{[^{}]*\}|(?:\\left *)?\\\{ *(?=\\begin)", " "),
    (r"\\\\\s*\[[\d.]+ *\w+\]", r"\\\\ "),  # \\[4pt]
    (r"& *(?=[=<>])", " "),  # x &= 1
    # words, and digits in groups of three
    (rf"(?i)\b(?:{TENS})(?:[- ](?:{ONES}))?\b", lambda m: NUMBER_WORDS[m[0].lower().replace(" ", "-")]),
    (r"\\(?:[mh]box|text(?:bf|it|rm|normal)?|emph|math(?:rm|bf)|operatorname\*?) *"
     r"\{([^{}]*(?:\{[^{}]*\}[^{}]*)*)\}", lambda m: marked(m[1])),
    (r"(?<=\d)(?: *\{ *, *\}|,\\[!,;: ]) *(?=\d{3}(?!\d))", ""),  # 10{,}080
    (r"(?<=\d)\{ *, *\}(?=\d)", "."),
    (r"(?<![\d.,_^])\d{1,3}(?:(?:\\[,;:! ]|[ ~'])\d{3})+(?![\d,])", lambda m: re.sub(r"\D", "", m[0])),
    (r"(?<!\\)\\[!,;:> ]|~|\\?\$|\\q?quad(?![a-z])", " "),
    (r"^(?![(\[{]|\\\{).*", lambda m: THOUSANDS.sub(lambda n: n[0].replace(",", ""), m[0])),
    # remarks
    (r"(?<=[\w})]) *(?:[,;(|:]|\\mid|\\quad)[ (]*[j-t] *(?:\\in(?![a-z])|∈) *(?:\\\w+)* *\{? *[\"ZQR]+"
     r" *\}?(?:[_^]\{?[^{}\\]*\}?)? *\)?\s*(?=\\?\}?$)", ""),  # , k in Z
    (r"\\\{ *(?:[a-z]|\([a-z], *[a-z]\)) *(?:(?:\\in|∈) *(?:\\mathbb *\{?R\}?) *)?(?:[|:]|\\mid)(.*)\\\}$",
     r"\1"),  # {x | x > 2}
    (r"^.*(?:\\Rightarrow|\\implies|=>)(?![a-z])", ""), (r"(?<=[)\]]) *U *(?=[(\[])", "∪"),
    (r'(?<=\S)[\s,;("]+(?:since|because|approximately)\b.*$', ""),  # 27 (since 3^3)
    (r'(?<=[\d})]) *\(( *"?(?:[a-z]{4,}|one|two|six|ten))+ *\)\s*$', ""),  # 12 (ways)
    (r'(?i)^[ "]*(?:(?:about|exactly|approximately|roughly) |(?:the|an) (?=[a-z])|[=≈]|\\approx)', ""),
    # 52_8, 3 (mod 7), 60 m/s, 25 °C
    (r'^\s*[({]?(\d+)[)}]? *(?:_ *\{?|(?=\(?[ "]*(?:in )?"?base))[( "]*(?:in )?"?(?:base[ -]*)?"?'
     r"([a-z]+|[12]?\d|3[0-6])[ )}]*$", lambda m: based(m)),
    (r'\(? *\\?"?\b[pb]?mod(?![a-z]) *\}? *\{? *(\d+) *\}? *\)?\s*$', r' "mod\1'),
    (r'\\frac *\{ *"(\w+) *\} *\{ *"(\w+) *\}', r'"\1/"\2'),
    (r"(?<=[\d}]) *(mi|k?m|ft) */ *(hr?|s)(?=(?:\^\{?2\}?)?$)", r' "\1/"\2'),
    (r"^(-?[\d.,]+) ([mghsl])$", r'\1 "\2'),  # 150 g
    (r"(?<=\d) */ *(?=(?:day|week|month|year|hour|person)\b)", " "),  # $18/day
    (r"(?:\^ *\{? *\\(?:circ|degree)(?![a-zA-Z]) *\}?|(?<=\d)\^\{?o\}?(?![a-z])"
     r'|\\(?:text)?degree(?![a-zA-Z])|°)(?: *\{? *"?[CF] *\}?\s*$)?', "°"),
    # numbers
    (r'(?<=\d) *"?to *(?=\d)|\{:\}', ":"),
    (r"(?<![\w.])(\d*\.\d*)(?:\\(?:overline|bar|dot) *\{? *(\d+) *\}?|\((\d+)\)(?!\w))",
     lambda m: repeating(m)),
    (rf"(\d*\.\d{{0,20}}?)(\d{{1,12}}?)\2+{DOTS}", lambda m: repeating(m)),
    (rf"(?:(=) *)?(-?\d*\.\d+){DOTS}", lambda m: "≈"[: bool(m[1])] + m[2]),  # = 1.4...
    (r"(?<![\d./^_a-zA-Z}])(\d+) +(\d+) */ *(\d+)(?![\d/])", r"\1\\frac{\2}{\3}"),
    (r"\bC(?:_\{?(\w+)\}?\^\{?(\w+)\}?|\((\w+), *(\w+)\)(?! *=))", r"\\binom{\1\3}{\2\4}"),
    (rf'(?<=[a-z])-(?="?{PART})', " "),  # two-thirds
    (rf'(?i)^ *an? (?="?(?:{PART}|dozen)\b)', "1 "),
    # names
    (r'\^ *\{? *"?(st|nd|rd|th)\b *\}?', r' "\1'),
    (r"\b[fgh] *\^ *\{? *-1 *\}? *\((?=[a-z]\) *=)", "F("),  # f^{-1}(x) = ... is a function as any other
    (r"^ *([A-Za-z]\w*) *(?:≈|\\approx)", r"\1 ="), (r"(?<=\S) *(?:≈|\\approx(?![a-z])).*$", ""),
    (r"\s+", " "),
]]  # fmt: skip
THOUSANDS = re.compile(r"(?<![\d.,])\d{1,3}(?:,\d{3})+(?!\d|,\d)")
ESCAPED_TWICE = re.compile(r"(?<!\\)\\\\[a-zA-Z]{2}")
COMMAND = re.compile(r"(?<!\\)\\[a-zA-Z]{2}")


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


def based(match):
    base = NUMBER_WORDS.get(match[2], match[2])
    return f'{match[1]} "base{base}' if base.isdigit() else match[0]


def repeating(match):
    """0.1 and 6 -> the fraction 1/6, as text."""
    start, period = filter(None, match.groups())
    nines = 10 ** len(period) - 1
    places = len(start) - start.index(".") - 1
    return f"({int(start.replace('.', '') or 0) * nines + int(period)}/{10**places * nines})"


# ------------------------------------------------------------------------------------------------------------
# Numbers: a Fraction where exact, else complex; with variables a list of values at four points (None: none)


def number(value):
    return ("value", value if isinstance(value, (complex, list)) else Fraction(value), 0)


def is_value(tree):
    return tree[0] in ("value", "percent")


def is_number(tree):
    return is_value(tree) and not isinstance(tree[1], list)


def is_real(tree):
    return tree[0] == "value" and is_number(tree) and (
        not tree[1].imag or abs(tree[1].imag) <= 1e-12 * abs(tree[1].real))


def agree(a, b):
    """Equal up to the rounding of floating point; a long decimal is not the endless number it is near."""
    if isinstance(a, list) or isinstance(b, list):
        points = [value if isinstance(value, list) else [value] * 4 for value in (a, b)]
        for n, values in enumerate(points):  # where some are real, only these count
            real = [value if value is not None and is_real(("value", value)) else None for value in values]
            points[n] = values if real.count(None) == 4 else real
        return all(p is q is None or None not in (p, q) and agree(p, q) for p, q in zip(*points))
    exact = [value for value in (a, b) if isinstance(value, Fraction)]
    if a == b or len(exact) == 2:
        return a == b
    if exact and (exact[0].denominator > 10**6 or abs(exact[0]) > 10**9):
        return False
    return abs(a - b) <= 1e-11 * abs(a) < math.inf


def spend(steps):
    LEFT[0] -= steps
    if LEFT[0] < 0:
        raise TooComplex


INTEGERS = {"n": (5, 8, 13, 21), "k": (2, 3, 4, 6), "m": (3, 7, 9, 17)}


@lru_cache(maxsize=1000)
def point_of(name):
    """The values of a variable: in (0, 1), above 2, negative, large; natural for n, k and m."""
    draw = random.Random(name.encode(errors="replace")).randint
    return [*map(Fraction, INTEGERS.get(name) or (
        Fraction(draw(1, 9000), 9001), 2 + Fraction(draw(1, 49999), 7001),
        -Fraction(draw(1, 39999), 9007), 20 + Fraction(draw(1, 99989), 997)))]


def compute(name, *trees):
    """The value of an operation on numbers, or on expressions at each of their points."""
    if not all(map(is_value, trees)) or any(is_number(tree) and abs(tree[1]) == math.inf for tree in trees):
        raise Unreadable("calculation with what is no number")
    numbers = [tree[1] if tree[0] == "value" else tree[1] / 100 for tree in trees]
    if not any(isinstance(n, list) for n in numbers):
        return number(computed(name, numbers))
    values = []
    for k in range(4):
        at = [n[k] if isinstance(n, list) else n for n in numbers]
        try:
            values.append(None if None in at else computed(name, at))
        except (ZeroDivisionError, TooComplex):
            spend(0)
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
        if abs(numbers[0]) > 10**6 and name not in ("ln", "log", "lg"):
            raise TooComplex
    try:
        value = OPERATIONS[name](*numbers)
    except (ValueError, TypeError):  # ln 0, floor of a complex number
        raise TooComplex from None
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
        if abs(b) * max(a.numerator.bit_length(), a.denominator.bit_length()) > BITS and abs(a) != 1:
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
# The parser: LaTeX or plain text -> a tree, by recursive descent over tokens. No text is ever run as code.


def by_name(spellings):
    return {name: sign for sign, names in spellings.items() for name in names.split()}


FUNCTIONS = OF_FLOATS.keys() | {"abs", "floor", "ceil", "gcd", "lcm", "max", "min"}
GREEK = by_name({
    "": "alpha beta gamma delta epsilon varepsilon zeta eta theta iota kappa lambda mu nu xi rho sigma tau "
        "phi varphi chi psi omega Gamma Delta Theta Lambda Sigma Phi Psi Omega ell"}).keys()  # fmt: skip
NAMES = by_name({  # of commands
    "<=": "le leq leqslant", "<": "lt", ">=": "ge geq geqslant", ">": "gt", "!=": "ne neq", "=": "equiv",
    "∈": "in", "∪": "cup bigcup", "∩": "cap", "±": "pm", "∓": "mp", "/": "div", "*": "times cdot",
    "(": "langle", ")": "rangle", "\\{": "lbrace", "\\}": "rbrace", "|": "lvert rvert vert mid", ",": "lor",
    "...": "ldots cdots dots", "'": "prime", "\\\\": "cr", "\\emptyset": "varnothing", "%": "%",
    "\\setminus": "backslash", "\\tan": "tg", "\\cot": "ctg", "\\frac": "dfrac tfrac cfrac nicefrac",
    "\\binom": "dbinom tbinom",
    "": "boxed fbox displaystyle limits rm bf boldsymbol mathit mathcal mathsf vec overrightarrow left right "
        "middle big Big bigg Bigg bigl bigr Bigl Bigr ( ) [ ] , ! ; : > $",
})  # fmt: skip
PLAIN = by_name({  # words and signs of plain text
    ",": "and or", "-": "minus negative", "=": "is are equals ==", "°": "degrees degree deg", "±": "+/-",
    "\\infty": "infinity inf oo", "%": "percent pct", "*": "times", "\\sqrt": "sqrt", "\\cbrt": "cbrt",
    "\\pi": "pi", "∪": "union", "\\abs": "abs", "\\floor": "floor", "\\ceil": "ceil", "\\gcd": "gcd",
    "\\lcm": "lcm", "\\max": "max", "\\binom": "binom", "\\frac": "frac", "^": "**",
})  # fmt: skip
PARTS = "half|third|quarter|fifth|sixth|seventh|eighth|ninth|tenth"
SCALES = {name + plural: value for plural in ("", "s") for name, value in {
    **{part: Fraction(1, n) for n, part in enumerate(PARTS.split("|"), 2)}, "fourth": Fraction(1, 4),
    "twentieth": Fraction(1, 20), "hundredth": Fraction(1, 100), "thousandth": Fraction(1, 1000),
    "halve": Fraction(1, 2), "dozen": 12, "hundred": 100, "thousand": 1000, "million": 10**6,
    "billion": 10**9, "trillion": 10**12}.items()}  # fmt: skip
WORDS = UNITS.keys() | SCALES.keys() | NUMBER_WORDS.keys() | NO_NOUNS | {
    "yes", "no", "odd", "all", "men", "now", "too", "ago", "sq", "of", "to", "per", "the", "in", "dne",
    "st", "nd", "rd", "th"}  # fmt: skip
TOKEN = re.compile(
    r"(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][+-]?[0-9]+(?![\w.]))?"  # 12, .5, 1.5e-3
    r'|"[A-Za-z]+[0-9]*|[A-Za-z]+'  # "cm, abc
    r"|\\not *=|\\[A-Za-z]+|\\."  # \frac
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
    rf"|[A-Z]{{2,}} \^ (?:2|\{{ 2 \}})|\| {NAME} \|"  # AB^2, |v|
    rf"|\\(?:{'|'.join(TRIGONOMETRIC)}) {NAME}|\\lfloor .* \\rfloor|\\lceil .* \\rceil")  # sin x, floor(10x)
CONSTANTS = {"pi": ("value", complex(math.pi), 0), "e": ("value", complex(math.e), 0), "i": ("value", 1j, 0),
             "infty": ("value", math.inf, 0), "emptyset": ("reals", ())}  # fmt: skip


def tokens_of(text):
    tokens = []
    for match in TOKEN.finditer(text):
        token = match[0]
        before = text[match.start() - 1 : match.start()]
        if token[0] == "\\":
            token = "!=" if token[1:4] == "not" else NAMES.get(token[1:], token)
            tokens += [token] * bool(token)
        elif token[0] == '"' and len(token) > 1:
            lower = token[1:].lower()
            tokens.append(NUMBER_WORDS.get(lower) or PLAIN.get(lower) or '"' + lower)
        elif token.isascii() and token.isalpha() and len(token) > 1:
            tokens += letters(token, glued=before.isalnum() or before in ")}" and before)
        else:
            tokens.append(PLAIN.get(token, token))
    return tokens


def letters(word, glued):
    """A run of letters: a name we know, a word, a function, or a product of variables."""
    lower = word.lower()
    if lower in NUMBER_WORDS and not glued:
        return [NUMBER_WORDS[lower]]
    if lower in PLAIN or word in FUNCTIONS | GREEK and word not in UNITS:
        return [PLAIN.get(lower) or "\\" + word]
    if len(word) > 3 and not glued or lower in WORDS:
        return ['"' + lower]
    return [word] if word.isupper() else list(word)  # AB, II: one name


Side = namedtuple("Side", "tree text names")  # of a relation


class Parser:
    """Each method reads one thing from the tokens and returns its tree."""

    def __init__(self, tokens):
        self.tokens, self.words, self.names = [*tokens, ""], [], []
        self.at = self.depth = self.bars = self.trig = 0
        self.powered = False  # does the factor just read end in an exponent?

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
        found = []
        outside = self.bars
        self.bars = 0
        while not found or self.take(",", ";"):
            while found and self.take(",", ";"):
                pass  # ", and"
            found.append(self.relation())
        self.bars = outside
        return found

    def relation(self):
        ops = []
        sides = [self.side()]
        while self.next in RELATIONS:
            ops.append(self.take())
            sides.append(self.side())
        return related(ops, sides) if ops else sides[0].tree

    def side(self):
        start = self.at
        before = len(self.names)
        parts = [self.expression()]
        while self.take(":"):
            parts.append(self.expression())
        tree = parts[0]
        if len(parts) > 1:  # 3:4 is 3/4; 3:4:5 is 6:8:10
            ratios = [compute("div", part, parts[0]) for part in parts]
            tree = ("tuple", ":", ratios) if len(parts) > 2 else compute("div", *parts)
        return Side(tree, " ".join(self.tokens[start : self.at]), set(self.names[before:]))

    def expression(self, least=0):
        """Operators that bind at least so much, the strongest first."""
        sign = self.take("+", "-")
        node, fresh = signed(sign, self.expression(5)) if sign else self.power(), not sign
        while True:
            name, binding = OPERATORS.get(self.next, ("mul", 5))
            if binding < least:
                return node
            if self.next in OPERATORS:
                self.take()
                sign = self.take("+", "-") if binding == 5 else None
                node, fresh = joined(name, node, signed(sign, self.expression(binding + 1))), False
            elif self.take("%"):
                node = ("percent", node[1]) if is_number(node) else compute("pct", node)
            elif self.next[:1] == '"' and self.next[1:] in SCALES and is_number(node):
                node = compute("mul", node, number(SCALES[self.take()[1:]]))
            elif self.next[:1] == '"' and self.nouns(node):
                pass
            elif self.next in NO_FACTOR or self.next[0] == '"' or self.next == "|" and self.bars:
                return node
            else:
                node, fresh = self.adjacent(node, fresh), False

    def adjacent(self, node, fresh):
        """A product where no sign stands between: 2x. But 3 1/2 is a sum."""
        before = self.tokens[self.at - 1]
        if before[:1] == '"' or self.next[0] in "0123456789." and before not in "!)}" and not self.powered:
            raise Unreadable("a number after a factor")
        whole = fresh and before.isdigit() and not self.powered and self.next == "\\frac"
        factor = self.power()
        mixed = whole and is_number(node) and isinstance(factor[1], Fraction) and 0 < factor[1] < 1
        return joined("add" if mixed else "mul", node, factor)

    def nouns(self, node):
        """Units and nouns after a number are noted and dropped; after anything else, units."""
        known = self.next[1:] in UNITS.keys() | {"square", "units"} and not self.tokens[self.at - 1].isalpha()
        start = self.at
        while is_value(node) and (known or is_number(node)) and self.next[:1] == '"' and (
                self.next[1:] not in NO_NOUNS | SCALES.keys()):  # fmt: skip
            self.words.append(self.take()[1:])
            if self.take("^"):
                self.words.append(f"{self.words[-1]}^{self.exponent()[1:2]}")
            if self.next in ("/", "*") and self.tokens[self.at + 1][:1] == '"':
                self.take()
        return self.at > start

    def power(self):
        node, powered = self.atom(), False
        while True:
            if self.take("^"):
                node, powered = compute("pow", node, self.exponent()), True
            elif self.take("!"):
                node, powered = compute("factorial", node), False
            elif self.take("°"):
                node = compute("mul", node, number(complex(math.pi / 180))) if self.trig else node
                self.words.append("°")
            else:
                self.powered = powered
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
            node = ("value", Fraction(token), 0 if exponent else len(token.partition(".")[2]))
        elif token in ("(", "[", "{", "\\{"):
            node = self.bracket(token)
        elif token == "|":
            self.bars += 1
            node = compute("abs", self.expression())
            self.bars -= 1
            self.need("|")
        elif token.isalpha() and token.isascii() or token[1:] in GREEK:
            node = self.letter(token)
        elif token[0] == "\\" and len(token) > 1:
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
        closing = {"{": "}", "\\{": "\\}"}.get(opening, ")")
        if closing != ")" and self.take(closing):
            return NOTHING
        items = self.items()
        brackets = opening + self.need(closing, "]" if closing == ")" else closing)
        if len(items) == 1 and brackets in ("(]", "[)"):
            raise Unreadable("brackets that do not match")
        if len(items) == 1 and (closing == ")" or is_value(items[0])):
            return items[0]
        return ("tuple", brackets, items) if closing == ")" else ("set", items)

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
        if name in ("sin", "cos", "tan") and exponent and exponent[1] == -1:
            return compute("arc" + name, *arguments)
        node = compute(name, *arguments)
        if name == "log" and base:
            node = compute("div", compute("ln", *arguments), compute("ln", base))
        return compute("pow", node, exponent) if exponent else node

    def raw_group(self):
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
        if not cells or name == "vmatrix" or name == "cases" and all(len(row) > 1 for row in rows):
            raise Unreadable("no rows, a determinant, or values, each with its condition")
        if len(cells) == 1 or any(item[0] == "equation" for item in cells):
            return settled_list(cells)
        if len(cells) == len(rows):
            return ("tuple", COLUMN, cells)
        rows = [("tuple", ROW, row) for row in rows]
        return rows[0] if len(rows) == 1 else ("tuple", COLUMN, rows)


def signed(sign, node):
    if sign != "-":
        return node
    return (node[0], -node[1], *node[2:]) if is_number(node) else joined("mul", number(-1), node)


def joined(name, a, b):
    """Two trees with an operator between them."""
    if name == "minus" and a[0] == "reals":
        name = "setminus"
    if name in COMBINE:
        sets = reals_of(a), reals_of(b)
        if None in sets:
            raise Unreadable("not sets of numbers")
        return combined(COMBINE[name], *sets)
    for one, other in ((a, b), (b, a)):
        if name == "mul" and one[0] == "tuple" and one[1] in (ROW, COLUMN):
            return (*one[:2], [joined(name, cell, other) for cell in one[2]])
    return compute(name, a, b)


def settled_list(trees):
    """x > 1, x < 3: an interval. x < 1, x > 3: no number is both, so a union. 1/2 or 50%: one number."""
    first, last = trees[0], trees[-1]
    sets = [tree[2] for tree in trees if tree[:2] == ("equation", first[1]) and tree[2]]
    if len(sets) == len(trees) > 1 and any(one[0] == "reals" for one in sets) and all(map(reals_of, sets)):
        sets = [*map(reals_of, sets)]
        both = reduce(partial(combined, operator.and_), sets)
        together = both if both != NOTHING else reduce(partial(combined, operator.or_), sets)
        return ("equation", first[1], together, None, False)
    if last[0] == "equation" and last[4] and sum(bool(label_of(tree)) for tree in trees) == len(trees) - 1:
        return last  # m = 3, n = 7, and m + n = 10
    other_ways = all(map(is_value, trees)) and any(tree != first for tree in trees)
    one = other_ways and all(alike(tree, first, True) for tree in trees)
    return first if one or len(trees) == 1 else ("list", trees)


def related(ops, sides):
    """The tree of a chain of relations."""
    if not set(ops) <= {"=", "∈"}:
        return inequality(ops, sides)
    first, last = sides[0], sides[-1]
    if is_value(last.tree) and is_value(first.tree) and is_label(last) and not is_label(first):
        first, last = last, first
    named = re.sub(r"[ {}]", "", first.text)
    if not is_value(last.tree) or first.tree[0] == "tuple" or "∈" in ops or ":" in last.text:
        return ("equation", named, last.tree, None, False)
    if not is_value(first.tree):
        raise Unreadable("an equation of things that are not numbers")
    if is_number(first.tree) and is_number(last.tree) or agree(first.tree[1], last.tree[1]):
        return last.tree  # a calculation: its last part is the answer
    gaps = compute("minus", first.tree, last.tree)[1]
    unit = next((gap for gap in gaps if gap), math.inf)
    key = [gap and gap / unit for gap in gaps]  # the same for multiples of the equation
    loose = len(first.names) > 1 and last.tree[1] != 0  # beside a reference of 5, a + b = 5 will do
    return ("equation", named if is_label(first) else None, last.tree, key, loose)


def inequality(ops, sides):
    if not set(ops) <= {"<", ">", "<=", ">=", "!="}:
        raise Unreadable("relations that do not go together")
    links = [(op, a, b) if op[0] != ">" else (op.replace(">", "<"), b, a)
             for op, a, b in zip(ops, sides, sides[1:])]
    names = set().union(*(side.names for side in sides))
    numbers = [solution(link, point_of(min(names))) if len(names) == 1 else None for link in links]
    if None in numbers:
        raise Unreadable("not linear")
    return ("equation", *names, reduce(partial(combined, operator.and_), numbers), None, False)


def is_label(side):
    return isinstance(side.tree[1], list) and bool(LABEL.fullmatch(side.text))


# ------------------------------------------------------------------------------------------------------------
# Sets of real numbers: ("reals", cuts) holds what lies after an odd number of its cuts. A cut is just before
# a number (x, 0) or just after it (x, 1): [0, 1) is ("reals", ((0, 0), (1, 0))).

LINE, NOTHING = ("reals", ((-math.inf, 1), (math.inf, 0))), ("reals", ())
COMBINE = {"union": operator.or_, "cap": operator.and_, "setminus": operator.gt}  # True > False: only in one


def combined(both, a, b):
    """Union, intersection or difference of two sets."""
    spend(3 * len(a[1] + b[1]))
    cuts = []
    for cut in sorted({*a[1], *b[1]}):
        if both(bisect(a[1], cut) % 2, bisect(b[1], cut) % 2) != len(cuts) % 2:
            cuts.append(cut)
    return "reals", tuple(cuts)


def reals_of(tree):
    """The real numbers of (a, b] or {1, 2}, or None."""
    items = [tree] if tree[0] == "value" else tree[1]
    if tree[0] in ("set", "value") and all(map(is_real, items)):
        return ("reals", tuple((x, after) for x in sorted({x[1].real for x in items}) for after in (0, 1)))
    if tree[0] == "tuple" and len(tree[2]) == 2 == len(tree[1]) and all(map(is_real, tree[2])):
        low, high = (end[1].real for end in tree[2])
        return ("reals", ((low, tree[1][0] == "("), (high, tree[1][1] == "]"))) if low < high else None
    if tree[0] == "equation" and tree[1]:
        return reals_of(tree[2])
    return tree if tree[0] == "reals" else None


def solution(link, points):
    """The numbers for which a linear inequality in one variable holds, or None."""
    op, left, right = link
    for side, other, swap in ((left, right, False), (right, left, True)):
        if op != "!=" and re.fullmatch(r"\| [^|]+ \|", side.text):  # |a| < b: a < b and -a < b; b < |a|: or
            inner = Parser(side.text.split()[1:-1]).side()
            halves = inner, inner._replace(tree=signed("-", inner.tree))
            sets = [solution((op, other, half) if swap else (op, half, other), points) for half in halves]
            return None if None in sets else combined(operator.or_ if swap else operator.and_, *sets)
    gaps = compute("minus", left.tree, right.tree)[1]
    if not isinstance(gaps, list) or not all(gap is not None and is_real(("value", gap)) for gap in gaps):
        return None
    slope = (gaps[1] - gaps[0]) / (points[1] - points[0])
    if not slope or not all(agree(gap, gaps[0] + slope * (x - points[0])) for gap, x in zip(gaps, points)):
        return None
    end = (points[0] - gaps[0] / slope).real
    if op == "!=":
        return combined(operator.gt, LINE, ("reals", ((end, 0), (end, 1))))
    below = ("reals", ((-math.inf, 1), (end, (op == "<=") == (slope.real > 0))))
    return below if slope.real > 0 else combined(operator.gt, LINE, below)


if __name__ == "__main__":
    if not common:
        print(__doc__)
        sys.exit("error: to label runs, this file needs common.py and sandbox_exec.py beside it")
    kept = "judged problems of a run are kept, those of a self-check are not; the same command does the others"
    common.entry(main, kept)
