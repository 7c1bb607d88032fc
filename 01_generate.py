"""Sample N rollouts of every problem, and keep their vectors and statistics.

    python 01_generate.py demo/model demo/math_a.jsonl
    python 01_generate.py MODEL humaneval kodcode -n 16 --max-new-tokens 0
    torchrun --nproc-per-node 4 01_generate.py MODEL humaneval
    python 01_generate.py MODEL own.jsonl --layers all --extra last10
    python 01_generate.py MODEL own.jsonl --engine vllm    # of any size
    python 01_generate.py MODEL own.jsonl --requests ask.jsonl
    python 01_generate.py MODEL own.jsonl --responses answers.jsonl

Reads a causal language model of transformers (a folder or a Hub id) and
problems (a data set name or a file). Writes runs/<model>/<dataset>/<seed>/
with problems.jsonl, tokens.pt, hidden.pt, meta.json and, last,
rollouts.jsonl, with which a run is finished. These hold what the last command
asked for: its problems, -n rollouts of each. parts/ keeps all rollouts that
were ever sampled, a file for each problem and prompt, so a killed command
goes on with what is left, and a run grows and shrinks; without parts/ a
finished run is as good, but does neither. --layers and --extra add to what
is there. Workers, each with its RANK and all with the WORLD_SIZE in the
environment, share the problems.

A model that our engine cannot run (a line says why) is sampled by
model.generate with the same noise. Rollouts that are not sampled by our
engine are read once more for their vectors, as is what --layers and --extra
add. vLLM has vectors of the layers before the final one, no self_certainty.

--extra writes extra.pt, of the final layer: {"keys": [R], "last10":
[R, 10, d] with zeros in front, "special": [S, d], "special_offsets": [R + 1]}
(special: the end of each word `return` and the colon that ends a `def` line).

--requests writes requests in the OpenAI batch format, for `vllm run-batch`,
SGLang or an API. With the same flags but --responses it reads the batch file
that came back, or rows {"id", "response": text}, with "finish": "length" if
the answer was cut and "tokens": ids with the ending one, without which the
text is tokenised again. Such a run does not grow. The logits of the longest
answer must fit into memory.

--scorer S --stop 0.9: a problem gets 1, 2, 3, 5, 8, 12, 16 rollouts, until
one of them is right with that probability by this scorer.
"""

import argparse
import ctypes
import fcntl
import hashlib
import importlib.util
import itertools
import math
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections import defaultdict, deque, namedtuple
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from types import SimpleNamespace

import common
from common import TOKENS, context_of, die, layer_index, load_pt, np, read_meta, token_stats, torch

N = 16
SEED = 32
MAX_NEW_TOKENS = 8192
STOP = 0.9


def parse_args(argv):
    parser = common.argument_parser(__doc__)
    add = parser.add_argument
    default = " (default: as the model's authors set it)"
    add("model", help="a folder or a Hub id")
    add("datasets", nargs="+", metavar="dataset", help="a name such as humaneval, or a .jsonl file")
    add("-n", type=int, default=N, help="rollouts of each problem (default: %(default)s)")
    add("--seed", type=int, default=SEED, help="seed of the sampling noise (default: %(default)s)")
    add("--out", default="runs", help="folder for the run folders (default: %(default)s)")
    add("--limit", type=int, help="take only the first so many problems")
    add("--skip-long", action="store_true", help="leave out problems whose prompts fill the context")
    add("--plan", action="store_true", help="say what would be sampled, and what is wrong; sample nothing")
    guess = "code with tests, math with an answer, else text"
    add("--kind", choices=common.KINDS, help=f"of the problems without a kind (default: {guess})")
    length = "most tokens of a rollout (default: %(default)s); 0: all that the context allows"
    add("--max-new-tokens", type=int, default=MAX_NEW_TOKENS, help=length)
    layers = "whose vectors to keep, such as .75,-2 or all (default: penultimate,final; vLLM: penultimate)"
    add("--layers", help=layers)
    add("--extra", default="", help="last10, special or last10,special: vectors for the paper's studies")
    add("--greedy", action="store_true", help="in a folder `greedy`: -n 1 --temperature 0 --seed 0")
    add("--temperature", type=float, help="0 takes the likeliest token" + default)
    add("--top-k", type=int, help="sample among so many likeliest tokens; 0: among all" + default)
    add("--top-p", type=float, help="sample among the likeliest tokens of this mass; 1: among all" + default)
    add("--repetition-penalty", type=float, help="1 or more; 1: no penalty" + default)
    elsewhere = parser.add_mutually_exclusive_group()
    elsewhere.add_argument("--requests", metavar="FILE", help="write requests for a server, and no run")
    elsewhere.add_argument("--responses", metavar="FILE", help="read answers made elsewhere from this file")
    add("--plain", action="store_true", help="write requests with only the fields that every server takes")
    add("--scorer", metavar="PT", help="stop sampling a problem when this scorer of 03 is sure of an answer")
    add("--stop", type=float, metavar="P", help=f"the probability that is sure enough (default: {STOP})")
    add("--engine", choices=("ours", "vllm"), default="ours", help="what samples and reads (default: ours)")
    add("--engine-args", metavar="JSON", default="{}", help='for vLLM, such as {"tensor_parallel_size":4}')
    add("--slots", type=int, help="rollouts at the same time (default: 256 on a GPU, 128 on a CPU)")
    add("--device", help="cuda or cpu (default: a GPU if there is one)")
    dtypes = ("auto", "float32", "bfloat16", "float16")
    of_weights = "number type of the weights (default: on a CPU float32, which is exact, else the files'); "
    faster = "a CPU with avx512_bf16 or AMX is more than twice as fast in bfloat16"
    add("--dtype", default="auto", choices=dtypes, help=of_weights + faster)
    add("--revision", help="branch, tag or commit of the model on the Hub")
    args = parser.parse_args(argv)
    if args.greedy:
        args.n = 1
        args.temperature = 0.0
        args.seed = 0
    by_vllm = args.engine == "vllm"
    args.layers = (args.layers or ("penultimate" if by_vllm else "penultimate,final")).split(",")
    args.extra = sorted(set(args.extra.split(",")) - {""})
    args.engine_args = common.parse_object(args.engine_args, "--engine-args", advice="write it as -h shows")
    check_ranges(args)
    if not set(args.extra) <= {"last10", "special"}:
        die("--extra: give last10, special or last10,special")
    if (args.requests or args.responses) and (args.scorer or len(args.datasets) > 1):
        die("--requests and --responses: one data set, no --scorer")
    if args.stop is not None and not args.scorer:
        die("--stop needs --scorer")
    if by_vllm and importlib.util.find_spec("vllm") is None:
        die(f"--engine vllm: this Python has no vllm; {sys.executable} -m pip install vllm (docs.vllm.ai)")
    if by_vllm and (args.scorer or args.extra or args.slots or args.device):
        die("--engine vllm does without --scorer, --extra, --slots and --device; see --engine-args")
    if args.scorer and args.stop is None:
        args.stop = STOP
    return args


def check_ranges(settings):
    """Refuse numbers that make no sense, such as a top_p of 95, or -1, which other engines take for all."""
    from_1 = ("n", "limit", "slots", "repetition_penalty")
    for name in (*from_1, "max_new_tokens", "temperature", "top_k", "top_p", "stop"):
        number = getattr(settings, name, None)
        lowest = 1 if name in from_1 else 0
        highest = 1 if name in ("top_p", "stop") else math.inf
        if number is not None and not lowest <= number <= highest:
            die(f"{name} {number}: give a number from {lowest} to {highest}")


# ---- Sampling: the noise is a function of (seed, problem, sample, step, token) and of nothing else

FAR = 1 << 40  # a position that no row reaches
STRIDE = 0x1E3779B97F4A7C15  # between the inputs of `scramble`: odd, with bits everywhere


def noise_key(seed, problem_id, sample):
    """Return 62 bits that stand for one rollout."""
    digest = hashlib.sha256(f"{seed}\n{sample}\n{problem_id}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 2


def scramble(x):
    """Return the high 32 bits of splitmix64's finish: neighbouring inputs (int64) give unrelated outputs."""
    for shift, factor in ((30, -0x40A7B892E31B1A47), (27, -0x6B2FB644ECCEEE15)):
        x = (x ^ ((x >> shift) & ((1 << (64 - shift)) - 1))) * factor
    return ((x ^ ((x >> 31) & ((1 << 33) - 1))) >> 32).int()


def exponential(keys, ages, tokens):
    """Exponential noise [B, V] of rollouts (their keys [B]) at steps `ages` [B] for tokens [V] or [B, V]."""
    h = (scramble(keys + ages * STRIDE)[:, None] ^ scramble((tokens + 1) * STRIDE)) * 0x7FEB352D
    h ^= h >> 15
    h *= 0x2C1B3C6D
    h &= 0x7FFFFFFF
    return h.float().add_(0.5).mul_(-(2.0**-31)).log1p_().neg_()  # floats are densest where the winners are


def penalise(logits, past, penalty):
    """Return logits with the repetition penalty on the tokens in `past` [B, T], which may repeat."""
    found = logits.gather(1, past)
    return logits.scatter(1, past, (found / penalty).where(found > 0, found * penalty))


def nucleus(p, top_p):
    """Return which of p [B, K], largest first, are the fewest that hold `top_p`, or as large as the last."""
    before = torch.nn.functional.pad(p.cumsum(-1)[:, :-1], (1, 0))  # the mass of all larger ones
    smallest = p.where(before < top_p, 2).amin(-1, keepdim=True)  # 2 is above any probability
    return p >= smallest


def choose_tokens(logits, sampling, keys, ages, width=256, likeliest=None):
    """The next tokens [B]: argmax of p / noise, which is a draw from p. logits [B, V] float32.

    keys, ages [B]: what `exponential` makes the noise from. likeliest: the top_k largest logits or more and
    their tokens, where they are known already.
    """
    top_k = sampling["top_k"]
    n_tokens = logits.shape[1]
    if sampling["temperature"] == 0:
        return logits.argmax(-1)
    if not top_k and sampling["top_p"] == 1:
        noise = exponential(keys, ages, torch.arange(n_tokens, device=logits.device))
        return (logits / sampling["temperature"]).softmax(-1).div_(noise).argmax(-1)
    if top_k:
        values, ids = (x[:, :top_k] for x in likeliest or logits.topk(min(top_k, n_tokens)))
        return draw(values, ids, values, sampling, keys, ages)[0]
    # Top-p alone looks at the likeliest tokens, and at all of them in rows where these hold too little
    chosen, goes_on = draw(*logits.topk(min(width, n_tokens)), logits, sampling, keys, ages)
    if goes_on.any():
        logits = logits[goes_on]
        in_order = logits.sort(descending=True)
        chosen[goes_on], _ = draw(*in_order, logits, sampling, keys[goes_on], ages[goes_on])
    return chosen


def draw(values, ids, logits, sampling, keys, ages):
    """(tokens [B] drawn among ids [B, K], whether the nucleus may reach beyond these [B]).

    values [B, K]: the logits of ids, largest first; logits: those of all tokens that count.
    """
    temperature = sampling["temperature"]
    p = (values / temperature - (logits / temperature).logsumexp(-1, keepdim=True)).exp_()
    if sampling["top_p"] < 1:
        p *= nucleus(p, sampling["top_p"])
    best = (p / exponential(keys, ages, ids)).argmax(-1, keepdim=True)
    return ids.gather(1, best)[:, 0], p[:, -1] > 0


# ---- Attention


def probe(model, settings, length):
    """Return why the engine cannot run a model, or None. length: the most tokens of a text.

    The engine reads a short prompt into pages and decodes two tokens, whose vectors and statistics must be
    those of the model's own forward pass.
    """
    likeliest = {"temperature": 0, "top_k": 0, "top_p": 1, "repetition_penalty": 1, "stop_ids": []}
    settings = settings._replace(sampling=likeliest)
    layers = range(settings.config.num_hidden_layers + 1)
    window = getattr(settings.config, "sliding_window", None)
    some_layers_slide = "sliding" in str(getattr(settings.config, "layer_types", None) or "sliding")
    common.watch_layers(model, (), None)  # refuses a model without the places
    for first in (0, 8, 16):  # rounded to 16 bits a token may take other experts, but hardly in all texts
        job = {"id": 0, "sample": 0, "prompt": [*range(first, first + 8)], "limit": 1, "key": 0}
        try:
            engine = Engine(model, layers, likeliest, 1, 1, 8, 1)
            engine.graphs = None  # a capture takes longer than two steps
            (found,) = engine.run(deque([BatchRow(job)]))
        except common.BadInput as error:
            return str(error)
        except Exception as error:  # of any kind: the model's code expects other attention functions
            if common.is_out_of_memory(error):
                raise
            return f"our engine fails with it, {common.reason_of(error)}"
        if window and window < length and some_layers_slide and engine.windows == {None}:
            return "its sliding window is a mask"
        (own,) = read_by_model(model, settings, [[job | {"tokens": found["ids"].tolist()}]], layers, ())
        off = distance(found, own)
        if off <= (1e-3 if model.dtype == torch.float32 else 1 / 16):
            return None
    return f"token by token it gives other vectors (off by {off:.0%}), as layers with a state do"


def distance(found, own):
    """The largest relative distance of two rollouts' vectors of a layer, or of their statistics."""
    pairs = [(found["stats"], own["stats"])]
    pairs += [(found["hidden"][layer], own["hidden"][layer]) for layer in own["hidden"]]
    distances = [(x - y).float().norm() / y.float().norm() for x, y in pairs]
    return torch.stack(distances).nan_to_num(math.inf).max().item()


def attention_calls(model):
    """Return what each layer hands to its attention function for a text; refuse what ours do not take."""
    calls = []

    def record(module, q, k, v, mask=None, scaling=None, sliding_window=None, s_aux=None, **more):
        tensors = {name for name, x in more.items() if isinstance(x, torch.Tensor) or name == "softcap" and x}
        unknown = tensors - {"position_ids"}
        if unknown:
            die(f"its attention also takes {', '.join(sorted(unknown))}")
        calls.append(SimpleNamespace(layer=module.layer_idx, keys=k, values=v, window=sliding_window))
        return common.causal_attention(module, q, k, v, mask, scaling, sliding_window, s_aux)

    common.use_attention(model, "probe", record)
    with torch.inference_mode():
        model(input_ids=torch.arange(8, device=model.device)[None], use_cache=False)
    return calls


def use_own_attention(model):
    """Undo common.use_attention, by transformers' own choice for this model."""
    model.set_attn_implementation(model.get_correct_attn_implementation(None))


def multiply(a, b):
    """a [E, G, x, y] @ b [E, G, y, z] in float32: bfloat16 would round large scores by whole units."""
    if not a.is_cuda:
        return a.float() @ b.float()
    return torch.bmm(a.flatten(0, 1), b.flatten(0, 1), out_dtype=torch.float32).unflatten(0, a.shape[:2])


def page_attention(q, k, v, scaling, hidden):
    """Attention over each page by itself for its m readers: outputs [E * m, G, g, D], logs of their weights.

    q [E, m, G, g, D]; k, v [E, G, P, D]; hidden [E, m, P]: keys that do not count for a reader.
    """
    readers = hidden.shape[1]
    scores = multiply(q.transpose(1, 2).flatten(2, 3), k.mT).mul_(scaling)  # [E, G, m * g, P]
    scores.unflatten(2, (readers, -1)).masked_fill_(hidden[:, None, :, None], -1e30)
    top = scores.amax(-1, keepdim=True)
    weights = scores.sub_(top).exp_()
    total = weights.sum(-1, keepdim=True)
    outputs = multiply(weights.to(v.dtype), v).div_(total)
    logs = (top + total.log())[..., 0]
    return [x.unflatten(2, (readers, -1)).transpose(1, 2).flatten(0, 1) for x in (outputs, logs)]


@cache
def decode_kernel():
    """The Triton kernel of `table_attention`; None without Triton, which comes with torch's CUDA builds."""
    global tl, triton  # Triton looks for the names in a kernel among those of its module
    try:
        import triton
        import triton.language as tl
    except ImportError:
        return None

    @triton.jit
    def decode(
        q_at, k_at, v_at, table_at, sizes_at, out_at, logs_at, scaling, window, width,
        G: tl.constexpr, g: tl.constexpr, g_wide: tl.constexpr, P: tl.constexpr, BLOCK: tl.constexpr,
        D: tl.constexpr, D_wide: tl.constexpr, DV: tl.constexpr, DV_wide: tl.constexpr,
    ):  # fmt: skip
        """A program is a row, a key head and a share of the row's pages, which it reads BLOCK keys at a time.

        Of H = G * g heads; out [B, H, shares, DV]; logs [B, H, shares]. *_wide are the next powers of two.
        """
        row = tl.program_id(0)
        head = tl.program_id(1)
        share = tl.program_id(2)
        shares = tl.num_programs(2)
        size = tl.load(sizes_at + row)
        oldest = tl.maximum(size - window, 0)
        pages = tl.cdiv(size, P)
        pages_of_share = tl.cdiv(pages - oldest // P, shares)
        begin = oldest // P + share * pages_of_share
        end = tl.minimum(begin + pages_of_share, pages)
        query = tl.arange(0, g_wide)
        d = tl.arange(0, D_wide)
        dv = tl.arange(0, DV_wide)
        heads = (row * G + head) * g + query
        is_query = (query < g)[:, None]
        q = tl.load(q_at + heads[:, None] * D + d, mask=is_query & (d < D), other=0)
        top = tl.full([g_wide], -1e30, tl.float32)
        total = tl.zeros([g_wide], tl.float32)
        out = tl.zeros([g_wide, DV_wide], tl.float32)
        for block in range(begin * (P // BLOCK), end * (P // BLOCK)):
            position = block * BLOCK + tl.arange(0, BLOCK)
            page = tl.load(table_at + row * width + block * BLOCK // P).to(tl.int64)
            key = (page * G + head) * P + position % P
            counts = (position < size) & (position >= oldest)
            k = tl.load(k_at + key[:, None] * D + d, mask=counts[:, None] & (d < D), other=0)
            scores = tl.where(counts, tl.dot(q, k.T, input_precision="ieee") * scaling, -1e30)
            highest = tl.maximum(top, tl.max(scores, 1))
            weights = tl.where(counts, tl.exp(scores - highest[:, None]), 0)
            shrink = tl.exp(top - highest)
            total = total * shrink + tl.sum(weights, 1)
            v = tl.load(v_at + key[:, None] * DV + dv, mask=counts[:, None] & (dv < DV), other=0)
            out = out * shrink[:, None] + tl.dot(weights.to(v.dtype), v, input_precision="ieee")
            top = highest
        is_empty = total == 0  # a share without a page
        total = tl.where(is_empty, 1, total)
        place = heads * shares + share
        tl.store(out_at + place[:, None] * DV + dv, out / total[:, None], mask=is_query & (dv < DV))
        tl.store(logs_at + place, tl.where(is_empty, -1e30, top + tl.log(total)), mask=query < g)

    return decode


def table_attention(q, keys, values, table, sizes, scaling, window, sinks, shares=0):
    """Attention of each row's newest token by one kernel, which finds a row's pages in a table: [B, H, DV].

    q [B, H, D]; keys [pages, G, P, D]; values [pages, G, P, DV]; table [B, width]; sizes [B]: how many keys
    count. A row's pages are shared among as many programs as fill the GPU.
    """
    B, H, D = q.shape
    _, G, P, DV = values.shape
    if not shares:
        programs = 2 * torch.cuda.get_device_properties(q.device).multi_processor_count
        shares = max(1, min(table.shape[1], programs // (B * G)))
    out = q.new_empty(B, H, shares, DV, dtype=torch.float32)
    logs = q.new_empty(B, H, shares, dtype=torch.float32)
    kernel = decode_kernel()
    D_wide, DV_wide, g_wide = (max(16, triton.next_power_of_2(size)) for size in (D, DV, H // G))
    block = 16384 // (max(D_wide, DV_wide) * keys.itemsize)  # in float32 and wide heads more do not fit
    kernel[B, G, shares](
        q.contiguous(), keys, values, table, sizes, out, logs, scaling, window or 1 << 30, table.stride(0),
        G=G, g=H // G, g_wide=g_wide, P=P, BLOCK=min(P, 64, max(16, block)), D=D, D_wide=D_wide, DV=DV,
        DV_wide=DV_wide, num_warps=4, num_stages=3,
    )  # fmt: skip
    if shares == 1 and sinks is None:  # then `out` is all there is
        return out[:, :, 0].to(q.dtype)
    total = logs.logsumexp(-1)
    if sinks is not None:
        total = total.logaddexp(sinks.float())
    return torch.einsum("bhs,bhsd->bhd", (logs - total[..., None]).exp(), out).to(q.dtype)


# ---- The engine


@dataclass(eq=False)
class BatchRow:
    """A rollout that runs, or waits for a slot."""

    job: dict  # see `rollout_jobs`
    before: list = field(default_factory=list)  # the tokens that it had when it was paused
    stats: list = field(default_factory=list)  # one for each token that it has now
    start: int = 0  # the position of the first key in `pages`; those before are in its prompt's pages
    end: int = 0  # how many tokens it has, with the prompt's
    pages: list | None = None
    finish: str | None = None
    last: object = None  # the vectors at the last content token


class Engine:
    """The decode loop over running rows, and the pages of their keys and values."""

    def __init__(self, model, layers, sampling, n, slots, max_prompt, max_new, page=0, budget=0):
        self.model = model
        self.layers = layers
        self.sampling = sampling
        self.device = model.device
        if self.device.type == "cuda":
            torch.cuda.set_device(self.device)  # streams and graphs belong to the current device
            self.stream = torch.cuda.Stream()  # of all captures, which share its memory
        self.n = n  # rollouts a problem
        self.slots = slots
        self.page = page or (256 if self.device.type == "cuda" else 32)  # tokens in one page
        self.by_kernel = self.device.type == "cuda" and decode_kernel() is not None
        self.checked = 0  # the most pages of a row with which the kernel was compared with page attention
        self.graphs = {} if self.device.type == "cuda" else None  # number of rows: (a graph, its logits)
        self.graph_sizes = sorted({max(1, slots >> i) for i in range(8)} | {max(1, slots * 3 // 4)})
        self.queue = deque()
        self.rows = []
        self.prompts = {}  # problem: the pages of its prompt
        self.plan = None
        calls = attention_calls(model)
        text = model.config.get_text_config()
        self.windows = {None, *(call.window for call in calls)}
        self.make_pools(calls, max_prompt, max_new, budget or free_memory(self.device))
        self.newest = torch.zeros(slots, len(layers), text.hidden_size, dtype=model.dtype, device=self.device)
        longest = max_prompt + max_new + 1
        self.texts = torch.zeros(slots, longest, dtype=torch.int64, device=self.device)  # tokens of the rows
        # What changes from step to step: the host fills its own tensors, and those of the device from them
        pin = self.device.type == "cuda"
        self.host_numbers = torch.zeros(4, slots, dtype=torch.int64, pin_memory=pin)
        self.host_table = torch.zeros(slots, longest // self.page + 2, dtype=torch.int32, pin_memory=pin)
        self.numbers = self.host_numbers.to(self.device, copy=True)
        # [slots] each: the newest token's position, how many are sampled, the newest token's page, noise keys
        self.positions, self.ages, self.last_pages, self.noise_keys = self.numbers
        self.table = self.host_table.to(self.device, copy=True)
        self.hooks = common.watch_layers(model, layers, self.keep_vector)
        common.use_attention(model, "paged", self.attend)

    def make_pools(self, calls, max_prompt, max_new, budget):
        """Make the pages: 0 is a spare one, [1, split) are for single rows, [split, n_pages) for prompts."""
        pages_of_prompt = -(-max_prompt // self.page)
        # A row's first page begins with a copy of its prompt's last one, so that it reads whole pages
        pages_of_row = 1 - (-max_new // self.page)
        bytes_of_token = sum(x[:, :, 0].nbytes for call in calls for x in (call.keys, call.values))
        room = budget // (self.page * bytes_of_token) - 1
        if room < pages_of_prompt + pages_of_row:
            tokens = (pages_of_prompt + pages_of_row) * self.page
            die(f"{budget >> 20} MB do not hold {tokens} tokens; lower --max-new-tokens")
        for_prompts = max(pages_of_prompt, min(room // 4, room - pages_of_row, pages_of_prompt * self.slots))
        self.split = 1 + min(self.slots * pages_of_row, room - for_prompts)
        self.free = np.ones(self.split + for_prompts, bool)
        self.free[0] = False

        def pool(x):  # a CPU's memory is taken only when it is touched
            return x.new_empty(len(self.free), x.shape[1], self.page, x.shape[3])

        self.pools = {call.layer: (pool(call.keys), pool(call.values)) for call in calls}
        self.zero_values(range(len(self.free)) if self.device.type == "cuda" else [0])

    def zero_values(self, pages):
        """Put 0 where memory may hold NaN: the weight of a hidden key is 0, but 0 times NaN is NaN."""
        for _, values in self.pools.values():
            values.index_fill_(0, self.tensor(pages), 0)

    def tensor(self, values):
        return torch.as_tensor(values, dtype=torch.int64, device=self.device)

    # --- one step, on the device

    def keep_vector(self, column, out):
        """Keep the newest tokens' vectors, in each forward pass; those of the last decode step count."""
        self.newest[: len(out), column].copy_(out[:, -1])

    def attend(self, module, q, k, v, mask=None, scaling=None, sliding_window=None, s_aux=None, **_):
        """Return a layer's attention to transformers: q [B, H, T, D], k, v [B, G, T, D] -> [B, T, H, D]."""
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
        """Attention of the rows' newest tokens: q [B, H, 1, D], k, v [B, G, 1, D] -> [B, 1, H, D]."""
        plan = self.plan
        keys[plan.page, :, plan.offset] = k[:, :, 0]
        values[plan.page, :, plan.offset] = v[:, :, 0]
        inputs = q[:, :, 0], keys, values, plan.table, plan.sizes, scaling, window, sinks
        if plan.page_groups is None:
            return table_attention(*inputs)[:, None]
        grouped = q.view(len(q), k.shape[1], -1, q.shape[-1])  # [B, G, g, D]: g heads read the same keys
        found = [
            page_attention(grouped[x.readers], keys[x.pages], values[x.pages], scaling, x.hidden[window])
            for x in plan.page_groups
        ]
        outputs = torch.cat([output for output, _ in found])[plan.entries]  # [B, entries, G, g, D]
        logs = torch.cat([log for _, log in found])[plan.entries]  # [B, entries, G, g]
        total = logs.logsumexp(1)
        if sinks is not None:
            total = total.logaddexp(sinks.float().view(1, *total.shape[1:]))
        shares = (logs - total[:, None]).exp()
        out = torch.einsum("begh,beghd->bghd", shares, outputs)
        out = out.to(v.dtype).flatten(1, 2)  # [B, H, D]
        if self.by_kernel:
            self.check_kernel(out, inputs)
        return out[:, None]

    def check_kernel(self, out, inputs):
        """Compare the kernel with the answer [B, H, D] of the pages; give it up where it is wrong."""
        try:
            distance = (table_attention(*inputs) - out).float().flatten(1).norm(dim=1)
            worst = (distance / out.float().flatten(1).norm(dim=1)).max().item()
            if worst <= 1 / 64:  # rounding to bfloat16 gives some three thousandths
                return
            why = f"it differs by {worst:.1%}"
        except Exception as error:  # Triton's own, a driver's, a C compiler's: the pages have the answer
            why = common.reason_of(error)
        print(f"going on without the Triton kernel, by page attention: {why}", file=sys.stderr)
        self.by_kernel = False

    def make_page_groups(self):
        """The pages of single rows, those of prompts, and which outputs [B, entries] each row adds up.

        Output 0 stands in where a row has no more pages: it is the spare page's, whose keys are all hidden.
        """
        sizes = np.array([(row.end - 1) // self.page + 1 for row in self.rows])
        samples = np.array([row.job["sample"] for row in self.rows])
        table = self.host_table.numpy()[: len(self.rows), : sizes.max()]
        is_page = np.arange(sizes.max()) < sizes[:, None]
        entries = np.zeros(table.shape, np.int64)
        groups = []
        n_outputs = 0
        # Pages from `low` to below `high`, each of which so many rows may read
        for low, high, n_readers in ((0, self.split, 1), (self.split, len(self.free), self.n)):
            row, column = np.nonzero(is_page & (low <= table) & (table < high))
            page = table[row, column] - low
            reader = samples[row] % n_readers  # which of the page's readers a row is
            readers = np.zeros((page.max(initial=-1) + 1, n_readers), np.int64)
            readers[page, reader] = row
            keys = np.full(len(readers), FAR)
            keys[page] = column * self.page
            entries[row, column] = n_outputs + page * n_readers + reader
            n_outputs += readers.size
            groups.append(self.page_group(low, readers, keys))
        return groups, self.tensor(entries)

    def page_group(self, low, readers, keys):
        """The pages from number `low` on; readers [E, m]: rows; keys [E]: positions of the first keys."""
        readers = self.tensor(readers)
        keys = self.tensor(keys)[:, None, None] + torch.arange(self.page, device=self.device)  # [E, 1, P]
        position = self.positions[readers][..., None]
        hidden = {window: (keys > position) | (keys <= position - (window or FAR)) for window in self.windows}
        return SimpleNamespace(pages=slice(low, low + len(readers)), readers=readers, hidden=hidden)

    def step(self):
        """The next token of each row [B] and its statistics [B, 12]; hooks keep the vector it came from."""
        count = len(self.rows)
        self.fill()
        pages = max(row.end - 1 for row in self.rows) // self.page + 1
        if self.by_kernel and pages <= self.checked:
            logits = self.replay(count)  # what follows is launched while it runs
        else:
            logits = self.forward(count, self.make_page_groups())
            self.checked = pages
        logits = logits.float()  # [B, V]
        texts = self.texts[:count]
        steps = self.noise_keys[:count], self.ages[:count]
        likeliest = logits.topk(min(logits.shape[1], max(self.sampling["top_k"], common.TOP_K)))
        penalty = self.sampling["repetition_penalty"]
        if penalty == 1:
            chosen = choose_tokens(logits, self.sampling, *steps, likeliest=likeliest)
        else:
            scores = penalise(logits, texts[:, : max(row.end for row in self.rows)], penalty)
            chosen = choose_tokens(scores, self.sampling, *steps)
        texts.scatter_(1, self.positions[:count, None] + 1, chosen[:, None])
        stats = token_stats(logits, chosen, likeliest.indices).half()
        return chosen.cpu().numpy(), stats.cpu().numpy()

    def fill(self):
        """Copy what a step reads of each row, its numbers and its pages, to the device."""
        numbers = self.host_numbers.numpy()
        numbers[:, len(self.rows) :] = 0  # rows that are not there have a token, on the spare page
        for place, row in enumerate(self.rows):
            numbers[:, place] = row.end - 1, len(row.stats), row.pages[-1], row.job["key"]
        self.numbers.copy_(self.host_numbers, non_blocking=True)
        self.table.copy_(self.host_table, non_blocking=True)

    def forward(self, size, page_groups=None):
        """The logits [size, V] of the next tokens, by page groups or, without, by the table of pages.

        What changes from step to step lies in tensors that stay where they are, so a graph can replay it.
        """
        position = self.positions[:size]
        groups, entries = page_groups or (None, None)
        self.plan = SimpleNamespace(
            page=self.last_pages[:size], offset=position % self.page, page_groups=groups, entries=entries,
            table=self.table[:size], sizes=(position + 1).int(),
        )  # fmt: skip
        place = position[:, None]
        ids = self.texts[:size].gather(1, place)
        return self.model(input_ids=ids, position_ids=place, use_cache=False).logits[:, -1]

    def replay(self, count):
        """Run `forward` as a CUDA graph of a few sizes, which spares the host some 2,000 launches."""
        size = next(size for size in self.graph_sizes if size >= count)
        if self.graphs is not None and size not in self.graphs:
            try:
                self.graphs[size] = self.capture(size)
            except RuntimeError as error:  # such as of a model that waits for the device
                why = common.reason_of(error.__context__ or error)  # the capture ends by an error of its own
                print(f"going on without CUDA graphs: {why}", file=sys.stderr)
                self.graphs = None
        if self.graphs is None:
            return self.forward(count)
        graph, logits = self.graphs[size]
        graph.replay()
        return logits[:count]

    def capture(self, size):
        """Return a graph of `forward`, and the tensor that it writes the logits to."""
        graph = torch.cuda.CUDAGraph()
        pool = next((other.pool() for other, _ in self.graphs.values()), None)
        self.forward(size)  # what is made at the first call cannot be captured
        with torch.cuda.stream(self.stream):  # which a capture that fails would leave the current one
            with torch.cuda.graph(graph, pool=pool, stream=self.stream):
                logits = self.forward(size)
        return graph, logits

    # --- between steps, on the host

    def run(self, queue):
        """Yield the rollouts of a deque of rows; others may be added meanwhile."""
        self.queue = queue
        try:
            while self.queue or self.rows:
                with torch.inference_mode():
                    self.admit()
                    self.extend()
                    ended = self.collect(*self.step())
                yield from ended
        finally:
            self.close()

    def close(self):
        """Let go of the memory: transformers keeps the attention function."""
        for hook in self.hooks:
            hook.remove()
        self.pools = {}
        self.graphs = None
        self.plan = None

    def take(self, low, high, count):
        """The first `count` free pages of [low, high), or None when there are too few."""
        pages = np.flatnonzero(self.free[low:high])[:count] + low
        if len(pages) < count:
            return None
        self.free[pages] = False
        if self.device.type != "cuda":
            self.zero_values(pages)
        return pages.tolist()

    def admit(self):
        """Fill the free slots while there are pages, one of them in hand for each running row."""
        while self.queue and len(self.rows) < self.slots:
            row = self.queue[0]
            ids = row.job["prompt"] + row.before
            prompt_end = len(row.job["prompt"]) - 1  # the last token of the prompt is the row's first input
            row.start = prompt_end - prompt_end % self.page
            row.end = len(ids)
            needed = (row.end - 1 - row.start) // self.page + 1
            if self.free[1 : self.split].sum() < needed + len(self.rows) or not self.read_prompt(row.job):
                return
            row.pages = self.take(1, self.split, needed)
            pages = self.prompts[row.job["id"]][: row.start // self.page] + row.pages
            self.host_table.numpy()[len(self.rows), : len(pages)] = pages
            if row.before:
                self.read(ids[:-1], row.start, row.pages)
            elif row.start < prompt_end:
                for pool in itertools.chain(*self.pools.values()):
                    pool[row.pages[0]] = pool[self.prompts[row.job["id"]][-1]]
            # What lies behind the end of a text must not be penalised: it is a token that the text has
            text = self.texts[len(self.rows)].fill_(ids[-1])
            text[: row.end] = self.tensor(ids)
            self.rows.append(row)
            self.queue.popleft()

    def read_prompt(self, job):
        """Compute a prompt's keys and values, once for all its rollouts; False while there is no room."""
        if job["id"] in self.prompts:
            return True
        for problem in self.prompts.keys() - {row.job["id"] for row in self.rows}:
            self.free[self.prompts.pop(problem)] = True
        ids = job["prompt"][:-1]
        pages = self.take(self.split, len(self.free), -(-len(ids) // self.page))
        if pages is None:
            return False
        self.read(ids, 0, pages)
        self.prompts[job["id"]] = pages
        return True

    def read(self, ids, first, pages):
        """Put the keys and values of ids[first:] into pages, by one forward pass."""
        if len(ids) > first:
            self.plan = None
            self.filling = first, self.tensor(pages)
            self.model(input_ids=self.tensor([ids]), use_cache=False, logits_to_keep=1)

    def extend(self):
        """Give a page to each row whose last one is full; where there is none, the shortest row is paused."""
        while full := [row for row in self.rows if len(row.pages) * self.page <= row.end - 1 - row.start]:
            row = full[0]
            page = self.take(1, self.split, 1)
            if page:
                row.pages += page
                self.host_table[self.rows.index(row), (row.end - 1) // self.page] = page[0]
            else:
                self.pause()

    def pause(self):
        """Push the shortest row out; it goes on from its tokens, the first one when there are pages again."""
        shortest = min(range(len(self.rows)), key=lambda r: len(self.rows[r].stats))
        self.rows[shortest].before = self.tokens_of(shortest).tolist()
        self.queue.appendleft(self.rows[shortest])
        self.retire(shortest)

    def tokens_of(self, r):
        """Return the tokens that a row has sampled."""
        row = self.rows[r]
        return self.texts[r, len(row.job["prompt"]) : row.end]

    def retire(self, r):
        """Give a row's pages back; the last row moves into its place."""
        self.free[self.rows[r].pages] = True
        self.texts[r] = self.texts[len(self.rows) - 1]
        self.rows[r] = self.rows[-1]
        self.host_table[r] = self.host_table[len(self.rows) - 1]
        self.rows.pop()

    def collect(self, tokens, stats):
        """Note the tokens of a step; retire the rows that have ended, and return them as rollouts."""
        ended = []
        for r in reversed(range(len(self.rows))):  # from the back: only rows that were looked at move
            row = self.rows[r]
            newest = self.newest[r]  # [layers, d]
            if row.finish:  # it has just had its one step more
                vectors = torch.stack([row.last if row.finish == "stop" else newest, newest], 1)
                ended.append(row.job | {
                    "ids": self.tokens_of(r).int().cpu(), "stats": torch.from_numpy(np.stack(row.stats)),
                    "hidden": dict(zip(self.layers, vectors.cpu())),  # each [2, d]
                    "finish": row.finish,
                })  # fmt: skip
                self.retire(r)
                continue
            row.end += 1
            row.stats.append(stats[r])
            if tokens[r] in self.sampling["stop_ids"]:
                row.finish = "stop"
                row.last = newest.clone()
            elif len(row.stats) == row.job["limit"]:
                row.finish = "length"
        return ended


def free_memory(device):
    """Return how many bytes there are for keys and values."""
    if device.type != "cuda":
        return min(memory_limits()) // 2
    torch.cuda.empty_cache()  # what an earlier engine held
    return int(torch.cuda.mem_get_info(device)[0] * 0.8)


def memory_limits(groups="/proc/self/cgroup", root="/sys/fs/cgroup"):
    """Return the bytes that there are, and those that this cgroup and all above it allow."""
    found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for line in Path(groups).read_text().splitlines():
        _, kinds, path = line.split(":", 2)
        files = {"": f"{root}{path}/memory.max", "memory": f"{root}/memory{path}/memory.limit_in_bytes"}
        file = Path(files.get(kinds, "/"))
        for folder in file.parents:  # in a container only the upper ones may be there
            with suppress(OSError, ValueError):  # no such file; "max"
                found.append(int((folder / file.name).read_text()))
    return found


# ---- Models that the engine cannot run: transformers' own loop, and a pass for the vectors


def run_by_generate(model, settings, layers, queue):
    """Yield rollouts as Engine.run does, all of a problem that wait at the head of the queue at a time."""
    while queue:
        jobs = [queue.popleft().job]
        while queue and queue[0].job["id"] == jobs[0]["id"]:
            jobs.append(queue.popleft().job)
        use_own_attention(model)
        answers = generate_answers(model, settings.sampling, jobs)
        yield from read_by_model(model, settings, [answers], layers, ())


def generate_answers(model, sampling, jobs):
    """The jobs of one problem with the "tokens" that model.generate samples, by our draws."""
    stop_ids = sampling["stop_ids"]
    prompt = jobs[0]["prompt"]
    keys = torch.tensor([job["key"] for job in jobs], device=model.device)

    def choose(texts, logits):
        """Leave each row the token that `choose_tokens` takes; texts [B, T] are the rows until now."""
        ages = torch.full_like(keys, texts.shape[1] - len(prompt))
        chosen = choose_tokens(logits, sampling, keys, ages)
        return torch.full_like(logits, -torch.inf).scatter(1, chosen[:, None], 0)

    ids = torch.tensor([prompt] * len(jobs), device=model.device)
    texts = model.generate(  # greedy, as warpers of its own would come before the draw
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=jobs[0]["limit"], do_sample=False,
        repetition_penalty=float(sampling["repetition_penalty"]), eos_token_id=stop_ids or None,
        pad_token_id=0, logits_processor=[choose],
    )  # fmt: skip
    answers = []
    for job, tokens in zip(jobs, texts[:, len(prompt) :].tolist()):
        end = next((place + 1 for place, token in enumerate(tokens) if token in stop_ids), len(tokens))
        answers.append(job | {"tokens": tokens[:end]})
    return answers


# ---- Rollouts whose tokens are given: one teacher-forced pass


def read_by_model(model, settings, problems, layers, extra, longest=None):
    """Yield the rollouts of problems, each a list of its jobs.

    By attention of ours, where it can run this model for texts of `longest` tokens, else by the model's own.
    Rows are padded on the right, where nothing that counts can see it. Logits are computed where an answer
    has no statistics yet.
    """
    if longest and not probe(model, settings, longest):
        common.use_attention(model, "causal", common.causal_attention)
    else:
        use_own_attention(model)
    states = {}
    hooks = common.watch_layers(model, [*layers, settings.config.num_hidden_layers], states.__setitem__)
    for jobs in problems:
        jobs = sorted(jobs, key=lambda job: len(job["tokens"]))  # those of about one length together
        longest = len(jobs[-1]["prompt"]) + len(jobs[-1]["tokens"])
        size = max(1, (8192 if model.device.type == "cuda" else 2048) // longest)
        for batch in (jobs[start : start + size] for start in range(0, len(jobs), size)):
            texts = [torch.tensor(job["prompt"] + job["tokens"]) for job in batch]
            ids = torch.nn.utils.rnn.pad_sequence(texts, batch_first=True).to(model.device)
            rollouts = []
            with torch.inference_mode():
                # `logits_to_keep` would spare memory, but Gemma 4 then leaves out vectors, too
                logits = [None] * len(batch)
                if all("stats" in job for job in batch):
                    model.get_decoder()(input_ids=ids, use_cache=False)
                else:
                    logits = model(input_ids=ids, use_cache=False).logits  # [B, T, V]
                for row, job in enumerate(batch):
                    own = [states[column][row] for column in sorted(states)]  # each [T, d]
                    rollouts.append(read_rollout(job, layers, own, logits[row], settings, extra))
            yield from rollouts
    for hook in hooks:
        hook.remove()


def read_rollout(job, layers, states, logits, settings, extra):
    """The rollout of a job; states: of each layer [T, d], the final one last; logits [T, V] or None."""
    begin = len(job["prompt"]) - 1  # of what the first token is sampled from
    end = begin + len(job["tokens"])
    ends = [x[max(0, end - 1) : end + 1].cpu() for x in states[:-1]]
    final = states[-1][begin + 1 : end + 1]
    rollout = as_rollout(job, settings)
    if "stats" not in rollout:
        tokens = rollout["ids"].to(logits.device).long()
        stats = []
        for part, chosen in zip(logits[begin:end].split(1024), tokens.split(1024)):  # float32 takes room
            stats.append(token_stats(part.float(), chosen).half().cpu())
        rollout["stats"] = torch.cat(stats)
    rollout["hidden"] = vectors_of(layers, ends, rollout["finish"])
    rollout["extra"] = extra_vectors(settings.tokenizer, job["tokens"], final, extra)
    return rollout


def as_rollout(job, settings):
    """A job with "tokens" as a rollout, without its vectors."""
    tokens = job["tokens"]
    finish = "stop" if tokens and tokens[-1] in settings.sampling["stop_ids"] else "length"
    rollout = job | {"ids": torch.tensor(tokens, dtype=torch.int32), "finish": finish}
    return rollout | {"text": response_of(settings.tokenizer, rollout)}


def vectors_of(layers, ends, finish):
    """{layer: its vectors [2, d], last and eos}; ends: of each layer those at the last two tokens."""
    last = -2 if finish == "stop" else -1
    return {layer: x[[last, -1]] for layer, x in zip(layers, ends)}


RETURN_OR_DEF = re.compile(r"\breturn\b|^[ \t]*(?:async )?def .*:(?=[ \t]*(?:#.*)?$)", re.MULTILINE)


def special_places(tokenizer, ids):
    """Places in `ids` of the tokens that hold the last character of each match."""
    texts = [tokenizer.decode([i]) for i in ids]
    ends = np.cumsum([len(text) for text in texts])
    places = np.searchsorted(ends, [match.end() for match in RETURN_OR_DEF.finditer("".join(texts))])
    return np.unique(places).tolist()


def extra_vectors(tokenizer, ids, final, wanted):
    """What extra.pt keeps of one rollout: final [T, d], the final layer at its tokens."""
    found = {}
    if "last10" in wanted:
        zeros = max(0, 10 - len(final))
        found["last10"] = torch.nn.functional.pad(final[-10:], (0, 0, zeros, 0))[None].cpu()
    if "special" in wanted:
        found["special"] = final[special_places(tokenizer, ids)].cpu()
    return found


# ---- vLLM: one engine that samples, and then one that reads, as it hands out no vectors while it samples

AT_ONCE = 4096  # requests that vLLM holds, with their statistics


@cache
def __getattr__(name):
    """Make LastVectors when vLLM looks for it in this module: its base class is vLLM's."""
    if name != "LastVectors":
        raise AttributeError(name)
    from safetensors.torch import save_file
    from vllm.distributed.kv_transfer.kv_connector.v1 import example_hidden_states_connector as example

    class LastVectors(example.ExampleHiddenStatesConnector):
        """Writes the last two tokens' vectors; vLLM's own one writes all, and takes CUDA for granted."""

        def _submit_async_write(self, pending):
            if not self._is_tp_rank_zero:
                return
            place = torch.arange(len(pending.token_ids))[-2:]
            page = torch.tensor(pending.block_ids)[place // self._block_size]
            device = self._kv_cache.device
            vectors = self._kv_cache[page.to(device), :, (place % self._block_size).to(device)]
            new = pending.filename + ".new"
            save_file({"vectors": vectors.transpose(0, 1).cpu().contiguous()}, new)  # [layers, 2, d]
            os.replace(new, pending.filename)
            self._req_copy_events[pending.req_id] = SimpleNamespace(query=lambda: True)

    return LastVectors


def vllm_options(args):
    """Return which model vLLM loads; set what it reads from the environment."""
    os.environ["VLLM_WORKER_MULTIPROC_METHOD"] = "spawn"  # see the last lines of this file
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    os.environ.setdefault("VLLM_LOGGING_STREAM", "ext://sys.stderr")
    os.environ["VLLM_ALLOW_LONG_MAX_MODEL_LEN"] = "1"  # to read an answer that fills the context
    return {"model": args.model, "revision": args.revision} | args.engine_args


def check_vllm(args, n_layers, layers):
    """Refuse what vLLM could sample, but not read afterwards."""
    if not all(0 < layer < n_layers for layer in layers):  # not all of its models hand out layer 0 as it is
        what = f"gives the vectors of the layers 1 to {n_layers - 1}, before the final one"
        die(f"--engine vllm {what}; leave out others, which --engine ours adds to a finished run")
    for name in ("pipeline_parallel_size", "data_parallel_size"):
        if args.engine_args.get(name, 1) != 1:
            die(f"--engine-args: leave out {name}, and split the model by tensor_parallel_size")
    if "RANK" in os.environ:
        die("--engine vllm is one process for all GPUs: leave out torchrun and RANK")
    options = vllm_options(args)
    from vllm import EngineArgs, ModelRegistry
    from vllm.model_executor.models.interfaces import supports_eagle3

    try:
        config = EngineArgs(**options).create_model_config()
        model_class, _ = ModelRegistry.resolve_model_cls(config.architectures, config)
    except Exception as error:  # of many kinds
        die(f"vLLM does not run {args.model} here: {common.reason_of(error)}")
    if config.use_mla or not supports_eagle3(model_class):
        why_not = f"hands out no vectors of {model_class.__name__}, so it could not read the answers"
        die(f"vLLM {why_not}; see which it can in README.md")


@contextmanager
def vllm_engine(args, model, longest, layers=(), folder=None):
    """vLLM's engine, for texts of at most so many tokens; with layers it writes their vectors to files."""
    from vllm import LLM
    from vllm.v1.engine.exceptions import EngineDeadError

    options = {"max_model_len": longest, "dtype": model.dtype}
    if model.device == "cpu":  # there a prompt with a seed that is read in two parts ends vLLM 0.32
        options["enable_chunked_prefill"] = False
    if layers:
        draft = {"hf_config": {"eagle_aux_hidden_state_layer_ids": sorted(layers)}}
        folder.mkdir(parents=True, exist_ok=True)
        own = {"use_synchronization_lock": False, "shared_storage_path": str(folder)}
        options |= {
            "speculative_config": {
                "method": "extract_hidden_states", "num_speculative_tokens": 1, "draft_model_config": draft,
            },
            "kv_transfer_config": {
                "kv_connector": "LastVectors", "kv_connector_module_path": Path(__file__).stem,
                "kv_role": "kv_producer", "kv_connector_extra_config": own,
            },
            "enforce_eager": True,  # there is no step that a graph would make faster
        }  # fmt: skip
    try:
        engine = LLM(**options | vllm_options(args)).llm_engine
    except Exception as error:  # of many kinds; its processes have printed the reason
        die(f"vLLM does not run {args.model} here: {common.reason_of(error)}")
    try:
        yield engine
    except EngineDeadError:
        die("vLLM ended early; the lines above say why, and the same command goes on")
    finally:
        engine.engine_core.shutdown(timeout=60)  # it holds the memory


def ask_vllm(engine, requests):
    """Yield (job, what vLLM makes of it) as requests end; requests yields (job, token ids, settings)."""
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind

    of_all = {"flat_logprobs": True, "detokenize": False, "output_kind": RequestOutputKind.FINAL_ONLY}
    waiting = enumerate(requests)
    asked = {}
    while True:
        for number, (job, ids, settings) in itertools.islice(waiting, AT_ONCE - len(asked)):
            asked[str(number)] = job
            engine.add_request(str(number), {"prompt_token_ids": ids}, SamplingParams(**settings, **of_all))
        if not asked:
            return
        for output in engine.step():
            yield asked.pop(output.request_id), output


def by_problem(jobs, rollouts, desc):
    """Yield (problem's id, rollouts) when the last of these has come; jobs: {problem's id: its jobs}."""
    done = defaultdict(list)
    total = sum(map(len, jobs.values()))
    for rollout in common.progress(rollouts, total=total, desc=desc, unit="rollout"):
        name = rollout["id"]
        done[name].append(rollout)
        if len(done[name]) == len(jobs[name]):
            yield name, done.pop(name)


def sample_by_vllm(engine, settings, jobs):
    """Yield the rollouts of a list of jobs, without vectors."""
    sampling = settings.sampling | {"ignore_eos": True, "logprobs": common.TOP_K}
    sampling["stop_token_ids"] = sampling.pop("stop_ids")
    requests = (
        (job, job["prompt"], sampling | {"seed": job["key"] >> 31, "max_tokens": job["limit"]})
        for job in jobs
    )
    for job, output in ask_vllm(engine, requests):
        tokens = [*output.outputs[0].token_ids]
        stats = vllm_stats(output.outputs[0].logprobs, len(tokens))
        yield as_rollout(job | {"tokens": tokens, "stats": stats}, settings)


def vllm_stats(logprobs, count):
    """float16 [count, 12] as token_stats, of vLLM's log-probabilities: a token's and then the ten largest.

    It does not give their mean over the vocabulary.
    """
    width = common.TOP_K + 1
    numbers = torch.tensor(logprobs.logprobs[len(logprobs.logprobs) - count * width :]).view(count, width)
    own, top = numbers.split([1, common.TOP_K], 1)
    return torch.cat([top, own, torch.full_like(own, math.nan)], 1).clamp(-65504).half()


def read_by_vllm(engine, rollouts, layers):
    """Yield rollouts with vectors: prompt and answer go in, and vLLM writes those of the last two tokens."""
    sampling = {"max_tokens": 1, "temperature": 0}
    with_stats = sampling | {"prompt_logprobs": common.TOP_K}
    requests = (
        (row, row["prompt"] + row["tokens"], sampling if "stats" in row else with_stats)
        for row in rollouts
    )
    unwritten = {}  # path: rollout; its worker writes the file a step after the answer is out
    for rollout, output in ask_vllm(engine, requests):
        if "stats" not in rollout:
            rollout["stats"] = vllm_stats(output.prompt_logprobs, len(rollout["tokens"]))
        unwritten[Path(output.kv_transfer_params["hidden_states_path"])] = rollout
        yield from take_written(unwritten, layers)
    end = time.monotonic() + 60
    while unwritten:
        if time.monotonic() > end:
            die(f"vLLM gave no vectors of {len(unwritten)} answers; the same command asks for them again")
        time.sleep(0.01)
        yield from take_written(unwritten, layers)


def take_written(unwritten, layers):
    """Yield the rollouts whose vectors have been written, with these; take them out of {path: rollout}."""
    from safetensors.torch import load_file

    for path in [path for path in unwritten if path.is_file()]:
        rollout = unwritten.pop(path)
        ends = load_file(path)["vectors"]  # in the order of the layers' numbers, however they are asked for
        path.unlink()
        yield rollout | {"hidden": vectors_of(sorted(layers), ends, rollout["finish"])}


# ---- Jobs: what is to be sampled or read, one for each rollout


# What decides the tokens of a rollout, beside the model's weights. config: of the language model; sampling:
# temperature, top_k, top_p, repetition_penalty and stop_ids
Settings = namedtuple("Settings", ("tokenizer", "config", "sampling", "n", "seed", "max_new_tokens"))


def settings_of(args, model, tokenizer):
    """Return the settings of the arguments, completed by the model's files; it may be without weights."""
    sampling = common.sampling_defaults(model, tokenizer)
    given = {name: getattr(args, name, None) for name in sampling}
    sampling |= {name: value for name, value in given.items() if value is not None}
    config = model.config.get_text_config()
    return Settings(tokenizer, config, sampling, args.n, args.seed, args.max_new_tokens)


def rollout_jobs(settings, problems, source="problems", skip_long=False):
    """{problem's id: a job for each of its rollouts}; source: where the problems are from, for messages.

    A job is {"id": the problem's, "sample", "prompt": token ids, "limit": the most tokens that the rollout
    may have, "key": of its noise}, and has "tokens" where these are only to be read.
    """
    jobs = {}
    too_long = []
    context = context_of(settings.config)
    for i, problem in enumerate(problems):
        name = problem["id"]
        prompt = list(common.encode_prompt(settings.tokenizer, problem))
        if not 0 < len(prompt) < context:
            too_long.append(f"number {i + 1} (id {name!r}, {len(prompt)} tokens)")
            continue
        limit = min(settings.max_new_tokens or context, context - len(prompt))
        shared = {"id": name, "prompt": prompt, "limit": limit}
        keys = [noise_key(settings.seed, name, sample) for sample in range(settings.n)]
        jobs[name] = [shared | {"sample": sample, "key": key} for sample, key in enumerate(keys)]
    if too_long:
        what = f"{len(too_long)} prompts leave no room for an answer in a context of {context}: "
        what += ", ".join(too_long[:9]) + ", ..." * (len(too_long) > 9)
        if not skip_long or not jobs:
            die(f"{source}: {what}; leave these problems out, or say --skip-long")
        say(f"{source}: {what}; left out")
    return jobs


def sample_problems(model, settings, jobs, layers, slots, desc, rate=None, threshold=None):
    """Yield (problem's id, rollouts) as each ends; jobs: {problem's id: its jobs}. See `rater` for rate."""
    done = {name: [] for name in jobs}
    running = {}
    queue = deque()

    def start_wave(name):
        """Queue its next jobs, in front of the others, so that a problem ends soon after it began."""
        wave = next_wave(jobs[name], done[name], threshold)
        queue.extendleft(BatchRow(job) for job in reversed(wave))
        running[name] = len(wave)

    for name in reversed(jobs):
        start_wave(name)
    every = list(itertools.chain(*jobs.values()))
    longest = max(len(job["prompt"]) for job in every), max(job["limit"] for job in every)
    slots = min(slots or (256 if model.device.type == "cuda" else 128), len(every))
    bar = common.progress(desc=desc, total=len(every), unit="rollout")
    advice = f"run it again with --slots {max(1, slots // 2)}, or a lower --max-new-tokens"
    with common.enough_memory(advice), bar:
        why_not = probe(model, settings, sum(longest))
        if why_not:
            print(f"sampled by model.generate, slower: {why_not}", file=sys.stderr)
            found = run_by_generate(model, settings, layers, queue)
        else:
            found = Engine(model, layers, settings.sampling, settings.n, slots, *longest).run(queue)
        for rollout in found:
            name = rollout["id"]
            rollout["text"] = response_of(settings.tokenizer, rollout)
            if rate:
                rate(rollout)
            done[name].append(rollout)
            bar.update()
            running[name] -= 1
            if not running[name]:
                start_wave(name)
            if not running[name]:
                bar.total -= len(jobs[name]) - len(done[name])
                yield name, sorted(done.pop(name), key=lambda rollout: rollout["sample"])


def next_wave(jobs, rollouts, threshold):
    """Return the jobs that come after these rollouts: all, or with a threshold a few, until a p reaches it.

    After the waves there are 1, 2, 3, 5, 8, 12, ... rollouts.
    """
    count = len(rollouts)
    if threshold and any(rollout["p"] >= threshold for rollout in rollouts):
        return []
    end = max(count + 1, math.ceil(1.5 * count)) if threshold else len(jobs)
    return jobs[count:end]


def rater(scorer, path, model, config, layers=None):
    """Return a function that adds score and p to a rollout; one at a time, as the batch must not matter.

    model: its {"model": name, "model_stamp"}. layers: those whose vectors the rollouts have, if these
    are not of the scorer's layer alone.
    """
    n_layers = config.num_hidden_layers
    common.check_scorer_fits(scorer, model | {"n_layers": n_layers}, path)
    layer, token = common.vector_key(scorer.vector, n_layers)
    if layers and layer not in layers:
        die(f"{path} reads {scorer.vector}; here it must be a vector of the layers {layers}")

    def rate(rollout):
        conf = common.confidence(rollout["stats"].numpy(), config.vocab_size)
        features = common.rollout_features(conf, len(rollout["ids"]))[None]
        score = scorer(rollout["hidden"][layer][TOKENS.index(token)][None], features)
        rollout |= {"score": score.item(), "p": common.probability(score, scorer.log_weight).item()}

    return rate


def warn_of_other_prompts(problems, scorer, tokenizer):
    prompts = common.prompt_stamp(tokenizer)
    for change in common.asked_otherwise(common.asked_as(problems), scorer, prompts):
        common.warn(f"asked otherwise than the scorer's calibration ({change}); p may be off")


def opened_reasoning(tokenizer, prompt):
    """Return `<think>` if the template wrote it: the text gets it back, so that cut reasoning is seen."""
    return (re.search(r"<think>\s*$", tokenizer.decode(prompt[-16:])) or [""])[0]


def response_of(tokenizer, rollout):
    """Return a rollout's text, without the token that ended it; markers such as </think> stay."""
    ids = rollout["ids"][:-1] if rollout["finish"] == "stop" else rollout["ids"]
    text = tokenizer.decode(ids.tolist(), clean_up_tokenization_spaces=False)
    return opened_reasoning(tokenizer, rollout["prompt"]) + text


# ---- A serving engine: requests in the OpenAI batch format, and its answers


def write_requests(run, settings):
    """Write a request for each rollout; its custom_id is ID#SAMPLE-STAMP, with a stamp of what is asked."""
    args = run.args
    if settings.tokenizer.chat_template is None:
        die("this model has no chat template, and requests are chats; sample it here, or by --engine vllm")
    sampling = settings.sampling
    rows = []
    for problem, jobs in zip(run.problems, run.jobs.values()):
        shared = {"model": args.model, "temperature": sampling["temperature"], "top_p": sampling["top_p"]}
        shared["messages"] = common.encode_chat(settings.tokenizer, problem)[1]
        if "reasoning_effort" in settings.tokenizer.get_chat_template():
            shared["reasoning_effort"] = "high"
        if not args.plain:  # what vLLM and SGLang take, and other servers may refuse
            shared |= {"top_k": sampling["top_k"] or -1, "repetition_penalty": sampling["repetition_penalty"]}
            shared |= {"return_token_ids": True, "skip_special_tokens": False}
            shared["chat_template_kwargs"] = {"enable_thinking": True}
        for job in jobs:
            body = shared | {"max_tokens": job["limit"], "seed": job["key"] >> 31}
            name = f"{problem['id']}#{job['sample']}-{request_stamp(job, settings)}"
            rows.append({"custom_id": name, "method": "POST", "url": "/v1/chat/completions", "body": body})
    common.write_jsonl(args.requests, rows)
    print(f"{args.requests}: {len(rows)} requests", file=sys.stderr)
    if args.plain and (sampling["top_k"] or sampling["repetition_penalty"] != 1):
        print(f"--plain: make the server itself sample by {sampling}", file=sys.stderr)
    print(args.requests)


def request_stamp(job, settings):
    return common.stamp(job["prompt"], job["limit"], settings.sampling)


def read_responses(run, settings):
    """{problem's id: the rollouts that a file has of it}; they have no vectors yet."""
    path = run.args.responses
    jobs = {name: of_problem[0] for name, of_problem in run.jobs.items()}
    found = {name: {} for name in jobs}  # {(number of the request, of the choice): tokens}
    odd = defaultdict(list)  # what is odd: names of problems
    for place, row in enumerate(common.each_row(path)):
        try:
            name, request, choices = read_row(row, place)
            if name not in jobs:
                odd["answers to other problems are left out"].append(name)
                continue
            for number, choice in enumerate(choices):
                if choice.get("stamp") not in (None, request_stamp(jobs[name], settings)):
                    die(f"{path}: {name!r} was asked otherwise; give the flags and prompts of --requests")
                if choice.get("prompt") not in (None, jobs[name]["prompt"]):
                    odd["answers are to another prompt than this model's files give"].append(name)
                try:
                    found[name][request, number] = encode_answer(settings, jobs[name]["prompt"], choice)
                except common.BadInput as error:
                    odd["requests or choices gave no answer"].append(f"{name} ({str(error)[:200]})")
        except (AttributeError, KeyError, TypeError) as error:
            why = common.reason_of(error)
            die(f"{path}: not an answer as engines write them ({why}): {str(row)[:100]}")
    say(f"{path}: {len(found)} problems, {sum(map(len, found.values()))} answers")
    few = f"problems have fewer than {settings.n} answers"
    odd[few] = [name for name, answers in found.items() if len(answers) < settings.n]
    for what, where in odd.items():
        if where:
            say(f"{path}: {len(where)} {what}, such as {where[0]}")
    empty = [name for name, answers in found.items() if not answers]
    if empty:
        die(f"{path}: no answer to {len(empty)} problems, such as {empty[0]}; ask again and add what comes")
    rollouts = {}
    for name, job in jobs.items():
        in_order = [tokens[: job["limit"]] for _, tokens in sorted(found[name].items())]
        given = [job | {"sample": sample, "tokens": tokens} for sample, tokens in enumerate(in_order)]
        rollouts[name] = [as_rollout(job, settings) for job in given]
    return rollouts


def read_row(row, place):
    """(problem's id, number of the request, choices) of a row of a batch file, or of a text at a place."""
    response = row.get("response")
    if isinstance(response, str):
        choice = {"message": {"content": response}, "finish_reason": row.get("finish")}
        return str(row["id"]), place, [choice | {"token_ids": row.get("tokens")}]
    if "custom_id" not in row:
        raise KeyError("'response', a text, or 'custom_id', of a request")
    name, _, request = row["custom_id"].rpartition("#")
    number, _, stamp = request.partition("-")
    if not number.isdecimal():
        raise KeyError("custom_id is not ID#SAMPLE")
    body = (response or {}).get("body") or {}
    asked = {"prompt": body.get("prompt_token_ids"), "stamp": stamp or None}
    choices = [choice | asked for choice in body.get("choices") or []]
    return name, int(number), choices or [{"error": str(row.get("error") or body)}]


def encode_answer(settings, prompt, choice):
    """The token ids of a choice with the one that ends it: the engine's, or else those of its text."""
    if "error" in choice:
        die(choice["error"])
    tokenizer = settings.tokenizer
    stop_ids = settings.sampling["stop_ids"]
    message = choice["message"]
    text = message["content"]
    tokens = choice.get("token_ids")
    finish = choice["finish_reason"]
    if not tokens and (message.get("reasoning") or message.get("reasoning_content")):
        die("the server took the reasoning out: start it without its reasoning parser")
    if finish in ("abort", "content_filter", "error") or (text is None and not tokens):
        die(f"no whole text; finish_reason: {finish}")
    is_cut = finish == "length" or (tokens and finish is None)
    if not tokens:
        opened = opened_reasoning(tokenizer, prompt)  # what the prompt holds already
        text = text.removeprefix(opened if text.startswith(opened) else opened.strip())
        tokens = tokenizer(text, add_special_tokens=False)["input_ids"]
    size = settings.config.vocab_size
    if any(not 0 <= token < size for token in tokens):
        die(f"tokens beyond this model's vocabulary of {size}; which model made them?")
    if is_cut or not stop_ids or (tokens and tokens[-1] in stop_ids):
        return tokens
    return [*tokens, tokenizer.eos_token_id if tokenizer.eos_token_id in stop_ids else stop_ids[0]]


# ---- The run folder


@dataclass
class Run:
    """A command's problems and settings, for one model, data set and seed, and the folder of its rollouts.

    parts/ keeps all that was ever sampled: a file for each problem, that is for an id and the tokens of a
    prompt. The other files are made of what the last command asked for.
    """

    args: argparse.Namespace
    dataset: str
    folder: Path
    problems: list
    jobs: dict = field(default_factory=dict)  # {problem's id: a job a rollout}, when a tokenizer was read

    @property
    def finished(self):
        return (self.folder / "rollouts.jsonl").is_file()

    @property
    def meta(self):
        """What meta.json says; {} where nothing was begun."""
        return read_meta(self.folder) if (self.folder / "meta.json").is_file() else {}

    @property
    def request(self):
        """A stamp of the problems and the number of rollouts."""
        asked = [(problem["id"], common.messages_of(problem)) for problem in self.problems]
        return common.stamp(self.args.n, asked)

    def part(self, name):
        """The file of a problem's rollouts."""
        prompt = common.stamp(self.jobs[name][0]["prompt"])
        return self.folder / "parts" / f"{common.stamp(name)}-{prompt}.pt"

    def read_part(self, name):
        return load_pt(self.part(name)) if self.part(name).is_file() else []

    def rollouts(self, name):
        """Those of a problem that this command asks for, as far as they are there."""
        return [row for row in self.read_part(name) if row["sample"] < self.args.n]

    @cached_property
    def held(self):
        """{problem's id: the samples that are there}."""
        return {name: [row["sample"] for row in self.rollouts(name)] for name in self.jobs}

    def save_problems(self):
        path = self.folder / "problems.jsonl"
        if not path.is_file() or common.read_jsonl(path) != self.problems:
            common.write_jsonl(path, self.problems)

    def layers(self, n_layers):
        """{index: name} of those that the run has, or will have, and of those that this command asks for."""
        return layers_of([*self.meta.get("layers", []), *self.args.layers], n_layers)


def find_run(args, dataset):
    """Return the run of a data set; refuse a folder that another model or other settings have made."""
    folder = Path(args.out) / common.model_name(args.model) / common.short_name(dataset)
    folder /= "greedy" if args.greedy else str(args.seed)
    run = Run(args, dataset, folder, common.load_problems(dataset, args.limit, args.kind))
    refuse_other_run(run, dtype=None if args.dtype == "auto" else args.dtype)
    return run


ADVICE = "choose another --out, or remove that folder"


def refuse_other_run(run, sampling=None, dtype=None):
    """Refuse another model, other settings or another number type than a run was begun with.

    sampling: the settings, completed by the model's files when these have been read; dtype: of the model.
    """
    meta = run.meta
    if not meta:
        return
    args = run.args
    is_other = meta["model"] != args.model
    if args.model_stamp and meta.get("model_stamp"):  # which say it wherever the model lies
        is_other = meta["model_stamp"] != args.model_stamp
    if is_other:
        die(f"{run.folder} was made by the model {meta['model']}, {args.model} is another one; {ADVICE}")
    goes_on = bool(unsampled(run))
    if goes_on and run.finished and not any((run.folder / "parts").glob("*.pt")):
        die(f"{run.folder} has no parts/, and cannot grow without; {ADVICE}")
    asked = settings_stamp(args)
    if not goes_on:  # then another engine may read more vectors, also of answers that were made elsewhere
        asked["engine"] = meta["stamp"].get("engine")
        asked["responses"] = asked["responses"] or meta["stamp"].get("responses")
    changes = [name for name, value in asked.items() if meta["stamp"].get(name) != value]
    if goes_on and meta["sampling"] != sampling:
        changes.append("those of the model's files")
    if changes:
        others = f"other settings ({', '.join(changes)}), by {meta['command']}"
        die(f"{run.folder} was made with {others}; {ADVICE}")
    begun = meta["dtype"]
    if dtype not in (None, begun):
        die(f"{run.folder} was begun in {begun}, now it would be {dtype}; give --dtype {begun}, or {ADVICE}")


def settings_stamp(args):
    """Return what decides a rollout beside its problem and the model, by name, so that a refusal can say it.

    The number type is meta.json's own, as it may depend on the device.
    """
    numbers = "seed", "max_new_tokens", "temperature", "top_k", "top_p", "repetition_penalty"
    stamp = {name: getattr(args, name) for name in (*numbers, "stop", "engine")}
    for name in ("responses", "scorer"):
        path = getattr(args, name)
        stamp[name] = path and common.stamp(Path(path))
    stamp["n"] = args.n if args.scorer else None  # the waves depend on it
    return stamp


def unsampled(run):
    """{problem's id: its jobs that the run has no rollouts of}, of the problems that lack some.

    Where sampling stops or answers were given, a problem may have fewer than n rollouts.
    """
    stamp = run.meta.get("stamp", {})
    may_have_fewer = stamp.get("stop") or stamp.get("responses")
    found = {}
    for name, jobs in run.jobs.items():
        held = run.held[name]
        left = [job for job in jobs if job["sample"] not in held]
        if left and not (held and may_have_fewer):
            found[name] = left
    return found


def unread(run):
    """{problem's id: its rollouts that lack vectors}, of the problems that have such."""
    meta = run.meta
    vectors = {*run.layers(meta["n_layers"]), *meta["extra"], *run.args.extra}
    found = {}
    for name in run.jobs:
        left = [row for row in run.rollouts(name) if vectors - {*row["hidden"], *row["extra"]}]
        if left:
            found[name] = left
    return found


def is_whole(run):
    """Whether the run's files hold what this command asks for, as seen without a tokenizer."""
    meta = run.meta
    if not run.finished or not (run.folder / "hidden.pt").is_file() or meta.get("request") != run.request:
        return False
    if run.args.tokenizer_stamp not in (None, meta["tokenizer_stamp"]):
        return False
    has_layers = len(run.layers(meta["n_layers"])) == len(meta["layers"])
    return has_layers and set(run.args.extra) <= set(meta["extra"])


def layers_of(names, n_layers):
    """Names of layers as {index: name}, each checked; of two names of a layer the first one."""
    found = {}
    for name in names:
        for each in map(str, range(n_layers + 1)) if name == "all" else [name]:
            found.setdefault(layer_index(each, n_layers), each)
    return found


def dtype_of(model):
    return str(model.dtype).removeprefix("torch.")


def make_meta(run, settings, model):
    """Return meta.json, which says what made this run."""
    args = run.args
    git = ["git", "-C", Path(__file__).resolve().parent, "describe", "--always", "--dirty", "--abbrev=12"]
    commit = None
    with suppress(OSError):  # no git
        commit = subprocess.run(git, capture_output=True, text=True).stdout.strip()
    packages = ["torch", "transformers", "numpy"] + ["vllm"] * (args.engine == "vllm")
    versions = {name: importlib.import_module(name).__version__ for name in packages}
    return {
        "model": args.model, "model_stamp": args.model_stamp, "revision": args.revision,
        "seed": args.seed, "dataset": run.dataset, "engine": args.engine, "dtype": dtype_of(model),
        "sampling": settings.sampling, "n_layers": settings.config.num_hidden_layers,
        "width": settings.config.hidden_size, "vocab_size": settings.config.vocab_size,
        "stamp": settings_stamp(args), "command": shlex.join(["python", "01_generate.py", *sys.argv[1:]]),
        "arguments": vars(args), "versions": versions | {"python": sys.version.split()[0]},
        "git": commit or None, "device": common.device_name(model.device),
        "created": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
    }  # fmt: skip


# ---- Making what a run lacks, in parts: several workers share them, and a killed command goes on with them


def finish_run(run, settings, model):
    """Sample and read what is missing; False while other workers are at their problems."""
    if is_whole(run):
        run.save_problems()  # a reference may be another one
        return True
    given = read_responses(run, settings) if run.args.responses and unsampled(run) else {}
    with locked(run.folder, "lock"):
        run = replace(run)  # without what is cached of it
        if is_whole(run):
            return True  # another worker has merged the parts
        begin_run(run, settings, model)
    layers = [*run.layers(settings.config.num_hidden_layers)]
    sampled = sample_missing(run, settings, model, layers, given)
    for name, rollouts in itertools.chain(sampled, read_missing(run, settings, model, layers)):
        with locked(run.folder, "lock"):
            add_to_part(run, name, rollouts)
    with locked(run.folder, "lock"):
        run = replace(run)
        if is_whole(run):
            return True
        left = unsampled(run).keys() | unread(run).keys()
        if left:
            others = f"the others still have {len(left)} of {len(run.jobs)} problems, and the last one merges"
            print(f"{run.folder}: this worker is done; {others}", file=sys.stderr)
            return False
        write_run(run, [*itertools.chain(*map(run.rollouts, run.jobs))])
    return True


@contextmanager
def locked(folder, name, when_waiting=None):
    """Hold a lock in parts/ of a run; a second process says that it waits, until the first one lets it go."""
    path = folder / "parts" / name
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = open(path, "w")
    except OSError as error:
        die(f"cannot write {path}: {common.reason_of(error)}; choose another --out")
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if when_waiting:
                print(when_waiting, file=sys.stderr)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def begin_run(run, settings, model):
    """Write into meta.json what the run will have; it is unfinished until rollouts.jsonl is there again."""
    meta = run.meta
    layers = [*run.layers(settings.config.num_hidden_layers).values()]
    extra = sorted({*meta.get("extra", []), *run.args.extra})
    if unsampled(run):
        meta = make_meta(run, settings, model)
    (run.folder / "rollouts.jsonl").unlink(missing_ok=True)
    made = {"layers": layers, "extra": extra, "prompt_stamp": common.prompt_stamp(settings.tokenizer)}
    common.write_json(run.folder / "meta.json", meta | made)


def add_to_part(run, name, rollouts):
    """Add rollouts, or vectors of rollouts, to those that a problem has by now, which stay as they are."""
    held = {row["sample"]: row for row in run.read_part(name)}
    for rollout in rollouts:
        names = "id", "sample", "text", "finish", "ids", "stats", "hidden", "extra"
        new = {"hidden": {}, "extra": {}} | {name: rollout[name] for name in names if name in rollout}
        row = held.setdefault(new["sample"], new)
        if row["ids"].equal(new["ids"]):  # where two processes sample it, a GPU's tokens may differ
            vectors = {kind: new[kind] | row[kind] for kind in ("hidden", "extra")}
            held[new["sample"]] = row | new | vectors
    common.save_pt(run.part(name), [held[sample] for sample in sorted(held)])


def share_of(run, found):
    """Return the part of {problem's id: value} that is this worker's."""
    rank, world = worker()
    return {name: found[name] for name in [*run.jobs][rank::world] if name in found}


def sample_missing(run, settings, model, layers, given):
    """Yield (problem's id, rollouts that it lacked) of this worker, not all with vectors.

    given: {problem's id: its rollouts} that were made elsewhere.
    """
    args = run.args
    jobs = share_of(run, unsampled(run))
    if not jobs or given:
        yield from ((name, given[name]) for name in jobs)
        return
    if args.engine == "vllm":
        every = list(itertools.chain(*jobs.values()))
        longest = max(len(job["prompt"]) + job["limit"] for job in every)
        with vllm_engine(args, model, longest) as engine:
            yield from by_problem(jobs, sample_by_vllm(engine, settings, every), f"sample {run.folder}")
        return
    rate = None
    if args.scorer:
        rate = rater(common.load_scorer(args.scorer), args.scorer, vars(args), settings.config, layers)
    rank, world = worker()
    desc = f"generate {run.folder}" + (f", worker {rank + 1} of {world}" if world > 1 else "")
    yield from sample_problems(model, settings, jobs, layers, args.slots, desc, rate, args.stop)


def read_missing(run, settings, model, layers):
    """Yield (problem's id, its rollouts that lacked vectors or statistics) of this worker."""
    jobs = {}
    for name, rows in share_of(run, unread(run)).items():  # also of what has just been sampled
        jobs[name] = [run.jobs[name][0] | row | {"tokens": row["ids"].tolist()} for row in rows]
    if not jobs:
        return
    every = list(itertools.chain(*jobs.values()))
    longest = max(len(job["prompt"]) + len(job["tokens"]) for job in every)
    desc = f"read {run.folder}"
    if run.args.engine == "vllm":
        folder = run.folder.resolve() / "parts" / "vectors"
        with vllm_engine(run.args, model, longest + 1, layers, folder) as engine:
            yield from by_problem(jobs, read_by_vllm(engine, every, layers), desc)
        return
    with common.enough_memory("read these answers where there is more memory, such as with --device cpu"):
        read = read_by_model(model, settings, jobs.values(), layers, run.meta["extra"], longest)
        yield from by_problem(jobs, read, desc)


def write_run(run, rollouts):
    """Write the run's files, rollouts.jsonl last: with it the run is finished."""
    folder = run.folder
    args = run.args
    meta = run.meta
    layers = run.layers(meta["n_layers"])
    (folder / "rollouts.jsonl").unlink(missing_ok=True)  # another command may have finished meanwhile
    keys = {"keys": common.keys_of(rollouts)}
    tokens = {name: torch.cat([row[name] for row in rollouts]) for name in ("ids", "stats")}
    tokens["offsets"] = offsets_of(row["ids"] for row in rollouts)
    common.save_pt(folder / "tokens.pt", tokens)
    hidden = torch.stack([torch.cat([row["hidden"][layer] for layer in layers]) for row in rollouts])
    vectors = [f"{layer}/{token}" for layer in layers.values() for token in TOKENS]
    hidden = hidden.to(getattr(torch, meta["dtype"]))
    common.save_pt(folder / "hidden.pt", keys | {"vectors": vectors, "hidden": hidden})
    if meta["extra"]:
        extra = {name: torch.cat([row["extra"][name] for row in rollouts]) for name in meta["extra"]}
        if "special" in extra:
            extra["special_offsets"] = offsets_of(row["extra"]["special"] for row in rollouts)
        common.save_pt(folder / "extra.pt", keys | extra)
    run.save_problems()
    common.write_json(folder / "meta.json", meta | {
        "n": args.n, "dataset": run.dataset, "asked": common.asked_as(run.problems), "request": run.request,
        "rules": common.RULES_STAMP,
        # vLLM downloads a model only when it loads it
        "model_stamp": meta["model_stamp"] or common.model_stamp(args.model, args.revision),
        "tokenizer_stamp": common.tokenizer_stamp(args.model, args.revision),
    })  # fmt: skip
    common.write_jsonl(folder / "rollouts.jsonl", (
        {"id": row["id"], "sample": row["sample"], "response": row["text"], "n_tokens": len(row["ids"]),
         "finish": row["finish"], "conf": common.confidence(row["stats"].numpy(), meta["vocab_size"])}
        for row in rollouts
    ))  # fmt: skip
    if args.scorer:
        most = args.n * len(run.problems)
        print(f"{folder}: sampling that stops took {len(rollouts)} of {most} rollouts", file=sys.stderr)
    cut = [row["finish"] for row in rollouts].count("length")
    if cut:
        limit = f"at --max-new-tokens {meta['stamp']['max_new_tokens']} or where the context ends"
        print(f"{folder}: {cut} of {len(rollouts)} rollouts were cut, {limit}", file=sys.stderr)


def offsets_of(tensors):
    """Where each of them begins when they are joined, and where the last one ends."""
    return torch.tensor([0, *map(len, tensors)]).cumsum(0)


def worker():
    """(rank, world): which of how many workers this is."""
    rank = os.environ.get("RANK", "0")
    world = os.environ.get("WORLD_SIZE", "1")
    if not (rank.isdecimal() and world.isdecimal() and int(rank) < int(world)):
        die(f"RANK {rank!r}, WORLD_SIZE {world!r}: set both in the environment (RANK from 0), or neither")
    return int(rank), int(world)


def say(text):
    """Print a line, in the first one of several workers."""
    if worker()[0] == 0:
        print(text, file=sys.stderr)


# ---- Answers in your own program


def sample(
    model, tokenizer, problems: str | dict | list, n: int = N,
    scorer: str | Path | common.Scorer | None = None, vote: bool = False, seed: int = SEED,
    max_new_tokens: int = MAX_NEW_TOKENS, temperature: float | None = None, top_k: int | None = None,
    top_p: float | None = None, repetition_penalty: float | None = None,
) -> list:  # fmt: skip
    """n answers to a problem, the best first; to a list of problems, a list of such lists.

    model, tokenizer: of common.load_model. A problem is a text, or a dict as a line of a file of problems.
    scorer: its path, or what common.load_scorer gives; without one answers keep the order of sampling. vote:
    equal answers add up the sigmoids of their scores, or are counted, and the best one of the answer with the
    largest sum comes first; programs have no votes. The other settings are the command line's.

    An answer is {"sample", "text", "answer": as 02 extracts it, "tokens", "finish", "hidden": the vector that
    the scorer reads, "conf"}; with a scorer also "score" and "p", how likely it is right; where answers vote
    also "vote", its share of all votes.
    """
    args = SimpleNamespace(
        n=n, seed=seed, max_new_tokens=max_new_tokens, temperature=temperature, top_k=top_k, top_p=top_p,
        repetition_penalty=repetition_penalty,
    )  # fmt: skip
    check_ranges(args)
    settings = settings_of(args, model, tokenizer)
    config = settings.config
    is_one = isinstance(problems, (str, dict))
    rows = [problems] if is_one else problems
    rows = [{"prompt": row} if isinstance(row, str) else row for row in rows]
    if not rows:
        return []
    rows = [common.normalise_problem(row, f"problem {i}", i) for i, row in enumerate(rows, 1)]
    path = "the scorer"
    if isinstance(scorer, (str, Path)):
        path = scorer
        scorer = common.load_scorer(path)
    rate = None
    if scorer:
        of_model = {"model": model.name_or_path, "model_stamp": getattr(model, "model_stamp", None)}
        rate = rater(scorer, path, of_model, config)
        warn_of_other_prompts(rows, scorer, tokenizer)
    vector = scorer.vector if scorer else common.DEFAULT_VECTOR
    layer, token = common.vector_key(vector, config.num_hidden_layers)
    jobs = rollout_jobs(settings, rows)
    if len(jobs) < len(rows):
        die("two of these problems have the same id")
    found = {}
    try:
        for name, rollouts in sample_problems(model, settings, jobs, [layer], None, "sample", rate):
            found[name] = [as_answer(rollout, layer, token, config.vocab_size) for rollout in rollouts]
    finally:
        use_own_attention(model)
    answers = [best_first(row, found[row["id"]], vote) for row in rows]
    return answers[0] if is_one else answers


def best_first(problem, answers, vote):
    """Return answers in the order of their votes, if they vote, and of their scores; add "vote" and "answer".

    What an answer is, and which are equal, is for 02 to say: here alone a script imports another one.
    """
    answer_of, groups_of = importlib.import_module("02_label").readers_of(problem)
    for answer in answers:
        answer["answer"] = answer_of(answer["text"])
    scores = np.array([answer.get("score", 0.0) for answer in answers])
    weights = torch.from_numpy(scores).sigmoid().numpy()  # without a scorer all are equal
    groups = np.full(len(answers), -1)  # which is best-of-N
    if vote and problem["kind"] != "code":
        numbers = groups_of([answer["answer"] for answer in answers])
        groups = np.array([-1 if number is None else number for number in numbers])
        for answer, share in zip(answers, common.vote_shares(groups, weights).tolist()):
            answer["vote"] = share
    return [answers[i] for i in common.weighted_vote(groups, weights, scores)]


def as_answer(rollout, layer, token, vocab_size):
    """A rollout as sample() gives it; its vector is copied, as one can learn from no inference tensor."""
    names = ("sample", "text", "finish", "score", "p")
    return {name: rollout[name] for name in names if name in rollout} | {
        "tokens": rollout["ids"].tolist(), "hidden": rollout["hidden"][layer][TOKENS.index(token)].clone(),
        "conf": common.confidence(rollout["stats"].numpy(), vocab_size),
    }  # fmt: skip


# ---- The program


def main(argv=None):
    args = parse_args(argv)
    args.model_stamp = common.model_stamp(args.model, args.revision)
    if Path(args.model).is_dir():
        args.model = str(Path(args.model).resolve())  # one name from wherever it is called
    elif args.model.startswith(("/", ".", "~")) or args.model.count("/") > 1:  # no id of the Hub
        die(f"{args.model}: there is no such folder")
    args.tokenizer_stamp = common.tokenizer_stamp(args.model, args.revision)
    for path in (args.scorer, args.responses):
        if path and not Path(path).is_file():
            die(f"{path}: no such file")
    runs = [find_run(args, dataset) for dataset in args.datasets]
    if len({run.folder for run in runs}) < len(runs):
        die(f"{' '.join(args.datasets)}: two of these have one name; give a file once, or rename one")
    settings = model = None
    unfinished = [run for run in runs if args.requests or not is_whole(run)]
    if unfinished:
        settings = settings_of(args, *common.load_tokenizer(args.model, args.revision))
    for run in unfinished:
        plan(run, settings)
    if args.requests:
        write_requests(runs[0], settings)
    if args.requests or args.plan:
        return
    with ExitStack() as places:
        for folder in sorted(run.folder for run in unfinished):  # one process at a time has a rank in a run
            waits = f"{folder}: another process is at it; this one waits until that has ended"
            places.enter_context(locked(folder, f"worker-{worker()[0]}", waits))
        left = [replace(run) for run in unfinished if not is_whole(run)]  # it may have waited for its place
        if any(unsampled(run) or unread(run) for run in left):
            model = load_engine(args, settings.config)
            for run in left:
                refuse_other_run(run, settings.sampling, dtype_of(model))  # which may be downloaded just now
        for run in runs:
            if finish_run(run, settings, model):
                print(run.folder)


def plan(run, settings):
    """Refuse what can be seen to be wrong before the weights load; then say what is about to be made."""
    args = run.args
    run.jobs = rollout_jobs(settings, run.problems, run.dataset, args.skip_long)
    run.problems = [problem for problem in run.problems if problem["id"] in run.jobs]
    if args.requests:
        return
    refuse_other_run(run, settings.sampling)
    layers = run.layers(settings.config.num_hidden_layers)
    if args.engine == "ours":
        common.pick_device(args.device)
    else:
        check_vllm(args, settings.config.num_hidden_layers, layers)
    if args.scorer:
        scorer = common.load_scorer(args.scorer)
        rater(scorer, args.scorer, vars(args), settings.config, [*layers])
        warn_of_other_prompts(run.problems, scorer, settings.tokenizer)
    say_plan(run)


def say_plan(run):
    """Say how much there is to sample, and which problems are not what they were."""
    ids = {path.name.partition("-")[0] for path in (run.folder / "parts").glob("*.pt")}
    anew = [name for name, held in run.held.items() if not held and common.stamp(name) in ids]
    if anew:
        what = "problems have another prompt than before and are sampled anew, such as"
        say(f"{run.folder}: {len(anew)} {what} {anew[0]!r}")
    if run.args.responses:
        return
    there = sum(map(len, run.held.values()))
    jobs = list(itertools.chain(*run.jobs.values()))
    if unsampled(run):
        longest = max(job["limit"] for job in jobs)
        count = f"{len(run.jobs)} problems, {len(jobs):,} rollouts of at most {longest:,} tokens"
        say(f"{run.folder}: {count}" + (f"; {there:,} are there" if there else ""))
    elif there < len(jobs) and run.meta["stamp"]["responses"]:
        say(f"{run.folder}: {there} of {len(jobs)} rollouts were given, and the run does not grow")


def load_engine(args, config):
    """The model that samples and reads, or what meta.json says of the one that vLLM holds."""
    if args.engine == "ours":
        model, _ = common.load_model(args.model, args.device, args.dtype, args.revision)
        if common.is_tiny(model):
            torch.set_num_threads(1)
    else:
        device = common.pick_device()
        dtype = common.pick_dtype(args.dtype, device)
        if dtype == "auto":  # the files of a model that also reads images name one type for all of its parts
            dtype = config.dtype or common.load_config(args.model, args.revision).dtype or torch.float32
        model = SimpleNamespace(device=device, dtype=dtype)
    args.model_stamp = common.model_stamp(args.model, args.revision)  # it may have been downloaded
    return model


if __name__ == "__mp_main__":  # one of vLLM's processes, which the kernel shall end when its parent ends
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG

if __name__ == "__main__":
    kept = "finished problems are kept in the run folder; the same command goes on with the others"
    common.entry(main, kept)
