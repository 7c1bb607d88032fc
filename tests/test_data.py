"""Data sets by name, from made-up rows with their true fields; the client of the Hub; files of one's own."""

import importlib
import json
import os
import re
import socket
import threading
from contextlib import suppress
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import huggingface_hub
import pytest
from conftest import dies, last_json, python
from huggingface_hub.errors import HTTPError

import common

# ---- Made-up rows


def humaneval_row(i):
    helper = "HALF = 0.5\n\n\ndef twice(x):\n    return x / HALF\n"
    prompt = f'{helper}\n\ndef add_{i}(x):\n    """ Add {i} to x. """\n'
    tests = f"METADATA = {{}}\n\n\ndef check(candidate):\n    assert candidate(2) == twice({i} / 2) + 2\n"
    return {"task_id": f"HumanEval/{i}", "prompt": prompt, "canonical_solution": f"    return x + {i}\n",
            "test": tests, "entry_point": f"add_{i}"}  # fmt: skip


def kodcode_row(i):
    """In every tenth row no function is named, and in the one after it there are two of them."""
    name = f"times_{i}"
    info = [{"function_name": name, "parameter_list": "(x)", "function_declaration": f"def {name}(x):"}]
    tested = {0: None, 1: info + info}.get(i % 10, info)
    return {"question_id": f"Prefill_{i:08d}_I", "question": f"Write a function that multiplies by {i}.",
            "solution": f"def {name}(x):\n    return x * {i}", "test_info": tested,
            "test": f"from solution import {name}\n\ndef test_times():\n    assert {name}(3) == {3 * i}\n"}


def bigcodebench_row(i):
    test = f"    def test_one(self):\n        self.assertEqual(task_func(.5), {i + 1})\n"
    prompt = f'import math\n\ndef task_func(x):\n    """Add {i}."""\n'
    return {"task_id": f"BigCodeBench/{i}", "complete_prompt": prompt, "entry_point": "task_func",
            "canonical_solution": f"    return math.ceil(x) + {i}\n", "code_prompt": "import math\n",
            "test": f"import unittest\n\nclass TestCases(unittest.TestCase):\n{test}"}  # fmt: skip


def openthoughts_math_row(i):
    """Every fourth row has no solution; the last box of some holds no number."""
    box = {0: "x + 1", 2: "\\frac{1}{2}", 4: "2.5"}.get(i % 10, str(i))
    solution = f"First \\boxed{{99}}, so the answer is $\\boxed{{{box}}}$." if i % 4 else None
    return {"problem": f"Problem {i}?", "ground_truth_solution": solution, "test_cases": None}


def openthoughts_code_row(i):
    """What a program reads and prints, or every third time a function's arguments, some of a method."""
    cases = {"inputs": [f"{i}\n", ["1", "2"]], "outputs": [f"{i}\n", [3]]}
    if i % 3 == 0:
        cases = {"fn_name": "add", "inputs": [[1, i]], "outputs": [[1 + i]]}
    cases = {7: {}, 11: {"inputs": ["1"], "outputs": None}}.get(i % 13, cases)
    starter = "class Solution:\n    def add(" if i % 9 == 0 else None
    return {"problem": f"Problem {i}?", "starter_code": starter, "test_cases": json.dumps(cases)}


ROWS = {  # what makes the rows of a data set, and how many there are
    "humaneval": (humaneval_row, 164),
    "kodcode": (kodcode_row, 1350),
    "bigcodebench-hard": (bigcodebench_row, 148),
    "math500": (lambda i: {"problem": f"{i}?", "answer": f"{i}/2", "unique_id": f"algebra/{i}.json"}, 500),
    "aime24": (lambda i: {"ID": f"2024-I-{i + 1}", "Problem": f"Find {i}.", "Answer": i}, 30),
    "aime25": (lambda i: {"problem_idx": i + 1, "problem": f"Find {i} again.", "answer": i}, 30),
    "openthoughts-math": (openthoughts_math_row, 1500),
    "openthoughts-code": (openthoughts_code_row, 1500),
}


def page_of(name, offset):
    """A page as the Hub's server gives it."""
    make_row, total = ROWS[name]
    numbers = range(offset, min(offset + 100, total))
    rows = [{"row_idx": n, "row": make_row(n), "truncated_cells": []} for n in numbers]
    return {"rows": rows, "num_rows_total": total}


# ---- Every set by its name


@pytest.fixture
def asked(monkeypatch):
    """The pages (name, offset) that were asked for; pages are made up."""
    asked = []
    names = {(data.repository, data.where): name for name, data in common.DATA_SETS.items()}

    def hub_page(data, offset):
        name = names[data.repository, data.where]
        asked.append((name, offset))
        return page_of(name, offset)

    monkeypatch.setattr(common, "hub_page", hub_page)
    return asked


@pytest.mark.parametrize("name, size, first_id, styles", [
    ("humaneval", 164, "HumanEval/0", {"check"}),
    ("kodcode", 1000, "Prefill_00000802_I", {"pytest"}),
    ("bigcodebench-hard", 148, "BigCodeBench/0", {"unittest"}),
    ("math500", 500, "algebra/0.json", {None}),
    ("aime24", 30, "2024-I-1", {None}),
    ("aime25", 30, "2025-1", {None}),
    ("aime", 60, "2024-I-1", {None}),
    ("openthoughts", 1000, None, {None, "stdio", "check"}),
])  # fmt: skip
def test_a_set_by_its_name(name, size, first_id, styles, asked):
    problems = common.load_problems(name)
    assert len(problems) == len({problem["id"] for problem in problems}) == size
    assert first_id in (None, problems[0]["id"])
    assert {problem.get("style") for problem in problems} == styles
    for problem in problems:
        assert problem["prompt"].strip() and problem["tests" if problem["kind"] == "code" else "answer"]
        assert problem.get("beside") == (True if name == "bigcodebench-hard" else None)


def test_kodcode_is_the_same_pick_for_everybody_and_names_the_function(asked):
    problems = common.load_problems("kodcode")
    rows = [int(problem["id"][8:16]) for problem in problems]
    assert all(row % 10 > 1 for row in rows)  # one tested function each
    assert rows[:3] == [802, 803, 804] and rows != sorted(rows)  # whole pages in a random order
    question, declared = problems[0]["prompt"].split("\n\nDeclare the function so:\n\n")
    assert declared == "```python\ndef times_802(x):\n```" and "times_802" not in question


def test_a_limit_takes_the_first_problems_and_asks_for_no_more_pages(asked):
    twenty = common.load_problems("kodcode", limit=20)
    assert asked == [("kodcode", 0), ("kodcode", 800)]  # the number of rows, and the twenty
    assert common.load_problems("kodcode")[:20] == twenty
    years = [problem["id"][:4] for problem in common.load_problems("aime", limit=31)]
    assert years == ["2024"] * 30 + ["2025"]


def test_openthoughts_keeps_what_can_be_judged(asked):
    answers = {problem["answer"] for problem in common.load_problems("openthoughts-math")}
    assert all(re.fullmatch(r"-?\d+(\.\d+)?", answer) for answer in answers)
    assert "2.5" in answers and "99" not in answers  # the last box counts
    programs = common.load_problems("openthoughts-code")
    reads = next(problem for problem in programs if problem["style"] == "stdio")
    first = reads["tests"]["inputs"][0]
    assert reads["tests"] == {"inputs": [first, "1\n2"], "outputs": [first, "3"]}


def test_the_judge_takes_what_the_sets_give(asked, tmp_path, run_here):
    """Reference solutions pass and stubs fail, in each form of tests that a set has."""
    names = ("humaneval", "kodcode", "bigcodebench-hard")
    problems = [common.load_problems(name, limit=6)[5] for name in names]
    programs = {  # OpenThoughts has no solutions: to a program that reads and prints, a function, a method
        None: "import sys\nprint(sum(map(int, sys.stdin.read().split())))",
        "add": "def add(a, b): return a + b",
        "Solution": "class Solution:\n    def add(self, a, b): return a + b",
    }  # fmt: skip
    thoughts = {problem.get("entry_point"): problem for problem in common.load_problems("openthoughts-code")}
    problems += [thoughts[name] | {"solution": program} for name, program in programs.items()]
    common.write_jsonl(tmp_path / "all.jsonl", problems)
    result = last_json(run_here("02_label.py", tmp_path / "all.jsonl", "--self-check", "--json"))
    assert (result["solutions"], result["stubs"], result["failures"]) == (6, 6, 0)


# ---- The client of the Hub's server

httpx = importlib.import_module(HTTPError.__module__.partition(".")[0])  # httpx or httpx2, by huggingface_hub


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache of pages."""
    folder = partial(huggingface_hub.cached_assets_path, assets_dir=tmp_path / "assets")
    monkeypatch.setattr(huggingface_hub, "cached_assets_path", folder)
    return tmp_path / "assets"


def test_pages_are_downloaded_once_and_then_work_offline(cache, tmp_path, monkeypatch):
    """From a real server, which gives the file `rows` whatever is asked of it; then in a new process."""
    common.write_json(tmp_path / "served" / "rows", page_of("aime24", 0))
    handler = partial(SimpleHTTPRequestHandler, directory=tmp_path / "served")
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}).start()
        monkeypatch.setattr(common, "ROWS_SERVER", f"http://127.0.0.1:{server.server_port}")
        problems = common.load_problems("aime24")
        server.shutdown()
    offline = os.environ | {"HF_HUB_OFFLINE": "1", "HF_ASSETS_CACHE": str(cache)}
    program = "import common, json; common.entry(lambda: print(json.dumps(common.load_problems('{}'))), '')"
    assert len(problems) == 30
    assert json.loads(python(program.format("aime24"), env=offline).stdout) == problems
    error = python(program.format("aime25"), env=offline).stderr.splitlines()[-1]
    assert error.startswith("error: the data set aime25 cannot be downloaded") and "HF_HUB_OFFLINE" in error


@pytest.fixture
def answers(cache, monkeypatch):
    """(requests, answers) of a made-up server; answers (status, page) that a test adds come first."""
    requests, answers = [], []

    def http_backoff(method, url, params, headers, timeout):
        requests.append((url.rpartition("/")[2], params["offset"]))
        name = "openthoughts-math" if "where" in params else "bigcodebench-hard"
        status, page = answers.pop(0) if answers else (200, page_of(name, params["offset"]))
        return httpx.Response(status, json=page, request=httpx.Request(method, url))

    monkeypatch.setattr(huggingface_hub.utils, "http_backoff", http_backoff)
    monkeypatch.setattr(common, "unreachable", lambda server: None)
    return requests, answers


def test_a_download_that_failed_resumes_at_the_next_page(answers, capsys):
    requests, faults = answers
    faults += [(200, page_of("bigcodebench-hard", 0)), (500, {})]
    message = dies(capsys, common.load_problems, "bigcodebench-hard")
    assert "https://huggingface.co/datasets/bigcode/bigcodebench-hard (" in message
    assert "500" in message and ".jsonl" in message
    assert len(common.load_problems("bigcodebench-hard")) == 148
    assert requests == [("rows", 0), ("rows", 100), ("rows", 100)]


def test_a_set_that_is_a_part_of_another_is_filtered_by_the_server(answers):
    assert common.load_problems("openthoughts-math", limit=3)[0]["kind"] == "math"
    assert {name for name, _ in answers[0]} == {"filter"}


def cut_short(page):
    page["rows"][3]["truncated_cells"] = ["prompt"]
    return page


@pytest.mark.parametrize("status, page, says", [
    *[(status, {}, "terms must be accepted on that page") for status in (401, 403, 404)],
    (422, {}, "422"),
    (200, page_of("bigcodebench-hard", 0) | {"num_rows_total": 50}, "did not give all of the rows"),
    (200, cut_short(page_of("bigcodebench-hard", 0)), "did not give all of the rows"),
    (200, page_of("bigcodebench-hard", 0) | {"rows": [], "num_rows_total": 0}, "0 problems instead of 148"),
])  # fmt: skip
def test_answers_that_end_a_download(status, page, says, answers, capsys):
    answers[1].append((status, page))
    assert says in dies(capsys, common.load_problems, "bigcodebench-hard")
    assert len(answers[0]) == 1


def test_an_unknown_name_lists_the_known_ones(capsys):
    message = dies(capsys, common.load_problems, "aime26")
    assert "unknown data set 'aime26'" in message and "aime24, aime25" in message


@pytest.mark.parametrize("what", ["load_problems('aime24')", "load_config('Qwen/Qwen9')"])
def test_a_hub_out_of_reach_is_asked_once_and_said_in_one_line(what, tmp_path):
    """Seconds instead of minutes: counted in attempts, as a busy machine makes any time long."""
    with socket.create_server(("127.0.0.1", 0)) as silent, suppress(BlockingIOError):
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        env = os.environ | {"HF_HOME": str(tmp_path), "HF_ENDPOINT": address, "HF_DATASETS_SERVER": address}
        done = python(f"import common; common.entry(lambda: common.{what}, '')", env=env)
        asked = []
        silent.setblocking(False)
        while True:
            asked.append(silent.accept()[0].recv(99).decode().split()[1])
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    assert "cannot be reached" in done.stderr
    assert asked.count("/api/") == 1 and not re.search("resolve|rows", str(asked)), asked


@pytest.mark.parametrize("name", ["demo/none/such", "./none", "/none", "none.pt", "a--b"])
def test_a_model_that_is_not_there_is_one_line(name, monkeypatch, capsys):
    monkeypatch.setattr(common, "unreachable", lambda server: "offline")
    assert "is no folder here" in dies(capsys, common.load_config, name)


# ---- Files of one's own


CHAT = [{"role": "system", "content": "s"}, {"role": "user", "content": [{"text": "1"}, {"text": "+1"}]}]
OWN = [  # a problem; its kind, style and id
    ({"prompt": "What is 1 + 1?", "answer": 2}, "math", None, "0"),
    ({"prompt": "Write f.", "tests": "assert f(1) == 1", "entry_point": "f"}, "code", "assert", "1"),
    ({"prompt": "Echo.", "tests": {"inputs": ["a"], "outputs": ["a"]}, "id": "e"}, "code", "stdio", "e"),
    ({"prompt": "Write g.", "tests": ["assert g() == 1", "assert g(2) == 2"]}, "code", "assert", "3"),
    ({"prompt": "Write h.", "tests": "class T(unittest.TestCase): pass"}, "code", "unittest", "4"),
    ({"prompt": "Write i.", "tests": "def test_i():\n    assert i()"}, "code", "pytest", "5"),
    ({"prompt": "Write j.", "tests": "def check(candidate):\n    assert candidate()"}, "code", "check", "6"),
    ({"prompt": "Tell a joke.", "kind": None, "answer": None, "solution": None}, "text", None, "7"),
    ({"prompt": "2 + 2?", "answer": "4", "tests": [], "entry_point": "", "id": ""}, "math", None, "8"),
    ({"messages": CHAT}, "text", None, "9"),
]  # fmt: skip


@pytest.mark.parametrize("name", ["own.jsonl", "own.json"])
def test_own_file_in_its_minimal_form(name, tmp_path):
    rows = [row for row, *_ in OWN]
    text = json.dumps(rows) if ".jsonl" not in name else "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / name).write_text("\ufeff" + text)  # as Windows begins a file
    problems = common.load_problems(tmp_path / name)
    for problem, (_, kind, style, id) in zip(problems, OWN, strict=True):
        assert (problem["kind"], problem.get("style"), problem["id"]) == (kind, style, id)
    assert problems[0]["answer"] == "2" and problems[3]["tests"] == "assert g() == 1\nassert g(2) == 2"
    assert problems[9]["prompt"] == "1+1" and problems[9]["messages"][1] == {"role": "user", "content": "1+1"}


MORE = {  # the rest of a line that begins {"prompt": "x", -> what the error says
    '"kind": "maths"': "kind 'maths' is none of code, math, text",
    '"tests": {"inputs": ["1"], "outputs": []}': "problem 1: 'tests' must be",
    '"tests": {"inputs": [1], "outputs": ["1"]}': "problem 1: 'tests' must be",
    '"tests": "assert f()", "style": ["check"]': "style ['check'] is none of check, unittest, pytest, assert",
    '"tests": "assert f()", "prelude": ["import re"]': "the field 'prelude' must be text",
    '"tests": "assert f()", "solution": 7': "the field 'solution' must be text",
    '"family": 7': "the field 'family' must be text",
    '"asnwer": 7': "problem 1: unknown field 'asnwer': did you mean 'answer'?",
    '"test": "assert f()"': "unknown field 'test': did you mean 'tests'?",
    '"messages": "hello"': "'messages' must be a list",
    '"messages": []}\n{"messages": [{"role": "user"}]': "problem 2: 'messages' must be a list",
    '"messages": [{"role": "user", "content": null}]': "'messages' must be a list",
    '"id": 1}\n{"prompt": "x"': "2 problems but only 1 different ids",
    '"answer": NaN': "own:1: not JSON (", '"y": ' + "[" * 100_000: "own:1: not JSON (",
}
FILES = {
    "": "no problems", '{"prompt": ["x"]}': "problem 1: the field 'prompt' must be text",
    '{"question": "x", "answer": 1}': "'prompt or messages' is missing; it has only question, answer",
    "[1]": "own:1: a JSON object is expected, not 1", "[": "own: not JSON (",
    '[{"prompt": "y"}, {"prompt": "\\ud800"}]': "own: not JSON ('utf-8' codec can't encode",
    '[{"prompt": "x", "answer": Infinity}]': "own: not JSON (Infinity is no number",
    f'[{{"prompt": "x", "answer": {"9" * 5000}}}]': "not JSON (",
}  # fmt: skip


@pytest.mark.parametrize("says, text", [
    *[(says, f'{{"prompt": "x", {more}}}') for more, says in MORE.items()],
    *[(says, text) for text, says in FILES.items()]], ids=lambda text: text[:50])  # fmt: skip
def test_own_file_with_a_mistake(says, text, tmp_path, capsys):
    (tmp_path / "own").write_text(text)
    assert says in dies(capsys, common.load_problems, tmp_path / "own")


def test_which_of_answer_and_tests_decides_is_said(tmp_path, capsys):
    both = {"prompt": "Write f.", "answer": "1", "tests": "assert f()", "difficulty": 3}
    rows = [both, both | {"kind": "math"}, {"prompt": "x", "answers": [1], "answer": 1}]
    common.write_jsonl(tmp_path / "p.jsonl", rows)
    kinds = [problem["kind"] for problem in common.load_problems(tmp_path / "p.jsonl")]
    assert kinds == ["code", "math", "math"]
    assert "1 of 3 problems have an answer and tests; the tests decide" in capsys.readouterr().err
