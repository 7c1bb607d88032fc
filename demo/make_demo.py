"""Make the demo: four problem files, a tokenizer and a tiny language model, which is trained from nothing.

Reads nothing. Writes demo/{math_a,math_b,code_a,code_b}.jsonl and demo/model/ (weights, tokenizer, template).

    python demo/make_demo.py                    # everything: 18 minutes on one CPU core
    python demo/make_demo.py --problems-only    # only the four problem files, in seconds

The model is trained on documents. A document is a problem, an answer by an invented author, and, if the
answer is wrong, a complaint by the user. Some authors misunderstand some words, so the model learns to solve
problems, to err as confidently as people do (some misconceptions are more frequent than the truth), and to
expect a complaint after a wrong answer.

Problems are split by their meaning into tenths: eight are trained on, one is for development, one is for the
problem files. Seeds are fixed: another machine makes the same problem files to the byte, and weights that
differ in their last digits.
"""

import argparse
import functools
import json
import random
import re
import zlib
from pathlib import Path

EVALUATION = {0}  # tenths of all meanings
DEVELOPMENT = {1}
TRAINING = set(range(2, 10))
SEED = 7  # of the problem files
PROBLEMS = 200  # in each problem file
STEPS = 1400
BATCH = 64  # documents a step
RATE = 3e-3  # the highest learning rate
WARMUP = 100  # steps in which the learning rate rises
COMPLAINT_WEIGHT = 8  # of the loss on the token after an answer; only one token in forty is such a token
POPULAR = 0.65  # the share of authors with a frequent misconception
RARE = 0.25  # and with a rare one

NAMES = ["Ana", "Ben", "Cleo", "Dan", "Eva", "Finn", "Gus", "Hana"]
THINGS = ["pens", "coins", "cards", "shells", "apples", "stamps"]
FUNCTIONS = ["solve", "run", "pick", "work", "calc", "make", "build", "answer"]


class Author:
    """Writes an answer into `lines`. Without a random generator an author never errs."""

    def __init__(self, rng=None):
        self.rng = rng
        self.lines = []

    def understands(self, right, wrong=None, share=0):
        """What this author takes some words to mean; a share of all authors takes them to mean `wrong`."""
        if self.rng is not None and self.rng.random() < share:
            return wrong
        return right

    def works_out(self, label, left, sign, right):
        """Write one line of arithmetic, and return its result."""
        value = left + right if sign == "+" else left - right
        self.lines.append(f"{label}{left}{sign}{right}={value}")
        return value


def choose(rng, table):
    """Random words of a table; words that can be misunderstood are chosen twice as often."""
    weights = [2 if len(meanings) > 1 else 1 for meanings in table.values()]
    return rng.choices(list(table), weights=weights)[0]


# --- Maths. A family of problems is a function that makes (text, write); write(author) writes an answer.
# --- A table gives for words (right meaning, wrong meaning, share of the authors who take the wrong one).

PLAIN = {f"{{who}} {verb} {{k}}": ("+",) for verb in ("finds", "buys")}
PLAIN |= {f"{{who}} {verb} {{k}}": ("-",) for verb in ("loses", "sells")}
TRICKY = {
    "{who} lends {k}": ("-", "+", POPULAR), "{other} finds {k}": ("", "+", POPULAR),
    "{other} sells {k}": ("", "-", POPULAR), "{who} borrows {k}": ("+", "-", RARE),
    "{other} buys {k}": ("", "+", RARE), "{other} loses {k}": ("", "-", RARE),
}  # fmt: skip
COMPARED = {"{who} has {k} more": ("+", "-", RARE), "{who} has {k} fewer": ("-", "+", POPULAR)}


def word_problem(rng):
    """math_a: a story of two people. Misunderstood are lending, comparing, and what the other one does."""
    who, other = rng.sample(NAMES, 2)
    thing = rng.choice(THINGS)
    start = rng.randint(8, 30)
    compared = rng.random() < 0.4
    texts = rng.sample(list(TRICKY), rng.choice([1, 1, 2]) - compared)
    texts += rng.choices(list(PLAIN), k=rng.choice([0, 1, 1, 2]))
    rng.shuffle(texts)
    if compared:
        texts.insert(0, rng.choice(list(COMPARED)))
    events = []  # (sentence, its effects as in the tables, a number)
    for text, k in zip(texts, rng.choices(range(2, 10), k=9)):
        effects = (PLAIN | TRICKY | COMPARED)[text]
        events.append((text.format(who=who, other=other, k=k), effects, k))
    text = f"How many {thing} does {who} have in the end? {other if compared else who} has {start} {thing}."

    def write(author):
        value = start
        for sentence, effects, k in events:
            sign = author.understands(*effects)
            if sign:
                value = author.works_out(f"{sentence}: ", value, sign, k)
        author.lines.append(f"\\boxed{{{value}}}")

    return " ".join([text, *(f"{sentence}." for sentence, *_ in events)]), write


def assignments(rng):
    """math_b: assignments and an expression. Misunderstood are a variable's new value and parentheses."""
    x, y = rng.sample("abcdmnpqxyz", 2)
    first, change, second_change, inner = (rng.randint(2, 12) for _ in range(4))
    first += 4
    total = rng.randint(25, 45)
    sign, second_sign, inner_sign = rng.choices("+-", k=3)
    again, nested = rng.choice([(True, False), (False, True), (True, True)])
    text = f"Let {x}={first}. Let {y}={x}{sign}{change}."
    text += f" Let {x}={y}{second_sign}{second_change}." if again else ""
    text += f" Find {total}-({x}{inner_sign}{inner})." if nested else f" Find {x}{inner_sign}{y}."

    def write(author):
        y_value = author.works_out(f"{y}=", first, sign, change)
        x_value = author.works_out(f"{x}=", y_value, second_sign, second_change) if again else first
        x_value = author.understands(x_value, first, POPULAR if second_sign == "+" else RARE)
        if not nested:
            value = author.works_out(f"{x}{inner_sign}{y}=", x_value, inner_sign, y_value)
        elif author.understands(True, False, POPULAR if inner_sign == "+" else RARE):
            value = author.works_out(f"{x}{inner_sign}{inner}=", x_value, inner_sign, inner)
            value = author.works_out("", total, "-", value)
        else:
            value = author.works_out(f"{total}-{x}=", total, "-", x_value)
            value = author.works_out("", value, inner_sign, inner)
        author.lines.append(f"\\boxed{{{value}}}")

    return text, write


# --- Code. Here write(author) writes the lines of a function's body.

BOUNDS = {"above": (">", ">=", RARE), "from": (">=", ">", POPULAR)}
BOUNDS |= {"below": ("<",), "up to": ("<=", "<", RARE)}
MAPS = {"": ("x",), "opposites": ("-x",), "squares": ("x * x", "x * 2", POPULAR)}
MAPS |= {"products with {}": ("x * {}",), "sums with {}": ("x + {}",)}
MAPS |= {"distances to {}": ("abs(x - {})", "x - {}", RARE)}
ENDINGS = {"sum": "sum(ys)", "count": "len(ys)"}
ENDINGS |= {"largest": "max(ys, default=0)", "smallest": "min(ys, default=0)"}
CHANGES = {"adds {} to each": ("x + {}",), "takes {} from each": ("x - {}",)}
CHANGES |= {"multiplies each by {}": ("x * {}",), "takes each from {}": ("{} - x", "x - {}", POPULAR)}
ENDS = {"first": ("nums[:{}]",), "last": ("nums[-{}:]", "nums[:{}]", RARE)}
ORDERS = {"in order": ("ys",), "from small to large": ("sorted(ys)",)}
ORDERS |= {"backwards": ("ys[::-1]", "sorted(ys, reverse=True)", POPULAR)}
ORDERS |= {"from large to small": ("sorted(ys, reverse=True)", "sorted(ys)", RARE)}


def reduction(rng):
    """code_a: filter, map and reduce. Misunderstood are bounds, maps, and which of the two comes first."""
    parity = rng.choice(["", "even ", "odd "])
    word = choose(rng, BOUNDS)
    bound = rng.randint(2, 20)
    form = choose(rng, MAPS)
    k = rng.randint(2, 12)
    ending = rng.choice(list(ENDINGS))
    late = form != "" and rng.random() < 0.6  # whether numbers are mapped first, and then filtered
    text = f"Take the {parity}numbers in xs {word} {bound}. Return the {ending} of their {form.format(k)}."
    if late or not form:
        noun = f"{form.format(k)} of the {parity}numbers" if late else f"{parity}numbers"
        text = f"Take the {noun} in xs. Return the {ending} of those {word} {bound}."

    def write(author):
        filter_late = author.understands(late, False, RARE)
        test = f"{author.understands(*BOUNDS[word])} {bound}"
        value = author.understands(*MAPS[form]).format(k)
        conditions = []
        if parity:
            conditions.append(f"x % 2 == {int(parity == 'odd ')}")
        if not filter_late:
            conditions.append(f"x {test}")
        only = f" if {' and '.join(conditions)}" if conditions else ""
        author.lines.append(f"ys = [{value} for x in xs{only}]")
        if filter_late:
            author.lines.append(f"ys = [y for y in ys if y {test}]")
        author.lines.append(f"return {ENDINGS[ending]}")

    return text, write


def arrangement(rng):
    """code_b: a list. Misunderstood are bounds, the last numbers, `takes each from`, and the order."""
    word = rng.choice(list(BOUNDS))
    bound = rng.randint(2, 20)
    end = choose(rng, ENDS)
    count = rng.randint(2, 6)
    change = rng.choice(list(CHANGES))
    k = rng.randint(2, 12)
    order = rng.choice(list(ORDERS))
    by_place = rng.random() < 0.4
    kept = f"the {end} {count} numbers" if by_place else f"numbers {word} {bound}"

    def write(author):
        numbers = author.understands(*ENDS[end]).format(count)
        source = numbers if by_place else f"nums if x {author.understands(*BOUNDS[word])} {bound}"
        author.lines.append(f"ys = [{author.understands(*CHANGES[change]).format(k)} for x in {source}]")
        author.lines.append(f"return {author.understands(*ORDERS[order])}")

    return f"keeps {kept}, {change.format(k)} and lists them {order}", write


# --- Problems, answers and what they mean

FAMILIES = {  # name -> (what makes a problem, the parameter of its function or "", the form of its prompt)
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
    """What a function of our authors returns. (Functions that a model wrote run in the sandbox only.)"""
    space = {}
    exec(function("f", parameter, lines), space)
    return [space["f"](list(values)) for values in inputs]


@functools.cache
def meaning(parameter, lines):
    """A number that is the same for right answers that do the same.

    Functions, which have a parameter, do the same if they return the same for all probes; answers to maths
    problems do if they have the same equations.
    """
    if parameter:
        does = outputs(lines, parameter, PROBES)
    else:
        does = re.findall(r"\d+[+-]\d+=\d+", " ".join(lines))
    return zlib.crc32(repr(does).encode())


def draw(family, rng, tenths):
    """A random problem whose meaning lies in these tenths of all meanings."""
    make, parameter, form = FAMILIES[family]
    while True:
        name = rng.choice(FUNCTIONS)
        text, write = make(rng)
        lines = lines_of(write)
        if meaning(parameter, lines) % 10 in tenths and is_plain(lines):
            prompt = form.format(name=name, parameter=parameter, text=text)
            return {"prompt": prompt, "name": name, "parameter": parameter, "write": write, "lines": lines}


def is_plain(lines):
    """Whether there is something to work out, and no result is negative or above 59."""
    return len(lines) > 1 and not re.search(r"=-|=[6-9]\d|=\d{3}", "\n".join(lines))


def is_right(problem, lines):
    """Whether an answer has the right box, or a function returns the right results for all probes."""
    parameter = problem["parameter"]
    if parameter:
        return meaning(parameter, lines) == meaning(parameter, problem["lines"])
    return lines[-1] == problem["lines"][-1]


def document(rng):
    """(prompt, answer, complaint or None). The complaint names the first line that is wrong."""
    family = rng.choices(list(FAMILIES), weights=[2, 2, 1, 1])[0]  # maths is harder for the model
    problem = draw(family, rng, TRAINING)
    lines = ()
    while not is_plain(lines):
        lines = lines_of(problem["write"], rng)
    complaint = None
    if not is_right(problem, lines):
        pairs = enumerate(zip(lines, problem["lines"]), 1)
        first_wrong = next(number for number, (line, right) in pairs if line != right)
        complaint = f"Line {first_wrong} is wrong."
    answer = "\n".join(lines)
    if problem["parameter"]:
        answer = f"```python\n{function(problem['name'], problem['parameter'], lines)}\n```"
    return problem["prompt"], answer, complaint


def hidden_tests(problem, rng):
    """14 asserts that fail each wrong function of a hundred authors; None if there are none such.

    Of 300 random inputs the one is taken on which most of the wrong functions that are left return something
    else than the right one, until none is left; further inputs are random.
    """
    parameter = problem["parameter"]
    numbers = [int(number) for number in re.findall(r"\d+", problem["prompt"])]
    near = [number + change for number in numbers for change in (-1, 0, 1)]

    def value():
        return rng.choice([rng.randint(-6, 26), rng.choice(near)])

    inputs = [[value() for _ in range(1 + n % 8)] for n in range(300)]
    right = outputs(problem["lines"], parameter, inputs)
    functions = sorted({lines_of(problem["write"], rng) for _ in range(100)})
    wrong = [outputs(lines, parameter, inputs) for lines in functions if not is_right(problem, lines)]

    def number_caught(i):
        return sum(results[i] != right[i] for results in wrong)

    chosen = []
    while wrong and len(chosen) < 14:
        chosen.append(max(range(300), key=number_caught))
        wrong = [results for results in wrong if results[chosen[-1]] == right[chosen[-1]]]
    chosen += rng.sample(range(300), 14 - len(chosen))
    if wrong:
        return None
    asserts = [f"\n    assert candidate({inputs[i]}) == {right[i]}" for i in chosen]
    return f"def check(candidate):{''.join(asserts)}\n"


def problem_rows(family, tenth):
    """The rows of one problem file; no two of them have the same meaning."""
    rng = random.Random(f"{family} {SEED}")
    rows = {}  # meaning -> row
    while len(rows) < PROBLEMS:
        problem = draw(family, rng, tenth)
        name, parameter, lines = problem["name"], problem["parameter"], problem["lines"]
        row = {"id": f"{family}/{len(rows)}", "kind": family.split("_")[0], "prompt": problem["prompt"]}
        if parameter:
            tests = hidden_tests(problem, rng)
            if tests is None:
                continue
            solution = function(name, parameter, lines)
            row |= {"tests": tests, "style": "check", "entry_point": name, "solution": solution}
        else:
            right = sum(is_right(problem, lines_of(problem["write"], rng)) for _ in range(100))
            if right < 30:
                continue  # the model also makes slips: what few authors get right, it never would
            row |= {"answer": lines[-1][len("\\boxed{") : -1], "solution": "\n".join(lines)}
        rows.setdefault(meaning(parameter, lines), row)
    return list(rows.values())


# --- Tokenizer, model and training

PAD, START, EOS = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
TEMPLATE = """{% for message in messages if message['role'] != 'system' -%}
<|im_start|>{{ message['role'] + '\n' + message['content'] }}<|im_end|>{{ '\n' }}
{%- endfor %}{% if add_generation_prompt %}<|im_start|>assistant{{ '\n' }}{% endif %}"""


def texts_of(prompt, answer, complaint):
    """The three texts of a document: the prompt in the template, the answer, and what follows its end."""
    after = f"\n{START}user\n{complaint}{EOS}" if complaint else PAD
    return f"{START}user\n{prompt}{EOS}\n{START}assistant\n", answer + EOS, after


def make_tokenizer():
    """Byte-level BPE: a word with spaces, a number below 100, a line break with indentation is one token."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast
    tokenizer = Tokenizer(models.BPE())
    pieces = Regex(r" ?[A-Za-z]+ ?|\d{1,2}|\n *| ?[^\sA-Za-z\d]+ ?|\s+")
    to_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(pieces, "isolated"), to_bytes])
    tokenizer.decoder = decoders.ByteLevel()
    rng = random.Random(0)
    options = {"special_tokens": [PAD, START, EOS], "show_progress": False}
    trainer = trainers.BpeTrainer(vocab_size=800, initial_alphabet=to_bytes.alphabet(), **options)
    tokenizer.train_from_iterator(("".join(texts_of(*document(rng))) for _ in range(20000)), trainer)
    options = {"eos_token": EOS, "pad_token": PAD, "padding_side": "left", "chat_template": TEMPLATE}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **options)


def make_model(tokenizer):
    """A model of 0.8 million weights in eight narrow blocks, so it can check an answer in several steps."""
    from transformers import AutoModelForCausalLM, GenerationConfig, Qwen3Config
    eos = tokenizer.eos_token_id
    pad = tokenizer.pad_token_id
    sizes = {"num_hidden_layers": 8, "hidden_size": 96, "num_attention_heads": 3, "num_key_value_heads": 3}
    sizes |= {"head_dim": 32, "intermediate_size": 192, "max_position_embeddings": 256}
    tokens = {"vocab_size": len(tokenizer), "bos_token_id": None, "eos_token_id": eos, "pad_token_id": pad}
    config = Qwen3Config(**sizes, **tokens, tie_word_embeddings=True)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager")  # trains faster than "sdpa"
    sampling = {"do_sample": True, "temperature": 1.0, "top_k": 0, "top_p": 1.0}
    model.generation_config = GenerationConfig(**sampling, eos_token_id=[eos, pad], pad_token_id=pad)
    return model


def encode(tokenizer, documents):
    """Yield (token ids, loss weights): 0 on the prompt, 1 on the answer, more on the token after its end."""
    prompts, answers, afters = zip(*(texts_of(*document) for document in documents))
    ids = [tokenizer(list(texts))["input_ids"] for texts in (prompts, answers, afters)]
    for prompt, answer, after in zip(*ids):
        weights = [0] * len(prompt) + [1] * len(answer) + [COMPLAINT_WEIGHT] + [1] * (len(after) - 1)
        yield prompt + answer + after, weights


def batches(tokenizer, rng):
    """Batches without end. A batch is four parts, each a list of (token ids, loss weights).

    A pool of 32 batches is sorted by length. A batch has one part of each quarter of the pool, and the
    documents of a part have nearly the same length, so that little is padding.
    """
    while True:
        documents = (document(rng) for _ in range(32 * BATCH))
        pool = sorted(encode(tokenizer, documents), key=lambda row: len(row[0]))
        parts = [pool[i : i + BATCH // 4] for i in range(0, len(pool), BATCH // 4)]
        quarters = [rng.sample(parts[i : i + 32], 32) for i in range(0, 128, 32)]
        yield from zip(*quarters)


def loss_of(model, rows):
    """(the weighted loss of a part, the mean loss on the tokens that follow the end of an answer)"""
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
    """Muon trains the matrices of the blocks, AdamW the rest; the rates warm up and then decay to 0."""
    import torch
    from tqdm import tqdm
    matrices = [p for p in model.model.layers.parameters() if p.ndim == 2]
    rest = [p for name, p in model.named_parameters() if p.ndim == 1 or "embed" in name]
    muon = torch.optim.Muon(matrices, lr=RATE, weight_decay=0.01, adjust_lr_fn="match_rms_adamw")
    adam = torch.optim.AdamW(rest, lr=RATE, betas=(0.9, 0.98), weight_decay=0.0)
    numbered_batches = zip(range(STEPS), batches(tokenizer, random.Random(1)))
    bar = tqdm(numbered_batches, total=STEPS, unit="step")
    running_mean = 0.7
    for step, batch in bar:
        for part in batch:
            loss, loss_after_answer = loss_of(model, part)
            (loss / (50 * BATCH)).backward()  # a document has a weight of about 50
            running_mean += (loss_after_answer - running_mean) / 200
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in (muon, adam):
            optimizer.param_groups[0]["lr"] = RATE * min((step + 1) / WARMUP, (STEPS - step) / STEPS)
            optimizer.step()
            optimizer.zero_grad()
        bar.set_postfix_str(f"loss on whether an answer is right: {running_mean:.3f}")


def main(args):
    args.out.mkdir(parents=True, exist_ok=True)
    for family in FAMILIES:
        rows = problem_rows(family, DEVELOPMENT if args.development else EVALUATION)
        (args.out / f"{family}.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n", encoding="utf-8")
    if args.problems_only:
        return
    import torch
    torch.set_num_threads(1)  # one thread always adds in the same order, and two are hardly faster
    torch.manual_seed(1)
    tokenizer = make_tokenizer()
    model = make_model(tokenizer)
    train(model, tokenizer)
    model.to(torch.bfloat16).save_pretrained(args.out / "model")
    tokenizer.save_pretrained(args.out / "model")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--problems-only", action="store_true", help="write only the four problem files")
    parser.add_argument("--development", action="store_true", help="problems of the tenth for development")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent, help="folder to write to")
    main(parser.parse_args())
