"""The demo's problems and its model: made again to the byte, held out by meaning, loadable, small, often right."""

import json
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest
from transformers import AutoModelForCausalLM, AutoTokenizer

from demo import make_demo
from sandbox_exec import Pool

DEMO = Path(make_demo.__file__).parent
FAMILIES = list(make_demo.FAMILIES)


def rows(family):
    return [json.loads(line) for line in (DEMO / f"{family}.jsonl").read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module")
def model():
    return AutoModelForCausalLM.from_pretrained(DEMO / "model")


@pytest.fixture(scope="module")
def tokenizer():
    return AutoTokenizer.from_pretrained(DEMO / "model")


def test_the_script_makes_the_same_problem_files(tmp_path):
    command = [sys.executable, DEMO / "make_demo.py", "--problems-only", "--out", tmp_path]
    subprocess.run(command, check=True)
    for family in FAMILIES:
        assert (tmp_path / f"{family}.jsonl").read_bytes() == (DEMO / f"{family}.jsonl").read_bytes(), family


def test_the_script_makes_the_same_tokenizer(tokenizer):
    assert make_demo.make_tokenizer().get_vocab() == tokenizer.get_vocab()


@pytest.mark.parametrize("family", FAMILIES)
def test_problems_are_held_out_by_meaning(family):
    """What the reference solutions do, read off their text alone, is not what any training problem asks for."""
    rng = random.Random(5)
    trained = [make_demo.draw(family, rng, make_demo.TRAINING) for _ in range(4000)]
    trained = {make_demo.meaning(problem["parameter"], problem["lines"]) for problem in trained}
    held_out = [meaning_of(row["solution"]) for row in rows(family)]
    assert len(set(held_out)) == len(held_out) == make_demo.PROBLEMS
    assert not trained & set(held_out)


def meaning_of(solution):
    code = re.fullmatch(r"def \w+\((\w+)\):\n(.*)", solution, re.S)
    lines = [line.strip() for line in (code.group(2) if code else solution).splitlines()]
    return make_demo.meaning(code.group(1) if code else "", tuple(lines))


@pytest.mark.parametrize("family", ["math_a", "math_b"])
def test_maths_references_hold_the_answer(family):
    for row in rows(family):
        assert row["solution"].endswith(f"\n\\boxed{{{row['answer']}}}"), row
        for left, sign, right, result in re.findall(r"(\d+)([+-])(\d+)=(\d+)", row["solution"]):
            assert int(result) == int(left) + int(sign + right), row


@pytest.mark.parametrize("family", ["code_a", "code_b"])
def test_hidden_tests_pass_references_and_fail_authors_who_err(family):
    """Fourteen asserts each, judged in the sandbox: the reference of every problem, and wrong answers to fresh ones."""
    jobs, rng = [], random.Random(7)
    for row in rows(family):
        assert row["tests"].count("assert ") == 14
        jobs.append(((row["id"], True), job_of(row["solution"], row["tests"], row["entry_point"])))
    while len(jobs) < make_demo.PROBLEMS + 60:
        problem = make_demo.draw(family, rng, make_demo.TRAINING)
        lines = make_demo.lines_of(problem["write"], rng)
        tests = make_demo.hidden_tests(problem, rng)
        if tests and not make_demo.is_right(problem, lines):
            code = make_demo.function(problem["name"], problem["parameter"], lines)
            jobs.append(((lines, False), job_of(code, tests, problem["name"])))
    with Pool() as pool:
        for (what, right), result in pool.imap_unordered(jobs):
            assert result.passed is right, (what, result)


def job_of(code, tests, entry_point):
    return {"code": code, "tests": tests, "style": "check", "entry_point": entry_point}


def test_the_model_is_small_and_of_a_standard_architecture(model, tokenizer):
    assert (DEMO / "model" / "model.safetensors").stat().st_size <= 2_000_000
    assert not list((DEMO / "model").glob("*.py")) and model.config.architectures == ["Qwen3ForCausalLM"]
    assert str(model.dtype) == "torch.bfloat16" and model.config.vocab_size == len(tokenizer)
    settings = model.generation_config
    assert (settings.do_sample, settings.temperature) == (True, 1.0)
    assert settings.eos_token_id == [tokenizer.eos_token_id, tokenizer.pad_token_id]


def test_prompts_are_those_of_training(tokenizer):
    """The template makes what the model was trained on, drops the system message; every text survives the tokens."""
    rng = random.Random(9)
    for _ in range(200):
        prompt, answer, complaint = make_demo.document(rng)
        texts = make_demo.texts_of(prompt, answer, complaint)
        messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": prompt}]
        assert tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False) == texts[0]
        assert tokenizer.decode(tokenizer("".join(texts))["input_ids"]) == "".join(texts)


@pytest.mark.parametrize("family", FAMILIES)
def test_rollouts_end_and_some_are_right(family, model, tokenizer):
    """A quick look at maths by matching the box, at code by comparing the text with the reference (a lower bound)."""
    some = rows(family)[:40]
    prompts = [make_demo.texts_of(row["prompt"], "", None)[0] for row in some]
    batch = tokenizer(prompts, padding=True, return_tensors="pt")
    made = model.float().generate(**batch, do_sample=False, max_new_tokens=128)
    texts = tokenizer.batch_decode(made[:, batch["input_ids"].shape[1] :])
    assert all("<|im_end|>" in text for text in texts)
    answers = [text.split("<|im_end|>")[0] for text in texts]
    ends = [f"\n\\boxed{{{row['answer']}}}" if "answer" in row else f"\n{row['solution']}\n```" for row in some]
    right = sum(answer.endswith(end) for answer, end in zip(answers, ends))
    assert right >= 12, (family, right)
