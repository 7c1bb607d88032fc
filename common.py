"""What the numbered scripts share; not a program. The headings name its parts, in reading order."""

from __future__ import annotations  # they name torch, which is imported when it is first used

import argparse
import fcntl
import glob
import hashlib
import importlib
import json
import math
import multiprocessing
import os
import random
import re
import signal
import sys
import tempfile
from collections import Counter, namedtuple
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from datetime import date
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace

# How long torch's threads spin while they wait: with endless spinning small models are ten times slower on a
# busy CPU, without any they are two times slower on an idle one. torch reads this when it starts.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("GOMP_SPINCOUNT", "10000")


class Later:
    """A package that is imported when it is first used, so that -h answers at once and without it."""

    def __init__(self, package):
        self.package = package

    def __getattr__(self, name):
        value = self.__dict__[name] = getattr(importlib.import_module(self.package), name)
        return value  # from now on it is found without this method


np = Later("numpy")
torch = Later("torch")

# ---- Errors and progress -----------------------------------------------------------------------------------


class BadInput(Exception):
    """A file or an argument cannot be used. The message is a sentence that says why, and what to do."""


def die(message: str):
    """Raise BadInput, which other programs can catch and `entry` prints as one line."""
    raise BadInput(message) from None


def warn(message: str):
    print(f"warning: {message}", file=sys.stderr)


def argument_parser(description: str, prog: str | None = None) -> argparse.ArgumentParser:
    """Return a parser whose help stands as written, and which refuses in one line, without its usage."""
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog, description=description, formatter_class=form, allow_abbrev=False)

    def refuse(message):
        die(f"{parser.prog}: {message} (-h explains)")

    parser.error = refuse
    return parser


def entry(main: Callable, kept: str):
    """Run `main` as a command: bad input is one line and exit code 2, Ctrl-C a line of what is `kept`."""
    signal.signal(signal.SIGINT, partial(end_at_ctrl_c, os.getpid(), kept))
    try:
        main()
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of the output has ended, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the flush when Python ends
        raise SystemExit(1) from None
    except (BadInput, ModuleNotFoundError) as error:
        advice = ""
        if isinstance(error, ModuleNotFoundError):
            advice = "; type `source .venv/bin/activate`, or `pip install -r requirements.txt`, and try again"
        print(f"error: {error}{advice}", file=sys.stderr)
        raise SystemExit(2) from None


def end_at_ctrl_c(program, kept, *_):
    """End the program and its workers. Only the program prints a line, and under torchrun only rank 0."""
    if os.getpid() == program:
        if os.environ.get("RANK", "0") == "0":
            print(f"\nstopped: {kept}", file=sys.stderr)
        for child in multiprocessing.active_children():
            child.kill()
    os._exit(130)  # without the interpreter's clean-up, which takes seconds for torch on a busy machine


def progress(items: Iterable | None = None, total: int | None = None, desc: str = "", unit: str = "it"):
    """Return tqdm's bar; in a file or a pipe it is a line at most once a minute."""
    from tqdm import tqdm

    options = {"delay": 1}
    if not sys.stderr.isatty():
        form = "{desc}: {n_fmt}/{total_fmt} [{elapsed}<{remaining}, {rate_fmt}]\n"
        options = {"delay": 60, "mininterval": 60, "miniters": 0, "bar_format": form, "leave": False}
    return tqdm(items, total=total, desc=desc, unit=unit, **options)


# ---- Files -------------------------------------------------------------------------------------------------

WHEN_MISSING = {
    "meta.json": "; 01_generate.py makes it",
    "rollouts.jsonl": "; 01_generate.py makes it when a run is finished",
    "labels.jsonl": "; 02_label.py makes it",
}
WHEN_DAMAGED = "if 01 to 05 made it, delete it and run that script again"
ONE_A_LINE = f"give one object a line; {WHEN_DAMAGED}"


@contextmanager
def atomic(path: str | Path, mode: str = "w"):
    """Write a file whole: a killed program leaves the old file or the new one, never a part of one."""
    path = Path(path)
    of_this_machine = f".{path.name}.{os.uname().nodename}."
    temporary = path.with_name(f"{of_this_machine}{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        for left in path.parent.glob(f"{glob.escape(of_this_machine)}*.tmp"):
            if not Path("/proc", left.name.split(".")[-2]).exists():
                left.unlink(missing_ok=True)  # of a process that was killed
        with open(temporary, mode, encoding=None if "b" in mode else "utf-8") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except (OSError, RuntimeError) as error:
        cause = error if isinstance(error, OSError) else error.__context__  # torch.save wraps a full disk's
        if not isinstance(cause, OSError):
            raise
        die(f"cannot write {path}: {reason_of(cause)}; make room or choose another place, run again")
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def write_json(path: str | Path, value: dict):
    with atomic(path) as file:
        file.write(json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def write_jsonl(path: str | Path, rows: Iterable[dict]):
    with atomic(path) as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n")


def save_pt(path: str | Path, value):
    with atomic(path, "wb") as file:
        torch.save(value, file)


def read_json(path: str | Path, needs: tuple = ()) -> dict:
    """Return the JSON object of a file. `needs`: fields it must have."""
    with open_text(path) as file:
        return parse_object(file.read(), path, needs)


def read_jsonl(path: str | Path, needs: tuple = ()) -> list[dict]:
    return list(each_row(path, needs))


def each_row(path: str | Path, needs: tuple = ()) -> Iterator[dict]:
    """Yield the objects of a file of JSON lines, or of one JSON list."""
    with open_text(path) as file:
        is_list = file.read(1000).lstrip().startswith("[")
        file.seek(0)
        lines = map(json.dumps, parse(file.read(), path)) if is_list else file
        for number, line in enumerate(lines, 1):
            if line.strip():
                yield parse_object(line, f"{path}:{number}", needs)


@contextmanager
def open_text(path):
    """Open a file of UTF-8 text to read it, or refuse it and say why."""
    try:
        with open(path, encoding="utf-8-sig") as file:
            yield file
    except OSError as error:
        advice = "" if Path(path).exists() else WHEN_MISSING.get(Path(path).name, "")
        die(f"{path}: {reason_of(error)}{advice}")
    except UnicodeDecodeError as error:
        die(f"{path}: not JSON in UTF-8 text ({error})")


def parse(text, where, advice=ONE_A_LINE):
    try:
        value = json.loads(text, parse_constant=lambda name: die(f"{where}: JSON has no {name}; write null"))
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode()  # raises for half of a surrogate pair
        return value
    except (ValueError, RecursionError) as error:
        die(f"{where}: not JSON ({error}); {advice}")


def parse_object(text: str, where: str | Path, needs: tuple = (), advice: str = ONE_A_LINE) -> dict:
    """Return a JSON object that has the fields `needs`; where: its place, for messages."""
    row = parse(text, where, advice)
    if not isinstance(row, dict):
        die(f"{where}: a JSON object is expected, not {text.strip()[:40]}")
    for field in needs:
        if field not in row:
            die(f"{where}: the field {field!r} is missing; it has only {', '.join(row) or 'no fields'}")
    return row


def load_pt(path: str | Path):
    """Return the content of a file, of which only what is used is read; no code in it runs."""
    load = torch.load  # outside of try: where torch is missing, the file is not to blame
    if not Path(path).is_file():
        die(f"{path}: no such file")
    try:
        return load(path, map_location="cpu", weights_only=True, mmap=True)
    except Exception as error:  # torch raises half a dozen types for a torn or foreign file
        die(f"{path}: damaged, or not of these scripts ({type(error).__name__}); {WHEN_DAMAGED}")


def check_writable(folder: str | Path):
    """Refuse a folder that cannot be written into, before any work."""
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        die(f"cannot write into {folder}: {reason_of(error)}; choose another place")


def reason_of(error: Exception) -> str:
    """Return what an error says, in one line."""
    response = getattr(error, "response", None)  # of a request to the Hub
    if getattr(response, "status_code", None) in (401, 403, 404):
        return "not there, or its terms must be accepted on that page, then `hf auth login`"
    if getattr(error, "strerror", None):  # such as: no such file, permission denied
        return error.strerror.lower()
    return f"{type(error).__name__}: {str(error).strip()}".splitlines()[0]


# ---- Run folders: one model, one problem set, one seed -----------------------------------------------------


def short_name(dataset: str) -> str:
    """Return the folder's name of a data set: of a file its name without the ending."""
    return Path(str(dataset)).name.split(".json")[0]


def read_meta(run: str | Path) -> dict:
    return read_json(Path(run) / "meta.json", needs=("model", "dataset", "seed", "n_layers", "vocab_size"))


def sampling_of(meta: dict) -> dict:
    """Return {setting: value} of a run's sampling; {} where its answers were made elsewhere."""
    if "sampling" not in meta or meta.get("arguments", {}).get("responses"):
        return {}
    settings = {name: value for name, value in meta["sampling"].items() if name != "stop_ids"}
    settings["max_new_tokens"] = meta.get("stamp", {}).get("max_new_tokens")
    return settings


def model_name(name: str) -> str:
    """Return the last part of a Hub id or a folder; of a cached models--ORG--NAME/snapshots/HASH NAME."""
    path = Path(name).resolve()
    is_cached = path.parent.name == "snapshots"
    return path.parent.parent.name.rpartition("--")[2] if is_cached else path.name


def model_stamp(name: str, revision: str | None = None) -> str | None:
    """Return a stamp of a model's config and some of its weights, wherever they are; None if not here."""
    folder = model_folder(name, revision)
    if folder is None:
        return None
    weights = folder.glob("model*.safetensors"), folder.glob("pytorch_model*.bin")
    files = sorted(weights[0]) or sorted(weights[1])  # transformers, too, prefers the first
    is_whole = files and ("-of-" not in files[0].name or f"-of-{len(files):05}." in files[0].name)
    return stamp(read_json(folder / "config.json"), *map(read_samples, files)) if is_whole else None


def tokenizer_stamp(name: str, revision: str | None = None) -> str | None:
    """Return a stamp of the files that make tokens of a prompt; None if they are not on this machine."""
    folder = model_folder(name, revision)
    if folder is None:
        return None
    patterns = "tokenizer*", "chat_template*", "*tokens*.json", "vocab*", "merges*"
    files = {path for pattern in patterns for path in folder.glob(pattern) if path.is_file()}
    return stamp(*sorted(files))


def model_folder(name: str, revision: str | None = None) -> Path | None:
    """Return the folder of a model's files, given or in the Hub's cache; None if it is not there."""
    from transformers.utils import cached_file

    if Path(name).is_dir():
        if not Path(name, "config.json").is_file():
            die(f"{name}: there is no config.json in it; give the folder of a whole model, or a Hub id")
        return Path(name)
    try:
        return Path(cached_file(name, "config.json", revision=revision, local_files_only=True)).parent
    except OSError:
        return None


def read_samples(path):
    """Return the size of a file, and a kilobyte from each of 65 places between its beginning and its end.

    The beginning of weights is a table of names, and merged adapters may leave their end as it was.
    """
    content = np.memmap(path, mode="r")
    last = max(0, len(content) - 1024)
    samples = [content[last * i // 64 :][:1024].tobytes() for i in range(65)]
    return b"".join([str(len(content)).encode(), *samples])


def check_same_model(made: dict[object, dict]):
    """Refuse two models; made: {where: the meta.json of a run, or the content of a scorer.pt}.

    Where one has no stamp, names and numbers of layers must be the same.
    """
    stamps = {content.get("model_stamp") for content in made.values()}
    models = {(model_name(content["model"]), content["n_layers"]) for content in made.values()}
    if len(models if None in stamps else stamps) > 1:
        is_of = "is of the model {model!r} ({n_layers} layers)"
        said = [f"{where} {is_of.format_map(content)}" for where, content in made.items()]
        die(f"{', '.join(said)}; take those of one model")


def stamp(*parts) -> str:
    """Return a few letters that depend on what an output was made of: files (paths), bytes, JSON values."""
    digest = hashlib.sha256()
    for part in parts:
        content = part
        if isinstance(part, Path):
            content = np.memmap(part, mode="r") if part.stat().st_size else b""
        elif not isinstance(part, (bytes, memoryview)):
            content = json.dumps(part, sort_keys=True).encode()
        digest.update(hashlib.sha256(content).digest())  # of one length, so that parts do not run together
    return digest.hexdigest()[:16]


def read_rollouts(run: str | Path) -> list[dict]:
    return list(each_rollout(run))


def each_rollout(run: str | Path) -> Iterator[dict]:
    """Yield one at a time, as the texts of a large run need not fit into memory."""
    return each_row(Path(run) / "rollouts.jsonl", needs=("id", "sample", "response"))


def read_labels(run: str | Path, keys: list | None = None) -> list[dict]:
    """Return the rows of labels.jsonl, in the order of `keys` if given."""
    path = Path(run) / "labels.jsonl"
    rows = read_jsonl(path, needs=("id", "sample", "label"))
    wrong = [row["label"] for row in rows if row["label"] not in (0, 1, None)]
    if wrong:
        die(f"{path}: a label is 0, 1 or null, not {wrong[0]!r} ({len(wrong)} rows)")
    judges = {judge_stamp(kind) for kind in KINDS}
    if any("stamp" in row and judges.isdisjoint(row["stamp"].split("-")) for row in rows):
        warn(f"{path}: made by another version of the judge; 02_label.py {run} judges again")
    return align(rows, keys, path)


@cache
def judge_stamp(kind: str) -> str:
    """Return a stamp of the files that judge the answers to problems of a kind."""
    files = ("02_label.py", "sandbox_exec.py") if kind == "code" else ("02_label.py",)
    return stamp(*(Path(__file__).with_name(name) for name in files))


def keys_of(rows: Iterable[dict]) -> list[tuple]:
    return [(row["id"], row["sample"]) for row in rows]


def align(rows: list[dict], keys: list | None, source: str | Path) -> list[dict]:
    """Return the rows of the file `source` in the order of `keys`; they must have these keys, once each."""
    by_key = dict(zip(keys_of(rows), rows))
    if len(by_key) != len(rows):
        die(f"{source}: {len(rows)} rows but only {len(by_key)} different (id, sample) keys")
    if keys is None:
        return rows
    if by_key.keys() != set(keys) or len(keys) != len(rows):
        odd = next(iter(by_key.keys() ^ set(keys)), "a key twice")
        counts = f"{len(rows)} rows for a run of {len(keys)} rollouts"
        die(f"{source}: {counts}, keys differ at {odd}; run its step again")
    return [by_key[key] for key in keys]


def text_stamp(problem: dict) -> str:
    """Return a stamp of what a person asked: the same under another id, in another file, for any model."""
    return stamp(problem.get("messages") or [{"role": "user", "content": problem["prompt"]}])


def texts_of(run: str | Path) -> dict:
    """Return {id: text_stamp} of the problems of a run."""
    return {row["id"]: text_stamp(row) for row in each_row(Path(run) / "problems.jsonl")}


def check_same_problems(run: str | Path, rollouts: list[dict]) -> dict:
    """Return {id: problem}; refuse a problem without rollouts, and a rollout without a problem."""
    rows = each_row(Path(run) / "problems.jsonl", needs=("id", "kind", "prompt"))
    problems = {row["id"]: row for row in rows}
    answered = {row["id"] for row in rollouts}
    if problems.keys() != answered:
        counts = f"rollouts of {len(answered)} problems, {len(problems)} problems in problems.jsonl"
        die(f"{run}: {counts}; they differ at {min(problems.keys() ^ answered)!r}")
    return problems


# ---- Vectors: layer/token ----------------------------------------------------------------------------------

TOKENS = ("last", "eos")
DEFAULT_VECTOR = "penultimate/eos"
EXTRA_INPUTS = ("last10", "special")  # of extra.pt: the last ten tokens; `return`s and ends of def lines
SPECIAL_KEPT = 32  # a scorer reads at most the last 32 of the special tokens of an answer


def layer_index(name: str | int, n_layers: int) -> int:
    """Return a layer's index in transformers' `hidden_states`: 0 is the embeddings, L is after the norm."""
    name = {"penultimate": "-2", "final": "-1"}.get(name, str(name))
    index = -1
    if re.fullmatch(r"-?\d+", name):
        index = int(name) + (n_layers + 1 if name[0] == "-" else 0)
    elif re.fullmatch(r"0?\.\d+", name):
        index = math.floor(float(name) * n_layers + 1e-9)  # as .58 * 50 is 28.999999999999996
    if not 0 <= index <= n_layers:
        numbers = f"a number from {-n_layers - 1} to {n_layers}, a fraction such as .75"
        die(f"unknown layer {name!r}: use penultimate, final, {numbers}, or all")
    return index


def vector_key(name: str, n_layers: int) -> tuple[int, str]:
    """Return (L-1, 'eos') for 'penultimate/eos': the same for all spellings of one vector."""
    layer, _, token = name.partition("/")
    if token not in TOKENS:
        die(f"unknown vector {name!r}: write layer/token, token {' or '.join(TOKENS)}, as {DEFAULT_VECTOR}")
    return layer_index(layer, n_layers), token


def watch_layers(model, layers: list[int], keep: Callable) -> list:
    """Register hooks that call keep(column, hidden states [B, T, d]) for `layers`, column by column."""
    body = model.get_decoder()
    n_layers = model.config.get_text_config().num_hidden_layers
    if len(getattr(body, "layers", ())) != n_layers or not hasattr(body, "norm"):
        die(f"{type(model).__name__} has no `layers` and `norm` to read vectors of {n_layers} layers from")
    hooks = []
    for column, index in enumerate(layers):
        register = body.norm.register_forward_hook
        if index < n_layers:
            register = body.layers[index].register_forward_pre_hook
        hooks.append(register(partial(keep_states, keep, column)))
    return hooks


def keep_states(keep, column, module, inputs, output=None):
    """Keep, as a hook, what goes into a block, or what comes out of the final norm."""
    states = inputs[0] if output is None else output
    if states.ndim == 4 and hasattr(module, "config"):  # Gemma 3n's attention reads the active one of several
        states = states[module.config.altup_active_idx]
    elif states.ndim == 4:  # DeepSeek V4's [B, T, streams, d], which all begin as the embedding
        states = states.mean(2)
    keep(column, states)


def open_hidden(run: str | Path, vector: str) -> tuple[dict, int | list]:
    """Return (hidden.pt, the column of a vector in it), for `all/eos` the columns of all layers there."""
    path = Path(run) / "hidden.pt"
    n_layers = read_meta(run)["n_layers"]
    content = load_pt(path)
    columns = {vector_key(name, n_layers): column for column, name in enumerate(content["vectors"])}
    layer, _, token = vector.partition("/")
    if layer == "all":
        of_layers = [column for key, column in sorted(columns.items()) if key[1] == token]
        wanted = of_layers if len(of_layers) > 2 else None  # the default run holds two
    else:
        wanted = columns.get(vector_key(vector, n_layers))
    if wanted is None:
        names = ", ".join(content["vectors"])
        die(f"{path}: no vector {vector!r}, only {names}; 01_generate.py --layers {layer} captures it")
    return content, wanted


def read_inputs(run: str | Path, vector: str) -> tuple[list, Callable]:
    """Return (keys, fetch): fetch(a slice of rows) gives float32 [rows, d], of several vectors [rows, S, d].

    vector: a name, `all/eos` for all layers, or one of EXTRA_INPUTS, whose absent positions are all zero.
    """
    if vector in EXTRA_INPUTS:
        path = Path(run) / "extra.pt"
        content = load_pt(path) if path.is_file() else {}
        if vector not in content:
            die(f"{path}: {vector!r} is not there; 01_generate.py --extra {vector} captures these vectors")
    else:
        content, columns = open_hidden(run, vector)

    def fetch(rows):
        if vector == "last10":
            return content["last10"][rows].float()
        if vector == "special":
            special = content["special"].tensor_split(content["special_offsets"][1:-1])  # [any, d] each
            padded = [torch.nn.functional.pad(x.float(), (0, 0, SPECIAL_KEPT, 0)) for x in special[rows]]
            return torch.stack([x[-SPECIAL_KEPT:] for x in padded])  # the last ones, behind zeros
        return content["hidden"][rows][:, columns].float()

    return [tuple(key) for key in content["keys"]], fetch


def check_finite(run: str | Path, keys: list, values: torch.Tensor):
    """Refuse a run if a rollout's vector, or what a scorer makes of it, is not finite; values: [R, ...]."""
    broken = [key for key, value in zip(keys, values) if not value.isfinite().all()]
    if broken:
        die(f"{run}: {len(broken)} vectors are not finite, such as {broken[0]}'s; generate them again")


# ---- Token statistics: the paper's confidence, from the raw log-probabilities of each step -----------------

TOP_K = 10
TAIL = 2048
WINDOW = 1024
STATISTICS = {  # name -> its values [T] for the T steps of a trace; see `confidence` for what `s` holds
    "mean": lambda s: -s.top.mean(1),
    "median": lambda s: -np.median(s.top, 1),
    "variance": lambda s: s.top.var(1),
    "gap": lambda s: s.p[:, 0] - s.p[:, 1],
    "entropy": lambda s: -(s.renormalised * np.log(np.maximum(s.renormalised, 1e-300))).sum(1),
    "self_certainty": lambda s: -s.vocab_mean - s.log_vocab,  # KL(uniform || p), Kang et al. 2025
    "likelihood": lambda s: s.sampled,
}
AGGREGATIONS = ("avg", "tail", "lowest", "bottom10")
LOWER_IS_BETTER = ("entropy",)
RULES = tuple(f"{name}/{way}" for name in STATISTICS for way in AGGREGATIONS)
# Stands beside statistics, and in scorers that read them. Where it is another one they are computed again:
# the text must change when a rule changes its meaning.
RULES_STAMP = stamp(RULES, "a window ends at each token")


def token_stats(logits: torch.Tensor, tokens: torch.Tensor, likeliest: torch.Tensor | None = None):
    """Return [B, 12] for a step: the 10 largest log-probabilities, the sampled token's, the mean of all.

    likeliest [B, 10 or more]: the tokens with the largest logits, where they are known already.
    """
    log_p = logits.log_softmax(-1)
    top = log_p.topk(TOP_K).values if likeliest is None else log_p.gather(1, likeliest[:, :TOP_K])
    kept = [top, log_p.gather(1, tokens[:, None]), log_p.mean(-1, keepdim=True)]
    return torch.cat(kept, 1).clamp(-65504)  # float16's lowest number


def confidence(stats: np.ndarray, vocab_size: int) -> dict:
    """Return {rule: value} for the token_stats [T, 12] of a trace: each statistic, aggregated in each way.

    Without a token all values are None, and so are statistics of numbers that an engine does not give.
    """
    if len(stats) == 0:
        return dict.fromkeys(RULES)
    stats = np.asarray(stats, dtype=np.float64)
    p = np.exp(stats[:, :TOP_K])
    steps = SimpleNamespace(
        top=stats[:, :TOP_K],  # [T, 10] log-probabilities, the largest first
        p=p,
        renormalised=p / p.sum(1, keepdims=True),
        sampled=stats[:, TOP_K],  # [T]
        vocab_mean=stats[:, TOP_K + 1],  # [T]
        log_vocab=math.log(vocab_size),
    )
    values = np.stack([statistic(steps) for statistic in STATISTICS.values()], 1)  # [T, 7]
    sign = np.array([-1.0 if name in LOWER_IS_BETTER else 1.0 for name in STATISTICS])
    sums = np.vstack([np.zeros(len(STATISTICS)), np.cumsum(values * sign, 0)])
    ends = np.arange(1, len(values) + 1)
    begins = np.maximum(ends - WINDOW, 0)  # a window ends at each token, so that the first ones are shorter
    windows = np.sort((sums[ends] - sums[begins]) / (ends - begins)[:, None], 0)  # the least confident first
    ways = {
        "avg": values.mean(0),
        "tail": values[-TAIL:].mean(0),
        "lowest": windows[0] * sign,
        "bottom10": windows[: max(1, len(windows) // 10)].mean(0) * sign,
    }
    table = np.stack([ways[name] for name in AGGREGATIONS], 1)  # [7, 4]
    return {rule: None if math.isnan(x) else x for rule, x in zip(RULES, table.flatten().tolist())}


def scores_by_rule(values: list, rule: str) -> np.ndarray:
    """Return scores of rollouts, higher is better, of what a rule says of each; None is below all others."""
    sign = -1 if rule.split("/")[0] in LOWER_IS_BETTER else 1
    scores = sign * np.array(values, dtype=float)  # None becomes NaN
    return np.nan_to_num(scores, nan=np.nanmin([0, *scores]) - 1)


def rollout_features(conf: dict, n_tokens: float) -> np.ndarray:
    """Return float32 [29] that SCaTR+ reads beside the vector: statistics, NaN for a missing one; length."""
    return np.array([*map(conf.get, RULES), n_tokens], dtype=np.float32)  # None becomes NaN


def with_confidence(run: str | Path, rollouts: Iterable) -> Iterator:
    """Yield (row, {rule: value}) for each of all rollouts of a run, in the order of its files.

    The values are those that 01 wrote, or are computed from tokens.pt where it wrote them by other rules.
    """
    meta = read_meta(run)
    tokens = None if meta.get("rules") == RULES_STAMP else load_pt(Path(run) / "tokens.pt")
    for place, row in enumerate(rollouts):
        if tokens is None:
            yield row, row["conf"]
        else:
            start, end = tokens["offsets"][place : place + 2].tolist()
            yield row, confidence(tokens["stats"][start:end].numpy(), meta["vocab_size"])


def read_features(run: str | Path, keys: list) -> torch.Tensor:
    """Return float32 [R, 29]: the features of a run's rollouts, in the order of `keys`."""
    rows = []
    for row, conf in with_confidence(run, each_rollout(run)):
        features = rollout_features(conf, row.get("n_tokens", math.nan))
        rows.append({"id": row["id"], "sample": row["sample"], "features": features})
    rows = align(rows, keys, Path(run) / "rollouts.jsonl")
    return torch.tensor(np.stack([row["features"] for row in rows]))


# ---- Problems: data sets by name, files by path ------------------------------------------------------------

KINDS = ("code", "math", "text")
OTHER_NAMES = {  # of data sets, for fields of ours
    "problem_id": "id", "task_id": "id", "unique_id": "id", "problem_idx": "id", "ID": "id",
    "question": "prompt", "problem": "prompt", "Problem": "prompt", "Answer": "answer", "test": "tests",
}  # fmt: skip


def given_fields(row: dict) -> dict:
    """Return the fields of a problem that are not empty, by our names."""
    given = {name: value for name, value in row.items() if not is_empty(value)}
    for other, name in OTHER_NAMES.items():
        if other in given and name not in given:
            given[name] = given.pop(other)
    if "canonical_solution" in given and "def " in given.get("prompt", ""):  # it begins a program: HumanEval
        given["prelude"] = given["prompt"]
        given["solution"] = f"{given['prompt']}{given.pop('canonical_solution')}"
    return given


def is_empty(value):
    """Return whether a field is as good as absent, as an empty cell of an exported table."""
    if isinstance(value, list):
        return all(map(is_empty, value))
    return value is None or value == {} or (isinstance(value, str) and not value.strip())


def take(names, row):
    """Return these fields of a row, by our names; KeyError where it lacks one."""
    given = given_fields(row)
    return {name: given[name] for name in names}


def openthoughts_code_problem(row):
    """Return a problem of a row whose test cases are what a program reads and prints, None of others."""
    cases = json.loads(row["test_cases"] or "{}")
    if cases.get("fn_name") or not are_pairs(cases):
        return None
    tests = {"inputs": cases["inputs"], "outputs": cases["outputs"]}
    prompt = f"{row['problem'].strip()}\n\nThe program reads standard input and writes to standard output."
    return {"id": f"code/{row['row_idx']}", "prompt": prompt, "tests": tests}


# A data set on the Hub. size: how many problems, which are drawn if there are more rows. to_problem: from a
# row to a problem as in a person's own file, or None to leave it out. where: the server's condition on rows
DataSet = namedtuple("DataSet", "size to_problem repository config split where", defaults=("",))
MATHS = ("id", "prompt", "answer")
PROGRAMS = ("id", "prompt", "entry_point", "tests")
SOLVED = (*PROGRAMS, "prelude", "solution")
ROWS_SERVER = os.environ.get("HF_DATASETS_SERVER", "https://datasets-server.huggingface.co")
PAGE = 100  # rows of a page, the most that it gives at once
THOUGHTS = ("open-thoughts/OpenThoughts-114k", "metadata", "train")
DATA_SETS = {
    "humaneval": DataSet(164, partial(take, SOLVED), "openai/openai_humaneval", "openai_humaneval", "test"),
    "math500": DataSet(500, partial(take, MATHS), "HuggingFaceH4/MATH-500", "default", "test"),
    "aime24": DataSet(30, partial(take, MATHS), "Maxwell-Jia/AIME_2024", "default", "train"),
    "aime25": DataSet(30, partial(take, MATHS), "MathArena/aime_2025", "default", "train"),
    "openthoughts-code": DataSet(500, openthoughts_code_problem, *THOUGHTS, "\"domain\"='code'"),
}
COMMIT = "74b80bc8e2f7dae86c66514b2fb540fb70950975"
AUTHORS = f"https://raw.githubusercontent.com/martaknezevic/SCaTR/{COMMIT}/datasets"
AUTHORS_FILES = {  # name -> (file of the authors' repository, what each of its rows has)
    "kodcode": ("kodcode_1000.jsonl", PROGRAMS),
    "openthoughts-math": ("ot_math.jsonl", MATHS),
}
COMBINED = {"aime": ("aime24", "aime25"), "openthoughts": ("openthoughts-math", "openthoughts-code")}


def load_problems(dataset: str, limit: int | None = None, kind: str | None = None) -> list[dict]:
    """Return the problems of a named data set or a file, the first `limit`; kind: of those without one.

    Those without kind, answer and tests take the kind of the others, if these have one. So a problem stays
    what it is when its answer is corrected or taken out.
    """
    known = [*DATA_SETS, *AUTHORS_FILES, *COMBINED]
    if dataset in known:
        rows = [row for part in COMBINED.get(dataset, [dataset]) for row in download(part, limit)]
    elif Path(dataset).is_file():
        rows = read_jsonl(dataset)
    else:
        die(f"unknown data set '{dataset}': there is no such file; the known names are {', '.join(known)}")
    problems = [normalise_problem(row, f"{dataset}, problem {n}", n, kind) for n, row in enumerate(rows, 1)]
    if not problems:
        die(f"{dataset}: there are no problems in it")
    [(id, count)] = Counter(problem["id"] for problem in problems).most_common(1)
    if count > 1:
        first, second, *_ = (n for n, problem in enumerate(problems, 1) if problem["id"] == id)
        own = "give each its own; one without an id has its number"
        die(f"{dataset}: problems {first} and {second} both have the id {id!r}; {own}")
    kinds = {problem["kind"] for problem in problems if "answer" in problem or "tests" in problem}
    open_kind = kinds.pop() if len(kinds) == 1 else "text"
    is_open = 0
    for problem, row in zip(problems, rows):
        if problem["kind"] == "text" and not (kind or row.get("kind")):
            problem["kind"] = open_kind
            is_open += 1
    if is_open:
        how = f"have no answer, tests or kind: they are asked as {open_kind}; --kind or a field changes it"
        print(f"{dataset}: {is_open} of {len(problems)} problems {how}", file=sys.stderr)
    return problems[:limit]


def download(name, limit=None):
    """Return rows for `load_problems`, of the Hub's with a limit only the first ones."""
    from huggingface_hub.errors import HTTPError

    try:
        if name in AUTHORS_FILES:
            file, names = AUTHORS_FILES[name]
            page = f"{AUTHORS}/{file}"
            return [take(names, row) for row in authors_rows(page, file)]
        data = DATA_SETS[name]
        page = f"https://huggingface.co/datasets/{data.repository}"
        return first_problems(data, min(data.size, limit or data.size))
    except (HTTPError, OSError, ValueError, KeyError) as error:  # KeyError: its fields have new names
        advice = "try again later, or give a .jsonl file of its problems"
        die(f"the data set {name} cannot be downloaded from {page} ({reason_of(error)}); {advice}")


def authors_rows(url, file):
    """Return the rows of a file of the authors' repository, which the Hub's cache keeps, as it does pages."""
    from huggingface_hub import cached_assets_path
    from huggingface_hub.utils import http_backoff

    path = cached_assets_path("scatr", namespace="martaknezevic/SCaTR", subfolder=COMMIT) / file
    if not path.is_file():
        response = http_backoff("GET", url, timeout=60)
        if response.status_code != 200:
            raise ValueError(f"it answers {response.status_code}")
        write_jsonl(path, map(json.loads, response.content.decode().strip().split("\n")))
    return read_jsonl(path)


def first_problems(data, wanted):
    """Return those of pages in order, or in a seeded random order if there are more than `data.size`."""
    total = hub_page(data, 0)["num_rows_total"]
    offsets = list(range(0, total, PAGE))
    if total > data.size:
        random.Random(42).shuffle(offsets)
    problems = []
    for offset in offsets:
        rows = [item["row"] | {"row_idx": item["row_idx"]} for item in hub_page(data, offset)["rows"]]
        problems += filter(None, map(data.to_problem, rows))
        if len(problems) >= wanted:
            return problems[:wanted]
    raise ValueError(f"it has {len(problems)} problems instead of {wanted}")


def hub_page(data, offset):
    """Return a page of the Hub's rows server, which the Hub's cache keeps: later runs work offline."""
    from huggingface_hub import cached_assets_path
    from huggingface_hub.utils import build_hf_headers, hf_raise_for_status, http_backoff

    folder = re.sub(r"\W+", "-", f"{data.config} {data.split} {data.where}")
    path = cached_assets_path("scatr", namespace=data.repository, subfolder=folder) / f"{offset}.json"
    if path.is_file():
        return read_json(path)
    query = {"dataset": data.repository, "config": data.config, "split": data.split, "offset": offset}
    query |= {"length": PAGE} | ({"where": data.where} if data.where else {})
    url = f"{ROWS_SERVER}/{'filter' if data.where else 'rows'}"
    response = http_backoff("GET", url, params=query, headers=build_hf_headers(), timeout=60)
    hf_raise_for_status(response)
    page = response.json()
    is_whole = len(page["rows"]) == min(PAGE, page["num_rows_total"] - offset)
    if not is_whole or any(row["truncated_cells"] for row in page["rows"]):
        raise ValueError(f"the server did not give all of the rows from row {offset} on")
    write_json(path, page)
    return page


def normalise_problem(row: dict, where: str, number: int, kind: str | None = None) -> dict:
    """Return a checked problem with what it omits. number: its id if it has none; where: for messages."""
    given = given_fields(row)
    guess = "code" if "tests" in given else "math" if "answer" in given else "text"
    problem = {"id": number, "kind": kind or guess} | given
    problem["id"] = str(problem["id"])
    try:
        contents = [message["role"] + message["content"] for message in problem.get("messages", [])]
    except (TypeError, KeyError):
        die(f"{where}: 'messages' must be a list of {{\"role\": text, \"content\": text}}")
    if contents:
        problem.setdefault("prompt", problem["messages"][-1]["content"])
    if "prompt" not in problem:
        die(f"{where}: 'prompt' or 'messages' is missing; it has only {', '.join(given) or 'empty fields'}")
    for name in ("prompt", "entry_point", "prelude", "solution", "family"):
        if not isinstance(problem.get(name, ""), str):
            die(f"{where}: the field {name!r} must be text")
    if "answer" in problem:
        answer = problem["answer"]
        texts = answer if isinstance(answer, list) else [answer]
        if {*map(type, texts)} - {str, int, float}:
            die(f"{where}: 'answer' must be a text, a number, or a list of such, any of which is right")
        problem["answer"] = [*map(str, texts)] if isinstance(answer, list) else str(answer)
    tests = problem.get("tests", "")
    if not (isinstance(tests, str) or is_list_of_texts(tests) or are_pairs(tests)):
        pairs = '{"inputs": [text, ...], "outputs": [text, ...]} with as many inputs as outputs'
        die(f"{where}: 'tests' must be Python text, a list of such, or {pairs}")
    if problem["kind"] not in KINDS:
        die(f"{where}: the kind {problem['kind']!r} is none of {', '.join(KINDS)}")
    judged_by, other = ("tests", "answer") if problem["kind"] == "code" else ("answer", "tests")
    if other in problem and judged_by not in problem:
        die(f"{where}: {problem['kind']} is judged by the field {judged_by!r}, and there is only {other!r}")
    return problem


def are_pairs(tests):
    inputs, outputs = (isinstance(tests, dict) and tests.get(name) for name in ("inputs", "outputs"))
    return is_list_of_texts(inputs) and is_list_of_texts(outputs) and len(inputs) == len(outputs) > 0


def is_list_of_texts(value):
    return isinstance(value, list) and all(isinstance(text, str) for text in value)


# ---- Prompts and answers -----------------------------------------------------------------------------------

TODAY = date(2025, 8, 5)  # the date in prompts whose template asks for today's: they must not change each day
ASKS_FOR_TODAY = re.compile(r"strftime_now\(\s*(['\"])(.*?)\1\s*\)")  # as gpt-oss's
SYSTEM = {
    "math": "Solve the problem step by step. Put the final answer, and nothing else, in \\boxed{}.",
    "code": "Solve the task in Python. Give the whole program in one ```python code block.",
    "text": "Answer the question. Put the final answer, and nothing else, on a last line after \"Answer:\".",
}


def encode_prompt(tokenizer, problem: dict, thinking: bool = True) -> list[int]:
    """Return token ids of a problem's prompt in the model's chat template, or as plain text without one."""
    return encode_chat(tokenizer, problem, thinking)[0]


def encode_chat(tokenizer, problem: dict, thinking: bool = True) -> tuple[list, list]:
    """Return (token ids of a problem's prompt, the messages in it).

    A template that refuses a system message, as Gemma's does, gets its text within the first user message.
    """
    from jinja2 import TemplateError

    messages = messages_of(problem)
    if tokenizer.chat_template is None:
        return tokenizer("\n\n".join(message["content"] for message in messages))["input_ids"], messages
    template = ASKS_FOR_TODAY.sub(lambda call: repr(TODAY.strftime(call[2])), tokenizer.get_chat_template())
    chats = [messages]
    if len(messages) > 1 and messages[0]["role"] == "system":
        system, first, *others = messages
        chats.append([first | {"content": f"{system['content']}\n\n{first['content']}"}, *others])
    for accepted in chats:
        try:
            encoded = tokenizer.apply_chat_template(
                accepted, chat_template=template, add_generation_prompt=True, return_dict=True,
                enable_thinking=thinking, reasoning_effort="high" if thinking else "low",
            )  # fmt: skip
            return encoded["input_ids"], accepted
        except TemplateError as error:
            refused = error
    die(f"the model's chat template does not work: {refused}")


def messages_of(problem):
    """Return the chat of a problem: its own messages, or our instruction for its kind and its prompt."""
    if "messages" in problem:
        return problem["messages"]
    user = {"role": "user", "content": problem["prompt"]}
    return [{"role": "system", "content": SYSTEM[problem["kind"]]}, user]


def prompt_stamp(tokenizer) -> str:
    """Return a stamp of what makes a prompt of a problem: the chat template and our instructions."""
    return stamp(tokenizer.chat_template, SYSTEM)


def asked_as(problems: list[dict]) -> list[str]:
    """Return the kinds of problems, which decide how a model is asked."""
    return sorted({problem["kind"] for problem in problems})


def asked_otherwise(asked: list[str], scorer: Scorer, prompts: str | None = None) -> list[str]:
    """Return what is unlike the calibration of a scorer, as texts: the kinds of problems, `prompt_stamp`."""
    learned = sorted({*(scorer.checkpoint.get("asked") or asked)})
    changed = [] if {*asked} <= {*learned} else [f"kind {', '.join(asked)}, not {', '.join(learned)}"]
    if prompts and scorer.checkpoint.get("prompt_stamp", prompts) not in (None, prompts):
        changed.append("another chat template or system text")
    return changed


def sampling_defaults(model, tokenizer) -> dict:
    """Return how the model's files say to sample it, and the tokens that end an answer.

    What they do not say is off: transformers' own defaults, such as top-k 50, are not the authors'.
    """
    config = model.generation_config
    settings = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "repetition_penalty": 1.0}
    for name in settings:
        if getattr(config, name, None) is not None:
            settings[name] = getattr(config, name)
    eos = config.eos_token_id
    stop_ids = {tokenizer.eos_token_id, *(eos if isinstance(eos, list) else [eos])} - {None}
    if tokenizer.convert_tokens_to_ids("<|channel|>") not in (None, tokenizer.unk_token_id):  # gpt-oss
        stop_ids.discard(tokenizer.convert_tokens_to_ids("<|end|>"))  # ends each message, the analysis too
    return settings | {"stop_ids": sorted(stop_ids)}


# ---- Models ------------------------------------------------------------------------------------------------


def pick_device(name: str | None = None) -> str:
    """Return the given device, or the first kind there is; processes of one machine take GPUs in turn."""
    if name in (None, "cuda") and torch.cuda.is_available():
        process = int(os.environ.get("LOCAL_RANK") or os.environ.get("RANK") or 0)
        name = f"cuda:{process % torch.cuda.device_count()}"
    elif name is None:
        name = "cpu"
    else:
        try:
            torch.empty(0, device=name)
        except (RuntimeError, AssertionError) as error:  # no such device, or torch is built without it
            reason = reason_of(error)[:100]
            die(f"--device {name}: torch cannot use it here ({reason}); leave --device out, or say cpu")
    if name.startswith("cuda"):
        torch.backends.cuda.enable_cudnn_sdp(False)  # cuDNN plans anew for each length, and all lengths occur
    return name


def device_name(device: str | torch.device) -> str:
    """Return the hardware that a measured time is reported for."""
    if torch.device(device).type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{device}, {torch.get_num_threads()} thread(s)"


def pick_dtype(dtype: str, device: str) -> torch.dtype | str:
    """Return a number type; auto: the files' own, or float32 on a CPU, where bfloat16 is slow and noisy."""
    if dtype != "auto":
        return getattr(torch, dtype)
    return torch.float32 if device == "cpu" else "auto"


@contextmanager
def loading(name: str):
    """Refuse a model that cannot be loaded, and say why."""
    from safetensors import SafetensorError

    try:
        yield
    except (OSError, ValueError, ImportError, RuntimeError, SafetensorError) as error:
        place = "" if Path(name).is_dir() else ", which is not a folder here,"
        die(f"model {name!r}{place} cannot be loaded: {reason_of(error)}")


def is_out_of_memory(error: Exception) -> bool:
    """Return whether CUDA, a CPU's allocator or Python says so."""
    return bool(re.search("out of memory|can't allocate memory|MemoryError", repr(error)))


@contextmanager
def enough_memory(advice: str):
    """Say in one line that memory is out."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        die(f"out of memory; {advice}")


def load_config(name: str, revision: str | None = None):
    from transformers import AutoConfig

    with loading(name):
        return AutoConfig.from_pretrained(name, revision=revision)


def context_of(config) -> int:
    """Return the model's context length in tokens."""
    text = config.get_text_config()
    limit = getattr(text, "max_position_embeddings", None) or 1 << 40  # no answer is as long
    rope = getattr(text, "rope_parameters", None) or {}
    if rope.get("rope_type") == "longrope":  # one longer answer would rescale positions of its whole batch
        limit = min(limit, rope["original_max_position_embeddings"])
    return limit


def load_tokenizer(name: str, revision: str | None = None) -> tuple:
    """Return (an object with the model's config and generation_config, but no weights; its tokenizer)."""
    config = load_config(name, revision)
    from transformers import AutoTokenizer, GenerationConfig

    generation_config = GenerationConfig.from_model_config(config)
    with loading(name):
        tokenizer = AutoTokenizer.from_pretrained(name, revision=revision)
        with suppress(OSError):  # not every model has this file
            generation_config = GenerationConfig.from_pretrained(name, revision=revision)
    return SimpleNamespace(config=config, generation_config=generation_config), tokenizer


def is_tiny(model) -> bool:
    """Return whether its products are too small to share among cores, or to be worth a GPU's launches."""
    return model.num_parameters() < 5_000_000


def load_model(name: str, device: str | None = None, dtype: str = "auto", revision: str | None = None):
    """Return (the model in eval mode, its tokenizer); without a device a tiny model stays on the CPU."""
    files, tokenizer = load_tokenizer(name, revision)
    from transformers import AutoModelForCausalLM, Mxfp4Config, logging

    if not sys.stderr.isatty():
        logging.disable_progress_bar()  # in a log it would be a line for each shard
    chosen = pick_device(device)
    quantization = getattr(files.config, "quantization_config", None) or {}
    options = {"dtype": pick_dtype(dtype, chosen), "revision": revision}
    if quantization.get("quant_method") == "mxfp4":  # gpt-oss; its kernels would need one more package
        options["quantization_config"] = Mxfp4Config(dequantize=True)
    with loading(name), turn_to_load(name) if chosen != "cpu" else nullcontext():
        model = AutoModelForCausalLM.from_pretrained(name, **options)
        if device is None and chosen != "cpu" and is_tiny(model):
            print(f"{name}: so small a model stays on the CPU; --device cuda moves it", file=sys.stderr)
            chosen = "cpu"
            model = model.float() if dtype == "auto" else model
        model.to(chosen)
    if chosen.startswith("cuda"):
        torch.cuda.set_device(chosen)  # AdamW asks the current GPU for a stream, and so makes a context on it
    model.model_stamp = model_stamp(name, revision)
    return model.eval(), tokenizer


@contextmanager
def turn_to_load(name):
    """Wait until no other process of this machine has the model in the host's memory on its way to a GPU.

    Weights that are used as they are stored take none, as their file is mapped; joined experts and weights
    that were quantised do.
    """
    with open(Path(tempfile.gettempdir(), f"loading-{stamp(name, os.getuid())}"), "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def use_attention(model, name: str, function: Callable):
    """Make the model call `function` as its attention, known to transformers under `name`."""
    from transformers import AttentionInterface

    AttentionInterface.register(name, function)
    try:
        model.set_attn_implementation(name)
    except ValueError as error:
        die(f"{type(model).__name__} takes no attention function: {reason_of(error)}")


def causal_attention(module, q, k, v, mask=None, scaling=None, sliding_window=None, s_aux=None, **_):
    """Return causal attention within each sequence: q [B, H, T, D], k, v [B, G, T, D] -> [B, T, H, D].

    Padding is on the right, where no real token attends to it. `s_aux` [H] is the score of a sink (gpt-oss).
    """
    # Keys are repeated, as with grouped heads and a mask CUDA would hold all scores [B, H, T, T] in memory
    groups = q.shape[1] // k.shape[1]
    k = k.repeat_interleave(groups, 1)
    v = v.repeat_interleave(groups, 1)
    width = v.shape[-1]
    sinks = int(s_aux is not None)
    if sinks:  # a token in front with value 0, whose score is the sink by one more dimension
        q, k, v = (torch.nn.functional.pad(x, (0, 8, 1, 0)) for x in (q, k, v))  # 8 more, for speed
        q[..., -8] = (s_aux / scaling)[:, None].to(q.dtype)
        k[:, :, 0, -8] = 1
    attention = torch.nn.functional.scaled_dot_product_attention
    length = q.shape[2]
    if sliding_window is None or length - sinks <= sliding_window:
        out = attention(q, k, v, is_causal=True, scale=scaling)
    else:
        place = torch.arange(length, device=q.device)
        outputs = []
        for begin in range(0, length, 1024):  # one mask for all queries would hold T * T numbers
            end = begin + 1024
            first = max(sinks, begin - sliding_window + 1)
            keys = torch.cat([place[:sinks], place[first:end]])
            distance = place[begin:end, None] - keys
            mask = (distance >= 0) & ((distance < sliding_window) | (keys < sinks))
            outputs.append(attention(q[:, :, begin:end], k[:, :, keys], v[:, :, keys], mask, scale=scaling))
        out = torch.cat(outputs, 2)
    return out[:, :, sinks:, :width].transpose(1, 2).contiguous(), None  # models call `view`


# ---- Scorers: rebuilt from scorer.pt -----------------------------------------------------------------------

STUDIES = ("layers", "fraction", "designs", "mixed", "halves")  # 03 trains their scorers, 05 shows them


def build_scorer(design: str, config: dict, shape: tuple, features: int = 0) -> torch.nn.Module:
    """Return an untrained module that gives one logit for each row.

    shape: that of a row, (d,) or (positions, d). Of d the last `features` are token statistics.
    """
    if design.startswith("transformer"):
        return transformer(config, *shape)
    knobs = [config[name] for name in ("hidden", "dropout", "input_dropout", "batch_norm")]
    of_vector = mlp(shape[-1] - features, *knobs)
    return two_towers(of_vector, mlp(features, *knobs)) if features else of_vector


def mlp(width, hidden, dropout=0.0, input_dropout=0.0, batch_norm=False):
    """Return input dropout; per hidden size linear, (batch norm,) ReLU, dropout; linear to one logit."""
    nn = torch.nn

    class Dropout(nn.Dropout):
        def forward(self, x):  # on a CPU torch's own dropout takes nearly three times as long
            if not self.training or not self.p:
                return x
            return x * (torch.rand_like(x) >= self.p) / (1 - self.p)

    layers = [Dropout(input_dropout)]
    for size in hidden:
        norm = [nn.BatchNorm1d(size)] if batch_norm else []
        layers += [nn.Linear(width, size), *norm, nn.ReLU(), Dropout(dropout)]
        width = size
    return nn.Sequential(*layers, nn.Linear(width, 1), nn.Flatten(0))


def two_towers(of_vector, of_features):
    """Return a module that gives the sum of both towers' logits."""

    class TwoTowers(torch.nn.ModuleDict):
        def forward(self, x):  # [B, d + 29]
            width = self["of_vector"][1].in_features
            logits = self["of_vector"](x[:, :width])
            if self.training:  # each tower shall learn to judge alone
                logits = logits * (torch.rand_like(logits) < 0.5)
            return logits + self["of_features"](x[:, width:])

    return TwoTowers({"of_vector": of_vector, "of_features": of_features})


def transformer(config, positions, width):
    """Return a transformer over the positions and a learned one before them, whose output gives the logit."""
    nn = torch.nn
    size = config["width"]
    dropout = config["dropout"]

    class Encoder(nn.ModuleDict):
        def forward(self, x):  # [B, positions, d]
            absent = nn.functional.pad((x == 0).all(-1), (1, 0))  # the learned position never is
            x = nn.functional.pad(self["enter"](x), (0, 0, 1, 0)) + self.place
            return self["leave"](self["encoder"](x, src_key_padding_mask=absent)[:, 0])

    model = Encoder()
    enter = nn.Dropout(config["input_dropout"]), nn.Linear(width, size), nn.LayerNorm(size)
    model["enter"] = nn.Sequential(*enter)
    model.place = nn.Parameter(torch.randn(positions + 1, size) * 0.02)
    layer = nn.TransformerEncoderLayer(size, 4, 2 * size, dropout, batch_first=True, norm_first=True)
    model["encoder"] = nn.TransformerEncoder(layer, config["depth"], enable_nested_tensor=False)
    model["leave"] = nn.Sequential(nn.LayerNorm(size), nn.Linear(size, 1), nn.Flatten(0))
    return model


class Scorer:
    """scorer.pt as a function on the CPU: vectors [R, d] or [R, S, d] of any float type -> logits [R].

    If `takes_features` (SCaTR+) it needs features [R, 29], whose rows rollout_features(conf, n_tokens) gives.
    `checkpoint` is the file's content, `log_weight` is for probability(), and `learned` has the text_stamp of
    each problem that it was trained or validated on. An ensemble mixes its parts, one for each layer.
    """

    def __init__(self, checkpoint: dict):
        self.checkpoint = checkpoint
        self.model = checkpoint["model"]
        self.vector = checkpoint["vector"]
        self.shape = tuple(checkpoint["shape"])
        self.log_weight = math.log(checkpoint["pos_weight"])
        self.learned = {text for *_, text in checkpoint.get("problems", [])}
        self.takes_features = checkpoint.get("feature_scale") is not None
        self.parts = [Scorer(part) for part in checkpoint.get("parts", [])]
        features = len(checkpoint["feature_scale"][0]) if self.takes_features else 0
        if not self.parts:
            shape = (*self.shape[:-1], self.shape[-1] + features)
            self.module = build_scorer(checkpoint["design"], checkpoint["config"], shape, features)
            self.module.load_state_dict(checkpoint["state"])
            self.module.eval()

    def __call__(self, hidden: torch.Tensor, features: torch.Tensor | None = None) -> torch.Tensor:
        with torch.inference_mode():
            if self.parts:
                logits = torch.stack([part(hidden[:, i]) for i, part in enumerate(self.parts)], 1)
                return mixture(logits, self.checkpoint["weights"])
            x = standardise(hidden.cpu().float(), self.checkpoint["scale"])  # bfloat16 would round
            if self.takes_features:
                x = with_features(x, torch.as_tensor(features), self.checkpoint["feature_scale"])
            return self.module(x)


def probability(logits: torch.Tensor, log_weight: float) -> torch.Tensor:
    """Return how likely answers with these logits are right.

    The loss counts a right answer pos_weight times, so logits are too high by the logarithm of that weight.
    Scores and votes keep it, as in the paper.
    """
    return (logits - log_weight).sigmoid()


def mixture(logits: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Return [R] of [R, parts]: the logit of the weighted mean of the parts' probabilities."""
    logsigmoid = torch.nn.functional.logsigmoid  # the sigmoid of a logit above 17.5 is exactly 1
    right = (logsigmoid(logits) + weights.log()).logsumexp(1)
    wrong = (logsigmoid(-logits) + weights.log()).logsumexp(1)
    return right - wrong


def standardise(x: torch.Tensor, scale: list | None) -> torch.Tensor:
    """Return (x - mean) / deviation per dimension, absent positions (all zero) as they are; no scale: x."""
    if scale is None:
        return x
    mean, deviation = scale
    scaled = (x - mean) / deviation
    return scaled if x.ndim == 2 else scaled * (x != 0).any(-1, keepdim=True)


def with_features(x: torch.Tensor, features: torch.Tensor, scale: list) -> torch.Tensor:
    """Return [R, d + 29]: x and standardised statistics [R, 29], a missing one at the training mean."""
    return torch.cat([x, standardise(features, scale).nan_to_num(0.0).to(x)], 1)


def load_scorer(path: str | Path) -> Scorer:
    checkpoint = load_pt(path)
    if not isinstance(checkpoint, dict) or not {"state", "pos_weight"} <= checkpoint.keys():
        die(f"{path}: not a scorer, or one of an older version; 03_train_scorer.py makes one")
    return Scorer(checkpoint)


def check_scorer_fits(scorer: Scorer, meta: dict, path: str | Path):
    """Refuse a scorer of another model or of other token statistics. score_run checks the vector's width."""
    check_same_model({path: scorer.checkpoint, "the run": meta})
    if scorer.takes_features and scorer.checkpoint.get("rules") != RULES_STAMP:
        die(f"{path}: made for other token statistics than there are now; train it again")


def score_run(scorer: Scorer, run: str | Path, path: str | Path = "the scorer", chunk: int = 4096) -> tuple:
    """Return (keys, logits [R]) of a run; vectors of at most `chunk` rollouts are in memory at a time."""
    check_scorer_fits(scorer, read_meta(run), path)
    keys, fetch = read_inputs(run, scorer.vector)
    shape = tuple(fetch(slice(1)).shape[1:])
    if shape != scorer.shape:
        die(f"{path}: made for vectors {scorer.vector} of shape {scorer.shape}, {run} has {shape}")
    features = read_features(run, keys) if scorer.takes_features else torch.zeros(len(keys), 0)
    logits = torch.empty(len(keys))  # made first: tensors made between chunks would keep their memory in use
    for start in range(0, len(keys), chunk):
        rows = slice(start, start + chunk)
        logits[rows] = scorer(fetch(rows), features[rows])
    check_finite(run, keys, logits)
    return keys, logits


# ---- Selection ---------------------------------------------------------------------------------------------


def group_totals(groups: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return [..., N]: of each rollout the sum of weights of all with an equal answer; -inf without (-1)."""
    same = groups[..., :, None] == groups[..., None, :]  # [..., N, N]
    return np.where(groups >= 0, (same * weights[..., None, :]).sum(-1), -np.inf)


def vote_shares(groups: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return [N]: of each rollout of a problem its answer's share of all weights; 0 without an answer."""
    return group_totals(groups, weights).clip(0) / (weights[groups >= 0].sum() or 1)


def best_of_n(groups: np.ndarray, weights: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Return the indices [..., N] of rollouts by their scores, the highest first, of equal ones the lower."""
    return np.argsort(-scores, -1, kind="stable")


def weighted_vote(groups: np.ndarray, weights: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Return the indices [..., N] of rollouts by the sums of the weights of equal answers, the largest first.

    groups [..., N]: the class of equal answers that 02 put each answer into, -1 without an answer. Of equal
    answers and of equal sums the one with the higher score is first, and then the lower sample. Where no
    rollout has an answer this is the order of best-of-N.
    """
    totals = group_totals(groups, weights)
    largest = np.where(groups >= 0, abs(totals), 0).max(-1, keepdims=True)
    relative = totals / np.where(largest == 0, 1, largest)
    return np.lexsort((-scores, -relative.round(12)))  # last bits depend on the order of adding


STRATEGIES = {"best-of-n": best_of_n, "weighted-vote": weighted_vote}  # the first index is that of the pick


def strategies_for(groups: np.ndarray) -> list[str]:
    """Return the names of strategies, without votes where no answers can be equal (all groups are -1)."""
    return [*STRATEGIES] if (groups >= 0).any() else ["best-of-n"]


# ---- Tables for people -------------------------------------------------------------------------------------


def table(header: list, rows: list) -> str:
    """Return a Markdown table with aligned columns, the first one to the left; None is an empty cell."""
    cells = []
    for row in [header, *rows]:
        cells.append(["" if cell is None else str(cell).replace("|", "\\|") for cell in row])
    widths = [max(3, *map(len, column)) for column in zip(*cells, strict=True)]
    lines = [[row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])] for row in cells]
    lines.insert(1, ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
