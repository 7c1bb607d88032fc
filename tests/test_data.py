"""Data sets by name, from made-up rows with their true fields; the client of the Hub; files of one's own."""

import json
import os
import threading
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from urllib.parse import parse_qsl

import huggingface_hub
import pytest
from conftest import dies, last_json, python

import common

# ---- Made-up rows


def humaneval_row(i):
    helper = "HALF = 0.5\n\n\ndef twice(x):\n    return x / HALF\n"
    prompt = f'{helper}\n\ndef add_{i}(x):\n    """ Add {i} to x. """\n'
    tests = f"METADATA = {{}}\n\n\ndef check(candidate):\n    assert candidate(2) == twice({i} / 2) + 2\n"
    return {"task_id": f"HumanEval/{i}", "prompt": prompt, "canonical_solution": f"    return x + {i}\n",
            "test": tests, "entry_point": f"add_{i}"}  # fmt: skip


def kodcode_row(i):
    """As the authors' loader reads it; their names for a field differ, and so do the forms of tests."""
    tests = [f"x = {i}\nassert times_{i}(1) == x", f"assert times_{i}(3) == {3 * i}"]
    if i % 10 == 9:
        tests = {"inputs": [f"{i}\n"], "outputs": [f"{i}\n"]}
    return {("task_id" if i % 2 else "problem_id"): i, "prompt": f"Write times_{i}(x), x times {i}.",
            "entry_point": f"times_{i}", ("tests" if i % 3 else "test"): tests}  # fmt: skip


def authors_file(make_row, count):
    return "".join(json.dumps(make_row(i)) + "\n" for i in range(count))


AUTHORS_FILES = {
    "kodcode_1000.jsonl": authors_file(kodcode_row, 1000),
    "ot_math.jsonl": authors_file(lambda i: {"id": i, "question": f"{i} + 0.5?\u2028", "answer": i + 0.5}, 500),
}


def openthoughts_code_row(i):
    """What a program reads and prints; every third time a function's arguments instead."""
    cases = {"inputs": [f"{i}\n", "1\n2"], "outputs": [f"{i}\n", "3"]}
    if i % 3 == 0:
        cases = {"fn_name": "add", "inputs": [[1, i]], "outputs": [[1 + i]]}
    cases = {7: {}, 11: {"inputs": ["1"], "outputs": None}, 12: {"inputs": [], "outputs": []}}.get(i % 13, cases)
    return {"problem": f"Problem {i}?", "test_cases": json.dumps(cases)}


ROWS = {  # what makes the rows of a data set, and how many there are
    "humaneval": (humaneval_row, 164),
    "math500": (lambda i: {"problem": f"{i}?", "answer": f"{i}/2", "unique_id": f"algebra/{i}.json"}, 500),
    "aime24": (lambda i: {"ID": f"2024-I-{i + 1}", "Problem": f"Find {i}.", "Answer": i}, 30),
    "aime25": (lambda i: {"problem_idx": i + 1, "problem": f"Find {i} again.", "answer": i}, 30),
    "openthoughts-code": (openthoughts_code_row, 1500),
}


def page_of(name, offset):
    make_row, total = ROWS[name]
    numbers = range(offset, min(offset + 100, total))
    rows = [{"row_idx": n, "row": make_row(n), "truncated_cells": []} for n in numbers]
    return {"rows": rows, "num_rows_total": total}


# ---- The Hub


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A server that stands for the Hub's and the authors', and an empty cache. It has the made-up rows and
    `files`, which it does not give to one that sends the Hub's token, keeps `requests` (name, offset), and
    answers `faults` first."""
    names = {(data.repository, data.where): name for name, data in common.DATA_SETS.items()}
    hub = SimpleNamespace(requests=[], faults=[], files=dict(AUTHORS_FILES))

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            path, _, query = self.path[1:].partition("?")
            is_there = path in hub.files and "Authorization" not in self.headers
            status, content = (200, hub.files[path]) if is_there else (404, "")
            if query:
                asked = dict(parse_qsl(query))
                name, offset = names[asked["dataset"], asked.get("where", "")], int(asked["offset"])
                assert path == ("filter" if "where" in asked else "rows")
                hub.requests.append((name, offset))
                status, page = hub.faults.pop(0) if hub.faults else (200, page_of(name, offset))
                content = json.dumps(page)
            self.send_response(status)
            self.end_headers()
            self.wfile.write(content.encode())

    monkeypatch.setenv("HF_TOKEN", "hf_of_a_test")
    cached = partial(huggingface_hub.cached_assets_path, assets_dir=tmp_path / "assets")
    monkeypatch.setattr(huggingface_hub, "cached_assets_path", cached)
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}).start()
        for name in ("ROWS_SERVER", "AUTHORS"):
            monkeypatch.setattr(common, name, f"http://127.0.0.1:{server.server_port}")
        yield hub
        server.shutdown()


@pytest.mark.parametrize("name, size, first_id", [
    ("humaneval", 164, "HumanEval/0"), ("math500", 500, "algebra/0.json"), ("aime24", 30, "2024-I-1"),
    ("aime25", 30, "1"), ("aime", 60, "2024-I-1"), ("openthoughts", 1000, "0"), ("kodcode", 1000, "0"),
])  # fmt: skip
def test_a_set_by_its_name(name, size, first_id, hub):
    """A limit takes the first problems."""
    problems = common.load_problems(name)
    assert len(problems) == len({problem["id"] for problem in problems}) == size
    assert first_id in (None, problems[0]["id"])
    for problem in problems:
        assert problem["prompt"].strip() and problem["tests" if problem["kind"] == "code" else "answer"]
    assert common.load_problems(name, limit=20) == problems[:20]


def test_pages_are_downloaded_once_and_then_work_offline(hub, tmp_path):
    problems = common.load_problems("aime24")
    offline = os.environ | {"HF_HUB_OFFLINE": "1", "HF_ASSETS_CACHE": str(tmp_path / "assets")}
    program = "import common, json; common.entry(lambda: print(json.dumps(common.load_problems('{}'))), '')"
    assert len(problems) == 30
    assert json.loads(python(program.format("aime24"), env=offline).stdout) == problems
    error = python(program.format("aime25"), env=offline).stderr.splitlines()[-1]
    assert error.startswith("error: the data set aime25 cannot be downloaded") and "HF_HUB_OFFLINE" in error


def test_openthoughts_code_is_a_draw_of_pages_of_what_can_be_judged(hub):
    reads = common.load_problems("openthoughts-code", limit=50)
    first = reads[0]["tests"]["inputs"][0]
    assert reads[0]["tests"] == {"inputs": [first, "1\n2"], "outputs": [first, "3"]}
    assert len({offset for _, offset in hub.requests}) == len(hub.requests) == 2, "the total's page, one drawn"
    assert hub.requests[1][1] != 100 and int(reads[0]["id"].removeprefix("code/")) >= hub.requests[1][1]


def test_the_judge_takes_what_the_sets_give(hub, tmp_path, run_here):
    """Right programs pass and stubs fail, in each form of tests that a set has."""
    problems = [common.load_problems(name, limit=6)[5] for name in ("humaneval", "kodcode", "openthoughts-code")]
    problems[1]["solution"] = "def times_5(x): return x * 5"  # these sets have none
    problems[2]["solution"] = "import sys\nprint(sum(map(int, sys.stdin.read().split())))"
    common.write_jsonl(tmp_path / "all.jsonl", problems)
    result = last_json(run_here("02_label.py", tmp_path / "all.jsonl", "--self-check", "--json"))
    assert (result["solutions"], result["stubs"], result["failures"]) == (3, 3, 0)


def test_the_authors_files_are_downloaded_once_and_are_the_same_from_disk(hub, tmp_path):
    for file, text in AUTHORS_FILES.items():
        (tmp_path / file).write_text(text)
    downloaded = {name: common.load_problems(name) for name in common.AUTHORS_FILES}
    hub.files.clear()
    for name, (file, _) in common.AUTHORS_FILES.items():
        assert downloaded[name] == common.load_problems(name)
        assert downloaded[name] == common.load_problems(tmp_path / file)
    first, maths = downloaded["kodcode"][0], downloaded["openthoughts-math"][0]
    tests = ["x = 0\nassert times_0(1) == x", "assert times_0(3) == 0"]
    assert first == {"id": "0", "kind": "code", "prompt": "Write times_0(x), x times 0.", "entry_point": "times_0",
                     "tests": tests}  # fmt: skip
    assert (maths["answer"], maths["prompt"]) == ("0.5", "0 + 0.5?\u2028")
    assert downloaded["kodcode"][9]["tests"] == {"inputs": ["9\n"], "outputs": ["9\n"]}


KODCODE = AUTHORS_FILES["kodcode_1000.jsonl"]


@pytest.mark.parametrize("text, says", [
    (None, "kodcode_1000.jsonl (ValueError: it answers 404); try again later"),
    (KODCODE[:-9], "kodcode_1000.jsonl (JSONDecodeError: "),
])  # fmt: skip
def test_what_is_not_the_authors_file_is_refused_and_a_later_download_is_read(text, says, hub, capsys):
    hub.files = {"kodcode_1000.jsonl": text} if text else {}
    assert says in dies(capsys, common.load_problems, "kodcode")
    hub.files = AUTHORS_FILES
    assert len(common.load_problems("kodcode")) == 1000


def test_a_download_that_failed_resumes_at_the_next_page(hub, capsys):
    name = "humaneval"
    hub.faults += [(200, page_of(name, 0)), (422, {})]
    error = dies(capsys, common.load_problems, name)
    assert f"https://huggingface.co/datasets/openai/openai_{name} (" in error and "422" in error
    assert len(common.load_problems(name)) == 164
    assert hub.requests == [(name, 0), (name, 100), (name, 100)]


PAGE = page_of("humaneval", 0)


@pytest.mark.parametrize("status, page, says", [
    (403, {}, "terms must be accepted on that page"),
    (200, PAGE | {"num_rows_total": 50}, "did not give all of the rows"),
    (200, PAGE | {"rows": [{**PAGE["rows"][0], "truncated_cells": ["prompt"]}, *PAGE["rows"][1:]]}, "all of"),
    (200, PAGE | {"rows": [], "num_rows_total": 0}, "0 problems instead of 164"),
])  # fmt: skip
def test_answers_that_end_a_download(status, page, says, hub, capsys):
    hub.faults.append((status, page))
    assert says in dies(capsys, common.load_problems, "humaneval")
    assert len(hub.requests) == 1


# ---- Files of one's own


CHAT = [{"role": "system", "content": "s"}, {"role": "user", "content": "1+1"}]
OWN = [  # a problem; its kind and id
    ({"prompt": "What is 1 + 1?", "answer": 2}, "math", "1"),
    ({"prompt": "Write f.", "tests": "assert f(1) == 1", "prelude": "\n"}, "code", "2"),
    ({"prompt": "Echo.", "tests": {"inputs": ["a"], "outputs": ["a"]}, "id": "e"}, "code", "e"),
    ({"prompt": "Write g.", "tests": ["assert g() == 1", "assert g(2) == 2"]}, "code", "4"),
    ({"prompt": "Tell a joke.", "kind": None, "answer": " ", "tests": [""], "solution": None}, "text", "5"),
    ({"prompt": "2 + 2?", "answer": "4", "tests": [], "entry_point": "", "id": ""}, "math", "6"),
    ({"messages": CHAT}, "text", "7"),
    ({"prompt": "Half of 1?", "answer": ["1/2", 0.5]}, "math", "8"),
    # of answer and tests the tests decide, unless the kind says otherwise
    ({"prompt": "Write f.", "answer": "1", "tests": "assert f()", "difficulty": 3}, "code", "9"),
    ({"prompt": "Write f.", "answer": "1", "tests": "assert f()", "kind": "math"}, "math", "10"),
    ({"prompt": "x", "answers": [1], "answer": 1}, "math", "11"),
]  # fmt: skip


@pytest.mark.parametrize("name", ["own.jsonl", "own.json"])
def test_own_file_in_its_minimal_form(name, tmp_path):
    rows = [row for row, *_ in OWN]
    text = json.dumps(rows) if ".jsonl" not in name else "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / name).write_text("\ufeff" + text)  # as Windows begins a file
    problems = common.load_problems(tmp_path / name)
    for problem, (_, kind, id) in zip(problems, OWN, strict=True):
        assert (problem["kind"], problem["id"]) == (kind, id)
    assert problems[0]["answer"] == "2" and problems[7]["answer"] == ["1/2", "0.5"]
    assert problems[3]["tests"] == ["assert g() == 1", "assert g(2) == 2"] and problems[6]["prompt"] == "1+1"


MISTAKES = {  # what the error says -> the file
    "kind 'maths' is none of code, math, text": '{"prompt": "x", "kind": "maths"}',
    "problem 1: 'tests' must be": '{"prompt": "x", "tests": {"inputs": [1], "outputs": ["1"]}}',
    "code is judged by the field 'tests', and there is only": '{"prompt": "x", "kind": "code", "answer": 3}',
    "the field 'family' must be text": '{"prompt": "x", "family": 7}',
    "own, problem 2: 'answer' must be a text, a number, or a list of such, any of which is right":
        '{"prompt": "x", "answer": 1}\n{"prompt": "x", "answer": true}',
    "'messages' must be a list": '{"messages": [{"role": "user", "content": null}]}',
    "own: problems 1 and 2 both have the id '2'; give each its own; one without an id has its number":
        '{"prompt": "x", "id": 2}\n{"prompt": "y"}',
    "own: problems 1 and 3 both have the id '1'; give each its own":
        '{"prompt": "x", "id": 1}\n{"prompt": "x", "id": 7}\n{"prompt": "x", "id": "1"}',
    "problem 1: 'prompt' or 'messages' is missing; it has only query": '{"query": "x"}',
    "problem 1: the field 'prompt' must be text": '{"prompt": ["x"]}',
    "own:3: not JSON (": '{"prompt": "x"}\n\n{"prompt": \n',
    "own:1: JSON has no NaN; write null": '{"prompt": "x", "answer": NaN}',
    "own: not JSON ('utf-8' codec can't encode": '[{"prompt": "\\ud800"}]',  # half of a surrogate pair
    "own: not JSON in UTF-8 text ('utf-8' codec can't decode": '{"prompt": "\udcff"}',
}  # fmt: skip


@pytest.mark.parametrize("says", MISTAKES)
def test_own_file_with_a_mistake(says, tmp_path, capsys):
    (tmp_path / "own").write_bytes(MISTAKES[says].encode(errors="surrogateescape"))
    assert says in dies(capsys, common.load_problems, tmp_path / "own")


@pytest.mark.parametrize("kind, rows, kinds, says", [
    (None, [{"answer": 0}, {}, {"answer": 1}], "math math math", "1 of 3 problems have no answer, tests or kind"),
    (None, [{"tests": "f()"}, {}, {"kind": "text"}], "code code text", "asked as code"),
    (None, [{"answer": "a", "kind": "text"}, {}], "text text", "asked as text"),
    (None, [{"answer": 0}, {}, {"tests": "f()"}], "math text code", "as text"),
    (None, [{}, {}], "text text", "2 of 2"),
    ("math", [{}, {"answer": 0}, {"kind": "code"}], "math math code", ""),
])  # fmt: skip
def test_the_kind_of_problems_that_do_not_say_one(kind, rows, kinds, says, tmp_path, capsys):
    common.write_jsonl(tmp_path / "p.jsonl", [row | {"prompt": "x"} for row in rows])
    problems = common.load_problems(tmp_path / "p.jsonl", kind=kind)
    assert [problem["kind"] for problem in problems] == kinds.split()
    said = capsys.readouterr().err
    assert says in said and said.count("\n") == bool(says)
