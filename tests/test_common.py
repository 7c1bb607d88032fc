"""Programs, files, joins, layer names, token statistics: each rule of a run folder fails loudly if broken."""

import os
import resource
import signal
import subprocess
import sys

import numpy as np
import pytest
import torch
from conftest import ROOT, dies, python

import common

# ---- Errors and progress


def test_a_number_that_is_none_is_never_written(tmp_path):
    with pytest.raises(ValueError):
        common.write_json(tmp_path / "a.json", {"score": float("nan")})
    with pytest.raises(ValueError):
        common.write_jsonl(tmp_path / "a.jsonl", [{"score": float("inf")}])
    assert not list(tmp_path.iterdir())


def test_a_closed_pipe_ends_without_a_traceback():
    program = "import common\ncommon.entry(lambda: [print(i) for i in range(100_000)], '')"
    ended = subprocess.run(["bash", "-c", f'"{sys.executable}" -c "$0" | head -1', program], cwd=ROOT,
                           capture_output=True, text=True, timeout=60)  # fmt: skip
    assert (ended.stdout, ended.stderr) == ("0\n", "")


@pytest.mark.parametrize("send", [os.kill, os.killpg])  # `kill -INT`, and a terminal's Ctrl-C
def test_ctrl_c_is_one_line_and_ends_the_workers_too(send):
    program = (  # a signal just before a sleep is handled after it, so each sleep is short
        "import common, multiprocessing, time\n"
        "def work():\n"
        "    print('x', end='', flush=True)\n"
        "    while True:\n"
        "        time.sleep(1)\n"
        "def main():\n"
        "    multiprocessing.Process(target=work).start()\n"
        "    work()\n"
        "common.entry(main, 'what was kept')\n"
    )
    command, pipe = [sys.executable, "-c", program], subprocess.PIPE
    process = subprocess.Popen(command, cwd=ROOT, text=True, start_new_session=True, stdout=pipe, stderr=pipe)
    assert process.stdout.read(2) == "xx"
    send(process.pid, signal.SIGINT)
    stderr = process.communicate(timeout=60)[1]  # returns when no process is left that could write
    assert (process.returncode, stderr) == (130, "\nstopped: what was kept\n")


@pytest.mark.parametrize("package, use", [
    ("torch", "common.load_pt('README.md')"),  # the file is not to blame
    ("tqdm", "common.progress([1])"),
])  # fmt: skip
def test_a_missing_package_is_one_line_that_says_what_to_do(package, use):
    absent = f"import sys; sys.modules[{package!r}] = None"
    done = python(f"{absent}; import common; common.entry(lambda: {use}, '')")
    advice = "; type `source .venv/bin/activate`, or `pip install -r requirements.txt`, and try again\n"
    assert done.returncode == 2 and done.stderr.endswith(advice) and done.stderr.count("\n") == 1, done.stderr


# ---- Files


@pytest.fixture
def rows(tmp_path):
    common.write_jsonl(tmp_path / "rows.jsonl", [{"old": 1}])
    return tmp_path / "rows.jsonl"


def test_a_killed_write_leaves_the_old_file_whole(rows):
    new = "({'new': i, 'x': print('writing', flush=True) if i == 20000 else 0} for i in itertools.count())"
    writer = f"import common, itertools; common.write_jsonl({str(rows)!r}, {new})"
    process = subprocess.Popen([sys.executable, "-c", writer], cwd=ROOT, stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"writing\n"  # it is in the middle of the file now
    process.kill()
    process.wait()
    assert common.read_jsonl(rows) == [{"old": 1}]
    [left] = {*rows.parent.iterdir()} - {rows}
    running = left.with_name(left.name.replace(f".{process.pid}.", f".{os.getppid()}."))
    running.touch()
    common.write_jsonl(rows, [{"new": 2}])
    assert common.read_jsonl(rows) == [{"new": 2}]
    assert {*rows.parent.iterdir()} == {rows, running}, "what a process that has ended left is gone"


def test_a_full_disk_is_one_line_and_loses_nothing(rows, capsys):
    """With a limit of 64 KB a file, writing fails as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, before[1]))
    try:
        assert "cannot write" in dies(capsys, common.save_pt, rows, torch.zeros(100000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert common.read_jsonl(rows) == [{"old": 1}] and list(rows.parent.iterdir()) == [rows]


class Evil:
    def __reduce__(self):
        return print, ("code ran",)


def test_a_pt_file_that_is_torn_or_holds_code_is_named_and_no_code_runs(tmp_path, capsys):
    path = tmp_path / "a.pt"
    torch.save(Evil(), path)
    error = dies(capsys, common.load_pt, path)
    assert "delete it and run that script again" in error and "code ran" not in error
    torch.save(torch.zeros(1_000_000), path)
    path.write_bytes(path.read_bytes()[:-100])
    assert "delete it and run that script again" in dies(capsys, common.load_pt, path)


# ---- Run folders


@pytest.mark.parametrize("samples, keys, says", [
    ([0], [0, 1], "1 rows for a run of 2"),
    ([0, 0], [0, 1], "2 rows but only 1"),
    ([0, 2], [0, 1], "keys differ at"),
    ([0, 1], [0, 0], "keys differ at"),
])  # fmt: skip
def test_joins_are_checked(samples, keys, says, capsys):
    rows = [{"id": "a", "sample": sample} for sample in samples]
    assert says in dies(capsys, common.align, rows, [("a", sample) for sample in keys], "x")


@pytest.mark.parametrize("label", [2, "yes", 0.5])
def test_labels_are_0_1_or_null(label, tmp_path, capsys):
    common.write_jsonl(tmp_path / "labels.jsonl", [{"id": "a", "sample": 0, "label": label}])
    assert "0, 1 or null" in dies(capsys, common.read_labels, tmp_path)


def test_a_stamp_is_of_the_content_of_its_parts_alone(tmp_path):
    for name, text in (("one", "text"), ("copy", "text"), ("other", "texts")):
        (tmp_path / name).write_text(text)
    assert common.stamp(tmp_path / "one") == common.stamp(tmp_path / "copy") == common.stamp(b"text")
    assert common.stamp({"a": 1, "b": 2}) == common.stamp({"b": 2, "a": 1})
    parts = [[tmp_path / "one"], [tmp_path / "other"], [[1, 2]], [1, 2], [2, 1], [12], [], [b"", b"12"]]
    assert len({common.stamp(*each) for each in parts}) == len(parts), "order and boundaries count"


def test_layer_names(capsys):
    L = 28
    expected = {"penultimate": 27, "final": 28, "0": 0, "27": 27, "-1": 28, "-2": 27, ".75": 21, "0.6": 16}
    assert {name: common.layer_index(name, L) for name in expected} == expected
    assert common.layer_index(".58", 50) == 29  # floor of exact arithmetic, not of 28.999999999999996
    for bad in ("29", "-30", "1.5", "last", ""):
        assert "unknown layer" in dies(capsys, common.layer_index, bad, L)
    assert common.vector_key("penultimate/eos", L) == common.vector_key("27/eos", L) == (27, "eos")
    dies(capsys, common.vector_key, "penultimate/first", L)


# ---- Statistics and votes


def slow_confidence(stats, vocab):
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
        windows = [np.mean(values[max(0, end - common.WINDOW) : end]) for end in range(1, len(values) + 1)]
        windows.sort(reverse=name == "entropy")
        out[f"{name}/avg"], out[f"{name}/tail"] = np.mean(values), np.mean(values[-common.TAIL :])
        out[f"{name}/lowest"] = windows[0]
        out[f"{name}/bottom10"] = np.mean(windows[: max(1, len(windows) // 10)])
    return out


@pytest.mark.parametrize("length, window, tail", [
    (1, 5, 7), (5, 5, 7), (6, 5, 7), (50, 5, 7), (2100, 1024, 2048),
])  # fmt: skip
def test_statistics_by_their_definitions(length, window, tail, monkeypatch):
    """The longest by the paper's windows, which are the defaults."""
    assert (common.WINDOW, common.TAIL) == (1024, 2048)
    monkeypatch.setattr(common, "WINDOW", window)
    monkeypatch.setattr(common, "TAIL", tail)
    stats = -np.sort(np.random.default_rng(length).exponential(2, (length, 12)), 1)
    got, expected = common.confidence(stats, 50), slow_confidence(stats, 50)
    assert len(got) == 28 and got == pytest.approx(expected, abs=1e-9)
    assert common.confidence(stats[:0], 50) == dict.fromkeys(expected)  # no tokens


def test_votes_and_ties():
    groups = np.array([[0, 1, 1, -1], [-1, -1, -1, -1], [0, 0, 1, 1], [0, 1, 1, -1]])
    weights = np.array([[0.9, 0.3, 0.4, 5], [1, 2, 3, 4], [0.5, 0.5, 0.6, 0.4], [0.2, 0.1, 0.2, 9]])
    assert common.weighted_vote(groups, weights, weights)[:, 0].tolist() == [0, 3, 2, 2]
    assert common.best_of_n(groups, weights, np.array([1, 3, 3])).tolist() == [1, 2, 0]
