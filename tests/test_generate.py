"""01_generate.py against independent computations: a full forward pass, `model.generate`, transformers' own warpers.

Tiny random models of the five families, float32 on the CPU. Rows that stop early, that are cut, that start in the
middle, prompts that end before, at and after the edge of a page.
"""

import importlib
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import (
    AutoModelForCausalLM,
    GPT2Config,
    GptOssConfig,
    Olmo2Config,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen3Config,
    Qwen3MoeConfig,
    TopKLogitsWarper,
    TopPLogitsWarper,
)
from transformers.generation import RepetitionPenaltyLogitsProcessor

import common

generate = importlib.import_module("01_generate")
ROOT = Path(__file__).resolve().parents[1]
STOPS, N = [2, 3, 4, 5, 6], 3
PLAIN = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "repetition_penalty": 1.0, "stop_ids": STOPS}
SIZES = {"vocab_size": 300, "hidden_size": 64, "intermediate_size": 96,
         "num_hidden_layers": 4, "num_attention_heads": 4,
         "num_key_value_heads": 2, "max_position_embeddings": 512, "initializer_range": 0.1, "bos_token_id": 1,
         "eos_token_id": STOPS, "pad_token_id": None}  # fmt: skip
EXPERTS = {"num_experts_per_tok": 2, "head_dim": 16}
FAMILIES = {
    "qwen3": lambda: Qwen3Config(**SIZES, head_dim=16),
    "olmo2": lambda: Olmo2Config(**SIZES | {"num_key_value_heads": 4}),
    "qwen2": lambda: Qwen2Config(**SIZES),
    "gpt_oss": lambda: GptOssConfig(**SIZES, **EXPERTS, num_local_experts=4, sliding_window=12),
    "qwen3_moe": lambda: Qwen3MoeConfig(**SIZES, **EXPERTS, num_experts=4, moe_intermediate_size=48),
}
PROMPTS = [torch.arange(7, 7 + length).tolist() for length in (1, 2, 16, 17, 18, 33, 50)]  # pages of 16 tokens


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """Threads that wait for each other on a busy machine make tiny models a hundred times slower."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def make_model(family):
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(FAMILIES[family]()).float().eval()
    for name, x in model.named_parameters():
        if "sinks" in name or "bias" in name:  # zeros would hide a mistake
            torch.nn.init.normal_(x, std=0.5)
    return model


@pytest.fixture(scope="module", params=FAMILIES)
def model(request):
    return make_model(request.param)


@pytest.fixture(scope="module")
def qwen3():
    return make_model("qwen3")


def jobs_of(new, seed=1, n=N):
    return [
        {"problem": i, "sample": s, "prompt": prompt, "limit": new - i, "key": generate.noise_key(seed, str(i), s)}
        for i, prompt in enumerate(PROMPTS)
        for s in range(n)
    ]


def run_engine(model, jobs, layers=(3, 4, 0), slots=7, sampling=PLAIN, page=16, exact_stats=False, **options):
    engine = generate.Engine(model, layers, sampling, N, slots, max(map(len, PROMPTS)), 40, page=page, **options)
    if exact_stats:  # before they are rounded to float16
        engine.stats, engine.row_stats = engine.stats.float(), engine.row_stats.astype(np.float32)
    for x in (*engine.keys.values(), *engine.values.values()):
        x[1:] = float("nan")  # whatever the memory held before
    found = {(r["problem"], r["sample"]): r for ended in engine.run(jobs) for r in ended}
    assert engine.free[1:].all() and not engine.prompts and not engine.rows, "pages or prompts were not given back"
    engine.close()
    return found


def same_tokens(a, b):
    return a.keys() == b.keys() and all(a[k]["ids"].tolist() == b[k]["ids"].tolist() and a[k]["finish"] == b[k]["finish"] for k in a)


@torch.no_grad()
def full_forward(model, ids):
    """(hidden states, log-probabilities) of one sequence by transformers' own eager attention."""
    model.set_attn_implementation("eager")
    out = model(torch.tensor([ids]), output_hidden_states=True, use_cache=False)
    return [x[0] for x in out.hidden_states], out.logits[0].log_softmax(-1)


def test_vectors_and_statistics_are_those_of_a_full_forward_pass(model):
    warm = {"temperature": 0.9, "top_k": 200, "top_p": 0.99, "repetition_penalty": 1.02}  # of which the statistics know nothing
    found = run_engine(model, jobs_of(40), exact_stats=True, sampling=PLAIN | warm)
    finishes = [r["finish"] for r in found.values()]
    assert len(found) == len(PROMPTS) * N and min(finishes.count("stop"), finishes.count("length")) >= 3
    for (problem, _), r in found.items():
        prompt, ids = PROMPTS[problem], r["ids"].tolist()
        states, logp = full_forward(model, prompt + ids)
        assert (r["finish"] == "stop") == (ids[-1] in STOPS) and not set(ids[:-1]) & set(STOPS)
        assert r["finish"] == "stop" or len(ids) == 40 - problem
        eos = len(prompt) + len(ids) - 1
        last = eos - (r["finish"] == "stop")
        want = torch.stack([states[layer][place] for layer in (3, 4, 0) for place in (last, eos)])
        torch.testing.assert_close(r["hidden"], want, atol=1e-5, rtol=1e-5)
        logp = logp[len(prompt) - 1 : -1]
        own = logp.gather(1, torch.tensor(ids)[:, None])
        stats = torch.cat([logp.topk(10).values, own, logp.mean(-1, keepdim=True)], 1)
        torch.testing.assert_close(torch.tensor(r["stats"]), stats, atol=1e-5, rtol=1e-5)


def test_greedy_is_token_for_token_that_of_generate(model):
    found = run_engine(model, jobs_of(24, n=2), sampling=PLAIN | {"temperature": 0})
    model.set_attn_implementation("eager")
    for problem, prompt in enumerate(PROMPTS):
        ids = torch.tensor([prompt])
        out = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=24 - problem, pad_token_id=0)
        for sample in range(2):
            assert found[problem, sample]["ids"].tolist() == out[0, len(prompt) :].tolist()


def test_tokens_do_not_depend_on_how_the_work_is_cut(model):
    """Slots, order, page size, how often the host looks, and too little memory: rows and prompts that start again."""
    jobs = jobs_of(24, n=2)
    found = run_engine(model, jobs)
    assert same_tokens(found, run_engine(model, jobs, slots=1))
    assert same_tokens(found, run_engine(model, jobs[::-1], slots=64, page=8, look_every=3))
    bytes_a_page = {"olmo2": 32768}.get(model.config.model_type, 16384)
    assert same_tokens(found, run_engine(model, jobs, slots=14, budget=11 * bytes_a_page))
    short = run_engine(model, jobs_of(12, n=2))
    assert all(found[key]["ids"][: len(r["ids"])].tolist() == r["ids"].tolist() for key, r in short.items())
    assert not same_tokens(found, run_engine(model, jobs_of(24, seed=2, n=2)))


def test_rows_start_again_when_pages_run_out(qwen3, monkeypatch):
    again = []
    retire = generate.Engine.retire
    monkeypatch.setattr(generate.Engine, "retire", lambda self, r: (again.append(self.rows[r].job), retire(self, r)))
    run_engine(qwen3, jobs_of(40), slots=21, budget=12 * 16384)
    assert len(again) > len(jobs_of(40)), "the budget of the test above must be too small for all rows"


def test_one_forward_a_prompt_and_no_row_idle_while_work_is_left(qwen3, monkeypatch):
    jobs, prompts, rows = jobs_of(40), [], []
    read, step = generate.Engine.read_prompt, generate.Engine.step
    monkeypatch.setattr(generate.Engine, "read_prompt", lambda self, job: (prompts.append(job["problem"]), read(self, job))[1])
    monkeypatch.setattr(generate.Engine, "step", lambda self, n, *_: (rows.append((n, len(self.queue))), step(self, n))[1])
    found = run_engine(qwen3, jobs)
    assert sorted(prompts) == list(range(len(PROMPTS)))
    assert all(n == 7 or not queue for n, queue in rows)
    assert sum(n for n, _ in rows) == sum(len(r["ids"]) + 1 for r in found.values()), "one step a token, and one more a row"


class NoSync(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        assert func.overloadpacket.__name__ not in ("_local_scalar_dense", "nonzero", "item", "masked_select", "isin"), func
        return func(*args, **(kwargs or {}))


def test_a_step_never_waits_for_the_device(model, monkeypatch):
    """What a CUDA graph cannot hold and a GPU stops at: reading a number, or a shape that depends on one."""
    step = generate.Engine.step

    def watched(self, n, width=None):
        self.waits = False  # as on a GPU
        with NoSync():
            step(self, n, width)

    monkeypatch.setattr(generate.Engine, "step", watched)
    monkeypatch.setattr(generate, "WIDE", 16)
    for top_k in (0, 20):
        sampling = PLAIN | {"top_k": top_k, "top_p": 0.9, "repetition_penalty": 1.1}
        run_engine(model, jobs_of(9)[:9], sampling=sampling, slots=4)


def test_masked_attention_leaves_a_kernel_that_keeps_no_scores(monkeypatch):
    """CUDA has none for grouped heads beside a mask; long answers of gpt-oss would take T x T x heads."""
    attention, masked = torch.nn.functional.scaled_dot_product_attention, []

    def watched(q, k, v, mask, **options):
        masked.append(mask is not None)
        assert not options.get("enable_gqa") and k.shape[1] == q.shape[1]
        return attention(q, k, v, mask, **options)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", watched)
    torch.manual_seed(0)
    q, k, v, sinks = torch.randn(2, 4, 9, 8), torch.randn(2, 2, 9, 8), torch.randn(2, 2, 9, 8), torch.randn(4)
    scores = (q @ k.repeat_interleave(2, 1).mT) * 0.5
    i = torch.arange(9)
    scores = scores.masked_fill((i[:, None] < i) | (i[:, None] - i >= 3), -torch.inf)
    weights = torch.cat([scores, sinks[:, None, None].expand(2, 4, 9, 1)], -1).softmax(-1)[..., :-1]
    out, _ = generate.causal_attention(None, q, k, v, scaling=0.5, sliding_window=3, s_aux=sinks)
    torch.testing.assert_close(out, (weights @ v.repeat_interleave(2, 1)).transpose(1, 2))
    assert masked == [True]


# ------------------------------------------------------------------------------------------------------------
# Sampling


def rows_of(count):
    return generate.scramble((1 << 40) + torch.arange(count) * generate.STRIDE)[:, None]


def hashes(vocab):
    return generate.scramble(torch.arange(1, vocab + 1) * generate.STRIDE)


def test_draws_follow_the_probabilities():
    p = torch.tensor([0.5, 0.2, 0.1, 0.1, 0.05, 0.04, 0.009, 0.001])
    draws = generate.choose_tokens(p.log().expand(100_000, -1), PLAIN, rows_of(100_000), hashes(8))
    counts = draws.bincount(minlength=8)
    chi2 = ((counts - 100_000 * p) ** 2 / (100_000 * p)).sum()
    assert chi2 < 24.3, counts  # 7 degrees of freedom, one test in a thousand


def test_noise_is_exponential_far_into_its_tail():
    noise = generate.exponential(rows_of(2000), hashes(2000))
    assert abs(noise.mean() - 1) < 2e-3 and abs(noise.var() - 1) < 5e-3
    for small in (1e-2, 1e-4, 1e-5):
        assert abs((noise < small).sum() / (4e6 * small) - 1) < 5 / (4e6 * small) ** 0.5
    assert abs(np.corrcoef(noise[:-1].flatten(), noise[1:].flatten())[0, 1]) < 3e-3
    assert abs(np.corrcoef(noise[:, :-1].flatten(), noise[:, 1:].flatten())[0, 1]) < 3e-3


@pytest.mark.parametrize("setting", [{"top_k": 7}, {"top_p": 0.8}, {"top_k": 30, "top_p": 0.5}, {"top_p": 0.01}, {"top_p": 0.999}])
def test_warped_probabilities_are_those_of_transformers(setting, monkeypatch):
    torch.manual_seed(0)
    logits = torch.randn(40, 500) * 3
    scores = logits / 0.7
    for warper, name in ((TopKLogitsWarper, "top_k"), (TopPLogitsWarper, "top_p")):
        if name in setting:
            scores = warper(setting[name])(None, scores)
    allowed = scores > -torch.inf
    monkeypatch.setattr(generate, "exponential", lambda rows, tokens: torch.rand(len(rows), tokens.shape[-1]))  # any noise shows the support
    sampling = PLAIN | {"temperature": 0.7} | setting
    for width in (4, 64, 500):
        seen = torch.zeros_like(allowed)
        for _ in range(300):
            chosen = generate.choose_tokens(logits, sampling, rows_of(40), hashes(500), width)
            seen[torch.arange(40), chosen] = True
        assert not (seen & ~allowed).any() and (seen & allowed).sum() > 0.3 * allowed.sum().clamp(max=2000)


@pytest.mark.parametrize("top_p", [0.25, 0.3, 0.5, 0.7, 0.75, 0.8, 1.0])
def test_top_p_keeps_the_fewest_that_hold_the_mass_and_all_ties(top_p):
    """Exact numbers: a mass that is just reached is enough; what is as likely as the last one kept is kept."""
    p = torch.tensor([[4, 2, 1, 1, 0, 0], [2, 2, 2, 2, 0, 0], [3, 2, 1, 1, 1, 0], [8, 0, 0, 0, 0, 0]]) / 8
    for row, kept in zip(p, generate.nucleus(p, top_p), strict=True):
        least = max(x for x in row if row[row >= x].sum() >= top_p)
        assert kept.tolist() == (row >= least).tolist()


@pytest.mark.parametrize("scale", [0.5, 5])
def test_top_p_chooses_the_same_token_however_many_it_looks_at_first(scale):
    torch.manual_seed(0)
    logits = (torch.randn(40, 300) * scale * 2).round() / 2  # many ties
    p = (logits / 0.7).softmax(-1)
    for top_p in (0.05, 0.5, 0.9, 0.999):
        sampling, look = PLAIN | {"top_p": top_p, "temperature": 0.7}, (rows_of(40), hashes(300))
        reach = [[(row[row >= x].sum() - top_p, x) for x in row.unique()] for row in p]
        clear = torch.tensor([min(abs(mass) for mass, _ in row) > 1e-5 for row in reach])  # not a matter of the last bits
        least = torch.stack([max(x for mass, x in row if mass > -1e-5) for row in reach])
        want = (p * (p >= least[:, None]) / generate.exponential(*look)).argmax(-1)
        for width in (1, 8, 100, 299, 300):
            assert generate.choose_tokens(logits, sampling, *look, width)[clear].equal(want[clear])
            hasty, beyond = generate.choose_tokens(logits, sampling, *look, width, wait=False), p.topk(width).values[:, -1]
            sure = beyond < 0.999 * least if width < 300 else clear
            assert hasty[clear & sure].equal(want[clear & sure]) and (hasty[clear & (beyond > 1.001 * least)] == -1).all()


def test_repetition_penalty_is_that_of_transformers(qwen3):
    sampling = PLAIN | {"repetition_penalty": 1.3, "temperature": 0}
    found = run_engine(qwen3, jobs_of(20, n=1), sampling=sampling, slots=3)
    processor = RepetitionPenaltyLogitsProcessor(1.3)
    for (problem, _), r in found.items():
        ids = PROMPTS[problem] + r["ids"].tolist()
        logits = full_forward(qwen3, ids)[1]  # log-probabilities are logits too: but the penalty sees their sign
        model_logits = qwen3(torch.tensor([ids]), use_cache=False).logits[0]
        assert logits.shape == model_logits.shape
        for t in range(len(PROMPTS[problem]), len(ids)):
            scores = processor(torch.tensor([ids[:t]]), model_logits[t - 1 : t].clone())
            assert int(scores.argmax()) == ids[t]
    logits, seen = torch.randn(50, 40) - 2, torch.rand(50, 40) < 0.5  # both signs, both seen
    for row, mask in zip(logits, seen, strict=True):
        want = processor(mask.nonzero().T, row[None].clone()).argmax()
        past = mask.nonzero().T
        assert generate.penalise(row[None], torch.cat([past, past[:, :1]], 1), 1.3).argmax() == want


# ------------------------------------------------------------------------------------------------------------
# The program


def byte_tokenizer():
    vocab = {piece: i for i, piece in enumerate(["<pad>", "<bos>", "<eos>", *sorted(pre_tokenizers.ByteLevel.alphabet())])}
    tokenizer = Tokenizer(models.BPE(vocab=vocab | {"return": len(vocab)}, merges=[]))
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<bos>", eos_token="<eos>", pad_token="<pad>")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model on disk and problems: short ones, another script, and one that is too long for the context."""
    folder = tmp_path_factory.mktemp("generate")
    model = make_model("qwen3")
    model.generation_config.eos_token_id, model.generation_config.top_k = STOPS, 50
    model.save_pretrained(folder / "model")
    byte_tokenizer().save_pretrained(folder / "model")
    prompts = ["1+1=", "What is a return?", "x", "日本語 ê/..", "long " * 120, "What is left of a longer prompt, of two pages and more?"]
    common.write_jsonl(folder / "p.jsonl", [{"id": f"p/{i}", "prompt": prompt, "answer": "2"} for i, prompt in enumerate(prompts)])
    return folder


def arguments(folder, out, *more, new=30, n=4):
    return [str(x) for x in (folder / "model", folder / "p.jsonl", "-n", n, "--max-new-tokens", new, "--device", "cpu", "--out", out, *more)]


def run_program(*command):
    generate.main(generate.parse([str(x) for x in command]))


def run_here(folder, out, *more, **options):
    run_program(*arguments(folder, out, *more, **options))
    return Path(out) / "model" / "p" / "32"


def refused(capsys, *command):
    """The one line that ends a command that cannot be."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as stop:
        run_program(*command)
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert stop.value.code == 2 and error.startswith("error: ")
    return error


@pytest.fixture(scope="module")
def whole(folder):
    """The run that nothing disturbed."""
    return run_here(folder, folder / "whole")


def content(run):
    tokens, hidden = common.load_pt(run / "tokens.pt"), common.load_pt(run / "hidden.pt")
    return ((run / "rollouts.jsonl").read_bytes(), tokens["ids"].tolist(), tokens["stats"].tolist(), hidden["keys"], hidden["hidden"])


def assert_same_run(a, b, statistics=1e-6):
    """The batch moves a float32 by 1e-7, and so now and then a statistic, a float16, by its last bit."""
    for x, y in zip(common.read_rollouts(a), common.read_rollouts(b), strict=True):
        assert {**x, "conf": 0} == {**y, "conf": 0}
    a, b = content(a), content(b)
    assert a[1] == b[1] and a[3] == b[3]
    np.testing.assert_allclose(a[2], b[2], rtol=2e-3, atol=statistics)
    torch.testing.assert_close(a[4], b[4], atol=1e-5, rtol=1e-5)


def test_the_run_folder(folder, whole, capsys):
    meta, rollouts, problems = (common.read_meta(whole), common.read_rollouts(whole), common.read_jsonl(whole / "problems.jsonl"))
    common.check_same_problems(whole, rollouts)
    keys = [(f"p/{i}", sample) for i in range(6) for sample in range(4)]
    assert common.keys_of(rollouts) == keys and [p["id"] for p in problems] == [f"p/{i}" for i in range(6)]
    assert sorted(p.name for p in whole.iterdir() if p.is_file()) == ["hidden.pt", "meta.json", "problems.jsonl", "rollouts.jsonl", "tokens.pt"]
    tokens = common.load_pt(whole / "tokens.pt")
    assert tokens["ids"].dtype == torch.int32 and tokens["stats"].dtype == torch.float16 and tokens["stats"].shape == (len(tokens["ids"]), 12)
    for row, a, b in zip(rollouts, tokens["offsets"][:-1], tokens["offsets"][1:], strict=True):
        assert row["n_tokens"] == b - a
        assert row["conf"] == common.confidence(tokens["stats"][a:b].numpy(), 300), "the same numbers from the file"
    for vector in ("penultimate/last", "penultimate/eos", "final/last", "-1/eos", "3/eos"):
        assert common.read_vectors(whole, vector)[0] == keys
    commit = subprocess.run(["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=12"], capture_output=True, text=True).stdout
    assert meta["git"] == (commit.strip() or None)
    stopped = [i for i, row in enumerate(rollouts) if row["finish"] == "stop"]
    hidden = common.load_pt(whole / "hidden.pt")["hidden"]
    cut = [i for i, row in enumerate(rollouts) if row["finish"] == "length" and row["n_tokens"]]
    assert stopped and (hidden[stopped, 0] != hidden[stopped, 1]).any(-1).all() and (hidden[cut, 0] == hidden[cut, 1]).all()
    assert meta["sampling"] == {"temperature": 1.0, "top_k": 50, "top_p": 1.0, "repetition_penalty": 1.0, "stop_ids": STOPS}
    needed = "model revision dataset seed n arguments versions device dtype git n_layers width vocab_size layers slots"
    needed += " architecture model_type created"
    assert set(needed.split()) <= set(meta), set(needed.split()) - set(meta)


def test_a_prompt_longer_than_the_context_is_said_and_joins(whole):
    rows = [row for row in common.read_rollouts(whole) if row["id"] == "p/4"]
    assert common.read_meta(whole)["skipped"] == {"p/4": "a prompt of 686 tokens in a context of 512"}
    assert [(row["n_tokens"], row["finish"], row["response"]) for row in rows] == [(0, "length", "")] * 4
    assert all(value is None for row in rows for value in row["conf"].values())


def test_prompts_at_the_edge_of_the_context(folder, tmp_path):
    common.write_jsonl(tmp_path / "p.jsonl", [{"id": str(size), "prompt": "a" * size} for size in (510, 511, 512)])
    run_program(folder / "model", tmp_path / "p.jsonl", "-n", 1, "--temperature", 0, "--out", tmp_path)
    run = tmp_path / "model" / "p" / "32"
    assert [row["n_tokens"] for row in common.read_rollouts(run)] == [2, 1, 0] and list(common.read_meta(run)["skipped"]) == ["512"]


def test_a_finished_run_is_left_alone(folder, whole, capsys, monkeypatch):
    before = {path: path.stat().st_mtime_ns for path in whole.iterdir() if path.is_file()}
    monkeypatch.setattr(common, "load_model", lambda *_, **__: pytest.fail("the model is not needed"))
    run_here(folder, folder / "whole")
    assert capsys.readouterr().out.splitlines()[-1] == str(whole)
    assert before == {path: path.stat().st_mtime_ns for path in whole.iterdir() if path.is_file()}


@pytest.mark.parametrize("change", [["--seed", 32, "-n", 5], ["--temperature", 0.5], ["--limit", 3]])
@pytest.mark.parametrize("known", [True, False])
def test_another_run_never_overwrites_one(folder, whole, change, known, capsys, monkeypatch):
    before = content(whole)[0]
    if not known:  # as for a model of the Hub that is not on this machine
        monkeypatch.setattr(generate, "hash_model", lambda *_: None)
    assert str(whole) in refused(capsys, *arguments(folder, folder / "whole", *change))
    assert content(whole)[0] == before


def test_other_weights_or_problems_of_the_same_name_are_refused(folder, whole, tmp_path, capsys):
    other, more = tmp_path / "model", ("-n", 4, "--max-new-tokens", 30, "--out", folder / "whole")
    make_model("qwen3").save_pretrained(other)  # the same shapes, another generation config
    byte_tokenizer().save_pretrained(other)
    shutil.copy(folder / "p.jsonl", tmp_path)
    assert "was made with model " in refused(capsys, other, tmp_path / "p.jsonl", *more)
    common.write_jsonl(tmp_path / "p.jsonl", [{"id": "p/0", "prompt": "2+2="}])
    assert "was made with data set " in refused(capsys, folder / "model", tmp_path / "p.jsonl", *more)


def test_an_architecture_that_cannot_be_watched_is_one_line(capsys):
    model = AutoModelForCausalLM.from_config(GPT2Config(vocab_size=50, n_embd=16, n_layer=2, n_head=2))
    with pytest.raises(SystemExit) as stop:
        generate.Engine(model, [1], PLAIN, 1, 1, 4, 4)
    assert stop.value.code == 2 and "GPT2LMHeadModel" in capsys.readouterr().err


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_vectors_are_in_the_type_of_the_model(folder, tmp_path, dtype):
    run = run_here(folder, tmp_path, "--dtype", dtype, "--limit", "2", new=5)
    hidden = common.load_pt(run / "hidden.pt")["hidden"]
    assert hidden.dtype == getattr(torch, dtype) and hidden.isfinite().all() and common.read_meta(run)["dtype"] == dtype


def test_unknown_names_are_one_line(folder, run_script, tmp_path):
    assert "neither a folder" in run_script("01_generate.py", tmp_path / "nothing here", folder / "p.jsonl", "--out", tmp_path, code=2).stderr
    assert "humaneval" in run_script("01_generate.py", folder / "model", "nothing", "--out", tmp_path, code=2).stderr
    assert "penultimate" in run_script("01_generate.py", folder / "model", folder / "p.jsonl", "--layers", "9", "--out", tmp_path, code=2).stderr
    assert not list(tmp_path.rglob("meta.json"))


def test_one_problem_one_rollout_one_token(folder, tmp_path):
    run = run_here(folder, tmp_path, "--limit", "1", n=1, new=1)
    assert [row["n_tokens"] for row in common.read_rollouts(run)] == [1]


def test_killed_and_started_again(folder, whole, tmp_path, monkeypatch):
    command = ["env", "OMP_NUM_THREADS=1", sys.executable, ROOT / "01_generate.py", *arguments(folder, tmp_path, "--slots", "1")]
    parts = tmp_path / "model" / "p" / "32" / "parts"
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        deadline = time.time() + 120
        while len(list(parts.glob("*.pt"))) < 2 and process.poll() is None and time.time() < deadline:
            time.sleep(0.002)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    done = {path.name for path in parts.glob("*.pt")}
    assert 2 <= len(done) < 6 and not (parts.parent / "rollouts.jsonl").exists()
    again, write_part = [], generate.write_part
    monkeypatch.setattr(generate, "write_part", lambda path, *rest: (again.append(path.name), write_part(path, *rest)))
    assert_same_run(whole, run_here(folder, tmp_path))
    assert set(again) == {f"{i}.pt" for i in range(6)} - done


def test_a_merge_that_is_cut_off_is_done_again(folder, whole, tmp_path, monkeypatch):
    def full_disk(path, rows):
        if Path(path).name == "rollouts.jsonl":
            common.die("cannot write: no space left on device")
        return write(path, rows)

    write = common.write_jsonl
    monkeypatch.setattr(common, "write_jsonl", full_disk)
    with pytest.raises(SystemExit):
        run_here(folder, tmp_path)
    monkeypatch.setattr(common, "write_jsonl", write)
    run = tmp_path / "model" / "p" / "32"
    for path in (run / ".tokens.pt.1.tmp", run / "parts" / ".0.pt.1.tmp"):  # what a kill in the middle of writing leaves
        path.touch()
    assert_same_run(whole, run_here(folder, tmp_path))
    assert not [path for path in run.rglob("*") if path.is_file() and (path.name[0] == "." or path.parent.name == "parts")]


def torchrun(*command):
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    subprocess.run([*launch, *map(str, command)], check=True, env=os.environ | {"OMP_NUM_THREADS": "1"}, timeout=300)


WORKER = """\
import importlib, os, sys
sys.path.insert(0, sys.argv.pop(1))
generate = importlib.import_module("01_generate")
write_part = generate.write_part
def noted(path, *rest):
    with open(__file__ + os.environ["RANK"], "a") as file:
        file.write(path.stem)
    write_part(path, *rest)
generate.write_part = noted
generate.main(generate.parse())
"""


def test_two_workers_make_the_run_of_one_each_its_half(folder, whole, tmp_path):
    (tmp_path / "worker.py").write_text(WORKER)
    torchrun(tmp_path / "worker.py", ROOT, *arguments(folder, tmp_path))
    assert_same_run(whole, tmp_path / "model" / "p" / "32")
    assert [sorted((tmp_path / f"worker.py{rank}").read_text()) for rank in (0, 1)] == [list("024"), list("135")]


def test_a_model_split_over_two_processes(folder, tmp_path):
    torchrun(ROOT / "01_generate.py", *arguments(folder, tmp_path / "two", "--tp", new=6, n=2))
    assert_same_run(run_here(folder, tmp_path / "one", new=6, n=2), tmp_path / "two" / "model" / "p" / "32")


@pytest.mark.parametrize("text, full", [
    ("CUDA out of memory. Tried to allocate 2 GiB", True),
    ("CUDA error: out of memory", True),
    ("MPS backend out of memory (MPS allocated: 9 GB", True),
    ("[enforce fail at alloc_cpu.cpp:127] . DefaultCPUAllocator: can't allocate memory", True),
    ("mat1 and mat2 shapes cannot be multiplied", False),
])  # fmt: skip
def test_every_device_says_out_of_memory_in_its_own_words(text, full):
    assert generate.out_of_memory(RuntimeError(text)) is full


def test_out_of_memory_is_met_by_fewer_slots(folder, whole, tmp_path, monkeypatch, capsys):
    """The real error of an allocation that no machine can meet, wherever there are more than five slots."""
    make_pages = generate.Engine.make_pages

    def too_many(engine, *sizes):
        torch.empty(1 << 60 if engine.slots > 5 else 1, dtype=torch.uint8)
        make_pages(engine, *sizes)

    monkeypatch.setattr(generate.Engine, "make_pages", too_many)
    assert_same_run(whole, run_here(folder, tmp_path))
    said = [line for line in capsys.readouterr().err.splitlines() if "out of memory" in line]
    assert [line.split()[-2] for line in said] == ["10", "5"]
    monkeypatch.setattr(generate.Engine, "make_pages", lambda *_: torch.empty(1 << 60, dtype=torch.uint8))
    with pytest.raises(SystemExit):
        run_here(folder, tmp_path / "none")
    assert "too little memory for one rollout" in capsys.readouterr().err


# ------------------------------------------------------------------------------------------------------------
# --responses and --extra


def test_responses_get_the_vectors_of_generation(folder, whole, tmp_path):
    """The rollouts of a run as somebody else's answers."""
    tokens, rows = common.load_pt(whole / "tokens.pt"), common.read_rollouts(whole)
    for row, ids in zip(rows, tokens["ids"].tensor_split(tokens["offsets"][1:-1]), strict=True):
        row["tokens"] = ids.tolist()
    common.write_jsonl(tmp_path / "answers.jsonl", rows)
    run = run_here(folder, tmp_path, "--responses", tmp_path / "answers.jsonl")
    assert_same_run(whole, run, statistics=5e-3)


def test_responses_as_text_by_prompt_and_by_messages(folder, tmp_path):
    rows = common.read_jsonl(folder / "p.jsonl")[:3]
    common.write_jsonl(tmp_path / "p.jsonl", rows)
    common.write_jsonl(tmp_path / "answers.jsonl", [
        {"prompt": rows[0]["prompt"], "responses": ["2", "", "it is 3<eos>"]},
        {"messages": [{"role": "user", "content": rows[1]["prompt"]}], "response": "def f():\n  return 1"},
        {"id": "p/2", "responses": ["cut off"], "finish": "length"},
        {"id": "p/2", "response": "", "finish": "length"},
        {"prompt": "another data set's", "response": "?"},
    ])  # fmt: skip
    given = ["--responses", tmp_path / "answers.jsonl", "--extra", "last10,special"]
    run_program(folder / "model", tmp_path / "p.jsonl", "--out", tmp_path, *given)
    run = tmp_path / "model" / "p" / "32"
    rows = [(row["id"], row["sample"], row["response"], row["finish"], row["n_tokens"]) for row in common.read_rollouts(run)]
    assert rows == [("p/0", 0, "2", "stop", 2), ("p/0", 1, "", "stop", 1), ("p/0", 2, "it is 3", "stop", 8),
                    ("p/1", 0, "def f():\n  return 1", "stop", 20), ("p/2", 0, "cut off", "length", 7),
                    ("p/2", 1, "", "length", 0)]  # fmt: skip
    extra, tokens = common.load_pt(run / "extra.pt"), common.load_pt(run / "tokens.pt")
    model = AutoModelForCausalLM.from_pretrained(folder / "model").float()
    ids = common.encode_prompt(byte_tokenizer(), {"kind": "text", "prompt": "What is a return?", "messages": [{"content": "What is a return?"}]})
    answer = tokens["ids"][tokens["offsets"][3] : tokens["offsets"][4]].tolist()
    final = full_forward(model, list(ids) + answer)[0][-1][len(ids) :]
    torch.testing.assert_close(extra["last10"][3], final[-10:], atol=1e-5, rtol=1e-5)
    assert extra["last10_len"].tolist() == [2, 1, 8, 10, 7, 0] and (extra["last10"][1, :9] == 0).all()
    assert extra["special_offsets"].tolist() == [0, 0, 0, 0, 2, 2, 2]  # the colon of `def f():`, and the end of `return`
    torch.testing.assert_close(extra["special"], final[[7, 16]], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("rows, words", [
    ([{"id": "p/0", "response": "2"}], "no responses to 1 of 2 problems"),
    ([{"id": "p/0", "responses": ["2"]}, {"id": "p/1", "responses": []}], "no responses to 1 of 2 problems"),
    ([{"prompt": ["?"], "response": "2"}], "no responses to 2 of 2 problems"),
    ([{"id": "p/0"}], "r.jsonl:1: 'responses' must be"),
    ([{"id": "p/0", "response": "2", "tokens": ["a"]}], "r.jsonl:1: 'tokens' must be"),
    ([{"id": "p/0", "responses": ["2"], "tokens": [5]}], "r.jsonl:1: 'tokens' must be"),
    ([{"id": "p/0", "responses": ["2"], "tokens": 5}], "r.jsonl:1: 'tokens' must be"),
    ([{"id": f"p/{i}", "responses": ["2"], "tokens": [[9999]]} for i in range(2)], "which model made them"),
    ([{"messages": [], "responses": ["2"]}], "'messages' must be"),
    ([{"id": "p/0", "response": "2", "sample": "a"}], "whole number"),
])  # fmt: skip
def test_answers_that_do_not_fit_are_refused(folder, tmp_path, rows, words, capsys):
    common.write_jsonl(tmp_path / "p.jsonl", common.read_jsonl(folder / "p.jsonl")[:2])
    common.write_jsonl(tmp_path / "r.jsonl", rows)
    command = [folder / "model", tmp_path / "p.jsonl", "--responses", tmp_path / "r.jsonl", "--out", tmp_path]
    assert words in refused(capsys, *command)


@pytest.mark.parametrize("replayed", [0, 1])
def test_more_vectors_of_a_run_are_those_of_a_full_forward_pass(folder, tmp_path, replayed):
    """Captured while generating, or added to the finished run; --extra always comes from the second pass."""
    more = ["--layers", "all", "--extra", "last10,special"]
    run = run_here(folder, tmp_path, *more[: 0 if replayed else None], new=60)
    if replayed:
        before = {path.name: path.stat().st_mtime_ns for path in run.iterdir()}
        old = common.load_pt(run / "hidden.pt")
        run_here(folder, tmp_path, *more, new=60)
        run_here(folder, tmp_path, "--layers", "final,0", "--extra", "special", new=60)  # all there
        changed = {path.name for path in run.iterdir() if path.stat().st_mtime_ns != before.get(path.name)}
        assert changed == {"hidden.pt", "meta.json", "extra.pt"}
        assert common.load_pt(run / "hidden.pt")["vectors"][:4] == old["vectors"]
        assert common.load_pt(run / "hidden.pt")["hidden"][:, :4].equal(old["hidden"])
    model = AutoModelForCausalLM.from_pretrained(folder / "model").float()
    rows, tokens, extra = common.read_rollouts(run), common.load_pt(run / "tokens.pt"), common.load_pt(run / "extra.pt")
    assert extra["keys"] == common.keys_of(rows)
    for r in (0, 5, 9, 23):
        problem = common.normalise_problem(common.read_jsonl(folder / "p.jsonl")[r // 4], "", 0)
        prompt = common.encode_prompt(byte_tokenizer(), problem)
        ids = tokens["ids"][tokens["offsets"][r] : tokens["offsets"][r + 1]].tolist()
        states = full_forward(model, prompt + ids)[0]
        last = len(prompt) + len(ids) - 1 - (rows[r]["finish"] == "stop")
        for layer in range(5):
            for token, place in (("last", last), ("eos", len(prompt) + len(ids) - 1)):
                torch.testing.assert_close(common.read_vectors(run, f"{layer}/{token}")[1][r], states[layer][place], atol=1e-5, rtol=1e-5)
        count = min(10, len(ids))
        assert extra["last10_len"][r] == count and (extra["last10"][r, : 10 - count] == 0).all()
        torch.testing.assert_close(extra["last10"][r, 10 - count :], states[-1][len(prompt) :][-10:], atol=1e-5, rtol=1e-5)
        places = [i + len(prompt) for i in generate.special_places(byte_tokenizer(), ids)]
        torch.testing.assert_close(extra["special"][slice(*extra["special_offsets"][r : r + 2])], states[-1][places], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("gone", ["hidden.pt", "tokens.pt", "rollouts.jsonl", "problems.jsonl", "hidden.pt tokens.pt"])
def test_what_a_finished_run_has_lost_is_made_again_and_nothing_else(folder, whole, tmp_path, gone):
    run = shutil.copytree(whole, tmp_path / "model" / "p" / "32")
    before = {path.name: path.stat().st_mtime_ns for path in run.iterdir()}
    for name in gone.split():
        (run / name).unlink()
    run_here(folder, tmp_path)
    assert_same_run(whole, run)
    changed = {path.name for path in run.iterdir() if path.stat().st_mtime_ns != before[path.name]} - {"meta.json"}
    assert changed == set(gone.split()) | ({"hidden.pt", "tokens.pt"} if "rollouts" in gone else set())
    assert common.read_jsonl(run / "problems.jsonl") == common.read_jsonl(whole / "problems.jsonl")


def test_a_replay_that_was_killed_goes_on_and_another_begins_anew(folder, whole, tmp_path, monkeypatch):
    run, write_part = shutil.copytree(whole, tmp_path / "model" / "p" / "32"), generate.write_part

    def parts_of(layer, most=9):
        """The parts that a run with this layer writes until it is killed instead of writing one more."""
        written = []

        def write(path, *rest):
            if len(written) == most:
                raise KeyboardInterrupt
            written.append(path.name)
            write_part(path, *rest)

        monkeypatch.setattr(generate, "write_part", write)
        with suppress(KeyboardInterrupt):
            run_here(folder, tmp_path, "--layers", layer)
        return written

    first, second = parts_of("0", most=2), parts_of("0")
    assert len(first) == 2 and len(second) == 4 and not set(first) & set(second)
    assert len(parts_of("1", most=2)) == 2 and len(parts_of("2")) == 6 and not (run / "parts").exists()
    names = [name.split("/")[0] for name in common.load_pt(run / "hidden.pt")["vectors"][::2]]
    assert names == ["penultimate", "final", "0", "2", "1"]


def test_greedy_is_a_run_folder_of_that_name(folder, tmp_path):
    run_here(folder, tmp_path, "--greedy", "--seed", "5", n=3)
    run = tmp_path / "model" / "p" / "greedy"
    plain = run_here(folder, tmp_path, "--temperature", "0", n=1)
    assert [row["response"] for row in common.read_rollouts(run)] == [row["response"] for row in common.read_rollouts(plain)]
    assert common.read_meta(run)["n"] == 1 and common.read_meta(run)["sampling"]["temperature"] == 0


def test_cap_of_the_context_and_how_many_were_cut(folder, tmp_path, capsys):
    run = run_here(folder, tmp_path, "--temperature", "0", "--limit", "3", n=1, new=0)
    rows, meta, err = common.read_rollouts(run), common.read_meta(run), capsys.readouterr().err
    problems = [common.normalise_problem(row, "", 0) for row in common.read_jsonl(run / "problems.jsonl")]
    room = [max(0, 512 - len(common.encode_prompt(byte_tokenizer(), problem))) for problem in problems]
    assert meta["arguments"]["max_new_tokens"] == max(room)
    cut = [row for row in rows if row["finish"] == "length"]
    assert all(row["n_tokens"] == n for row, n in zip(rows, room) if row in cut)
    told = f"{run}: {len(cut)} of 3 rollouts were cut, at {max(room)} tokens" in err
    assert told == bool(cut) and "cut at 512 tokens" in err


def test_special_tokens_of_a_program():
    tokenizer = byte_tokenizer()
    text = "def f(x): # why: so\n  async def g() -> int:\n    return x\nreturned = {1: 2}; a = b[1:]"
    ids = tokenizer(text)["input_ids"]
    places = generate.special_places(tokenizer, ids)
    assert [text[: i + 1].splitlines()[-1] for i in places] == ["def f(x):", "  async def g() -> int:", "    return"]


# ------------------------------------------------------------------------------------------------------------
# Several data sets, and the plan


def test_several_data_sets_in_one_call_are_the_runs_of_single_calls(folder, whole, tmp_path, capsys):
    common.write_jsonl(tmp_path / "q.jsonl", common.read_jsonl(folder / "p.jsonl")[:2])
    command = ["-n", 4, "--max-new-tokens", 30, "--device", "cpu", "--out", tmp_path]
    run_program(folder / "model", tmp_path / "q.jsonl", folder / "p.jsonl", *command)
    out, err = capsys.readouterr()
    assert out.splitlines() == [str(tmp_path / "model" / name / "32") for name in "qp"]
    assert_same_run(whole, tmp_path / "model" / "p" / "32")
    assert common.read_meta(tmp_path / "model" / "q" / "32")["dataset"] == str(tmp_path / "q.jsonl")
    plan = [line.split() for line in err.splitlines() if line.startswith(str(tmp_path)) and " GB" in line]
    assert [cells[1:5] for cells in plan] == [["2", "8", "?", "240"], ["6", "24", "?", "720"]]  # no run before: no guess
    assert [cells[7] for cells in plan] == ["4,096", "12,288"] and "cut at 30 tokens" in err  # the cap, and the context
    text = common.load_config(folder / "model").get_text_config()
    per_token = 2 * text.num_hidden_layers * text.num_key_value_heads * text.head_dim * 4 / 1024
    assert f"{per_token:.0f} KB a token" in err
    run_program(folder / "model", tmp_path / "q.jsonl", "--seed", 1, *command)
    tokens = sum(row["n_tokens"] for run in tmp_path.glob("*/*/32") for row in common.read_rollouts(run))
    line = next(line for line in capsys.readouterr().err.splitlines() if line.startswith(str(tmp_path)))
    assert line.split()[3] == f"{8 * tokens / 32:.0f}"


@pytest.mark.parametrize("option, values", [
    ("--temperature", ("-1", "nan", "inf")), ("--top-p", ("0", "1.5")), ("--top-k", ("-3",)),
    ("--repetition-penalty", ("0", "inf")), ("--slots", ("0",)),
])  # fmt: skip
def test_sampling_that_makes_no_sense_is_refused(option, values, capsys):
    for value in values:
        assert option in refused(capsys, "m", "d", option, value)


@pytest.mark.parametrize("file, change", [
    ("model.safetensors", lambda content: content[:1000]),
    ("config.json", lambda content: content.replace(b'"intermediate_size": 96', b'"intermediate_size": 97')),
    ("tokenizer.json", None),
    ("chat_template.jinja", lambda _: b"{% if %}"),
])
def test_a_model_that_is_damaged_is_one_line(folder, tmp_path, file, change, capsys):
    path = shutil.copytree(folder / "model", tmp_path / "model") / file
    before = path.read_bytes() if path.exists() else b""
    path.write_bytes(change(before)) if change else path.unlink()
    assert not change or path.read_bytes() != before
    refused(capsys, tmp_path / "model", folder / "p.jsonl", "--device", "cpu", "--out", tmp_path)


def test_a_wrong_name_ends_it_before_any_work(folder, tmp_path, capsys):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "p.jsonl").write_text('{"prompt": "1"}\n')
    for second, words in (("nonsense", "known names"), (tmp_path / "other" / "p.jsonl", "one name")):
        assert words in refused(capsys, folder / "model", folder / "p.jsonl", second, "--out", tmp_path / "runs")
        assert not (tmp_path / "runs").exists()


def test_reasoning_that_the_template_opened_is_known_when_cut_short(folder, tmp_path):
    shutil.copytree(folder / "model", tmp_path / "model")
    template = "{{ messages[-1].content + '\\n<think>\\n' }}"
    (tmp_path / "model" / "chat_template.jinja").write_text(template)
    common.write_jsonl(tmp_path / "p.jsonl", common.read_jsonl(folder / "p.jsonl")[:3])
    command = [tmp_path / "model", tmp_path / "p.jsonl", "-n", 4, "--device", "cpu"]
    run_program(*command, "--max-new-tokens", 30, "--out", tmp_path / "a")
    run = tmp_path / "a" / "model" / "p" / "32"
    rows = common.read_rollouts(run)
    assert all(row["response"].startswith("<think>\n") for row in rows) and any(row["finish"] == "length" for row in rows)
    assert all(common.split_reasoning(row["response"])[1] == "" for row in rows if "</think>" not in row["response"])
    # Read back as answers made elsewhere, the text does not hold what the prompt holds
    run_program(*command, "--out", tmp_path / "b", "--responses", run / "rollouts.jsonl")
    again = common.read_rollouts(tmp_path / "b" / "model" / "p" / "32")
    assert [row["response"] for row in again] == [row["response"] for row in rows]


# ------------------------------------------------------------------------------------------------------------
# A GPU's way through the loop, without one: graphs are calls; padded rows, columns and pages are the same


@pytest.mark.parametrize("family, recorded", [*((family, True) for family in FAMILIES), ("qwen3_moe", False)])
def test_the_steps_that_a_gpu_records_are_the_same_steps(family, recorded, monkeypatch):
    model, init = make_model(family), generate.Engine.__init__

    def record(engine, n):
        extent = engine.extent
        state, engine.state[:, engine.LIVE] = engine.state.clone(), 0
        engine.step(n)  # a dry run, as before a recording
        engine.tick.zero_()
        engine.state.copy_(state)

        def replay():
            engine.extent = extent
            engine.step(n)

        return SimpleNamespace(replay=replay)

    def with_graphs(engine, *args, **options):
        init(engine, *args, **options)
        engine.recorded, engine.waits = recorded, False

    top_p = PLAIN | {"top_p": 0.9}
    expected = run_engine(model, jobs_of(20), sampling=top_p)
    monkeypatch.setattr(generate.Engine, "__init__", with_graphs)
    monkeypatch.setattr(generate.Engine, "record", record)
    monkeypatch.setattr(generate, "WIDE", 128)  # now and then too few, so that a row waits for a step that sorts
    for options in ({"look_every": 4}, {"look_every": 8, "slots": 14}):
        found = run_engine(model, jobs_of(20), sampling=top_p, **options)
        assert same_tokens(expected, found)
        assert max(float((expected[key]["hidden"] - found[key]["hidden"]).abs().max()) for key in expected) < 1e-4


@pytest.mark.parametrize("problem, graphs", [(None, True), ("called a synchronizing CUDA operation", False), ("an illegal address", None)])
def test_a_model_that_waits_for_the_device_gets_no_graph(problem, graphs, monkeypatch, capsys):
    modes = []

    def forward(**_):
        assert modes == ["error"]
        if problem:
            raise RuntimeError(problem)

    monkeypatch.setattr(torch.cuda, "set_sync_debug_mode", modes.append)
    if graphs is None:
        with pytest.raises(RuntimeError, match=problem):
            generate.never_waits(forward, torch.tensor([[0]]))
    else:
        assert generate.never_waits(forward, torch.tensor([[0]])) is graphs
    assert modes == ["error", "default"] and ("without CUDA graphs" in capsys.readouterr().err) == (graphs is False)
