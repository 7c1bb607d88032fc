"""A run folder is of one model, and what the last command asked for, as if that had been sampled at once."""

import itertools
import os
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

import pytest
import torch
from conftest import (
    ROOT,
    assert_same_run,
    dies,
    first_dimension_scorer,
    generate,
    make_run,
    refusal_of,
    stored,
)  # fmt: skip

import common

MODEL = ROOT / "demo" / "model"
PROBLEMS = common.read_jsonl(ROOT / "demo" / "math_a.jsonl")[:5]
N = 4


def command_of(out, n=N, problems=PROBLEMS, *flags, model=MODEL):
    """Of the program, after it has written the file of problems."""
    common.write_jsonl(out / "p.jsonl", problems)
    sizes = "-n", n, "--max-new-tokens", 24, "--device", "cpu", "--out", out
    return [str(x) for x in (model, out / "p.jsonl", *sizes, *flags)]


def sample(*command, **options):
    generate.main(command_of(*command, **options))
    return Path(command[0]) / "model" / "p" / "32"


def refused(*command, **options):
    return refusal_of("01_generate.py", *command_of(*command, **options))


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """All rollouts of all problems, sampled at once."""
    return sample(tmp_path_factory.mktemp("whole"))


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """The first two rollouts of the first three problems; a copy is made of it before it grows."""
    return sample(tmp_path_factory.mktemp("small"), 2, PROBLEMS[:3])


@pytest.fixture
def begun(small, tmp_path):
    """A copy of the small run."""
    return shutil.copytree(small, tmp_path / "model" / "p" / "32")


def assert_as_if_sampled_at_once(run, whole):
    """To the bit, but for what the batch moves in vectors and statistics."""
    assert_same_run(whole, run)
    assert (run / "problems.jsonl").read_bytes() == (whole / "problems.jsonl").read_bytes()
    assert {path.name for path in run.iterdir()} == {path.name for path in whole.iterdir()} | {"parts"}
    made, expected = common.read_meta(run), common.read_meta(whole)
    for name in ("n", "asked", "layers", "stamp", "model_stamp", "sampling", "request"):
        assert made[name] == expected[name], name


def test_only_what_is_missing_is_sampled(begun, whole, tmp_path):
    with patch.object(generate, "sample_problems", wraps=generate.sample_problems) as sample_problems:
        sample(tmp_path)
    assert_as_if_sampled_at_once(begun, whole)
    ((_, _, jobs, *_), _) = sample_problems.call_args
    expected = {*common.keys_of(common.read_rollouts(whole))} - {
        (problem["id"], sample) for problem in PROBLEMS[:3] for sample in (0, 1)
    }
    sampled = common.keys_of(itertools.chain(*jobs.values()))
    assert {*sampled} == expected and len(sampled) == len(PROBLEMS) * N - 6


@pytest.mark.parametrize("k", [0, 4, 7, 10])
def test_growth_that_is_killed_at_any_write_goes_on(begun, whole, tmp_path, watch_writes, k):
    """meta.json, five parts; tokens.pt, hidden.pt, problems.jsonl, meta.json, rollouts.jsonl."""
    command = command_of(tmp_path)
    written = watch_writes(stop_at=k)
    with pytest.raises(KeyboardInterrupt):
        generate.main(command)
    assert len(written) == k and not (begun / "rollouts.jsonl").exists()
    again = watch_writes("parts/*")
    generate.main(command)
    assert_as_if_sampled_at_once(begun, whole)
    assert len(again) == 5 - min(max(k - 1, 0), 5)


def test_two_workers_grow_a_run(begun, whole, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("WORLD_SIZE", "2")
    for rank in "01":
        monkeypatch.setenv("RANK", rank)
        sample(tmp_path)
    assert_as_if_sampled_at_once(begun, whole)
    assert "the others still have 2 of 5 problems" in capsys.readouterr().err


def test_a_run_with_more_vectors_keeps_them_as_it_grows(begun, tmp_path):
    """The last command lacks rollouts and a layer."""
    more = "--extra", "last10,special", "--layers", "penultimate,final,0,2"
    whole = sample(tmp_path / "at once", N, PROBLEMS, *more)
    sample(tmp_path, 2, PROBLEMS[:3], *more[:3], "penultimate,final,0")
    sample(tmp_path, 3, PROBLEMS)
    sample(tmp_path, N, PROBLEMS, *more)
    assert_as_if_sampled_at_once(begun, whole)
    assert stored(begun)[1]["vectors"] == stored(whole)[1]["vectors"]
    extra, expected = (common.load_pt(run / "extra.pt") for run in (begun, whole))
    assert extra["keys"] == expected["keys"] and extra["special_offsets"].equal(expected["special_offsets"])
    assert extra["last10"].allclose(expected["last10"], atol=1e-4)
    assert extra["special"].allclose(expected["special"], atol=1e-4)


# ---- A run is what the last command asked for


@pytest.fixture
def no_model(monkeypatch):
    """From now on nothing is sampled or read."""
    return lambda: monkeypatch.setattr(common, "load_model", lambda *_, **__: pytest.fail("nothing is new"))


@pytest.mark.parametrize("n, problems", [
    (2, PROBLEMS[:3]), (N, PROBLEMS[1:]), (3, PROBLEMS[::-1]),
], ids=["fewer of fewer", "the first one is taken out", "another order"])  # fmt: skip
def test_what_is_not_asked_for_is_out_and_comes_back_without_sampling(whole, tmp_path, no_model, n, problems):
    run = shutil.copytree(whole, tmp_path / "model" / "p" / "32")
    expected = sample(tmp_path / "new", n, problems)
    no_model()
    assert_as_if_sampled_at_once(sample(tmp_path, n, problems), expected)
    assert_as_if_sampled_at_once(sample(tmp_path), whole)
    assert [*(run / "parts").glob("*.pt")]


def test_an_unfinished_run_ends_with_what_a_smaller_command_asks_for(tmp_path, whole, parts):
    parts(most=3)
    with suppress(KeyboardInterrupt):
        sample(tmp_path, 3)
    parts()
    expected = sample(tmp_path / "new", 2, PROBLEMS[:4])
    assert_as_if_sampled_at_once(sample(tmp_path, 2, PROBLEMS[:4]), expected)
    assert_as_if_sampled_at_once(sample(tmp_path), whole)


def test_a_changed_prompt_is_sampled_anew_under_its_id(begun, tmp_path, capsys, no_model):
    before = shutil.copytree(begun, tmp_path / "before")
    changed = [row | {"prompt": "What is 1 + 1?"} if row["id"] == "math_a/1" else row for row in PROBLEMS[:3]]
    expected = sample(tmp_path / "new", 2, changed)
    assert_as_if_sampled_at_once(sample(tmp_path, 2, changed), expected)
    line = f"{begun}: 1 problems have another prompt than before and are sampled anew, such as 'math_a/1'\n"
    assert line in capsys.readouterr().err
    no_model()
    assert_as_if_sampled_at_once(sample(tmp_path, 2, PROBLEMS[:3]), before)


@pytest.mark.parametrize("change", ["template", "system text"])
def test_whatever_changes_a_prompt_asks_anew(tmp_path, capsys, monkeypatch, change):
    """Also further layers are then read behind the prompts that the answers had."""
    model = shutil.copytree(MODEL, tmp_path / "model")
    template = (model / "chat_template.jinja").read_text()
    with_system = template.replace(" if message['role'] != 'system'", "")
    assert with_system != template
    (model / "chat_template.jinja").write_text(with_system)
    sample(tmp_path / "out", 2, PROBLEMS[:2], model=model)
    if change == "template":
        (model / "chat_template.jinja").write_text(template)
    else:
        monkeypatch.setitem(common.SYSTEM, "math", "Answer.")
    more = 2, PROBLEMS[:2], "--layers", "penultimate,final,0"
    expected = sample(tmp_path / "new", *more, model=model)
    assert "anew" not in capsys.readouterr().err
    assert_as_if_sampled_at_once(sample(tmp_path / "out", *more, model=model), expected)
    assert "2 problems have another prompt than before" in capsys.readouterr().err


def test_a_run_whose_parts_are_gone_serves_but_does_not_grow(begun, tmp_path, no_model):
    """As one that an older version has made."""
    shutil.rmtree(begun / "parts")
    no_model()
    sample(tmp_path, 2, PROBLEMS[:3])
    assert refused(tmp_path).startswith(f"{begun} has no parts/, and cannot grow without; choose another --out")
    assert (begun / "rollouts.jsonl").is_file()


def test_a_run_does_not_go_on_in_another_number_type(begun, tmp_path, monkeypatch):
    """Which is a device's own where none was asked for: as a run that was begun on a GPU."""
    other = f"{begun} was begun in float32, now it would be bfloat16; give --dtype float32, or choose"
    monkeypatch.setattr(common, "pick_dtype", lambda dtype, device: torch.bfloat16)
    for command in ((tmp_path,), (tmp_path, 2, PROBLEMS[:3], "--layers", "0")):
        assert refused(*command).startswith(other)
    assert (begun / "rollouts.jsonl").is_file()


# ---- One process at a time


def test_the_same_command_twice_at_once_makes_one_run(whole, tmp_path, loaded_python):
    """Two workers, of which one is started twice, together for real; the second of a rank waits."""
    command = [loaded_python, ROOT / "01_generate.py", *command_of(tmp_path)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    places = [os.environ | {"RANK": rank, "WORLD_SIZE": "2"} for rank in ("0", "1", "1")]
    programs = [subprocess.Popen(command, env=env, **pipes) for env in places]
    said = [program.communicate(timeout=300) for program in programs]
    assert [program.returncode for program in programs] == [0] * 3, said
    assert_as_if_sampled_at_once(tmp_path / "model" / "p" / "32", whole)


def test_who_is_second_in_a_place_says_so_and_waits(begun, whole, tmp_path, loaded_python):
    with generate.locked(begun, "worker-0"):
        program = subprocess.Popen(
            [loaded_python, ROOT / "01_generate.py", *command_of(tmp_path)], stderr=subprocess.PIPE, text=True
        )
        lines = iter(program.stderr.readline, "")
        assert f"{begun}: another process is at it; this one waits until that has ended\n" in lines
        assert not (begun / "hidden.pt").samefile(whole / "hidden.pt") and (begun / "rollouts.jsonl").is_file()
    program.communicate(timeout=300)
    assert_as_if_sampled_at_once(begun, whole)


def test_layers_that_another_command_adds_meanwhile_are_in_the_files(begun, tmp_path, monkeypatch):
    """Two processes of different RANKs and commands do not exclude each other."""
    sample_missing = generate.sample_missing

    def meanwhile(*arguments):
        monkeypatch.setattr(generate, "sample_missing", sample_missing)
        for name in ("RANK", "WORLD_SIZE"):
            monkeypatch.delenv(name)
        sample(tmp_path, N, PROBLEMS[:3], "--layers", "penultimate,final,0")
        return sample_missing(*arguments)

    monkeypatch.setattr(generate, "sample_missing", meanwhile)
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    sample(tmp_path, 1, PROBLEMS[:3])
    expected = sample(tmp_path / "new", 1, PROBLEMS[:3], "--layers", "penultimate,final,0")
    assert_as_if_sampled_at_once(begun, expected)
    assert stored(begun)[1]["vectors"] == stored(expected)[1]["vectors"]


def test_a_part_keeps_what_another_process_put_there(begun, whole, tmp_path):
    """Also tokens that differ, as they may on a GPU: then it keeps its vectors, too."""
    run = generate.Run(SimpleNamespace(n=4), "p", tmp_path, [], {"1": [{"prompt": [5]}]})

    def row(sample, token, **hidden):
        ids = torch.tensor([token])
        return {"id": "1", "sample": sample, "text": "", "finish": "stop", "ids": ids, "hidden": hidden}

    for rollouts in ([row(1, 7, a=1)], [row(0, 6, a=2), row(1, 7, a=3, b=3)], [row(0, 9, b=4)]):
        generate.add_to_part(run, "1", rollouts)
    kept = [(row["sample"], row["ids"].item(), row["hidden"]) for row in run.read_part("1")]
    assert kept == [(0, 6, {"a": 2}), (1, 7, {"a": 1, "b": 3})]


# ---- One name for a model


@pytest.fixture
def cached(tmp_path, monkeypatch):
    """The model as the Hub's cache has it, by the id org/tiny: its snapshot folder."""
    repository = tmp_path / "hub" / "models--org--tiny"
    snapshot = repository / "snapshots" / "abc123"
    shutil.copytree(MODEL, repository / "blobs")
    snapshot.mkdir(parents=True)
    for path in (repository / "blobs").iterdir():
        (snapshot / path.name).symlink_to(os.path.relpath(path, snapshot))
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("abc123")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    return snapshot


def test_a_model_has_one_stamp_as_a_folder_by_its_id_and_in_the_cache(cached, tmp_path):
    stamp = common.model_stamp(str(MODEL))
    assert len(stamp) == 16
    assert stamp == common.model_stamp("org/tiny") == common.model_stamp(str(cached))
    assert stamp == common.model_stamp("org/tiny", "abc123")
    assert common.model_stamp("org/other") is None and common.model_stamp("/no/such/folder") is None
    names = [common.model_name(name) for name in ("org/tiny", cached, MODEL, "/far/away/models--a--b-c/snapshots/f")]
    assert names == ["tiny", "tiny", "model", "b-c"]


def test_a_model_of_which_a_file_is_missing_has_no_stamp(tmp_path):
    folder = shutil.copytree(MODEL, tmp_path / "model")
    shutil.move(folder / "model.safetensors", folder / "model-00002-of-00002.safetensors")
    assert common.model_stamp(str(folder)) is None
    shutil.copy(folder / "model-00002-of-00002.safetensors", folder / "model-00001-of-00002.safetensors")
    assert common.model_stamp(str(folder))


def test_a_run_goes_on_with_the_same_weights_and_sampling_alone_wherever_the_model_lies(begun, whole, tmp_path):
    """Of the other model the beginning and the end of the weights are the same, as merged adapters may leave them."""
    moved, other = (shutil.copytree(MODEL, tmp_path / name / "model") for name in ("moved", "other"))
    weights = bytearray((other / "model.safetensors").read_bytes())
    middle = len(weights) // 2
    weights[middle : middle + len(weights) // 32] = bytes(len(weights) // 32)
    (other / "model.safetensors").write_bytes(weights)
    error = f"{begun} was made by the model {MODEL}, {other} is another one; choose another --out"
    assert refused(tmp_path, model=other).startswith(error)
    assert refused(tmp_path, 2, PROBLEMS[:3], model=other).startswith(error), "also a finished run"
    settings = common.read_json(moved / "generation_config.json")
    common.write_json(moved / "generation_config.json", settings | {"top_p": 0.5})
    assert f"{begun} was made with other settings (those of the model's files)" in refused(tmp_path, model=moved)
    common.write_json(moved / "generation_config.json", settings)
    assert_as_if_sampled_at_once(sample(tmp_path, model=moved), whole)


def test_a_scorer_is_held_to_the_model_and_not_to_its_name(tmp_path, capsys, run_here):
    run = make_run(tmp_path / "run", model="/b/final")
    common.write_json(run / "meta.json", common.read_meta(run) | {"model_stamp": "1234"})
    scorer = first_dimension_scorer(tmp_path / "s.pt", model="/a/final", model_stamp="1234")
    assert len(common.score_run(common.load_scorer(scorer), run)[0]) == 48
    first_dimension_scorer(scorer, model="/a/final", model_stamp="5678")
    error = "is of the model '/a/final' (5 layers), the run is of the model '/b/final' (5 layers)"
    assert error in dies(capsys, common.score_run, common.load_scorer(scorer), run)
    run_here("03_train_scorer.py", run, "--configs", 1, "-o", scorer)
    made = common.load_scorer(scorer).checkpoint
    assert (made["model"], made["model_stamp"]) == ("/b/final", "1234")


def test_a_corrected_reference_is_taken_over_and_judged(begun, tmp_path, run_here):
    run_here("02_label.py", begun)
    before = common.read_labels(begun)
    answer = before[2]["answer"] or "7"
    assert before[2]["id"] == PROBLEMS[1]["id"]
    other = [row | {"answer": [answer, "x"]} if row["id"] == PROBLEMS[1]["id"] else row for row in PROBLEMS[:3]]
    sample(tmp_path, 2, other)
    problems = common.read_jsonl(begun / "problems.jsonl")
    assert problems[1]["answer"] == [answer, "x"] and problems[0]["answer"] == PROBLEMS[0]["answer"]
    run_here("02_label.py", begun)
    after = common.read_labels(begun)
    assert after[2]["label"] == 1 and before[:2] == after[:2] and before[4:] == after[4:]
