"""The README's command, shrunk: five steps on the bundled model, run again, stopped, killed, given nonsense.

A Python that imports torch takes seconds: what a run_all.sh makes is looked at from many sides.
"""

import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
import torch
from conftest import ROOT, python

import common

MADE = ("rollouts.jsonl", "hidden.pt", "tokens.pt", "labels.jsonl")
MODEL, MATH_A, MATH_B = (ROOT / "demo" / name for name in ("model", "math_a.jsonl", "math_b.jsonl"))
NAMES = ("math_a", "math_b", "code_a", "code_b")


def run_all(out, *args, check=True, **environment):
    """Its standard output and error, or the process (check=False)."""
    small = {"N": "4", "LIMIT": "6", "SEEDS": "32 42", "SETS": "2", "FLAGS_03": "--configs 1 --workers 1"}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # the Python that runs the tests
    env = {**os.environ, **small, "OUT": str(out), "PATH": path, **environment}
    command = ["bash", str(ROOT / "run_all.sh"), *map(str, args)]
    process = subprocess.Popen(command, env=env, stdout=-1, stderr=-1, text=True, start_new_session=True)
    if not check:
        return process
    stdout, stderr = process.communicate()
    assert process.returncode == 0, stdout + stderr
    return stdout, stderr


def contents(out):
    """What a run folder says: texts and labels to the letter, the names of all files, and the vectors."""
    runs = sorted(path.parent for path in Path(out).rglob("math_*/*/meta.json"))
    files = [sorted(str(path.relative_to(run)) for path in run.rglob("*")) for run in runs]
    rows = [row for run in runs for row in common.read_rollouts(run)]
    rollouts = [(row["id"], row["sample"], row["response"], row["finish"]) for row in rows]
    labels = [(run / "labels.jsonl").read_text() for run in runs]
    return (files, rollouts, labels), torch.cat([common.load_pt(run / "hidden.pt")["hidden"] for run in runs])


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Made once for all workers of pytest-xdist."""
    folder = tmp_path_factory.getbasetemp()
    folder = (folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) / "run_all"
    folder.mkdir(exist_ok=True)
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "said.json").exists():
            common.write_json(folder / "said.json", run_all(folder / "out"))
    return folder / "out", *json.loads((folder / "said.json").read_text())


def test_the_demo_prints_one_table_of_both_domains_and_directions(finished):
    """Several samplings of both sets are crossed."""
    out, stdout, _ = finished
    rows = "random|greedy|best of the paper's 20|best of all 28|logistic regression|SCaTR+|oracle|±"
    rows += "|majority vote|confidence-weighted vote|SCaTR, weighted vote|math_a → math_b|code_b → code_a"
    assert not [words for words in rows.split("|") if words not in stdout], stdout
    *_, report, first, _, _, _, _, _, _, last = stdout.splitlines()  # an answers.jsonl for each of eight runs
    assert report.endswith("math_a-math_b-code_a-code_b/report.md")
    for line, problem in ((first, MATH_B), (last, ROOT / "demo" / "code_a.jsonl")):
        answers = common.read_jsonl(line.removeprefix("one answer a problem: "))
        assert [row["id"] for row in answers] == [row["id"] for row in common.read_jsonl(problem)[:6]]
        assert {row["scorer"].split(".")[0] for row in answers} <= {"scatr", "scatr+", "logistic"}
    for group in common.read_json(next(out.rglob("results.json")))["sections"]:
        rows = {row["method"]: row for row in group["rows"]}
        scatr = next(row for name, row in rows.items() if re.fullmatch("SCaTR((?!vote|[+]).)*", name))
        assert group["window"] == group["tail"] == 16 and "old" not in rows
        assert scatr["runs"] == 8 and scatr["std"] is not None  # 2 calibration, 2 evaluation runs, 2 seeds
        assert rows["oracle"]["runs"] == 2


def test_every_run_is_whole_and_its_scorers_are_of_the_calibration_run_alone(finished):
    out = finished[0]
    kept = {"model", "revision", "dataset", "seed", "n", "versions", "device", "git", "layers", "arguments"}
    for run in (out / "model" / name / seed for name in NAMES for seed in ("32", "42")):
        rollouts = common.read_rollouts(run)
        assert kept <= set(common.read_meta(run))
        assert len(rollouts) == 6 * 4 and len({row["response"] for row in rollouts}) > 6
        common.check_same_problems(run, rollouts)
        assert {row["label"] for row in common.read_labels(run, common.keys_of(rollouts))} <= {0, 1}
        assert not (run / "parts").exists()
        for path in run.glob("*@*.pt"):
            assert common.load_pt(path)["runs"] == [str(run)]
    scores = {path.name for path in (out / "model" / "math_b" / "32" / "scores").glob("*@*.jsonl")}
    seeds = ("32-32", "32-42", "42-32", "42-42")  # of the run and of the scorer
    assert scores == {f"{name}.math_a@{s}.jsonl" for name in ("scatr", "scatr+", "logistic") for s in seeds}


def test_what_scrolls_by_is_a_line_a_step(finished):
    out, stdout, stderr = finished
    steps = [line for line in stderr.splitlines() if line.startswith("[")]
    first = enumerate(("generate", "label", "train scorers"), 1)
    assert steps[:3] == [f"[{n}/5] {what}: {', '.join(NAMES)}" for n, what in first]
    assert [line[:5] for line in steps] == [f"[{n}/5]" for n in range(1, 6)]
    lines = (stdout + stderr).replace(str(out), "runs").splitlines()
    lines = [re.sub("  +|--+", "  ", line) for line in lines]  # columns are as wide as this folder's name
    assert not [line for line in lines if len(line) > 110 or line.startswith("{") or "\r" in line]
    assert len(stdout.splitlines()) < 80  # on a slow machine stderr has a line a minute more


def test_a_second_one_waits_for_the_first_and_makes_nothing_again(finished):
    """The first is a lock on the runs of the model, as a run_all.sh at work holds it."""
    out, first, _ = finished
    made = [path for path in out.rglob("*") if path.name in MADE or path.suffix == ".pt"]
    times = {path: path.stat().st_mtime_ns for path in made}
    held = os.open(out / "model" / "run_all.log", os.O_WRONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    second = run_all(out, check=False)
    assert "another run_all.sh is at work" in second.stderr.readline()
    os.close(held)
    again, said = second.communicate()
    assert second.returncode == 0 and again == first and "Loading" not in said  # no model, no search
    assert {path: path.stat().st_mtime_ns for path in times} == times


def test_one_that_is_stopped_while_it_waits_leaves_the_lock_of_the_first(tmp_path):
    """The log, in which nothing stands yet."""
    (tmp_path / "model").mkdir()
    with open(tmp_path / "model" / "run_all.log", "w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        second = run_all(tmp_path, check=False)
        assert "another run_all.sh is at work" in second.stderr.readline()
        second.terminate()
        second.communicate()
        assert second.returncode == 128 + signal.SIGTERM and os.path.samefile(held.name, held.fileno())


def test_stopped_and_killed_anywhere_it_ends_as_if_it_had_not_been(finished, tmp_path):
    """At the first parts `kill` tells run_all.sh alone, at the first run Ctrl-C all of its processes."""
    signs = "parts/*.pt", "math_a/32/rollouts.jsonl", "*@*.pt"
    for sign, ends in zip(signs, (signal.SIGTERM, signal.SIGINT, signal.SIGKILL)):
        process = run_all(tmp_path, MODEL, MATH_A, MATH_B, check=False)
        while process.poll() is None and not list(tmp_path.rglob(sign)):
            time.sleep(0.01)
        (os.kill if ends == signal.SIGTERM else os.killpg)(process.pid, ends)
        stderr = process.communicate()[1]  # until no process is left that could write
        if ends != signal.SIGKILL:
            assert process.returncode == 128 + ends and stderr.count("stopped: ") == 1, stderr
            assert "Traceback" not in stderr and not list(tmp_path.rglob("math_b/42/rollouts.jsonl")), stderr
    run_all(tmp_path, MODEL, MATH_A, MATH_B)
    (said, vectors), (expected, expected_vectors) = contents(tmp_path), contents(finished[0])
    assert said == expected
    # A resumed batch has other neighbours, and a matrix product its last digits from how many rows it has.
    assert torch.allclose(vectors, expected_vectors, atol=1e-4)


def test_without_answers_it_still_selects_and_one_direction_is_enough(tmp_path):
    rows = common.read_jsonl(MATH_B)[:6]
    for name in ("open", "unchecked"):
        asked = [{key: row[key] for key in ("id", "kind", "prompt")} for row in rows]
        common.write_jsonl(tmp_path / f"{name}.jsonl", asked)
    sets = MATH_A, tmp_path / "open.jsonl", tmp_path / "unchecked.jsonl", MATH_B
    stdout, stderr = run_all(tmp_path, MODEL, *sets, SEEDS="32", SETS="1", BOTH="0")
    assert "no labels to judge the answers by" in stdout and "not judged" in stdout
    assert "open/32/answers.jsonl: 6 answers, one a problem, picked by\n" in stdout
    assert "unchecked: nothing to learn from" in stderr
    chosen = common.read_jsonl(next(tmp_path.rglob("open/32/selected.jsonl")))
    assert {row["strategy"] for row in chosen} == {"best-of-n", "weighted-vote"} and "label" not in chosen[0]
    assert not list(tmp_path.rglob("math_b/*/*@*.pt")) and not list(tmp_path.rglob("math_a/greedy"))


BAD = [  # arguments and settings; what is said of them
    ("no/such/folder {sets}/math_a.jsonl {sets}/math_b.jsonl", "no/such/folder"),
    ("{sets}/model {sets}/math_a.jsonl nonsense", "known names are"),
    ("{sets}/model {tmp}/broken.jsonl {sets}/math_b.jsonl", "broken.jsonl:2"),
    ("{sets}/model {sets}/math_a.jsonl", "give MODEL A B"),
    ("{sets}/model {sets}/math_a.jsonl {sets}/math_a.jsonl", "proves nothing"),
    *[(n, "whole numbers") for n in ("N=0", "SETS=08", "SEEDS=032", "SEEDS=32,32", "SEEDS=,", "LIMIT=x")],
    ("BOTH=2", "BOTH is 1, both directions, or 0"),
    ("FLAGS_02=--bogus", "FLAGS_02: unrecognized arguments: --bogus"),
    ("FLAGS_03=--configs,x", "FLAGS_03: argument --configs: invalid int value"),
    ("FLAGS_05=--window,0", "FLAGS_05: --window"),
]


@pytest.mark.parametrize("args, words", BAD)
def test_bad_input_is_one_line_and_exit_code_2_before_any_work(tmp_path, args, words):
    (tmp_path / "broken.jsonl").write_text('{"prompt": "1+1", "answer": "2"}\n{"prompt": \n')
    settings = dict(arg.replace(",", " ").split("=", 1) for arg in args.split() if "=" in arg)
    args = [arg.format(sets=ROOT / "demo", tmp=tmp_path) for arg in args.split() if "=" not in arg]
    process = run_all(tmp_path / "out", *args, check=False, **settings)
    _, stderr = process.communicate()
    assert process.returncode == 2 and "Traceback" not in stderr and not (tmp_path / "out").exists(), stderr
    assert [line for line in stderr.splitlines() if line.startswith("error: ") and words in line], stderr


@pytest.mark.parametrize("script", ["sandbox_exec.py", *sorted(path.name for path in ROOT.glob("0*.py"))])
def test_help_answers_at_once(script):
    """Within a second on an idle machine: measured as CPU time, and where no package is installed."""
    done = python(
        "import sys, runpy, resource\n"
        "sys.argv = ['x', '-h']\n"
        f"try: runpy.run_path({script!r}, run_name='__main__')\n"
        "except SystemExit as stop: assert not stop.code, stop.code\n"
        "assert not {'torch', 'transformers', 'numpy', 'tqdm'} & set(sys.modules)\n"
        "assert sum(resource.getrusage(resource.RUSAGE_SELF)[:2]) < 1.0\n"
    )
    assert done.returncode == 0 and "usage" in done.stdout, done.stdout + done.stderr


def test_the_judge_of_maths_is_copied_alone_and_its_help_is_true_as_pasted(tmp_path):
    (tmp_path / "02_label.py").write_bytes((ROOT / "02_label.py").read_bytes())
    told = subprocess.run([sys.executable, "02_label.py", "-h"], cwd=tmp_path, capture_output=True, text=True)
    assert told.returncode == 1 and told.stderr == (
        "error: to label runs, this file needs common.py and sandbox_exec.py beside it\n"
    )
    here = subprocess.run([sys.executable, "02_label.py", "-h"], cwd=ROOT, capture_output=True, text=True)
    for shown in (told.stdout, here.stdout):
        snippet = textwrap.dedent(re.search(r"^    import importlib\n(    .*\n)+", shown, re.M)[0])
        done = subprocess.run([sys.executable, "-c", snippet], cwd=tmp_path, capture_output=True, text=True)
        assert done.stdout == "True\n", done.stderr


def test_pip_cannot_install_what_is_no_package(tmp_path):
    command = [sys.executable, "-m", "pip", "install", "--no-index", "--target", tmp_path / "made", ROOT]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1 and "is not installable" in done.stderr, done.stdout + done.stderr
    assert not (tmp_path / "made").exists()
