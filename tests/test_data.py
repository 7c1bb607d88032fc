"""Data sets by name from a local server that speaks the Hub's and the dataset server's formats, files of one's own, prompts.

Each load is a new process with an empty Hub cache, as on a new machine. The rows are made up, in the sets' true fields.
"""

import gzip
import hashlib
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

import common

ROOT = Path(__file__).resolve().parents[1]
COMMIT = "0123456789abcdef0123456789abcdef01234567"

# ---------------------------------------------------------------------------------------------------------------------
# Made-up rows


def humaneval_row(i):
    prompt = f'HALF = 0.5\n\n\ndef twice(x):\n    return x / HALF\n\n\ndef add_{i}(x):\n    """ Add {i} to x. """\n'
    tests = f"\n\nMETADATA = {{'author': 'x'}}\n\n\ndef check(candidate):\n    assert candidate(2) == twice({i} / 2) + 2\n"
    return {"task_id": f"HumanEval/{i}", "prompt": prompt, "canonical_solution": f"    return x + {i}\n", "test": tests,
            "entry_point": f"add_{i}"}


def humanevalpack_row(i):
    row = humaneval_row(i)
    return row | {"task_id": f"Python/{i}", "docstring": "...", "declaration": row["prompt"], "buggy_solution": "    return x\n", "bug_type": "x"}


def kodcode_row(i):
    info = [{"function_name": f"times_{i}", "parameter_list": "(x)", "function_declaration": f"def times_{i}(x):", "docstring": None}]
    return {"version": "v1.0", "style": "instruct", "subset": "Prefill", "question_id": f"Prefill_{i:08d}_I",
            "question": f"Write a function that multiplies a number by {i}.", "solution": f"def times_{i}(x):\n    return x * {i}",
            "test": f"from solution import times_{i}\n\ndef test_times():\n    assert times_{i}(3) == {3 * i}\n",
            "test_info": {0: None, 1: info + info}.get(i % 10, info), "gpt_difficulty": "easy", "gpt_pass_percentage": 1.0}


def openthoughts_row(i):
    row = {"problem": f"Problem {i}?", "deepseek_reasoning": "...", "deepseek_solution": "...", "source": "made_up",
           "domain": "code" if i % 2 else "math", "ground_truth_solution": None, "test_cases": None, "starter_code": None}
    if row["domain"] == "math" and i % 8:
        box = {0: "x + 1", 2: "\\frac{1}{2}", 4: "2.5"}.get(i % 10, str(i))
        return row | {"ground_truth_solution": f"First \\boxed{{99}}, so the answer is $\\boxed{{{box}}}$."}
    if row["domain"] == "math" or i % 11 == 0:
        return row | {"test_cases": json.dumps({"inputs": ["1"], "outputs": None})}
    if i % 3 == 0:
        cases, starter = {"fn_name": "add", "inputs": [[1, i]], "outputs": [[1 + i]]}, None
        if i % 9 == 0:
            starter = "class Solution:\n    def add(self, a: int, b: int) -> int:\n        "
        return row | {"test_cases": json.dumps(cases), "starter_code": starter}
    return row | {"test_cases": json.dumps({"inputs": [f"{i}\n", ["1", "2"]], "outputs": [f"{i}\n", [3]]} if i % 7 else {})}


def bigcodebench_row(i):
    prompt = f'import math\n\ndef task_func(x):\n    """Round x up and add {i}."""\n'
    tests = f"import unittest\n\nclass TestCases(unittest.TestCase):\n    def test_one(self):\n        self.assertEqual(task_func(.5), {i + 1})\n"
    return {"task_id": f"BigCodeBench/{i}", "complete_prompt": prompt, "instruct_prompt": "...", "code_prompt": "import math\ndef task_func(x):\n",
            "canonical_solution": f"    return math.ceil(x) + {i}\n", "test": tests, "entry_point": "task_func", "doc_struct": "{}",
            "libs": "['math']", "q_idx": i, "question": "...", "score": 0.5, "_id": f"bcb{i}"}


def math500_row(i):
    return {"problem": f"What is {i}/2?", "solution": f"\\boxed{{\\frac{{{i}}}{{2}}}}", "answer": f"\\frac{{{i}}}{{2}}", "subject": "Algebra",
            "level": 1, "unique_id": f"test/algebra/{i}.json"}


def aime_maxwell_row(i):
    return {"ID": f"2024-{'I' * (1 + i // 15)}-{i % 15 + 1}", "Problem": f"Find {i}.", "Solution": "...", "Answer": i}


def aime_h4_row(i):
    url = f"https://example.org/index.php/2024_AIME_{'I' * (1 + i // 15)}_Problems/Problem_{i % 15 + 1}"
    return {"id": 60 + i, "problem": f"Find {i}.", "solution": "...", "answer": f"{i:03d}", "url": url, "year": "2024"}


def aime_zhuzilin_row(i):
    return {"prompt": [{"role": "user", "content": f"Find {i}."}], "label": str(i)}


def aime25_row(i):
    return {"question": f"Find {i} again.", "answer": f"{i}^\\circ" if i == 7 else str(i)}


def matharena_row(i):
    return {"problem_idx": i + 1, "problem": f"Find {i} again.", "answer": i, "problem_type": ["Algebra"]}


SERVED = {  # what the dataset server holds: (repo, config, split) -> rows
    ("openai/openai_humaneval", "openai_humaneval", "test"): [humaneval_row(i) for i in range(164)],
    ("KodCode/KodCode-Light-RL-10K", "default", "train"): [kodcode_row(i) for i in range(1350)],
    ("open-thoughts/OpenThoughts-114k", "metadata", "train"): [openthoughts_row(i) for i in range(3000)],
    ("bigcode/bigcodebench-hard", "default", "v0.1.4"): [bigcodebench_row(i) for i in range(148)],
    ("HuggingFaceH4/MATH-500", "default", "test"): [math500_row(i) for i in range(500)],
    ("Maxwell-Jia/AIME_2024", "default", "train"): [aime_maxwell_row(i) for i in range(30)],
    ("HuggingFaceH4/aime_2024", "default", "train"): [aime_h4_row(i) for i in range(30)],
    ("MathArena/aime_2025", "default", "train"): [matharena_row(i) for i in range(30)],
}


def as_jsonl(rows):
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


FILES = {  # what the Hub holds as plain files
    ("bigcode/humanevalpack", "data/python/data/humanevalpack.jsonl"): as_jsonl(humanevalpack_row(i) for i in range(164)),
    ("HuggingFaceH4/MATH-500", "test.jsonl"): as_jsonl(math500_row(i) for i in range(500)),
    ("zhuzilin/aime-2024", "aime-2024.jsonl"): as_jsonl(aime_zhuzilin_row(i) for i in range(30)),
    ("opencompass/AIME2025", "aime2025-I.jsonl"): as_jsonl(aime25_row(i) for i in range(15)),
    ("opencompass/AIME2025", "aime2025-II.jsonl"): as_jsonl(aime25_row(i) for i in range(15, 30)),
}

# ---------------------------------------------------------------------------------------------------------------------
# The server


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        if self.path.startswith("/api/") and "/resolve-cache/" not in self.path:
            return self.reply(404, {})  # huggingface_hub asks for more than files; a server may not know of it
        self.server.log.append((self.command, self.path))
        for fault in list(self.server.faults):
            if re.search(fault["match"], self.path) and fault.get("method", self.command) == self.command:
                fault["times"] = fault.get("times", 1) - 1
                if fault["times"] <= 0:
                    self.server.faults.remove(fault)
                if not fault["do"](self):
                    return
        url = urlsplit(self.path)
        if url.path in ("/rows", "/filter"):
            return self.rows(url.path, {key: value[0] for key, value in parse_qs(url.query).items()})
        found = re.fullmatch(r"/(?:api/resolve-cache/|cdn/)?datasets/([^/]+/[^/]+)/(?:resolve/)?[^/]+/(.+)", url.path)
        self.file(*found.groups())

    def file(self, repo, name):
        data = FILES.get((repo, name))
        commit = {"X-Repo-Commit": COMMIT}
        if repo not in {known for known, _ in FILES}:
            return self.reply(401, {"X-Error-Code": "RepoNotFound", "X-Error-Message": "Invalid username or password."})
        if data is None:
            return self.reply(404, commit | {"X-Error-Code": "EntryNotFound", "X-Error-Message": "Entry not found"})
        tag = hashlib.sha1(data).hexdigest()
        if self.path.startswith("/datasets/") and repo == "opencompass/AIME2025":  # a file in git: a redirect on the same host
            return self.reply(307, commit | {"ETag": f'"{tag}"', "Location": f"/api/resolve-cache/datasets/{repo}/{COMMIT}/{name}"})
        if self.path.startswith("/datasets/"):  # a large file: its tag and size here, its bytes at a signed address
            large = {"X-Linked-ETag": f'"{tag}"', "X-Linked-Size": str(len(data))}
            return self.reply(302, commit | large | {"Location": f"{self.server.url}/cdn/datasets/{repo}/{COMMIT}/{name}"})
        self.reply(200, commit | {"ETag": f'"{tag}"'}, data)

    def rows(self, way, query):
        rows = SERVED.get((query["dataset"], query["config"], query["split"]))
        offset, length = int(query.get("offset", 0)), int(query.get("length", 100))
        if length > 100:
            return self.trouble(422, "InvalidParameter", "Parameter 'length' must not be greater than 100")
        if rows is None:
            return self.trouble(404, "ResponseNotFound", "The dataset does not exist, or is not accessible without authentication.")
        rows = list(enumerate(rows))
        if way == "/filter":
            column, value = re.fullmatch(r"\"(\w+)\"='(\w+)'", query["where"]).groups()
            rows = [(n, row) for n, row in rows if row[column] == value]
        rows = rows[: self.server.indexed]
        page = [{"row_idx": n, "row": row, "truncated_cells": []} for n, row in rows[offset : offset + length]]
        body = {"features": [], "rows": page, "num_rows_total": len(rows), "num_rows_per_page": 100,
                "partial": self.server.indexed is not None}
        self.reply(200, {"X-Revision": self.server.revision, "Content-Type": "application/json"}, json.dumps(body).encode())

    def trouble(self, status, code, message, **headers):
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        self.reply(status, {"X-Error-Code": code, "Content-Type": "application/json"} | headers, json.dumps({"error": message}).encode())

    def reply(self, status, headers, body=b""):
        self.send_response(status)
        for name, value in ({"Content-Length": str(len(body))} | headers).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


@pytest.fixture
def server():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.url = f"http://127.0.0.1:{server.server_port}"
    server.log, server.faults, server.indexed, server.revision = [], [], None, COMMIT
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def load(server, tmp_path):
    """load("kodcode") -> (exit code, problems, stderr) of a new process with the test's own Hub cache."""

    def run(name, limit=None, wait=True, **env):
        code = f"import common, json; print(json.dumps(common.load_problems({name!r}, {limit})))"
        env = {key: value for key, value in os.environ.items() if not key.startswith(("HF_", "HUGGING"))} | env
        env |= {"HF_HOME": str(tmp_path / "hf"), "HF_ENDPOINT": server.url, "HF_DATASETS_SERVER": server.url}
        process = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, env=env, text=True, stdout=-1, stderr=-1)
        if not wait:
            return process
        out, err = process.communicate(timeout=60)
        assert "Traceback" not in err, err
        return process.returncode, json.loads(out) if out else None, err

    return run


def pages(server, what="/rows"):
    return [int(parse_qs(urlsplit(path).query)["offset"][0]) for _, path in server.log if re.match(what, path)]


def last_line(err):
    return err.strip().splitlines()[-1]


# ---------------------------------------------------------------------------------------------------------------------
# Every set by its name

NAMES = {
    "humaneval": (164, "HumanEval/0", "check"),
    "kodcode": (1000, None, "pytest"),
    "bigcodebench-hard": (148, "BigCodeBench/0", "unittest"),
    "math500": (500, "test/algebra/0.json", None),
    "aime24": (30, "2024-I-1", None),
    "aime25": (30, "2025-1", None),
    "aime": (60, "2024-I-1", None),
    "openthoughts": (1000, None, None),
}


def test_the_names_a_person_can_use():
    assert set(NAMES) <= set(common.DATASETS)
    assert {part for parts in common.DATASETS.values() for part in parts} == set(common.SETS)


@pytest.mark.parametrize("name", NAMES)
def test_set_from_an_empty_cache_then_offline(name, server, load):
    size, first, style = NAMES[name]
    code, problems, err = load(name)
    assert code == 0, err
    assert len(problems) == len({problem["id"] for problem in problems}) == size
    assert first is None or problems[0]["id"] == first
    for problem in problems:
        assert problem["prompt"].strip() and problem["kind"] in ("code", "math")
        assert problem["kind"] == "code" or isinstance(problem["answer"], str)
        assert problem["kind"] == "math" or problem["tests"]
        assert style is None or problem["style"] == style
    server.log.clear()
    code, again, err = load(name, HF_HUB_OFFLINE="1")
    assert code == 0, err
    assert again == problems and server.log == []


def test_humaneval_row_has_all_that_judging_needs(load):
    problem = load("humaneval")[1][5]
    row = humaneval_row(5)
    assert problem["prelude"] == row["prompt"] and problem["entry_point"] == "add_5"
    space = {}
    exec(problem["prelude"] + problem["tests"], space)  # our own rows
    exec(problem["solution"], space)
    exec("check(add_5)", space)


def test_kodcode_pick_is_the_same_for_everybody_and_names_the_function(server, load, tmp_path):
    problems = load("kodcode")[1]
    ids = [problem["id"] for problem in problems]
    assert all(int(name[8:16]) % 10 > 1 for name in ids)  # one tested function each
    assert problems[0]["prompt"].endswith(f"```python\n{problems[0]['declaration']}\n```")
    assert problems[0]["entry_point"] in problems[0]["declaration"] and problems[0]["entry_point"] not in problems[0]["prompt"].split("```")[0]
    rows = [int(name[8:16]) for name in ids]
    assert rows != sorted(rows) and rows[0] > 100  # whole pages in a random order
    again = load("kodcode", HF_ASSETS_CACHE=str(tmp_path / "other"))[1]
    assert [problem["id"] for problem in again] == ids
    server.log.clear()
    first = load("kodcode", limit=20, HF_ASSETS_CACHE=str(tmp_path / "third"))[1]
    assert [problem["id"] for problem in first] == ids[:20]
    assert pages(server) == [0, rows[0] // 100 * 100]  # how many there are, and the page with the twenty


def test_a_limit_stops_before_the_second_set(server, load):
    assert [problem["kind"] for problem in load("openthoughts", limit=3)[1]] == ["math"] * 3
    assert not pages(server, "/filter.*code")
    code, problems, err = load("aime", limit=31)
    assert [problem["id"][:4] for problem in problems] == ["2024"] * 30 + ["2025"] and "aime: aime24 and aime25 as one set" in err


@pytest.mark.parametrize("name, blocked", [
    ("aime24", "Maxwell"),
    ("aime24", "Maxwell|HuggingFaceH4"),
    ("aime25", "opencompass"),
])
def test_aime_is_the_same_from_each_source(name, blocked, server, load, tmp_path):
    first = load(name)[1]
    server.faults.append({"match": blocked, "times": 99, "do": lambda h: h.reply(404, {"X-Error-Code": "RepoNotFound"})})
    code, other, err = load(name, HF_HUB_CACHE=str(tmp_path / "hub"), HF_ASSETS_CACHE=str(tmp_path / "assets"))
    assert code == 0 and not re.search(blocked, last_line(err)), err
    assert [(p["prompt"], p["answer"]) for p in other] == [(p["prompt"], p["answer"]) for p in first]
    assert first[7]["answer"] == "7"
    if "|" not in blocked:  # the third source of 2024 has no names
        assert [p["id"] for p in other] == [p["id"] for p in first]


def test_openthoughts_keeps_what_can_be_judged(server, load):
    problems = load("openthoughts")[1]
    maths, code = problems[:500], problems[500:]
    assert {p["kind"] for p in maths} == {"math"} and {p["kind"] for p in code} == {"code"}
    assert all(re.fullmatch(r"-?\d+(\.\d+)?", p["answer"]) for p in maths) and "2.5" in {p["answer"] for p in maths}
    assert "99" not in {p["answer"] for p in maths}  # the last box counts
    assert {p["style"] for p in code} == {"stdio", "check"}
    stdio = next(p for p in code if p["style"] == "stdio")
    assert stdio["tests"]["inputs"][1] == "1\n2" and stdio["tests"]["outputs"][1] == "3" and "standard input" in stdio["prompt"]
    solutions = {"add": "def add(a, b):\n    return a + b\n", "Solution": "class Solution:\n    def add(self, a, b):\n        return a + b\n"}
    called = {p["entry_point"]: p for p in code if p["style"] == "check"}
    assert set(called) == set(solutions)
    for name, problem in called.items():
        exec(solutions[name] + problem["tests"] + f"\ncheck({name})", {})
        with pytest.raises(AssertionError):
            exec(solutions[name].replace("+", "-") + problem["tests"] + f"\ncheck({name})", {})
    asked = pages(server, "/filter.*math")
    assert asked[0] == 0 and len(asked) < 15 and asked[1:] != sorted(asked[1:])  # random pages, and not all of them


def test_the_judge_takes_what_the_sets_give(load, tmp_path):
    """Reference solutions pass and stubs fail, in each form of tests that a set has."""
    solutions = {"add": "def add(a, b):\n    return a + b", "Solution": "class Solution:\n    def add(self, a, b):\n        return a + b"}
    problems = [load(name)[1][5] for name in ("humaneval", "kodcode", "bigcodebench-hard")]
    for problem in load("openthoughts-code")[1][:9]:  # these come without reference solutions
        program = "import sys\nprint(sum(map(int, sys.stdin.read().split())))" if problem["style"] == "stdio" else solutions[problem["entry_point"]]
        problems.append(problem | {"solution": program})
    assert {(p["style"], p.get("entry_point") in solutions) for p in problems} == {
        ("check", False), ("pytest", False), ("unittest", False), ("stdio", False), ("check", True)}  # fmt: skip
    common.write_jsonl(tmp_path / "all.jsonl", problems)
    done = subprocess.run([sys.executable, "02_label.py", tmp_path / "all.jsonl", "--self-check", "--json"], cwd=ROOT, capture_output=True, text=True)
    result = json.loads(done.stdout.splitlines()[-1])
    assert (done.returncode, result["solutions"], result["stubs"], result["failures"]) == (0, 12, 12, 0), done.stdout + done.stderr


# ---------------------------------------------------------------------------------------------------------------------
# Things that go wrong


def test_waits_as_the_server_asks_and_tries_again(server, load):
    server.faults += [
        {"match": "offset=100", "do": lambda h: h.trouble(429, "TooManyRequests", "slow down", Retry_After="2")},
        {"match": "offset=100", "do": lambda h: h.trouble(500, "ResponseNotReady", "not ready yet", Retry_After="0")},
        {"match": "offset=100", "do": lambda h: h.reply(503, {"Retry-After": "0"})},
    ]
    start = time.monotonic()
    code, problems, err = load("humaneval")
    assert code == 0 and len(problems) == 164, err
    assert time.monotonic() - start > 2 and "429 TooManyRequests; trying again in 2 s" in err
    assert pages(server) == [0] + [100] * 4


def test_gives_up_after_a_while_and_says_that_pages_are_kept(server, load):
    server.faults.append({"match": "offset=100", "times": 99, "do": lambda h: h.trouble(500, "ResponseNotReady", "not yet", Retry_After="0")})
    code, _, err = load("bigcodebench-hard")
    assert code == 2 and "ResponseNotReady after 6 attempts" in last_line(err) and "kept" in last_line(err)
    server.faults.clear()
    server.log.clear()
    assert load("bigcodebench-hard")[0] == 0 and pages(server) == [100]


@pytest.mark.parametrize("status, error, says", [
    (401, "ExternalUnauthenticatedError", "accept its terms on that page"),
    (404, "ExternalAuthenticatedError", "accept its terms on that page"),
    (422, "InvalidParameter", "422"),
    (500, "TooBigContentError", "TooBigContentError"),
])
def test_some_errors_are_final(status, error, says, server, load):
    server.faults.append({"match": "/rows", "times": 99, "do": lambda h: h.trouble(status, error, "no")})
    code, _, err = load("bigcodebench-hard")
    assert code == 2 and len(pages(server)) == 1
    line = last_line(err)
    assert line.startswith("error: ") and says in line
    assert "https://huggingface.co/datasets/bigcode/bigcodebench-hard" in line and ".jsonl" in line


def test_an_incomplete_index_is_not_taken_for_the_set(server, load):
    server.indexed = 120
    code, problems, err = load("humaneval")
    assert code == 0 and len(problems) == 164 and "bigcode/humanevalpack" in err  # the next source has them all
    assert problems[7]["id"] == "HumanEval/7" and problems[7]["solution"] == problems[7]["prompt"] + "    return x + 7\n"
    code, _, err = load("bigcodebench-hard")
    assert code == 2 and "120 problems instead of 148" in last_line(err)


def test_a_set_that_changes_during_the_download_is_not_mixed(server, load):
    def change(handler):
        handler.server.revision = "f" * 40
        return True  # and answer as usual

    server.faults.append({"match": "offset=300", "do": change})
    code, _, err = load("kodcode")
    assert code == 2 and "changed while it was being downloaded" in last_line(err)


def test_a_killed_download_goes_on_where_it_stopped(server, load):
    held = threading.Event()
    server.faults.append({"match": "offset=1100", "do": lambda h: not held.wait(20)})
    process = load("kodcode", wait=False)
    while 1100 not in pages(server):
        assert process.poll() is None
        time.sleep(0.02)
    process.kill()
    process.communicate()
    held.set()
    before = pages(server)
    server.log.clear()
    code, problems, err = load("kodcode")
    assert code == 0, err
    assert len(before) > 2 and set(before) & set(pages(server)) == {1100} and len({*before, *pages(server)}) == 13  # of 14


def test_a_file_cut_off_is_fetched_again(server, load):
    data = FILES[("HuggingFaceH4/MATH-500", "test.jsonl")]

    def cut(handler):
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data[:20_000])
        handler.wfile.flush()
        handler.connection.shutdown(2)

    server.faults.append({"match": "/cdn/", "method": "GET", "do": cut})
    code, problems, err = load("math500")
    assert code == 0 and len(problems) == 500, err
    assert len([path for way, path in server.log if way == "GET" and "/cdn/" in path]) == 2
    assert pages(server) == []  # no need of another source


def test_hub_files_gated_missing_or_out_of_reach(server, load):
    gated = {"X-Error-Code": "GatedRepo", "X-Error-Message": "Access to dataset opencompass/AIME2025 is restricted."}
    server.faults += [
        {"match": "opencompass", "times": 99, "do": lambda h: h.reply(403, gated)},
        {"match": "MathArena", "times": 99, "do": lambda h: h.trouble(404, "ResponseNotFound", "no")},
    ]
    code, _, err = load("aime25")
    line = last_line(err)
    assert code == 2 and "opencompass/AIME2025 (its terms must be accepted on that page" in line
    assert "MathArena/aime_2025 (404 ResponseNotFound" in line
    server.log.clear()
    code, _, err = load("aime", HF_HUB_OFFLINE="1")
    assert code == 2 and "HF_HUB_OFFLINE" in last_line(err) and server.log == []
    code, _, err = load("aime26")
    assert code == 2 and "unknown data set 'aime26'" in err and "aime24, aime25" in err


@pytest.fixture
def silent():
    """A server that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        yield listener


@pytest.mark.parametrize("what", ["load_problems('aime24')", "load_problems('humaneval')", "load_config('Qwen/Qwen9')"])
@pytest.mark.parametrize("way", ["silent", "refuses"])
def test_a_hub_out_of_reach_is_asked_once_and_said_in_one_line(what, way, silent, tmp_path):
    """Seconds instead of minutes: counted in attempts, as a busy machine makes any time long."""
    address = f"http://127.0.0.1:{silent.getsockname()[1] if way == 'silent' else 9}"
    env = os.environ | {"HF_HOME": str(tmp_path), "HF_ENDPOINT": address, "HF_DATASETS_SERVER": address}
    done = subprocess.run([sys.executable, "-c", f"import common; common.{what}"], cwd=ROOT, env=env, capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "cannot be reached" in done.stderr, done.stderr
    asked = []
    with suppress(BlockingIOError):
        while True:
            asked.append(silent.accept()[0].recv(99).decode().split()[1])
    assert asked.count("/api/") == (way == "silent") and not re.search("resolve|rows", str(asked)), asked


@pytest.mark.parametrize("name", ["demo/none/such", "./none", "../none", "/none", "none.pt", "none/", "~/none"])
def test_a_path_that_is_no_folder_is_not_looked_for_on_the_hub(name, monkeypatch, capsys):
    monkeypatch.setattr(common, "unreachable", lambda server: pytest.fail("asked the Hub"))
    with pytest.raises(SystemExit):
        common.load_config(name)
    assert "neither a folder here nor a Hub id" in capsys.readouterr().err


# ---------------------------------------------------------------------------------------------------------------------
# Files of one's own


@pytest.mark.parametrize("name", ["own.jsonl", "own.json", "own.jsonl.gz", "own.json.gz"])
def test_own_file_in_its_minimal_form(name, tmp_path):
    rows = [
        {"prompt": "What is 1 + 1?", "answer": 2},
        {"prompt": "Write f.", "tests": "assert f(1) == 1", "entry_point": "f"},
        {"prompt": "Echo.", "tests": {"inputs": ["a"], "outputs": ["a"]}, "id": "echo"},
        {"prompt": "Write g.", "tests": ["assert g() == 1", "assert g(2) == 2"], "entry_point": "g", "solution": None},
        {"prompt": "Write h.", "tests": "import unittest\nclass T(unittest.TestCase): pass", "entry_point": "h"},
        {"prompt": "Write i.", "tests": "def test_i():\n    assert i()", "entry_point": "i"},
        {"prompt": "Write j.", "tests": "def check(candidate):\n    assert candidate()", "entry_point": "j"},
        {"prompt": "Tell a joke.", "kind": None, "answer": None},
        {"prompt": "What is 2 + 2?", "answer": "4", "tests": [], "entry_point": "", "id": ""},
        {"prompt": "Tell another.", "answer": "", "tests": ""},
    ]
    text = json.dumps(rows) if ".jsonl" not in name else as_jsonl(rows).decode()
    (tmp_path / name).write_bytes(gzip.compress(text.encode()) if name.endswith("gz") else text.encode())
    problems = common.load_problems(tmp_path / name)
    assert [p["kind"] for p in problems] == ["math"] + ["code"] * 6 + ["text", "math", "text"]
    assert [p.get("style") for p in problems] == [None, "assert", "stdio", "assert", "unittest", "pytest", "check", None, None, None]
    assert [p["id"] for p in problems] == ["0", "1", "echo", "3", "4", "5", "6", "7", "8", "9"]
    assert problems[0]["answer"] == "2" and problems[3]["tests"] == "assert g() == 1\nassert g(2) == 2"


@pytest.mark.parametrize("name, text, says", [
    ("a.jsonl", '{"prompt": "x"}\n{"answer": "1"}\n', "a.jsonl:2: the field 'prompt or messages' is missing"),
    ("a.jsonl", '{"prompt": "x"}\nx\n', "a.jsonl:2: not JSON"),
    ("a.jsonl", "", "no problems"),
    ("a.jsonl", '{"prompt": "x", "id": 1}\n{"prompt": "x"}\n', "2 problems but only 1 different ids"),
    ("a.jsonl", '{"prompt": ["x"]}\n', "problem 1: the field 'prompt' must be text"),
    ("a.jsonl", '{"prompt": "x", "kind": "maths"}\n', "kind 'maths' is none of code, math, text"),
    ("a.jsonl", '{"prompt": "x", "tests": {"inputs": ["1"], "outputs": []}}\n', "problem 1: 'tests' must be"),
    ("a.jsonl", '{"prompt": "x", "tests": {"inputs": [1], "outputs": ["1"]}}\n', "problem 1: 'tests' must be"),
    ("a.jsonl", '{"prompt": "x", "tests": "assert f()", "style": "tests"}\n', "style 'tests' is none of check, unittest, pytest, assert, stdio"),
    ("a.jsonl", '{"prompt": "x", "tests": "assert f()", "prelude": ["import re"]}\n', "the field 'prelude' must be text"),
    ("a.jsonl", '{"prompt": "x", "tests": "assert f()", "solution": 7}\n', "the field 'solution' must be text"),
    ("a.json", '{"problems": []}', "a.json:1: the field 'prompt or messages' is missing"),
    ("a.json", "[1]", "problem 1: a JSON object is expected, not 1"),
    ("a.json", '[{"prompt": "x"}, {"prompt": "\\ud800"}]', "problem 2: not valid Unicode"),
    ("a.json", '[{"prompt": "x", "answer": Infinity}]', "problem 1: not JSON (Infinity is no number"),
    pytest.param("a.json", f'[{{"prompt": "x", "answer": {"9" * 5000}}}]', "not JSON", id="5000 digits"),
    ("a.jsonl", '{"prompt": "x", "answer": NaN}\n', "a.jsonl:1: not JSON (NaN is no number"),
    pytest.param("a.jsonl", '{"prompt": "x", "y": ' + "[" * 100_000, "a.jsonl:1: not JSON", id="100000 deep"),
    ("a.json", "[", "not JSON"),
    ("a.json.gz", "not compressed", "not a readable"),
])
def test_own_file_with_a_mistake(name, text, says, tmp_path, capsys):
    (tmp_path / name).write_text(text)
    with pytest.raises(SystemExit) as stop:
        common.load_problems(tmp_path / name)
    assert stop.value.code == 2 and says in capsys.readouterr().err
