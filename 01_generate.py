"""Sample N rollouts of every problem, and keep each one's vectors and token statistics as they come.

    python 01_generate.py demo/model demo/math_a.jsonl
    python 01_generate.py Qwen/Qwen3-1.7B humaneval kodcode -n 16 --seed 32 --max-new-tokens 0
    torchrun --nproc-per-node 4 01_generate.py Qwen/Qwen3-1.7B humaneval
    python 01_generate.py demo/model demo/math_a.jsonl --layers all --extra last10  # more for a run
    python 01_generate.py Qwen/Qwen3-1.7B own.jsonl --responses own.jsonl           # answers made elsewhere

Reads a causal language model of transformers (a folder or a Hub id) and problems (a data set name or a file).
Writes runs/<model>/<dataset>/<seed>/ with meta.json, problems.jsonl, rollouts.jsonl, hidden.pt and tokens.pt;
while it runs, parts/ holds one file per finished problem: killed and started again it goes on with the
others. More workers (torchrun or srun) take turns at the problems. The last lines printed are the run
folders, one a data set.

How: one decode loop over a batch of rows. A prompt is computed once for all its rollouts; a row that ends
makes room for the next. Keys and values lie in pages; attention takes these as they lie, each with the
queries of the rows it belongs to, and adds up a row's shares: no key is copied, no padding read. Statistics
come from the raw logits. A row lives one step longer than its last token, which gives the vector at that
token too.

A finished run that lacks something, a file or vectors of --layers and --extra, gets it by one pass over the
token ids in tokens.pt; what it has stays as it is. --extra last10,special writes extra.pt, of the final
layer: {"keys": [R], "last10": [R, 10, d] zero padded in front, "last10_len": [R], "special": [S, d],
"special_offsets": [R + 1], "special_tokens": [S]}; special are the tokens that end a `return` or the colon of
a `def` line.

--responses FILE, instead of sampling: rows {"id" or "prompt" or "messages", "responses": [text, ...]} or
{..., "response": text}, joined to the problems by id, else by the text of the prompt; a problem's answers are
numbered from 0 in the order of their "sample", if any, and of the file. A response counts as finished unless
its row says "finish": "length"; "tokens" (lists of token ids, the ending one included) spare the tokenizer's
guess.

--scorer scorer.pt --stop: a problem gets 1, 2, 3, 5, 8, 12, 16 rollouts, until the best probability among
them reaches a threshold: the one that 03 found on the calibration run to cost at most a point of accuracy, or
--stop 0.95. By --stop-rule weighted-vote, until the leading answer will hardly be overtaken
(common.sureness). Decisions depend on the problem's own rollouts alone, so a killed run goes on to the same
end; reference answers and tests are never looked at. (The vote takes its answers from 02_label.py: the one
time that a script uses another.)

A prompt that has no tokens, or leaves no room for an answer in the model's context, gets rollouts of no
tokens with finish "length" and vectors of zeros; meta.json lists its id and the reason under "skipped".
"""

import argparse
import fcntl
import hashlib
import importlib
import os
import platform
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict, deque
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import numpy as np

import common
from common import context_of, token_stats, watch_layers


def parse(argv=None):
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    add, models = parser.add_argument, "; default: what the model's authors set"
    add("model", help="a folder, or a Hub id such as Qwen/Qwen3-1.7B")
    add("datasets", nargs="+", metavar="dataset", help="names such as humaneval, or .jsonl files")
    add("-n", type=int, default=16, help="rollouts a problem (default 16)")
    add("--seed", type=int, default=32, help="of the sampling noise (default 32)")
    add("--out", default="runs", help="where run folders go (default runs)")
    add("--limit", type=int, help="only the first this many problems")
    add("--max-new-tokens", type=int, default=8192, help="a rollout is cut here (8192); 0: at the context")
    add("--layers", default="penultimate,final", help="vectors to keep: names, numbers, .75 of all, all")
    add("--extra", default="", help="last10, special or both: more vectors, for studies of the scorer")
    add("--greedy", action="store_true", help="one rollout a problem, temperature 0, in a folder greedy")
    add("--temperature", type=float, help="0 takes the likeliest token" + models)
    add("--top-k", type=int, help="sample from this many tokens; 0: from all" + models)
    add("--top-p", type=float, help="sample from the tokens that hold this mass; 1: from all" + models)
    add("--repetition-penalty", type=float, help="1: none" + models)
    add("--responses", metavar="FILE", help="vectors and statistics of these answers, made elsewhere")
    add("--scorer", metavar="PT", help="with --stop: what 03_train_scorer.py made on a run of this model")
    rules, sure = common.STOP_RULES, "stop sampling a problem at this sureness (default: as 03 found)"
    add("--stop", type=float, nargs="?", const=0.0, metavar="SURE", help=sure)
    add("--stop-rule", choices=rules, default=rules[0], help="sure of what (%(default)s)")
    add("--slots", type=int, help="rollouts that run at the same time (default 256 on a GPU, 128 on a CPU)")
    add("--tp", action="store_true", help="split the model over the processes of torchrun, not the problems")
    add("--device", help="cuda, mps or cpu (default: the first there is)")
    dtypes = ["auto", "float32", "bfloat16", "float16"]
    add("--dtype", default="auto", choices=dtypes, help="of weights and vectors")
    add("--revision", help="of the model on the Hub")
    add("--trust-remote-code", action="store_true", help="run Python code that comes with the model")
    args = parser.parse_args(argv)
    if args.greedy:
        args.n, args.temperature, args.seed = 1, 0.0, 0
    given = lambda name, default: default if getattr(args, name) is None else getattr(args, name)
    for wrong, message in (
        (min(args.n, given("slots", 1), given("limit", 1)) < 1, "-n, --slots and --limit must be at least 1"),
        (args.max_new_tokens < 0 or given("top_k", 0) < 0, "--max-new-tokens and --top-k must be at least 0"),
        (not 0 <= given("temperature", 0) < np.inf, "--temperature must be at least 0"),
        (not 0 < given("top_p", 1) <= 1, "--top-p must be above 0 and at most 1"),
        (not 0 < given("repetition_penalty", 1) < np.inf, "--repetition-penalty must be above 0"),
        (not {*args.extra.split(",")} <= {"", "last10", "special"}, "--extra: last10, special or both"),
        (args.responses and len(args.datasets) > 1, "--responses: give the one data set that they answer"),
        ((args.stop is None) != (args.scorer is None), "--stop needs --scorer, which serves nothing else"),
        (not 0 <= given("stop", 0) < 1, "--stop is at least 0 and below 1"),
        (args.scorer and args.responses, "--stop goes without --responses"),
        (args.tp and "WORLD_SIZE" not in os.environ, "--tp needs torchrun --nproc-per-node 2 ..."),
    ):
        if wrong:
            common.die(message)
    return args


if __name__ == "__main__":
    ARGS = parse()  # -h is answered before the slow imports
    KEPT = "finished problems are kept in the run folder; the same command goes on with the others"
    common.interruptible(KEPT)

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.nn.functional as F  # noqa: E402

TOP = common.TOP_K  # log-probabilities kept a token
FAR = 1 << 40  # a position that no row reaches
WIDE = 256  # of the most likely tokens top-p looks at this many first
STRIDE = 0x1E3779B97F4A7C15  # between the inputs of `scramble`: odd, with bits everywhere

# ------------------------------------------------------------------------------------------------------------
# Sampling: noise is a function of (seed, problem, sample, step, token) and of nothing else


def noise_key(seed, problem_id, sample):
    """62 bits that stand for one rollout."""
    digest = hashlib.sha256(f"{seed}\n{sample}\n{problem_id}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 2


def scramble(x):
    """The finish of splitmix64 on int64 tensors, high 32 bits: neighbouring inputs give unrelated outputs."""
    for shift, factor in ((30, -0x40A7B892E31B1A47), (27, -0x6B2FB644ECCEEE15)):
        x = (x ^ ((x >> shift) & ((1 << (64 - shift)) - 1))) * factor
    return ((x ^ ((x >> 31) & ((1 << 33) - 1))) >> 32).int()


def exponential(rows, tokens):
    """Exponential noise [B, V] from int32 hashes of (rollout, step) [B, 1] and of tokens, [V] or [B, V]."""
    h = (rows ^ tokens) * 0x7FEB352D
    h ^= h >> 15
    h *= 0x2C1B3C6D
    h &= 0x7FFFFFFF
    return h.float().add_(0.5).mul_(-(2.0**-31)).log1p_().neg_()  # floats are densest where the winners are


def penalise(logits, past, penalty):
    """The repetition penalty, on the tokens in `past` [B, T]; it may hold a token more than once."""
    found = logits.gather(1, past)
    return logits.scatter(1, past, (found / penalty).where(found > 0, found * penalty))


def nucleus(p, top_p):
    """p [B, K], largest first -> bool: the fewest that hold `top_p` of the mass, and ties with the last."""
    before = F.pad(p.cumsum(-1)[:, :-1], (1, 0))
    return p >= p.where(before < top_p, 2).amin(-1, keepdim=True)


def choose_tokens(logits, sampling, rows, tokens, width=None, wait=True):
    """The next tokens [B]: argmax p / E, which draws from p. logits [B, V] float32.

    Top-p finds its tokens among the `width` likeliest. Rows in which these hold too little are asked again,
    with more; wait=False, as a GPU would have to wait to know whether there are any: those rows get -1.
    """
    if sampling["temperature"] == 0:
        return logits.argmax(-1)
    logits, top_k, top_p = logits / sampling["temperature"], sampling["top_k"], sampling["top_p"]
    vocab, width, ids, sure = logits.shape[-1], width or WIDE, None, None
    if top_k or top_p < 1:
        x, ids = logits.topk(min(top_k or width, vocab))
        p = (x - (x if top_k else logits).logsumexp(-1, keepdim=True)).exp_()
    else:
        p = logits.softmax(-1)
    if top_p < 1:
        kept = nucleus(p, top_p)
        sure = None if top_k or width >= vocab else ~kept[:, -1]
        p = p * kept
    chosen = p.div_(exponential(rows, tokens if ids is None else tokens[ids])).argmax(-1)
    if ids is not None:
        chosen = ids.gather(1, chosen[:, None])[:, 0]
    if sure is not None:
        chosen = chosen.where(sure, -1)
        if wait and not sure.all():
            more = logits[~sure], sampling | {"temperature": 1}, rows[~sure], tokens, 16 * width
            chosen[~sure] = choose_tokens(*more)
    return chosen


# ------------------------------------------------------------------------------------------------------------
# Attention


def use_attention(model, name, function):
    from transformers import AttentionInterface

    AttentionInterface.register(name, function)
    try:
        model.set_attn_implementation(name)
    except ValueError as error:
        why = str(error).splitlines()[0]
        common.die(f"{type(model).__name__} does not take an attention function: {why}")


def causal_attention(module, q, k, v, mask=None, scaling=None, sliding_window=None, s_aux=None, **_):
    """Each sequence over itself, padding on the right: q [B, H, T, D], k, v [B, G, T, D] -> [B, T, H, D]."""
    # Each head its own keys: with grouped heads beside a mask CUDA would make all scores, [B, H, T, T]
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    width, first, mask = q.shape[-1], 0, None
    if s_aux is not None:  # a token in front, its value 0, its score the sink: a dimension more (8: speed)
        q, k, v = (F.pad(x, (0, 8, 1, 0)) for x in (q, k, v))
        q[..., width] = (s_aux / scaling)[:, None].to(q.dtype)
        k[:, :, 0, width], first = 1, 1
    if sliding_window is not None and q.shape[2] - first > sliding_window:
        i = torch.arange(q.shape[2], device=q.device)
        mask = (i[:, None] >= i) & ((i[:, None] - i < sliding_window) | (i < first))
    out = F.scaled_dot_product_attention(q, k, v, mask, is_causal=mask is None, scale=scaling)
    return out[:, :, first:, :width].transpose(1, 2), None


def page_attention(q, k, v, scaling, low, high):
    """Each page by itself: shares [E, G, m, D] and the log of their weights [E, G, m].

    q [E, G, m, D], k and v [E, G, P, D]; of a page's P keys those from low to high count, [E, 1] or [E, m].
    """
    i = torch.arange(k.shape[2], device=k.device)
    valid = (i >= low[..., None]) & (i < high[..., None])  # [E, 1 or m, P]
    scores = (q @ k.mT).float().mul_(scaling).masked_fill_(~valid[:, None], -1e30)
    top = scores.amax(-1, keepdim=True)
    weights = scores.sub_(top).exp_()
    total = weights.sum(-1, keepdim=True)
    return (weights.to(v.dtype) @ v).float().div_(total), (top + total.log())[..., 0]


def never_waits(model, ids):
    """Does the forward pass leave the host free, as a CUDA graph needs? Growing rotary embeddings do not."""
    torch.cuda.set_sync_debug_mode("error")
    try:
        with torch.inference_mode():
            model(input_ids=ids, position_ids=ids, use_cache=False)
    except RuntimeError as error:
        if "synchronizing" not in str(error):
            raise
        print(f"without CUDA graphs, so slower: {type(model).__name__} waits for the GPU", file=sys.stderr)
        return False
    finally:
        torch.cuda.set_sync_debug_mode("default")
    return True


# ------------------------------------------------------------------------------------------------------------
# The engine


class Engine:
    """Rows, pages, the decode loop. Row r of a [slots, ...] tensor is a running rollout; these come first."""

    TOKEN, POSITION, BASE, LEFT, LIVE, STOPPED, KEY = range(7)  # columns of `state`, int64 [slots, 7]

    def __init__(self, model, layers, sampling, n, slots, max_prompt, max_new, **sizes):
        self.model, self.sampling, self.device, self.n, self.slots = model, sampling, model.device, n, slots
        self.cuda = self.device.type == "cuda"
        self.waits = not self.cuda  # a step may wait for the device
        self.unsure = False  # a row needs a wider look (see choose_tokens)
        self.wave = sizes.get("wave") or n  # rollouts of a prompt that start together
        self.page = sizes.get("page") or (128 if self.cuda else 32)  # tokens in one
        self.look_every = sizes.get("look_every") or (8 if self.cuda else 1)  # steps between two looks
        self.max_new, self.rows, self.count, self.graphs = max_new, [], 0, {}
        use_attention(model, "paged", self.attend)
        width = model.config.get_text_config().hidden_size
        self.current = torch.zeros(slots, len(layers), width, dtype=model.dtype, device=self.device)
        self.filling, self.shapes = [], {}  # the pages that a prompt's forward fills; None in a decode step
        with torch.inference_mode():
            logits = model(input_ids=self.tensor([[0]]), use_cache=False).logits  # and `attend` notes shapes
        self.make_pages(max_prompt, sizes.get("budget") or free_memory(self.device))
        self.make_state(logits.shape[-1], max_prompt)
        self.graph_memory = torch.cuda.graph_pool_handle() if self.cuda else None
        self.recorded = self.cuda and never_waits(model, self.tensor([[0]]))
        self.hooks = watch_layers(model, layers, self.keep_vector)

    def make_pages(self, max_prompt, budget):
        """Page 0 is nobody's, [1, split) belong to single rows, [split, n_pages) to prompts."""
        a_prompt, a_row = -(-max_prompt // self.page), -(-(self.max_new + 1 + self.look_every) // self.page)
        size = sum(2 * heads * self.page * d * dtype.itemsize for heads, d, dtype in self.shapes.values())
        room = budget // size - 1
        if room < a_prompt + a_row:
            need = (a_prompt + a_row) * self.page
            common.die(f"{budget >> 20} MB do not hold a rollout of {need} tokens; lower --max-new-tokens")
        at_once = min(self.slots, 4 * -(-self.slots // self.wave) + 4)  # prompts that have running rows
        prompts = max(a_prompt, min(room // 4, room - a_row, a_prompt * at_once))
        self.split = 1 + min(self.slots * a_row, room - prompts)
        n_pages = self.split + prompts
        make = torch.zeros if self.cuda else torch.empty  # a CPU's memory is taken only as it is touched
        pool = lambda g, d, dtype: make(n_pages, g, self.page, d, dtype=dtype, device=self.device)
        self.keys, self.values = ({i: pool(*shape) for i, shape in self.shapes.items()} for _ in range(2))
        self.free, self.clean = np.ones(n_pages, bool), np.full(n_pages, self.cuda)
        self.take(0, 1, 1)
        notes = {  # what the host says about rows and pages; `sync` sends it to the device
            "own": np.zeros((self.slots, a_row), np.int64),  # a row's pages, in order; 0: none
            "shared": np.full((self.slots, a_prompt), -1),  # its prompt's, as page * n + sample; -1: none
            "members": np.zeros((n_pages, self.n), np.int64),  # a prompt's: rows by sample; an own: its row
            "start": np.full(n_pages, FAR),  # the position of a page's first token; FAR: free
            "end": np.full(n_pages, FAR),  # one after a prompt's last token; FAR: a row still writes
        }
        self.note = notes
        self.sent = {name: torch.from_numpy(x) for name, x in notes.items()}  # the same memory
        self.map = {name: x.to(self.device) for name, x in self.sent.items()}  # on a CPU still the same

    def make_state(self, vocab, max_prompt):
        zeros = lambda *shape, dtype=torch.int64: torch.zeros(*shape, dtype=dtype, device=self.device)
        slots, kept = self.current.shape[0], self.current.shape[1:]
        self.state = zeros(slots, 7)
        self.hidden = zeros(slots, 2, *kept, dtype=self.current.dtype)  # at the last token, at the ending one
        penalty = self.sampling["repetition_penalty"]
        self.past = zeros(slots, max_prompt + self.max_new + 1) if penalty != 1 else None
        self.stop_ids = self.tensor(self.sampling["stop_ids"])
        self.token_hashes = scramble(torch.arange(1, vocab + 1, device=self.device) * STRIDE)
        steps = (self.look_every, slots)  # what the host finds at its next look
        self.tick = zeros(1)
        self.tokens, self.sampled = zeros(*steps), zeros(*steps, dtype=torch.bool)
        self.stats = zeros(*steps, TOP + 2, dtype=torch.float16)
        self.row_ids = np.empty((slots, self.max_new), np.int32)  # and what it has found so far
        self.row_stats = np.empty((slots, self.max_new, TOP + 2), np.float16)

    def tensor(self, values):
        return torch.tensor(values, dtype=torch.int64, device=self.device)

    # --- one step, on the device: nothing here waits for it

    def keep_vector(self, column, out):
        if self.filling is None:
            self.current[: len(out), column].copy_(out[:, -1])

    def attend(self, module, q, k, v, mask=None, scaling=None, sliding_window=None, s_aux=None, **_):
        """What transformers calls in each layer: q [B, H, T, D], k, v [B, G, T, D] -> [B, T, H, D]."""
        layer = module.layer_idx
        if self.filling is None:
            return self.attend_pages(layer, q, k, v, scaling, sliding_window, s_aux), None
        self.shapes[layer] = (k.shape[1], k.shape[3], k.dtype)
        if self.filling:
            for pool, x in ((self.keys, k), (self.values, v)):
                x = F.pad(x[0], (0, 0, 0, -x.shape[2] % self.page))  # [G, pages * P, D]
                pool[layer][self.filling] = x.unflatten(1, (-1, self.page)).transpose(0, 1)
        return causal_attention(module, q, k, v, None, scaling, sliding_window, s_aux)

    def attend_pages(self, layer, q, k, v, scaling, window, sinks):
        """Each row's newest token over the row's pages: q [B, H, 1, D], k, v [B, G, 1, D] -> [B, 1, H, D]."""
        plan, keys, values = self.plan, self.keys[layer], self.values[layer]
        keys[plan["page"], :, plan["offset"]] = k[:, :, 0]
        values[plan["page"], :, plan["offset"]] = v[:, :, 0]
        q = q.view(len(q), k.shape[1], -1, q.shape[-1])  # [B, G, g, D]: the g heads that read the same keys
        group, own, shared = q.shape[2], plan["own"], plan["shared"]
        bounds, shared_bounds = self.bounds(window)
        shares, weights = page_attention(q[plan["owner"]], keys[own], values[own], scaling, *bounds)
        if shared.stop > shared.start:
            together = q[plan["members"]].transpose(1, 2).flatten(2, 3)  # [E, G, n * g, D]
            low, high = (x.repeat_interleave(group, 1) for x in shared_bounds)
            parts = page_attention(together, keys[shared], values[shared], scaling, low, high)
            parts = (x.unflatten(2, (self.n, group)).transpose(1, 2).flatten(0, 1) for x in parts)
            shares, weights = (torch.cat(pair) for pair in zip((shares, weights), parts))
        logs = weights[plan["entries"]]  # [B, entries, G, g]
        total = logs.logsumexp(1)
        if sinks is not None:
            total = total.logaddexp(sinks.float().view(1, -1, group))
        out = torch.einsum("begh,beghd->bghd", (logs - total[:, None]).exp(), shares[plan["entries"]])
        return out.to(v.dtype).flatten(1, 2)[:, None]

    def make_plan(self, n):
        """Which page each row writes, and which pages' shares it adds up: for all layers of a step."""
        own, first, last, columns, shared_columns = self.extent
        m, state = self.map, self.state[:n]
        where = state[:, self.POSITION] - state[:, self.BASE]
        shared = m["shared"][:n, :shared_columns]
        shares = (shared - first * self.n + own).where(shared >= 0, 0)
        self.plan = {
            "page": m["own"][:n].gather(1, (where // self.page)[:, None])[:, 0],  # [n]
            "offset": where % self.page,
            "own": slice(0, own),
            "shared": slice(first, last),
            "owner": m["members"][:own, 0],  # [E]
            "members": m["members"][first:last],  # [E, n]
            # Shares are numbered: own pages, then the prompts' pages times samples
            "entries": torch.cat([m["own"][:n, :columns], shares], 1),
        }
        self.known_bounds = {}

    def bounds(self, window):
        """(low, high) of the keys that count: in own pages [E, 1], and by sample in prompts' pages [E, n]."""
        if window not in self.known_bounds:
            plan, reach = self.plan, []
            for pages, rows in ((plan["own"], plan["owner"][:, None]), (plan["shared"], plan["members"])):
                start, end = self.map["start"][pages, None], self.map["end"][pages, None]
                now = self.state[:, self.POSITION][rows] + 1
                low, high = now - (window or FAR) - start, now.minimum(end) - start
                reach.append([x.clamp(0, self.page) for x in (low, high)])
            self.known_bounds[window] = reach
        return self.known_bounds[window]

    @torch.inference_mode()
    def step(self, n, width=None):
        """A token for each of the first n rows; a row whose token is not sure stays (see choose_tokens)."""
        self.make_plan(n)
        state, past = self.state[:n], self.past[:n] if self.past is not None else None
        token, position, base, left, live, stopped, key = state.unbind(1)
        live, stopped = live.bool(), stopped.bool()
        out = self.model(input_ids=token[:, None], position_ids=position[:, None], use_cache=False)
        logits = out.logits[:, -1].float()  # [n, V]
        current, hidden = self.current[:n], self.hidden[:n]
        hidden[:, 0] = current.where((live & ~stopped)[:, None, None], hidden[:, 0])
        hidden[:, 1] = current.where(live[:, None, None], hidden[:, 1])
        going = live & ~stopped & (left > 0)  # the others have just had their one step more
        noise = scramble(key + (position - base) * STRIDE)[:, None]
        scores = logits if past is None else penalise(logits, past, self.sampling["repetition_penalty"])
        chosen = choose_tokens(scores, self.sampling, noise, self.token_hashes, width, self.waits)
        if dist.is_initialized():
            dist.broadcast(chosen, 0)  # the processes of --tp must never disagree
        sure = going & (chosen >= 0)
        chosen = chosen.where(sure, token)
        stats = token_stats(logits, chosen)
        for log, x in ((self.tokens, chosen), (self.stats, stats), (self.sampled, sure)):
            log[:, :n].index_copy_(0, self.tick, x[None].to(log.dtype))
        self.tick += 1
        if past is not None:
            past.scatter_(1, position[:, None] + 1, chosen[:, None])
        ends = (chosen[:, None] == self.stop_ids).any(1)  # isin sorts where stop ids are many, and waits
        state[:, self.STOPPED] = stopped | ends & sure
        state[:, self.LIVE] = going
        state[:, self.TOKEN] = chosen
        state[:, self.POSITION] += sure
        state[:, self.LEFT] -= sure.long()

    def steps(self):
        """The steps up to the next look; on a GPU as replays of a CUDA graph."""
        n, step = len(self.rows), self.step
        if self.recorded:  # few shapes: rows, columns and prompts' pages are rounded up to powers of two
            up = lambda x, most: min(1 << max(x - 1, 0).bit_length(), most)
            n, columns = up(n, self.slots), up(self.extent[3], self.note["own"].shape[1])
            last = self.split + up(self.extent[2] - self.split, len(self.free) - self.split)
            self.extent = (self.split, self.split, last, columns, self.note["shared"].shape[1])
            shape = n, columns, last
            if shape not in self.graphs:
                self.graphs[shape] = self.record(n)
            step = lambda _: self.graphs[shape].replay()
        for i in range(self.look_every):
            if i == 0 and self.unsure:
                self.step(n, FAR)
            else:
                step(n)

    def record(self, n):
        """A step of n rows as a CUDA graph. Not yet run on a GPU."""
        state = self.state.clone()
        self.state[:, self.LIVE] = 0  # so the dry runs change nothing that counts
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self.step(n)
                self.tick.zero_()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.graph_memory):  # one for all: only one of them runs at a time
            self.step(n)
        self.state.copy_(state)
        return graph

    # --- between steps, on the host

    def run(self, jobs, held=()):
        """Make the rollouts of `jobs` (see `make_jobs`); after every look yield the list of those that ended.

        `held` are jobs that may come later (`start`) or never (`let_go`): their prompts are kept.
        """
        self.queue, self.prompts = deque(jobs), {}
        self.waiting = Counter(job["problem"] for job in [*jobs, *held])
        while self.queue or self.rows:
            self.admit()
            self.extend()
            self.sync()
            self.steps()
            yield self.collect()

    def start(self, held):
        """These next: what has begun ends first."""
        self.queue.extendleft(reversed(held))

    def let_go(self, problem, count):
        """That many of a problem's held jobs will not come."""
        self.waiting[problem] -= count
        if problem in self.prompts and not self.prompts[problem].users and not self.waiting[problem]:
            self.drop_prompt(problem)

    def take(self, low, high, count):
        """The first `count` free pages of [low, high), or None when there are too few."""
        pages = np.flatnonzero(self.free[low:high])[:count] + low
        if len(pages) < count:
            return None
        self.free[pages] = False
        dirty = pages[~self.clean[pages]]  # a masked key may be anything, but its value must be a number
        for values in self.values.values() if len(dirty) else ():
            values[dirty] = 0
        self.clean[pages] = True
        return pages.tolist()

    def admit(self):
        """Fill the free slots from the queue while there are pages, one in hand for each running row."""
        new = []
        while self.queue and len(self.rows) < self.slots and self.free[1 : self.split].sum() > len(self.rows):
            job = self.queue[0]
            prompt = self.prompts.get(job["problem"]) or self.read_prompt(job)
            page = prompt and self.take(1, self.split, 1)
            if not page:
                break
            row = SimpleNamespace(job=job, prompt=prompt, pages=[], count=0)
            r, base = len(self.rows), len(job["prompt"]) - 1
            self.queue.popleft()
            self.waiting[job["problem"]] -= 1
            prompt.users += 1
            self.rows.append(row)
            self.note["own"][r], self.note["shared"][r] = 0, -1
            self.note["shared"][r, : len(prompt.pages)] = np.array(prompt.pages, int) * self.n + job["sample"]
            self.note["members"][prompt.pages, job["sample"]] = r
            self.give_page(row, r, page[0])
            new.append([job["prompt"][-1], base, base, job["limit"], 1, 0, job["key"]])
            if self.past is not None:
                self.past[r] = job["prompt"][-1]
                self.past[r, : base + 1] = self.tensor(job["prompt"])
        if new:
            self.state[len(self.rows) - len(new) : len(self.rows)] = self.tensor(new)

    @torch.inference_mode()
    def read_prompt(self, job):
        """A prompt's keys and values, once for all its rollouts; None while there is no room for them."""
        ids = job["prompt"][:-1]
        pages = self.take(self.split, len(self.free), -(-len(ids) // self.page))
        if pages is None:
            for problem in [problem for problem, prompt in self.prompts.items() if not prompt.users]:
                self.drop_prompt(problem)
            return None if self.rows else self.read_prompt(job)
        if ids:
            self.filling = pages
            self.model(input_ids=self.tensor([ids]), use_cache=False, logits_to_keep=1)
        self.note["start"][pages], self.note["end"][pages] = np.arange(len(pages)) * self.page, len(ids)
        self.note["members"][pages] = 0
        self.prompts[job["problem"]] = SimpleNamespace(pages=pages, users=0)
        return self.prompts[job["problem"]]

    def drop_prompt(self, problem):
        self.give_back(self.prompts.pop(problem).pages)

    def give_back(self, pages):
        self.free[pages], self.note["start"][pages], self.note["end"][pages] = True, FAR, FAR

    def give_page(self, row, r, page):
        self.note["own"][r, len(row.pages)] = page
        self.note["members"][page] = r
        self.note["start"][page] = len(row.job["prompt"]) - 1 + len(row.pages) * self.page
        row.pages.append(page)

    def extend(self):
        """Pages for what rows write until the next look; if there are none, the shortest row starts again."""
        r = 0
        while r < len(self.rows):
            row = self.rows[r]
            if len(row.pages) * self.page >= row.count + self.look_every:
                r += 1
            elif page := self.take(1, self.split, 1):
                self.give_page(row, r, page[0])
            else:
                shortest = min(range(len(self.rows)), key=lambda r: self.rows[r].count)
                job = self.rows[shortest].job
                self.queue.appendleft(job)
                self.waiting[job["problem"]] += 1
                self.retire(shortest)
                r = 0

    def retire(self, r):
        """Give a row's pages back, and let the last row move into its place."""
        row, last, note = self.rows[r], len(self.rows) - 1, self.note
        problem = row.job["problem"]
        self.give_back(row.pages)
        note["members"][row.pages], note["members"][row.prompt.pages, row.job["sample"]] = 0, 0
        row.prompt.users -= 1
        if not row.prompt.users and not self.waiting[problem] and problem in self.prompts:
            self.drop_prompt(problem)
        mover = self.rows.pop()
        if r != last:
            self.rows[r] = mover
            for x in (note["own"], note["shared"], self.state, self.hidden, self.past):
                if x is not None:
                    x[r] = x[last]
            for x in (self.row_ids, self.row_stats):
                x[r, : mover.count] = x[last, : mover.count]
            note["members"][mover.pages], note["members"][mover.prompt.pages, mover.job["sample"]] = r, r
        note["own"][last], note["shared"][last] = 0, -1
        self.state[last, self.LIVE] = 0

    def sync(self):
        """Send the notes to the device; `extent` is how far they reach."""
        own, prompts = (np.flatnonzero(~x) for x in (self.free[: self.split], self.free[self.split :]))
        last = self.split + (int(prompts[-1]) + 1 if len(prompts) else 0)
        columns = max(len(row.pages) for row in self.rows), max(len(row.prompt.pages) for row in self.rows)
        self.extent = (int(own[-1]) + 1, self.split, last, *columns)
        for name, x in self.map.items() if self.device.type != "cpu" else ():
            x.copy_(self.sent[name], non_blocking=True)
        self.filling = None
        self.tick.zero_()

    def collect(self):
        """Gather the tokens of the last steps; retire the rows that ended and return their rollouts."""
        rows = self.rows
        logs = self.tokens, self.stats, self.sampled
        tokens, stats, sampled = (x[:, : len(rows)].cpu().numpy() for x in logs)
        for j in range(self.look_every):
            going = np.flatnonzero(sampled[j])
            at = [rows[r].count for r in going]
            self.row_ids[going, at], self.row_stats[going, at] = tokens[j, going], stats[j, going]
            for r in going:
                rows[r].count += 1
        self.count += int(sampled.sum())
        state, ended = self.state[: len(rows)].cpu().numpy().copy(), []
        self.unsure = bool((state[:, self.LIVE] > sampled[-1]).any())
        for r in np.flatnonzero(state[:, self.LIVE] == 0)[::-1]:  # from the back: only running rows move
            row = rows[r]
            ended.append({
                **{name: row.job[name] for name in ("problem", "sample")},
                "ids": self.row_ids[r, : row.count].copy(),
                "stats": self.row_stats[r, : row.count].copy(),
                "hidden": self.hidden[r].transpose(0, 1).flatten(0, 1).cpu().clone(),  # [layers * 2, d]
                "finish": "stop" if state[r, self.STOPPED] else "length",
            })
            self.retire(r)
        return ended

    def close(self):
        """Let go of the memory, though transformers keeps the attention function."""
        for hook in self.hooks:
            hook.remove()
        self.keys, self.values, self.graphs, self.plan = {}, {}, {}, {}


def free_memory(device):
    """Bytes for keys and values: the same in all processes of --tp."""
    if device.type != "cuda":
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    torch.cuda.empty_cache()  # what an earlier engine held
    free = torch.tensor(int(torch.cuda.mem_get_info(device)[0] * 0.8), device=device)
    if dist.is_initialized():
        dist.all_reduce(free, op=dist.ReduceOp.MIN)
    return int(free)


def out_of_memory(error):
    texts = ("out of memory", "can't allocate memory")  # of CUDA and MPS, and of a CPU
    return isinstance(error, MemoryError) or any(text in str(error) for text in texts)


def sample_rollouts(args, model, jobs, sampling, layers, stop=None):
    """Rollouts as they end; when memory runs out, the unfinished ones begin again with fewer slots."""
    slots, begin = min(args.slots or default_slots(model), len(jobs)), time.time()
    longest, limit = max(len(job["prompt"]) for job in jobs), max(job["limit"] for job in jobs)
    with progress_bar("generate", args, len(jobs)) as bar:
        todo, held = {(job["problem"], job["sample"]): job for job in jobs}, {}
        for key in [key for key in todo if stop and key[1]]:  # all but the first wave, which is one rollout
            held.setdefault(key[0], deque()).append(todo.pop(key))
        while todo:
            engine = None
            try:
                engine = Engine(model, layers, sampling, args.n, slots, longest, limit, wave=stop and 1)
                for ended in engine.run(todo.values(), [job for jobs in held.values() for job in jobs]):
                    speed = engine.count / (time.time() - begin)
                    busy = f"{speed:.0f} tokens/s, {len(engine.rows)}/{slots} slots busy"
                    bar.set_postfix_str(busy, refresh=False)
                    bar.update(len(ended))
                    for rollout in ended:
                        del todo[rollout["problem"], rollout["sample"]]
                    for job in next_waves(stop, engine, ended, held) if stop else ():
                        todo[job["problem"], job["sample"]] = job
                    bar.total = bar.n + len(todo) + sum(map(len, held.values()))
                    yield from ended
            except (RuntimeError, MemoryError) as error:
                if not out_of_memory(error):
                    raise
                if slots == 1:
                    common.die("too little memory for one rollout; lower --max-new-tokens or --dtype")
                slots //= 2
                bar.write(f"out of memory: going on with {slots} slots", file=sys.stderr)
            if engine is not None:
                engine.close()


def default_slots(model):
    return 256 if model.device.type == "cuda" else 128


def progress_bar(what, args, total):
    desc = f"{what} {common.run_folder('', '', args.dataset, args.seed)}"
    return common.progress(total=total, desc=desc, unit="rollout", disable=not is_writer())


# ------------------------------------------------------------------------------------------------------------
# Sampling that stops when it is sure


def settle_stop(args):
    """Make a bare --stop the threshold that 03 found, before anything is compared with it."""
    curve = common.load_scorer(args.scorer).checkpoint.get("stop", {}).get(args.stop_rule)
    if not args.stop and not curve:
        common.die(f"{args.scorer}: no threshold for {args.stop_rule} in it; give one, such as --stop 0.95")
    args.stop = args.stop or common.stop_threshold(curve)


def make_stop(args, config, tokenizer, names, problems, expected):
    """What `next_waves` works with; expected: {problem: rollouts}, which it lowers where sampling stops."""
    scorer, config = common.load_scorer(args.scorer), config.get_text_config()
    n_layers, votes = config.num_hidden_layers, args.stop_rule == "weighted-vote"
    common.check_scorer_fits(scorer, {"model": args.model, "n_layers": n_layers}, args.scorer)
    vectors = [common.vector_key(f"{layer}/{token}", n_layers) for layer in names for token in common.TOKENS]
    if len(scorer.shape) > 1 or (vector := common.vector_key(scorer.vector, n_layers)) not in vectors:
        told = f"--stop needs one vector of those that --layers {args.layers} keeps"
        common.die(f"{args.scorer} reads {scorer.vector}; {told}")
    if votes and any(problem["kind"] == "code" for problem in problems):
        common.die("--stop-rule weighted-vote: programs have no answers to vote on; take best-of-n")
    return SimpleNamespace(
        scorer=scorer, column=vectors.index(vector), threshold=args.stop, vocab=config.vocab_size,
        judge=importlib.import_module("02_label") if votes else None, tokenizer=tokenizer, problems=problems,
        ends=common.waves(args.n), expected=expected, seen=defaultdict(dict),
    )  # fmt: skip


def next_waves(stop, engine, ended, held):
    """Rate what has ended; where a wave is complete and the rule not sure, start the next. -> its jobs"""
    jobs = []
    for rollout in ended:
        i = rollout["problem"]
        stop.seen[i][rollout["sample"]] = rate(stop, rollout)
        count = len(stop.seen[i])
        if count not in stop.ends or not held.get(i):
            continue
        if agree(is_sure(stop, [stop.seen[i][sample] for sample in range(count)])):
            stop.expected[i] = count
            engine.let_go(i, len(held.pop(i)))
        else:
            jobs += [held[i].popleft() for _ in range(stop.ends[stop.ends.index(count) + 1] - count)]
    engine.start(jobs)
    return jobs


def rate(stop, rollout):
    """(probability, answer) of a rollout, by itself: what else is in the batch must not matter."""
    features, answer = None, None
    if stop.scorer.takes_features:
        conf = common.confidence(rollout["stats"], stop.vocab)
        features = common.rollout_features(conf, len(rollout["ids"]))[None]
    p = stop.scorer.probability(stop.scorer(rollout["hidden"][stop.column][None], features)).item()
    if stop.judge:
        problem = stop.problems[rollout["problem"]]
        extract = stop.judge.text_of if problem["kind"] == "text" else stop.judge.answer_of
        answer = extract(text_of(stop.tokenizer, common.encode_prompt(stop.tokenizer, problem), rollout))
    return p, answer


def is_sure(stop, rated):
    p, answers = zip(*rated)
    numbers = stop.judge and stop.judge.groups_of(answers)
    groups = stop.judge and np.array([-1 if number is None else number for number in numbers])
    return bool(common.sureness(np.array(p), groups)[0] >= stop.threshold)


# ------------------------------------------------------------------------------------------------------------
# Rollouts whose tokens are known: one teacher-forced pass


@torch.inference_mode()
def read_rollouts(args, model, tokenizer, jobs, layers, stop_ids, extra):
    """Rollouts of `jobs` with given "tokens": batches of similar length, at most so many tokens at once."""
    budget = 16384 if model.device.type == "cuda" else 2048
    use_attention(model, "whole", causal_attention)
    outputs = {}
    hooks = watch_layers(model, [*layers, len(model.get_decoder().layers)], outputs.__setitem__)
    size = lambda job: len(job["prompt"]) + len(job["tokens"])
    with progress_bar("read", args, len(jobs)) as bar:
        for start in range(0, len(jobs), 256):  # sorted as a whole, no problem would end before the last
            queue = sorted(jobs[start : start + 256], key=size)
            while queue:
                batch = [queue.pop()]
                while queue and size(batch[0]) * (len(batch) + 1) <= budget:
                    batch.append(queue.pop())
                yield from read_batch(model, tokenizer, batch, outputs, stop_ids, extra)
                bar.update(len(batch))
    for hook in hooks:
        hook.remove()


def read_batch(model, tokenizer, batch, outputs, stop_ids, extra):
    texts = [job["prompt"] + job["tokens"] for job in batch]
    ids = torch.nn.utils.rnn.pad_sequence(list(map(torch.tensor, texts)), batch_first=True).to(model.device)
    newest = model(input_ids=ids, use_cache=False, logits_to_keep=1).logits[:, -1].float()
    *kept, final = (outputs[column] for column in sorted(outputs))  # each [B, T, d]
    head = model.get_output_embeddings()
    if not torch.allclose(head(final[:, -1]).float(), newest, atol=1e-2, rtol=1e-2):
        common.die(f"{type(model).__name__} changes its logits after the last layer: it cannot read tokens")
    for b, job in enumerate(batch):
        first, tokens = len(job["prompt"]), ids.new_tensor(job["tokens"])
        stopped = len(tokens) > 0 and int(tokens[-1]) in stop_ids
        end = first + len(tokens) - 1
        pieces = zip(final[b, first - 1 : end].split(1024), tokens.split(1024), strict=True)
        stats = [token_stats(head(x).float(), y).half() for x, y in pieces]
        hidden = [x[b, end - (stopped and token == "last")] for x in kept for token in common.TOKENS]
        yield {
            **{name: job[name] for name in ("problem", "sample")},
            "ids": tokens.int().cpu().numpy(),
            "stats": torch.cat(stats).cpu().numpy(),
            "hidden": torch.stack(hidden).cpu() if hidden else torch.empty(0, final.shape[-1]),
            "finish": "stop" if stopped else "length",
            "extra": extra_vectors(tokenizer, job["tokens"], final[b, first : end + 1].cpu(), extra),
        }


def empty_rollout(job, tokenizer, shape, dtype, extra):
    """Of a prompt that leaves no room for an answer."""
    return {
        **{name: job[name] for name in ("problem", "sample")},
        **{"ids": np.empty(0, np.int32), "stats": np.empty((0, TOP + 2), np.float16), "finish": "length"},
        "hidden": torch.zeros(shape, dtype=dtype),
        "extra": extra_vectors(tokenizer, [], torch.zeros(0, shape[-1], dtype=dtype), extra),
    }


SPECIAL = re.compile(r"\breturn\b|^[ \t]*(?:async )?def .*:(?=[ \t]*(?:#.*)?$)", re.MULTILINE)


def special_places(tokenizer, ids):
    """Places in `ids` of the tokens that hold the last character of each match."""
    texts = [tokenizer.decode([i]) for i in ids]
    ends = np.cumsum([len(text) for text in texts])
    return sorted({int(np.searchsorted(ends, match.end())) for match in SPECIAL.finditer("".join(texts))})


def extra_vectors(tokenizer, ids, final, wanted):
    """What extra.pt keeps of one rollout: final [T, d], the final layer at its tokens."""
    found = {}
    if "last10" in wanted:
        count = min(10, len(final))
        found["last10"] = F.pad(final[-10:], (0, 0, 10 - count, 0))[None]
        found["last10_len"] = torch.tensor([count])
    if "special" in wanted:
        places = special_places(tokenizer, ids)
        found |= {"special": final[places].clone(), "special_counts": torch.tensor([len(places)])}
        found["special_tokens"] = torch.tensor([ids[i] for i in places], dtype=torch.int64)
    return found


# ------------------------------------------------------------------------------------------------------------
# Jobs: one for each rollout


def make_jobs(args, config, tokenizer, problems, stop_ids, given):
    """(jobs in order, {id: why} of problems that get no tokens). given: as of read_responses, or None."""
    context = context_of(config)
    jobs, skipped, vocab = [], {}, config.get_text_config().vocab_size
    for i, problem in enumerate(problems):
        prompt = list(common.encode_prompt(tokenizer, problem))
        for sample, (row, text, tokens) in enumerate(given[i] if given else [({}, None, None)] * args.n):
            if "messages" in row:
                prompt = list(common.encode_prompt(tokenizer, problem | {"messages": row["messages"]}))
            limit = min(args.max_new_tokens or context, context - len(prompt)) if prompt else 0
            if limit <= 0:
                skipped[problem["id"]] = f"a prompt of {len(prompt)} tokens in a context of {context}"
            key = noise_key(args.seed, problem["id"], sample)
            job = {"problem": i, "sample": sample, "prompt": prompt, "limit": max(0, limit), "key": key}
            if given:
                opened = opened_reasoning(tokenizer, prompt)
                tokens = tokens or encode_response(tokenizer, row, text, stop_ids, opened)
                if any(not 0 <= token < vocab for token in tokens):
                    told = f"problem {problem['id']}: tokens beyond this model's {vocab}"
                    common.die(f"{told}; which model made them?")
                job["tokens"] = tokens[: job["limit"]]
            jobs.append(job)
    return jobs, skipped


def read_responses(path, problems):
    """{problem number: [(row of the file, text, token ids or None), ...]}; each problem must have some."""
    by_id = {problem["id"]: i for i, problem in enumerate(problems)}
    by_prompt = {problem["prompt"]: i for i, problem in enumerate(problems)}
    found = defaultdict(list)
    for number, row in enumerate(common.read_jsonl(path), 1):
        texts, tokens = row.get("responses"), row.get("tokens")
        if "response" in row:
            texts, tokens = [row["response"]], [tokens]
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            common.die(f"{path}:{number}: 'responses' must be a list of texts, or 'response' one text")
        tokens = tokens or [None] * len(texts)
        whole = lambda ids: ids is None or isinstance(ids, list) and all(isinstance(i, int) for i in ids)
        if not isinstance(tokens, list) or len(tokens) != len(texts) or not all(map(whole, tokens)):
            common.die(f"{path}:{number}: 'tokens' must be a list of token ids for each response")
        if not isinstance(row.get("sample", 0), int):
            common.die(f"{path}:{number}: 'sample' must be a whole number")
        if "messages" in row:
            row["messages"] = common.plain_messages(row["messages"], f"{path}:{number}")
        prompt = row["messages"][-1]["content"] if "messages" in row else str(row.get("prompt"))
        i = by_id.get(str(row.get("id")), by_prompt.get(prompt))
        found[i] += [(row, *pair) for pair in zip(texts, tokens, strict=True)]
    strangers = len(found.pop(None, []))
    if strangers:
        print(f"{path}: {strangers} responses to none of these problems are left out", file=sys.stderr)
    missing = [problem["id"] for i, problem in enumerate(problems) if not found.get(i)]
    if missing:
        count = f"{len(missing)} of {len(problems)} problems"
        common.die(f"{path}: no responses to {count}, such as {missing[0]!r}")
    return {i: sorted(rows, key=lambda item: item[0].get("sample", 0)) for i, rows in found.items()}


def read_run(folder, problems):
    """The same for a run folder's rollouts, by their tokens; rollouts.jsonl or hidden.pt may be missing."""
    stored, there = common.load_pt(folder / "tokens.pt"), (folder / "rollouts.jsonl").is_file()
    rows = common.each_rollout(folder) if there else ()
    keys = common.keys_of(rows) if there else common.load_pt(folder / "hidden.pt")["keys"]
    tokens = stored["ids"].tensor_split(stored["offsets"][1:-1])
    if len(tokens) != len(keys):
        told = f"{folder}: tokens.pt holds {len(tokens)} rollouts, there are {len(keys)}"
        common.die(f"{told}; delete it and run again")
    numbers, found = {problem["id"]: i for i, problem in enumerate(problems)}, defaultdict(list)
    for (id, _), ids in zip(keys, tokens, strict=True):
        found[numbers[id]].append(({}, "", ids.tolist()))
    return found


def encode_response(tokenizer, row, text, stop_ids, opened):
    text = text.removeprefix(opened if text.startswith(opened) else opened.strip())  # the prompt has it
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    if row.get("finish") == "length" or (ids and ids[-1] in stop_ids) or not stop_ids:
        return ids
    return [*ids, tokenizer.eos_token_id if tokenizer.eos_token_id in stop_ids else stop_ids[0]]


def opened_reasoning(tokenizer, prompt):
    """`<think>` if the template wrote it: the text gets it back, so that cut reasoning is seen as such."""
    return (re.search(r"<think>\s*$", tokenizer.decode(prompt[-16:])) or [""])[0]


def text_of(tokenizer, prompt, rollout):
    """Without the token that ended it; markers inside, such as </think>, stay."""
    ids = rollout["ids"][:-1] if rollout["finish"] == "stop" else rollout["ids"]
    text = tokenizer.decode(ids.tolist(), skip_special_tokens=False, clean_up_tokenization_spaces=False)
    return (opened_reasoning(tokenizer, prompt) if prompt else "") + text


# ------------------------------------------------------------------------------------------------------------
# The run folder: what made it, and what it lacks

MUST_AGREE = ("n", "seed", "limit", "max_new_tokens", "temperature", "top_k", "top_p", "repetition_penalty",
              "dtype", "revision", "stop")  # fmt: skip


def hash_model(name, revision):
    """Changes when the model does: tomorrow a folder may hold other weights. Reads a little of each file."""
    from huggingface_hub import try_to_load_from_cache

    if not Path(name).is_dir():
        try:
            path = try_to_load_from_cache(name, "config.json", revision=revision)
        except ValueError:  # no such folder and no possible name: loading it will say so
            path = None
        return Path(path).parent.name if isinstance(path, str) else None  # the Hub's commit
    digest = hashlib.sha256()
    kinds = (".json", ".safetensors", ".bin", ".jinja", ".model")
    for path in sorted(path for path in Path(name).iterdir() if path.suffix in kinds):
        with open(path, "rb") as file:
            size = path.stat().st_size
            digest.update(f"{path.name} {size}".encode())
            for place in range(0, size, max(1 << 16, size // 16)):
                file.seek(place)
                digest.update(file.read(1 << 16))
    return digest.hexdigest()[:16]


def hash_of(content):
    return hashlib.sha256(content).hexdigest()[:16]


def identity(args, problems):
    """What a run folder may be gone on with by: the same content and the same arguments."""
    rows = lambda rows: hash_of(repr(rows).encode())
    return {
        **{name: getattr(args, name) for name in MUST_AGREE},
        "stop_rule": args.scorer and args.stop_rule,
        "scorer": args.scorer and hash_of(Path(args.scorer).read_bytes()),
        "model": hash_model(args.model, args.revision),
        "data set": rows(problems),
        "responses": args.responses and rows(common.read_jsonl(args.responses)),
    }


def check_same_run(folder, now, args):
    """Layers may be added to a finished run; to the parts of an unfinished one they cannot."""
    if not (folder / "meta.json").is_file():
        return
    meta = common.read_meta(folder)
    before = meta.get("identity", {})
    if not (folder / "rollouts.jsonl").is_file():
        before, now = before | {"layers": meta["arguments"]["layers"]}, now | {"layers": args.layers}
    for name, value in now.items():
        unknown = name == "model" and None in (before.get(name), value)  # of the Hub, not in the cache
        if before.get(name) != value and not unknown:
            made = f"{folder} was made with {name} {before.get(name)}, not {value}"
            common.die(f"{made}; choose another --out, or remove that folder")


def layer_names(text, n_layers):
    """--layers as a list of names, each checked, one for each layer."""
    names = map(str, range(n_layers + 1)) if text == "all" else filter(None, text.split(","))
    return list({common.layer_index(name, n_layers): name for name in names}.values())


def lacking(args, folder):
    """What a run folder needs, None if it has all: which layers, which of --extra; `whole`: all files."""
    there = lambda name: (folder / name).is_file()
    if not there("rollouts.jsonl") or not there("meta.json"):
        return {"whole": True, "layers": args.layers, "extra": []}
    if not there("tokens.pt"):
        return {"whole": False, "layers": "", "extra": []}
    meta = common.read_meta(folder)
    have = common.load_pt(folder / "hidden.pt")["vectors"] if there("hidden.pt") else []
    held = common.load_pt(folder / "extra.pt") if there("extra.pt") else {}
    index = lambda name: common.layer_index(name.split("/")[0], meta["n_layers"])
    asked = {index(name): name for name in [*layer_names(args.layers, meta["n_layers"]), *meta["layers"]]}
    layers = ",".join(asked[i] for i in asked if i not in set(map(index, have)))
    wanted = {*args.extra.split(","), *meta["arguments"]["extra"].split(",")} - {""}
    extra = sorted(name for name in wanted if name not in held)
    return {"whole": False, "layers": layers, "extra": extra} if layers or extra else None


def can_replay(folder, need):
    """Are the tokens known? Where there are parts of sampling, that goes on."""
    there = lambda name: (folder / name).is_file()
    merged = there("meta.json") and there("hidden.pt") and not any((folder / "parts").glob("*.pt"))
    return there("tokens.pt") and (merged or not need["whole"])


def prepare(run, model, need, sampling, skipped, jobs):
    """meta.json, problems.jsonl, and no parts that hold something else."""
    for id, why in skipped.items():
        print(f"problem {id} gets no tokens: {why}", file=sys.stderr)
    if not (run.folder / "meta.json").is_file():
        clear(run.folder / "parts")
        run.now["model"] = hash_model(run.args.model, run.args.revision)  # known by now, if it was not before
        common.write_jsonl(run.folder / "problems.jsonl", run.problems)
        common.write_json(run.folder / "meta.json", describe(run, model, sampling, skipped, jobs))
    elif not need["whole"]:
        meta = common.read_meta(run.folder)
        if meta.get("added") != need:
            clear(run.folder / "parts")
        known = {common.layer_index(name, meta["n_layers"]) for name in meta["layers"]}
        names = layer_names(need["layers"], meta["n_layers"])
        meta["layers"] += [name for name in names if common.layer_index(name, meta["n_layers"]) not in known]
        extra = {*need["extra"], *meta["arguments"]["extra"].split(",")} - {""}
        meta["arguments"]["extra"] = ",".join(sorted(extra))
        common.write_json(run.folder / "meta.json", meta | {"added": need})


def describe(run, model, sampling, skipped, jobs):
    """meta.json: what made this run."""
    import transformers

    args, config = run.args, model.config.get_text_config()
    gpu = model.device.type == "cuda"
    versions = {module.__name__: module.__version__ for module in (torch, transformers, np)}
    return {
        **{name: getattr(args, name) for name in ("model", "revision", "dataset", "seed")},
        "n": max(job["sample"] for job in jobs) + 1,
        "ids": common.hash_of_ids(run.problems),
        "command": shlex.join(["python", "01_generate.py", *sys.argv[1:]]),
        "model_type": model.config.model_type,
        "architecture": type(model).__name__,
        "n_layers": config.num_hidden_layers,
        "width": config.hidden_size,
        "vocab_size": config.vocab_size,
        "layers": layer_names(args.layers, config.num_hidden_layers),
        "sampling": sampling,
        "stop": args.scorer and {"rule": args.stop_rule, "threshold": args.stop, "scorer": run.now["scorer"]},
        "skipped": skipped,
        "arguments": vars(args) | {"max_new_tokens": max(job["limit"] for job in jobs)},  # the cap in force
        "identity": run.now,
        "slots": args.slots or default_slots(model),
        "dtype": str(model.dtype).removeprefix("torch."),
        "device": torch.cuda.get_device_name(model.device) if gpu else str(model.device),
        "versions": versions | {"python": platform.python_version()},
        "git": git_commit(),
        "created": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
    }


def git_commit():
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12"]
    options = {"cwd": Path(__file__).resolve().parent, "capture_output": True, "text": True, "check": True}
    try:
        return subprocess.run(command, **options).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


# ------------------------------------------------------------------------------------------------------------
# The run folder: parts, and what they are merged into


def part_path(folder, number):
    return folder / "parts" / f"{number}.pt"


def write_part(path, problem, rollouts):
    """All rollouts of one problem in one file: being there means that the problem is done."""
    extra = rollouts[0].get("extra", {})
    part = {
        "id": problem["id"],
        "responses": [rollout["text"] for rollout in rollouts],
        "finish": [rollout["finish"] for rollout in rollouts],
        "lengths": [len(rollout["ids"]) for rollout in rollouts],
        "ids": torch.from_numpy(np.concatenate([rollout["ids"] for rollout in rollouts])),
        "stats": torch.from_numpy(np.concatenate([rollout["stats"] for rollout in rollouts])),
        "hidden": torch.stack([rollout["hidden"] for rollout in rollouts]),
        "extra": {name: torch.cat([rollout["extra"][name] for rollout in rollouts]) for name in extra},
    }
    common.save_pt(path, part)


def merge(run, need):
    """The files, rollouts.jsonl last: it means finished. False while other workers are at their problems."""
    parts = [part_path(run.folder, i) for i in range(len(run.problems))]
    with open(run.folder / "meta.json") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # workers that finish together; a killed one lets go
        if lacking(run.args, run.folder) == need:  # nobody else has done it
            if missing := sum(not path.is_file() for path in parts):
                others = f"{missing} of {len(parts)} problems are with other workers"
                print(f"{others}; the last to end merges", file=sys.stderr)
                return False
            for stale in run.folder.glob(".*.tmp"):  # of a merge that was killed
                stale.unlink()
            write_run(run.folder, need, [common.load_pt(path) for path in parts])
        clear(run.folder / "parts")  # all of it is in the files now
    return True


def clear(parts):
    for path in parts.glob("*"):
        path.unlink(missing_ok=True)
    with suppress(OSError):
        parts.rmdir()


def write_run(folder, need, parts):
    """What `need` names, out of all parts; what a finished run already has stays as it is."""
    meta, both = common.read_meta(folder), lambda name: torch.cat([part[name] for part in parts])
    total = lambda counts: torch.tensor([0, *counts]).cumsum(0)
    keys = [(part["id"], sample) for part in parts for sample in range(len(part["lengths"]))]
    offsets, stats = total(length for part in parts for length in part["lengths"]), both("stats")
    if need["whole"] or not (folder / "tokens.pt").is_file():
        common.save_pt(folder / "tokens.pt", {"offsets": offsets, "ids": both("ids"), "stats": stats})
    if need["layers"]:
        names, hidden = layer_names(need["layers"], meta["n_layers"]), both("hidden")
        vectors = [f"{layer}/{token}" for layer in names for token in common.TOKENS]
        if not need["whole"] and (folder / "hidden.pt").is_file():
            old = common.load_pt(folder / "hidden.pt")
            vectors = [*old["vectors"], *vectors]
            hidden = torch.cat([old["hidden"], hidden.to(old["hidden"].dtype)], 1)
        common.save_pt(folder / "hidden.pt", {"keys": keys, "vectors": vectors, "hidden": hidden})
    if need["extra"]:
        old = common.load_pt(folder / "extra.pt") if (folder / "extra.pt").is_file() else {}
        extra = {name: torch.cat([part["extra"][name] for part in parts]) for name in parts[0]["extra"]}
        if "special" in extra:
            extra["special_offsets"] = total(extra.pop("special_counts").tolist())
        common.save_pt(folder / "extra.pt", {"keys": keys, **old, **extra})
    if need["whole"]:
        texts = [pair for part in parts for pair in zip(part["responses"], part["finish"], strict=True)]
        write_rollouts(folder, meta, keys, texts, offsets.tolist(), stats)


def write_rollouts(folder, meta, keys, texts, offsets, stats):
    rows = (
        {
            **{"id": key[0], "sample": key[1], "response": text, "n_tokens": b - a, "finish": finish},
            "conf": common.confidence(stats[a:b].numpy(), meta["vocab_size"]),
        }
        for key, (text, finish), a, b in zip(keys, texts, offsets[:-1], offsets[1:], strict=True)
    )
    common.write_jsonl(folder / "rollouts.jsonl", rows)
    if cut := sum(finish == "length" for _, finish in texts):
        cap = f"{meta['arguments']['max_new_tokens']} tokens or where the context ends"
        print(f"{folder}: {cut} of {len(texts)} rollouts were cut, at {cap}", file=sys.stderr)


# ------------------------------------------------------------------------------------------------------------
# The program


def worker(args):
    """(rank, world): which of how many processes this is. With --tp all of them are one worker."""
    env = {key: int(value) for key, value in os.environ.items() if value.isdigit()}
    if args.tp:
        return 0, 1
    if "WORLD_SIZE" in env:
        return env.get("RANK", 0), env["WORLD_SIZE"]
    # a batch script by itself is told of tasks, too, but only srun starts them
    rank, world = env.get("SLURM_PROCID", 0), env.get("SLURM_STEP_NUM_TASKS", 1)
    array = lambda name, default: env.get(f"SLURM_ARRAY_TASK_{name}", default)
    task = (array("ID", 0) - array("MIN", 0)) // array("STEP", 1)
    return task * world + rank, world * array("COUNT", 1)


def split_model(model, device):
    """Each process of torchrun keeps its share of the weights, by transformers' plan for the architecture."""
    from torch.distributed.device_mesh import init_device_mesh
    from transformers.distributed.tensor_parallel import apply_tensor_parallelism

    if not set(model.tp_plan) - {"lm_head"}:
        common.die(f"--tp: transformers has no plan to split a {model.config.model_type} model")
    if device.startswith("cuda"):
        torch.cuda.set_device(device)
    style = lambda name: model.tp_plan.get(re.sub(r"\.\d+(?=\.|$)", ".*", name))
    weights = {name: style(name) or style(name.rpartition(".")[0]) for name, _ in model.named_parameters()}
    plan = weights | {name: style(name) for name, _ in model.named_modules()}  # then their users
    world = int(os.environ["WORLD_SIZE"])
    mesh = init_device_mesh(torch.device(device).type, (world,), mesh_dim_names=("tp",))
    apply_tensor_parallelism(model, mesh, {name: kind for name, kind in plan.items() if kind}).to(device)


def is_writer():
    return not dist.is_initialized() or dist.get_rank() == 0


def agree(value):
    """The first process's value, in all processes of --tp."""
    box = [value]
    if dist.is_initialized():
        dist.broadcast_object_list(box, 0)
    return box[0]


def open_model(args):
    place = args.device, args.dtype, args.revision, args.trust_remote_code
    model, tokenizer = common.load_model(args.model, *place, move=not args.tp)
    if args.tp:
        split_model(model, common.pick_device(args.device))
    if sum(x.numel() for x in model.parameters()) < 5_000_000:
        torch.set_num_threads(1)  # sharing out such small products costs more than it saves
    return model, tokenizer


def find_run(args, dataset):
    """What one data set asks for: arguments, run folder, problems, and what the folder must be made with."""
    problems = common.load_problems(dataset, args.limit)
    if args.responses:
        answers = ("response", "responses", "tokens")  # where one file holds both
        problems = [{name: x for name, x in problem.items() if name not in answers} for problem in problems]
    folder = common.run_folder(args.out, args.model, dataset, "greedy" if args.greedy else args.seed)
    now = identity(args, problems)
    check_same_run(folder, now, args)
    given = {name: value for name, value in vars(args).items() if name != "datasets"} | {"dataset": dataset}
    return SimpleNamespace(args=argparse.Namespace(**given), folder=folder, problems=problems, now=now)


def check_before_loading(args, runs, config):
    """What can be wrong is said before the weights load; then the plan, for a person to stop in time."""
    layer_names(args.layers, config.get_text_config().num_hidden_layers)
    if not args.max_new_tokens and context_of(config) == FAR:
        common.die("--max-new-tokens 0 is the model's context, and this model names none; give a number")
    for run in runs:
        try:
            (run.folder / "parts").mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=run.folder / "parts").close()
        except OSError as error:
            common.die(f"cannot write to {run.folder}: {error.strerror}; choose another --out")
    new = [run for run in runs if lacking(run.args, run.folder)["whole"]]
    if new and os.environ.get("RANK", "0") == "0" and worker(args)[0] == 0 and not args.responses:
        print_plan(args, new, config)


def print_plan(args, runs, config):
    """What is about to be made and what it takes, at the cap in force and at the model's context."""
    weights, per_token, width = memory_of(config, args)
    context, usual = context_of(config), usual_length(runs[0].folder)
    cap = min(args.max_new_tokens or context, context)
    caps = sorted({cap, context if context < FAR else cap})
    # Of a token its id, its statistics and some four letters
    disk = lambda each: (each * (8 + 2 * (TOP + 2)) + width) / 1e9
    cells = []
    for run in runs:
        count = len(run.problems) * run.args.n
        cells.append([run.folder, len(run.problems), f"{count:,}", f"{count * usual:,.0f}" if usual else "?"])
        cells[-1] += [f"{count * each:,} ({count * disk(each):.1f} GB)" for each in caps]
    caps = [f"at {each:,} each (disk)" for each in caps]
    header = ["to make", "problems", "rollouts", "tokens as before", *caps]
    print(common.table(header, cells), file=sys.stderr)
    print(f"a rollout is cut at {cap:,} tokens (--max-new-tokens; 0 is the model's context)", file=sys.stderr)
    needs = f"{weights / 1e9:.1f} GB of weights and {per_token / 1024:.0f} KB a token of a running rollout"
    print(f"{args.model} on {common.pick_device(args.device)}: {needs}", file=sys.stderr)


def memory_of(config, args):
    """Bytes of the weights, of one token's keys and values, and of the vectors kept of a rollout."""
    from transformers import AutoModelForCausalLM

    text = config.get_text_config()
    dtype = common.pick_dtype(args.dtype, common.pick_device(args.device))
    size = (dtype if dtype != "auto" else text.dtype or torch.float32).itemsize
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config, trust_remote_code=args.trust_remote_code)
    heads = getattr(text, "num_key_value_heads", None) or text.num_attention_heads
    head = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
    vectors = len(common.TOKENS) * len(layer_names(args.layers, text.num_hidden_layers))
    weights = sum(x.numel() for x in model.parameters()) * size
    return weights, 2 * text.num_hidden_layers * heads * head * size, vectors * text.hidden_size * size


def usual_length(folder):
    """Mean tokens of a rollout in this model's finished runs beside `folder`; None before the first."""
    offsets = [common.load_pt(path)["offsets"] for path in folder.parent.parent.glob("*/*/tokens.pt")]
    return sum(int(x[-1]) for x in offsets) / sum(len(x) - 1 for x in offsets) if offsets else None


def make_parts(run, model, tokenizer, need):
    """This worker's share of the problems: a part file as each one ends."""
    args, folder, problems = run.args, run.folder, run.problems
    sampling = common.sampling_defaults(model, tokenizer)
    sampling |= {name: x for name in sampling if (x := getattr(args, name, None)) is not None}
    rows, replay = None, can_replay(folder, need) and not args.responses
    if args.responses or replay:
        rows = read_run(folder, problems) if replay else read_responses(args.responses, problems)
    jobs, skipped = make_jobs(args, model.config, tokenizer, problems, sampling["stop_ids"], rows)
    if is_writer():
        prepare(run, model, need, sampling, skipped, jobs)
    there = [] if need["whole"] else common.each_rollout(folder)
    texts = {(row["id"], row["sample"]): row["response"] for row in there}
    if rows is None and texts:  # the very rollouts that there are
        jobs = [job for job in jobs if (problems[job["problem"]]["id"], job["sample"]) in texts]
    rank, world = worker(args)
    mine = agree([i for i in range(len(problems))[rank::world] if not part_path(folder, i).is_file()])
    jobs = {(job["problem"], job["sample"]): job for job in jobs if job["problem"] in set(mine)}
    expected, done = Counter(problem for problem, _ in jobs), defaultdict(list)
    n_layers = model.config.get_text_config().num_hidden_layers
    names = layer_names(need["layers"], n_layers)
    layers = [common.layer_index(name, n_layers) for name in names]
    stop = None
    if need["whole"] and args.scorer:
        stop = make_stop(args, model.config, tokenizer, names, problems, expected)
    todo = list(jobs.values())
    for rollout in rollouts_of(args, model, tokenizer, todo, sampling, layers, need["extra"], stop):
        i, sample = rollout["problem"], rollout["sample"]
        rollout["text"] = text_of(tokenizer, jobs[i, sample]["prompt"], rollout)
        if texts.get((problems[i]["id"], sample), rollout["text"]) != rollout["text"]:
            told = f"{folder}: its tokens are lost, sampling gives others here"
            common.die(f"{told}; remove the folder and run again")
        done[i].append(rollout)
        if len(done[i]) == expected[i] and is_writer():
            ended = sorted(done.pop(i), key=lambda rollout: rollout["sample"])
            write_part(part_path(folder, i), problems[i], ended)


def rollouts_of(args, model, tokenizer, jobs, sampling, layers, extra, stop=None):
    """All rollouts of `jobs`, in the order in which they end."""
    shape = len(common.TOKENS) * len(layers), model.config.get_text_config().hidden_size
    possible = [job for job in jobs if job["limit"]]
    for job in jobs:
        if not job["limit"]:
            yield empty_rollout(job, tokenizer, shape, model.dtype, extra)
    if possible and "tokens" in possible[0]:
        yield from read_rollouts(args, model, tokenizer, possible, layers, sampling["stop_ids"], extra)
    elif possible:
        yield from sample_rollouts(args, model, possible, sampling, layers, stop)


def main(args):
    if Path(args.model).is_dir():
        args.model = str(Path(args.model).resolve())  # one name for one folder, from wherever it is called
    if args.scorer:
        settle_stop(args)
    runs = [find_run(args, dataset) for dataset in args.datasets]  # a wrong name ends it here
    if len({run.folder for run in runs}) < len(runs):
        common.die(f"{' '.join(args.datasets)}: two of these have one name, so one run folder; rename a file")
    unfinished = [run for run in runs if lacking(run.args, run.folder)]
    if unfinished:
        config = common.load_config(args.model, args.revision, args.trust_remote_code)
        check_before_loading(args, unfinished, config)
        model, tokenizer = open_model(args)
    for run in runs:
        while need := agree(lacking(run.args, run.folder)):
            make_parts(run, model, tokenizer, need)
            if not agree(is_writer() and merge(run, need)):
                break
        else:
            if is_writer():
                clear(run.folder / "parts")  # of a merge that was killed
                if not (run.folder / "problems.jsonl").is_file():
                    common.write_jsonl(run.folder / "problems.jsonl", run.problems)
                print(run.folder)
    if dist.is_initialized():  # --tp: a process that just exits takes down those in the barrier, and torch's
        dist.barrier()  # threads may abort one whose interpreter ends under them
        time.sleep(1)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


if __name__ == "__main__":
    common.entry(lambda: main(ARGS), KEPT)
