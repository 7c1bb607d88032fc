"""The README's command, shrunk: five steps on the bundled model, stopped, killed, run again, given nonsense.

Several tests look at what one run_all.sh made.
"""

import fcntl
import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from conftest import ROOT, assert_same_run, python
from test_verifiers import make_final_prm

import common

MODEL = ROOT / "demo" / "model"
MATH_A = ROOT / "demo" / "math_a.jsonl"
MATH_B = ROOT / "demo" / "math_b.jsonl"


def use_one_core():
    """Each process that runs tests has its own, if there are as many."""
    cores = sorted(os.sched_getaffinity(0))
    number = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    os.sched_setaffinity(0, {cores[number % len(cores)]})


def start(out, *args, on_all_cores=False, folder=ROOT, **settings):
    """A small run_all.sh, that of `folder`, that writes to `out`, in a process group of its own.

    On one core step 1 is one process, as each takes seconds to import its packages.
    """
    small = {"N": "4", "LIMIT": "6", "SEEDS": "32", "RUNS": "2", "FLAGS_03": "--configs 1 --workers 1"}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # the Python that runs the tests
    env = {**os.environ, **small, "OUT": str(out), "PATH": path, **settings}
    command = ["bash", str(folder / "run_all.sh"), *map(str, args)]
    how = {"stdout": -1, "stderr": -1, "text": True, "start_new_session": True}
    return subprocess.Popen(command, env=env, preexec_fn=None if on_all_cores else use_one_core, **how)


def run_all(out, *args, code=0, **settings):
    """(standard output, standard error) of one that ends with this exit code."""
    process = start(out, *args, **settings)
    stdout, stderr = process.communicate()
    assert process.returncode == code, stdout + stderr
    return stdout, stderr


def stop_at(out, pattern, send, with_signal, **how):
    """Start run_all.sh, and send it a signal when a file of this name has been written."""
    process = start(out, **how)
    while process.poll() is None and not list(out.rglob(pattern)):
        time.sleep(0.01)
    send(process.pid, with_signal)
    stderr = process.communicate()[1]  # returns when no process is left that could write
    if with_signal != signal.SIGKILL:
        assert process.returncode == 128 + with_signal and stderr.count("stopped: ") == 1, stderr
        assert "Traceback" not in stderr, stderr


def lock(path):
    """An open file that is locked until it is closed."""
    file = open(path, "a")
    fcntl.flock(file, fcntl.LOCK_EX)
    return file


def make_project(folder):
    """The repository without a .venv, whose Python would be taken before the one of PATH."""
    folder.mkdir()
    for path in (ROOT / "run_all.sh", ROOT / "demo", *ROOT.glob("*.py")):
        (folder / path.name).symlink_to(path)
    return folder


@pytest.fixture(scope="module")
def quick(loaded_python, tmp_path_factory):
    """Settings for a run_all.sh whose `python3` forks a process that has imported torch."""
    project = make_project(tmp_path_factory.mktemp("quick") / "project")
    return {"folder": project, "PATH": f"{loaded_python.parent}{os.pathsep}{os.environ['PATH']}"}


@pytest.fixture(scope="module")
def finished(tmp_path_factory, quick):
    """(folder, standard output, standard error) of a demo that was stopped twice, killed once, and resumed.

    `kill` stops it at the first parts; Ctrl-C, which all of its processes get, at the first finished run.
    Made once for all workers of pytest-xdist.
    """
    folder = tmp_path_factory.getbasetemp()
    folder = (folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) / "run_all"
    folder.mkdir(exist_ok=True)
    with lock(folder / "lock"):
        if not (folder / "printed.json").exists():
            stop_at(folder / "out", "parts/*.pt", os.kill, signal.SIGTERM, on_all_cores=True)
            stop_at(folder / "out", "math_a/32/rollouts.jsonl", os.killpg, signal.SIGINT)
            stop_at(folder / "out", "code_b/32/rollouts.jsonl", os.killpg, signal.SIGKILL)
            common.write_json(folder / "printed.json", {"all": run_all(folder / "out", **quick)})
    return folder / "out", *common.read_json(folder / "printed.json")["all"]


def test_the_demo_prints_a_line_a_step_and_one_table_of_both_domains_and_directions(finished):
    out, stdout, stderr = finished
    steps = [line for line in stderr.splitlines() if line.startswith("[")]
    assert [line[:5] for line in steps] == [f"[{n}/5]" for n in range(1, 6)]
    assert steps[0] == "[1/5] generate: math_a math_b code_a code_b"
    rows = "random|greedy|best of the paper's 20|best of all 28|logistic regression|SCaTR+|oracle|±"
    rows += "|majority vote|confidence-weighted vote|SCaTR, weighted vote|math_a → math_b|code_b → code_a"
    assert not [words for words in rows.split("|") if words not in stdout], stdout
    assert len(stdout.splitlines()) < 80
    lines = (stdout + stderr).replace(str(out), "runs").splitlines()
    lines = [re.sub("  +|--+", "  ", line) for line in lines]  # columns are as wide as this folder's name
    assert not [line for line in lines if len(line) > 110 or line.startswith("{") or "\r" in line]


def test_its_last_lines_name_the_answers_of_each_run(finished):
    report, *ends = finished[1].splitlines()[-17:]
    assert report.endswith("math_a-math_b-code_a-code_b/report.md")
    code_a = ROOT / "demo" / "code_a.jsonl"
    for line, scorer, problems in ((*ends[:2], MATH_B), (*ends[-2:], code_a)):
        answers = common.read_jsonl(line.removeprefix("one answer a problem: "))
        assert [row["id"] for row in answers] == [row["id"] for row in common.read_jsonl(problems)[:6]]
        file = Path(scorer.removeprefix("the scorer that picked: "))
        assert file.is_file() and {row["scorer"] for row in answers} == {file.name.partition("@")[0]}


def test_a_killed_run_is_what_01_and_02_make_of_it_without_a_stop(finished, tmp_path, run_here):
    run_here("01_generate.py", MODEL, MATH_A, "-n", 4, "--limit", 6, "--out", tmp_path)
    run = finished[0] / "model" / "math_a" / "32"
    # A resumed batch has other neighbours, and so other last digits.
    assert_same_run(run, tmp_path / "model" / "math_a" / "32", statistics=1e-3)
    run_here("02_label.py", tmp_path / "model" / "math_a" / "32")
    assert (run / "labels.jsonl").read_text() == (tmp_path / "model/math_a/32/labels.jsonl").read_text()
    assert not [path for path in run.rglob(".*")]


def test_a_second_one_waits_for_the_first_and_makes_nothing_again(finished, quick):
    out, stdout, _ = finished
    made = [path for path in out.rglob("*") if path.suffix == ".pt" or path.name == "labels.jsonl"]
    times = {path: path.stat().st_mtime_ns for path in made}
    held = lock(out / "model" / "run_all.log")
    second = start(out, **quick)
    assert "waiting for another run_all.sh that is at work" in second.stderr.readline()
    held.close()
    again, stderr = second.communicate()
    assert second.returncode == 0 and again == stdout
    assert "Loading" not in stderr  # of a model
    assert {path: path.stat().st_mtime_ns for path in times} == times


def test_every_table_of_the_paper_is_made_and_a_part_that_cannot_be_had_is_named(tmp_path, quick):
    """With stand-ins for the reward models, of which one is absent. What an earlier command with more runs or
    seeds has left would be refused if it were read."""
    prm = make_final_prm(tmp_path / "ReasonFlux-PRM-1.5B")
    settings = quick | {"LIMIT": "8", "RUNS": "1", "PRMS": f"{prm} {tmp_path / 'absent'}"}
    for name in ("studies/layers-.3L.code_b@42-32.pt", "both_c/32/scatr.both_c@32-42.pt",
                 "code_a/32/scatr.code_a@32-42.pt"):  # fmt: skip
        file = tmp_path / "out" / "model" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("older")
    stdout, stderr = run_all(tmp_path / "out", "--paper", **settings)
    assert [line for line in stderr.splitlines() if line.startswith("missing: ")] == [
        f"missing: reward model {tmp_path / 'absent'} (the reason stands above)"]  # fmt: skip
    assert stdout.endswith("/paper/paper.md: 21 tables of the paper; 3 cells are missing\n")
    text = (tmp_path / "out" / "paper" / "paper.md").read_text()
    assert text.startswith("# The paper's tables, on other problems than the paper's\n")
    assert re.search(r"\| +both_c \| +openthoughts \| +\|.*\d", text), "of a set that is only learned from"
    made_by = common.read_json(tmp_path / "out" / "paper" / "results.json")["command"]
    assert re.search(r"--only 'designs-\*@32-32' .* scatr.code_a@32-32 .* 'routed.*@32\+32-32' --sets code_a ", made_by)
    assert [int(number) for number in re.findall("^## Table ([0-9]+): ", text, re.M)] == [*range(1, 22)]
    (large,) = (table for table in text.split("\n## ") if table.startswith("Table 19: "))
    assert large.count("| missing |") == 0 and len(re.findall(r"\| +missing \|", large)) == 3


@pytest.mark.parametrize("words", [("--paper", MODEL), (MODEL, MATH_A, "humaneval")])
def test_a_data_set_that_cannot_be_had_is_named_at_once(tmp_path, words):
    nowhere = {"HF_HUB_OFFLINE": "1", "HF_ASSETS_CACHE": str(tmp_path / "assets")}
    _, stderr = run_all(tmp_path / "out", *words, code=2, **nowhere)
    assert stderr.startswith("error: the data set humaneval "), stderr
    assert not (tmp_path / "out").exists()


def test_without_answers_or_scorers_it_still_selects(finished, tmp_path, quick):
    """Nothing is learned from open problems. 03 cannot split the three families of `alike`."""
    shutil.copytree(finished[0] / "model" / "math_a" / "32", tmp_path / "model" / "math_a" / "32")
    rows = common.read_jsonl(MATH_B)[:6]
    common.write_jsonl(tmp_path / "open.jsonl", [{"prompt": row["prompt"], "id": row["id"]} for row in rows])
    alike = [row | {"family": f"of {i % 3}"} for i, row in enumerate(rows)]
    common.write_jsonl(tmp_path / "alike.jsonl", alike)
    sets = MATH_A, tmp_path / "open.jsonl", tmp_path / "alike.jsonl", MATH_B
    stdout, stderr = run_all(tmp_path, MODEL, *sets, SEEDS="32 42", RUNS="1", **quick)
    assert "no labels to judge the answers by" in stdout
    assert "open.jsonl: problems without a kind are math, as those of " in stderr
    asked = common.read_jsonl(tmp_path / "model" / "open" / "32" / "problems.jsonl")
    assert [row["kind"] for row in asked] == ["math"] * 6, "as math_a is, and not as text"
    assert not list(tmp_path.rglob("open/greedy")), "which nothing would be compared with"
    assert "open/32/answers.jsonl: 6 answers, one a problem, picked by\n" in stdout
    assert stderr.count("to 3 problems (a family counts as one); a scorer learns from") == 1
    assert "\nmath_b: no scorer picks, as none has learned from alike (see step 3)\n" in stderr
    of_math_b = common.read_jsonl(tmp_path / "model" / "math_b" / "32" / "answers.jsonl")
    assert {row["strategy"] for row in of_math_b} == {"majority"}
    assert stderr.count("calibrate on 50 or more") == 2, "math_a and math_b"
    chosen = common.read_jsonl(next(tmp_path.rglob("open/32/selected.jsonl")))
    assert {row["strategy"] for row in chosen} == {"best-of-n", "weighted-vote"} and "label" not in chosen[0]
    scorers = {f"{name}.math_a@32-{seed}" for name in ("scatr", "scatr+", "logistic") for seed in (32, 42)}
    assert {row["scorer"] for row in chosen} == scorers
    assert not list(tmp_path.rglob("math_a/greedy"))
    stdout, stderr = run_all(tmp_path, MODEL, *sets[2:0:-1], RUNS="1", **quick)
    assert "\nmissing: scorers (the reason stands above)\n" in stderr
    assert "\nopen: no scorer picks, as none has learned from alike (see step 3)\n" in stderr
    assert stdout.splitlines()[-2] == "the scorer that picked: none was given"
    answers = common.read_jsonl(tmp_path / "model" / "open" / "32" / "answers.jsonl")
    assert [(row["scorer"], row["p"], row["strategy"]) for row in answers] == [(None, None, "majority")] * 6


def test_a_step_3_that_fails_is_not_taken_for_nothing_to_learn(finished, tmp_path, quick):
    shutil.copytree(finished[0] / "model", tmp_path / "model")
    settings = quick | {"FLAGS_03": "--configs 1 --device no-such"}
    _, stderr = run_all(tmp_path, MODEL, MATH_A, MATH_B, code=2, **settings)
    assert "--device no-such: torch cannot use it here" in stderr
    assert "[4/5]" not in stderr and "missing" not in stderr


def test_answers_and_the_report_are_of_the_scorers_that_this_command_asks_for(finished, tmp_path, quick):
    """Older ones of other designs, seeds and names, which learned from a reference that was wrong, are not used."""
    for name in ("math_a", "math_b"):
        shutil.copytree(finished[0] / "model" / name / "32", tmp_path / "model" / name / "32")
    rows = common.read_jsonl(MATH_A)[:6]
    common.write_jsonl(tmp_path / "math_a.jsonl", [rows[0] | {"answer": "7"}, *rows[1:]])
    flags = "--configs 1 --workers 1 --design logistic --vector final/last -o mine.pt"
    settings = quick | {"BOTH": "0", "RUNS": "1", "SEEDS": "7", "FLAGS_03": flags}
    run_all(f"{tmp_path}/./", MODEL, tmp_path / "math_a.jsonl", MATH_B, **settings)
    (scorer,) = (tmp_path / "model" / "math_a" / "32").glob("mine*.pt")
    made = common.load_pt(scorer)
    assert [made[name] for name in ("design", "seed", "vector")] == ["logistic", 7, "final/last"]
    run = tmp_path / "model" / "math_b" / "32"
    for file in ("selected.jsonl", "answers.jsonl"):
        assert {row["scorer"].partition("@")[0] for row in common.read_jsonl(run / file)} == {"mine.math_a"}
    (section,) = common.read_json(tmp_path / "model" / "math_a-math_b" / "results.json")["sections"]
    assert [row["method"] for row in section["rows"] if row["kind"] == "scorer"] == ["mine (math_a)"]


STUB = """\
#!/bin/bash
case "$*" in
    *device_count*) echo {gpus} ;;
    */0[1-5]_*.py*)
        echo "${{RANK:-}}/${{WORLD_SIZE:-}} ${{1##*/}} ${{*:2}}" >>{folder}/calls
        case $1 in */03_*) echo "scorer: {folder}/model/a/32/any name.pt" ;; esac ;;
    *) exec {python} "$@" ;;
esac
[ "${{LOCAL_RANK:-}}" ] || exit 0
touch {folder}/gpu-$LOCAL_RANK
for i in {{1..1200}}; do # until all GPUs have something to do
    [ "$(ls {folder}/gpu-* | wc -l)" = {gpus} ] && break
    sleep 0.1
done
echo "$LOCAL_RANK ${{*:2}}" >>{folder}/calls-$i
[[ $* != *absent* ]] || {{ echo "error: it is absent" >&2; exit 2; }}
"""


def put_stand_ins(folder, gpus):
    """(a project, settings) of a run_all.sh whose steps only note how they are called."""
    project = make_project(folder / "project")
    stub = folder / "bin" / "python3"
    stub.parent.mkdir()
    stub.write_text(STUB.format(gpus=gpus, folder=folder, python=sys.executable))
    stub.chmod(0o755)
    path = f"{stub.parent}{os.pathsep}{os.environ['PATH']}"
    return {"folder": project, "PATH": path, "SEEDS": "32", "RUNS": "1"}


@pytest.mark.parametrize("gpus, ranks", [(1, ["/"]), (3, ["0/3", "1/3", "2/3"])])
def test_steps_of_your_own_files_one_process_a_gpu(tmp_path, gpus, ranks):
    """Labels are as another program may write them, without blanks."""
    settings = put_stand_ins(tmp_path, gpus)
    a, b = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    a.write_text('{"prompt": "1 + 1?", "answer": 2}\n')
    b.write_text('{"prompt": "3 + 3?", "answer": null}\n')
    runs = [tmp_path / "model" / name / "32" for name in "ab"]
    for run in runs:
        run.mkdir(parents=True)
    (runs[1] / "labels.jsonl").write_text('{"id":"1","sample":0,"label":1}\n')
    (runs[0] / "scatr.a@32-32.pt").touch()  # as an older command has left it
    run_all(tmp_path, MODEL, a, b, **settings)
    calls = (tmp_path / "calls").read_text().splitlines()
    planned, calls = calls[:2], calls[2:]
    sizes = f"-n 4 --out {tmp_path} --limit 6"
    once, per_gpu = [], []
    for call in calls:
        (per_gpu if "01_generate" in call else once).append(call)
    sampled = [f"01_generate.py {MODEL} {sizes} --seed 32 {a}",
               f"01_generate.py {MODEL} {sizes} --seed 32 {b} --kind math"]  # fmt: skip
    assert sorted(per_gpu) == sorted(f"{rank} {call}" for rank in ranks for call in sampled)
    plan = f"/ 01_generate.py {MODEL} {sizes} --plan"
    assert planned == [f"{plan} {a}", f"{plan} {b} --kind math"]
    assert once[0] == f"/ 02_label.py {runs[0]} {runs[1]}"
    assert once[2:] == [
        f"/ 04_select.py {runs[1]} --scorer {runs[0]}/any name.pt",
        f"/ 05_baselines.py {runs[1]} --only any name --out {tmp_path}/model/a-b",
    ]


@pytest.mark.parametrize("engine", ["", "--engine vllm"])
def test_the_papers_parts_keep_each_gpu_busy(tmp_path, engine):
    """A reward model reads five runs on three GPUs side by side; the other one is absent. vLLM, of which no more
    is looked for here than whether it is installed, samples on all GPUs by itself, and reads no final layer."""
    (tmp_path / "vllm.py").touch()
    settings = put_stand_ins(tmp_path, 3)
    common_file = tmp_path / "project" / "common.py"
    common_file.unlink()  # the data sets cannot be downloaded here
    problems = 'def load_problems(*_):\n    return [{"id": "1", "kind": "math", "prompt": "1 + 1?", "answer": "2"}]\n'
    common_file.write_text(f"{(ROOT / 'common.py').read_text()}\n\n{problems}")
    settings |= {"PRMS": "there absent", "PYTHONPATH": str(tmp_path)}
    _, stderr = run_all(tmp_path, "--paper", MODEL, FLAGS_01=engine, **settings)
    missing = [line for line in stderr.splitlines() if line.startswith("missing: ")]
    log = tmp_path / "model" / "run_all.log"
    above, elsewhere = "missing: reward model absent (the reason stands above)", f"in {log}"
    assert len(missing) == 3 and above in missing and sum(elsewhere in line for line in missing) == 2
    assert "\nerror: it is absent\n" in stderr and log.read_text().count("error: it is absent") == 2
    calls = (tmp_path / "calls").read_text().splitlines()
    layers = ".15,.3,.45,.6,.75,.9,penultimate"
    studies = [call for call in calls if layers in call]
    if engine:
        assert [call.split(" ")[0] for call in studies] == ["/"] and studies[0].endswith(f" --layers {layers}")
    else:
        assert sorted(call.split(" ")[0] for call in studies) == ["0/3", "1/3", "2/3"]
        assert all(call.endswith(f"{layers},final --extra last10,special") for call in studies)
    at_work = [line for file in tmp_path.glob("calls-*") for line in file.read_text().splitlines()]
    assert not (tmp_path / "calls-1200").exists(), "parts were begun one after another"
    sets = "humaneval", "kodcode", "math500", "aime25", "aime24"
    runs = [f"{tmp_path}/model/{name}/32" for name in sets]
    learned_from = [line.split(" ")[:3] for line in at_work if " lora " in line]
    assert sorted(learned_from) == sorted([str(i % 3), "lora", run] for i, run in enumerate(runs[:4]))
    reads = [line.split(" ")[1:-2] for line in at_work if line.endswith("--prm there")]
    assert sorted(reads) == sorted(["prm", *runs[i::3]] for i in range(3))
    assert sum(" route " in line for line in at_work) == 3


BAD = [  # arguments and settings; what is said of them
    ("no/such/folder {demo}/math_a.jsonl {demo}/math_b.jsonl", "no/such/folder: there is no such folder"),
    ("{demo}/model {demo}/math_a.jsonl nonsense", "known names are"),
    ("{demo}/model {demo}/math_a.jsonl", "give MODEL A B"),
    ("--paper --plam", "--plam is no option"), ("SEEDS=a", "03_train_scorer.py: argument --seed"),
    ("{demo}/model {demo}/math_a.jsonl {demo}/math_a.jsonl", "other problems than you calibrate on"),
    ("RUNS=08", "RUNS is '08'; give a whole number from 1"),
    ("FLAGS_02=--self-check", "python 02_label.py A --self-check"),
    ("FLAGS_05=--bogus", "05_baselines.py report: unrecognized arguments: --bogus"),
    ("FLAGS_01=--seed,5", "FLAGS_01: run_all.sh gives --seed by itself; set RUNS"),
    ("FLAGS_01=--responses=made.jsonl", "give it to 01_generate.py first"),
    ("FLAGS_05=--out,/proc/x", "set OUT"), ("BOTH=no", "BOTH is 'no'"),
    ("FLAGS_04=--strategy,weighted-vote", "code_b.jsonl asks for programs, which cannot be equal"),
    ("FLAGS_03=--vector,3/eos", "set FLAGS_01='--layers penultimate,final,3'"),
    ("FLAGS_03=--design,transformer-special", "set FLAGS_01='--extra special'"),
    ("{demo}/model {tmp}/typo.jsonl {tmp}/open.jsonl", "no problem has an `answer` or `tests` to learn from, only anwser, prompt"),
    ("{demo}/model {tmp}/open.jsonl {demo}/math_a.jsonl", "math_a.jsonl has them: give MODEL "),
    ("{demo}/model {demo}/math_a.jsonl {tmp}/long.jsonl", "1 prompts leave no room for an answer"),
]


@pytest.mark.parametrize("args, words", BAD)
def test_bad_input_is_one_line_and_exit_code_2_before_any_work(tmp_path, quick, args, words):
    """A comma in a setting stands for a space."""
    (tmp_path / "typo.jsonl").write_text('{"prompt": "1+1", "anwser": "2"}\n')
    (tmp_path / "open.jsonl").write_text('{"prompt": "1+1"}\n')
    common.write_jsonl(tmp_path / "long.jsonl", [{"prompt": "1+1" * 1000}])
    settings = dict(arg.replace(",", " ").split("=", 1) for arg in args.split() if "=" in arg)
    args = [arg.format(demo=ROOT / "demo", tmp=tmp_path) for arg in args.split() if "=" not in arg]
    _, stderr = run_all(tmp_path / "out", *args, code=2, **quick, **settings)
    assert "Traceback" not in stderr, stderr
    assert {path.name for path in (tmp_path / "out").rglob("*") if path.is_file()} <= {"run_all.log"}
    assert [line for line in stderr.splitlines() if line.startswith("error: ") and words in line], stderr


@pytest.mark.parametrize("script", ["sandbox_exec.py", *sorted(path.name for path in ROOT.glob("0*.py"))])
def test_help_answers_at_once(script):
    """Within a second of CPU time, and where no package is installed."""
    done = python(
        "import sys, runpy, resource\n"
        "sys.argv = ['x', '-h']\n"
        f"try: runpy.run_path({script!r}, run_name='__main__')\n"
        "except SystemExit as stop: assert not stop.code, stop.code\n"
        "assert not {'torch', 'transformers', 'numpy', 'tqdm'} & set(sys.modules)\n"
        "assert sum(resource.getrusage(resource.RUSAGE_SELF)[:2]) < 1.0\n"
    )
    assert done.returncode == 0 and "usage" in done.stdout, done.stdout + done.stderr
    assert not [line for line in done.stdout.splitlines() if len(line) > 80]


def test_the_judge_of_maths_is_copied_alone_and_its_help_is_true_as_pasted(tmp_path):
    (tmp_path / "02_label.py").write_bytes((ROOT / "02_label.py").read_bytes())
    command = [sys.executable, "02_label.py", "-h"]
    alone = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert alone.returncode == 1 and alone.stderr == (
        "error: to label runs, this file needs common.py and sandbox_exec.py beside it\n"
    )
    here = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    for shown in (alone.stdout, here.stdout):
        snippet = textwrap.dedent(re.search(r"^    import importlib\n(    .*\n)+", shown, re.M)[0])
        done = subprocess.run([sys.executable, "-c", snippet], cwd=tmp_path, capture_output=True, text=True)
        assert done.stdout == "True\n", done.stderr
