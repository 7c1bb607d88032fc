"""What two or more of the numbered scripts share: files, run folders, problems, prompts, models, statistics, scorers, selection.

Not a program. `sandbox_exec.py` does not use it; each numbered script imports from here and never from another script.
torch and transformers are imported inside the functions that need them, so that `-h` and plain text work stay instant.
"""

import gzip
import json
import math
import os
import re
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np

# ---------------------------------------------------------------------------------------------------------------------
# Errors and files


def die(message):
    """End with one line for a person and exit code 2: bad input is theirs to mend, a traceback is a bug of ours."""
    print(f"error: {message}", file=sys.stderr)
    raise SystemExit(2)


@contextmanager
def atomic(path, mode="w"):
    """Write a file whole: readers see the old file or the new one, never a part, whenever we are killed."""
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(temporary, mode, encoding=None if "b" in mode else "utf-8") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        die(f"cannot write {path}: {error.strerror or error}; make room or choose another folder, then run again")
    finally:
        temporary.unlink(missing_ok=True)


def write_json(path, value):
    with atomic(path) as file:
        file.write(json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def write_jsonl(path, rows):
    with atomic(path) as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n")


def read_json(path):
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        die(f"{path}: no such file")
    except ValueError as error:
        die(f"{path}: not JSON ({error})")


def read_jsonl(path, needs=()):
    """The rows of a .jsonl file (.gz too); a bad line is named by its number. `needs`: fields every row must have."""
    rows = []
    try:
        with (gzip.open if str(path).endswith(".gz") else open)(path, "rt", encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    rows.append(_parse_line(f"{path}:{number}", line, needs))
    except FileNotFoundError:
        die(f"{path}: no such file")
    except (UnicodeDecodeError, gzip.BadGzipFile, EOFError) as error:
        die(f"{path}: not a readable UTF-8 text file ({error})")
    return rows


def _parse_line(where, line, needs):
    try:
        row = json.loads(line)
    except ValueError as error:
        die(f"{where}: not JSON ({error})")
    if not isinstance(row, dict):
        die(f"{where}: a JSON object is expected, not {line.strip()[:40]}")
    missing = [field for field in needs if field not in row]
    if missing:
        die(f"{where}: the field {missing[0]!r} is missing")
    return row


def save_pt(path, value):
    import torch

    with atomic(path, "wb") as file:
        torch.save(value, file)


def load_pt(path):
    """Plain tensors and containers only (no code runs), memory-mapped: what is not touched is not read."""
    import torch

    if not Path(path).is_file():
        die(f"{path}: no such file")
    try:
        return torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except Exception as error:  # torch raises half a dozen types for a torn or foreign file; all mean the same to a person
        die(f"{path}: not a file this project wrote, or damaged ({type(error).__name__}); delete it and run its step again")


# ---------------------------------------------------------------------------------------------------------------------
# Run folders: one model, one problem set, one seed


def run_folder(out, model, dataset, seed):
    """runs/<model>/<dataset>/<seed>; a Hub id or a path gives its last part, a file its stem."""
    stem = Path(str(dataset)).name.split(".json")[0]
    return Path(out) / Path(str(model).rstrip("/")).resolve().name / stem / str(seed)


def read_meta(run):
    if not (Path(run) / "meta.json").is_file():
        die(f"{run}: not a run folder (no meta.json); make one with 01_generate.py")
    return read_json(Path(run) / "meta.json")


def read_rollouts(run):
    path = Path(run) / "rollouts.jsonl"
    if not path.is_file():
        die(f"{run}: generation is not finished (no rollouts.jsonl); run 01_generate.py again, it goes on where it stopped")
    return read_jsonl(path, needs=("id", "sample", "response"))


def read_labels(run, keys=None):
    """labels.jsonl in the order of `keys`."""
    path = Path(run) / "labels.jsonl"
    if not path.is_file():
        die(f"{run}: no labels.jsonl; run 02_label.py {run} first")
    return align(read_jsonl(path, needs=("id", "sample", "label")), keys, path)


def align(rows, keys, source):
    """Join by key: `rows` in the order of `keys`; anything but the same keys, once each, is an error with both numbers."""
    by_key = {(row["id"], row["sample"]): row for row in rows}
    if len(by_key) != len(rows):
        die(f"{source}: {len(rows)} rows but only {len(by_key)} different (id, sample) keys")
    if keys is None:
        return rows
    if set(by_key) != set(keys) or len(keys) != len(rows):
        extra = next(iter(set(by_key) ^ set(keys)), "a key twice")
        die(f"{source}: {len(rows)} rows for a run of {len(keys)} rollouts, keys differ at {extra}; run its step again")
    return [by_key[key] for key in keys]


def keys_of(rows):
    return [(row["id"], row["sample"]) for row in rows]


def check_same_problems(run, rollouts):
    """Every problem has rollouts and every rollout a problem: (number of problems without, number of unknown ids)."""
    known = {row["id"] for row in read_jsonl(Path(run) / "problems.jsonl", needs=("id", "kind", "prompt"))}
    seen = {row["id"] for row in rollouts}
    if seen - known:
        die(f"{run}: {len(seen - known)} ids of rollouts.jsonl are not in problems.jsonl, such as {min(seen - known)!r}")
    if known - seen:
        die(f"{run}: {len(known - seen)} of {len(known)} problems have no rollouts, such as {min(known - seen)!r}")


# ---------------------------------------------------------------------------------------------------------------------
# The one vector: layer/token

TOKENS = ("last", "eos")
DEFAULT_VECTOR = "penultimate/eos"


def layer_index(name, n_layers):
    """The index in transformers' `hidden_states` (0 embeddings, L the last block after the final norm) of a layer name."""
    name = str(name)
    index = {"penultimate": n_layers - 1, "final": n_layers}.get(name)
    if index is None and re.fullmatch(r"0?\.\d+", name):
        index = math.floor(float(name) * n_layers + 1e-9)  # .3 * 10 is 2.9999999999999996
    if index is None and re.fullmatch(r"-?\d+", name):
        index = int(name) + (n_layers + 1 if int(name) < 0 else 0)
    if index is None or not 0 <= index <= n_layers:
        die(f"unknown layer {name!r}: use penultimate, final, a number from {-n_layers - 1} to {n_layers}, a fraction such as .75, or all")
    return index


def vector_key(name, n_layers):
    """'penultimate/eos' -> (L-1, 'eos'), so that two spellings of one vector are recognised."""
    layer, _, token = name.partition("/")
    if token not in TOKENS and not re.fullmatch(r"(last|special)\d+", token):
        die(f"unknown vector {name!r}: write layer/token, with token {' or '.join(TOKENS)}, such as {DEFAULT_VECTOR}")
    return layer_index(layer, n_layers), token


def read_vectors(run, vector=DEFAULT_VECTOR):
    """(keys, hidden [R, d] memory-mapped in the model's dtype) of one named vector of a run."""
    path, n_layers = Path(run) / "hidden.pt", read_meta(run)["n_layers"]
    stored = load_pt(path)
    have = [vector_key(name, n_layers) for name in stored["vectors"]]
    wanted = vector_key(vector, n_layers)
    if wanted not in have:
        die(f"{path}: no vector {vector!r}; it holds {', '.join(stored['vectors'])} (01_generate.py --layers captures others)")
    keys = [tuple(key) for key in stored["keys"]]
    if len(keys) != len(stored["hidden"]) or len(set(keys)) != len(keys):
        die(f"{path}: {len(keys)} keys ({len(set(keys))} different) for {len(stored['hidden'])} vectors; run 01_generate.py again")
    return keys, stored["hidden"][:, have.index(wanted)]


# ---------------------------------------------------------------------------------------------------------------------
# Token statistics: what the paper calls confidence, from the raw log-probabilities of each step

TOP_K, TAIL, WINDOW = 10, 2048, 1024
STATISTICS = ("mean", "median", "variance", "gap", "entropy", "self_certainty", "likelihood")
AGGREGATIONS = ("avg", "tail", "lowest", "bottom10")
LOWER_IS_BETTER = ("entropy",)


def token_statistics(stats, vocab_size):
    """stats [T, 12]: the 10 largest log-probabilities (descending), the sampled token's, the vocabulary's mean -> [T, 7]."""
    stats = np.asarray(stats, dtype=np.float64)
    top, sampled, vocab_mean = stats[:, :TOP_K], stats[:, TOP_K], stats[:, TOP_K + 1]
    p = np.exp(top)
    q = p / p.sum(1, keepdims=True)
    columns = {
        "mean": -top.mean(1),
        "median": -np.median(top, 1),
        "variance": top.var(1),
        "gap": p[:, 0] - p[:, 1],
        "entropy": -(q * np.log(np.maximum(q, 1e-300))).sum(1),
        "self_certainty": -vocab_mean - math.log(vocab_size),  # KL(uniform || p), Kang et al. 2025
        "likelihood": sampled,
    }
    return np.stack([columns[name] for name in STATISTICS], 1)


def confidence(stats, vocab_size, window=WINDOW, tail=TAIL):
    """{"mean/avg": ..., ...}: every statistic aggregated over one trace in each of the four ways; None for an empty one."""
    if len(stats) == 0:
        return {f"{name}/{way}": None for name in STATISTICS for way in AGGREGATIONS}
    values = token_statistics(stats, vocab_size)  # [T, 7]
    sign = np.array([-1.0 if name in LOWER_IS_BETTER else 1.0 for name in STATISTICS])
    width = min(window, len(values))
    total = np.vstack([np.zeros(len(STATISTICS)), np.cumsum(values * sign, 0)])
    windows = np.sort((total[width:] - total[:-width]) / width, 0)  # full windows, stride 1, least confident first
    ways = {
        "avg": values.mean(0),
        "tail": values[-tail:].mean(0),
        "lowest": windows[0] * sign,
        "bottom10": windows[: max(1, len(windows) // 10)].mean(0) * sign,
    }
    return {f"{name}/{way}": float(ways[way][i]) for i, name in enumerate(STATISTICS) for way in AGGREGATIONS}


# ---------------------------------------------------------------------------------------------------------------------
# Problems: data sets by name, files by path

KINDS = ("code", "math", "text")
DATASETS = {}  # name -> function(limit) that returns problem rows; the sets from the Hub register here


def load_problems(dataset, limit=None):
    """Problem rows of a data set name, or of a .jsonl/.json file (.gz too) with {"prompt", "answer"} or {"prompt", "tests"}."""
    if str(dataset) in DATASETS:
        rows = DATASETS[str(dataset)](limit)
    elif Path(dataset).is_file():
        rows = read_problem_file(Path(dataset))
    else:
        die(f"unknown data set {str(dataset)!r}: no such file, and the known names are {', '.join(DATASETS)}")
    rows = rows[:limit]
    if not rows:
        die(f"{dataset}: no problems")
    ids = [row["id"] for row in rows]
    if len(set(ids)) != len(ids):
        die(f"{dataset}: {len(ids)} problems but only {len(set(ids))} different ids")
    return rows


def read_problem_file(path):
    if ".jsonl" in path.name:
        rows = read_jsonl(path, needs=("prompt",))
    else:
        with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8") as file:
            try:
                rows = json.load(file)
            except ValueError as error:
                die(f"{path}: not JSON ({error})")
    return [normalise_problem(row, f"{path}, problem {n + 1}", n) for n, row in enumerate(rows)]


def normalise_problem(row, where, number):
    """Fill in what a person may leave out: the id, and the kind from what is there to judge with."""
    row = {key: value for key, value in row.items() if value is not None}
    row.setdefault("id", str(number))
    row.setdefault("kind", "code" if "tests" in row else "math" if "answer" in row else "text")
    row["id"] = str(row["id"])
    if row["kind"] not in KINDS:
        die(f"{where}: kind {row['kind']!r} is none of {', '.join(KINDS)}")
    if not isinstance(row.get("prompt"), str):
        die(f"{where}: the field 'prompt' must be text")
    if "answer" in row:
        row["answer"] = str(row["answer"])
    return row


# ---------------------------------------------------------------------------------------------------------------------
# Prompts and answers

SYSTEM = {
    "math": "Solve the problem step by step. Put the final answer, and nothing else, in \\boxed{}.",
    "code": "Solve the task in Python. Give the whole program in one ```python code block.",
    "text": None,
}


def messages_for(problem):
    system = SYSTEM[problem["kind"]]
    return ([{"role": "system", "content": system}] if system else []) + [{"role": "user", "content": problem["prompt"]}]


def encode_prompt(tokenizer, problem):
    """Token ids of the prompt as the model's own chat template writes it; plain text where there is no template."""
    if tokenizer.chat_template is None:
        return tokenizer(problem["prompt"])["input_ids"]
    return tokenizer.apply_chat_template(messages_for(problem), add_generation_prompt=True, return_dict=True)["input_ids"]


def split_reasoning(text):
    """(reasoning, answer) of a response: <think> models and gpt-oss channels; a truncated reasoning has no answer ('')."""
    final = list(re.finditer(r"<\|channel\|>final[^<]*(?:<\|constrain\|>[^<]*)?<\|message\|>", text))
    if final:
        return text[: final[-1].start()], re.split(r"<\|(?:return|end|call)\|>", text[final[-1].end() :])[0]
    if "<|channel|>" in text:
        return text, ""
    if "</think>" in text:
        reasoning, _, answer = text.rpartition("</think>")
        return reasoning, answer
    if text.lstrip().startswith("<think>"):
        return text, ""
    return "", text


# ---------------------------------------------------------------------------------------------------------------------
# Models


def pick_device(name=None):
    import torch

    return name or ("cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu")


def load_model(name, device=None, dtype="auto", revision=None, trust_remote_code=False):
    """(model in eval mode on its device, tokenizer) from a folder or a Hub id; a mistake in the name is one line."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    if not Path(name).is_dir() and not re.fullmatch(r"[\w.-]+(/[\w.-]+)?", str(name)):
        die(f"model {name!r}: neither a folder nor a Hub id such as Qwen/Qwen3-1.7B")
    device = pick_device(device)
    if dtype == "auto" and device == "cpu":
        dtype = torch.float32  # bfloat16 is slow and noisy on most CPUs
    elif dtype != "auto":
        dtype = getattr(torch, dtype)
    options = {"revision": revision, "trust_remote_code": trust_remote_code}
    try:
        tokenizer = AutoTokenizer.from_pretrained(name, **options)
        model = AutoModelForCausalLM.from_pretrained(name, dtype=dtype, **options)
    except (OSError, ValueError, ImportError) as error:
        die(f"model {name!r} cannot be loaded: {str(error).strip().splitlines()[0]}")
    return model.to(device).eval(), tokenizer


# ---------------------------------------------------------------------------------------------------------------------
# Selection


def best_of_n(scores):
    """Index of the highest score along the last axis; ties go to the first, that is the lowest sample number."""
    return np.argmax(scores, -1)


def group_totals(groups, weights):
    """[..., N]: for each rollout the sum of the weights of all rollouts with its answer; -inf where it has no answer (-1)."""
    same = groups[..., :, None] == groups[..., None, :]  # [..., N, N]
    return np.where(groups >= 0, (same * weights[..., None, :]).sum(-1), -np.inf)


def weighted_vote(groups, weights, scores):
    """Index of the rollout that stands for the answer with the largest sum of weights: the best-scored one that gives it.

    groups [..., N]: the equality class of each answer as 02 judged it, -1 where there is no answer (it votes for nothing).
    Tied answers: the one with the better best score. No answer at all: best-of-N.
    """
    totals = group_totals(groups, weights)
    best = totals.max(-1, keepdims=True)
    winners = ~(totals < best * (1 - 1e-12))  # float sums of one set in another order are still a tie
    return best_of_n(np.where(winners, scores, -np.inf))


# ---------------------------------------------------------------------------------------------------------------------
# Tables for people


def table(header, rows):
    """Aligned text: the first column to the left, the others to the right; None is an empty cell."""
    cells = [["" if cell is None else str(cell) for cell in row] for row in [header, *rows]]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ["  ".join(c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))).rstrip() for row in cells]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])


def markdown_table(header, rows):
    lines = [header, ["---", *["--:"] * (len(header) - 1)], *rows]
    return "\n".join("| " + " | ".join("" if cell is None else str(cell) for cell in line) + " |" for line in lines)
