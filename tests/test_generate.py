"""01_generate.py against independent computations: a full forward pass and a naive sampler, transformers' own
warpers. Tiny random models of three families, float32 on the CPU; rows that stop early, that are cut, that
start in the middle, prompts that end before, at and after the edge of a page.
"""

import itertools
import os
import shutil
import subprocess
from collections import deque
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

import numpy as np
import pytest
import torch
from conftest import (
    ROOT,
    assert_same_run,
    byte_tokenizer,
    call_main,
    exact_attention,
    full_forward,
    generate,
    python,
    random_model,
    read_vectors,
    refusal_of,
    stored,
    tokens_of,
    with_flat_vectors,
)  # fmt: skip
from transformers import AutoModelForCausalLM, TopKLogitsWarper, TopPLogitsWarper
from transformers.generation import RepetitionPenaltyLogitsProcessor

import common

STOPS = [*range(2, 10)]
N = 3
NEW = 24
VOCAB = 300
PLAIN = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "repetition_penalty": 1.0, "stop_ids": STOPS}
WARM = PLAIN | {"temperature": 0.9, "top_k": 200, "top_p": 0.99, "repetition_penalty": 1.02}
FAMILIES = {
    "qwen3": {"head_dim": 8}, "olmo2": {"num_key_value_heads": 4},
    "gpt_oss": {"head_dim": 8, "num_experts_per_tok": 2, "num_local_experts": 4, "sliding_window": 12},
}  # fmt: skip
PROMPTS = [torch.arange(12, 12 + length).tolist() for length in (1, 2, 8, 9, 10, 17, 26)]  # pages of 8 tokens


def make_model(family):
    return random_model(family, num_hidden_layers=2, eos_token_id=STOPS, **FAMILIES[family])


def jobs_of(new=NEW, seed=1, n=N):
    jobs = []
    for i, sample in itertools.product(range(len(PROMPTS)), range(n)):
        key = generate.noise_key(seed, str(i), sample)
        jobs.append({"id": i, "sample": sample, "prompt": PROMPTS[i], "limit": new - i, "key": key})
    return jobs


def run_engine(model, jobs, slots=7, sampling=WARM, page=8, **options):
    longest = max(map(len, PROMPTS))
    engine = generate.Engine(model, (1, 2, 0), sampling, N, slots, longest, NEW, page=page, **options)
    for x in itertools.chain(*engine.pools.values()):
        x[1:] = float("nan")  # whatever the memory held before
    found = {(r["id"], r["sample"]): with_flat_vectors(r) for r in engine.run(deque(map(generate.BatchRow, jobs)))}
    engine.free[sum(engine.prompts.values(), [])] = True
    assert engine.free[1:].all() and not engine.rows and len(found) == len(jobs), "pages were not given back"
    return found


@pytest.fixture(scope="module", params=FAMILIES)
def family(request):
    model = make_model(request.param)
    bytes_of_page = {"olmo2": 8192}.get(request.param, 4096)
    return SimpleNamespace(model=model, found=run_engine(model, jobs_of()), page=bytes_of_page)


def texts_of(found):
    return {key: (rollout["ids"].tolist(), rollout["finish"]) for key, rollout in found.items()}


def warp(scores, sampling, slack):
    """What transformers leaves of logits [B, V]; a top-p with slack, as last bits decide at its edge."""
    scores = scores / sampling["temperature"]
    if sampling["top_k"]:
        scores = TopKLogitsWarper(sampling["top_k"])(None, scores)
    if sampling["top_p"] < 1:
        scores = TopPLogitsWarper(min(max(sampling["top_p"] + slack, 0), 1))(None, scores)
    return scores


def assert_drawn(chosen, logits, sampling, noise):
    """chosen [B] maximises p / E over what the warpers leave, but for the last bits."""
    wide, narrow = (warp(logits, sampling, slack) for slack in (1e-5, -1e-5))
    log_p = logits / sampling["temperature"] - noise.log()
    found = log_p.where(wide > -torch.inf, -torch.inf).gather(1, chosen[:, None])[:, 0]
    best = log_p.where(narrow > -torch.inf, -torch.inf).amax(1)
    assert (found >= best - 1e-4).all()


def test_vectors_statistics_and_tokens_are_those_of_a_full_forward_pass_and_a_naive_sampler(family):
    finishes = [r["finish"] for r in family.found.values()]
    assert min(finishes.count("stop"), finishes.count("length")) >= 3
    processor = RepetitionPenaltyLogitsProcessor(WARM["repetition_penalty"])
    for (problem, sample), r in family.found.items():
        prompt, ids = PROMPTS[problem], r["ids"].tolist()
        states, logits = full_forward(family.model, prompt + ids)
        assert (r["finish"] == "stop") == (ids[-1] in STOPS) and not set(ids[:-1]) & set(STOPS)
        assert r["finish"] == "stop" or len(ids) == NEW - problem
        eos = len(prompt) + len(ids) - 1
        last = eos - (r["finish"] == "stop")
        want = torch.stack([states[layer][place] for layer in (1, 2, 0) for place in (last, eos)])
        torch.testing.assert_close(r["hidden"], want, atol=1e-5, rtol=1e-5)
        logits = logits[len(prompt) - 1 : -1]
        stats = common.token_stats(logits, torch.tensor(ids))
        torch.testing.assert_close(r["stats"].float(), stats, atol=1e-3, rtol=1e-3)  # they are float16
        scores = [
            processor(torch.tensor([(prompt + ids)[: len(prompt) + t]]), logits[t : t + 1].clone())
            for t in range(len(ids))
        ]
        steps = steps_of(len(ids), generate.noise_key(1, str(problem), sample))
        noise = generate.exponential(*steps, torch.arange(VOCAB))
        assert_drawn(r["ids"].long(), torch.cat(scores), WARM, noise)


def test_tokens_do_not_depend_on_order_slots_pages_neighbours_or_the_limit(family):
    assert texts_of(run_engine(family.model, jobs_of()[::-1], slots=64, page=5)) == texts_of(family.found)
    alone = run_engine(family.model, jobs_of()[::4], slots=1)
    assert texts_of(alone) == texts_of({key: family.found[key] for key in alone})
    short = run_engine(family.model, jobs_of(12, n=1))
    assert all(family.found[key]["ids"][: len(r["ids"])].equal(r["ids"]) for key, r in short.items())
    assert texts_of(run_engine(family.model, jobs_of(seed=2))) != texts_of(family.found)


@pytest.mark.parametrize("pages", [1000, 9])
def test_a_prompt_is_computed_once_and_rows_that_lack_pages_go_on_from_their_tokens(
    family, pages
):  # fmt: skip
    with patch.object(generate.Engine, "read", autospec=True, side_effect=generate.Engine.read) as read:
        found = run_engine(family.model, jobs_of(), slots=14, budget=pages * family.page)
    assert texts_of(found) == texts_of(family.found)
    reads = [ids for (_, ids, *_), _ in read.call_args_list]
    prompts = [prompt[:-1] for prompt in PROMPTS]
    resumed = [ids for ids in reads if ids not in prompts]
    assert reads == prompts if pages == 1000 else resumed, "9 pages must be too few for all rows"


def test_all_slots_are_used(monkeypatch):
    """A step has 7 rows while others wait, and no row takes more steps than one a token and one."""
    steps = []
    step = generate.Engine.step

    def watched(engine):
        steps.append((len(engine.rows), len(engine.queue)))
        return step(engine)

    monkeypatch.setattr(generate.Engine, "step", watched)
    found = run_engine(make_model("qwen3"), jobs_of())
    assert all(rows == 7 or not waiting for rows, waiting in steps)
    assert sum(rows for rows, _ in steps) == sum(len(rollout["ids"]) + 1 for rollout in found.values())


def test_keys_with_a_large_bias_are_read_as_exactly_in_16_bits_as_others():
    """As in some models. It moves all scores of a query alike, and rounding them would undo what they say."""
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, *shape, 32) for shape in ((1, 4, 2), (4, 16), (4, 16)))
    q, k, v = q.bfloat16(), (k + 100 * torch.randn(32)).bfloat16(), v.bfloat16()
    share, _ = generate.page_attention(q, k, v, 0.2, torch.zeros(2, 1, 16, dtype=bool))
    weights = torch.einsum("emhgd,ehpd->emhgp", q.double(), k.double()).mul(0.2).softmax(-1)
    exact = torch.einsum("emhgp,ehpd->emhgd", weights, v.double())
    assert (share - exact.flatten(0, 1)).norm() / exact.norm() < 0.003


def attention_by_table(*inputs):
    """What the Triton kernel says it does."""
    assert inputs[3].dtype == inputs[4].dtype == torch.int32
    return exact_attention(*inputs).float()


class Replay:
    """In place of a CUDA graph: it runs the function that would be captured, into the same tensor."""

    def __init__(self, engine, size):
        self.engine = engine
        self.size = size
        self.logits = engine.forward(size).clone()

    def replay(self):
        self.logits.copy_(self.engine.forward(self.size))


def use_kernel(monkeypatch, kernel):
    """Let engines take a function for the kernel, and Replay for CUDA's graphs, whose sizes are in the list."""
    sizes = []
    make_pools = generate.Engine.make_pools

    def make_pools_and_graphs(engine, *args):
        make_pools(engine, *args)
        engine.by_kernel = True
        engine.graphs = {}

    def capture(engine, size):
        sizes.append(size)
        graph = Replay(engine, size)
        return graph, graph.logits

    monkeypatch.setattr(generate, "table_attention", kernel)
    monkeypatch.setattr(generate.Engine, "make_pools", make_pools_and_graphs)
    monkeypatch.setattr(generate.Engine, "capture", capture)
    return sizes


@pytest.mark.parametrize("pages", [1000, 14])
def test_the_kernel_and_a_few_graphs_give_the_same_tokens(family, monkeypatch, capsys, pages):
    """CUDA is not there; what it is given can be checked. With too few pages, so that rows wait, as well."""
    sizes = use_kernel(monkeypatch, attention_by_table)
    found = run_engine(family.model, jobs_of(), slots=14, budget=pages * family.page)
    assert texts_of(found) == texts_of(family.found) and not capsys.readouterr().err
    for key, row in found.items():
        torch.testing.assert_close(row["hidden"], family.found[key]["hidden"], atol=1e-5, rtol=1e-5)
    assert 3 <= len(sizes) <= 5


def one_page_for_another(q, keys, values, table, *options):
    """Wrong only in rows that have more than three pages."""
    wrong = table.clone()
    wrong[:, 3:] = table[:, :1]
    return attention_by_table(q, keys, values, wrong, *options)


def not_there(*_):
    raise RuntimeError("Failed to find C compiler.")


def invalid_capture(engine, size):
    """The error by which CUDA ends a capture hides the one that was the reason."""
    try:
        raise RuntimeError("operation not permitted when stream is capturing")
    finally:
        raise RuntimeError("the capture was invalidated")


@pytest.mark.parametrize("kernel, capture, without, words", [
    (one_page_for_another, None, "the Triton kernel, by page attention", "it differs by"),
    (not_there, None, "the Triton kernel, by page attention", "find C compiler"),
    (attention_by_table, invalid_capture, "CUDA graphs", "not permitted"),
])  # fmt: skip
def test_what_fails_on_a_gpu_is_found_out_before_its_answer_counts(
    family, monkeypatch, kernel, capture, without, words, capsys
):
    use_kernel(monkeypatch, kernel)
    if capture:
        monkeypatch.setattr(generate.Engine, "capture", capture)
    assert texts_of(run_engine(family.model, jobs_of())) == texts_of(family.found)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"going on without {without}: ") and words in line


# ---- Memory


@pytest.mark.parametrize("window, has_sinks", [(None, True), (700, False), (12, True)])
def test_attention_over_a_long_text_is_that_of_one_mask(window, has_sinks):
    """In float64, by all scores at once; the text is longer than the queries that are taken at a time."""
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, heads, 2100, width).double() for heads, width in ((4, 8), (2, 8), (2, 6)))
    sinks = torch.randn(4).double() if has_sinks else None
    found, _ = common.causal_attention(None, q, k, v, None, 0.3, window, sinks)
    k, v = (x.repeat_interleave(2, 1) for x in (k, v))
    distance = torch.arange(2100)[:, None] - torch.arange(2100)
    hidden = (distance < 0) | (distance >= (window or 2100))
    scores = (q @ k.mT * 0.3).masked_fill(hidden, -torch.inf)
    sink = torch.full((2, 4, 2100, 1), -torch.inf) if sinks is None else sinks.view(1, 4, 1, 1).expand(2, 4, 2100, 1)
    weights = torch.cat([scores, sink], -1).softmax(-1)[..., :-1]
    torch.testing.assert_close(found, (weights @ v).transpose(1, 2), atol=1e-12, rtol=1e-9)
    assert found.is_contiguous()  # some models call `view`


def test_memory_of_a_sliding_window_grows_with_the_text_and_not_with_its_square():
    """Of a process that reads 16,384 tokens: less than half a byte for each pair of them."""
    done = python(
        "import torch, common\n"
        "def peak(): return int(open('/proc/self/status').read().split('VmHWM:')[1].split()[0]) << 10\n"
        "def read(T): common.causal_attention(None, *torch.randn(3, 1, 2, T, 16), None, 1.0, 128, torch.zeros(2))\n"
        "read(2048); before = peak(); read(16384); print(peak() - before)"
    )
    assert 0 < int(done.stdout) < 16384**2 / 2


MEMORY = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


@pytest.mark.parametrize("line, file, limit, found", [
    ("0::/a/b", "a/memory.max", "4096\n", 4096), ("0::/a/b", "a/b/memory.max", "max\n", MEMORY),
    ("4:memory:/docker/1", "memory/memory.limit_in_bytes", "8192\n", 8192),
])  # fmt: skip
def test_a_containers_memory_is_all_there_is(tmp_path, line, file, limit, found):
    (tmp_path / "groups").write_text(f"1:name=systemd:/\n{line}\n")
    (tmp_path / "root" / file).parent.mkdir(parents=True)
    (tmp_path / "root" / file).write_text(limit)
    assert min(generate.memory_limits(tmp_path / "groups", tmp_path / "root")) == found


# ---- Sampling


def steps_of(count, key=1 << 40):
    """The keys and ages of a rollout's first steps."""
    return torch.full((count,), key), torch.arange(count)


def test_noise_is_each_rollouts_own_and_exponential_far_into_its_tail():
    rollouts = itertools.product((1, 2), ("p", "q"), (1, 2))  # seed, problem, sample
    assert len({generate.noise_key(*rollout) for rollout in rollouts}) == 8
    noise = generate.exponential(*steps_of(2000), torch.arange(2000))
    assert noise.min() > 0 and abs(noise.mean() - 1) < 2e-3 and abs(noise.var() - 1) < 5e-3
    for small in (1e-2, 1e-4, 1e-5):
        assert abs((noise < small).sum() / (4e6 * small) - 1) < 5 / (4e6 * small) ** 0.5
    for one, next in ((noise[:-1], noise[1:]), (noise[:, :-1], noise[:, 1:])):
        assert abs(np.corrcoef(one.flatten(), next.flatten())[0, 1]) < 3e-3


@pytest.mark.parametrize("setting", [
    {}, {"top_k": 7}, {"top_p": 0.8}, {"top_k": 30, "top_p": 0.5}, {"top_p": 0.01}, {"top_p": 0.999},
])  # fmt: skip
def test_draws_are_from_what_the_warpers_of_transformers_leave(setting):
    """However many tokens top-p looks at first, also where many are as likely as each other."""
    torch.manual_seed(0)
    sampling, steps = PLAIN | {"temperature": 0.7} | setting, steps_of(400)
    logits = torch.randn(400, 500) * 3
    for x in (logits, (logits / 6).round() / 2, (logits * 2).round() / 2):
        chosen = [generate.choose_tokens(x, sampling, *steps, width) for width in (500, 1, 8, 499)]
        assert all(other.equal(chosen[0]) for other in chosen)
        if x is logits:  # of equal ones the warpers keep any, ours all
            assert_drawn(chosen[0], x, sampling, generate.exponential(*steps, torch.arange(500)))


@pytest.mark.parametrize("top_p", [0.25, 0.3, 0.5, 0.7, 0.75, 0.8, 1.0])
def test_top_p_keeps_the_fewest_that_hold_the_mass_and_all_ties(top_p):
    """Exact numbers: a mass that is just reached is enough; what is as likely as the last is kept."""
    p = torch.tensor([[4, 2, 1, 1, 0, 0], [2, 2, 2, 2, 0, 0], [3, 2, 1, 1, 1, 0], [8, 0, 0, 0, 0, 0]]) / 8
    for row, kept in zip(p, generate.nucleus(p, top_p), strict=True):
        least = max(x for x in row if row[row >= x].sum() >= top_p)
        assert kept.tolist() == (row >= least).tolist()


# ---- The program


def make_tokenizer():
    names = {"bos_token": "<bos>", "eos_token": "<eos>", "pad_token": "<pad>"}
    return byte_tokenizer(before=["<pad>", "<bos>", "<eos>"], after=["return"], **names)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model on disk and problems, one of them in another script."""
    folder = tmp_path_factory.mktemp("generate")
    model = make_model("qwen3")
    model.generation_config.eos_token_id, model.generation_config.top_k = STOPS, 50
    model.save_pretrained(folder / "model")
    make_tokenizer().save_pretrained(folder / "model")
    prompts = ["1+1=", "What is a return?", "x", "日本語 ê/..", "What is left of it?"]
    rows = [{"id": f"p/{i}", "prompt": prompt, "answer": "2"} for i, prompt in enumerate(prompts)]
    common.write_jsonl(folder / "p.jsonl", rows)
    return folder


OPTIONS = ["-n", 4, "--max-new-tokens", 30, "--device", "cpu"]


def run_of(out, data="p", seed="32"):
    return Path(out) / "model" / data / seed


run_program = partial(call_main, "01_generate.py")
refused = partial(refusal_of, "01_generate.py")


def command_of(folder, out, *flags):
    return folder / "model", folder / "p.jsonl", *OPTIONS, "--out", out, *flags


def sample(folder, out, *flags):
    run_program(*command_of(folder, out, *flags))
    return run_of(out)


@pytest.fixture(scope="module")
def whole(folder):
    """A run that nothing disturbed."""
    return sample(folder, folder / "whole")


def prompt_of(row):
    return list(common.encode_prompt(make_tokenizer(), common.normalise_problem(row, "", 0)))


def times(run):
    return {path.name: path.stat().st_mtime_ns for path in run.iterdir() if path.is_file()}


def changed(run, before):
    return {name for name, when in times(run).items() if when != before.get(name)}


def test_the_run_folder(whole):
    rollouts = common.read_rollouts(whole)
    common.check_same_problems(whole, rollouts)
    keys = [(f"p/{i}", sample) for i in range(5) for sample in range(4)]
    assert common.keys_of(rollouts) == keys
    files = ["hidden.pt", "meta.json", "parts", "problems.jsonl", "rollouts.jsonl", "tokens.pt"]
    assert sorted(path.name for path in whole.iterdir()) == files
    tokens, hidden = stored(whole)
    assert tokens["ids"].dtype == torch.int32 and tokens["stats"].dtype == torch.float16
    all_stats = tokens["stats"].tensor_split(tokens["offsets"][1:-1])
    for row, ids, stats in zip(rollouts, tokens_of(whole), all_stats, strict=True):
        assert row["n_tokens"] == len(ids) == len(stats) and stats.shape[1] == 12
        assert row["conf"] == common.confidence(stats.numpy(), VOCAB), "the same numbers from the file"
    for vector in ("penultimate/last", "penultimate/eos", "final/last", "-1/eos", "1/eos"):
        assert read_vectors(whole, vector)[0] == keys
    finish = np.array([row["finish"] for row in rollouts])
    last, eos = hidden["hidden"][:, 0], hidden["hidden"][:, 1]
    assert {*finish} == {"stop", "length"}
    assert (last != eos).any(-1).tolist() == (finish == "stop").tolist()


def test_meta_json_says_what_made_the_run(whole):
    meta = common.read_meta(whole)
    describe = ["git", "-C", ROOT, "describe", "--always", "--dirty", "--abbrev=12"]
    commit = subprocess.run(describe, capture_output=True, text=True).stdout
    assert meta["git"] == (commit.strip() or None)
    assert meta["sampling"] == PLAIN | {"top_k": 50}
    needed = "model dataset seed n versions device dtype n_layers vocab_size layers created command"
    assert not {*needed.split(), "stamp"} - set(meta)
    assert not {"model", "revision", "slots", "temperature"} - set(meta["arguments"])


def asks_of(sizes):
    """Problems whose prompts have so many tokens."""
    return [{"id": f"of {size}", "messages": [{"role": "user", "content": "a" * size}]} for size in sizes]


def test_a_prompt_without_room_for_an_answer_is_said_before_anything_is_made(folder, tmp_path, capsys):
    """All of them are named, and may be left out."""
    sizes = 511, 512, 9, 700
    common.write_jsonl(tmp_path / "p.jsonl", asks_of(sizes))
    command = folder / "model", tmp_path / "p.jsonl", "-n", 1, "--max-new-tokens", 2, "--out", tmp_path
    words = f"{tmp_path / 'p.jsonl'}: 2 prompts leave no room for an answer in a context of 512: "
    words += "number 2 (id 'of 512', 512 tokens), number 4 (id 'of 700', 700 tokens)"
    assert refused(*command).startswith(words) and not run_of(tmp_path).exists()
    run_program(*command, "--skip-long", "--plan")
    assert f"{words}; left out" in capsys.readouterr().err and not run_of(tmp_path).exists()
    run_program(*command, "--skip-long")
    assert [row["id"] for row in common.read_rollouts(run_of(tmp_path))] == ["of 511", "of 9"]
    common.check_same_problems(run_of(tmp_path), common.read_rollouts(run_of(tmp_path)))


def test_a_rollout_may_fill_the_context(folder, tmp_path, capsys):
    common.write_jsonl(tmp_path / "p.jsonl", asks_of((510, 511)))
    flags = "-n", 1, "--temperature", 0, "--max-new-tokens", 0, "--out", tmp_path
    run_program(folder / "model", tmp_path / "p.jsonl", *flags)
    assert [row["n_tokens"] for row in common.read_rollouts(run_of(tmp_path))] == [2, 1]
    assert "2 rollouts of at most 2 tokens" in capsys.readouterr().err


def test_vectors_are_in_the_type_of_the_model(folder, tmp_path):
    run = sample(folder, tmp_path, "--dtype", "bfloat16", "--limit", 2, "--max-new-tokens", 5)
    hidden = stored(run)[1]["hidden"]
    assert hidden.dtype == torch.bfloat16 and hidden.isfinite().all()
    assert common.read_meta(run)["dtype"] == "bfloat16"


@pytest.mark.parametrize("command, words", [
    ("./modle p.jsonl", "./modle: there is no such folder"),
    ("other/modle p.jsonl", "model 'other/modle', which is not a folder here, cannot be loaded"),
    ("other p.jsonl", "/other: there is no config.json in it; give the folder of a whole model, or a Hub id"),
    ("model p.jsonl --temp 1", "unrecognized arguments: --temp"),
    ("model p.jsonl other/p.jsonl", "two of these have one name"),
    ("model p.jsonl --layers 9", "penultimate"),
    ("model p.jsonl --device no-such", "leave --device out"),
    ("model p.jsonl --temperature nan", "temperature nan: give"),
    ("model p.jsonl --top-p 95", "top_p 95.0: give a number from 0 to 1"),
])  # fmt: skip
def test_what_makes_no_sense_is_one_line_and_makes_no_run(folder, tmp_path, command, words, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)  # without a network it tries for long
    (folder / "other").mkdir(exist_ok=True)
    shutil.copy(folder / "p.jsonl", folder / "other")
    monkeypatch.chdir(folder)
    command = [folder / word if (folder / word).exists() else word for word in command.split()]
    assert words in refused(*command, "--out", tmp_path) and not any(tmp_path.iterdir())


@pytest.mark.parametrize("rank, world", [("4", "4"), ("one", "2"), ("1", "")])
def test_a_rank_that_cannot_be_is_one_line(folder, tmp_path, monkeypatch, rank, world):
    """Not a worker that samples nothing, or what another one samples, too."""
    monkeypatch.setenv("RANK", rank)
    monkeypatch.setenv("WORLD_SIZE", world)
    error = f"RANK {rank!r}, WORLD_SIZE {world!r}: set both"
    assert refused(*command_of(folder, tmp_path)).startswith(error)


def allocate_too_much(*_):
    torch.empty(1 << 60, dtype=torch.uint8)


def test_out_of_memory_is_one_line_while_sampling_and_while_reading(folder, whole, tmp_path, monkeypatch):
    """The real error of an allocation that no machine can meet."""
    monkeypatch.setattr(generate.Engine, "step", allocate_too_much)
    monkeypatch.setattr(generate, "read_rollout", allocate_too_much)
    error = "out of memory; run it again with --slots 10, or a lower --max-new-tokens"
    assert refused(*command_of(folder, tmp_path)) == error
    shutil.copytree(whole, run_of(tmp_path), dirs_exist_ok=True)
    error = refused(*command_of(folder, tmp_path, "--layers", 0))
    assert error.startswith("out of memory; read these answers where there is more memory")


@pytest.mark.parametrize("text", ["CUDA out of memory. Tried to allocate 2 GiB", "can't allocate memory: you tried to"])
def test_every_device_says_out_of_memory_in_its_own_words(text):
    with pytest.raises(common.BadInput), common.enough_memory("try something else"):
        raise RuntimeError(text)


# ---- More vectors of a finished run


@pytest.mark.parametrize("afterwards", [False, True])
def test_more_vectors_of_a_run_are_those_of_a_full_forward_pass(folder, tmp_path, afterwards):
    """Captured while generating, or added to the finished run; --extra always comes from the second pass."""
    more = ["--layers", "all", "--extra", "last10,special"]
    run = sample(folder, tmp_path, *([] if afterwards else more))
    if afterwards:
        old = stored(run)
        sample(folder, tmp_path, *more)
        assert stored(run)[0]["stats"].equal(old[0]["stats"])
        after = times(run)
        sample(folder, tmp_path, "--layers", "final,0", "--extra", "special")  # all there
        assert not changed(run, after)
        assert stored(run)[1]["vectors"][:4] == old[1]["vectors"]
        assert stored(run)[1]["hidden"][:, :4].equal(old[1]["hidden"])
    layers = [name.split("/")[0] for name in stored(run)[1]["vectors"][::2]]
    assert common.read_meta(run)["layers"] == layers and len(layers) == 3
    model = AutoModelForCausalLM.from_pretrained(folder / "model").float()
    rows, extra = common.read_rollouts(run), common.load_pt(run / "extra.pt")
    assert extra["keys"] == common.keys_of(rows)
    for r in (0, 5, 9, 19):
        prompt, ids = prompt_of(common.read_jsonl(folder / "p.jsonl")[r // 4]), tokens_of(run)[r]
        states = full_forward(model, prompt + ids)[0]
        for layer, token in itertools.product(range(3), common.TOKENS):
            place = -2 if token == "last" and rows[r]["finish"] == "stop" else -1
            assert read_vectors(run, f"{layer}/{token}")[1][r].allclose(states[layer][place], atol=1e-5)
        final = states[-1][len(prompt) :]
        zeros = max(0, 10 - len(ids))
        assert (extra["last10"][r, :zeros] == 0).all()
        assert extra["last10"][r, zeros:].allclose(final[-10:], atol=1e-5)
        special = extra["special"][slice(*extra["special_offsets"][r : r + 2])]
        assert special.allclose(final[generate.special_places(make_tokenizer(), ids)], atol=1e-5)


def test_special_tokens_end_a_return_or_a_def_line():
    """A token is a byte here, but for `return`."""
    program = "def f(x): # why: so\n  async def g() -> int:\n    return x\nreturned = {1: 2}; a = b[1:]"
    tokenizer = make_tokenizer()
    ids = tokenizer(program)["input_ids"]
    found = ["".join(tokenizer.decode(ids[: place + 1])) for place in generate.special_places(tokenizer, ids)]
    assert [text.split("\n")[-1] for text in found] == ["def f(x):", "  async def g() -> int:", "    return"]


@pytest.mark.parametrize("gone", ["", "hidden.pt", "problems.jsonl", "rollouts.jsonl"])
def test_what_a_finished_run_has_lost_is_made_again(folder, whole, tmp_path, gone, capsys, monkeypatch):
    """Of its parts, without the model."""
    run = shutil.copytree(whole, run_of(tmp_path))
    before = times(run)
    if gone:
        (run / gone).unlink()
    monkeypatch.setattr(common, "load_model", lambda *_, **__: pytest.fail("the model is not needed"))
    sample(folder, tmp_path)
    assert capsys.readouterr().out.splitlines()[-1] == str(run)
    assert_same_run(whole, run)
    made = {gone} if gone == "problems.jsonl" else {"tokens.pt", "hidden.pt", "meta.json", "rollouts.jsonl"}
    assert changed(run, before) == (made if gone else set())
    assert common.read_jsonl(run / "problems.jsonl") == common.read_jsonl(whole / "problems.jsonl")
    assert common.read_meta(run) == common.read_meta(whole)


def test_a_reading_that_was_stopped_goes_on_with_what_was_asked_for_before(folder, whole, tmp_path, parts):
    run = shutil.copytree(whole, run_of(tmp_path))

    def parts_of(layer, most=None):
        written = parts(most)
        with suppress(KeyboardInterrupt):
            sample(folder, tmp_path, "--layers", layer)
        return [path.name for path in written]

    first, others = parts_of("0", most=2), parts_of("0")
    assert len({*first, *others}) == 5 == len([*first, *others])
    assert parts_of("1") == []  # the penultimate's, which is there
    (run / "hidden.pt").unlink()
    assert parts_of("final") == [] and (run / "hidden.pt").is_file()  # made of the parts
    assert_same_run(sample(folder, tmp_path / "all", "--layers", "penultimate,final,0"), run)


def test_greedy_is_a_run_folder_of_that_name(folder, tmp_path):
    plain = sample(folder, tmp_path, "--temperature", 0, "-n", 1)
    sample(folder, tmp_path, "--greedy", "--seed", 5, "-n", 3)
    run = run_of(tmp_path, seed="greedy")
    assert tokens_of(run) == tokens_of(plain)
    assert common.read_meta(run)["n"] == 1 and common.read_meta(run)["sampling"]["temperature"] == 0


# ---- What the folder of a model may be


@pytest.mark.parametrize("file, content", [
    ("model.safetensors", b"torn"),
    ("config.json", b'{"model_type": "qwen3", "hidden_size": 33}'),
    ("tokenizer.json", None),
    ("chat_template.jinja", b"{% if %}"),
])  # fmt: skip
def test_a_model_that_is_damaged_is_one_line(folder, tmp_path, file, content):
    path = shutil.copytree(folder / "model", tmp_path / "model") / file
    path.unlink(missing_ok=True)
    if content:
        path.write_bytes(content)
    refused(tmp_path / "model", folder / "p.jsonl", "--device", "cpu", "--out", tmp_path)
