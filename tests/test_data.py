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
from conftest import ROOT, dies, last_json, python

import common

# ---- Made-up rows


def humaneval_row(i):
    helper = "HALF = 0.5\n\n\ndef twice(x):\n    return x / HALF\n"
    prompt = f'{helper}\n\ndef add_{i}(x):\n    """ Add {i} to x. """\n'
    tests = f"METADATA = {{}}\n\n\ndef check(candidate):\n    assert candidate(2) == twice({i} / 2) + 2\n"
    return {"task_id": f"HumanEval/{i}", "prompt": prompt, "canonical_solution": f"    return x + {i}\n",
            "test": tests, "entry_point": f"add_{i}"}  # fmt: skip


def kodcode_row(i):
    name = f"times_{i}"
    info = [{"function_name": name, "parameter_list": "(x)", "function_declaration": f"def {name}(x):"}]
    return {"question_id": f"Prefill_{i:08d}_I", "question": f"Write a function that multiplies by {i}.",
            "solution": f"def {name}(x):\n    return x * {i}",
            "test_info": {0: None, 1: info + info}.get(i % 10, info),
            "test": f"from solution import {name}\n\ndef test_times():\n    assert {name}(3) == {3 * i}\n"}


def openthoughts_row(i):
    row = {"problem": f"Problem {i}?", "domain": "code" if i % 2 else "math", "ground_truth_solution": None,
           "test_cases": None, "starter_code": "class Solution:\n    def add(" if i % 9 == 0 else None}
    box = {0: "x + 1", 2: "\\frac{1}{2}", 4: "2.5"}.get(i % 10, str(i))
    if row["domain"] == "math" and i % 8:
        return row | {"ground_truth_solution": f"First \\boxed{{99}}, so the answer is $\\boxed{{{box}}}$."}
    cases = {"inputs": [f"{i}\n", ["1", "2"]], "outputs": [f"{i}\n", [3]]}
    if i % 3 == 0:
        cases = {"fn_name": "add", "inputs": [[1, i]], "outputs": [[1 + i]]}
    cases = {7: {}, 11: {"inputs": ["1"], "outputs": None}}.get(i % 13, cases)
    return row | {"test_cases": json.dumps(cases)}


def bigcodebench_row(i):
    test = f"    def test_one(self):\n        self.assertEqual(task_func(.5), {i + 1})\n"
    prompt = f'import math\n\ndef task_func(x):\n    """Add {i}."""\n'
    return {"task_id": f"BigCodeBench/{i}", "complete_prompt": prompt, "entry_point": "task_func",
            "canonical_solution": f"    return math.ceil(x) + {i}\n", "code_prompt": "import math\n",
            "test": f"import unittest\n\nclass TestCases(unittest.TestCase):\n{test}"}  # fmt: skip


SERVED = {  # (repo, config, split) -> what makes a row, how many
    ("openai/openai_humaneval", "openai_humaneval", "test"): (humaneval_row, 164),
    ("KodCode/KodCode-Light-RL-10K", "default", "train"): (kodcode_row, 1350),
    ("open-thoughts/OpenThoughts-114k", "metadata", "train"): (openthoughts_row, 3000),
    ("bigcode/bigcodebench-hard", "default", "v0.1.4"): (bigcodebench_row, 148),
    ("HuggingFaceH4/MATH-500", "default", "test"): (
        lambda i: {"problem": f"{i}?", "answer": f"{i}/2", "unique_id": f"algebra/{i}.json"}, 500),
    ("Maxwell-Jia/AIME_2024", "default", "train"): (
        lambda i: {"ID": f"2024-I-{i + 1}", "Problem": f"Find {i}.", "Answer": i}, 30),
    ("MathArena/aime_2025", "default", "train"): (
        lambda i: {"problem_idx": i + 1, "problem": f"Find {i} again.", "answer": i}, 30),
}  # fmt: skip

# ---- The server


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    log_message = lambda self, *args: None

    def do_HEAD(self):  # a sign of life
        self.reply(404)

    def do_GET(self):
        self.server.log.append(self.path)
        for place, (match, fault) in enumerate(self.server.faults):
            if re.search(match, self.path):
                del self.server.faults[place]
                if not fault(self):
                    return
                break
        url = urlsplit(self.path)
        query = {key: value[0] for key, value in parse_qs(url.query).items()}
        offset, length = int(query["offset"]), int(query["length"])
        if length > 100:
            return self.reply(422, {"error": "Parameter 'length' must not be greater than 100"})
        make_row, size = SERVED[query["dataset"], query["config"], query["split"]]
        rows = [(n, make_row(n)) for n in range(size)]
        if url.path == "/filter":
            column, value = re.fullmatch(r"\"(\w+)\"='(\w+)'", query["where"]).groups()
            rows = [(n, row) for n, row in rows if row[column] == value]
        rows = rows[: self.server.indexed]
        page, total = rows[offset : offset + length], len(rows)
        page = [{"row_idx": n, "row": row, "truncated_cells": self.server.cut} for n, row in page]
        self.reply(200, {"features": [], "rows": page, "num_rows_total": total})

    def reply(self, status, body=None, **headers):
        body = json.dumps(body or {}).encode()
        headers |= {"X-Revision": self.server.revision, "Content-Length": str(len(body))}
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


@pytest.fixture
def server():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.url = f"http://127.0.0.1:{server.server_port}"
    server.log, server.faults, server.indexed, server.revision, server.cut = [], [], None, "0" * 40, []
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def load(server, tmp_path, monkeypatch):
    """load("kodcode") -> problems, from an empty cache of the test's own, which later loads share."""
    folder = partial(huggingface_hub.cached_assets_path, assets_dir=tmp_path / "assets")
    monkeypatch.setattr(huggingface_hub, "cached_assets_path", folder)
    monkeypatch.setattr(common, "ROWS_SERVER", server.url)
    return common.load_problems


@pytest.fixture
def start(server, tmp_path):
    """start("kodcode", HF_HUB_OFFLINE="1") -> a new process that prints the problems, with the same cache."""

    def run(name, **env):
        code = f"import common, json; common.entry(lambda: print(json.dumps(common.load_problems({name!r}))), '')"
        ours = {"HF_HOME": tmp_path, "HF_ASSETS_CACHE": tmp_path / "assets", "HF_DATASETS_SERVER": server.url}
        command, env = [sys.executable, "-c", code], os.environ | ours | env
        return subprocess.Popen(command, cwd=ROOT, env=env, text=True, stdout=-1, stderr=-1)

    return run


def pages(server, what="/rows"):
    return [int(parse_qs(urlsplit(path).query)["offset"][0]) for path in server.log if re.match(what, path)]


# ---- Every set by its name

NAMES = {
    "humaneval": (164, "HumanEval/0", {"check"}),
    "kodcode": (1000, None, {"pytest"}),
    "bigcodebench-hard": (148, "BigCodeBench/0", {"unittest"}),
    "math500": (500, "algebra/0.json", {None}),
    "aime": (60, "2024-I-1", {None}),
    "openthoughts": (1000, None, {None, "stdio", "check"}),
}


@pytest.mark.parametrize("name", NAMES)
def test_set_from_an_empty_cache_then_offline(name, server, load, start):
    assert {*common.DATA_SETS, *common.COMBINED} == {*NAMES, *common.DATA_SETS}
    size, first, styles = NAMES[name]
    problems = load(name)
    assert len(problems) == len({problem["id"] for problem in problems}) == size
    assert first in (None, problems[0]["id"])
    assert {problem.get("beside") for problem in problems} == {True if name == "bigcodebench-hard" else None}
    assert {problem.get("style") for problem in problems} == styles
    for problem in problems:
        assert problem["prompt"].strip() and problem["tests" if problem["kind"] == "code" else "answer"]
    server.log.clear()
    out, err = start(name, HF_HUB_OFFLINE="1").communicate()
    assert json.loads(out) == problems and server.log == [], err


def test_kodcode_pick_is_the_same_for_everybody_and_names_the_function(server, load, tmp_path):
    problems = load("kodcode")
    rows = [int(problem["id"][8:16]) for problem in problems]
    assert all(row % 10 > 1 for row in rows)  # one tested function each
    assert rows[:3] == [802, 803, 804] and rows != sorted(rows)  # whole pages in a random order
    question, declared = problems[0]["prompt"].split("\n\nDeclare the function so:\n\n")
    assert declared == "```python\ndef times_802(x):\n```" and "times_802" not in question
    server.log.clear()
    for path in (tmp_path / "assets").rglob("*.json"):
        path.unlink()
    assert load("kodcode", limit=20) == problems[:20]
    assert pages(server) == [0, 800]  # how many there are, and the page with the twenty


def test_a_limit_stops_before_the_second_set(server, load, capsys):
    assert [problem["kind"] for problem in load("openthoughts", limit=3)] == ["math"] * 3
    assert not pages(server, "/filter.*code")
    years = [problem["id"][:4] for problem in load("aime", limit=31)]
    assert years == ["2024"] * 30 + ["2025"]
    assert "aime: aime24 and aime25 together" in capsys.readouterr().err


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


def test_the_judge_takes_what_the_sets_give(load, tmp_path, run_here):
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
    result = last_json(run_here("02_label.py", tmp_path / "all.jsonl", "--self-check", "--json"))
    assert (result["solutions"], result["stubs"], result["failures"]) == (6, 6, 0)


# ---- Things that go wrong


def test_waits_as_the_server_asks_tries_again_gives_up_and_keeps_the_pages(server, load, capsys, monkeypatch):
    waits = []
    monkeypatch.setattr("time.sleep", waits.append)
    faults = [lambda h: h.reply(429, Retry_After="20"), lambda h: h.reply(500), lambda h: h.reply(503),
              lambda h: h.connection.shutdown(2)]  # fmt: skip
    server.faults += [("offset=100", fault) for fault in faults]
    assert len(load("humaneval")) == 164
    assert pages(server) == [0] + [100] * 5 and len(waits) == 4 and waits[0] >= 20
    server.faults += [("offset=100", faults[1])] * 99
    message = dies(capsys, load, "bigcodebench-hard")
    assert "https://huggingface.co/datasets/bigcode/bigcodebench-hard (" in message
    assert "500" in message and ".jsonl" in message
    server.faults.clear()
    server.log.clear()
    assert len(load("bigcodebench-hard")) == 148 and pages(server) == [100]


@pytest.mark.parametrize("name, page, fault, says", [
    *[("bigcodebench-hard", 0, status, "terms must be accepted on that page") for status in (401, 403, 404)],
    ("bigcodebench-hard", 0, 422, "422"),
    ("bigcodebench-hard", 0, {"indexed": 120}, "120 problems instead of 148"),  # an incomplete index
    ("bigcodebench-hard", 0, {"cut": ["prompt"]}, "cut texts short"),
    ("kodcode", 300, {"revision": "f" * 40}, "changed while it was downloaded"),
])  # fmt: skip
def test_errors_that_end_a_download(name, page, fault, says, server, load, capsys):
    """A status, or a change of the server, which answers all the same."""
    answer = lambda h: h.reply(fault) if type(fault) is int else vars(h.server).update(fault) or True
    server.faults.append((f"offset={page}&", answer))
    assert says in dies(capsys, load, name)
    assert len(pages(server)) == 1 or type(fault) is dict


def test_a_killed_download_goes_on_where_it_stopped(server, load, start):
    held = threading.Event()
    server.faults.append(("offset=1100", lambda h: not held.wait(20)))
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


@pytest.mark.parametrize("what", ["load_problems('aime24')", "load_config('Qwen/Qwen9')"])
@pytest.mark.parametrize("way", ["silent", "refuses"])
def test_a_hub_out_of_reach_is_asked_once_and_said_in_one_line(what, way, tmp_path):
    """Seconds instead of minutes: counted in attempts, as a busy machine makes any time long."""
    with socket.create_server(("127.0.0.1", 0)) as silent, suppress(BlockingIOError):
        address = f"http://127.0.0.1:{silent.getsockname()[1] if way == 'silent' else 9}"
        env = os.environ | {"HF_HOME": str(tmp_path), "HF_ENDPOINT": address, "HF_DATASETS_SERVER": address}
        done = python(f"import common; common.entry(lambda: common.{what}, '')", env=env)
        asked = []
        silent.setblocking(False)
        while True:
            asked.append(silent.accept()[0].recv(99).decode().split()[1])
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    assert "cannot be reached" in done.stderr
    assert asked.count("/api/") == (way == "silent") and not re.search("resolve|rows", str(asked)), asked


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
    assert [(p["kind"], p.get("style"), p["id"]) for p in problems] == [tuple(facts) for _, *facts in OWN]
    assert problems[0]["answer"] == "2" and problems[3]["tests"] == "assert g() == 1\nassert g(2) == 2"
    assert problems[9]["prompt"] == "1+1" and problems[9]["messages"][1] == {"role": "user", "content": "1+1"}


MORE = {  # of a line that begins {"prompt": "x", the rest; what is said
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
    '{"question": "x", "answer": 1}': "own:1: the field 'prompt or messages' is missing; there are question, ans",
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
