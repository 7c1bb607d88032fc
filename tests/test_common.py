"""Files, joins, layer names and token statistics: each rule of the run folder fails loudly when broken."""

import io
import os
import platform
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress

import numpy as np
import pytest
import torch
from conftest import ROOT, dies, make_run, python, read_vectors

import common

PROGRAM = """
import common, os, sys, time
from multiprocessing import Process
def wait():
    print("x", end="", flush=True)
    time.sleep(600)
def main():
    child = Process(target=wait)
    child.start()
    wait()
class Slow:  # as torch on a busy machine: taken down with the interpreter, when no thread runs any more
    def __del__(self, sleep=time.sleep):
        sleep(60)
slow = Slow()
common.entry(main, "what was kept")
"""


@pytest.mark.parametrize("to_all", [True, False])  # a terminal tells all of the group, `kill -INT` the one
def test_ctrl_c_is_one_line_and_ends_everything(to_all):
    process = subprocess.Popen([sys.executable, "-c", PROGRAM], cwd=ROOT, text=True, start_new_session=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip
    process.stdout.read(2)
    started = time.monotonic()
    (os.killpg if to_all else os.kill)(process.pid, signal.SIGINT)
    said = process.communicate(timeout=60)[1]  # until nobody is left who could write
    assert time.monotonic() - started < 30  # one or two seconds where nothing else runs
    assert (process.returncode, said) == (130, "\nstopped: what was kept\n")


@pytest.mark.parametrize("script, args, keeps", [
    ("01_generate.py", "{demo}/model {demo}/math_a.jsonl --responses {pipe} --out {out}", "finished"),
    ("02_label.py", "{run}", "judged problems"),
    ("04_select.py", "{run} --scorer {run}/scorer.pt", "what is written is kept"),
    ("05_baselines.py", "{run}", "a report is written at its end only"),
])  # fmt: skip
def test_ctrl_c_in_scripts(script, args, keeps, tmp_path):
    """While it reads: one of its inputs is a pipe, so the moment is certain."""
    run = make_run(tmp_path / "run")
    config = {"hidden": [], "dropout": 0.0, "input_dropout": 0.0, "batch_norm": False}
    state = common.build_scorer("mlp", config, (8,)).state_dict()
    scorer = {"design": "mlp", "config": config, "state": state, "shape": [8], "model": "tiny"}
    common.save_pt(run / "scorer.pt", scorer | {"vector": "penultimate/eos"})
    pipe, writer = run / "problems.jsonl", None
    pipe.unlink()
    os.mkfifo(pipe)
    args = args.format(demo=ROOT / "demo", run=run, pipe=pipe, out=tmp_path / "out").split()
    process = subprocess.Popen([sys.executable, ROOT / script, *args], text=True, stderr=subprocess.PIPE)
    while writer is None:
        with suppress(OSError):  # nobody reads yet
            writer = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=60)[1]
    os.close(writer)
    assert process.returncode == 130 and said.startswith("\nstopped: ") and keeps in said, said
    assert said.count("\n") == 2


@pytest.mark.parametrize("main, code, says", [
    ("lambda: print('line\\n' * 100_000)", 128 + signal.SIGPIPE, ""),  # more than a pipe holds
    ("lambda: print('line')", 128 + signal.SIGPIPE, ""),  # what waits in the buffer
    ("lambda: (p := os.pipe(), os.close(p[0]), os.write(p[1], b'x'))", 1, "BrokenPipeError"),  # a bug
])  # fmt: skip
def test_a_closed_pipe_ends_quietly_and_another_broken_one_does_not(main, code, says):
    shell = 'set -o pipefail; "$0" -c "$1" | ' + ("cat" if says else "(exec <&-; sleep 0.1)")
    command = ["bash", "-c", shell, sys.executable, f"import common, os; common.entry({main}, '')"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == code and says in done.stderr and bool(says) == bool(done.stderr), done.stderr


def test_bars_in_a_log_are_whole_lines_at_most_once_a_minute(monkeypatch, capsys):
    now = [0.0]
    monkeypatch.setattr("time.time", lambda: now[0])
    with common.progress(total=40, desc="label math_a", unit="problem") as bar:
        bar._time = lambda: now[0]
        bar.start_t = bar.last_print_t = 0.0
        for _ in range(40):
            now[0] += 7
            bar.update()
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 4 and all(re.fullmatch("label math_a: .{,96}", line) for line in lines), lines
    with common.progress(total=3, desc="short", unit="problem") as bar:
        bar.update(3)
    assert capsys.readouterr().err == ""


# ----------------------------------------------------------------------------------------------------
# Files


@pytest.fixture
def rows(tmp_path):
    """A file with one row, alone in its folder."""
    common.write_jsonl(tmp_path / "rows.jsonl", [{"old": 1}])
    return tmp_path / "rows.jsonl"


def test_a_killed_write_leaves_the_old_file_whole(rows):
    new = "({'new': i, 'x': print('writing', flush=True) if i == 20000 else 0} for i in itertools.count())"
    writer = f"import common, itertools; common.write_jsonl({str(rows)!r}, {new})"
    process = subprocess.Popen([sys.executable, "-c", writer], cwd=ROOT, stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"writing\n"  # it is in the middle of the file now
    process.kill()
    process.wait()
    theirs = [f".rows.jsonl.{platform.node()}.{os.getppid()}.tmp", ".rows.jsonl.elsewhere.7.tmp"]
    for name in theirs:  # of one at work, and of another machine's, which cannot be asked
        (rows.parent / name).touch()
    assert common.read_jsonl(rows) == [{"old": 1}]
    common.write_jsonl(rows, [{"new": 2}])
    assert common.read_jsonl(rows) == [{"new": 2}]
    assert {path.name for path in rows.parent.iterdir()} == {"rows.jsonl", *theirs}


@pytest.mark.parametrize("write", [
    "common.write_jsonl(path, ({'x': 'y' * 1000} for _ in range(10000)))",
    "common.save_pt(path, torch.zeros(100000))",
])  # fmt: skip
def test_a_full_disk_is_one_line_and_loses_nothing(rows, write):
    """64 KB a file: writing fails as on a full disk."""
    writer = f"import common, torch; path = {str(rows)!r}; common.entry(lambda: {write}, '')"
    limited = f"ulimit -f 64; trap '' XFSZ; exec {sys.executable} -c \"{writer}\""
    done = subprocess.run(["bash", "-c", limited], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2 and re.fullmatch("error: cannot write .*\n", done.stderr), done.stderr
    with pytest.raises(ValueError):
        common.write_jsonl(rows, [{"score": float("nan")}])
    assert common.read_jsonl(rows) == [{"old": 1}] and len(list(rows.parent.iterdir())) == 1


class Evil:
    def __reduce__(self):
        return print, ("code ran",)


def torch_saved(value):
    torch.save(value, file := io.BytesIO())
    return file.getvalue()


@pytest.mark.parametrize("name, content, says", [
    ("a.jsonl", b'{"id": 1}\n\n{"id": 2\n', ":3: not JSON"),
    ("a.jsonl", b'{"id": 1}\n[2]\n', ":2: a JSON object is expected, not [2]"),
    ("a.jsonl", b'{"id": 1}\n{"no": 2}\n', ":2: the field 'id' is missing"),
    ("a.jsonl", b'{"id": NaN}\n', ":1: not JSON"),
    ("a.jsonl", b'{"id": "\xff"}\n', "'utf-8' codec can't decode"),
    ("a.jsonl", b'{"id": "\\ud800"}\n', ":1: not JSON ('utf-8' codec can't encode"),  # half a pair
    ("a.pt", torch_saved(torch.zeros(1_000_000))[:-100], "(RuntimeError)"),
    ("a.pt", torch_saved(Evil()), "(UnpicklingError)"),
    *((name, content, says) for name in ("a.jsonl", "a.pt")
      for content, says in ((None, "no such file"), ("folder", "is a directory"))),
])  # fmt: skip
def test_what_cannot_be_read_is_named_and_no_code_runs(name, content, says, tmp_path, capsys):
    path = tmp_path / name
    if content == "folder":
        path.mkdir()
    elif content:
        path.write_bytes(content)
    if name == "a.pt":
        message = dies(capsys, common.load_pt, path)
        is_damaged = "if one of them made it, delete it and run that step again" in message
        assert "code ran" not in message and is_damaged == isinstance(content, bytes)
    else:
        message = dies(capsys, common.read_jsonl, path, needs=("id",))
    assert message.startswith(f"{path}") and says in message


def test_bad_input_is_an_exception_elsewhere_and_one_line_of_a_command(tmp_path):
    caught = "try: common.read_meta('nowhere')\nexcept ValueError as error: print(type(error).__name__, error)"
    done = python(f"import common\n{caught}")
    said = "nowhere/meta.json: no such file or directory; not a run folder of 01_generate.py\n"
    assert (done.returncode, done.stdout, done.stderr) == (0, f"BadInput {said}", "")
    done = python("import common; common.entry(lambda: common.read_meta('nowhere'), '')")
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"error: {said}")


# ----------------------------------------------------------------------------------------------------
# Run folders


@pytest.mark.parametrize("package", ["torch", "numpy", "tqdm", "transformers"])
def test_a_missing_package_is_one_line_that_says_what_to_do(package, tmp_path):
    """Also where a file is about to be read, which is then not to blame."""
    (tmp_path / "sound.pt").write_bytes(torch_saved({"a": 1}))
    uses = {
        "torch": "common.load_pt('sound.pt')", "numpy": "common.best_of_n([1])", "tqdm": "common.progress([1])",
        "transformers": "common.load_config('Qwen/Qwen3-1.7B')",
    }  # fmt: skip
    program = f"import sys; sys.path.append({str(ROOT)!r}); sys.modules[{package!r}] = None; import common; "
    command = [sys.executable, "-c", f"{program} common.entry(lambda: {uses[package]}, '')"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    line = f"error: this Python has no {package}; type `source .venv/bin/activate` and try again (no .venv: "
    assert done.returncode == 2 and done.stderr.startswith(line) and done.stderr.count("\n") == 1, done.stderr


def test_joins_are_checked(tmp_path, capsys):
    rows = [{"id": "a", "sample": 0}, {"id": "a", "sample": 1}]
    keys = common.keys_of(rows)
    assert common.align(rows[::-1], keys, "x") == rows
    for wrong, wanted, says in (
        (rows[:1], keys, "1 rows for a run of 2"), ([rows[0]] * 2, keys, "2 rows but only 1"),
        ([rows[0], {"id": "b", "sample": 0}], keys, "keys differ at"), (rows, keys[:1] * 2, "keys differ"),
    ):  # fmt: skip
        assert says in dies(capsys, common.align, wrong, wanted, "x")
    run = make_run(tmp_path / "run")
    rollouts = common.read_rollouts(run)
    common.check_same_problems(run, rollouts)
    fewer = [row for row in rollouts if row["id"] != "p3"]
    assert "1 of 12 problems have no rollouts" in dies(capsys, common.check_same_problems, run, fewer)
    assert "'p99'" in dies(capsys, common.check_same_problems, run, [*rollouts, {"id": "p99"}])


def test_labels_are_0_1_or_null(tmp_path, capsys):
    """Those older than an edited answer: test_select.py."""
    for label in (2, "yes", 0.5):
        common.write_jsonl(tmp_path / "labels.jsonl", [{"id": "a", "sample": 0, "label": label}])
        assert "0, 1 or null" in dies(capsys, common.read_labels, tmp_path)


def test_layer_names(capsys):
    L = 28
    expected = {"penultimate": 27, "final": 28, "0": 0, "27": 27, "-1": 28, "-2": 27, ".75": 21, "0.6": 16}
    assert {name: common.layer_index(name, L) for name in expected} == expected
    assert common.layer_index(".58", 50) == 29  # floor of exact arithmetic, not of 28.999999999999996
    for bad in ("29", "-30", "1.5", "last", ""):
        assert "unknown layer" in dies(capsys, common.layer_index, bad, L)
    assert common.vector_key("penultimate/eos", L) == common.vector_key("27/eos", L) == (27, "eos")
    dies(capsys, common.vector_key, "penultimate/first", L)


def test_vectors_are_found_under_any_spelling(tmp_path, capsys):
    run = make_run(tmp_path / "run")  # 5 layers
    stored = common.load_pt(run / "hidden.pt")
    keys, hidden = read_vectors(run)
    assert keys == common.keys_of(common.read_rollouts(run))
    assert torch.equal(hidden, stored["hidden"][:, 1]) and hidden.dtype == torch.bfloat16
    assert torch.equal(read_vectors(run, "4/eos")[1], hidden)
    assert not torch.equal(read_vectors(run, "final/eos")[1], hidden)
    assert "penultimate/last" in dies(capsys, read_vectors, run, "2/eos")


def test_a_run_that_is_none_or_unfinished_is_one_line(tmp_path, capsys):
    assert "not a run folder" in dies(capsys, common.read_meta, tmp_path / "typo")
    run = make_run(tmp_path / "run")
    (run / "rollouts.jsonl").unlink()
    assert "generation is not finished" in dies(capsys, common.read_rollouts, run)
    for content, told in (({}, "field 'model' is missing"), ([], "a JSON object"), (None, "a JSON object")):
        common.write_json(run / "meta.json", content)
        assert told in dies(capsys, read_vectors, run)


# ----------------------------------------------------------------------------------------------------
# Statistics and votes


def slow_confidence(stats, vocab, window, tail):
    """The definitions, word for word."""
    out = {}
    for name in common.STATISTICS:
        values = []
        for row in stats:
            top, sampled, mean = row[:10], row[10], row[11]
            q = np.exp(top) / np.exp(top).sum()
            values.append({
                "mean": -sum(top) / 10, "median": -np.median(top),
                "variance": sum((top - sum(top) / 10) ** 2) / 10,
                "gap": np.exp(top[0]) - np.exp(top[1]), "entropy": -sum(q * np.log(q)),
                "self_certainty": -mean - np.log(vocab), "likelihood": sampled,
            }[name])  # fmt: skip
        width = min(window, len(values))
        windows = [np.mean(values[i : i + width]) for i in range(len(values) - width + 1)]
        windows.sort(reverse=name == "entropy")
        out[f"{name}/avg"], out[f"{name}/tail"] = np.mean(values), np.mean(values[-tail:])
        out[f"{name}/lowest"] = windows[0]
        out[f"{name}/bottom10"] = np.mean(windows[: max(1, len(windows) // 10)])
    return out


@pytest.mark.parametrize("length, sizes", [(1, (5, 7)), (5, (5, 7)), (6, (5, 7)), (50, (5, 7)), (3000, ())])
def test_statistics_by_their_definitions(length, sizes):
    """The longest by the windows of DESIGN.md, which are the defaults."""
    stats = -np.sort(np.random.default_rng(length).exponential(2, (length, 12)), 1)
    got, expected = common.confidence(stats, 50, *sizes), slow_confidence(stats, 50, *(sizes or (1024, 2048)))
    assert len(got) == 28 and got == pytest.approx(expected, abs=1e-9)
    assert common.confidence(stats[:0], 50) == dict.fromkeys(expected)  # no tokens


def test_votes_and_ties():
    groups = np.array([[0, 1, 1, -1], [-1, -1, -1, -1], [0, 0, 1, 1], [0, 1, 1, -1]])
    weights = np.array([[0.9, 0.3, 0.4, 5], [1, 2, 3, 4], [0.5, 0.5, 0.6, 0.4], [0.2, 0.1, 0.2, 9]])
    assert common.weighted_vote(groups, weights, weights).tolist() == [0, 3, 2, 2]
    assert common.best_of_n(np.array([1, 3, 3])) == 1
