"""Answers from a serving engine: what 01_generate.py asks of it, and what it makes of its answers."""

import shutil
from functools import partial

import pytest
from conftest import ROOT, assert_same_run, call_main, dies, edit_jsonl, stored, tokens_of
from transformers import AutoTokenizer

import common

MODEL, N = ROOT / "demo/model", 4
OPENAI = {"model", "messages", "max_tokens", "seed", "temperature", "top_p", "reasoning_effort"}


program = partial(call_main, "01_generate.py")


@pytest.fixture
def folder(tmp_path):
    """Problems and a model that has lost its weights: nothing here needs them."""
    left_out = shutil.ignore_patterns("*.safetensors")
    shutil.copytree(MODEL, tmp_path / "model", ignore=left_out)
    problems = common.read_jsonl(ROOT / "demo/math_a.jsonl")[:3]
    chat = {"id": "chat", "messages": [{"role": "user", "content": "Hello?"}]}
    common.write_jsonl(tmp_path / "p.jsonl", [*problems, chat])
    return tmp_path


def ask(folder, *flags):
    """The bodies of the requests by custom_id."""
    file = folder / "requests.jsonl"
    command = folder / "model", folder / "p.jsonl", *flags, "-n", N, "--out", folder / "runs"
    program(*command, "--requests", file)
    assert not (folder / "runs").exists()
    rows = common.read_jsonl(file)
    assert {(row["method"], row["url"]) for row in rows} == {("POST", "/v1/chat/completions")}
    assert len({row["body"]["seed"] for row in rows}) == len({row["custom_id"] for row in rows}) == len(rows)
    return {row["custom_id"].rpartition("-")[0]: row["body"] for row in rows}


def prompts_of(folder, model=MODEL):
    """What our own engine would be given."""
    tokenizer, problems = AutoTokenizer.from_pretrained(model), common.load_problems(folder / "p.jsonl")
    return tokenizer, {row["id"]: list(common.encode_prompt(tokenizer, row)) for row in problems}


def test_requests_ask_for_what_our_own_engine_would_sample(folder, capsys):
    flags = ["--max-new-tokens", 200, "--top-k", 7, "--temperature", 0.5, "--repetition-penalty", 1.5]
    bodies = ask(folder, *flags)
    assert "16 requests" in capsys.readouterr().err
    tokenizer, prompts = prompts_of(folder)
    assert bodies.keys() == {f"{id}#{sample}" for id in prompts for sample in range(N)}
    for name, body in bodies.items():
        prompt = prompts[name.partition("#")[0]]
        messages = body.pop("messages")
        options = body.pop("chat_template_kwargs")
        encoded = tokenizer.apply_chat_template(messages, add_generation_prompt=True, **options)["input_ids"]
        assert encoded == prompt
        assert body.pop("seed") < 2**31 and body == {
            "model": str(folder / "model"), "max_tokens": min(200, 256 - len(prompt)), "top_k": 7,
            "temperature": 0.5, "top_p": 1.0, "repetition_penalty": 1.5, "return_token_ids": True,
            "skip_special_tokens": False,
        }  # fmt: skip


def test_plain_requests_have_fields_that_every_server_knows(folder, capsys):
    bodies = ask(folder, "--plain", "--top-k", 3)
    assert "'top_k': 3" in capsys.readouterr().err
    assert all(body.keys() <= OPENAI for body in bodies.values())


EFFORT = (
    "{{ reasoning_effort }}{% for m in messages %}{{ m.content }}{% endfor %}"
    "{% if add_generation_prompt %}A{% endif %}"
)
NO_SYSTEM = "{% if messages[0].role == 'system' %}{{ raise_exception('no') }}{% endif %}" + EFFORT


@pytest.mark.parametrize("template, roles", [(EFFORT, ["system", "user"]), (NO_SYSTEM, ["user"])])
def test_messages_are_those_that_the_template_takes(folder, template, roles):
    (folder / "model/chat_template.jinja").write_text(template)
    bodies, (tokenizer, prompts) = ask(folder, "--plain"), prompts_of(folder, folder / "model")
    for id, prompt in prompts.items():
        body = bodies[f"{id}#0"]
        assert [message["role"] for message in body["messages"]] == (["user"] if id == "chat" else roles)
        effort = {"reasoning_effort": body["reasoning_effort"], "add_generation_prompt": True}
        assert tokenizer.apply_chat_template(body["messages"], **effort)["input_ids"] == prompt


def test_a_model_without_a_chat_template_has_no_requests(folder, capsys):
    (folder / "model/chat_template.jinja").unlink()
    assert "this model has no chat template" in dies(capsys, ask, folder)


def test_requests_are_of_one_data_set_and_without_stopping(folder, capsys):
    words = "--requests and --responses: one data set, no --scorer"
    assert words in dies(capsys, ask, folder, "--scorer", "x.pt")
    assert words in dies(capsys, ask, folder, folder / "p.jsonl")


# ---- Answers


@pytest.fixture(scope="module")
def sampled(tmp_path_factory):
    """A run of our own engine, in which some rollouts are cut."""
    folder = tmp_path_factory.mktemp("sampled")
    common.write_jsonl(folder / "p.jsonl", common.read_jsonl(ROOT / "demo/math_a.jsonl")[:4])
    program(MODEL, folder / "p.jsonl", "-n", N, "--max-new-tokens", 30, "--out", folder)
    finishes = {row["finish"] for row in common.read_rollouts(folder / "model/p/32")}
    assert finishes == {"stop", "length"}
    return folder


def read_back(folder, out, rows):
    """The run of answers, which are the rows of a file."""
    file = out / "answers.jsonl"
    common.write_jsonl(file, rows)
    program(MODEL, folder / "p.jsonl", "-n", N, "--max-new-tokens", 30, "--responses", file, "--out", out)
    return out / "model/p/32"


def said_of(capsys):
    """What a command said of answers.jsonl, without its path."""
    lines = capsys.readouterr().err.splitlines()
    return [line.partition("answers.jsonl: ")[2] for line in lines if "answers.jsonl: " in line]


def batch_rows(run, choice_of, per_row=N):
    """The rollouts as the output of vllm run-batch: `per_row` of them in each response."""
    prompts, rows = prompts_of(run.parents[2])[1], {}
    for row, ids in zip(common.read_rollouts(run), tokens_of(run), strict=True):
        first = row["sample"] // per_row * per_row
        choice = {"index": row["sample"] - first, "finish_reason": row["finish"], "stop_reason": None}
        choices = rows.setdefault((row["id"], first), [])
        choices.append(choice | choice_of(row["response"], ids, row["finish"]))
    return [
        {"id": f"vllm-{id}", "custom_id": f"{id}#{first}", "error": None, "response": {
            "status_code": 200, "request_id": f"vllm-batch-{id}", "body": {
                "id": "chatcmpl-1", "object": "chat.completion", "model": "m", "choices": choices,
                "prompt_token_ids": prompts[id],
        }}}
        for (id, first), choices in rows.items()
    ]  # fmt: skip


def message(text):
    return {"role": "assistant", "content": text, "refusal": None, "reasoning": None}


def with_token_ids(text, ids, finish):
    return {"message": message(text), "token_ids": ids, "logprobs": None}


def without_the_end(text, ids, finish):
    """As an engine that leaves the token out which ended the answer."""
    return {"message": message(text), "token_ids": ids[:-1] if finish == "stop" else ids}


@pytest.mark.parametrize("choice_of, per_row", [(with_token_ids, 1), (without_the_end, N)])
def test_an_engines_tokens_get_the_vectors_of_our_own_engine(sampled, tmp_path, choice_of, per_row, capsys):
    run = sampled / "model/p/32"
    rows = batch_rows(run, choice_of, per_row)[::-1]  # engines end in any order
    assert_same_run(run, read_back(sampled, tmp_path, rows), statistics=5e-3)
    assert said_of(capsys) == [f"4 problems, {4 * N} answers"]


def test_rows_with_tokens_get_the_vectors_of_our_own_engine(sampled, tmp_path):
    run = sampled / "model/p/32"
    rows = [row | {"response": ""} for row in common.read_rollouts(run)]
    rows = [row | {"tokens": ids} for row, ids in zip(rows, tokens_of(run))]
    assert_same_run(run, read_back(sampled, tmp_path, rows), statistics=5e-3)


def test_rows_of_texts(sampled, tmp_path):
    """In their order, cut where they say so, and without the text of the token that ended them."""
    first, *others = [f"math_a/{i}" for i in range(4)]
    rows = [{"id": first, "response": text} for text in ("2", "", "it is 3<|im_end|>")]
    rows += [{"id": id, "response": "cut", "finish": "length"} for id in others]
    run = read_back(sampled, tmp_path, [*rows, {"id": others[0], "response": "", "finish": "length"}])
    found = common.read_rollouts(run)
    assert [row["response"] for row in found] == ["2", "", "it is 3", "cut", "", "cut", "cut"]
    assert [row["finish"] for row in found] == ["stop"] * 3 + ["length"] * 4
    assert [row["n_tokens"] for row in found if not row["response"]] == [1, 0]


def test_what_an_engine_did_not_answer_is_counted_and_named(sampled, tmp_path, capsys):
    rows = batch_rows(sampled / "model/p/32", with_token_ids, 1)
    refused = {"error": {"message": "maximum context length is 256", "type": "BadRequestError", "code": 400}}
    rows[1] |= {"response": {"status_code": 400, "request_id": "1", "body": None}, "error": refused}
    rows[4]["response"]["body"]["choices"][0] |= {"message": message(None), "token_ids": None}
    rows[5]["response"]["body"]["choices"][0] |= {"token_ids": [9999]}  # of another model
    rows[9]["custom_id"] = "another/7#1"
    rows[14]["response"]["body"]["prompt_token_ids"] = [1, 2, 3]
    again = read_back(sampled, tmp_path, [*rows, rows[6]])
    first, *others = said_of(capsys)
    assert first == "4 problems, 12 answers"
    assert sorted(others) == [
        "1 answers are to another prompt than this model's files give, such as math_a/3",
        "1 answers to other problems are left out, such as another/7",
        f"3 problems have fewer than {N} answers, such as math_a/0",
        f"3 requests or choices gave no answer, such as math_a/0 ({refused})",
    ]
    kept = [ids for i, ids in enumerate(tokens_of(sampled / "model/p/32")) if i not in (1, 4, 5, 9)]
    assert tokens_of(again) == kept


ODD = "not an answer as engines write them"


@pytest.mark.parametrize("rows, words", [
    ([{"id": "math_a/0", "response": "2"}], "no answer to 3 problems, such as math_a/1; ask again"),
    ([{"custom_id": "math_a/0#0", "response": {"body": None}}], "no answer to 4 problems"),
    ([{"custom_id": "request-1", "response": {"body": {"choices": []}}}], "custom_id is not ID#SAMPLE"),
    ([{"custom_id": "math_a/0#0", "response": {"body": {"choices": [7]}}}], ODD),
])  # fmt: skip
def test_answers_that_do_not_fit_are_refused(sampled, tmp_path, rows, words, capsys):
    assert words in dies(capsys, read_back, sampled, tmp_path, rows)


def test_a_run_of_an_engines_answers_is_gone_on_with_as_any_other(sampled, tmp_path):
    """Without --responses, as in run_all.sh, it is finished, and can get vectors of other layers."""
    run = read_back(sampled, tmp_path, batch_rows(sampled / "model/p/32", with_token_ids))
    before = (run / "rollouts.jsonl").read_bytes()
    problems = shutil.copy(sampled / "p.jsonl", tmp_path / "p.jsonl")
    command = MODEL, problems, "-n", N, "--max-new-tokens", 30, "--out", tmp_path
    program(*command, "--layers", "penultimate,final,0")
    assert (run / "rollouts.jsonl").read_bytes() == before and stored(run)[1]["vectors"][-1] == "0/eos"
    edit_jsonl(problems, lambda row: row | {"prompt": f"{row['prompt']}?"})
    with pytest.raises(common.BadInput, match=r"made with other settings \(responses\)"):
        program(*command)


def test_answers_to_other_requests_are_refused_and_too_few_are_told_of(sampled, tmp_path, capsys):
    problems = shutil.copy(sampled / "p.jsonl", tmp_path / "p.jsonl")
    command = MODEL, problems, "-n", N, "--max-new-tokens", 30, "--out", tmp_path
    program(*command, "--requests", tmp_path / "asked.jsonl")
    names = [row["custom_id"] for row in common.read_jsonl(tmp_path / "asked.jsonl")]
    rows = batch_rows(sampled / "model/p/32", with_token_ids, 1)
    assert [row["custom_id"] for row in rows] == [name.rpartition("-")[0] for name in names]
    rows = [row | {"custom_id": name} for row, name in zip(rows, names)]
    answers = tmp_path / "answers.jsonl"
    common.write_jsonl(answers, rows)
    words = "'math_a/0' was asked otherwise; give the flags and prompts of --requests"
    assert words in dies(capsys, program, *command, "--responses", answers, "--temperature", 0.5)
    common.write_jsonl(answers, rows[:-1])
    program(*command, "--responses", answers)
    assert f"1 problems have fewer than {N} answers" in capsys.readouterr().err
    program(*command, "-n", N + 1)
    assert "15 of 20 rollouts were given, and the run does not grow" in capsys.readouterr().err
    assert "nowhere: no such file" in dies(capsys, program, *command, "--responses", tmp_path / "nowhere")
    edit_jsonl(problems, lambda row: row | {"prompt": f"{row['prompt']}?"})
    assert words in dies(capsys, program, *command[:-1], tmp_path / "other", "--responses", answers)


def test_what_the_prompt_holds_or_the_server_took_out(tmp_path, capsys):
    """A template that opens the reasoning; servers return that or not. One that took the reasoning out is told of."""
    model = shutil.copytree(MODEL, tmp_path / "model")
    template = "{% for m in messages %}{{ m.content }}{% endfor %}{{ '<think>\\n' }}"
    (model / "chat_template.jinja").write_text(template)
    common.write_jsonl(tmp_path / "p.jsonl", [{"id": "p", "prompt": "2 + 2?"}])
    whole = "<think>\nlet me see\n</think>\n\nit is 4"
    taken = [{"content": "it is 4", name: "let me see"} for name in ("reasoning", "reasoning_content")]
    messages = [{"content": whole}, {"content": whole.removeprefix("<think>\n")}, *taken]
    choices = [{"message": message, "finish_reason": "stop"} for message in messages]
    row = {"custom_id": "p#0", "response": {"body": {"choices": choices}}}
    common.write_jsonl(tmp_path / "answers.jsonl", [row])
    program(model, tmp_path / "p.jsonl", "--responses", tmp_path / "answers.jsonl", "--out", tmp_path)
    found = [(row["response"], row["finish"]) for row in common.read_rollouts(tmp_path / "model/p/32")]
    assert found == [(whole, "stop")] * 2
    assert said_of(capsys)[1].startswith("2 requests or choices gave no answer, such as p (the server took the rea")
