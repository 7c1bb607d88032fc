"""Data sets by name from a local server that speaks the dataset server's formats; files of one's own.

The rows are made up, in the sets' true fields. Each test has an empty cache.
"""

import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import huggingface_hub
import pytest
from conftest import ROOT, dies

import common

# ----------------------------------------------------------------------------------------------------
# Made-up rows


def humaneval_row(i):
    helper = "HALF = 0.5\n\n\ndef twice(x):\n    return x / HALF\n"
    prompt = f'{helper}\n\ndef add_{i}(x):\n    """ Add {i} to x. """\n'
    tests = f"\n\nMETADATA = {{}}\n\n\ndef check(candidate):\n    assert candidate(2) == twice({i} / 2) + 2\n"
    return {"task_id": f"HumanEval/{i}", "prompt": prompt, "canonical_solution": f"    return x + {i}\n",
            "test": tests, "entry_point": f"add_{i}"}  # fmt: skip


def kodcode_row(i):
    name = f"times_{i}"
    info = [{"function_name": name, "parameter_list": "(x)", "function_declaration": f"def {name}(x):"}]
    return {"style": "instruct", "subset": "Prefill", "question_id": f"Prefill_{i:08d}_I",
            "question": f"Write a function that multiplies a number by {i}.",
            "solution": f"def {name}(x):\n    return x * {i}",
            "test_info": {0: None, 1: info + info}.get(i % 10, info),
            "test": f"from solution import {name}\n\ndef test_times():\n    assert {name}(3) == {3 * i}\n"}


def openthoughts_row(i):
    row = {"problem": f"Problem {i}?", "deepseek_solution": "...", "domain": "code" if i % 2 else "math",
           "ground_truth_solution": None, "test_cases": None, "starter_code": None}  # fmt: skip
    if row["domain"] == "math" and i % 8:
        box = {0: "x + 1", 2: "\\frac{1}{2}", 4: "2.5"}.get(i % 10, str(i))
        return row | {"ground_truth_solution": f"First \\boxed{{99}}, so the answer is $\\boxed{{{box}}}$."}
    if row["domain"] == "math" or i % 11 == 0:
        return row | {"test_cases": json.dumps({"inputs": ["1"], "outputs": None})}
    if i % 3 == 0:
        cases = {"fn_name": "add", "inputs": [[1, i]], "outputs": [[1 + i]]}
        method = None if i % 9 else "class Solution:\n    def add("
        return row | {"test_cases": json.dumps(cases), "starter_code": method}
    cases = {"inputs": [f"{i}\n", ["1", "2"]], "outputs": [f"{i}\n", [3]]}
    return row | {"test_cases": json.dumps(cases if i % 7 else {})}


def bigcodebench_row(i):
    test = f"    def test_one(self):\n        self.assertEqual(task_func(.5), {i + 1})\n"
    prompt = f'import math\n\ndef task_func(x):\n    """Add {i}."""\n'
    return {"task_id": f"BigCodeBench/{i}", "complete_prompt": prompt, "entry_point": "task_func",
            "canonical_solution": f"    return math.ceil(x) + {i}\n", "code_prompt": "import math\n",
            "test": f"import unittest\n\nclass TestCases(unittest.TestCase):\n{test}"}  # fmt: skip


def math500_row(i):
    answer, name = f"\\frac{{{i}}}{{2}}", f"test/algebra/{i}.json"
    return {"problem": f"What is {i}/2?", "answer": answer, "subject": "Algebra", "unique_id": name}


def aime24_row(i):
    return {"ID": f"2024-{'I' * (1 + i // 15)}-{i % 15 + 1}", "Problem": f"Find {i}.", "Answer": i}


def aime25_row(i):
    return {"problem_idx": i + 1, "problem": f"Find {i} again.", "answer": i, "problem_type": ["Algebra"]}


SERVED = {  # (repo, config, split) -> rows
    ("openai/openai_humaneval", "openai_humaneval", "test"): [*map(humaneval_row, range(164))],
    ("KodCode/KodCode-Light-RL-10K", "default", "train"): [*map(kodcode_row, range(1350))],
    ("open-thoughts/OpenThoughts-114k", "metadata", "train"): [*map(openthoughts_row, range(3000))],
    ("bigcode/bigcodebench-hard", "default", "v0.1.4"): [*map(bigcodebench_row, range(148))],
    ("HuggingFaceH4/MATH-500", "default", "test"): [*map(math500_row, range(500))],
    ("Maxwell-Jia/AIME_2024", "default", "train"): [*map(aime24_row, range(30))],
    ("MathArena/aime_2025", "default", "train"): [*map(aime25_row, range(30))],
}

# ----------------------------------------------------------------------------------------------------
# The server


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def do_HEAD(self):  # a sign of life
        self.reply(404, {})

    def do_GET(self):
        self.server.log.append(self.path)
        for fault in list(self.server.faults):
            if re.search(fault["match"], self.path):
                fault["times"] = fault.get("times", 1) - 1
                if fault["times"] <= 0:
                    self.server.faults.remove(fault)
                if not fault["do"](self):
                    return
        url = urlsplit(self.path)
        query = {key: value[0] for key, value in parse_qs(url.query).items()}
        rows = SERVED.get((query["dataset"], query["config"], query["split"]))
        offset, length = int(query["offset"]), int(query["length"])
        if length > 100:
            return self.trouble(422, "InvalidParameter", "Parameter 'length' must not be greater than 100")
        if rows is None:
            return self.trouble(404, "ResponseNotFound", "The dataset does not exist, or is not accessible.")
        rows = list(enumerate(rows))
        if url.path == "/filter":
            column, value = re.fullmatch(r"\"(\w+)\"='(\w+)'", query["where"]).groups()
            rows = [(n, row) for n, row in rows if row[column] == value]
        rows = rows[: self.server.indexed]
        page, total = rows[offset : offset + length], len(rows)
        page = [{"row_idx": n, "row": row, "truncated_cells": []} for n, row in page]
        body = {"features": [], "rows": page, "num_rows_total": total}
        headers = {"X-Revision": self.server.revision, "Content-Type": "application/json"}
        self.reply(200, headers, json.dumps(body).encode())

    def trouble(self, status, code, message, **headers):
        headers = {"X-Error-Code": code, "Content-Type": "application/json"} | headers
        self.reply(status, headers, json.dumps({"error": message}).encode())

    def reply(self, status, headers, body=b""):
        self.send_response(status)
        for name, value in ({"Content-Length": str(len(body))} | headers).items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


@pytest.fixture
def server():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.url = f"http://127.0.0.1:{server.server_port}"
    server.log, server.faults, server.indexed, server.revision = [], [], None, "0" * 40
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def load(server, tmp_path, monkeypatch):
    """load("kodcode") -> problems, from an empty cache of the test's own, which later loads share."""
    folder = partial(huggingface_hub.cached_assets_path, assets_dir=tmp_path / "assets")
    monkeypatch.setattr(huggingface_hub, "cached_assets_path", folder)
    monkeypatch.setattr(common, "ROWS", server.url)
    return common.load_problems


@pytest.fixture
def start(server, tmp_path):
    """start("kodcode", HF_HUB_OFFLINE="1") -> a new process that prints the problems, with the same cache."""

    def run(name, **env):
        code = f"import common, json; print(json.dumps(common.load_problems({name!r})))"
        ours = {"HF_HOME": tmp_path, "HF_ASSETS_CACHE": tmp_path / "assets", "HF_DATASETS_SERVER": server.url}
        command, env = [sys.executable, "-c", code], os.environ | ours | env
        return subprocess.Popen(command, cwd=ROOT, env=env, text=True, stdout=-1, stderr=-1)

    return run


def pages(server, what="/rows"):
    return [int(parse_qs(urlsplit(path).query)["offset"][0]) for path in server.log if re.match(what, path)]


# ----------------------------------------------------------------------------------------------------
# Every set by its name

NAMES = {
    "humaneval": (164, "HumanEval/0", {"check"}),
    "kodcode": (1000, None, {"pytest"}),
    "bigcodebench-hard": (148, "BigCodeBench/0", {"unittest"}),
    "math500": (500, "test/algebra/0.json", {None}),
    "aime": (60, "2024-I-1", {None}),
    "openthoughts": (1000, None, {None, "stdio", "check"}),
}


def test_the_names_a_person_can_use():
    assert set(common.DATASETS) == {*NAMES, "aime24", "aime25", "openthoughts-math", "openthoughts-code"}
    assert {part for parts in common.DATASETS.values() for part in parts} == set(common.SETS)


@pytest.mark.parametrize("name", NAMES)
def test_set_from_an_empty_cache_then_offline(name, server, load, start):
    size, first, styles = NAMES[name]
    problems = load(name)
    assert len(problems) == len({problem["id"] for problem in problems}) == size
    assert first is None or first in {problem["id"] for problem in problems}
    assert {problem.get("style") for problem in problems} == styles
    for problem in problems:
        assert problem["prompt"].strip() and problem["tests" if problem["kind"] == "code" else "answer"]
    server.log.clear()
    out, err = start(name, HF_HUB_OFFLINE="1").communicate()
    assert json.loads(out) == problems and server.log == [], err


def test_kodcode_pick_is_the_same_for_everybody_and_names_the_function(server, load, tmp_path, monkeypatch):
    problems = load("kodcode")
    rows = [int(problem["id"][8:16]) for problem in problems]
    assert all(row % 10 > 1 for row in rows)  # one tested function each
    assert rows[:3] == [802, 803, 804] and rows != sorted(rows)  # whole pages in a random order
    declared, name = problems[0]["declaration"], problems[0]["entry_point"]
    assert problems[0]["prompt"].endswith(f"```python\n{declared}\n```") and name in declared
    assert name not in problems[0]["prompt"].split("```")[0]
    server.log.clear()
    cached = partial(huggingface_hub.cached_assets_path, assets_dir=tmp_path / "other")
    monkeypatch.setattr(huggingface_hub, "cached_assets_path", cached)
    assert load("kodcode", limit=20) == problems[:20]
    assert pages(server) == [0, 800]  # how many there are, and the page with the twenty


def test_a_limit_stops_before_the_second_set(server, load, capsys):
    assert [problem["kind"] for problem in load("openthoughts", limit=3)] == ["math"] * 3
    assert not pages(server, "/filter.*code")
    years = [problem["id"][:4] for problem in load("aime", limit=31)]
    assert years == ["2024"] * 30 + ["2025"]
    assert "aime: aime24 and aime25 as one set" in capsys.readouterr().err


def test_openthoughts_keeps_what_can_be_judged(server, load):
    problems = load("openthoughts")
    answers = {problem["answer"] for problem in problems[:500]}
    assert all(re.fullmatch(r"-?\d+(\.\d+)?", answer) for answer in answers)
    assert "2.5" in answers and "99" not in answers  # the last box counts
    reads = next(problem for problem in problems[500:] if problem["style"] == "stdio")
    first = reads["tests"]["inputs"][0]
    assert reads["tests"] == {"inputs": [first, "1\n2"], "outputs": [first, "3"]}
    assert "standard input" in reads["prompt"]
    asked = pages(server, "/filter.*math")
    assert asked[0] == 0 and len(asked) < 15 and asked[1:] != sorted(asked[1:])  # random pages, not all


def test_the_judge_takes_what_the_sets_give(load, tmp_path):
    """Reference solutions pass and stubs fail, in each form of tests that a set has."""
    problems = [load(name, limit=6)[5] for name in ("humaneval", "kodcode", "bigcodebench-hard")]
    programs = {  # OpenThoughts' come without: to read and print, a function, a method
        None: "import sys\nprint(sum(map(int, sys.stdin.read().split())))",
        "add": "def add(a, b): return a + b",
        "Solution": "class Solution:\n    def add(self, a, b): return a + b",
    }  # fmt: skip
    thoughts = {problem.get("entry_point"): problem for problem in load("openthoughts-code")}
    problems += [thoughts[name] | {"solution": program} for name, program in programs.items()]
    common.write_jsonl(tmp_path / "all.jsonl", problems)
    command = [sys.executable, "02_label.py", tmp_path / "all.jsonl", "--self-check", "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    result = json.loads(done.stdout.splitlines()[-1])
    assert (result["solutions"], result["stubs"], result["failures"]) == (6, 6, 0), done.stdout + done.stderr


# ----------------------------------------------------------------------------------------------------
# Things that go wrong


def test_waits_as_the_server_asks_and_tries_again(server, load, monkeypatch):
    waits = []
    monkeypatch.setattr("time.sleep", waits.append)
    server.faults += [
        {"match": "offset=100", "do": lambda h: h.trouble(429, "TooManyRequests", "slow", Retry_After="20")},
        {"match": "offset=100", "do": lambda h: h.trouble(500, "ResponseNotReady", "not ready yet")},
        {"match": "offset=100", "do": lambda h: h.reply(503, {})},
        {"match": "offset=100", "do": lambda h: h.connection.shutdown(2)},
    ]
    assert len(load("humaneval")) == 164
    assert pages(server) == [0] + [100] * 5 and len(waits) == 4 and waits[0] >= 20


def test_gives_up_after_a_while_and_keeps_the_pages(server, load, capsys, monkeypatch):
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    not_yet = lambda h: h.trouble(500, "ResponseNotReady", "not yet")
    server.faults.append({"match": "offset=100", "times": 99, "do": not_yet})
    message = dies(capsys, load, "bigcodebench-hard")
    assert "https://huggingface.co/datasets/bigcode/bigcodebench-hard (" in message
    assert "500" in message and ".jsonl" in message
    server.faults.clear()
    server.log.clear()
    assert len(load("bigcodebench-hard")) == 148 and pages(server) == [100]


@pytest.mark.parametrize("status, error, says", [
    (401, "ExternalUnauthenticatedError", "its terms must be accepted on that page"),
    (403, "GatedRepo", "its terms must be accepted on that page"),
    (404, "ExternalAuthenticatedError", "its terms must be accepted on that page"),
    (422, "InvalidParameter", "422"),
])  # fmt: skip
def test_some_errors_are_final(status, error, says, server, load, capsys):
    server.faults.append({"match": "/rows", "times": 99, "do": lambda h: h.trouble(status, error, "no")})
    assert says in dies(capsys, load, "bigcodebench-hard") and len(pages(server)) == 1


@pytest.mark.parametrize("name, change, says", [
    ("bigcodebench-hard", {"indexed": 120}, "120 problems instead of 148"),  # an incomplete index
    ("kodcode", {"revision": "f" * 40}, "changed while it was being downloaded"),
])  # fmt: skip
def test_parts_of_a_set_are_not_the_set(name, change, says, server, load, capsys):
    where = "offset=300" if "revision" in change else "/rows"
    server.faults.append({"match": where, "do": lambda h: vars(h.server).update(change) or True})  # as usual
    assert says in dies(capsys, load, name)


def test_a_killed_download_goes_on_where_it_stopped(server, load, start):
    held = threading.Event()
    server.faults.append({"match": "offset=1100", "do": lambda h: not held.wait(20)})
    process = start("kodcode")
    while 1100 not in pages(server):
        assert process.poll() is None
        time.sleep(0.02)
    process.kill()
    process.communicate()
    held.set()
    before = pages(server)
    server.log.clear()
    assert len(load("kodcode")) == 1000
    after = pages(server)
    assert len(before) > 2 and {*before} & {*after} == {1100} and len({*before, *after}) == 13  # of 14


def test_offline_and_unknown_names_are_said_without_a_question(server, start, capsys):
    err = start("aime", HF_HUB_OFFLINE="1").communicate()[1]
    assert err.splitlines()[-1].startswith("error: ") and "HF_HUB_OFFLINE" in err and not server.log
    message = dies(capsys, common.load_problems, "aime26")
    assert "unknown data set 'aime26'" in message and "aime24, aime25" in message


@pytest.fixture
def silent():
    """A server that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        yield listener


@pytest.mark.parametrize("what", ["load_problems('aime24')", "load_config('Qwen/Qwen9')"])
@pytest.mark.parametrize("way", ["silent", "refuses"])
def test_a_hub_out_of_reach_is_asked_once_and_said_in_one_line(what, way, silent, tmp_path):
    """Seconds instead of minutes: counted in attempts, as a busy machine makes any time long."""
    address = f"http://127.0.0.1:{silent.getsockname()[1] if way == 'silent' else 9}"
    env = os.environ | {"HF_HOME": tmp_path, "HF_ENDPOINT": address, "HF_DATASETS_SERVER": address}
    command = [sys.executable, "-c", f"import common; common.{what}"]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    assert "cannot be reached" in done.stderr
    asked = []
    with suppress(BlockingIOError):
        while True:
            asked.append(silent.accept()[0].recv(99).decode().split()[1])
    assert asked.count("/api/") == (way == "silent") and not re.search("resolve|rows", str(asked)), asked


@pytest.mark.parametrize("name", ["demo/none/such", "./none", "/none", "none.pt", "a--b"])
def test_a_model_that_is_not_there_is_one_line(name, monkeypatch, capsys):
    monkeypatch.setattr(common, "unreachable", lambda server: "offline")
    assert "is no folder here" in dies(capsys, common.load_config, name)


# ----------------------------------------------------------------------------------------------------
# Files of one's own


@pytest.mark.parametrize("name", ["own.jsonl", "own.json"])
def test_own_file_in_its_minimal_form(name, tmp_path):
    rows = [
        {"prompt": "What is 1 + 1?", "answer": 2},
        {"prompt": "Write f.", "tests": "assert f(1) == 1", "entry_point": "f"},
        {"prompt": "Echo.", "tests": {"inputs": ["a"], "outputs": ["a"]}, "id": "echo"},
        {"prompt": "Write g.", "tests": ["assert g() == 1", "assert g(2) == 2"], "entry_point": "g"},
        {"prompt": "Write h.", "tests": "class T(unittest.TestCase): pass", "entry_point": "h"},
        {"prompt": "Write i.", "tests": "def test_i():\n    assert i()", "entry_point": "i"},
        {"prompt": "Write j.", "tests": "def check(candidate):\n    assert candidate()", "entry_point": "j"},
        {"prompt": "Tell a joke.", "kind": None, "answer": None, "solution": None},
        {"prompt": "What is 2 + 2?", "answer": "4", "tests": [], "entry_point": "", "id": ""},
        {"prompt": "Tell another.", "answer": "", "tests": ""},
    ]
    text = json.dumps(rows) if ".jsonl" not in name else "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / name).write_text("\ufeff" + text)  # as Windows begins a file
    problems = common.load_problems(tmp_path / name)
    assert [p["kind"] for p in problems] == ["math"] + ["code"] * 6 + ["text", "math", "text"]
    styles = ["assert", "stdio", "assert", "unittest", "pytest", "check"]
    assert [p.get("style") for p in problems] == [None, *styles, None, None, None]
    assert [p["id"] for p in problems] == ["0", "1", "echo", "3", "4", "5", "6", "7", "8", "9"]
    assert problems[0]["answer"] == "2" and problems[3]["tests"] == "assert g() == 1\nassert g(2) == 2"


ODD = [  # what else a row may hold beside a prompt, and what is said
    ('"kind": "maths"', "kind 'maths' is none of code, math, text"),
    ('"tests": {"inputs": ["1"], "outputs": []}', "problem 1: 'tests' must be"),
    ('"tests": {"inputs": [1], "outputs": ["1"]}', "problem 1: 'tests' must be"),
    ('"tests": "assert f()", "style": ["check"]', "style ['check'] is none of"),
    ('"tests": "assert f()", "style": "x"', "style 'x' is none of check, unittest, pytest, assert, stdio"),
    ('"tests": "assert f()", "prelude": ["import re"]', "the field 'prelude' must be text"),
    ('"tests": "assert f()", "solution": 7', "the field 'solution' must be text"),
    ('"answer": NaN', "a.jsonl:1: not JSON ("),
    pytest.param('"y": ' + "[" * 100_000, "a.jsonl:1: not JSON", id="100000 deep"),
]


@pytest.mark.parametrize("more, says", ODD)
def test_own_row_with_a_mistake(more, says, tmp_path, capsys):
    (tmp_path / "a.jsonl").write_text(f'{{"prompt": "x", {more}}}\n')
    assert says in dies(capsys, common.load_problems, tmp_path / "a.jsonl")


@pytest.mark.parametrize("name, text, says", [
    ("a.jsonl", '{"prompt": "x"}\n{"answer": "1"}\n', "a.jsonl:2: the field 'prompt or messages' is missing"),
    ("a.jsonl", '{"prompt": "x"}\nx\n', "a.jsonl:2: not JSON"),
    ("a.jsonl", "", "no problems"),
    ("a.jsonl", '{"prompt": "x", "id": 1}\n{"prompt": "x"}\n', "2 problems but only 1 different ids"),
    ("a.jsonl", '{"prompt": ["x"]}\n', "problem 1: the field 'prompt' must be text"),
    ("a.json", '{"problems": []}', "a.json:1: the field 'prompt or messages' is missing"),
    ("a.json", "[1]", "a.json:1: a JSON object is expected, not 1"),
    ("a.json", '[{"prompt": "x"}, {"prompt": "\\ud800"}]', "a.json:2: not JSON ('utf-8' codec can't encode"),
    ("a.json", '[{"prompt": "x", "answer": Infinity}]', "a.json:1: not JSON ("),
    pytest.param("a.json", f'[{{"prompt": "x", "answer": {"9" * 5000}}}]', "not JSON", id="5000 digits"),
    ("a.json", "[", "not JSON"),
])  # fmt: skip
def test_own_file_with_a_mistake(name, text, says, tmp_path, capsys):
    (tmp_path / name).write_text(text)
    assert says in dies(capsys, common.load_problems, tmp_path / name)
