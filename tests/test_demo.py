"""The demo's problems, tokenizer and prompts: made again to the byte, held out by meaning."""

import random
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import last_json
from transformers import AutoTokenizer

import common
from demo import make_demo

DEMO = Path(make_demo.__file__).parent
FAMILIES = list(make_demo.FAMILIES)


@pytest.fixture(scope="module")
def tokenizer():
    return AutoTokenizer.from_pretrained(DEMO / "model")


def test_the_script_makes_the_same_problem_files_and_tokenizer(tmp_path, tokenizer):
    subprocess.run([sys.executable, make_demo.__file__, "--problems-only", "--out", tmp_path], check=True)
    for family in FAMILIES:
        assert (tmp_path / f"{family}.jsonl").read_bytes() == (DEMO / f"{family}.jsonl").read_bytes(), family
    assert make_demo.make_tokenizer().get_vocab() == tokenizer.get_vocab()


@pytest.mark.parametrize("family", FAMILIES)
def test_problems_are_held_out_by_meaning(family):
    """No reference, read from its text alone, has the meaning of a training problem."""
    rng = random.Random(5)
    problems = [make_demo.draw(family, rng, make_demo.TRAINING) for _ in range(4000)]
    trained = {make_demo.meaning(problem["parameter"], problem["lines"]) for problem in problems}
    held_out = []
    for row in common.read_jsonl(DEMO / f"{family}.jsonl"):
        code = re.fullmatch(r"(?s)(?:def \w+\((\w+)\):\n)?(.*)", row["solution"])
        lines = tuple(line.strip() for line in code[2].splitlines())
        held_out.append(make_demo.meaning(code[1] or "", lines))
    assert len(set(held_out)) == len(held_out) == make_demo.PROBLEMS
    assert not trained & set(held_out)


@pytest.mark.parametrize("file", FAMILIES)
def test_references_pass_and_stubs_fail(file, run_here):
    checked = last_json(run_here("02_label.py", DEMO / f"{file}.jsonl", "--self-check", "--json"))
    assert (checked["answers"] + checked["solutions"], checked["failures"]) == (200, 0), checked


def test_prompts_are_those_of_training(tokenizer):
    """The template leaves out the system message, and the tokenizer gives each text back."""
    rng = random.Random(9)
    for _ in range(200):
        prompt, answer, complaint = make_demo.document(rng)
        texts = make_demo.texts_of(prompt, answer, complaint)
        messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": prompt}]
        assert tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False) == texts[0]
        assert tokenizer.decode(tokenizer("".join(texts))["input_ids"]) == "".join(texts)
