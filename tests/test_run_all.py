"""The README's command, shrunk: the five steps on the bundled model, run again, killed in the middle, and given nonsense.

A Python that imports torch takes seconds: what a run_all.sh makes is looked at from many sides.
"""

import fcntl
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from conftest import ROOT

import common

MADE = ("rollouts.jsonl", "hidden.pt", "tokens.pt", "labels.jsonl", "selected.jsonl")


def run_all(out, *args, check=True, **environment):
    """Its standard output and error, or the process (check=False)."""
    small = {"N": "4", "LIMIT": "6", "SEEDS": "32 42", "FLAGS_03": "--configs 1 --workers 1", "OUT": str(out)}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # the Python that runs the tests
    env = {**os.environ, **small, "PATH": path, **environment}
    command = ["bash", str(ROOT / "run_all.sh"), *map(str, args)]
    process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    if not check:
        return process
    stdout, stderr = process.communicate()
    assert process.returncode == 0, stdout + stderr
    return stdout, stderr


def contents(out):
    """What a run folder says: texts and labels to the letter, the names of all files, and the vectors."""
    runs = sorted(path.parent for path in Path(out).rglob("math_*/*/meta.json"))
    files = [sorted(str(path.relative_to(run)) for path in run.rglob("*")) for run in runs]
    rollouts = [[(r["id"], r["sample"], r["response"], r["finish"]) for r in common.read_rollouts(run)] for run in runs]
    labels = [(run / "labels.jsonl").read_text() for run in runs]
    return (files, rollouts, labels), torch.cat([common.load_pt(run / "hidden.pt")["hidden"] for run in runs])


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    out = tmp_path_factory.mktemp("finished")
    return out, *run_all(out)


def test_the_demo_prints_one_table_of_both_domains_and_directions(finished):
    out, stdout, stderr = finished
    for words in ("random", "greedy", "best of the paper's 20", "best of all 28", "logistic regression", "SCaTR+", "majority vote",
                  "confidence-weighted vote", "SCaTR, weighted vote", "oracle", "math_a → math_b", "code_b → code_a"):  # fmt: skip
        assert words in stdout, stdout
    assert stdout.splitlines()[-1].endswith("math_a-math_b-code_a-code_b/report.md")
    for run in (out / "model" / name / "32" for name in ("math_a", "math_b", "code_a", "code_b")):
        meta, rollouts = common.read_meta(run), common.read_rollouts(run)
        assert {"model", "revision", "dataset", "seed", "n", "versions", "device", "git", "layers", "arguments"} <= set(meta)
        assert len(rollouts) == 6 * 4 and len({row["response"] for row in rollouts}) > 6
        common.check_same_problems(run, rollouts)
        assert {row["label"] for row in common.read_labels(run, common.keys_of(rollouts))} <= {0, 1}
        assert not (run / "parts").exists()
    scores = {path.name for path in (out / "model" / "math_b" / "32" / "scores").glob("*@*.jsonl")}
    assert scores == {f"{method}.math_a@32-{seed}.jsonl" for method in ("scatr", "scatr+", "logistic") for seed in (32, 42)}
    for name in ("math_a", "math_b", "code_a", "code_b"):  # trained on the calibration run, and on no other
        for path in (out / "model" / name / "32").glob("*@*.pt"):
            assert common.load_pt(path)["runs"] == [str(out / "model" / name / "32")]


def test_what_scrolls_by_is_a_line_a_step(finished):
    out, stdout, stderr = finished
    names = "math_a, math_b, code_a, code_b"
    steps = [line for line in stderr.splitlines() if line.startswith("[")]
    assert steps[:3] == [f"[1/5] generate: {names}", f"[2/5] label: {names}", "[3/5] train scorers: math_a, math_b, code_a, code_b"]
    assert [line[:5] for line in steps] == [f"[{n}/5]" for n in range(1, 6)]
    lines = (stdout + stderr).replace(str(out), "runs").splitlines()
    lines = [re.sub("  +|--+", "  ", line) for line in lines]  # the columns are as wide as this long folder's name
    assert not [line for line in lines if len(line) > 110 or line.startswith("{") or "\r" in line]
    assert len(stdout.splitlines()) < 80  # on a slow machine stderr has a line a minute more


def test_a_second_one_waits_for_the_first_and_makes_nothing_again(finished):
    """The first is a lock on the runs of the model, as a run_all.sh at work holds it."""
    out, first, _ = finished
    times = {path: path.stat().st_mtime_ns for path in out.rglob("*") if path.name in MADE or path.suffix == ".pt"}
    held = os.open(out / "model", os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    second = run_all(out, check=False)
    assert "another run_all.sh is at work" in second.stderr.readline()
    os.close(held)
    again, said = second.communicate()
    assert second.returncode == 0 and again == first and "Loading" not in said  # no model, no search
    assert {path: path.stat().st_mtime_ns for path in times} == times


def test_killed_anywhere_it_ends_as_if_it_had_not_been(finished, tmp_path):
    """Kill the whole tree when the first parts, runs and scorers appear; the last run ends with the same files."""
    model, *sets = [ROOT / "demo" / name for name in ("model", "math_a.jsonl", "math_b.jsonl")]
    for sign in ("parts/*.pt", "rollouts.jsonl", "*@*.pt"):
        process = run_all(tmp_path, model, *sets, check=False)
        while process.poll() is None and not list(tmp_path.rglob(sign)):
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    run_all(tmp_path, model, *sets)
    (said, vectors), (expected, expected_vectors) = contents(tmp_path), contents(finished[0])
    assert said == expected
    # A resumed batch has other neighbours, and a matrix product its last digits from how many rows it has.
    assert torch.allclose(vectors, expected_vectors, atol=1e-4)


def test_several_samplings_of_both_sets_are_crossed(tmp_path):
    sets = [ROOT / "demo" / name for name in ("code_a.jsonl", "code_b.jsonl")]
    stdout, _ = run_all(tmp_path, ROOT / "demo" / "model", *sets, SETS="2", BOTH="0", LIMIT="4", N="2")
    results = common.read_json(next(tmp_path.rglob("results.json")))["groups"]
    assert len(results) == 1 and results[0]["dataset"] == "code_b"
    rows = {row["method"]: row for row in results[0]["rows"]}
    scatr = next(row for name, row in rows.items() if name.startswith("SCaTR") and "+" not in name and "vote" not in name)
    assert scatr["runs"] == 8 and scatr["std"] is not None and "±" in stdout  # 2 calibration runs x 2 evaluation runs x 2 seeds
    assert rows["oracle"]["runs"] == 2
    assert not list(tmp_path.rglob("code_b/*/scatr*.pt"))  # the other direction was left out


def test_ctrl_c_ends_all_of_it_with_one_line(tmp_path):
    model, *sets = [ROOT / "demo" / name for name in ("model", "math_a.jsonl", "math_b.jsonl")]
    process = run_all(tmp_path, model, *sets, check=False)
    while not list(tmp_path.rglob("parts/*.pt")):
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)
    stderr = process.communicate()[1]  # until none is left that could write
    assert process.returncode == 130 and stderr.count("stopped: ") == 1 and "Traceback" not in stderr, stderr


def test_without_answers_it_still_selects(tmp_path):
    rows = common.read_jsonl(ROOT / "demo" / "math_b.jsonl")[:6]
    common.write_jsonl(tmp_path / "open.jsonl", [{key: row[key] for key in ("id", "kind", "prompt")} for row in rows])
    stdout, stderr = run_all(tmp_path, ROOT / "demo" / "model", ROOT / "demo" / "math_a.jsonl", tmp_path / "open.jsonl", SEEDS="32")
    assert "nothing to judge" in stdout and "not judged" in stdout and "open: nothing to learn from" in stderr
    chosen = common.read_jsonl(next(tmp_path.rglob("open/32/selected.jsonl")))
    assert {row["strategy"] for row in chosen} == {"best-of-n", "weighted-vote"} and "label" not in chosen[0]


@pytest.mark.parametrize("args, words", [
    (("no/such/folder", "{sets}/math_a.jsonl", "{sets}/math_b.jsonl"), "no/such/folder"),
    (("{sets}/model", "{sets}/math_a.jsonl", "nonsense"), "known names are"),
    (("{sets}/model", "{tmp}/broken.jsonl", "{sets}/math_b.jsonl"), "broken.jsonl:2"),
    (("{sets}/model", "{sets}/math_a.jsonl"), "give MODEL A B"),
    (("{sets}/model", "{sets}/math_a.jsonl", "{sets}/math_a.jsonl"), "proves nothing"),
    (("N=0",), "whole numbers"),
    (("SETS=08",), "whole numbers"),  # the steps would read it in another way
    (("SEEDS=032",), "whole numbers"),
    (("SEEDS=32 32",), "whole numbers"),
    (("SEEDS= ",), "whole numbers"),
    (("LIMIT=x",), "whole numbers"),
    (("FLAGS_02=--bogus",), "FLAGS_02: unrecognized arguments: --bogus"),
    (("FLAGS_03=--configs x",), "FLAGS_03: argument --configs: invalid int value"),
    (("FLAGS_04=--chunk 0",), "FLAGS_04: --chunk: give at least 1 rollout"),
    (("FLAGS_05=--window 0",), "FLAGS_05: --window, --tail, --epochs: 1 or more"),
])  # fmt: skip
def test_bad_input_is_one_line_and_exit_code_2_before_any_work(tmp_path, args, words):
    (tmp_path / "broken.jsonl").write_text('{"prompt": "1+1", "answer": "2"}\n{"prompt": \n')
    settings = dict(arg.split("=", 1) for arg in args if "=" in arg)
    args = [arg.format(sets=ROOT / "demo", tmp=tmp_path) for arg in args if "=" not in arg]
    process = run_all(tmp_path / "out", *args, check=False, **settings)
    _, stderr = process.communicate()
    assert process.returncode == 2 and "Traceback" not in stderr and not (tmp_path / "out").exists(), stderr
    assert [line for line in stderr.splitlines() if line.startswith("error: ") and words in line], stderr


@pytest.mark.parametrize("script", ["01_generate.py", "02_label.py", "03_train_scorer.py", "04_select.py", "05_baselines.py", "sandbox_exec.py"])
def test_help_answers_at_once(script):
    """Within a second on an idle machine: measured as CPU time, and without torch."""
    code = (
        "import sys, runpy, resource\n"
        f"sys.path.insert(0, {str(ROOT)!r}); sys.argv = ['x', '-h']\n"
        "try: runpy.run_path({path!r}, run_name='__main__')\n"
        "except SystemExit as stop: assert not stop.code, stop.code\n"
        "assert not {'torch', 'transformers'} & set(sys.modules)\n"
        "assert sum(resource.getrusage(resource.RUSAGE_SELF)[:2]) < 1.0\n"
    ).replace("{path!r}", repr(str(ROOT / script)))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0 and "usage" in done.stdout, done.stdout + done.stderr
