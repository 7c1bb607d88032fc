"""Sample N rollouts of every problem, and keep each rollout's hidden vectors and token statistics as they are made.

    python 01_generate.py demo/model demo/math_a.jsonl
    python 01_generate.py Qwen/Qwen3-1.7B humaneval -n 16 --seed 32
    torchrun --nproc-per-node 4 01_generate.py Qwen/Qwen3-1.7B humaneval

Reads a causal language model of transformers (a folder or a Hub id) and problems (a data set name or a file). Writes
runs/<model>/<dataset>/<seed>/ with meta.json, problems.jsonl, rollouts.jsonl, hidden.pt and tokens.pt; while it runs,
parts/ holds one file per finished problem. Killed and started again it goes on with the unfinished problems; more workers
(torchrun or srun) take turns at the problems. The last line printed is the run folder.

How: one decode loop over a batch of rows. A prompt is computed once and its keys and values serve all its rollouts; a row
that ends makes room for the next rollout at once. Keys and values live in pages of a pool. Attention takes the pages as
they lie, each with the queries of the rows it belongs to, and adds up the pages' shares of a row: no key is copied and no
padding read. Forward hooks keep the newest vector of each row; statistics come from the raw logits of the same step.
A row lives one step longer than its last token, which gives the vector at that token too.

A prompt that has no tokens, or leaves no room for an answer in the model's context, gets rollouts of no tokens with finish
"length" and vectors of zeros; meta.json lists its id and the reason under "skipped".
"""

import argparse
import hashlib
import os
import sys
import time
from collections import Counter, deque
from pathlib import Path

import numpy as np

import common

TOP = common.TOP_K  # log-probabilities kept a token
FAR = 1 << 40  # a position that no row reaches

# ---------------------------------------------------------------------------------------------------------------------
# Sampling: noise is a function of (seed, problem, sample, step, token) and of nothing else


def noise_key(seed, problem_id, sample):
    """62 bits that stand for one rollout."""
    digest = hashlib.sha256(f"{seed}\n{sample}\n{problem_id}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 2


def scramble(x):
    """splitmix64 on int64 tensors: neighbouring inputs give unrelated outputs."""
    for shift, factor in ((30, -0x40A7B892E31B1A47), (27, -0x6B2FB644ECCEEE15)):
        x = (x ^ ((x >> shift) & ((1 << (64 - shift)) - 1))) * factor
    return x ^ ((x >> 31) & ((1 << 33) - 1))


def exponential(row, token):
    """Exponential noise [B, V] from int32 hashes of (rollout, step) [B, 1] and of tokens [V] or [B, V]."""
    h = (row ^ token) * 0x7FEB352D
    h ^= h >> 15
    h *= 0x2C1B3C6D
    h &= 0x7FFFFFFF
    return h.float().add_(0.5).mul_(-(2.0**-31)).log1p_().neg_()  # floats are densest near 0, where the winners are


def nucleus(p, top_p):
    """Keep the fewest likely tokens that hold `top_p` of the mass; bisection, as sorting a vocabulary is slow."""
    low, high = p.new_zeros(len(p), 1), p.new_ones(len(p), 1)
    for _ in range(32):
        middle = (low + high) / 2
        enough = (p * (p > middle)).sum(-1, keepdim=True) >= top_p
        low, high = middle.where(enough, low), high.where(enough, middle)
    return p * (p > low)


def choose_tokens(logits, sampling, rows, token_hashes, seen=None):
    """The next token [B] by Gumbel-max: argmax p / E. logits [B, V] float32; rows [B, 1] and token_hashes [V] int32."""
    penalty, k = sampling["repetition_penalty"], sampling["top_k"]
    if penalty != 1:
        logits = (logits / penalty).where(logits > 0, logits * penalty).where(seen, logits)
    if sampling["temperature"] == 0:
        return logits.argmax(-1)
    logits, ids = logits / sampling["temperature"], None
    if 0 < k < logits.shape[-1]:
        logits, ids = logits.topk(k)
    p = logits.softmax(-1)
    if sampling["top_p"] < 1:
        p = nucleus(p, sampling["top_p"])
    noise = exponential(rows, token_hashes if ids is None else token_hashes[ids])
    best = p.div_(noise).argmax(-1)
    return best if ids is None else ids.gather(1, best[:, None])[:, 0]


def token_stats(logits, tokens):
    """The 12 numbers kept of a step: ten largest log-probabilities, the token's, the vocabulary's mean. -> float16 [B, 12]"""
    import torch

    top, own = logits.topk(TOP).values, logits.gather(1, tokens[:, None])
    return (torch.cat([top, own, logits.mean(-1, keepdim=True)], 1) - logits.logsumexp(-1, keepdim=True)).clamp(-65504).half()


# ---------------------------------------------------------------------------------------------------------------------
# Hidden vectors


def watch_layers(model, layers, keep):
    """Call keep(column, output [B, T, d]) at each forward for the listed indices of `hidden_states`; no second pass."""
    body = model.get_decoder()
    hooks = []
    for column, index in enumerate(layers):
        if index == len(body.layers):
            hooks.append(body.norm.register_forward_hook(lambda _, __, out, c=column: keep(c, out)))
        else:  # what enters block `index` is what block `index - 1` gave; index 0: the embeddings
            hooks.append(body.layers[index].register_forward_pre_hook(lambda _, args, c=column: keep(c, args[0])))
    return hooks


# ---------------------------------------------------------------------------------------------------------------------
# Attention


def causal_attention(q, k, v, scaling, window=None, sinks=None):
    """A whole sequence over itself. q [B, H, T, D], k and v [B, G, T, D] -> [B, H, T, D]. Padding on the right needs no mask."""
    import torch
    from torch.nn.functional import pad, scaled_dot_product_attention

    width, first = q.shape[-1], 0
    if sinks is not None:  # a token in front whose score is the sink and whose value is 0, by one more dimension (8 for speed)
        q, k, v = (pad(x, (0, 8, 1, 0)) for x in (q, k, v))
        q[..., width] = (sinks / scaling)[:, None].to(q.dtype)
        k[:, :, 0, width], first = 1, 1
    mask = None
    if window is not None and q.shape[2] - first > window:
        i = torch.arange(q.shape[2], device=q.device)
        mask = (i[:, None] >= i) & ((i[:, None] - i < window) | (i < first))
    out = scaled_dot_product_attention(q, k, v, mask, is_causal=mask is None, scale=scaling, enable_gqa=q.shape[1] != k.shape[1])
    return out[:, :, first:, :width]


def page_attention(q, k, v, valid):
    """Each page by itself. q [E, G, m, D], k and v [E, G, P, D], valid [E, 1, 1 or m, P] -> shares [E, G, m, D], weights (log) [E, G, m]."""
    scores = (q @ k.mT).float().masked_fill_(~valid, -1e30)
    top = scores.amax(-1, keepdim=True)
    weights = scores.sub_(top).exp_()
    total = weights.sum(-1, keepdim=True)
    return (weights.to(v.dtype) @ v).float() / total, (top + total.log())[..., 0]


# ---------------------------------------------------------------------------------------------------------------------
# The engine


class Row:
    """What the host knows of one running rollout."""

    def __init__(self, job, prompt):
        self.job, self.prompt, self.pages, self.count = job, prompt, [], 0


class Prompt:
    """The pages of a prompt that all its rollouts read: every token but the last, which each row takes as its first step."""

    def __init__(self, pages):
        self.pages, self.users = pages, 0


class Engine:
    """Rows, pages and the decode loop. Row r of every [slots, ...] tensor is one running rollout; running rows come first."""

    TOKEN, POSITION, BASE, LEFT, LIVE, STOPPED, KEY = range(7)  # columns of `state`: int64 [slots, 7]

    def __init__(self, model, layers, sampling, n, slots, max_prompt, max_new, page=None, look_every=None, budget=None):
        import torch
        from transformers import AttentionInterface

        self.model, self.sampling, self.device, self.n, self.slots = model, sampling, model.device, n, slots
        cuda = self.device.type == "cuda"
        self.page = page or (128 if cuda else 32)  # tokens
        self.look_every = look_every or (8 if cuda else 1)  # steps between two looks of the host at what ended
        self.filling = ()  # pages that a prompt's forward writes; None in a decode step
        self.shapes, self.n_rows, self.max_new = {}, 0, max_new
        AttentionInterface.register("paged", self.attend)
        model.set_attn_implementation("paged")
        self.hooks = watch_layers(model, layers, self.keep_vector)
        config = model.config.get_text_config()
        self.current = torch.zeros(slots, len(layers), config.hidden_size, dtype=model.dtype, device=self.device)
        with torch.inference_mode():
            vocab = model(input_ids=self.tensor([[0]]), use_cache=False).logits.shape[-1]  # learns the shapes of keys
        self.make_pages(max_prompt, max_new, budget)
        self.make_state(vocab)

    def tensor(self, values, dtype=None):
        import torch

        return torch.tensor(values, dtype=dtype or torch.int64, device=self.device)

    def make_pages(self, max_prompt, max_new, budget):
        """Pages [0, split) belong to one row each (0 to none), pages [split, n_pages) to prompts."""
        import torch

        a_prompt, a_row = -(-max_prompt // self.page), -(-(max_new + 1 + self.look_every) // self.page)
        prompts = a_prompt * min(self.slots, 4 * -(-self.slots // self.n) + 4)
        size = sum(2 * heads * self.page * width * dtype.itemsize for heads, width, dtype in self.shapes.values())
        room = max(0, (budget or free_memory(self.device)) // size - 1)
        if room < a_prompt + a_row:
            raise torch.OutOfMemoryError(f"{room} pages of {self.page} tokens fit, one rollout may need {a_prompt + a_row}")
        prompts = max(a_prompt, min(prompts, room // 4))
        self.split = 1 + min(self.slots * a_row, room - prompts)
        n_pages = self.split + prompts
        make = torch.empty if self.device.type == "cpu" else torch.zeros  # on a CPU memory is taken page by page, when touched
        self.keys = {i: make(n_pages, h, self.page, d, dtype=t, device=self.device) for i, (h, d, t) in self.shapes.items()}
        self.values = {i: torch.empty_like(x) if make is torch.empty else torch.zeros_like(x) for i, x in self.keys.items()}
        self.free, self.touched = np.ones(n_pages, bool), np.zeros(n_pages, bool)
        self.free[0] = False
        self.take([], 0, 1)
        # What the host says about rows and pages; `sync` sends it to the device.
        self.host = {
            "own": torch.zeros(self.slots, a_row, dtype=torch.int64),  # a row's pages in order; 0: none
            "shared": torch.full((self.slots, a_prompt), -1),  # its prompt's pages; -1: none
            "sample": torch.zeros(self.slots, dtype=torch.int64),
            "owner": torch.zeros(n_pages, dtype=torch.int64),  # the row of an own page
            "start": torch.full((n_pages,), FAR),  # position of a page's first token; FAR: free
            "fill": torch.zeros(n_pages, dtype=torch.int64),  # tokens in a prompt's page
            "members": torch.zeros(n_pages, self.n, dtype=torch.int64),  # the rows of a prompt's page, by sample
        }
        self.map = {name: x.to(self.device) for name, x in self.host.items()}  # on a CPU the same memory
        self.np = {name: x.numpy() for name, x in self.host.items()}

    def make_state(self, vocab):
        import torch

        zeros = lambda *shape, dtype: torch.zeros(self.slots, *shape, dtype=dtype, device=self.device)
        self.state = zeros(7, dtype=torch.int64)
        self.hidden = zeros(2, *self.current.shape[1:], dtype=self.current.dtype)  # last, eos
        self.seen = zeros(vocab, dtype=torch.bool) if self.sampling["repetition_penalty"] != 1 else None
        self.stop_ids = self.tensor(self.sampling["stop_ids"])
        self.token_hashes = (scramble(torch.arange(1, vocab + 1, device=self.device) * 0x1E3779B97F4A7C15) >> 32).int()
        # The last steps, for the host's next look
        self.tick = self.tensor([0])
        self.tokens = torch.zeros(self.look_every, self.slots, dtype=torch.int64, device=self.device)
        self.stats = torch.zeros(self.look_every, self.slots, TOP + 2, dtype=torch.float16, device=self.device)
        self.sampled = torch.zeros(self.look_every, self.slots, dtype=torch.bool, device=self.device)
        # What the host has gathered of each row
        self.rows = []
        self.row_ids = np.empty((self.slots, self.max_new), np.int32)
        self.row_stats = np.empty((self.slots, self.max_new, TOP + 2), np.float16)

    # --- one step, on the device, without a look from the host

    def keep_vector(self, column, out):
        if self.filling is None:
            self.current[: len(out), column].copy_(out[:, -1])

    def attend(self, module, q, k, v, mask=None, scaling=None, sliding_window=None, s_aux=None, **_):
        """The attention function that transformers calls in each layer. q [B, H, T, D], k and v [B, G, T, D] -> [B, T, H, D]"""
        layer = module.layer_idx
        if self.filling is None:
            return self.attend_pages(layer, q, k, v, scaling, sliding_window, s_aux), None
        if self.filling:
            self.fill_pages(layer, k, v)
        self.shapes[layer] = (k.shape[1], k.shape[3], k.dtype)
        return causal_attention(q, k, v, scaling, sliding_window, s_aux).transpose(1, 2), None

    def fill_pages(self, layer, k, v):
        from torch.nn.functional import pad

        for pool, x in ((self.keys, k), (self.values, v)):
            x = pad(x[0], (0, 0, 0, -x.shape[2] % self.page))  # [G, pages * P, D]
            pool[layer][self.filling] = x.unflatten(1, (-1, self.page)).transpose(0, 1)

    def attend_pages(self, layer, q, k, v, scaling, window, sinks):
        """The newest token of each row over the row's pages. q [B, H, 1, D], k and v [B, G, 1, D] -> [B, 1, H, D]"""
        import torch

        plan, keys, values = self.plan, self.keys[layer], self.values[layer]
        keys[plan["page"], :, plan["offset"]] = k[:, :, 0]
        values[plan["page"], :, plan["offset"]] = v[:, :, 0]
        own, shared = plan["own"], plan["shared"]
        valid_own, valid_shared = self.valid_keys(window)
        q = (q * scaling).view(len(q), k.shape[1], -1, q.shape[-1])  # [B, G, g, D]: the g heads that share keys
        out, weight = page_attention(q[plan["owner"]], keys[own], values[own], valid_own)
        if shared.stop > shared.start:
            x = q[plan["members"]].transpose(1, 2).flatten(2, 3)  # [E, G, n * g, D]
            share, log = page_attention(x, keys[shared], values[shared], valid_shared.repeat_interleave(q.shape[2], 2))
            split = (self.n, q.shape[2])
            out = torch.cat([out, share.unflatten(2, split).transpose(1, 2).flatten(0, 1)])
            weight = torch.cat([weight, log.unflatten(2, split).transpose(1, 2).flatten(0, 1)])
        weight = weight[plan["entries"]]  # [B, entries, G, g]
        if sinks is not None:
            total = weight.logsumexp(1, keepdim=True)
            weight = weight - total.logaddexp(sinks.float().view(1, 1, *q.shape[1:3]))
            weight = weight.exp()
        else:
            weight = weight.softmax(1)
        out = (out[plan["entries"]] * weight[..., None]).sum(1)  # [B, G, g, D]
        return out.to(v.dtype).flatten(1, 2)[:, None]

    def make_plan(self, n):
        """Which page each row writes, and which pages' shares it adds up: the same for all layers of a step."""
        import torch

        m, state = self.map, self.state[:n]
        last_own, first_shared, last_shared, columns, shared_columns = self.extent
        own, shared = slice(0, last_own), slice(first_shared, last_shared)
        where = state[:, self.POSITION] - state[:, self.BASE]
        entries = (m["shared"][:n, :shared_columns] - first_shared) * self.n + m["sample"][:n, None] + last_own
        entries = entries.where(m["shared"][:n, :shared_columns] >= 0, 0)
        self.valid = {}
        self.plan = {
            "page": m["own"][:n].gather(1, (where // self.page)[:, None])[:, 0],
            "offset": where % self.page,
            "own": own,
            "shared": shared,
            "owner": m["owner"][own],
            "members": m["members"][shared],
            "entries": torch.cat([m["own"][:n, :columns], entries], 1),
        }

    def valid_keys(self, window):
        """Which keys of each page its rows may see: own pages [E, 1, 1, P], prompts' pages [E, 1, 1 or n, P]."""
        import torch

        if window not in self.valid:
            m, plan, position = self.map, self.plan, self.state[:, self.POSITION]
            i = torch.arange(self.page, device=self.device)
            own = m["start"][plan["own"], None] + i  # positions [E, P]
            now = position[plan["owner"], None]
            shared = m["start"][plan["shared"], None] + i
            valid_own = own <= now
            valid_shared = (i < m["fill"][plan["shared"], None])[:, None].expand(-1, self.n, -1)
            if window is not None:
                valid_own = valid_own & (own > now - window)
                valid_shared = valid_shared & (shared[:, None] > position[plan["members"]][..., None] - window)
            self.valid[window] = valid_own[:, None, None], valid_shared[:, None]
        return self.valid[window]

    def step(self, n):
        """One token for each of the first n rows. No operation here waits for the device."""
        import torch

        self.make_plan(n)
        state = self.state[:n]
        token, position, left, key = (state[:, c] for c in (self.TOKEN, self.POSITION, self.LEFT, self.KEY))
        live, stopped = state[:, self.LIVE].bool(), state[:, self.STOPPED].bool()
        out = self.model(input_ids=token[:, None], position_ids=position[:, None], use_cache=False)
        logits = out.logits[:, -1].float()  # [n, V]
        current, hidden = self.current[:n], self.hidden[:n]
        hidden[:, 0] = current.where((live & ~stopped)[:, None, None], hidden[:, 0])
        hidden[:, 1] = current.where(live[:, None, None], hidden[:, 1])
        going = live & ~stopped & (left > 0)
        row = (scramble(key + left * 0x1E3779B97F4A7C15) >> 32).int()[:, None]
        chosen = choose_tokens(logits, self.sampling, row, self.token_hashes, self.seen[:n] if self.seen is not None else None)
        self.tokens[:, :n].index_copy_(0, self.tick, chosen[None])
        self.stats[:, :n].index_copy_(0, self.tick, token_stats(logits, chosen)[None])
        self.sampled[:, :n].index_copy_(0, self.tick, going[None])
        self.tick += 1
        if self.seen is not None:
            self.seen[:n].scatter_(1, chosen[:, None], True)
        state[:, self.STOPPED] = torch.isin(chosen, self.stop_ids) & going | stopped
        state[:, self.LIVE] = going
        state[:, self.TOKEN] = chosen.where(going, token)
        state[:, self.POSITION] += going
        state[:, self.LEFT] -= going.long()

    # --- between steps, on the host

    def run(self, jobs):
        """Yield finished rollouts of `jobs`: {"problem", "sample", "prompt": ids, "limit": tokens, "key"}, in order of ending."""
        import torch

        self.queue, self.prompts = deque(jobs), {}
        self.waiting = Counter(job["problem"] for job in self.queue)
        while self.queue or self.rows:
            with torch.inference_mode():
                self.admit()
                self.extend()
                self.sync()
                for _ in range(self.look_every):
                    self.step(len(self.rows))
                ended = self.collect()
            yield from ended

    def take(self, pages, low, high, count=None):
        """Add free pages of [low, high) to a list, lowest first; None when there are too few."""
        wanted = np.flatnonzero(self.free[low:high])[:count] + low if count is not None else np.arange(low, high)
        if count is not None and len(wanted) < count:
            return None
        self.free[wanted] = False
        fresh = wanted[~self.touched[wanted]]
        if len(fresh) and self.device.type == "cpu":  # keys that are masked may be anything, values must be numbers
            for values in self.values.values():
                values.index_fill_(0, self.tensor(fresh.tolist()), 0)
        self.touched[wanted] = True
        pages += wanted.tolist()
        return pages

    def admit(self):
        """Fill free slots from the queue, as long as there are pages for the prompt and the first steps."""
        new = []
        while self.queue and len(self.rows) < self.slots:
            job = self.queue[0]
            prompt = self.prompts.get(job["problem"]) or self.read_prompt(job)
            pages = prompt and self.take([], 1, self.split, 1)
            if not pages:
                break
            self.queue.popleft()
            self.waiting[job["problem"]] -= 1
            prompt.users += 1
            row, r = Row(job, prompt), len(self.rows)
            self.rows.append(row)
            self.np["own"][r], self.np["shared"][r], self.np["sample"][r] = 0, -1, job["sample"]
            self.np["shared"][r, : len(prompt.pages)] = prompt.pages
            self.np["members"][prompt.pages, job["sample"]] = r
            self.give_page(row, r, pages[0])
            base = len(job["prompt"]) - 1
            new.append([job["prompt"][-1], base, base, job["limit"], 1, 0, job["key"]])
            if self.seen is not None:
                self.seen[r] = False
                self.seen[r, self.tensor(job["prompt"])] = True
        if new:
            self.state[len(self.rows) - len(new) : len(self.rows)] = self.tensor(new)

    def read_prompt(self, job):
        """Compute a prompt's keys and values, once for all its rollouts; None while there is no room for them."""
        ids = job["prompt"][:-1]
        pages = self.take([], self.split, len(self.free), -(-len(ids) // self.page))
        if pages is None:
            for problem in [p for p, prompt in self.prompts.items() if prompt.users == 0]:
                self.drop_prompt(problem)
            return None if self.rows else self.read_prompt(job)
        if ids:
            self.filling = pages
            self.model(input_ids=self.tensor([ids]), use_cache=False, logits_to_keep=1)
        self.np["start"][pages] = np.arange(len(pages)) * self.page
        self.np["fill"][pages] = np.minimum(self.page, len(ids) - np.arange(len(pages)) * self.page)
        self.np["members"][pages] = 0
        self.prompts[job["problem"]] = Prompt(pages)
        return self.prompts[job["problem"]]

    def drop_prompt(self, problem):
        pages = self.prompts.pop(problem).pages
        self.free[pages], self.np["start"][pages], self.np["fill"][pages] = True, FAR, 0

    def give_page(self, row, r, page):
        self.np["own"][r, len(row.pages)] = page
        self.np["owner"][page] = r
        self.np["start"][page] = len(row.job["prompt"]) - 1 + len(row.pages) * self.page
        row.pages.append(page)

    def extend(self):
        """Pages for the tokens that the rows write until the next look; without one, the youngest row starts again later."""
        for row in list(self.rows):
            while row in self.rows and len(row.pages) * self.page < row.count + self.look_every:
                page = self.take([], 1, self.split, 1)
                if page:
                    self.give_page(row, self.rows.index(row), page[0])
                else:
                    youngest = min(self.rows, key=lambda other: other.count)
                    self.queue.appendleft(youngest.job)
                    self.waiting[youngest.job["problem"]] += 1
                    self.retire(self.rows.index(youngest))

    def retire(self, r):
        """Give a row's pages back and let the last row move into its place."""
        row, last = self.rows[r], len(self.rows) - 1
        problem = row.job["problem"]
        self.free[row.pages], self.np["start"][row.pages], self.np["owner"][row.pages] = True, FAR, 0
        self.np["members"][row.prompt.pages, row.job["sample"]] = 0
        row.prompt.users -= 1
        if not row.prompt.users and not self.waiting[problem] and self.prompts.get(problem) is row.prompt:
            self.drop_prompt(problem)
        if r != last:
            mover = self.rows[last]
            for x in (self.np["own"], self.np["shared"], self.np["sample"], self.state, self.hidden, self.seen):
                if x is not None:
                    x[r] = x[last]
            self.row_ids[r, : mover.count] = self.row_ids[last, : mover.count]
            self.row_stats[r, : mover.count] = self.row_stats[last, : mover.count]
            self.np["owner"][mover.pages] = r
            self.np["members"][mover.prompt.pages, mover.job["sample"]] = r
            self.rows[r] = mover
        self.rows.pop()
        self.np["own"][last], self.np["shared"][last] = 0, -1
        self.state[last, self.LIVE] = 0

    def sync(self):
        """Send the host's maps to the device, and note how far they reach."""
        used = np.flatnonzero(~self.free[: self.split])[-1] + 1
        prompts = np.flatnonzero(~self.free[self.split :])
        columns = max(len(row.pages) for row in self.rows)
        shared_columns = max(len(row.prompt.pages) for row in self.rows)
        last_shared = self.split + (int(prompts[-1]) + 1 if len(prompts) else 0)
        self.extent = int(used), self.split, last_shared, columns, shared_columns
        if self.device.type != "cpu":
            for name, x in self.map.items():
                x.copy_(self.host[name], non_blocking=True)
        self.filling = None
        self.tick.zero_()

    def collect(self):
        """Look at the last steps: gather each row's tokens, retire the rows that ended and return them."""
        n = len(self.rows)
        tokens, stats, sampled = (x[:, :n].cpu().numpy() for x in (self.tokens, self.stats, self.sampled))
        for j in range(self.look_every):
            r = np.flatnonzero(sampled[j])
            at = [self.rows[i].count for i in r]
            self.row_ids[r, at], self.row_stats[r, at] = tokens[j, r], stats[j, r]
            for i in r:
                self.rows[i].count += 1
        state, ended = self.state[:n].cpu().numpy().copy(), []
        for r in np.flatnonzero(state[:, self.LIVE] == 0)[::-1]:  # from the back: a mover is never one that ended
            row = self.rows[r]
            rollout = {
                "problem": row.job["problem"],
                "sample": row.job["sample"],
                "ids": self.row_ids[r, : row.count].copy(),
                "stats": self.row_stats[r, : row.count].copy(),
                "hidden": self.hidden[r].transpose(0, 1).flatten(0, 1).cpu().clone(),  # [layers * 2, d]
                "finish": "stop" if state[r, self.STOPPED] else "length",
            }
            ended.append(rollout)
            self.retire(r)
        return ended

    def close(self):
        for hook in self.hooks:
            hook.remove()


def free_memory(device):
    """Bytes for keys and values."""
    import torch

    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0] * 0.8)
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


# ---------------------------------------------------------------------------------------------------------------------
# The run folder


def worker():
    """(rank, world): which of how many processes this is, as torchrun or SLURM says."""
    env = {key: int(value) for key, value in os.environ.items() if value.isdigit()}
    if "WORLD_SIZE" in env:
        return env.get("RANK", 0), env["WORLD_SIZE"]
    rank, world = env.get("SLURM_PROCID", 0), env.get("SLURM_STEP_NUM_TASKS", env.get("SLURM_NTASKS", 1))
    if "SLURM_PROCID" not in env:
        rank, world = 0, 1
    task = env.get("SLURM_ARRAY_TASK_ID", 0) - env.get("SLURM_ARRAY_TASK_MIN", 0)
    return task * world + rank, world * env.get("SLURM_ARRAY_TASK_COUNT", 1)


def model_hash(name, revision):
    """Changes when the model does: a folder of the same name may hold other weights tomorrow. Reads little of each file."""
    from huggingface_hub import try_to_load_from_cache

    if not Path(name).is_dir():
        path = try_to_load_from_cache(name, "config.json", revision=revision)
        return Path(path).parent.name if isinstance(path, str) else None  # the Hub's commit
    digest = hashlib.sha256()
    for path in sorted(p for p in Path(name).iterdir() if p.suffix in (".json", ".safetensors", ".bin", ".jinja", ".model")):
        with open(path, "rb") as file:
            size = path.stat().st_size
            digest.update(f"{path.name} {size}".encode())
            for place in range(0, size, max(1 << 16, size // 16)):
                file.seek(place)
                digest.update(file.read(1 << 16))
    return digest.hexdigest()[:16]


def hash_rows(rows):
    return hashlib.sha256(repr(rows).encode()).hexdigest()[:16]


def describe(args, model, problems, sampling, layers, skipped):
    """meta.json: what made this run."""
    import platform

    import torch
    import transformers

    config = model.config.get_text_config()
    return {
        "model": args.model,
        "revision": args.revision,
        "model_hash": model_hash(args.model, args.revision),
        "model_type": model.config.model_type,
        "architecture": type(model).__name__,
        "dataset": args.dataset,
        "dataset_hash": hash_rows(problems),
        "seed": args.seed,
        "n": args.n,
        "n_problems": len(problems),
        "sampling": sampling,
        "max_new_tokens": args.max_new_tokens,
        "skipped": skipped,
        "layers": layers,
        "n_layers": config.num_hidden_layers,
        "width": config.hidden_size,
        "vocab_size": config.vocab_size,
        "dtype": str(model.dtype).removeprefix("torch."),
        "device": torch.cuda.get_device_name(model.device) if model.device.type == "cuda" else str(model.device),
        "arguments": vars(args),
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "numpy": np.__version__,
        },
        "git": git_commit(),
        "created": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
    }


MUST_AGREE = ("n", "seed", "limit", "max_new_tokens", "layers", "temperature", "top_k", "top_p", "repetition_penalty", "dtype", "revision")


def check_same_run(folder, args, problems):
    """A run folder may only be gone on with by what began it."""
    if not (folder / "meta.json").is_file():
        return
    old = common.read_meta(folder)
    pairs = {name: (old["arguments"].get(name), getattr(args, name)) for name in MUST_AGREE}
    pairs["dataset"] = old["dataset_hash"], hash_rows(problems)
    now = model_hash(args.model, args.revision)
    pairs["model"] = old["model_hash"], now or old["model_hash"]
    for name, (was, wanted) in pairs.items():
        if was != wanted:
            common.die(f"{folder} is a run with {name} {was}, not {wanted}; choose another --out, or remove that folder")


def git_commit():
    import subprocess

    command = ["git", "-C", str(Path(__file__).resolve().parent), "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def start_run(folder, meta, problems):
    if not (folder / "meta.json").is_file():
        common.write_jsonl(folder / "problems.jsonl", problems)
        common.write_json(folder / "meta.json", meta)


def part_path(folder, number):
    return folder / "parts" / f"{number}.pt"


def write_part(folder, number, problem, rollouts, tokenizer):
    """All rollouts of one problem, in one file: being there means that the problem is done."""
    import torch

    rollouts = sorted(rollouts, key=lambda rollout: rollout["sample"])
    part = {
        "id": problem["id"],
        "responses": [decode(tokenizer, rollout) for rollout in rollouts],
        "finish": [rollout["finish"] for rollout in rollouts],
        "lengths": [len(rollout["ids"]) for rollout in rollouts],
        "ids": torch.from_numpy(np.concatenate([rollout["ids"] for rollout in rollouts])),
        "stats": torch.from_numpy(np.concatenate([rollout["stats"] for rollout in rollouts])),
        "hidden": torch.stack([rollout["hidden"] for rollout in rollouts]),
    }
    common.save_pt(part_path(folder, number), part)


def decode(tokenizer, rollout):
    """The text without the token that ended it; markers inside, such as </think>, stay."""
    ids = rollout["ids"][:-1] if rollout["finish"] == "stop" else rollout["ids"]
    return tokenizer.decode(ids.tolist(), skip_special_tokens=False, clean_up_tokenization_spaces=False)


def merge(folder):
    """Once every part is there: hidden.pt, tokens.pt, and last rollouts.jsonl, which says that generation is finished."""
    import fcntl

    import torch

    meta = common.read_meta(folder)
    with open(folder / "meta.json") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # workers that finish together; a killed one lets go
        if not (folder / "rollouts.jsonl").is_file():
            parts = [common.load_pt(part_path(folder, i)) for i in range(meta["n_problems"])]
            keys = [(part["id"], sample) for part in parts for sample in range(len(part["lengths"]))]
            offsets = np.cumsum([0] + [length for part in parts for length in part["lengths"]])
            ids, stats = (torch.cat([part[name] for part in parts]) for name in ("ids", "stats"))
            vectors = [f"{layer}/{token}" for layer in meta["layers"] for token in common.TOKENS]
            hidden = torch.cat([part["hidden"] for part in parts])
            common.save_pt(folder / "hidden.pt", {"keys": keys, "vectors": vectors, "hidden": hidden})
            common.save_pt(folder / "tokens.pt", {"offsets": torch.from_numpy(offsets), "ids": ids, "stats": stats})
            texts = [(text, finish) for part in parts for text, finish in zip(part["responses"], part["finish"], strict=True)]
            rows = (
                {
                    "id": key[0],
                    "sample": key[1],
                    "response": text,
                    "n_tokens": int(offsets[i + 1] - offsets[i]),
                    "finish": finish,
                    "conf": common.confidence(stats[offsets[i] : offsets[i + 1]].numpy(), meta["vocab_size"]),
                }
                for i, (key, (text, finish)) in enumerate(zip(keys, texts, strict=True))
            )
            common.write_jsonl(folder / "rollouts.jsonl", rows)
        for path in (folder / "parts").glob("*.pt"):  # all of it is in the three files now
            path.unlink(missing_ok=True)


# ---------------------------------------------------------------------------------------------------------------------
# The program


def sampling_settings(args, model, tokenizer):
    """The model's own settings, or what the command line says instead."""
    sampling = common.sampling_defaults(model, tokenizer)
    given = {name: getattr(args, name) for name in ("temperature", "top_k", "top_p", "repetition_penalty")}
    return sampling | {name: value for name, value in given.items() if value is not None}


def layer_names(args, model):
    n_layers = model.config.get_text_config().num_hidden_layers
    names = [str(i) for i in range(n_layers + 1)] if args.layers == "all" else args.layers.split(",")
    return names, [common.layer_index(name, n_layers) for name in names]


def encode_all(model, tokenizer, problems):
    """(prompts as token ids, {id: why} of those that cannot be answered)."""
    context = context_length(model)
    prompts = [list(common.encode_prompt(tokenizer, problem)) for problem in problems]
    skipped = {}
    for problem, prompt in zip(problems, prompts, strict=True):
        if not 0 < len(prompt) < context:
            skipped[problem["id"]] = f"a prompt of {len(prompt)} tokens in a context of {context}"
            print(f"problem {problem['id']} gets no rollouts: {skipped[problem['id']]}", file=sys.stderr)
    return prompts, skipped


def context_length(model):
    return getattr(model.config.get_text_config(), "max_position_embeddings", None) or FAR


def make_jobs(args, model, problems, prompts, mine):
    """Rollouts to make, in order; the limit of each is what --max-new-tokens and the context leave."""
    for i in mine:
        limit = min(args.max_new_tokens, context_length(model) - len(prompts[i]))
        for sample in range(args.n):
            key = noise_key(args.seed, problems[i]["id"], sample)
            yield {"problem": i, "sample": sample, "prompt": prompts[i], "limit": limit, "key": key}


def rollouts_of(args, model, jobs, sampling, layers):
    """Finished rollouts as they end, behind a progress bar."""
    from tqdm import tqdm

    slots = min(args.slots or (256 if model.device.type == "cuda" else 64), len(jobs))
    longest, limit = max(len(job["prompt"]) for job in jobs), max(job["limit"] for job in jobs)
    engine, tokens, begin = Engine(model, layers, sampling, args.n, slots, longest, limit), 0, time.time()
    with tqdm(total=len(jobs), unit="rollout", desc="generate", smoothing=0.1) as bar:
        for rollout in engine.run(jobs):
            tokens += len(rollout["ids"])
            bar.set_postfix_str(f"{tokens / (time.time() - begin):.0f} tokens/s, {len(engine.rows)}/{slots} slots", refresh=False)
            bar.update()
            yield rollout
    engine.close()


def generate(args, model, tokenizer, folder, problems, prompts, skipped, sampling, layers, mine):
    """All rollouts of the problems `mine`, a part file as each problem ends."""
    for i in [i for i in mine if problems[i]["id"] in skipped]:
        write_part(folder, i, problems[i], [no_rollout(args, model, layers, sample) for sample in range(args.n)], tokenizer)
        mine = [j for j in mine if j != i]
    done = {i: [] for i in mine}
    for rollout in rollouts_of(args, model, list(make_jobs(args, model, problems, prompts, mine)), sampling, layers) if mine else ():
        i = rollout["problem"]
        done[i].append(rollout)
        if len(done[i]) == args.n:
            write_part(folder, i, problems[i], done.pop(i), tokenizer)


def no_rollout(args, model, layers, sample):
    import torch

    hidden = torch.zeros(2 * len(layers), model.config.get_text_config().hidden_size, dtype=model.dtype)
    ids, stats = np.empty(0, np.int32), np.empty((0, TOP + 2), np.float16)
    return {"sample": sample, "ids": ids, "stats": stats, "hidden": hidden, "finish": "length"}


def main(argv=None):
    args = parse(argv)
    problems = common.load_problems(args.dataset, args.limit)
    folder = common.run_folder(args.out, args.model, args.dataset, args.seed)
    check_same_run(folder, args, problems)
    if not (folder / "rollouts.jsonl").is_file():
        make_run(args, folder, problems)
    missing = sum(not part_path(folder, i).is_file() for i in range(len(problems)))
    if missing and not (folder / "rollouts.jsonl").is_file():
        print(f"{missing} of {len(problems)} problems are with other workers; the last one to end merges", file=sys.stderr)
        return
    merge(folder)
    print(folder)


def make_run(args, folder, problems):
    """This worker's share of the problems."""
    rank, world = worker()
    model, tokenizer = common.load_model(args.model, args.device, args.dtype, args.revision, args.trust_remote_code)
    sampling = sampling_settings(args, model, tokenizer)
    names, layers = layer_names(args, model)
    prompts, skipped = encode_all(model, tokenizer, problems)
    start_run(folder, describe(args, model, problems, sampling, names, skipped), problems)
    mine = [i for i in range(len(problems))[rank::world] if not part_path(folder, i).is_file()]
    generate(args, model, tokenizer, folder, problems, prompts, skipped, sampling, layers, mine)


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="a folder, or a Hub id such as Qwen/Qwen3-1.7B")
    parser.add_argument("dataset", help="a data set name such as humaneval, or a .jsonl file")
    parser.add_argument("-n", type=int, default=16, help="rollouts a problem (default 16)")
    parser.add_argument("--seed", type=int, default=32, help="of the sampling noise (default 32)")
    parser.add_argument("--out", default="runs", help="where run folders go (default runs)")
    parser.add_argument("--limit", type=int, help="only the first this many problems")
    parser.add_argument("--max-new-tokens", type=int, default=8192, help="a rollout is cut here, or at the context (default 8192)")
    parser.add_argument("--layers", default="penultimate,final", help="vectors to keep: names, numbers, fractions, or all")
    parser.add_argument("--temperature", type=float, help="default: the model's own, as for the next three; 0 is greedy")
    parser.add_argument("--top-k", type=int, help="0: no such limit")
    parser.add_argument("--top-p", type=float, help="1: no such limit")
    parser.add_argument("--repetition-penalty", type=float, help="1: none")
    parser.add_argument("--slots", type=int, help="rollouts that run at the same time (default 256 on a GPU, 64 on a CPU)")
    parser.add_argument("--device", help="cuda, mps or cpu (default: the first there is)")
    parser.add_argument("--dtype", default="auto", choices=["auto", "float32", "bfloat16", "float16"], help="of the weights")
    parser.add_argument("--revision", help="of the model on the Hub")
    parser.add_argument("--trust-remote-code", action="store_true", help="run Python code that comes with the model")
    return parser.parse_args(argv)


if __name__ == "__main__":
    main()
