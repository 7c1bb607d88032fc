"""What two or more of the numbered scripts share: files, run folders, problems, prompts, models, statistics, scorers, selection.

Not a program. `sandbox_exec.py` does not use it; each numbered script imports from here and never from another script.
torch and transformers are imported inside the functions that need them, so that `-h` and plain text work stay instant.
"""

import glob
import gzip
import hashlib
import json
import math
import multiprocessing
import os
import platform
import random
import re
import select
import signal
import ssl
import sys
import threading
import time
import zlib
from contextlib import contextmanager, suppress
from datetime import date
from functools import cache, partial
from http.client import HTTPException
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from urllib.error import HTTPError
from urllib.parse import urlencode, urlsplit
from urllib.request import Request, getproxies, urlopen

# Threads that wait spin for microseconds, then give their core away: on a busy CPU endless spinning makes small models ten
# times slower, on an idle one not spinning at all makes them two times slower. Read by OpenMP when torch starts.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("GOMP_SPINCOUNT", "10000")

import numpy as np

# ---------------------------------------------------------------------------------------------------------------------
# Programs: how they end, and how far they are


def die(message):
    """End with one line for a person and exit code 2: bad input is theirs to mend, a traceback is a bug of ours."""
    print(f"error: {message}", file=sys.stderr)
    raise SystemExit(2)


def entry(main, kept):
    """Run a program's main. Ctrl-C is one line that says what is `kept` and exit code 130; `... | head` ends quietly."""
    interruptible(kept)
    try:
        main()
        sys.stdout.flush()
    except _Stopped:  # `with` has tidied up; taking torch down takes seconds on a busy machine, and no timer runs then
        os._exit(130)
    except BrokenPipeError:
        printed_to = select.poll()
        [printed_to.register(output, 0) for output in (1, 2)]
        if not printed_to.poll(0):  # nobody closed them: another pipe broke, which is a bug
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is still to print goes nowhere
        os.dup2(1, 2)
        raise SystemExit(128 + signal.SIGPIPE) from None


def interruptible(kept):
    """From here on Ctrl-C ends this process as `entry` says; for a script that does slow things before its main."""
    program = os.getpid()

    def stop(*_):
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        if os.getpid() != program:
            os._exit(130)  # a process that was forked; the first one speaks for all
        if os.environ.get("RANK", "0") == "0":
            print(f"\nstopped: {kept}", file=sys.stderr)
        for child in multiprocessing.active_children():
            child.kill()
        end = threading.Timer(1, os._exit, [130])  # what tidies up after itself gets this long
        end.daemon = True
        end.start()
        raise _Stopped(130)

    signal.signal(signal.SIGINT, stop)


class _Stopped(SystemExit):
    """Ctrl-C, on its way out."""


def progress(items=None, total=None, desc=None, unit="it", **options):
    """tqdm with a bar that names what it works on; to a file or a pipe a line, at most once a minute."""
    from tqdm import tqdm

    if sys.stderr.isatty():
        width = min(110, os.get_terminal_size(sys.stderr.fileno()).columns or 110)
        return tqdm(items, desc, total, unit=unit, ncols=width, delay=1, **options)
    plain = "{desc}: {n_fmt}/{total_fmt} " + unit + "s [{elapsed}<{remaining}, {rate_fmt}]"
    write = lambda text: text.strip() and print(text.strip(), file=sys.stderr, flush=True)  # whole lines for tqdm's \r
    lines = SimpleNamespace(write=write, flush=lambda: None)
    return tqdm(items, desc, total, unit=unit, file=lines, bar_format=plain, leave=False, delay=60, mininterval=60, miniters=0, **options)


# ---------------------------------------------------------------------------------------------------------------------
# Files


@contextmanager
def atomic(path, mode="w"):
    """Write a file whole: readers see the old file or the new one, never a part, whenever we are killed."""
    path, host = Path(path), platform.node()
    temporary = path.with_name(f".{path.name}.{host}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        for left in path.parent.glob(f".{glob.escape(path.name)}.{host}.*.tmp"):
            if not _runs(int(left.name.split(".")[-2])):  # killed while it wrote
                left.unlink(missing_ok=True)
        with open(temporary, mode, encoding=None if "b" in mode else "utf-8") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except (OSError, RuntimeError) as error:
        cause = error if isinstance(error, OSError) else error.__context__  # torch.save hides a full disk behind its own
        if not isinstance(cause, OSError):
            raise
        die(f"cannot write {path}: {cause.strerror or cause}; make room or choose another folder, then run again")
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def _runs(pid):
    try:
        os.kill(pid, 0)
    except OSError as error:
        return isinstance(error, PermissionError)
    return True


def write_json(path, value):
    with atomic(path) as file:
        file.write(json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def write_jsonl(path, rows):
    with atomic(path) as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n")


@contextmanager
def reading(path):
    """A text file, .gz too; whatever is wrong with it is one line."""
    try:
        with (gzip.open if str(path).endswith(".gz") else open)(path, "rt", encoding="utf-8-sig") as file:
            yield file
    except (UnicodeDecodeError, gzip.BadGzipFile, EOFError, zlib.error) as error:
        die(f"{path}: not a readable UTF-8 text file ({error})")
    except (ValueError, RecursionError) as error:
        die(f"{path}: not JSON ({error})")
    except OSError as error:  # missing, a folder, no right to read
        die(f"{path}: {str(error.strerror).lower()}")


def read_json(path):
    with reading(path) as file:
        return json.load(file)


def read_jsonl(path, needs=()):
    """The rows of a .jsonl file (.gz too); a bad line is named by its number. `needs`: fields every row must have, "this or that"."""
    return list(each_of_jsonl(path, needs))


def each_of_jsonl(path, needs=()):
    """The same, one at a time."""
    with reading(path) as file:
        yield from (_parse_line(f"{path}:{number}", line, needs) for number, line in enumerate(file, 1) if line.strip())


def _not_finite(name):
    raise ValueError(f"{name} is no number in JSON")


DECODER = json.JSONDecoder(parse_constant=_not_finite)


def _parse_line(where, line, needs):
    try:
        row = DECODER.decode(line)
    except (ValueError, RecursionError) as error:
        die(f"{where}: not JSON ({error})")
    if not isinstance(row, dict):
        die(f"{where}: a JSON object is expected, not {line.strip()[:40]}")
    if re.search(r"\\u[dD][89a-fA-F]", line) and re.search("[\ud800-\udfff]", json.dumps(row, ensure_ascii=False)):
        die(f"{where}: not valid Unicode (half of a surrogate pair)")
    missing = [field for field in needs if not any(name in row for name in field.split(" or "))]
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

    try:
        open(path, "rb").close()
        return torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except OSError as error:  # missing, no right to read
        die(f"{path}: {str(error.strerror or error).lower()}{_how_to_mend(path)}")
    except Exception as error:  # torch raises half a dozen types for a torn or foreign file; all mean the same to a person
        if isinstance(error, MemoryError) or "memory" in str(error).lower():
            die(f"{path}: not enough memory to read it; free some, then run again ({str(error).splitlines()[0]})")
        die(f"{path}: not a file this project wrote, or damaged ({type(error).__name__}){_how_to_mend(path)}")


def _how_to_mend(path):
    """The command that made a run makes what is missing in it again."""
    meta = Path(path).parent / "meta.json"
    if not meta.is_file():
        return "; delete it and run its step again" if Path(path).exists() else ""
    delete = f"delete {path} and " if Path(path).exists() else ""
    return f"; {delete}run again: {read_meta(meta.parent).get('command', '01_generate.py with the arguments in meta.json')}"


# ---------------------------------------------------------------------------------------------------------------------
# Run folders: one model, one problem set, one seed


def run_folder(out, model, dataset, seed):
    """runs/<model>/<dataset>/<seed>; a Hub id or a path gives its last part, a file its stem."""
    stem = Path(str(dataset)).name.split(".json")[0]
    return Path(out) / Path(str(model).rstrip("/")).resolve().name / stem / str(seed)


def read_meta(run):
    path = Path(run) / "meta.json"
    if not path.is_file():
        die(f"{run}: not a run folder (no meta.json); make one with 01_generate.py")
    meta = read_json(path)
    needs = {"model": str, "dataset": str, "seed": int, "n_layers": int, "vocab_size": int}
    missing = [name for name, kind in needs.items() if not isinstance(meta, dict) or not isinstance(meta.get(name), kind)]
    if missing:
        die(f"{path}: not what 01_generate.py wrote (no {missing[0]!r}); put the run's own back, or make the run again elsewhere")
    return meta


def hash_of_ids(problems):
    """What meta.json and problems.jsonl of one run share, also after an answer was mended."""
    return hashlib.sha256(json.dumps(sorted(row["id"] for row in problems)).encode()).hexdigest()[:16]


def read_rollouts(run):
    return list(each_rollout(run))


def each_rollout(run):
    """One at a time: the texts of a large run need not fit into memory."""
    path = Path(run) / "rollouts.jsonl"
    if not path.is_file():
        read_meta(run)  # ends here where there is no run at all
        die(f"{run}: generation is not finished (no rollouts.jsonl){_how_to_mend(path)}")
    yield from each_of_jsonl(path, needs=("id", "sample", "response"))


def read_labels(run, keys=None):
    """labels.jsonl in the order of `keys`."""
    path = Path(run) / "labels.jsonl"
    if not path.is_file():
        die(f"{run}: no labels.jsonl; run 02_label.py {run} first")
    rows = read_jsonl(path, needs=("id", "sample", "label"))
    strange = [row["label"] for row in rows if row["label"] not in (0, 1, None)]
    if strange:
        die(f"{path}: a label is 0, 1 or null, not {strange[0]!r} ({len(strange)} rows)")
    warn_of_old_labels(run)
    return align(rows, keys, path)


def warn_of_old_labels(run):
    """An answer may have been edited since; a copy of a run may look so too, hence no error."""
    labels, problems = Path(run) / "labels.jsonl", Path(run) / "problems.jsonl"
    if labels.is_file() and problems.is_file() and problems.stat().st_mtime > labels.stat().st_mtime:
        print(f"warning: {labels} is older than problems.jsonl; was an answer edited? 02_label.py {run} judges again", file=sys.stderr)


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
    """Every problem has rollouts and every rollout a problem, and meta.json is about these problems."""
    problems = read_jsonl(Path(run) / "problems.jsonl", needs=("id", "kind", "prompt"))
    if read_meta(run).get("ids", hash_of_ids(problems)) != hash_of_ids(problems):
        die(f"{run}: meta.json is of another run, problems.jsonl has other ids than it says; put the run's own back")
    known = {row["id"] for row in problems}
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


def watch_layers(model, layers, keep):
    """Hooks that call keep(column, output [B, T, d]) for the listed indices of `hidden_states`."""
    body, hooks = model.get_decoder(), []
    if not hasattr(body, "layers") or not hasattr(body, "norm"):
        die(f"{type(model).__name__} has no `layers` and `norm`, the places to read hidden vectors from")
    for column, index in enumerate(layers):
        if index == len(body.layers):
            hooks.append(body.norm.register_forward_hook(lambda _, __, out, c=column: keep(c, out)))
        else:  # what enters block `index` is what block `index - 1` gave; index 0: the embeddings
            hooks.append(body.layers[index].register_forward_pre_hook(lambda _, args, c=column: keep(c, args[0])))
    return hooks


def read_vectors(run, vector=DEFAULT_VECTOR):
    """(keys, hidden [R, d] memory-mapped in the model's dtype) of one named vector of a run."""
    path, meta = Path(run) / "hidden.pt", read_meta(run)
    stored, n_layers = load_pt(path), meta["n_layers"]
    if meta.get("width", stored["hidden"].shape[-1]) != stored["hidden"].shape[-1]:
        die(f"{run}: meta.json is of another run, of vectors {meta['width']} wide; hidden.pt has {stored['hidden'].shape[-1]}")
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


def token_stats(logits, tokens):
    """What is kept of a step: ten largest log-probabilities, the token's own, the vocabulary's mean. -> [B, 12]"""
    import torch

    log_p = logits.log_softmax(-1)
    kept = [log_p.topk(TOP_K).values, log_p.gather(1, tokens[:, None]), log_p.mean(-1, keepdim=True)]
    return torch.cat(kept, 1).clamp(-65504)  # float16's lowest


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
#
# A set by name: how many problems, how one becomes ours, and where they come from, the first that can be had: (repository,
# .jsonl files) through huggingface_hub, or (repository, config, split, where), what the Hub has only as parquet, from the
# dataset server, page by page into the assets folder of the Hub's cache: a stopped download goes on where it was.
# HF_HUB_OFFLINE=1 uses the caches alone; HF_ENDPOINT and HF_DATASETS_SERVER name other servers.


def humaneval_problem(row):
    prompt, name = row["prompt"], re.findall(r"^def (\w+)", row["prompt"], re.M)[-1]
    number = row["task_id"].split("/")[1]  # copies write Python/0
    return {"id": f"HumanEval/{number}", "kind": "code", "prompt": prompt, "tests": row["test"], "style": "check",
            "entry_point": name, "prelude": prompt, "solution": prompt + row["canonical_solution"]}


def kodcode_problem(row):
    """Only rows whose tests are about one function: its name is in the tests and often not in the question."""
    if len(row["test_info"] or ()) != 1:
        return None
    declaration = row["test_info"][0]["function_declaration"].strip()
    prompt = f"{row['question'].strip()}\n\nDeclare the function so:\n\n```python\n{declaration}\n```"
    return {"id": row["question_id"], "kind": "code", "prompt": prompt, "tests": row["test"], "style": "pytest",
            "entry_point": row["test_info"][0]["function_name"], "declaration": declaration, "solution": row["solution"]}


def bigcodebench_problem(row):
    prompt = row["complete_prompt"]  # imports, signature, docstring: a program by itself
    return {"id": row["task_id"], "kind": "code", "prompt": prompt, "tests": row["test"], "style": "unittest",
            "beside": True,  # the tests patch what the program imports
            "entry_point": row["entry_point"], "prelude": prompt, "solution": prompt + row["canonical_solution"]}


def math500_problem(row):
    return {"id": row["unique_id"], "kind": "math", "prompt": row["problem"], "answer": row["answer"]}


def aime_problem(row, year):
    """Answers are integers from 0 to 999, written 33, 033 or 204^\\circ; each copy names the fields in its own way."""
    row = {key.lower(): value for key, value in row.items()}
    place = re.search(r"(\d{4})[-_](?:AIME_)?(I+)[-_](?:Problems/Problem_)?(\d+)", f"{row.get('id')} {row.get('url')}")
    prompt = row.get("problem") or row.get("question") or row["prompt"][0]["content"]
    answer = re.search(r"\d+", str(row["answer" if "answer" in row else "label"]))[0]
    name = "-".join(place.groups()) if place else f"{year}-{row['row_idx'] + 1}"
    return {"id": name, "kind": "math", "prompt": prompt, "answer": str(int(answer))}


def openthoughts_math_problem(row):
    """Only rows whose reference ends in a boxed number, as in the paper's own 500."""
    text = row["ground_truth_solution"] or ""
    boxed = re.match(r"\s*\{\s*\$?(-?\d+(?:\.\d+)?)\$?\s*\}", text.rpartition("\\boxed")[2])
    return boxed and {"id": f"math/{row['row_idx']}", "kind": "math", "prompt": row["problem"], "answer": boxed[1]}


CALLS = """\
def check(candidate):
    call = getattr(candidate(), {name!r}) if isinstance(candidate, type) else candidate
    for arguments, expected in {cases!r}:
        result = call(*arguments)
        result = list(result) if isinstance(result, tuple) else result  # the cases are JSON, which has no tuples
        assert result == expected or [result] == expected
"""


def openthoughts_code_problem(row):
    """Only rows with test cases: texts in and out, or arguments and result where the cases name a function."""
    cases = json.loads(row["test_cases"] or "{}")
    inputs, outputs, name = cases.get("inputs"), cases.get("outputs"), cases.get("fn_name")
    if not inputs or not outputs or len(inputs) != len(outputs) or (name and not all(isinstance(x, list) for x in inputs)):
        return None
    problem = {"id": f"code/{row['row_idx']}", "kind": "code"}
    if name:
        starter = row["starter_code"] or f"def {name}("
        prompt = f"{row['problem'].strip()}\n\nStart from this code:\n\n```python\n{starter}\n```"
        tests = CALLS.format(name=name, cases=list(zip(inputs, outputs)))
        entry_point = "Solution" if "class Solution" in starter else name
        return problem | {"prompt": prompt, "tests": tests, "style": "check", "entry_point": entry_point}
    prompt = f"{row['problem'].strip()}\n\nThe program reads standard input and writes to standard output."
    as_text = lambda value: "\n".join(map(str, value)) if isinstance(value, list) else str(value)
    tests = {"inputs": [*map(as_text, inputs)], "outputs": [*map(as_text, outputs)]}
    return problem | {"prompt": prompt, "tests": tests, "style": "stdio"}


KODCODE, THOUGHTS = "KodCode/KodCode-Light-RL-10K", "open-thoughts/OpenThoughts-114k"
SETS = {
    "humaneval": (164, humaneval_problem,
                  ("openai/openai_humaneval", "openai_humaneval", "test"),
                  ("bigcode/humanevalpack", "data/python/data/humanevalpack.jsonl")),
    "kodcode": (1000, kodcode_problem, (KODCODE, "default", "train")),
    "bigcodebench-hard": (148, bigcodebench_problem, ("bigcode/bigcodebench-hard", "default", "v0.1.4")),
    "math500": (500, math500_problem,
                ("HuggingFaceH4/MATH-500", "test.jsonl"), ("HuggingFaceH4/MATH-500", "default", "test")),
    "aime24": (30, partial(aime_problem, year=2024),
               ("Maxwell-Jia/AIME_2024", "default", "train"), ("HuggingFaceH4/aime_2024", "default", "train"),
               ("zhuzilin/aime-2024", "aime-2024.jsonl")),
    "aime25": (30, partial(aime_problem, year=2025),
               ("opencompass/AIME2025", "aime2025-I.jsonl", "aime2025-II.jsonl"),
               ("MathArena/aime_2025", "default", "train")),
    "openthoughts-math": (500, openthoughts_math_problem, (THOUGHTS, "metadata", "train", "\"domain\"='math'")),
    "openthoughts-code": (500, openthoughts_code_problem, (THOUGHTS, "metadata", "train", "\"domain\"='code'")),
}  # fmt: skip
DATASETS = {name: (name,) for name in SETS} | {
    "aime": ("aime24", "aime25"),  # the paper's tables have them apart
    "openthoughts": ("openthoughts-math", "openthoughts-code"),
}


def load_problems(dataset, limit=None):
    """Problem rows of a data set's name or of a file of a person's own; the first `limit` of them."""
    names, rows = DATASETS.get(str(dataset), ()), []
    if len(names) > 1:
        print(f"{dataset}: {' and '.join(names)} as one set; each is a data set by itself, too", file=sys.stderr)
    for name in names:
        if limit is None or len(rows) < limit:
            rows += fetch(name, limit and limit - len(rows))
    if not names and not Path(dataset).is_file():
        die(f"unknown data set {str(dataset)!r}: no such file, and the known names are {', '.join(DATASETS)}")
    rows = (rows or read_problem_file(Path(dataset)))[:limit]
    if not rows:
        die(f"{dataset}: no problems")
    ids = [row["id"] for row in rows]
    if len(set(ids)) != len(ids):
        die(f"{dataset}: {len(ids)} problems but only {len(set(ids))} different ids")
    return rows


def fetch(name, limit):
    """The first `limit` problems of one set. Where a source has more than the set, they come from seeded random pages."""
    size, to_problem, *sources = SETS[name]
    reasons, wanted = [], min(size, limit or size)
    for repo, *place in sources:
        try:
            rows = hub_rows(repo, place) if place[0].endswith(".jsonl") else server_rows(size, repo, *place)
            problems = list(islice(filter(None, map(to_problem, rows)), wanted))
            if len(problems) < wanted:
                raise Unavailable(f"{len(problems)} problems instead of {wanted}")
        except (Unavailable, KeyError, OSError) as error:  # KeyError: the source names its fields in a new way
            reasons.append(f"https://huggingface.co/datasets/{repo} ({error})")
            continue
        print(f"{name}: {wanted} problems from {repo}", file=sys.stderr)
        return problems
    die(f"the data set {name} cannot be had: {'; '.join(reasons)}; or pass a .jsonl file of the problems instead")


class Unavailable(Exception):
    """A source cannot be had; the set's next one is tried, and the reasons reach the person if none works."""


def unreachable(server):
    """Why a server is not to be asked, known within seconds, or None: the libraries' own retries take half a minute."""
    from huggingface_hub.constants import is_offline_mode

    if is_offline_mode():
        return "HF_HUB_OFFLINE is set"
    thread, said = _call(server)
    thread.join(5)  # looking up the name has no timeout of its own
    return said[0] and f"{urlsplit(server).netloc} cannot be reached ({said[0]})"


@cache
def _call(server):
    """(the thread that asks a server for a sign of life, [what is wrong with it or None])"""
    said = ["no answer"]

    def ask():
        try:
            said[0] = None if getproxies() else urlopen(Request(f"{server}/api/", method="HEAD"), timeout=4).close()
        except (OSError, HTTPException) as error:
            cause = getattr(error, "reason", error)
            answers = isinstance(error, HTTPError) or isinstance(cause, (ssl.SSLError, ConnectionResetError, HTTPException))
            said[0] = None if answers else _reason(cause)

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    return thread, said


def _reason(error):
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}".rstrip(": ")


def hub_rows(repo, files):
    """The rows of .jsonl files of a data set on the Hub."""
    from huggingface_hub import constants, hf_hub_download
    from huggingface_hub.errors import GatedRepoError, LocalEntryNotFoundError
    from huggingface_hub.errors import HTTPError as HubError

    alone = unreachable(constants.ENDPOINT)
    try:
        paths = [hf_hub_download(repo, file, repo_type="dataset", local_files_only=bool(alone)) for file in files]
    except GatedRepoError:
        raise Unavailable("its terms must be accepted on that page, then `hf auth login`") from None
    except LocalEntryNotFoundError as error:
        raise Unavailable(f"not in the cache, and {alone or _reason(error.__cause__)}") from None
    except (HubError, OSError) as error:  # the second covers a full disk and no right to write
        raise Unavailable(_reason(error)) from None
    return ({**row, "row_idx": n} for n, row in enumerate(row for path in paths for row in read_jsonl(path)))


def server_rows(size, repo, config, split, where=""):
    """The rows of a data set on the Hub as the dataset server gives them; of more than `size` whole pages in a seeded order."""
    from huggingface_hub import cached_assets_path

    query = {"dataset": repo, "config": config, "split": split} | ({"where": where} if where else {})
    folder = cached_assets_path("scatr", namespace=repo, subfolder=re.sub(r"\W+", "-", f"{config} {split} {where}"))
    first = _server_page(folder, query, 0)
    offsets = list(range(0, first["num_rows_total"], PAGE))
    if first["num_rows_total"] > size:
        random.Random(PICK_SEED).shuffle(offsets)
    for offset in progress(offsets, desc=repo, unit="page", disable=all((folder / f"{o}.json").is_file() for o in offsets)):
        page = _server_page(folder, query, offset)
        if any(page[field] != first[field] for field in ("revision", "num_rows_total")):
            raise Unavailable(f"changed while it was being downloaded; delete {folder} and run again")
        yield from (row["row"] | {"row_idx": row["row_idx"]} for row in page["rows"])


PICK_SEED = 42
PAGE = 100  # rows; the most the dataset server gives at once


def _server_page(folder, query, offset):
    path = folder / f"{offset}.json"
    if path.is_file():
        return read_json(path)
    server = os.environ.get("HF_DATASETS_SERVER", "https://datasets-server.huggingface.co")
    if alone := unreachable(server):
        raise Unavailable(f"not in the cache, and {alone}")
    way = "filter" if "where" in query else "rows"
    page = _get_json(f"{server}/{way}?{urlencode(query | {'offset': offset, 'length': PAGE})}")
    expected = min(PAGE, page["num_rows_total"] - offset)
    if len(page["rows"]) != expected or any(row["truncated_cells"] for row in page["rows"]):
        raise Unavailable(f"the server gives {len(page['rows'])} of {expected} rows at {offset}, or cells cut short")
    write_json(path, page)
    return page


def _get_json(url, tries=6):
    """GET with the person's Hub token; 429 and 5xx are tried again after the wait the server asks for, no others."""
    from huggingface_hub import get_token
    from tqdm import tqdm

    headers = {"Authorization": f"Bearer {get_token()}"} if get_token() else {}
    for attempt in range(tries):
        wait = 2**attempt
        try:
            with urlopen(Request(url, headers=headers), timeout=60) as response:
                return json.load(response) | {"revision": response.headers.get("X-Revision")}
        except HTTPError as error:
            reason = f"{error.code} {error.headers.get('X-Error-Code', error.reason)}"
            if error.code in (401, 403, 404):
                raise Unavailable(f"{reason}: not there, or accept its terms on that page and `hf auth login`") from None
            if error.code not in (429, 500, 502, 503, 504) or "TooBigContent" in reason:
                raise Unavailable(reason) from None
            asked = error.headers.get("Retry-After", "")
            wait = int(asked) if asked.isdigit() else wait
        except (OSError, HTTPException, ValueError) as error:  # no connection, cut off, or half a page
            reason = _reason(error)
        if attempt + 1 < tries:
            tqdm.write(f"{urlsplit(url).netloc}: {reason}; trying again in {wait} s", file=sys.stderr)
            time.sleep(wait)
    raise Unavailable(f"{reason} after {tries} attempts (pages already here are kept)")


def read_problem_file(path):
    """JSON lines or a JSON list, also .gz: {"prompt", "answer"}, or for code {"prompt", "tests", "entry_point"}."""
    with reading(path) as file:
        rows = json.load(file) if file.read(1000).lstrip()[:1] == "[" and file.seek(0) == 0 else None
    needs = ("prompt or messages",)
    if rows is None:
        rows = read_jsonl(path, needs)
    else:  # one by one, as if they were lines
        rows = [_parse_line(f"{path}, problem {n + 1}", json.dumps(row), needs) for n, row in enumerate(rows)]
    return [normalise_problem(row, f"{path}, problem {n + 1}", n) for n, row in enumerate(rows)]


KINDS = ("code", "math", "text")


def normalise_problem(row, where, number):
    """Fill in what a person may leave out, or empty: the id, and the kind and style from what is there to judge with."""
    row = {"id": number, **{key: value for key, value in row.items() if value not in (None, "") and (value or key != "tests")}}
    row.setdefault("kind", "code" if "tests" in row else "math" if "answer" in row else "text")
    row["id"] = str(row["id"])
    if row["kind"] not in KINDS:
        die(f"{where}: kind {row['kind']!r} is none of {', '.join(KINDS)}")
    if "messages" in row:
        row["messages"] = plain_messages(row["messages"], where)
        row.setdefault("prompt", row["messages"][-1]["content"])
    if not isinstance(row.get("prompt"), str) or not row["prompt"].strip():
        die(f"{where}: the field 'prompt' must be text")
    for name in ("entry_point", "prelude", "solution"):
        if not isinstance(row.get(name, ""), str):
            die(f"{where}: the field {name!r} must be text")
    if "answer" in row:
        row["answer"] = str(row["answer"])
    if "tests" in row:
        row["tests"], row["style"] = _normalise_tests(row["tests"], row.get("style"), where)
    return row


def plain_messages(messages, where):
    """Chat messages with their content as text, which APIs also give in parts."""
    plain = lambda content: content if isinstance(content, str) else "".join(part["text"] for part in content)
    try:
        found = [{"role": message["role"], "content": plain(message["content"])} for message in messages]
    except (TypeError, KeyError):
        found = []
    if not found:
        die(f"{where}: 'messages' must be a list of {{\"role\": ..., \"content\": text}}")
    return found


def _normalise_tests(tests, style, where):
    texts = lambda value: isinstance(value, list) and all(isinstance(text, str) for text in value)
    if texts(tests):
        tests = "\n".join(tests)
    pairs = isinstance(tests, dict) and texts(tests.get("inputs")) and texts(tests.get("outputs"))
    if not isinstance(tests, str) and not (pairs and len(tests["inputs"]) == len(tests["outputs"])):
        die(f'{where}: \'tests\' must be Python text, or {{"inputs": [text, ...], "outputs": [text, ...]}} of one length')
    looks = [("check", r"^def check\("), ("unittest", r"\bTestCase\b"), ("pytest", r"^def test_"), ("assert", "")]
    if style not in (None, "auto", "stdio", *dict(looks)):
        die(f"{where}: style {style!r} is none of {', '.join(dict(looks))}, stdio")
    return tests, style or ("stdio" if pairs else next(name for name, sign in looks if re.search(sign, tests, re.M)))


# ---------------------------------------------------------------------------------------------------------------------
# Prompts and answers

TODAY = date(2025, 8, 5)  # the day that templates are told it is
SYSTEM = {
    "math": "Solve the problem step by step. Put the final answer, and nothing else, in \\boxed{}.",
    "code": "Solve the task in Python. Give the whole program in one ```python code block.",
    "text": None,
}


def messages_for(problem):
    if "messages" in problem:
        return problem["messages"]
    system = SYSTEM[problem["kind"]]
    user = {"role": "user", "content": problem["prompt"]}
    return [{"role": "system", "content": system}, user] if system else [user]


def encode_prompt(tokenizer, problem, thinking=True):
    """Token ids of the prompt as the model's own chat template writes it; plain text where it has none."""
    from jinja2 import TemplateError

    messages = messages_for(problem)
    if tokenizer.chat_template is None:
        return tokenizer("\n\n".join(message["content"] for message in messages))["input_ids"]
    render = partial(
        tokenizer.apply_chat_template,
        chat_template=stop_clock(tokenizer.get_chat_template()),
        add_generation_prompt=True,
        return_dict=True,
        enable_thinking=thinking,  # Qwen3; a template takes what it knows
        reasoning_effort="high" if thinking else "low",  # gpt-oss
    )
    for form in (messages, without_system(messages)):  # some templates, Gemma's for one, refuse a system message
        try:
            return render(form)["input_ids"]
        except TemplateError as error:
            refused = error
    die(f"the model's chat template does not work: {refused}")


def without_system(messages):
    """The system message as the beginning of the one after it; the turns of a chat stay turns."""
    if len(messages) < 2 or messages[0]["role"] != "system":
        return messages
    system, first, *rest = messages
    return [first | {"content": f"{system['content']}\n\n{first['content']}"}, *rest]


def stop_clock(template):
    """The template with a fixed date where it asks for today's (gpt-oss): vectors must not change with the day.

    The date goes into the text because transformers passes no functions to templates, so `strftime_now` stays its own.
    """
    return re.sub(r"strftime_now\(\s*(['\"])(.*?)\1\s*\)", lambda call: repr(TODAY.strftime(call[2])), template)


def sampling_defaults(model, tokenizer):
    """How the model's authors sample it and where it ends.

    What generation_config.json leaves out (OLMo-2: everything) is plain sampling, not the top-k of 50 of `generate`.
    """
    config = model.generation_config
    plain = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "repetition_penalty": 1.0}
    given = {name: getattr(config, name, None) for name in plain}
    sampling = plain | {name: value for name, value in given.items() if value is not None}
    eos = config.eos_token_id
    stop_ids = {tokenizer.eos_token_id, *(eos if isinstance(eos, list) else [eos])} - {None}
    if tokenizer.convert_tokens_to_ids("<|channel|>") not in (None, tokenizer.unk_token_id):
        stop_ids.discard(tokenizer.convert_tokens_to_ids("<|end|>"))  # gpt-oss: ends a message, the analysis too
    return sampling | {"stop_ids": sorted(stop_ids)}


def split_reasoning(text):
    """(reasoning, answer) of a response: <think> and gpt-oss channels; cut short while reasoning, the answer is ''."""
    final = list(re.finditer(r"<\|channel\|>final[^<]*(?:<\|constrain\|>[^<]*)?<\|message\|>", text))
    if final:
        return text[: final[-1].start()], re.split(r"<\|(?:return|end|call)\|>", text[final[-1].end() :])[0]
    if "<|channel|>" in text:
        return text, ""
    if re.match(r"(analysis|commentary)[^\W_]", text):  # channels with special tokens skipped: 'analysisWe ...'
        reasoning, final, answer = text.rpartition("assistantfinal")
        return (reasoning, answer) if final else (text, "")
    if "</think>" in text:
        reasoning, _, answer = text.rpartition("</think>")
        return reasoning, answer
    if text.lstrip().startswith("<think>"):
        return text, ""
    return "", text


# ---------------------------------------------------------------------------------------------------------------------
# Models


def pick_device(name=None):
    """The first kind of device there is; workers that torchrun or srun starts on one machine take its GPUs in turn."""
    import torch

    if name not in (None, "cuda"):
        try:
            torch.empty(0, device=name)
        except (RuntimeError, AssertionError) as error:  # no such device, or torch is built without it
            die(f"--device {name}: {str(error).splitlines()[0]}")
        return name
    if torch.cuda.is_available():
        worker = int(os.environ.get("LOCAL_RANK") or os.environ.get("SLURM_LOCALID") or 0)
        return f"cuda:{worker % torch.cuda.device_count()}"
    if name == "cuda":
        die("--device cuda: torch sees no CUDA device here")
    return "mps" if torch.backends.mps.is_available() else "cpu"


def device_name(device):
    """What a time is said to be measured on."""
    import torch

    device = torch.device(device)
    return torch.cuda.get_device_name(device) if device.type == "cuda" else f"{device.type}, {torch.get_num_threads()} threads"


def pick_dtype(dtype, device):
    """What transformers takes: "auto" is the type of the model's files, but on a CPU float32; bfloat16 is slow and noisy there."""
    import torch

    if dtype == "auto":
        return torch.float32 if device == "cpu" else "auto"
    return getattr(torch, dtype)


def load_model(name, device=None, dtype="auto", revision=None, trust_remote_code=False, move=True):
    """(model in eval mode on its device, tokenizer) from a folder or a Hub id; a mistake in the name is one line.

    move=False leaves it in main memory, in the type it would have on the device.
    """
    import torch
    import transformers
    from transformers import AutoModelForCausalLM, AutoTokenizer

    if not sys.stderr.isatty():
        transformers.utils.logging.disable_progress_bar()  # a log wants no bar of loading
    device = pick_device(device)
    config = load_config(name, revision, trust_remote_code)
    options = {"revision": revision, "trust_remote_code": trust_remote_code}
    if (getattr(config, "quantization_config", None) or {}).get("quant_method") == "mxfp4":  # gpt-oss as it is published
        from transformers import Mxfp4Config

        options["quantization_config"] = Mxfp4Config(dequantize=True)  # its 4-bit kernels are one more package
    with loading(name) as more:
        tokenizer = AutoTokenizer.from_pretrained(name, **options, **more())
        model = AutoModelForCausalLM.from_pretrained(name, dtype=pick_dtype(dtype, device), **options, **more())
    if not tokenizer("a")["input_ids"]:
        die(f"model {name!r}: its tokenizer makes nothing of the letter a; are the tokenizer's files there?")
    if device.startswith("cuda"):
        torch.cuda.set_device(device)  # streams and graphs belong to the current one
    return (model.to(device) if move else model).eval(), tokenizer


def load_config(name, revision=None, trust_remote_code=False):
    with loading(name) as more:
        from transformers import AutoConfig

        return AutoConfig.from_pretrained(name, revision=revision, trust_remote_code=trust_remote_code, **more())


def context_of(config):
    return getattr(config.get_text_config(), "max_position_embeddings", None) or 1 << 40  # further than any row reaches


@contextmanager
def loading(name):
    """Gives the options by which from_pretrained does not ask a Hub that is out of reach; what goes wrong is one line."""
    from huggingface_hub import constants
    from safetensors import SafetensorError

    local = Path(name).is_dir()
    alone = lambda: None if local else unreachable(constants.ENDPOINT)
    if not local and not re.fullmatch(r"[\w-]+|\w[\w.-]*/\w[\w.-]*", str(name)):
        die(f"model {name!r}: neither a folder here nor a Hub id such as Qwen/Qwen3-1.7B")
    if not local:
        _call(constants.ENDPOINT)  # it may answer while transformers is imported
    try:
        yield lambda: {"local_files_only": bool(alone())}
    except (OSError, ValueError, ImportError, RuntimeError, SafetensorError) as error:
        if isinstance(error, OSError) and alone():
            die(f"model {name!r}: no folder here, not in the cache, and {alone()}")
        die(f"model {name!r} cannot be loaded: {str(error).strip().splitlines()[0]}")


# ---------------------------------------------------------------------------------------------------------------------
# Scorers: rebuilt from scorer.pt

EXTRA_INPUTS = ("last10", "special")  # of extra.pt: the last ten tokens, and those that end a step
SPECIAL_KEPT = 32  # of an answer's special tokens the last this many are shown to a scorer


def model_name(meta):
    """The name that vectors of one model share: a Hub id and a folder give their last part."""
    return Path(str(meta["model"]).rstrip("/")).name


def model_content(meta):
    """What 01 wrote down of the model's files: a Hub commit or a hash; None where it could not."""
    return meta.get("identity", {}).get("model")


def read_inputs(run, vector=DEFAULT_VECTOR):
    """(keys, fetch): fetch(rows) gives float32 [rows, d], of several vectors [rows, S, d].

    rows: a slice or a list. vector: one name; `all/eos` for every layer captured at that token, in order;
    `last10` or `special` of extra.pt, where positions that do not exist are all zero.
    """
    if vector in EXTRA_INPUTS:
        return _read_extra(Path(run) / "extra.pt", vector)
    if not vector.startswith("all/"):
        keys, hidden = read_vectors(run, vector)
        return keys, lambda rows: hidden[rows].float()
    names = captured_layers(run, vector)
    keys, _ = read_vectors(run, names[0])
    stored = load_pt(Path(run) / "hidden.pt")
    columns = [stored["vectors"].index(name) for name in names]
    return keys, lambda rows: stored["hidden"][rows][:, columns].float()


def captured_layers(run, vector):
    """`all/eos` -> the names of every layer's vector captured at that token, from the first to the last."""
    token, path = vector.partition("/")[2], Path(run) / "hidden.pt"
    names = {vector_key(name, read_meta(run)["n_layers"]): name for name in load_pt(path)["vectors"]}
    found = [names[key] for key in sorted(names) if key[1] == token]
    if not vector.startswith("all/") or len(found) < 3:
        told = f"{vector!r} gives {len(found)} layers, too few to compare"
        die(f"{path}: {told}; write all/eos, and 01_generate.py --layers all")
    return found


def _read_extra(path, name):
    import torch

    stored = load_pt(path) if path.is_file() else {}
    if name not in stored:
        die(f"{path}: {name!r} is not there; 01_generate.py --extra {name} captures these vectors")
    keys = [tuple(key) for key in stored["keys"]]
    if name == "last10":
        return keys, lambda rows: stored["last10"][rows].float()
    ends = stored["special_offsets"].tolist()

    def fetch(rows):
        rows = range(len(keys))[rows] if isinstance(rows, slice) else [int(row) for row in rows]
        spans = [(max(ends[row], ends[row + 1] - SPECIAL_KEPT), ends[row + 1]) for row in rows]
        x = torch.zeros(len(spans), SPECIAL_KEPT, stored["special"].shape[-1])
        for row, (start, end) in enumerate(spans):
            x[row, SPECIAL_KEPT - (end - start) :] = stored["special"][start:end].float()
        return x

    return keys, fetch


def rollout_features(conf, n_tokens):
    """float32 [29], what SCaTR+ is shown beside the vector: the 28 statistics in their order, and the length.

    conf: one rollout's `conf` as 01 writes it, or confidence(...). A statistic that is missing is NaN.
    """
    names = [f"{name}/{way}" for name in STATISTICS for way in AGGREGATIONS]
    values = [math.nan if conf.get(name) is None else conf[name] for name in names]
    return np.array([*values, n_tokens], dtype=np.float32)


def read_features(run, keys):
    """float32 [R, 29] in the order of `keys`."""
    import torch

    found = {}
    for row in each_rollout(run):
        values = rollout_features(row.get("conf") or {}, row.get("n_tokens", math.nan))
        found[row["id"], row["sample"]] = values
    odd = sorted(found.keys() ^ set(keys))
    if odd:
        die(f"{run}: rollouts.jsonl and hidden.pt differ, first at {odd[0]}; run 01_generate.py again")
    return torch.from_numpy(np.stack([found[key] for key in keys]))


def build_scorer(design, config, shape, features=0):
    """The untrained module of a design: one logit a row; `shape` of a rollout's input: (d,) or (positions, d).

    features: the last so many of the d are token statistics.
    """
    if design.startswith("transformer"):
        return _transformer(config, *shape)
    knobs = [config[name] for name in ("hidden", "dropout", "input_dropout", "batch_norm")]
    of_vector = mlp(shape[-1] - features, *knobs)
    return _two_towers(of_vector, mlp(features, *knobs)) if features else of_vector


def mlp(width, hidden, dropout=0.0, input_dropout=0.0, batch_norm=False):
    """Input dropout; a hidden size: linear, (batch norm,) ReLU, dropout; one logit. No size: linear."""
    from torch import nn

    layers = [nn.Dropout(input_dropout)]
    for size in hidden:
        norm = [nn.BatchNorm1d(size)] if batch_norm else []
        layers += [nn.Linear(width, size), *norm, nn.ReLU(), nn.Dropout(dropout)]
        width = size
    return nn.Sequential(*layers, nn.Linear(width, 1), nn.Flatten(0))


def _two_towers(of_vector, of_features):
    import torch
    from torch import nn

    class TwoTowers(nn.Module):
        """The sum of two logits, one from the vector and one from the statistics.

        While it trains, half of the rows lose the vector's: each tower has to judge alone, and what the two
        have in common on one data set only is not learned.
        """

        def __init__(self):
            super().__init__()
            self.of_vector, self.of_features = of_vector, of_features
            self.width = of_vector[1].in_features

        def forward(self, x):  # [B, d + 29]
            logits = self.of_vector(x[:, : self.width])
            if self.training:
                logits = logits * (torch.rand_like(logits) < 0.5)
            return logits + self.of_features(x[:, self.width :])

    return TwoTowers()


def _transformer(config, positions, width):
    import torch
    from torch import nn

    class Encoder(nn.Module):
        """A transformer over positions; all-zero ones are absent, a learned first one gives the logit."""

        def __init__(self):
            super().__init__()
            size = config["width"]
            enter = nn.Dropout(config["input_dropout"]), nn.Linear(width, size), nn.LayerNorm(size)
            self.enter = nn.Sequential(*enter)
            self.place = nn.Parameter(torch.randn(positions + 1, size) * 0.02)
            layer = nn.TransformerEncoderLayer(
                size, 4, 2 * size, config["dropout"], batch_first=True, norm_first=True
            )
            self.encoder = nn.TransformerEncoder(layer, config["depth"], enable_nested_tensor=False)
            self.leave = nn.Sequential(nn.LayerNorm(size), nn.Linear(size, 1), nn.Flatten(0))

        def forward(self, x):  # [B, positions, d]
            absent = nn.functional.pad((x == 0).all(-1), (1, 0))  # the learned position is always there
            x = nn.functional.pad(self.enter(x), (0, 0, 1, 0)) + self.place
            return self.leave(self.encoder(x, src_key_padding_mask=absent)[:, 0])

    return Encoder()


class Scorer:
    """scorer.pt as a function: vectors [R, d] or [R, S, d] of any float type -> logits [R], higher is better.

    One that `.takes_features` (SCaTR+) also needs features [R, 29], rows of rollout_features(conf, n_tokens);
    others ignore them, so that one call serves both. `.checkpoint` holds all that is known about it. The logits
    of its members are averaged; the parts of an ensemble, one a layer, are mixed.
    """

    def __init__(self, checkpoint, device="cpu"):
        self.checkpoint, self.device = checkpoint, device
        self.model, self.vector = checkpoint["model"], checkpoint["vector"]
        self.shape = tuple(checkpoint["shape"])
        self.takes_features = checkpoint.get("inputs") == "vector+stats"
        self.parts = [Scorer(part, device) for part in checkpoint.get("parts", [])]
        self.modules = [module for part in self.parts for module in part.modules]
        features = len(checkpoint["feature_scale"][0]) if self.takes_features else 0
        shape = (*self.shape[:-1], self.shape[-1] + features)
        for member in checkpoint["members"]:
            module = build_scorer(checkpoint["design"], member["config"], shape, features)
            module.load_state_dict(member["state"])
            self.modules.append(module.eval().to(device))

    def __call__(self, hidden, features=None):
        import torch

        if self.takes_features and features is None:
            raise TypeError("this scorer is called as scorer(hidden, features): see common.rollout_features")
        with torch.inference_mode():
            if self.parts:
                logits = torch.stack([part(hidden[:, i]) for i, part in enumerate(self.parts)], 1)
                return mixture(logits, self.checkpoint["weights"].to(self.device))
            x = hidden.to(self.device).float()  # widened first: bfloat16 rounds
            x = standardise(x, self.checkpoint["scale"])
            if self.takes_features:
                x = with_features(x, torch.as_tensor(features), self.checkpoint["feature_scale"])
            return torch.stack([module(x) for module in self.modules]).mean(0)

    def probability(self, logits):
        """Of being right: the sigmoid, after the line that was fitted where the objective only ranks."""
        slope, offset = self.checkpoint["calibration"]
        return (slope * logits + offset).sigmoid()


def mixture(logits, weights):
    """[R, parts] -> [R]: the logit of the mixed probability; a sigmoid is exactly 1 from 17.5 on."""
    from torch.nn.functional import logsigmoid

    yes, no = (logsigmoid(sign * logits).add(weights.log()).logsumexp(1) for sign in (1, -1))
    return yes - no


def standardise(x, scale):
    """(x - mean) / deviation per dimension; absent positions (all zero) stay so. No scale: x as it is."""
    if scale is None:
        return x
    mean, deviation = (part.to(x.device) for part in scale)
    y = (x - mean) / deviation
    return y if x.ndim == 2 else y * (x != 0).any(-1, keepdim=True)


def with_features(x, features, scale):
    """[R, d] and [R, 29] -> [R, d + 29]: the statistics standardised, a missing one at the training mean."""
    import torch

    mean, deviation = scale
    return torch.cat([x, ((features - mean) / deviation).nan_to_num(0.0).to(x)], 1)


def load_scorer(path, device="cpu"):
    checkpoint = load_pt(path)
    if not isinstance(checkpoint, dict) or "members" not in checkpoint:
        die(f"{path}: not a scorer; 03_train_scorer.py makes one")
    return Scorer(checkpoint, device)


def check_scorer_fits(scorer, meta, path):
    """A scorer of another model or layer numbering is an error that names both; score_run sees the width."""
    made_for = scorer.model, scorer.checkpoint["layers_of_model"]
    given = model_name(meta), meta["n_layers"]
    if made_for != given:
        told = [f"{name!r} ({layers} layers)" for name, layers in (made_for, given)]
        die(f"{path}: made for the model {told[0]}, the run is of {told[1]}; train one on a run of it")
    files, run_files = scorer.checkpoint["model_content"], model_content(meta)
    if None not in (files, run_files) and files != run_files:  # a Hub id and a copy differ too, so no error
        told = f"{path} was made with {scorer.model} as {files}, the run with {run_files}"
        print(f"warning: {told}; are the weights the same?", file=sys.stderr)


def score_run(scorer, run, path="the scorer", chunk=4096):
    """(keys, logits [R]) of a whole run, `chunk` rollouts in memory at a time."""
    import torch

    check_scorer_fits(scorer, read_meta(run), path)
    keys, fetch = read_inputs(run, scorer.vector)
    features = read_features(run, keys) if scorer.takes_features else None
    logits = torch.empty(len(keys))
    for start in range(0, len(keys), chunk):
        x = fetch(slice(start, start + chunk))
        if tuple(x.shape[1:]) != scorer.shape:
            made_for = f"vectors {scorer.vector} of shape {scorer.shape}"
            die(f"{path}: made for {made_for}, {run} has {tuple(x.shape[1:])}")
        rows = slice(start, start + len(x))
        logits[rows] = scorer(x, features[rows] if scorer.takes_features else None).cpu()
    bad = [keys[i] for i in (~logits.isfinite()).nonzero().flatten().tolist()]
    if bad:
        told = f"{len(bad)} rollouts have vectors that are not finite, such as {bad[:3]}"
        die(f"{run}: {told}; generate them again")
    return keys, logits


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


def first_of_subset(total, n):
    """[total]: the chance that the r-th best of `total` rollouts is the best of a random n-subset (r from 0)."""
    n = min(n, total)
    return np.array([math.comb(total - 1 - r, n - 1) / math.comb(total, n) for r in range(total)])


def auroc(right, scores):
    """The chance that a right answer scores above a wrong one, ties half; None with a single class. right: bool [R]."""
    wins = right.sum() * (~right).sum()
    if wins == 0:
        return None
    _, inverse, counts = np.unique(scores, return_inverse=True, return_counts=True)
    mean_rank = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    return float((mean_rank[right].sum() - right.sum() * (right.sum() + 1) / 2) / wins)


# ---------------------------------------------------------------------------------------------------------------------
# Stopping: a problem's rollouts start in waves; after each a rule says how sure it is, until that is enough

STOP_RULES = ("best-of-n", "weighted-vote")
ORDERS = 32  # random orders of a problem's rollouts that the replay of a vote averages over
NEVER = 2.0  # a threshold that no rule reaches
GAUSS = np.polynomial.legendre.leggauss(64)  # nodes and weights on [-1, 1]


def waves(n):
    """How many rollouts there are after each wave: 1, 2, 3, 5, 8, 12, 16; half as many again, up to n."""
    ends = [1]
    while ends[-1] < n:
        ends.append(min(n, max(ends[-1] + 1, math.ceil(1.5 * ends[-1]))))
    return ends


def sureness(p, groups=None):
    """How sure a rule is of its pick so far: p, groups [..., k] -> (sure [...] in [0, 1], pick [...]).

    Best-of-n: the best probability. Weighted vote, where groups are given: the chance that the leading answer
    stays ahead of the second, that of a Beta(1 + weight of the first, 1 + weight of the second) above one half.
    """
    if groups is None:
        return p.max(-1), best_of_n(p)
    pick, totals = weighted_vote(groups, p, p), group_totals(groups, p).clip(0)
    leads = groups == np.take_along_axis(groups, pick[..., None], -1)
    first, second = (np.where(answer, totals, 0).max(-1)[..., None] for answer in (leads, ~leads))
    x, weights = GAUSS
    below, above = ((weights * u**first * (1 - u) ** second).sum(-1) for u in ((x + 1) / 4, (x + 3) / 4))
    return above / (below + above), pick


def stop_curve(p, labels, tokens, groups=None, thresholds=None):
    """Sampling that stops, replayed on rollouts [P, N] that are all there; p is -1 where a problem has fewer.

    -> {"threshold": [T], "right", "rollouts" and "tokens": [T, P], "error": [T]}, expectations over the orders in
    which the rollouts may come: best-of-n in closed form, votes over seeded orders, with the standard error of
    their accuracy. Without `thresholds` a grid of them; its last is NEVER, which takes all rollouts.
    """
    if thresholds is None:
        parts = [(p[:, :end], None if groups is None else groups[:, :end]) for end in waves(p.shape[1])]
        grid = np.quantile([sureness(*part)[0] for part in parts], np.linspace(0, 1, 101))
        thresholds = np.append(np.unique(grid), NEVER)
    if groups is None:
        replay, error = replay_best(p, labels, tokens, thresholds), np.zeros(len(thresholds))
    else:
        replay = replay_vote(p, groups, labels, tokens, thresholds)
        error = replay[:, 0].mean(-1).std(0, ddof=1) / math.sqrt(ORDERS)
    right, rollouts, spent = replay.mean(0)
    return {"threshold": thresholds, "right": right, "rollouts": rollouts, "tokens": spent, "error": error}


def replay_best(p, labels, tokens, thresholds):
    """[1, 3, T, P]: of each threshold and problem the chance to be right, rollouts and tokens; exact."""
    order = np.argsort(-p, 1, kind="stable")
    labels, tokens = (np.take_along_axis(x, order, 1) for x in (labels, tokens))
    totals, hits = (p >= 0).sum(1), ((p >= thresholds[:, None, None]) & (p >= 0)).sum(-1)  # [P], [T, P]
    found = np.empty((3, len(thresholds), len(p)))
    for n in set(totals.tolist()):
        rows = totals == n
        weights = np.array([stop_weights(n, h) for h in range(n + 1)])[hits[:, rows]]  # [T, rows, 2, n]
        picked, sampled = weights[:, :, 0], weights[:, :, 1]
        spent = (sampled * tokens[rows, :n]).sum(-1)
        found[:, :, rows] = (picked * labels[rows, :n]).sum(-1), sampled.sum(-1), spent
    return found[None]


@cache
def stop_weights(total, hits):
    """Chances of the r-th best rollout, `hits` of `total` at the threshold: to be picked, to be sampled at all.

    Counts the orders: a wave from s to e is the first with a hit, and the r-th best is the best one in it.
    """
    spans = list(zip([0, *waves(total)], waves(total)))
    picked, sampled = np.zeros(total), np.zeros(total)
    picked[0] = hits == 0
    for r in range(total):
        others = hits - (r < hits)  # none of them may come before the wave that r is in
        ways = sum((e - s) * math.perm(total - s - 1, others) for s, e in spans)
        sampled[r] = ways / math.perm(total, others + 1)
        if r < hits:  # the r better ones come after that wave, the others in it or after it
            after = ((s, e, math.perm(total - e, r)) for s, e in spans if r <= total - e)
            ways = sum((e - s) * better * math.perm(total - s - 1 - r, others - r) for s, e, better in after)
            picked[r] = ways / math.perm(total, hits)
    return picked, sampled


def replay_vote(p, groups, labels, tokens, thresholds):
    """[ORDERS, 3, T, P]: the same for a weighted vote, over random orders."""
    rng, ends, found = np.random.default_rng(0), waves(p.shape[1]), []
    for _ in range(ORDERS):
        order = np.argsort(rng.random(p.shape) + (p < 0), 1)  # what is not there comes last
        q, g, right, cost = (np.take_along_axis(x, order, 1) for x in (p, groups, labels, tokens))
        sure, picks = zip(*(sureness(q[:, :end], g[:, :end]) for end in ends))
        sure = np.stack([*sure[:-1], np.full(len(p), np.inf)])  # [W, P]
        first = (sure[:, None] >= thresholds[:, None]).argmax(0)  # [T, P], the wave
        picked = np.take_along_axis(right, np.stack(picks, 1), 1)  # [P, W]
        so_far = (np.cumsum(x, 1)[:, np.array(ends) - 1] for x in (q >= 0, cost))
        found.append([np.take_along_axis(x.T, first, 0) for x in (picked, *so_far)])
    return np.array(found)


def stop_rows(p, labels, tokens, groups=None):
    """What scorer.pt keeps of a curve: rows [threshold, accuracy %, below, rollouts, tokens], a problem.

    below: points below the best row, and one standard error over problems more, as few problems must tell.
    """
    curve = stop_curve(p, labels, tokens, groups)
    right = 100 * curve["right"]
    lost = right[right.mean(1).argmax()] - right  # [T, P]
    below = lost.mean(1) + lost.std(1) / math.sqrt(len(p))
    means = (curve[name].mean(1) for name in ("rollouts", "tokens"))
    return np.stack([curve["threshold"], right.mean(1), below, *means], 1).tolist()


def stop_threshold(rows, price=1.0):
    """The cheapest of `stop_rows` at most `price` points below the best, and so below all N rollouts."""
    return min((tokens, rollouts, t) for t, _, below, rollouts, tokens in rows if below <= price)[2]


# ---------------------------------------------------------------------------------------------------------------------
# Answers in your own code


def sample(model, tokenizer, prompt, n=16, scorer=None, max_new_tokens=4096, **sampling):
    """n answers, best first: [{"text", "score", "p", "tokens", "finish", "hidden", "conf"}]; p: to be right.

    prompt: a text, or a problem such as {"kind": "math", "prompt": ...}, whose kind says what the model is told
    beside it. It is sampled as its authors set it, unless temperature=, top_k=, top_p= or repetition_penalty= say
    otherwise; torch.manual_seed makes it repeatable. No scorer: no score, no p, and the order of sampling.
    """
    import torch

    problem = normalise_problem({"prompt": prompt} if isinstance(prompt, str) else prompt, "prompt", 0)
    ids, config = list(encode_prompt(tokenizer, problem)), model.config.get_text_config()
    limit = min(max_new_tokens, context_of(config) - len(ids))
    if not ids or limit < 1:
        die(f"a prompt of {len(ids)} tokens has no room for an answer in a context of {context_of(config)}")
    if scorer:
        meta = {"model": model.name_or_path, "n_layers": config.num_hidden_layers}
        check_scorer_fits(scorer, meta, "the scorer")
    layer, token = vector_key(scorer.vector if scorer else DEFAULT_VECTOR, config.num_hidden_layers)
    answers = generate_rows(model, ids, n, limit, layer, sampling_defaults(model, tokenizer) | sampling)
    for answer in answers:
        kept = answer["tokens"][:-1] if answer["finish"] == "stop" else answer["tokens"]
        answer["text"] = tokenizer.decode(kept, skip_special_tokens=False, clean_up_tokenization_spaces=False)
        answer["hidden"] = answer["hidden"][TOKENS.index(token)]
        answer["conf"] = confidence(answer.pop("stats").numpy(), config.vocab_size)
    if scorer:
        features = np.stack([rollout_features(answer["conf"], len(answer["tokens"])) for answer in answers])
        logits = scorer(torch.stack([answer["hidden"] for answer in answers]), features).cpu()
        for answer, score, p in zip(answers, logits.tolist(), scorer.probability(logits).tolist()):
            answer.update(score=score, p=p)
    return sorted(answers, key=lambda answer: -answer.get("score", 0))


def generate_rows(model, ids, n, limit, layer, sampling):
    """n rollouts of a prompt by model.generate: {"tokens", "finish", "hidden" [2, d] at last and eos, "stats"}.

    Hooks keep the newest vector of each row, and the raw logits of the step. A row lives one step longer than its
    last token, as in 01_generate.py, for the vector at that token: so `generate` is not told of the end tokens.
    """
    import torch

    width, device, newest, stats = model.config.get_text_config().hidden_size, model.device, {}, []
    hooks = watch_layers(model, [layer], lambda _, out: newest.update(hidden=out[:, -1]))
    keep_logits = lambda _, __, out: newest.update(logits=out.logits[:, -1].float())
    hooks.append(model.register_forward_hook(keep_logits))
    hidden = torch.zeros(n, 2, width, dtype=model.dtype, device=device)
    live, count = torch.ones(n, dtype=bool, device=device), torch.zeros(n, dtype=int, device=device)
    stopped, stop_ids = ~live, torch.tensor(sampling["stop_ids"], device=device)

    def after_step(tokens, *_, **__):
        for place, rows in enumerate((live & ~stopped, live)):
            hidden[:, place] = newest["hidden"].where(rows[:, None], hidden[:, place])
        stats.append(token_stats(newest["logits"], tokens[:, -1]).half())
        live.logical_and_(~stopped & (count < limit))  # the others have just had their one step more
        count.add_(live)
        stopped.logical_or_(live & torch.isin(tokens[:, -1], stop_ids))
        return ~live

    knobs = ("temperature", "top_k", "top_p", "repetition_penalty") if sampling["temperature"] else ()
    options = {name: sampling[name] for name in knobs} | {"do_sample": bool(knobs), "num_beams": 1}
    prompt = torch.tensor([ids] * n, device=device)
    options |= {"max_new_tokens": limit + 1, "stopping_criteria": [after_step], "eos_token_id": None}
    try:
        tokens = model.generate(prompt, attention_mask=torch.ones_like(prompt), **options)
    finally:
        for hook in hooks:
            hook.remove()
    finish, tokens = ["stop" if end else "length" for end in stopped.tolist()], tokens[:, len(ids) :].tolist()
    rows = zip(tokens, finish, hidden, torch.stack(stats, 1).cpu(), count.tolist())
    return [{"tokens": t[:k], "finish": end, "hidden": h, "stats": s[:k]} for t, end, h, s, k in rows]


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
    return "\n".join("| " + " | ".join("" if cell is None else str(cell).replace("|", "\\|") for cell in line) + " |" for line in lines)
