"""Sample N rollouts of every problem, and keep each one's vectors and token statistics as they come.

    python 01_generate.py demo/model demo/math_a.jsonl
    python 01_generate.py Qwen/Qwen3-1.7B humaneval kodcode -n 16 --seed 32 --max-new-tokens 0
    torchrun --nproc-per-node 4 01_generate.py Qwen/Qwen3-1.7B humaneval
    python 01_generate.py demo/model demo/math_a.jsonl --layers all --extra last10  # more of a run
    python 01_generate.py Qwen/Qwen3-1.7B own.jsonl --requests ask.jsonl  # for a serving engine
    python 01_generate.py Qwen/Qwen3-1.7B own.jsonl --responses answers.jsonl  # made elsewhere

Reads a causal language model of transformers (a folder or a Hub id) and problems (a data set name or a file).
Writes runs/<model>/<dataset>/<seed>/ with meta.json, problems.jsonl, rollouts.jsonl, hidden.pt and tokens.pt,
and prints these folders last. A finished problem is a file in parts/: started again it goes on with the
others. More workers (torchrun or srun) take turns at the problems.

How: one decode loop over a batch of rows. A prompt is computed once for all its rollouts; a row that ends
makes room for the next. Keys and values lie in pages, each read where it lies for all rows that need it.
Statistics come from the raw logits; a row lives one step longer than its last token, for the vector there.

A finished run that lacks vectors named by --layers and --extra, or has lost hidden.pt, gets them by one pass
over the token ids in tokens.pt. If tokens.pt or rollouts.jsonl is lost, it is sampled again.
--extra last10,special writes extra.pt, of the final layer: {"keys": [R], "last10": [R, 10, d] zero padded in
front, "special": [S, d], "special_offsets": [R + 1]}; special: tokens that end a `return` or a `def` line.

--requests FILE writes what would be sampled here as requests in the OpenAI batch format, for `vllm run-batch`,
SGLang or an API, and loads no weights. A request asks for all rollouts of a problem, with --plain for one.
--endpoint completions sends the prompt as token ids, for engines that take it so.

--responses FILE, instead of sampling: the engine's batch file as it is, or a folder with the raw response to
each problem as ID.json (/ in the id as _). With --requests FILE, too, that must be what this command asks
for. Rows {"id" or "prompt", "response": text} also do, with "sample" (their order), "finish": "length" (cut)
and "tokens" (ids with the ending one, which spare a guess).

--scorer scorer.pt --stop: a problem gets 1, 2, 3, 5, 8, 12, 16 rollouts, until the best probability among
them reaches a threshold. Plain --stop takes the threshold of 03, which costs at most a point of accuracy on
the calibration problems; --stop 0.95 takes that number. References are never looked at.

In your own program: sample(), below.

A prompt without tokens, or without room for an answer in the context, gets rollouts of no tokens with finish
"length" and vectors of zeros; meta.json has its id and the reason under "skipped".
"""

import argparse
import fcntl
import functools
import hashlib
import importlib
import itertools
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections import Counter, defaultdict, deque
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace

import common
from common import TOKENS, context_of, die, layer_index, load_pt, np, read_meta, token_stats, torch

N, SEED, MAX_NEW_TOKENS = 16, 32, 8192
MANY, TINY = 10**9, 1e-9
FROM_0, FROM_1 = (0, MANY, "0 or more"), (1, MANY, "1 or more")
RANGES = {  # what numbers may be, and how that is said
    "n": FROM_1, "slots": FROM_1, "limit": FROM_1, "max_new_tokens": FROM_0, "top_k": FROM_0,
    "temperature": FROM_0, "top_p": (TINY, 1, "more than 0 and at most 1"),
    "repetition_penalty": (TINY, MANY, "more than 0"), "stop": (0, 1, "a number from 0 to 1"),
}  # fmt: skip
BROKEN = ("abort", "content_filter", "error")  # how an answer ends that an engine did not finish
ENDPOINTS = {"chat": "/v1/chat/completions", "completions": "/v1/completions"}


def parse_args(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    add, models = parser.add_argument, " (as the model's authors set)"
    add("model", help="a folder or a Hub id")
    add("datasets", nargs="+", metavar="dataset", help="a name such as humaneval, or a .jsonl file")
    add("-n", type=int, default=N, help="rollouts a problem (%(default)s)")
    add("--seed", type=int, default=SEED, help="of the sampling noise (%(default)s)")
    add("--out", default="runs", help="where run folders go (runs)")
    add("--limit", type=int, help="only so many problems")
    cut = "a rollout is cut here (%(default)s); 0: at the context"
    add("--max-new-tokens", type=int, default=MAX_NEW_TOKENS, help=cut)
    add("--layers", default="penultimate,final", help="to keep: names, numbers, .75 of all, all")
    add("--extra", default="", help="last10, special or both: vectors for studies")
    add("--greedy", action="store_true", help="one rollout, temperature 0, in a folder greedy")
    add("--temperature", type=float, help="0 takes the likeliest token" + models)
    add("--top-k", type=int, help="sample from so many tokens; 0: all" + models)
    add("--top-p", type=float, help="sample from tokens of this mass; 1: all" + models)
    add("--repetition-penalty", type=float, help="1: none" + models)
    add("--requests", metavar="FILE", help="write what to ask of a serving engine, and no run")
    add("--endpoint", choices=ENDPOINTS, default="chat", help="completions: prompts as token ids (chat)")
    add("--plain", action="store_true", help="a request a rollout, without fields that only engines know")
    add("--responses", metavar="FILE", help="read these answers, made elsewhere")
    add("--scorer", metavar="PT", help="of 03_train_scorer.py, for --stop")
    add("--stop", type=float, nargs="?", const=0.0, metavar="SURE", help="stop when this sure (as 03 found)")
    add("--slots", type=int, help="rollouts at the same time (256 on a GPU, 128 on a CPU)")
    add("--tp", action="store_true", help="the processes of torchrun share one model")
    add("--device", help="cuda, mps or cpu (the first there is)")
    add("--dtype", default="auto", choices=("auto", "float32", "bfloat16", "float16"), help="of the weights")
    add("--revision", help="of the model on the Hub")
    add("--trust-remote-code", action="store_true", help="run the Python code of the model")
    args = parser.parse_args(argv)
    if args.greedy:
        args.n, args.temperature, args.seed = 1, 0.0, 0
    args.extra = sorted({*args.extra.split(",")} - {""})
    check_ranges(args, lambda name: "-n " if name == "n" else f"--{name.replace('_', '-')} ")
    elsewhere = "--responses" if args.responses else "--requests" if args.requests else None
    for wrong, message in (
        (not args.layers.strip(", "), "--layers: name one at least"),
        (not {*args.extra} <= {"last10", "special"}, "--extra: last10, special or both"),
        (elsewhere and (args.scorer or len(args.datasets) > 1), f"{elsewhere}: one data set, no --stop"),
        ((args.stop is None) != (args.scorer is None), "--stop needs --scorer, which serves nothing else"),
        (args.tp and "WORLD_SIZE" not in os.environ, "--tp needs torchrun --nproc-per-node 2 ..."),
    ):
        if wrong:
            die(message)
    return args


def check_ranges(args, written):
    """written(name): how a person gives this number, up to the number."""
    for name, (smallest, largest, words) in RANGES.items():
        given = getattr(args, name, None)
        if given is not None and not smallest <= given <= largest:
            die(f"{written(name)}{given}: give {words}")


# ---- Sampling: noise is a function of (seed, problem, sample, step, token) and of nothing else

FAR = 1 << 40  # a position that no row reaches
STRIDE = 0x1E3779B97F4A7C15  # between the inputs of `scramble`: odd, with bits everywhere


def noise_key(seed, problem_id, sample):
    """62 bits that stand for one rollout."""
    digest = hashlib.sha256(f"{seed}\n{sample}\n{problem_id}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 2


def scramble(x):
    """The finish of splitmix64 on int64, high 32 bits: neighbouring inputs give unrelated outputs."""
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
    before = torch.nn.functional.pad(p.cumsum(-1)[:, :-1], (1, 0))
    return p >= p.where(before < top_p, 2).amin(-1, keepdim=True)


def choose_tokens(logits, sampling, rows, tokens, width=256):
    """The next tokens [B]: argmax p / E, which draws from p. logits [B, V] float32.

    Top-p looks among the `width` likeliest tokens; rows in which these hold too little look at more.
    """
    if sampling["temperature"] == 0:
        return logits.argmax(-1)
    logits, top_k, top_p = logits / sampling["temperature"], sampling["top_k"], sampling["top_p"]
    if not top_k and top_p == 1:
        return logits.softmax(-1).div_(exponential(rows, tokens)).argmax(-1)
    x, ids = logits.topk(min(top_k or width, logits.shape[-1]))
    p = (x - (x if top_k else logits).logsumexp(-1, keepdim=True)).exp_()
    if top_p < 1:
        p *= nucleus(p, top_p)
    chosen = ids.gather(1, (p / exponential(rows, tokens[ids])).argmax(-1, keepdim=True))[:, 0]
    if top_k or width >= logits.shape[-1]:
        return chosen
    beyond = p[:, -1] > 0  # the nucleus may go on there
    if beyond.any():
        again = sampling | {"temperature": 1}
        chosen[beyond] = choose_tokens(logits[beyond], again, rows[beyond], tokens, 16 * width)
    return chosen


# ---- Attention


def probe(model, length):
    """[(layer, keys, values, window), ...] of attention on a few tokens, and the output.

    A model that asks for more than is done here, and so would be wrong in silence, is refused.
    """
    asked, odd, text = [], set(), model.config.get_text_config()

    def ask(module, q, k, v, mask=None, scaling=None, sliding_window=None, s_aux=None, **more):
        tensors = {name for name, x in more.items() if isinstance(x, torch.Tensor)} - {"position_ids"}
        odd.update(tensors, {"softcap"} if more.get("softcap") else ())
        asked.append((getattr(module, "layer_idx", None), k, v, sliding_window))
        return common.causal_attention(module, q, k, v, mask, scaling, sliding_window, s_aux)

    common.use_attention(model, "probe", ask)
    ids = torch.arange(8, device=model.device)[None]
    with torch.inference_mode():
        out = model(input_ids=ids, use_cache=False, output_hidden_states=True)
    window, kinds = getattr(text, "sliding_window", None), getattr(text, "layer_types", None)
    masked = "sliding" in str(kinds or "sliding") and {window for *_, window in asked} == {None}
    for wrong, why in (
        (odd, f"its attention takes {', '.join(sorted(odd))}, too"),
        (masked and (window or length) < length, "its sliding window is a mask"),
        (any(x.ndim > 3 for x in out.hidden_states), "it has several hidden vectors a token"),
    ):
        if wrong:
            die(f"{type(model).__name__} cannot be run here: {why}")
    return asked, out


def multiply(a, b):
    """a [E, G, x, y] @ b [E, G, y, z] in float32: bfloat16 would round large scores by whole units."""
    if not a.is_cuda:
        return a.float() @ b.float()
    return torch.bmm(a.flatten(0, 1), b.flatten(0, 1), out_dtype=torch.float32).unflatten(0, a.shape[:2])


def page_attention(q, k, v, scaling, hidden):
    """Each page by itself for its m readers: shares [E, m, G, g, D], and the logs of their weights.

    q [E, m, G, g, D]; k, v [E, G, P, D]; hidden [E, m, P]: keys that do not count for a reader.
    """
    readers = hidden.shape[1]
    scores = multiply(q.transpose(1, 2).flatten(2, 3), k.mT).mul_(scaling)  # [E, G, m * g, P]
    scores.unflatten(2, (readers, -1)).masked_fill_(hidden[:, None, :, None], -1e30)
    top = scores.amax(-1, keepdim=True)
    weights = scores.sub_(top).exp_()
    total = weights.sum(-1, keepdim=True)
    found = multiply(weights.to(v.dtype), v).div_(total), (top + total.log())[..., 0]
    return [x.unflatten(2, (readers, -1)).transpose(1, 2) for x in found]


# ---- The engine


def takes_tables(model, page):
    """Whether varlen_attn may be asked: its kernel is of CUDA, for 16 bits and pages of 256 tokens."""
    return model.device.type == "cuda" and model.dtype.itemsize == 2 and page % 256 == 0


class Engine:
    """Rows, pages, the decode loop. A row is a running rollout: its job, length, statistics and pages."""

    def __init__(self, model, layers, sampling, n, slots, max_prompt, max_new, page=0, budget=0):
        self.model, self.sampling, self.device, self.n, self.slots = model, sampling, model.device, n, slots
        self.page = page or (256 if self.device.type == "cuda" else 32)  # tokens in one
        # One kernel wants all of a row in whole pages: the row's first is a copy of its prompt's last part
        self.by_tables = self.copies_part = takes_tables(model, self.page)
        self.widths = Counter()  # of tables, in pages: how many steps each has been used in
        self.rows, self.prompts, self.longest = [], {}, max_prompt + max_new + 1
        self.tensor = lambda values: torch.as_tensor(values, dtype=torch.int64, device=self.device)
        asked, out = probe(model, max_prompt + max_new)
        text = model.config.get_text_config()
        if [layer for layer, *_ in asked] != list(range(text.num_hidden_layers)):
            why = "not all of its layers are attention, once each; it can only read, by --responses"
            die(f"{type(model).__name__} cannot sample here: {why}")
        self.windows = {None, *(window for *_, window in asked)}
        self.make_pages(asked, max_prompt, max_new, budget or free_memory(self.device))
        self.token_hashes = scramble(torch.arange(1, out.logits.shape[-1] + 1, device=self.device) * STRIDE)
        size = slots, len(layers), text.hidden_size
        self.newest = torch.zeros(size, dtype=model.dtype, device=self.device)  # the rows' vectors
        self.texts = torch.zeros(slots, self.longest, dtype=torch.int64, device=self.device)  # and tokens
        self.hooks = common.watch_layers(model, layers, self.keep_vector)
        common.use_attention(model, "paged", self.attend)

    def make_pages(self, asked, max_prompt, max_new, budget):
        """Page 0 is nobody's, [1, split) belong to single rows, [split, n_pages) to prompts."""
        of_prompt = self.page - 1 if self.copies_part else 0
        a_prompt, a_row = -(-max_prompt // self.page), -(-(of_prompt + max_new + 1) // self.page)
        room = budget // (self.page * sum(x[:, :, 0].nbytes for _, *both, _ in asked for x in both)) - 1
        if room < a_prompt + a_row:
            need = (a_prompt + a_row) * self.page
            die(f"{budget >> 20} MB do not hold {need} tokens; lower --max-new-tokens")
        prompts = max(a_prompt, min(room // 4, room - a_row, a_prompt * self.slots))
        self.split = 1 + min(self.slots * a_row, room - prompts)
        n_pages = self.split + prompts  # a CPU's memory is taken only as it is touched
        pool = lambda x: x.new_empty(n_pages, x.shape[1], self.page, x.shape[3])
        self.pools = {layer: (pool(k), pool(v)) for layer, k, v, _ in asked}
        for _, values in self.pools.values():
            values[0] = 0  # a hidden key may be anything, but its value must be a number
        self.free = np.ones(n_pages, bool)
        self.free[0] = False

    # --- one step, on the device

    def keep_vector(self, column, out):
        """In each forward pass; what the last decode step left is what counts."""
        self.newest[: len(out), column].copy_(out[:, -1])

    def attend(self, module, q, k, v, mask=None, scaling=None, sliding_window=None, s_aux=None, **_):
        """What transformers calls in each layer: q [B, H, T, D], k, v [B, G, T, D] -> [B, T, H, D]."""
        pools = self.pools[module.layer_idx]
        if self.plan:  # a decode step
            return self.attend_pages(*pools, q, k, v, scaling, sliding_window, s_aux), None
        first, pages = self.filling
        for pool, x in zip(pools, (k[0, :, first:], v[0, :, first:])):
            x = torch.nn.functional.pad(x, (0, 0, 0, -x.shape[1] % self.page))  # [G, pages * P, D]
            x = x.unflatten(1, (-1, self.page)).transpose(0, 1)
            pool[pages[: len(x)]] = x
        return common.causal_attention(module, q, k, v, None, scaling, sliding_window, s_aux)

    def attend_pages(self, keys, values, q, k, v, scaling, window, sinks):
        """Each row's newest token over the row's pages: q [B, H, 1, D], k, v [B, G, 1, D] -> [B, 1, H, D]."""
        plan = self.plan
        values.index_fill_(0, plan.begun, 0)
        keys[plan.page, :, plan.offset] = k[:, :, 0]
        values[plan.page, :, plan.offset] = v[:, :, 0]
        by_tables = functools.partial(self.attend_tables, keys, values, q[:, :, 0], scaling, window, sinks)
        if not plan.groups:
            return by_tables()[:, None]
        q = q.view(len(q), k.shape[1], -1, q.shape[-1])  # [B, G, g, D]: the g heads that read the same keys
        parts = [page_attention(q[readers], keys[pages], values[pages], scaling, hidden[window])
                 for pages, readers, hidden in plan.groups]  # fmt: skip
        shares, weights = (torch.cat([x.flatten(0, 1) for x in both]) for both in zip(*parts))
        logs = weights[plan.entries]  # [B, entries, G, g]
        total = logs.logsumexp(1)
        if sinks is not None:
            total = total.logaddexp(sinks.float().view(1, *total.shape[1:]))
        out = torch.einsum("begh,beghd->bghd", (logs - total[:, None]).exp(), shares[plan.entries])
        out = out.to(v.dtype).flatten(1, 2)  # [B, H, D]
        if self.by_tables:
            self.compare(by_tables, out)
        return out[:, None]

    def attend_tables(self, keys, values, q, scaling, window, sinks):
        """The same by one kernel, which finds a row's pages in a table: q [B, H, D] -> [B, H, D]."""
        from torch.nn.attention.varlen import AuxRequest, varlen_attn

        tables = self.plan.tables
        most = tables["block_table"].shape[1] * self.page
        span = (window - 1, 0) if window else (-1, -1)  # keys before the newest, and after
        keys, values = keys.transpose(1, 2), values.transpose(1, 2)  # [pages, P, G, D]
        options = {"scale": scaling, "window_size": span, "enable_gqa": True} | tables
        aux = AuxRequest(lse=True)
        out, total = varlen_attn(q, keys, values, *self.plan.ends, 1, most, return_aux=aux, **options)
        if sinks is not None:  # total [H, B]: the log of all weights but the sink's
            out = out * (total.mT - sinks.float()).sigmoid()[..., None].to(out.dtype)
        return out

    def compare(self, by_tables, out):
        """What the one kernel says beside the pages' answer [B, H, D]; where it is wrong it is given up."""
        try:
            distance = (by_tables() - out).float().flatten(1).norm(dim=1) / out.float().flatten(1).norm(dim=1)
            worst = distance.max().item()
            if worst <= 1 / 64:  # rounding to bfloat16 gives some three thousandths
                return
            why = f"it differs by {worst:.1%}"
        except (ImportError, RuntimeError, TypeError, ValueError) as error:
            why = common.reason_of(error)
        print(f"going on without torch's varlen_attn, by page attention: {why}", file=sys.stderr)
        self.by_tables = False

    def make_plan(self, position, start, page):
        """For all layers of a step: the page that each row writes, those that are begun, what each row reads.
        An index made in a layer would wait for all that is launched.
        """
        begun = [row.pages[-1] for row in self.rows if (row.end - 1 - row.start) % self.page == 0]
        plan = SimpleNamespace(page=page, offset=(position - start) % self.page, begun=self.tensor(begun))
        plan.groups = []
        if self.by_tables:
            plan.tables, plan.ends = self.make_tables(position)
            width = plan.tables["block_table"].shape[1]
            self.widths[width] += 1
        if not self.by_tables or self.widths[width] <= 2:  # the first steps of each width are done both ways
            plan.groups, plan.entries = self.group_pages(position, start)
        self.plan = plan

    def make_tables(self, position):
        """What varlen_attn is told: each row's pages, how many keys count, where queries and keys end."""
        lists = [self.prompts[row.problem][: row.start // self.page] + row.pages for row in self.rows]
        table = np.array([*itertools.zip_longest(*lists, fillvalue=0)], np.int64).T  # [B, pages]
        pad = lambda x: torch.nn.functional.pad(x, (1, 0)).int()
        ends = torch.arange(len(lists) + 1, device=self.device).int(), pad((position + 1).cumsum(0))
        return {"block_table": self.tensor(table).int(), "seqused_k": (position + 1).int()}, ends

    def group_pages(self, position, start):
        """Groups of pages, own ones and prompts', with each page's readers and the keys hidden from them; the
        shares [B, entries] that a row adds up.
        """
        count = lambda n: torch.arange(n, device=self.device)
        too_old = {window: position - (window or FAR) for window in self.windows}
        prompts = [self.prompts[row.problem] for row in self.rows]
        zero, sample = torch.zeros_like(start), self.tensor([row.sample for row in self.rows])
        kinds = (  # tables of pages, the first page, readers of one, a row's place there, first and last key
            ([row.pages for row in self.rows], 0, 1, zero, start, position),
            (prompts, self.split, self.n, sample, zero, start - 1),
        )
        groups, entries, shares = [], [], 0
        for lists, low, n, place, first, last in kinds:
            table = np.array([*itertools.zip_longest(*lists, fillvalue=0)], np.int64)  # 0: none
            size = max(0, int(table.max(initial=0)) + 1 - low)
            table = self.tensor(table.reshape(-1, len(lists)).T)
            at = (table - low).where(table > 0, size)  # nobody's is one after the last
            readers, start = at.new_zeros(size + 1, n), at.new_full((size + 1,), FAR)
            readers[at, place[:, None]] = count(len(at))[:, None].expand_as(at)
            start[at] = first[:, None] + count(at.shape[1]) * self.page
            readers, keys = readers[:-1], start[:-1, None, None] + count(self.page)  # [E, n], [E, 1, P]
            ahead = keys > last[readers][..., None]
            hidden = {w: ahead | (keys <= oldest[readers][..., None]) for w, oldest in too_old.items()}
            groups.append((slice(low, low + size), readers, hidden))
            entries.append((shares + at * n + place[:, None]).where(table > 0, 0))
            shares += size * n
        return groups, torch.cat(entries, 1)

    def step(self):
        """The next token of each row [n] and its statistics [n, 12]; hooks keep the vector it came from."""
        rows = [(row.end - 1, len(row.stats), row.start, row.pages[-1], row.key) for row in self.rows]
        position, age, start, page, key = self.tensor(np.array(rows, np.int64)).unbind(1)
        self.make_plan(position, start, page)
        texts, place = self.texts[: len(rows)], position[:, None]
        out = self.model(input_ids=texts.gather(1, place), position_ids=place, use_cache=False)
        scores = logits = out.logits[:, -1].float()  # [n, V]
        if (penalty := self.sampling["repetition_penalty"]) != 1:
            scores = penalise(logits, texts[:, : max(row.end for row in self.rows)], penalty)
        noise = scramble(key + age * STRIDE)[:, None]
        chosen = choose_tokens(scores, self.sampling, noise, self.token_hashes)
        if torch.distributed.is_initialized():
            torch.distributed.broadcast(chosen, 0)  # the processes of --tp must never disagree
        texts.scatter_(1, place + 1, chosen[:, None])
        stats = token_stats(logits, chosen).half()  # before the wait for the tokens, so that it covers both
        return chosen.cpu().numpy(), stats.cpu().numpy()

    # --- between steps, on the host

    def run(self, queue):
        """The rollouts of a deque of jobs (see `make_jobs`), to which others may come meanwhile."""
        self.queue = queue
        try:
            while self.queue or self.rows:
                with torch.inference_mode():
                    self.admit()
                    self.extend()
                    ended = self.collect(*self.step())
                yield from ended
        finally:  # let go of the memory: transformers keeps the attention function
            [hook.remove() for hook in self.hooks]
            self.pools, self.plan = {}, None

    def take(self, low, high, count):
        """The first `count` free pages of [low, high), or None when there are too few."""
        pages = np.flatnonzero(self.free[low:high])[:count] + low
        if len(pages) < count:
            return None
        self.free[pages] = False
        return pages.tolist()

    def admit(self):
        """Fill the free slots while there are pages, one in hand for each running row."""
        while self.queue and len(self.rows) < self.slots:
            job = self.queue[0]
            if "paused" in job:
                row, text = job["paused"]
            else:
                row, text = SimpleNamespace(**job, job=job, stats=[], finish=None), job["prompt"]
            row.end, base = len(text), len(row.prompt) - 1
            row.start = base - base % self.page if self.copies_part else base
            needed = (row.end - 1 - row.start) // self.page + 1
            if self.free[1 : self.split].sum() < needed + len(self.rows):
                break
            if row.problem not in self.prompts and not self.read_prompt(job):
                break
            self.queue.popleft()
            row.pages = self.take(1, self.split, needed)
            if row.stats:
                self.read(text[:-1], row.start, row.pages)
            elif row.start < base:
                for pool in itertools.chain(*self.pools.values()):
                    pool[row.pages[0]] = pool[self.prompts[row.problem][-1]]
            own = self.texts[len(self.rows)].fill_(text[-1])  # for the penalty, no other token behind the end
            own[: row.end] = self.tensor(text)
            self.rows.append(row)

    def read_prompt(self, job):
        """A prompt's keys and values, once for all its rollouts; False while there is no room."""
        for problem in self.prompts.keys() - {row.problem for row in self.rows}:
            self.free[self.prompts.pop(problem)] = True
        ids = job["prompt"][:-1]
        pages = self.take(self.split, len(self.free), -(-len(ids) // self.page))
        if pages is None:
            return False
        self.read(ids, 0, pages)
        self.prompts[job["problem"]] = pages
        return True

    def read(self, ids, first, pages):
        """The keys and values of ids[first:] into pages, by one forward pass."""
        if len(ids) > first:
            self.plan, self.filling = None, (first, self.tensor(pages))
            self.model(input_ids=self.tensor([ids]), use_cache=False, logits_to_keep=1)

    def extend(self):
        """A page for each row whose last is full; where there is none, the shortest row waits and goes on."""
        is_full = lambda row: len(row.pages) * self.page <= row.end - 1 - row.start
        while full := [row for row in self.rows if is_full(row)]:
            if page := self.take(1, self.split, 1):
                full[0].pages += page
            else:
                shortest = min(range(len(self.rows)), key=lambda r: len(self.rows[r].stats))
                row = self.rows[shortest]
                self.queue.appendleft(row.job | {"paused": (row, self.texts[shortest, : row.end].tolist())})
                self.retire(shortest)

    def retire(self, r):
        """Give a row's pages back; the last row moves into its place."""
        self.free[self.rows[r].pages] = True
        self.texts[r] = self.texts[len(self.rows) - 1]
        self.rows[r] = self.rows[-1]
        self.rows.pop()

    def collect(self, tokens, stats):
        """Note the tokens of a step; retire the rows that have ended, and return them."""
        ended = []
        for r in reversed(range(len(self.rows))):  # from the back: only rows that were looked at move
            row, newest = self.rows[r], self.newest[r]  # [layers, d]
            if row.finish:  # it has just had its one step more
                vectors = torch.stack([row.last if row.finish == "stop" else newest, newest], 1)
                ended.append(row.job | {
                    "ids": self.texts[r, len(row.prompt) : row.end].int().cpu(),
                    "stats": torch.from_numpy(np.stack(row.stats)),
                    "hidden": vectors.flatten(0, 1).cpu(),  # [layers * 2, d]
                    "finish": row.finish,
                })  # fmt: skip
                self.retire(r)
                continue
            row.end += 1
            row.stats.append(stats[r])
            if tokens[r] in self.sampling["stop_ids"]:
                row.finish, row.last = "stop", newest.clone()
            elif len(row.stats) == row.limit:
                row.finish = "length"
        return ended


def free_memory(device):
    """Bytes for keys and values."""
    if device.type != "cuda":
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    torch.cuda.empty_cache()  # what an earlier engine held
    free = torch.tensor(int(torch.cuda.mem_get_info(device)[0] * 0.8), device=device)
    if torch.distributed.is_initialized():  # --tp: as much as the fullest of its GPUs has
        torch.distributed.all_reduce(free, op=torch.distributed.ReduceOp.MIN)
    return int(free)


OUT_OF_MEMORY = re.compile("out of memory|can't allocate memory|MemoryError")  # CUDA and MPS; a CPU; Python


def sample_rollouts(model, layers, sampling, n, slots, longest, queue, bar):
    """Rollouts of `queue` as they end; out of memory, the others begin again with fewer slots."""
    while queue:
        engine = None
        try:
            engine = Engine(model, layers, sampling, n, slots, *longest)
            yield from engine.run(queue)
        except (RuntimeError, MemoryError) as error:
            if not OUT_OF_MEMORY.search(repr(error)):
                raise
            if torch.distributed.is_initialized():  # the others wait for this one, until torchrun ends them
                told = f"error: one GPU of --tp is out of memory; go on with --slots {max(1, slots // 2)}"
                print(told, file=sys.stderr, flush=True)
                os._exit(2)
            if slots == 1:
                die("too little memory for one rollout; lower --max-new-tokens or --dtype")
            slots //= 2
            bar.write(f"out of memory: going on with {slots} slots", file=sys.stderr)
            queue.extendleft(row.job for row in reversed(engine.rows if engine else []))


# ---- Rollouts whose tokens are known: one teacher-forced pass


def force_rollouts(model, tokenizer, jobs, layers, stop_ids, extra):
    """Rollouts of `jobs` with given "tokens", in batches of similar length."""
    budget, head, outputs = 16384 if model.device.type == "cuda" else 2048, model.get_output_embeddings(), {}
    _, seen = probe(model, max(map(length_of, jobs)))
    with torch.inference_mode():
        final, logits = head(seen.hidden_states[-1]).double().flatten(), seen.logits.double().flatten()
    scale = (logits @ final / (final @ final)).item()  # some multiply their logits
    if not torch.allclose(final * scale, logits, atol=1e-2, rtol=1e-2):
        die(f"{type(model).__name__} changes its logits after the last layer: it cannot read tokens")
    logits_of = lambda x: head(x).float() * (1 if abs(scale - 1) < 1e-3 else scale)
    common.use_attention(model, "whole", common.causal_attention)
    last = model.config.get_text_config().num_hidden_layers
    hooks = common.watch_layers(model, [*layers, last], outputs.__setitem__)
    for batch in batches(jobs, budget):
        texts = [torch.tensor(job["prompt"] + job["tokens"]) for job in batch]
        ids = torch.nn.utils.rnn.pad_sequence(texts, batch_first=True).to(model.device)
        with torch.inference_mode():
            model.get_decoder()(input_ids=ids, use_cache=False)
            *kept, final = (outputs[column] for column in sorted(outputs))  # each [B, T, d]
            rollouts = list(read_batch(tokenizer, batch, kept, final, logits_of, stop_ids, extra))
        yield from rollouts
    [hook.remove() for hook in hooks]


def length_of(job):
    return len(job["prompt"]) + len(job["tokens"])


def batches(jobs, budget):
    """Of at most `budget` tokens; were they sorted as a whole, no problem would end before the last."""
    for start in range(0, len(jobs), 256):
        queue = sorted(jobs[start : start + 256], key=length_of)[::-1]
        while queue:
            rows = max(1, budget // length_of(queue[0]))
            yield queue[:rows]
            queue = queue[rows:]


def read_batch(tokenizer, batch, kept, final, logits_of, stop_ids, extra):
    for b, job in enumerate(batch):
        first, tokens = len(job["prompt"]), torch.tensor(job["tokens"], device=final.device)
        stopped = len(tokens) > 0 and int(tokens[-1]) in stop_ids
        end = first + len(tokens) - 1
        pieces = zip(final[b, first - 1 : end].split(1024), tokens.split(1024), strict=True)
        hidden = [x[b, end - (stopped and token == "last")] for x in kept for token in TOKENS]
        yield job | {
            "ids": tokens.int().cpu(),
            "stats": torch.cat([token_stats(logits_of(x), y).half() for x, y in pieces]).cpu(),
            "hidden": torch.stack(hidden).cpu() if hidden else torch.empty(0, final.shape[-1]),
            "finish": "stop" if stopped else "length",
            "extra": extra_vectors(tokenizer, job["tokens"], final[b, first : end + 1].cpu(), extra),
        }


def empty_rollout(run, job, layers):
    """Of a prompt that leaves no room for an answer."""
    none = torch.zeros(0, run.config.hidden_size, dtype=run.model.dtype)
    return job | {
        "ids": none.new_zeros(0).int(), "stats": none.new_zeros(0, common.TOP_K + 2).half(),
        "hidden": none.new_zeros(2 * len(layers), none.shape[1]), "finish": "length",
        "extra": extra_vectors(run.tokenizer, [], none, run.need["extra"]),
    }  # fmt: skip


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
        front = (0, 0, max(0, 10 - len(final)), 0)
        found["last10"] = torch.nn.functional.pad(final[-10:], front)[None]
    if "special" in wanted:
        places = special_places(tokenizer, ids)
        found |= {"special": final[places].clone(), "special_counts": torch.tensor([len(places)])}
    return found


# ---- Jobs, one for each rollout


def prepare(run, model, tokenizer):
    """How to sample, as the model's files or the arguments say, and the prompts."""
    args, run.model, run.tokenizer, run.config = run.args, model, tokenizer, model.config.get_text_config()
    own = common.sampling_defaults(model, tokenizer)
    run.sampling = own | {name: x for name in own if (x := getattr(args, name, None)) is not None}
    run.prompts = [list(common.encode_prompt(tokenizer, problem)) for problem in run.problems]


def room_for(run, prompt):
    """How many tokens an answer may have."""
    context = context_of(run.config)
    return max(0, min(run.args.max_new_tokens or context, context - len(prompt))) if prompt else 0


def make_jobs(run, given):
    """(jobs of each problem, {id: why} of those without tokens); given: rollouts' tokens, None: to sample."""
    jobs, skipped, vocab = [[] for _ in run.problems], {}, run.config.vocab_size
    for i, (problem, prompt) in enumerate(zip(run.problems, run.prompts)):
        limit = room_for(run, prompt)
        if not limit:
            told = f"a prompt of {len(prompt)} tokens in a context of {context_of(run.config)}"
            skipped[problem["id"]] = told
        for sample, tokens in enumerate(given[i]):
            key = noise_key(run.args.seed, problem["id"], sample)
            jobs[i].append({"problem": i, "sample": sample, "prompt": prompt, "limit": limit, "key": key})
            if tokens is not None:
                jobs[i][-1]["tokens"] = tokens[:limit]
                if any(not 0 <= token < vocab for token in tokens):
                    die(f"{problem['id']}: tokens beyond this model's {vocab}; which model made them?")
    return jobs, skipped


def read_run(folder, problems):
    """`given` of a run folder's own tokens."""
    stored, rows, found = load_pt(folder / "tokens.pt"), common.read_rollouts(folder), defaultdict(list)
    tokens = stored["ids"].tensor_split(stored["offsets"][1:-1])
    if len(tokens) != len(rows):
        die(f"{folder}: tokens.pt has {len(tokens)} of {len(rows)} rollouts; delete it, run again")
    for row, ids in zip(rows, tokens):
        found[row["id"]].append(ids.tolist())
    return [found[problem["id"]] for problem in problems]


# ---- A serving engine: what to ask of it, in the OpenAI batch format, and what it has answered


def write_requests(run):
    """Or, with --responses, compare them. Of the model only the configuration and the tokenizer are read."""
    args = run.args
    prepare(run, *common.load_tokenizer(args.model, args.revision, args.trust_remote_code))
    if args.endpoint == "chat" and run.tokenizer.chat_template is None:
        die("this model has no chat template; take --endpoint completions")
    rows = {row["custom_id"]: row for row in requests_of(run)}
    if args.responses:  # then meta.json tells the settings as they were
        for sent in common.each_row(args.requests, needs=("custom_id", "body")):
            sent["body"]["model"] = args.model  # a server may call it otherwise
            if sent != rows.get(sent["custom_id"]):
                told = f"{sent['custom_id']} is not what this command asks for"
                die(f"{args.requests}: {told}; give the flags it was written with")
        return
    common.write_jsonl(args.requests, rows.values())
    asked = sum(row["body"].get("n", 1) for row in rows.values())
    told = f"{len(rows)} requests for {asked} of {args.n * len(run.problems)} rollouts"
    print(f"{args.requests}: {told}", file=sys.stderr)
    if args.plain and (run.sampling["top_k"] or run.sampling["repetition_penalty"] != 1):
        print(f"--plain: the server must be told to sample by {run.sampling}", file=sys.stderr)
    print(args.requests)


def requests_of(run):
    """A row a problem, with --plain a row a rollout; custom_id: the problem's id, #, the first sample."""
    args, sampling = run.args, run.sampling
    for job in itertools.chain(*make_jobs(run, [[None] * args.n] * len(run.problems))[0]):
        if not job["limit"] or job["sample"] and not args.plain:
            continue
        problem = run.problems[job["problem"]]
        body = {"model": args.model, "max_tokens": job["limit"], "seed": job["key"] >> 31}
        body |= {name: sampling[name] for name in ("temperature", "top_p")}
        if args.endpoint == "completions":
            body["prompt"] = job["prompt"]
        else:
            body["messages"] = common.encode_chat(run.tokenizer, problem)[1]
            if "reasoning_effort" in run.tokenizer.get_chat_template():
                body["reasoning_effort"] = "high"
        if not args.plain:
            body |= {"n": args.n, "top_k": sampling["top_k"] or -1, "return_token_ids": True}
            body |= {"repetition_penalty": sampling["repetition_penalty"], "skip_special_tokens": False}
            body["chat_template_kwargs"] = {"enable_thinking": True}
        name = f"{problem['id']}#{job['sample']}"
        yield {"custom_id": name, "method": "POST", "url": ENDPOINTS[args.endpoint], "body": body}


def each_response(path):
    """(row, its file's name without the ending) of a file of rows, or of a folder of files."""
    folder = Path(path).is_dir()
    for file in sorted(Path(path).glob("*.json*")) if folder else [Path(path)]:
        is_one_answer = folder and file.suffix == ".json"
        for row in [common.read_json(file)] if is_one_answer else common.each_row(file):
            yield row, file.stem


def read_responses(run):
    """`given` of --responses: an answer is known by its problem's id, its prompt or its file's name."""
    path, found, odd = run.args.responses, [{} for _ in run.problems], defaultdict(list)
    places = {problem["prompt"]: i for i, problem in enumerate(run.problems)}
    for i, problem in enumerate(run.problems):
        places |= {problem["id"].replace("/", "_"): i, problem["id"]: i}
    for row, file_name in each_response(path):
        try:
            names, first, answers = read_row(row, file_name)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            die(f"{path}: not an answer as engines write them ({common.reason_of(error)}): {str(row)[:100]}")
        i = next((places[name] for name in names if name in places), None)
        first = len(found[i or 0]) if first is None else first
        for number, answer in enumerate(answers):
            if i is None:
                odd["answers to other problems are left out"].append(names[0])
            elif answer["failed"]:
                odd["requests or choices gave no answer"].append(f"{names[0]} ({answer['failed'][:200]})")
            else:
                found[i][first, number] = encode_answer(run, i, answer, odd)
    if is_writer() and worker(run.args)[0] == 0:
        print(f"{path}: {len(found)} problems, {sum(map(len, found))} answers", file=sys.stderr)
        for what, of in odd.items():
            print(f"{path}: {len(of)} {what}, such as {of[0]}", file=sys.stderr)
    for prompt, answers in zip(run.prompts, found):
        if not room_for(run, prompt):  # nobody can have answered it
            answers |= {(sample, 0): [] for sample in range(run.args.n)}
    if lost := [problem["id"] for problem, answers in zip(run.problems, found) if not answers]:
        told = f"no answers to {len(lost)} of {len(found)} problems, such as {lost[0]!r}"
        die(f"{path}: {told}; ask again and add what comes")
    return [[answers[place] for place in sorted(answers)] for answers in found]


def read_row(row, file_name):
    """(names, the first answer's number, answers) of a batch file's row, a raw response, or a text."""
    response = row.get("response")
    if isinstance(response, str):
        answer = {"text": response, "token_ids": row.get("tokens"), "finish_reason": row.get("finish")}
        sample = int(row["sample"]) if "sample" in row else None
        return [str(row.get("id")), str(row.get("prompt"))], sample, [read_choice(answer)]
    body = row if "choices" in row else (response or {}).get("body") or {}
    name = row.get("custom_id", file_name)
    asked, _, first = name.rpartition("#")
    prompt = {"prompt_token_ids": body.get("prompt_token_ids")}
    choices = body.get("choices") or [{"error": row.get("error") or body}]
    answers = [read_choice(prompt | choice) for choice in choices]
    return [name, asked], int(first) if first.isdigit() else None, answers


def read_choice(choice):
    """An answer under names of ours; engines, and their versions, have several for the same."""
    message, logprobs = choice.get("message") or {}, choice.get("logprobs") or {}
    steps = logprobs.get("tokens") or [step["token"] for step in logprobs.get("content") or []]
    tokens = choice.get("token_ids") or choice.get("response_token_ids")
    if not tokens and steps and all(step.startswith("token_id:") for step in steps):
        tokens = [int(step.removeprefix("token_id:")) for step in steps]
    text, finish = choice.get("text", message.get("content")), choice.get("finish_reason")
    reasoning = message.get("reasoning_content") or message.get("reasoning")
    if not isinstance(text, str | None) or {*map(type, tokens or [])} - {int}:
        raise TypeError("texts are strings, tokens whole numbers")
    nothing = text is None and not reasoning and not tokens
    failed = str(choice.get("error", finish)) if nothing or finish in BROKEN else None
    cut = finish == "length" or (tokens and finish is None)
    return {"text": text or "", "reasoning": reasoning, "tokens": tokens, "cut": cut,
            "prompt": choice.get("prompt_token_ids"), "failed": failed}  # fmt: skip


def encode_answer(run, i, answer, odd):
    """Its token ids with the one that ends it: the engine's, or else those of its text."""
    tokens, stop_ids, last = answer["tokens"], run.sampling["stop_ids"], run.tokenizer.eos_token_id
    if answer["prompt"] not in (None, run.prompts[i]):
        odd["answers are to another prompt than this model's files give"].append(run.problems[i]["id"])
    if not tokens:
        text = whole_text(run, i, answer)
        tokens = run.tokenizer(text, add_special_tokens=False)["input_ids"]
        if run.tokenizer.decode(tokens, clean_up_tokenization_spaces=False) != text:
            odd["texts are not what their tokens spell"].append(run.problems[i]["id"])
    if answer["cut"] or not stop_ids or (tokens and tokens[-1] in stop_ids):
        return tokens
    return [*tokens, last if last in stop_ids else stop_ids[0]]


def whole_text(run, i, answer):
    """With reasoning that the server took out where the template has it, without what the prompt opened."""
    text, reasoning, prompt = answer["text"], answer["reasoning"], run.tokenizer.decode(run.prompts[i])
    if reasoning:
        names = "reasoning_content", "reasoning", "thinking"
        reply = {"role": "assistant", "content": "<ANSWER>"} | dict.fromkeys(names, "<REASONING>")
        chat = run.tokenizer.decode(common.encode_chat(run.tokenizer, run.problems[i], reply=[reply])[0])
        front, found, between = chat.removeprefix(prompt).partition("<ANSWER>")[0].partition("<REASONING>")
        if not found or not chat.startswith(prompt):  # a template that leaves it out
            front, between = "<think>\n", "\n</think>\n\n"
        text = front + reasoning.strip("\n") + (between + text.lstrip("\n") if text else "")
    opened = opened_reasoning(run.tokenizer, run.prompts[i])
    return text.removeprefix(opened if text.startswith(opened) else opened.strip())


def opened_reasoning(tokenizer, prompt):
    """`<think>` if the template wrote it: the text gets it back, so that cut reasoning is seen."""
    return (re.search(r"<think>\s*$", tokenizer.decode(prompt[-16:])) or [""])[0]


def text_of(tokenizer, rollout):
    """Without the token that ended it; markers such as </think> stay."""
    ids = rollout["ids"][:-1] if rollout["finish"] == "stop" else rollout["ids"]
    text = tokenizer.decode(ids.tolist(), clean_up_tokenization_spaces=False)
    return opened_reasoning(tokenizer, rollout["prompt"]) + text


# ---- Sampling that stops when it is sure


def stop_rule(run, layers):
    """The function that says whether a problem is decided; layers: those kept."""
    rate = rater(run, layers)

    def is_sure(problem, rollouts):
        for row in rollouts:
            if "p" not in row:
                rate(row)
        return max(row["p"] for row in rollouts) >= run.args.stop

    return is_sure


def rater(run, layers):
    """The function that adds its score and p to a rollout, by itself: the batch must not matter."""
    given, n_layers = run.args.scorer, run.config.num_hidden_layers
    vectors = [*itertools.product(layers, TOKENS)]
    scorer = given if isinstance(given, common.Scorer) else common.load_scorer(given)
    name = "the scorer" if scorer is given else given
    common.check_scorer_fits(scorer, {"model": run.args.model, "n_layers": n_layers}, name)
    if len(scorer.shape) > 1 or (vector := common.vector_key(scorer.vector, n_layers)) not in vectors:
        die(f"{name} reads {scorer.vector}; here it must be one vector, of the layers {run.need['layers']}")

    def rate(row):
        conf = common.confidence(row["stats"].numpy(), run.config.vocab_size)
        features = common.rollout_features(conf, len(row["ids"]))[None]
        score = scorer(row["hidden"][vectors.index(vector)][None], features)
        row.update(score=score.item(), p=score.sigmoid().item())

    return rate


def vote_groups(problem, rollouts):
    """[N]: a number for each different answer as 02 judges it, -1: none. Keeps the answers."""
    answer_of, group = importlib.import_module("02_label").readers_of(problem["kind"])
    for row in rollouts:
        if "answer" not in row:
            row["answer"] = answer_of(row["text"])
    groups = group([row["answer"] for row in rollouts])
    return np.array([-1 if number is None else number for number in groups])


# ---- The run folder: what made it, what it lacks, the parts and what they are merged into


def hash_model(name, revision):
    """Changes when the model does, in a folder, too: a little of each file is read."""
    from huggingface_hub import try_to_load_from_cache

    if not Path(name).is_dir():
        with suppress(ValueError, TypeError):  # no possible name: loading it will say so; not in the cache
            return Path(try_to_load_from_cache(name, "config.json", revision=revision)).parent.name
        return None
    seen, kinds = b"", (".json", ".safetensors", ".bin", ".jinja", ".model")
    for path in sorted(path for path in Path(name).iterdir() if path.suffix in kinds):
        size = path.stat().st_size
        seen += f"{path.name} {size}".encode()
        with open(path, "rb") as file:
            for place in range(0, size, max(1 << 16, size // 16)):
                file.seek(place)
                seen += file.read(1 << 16)
    return common.hash_of(seen)


def find_run(args, dataset):
    """A data set's folder, problems and identity: what it may be gone on with by, the same but for layers."""
    digest = lambda rows: common.hash_of(repr(rows).encode())
    problems = common.load_problems(dataset, args.limit)
    folder = Path(args.out) / common.model_name(vars(args)) / common.short_name(dataset)
    folder /= "greedy" if args.greedy else str(args.seed)
    names = "n seed limit max_new_tokens temperature top_k top_p repetition_penalty dtype revision stop"
    now = {name: getattr(args, name) for name in names.split()} | {
        "scorer": args.scorer and common.hash_of(Path(args.scorer).read_bytes()),
        "model": hash_model(args.model, args.revision),
        "data set": digest(problems),
        "responses": args.responses and digest([*each_response(args.responses)]),
    }
    is_there = lambda *names: all((folder / name).is_file() for name in names)
    meta = read_meta(folder) if is_there("meta.json") else {"identity": now}
    before, wanted = meta.get("identity", {}), now
    if "model" in meta and not is_there("rollouts.jsonl"):  # a finished one may get more
        before, wanted = before | {"layers": meta["arguments"]["layers"]}, now | {"layers": args.layers}
    for name, value in wanted.items():
        unknown = name == "model" and None in (before.get(name), value)  # of the Hub, not in the cache
        unknown |= name == "responses" and value is None and is_there("rollouts.jsonl", "tokens.pt")
        if before.get(name) != value and not unknown:
            told = f"{folder} was made with {name} {before.get(name)}, not {value}"
            if name in ("model", "data set", "responses", "scorer"):  # hashes say nothing to a person
                told = f"{folder} was made before the {name} changed"
            die(f"{told}; choose another --out, or remove that folder")
    args = argparse.Namespace(**vars(args), dataset=dataset)
    return SimpleNamespace(args=args, folder=folder, problems=problems, identity=now)


def layers_of(names, n_layers):
    """--layers as {index: name}, each checked, one name for each layer."""
    names = names.replace("all", ",".join(map(str, range(n_layers + 1)))).split(",")
    return {layer_index(name, n_layers): name for name in names if name}


def lacking(run):
    """What the folder needs, None if it has all: layers, --extra; `whole`: all files."""
    args, there = run.args, lambda name: (run.folder / name).is_file()
    if not all(map(there, ("meta.json", "tokens.pt", "rollouts.jsonl"))):
        return {"whole": True, "layers": args.layers, "extra": []}
    n_layers = read_meta(run.folder)["n_layers"]
    names = load_pt(run.folder / "hidden.pt")["vectors"] if there("hidden.pt") else []
    held = {layer_index(name.split("/")[0], n_layers) for name in names}
    layers = [name for index, name in layers_of(args.layers, n_layers).items() if index not in held]
    extra = sorted({*args.extra} - {*(load_pt(run.folder / "extra.pt") if there("extra.pt") else ())})
    return {"whole": False, "layers": ",".join(layers), "extra": extra} if layers or extra else None


def describe(run, skipped, jobs):
    """meta.json: what made this run."""
    import transformers

    args, config, model = run.args, run.config, run.model
    git, commit = ["git", "-C", Path(__file__).resolve().parent, "describe", "--always", "--dirty"], ""
    with suppress(OSError):  # no git
        commit = subprocess.run([*git, "--abbrev=12"], capture_output=True, text=True).stdout.strip()
    versions = {module.__name__: module.__version__ for module in (torch, transformers, np)}
    stop = {"threshold": args.stop, "scorer": run.identity["scorer"]}
    return {name: getattr(args, name) for name in ("model", "revision", "dataset", "seed")} | {
        "n_layers": config.num_hidden_layers, "width": config.hidden_size, "vocab_size": config.vocab_size,
        "architecture": type(model).__name__, "dtype": str(model.dtype).removeprefix("torch."),
        "device": common.device_name(model.device),
        "layers": [*layers_of(args.layers, config.num_hidden_layers).values()], "sampling": run.sampling,
        "n": max(map(len, jobs)), "skipped": skipped, "stop": stop if args.scorer else None,
        "command": shlex.join(["python", "01_generate.py", *sys.argv[1:]]),
        "identity": run.identity | {"model": hash_model(args.model, args.revision)},
        "arguments": vars(args) | {"max_new_tokens": max(job["limit"] for some in jobs for job in some)},
        "versions": versions | {"python": sys.version.split()[0]}, "git": commit or None,
        "created": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
    }  # fmt: skip


def part(run, i):
    """The file of a problem that is done; those of other layers do not count."""
    return run.folder / "parts" / f"{i}.{common.hash_of(repr(run.need).encode())}.pt"


@contextmanager
def alone(run):
    """One worker at a time writes a part, or merges them and removes their folder."""
    with open(run.folder / "problems.jsonl", "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def merge(run):
    """The files, rollouts.jsonl last: it means finished. False while others are at their problems."""
    with alone(run):
        if lacking(run) != run.need:
            return True  # somebody else has done it
        parts = [part(run, i) for i in range(len(run.problems))]
        if missing := sum(not path.is_file() for path in parts):
            told = f"{missing} of {len(parts)} problems are with others; the last to end merges"
            print(told, file=sys.stderr)
            return False
        rows = zip(run.problems, map(load_pt, parts))
        write_run(run, [row | {"id": problem["id"]} for problem, some in rows for row in some])
        shutil.rmtree(run.folder / "parts", ignore_errors=True)
    return True


def write_run(run, rollouts):
    """What `run.need` names; vectors that are there stay as they are."""
    folder, need, meta = run.folder, run.need, read_meta(run.folder)
    of_all, offsets = lambda name: [row[name] for row in rollouts], lambda x: torch.tensor([0, *x]).cumsum(0)
    keys = {"keys": common.keys_of(rollouts)}
    old = lambda name: load_pt(folder / name) if (folder / name).is_file() and not need["whole"] else {}
    if need["whole"]:
        (folder / "rollouts.jsonl").unlink(missing_ok=True)  # not finished until it is written
        tokens = {name: torch.cat(of_all(name)) for name in ("ids", "stats")}
        common.save_pt(folder / "tokens.pt", tokens | {"offsets": offsets(map(len, of_all("ids")))})
    if need["layers"]:
        names, hidden = layers_of(need["layers"], meta["n_layers"]).values(), torch.stack(of_all("hidden"))
        vectors = [f"{layer}/{token}" for layer in names for token in TOKENS]
        if held := old("hidden.pt"):
            vectors = [*held["vectors"], *vectors]
            hidden = torch.cat([held["hidden"], hidden.to(held["hidden"].dtype)], 1)
        layers = [*dict.fromkeys(name.partition("/")[0] for name in vectors)]
        if layers != meta.get("layers"):
            common.write_json(folder / "meta.json", meta | {"layers": layers})
        common.save_pt(folder / "hidden.pt", keys | {"vectors": vectors, "hidden": hidden})
    if need["extra"]:
        extra = {name: torch.cat([x[name] for x in of_all("extra")]) for name in rollouts[0]["extra"]}
        if "special" in extra:
            extra["special_offsets"] = offsets(extra.pop("special_counts").tolist())
        common.save_pt(folder / "extra.pt", keys | old("extra.pt") | extra)
    if need["whole"]:
        common.write_jsonl(folder / "rollouts.jsonl", (
            {"id": row["id"], "sample": row["sample"], "response": row["text"], "n_tokens": len(row["ids"]),
             "finish": row["finish"], "conf": common.confidence(row["stats"].numpy(), meta["vocab_size"])}
            for row in rollouts
        ))  # fmt: skip
        if meta.get("stop"):
            print(f"{folder}: {what_stopping_saved(rollouts, meta)}", file=sys.stderr)
        if cut := of_all("finish").count("length"):
            cap = f"at {meta['arguments']['max_new_tokens']} tokens or where the context ends"
            print(f"{folder}: {cut} of {len(rollouts)} rollouts were cut, {cap}", file=sys.stderr)


def what_stopping_saved(rollouts, meta):
    """The tokens of rollouts that were never begun are taken as their problem's mean."""
    lengths = defaultdict(list)
    for row in rollouts:
        lengths[row["id"]].append(len(row["ids"]))
    sampled = sum(map(sum, lengths.values()))
    everything = sum(meta["n"] * sum(own) / len(own) for own in lengths.values())
    told = f"stopped when sure: {len(rollouts)} of {meta['n'] * len(lengths)} rollouts"
    return f"{told}, about {sampled / max(1, everything):.0%} of the tokens"


# ---- Many processes


def worker(args):
    """(rank, world): which of how many this is. With --tp all processes are one worker."""
    env = {key: int(value) for key, value in os.environ.items() if value.isdigit()}
    if args.tp:
        return 0, 1
    if "WORLD_SIZE" in env:
        return env.get("RANK", 0), env["WORLD_SIZE"]
    # a batch script by itself is told of tasks, too
    rank, world = env.get("SLURM_PROCID", 0), env.get("SLURM_STEP_NUM_TASKS", 1)
    array = lambda name, default: env.get(f"SLURM_ARRAY_TASK_{name}", default)
    task = (array("ID", 0) - array("MIN", 0)) // array("STEP", 1)
    return task * world + rank, world * array("COUNT", 1)


def split_model(model, device):
    """Each process of torchrun keeps its share, by transformers' plan."""
    from torch.distributed.device_mesh import init_device_mesh
    from transformers.distributed.tensor_parallel import apply_tensor_parallelism

    if not set(model.tp_plan) - {"lm_head"}:
        die(f"--tp: transformers has no plan to split a {model.config.model_type} model")
    style = lambda name: model.tp_plan.get(re.sub(r"\.\d+(?=\.|$)", ".*", name))
    plan = {name: style(name) or style(name.rpartition(".")[0]) for name, _ in model.named_parameters()}
    plan |= {name: style(name) for name, _ in model.named_modules()}  # weights first, then their users
    world = (int(os.environ["WORLD_SIZE"]),)
    text = model.config.get_text_config()
    names = "num_attention_heads", "num_key_value_heads"
    heads = {getattr(text, name) for name in names if getattr(text, name, None)}
    by_head = any(kind == "colwise" and re.search(r"attn\.[qkv]_proj$", name) for name, kind in plan.items())
    if by_head and any(count % world[0] for count in heads):
        told = f"{' and '.join(map(str, sorted(heads)))} heads do not split into {world[0]}"
        die(f"--tp: this model's {told}; start another number of processes")
    mesh = init_device_mesh(torch.device(device).type, world, mesh_dim_names=("tp",))
    apply_tensor_parallelism(model, mesh, {name: kind for name, kind in plan.items() if kind}).to(device)


def is_writer():
    return not torch.distributed.is_initialized() or torch.distributed.get_rank() == 0


def agree(value):
    """The first process's value in all of --tp."""
    box = [value]
    if torch.distributed.is_initialized():
        torch.distributed.broadcast_object_list(box, 0)
    return box[0]


# ---- The program


def check_plan(args, runs, config):
    """What can be wrong is said before the weights load; then what is about to be made."""
    layers_of(args.layers, config.num_hidden_layers)
    context = context_of(config)
    if not args.max_new_tokens and context == FAR:
        die("--max-new-tokens 0: this model names no context; give a number of tokens")
    if args.responses or os.environ.get("RANK", "0") != "0" or worker(args)[0] != 0:
        return
    cap = min(args.max_new_tokens or context, context)
    for run in runs:
        if lacking(run)["whole"]:
            count = len(run.problems) * args.n
            told = f"{run.folder}: {len(run.problems)} problems, {count:,} rollouts"
            most = f"at most {count * cap:,} tokens, {cap:,} a rollout; most end sooner"
            print(f"{told}\n  {most}", file=sys.stderr)


def make_parts(run):
    """This worker's share of the problems: a part file as each one ends."""
    args, problems = run.args, run.problems
    args.slots = args.slots or slots_of(run.model)
    if args.responses:
        given = read_responses(run)
    else:
        given = [[None] * args.n] * len(problems) if run.need["whole"] else read_run(run.folder, problems)
    jobs, skipped = make_jobs(run, given)
    if is_writer():
        for id, why in skipped.items():
            print(f"problem {id} gets no tokens: {why}", file=sys.stderr)
        if not (run.folder / "meta.json").is_file():
            common.write_json(run.folder / "meta.json", describe(run, skipped, jobs))
    rank, world = worker(args)
    mine = agree([i for i in range(len(problems))[rank::world] if not part(run, i).is_file()])
    jobs = {i: jobs[i] for i in mine}
    options = {"total": sum(map(len, jobs.values())), "unit": "rollout", "disable": not is_writer()}
    verb = "generate" if given[0][0] is None else "read"
    with common.progress(desc=f"{verb} {run.folder}", **options) as bar:
        for i, rollouts in ended_problems(run, jobs, bar):
            if is_writer():
                with alone(run):
                    if lacking(run) == run.need:  # else another worker has merged all of them meanwhile
                        known = "prompt", "tokens"  # and long
                        rows = [{name: x for name, x in row.items() if name not in known} for row in rollouts]
                        common.save_pt(part(run, i), rows)


def slots_of(model):
    """How many rollouts run at the same time where nobody says."""
    return 256 if model.device.type == "cuda" else 128


def ended_problems(run, jobs, bar):
    """(number, rollouts) of each problem of `jobs` as it ends."""
    args, extra = run.args, run.need["extra"]
    layers = [*layers_of(run.need["layers"], run.config.num_hidden_layers)]
    is_sure = stop_rule(run, layers) if run.need["whole"] and args.stop else None
    cuts = [0, *common.waves(args.n)] if is_sure else [0, FAR]
    room = {i: [job for job in jobs[i] if job["limit"]] for i in jobs}
    empty = (empty_rollout(run, job, layers) for i in jobs for job in jobs[i] if not job["limit"])
    held = {i: deque(room[i][a:b] for a, b in zip(cuts, cuts[1:])) for i in jobs}  # waves still to begin
    queue, done = deque(job for i in jobs for job in held[i].popleft()), defaultdict(list)
    if queue and "tokens" in queue[0]:
        stop_ids = run.sampling["stop_ids"]
        source = force_rollouts(run.model, run.tokenizer, list(queue), layers, stop_ids, extra)
    else:
        sizes = [(len(job["prompt"]), job["limit"]) for i in jobs for job in room[i]]
        longest, slots = tuple(map(max, zip(*sizes))), min(args.slots, len(sizes))
        source = sample_rollouts(run.model, layers, run.sampling, args.n, slots, longest, queue, bar)
    for rollout in itertools.chain(empty, source):
        i = rollout["problem"]
        rollout["text"] = text_of(run.tokenizer, rollout)
        done[i].append(rollout)
        bar.update()
        waiting = sum(map(len, held[i]))
        if len(done[i]) + waiting < len(jobs[i]):
            continue  # its wave still runs
        if waiting and not agree(is_sure(run.problems[i], done[i])):
            queue.extendleft(reversed(held[i].popleft()))
        else:
            bar.total -= waiting
            yield i, sorted(done.pop(i), key=lambda row: row["sample"])


# ---- Answers in your own program


def sample(
    model, tokenizer, problems, n=N, scorer=None, vote=False, seed=SEED, max_new_tokens=MAX_NEW_TOKENS,
    temperature=None, top_k=None, top_p=None, repetition_penalty=None,
):  # fmt: skip
    """n answers to a problem, the best first; to a list of problems, a list of such lists.

    model, tokenizer: of common.load_model. A problem is a text, or a dict as a line of a file of problems.
    scorer: its path, or what common.load_scorer gives. Without one the answers keep the order of sampling.
    vote: equal answers add up their p (without a scorer they are counted), and the best one of the answer
    with the largest sum comes first. Programs have no votes. The other settings are the command line's.

    An answer is {"sample", "text", "tokens", "finish", "hidden": the vector that the scorer reads, "conf"};
    with a scorer also "score" and "p", how likely it is right; where answers vote also "answer" and "vote",
    its share of all votes. A run folder of the same problems and settings has the same tokens and vectors.
    """
    args = argparse.Namespace(
        model=model.name_or_path, n=n, scorer=scorer, seed=seed, max_new_tokens=max_new_tokens, stop=None,
        temperature=temperature, top_k=top_k, top_p=top_p, repetition_penalty=repetition_penalty,
        slots=slots_of(model),
    )  # fmt: skip
    check_ranges(args, "{}=".format)
    if isinstance(scorer, (str, Path)):
        args.scorer = common.load_scorer(scorer)
    is_one = isinstance(problems, (str, dict))
    rows = [problems] if is_one else problems
    rows = [{"prompt": row} if isinstance(row, str) else row for row in rows]
    rows = [common.normalise_problem(row, f"problem {i + 1}", i) for i, row in enumerate(rows)]
    layer, _, token = (args.scorer.vector if scorer else common.DEFAULT_VECTOR).partition("/")
    need = {"whole": True, "layers": layer, "extra": []}
    run = SimpleNamespace(args=args, problems=rows, need=need)
    prepare(run, model, tokenizer)
    rate = rater(run, [*layers_of(layer, run.config.num_hidden_layers)]) if scorer else None
    jobs, skipped = make_jobs(run, [[None] * n] * len(rows))
    for name, why in skipped.items():
        die(f"problem {name}: {why} leaves no room for an answer")
    found = {}
    try:
        with common.progress(desc="sample", total=n * len(rows), unit="rollout") as bar:
            for i, rollouts in ended_problems(run, dict(enumerate(jobs)), bar):
                for row in rollouts if rate else ():
                    rate(row)
                ranked = best_first(rows[i], rollouts, vote)
                found[i] = [answer_row(row, TOKENS.index(token), run.config.vocab_size) for row in ranked]
    finally:  # transformers' own choice: the engine's attention would be no use to model.generate
        model.set_attn_implementation(model.get_correct_attn_implementation(None))
    return found[0] if is_one else [found[i] for i in range(len(rows))]


def best_first(problem, rollouts, vote):
    """Rated rollouts by their scores or, where they vote, by the votes for their answers; adds "vote"."""
    scores = np.array([row.get("score", 0.0) for row in rollouts])
    order = np.argsort(-scores, kind="stable")
    if vote and problem["kind"] != "code":
        groups = vote_groups(problem, rollouts)
        weights = np.array([row.get("p", 1.0) for row in rollouts])
        totals = common.group_totals(groups, weights).clip(0)
        everything = float(weights[groups >= 0].sum()) or 1.0
        for row, total in zip(rollouts, totals.tolist()):
            row["vote"] = total / everything
        best = common.weighted_vote(groups, weights, scores)
        order = sorted(order, key=lambda i: (i != best, -totals[i]))
    return [rollouts[i] for i in order]


def answer_row(row, column, vocab_size):
    """A rollout as sample() gives it; its vector is copied, as one can learn from no inference tensor."""
    kept = ("sample", "text", "finish", "score", "p", "answer", "vote")
    return {name: row[name] for name in kept if name in row} | {
        "tokens": row["ids"].tolist(), "hidden": row["hidden"][column].clone(),
        "conf": common.confidence(row["stats"].numpy(), vocab_size),
    }  # fmt: skip


def main(argv=None):
    args = parse_args(argv)
    if Path(args.model).is_dir():
        args.model = str(Path(args.model).resolve())  # one name from wherever it is called
    if args.scorer:  # what is no scorer is said before anything else reads it
        curve = common.load_scorer(args.scorer).checkpoint.get("stop")
        if not args.stop and not curve:
            die(f"{args.scorer}: no threshold in it; give one, such as --stop 0.95")
        args.stop = args.stop or common.stop_threshold(curve)
    runs = [find_run(args, dataset) for dataset in args.datasets]
    if len({run.folder for run in runs}) < len(runs):
        die(f"{' '.join(args.datasets)}: two of these have one name; rename a file")
    if args.requests:
        write_requests(runs[0])
        if not args.responses:
            return
    if unfinished := [run for run in runs if lacking(run)]:
        config = common.load_config(args.model, args.revision, args.trust_remote_code)
        check_plan(args, unfinished, config.get_text_config())
    for run in runs:
        if not all((run.folder / name).is_file() for name in ("meta.json", "problems.jsonl")):
            # Without meta.json they may be other ones, of a kill while the model was loaded
            common.write_jsonl(run.folder / "problems.jsonl", run.problems)  # shows if --out can be written
    if unfinished:
        place = args.device, args.dtype, args.revision, args.trust_remote_code
        model, tokenizer = common.load_model(args.model, *place, move=not args.tp)
        if args.tp:
            split_model(model, common.pick_device(args.device))
        if model.num_parameters() < 5_000_000:
            torch.set_num_threads(1)  # sharing such small products costs more
    for run in runs:
        while need := agree(lacking(run)):
            run.need = need
            prepare(run, model, tokenizer)
            make_parts(run)
            if not agree(is_writer() and merge(run)):
                break
        else:
            if is_writer():
                shutil.rmtree(run.folder / "parts", ignore_errors=True)  # of a killed merge
                print(run.folder)
    if torch.distributed.is_initialized():  # --tp: a process that just exits takes down those in the barrier,
        torch.distributed.barrier()  # and torch's threads may abort one that ends under them
        time.sleep(1)
        sys.stdout.flush()
        os._exit(0)


if __name__ == "__main__":
    kept = "finished problems are kept in the run folder; the same command goes on with the others"
    common.entry(main, kept)
