"""Labels of run folders, extraction of code, and the check that reference solutions pass and stubs fail."""

import importlib
import textwrap
from functools import partial
from unittest.mock import patch

import pytest
from conftest import edit_jsonl, last_json

import common

judge = importlib.import_module("02_label")

PROMPT = 'import math\n\n\ndef area(r):\n    """Area of a disc."""\n'
CHECK = "def check(candidate):\n    assert abs(candidate(2) - 12.566370614) < 1e-6\n"
DISC = {"id": "disc", "kind": "code", "prompt": PROMPT, "prelude": PROMPT, "tests": CHECK, "style": "check",
        "entry_point": "area", "solution": PROMPT + "    return math.pi * r * r\n"}  # fmt: skip
ADD = {"id": "add", "kind": "code", "prompt": "Add two numbers.", "style": "pytest", "entry_point": "add_two",
       "tests": "from solution import add_two\n\ndef test_add():\n    assert add_two(2, 3) == 5\n",
       "solution": "def add_two(a, b):\n    return a + b\n"}  # fmt: skip
ECHO = {"id": "echo", "kind": "code", "prompt": "Echo.", "style": "stdio", "solution": "print(input())\n",
        "tests": {"inputs": ["a\n"], "outputs": ["a\n"]}}  # fmt: skip
LACKING = ADD | {"id": "lacking", "tests": "import a_package_that_nobody_has\n" + ADD["tests"]}
HALF = {"id": "half", "kind": "math", "prompt": "Half of 1?", "answer": "\\frac12"}
OPEN = {"id": "open", "kind": "math", "prompt": "Pick a number."}
CITY = {"id": "city", "kind": "text", "prompt": "Capital of France?", "answer": "Paris"}
PLUS = "```py\ndef plus(a, b):\n    return a + b\n```"
GOOD = "```python\ndef area(r):\n    return math.pi * r ** 2\n```"
META = {"model": "tiny", "dataset": "made_up", "seed": 0, "n_layers": 5, "vocab_size": 50}


def write_run(path, problems, responses, **fields):
    common.write_json(path / "meta.json", META)
    common.write_jsonl(path / "problems.jsonl", problems)
    rows = [(key, n, text) for key, texts in responses.items() for n, text in enumerate(texts)]
    rows = [{"id": key, "sample": n, "response": text, **fields} for key, n, text in rows]
    common.write_jsonl(path / "rollouts.jsonl", rows)
    return path


def labels_of(run, *fields):
    return [tuple(row[name] for name in fields) for row in common.read_jsonl(run / "labels.jsonl")]


@pytest.fixture
def mixed(tmp_path):
    return write_run(tmp_path / "run", [DISC, ADD, LACKING, HALF, OPEN, CITY], {
        "half": ["\\boxed{0.5}", "\\boxed{50\\%}", "It is 3.", "\\boxed{9^{9^9}}", ""],
        "disc": [GOOD, "    return math.pi * r * r\n", "```py\ndef area(r): return r\n```", "I cannot."],
        "open": ["\\boxed{7}", "The answer is 7.0.", "8"], "lacking": [PLUS],
        "city": ["Paris.", "\\boxed{paris}", "dog", "god"],  # the same letters are not the same
        "add": [PLUS.replace("+", "-"), "```py\nimport os; os._exit(0)\n```"]})  # fmt: skip


def test_a_run_is_labelled_row_by_row(mixed, run_here):
    counts = last_json(run_here("02_label.py", mixed, "--json"))["runs"][0]
    rows = common.read_jsonl(mixed / "labels.jsonl")
    assert common.keys_of(rows) == common.keys_of(common.read_rollouts(mixed))
    assert all(set(row) == {"id", "sample", "label", "answer", "group", "reason", "stamp"} for row in rows)
    labels = {"half": [1, 1, 0, 0, 0], "disc": [1, 1, 0, 0], "open": [None] * 3, "lacking": [None],
              "city": [1, 1, 0, 0], "add": [0, 0]}  # fmt: skip
    assert [row["label"] for row in rows] == sum(labels.values(), [])
    groups = [0, 1, 2, 3, None, *[None] * 4, 0, 0, 1, None, 0, 0, 1, 2, None, None]
    assert [row["group"] for row in rows] == groups
    reasons = [row["reason"].partition(":")[0] for row in rows]
    assert reasons[:6] == ["equal", "equal", "different", "different", "no answer", "passed"]
    assert reasons[7:10] == ["failed", "no code", "no reference"] and reasons[12] == "error"
    assert (counts["right"], counts["wrong"], counts["not_judged"], counts["no_answer"]) == (6, 9, 4, 2)
    assert counts["right_percent"] == 40.0 and counts["oracle_percent"] == 75.0
    assert not [path for path in mixed.iterdir() if path.name.startswith(".")]


def test_any_of_several_references_is_right_and_votes_do_not_see_them(tmp_path, run_here):
    town = CITY | {"answer": ["Paris", "Lutetia"]}
    roots = HALF | {"prompt": "A root of $x^2 = 4$?", "answer": ["2", "-2"]}
    common.write_jsonl(tmp_path / "own.jsonl", [town, roots, ADD])
    counts = last_json(run_here("02_label.py", tmp_path / "own.jsonl", "--self-check", "--json"))
    assert (counts["answers"], counts["solutions"], counts["failures"]) == (4, 1, 0)
    answers = {"half": ["\\boxed{2}", "$x = -2$", "\\boxed{4}"], "city": ["lutetia", "Rome"]}
    run = write_run(tmp_path / "run", [town, roots], answers)
    run_here("02_label.py", run)
    assert labels_of(run, "label", "group") == [(1, 0), (1, 1), (0, 2), (1, 0), (0, 1)]


@pytest.mark.parametrize("reference, answer, right", [
    ("C++", "C++.", True), ("C++", "C#", False), ("C++", "C", False), ("-5", "5", False), ("x > 5", "x>5", True),
    ("x > 5", "x < 5", False), ("1/2", "1.2", False), ("U.S.", "U.S", True), ("Paris", '**"PARIS."**', True),
    ("New York", " new\nyork ", True), ("A*", "A", False), ("5'", "5", False), ("-5", "−5", True),
    ('It\'s "so"...', "It’s “so”…", True), ("It's", "Its", False)])  # fmt: skip
def test_text_is_equal_where_letters_digits_and_signs_are(reference, answer, right):
    assert judge.verdict(CITY | {"answer": reference}, judge.words_of(answer))[0] is right


@pytest.mark.parametrize("response, answer, right", [
    ("The capital of France is Paris.", "Paris.", True), ("It is Paris. Rome is in Italy.", "Paris.", True),
    ("It lies there.\n**Answer:** Paris", "Paris", True), ("Answer: Rome\n\nFinal answer: **Paris**", "Paris", True),
    ("**Answer: Paris**", "Paris", True),
    ("Rome is nice. So the answer is: Paris", "Paris", True), ("Answer: the capital is Paris", None, True),
    ("The capital is not Paris.", "not Paris.", False), ("It is Paris or Rome.", "Paris or Rome.", False),
    ("I do not think it is Paris.", None, False), ("Is it Rome? The capital is Paris.", "Paris.", True),
    ("<answer>Paris</answer>, it is big", "Paris", True), ("", None, False)])  # fmt: skip
def test_text_is_the_answer_line_or_the_end_of_a_statement(response, answer, right):
    found = judge.words_of(response)
    assert judge.verdict(CITY, found)[0] is right and answer in (found, None)


@pytest.mark.parametrize("kind, wrong, right", [
    ("text", "The town, I hear, is Rome.", "Paris"), ("math", "5", "0.5"), ("code", "```py\nx = 1\n```", PLUS)])
def test_a_kind_of_which_nothing_is_right_is_named(kind, wrong, right, tmp_path, run_here):
    """From twenty answers on, with a pair to look at."""
    problem = {"text": CITY, "math": HALF, "code": ADD}[kind]
    for count in (19, 20):
        run = write_run(tmp_path / str(count), [problem, OPEN], {problem["id"]: [wrong] * count, "open": ["1"]})
        said = run_here("02_label.py", run).stdout
        assert said.count(f"none of {count} answers of the kind {kind} is right") == (count == 20)
    assert ("'Paris' and 'Rome.'" in said) == (kind == "text")
    edit_jsonl(run / "rollouts.jsonl", lambda row: row | {"response": wrong if row["sample"] else right})
    assert "none of" not in run_here("02_label.py", run).stdout


def test_packages_that_programs_need_are_named_and_such_programs_judged_again(tmp_path, run_here):
    lacking = PLUS.replace("def", "import {}\n\ndef")
    inside = PLUS.replace("    return", "    import no_scipy.stats\n    return")
    programs = [PLUS, lacking.format("no_pandas"), inside, lacking.format("no_scipy"), lacking.format("os.none")]
    run = write_run(tmp_path / "run", [ADD, LACKING], {"add": programs, "lacking": [PLUS]})
    said = run_here("02_label.py", run)
    assert "3 programs need no_pandas, no_scipy, which are not here, and count as wrong" in said.stdout
    assert labels_of(run, "label") == [(1,), (0,), (0,), (0,), (0,), (None,)]
    again = run_here("02_label.py", run)
    assert "4 of 6 labels judged again, 0 changed" in again.stderr and again.stdout == said.stdout


def test_a_second_run_judges_only_what_differs(mixed, run_here, monkeypatch):
    """A response, a reference, tests and another judge; and what could not be judged, each time."""

    def judged_again():
        with patch.object(judge, "make_label", wraps=judge.make_label) as make_label:
            said = run_here("02_label.py", mixed).stderr
        judged = {row["id"] for (row, *_), _ in make_label.call_args_list}
        return judged - {"lacking"}, [line for line in said.splitlines() if "judged again" in line]

    first = run_here("02_label.py", mixed)
    before = (mixed / "labels.jsonl").stat().st_mtime_ns
    assert "judged again" not in first.stderr and run_here("02_label.py", mixed).stdout == first.stdout
    assert judged_again() == (set(), [f"{mixed}: 1 of 19 labels judged again, 0 changed"])
    assert (mixed / "labels.jsonl").stat().st_mtime_ns == before
    edit_jsonl(mixed / "rollouts.jsonl", lambda row: row | {"response": row["response"].replace("{0.5}", "{6}")})
    assert judged_again() == ({"half"}, [f"{mixed}: 2 of 19 labels judged again, 1 changed"])
    edit_jsonl(mixed / "problems.jsonl", lambda row: row | {"answer": "dog"} if row["id"] == "city" else row)
    edit_jsonl(mixed / "problems.jsonl", lambda row: row | {"tests": CHECK + " "} if row["id"] == "disc" else row)
    assert judged_again() == ({"city", "disc"}, [f"{mixed}: 9 of 19 labels judged again, 3 changed"])
    stamp = common.judge_stamp
    monkeypatch.setattr(common, "judge_stamp", lambda kind: "another" if kind == "math" else stamp(kind))
    assert judged_again()[0] == {"half", "open"}


def test_a_new_limit_judges_programs_again_and_labels_made_by_hand_stay(mixed, run_here):
    run_here("02_label.py", mixed)
    said = run_here("02_label.py", mixed, "--timeout", "11").stderr
    assert f"{mixed}: 7 of 19 labels judged again, 0 changed" in said
    edit_jsonl(mixed / "labels.jsonl", lambda row: {name: row[name] for name in ("id", "sample", "label")})
    by_hand = (mixed / "labels.jsonl").read_bytes()
    assert "made by hand" in run_here("02_label.py", mixed).stdout
    assert (mixed / "labels.jsonl").read_bytes() == by_hand


def test_labels_of_another_judge_are_named(mixed, run_here, capsys, monkeypatch):
    run_here("02_label.py", mixed)
    common.read_labels(mixed)
    assert "warning" not in capsys.readouterr().err
    monkeypatch.setattr(common, "judge_stamp", lambda kind: "another")
    common.read_labels(mixed)
    assert "labels.jsonl: made by another version of the judge" in capsys.readouterr().err


def test_a_killed_run_resumes(tmp_path, run_here, watch_writes, monkeypatch):
    """Killed after a maths answer and two of five programs: these are saved, and not judged again."""
    programs = [f"def add_two(a, b):\n    return a + {n}" for n in range(4)] + [PLUS]
    runs = [write_run(tmp_path / name, [ADD, HALF], {"add": programs, "half": ["0.5"]}) for name in "ab"]
    run_here("02_label.py", runs[0])
    monkeypatch.setattr(judge, "SAVED_EVERY", 0)
    watch_writes("labels.jsonl", stop_at=3)
    with pytest.raises(KeyboardInterrupt):
        run_here("02_label.py", runs[1])
    assert len(common.read_jsonl(runs[1] / "labels.jsonl")) == 3
    watch_writes()
    with patch.object(judge, "run_jobs", wraps=judge.run_jobs) as run_jobs:
        run_here("02_label.py", runs[1])
    assert len(run_jobs.call_args.args[0]) == 3
    assert (runs[1] / "labels.jsonl").read_text() == (runs[0] / "labels.jsonl").read_text()


def test_a_cut_rollout_says_so(tmp_path, run_here):
    """A right answer is right all the same; what is missing or wrong may be for want of tokens."""
    answers = {"half": ["\\boxed{0.5}", "It is 3", ""], "open": ["7"], "disc": ["```py\nx = 1"]}
    run = write_run(tmp_path / "run", [HALF, OPEN, DISC], answers, finish="length")
    assert "3 cut at the length limit" in run_here("02_label.py", run).stdout
    cut, *rows = "cut at the length limit: ", *labels_of(run, "label", "reason")
    assert rows[:4] == [(1, "equal"), (0, cut + "different"), (0, cut + "no answer"), (None, "no reference")]
    assert rows[4][0] == 0 and rows[4][1].startswith(cut + "failed")


@pytest.mark.parametrize("file, content, said", [
    ("rollouts.jsonl", '{"id": "half", "sample": 0}\n', "rollouts.jsonl:1"),
    ("rollouts.jsonl", '{"id": "half", "sample": 0, "response": "5"}\n', "rollouts of 1 problems, 2 problems"),
    ("rollouts.jsonl", '{"id": "none", "sample": 0, "response": "5"}\n', "they differ at 'half'"),
    ("rollouts.jsonl", 2 * '{"id": "half", "sample": 0, "response": "1"}\n', "2 rows but only 1"),
    ("labels.jsonl", '{"id": "half", "sample": 0, "label": 1}\n{"id": ', "; if 01 to 05 made it, delete it and run that"),
])  # fmt: skip
def test_bad_input_is_one_line(file, content, said, tmp_path, run_here):
    run = write_run(tmp_path / "run", [HALF, OPEN], {"half": ["1"], "open": ["2"]})
    (run / file).write_text(content)
    assert said in run_here("02_label.py", run, code=2).stderr


SOLUTION = "def area(r):\n    return 3 * r\n"
FENCED = f"```python\n{SOLUTION}```"
EXTRACTED = {  # response -> what the program, which returns 3 and so on, must not hold
    "spellings": (f"Sure:\n``` Python3 \n{SOLUTION}\n```\n", "Sure"),
    "tildes": (f"~~~python\n{SOLUTION}~~~", "~~~"),
    "carriage returns": (FENCED.replace("\n", "\r\n"), "\r"),
    "unclosed": (f"```python\n{SOLUTION}", "```"),
    "indented fence": ("1. So:\n" + textwrap.indent(FENCED, "   "), "So"),
    "output tags": (f"<output>\n{SOLUTION}</output>", "output"),
    "fence on the line of the tag": (f"<output>{FENCED}</output>", "output"),
    "fence on the line of the words": (f"Use ```f```: **so:** ```py\n{SOLUTION}```\nSo.", "So"),
    "fence in a quotation": ("> ```python\n> " + SOLUTION.replace("\n", "\n> ") + "```", ">"),
    "after reasoning": (f"<think>```\ndef area(r): return 1\n```</think>\n{FENCED}", "return 1"),
    "final channel": ("<|channel|>analysis<|message|>```\ndef area(r): return 1\n```<|end|><|start|>assistant"
                      f"<|channel|>final<|message|>{FENCED}<|return|>", "return 1"),
    "example afterwards": (FENCED + "\nFor example:\n```python\nprint(area(2))\n```", "print"),
    "corrected": (f"```python\ndef area(r):\n    return 1\n```\nNo:\n{FENCED}", "return 1"),
    "broken afterwards": (FENCED + "\n```python\ndef area(r:\n```", "r:"),
    "bare program": (SOLUTION, "```"),
    "body": ("    return 3 * r\n", "```"),
    "body at the margin": ("```python\nx = r\nreturn 3 * x\n```", "\nreturn"),
    "a class before variables": (
        "```\nclass Disc:\n" + textwrap.indent(SOLUTION, "    ") + "```\n```\nd = 1\n```", "d ="),
    "a use of the name afterwards": (FENCED + "\n```python\narea = area(2)\n```", "area(2)"),
}  # fmt: skip


@pytest.mark.parametrize("name", EXTRACTED)
def test_code_is_found(name):
    response, absent = EXTRACTED[name]
    code = judge.extract_code(response, DISC)
    assert "return 3" in code and absent not in code
    compile(code, "code", "exec")
    if "body" not in name:  # of an open problem, which has no tests and names no function
        assert judge.extract_code(response, {"kind": "code", "prompt": PROMPT}) == code


@pytest.mark.parametrize("response", [
    "", "<think>```py\ndef area(r): return 1\n```", "I do not know.", "Hello", "Answer: 5", "```python\n```"])
def test_no_code_is_none(response):
    assert judge.extract_code(response, DISC) is None


def test_a_single_function_may_have_another_name():
    scope = {}
    exec(judge.extract_code(PLUS, ADD), scope)
    assert scope["add_two"](2, 3) == 5
    in_class = ADD | {"tests": "class TestAdd:\n    def test_add(self):\n        assert add_two(2, 3) == 5\n"}
    assert "add_two" in judge.extract_code(PLUS, in_class)
    two = PLUS.replace("+ b", "+ b\ndef minus(a, b):\n    return a - b")
    assert "add_two" not in judge.extract_code(two, ADD)
    named = judge.extract_code("```python\ndef disc(r):\n    return r\n```", DISC)
    assert "area =" not in named  # the prompt asks for that name


@pytest.mark.parametrize("program", [
    "print(sum(map(int, input().split())))", "[print(line) for line in open(0)]",
    "for line in open(0): print(line)", "import sys; print(sys.stdin.read())"])  # fmt: skip
def test_a_program_without_a_function(program):
    for form in ("{}", "<think>hm</think>\n{}<|im_end|>", "```python\n{}\n```\nThen\n```\na\n```\n"):
        assert judge.extract_code(form.format(program), ECHO).strip() == program


def test_self_check(tmp_path, run_here):
    path, pair = tmp_path / "set.jsonl", HALF | {"id": "list", "answer": "1,2"}
    common.write_jsonl(path, [DISC, ADD, ECHO, HALF, CITY, pair])
    counts = last_json(run_here("02_label.py", path, "--self-check", "--json"))
    assert (counts["solutions"], counts["stubs"], counts["answers"], counts["failures"]) == (3, 3, 3, 0)

    empty = ADD | {"tests": "from solution import add_two\n\ndef test():\n    assert True\n"}
    common.write_jsonl(path, [DISC | {"solution": PROMPT + "    return r\n"}, empty])
    said = run_here("02_label.py", path, "--self-check", code=1).stdout
    assert "disc: its solution: failed" in said and "add: its stub: passed" in said
    common.write_jsonl(path, [{"prompt": "Write a poem."}])
    said = run_here("02_label.py", path, "--self-check", code=1).stdout
    assert f"{path}: nothing to check: no problem has an answer or tests\n" in said


def test_unsafe_runs_programs_where_nothing_confines_them(mixed, run_here, monkeypatch):
    import sandbox_exec

    bare = partial(sandbox_exec.Pool, disable=("namespaces", "landlock", "seccomp"))
    monkeypatch.setattr(sandbox_exec, "Pool", bare)
    assert "--unsafe" in run_here("02_label.py", mixed, code=2).stderr
    run_here("02_label.py", mixed, "--unsafe")
    assert labels_of(mixed, "label")[5:9] == [(1,), (1,), (0,), (0,)]
