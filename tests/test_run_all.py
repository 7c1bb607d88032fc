"""The README's command, shrunk: the five steps on the bundled model, run again, killed in the middle, and given nonsense."""

import os
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
    small = {"N": "4", "LIMIT": "8", "SEEDS": "32 42", "FLAGS_03": "--configs 2", "OUT": str(out)}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # the Python that runs the tests
    env = {**os.environ, **small, "PATH": path, **environment}
    command = ["bash", str(ROOT / "run_all.sh"), *map(str, args)]
    process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    if not check:
        return process
    stdout, stderr = process.communicate(timeout=280)
    assert process.returncode == 0, stdout + stderr
    return stdout


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
    return out, run_all(out)


def test_the_demo_prints_one_table_per_domain(finished):
    out, stdout = finished
    for words in ("random", "majority vote", "best confidence", "logistic regression", "SCaTR (math_a), best-of-N",
                  "SCaTR (math_a), weighted vote", "SCaTR (code_a), best-of-N", "oracle"):  # fmt: skip
        assert words in stdout, stdout
    assert stdout.count("gap closed %") == 2
    for run in (out / "model" / name / "32" for name in ("math_a", "math_b", "code_a", "code_b")):
        meta, rollouts = common.read_meta(run), common.read_rollouts(run)
        assert {"model", "revision", "dataset", "seed", "n", "versions", "device", "git", "layers", "arguments"} <= set(meta)
        assert len(rollouts) == 8 * 4 and len({row["response"] for row in rollouts}) > 8
        common.check_same_problems(run, rollouts)
        assert {row["label"] for row in common.read_labels(run, common.keys_of(rollouts))} <= {0, 1}
    assert len(list((out / "model" / "math_b" / "32" / "scores").glob("scatr.math_a@32-*.jsonl"))) == 2
    for domain in ("math", "code"):  # trained on the calibration run, and on no other
        for path in (out / "model" / f"{domain}_a" / "32").glob("*@*.pt"):
            assert common.load_pt(path)["runs"] == [str(out / "model" / f"{domain}_a" / "32")]


def test_a_second_run_finds_everything_finished(finished):
    out, first = finished
    times = {path: path.stat().st_mtime_ns for path in out.rglob("*") if path.name in MADE or path.suffix == ".pt"}
    start = time.monotonic()
    again = run_all(out)
    assert time.monotonic() - start < 60
    assert {path: path.stat().st_mtime_ns for path in times} == times
    tables = [line for line in first.splitlines() if line.startswith("SCaTR")]
    assert [line for line in again.splitlines() if line.startswith("SCaTR")] == tables


def test_killed_anywhere_it_ends_as_if_it_had_not_been(finished, tmp_path):
    """Kill the whole tree when the first parts, labels and scorers appear; the last run finishes with the same files."""
    model, *sets = [ROOT / "demo" / name for name in ("model", "math_a.jsonl", "math_b.jsonl")]
    for sign in ("parts/*.pt", "rollouts.jsonl", "labels.jsonl", "*@*.pt"):
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


def test_the_papers_protocol_of_three_calibration_sets(tmp_path):
    sets = [ROOT / "demo" / name for name in ("code_a.jsonl", "code_b.jsonl")]
    stdout = run_all(tmp_path, ROOT / "demo" / "model", *sets, SETS="3", LIMIT="6", FLAGS_03="--configs 1")
    results = common.read_json(next(tmp_path.rglob("code_b/32/results.json")))["groups"][0]["rows"]
    scatr = next(row for row in results if row["method"] == "SCaTR (code_a), best-of-N")
    assert scatr["runs"] == 6 and scatr["std"] is not None and "±" in stdout  # 3 sets x 2 seeds


def test_without_answers_it_still_selects(tmp_path):
    rows = common.read_jsonl(ROOT / "demo" / "math_b.jsonl")[:6]
    common.write_jsonl(tmp_path / "open.jsonl", [{key: row[key] for key in ("id", "kind", "prompt")} for row in rows])
    stdout = run_all(tmp_path, ROOT / "demo" / "model", ROOT / "demo" / "math_a.jsonl", tmp_path / "open.jsonl", SEEDS="32")
    assert "nothing to judge" in stdout and "not judged" in stdout
    chosen = common.read_jsonl(next(tmp_path.rglob("open/32/selected.jsonl")))
    assert {row["strategy"] for row in chosen} == {"best-of-n", "weighted-vote"} and "label" not in chosen[0]


@pytest.mark.parametrize(
    "args, words",
    [
        (("no/such/folder", "{sets}/math_a.jsonl", "{sets}/math_b.jsonl"), "no/such/folder"),
        (("{sets}/model", "{sets}/math_a.jsonl", "nonsense"), "known names are"),
        (("{sets}/model", "{tmp}/broken.jsonl", "{sets}/math_b.jsonl"), "broken.jsonl:2"),
        (("{sets}/model", "{tmp}/empty.jsonl", "{sets}/math_b.jsonl"), "no problems"),
        (("{sets}/model", "{sets}/math_a.jsonl"), "MODEL CAL EVAL"),
        (("{sets}/model", "{sets}/math_a.jsonl", "{sets}/math_a.jsonl"), "proves nothing"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(tmp_path, args, words):
    (tmp_path / "broken.jsonl").write_text('{"prompt": "1+1", "answer": "2"}\n{"prompt": \n')
    (tmp_path / "empty.jsonl").write_text("")
    args = [arg.format(sets=ROOT / "demo", tmp=tmp_path) for arg in args]
    process = run_all(tmp_path / "out", *args, check=False)
    _, stderr = process.communicate(timeout=120)
    assert process.returncode == 2 and "Traceback" not in stderr
    assert [line for line in stderr.splitlines() if line.startswith("error: ") and words in line], stderr
    assert not (tmp_path / "out").exists()  # found before any work


@pytest.mark.parametrize("name, value", [("N", "0"), ("SETS", "08"), ("SEEDS", "032"), ("SEEDS", "32 32"), ("SEEDS", " "), ("LIMIT", "x")])
def test_numbers_that_the_steps_would_read_in_another_way_are_refused(tmp_path, name, value):
    process = run_all(tmp_path / "out", check=False, **{name: value})
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 2 and "whole numbers" in stderr and not (tmp_path / "out").exists(), stderr


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
