"""Files, joins, layer names and token statistics: each rule of the run folder fails loudly when broken."""

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
from conftest import ROOT, dies, make_run, read_vectors

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
    child.join()
common.entry({main}, "what was kept")
"""


SLOW = """
class Slow:
    def __del__(self, sleep=__import__("time").sleep):
        sleep(60)
slow = Slow()  # as torch on a busy machine: taken down with the interpreter, when no thread runs any more
"""


@pytest.mark.parametrize("to_all", [True, False])  # a terminal tells all of the group, `kill -INT` the one
def test_ctrl_c_is_one_line_and_ends_everything(to_all):
    """Also where the main thread waits for a child that does not know of it."""
    program = SLOW + PROGRAM.format(main="main")
    process = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, text=True, start_new_session=True,
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
    ("04_select.py", "{run} --scorer {out}.pt", "runs that are scored"),
])  # fmt: skip
def test_ctrl_c_in_scripts(script, args, keeps, tmp_path):
    """While it reads: one of its inputs is a pipe, so the moment is certain."""
    run = make_run(tmp_path / "run")
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


@pytest.mark.parametrize("printed", [100_000, 1])  # more than a pipe holds; what waits in the buffer
def test_a_closed_pipe_ends_quietly(printed):
    program = PROGRAM.format(main=f"lambda: print('line\\n' * {printed})")
    command = ["bash", "-c", 'set -o pipefail; "$0" -c "$1" | (exec <&-; sleep 0.1)', sys.executable, program]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, "")


def test_another_broken_pipe_is_a_bug_and_says_so():
    program = PROGRAM.format(main="lambda: [pipe := os.pipe(), os.close(pipe[0]), os.write(pipe[1], b'x')]")
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1 and "BrokenPipeError" in done.stderr


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


def test_a_bar_on_a_terminal_is_at_most_110_columns():
    import fcntl
    import pty
    import struct
    import termios

    program = "import common, time\nfor _ in common.progress(range(3), desc='d' * 200): time.sleep(0.6)"
    main, side = pty.openpty()
    fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 200, 0, 0))
    process = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stdout=side, stderr=side)
    os.close(side)
    said = b""
    with suppress(OSError):
        while part := os.read(main, 4096):
            said += part
    assert process.wait() == 0
    bars = [line for line in said.decode().replace("\r", "\n").splitlines() if line.strip()]
    assert bars and max(map(len, bars)) <= 110, bars


def test_a_killed_write_leaves_the_old_file_whole(tmp_path):
    path = tmp_path / "rows.jsonl"
    common.write_jsonl(path, [{"old": 1}])
    rows = "({'new': i, 'x': print('writing', flush=True) if i == 20000 else 0} for i in itertools.count())"
    writer = f"import common, itertools; common.write_jsonl({str(path)!r}, {rows})"
    process = subprocess.Popen([sys.executable, "-c", writer], cwd=ROOT, stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"writing\n"  # it is in the middle of the file now
    process.kill()
    process.wait()
    assert common.read_jsonl(path) == [{"old": 1}]
    common.write_jsonl(path, [{"new": 2}])
    assert common.read_jsonl(path) == [{"new": 2}] and len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("write", [
    "common.write_jsonl(path, ({'x': 'y' * 1000} for _ in range(10000)))",
    "import torch; common.save_pt(path, torch.zeros(100000))",
])  # fmt: skip
def test_a_full_disk_is_one_line_and_loses_nothing(tmp_path, write):
    """64 KB a file: writing fails as on a full disk."""
    path = tmp_path / "rows.jsonl"
    common.write_jsonl(path, [{"old": 1}])
    writer = f"import common; path = {str(path)!r}; {write}"
    limited = f"ulimit -f 64; trap '' XFSZ; exec {sys.executable} -c \"{writer}\""
    done = subprocess.run(["bash", "-c", limited], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2 and re.fullmatch("error: cannot write .*\n", done.stderr), done.stderr
    assert common.read_jsonl(path) == [{"old": 1}]
    assert [p.name for p in tmp_path.iterdir()] == ["rows.jsonl"]


@pytest.mark.parametrize("content, says", [
    (b'{"id": 1}\n\n{"id": 2\n', ":3: not JSON"),
    (b'{"id": 1}\n[2]\n', ":2: a JSON object is expected, not [2]"),
    (b'{"id": 1}\n{"no": 2}\n', ":2: the field 'id' is missing"),
    (b'{"id": "\xff"}\n', "not JSON in UTF-8"),
    (b'{"id": "\\ud800"}\n', ":1: not JSON ('utf-8' codec can't encode"),  # half of a surrogate pair
    (None, "no such file"),
    ("folder", "is a directory"),
])  # fmt: skip
def test_what_cannot_be_read_is_named(content, says, tmp_path, capsys):
    path = tmp_path / "a.jsonl"
    if content == "folder":
        path.mkdir()
    elif content:
        path.write_bytes(content)
    message = dies(capsys, common.read_jsonl, path, needs=("id",))
    assert message.startswith(f"error: {path}") and says in message


def test_messages_may_stand_for_the_prompt(tmp_path, capsys):
    parts = [{"type": "text", "text": "1"}, {"type": "text", "text": "+1"}]
    messages = [{"role": "system", "content": "s"}, {"role": "user", "content": parts}]
    common.write_jsonl(tmp_path / "m.jsonl", [{"messages": messages}])
    problem = common.load_problems(tmp_path / "m.jsonl")[0]
    assert problem["prompt"] == "1+1" and problem["messages"][1] == {"role": "user", "content": "1+1"}
    for messages in ("hello", [{"role": "user"}], [{"role": "user", "content": None}], [7]):
        common.write_jsonl(tmp_path / "m.jsonl", [{"prompt": "x", "messages": messages}])
        assert "'messages' must be a list" in dies(capsys, common.load_problems, tmp_path / "m.jsonl")


def test_labels_are_0_1_or_null(tmp_path, capsys):
    for label in (2, "yes", 0.5):
        common.write_jsonl(tmp_path / "labels.jsonl", [{"id": "a", "sample": 0, "label": label}])
        assert "0, 1 or null" in dies(capsys, common.read_labels, tmp_path)


def test_a_file_left_half_written_by_a_killed_process_goes(tmp_path):
    dead = subprocess.Popen(["true"])
    dead.wait()
    mine, theirs = (f".a.jsonl.{platform.node()}.{pid}.tmp" for pid in (dead.pid, os.getppid()))
    for name in (mine, theirs, ".a.jsonl.elsewhere.7.tmp"):  # another machine's process cannot be asked
        (tmp_path / name).touch()
    common.write_jsonl(tmp_path / "a.jsonl", [])
    assert {path.name for path in tmp_path.iterdir()} == {"a.jsonl", theirs, ".a.jsonl.elsewhere.7.tmp"}


def test_the_windows_of_design_are_the_defaults():
    rng = np.random.default_rng(0)
    stats = -np.sort(-rng.normal(-3, 1, (3000, 12)), 1)
    found, likelihood = common.confidence(stats, 100), stats[:, 10]
    windows = np.convolve(likelihood, np.ones(1024) / 1024, "valid")
    assert found["likelihood/tail"] == pytest.approx(likelihood[-2048:].mean())
    assert found["likelihood/lowest"] == pytest.approx(windows.min())
    assert found["likelihood/bottom10"] == pytest.approx(np.sort(windows)[: len(windows) // 10].mean())


def test_numbers_in_json_are_finite(tmp_path):
    with pytest.raises(ValueError):
        common.write_jsonl(tmp_path / "a.jsonl", [{"score": float("nan")}])
    assert list(tmp_path.iterdir()) == []


class Evil:
    def __reduce__(self):
        return print, ("code ran",)


def test_pt_files_run_no_code(tmp_path, capsys):
    torch.save(Evil(), tmp_path / "evil.pt")
    assert "code ran" not in dies(capsys, common.load_pt, tmp_path / "evil.pt")


def test_joins_are_checked(tmp_path, capsys):
    rows = [{"id": "a", "sample": 0}, {"id": "a", "sample": 1}]
    assert common.align(rows[::-1], [("a", 0), ("a", 1)], "x") == rows
    assert "1 rows for a run of 2" in dies(capsys, common.align, rows[:1], [("a", 0), ("a", 1)], "x")
    assert "2 rows but only 1" in dies(capsys, common.align, [rows[0]] * 2, [("a", 0), ("a", 1)], "x")
    swapped = [rows[0], {"id": "b", "sample": 0}]
    assert "keys differ at" in dies(capsys, common.align, swapped, [("a", 0), ("a", 1)], "x")
    dies(capsys, common.align, rows, [("a", 0), ("a", 0)], "x")


def test_problems_and_rollouts_are_held_together(tmp_path, capsys):
    run = make_run(tmp_path / "run")
    rollouts = common.read_rollouts(run)
    common.check_same_problems(run, rollouts)
    fewer = [row for row in rollouts if row["id"] != "p3"]
    assert "1 of 12 problems have no rollouts" in dies(capsys, common.check_same_problems, run, fewer)
    assert "'p99'" in dies(capsys, common.check_same_problems, run, [*rollouts, {"id": "p99"}])


def test_layer_names(capsys):
    L = 28
    expected = {"penultimate": 27, "final": 28, "0": 0, "27": 27, "-1": 28, "-2": 27, ".75": 21, "0.15": 4}
    assert {name: common.layer_index(name, L) for name in expected} == expected
    assert common.layer_index(".3", 10) == 3  # floor of exact arithmetic, not of 2.9999999999999996
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


def test_no_run_is_told_from_an_unfinished_one(tmp_path, capsys):
    assert "not a run folder" in dies(capsys, common.read_rollouts, tmp_path / "typo")
    run = make_run(tmp_path / "run")
    (run / "rollouts.jsonl").unlink()
    assert "not finished" in dies(capsys, common.read_rollouts, run)


def test_meta_json_of_nothing_is_one_line(tmp_path, capsys):
    run = make_run(tmp_path / "run")
    for content, told in (({}, "field 'model' is missing"), ([], "a JSON object"), (None, "a JSON object")):
        common.write_json(run / "meta.json", content)
        assert told in dies(capsys, read_vectors, run)


def test_labels_older_than_an_edited_answer_are_named(tmp_path, capsys):
    run = make_run(tmp_path / "run")
    common.read_labels(run)
    assert capsys.readouterr().err == ""
    later = (run / "labels.jsonl").stat().st_mtime + 5
    os.utime(run / "problems.jsonl", (later, later))
    common.read_labels(run)
    assert "labels.jsonl is older than problems.jsonl" in capsys.readouterr().err


def test_why_a_file_cannot_be_read_is_said(tmp_path, capsys):
    torch.save(torch.zeros(30_000_000), tmp_path / "whole.pt")
    program = (
        "import common, resource, torch\n"
        "size = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
        "resource.setrlimit(resource.RLIMIT_AS, (size + 50_000_000,) * 2)\n"
        f"common.load_pt({str(tmp_path / 'whole.pt')!r})"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2 and re.fullmatch("(?i)error: .* memory.*\n", done.stderr), done.stderr
    (tmp_path / "folder.pt").mkdir()
    assert "is a directory" in dies(capsys, common.load_pt, tmp_path / "folder.pt")  # root may read all else
    assert "no such file" in dies(capsys, common.load_pt, tmp_path / "none.pt")
    (tmp_path / "torn.pt").write_bytes((tmp_path / "whole.pt").read_bytes()[:-100])
    message = dies(capsys, common.load_pt, tmp_path / "torn.pt")
    assert "torn.pt: RuntimeError: " in message and "delete it and run its step again" in message


def slow_confidence(stats, vocab, window, tail):
    """The definitions, word for word."""
    out = {}
    for name in common.STATISTICS:
        values = []
        for row in np.asarray(stats, dtype=float):
            top, sampled, mean = row[:10], row[10], row[11]
            q = np.exp(top) / np.exp(top).sum()
            values.append({
                "mean": -sum(top) / 10, "median": -np.median(top),
                "variance": sum((top - sum(top) / 10) ** 2) / 10,
                "gap": np.exp(top[0]) - np.exp(top[1]), "entropy": -sum(q * np.log(q)),
                "self_certainty": -mean - np.log(vocab), "likelihood": sampled,
            }[name])  # fmt: skip
        worst = max if name == "entropy" else min
        w = min(window, len(values))
        windows = (sum(values[i : i + w]) / w for i in range(len(values) - w + 1))
        windows = sorted(windows, reverse=worst is max)
        out[f"{name}/avg"] = sum(values) / len(values)
        out[f"{name}/tail"] = sum(values[-tail:]) / len(values[-tail:])
        out[f"{name}/lowest"] = windows[0]
        tenth = windows[: max(1, len(windows) // 10)]
        out[f"{name}/bottom10"] = sum(tenth) / len(tenth)
    return out


@pytest.mark.parametrize("length", [1, 5, 6, 50])
def test_statistics_by_their_definitions(length):
    rng = np.random.default_rng(length)
    stats = -np.sort(rng.exponential(2, (length, 12)), 1)
    got, expected = common.confidence(stats, 50, window=5, tail=7), slow_confidence(stats, 50, 5, 7)
    assert got.keys() == expected.keys() and len(got) == 28
    for name in expected:
        assert got[name] == pytest.approx(expected[name], abs=1e-9), name


def test_an_empty_trace_has_no_confidence():
    assert set(common.confidence(np.zeros((0, 12)), 50).values()) == {None}


def test_votes_and_ties():
    groups = np.array([[0, 1, 1, -1], [-1, -1, -1, -1], [0, 0, 1, 1], [0, 1, 1, -1]])
    weights = np.array([[0.9, 0.3, 0.4, 5], [1, 2, 3, 4], [0.5, 0.5, 0.6, 0.4], [0.2, 0.1, 0.2, 9]])
    assert common.weighted_vote(groups, weights, weights).tolist() == [0, 3, 2, 2]
    assert common.best_of_n(np.array([1, 3, 3])) == 1
