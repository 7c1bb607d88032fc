"""Labels of run folders, extraction of code, and the check that reference solutions pass and stubs fail."""

import importlib
import json
import os
import resource
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

judge = importlib.import_module("02_label")
ROOT = Path(__file__).resolve().parents[1]

PROMPT = 'import math\n\n\ndef area(r):\n    """Area of a disc."""\n'
CHECK = "def check(candidate):\n    assert abs(candidate(2) - 12.566370614) < 1e-6\n"
DISC = {"id": "disc", "kind": "code", "prompt": PROMPT, "prelude": PROMPT, "tests": CHECK, "style": "check",
        "entry_point": "area", "solution": PROMPT + "    return math.pi * r * r\n"}  # fmt: skip
ADD = {"id": "add", "kind": "code", "prompt": "Add two numbers.", "style": "pytest", "entry_point": "add_two",
       "tests": "from solution import add_two\n\ndef test_add():\n    assert add_two(2, 3) == 5\n",
       "solution": "def add_two(a, b):\n    return a + b\n"}  # fmt: skip
ECHO = {"id": "echo", "kind": "code", "prompt": "Echo.", "style": "stdio",
        "tests": {"inputs": ["a\n"], "outputs": ["a\n"]}}  # fmt: skip
HALF = {"id": "half", "kind": "math", "prompt": "Half of 1?", "answer": "\\frac12"}
OPEN = {"id": "open", "kind": "math", "prompt": "Pick a number."}
CITY = {"id": "city", "kind": "text", "prompt": "Capital of France?", "answer": "Paris"}
PLUS = "```py\ndef plus(a, b):\n    return a + b\n```"
GOOD = "```python\nimport math\n\ndef area(r):\n    return math.pi * r ** 2\n```"


META = {"model": "tiny", "dataset": "made_up", "seed": 0, "n_layers": 5, "vocab_size": 50}


def write_run(path, problems, responses, **fields):
    path.mkdir(exist_ok=True)
    (path / "meta.json").write_text(json.dumps(META))
    write(path / "problems.jsonl", problems)
    rows = [(key, n, text) for key, texts in responses.items() for n, text in enumerate(texts)]
    rows = [{"id": key, "sample": n, "response": text, **fields} for key, n, text in rows]
    write(path / "rollouts.jsonl", rows)
    return path


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def rows_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def labels_of(run):
    return rows_of(run / "labels.jsonl")


@pytest.fixture
def mixed(tmp_path):
    return write_run(tmp_path / "run", [DISC, ADD, HALF, OPEN, CITY], {
        "half": ["\\boxed{0.5}", "\\boxed{50\\%}", "It is 3.", "\\boxed{9^{9^9}}", ""],
        "disc": [GOOD, "    return math.pi * r * r\n", "```py\ndef area(r): return r\n```", "I cannot."],
        "open": ["\\boxed{7}", "The answer is 7.0.", "8"], "city": ["Paris.", "\\boxed{paris}", "Rome"],
        "add": [PLUS, "```py\nimport os; os._exit(0)\n```"]})  # fmt: skip


def test_texts_of_the_same_letters_are_not_one_answer():
    assert judge.readers_of("text")[1](["dog", "god", None, "Dog."]) == [0, 1, None, 0]


def test_a_run_is_labelled_row_by_row(mixed, run_script):
    done = run_script("02_label.py", mixed, "--json")
    rows = labels_of(mixed)
    rollouts = rows_of(mixed / "rollouts.jsonl")
    assert [(row["id"], row["sample"]) for row in rows] == [(row["id"], row["sample"]) for row in rollouts]
    assert all(set(row) == {"id", "sample", "label", "answer", "group", "reason"} for row in rows)
    assert [row["label"] for row in rows] == [1, 1, 0, 0, 0, 1, 1, 0, 0, None, None, None, 1, 1, 0, 1, 0]
    assert [row["group"] for row in rows] == [0, 1, 2, 3, None, *[None] * 4, 0, 0, 1, 0, 0, 1, None, None]
    reasons = [row["reason"] for row in rows]
    assert reasons[:6] == ["equal", "equal", "different", "too complex", "no answer", "passed"]
    assert reasons[7].startswith("failed") and reasons[8] == "no code" and reasons[9] == "no reference"
    counts = json.loads(done.stdout.splitlines()[-1])["runs"][0]
    assert (counts["right"], counts["wrong"], counts["not_judged"], counts["no_answer"]) == (7, 7, 3, 2)
    assert counts["right_percent"] == 50.0 and counts["oracle_percent"] == 100.0
    assert not [path for path in mixed.iterdir() if path.name.startswith(".")]


def test_a_second_run_finds_the_work_done(mixed, run_script):
    first = run_script("02_label.py", mixed).stdout
    before = (mixed / "labels.jsonl").stat().st_mtime_ns
    assert run_script("02_label.py", mixed).stdout == first
    assert (mixed / "labels.jsonl").stat().st_mtime_ns == before
    time.sleep(0.01)
    (mixed / "rollouts.jsonl").write_text((mixed / "rollouts.jsonl").read_text().replace("{0.5}", "{0.6}"))
    run_script("02_label.py", mixed)
    assert labels_of(mixed)[0]["label"] == 0


def test_a_killed_run_goes_on_where_it_stopped(tmp_path):
    slow = "```python\nimport time\ntime.sleep(.3)\ndef add_two(a, b):\n    return a + b\n```"
    problems = [ADD | {"id": f"add{n}"} for n in range(12)]
    run = write_run(tmp_path / "run", problems, {problem["id"]: [slow] for problem in problems})
    command = [sys.executable, str(ROOT / "02_label.py"), str(run), "--workers", "1"]
    kept = run / ".labels.unfinished.jsonl"
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(command, start_new_session=True, **quiet)
    while process.poll() is None and not (kept.is_file() and kept.read_bytes().count(b"\n") > 3):
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert not (run / "labels.jsonl").exists()
    done = [json.loads(line)[0]["id"] for line in kept.read_text().splitlines()[1:]]
    forged = kept.read_text().replace('"passed"', '"kept"') + '[{"torn'
    kept.write_text(forged)
    subprocess.run(command, check=True, capture_output=True)
    rows = labels_of(run)
    assert [(row["id"], row["label"]) for row in rows] == [(problem["id"], 1) for problem in problems]
    assert {row["id"] for row in rows if row["reason"] == "kept"} == set(done) and 3 <= len(done) < 12


def test_nothing_to_judge_is_said_and_still_grouped(tmp_path, run_script):
    untested = {"id": "c", "kind": "code", "prompt": "p"}
    answers = {"open": ["\\boxed{1/2}", "0.5", "2"], "c": ["x"]}
    run = write_run(tmp_path / "run", [OPEN, untested], answers)
    assert "nothing to judge" in run_script("02_label.py", run).stdout
    assert [(row["label"], row["group"]) for row in labels_of(run)] == [(None, n) for n in (0, 0, 1, None)]


def test_a_cut_rollout_says_so(tmp_path, run_script):
    """A right answer is right all the same; what is missing or wrong may be for want of tokens."""
    answers = {"half": ["\\boxed{0.5}", "It is 3", ""], "open": ["7"], "disc": ["```py\nx = 1"]}
    run = write_run(tmp_path / "run", [HALF, OPEN, DISC], answers, finish="length")
    done = run_script("02_label.py", run)
    reasons = [(row["label"], row["reason"][:35]) for row in labels_of(run)]
    cut = "cut at the length limit: "
    assert reasons[:3] == [(1, "equal"), (0, cut + "different"), (0, cut + "no answer")]
    assert reasons[3] == (None, "no reference") and "3 cut at the length limit" in done.stdout
    assert reasons[4][0] == 0 and reasons[4][1].startswith(cut + "failed")


def test_what_the_sandbox_cannot_do_is_not_wrong(tmp_path, run_script):
    broken = ADD | {"tests": "import a_package_that_nobody_has\n" + ADD["tests"]}
    run = write_run(tmp_path / "run", [broken], {"add": [f"```python\n{ADD['solution']}```"]})
    done = run_script("02_label.py", run, "--json")
    assert labels_of(run)[0]["label"] is None and labels_of(run)[0]["reason"].startswith("error: ")
    assert json.loads(done.stdout.splitlines()[-1])["runs"][0]["not_judged"] == 1


BAD = {  # a file of the run, what stands in it then (None: nothing), what is said
    "no rollouts": ("rollouts.jsonl", None, "generation is not finished"),
    "torn rollouts": ("rollouts.jsonl", '{"id": "half", "sample": 0}\n', "rollouts.jsonl:1"),
    "too few": ("rollouts.jsonl", '{"id": "half", "sample": 0, "response": "5"}\n', "1 of 2 problems"),
    "strange": ("rollouts.jsonl", '{"id": "none", "sample": 0, "response": "5"}\n', "not in problems.jsonl"),
    "twice": ("rollouts.jsonl", 2 * '{"id": "half", "sample": 0, "response": "1"}\n', "2 rows but only 1"),
    "torn problems": ("problems.jsonl", "{", "problems.jsonl:1"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_line(tmp_path, run_script, name):
    run = write_run(tmp_path / "run", [HALF, OPEN], {"half": ["1"], "open": ["2"]})
    file, content, said = BAD[name]
    (run / file).write_text(content) if content else (run / file).unlink()
    assert said in run_script("02_label.py", run, code=2).stderr
    assert "not a run folder" in run_script("02_label.py", tmp_path / "nowhere", code=2).stderr


def test_help_is_quick():
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, str(ROOT / "02_label.py"), "-h"], check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 1


SOLUTION = "def area(r):\n    return 3 * r\n"
FENCED = f"```python\n{SOLUTION}```"
EXTRACTED = {  # response -> a line that the program must hold, and one that it must not
    "closed": (FENCED, "return 3", "```"),
    "spellings": (f"Sure:\n``` Python3 \n{SOLUTION}\n```\n", "return 3", "Sure"),
    "py": (f"```py\n{SOLUTION}```", "return 3", "py\n"),
    "no language": (f"```\n{SOLUTION}```", "return 3", "```"),
    "tildes": (f"~~~python\n{SOLUTION}~~~", "return 3", "~~~"),
    "carriage returns": (FENCED.replace("\n", "\r\n"), "return 3", "\r"),
    "unclosed": (f"```python\n{SOLUTION}", "return 3", "```"),
    "closed on the last line": (f"```python\n{SOLUTION.rstrip()}```\nDone.", "return 3", "Done"),
    "indented fence": ("1. So:\n" + textwrap.indent(FENCED, "   "), "return 3", "So"),
    "output tags": (f"<output>\n{SOLUTION}</output>", "return 3", "output"),
    "fence in output tags": (f"<output>\n{FENCED}\n</output>", "return 3", "output"),
    "unclosed in output tags": (f"<output>\n```python\n{SOLUTION}</output>", "return 3", "output"),
    "fence on the line of the tag": (f"<output>{FENCED}</output>", "return 3", "output"),
    "fence on the line of the words": (f"Use ```f```: **so:** ```py\n{SOLUTION}```\nSo.", "return 3", "So"),
    "fence in a quotation": ("> ```python\n> " + SOLUTION.replace("\n", "\n> ") + "```", "return 3", ">"),
    "after reasoning": (f"<think>```\ndef area(r): return 1\n```</think>\n{FENCED}", "return 3", "return 1"),
    "final channel": ("<|channel|>analysis<|message|>```\ndef area(r): return 1\n```<|end|><|start|>assistant"
                      f"<|channel|>final<|message|>{FENCED}<|return|>", "return 3", "return 1"),
    "example afterwards": (FENCED + "\nFor example:\n```python\nprint(area(2))\n```", "return 3", "print"),
    "output afterwards": (FENCED + "\nprints\n```\n12.56\n```", "return 3", "12.56"),
    "corrected": (f"```python\ndef area(r):\n    return 1\n```\nNo:\n{FENCED}", "return 3", "return 1"),
    "another function afterwards": (FENCED + "\n```py\ndef test():\n    pass\n```", "return 3", "def test"),
    "broken afterwards": (FENCED + "\n```python\ndef area(r:\n```", "return 3", "r:"),
    "bare program": (SOLUTION, "return 3", "```"),
    "body": ("    return 3 * r\n", "def area", "```"),
    "body in a fence": ("```python\n    return 3 * r\n```", "def area", "```"),
    "body at the margin": ("```python\nx = 3 * r\nreturn x\n```", "    return x", "\nreturn"),
    "end token": (FENCED + "<|im_end|>", "return 3", "<|"),
    "variables afterwards": (FENCED.replace("area", "disc") + "\n```\nlst = [1]\n```", "return 3", "lst"),
    "a class before variables": ("```\nclass Disc:\n    pass\n```\n```\nd = 1\n```", "class Disc", "d ="),
    "a use of the name afterwards": (FENCED + "\n```python\narea = area(2)\n```", "return 3", "area(2)"),
}  # fmt: skip


@pytest.mark.parametrize("name", EXTRACTED)
def test_code_is_found(name):
    response, held, absent = EXTRACTED[name]
    code = judge.extract_code(response, DISC)
    assert held in code and absent not in code
    compile(code, "code", "exec")


@pytest.mark.parametrize("response", [
    "", "<think>```py\ndef area(r): return 1\n```", "I do not know.", "Hello", "Answer: 5", "```python\n```"])
def test_no_code_is_none(response):
    assert judge.extract_code(response, DISC) is None


def test_a_single_function_may_have_another_name():
    code = judge.extract_code(PLUS, ADD)
    scope = {}
    exec(code, scope)
    assert scope["add_two"](2, 3) == 5
    two = PLUS.replace("+ b", "+ b\ndef minus(a, b):\n    return a - b")
    assert "add_two" not in judge.extract_code(two, ADD)
    named = judge.extract_code("```python\ndef disc(r):\n    return r\n```", DISC)
    assert "area =" not in named  # the prompt asks for that name


def test_a_program_without_a_function():
    response = "```python\nprint(input())\n```\nThen\n```\na\n```\n"
    assert judge.extract_code(response, ECHO) == "print(input())"


@pytest.mark.parametrize("program", [
    "print(sum(map(int, input().split())))", "[print(line) for line in open(0)]",
    "for line in open(0): print(line)", "import sys; print(sys.stdin.read())"])  # fmt: skip
def test_one_line_without_a_fence_is_a_program(program):
    assert judge.extract_code(program, ECHO) == program
    assert judge.extract_code(f"<think>hm</think>\n{program}<|im_end|>", ECHO).strip() == program


def test_self_check(tmp_path, run_script):
    echo, pair = ECHO | {"solution": "print(input())\n"}, HALF | {"id": "list", "answer": "1,2"}
    path = write(tmp_path / "set.jsonl", [DISC, ADD, echo, HALF, CITY, pair])
    counts = json.loads(run_script("02_label.py", path, "--self-check", "--json").stdout.splitlines()[-1])
    assert (counts["solutions"], counts["stubs"], counts["answers"], counts["failures"]) == (3, 3, 3, 0)

    empty = ADD | {"tests": "from solution import add_two\n\ndef test():\n    assert True\n"}
    write(path, [DISC | {"solution": PROMPT + "    return r\n"}, empty])
    said = run_script("02_label.py", path, "--self-check", code=1).stdout
    assert "disc: its solution: failed" in said and "add: its solution: error: the tests ask nothing" in said
