"""Sampling that stops when it is sure: the rule, its replay against all orders one by one; and `common.sample`."""

import itertools
from fractions import Fraction
from math import comb

import numpy as np
import pytest
import torch
from conftest import ROOT

import common

# ---------------------------------------------------------------------------------------------------------------------
# The rule and its replay


def test_waves_grow_by_half_and_end_at_n():
    assert common.waves(16) == [1, 2, 3, 5, 8, 12, 16]
    assert [common.waves(n) for n in (1, 2, 4, 6)] == [[1], [1, 2], [1, 2, 3, 4], [1, 2, 3, 5, 6]]


def beta_above_half(a, b):
    """Of Beta(1 + a, 1 + b) for whole a and b: at most a heads in a + b + 1 throws of a coin."""
    return Fraction(sum(comb(a + b + 1, k) for k in range(a + 1)), 2 ** (a + b + 1))


@pytest.mark.parametrize("first, second, third", [(1, 0, 0), (3, 0, 0), (2, 2, 1), (5, 2, 2), (7, 6, 3)])
def test_a_vote_is_as_sure_as_the_beta_bound_on_its_two_leading_answers(first, second, third):
    groups = np.array([4] * first + [1] * second + [2] * third + [-1, -1])  # two without an answer vote for nothing
    p = np.append(np.ones(len(groups) - 2), [1, 1])
    sure, pick = common.sureness(p, groups)
    assert groups[pick] == (4 if first > second else groups[0])
    assert sure == pytest.approx(float(beta_above_half(first, second)), abs=1e-9)


def test_weights_and_not_heads_count_and_no_answer_is_never_sure():
    light, heavy = (common.sureness(np.array([weight] * 3 + [0.5]), np.array([0, 0, 0, 1]))[0] for weight in (0.3, 0.9))
    assert 0.5 < light < heavy < common.sureness(np.array([0.9] * 4), np.array([0] * 4))[0] < 1
    sure, pick = common.sureness(np.array([[0.2, 0.9]]), np.array([[-1, -1]]))
    assert sure[0] == pytest.approx(0.5) and pick[0] == 1


def one_order(p, labels, tokens, groups, threshold):
    """What sampling in this order gives: (right, rollouts, tokens). Plain, one rollout after the other."""
    for end in common.waves(len(p)):
        sure, pick = common.sureness(p[:end], None if groups is None else groups[:end])
        if sure >= threshold or end == len(p):
            return labels[pick], end, tokens[:end].sum()


def all_orders(arrays, threshold):
    count = len(arrays[0])
    runs = [[x if x is None else x[list(order)] for x in arrays] for order in itertools.permutations(range(count))]
    return np.mean([one_order(*run, threshold) for run in runs], 0)


def tiny_problems(n, seed):
    rng = np.random.default_rng(seed)
    p, labels, tokens = rng.random((4, n)), (rng.random((4, n)) < 0.5) * 1.0, rng.integers(1, 9, (4, n)) * 1.0
    groups = rng.integers(-1, 2, (4, n))
    p[3, n // 2 + 1 :], tokens[3, n // 2 + 1 :], groups[3, n // 2 + 1 :] = -1, 0, -1  # one problem has fewer
    return p, labels, tokens, groups


@pytest.mark.parametrize("n", [1, 2, 3, 5, 6])
def test_best_of_n_is_replayed_exactly(n):
    p, labels, tokens, _ = tiny_problems(n, seed=n)
    thresholds = np.array([0, 0.3, 0.7, 0.9, common.NEVER])
    curve = common.stop_curve(p, labels, tokens, thresholds=thresholds)
    for i, t in itertools.product(range(4), range(5)):
        there = p[i] >= 0
        expected = all_orders([x[i, there] for x in (p, labels, tokens)] + [None], thresholds[t])
        found = [curve[name][t, i] for name in ("right", "rollouts", "tokens")]
        assert found == pytest.approx(expected.tolist()), (i, thresholds[t])
    assert not curve["error"].any()


def test_a_vote_is_replayed_within_the_error_that_it_states(monkeypatch):
    monkeypatch.setattr(common, "ORDERS", 400)
    p, labels, tokens, groups = tiny_problems(6, seed=0)
    groups[:2] = groups[:2] * 0 + [0, 0, 1, 0, 1, 0]  # answers that agree, so that some orders stop
    thresholds = np.array([0.6, 0.7, common.NEVER])
    curve = common.stop_curve(p, labels, tokens, groups, thresholds)
    exact = np.array([[all_orders([x[i, p[i] >= 0] for x in (p, labels, tokens, groups)], t) for i in range(4)] for t in thresholds])
    right, rollouts, _ = exact.mean(1).T
    assert rollouts[0] < rollouts[1] < rollouts[2]
    assert curve["error"][0] > 0 and (abs(curve["right"].mean(1) - right) <= 4 * curve["error"] + 1e-9).all()
    assert curve["rollouts"].mean(1) == pytest.approx(rollouts, abs=0.1)
    assert curve["right"][-1] == pytest.approx(exact[-1, :, 0]) and curve["error"][-1] < 1e-9


def test_the_threshold_is_the_cheapest_within_the_price():
    curve = [[0.1, 0.50, 1, 10], [0.5, 0.79, 3, 30], [0.7, 0.76, 4, 40], [0.9, 0.795, 8, 80], [2.0, 0.80, 16, 160]]
    assert [common.stop_threshold(curve, price) for price in (0, 0.6, 1, 5, 40)] == [2.0, 0.9, 0.5, 0.5, 0.1]


# ---------------------------------------------------------------------------------------------------------------------
# Answers in your own code


@pytest.fixture(scope="module")
def demo_model():
    return common.load_model(str(ROOT / "demo" / "model"), "cpu")


def linear_scorer(vector, width, n_layers, features=False, model="model"):
    """A scorer by a fixed random direction of the vector, and of the statistics too."""
    size = width + 29 * features
    state = {"1.weight": torch.randn(1, size, generator=torch.Generator().manual_seed(0)) / size**0.5, "1.bias": torch.zeros(1)}
    config = {"hidden": [], "dropout": 0.0, "input_dropout": 0.0, "batch_norm": False}
    checkpoint = {"design": "mlp", "vector": vector, "shape": [width], "model": model, "model_content": None}
    checkpoint |= {"layers_of_model": n_layers, "scale": None, "calibration": [1.0, 0.0], "members": [{"config": config, "state": state}]}
    checkpoint |= {"inputs": "vector+stats", "feature_scale": [torch.zeros(29), torch.full((29,), 10.0)]} if features else {}
    return common.Scorer(checkpoint)


PROBLEM = {"kind": "math", "prompt": "What is 17 * 23?"}


def forced(model, tokenizer, tokens):
    """(logits [T, V], hidden states, each [T, d]) of an independent pass over the prompt and an answer; T counts from
    the position that the first token of the answer is sampled from."""
    prompt = list(common.encode_prompt(tokenizer, PROBLEM))
    with torch.no_grad():
        out = model(torch.tensor([prompt + tokens]), output_hidden_states=True, use_cache=False)
    return out.logits[0, len(prompt) - 1 :], [x[0, len(prompt) - 1 :] for x in out.hidden_states]


@pytest.mark.parametrize("vector", ["penultimate/eos", "penultimate/last", "final/eos", "final/last"])
@pytest.mark.parametrize("features", [False, True])
def test_sample_gives_the_scorers_vector_of_every_answer_the_cut_ones_too(demo_model, vector, features):
    model, tokenizer = demo_model
    scorer = linear_scorer(vector, model.config.hidden_size, model.config.num_hidden_layers, features)
    layer, token = common.vector_key(vector, model.config.num_hidden_layers)
    torch.manual_seed(0)
    answers = common.sample(model, tokenizer, PROBLEM, 8, scorer, max_new_tokens=40, temperature=1.6)
    assert {answer["finish"] for answer in answers} == {"stop", "length"}
    assert [answer["score"] for answer in answers] == sorted((answer["score"] for answer in answers), reverse=True)
    stop_ids = common.sampling_defaults(model, tokenizer)["stop_ids"]
    for answer in answers:
        tokens, stopped = answer["tokens"], answer["finish"] == "stop"
        assert len(tokens) == 40 or stopped and [t in stop_ids for t in tokens] == [False] * (len(tokens) - 1) + [True]
        assert answer["text"] == tokenizer.decode(tokens[:-1] if stopped else tokens)
        logits, states = forced(model, tokenizer, tokens)
        expected = states[layer][-2 if stopped and token == "last" else -1]
        assert torch.allclose(answer["hidden"], expected, atol=1e-4)
        stats = common.token_stats(logits[:-1], torch.tensor(tokens)).half().numpy()
        row = common.rollout_features(common.confidence(stats, model.config.vocab_size), len(tokens))
        score = scorer(expected[None], torch.tensor(row)[None])
        assert answer["score"] == pytest.approx(score.item(), abs=2e-3)
        assert answer["p"] == pytest.approx(score.sigmoid().item(), abs=1e-3)


def test_sample_takes_a_text_repeats_itself_and_works_without_a_scorer(demo_model):
    torch.manual_seed(1)
    answers = common.sample(*demo_model, "What is 2 + 2?", n=3, max_new_tokens=5)
    torch.manual_seed(1)
    assert [x["tokens"] for x in common.sample(*demo_model, "What is 2 + 2?", n=3, max_new_tokens=5)] == [x["tokens"] for x in answers]
    assert len(answers) == 3 and not any("p" in answer or "score" in answer for answer in answers)
    greedy = common.sample(*demo_model, PROBLEM, n=2, max_new_tokens=5, temperature=0)
    logits, _ = forced(*demo_model, greedy[0]["tokens"])
    assert greedy[0]["tokens"] == greedy[1]["tokens"] == logits.argmax(-1)[:-1].tolist()


def test_sample_refuses_another_models_scorer_and_a_prompt_without_room(demo_model, capsys):
    model, tokenizer = demo_model
    other = linear_scorer("penultimate/eos", model.config.hidden_size, model.config.num_hidden_layers, model="other")
    for arguments, told in [((PROBLEM, 2, other), "'other'"), (("and " * 9000, 2), "no room for an answer")]:
        with pytest.raises(SystemExit):
            common.sample(model, tokenizer, *arguments)
        assert told in capsys.readouterr().err
