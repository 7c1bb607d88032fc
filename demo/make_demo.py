"""Make the demo: four problem files, a tokenizer and a tiny language model, trained from nothing in one run.

Reads nothing. Writes demo/{math_a,math_b,code_a,code_b}.jsonl and demo/model/ (weights, tokenizer, template).

    python demo/make_demo.py                    # everything; one CPU core, 18 minutes; seeds are fixed
    python demo/make_demo.py --problems-only    # the four problem files, in seconds

The model learns from documents: a problem, an answer by an author who believes what many believe, and, if the
answer is wrong, a user who complains after its end. So it learns to solve, to err as confidently as people do
(some misconceptions are commoner than the truth), and to expect a complaint.
All problems are split by their meaning: eight tenths to train on, one to develop on, one for the files.
Another machine makes the same problem files to the byte, and weights that differ in the last digits.
"""

import argparse
import functools
import json
import random
import re
import zlib
from pathlib import Path

EVALUATION, DEVELOPMENT, TRAINING = {0}, {1}, set(range(2, 10))  # tenths of all meanings
SEED, PROBLEMS = 7, 200  # of the problem files, and in each
STEPS, BATCH, RATE, WARMUP = 1400, 64, 3e-3, 100  # 89,600 documents; the learning rate rises for WARMUP steps
COMPLAINT_WEIGHT = 8  # one token in forty says whether the answer is right: its loss counts eightfold
POPULAR, RARE = 0.65, 0.25  # the share of authors who misunderstand

NAMES = ["Ana", "Ben", "Cleo", "Dan", "Eva", "Finn", "Gus", "Hana"]
THINGS = ["pens", "coins", "cards", "shells", "apples", "stamps"]
FUNCTIONS = ["solve", "run", "pick", "work", "calc", "make", "build", "answer"]


class Author:
    """Someone who writes an answer into `lines`; without a random generator, one who never errs."""

    def __init__(self, rng=None):
        self.rng, self.lines = rng, []

    def takes(self, right, wrong=None, share=0):
        """What this author takes words for, which a share of all authors misunderstands."""
        return wrong if self.rng is not None and self.rng.random() < share else right

    def works_out(self, label, left, sign, right):
        """Write one line of arithmetic; its result."""
        value = left + right if sign == "+" else left - right
        self.lines.append(f"{label}{left}{sign}{right}={value}")
        return value


def choose(rng, table):
    """Words of a table, those that can be misunderstood twice as often."""
    return rng.choices(list(table), weights=[1 + (len(meanings) > 1) for meanings in table.values()])[0]


# --- Maths. A family makes (text, write): write(author) writes an answer. A table: (right, wrong, its share).

PLAIN = {f"{{who}} {verb} {{k}}": ("+",) for verb in ("finds", "buys")}
PLAIN |= {f"{{who}} {verb} {{k}}": ("-",) for verb in ("loses", "sells")}
TRICKY = {
    "{who} lends {k}": ("-", "+", POPULAR), "{other} finds {k}": ("", "+", POPULAR),
    "{other} sells {k}": ("", "-", POPULAR), "{who} borrows {k}": ("+", "-", RARE),
    "{other} buys {k}": ("", "+", RARE), "{other} loses {k}": ("", "-", RARE),
}  # fmt: skip
COMPARED = {"{who} has {k} more": ("+", "-", RARE), "{who} has {k} fewer": ("-", "+", POPULAR)}


def word_problem(rng):
    """math_a: a story of two people; misunderstood are lending, comparing, and what the other one does."""
    who, other = rng.sample(NAMES, 2)
    thing, start, compared = rng.choice(THINGS), rng.randint(8, 30), rng.random() < 0.4
    events = rng.sample(list(TRICKY), rng.choice([1, 1, 2]) - compared)
    events += rng.choices(list(PLAIN), k=rng.choice([0, 1, 1, 2]))
    rng.shuffle(events)
    events = ([rng.choice(list(COMPARED))] if compared else []) + events
    events = [(text.format(who=who, other=other, k=k), (PLAIN | TRICKY | COMPARED)[text], k)
              for text, k in zip(events, rng.choices(range(2, 10), k=9))]  # fmt: skip
    text = f"How many {thing} does {who} have in the end? {other if compared else who} has {start} {thing}."

    def write(author):
        value = start
        for sentence, effects, k in events:
            sign = author.takes(*effects)
            if sign:
                value = author.works_out(f"{sentence}: ", value, sign, k)
        author.lines.append(f"\\boxed{{{value}}}")

    return " ".join([text, *(f"{sentence}." for sentence, *_ in events)]), write


def assignments(rng):
    """math_b: assignments and an expression; misunderstood are a variable's new value and parentheses."""
    x, y = rng.sample("abcdmnpqxyz", 2)
    first, change, second_change, inner = (rng.randint(2, 12) for _ in range(4))
    first, total = first + 4, rng.randint(25, 45)
    sign, second_sign, inner_sign = rng.choices("+-", k=3)
    again, nested = rng.choice([(True, False), (False, True), (True, True)])
    text = f"Let {x}={first}. Let {y}={x}{sign}{change}."
    text += f" Let {x}={y}{second_sign}{second_change}." if again else ""
    text += f" Find {total}-({x}{inner_sign}{inner})." if nested else f" Find {x}{inner_sign}{y}."

    def write(author):
        y_value = author.works_out(f"{y}=", first, sign, change)
        x_value = author.works_out(f"{x}=", y_value, second_sign, second_change) if again else first
        x_value = author.takes(x_value, first, POPULAR if second_sign == "+" else RARE)
        if not nested:
            value = author.works_out(f"{x}{inner_sign}{y}=", x_value, inner_sign, y_value)
        elif author.takes(True, False, POPULAR if inner_sign == "+" else RARE):
            value = author.works_out(f"{x}{inner_sign}{inner}=", x_value, inner_sign, inner)
            value = author.works_out("", total, "-", value)
        else:
            value = author.works_out(f"{total}-{x}=", total, "-", x_value)
            value = author.works_out("", value, inner_sign, inner)
        author.lines.append(f"\\boxed{{{value}}}")

    return text, write


# --- Code. A family makes (text, write): write(author) writes the lines of a function's body.

BOUNDS = {"above": (">", ">=", RARE), "from": (">=", ">", POPULAR)}
BOUNDS |= {"below": ("<",), "up to": ("<=", "<", RARE)}
MAPS = {"": ("x",), "opposites": ("-x",), "squares": ("x * x", "x * 2", POPULAR)}
MAPS |= {"products with {}": ("x * {}",), "sums with {}": ("x + {}",)}
MAPS |= {"distances to {}": ("abs(x - {})", "x - {}", RARE)}
ENDINGS = dict(sum="sum(ys)", count="len(ys)", largest="max(ys, default=0)", smallest="min(ys, default=0)")
CHANGES = {"adds {} to each": ("x + {}",), "takes {} from each": ("x - {}",)}
CHANGES |= {"multiplies each by {}": ("x * {}",), "takes each from {}": ("{} - x", "x - {}", POPULAR)}
ENDS = {"first": ("nums[:{}]",), "last": ("nums[-{}:]", "nums[:{}]", RARE)}
ORDERS = {"in order": ("ys",), "from small to large": ("sorted(ys)",)}
ORDERS |= {"backwards": ("ys[::-1]", "sorted(ys, reverse=True)", POPULAR)}
ORDERS |= {"from large to small": ("sorted(ys, reverse=True)", "sorted(ys)", RARE)}


def reduction(rng):
    """code_a: filter, map and reduce; misunderstood are bounds, maps, and which of the two comes first."""
    parity, word, bound = rng.choice(["", "even ", "odd "]), choose(rng, BOUNDS), rng.randint(2, 20)
    form, k, ending = choose(rng, MAPS), rng.randint(2, 12), rng.choice(list(ENDINGS))
    late = form != "" and rng.random() < 0.6
    text = f"Take the {parity}numbers in xs {word} {bound}. Return the {ending} of their {form.format(k)}."
    if late or not form:
        noun = f"{form.format(k)} of the {parity}numbers" if late else f"{parity}numbers"
        text = f"Take the {noun} in xs. Return the {ending} of those {word} {bound}."

    def write(author):
        filter_late = author.takes(late, False, RARE)
        test, value = f"{author.takes(*BOUNDS[word])} {bound}", author.takes(*MAPS[form]).format(k)
        tests = [f"x % 2 == {int(parity == 'odd ')}"] if parity else []
        tests += [] if filter_late else [f"x {test}"]
        author.lines.append(f"ys = [{value} for x in xs{' if ' if tests else ''}{' and '.join(tests)}]")
        if filter_late:
            author.lines.append(f"ys = [y for y in ys if y {test}]")
        author.lines.append(f"return {ENDINGS[ending]}")

    return text, write


def arrangement(rng):
    """code_b: a list; misunderstood are bounds, the last numbers, `takes each from`, and the order."""
    word, bound, end = rng.choice(list(BOUNDS)), rng.randint(2, 20), choose(rng, ENDS)
    count, change, k = rng.randint(2, 6), rng.choice(list(CHANGES)), rng.randint(2, 12)
    order, by_place = rng.choice(list(ORDERS)), rng.random() < 0.4
    kept = f"the {end} {count} numbers" if by_place else f"numbers {word} {bound}"

    def write(author):
        numbers = author.takes(*ENDS[end]).format(count)
        source = numbers if by_place else f"nums if x {author.takes(*BOUNDS[word])} {bound}"
        author.lines.append(f"ys = [{author.takes(*CHANGES[change]).format(k)} for x in {source}]")
        author.lines.append(f"return {author.takes(*ORDERS[order])}")

    return f"keeps {kept}, {change.format(k)} and lists them {order}", write


# --- Problems, answers and what they mean

FAMILIES = {  # what makes a problem, the parameter of a function, the prompt
    "math_a": (word_problem, "", "{text}"), "math_b": (assignments, "", "{text}"),
    "code_a": (reduction, "xs", 'Complete the function.\ndef {name}({parameter}):\n    """{text}"""'),
    "code_b": (arrangement, "nums", "Write a function {name}({parameter}) that {text}."),
}  # fmt: skip
PROBES = [[n] for n in range(-6, 27)]  # inputs on which functions are compared
PROBES += [[random.Random(100 * seed + n).randint(-6, 26) for n in range(2 + seed % 7)] for seed in range(30)]


def lines_of(write, rng=None):
    author = Author(rng)
    write(author)
    return tuple(author.lines)


def function(name, parameter, lines):
    return f"def {name}({parameter}):\n    " + "\n    ".join(lines)


def outputs(lines, parameter, inputs):
    """What a function of our own authors returns. (A model's functions run in the sandbox only.)"""
    space = {}
    exec(function("f", parameter, lines), space)
    return [space["f"](list(values)) for values in inputs]


@functools.cache
def meaning(parameter, lines):
    """A number that right answers share if they do the same: as functions (of `parameter`) or equations."""
    does = outputs(lines, parameter, PROBES) if parameter else re.findall(r"\d+[+-]\d+=\d+", " ".join(lines))
    return zlib.crc32(repr(does).encode())


def draw(family, rng, tenths):
    """A random problem whose meaning lies in these tenths of all meanings."""
    make, parameter, form = FAMILIES[family]
    while True:
        name, (text, write) = rng.choice(FUNCTIONS), make(rng)
        lines = lines_of(write)
        if meaning(parameter, lines) % 10 in tenths and is_plain(lines):
            prompt = form.format(name=name, parameter=parameter, text=text)
            return {"prompt": prompt, "name": name, "parameter": parameter, "write": write, "lines": lines}


def is_plain(lines):
    """There is something to work out, and no result is negative or above 59."""
    return len(lines) > 1 and not re.search(r"=-|=[6-9]\d|=\d{3}", "\n".join(lines))


def is_right(problem, lines):
    """Same box, or the same function on all probes."""
    does = lambda lines: meaning(problem["parameter"], lines) if problem["parameter"] else lines[-1]
    return does(lines) == does(problem["lines"])


def document(rng):
    """(prompt, answer, complaint or None): an author answers, a user names the first line that is wrong."""
    family = rng.choices(list(FAMILIES), weights=[2, 2, 1, 1])[0]  # maths is harder for it
    problem = draw(family, rng, TRAINING)
    lines = ()
    while not is_plain(lines):
        lines = lines_of(problem["write"], rng)
    different = [n for n, (line, right) in enumerate(zip(lines, problem["lines"]), 1) if line != right]
    complaint = None if is_right(problem, lines) else f"Line {different[0]} is wrong."
    code = f"```python\n{function(problem['name'], problem['parameter'], lines)}\n```"
    return problem["prompt"], code if problem["parameter"] else "\n".join(lines), complaint


def hidden_tests(problem, rng):
    """14 asserts that tell the right function from the wrong ones of a hundred authors, or None."""
    parameter = problem["parameter"]
    near = [int(n) + d for n in re.findall(r"\d+", problem["prompt"]) for d in (-1, 0, 1)]
    value = lambda: rng.choice([rng.randint(-6, 26), rng.choice(near)])
    inputs = [[value() for _ in range(1 + n % 8)] for n in range(300)]
    right = outputs(problem["lines"], parameter, inputs)
    rivals = {lines_of(problem["write"], rng) for _ in range(100)}
    rivals = [outputs(lines, parameter, inputs) for lines in sorted(rivals) if not is_right(problem, lines)]
    chosen = []
    while rivals and len(chosen) < 14:
        chosen.append(max(range(300), key=lambda i: sum(rival[i] != right[i] for rival in rivals)))
        rivals = [rival for rival in rivals if rival[chosen[-1]] == right[chosen[-1]]]
    chosen += rng.sample(range(300), 14 - len(chosen))
    asserts = [f"\n    assert candidate({inputs[i]}) == {right[i]}" for i in chosen]
    return None if rivals else f"def check(candidate):{''.join(asserts)}\n"


def problem_rows(family, tenth):
    """The rows of one problem file; no two of them have the same meaning."""
    rng, rows = random.Random(f"{family} {SEED}"), {}
    while len(rows) < PROBLEMS:
        problem = draw(family, rng, tenth)
        name, parameter, lines = problem["name"], problem["parameter"], problem["lines"]
        row = {"id": f"{family}/{len(rows)}", "kind": family.split("_")[0], "prompt": problem["prompt"]}
        if parameter:
            row |= {"tests": hidden_tests(problem, rng), "style": "check", "entry_point": name}
            row["solution"] = function(name, parameter, lines)
        elif sum(is_right(problem, lines_of(problem["write"], rng)) for _ in range(100)) < 30:
            continue  # the model adds slips of its own: what fewer authors get right, it never would
        else:
            row |= {"answer": lines[-1][len("\\boxed{") : -1], "solution": "\n".join(lines)}
        if row.get("tests", True):
            rows.setdefault(meaning(parameter, lines), row)
    return list(rows.values())


# --- Tokenizer, model and training

PAD, START, EOS = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
TEMPLATE = """{% for message in messages if message['role'] != 'system' -%}
<|im_start|>{{ message['role'] + '\n' + message['content'] }}<|im_end|>{{ '\n' }}
{%- endfor %}{% if add_generation_prompt %}<|im_start|>assistant{{ '\n' }}{% endif %}"""


def texts_of(prompt, answer, complaint):
    """The three parts of a document: the prompt in its template, the answer, and what follows its end."""
    after = PAD if complaint is None else f"\n{START}user\n{complaint}{EOS}"
    return f"{START}user\n{prompt}{EOS}\n{START}assistant\n", answer + EOS, after


def make_tokenizer():
    """Byte-level BPE: one token a word with spaces, a number below 100, a line break with indentation."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast
    tokenizer = Tokenizer(models.BPE())
    pieces = Regex(r" ?[A-Za-z]+ ?|\d{1,2}|\n *| ?[^\sA-Za-z\d]+ ?|\s+")
    to_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(pieces, "isolated"), to_bytes])
    tokenizer.decoder = decoders.ByteLevel()
    rng, options = random.Random(0), {"special_tokens": [PAD, START, EOS], "show_progress": False}
    trainer = trainers.BpeTrainer(vocab_size=800, initial_alphabet=to_bytes.alphabet(), **options)
    tokenizer.train_from_iterator(("".join(texts_of(*document(rng))) for _ in range(20000)), trainer)
    options = {"eos_token": EOS, "pad_token": PAD, "padding_side": "left", "chat_template": TEMPLATE}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **options)


def make_model(tokenizer):
    """0.8 million weights: eight narrow blocks, so that a check of several steps ends before the last."""
    from transformers import AutoModelForCausalLM, GenerationConfig, Qwen3Config
    eos, pad = tokenizer.eos_token_id, tokenizer.pad_token_id
    sizes = {"num_hidden_layers": 8, "hidden_size": 96, "num_attention_heads": 3, "num_key_value_heads": 3}
    sizes |= {"head_dim": 32, "intermediate_size": 192, "max_position_embeddings": 256}
    tokens = {"vocab_size": len(tokenizer), "bos_token_id": None, "eos_token_id": eos, "pad_token_id": pad}
    config = Qwen3Config(**sizes, **tokens, tie_word_embeddings=True)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager")  # trains faster than "sdpa"
    sampling = {"do_sample": True, "temperature": 1.0, "top_k": 0, "top_p": 1.0}
    model.generation_config = GenerationConfig(**sampling, eos_token_id=[eos, pad], pad_token_id=pad)
    return model


def encode(tokenizer, documents):
    """Token ids and loss weights: 0 on the prompt, 1 on the answer, more on the token after its end."""
    parts = zip(*(texts_of(*document) for document in documents))
    for prompt, answer, after in zip(*(tokenizer(list(texts))["input_ids"] for texts in parts)):
        weights = [0] * len(prompt) + [1] * len(answer) + [COMPLAINT_WEIGHT] + [1] * (len(after) - 1)
        yield prompt + answer + after, weights


def batches(tokenizer, rng):
    """Endless batches of four parts (ids, weights), one of each quarter of the lengths: little is padding."""
    while True:
        documents = (document(rng) for _ in range(32 * BATCH))
        pool = sorted(encode(tokenizer, documents), key=lambda row: len(row[0]))
        parts = [pool[i : i + BATCH // 4] for i in range(0, len(pool), BATCH // 4)]
        yield from zip(*(rng.sample(parts[i : i + 32], 32) for i in range(0, 128, 32)))


def loss_of(model, rows):
    """Weighted loss of a part, and the plain mean on the tokens that follow the end of an answer."""
    import torch
    width = max(len(ids) for ids, _ in rows)
    ids = torch.tensor([ids + [0] * (width - len(ids)) for ids, _ in rows])  # [documents, width]
    weights = torch.tensor([weights + [0] * (width - len(weights)) for _, weights in rows])[:, 1:]
    hidden = model.model(ids, use_cache=False).last_hidden_state[:, :-1][weights > 0]  # [kept tokens, width]
    logits, targets = model.lm_head(hidden), ids[:, 1:][weights > 0]
    losses = torch.nn.functional.cross_entropy(logits, targets, reduction="none")
    weights = weights[weights > 0]
    return (losses * weights).sum(), losses[weights == COMPLAINT_WEIGHT].mean().item()


def train(model, tokenizer):
    """Muon on the matrices of the blocks, AdamW on the rest; warm-up, then linear decay to nothing."""
    import torch
    from tqdm import tqdm
    matrices = [p for p in model.model.layers.parameters() if p.ndim == 2]
    rest = [p for name, p in model.named_parameters() if p.ndim == 1 or "embed" in name]
    muon = torch.optim.Muon(matrices, lr=RATE, weight_decay=0.01, adjust_lr_fn="match_rms_adamw")
    adam = torch.optim.AdamW(rest, lr=RATE, betas=(0.9, 0.98), weight_decay=0.0)
    bar, check = tqdm(zip(range(STEPS), batches(tokenizer, random.Random(1))), total=STEPS, unit="step"), 0.7
    for at, batch in bar:
        for part in batch:
            loss, part_check = loss_of(model, part)
            (loss / (50 * BATCH)).backward()  # a constant: about 50 units of weight a document
            check += (part_check - check) / 200  # a running mean
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in (muon, adam):
            optimizer.param_groups[0]["lr"] = RATE * min((at + 1) / WARMUP, (STEPS - at) / STEPS)
            optimizer.step()
            optimizer.zero_grad()
        bar.set_postfix_str(f"loss on whether an answer is right: {check:.3f}")


def main(args):
    args.out.mkdir(parents=True, exist_ok=True)
    for family in FAMILIES:
        rows = problem_rows(family, DEVELOPMENT if args.development else EVALUATION)
        (args.out / f"{family}.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n", encoding="utf-8")
    if args.problems_only:
        return
    import torch
    torch.set_num_threads(1)  # two are hardly faster, and one adds up numbers in one order
    torch.manual_seed(1)
    tokenizer = make_tokenizer()
    model = make_model(tokenizer)
    train(model, tokenizer)
    model.to(torch.bfloat16).save_pretrained(args.out / "model")
    tokenizer.save_pretrained(args.out / "model")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--problems-only", action="store_true", help="write the four problem files and stop")
    parser.add_argument("--development", action="store_true", help="draw them from the tenth to develop on")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent, help="folder to write to")
    main(parser.parse_args())
