"""What several test files share: the scripts as programs, small run folders, tokenizers and scorers."""

import importlib
import io
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from types import SimpleNamespace

os.environ.setdefault("OMP_NUM_THREADS", "1")  # waiting threads make tiny models a hundred times slower
if not os.environ.get("SCATR_GPU"):  # the numbers are those of a CPU; test_gpu.py says what a GPU is for
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import CONFIG_MAPPING, AutoModelForCausalLM, PreTrainedTokenizerFast

import common

ROOT = Path(__file__).resolve().parents[1]
generate = importlib.import_module("01_generate")
trainer = importlib.import_module("03_train_scorer")
report = importlib.import_module("05_baselines")


# Results that could depend on a processor's arithmetic: `.ci/run` tests them with a second kind of it.
NUMERIC = "families", "generate", "train", "stop", "verifiers", "demo", "select"


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.stem.removeprefix("test_") in NUMERIC:
            item.add_marker(pytest.mark.numeric)


@pytest.fixture(autouse=True)
def torch_as_it_was():
    """Undo what 03 sets in the process that it runs in: the number of threads and the precision."""
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)
    torch.set_float32_matmul_precision("highest")


# ---- The scripts as programs


def call_main(script, *args):
    """Run a script's main in this process: a new one imports torch, which takes longer than most tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", [script, *map(str, args)])
        importlib.import_module(Path(script).stem).main()


def run_main(script, *args, code=0):
    """What a script prints; its exit code must be `code`."""
    out, err, ended = io.StringIO(), io.StringIO(), 0
    with redirect_stdout(out), redirect_stderr(err):
        try:
            call_main(script, *args)
        except SystemExit as stop:
            ended = stop.code
        except common.BadInput as error:  # as common.entry ends a program
            print(f"error: {error}", file=err)
            ended = 2
    stdout, stderr = out.getvalue(), err.getvalue()
    assert ended == code, stdout + stderr
    assert code != 2 or "error: " in stderr.splitlines()[-1], stderr  # argparse has a name before it
    return SimpleNamespace(stdout=stdout, stderr=stderr)


@pytest.fixture(scope="session")
def run_here():
    return run_main


def refusal_of(script, *args):
    """The one sentence with which a script refuses its arguments or its input, without `error: `."""
    return run_main(script, *args, code=2).stderr.splitlines()[-1].partition("error: ")[2]


def dies(capsys, function, *args, **options):
    """The one line with which `function` refuses what it is given; only a command line prints it."""
    with pytest.raises(common.BadInput) as refused:
        function(*args, **options)
    assert "error: " not in capsys.readouterr().err
    message = str(refused.value)
    assert len(message.splitlines()) == 1, message
    return message


def last_json(done):
    """The JSON line that ends a script's output."""
    return json.loads(done.stdout.strip().splitlines()[-1])


def python(program, *args, **options):
    """A new Python that runs a program of a few lines, which can import common.py."""
    command = [sys.executable, "-c", program, *map(str, args)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, **options)


FORKING = """\
import json, os, runpy, signal, socket, sys, traceback
import sympy, torch, transformers.models.qwen3.modeling_qwen3
from transformers import AutoModelForCausalLM, AutoTokenizer
torch.optim.Adam([torch.zeros(1)])
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen()
while True:
    connection, _ = listener.accept()
    if os.fork():
        connection.close()
        continue
    listener.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    call, files, _, _ = socket.recv_fds(connection, 1 << 20, 3)
    sys.argv, environment, folder, cores = json.loads(call)
    for number, file in enumerate(files):
        os.dup2(file, number)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    os.sched_setaffinity(0, cores)
    sys.path[0] = os.path.dirname(sys.argv[0])
    code = 1
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
        code = 0
    except SystemExit as stop:
        code = stop.code or 0
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    connection.sendall(bytes([code]))
    os._exit(code)
"""
ASKING = """\
#!{python} -IS
import json, os, socket, sys
if not sys.argv[1].endswith(".py"):
    os.execv("{python}", ["{python}", *sys.argv[1:]])
with socket.socket(socket.AF_UNIX) as server:
    server.connect("{socket}")
    call = [sys.argv[1:], dict(os.environ), os.getcwd(), [*os.sched_getaffinity(0)]]
    socket.send_fds(server, [json.dumps(call).encode()], [0, 1, 2])
    answer = server.recv(1)
sys.exit(answer[0] if answer else 1)
"""


@pytest.fixture(scope="session")
def loaded_python():
    """The path of a `python3` that is a fork of a process that has imported torch, which takes seconds.

    What kills it does not end the fork.
    """
    with tempfile.TemporaryDirectory() as folder:  # the path of a socket must be short
        client, address = Path(folder, "python3"), Path(folder, "socket")
        client.write_text(ASKING.format(python=sys.executable, socket=address))
        client.chmod(0o755)
        server = subprocess.Popen([sys.executable, "-c", FORKING, str(address)])
        while not address.exists():
            assert server.poll() is None
            time.sleep(0.1)
        yield client
        server.kill()
        server.wait()


@pytest.fixture
def watch_writes(monkeypatch):
    """watch_writes(pattern, stop_at) -> the list of files that are written from now on, in their order.

    Only files that match the pattern count, such as "parts/*". The write with the index `stop_at` raises
    KeyboardInterrupt instead, as Ctrl-C would. The pattern of all tests that kill and resume: stop at the
    k-th write, run the same command again, and compare with a run that was never stopped.
    """
    atomic = common.atomic

    def watch(pattern="*", stop_at=None):
        written = []

        @contextmanager
        def counted(path, mode="w"):
            counts = Path(path).match(pattern)
            if counts and len(written) == stop_at:
                raise KeyboardInterrupt
            with atomic(path, mode) as file:
                yield file
            if counts:
                written.append(Path(path))

        monkeypatch.setattr(common, "atomic", counted)
        return written

    return watch


@pytest.fixture
def parts(watch_writes):
    """parts(most=None) -> the parts that are written from now on; Ctrl-C comes instead of one more."""
    return lambda most=None: watch_writes("parts/*", most)


# ---- Tokenizers, models and scorers


def byte_tokenizer(before=(), after=(), special=(), plain=(), **options):
    """One token a byte, in sorted order; the first printable one is "!".

    before, after: entries of the vocabulary with lower and higher numbers than the bytes. special, plain:
    tokens added to the finished vocabulary. options: of transformers' tokenizer, such as eos_token.
    """
    vocabulary = [*before, *sorted(pre_tokenizers.ByteLevel.alphabet()), *after]
    tokenizer = Tokenizer(models.BPE(vocab={piece: i for i, piece in enumerate(vocabulary)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(list(special))
    tokenizer.add_tokens(list(plain))
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **options)


CHATML = """\
{%- if messages[0].role != 'system' and default_system %}
{%- set messages = [{'role': 'system', 'content': default_system}] + messages %}{% endif %}
{%- for message in messages %}<|im_start|>{{ message.role }}
{{ message.content }}<|im_end|>
{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% if enable_thinking is defined and enable_thinking is false %}<think>

</think>

{% endif %}{% endif %}"""

TINY = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 4, "num_attention_heads": 4,
        "num_key_value_heads": 2, "max_position_embeddings": 512, "initializer_range": 0.15,
        "vocab_size": 300, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": None}  # fmt: skip
EXPERTS = {"num_experts_per_tok": 2, "moe_intermediate_size": 32}
LATENT = {"num_key_value_heads": 4, "q_lora_rank": 16, "kv_lora_rank": 16, "qk_rope_head_dim": 8,
          "qk_nope_head_dim": 8, "v_head_dim": 12, "head_dim": 8, "n_routed_experts": 4, "n_group": 1,
          "topk_group": 1, "n_shared_experts": 1, "first_k_dense_replace": 1} | EXPERTS  # fmt: skip


def random_model(name, **options):
    """A tiny causal model of transformers' architecture `name`; biases and sinks too: zeros hide mistakes."""
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(CONFIG_MAPPING[name](**TINY | options)).float().eval()
    for x in (x for parameter, x in model.named_parameters() if "sinks" in parameter or "bias" in parameter):
        torch.nn.init.normal_(x, std=0.5)
    return model


@torch.no_grad()
def full_forward(model, ids):
    """(hidden states, logits) of one sequence by transformers' own eager attention."""
    model.set_attn_implementation("eager")
    out = model(torch.tensor([ids]), output_hidden_states=True, use_cache=False)
    states = [x[0] for x in out.hidden_states]
    if states[0].ndim > 2:  # of Gemma 3n's vectors [1, T, d] the active one, of DeepSeek V4's [T, streams, d] the mean
        states = [x.mean(1) if len(x) == len(ids) else x[0] for x in states[:-1]]
        states.append(model.get_decoder()(torch.tensor([ids])).last_hidden_state[0])
    return states, out.logits[0]


def exact_attention(q, keys, values, table, sizes, scaling, window, sinks):
    """In float64: q [B, H, D], keys, values [pages, G, P, D] -> [B, H, D]."""
    found = []
    for query, size, pages in zip(q.double(), sizes.tolist(), table.long()):
        pages = pages[: -(-size // keys.shape[2])]  # other places of the table mean nothing
        first = max(0, size - window) if window else 0
        k, v = (x[pages].double().transpose(0, 1).flatten(1, 2)[:, first:size] for x in (keys, values))
        k, v = (x.repeat_interleave(len(query) // len(x), 0) for x in (k, v))  # [H, T, D]
        scores = (k @ query[..., None])[..., 0] * scaling
        if sinks is not None:
            scores = torch.cat([scores, sinks.double()[:, None]], 1)
        found.append((scores.softmax(1)[:, None, : size - first] @ v)[:, 0])
    return torch.stack(found)


def read_jobs(model, jobs, layers, stop_ids=(), extra=()):
    """The rollouts of 01's jobs with "tokens", in their order, by its teacher-forced pass."""
    config = model.config.get_text_config()
    settings = generate.Settings(byte_tokenizer(), config, {"stop_ids": stop_ids}, 1, 0, 0)
    by_problem = {}
    for job in jobs:
        by_problem.setdefault(job["id"], []).append(job)
    longest = max(len(job["prompt"]) + len(job["tokens"]) for job in jobs)
    rollouts = generate.read_by_model(model, settings, by_problem.values(), layers, extra, longest)
    found = {(row["id"], row["sample"]): with_flat_vectors(row) for row in rollouts}
    return [found[job["id"], job["sample"]] for job in jobs]


def with_flat_vectors(rollout):
    """A rollout whose vectors are as in hidden.pt, [layers * 2, d]."""
    return rollout | {"hidden": torch.cat([*rollout["hidden"].values()])}


def first_dimension_scorer(path, width=8, **changes):
    """Save a scorer whose logit is the first dimension of the vector; `changes` are of its checkpoint."""
    module = common.mlp(width, [])
    state = {name: torch.zeros_like(value) for name, value in module.state_dict().items()}
    weight = next(name for name in state if name.endswith("weight"))
    state[weight][0, 0] = 1.0
    config = {"hidden": [], "dropout": 0.0, "input_dropout": 0.0, "batch_norm": False}
    checkpoint = {
        "design": "scatr", "model": "tiny", "vector": "penultimate/eos", "shape": [width], "n_layers": 5,
        "scale": None, "config": config, "state": state, "pos_weight": 3.0,
    }  # fmt: skip
    common.save_pt(path, {**checkpoint, **changes})
    return path


# ---- Run folders


def make_run(
    path, problems=12, n=4, width=8, seed=0, kind="math", signal=2.0, labels=True, model="tiny", n_layers=5,
    dataset="made_up",
):
    """A run folder as 01 and 02 leave it. Half of the vector's dimensions carry the label with `signal`."""
    rng = np.random.default_rng(seed)
    keys = [(f"p{i}", j) for i in range(problems) for j in range(n)]
    right = rng.random(len(keys)) < np.repeat(rng.uniform(0.2, 0.8, problems), n)
    vectors = ["penultimate/last", "penultimate/eos", "final/last", "final/eos"]
    hidden = rng.normal(size=(len(keys), len(vectors), width))
    hidden += signal * (right[:, None, None] * (np.arange(width) < width // 2))
    lengths = rng.integers(1, 30, len(keys))
    stats = -np.sort(rng.exponential(2, (lengths.sum(), 12)), 1).astype(np.float16)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    groups = np.where(right, 0, rng.integers(1, 3, len(keys)))
    common.write_json(path / "meta.json", {
        "model": model, "revision": None, "dataset": dataset, "seed": seed, "n": n, "n_layers": n_layers,
        "width": width, "vocab_size": 50, "git": None, "layers": ["penultimate", "final"],
        "rules": common.RULES_STAMP,
    })  # fmt: skip
    asked = {f"p{i}": {"kind": kind, "prompt": f"What is {i}?", "answer": str(i)} for i in range(problems)}
    common.write_jsonl(path / "problems.jsonl", ({"id": id} | row for id, row in asked.items()))
    rollouts, judged = [], []
    for (id, sample), is_right, group, a, b in zip(keys, right, groups, offsets, offsets[1:]):
        rollouts.append({"id": id, "sample": sample, "response": f"answer {is_right}", "n_tokens": int(b - a),
                         "finish": "stop", "conf": common.confidence(stats[a:b], 50)})  # fmt: skip
        judged.append({"id": id, "sample": sample, "label": int(is_right), "answer": str(group),
                       "group": int(group) if kind == "math" else None, "reason": "equal"})  # fmt: skip
    common.write_jsonl(path / "rollouts.jsonl", rollouts)
    hidden, ids = torch.tensor(hidden).bfloat16(), torch.zeros(len(stats), dtype=torch.int32)
    common.save_pt(path / "hidden.pt", {"keys": keys, "vectors": vectors, "hidden": hidden})
    tokens = {"offsets": torch.tensor(offsets), "ids": ids, "stats": torch.tensor(stats)}
    common.save_pt(path / "tokens.pt", tokens)
    if labels:
        common.write_jsonl(path / "labels.jsonl", judged)
    return path


def read_vectors(run, vector=common.DEFAULT_VECTOR):
    """(keys, hidden [R, d] in the model's dtype) of one vector of a run."""
    stored, column = common.open_hidden(run, vector)
    return [tuple(key) for key in stored["keys"]], stored["hidden"][:, column]


def stored(run):
    """(tokens.pt, hidden.pt)"""
    return common.load_pt(run / "tokens.pt"), common.load_pt(run / "hidden.pt")


def tokens_of(run):
    """The token ids of each rollout, as lists."""
    tokens = common.load_pt(run / "tokens.pt")
    return [ids.tolist() for ids in tokens["ids"].tensor_split(tokens["offsets"][1:-1])]


def edit_jsonl(path, edit):
    """Replace each row of a file by edit(row); None removes the row."""
    rows = [edit(row) for row in common.read_jsonl(path)]
    common.write_jsonl(path, [row for row in rows if row is not None])


def edit_hidden(run, edit):
    """Replace what edit(**hidden.pt) returns: a dict with some of keys, vectors and hidden."""
    content = common.load_pt(run / "hidden.pt")
    content["hidden"] = content["hidden"].clone()  # the file is mapped into memory
    common.save_pt(run / "hidden.pt", content | edit(**content))


def add_scores(path, name, seed=0, cost=None, p=False):
    """Scores of a made-up scorer that knows a little about the labels; `p` is what it is to say of each."""
    rng, rows = np.random.default_rng(seed), []
    for row in common.read_labels(path):
        score = float(rng.normal() + (row["label"] or 0))
        weight = 1 / (1 + np.exp(-score))
        rows.append({"id": row["id"], "sample": row["sample"], "score": score, "weight": weight})
        if p:
            rows[-1]["p"] = weight**2
    common.write_jsonl(path / "scores" / f"{name}.jsonl", rows)
    common.write_json(path / "scores" / f"{name}.cost.json", cost or {})
    return rows


def assert_same_run(a, b, statistics=1e-6):
    """The batch moves a float32 by 1e-7, and so now and then a statistic, a float16, by its last bit."""
    for x, y in zip(common.read_rollouts(a), common.read_rollouts(b), strict=True):
        assert {**x, "conf": 0} == {**y, "conf": 0}
    (tokens, hidden), (other_tokens, other_hidden) = stored(a), stored(b)
    assert tokens["ids"].equal(other_tokens["ids"]) and hidden["keys"] == other_hidden["keys"]
    stats, others = (x["stats"].float() for x in (tokens, other_tokens))
    torch.testing.assert_close(stats, others, rtol=2e-3, atol=statistics)
    torch.testing.assert_close(hidden["hidden"], other_hidden["hidden"], atol=1e-4, rtol=1e-4)


# ---- Selection by brute force: rows of one problem are dicts with label, group, score and more


def best(key):
    """The rule that picks the row with the largest key(row): rows -> the label of its pick."""
    return lambda rows: max(rows, key=key)["label"]  # max keeps the first of ties


def vote(weight):
    """The rule that picks, by a field, the best row of the answer whose rows have the largest sum of it."""

    def label_of_pick(rows):
        totals = {}
        for row in rows:
            if row["group"] is not None:
                totals[row["group"]] = totals.get(row["group"], 0) + row[weight]
        heaviest = [group for group, total in totals.items() if total > max(totals.values()) - 1e-12]
        voted = [row for row in rows if row["group"] in heaviest]
        return best(lambda row: row[weight])(voted or rows)

    return label_of_pick


def majority(rows):
    """The mean label of the most frequent answer; answers that are equally frequent share it."""
    groups = [row["group"] for row in rows if row["group"] is not None]
    most = [group for group in set(groups) if groups.count(group) == max(map(groups.count, groups))]
    means = [np.mean([row["label"] for row in rows if row["group"] == group]) for group in most]
    return np.mean(means) if most else 0


CREDITS = {  # the name of a row in 05's table -> its rule
    "random": lambda rows: np.mean([row["label"] for row in rows]),
    "oracle": best(lambda row: row["label"]),
    "majority vote": majority,
    "confidence-weighted vote": vote("mean/tail"),
    "entropy/avg": best(lambda row: -row["entropy/avg"]),
    "mine": best(lambda row: row["score"]),
    "mine, weighted vote": vote("weight"),
}


def mean_over_subsets(problems, credit, n):
    """The mean of a rule over all n-subsets; a problem with fewer rollouts has one subset, all of them."""
    means = []
    for rows in problems.values():
        subsets = itertools.combinations(rows, min(n, len(rows)))
        means.append(np.mean([credit(list(subset)) for subset in subsets]))
    return np.mean(means)


def pairs_in_order(rows):
    """For each pair of a right and a wrong answer: 1 if the right one scores higher, 0.5 if equal, else 0."""
    right = [row["score"] for row in rows if row["label"] == 1]
    wrong = [row["score"] for row in rows if row["label"] == 0]
    return [(high > low) + 0.5 * (high == low) for high in right for low in wrong]


# ---- Programs for the sandbox

SQUARE = "def f(x): return x * x\n"
CHECK = "def check(candidate):\n    assert candidate(3) == 9\n    assert candidate(-7) == 49\n"


def programs(kind, **texts):
    """{name: [program, tests...]} of one kind in sandbox_programs.txt.

    A line that is the name of one of `texts`, of SQUARE or of CHECK stands for that text.
    """
    texts = {"SQUARE": SQUARE, "CHECK": CHECK, **texts}
    table = Path(__file__).with_name("sandbox_programs.txt").read_text(encoding="utf-8")
    found = {}
    for entry in table.split(f"=== {kind}: ")[1:]:
        name, _, body = entry.partition("=== ")[0].partition("\n")
        body = "\n".join(texts.get(line, line) for line in body.splitlines())
        found[name] = [part.lstrip("\n") + "\n" for part in body.split("\n---")]
        if len(found[name]) == 1:
            found[name].append(CHECK)
    return found


def sandbox_job(code, tests=CHECK, **more):
    """Tests of the style `check` are about f."""
    return {"code": code, "tests": tests, "entry_point": "f", **more}


def judge(pool, code, tests=CHECK, **more):
    """The verdict of a sandbox_exec.Pool."""
    return pool.judge(sandbox_job(code, tests, **more))
