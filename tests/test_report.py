"""The report: every formula against brute force over all subsets, and the command on whole and broken runs."""

import importlib
import itertools
import json
from collections import Counter

import numpy as np
import pytest
from conftest import last_json, make_run

import common

report = importlib.import_module("05_baselines")


def small_run(tmp_path, ragged=False, n=5, problems=6, seed=3):
    path = make_run(tmp_path / f"run{seed}", problems=problems, n=n, seed=seed)
    if ragged:  # the last problem keeps two rollouts
        for name in ("rollouts", "labels"):
            rows = common.read_jsonl(path / f"{name}.jsonl")
            common.write_jsonl(path / f"{name}.jsonl", [r for r in rows if r["id"] != f"p{problems - 1}" or r["sample"] < 2])
    return path


def add_scores(path, name, seed=0, p=True, ties=False):
    rng = np.random.default_rng(seed)
    rows = []
    for row in common.read_labels(path):
        score = float(rng.normal() + row["label"])
        score = round(score) if ties else score
        rows.append({"id": row["id"], "sample": row["sample"], "score": score, **({"p": 1 / (1 + np.exp(-score))} if p else {})})
    common.write_jsonl(path / "scores" / f"{name}.jsonl", rows)
    return rows


def by_problem(path, scores):
    out = {}
    for label, score in zip(common.read_labels(path), scores, strict=True):
        out.setdefault(label["id"], []).append((label["label"], label["group"], score["score"], score.get("p")))
    return list(out.values())


def subsets(rollouts, n):
    return list(itertools.combinations(rollouts, min(n, len(rollouts))))


@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize("ties", [False, True])
def test_expectations_over_all_subsets(tmp_path, ragged, ties):
    path = small_run(tmp_path, ragged)
    problems = by_problem(path, add_scores(path, "mine", ties=ties))
    run = report.load_run(path)
    for n in range(1, 6):
        picked = [np.mean([max(s, key=lambda r: r[2])[0] for s in subsets(p, n)]) for p in problems]  # max keeps the first of ties
        oracle = [np.mean([max(r[0] for r in s) for s in subsets(p, n)]) for p in problems]
        random = [np.mean([np.mean([r[0] for r in s]) for s in subsets(p, n)]) for p in problems]
        assert report.pick_by_score(run, run.scores["mine"][""], n) == pytest.approx(picked)
        assert report.pick_oracle(run, n) == pytest.approx(oracle)
        assert report.pick_random(run, n) == pytest.approx(random)


def majority(rollouts):
    counts = Counter(r[1] for r in rollouts if r[1] is not None)
    winners = [g for g in counts if counts[g] == max(counts.values())]
    return np.mean([np.mean([r[0] for r in rollouts if r[1] == g]) for g in winners]) if winners else 0.0


def weighted(rollouts):
    sums = {}
    for _, group, _, p in rollouts:
        if group is not None:
            sums[group] = sums.get(group, 0) + p
    winner = max(sums, key=sums.get) if sums else None
    return max((r for r in rollouts if r[1] == winner or not sums), key=lambda r: r[2])[0]


def votable_run(tmp_path, ragged):
    """A run with rollouts that give no answer, and a problem where none does."""
    path = small_run(tmp_path, ragged)
    rows = common.read_jsonl(path / "labels.jsonl")
    rows[0]["group"] = rows[5]["group"] = None
    for row in rows[10:15]:
        row["group"] = None
    common.write_jsonl(path / "labels.jsonl", rows)
    problems = by_problem(path, add_scores(path, "mine"))
    return report.load_run(path), problems


@pytest.mark.parametrize("ragged", [False, True])
def test_majority_over_all_subsets(tmp_path, ragged):
    run, problems = votable_run(tmp_path, ragged)
    exact = report.pick_by_majority(run, [1, 2, 3, 4, 5])
    for n in range(1, 6):
        assert exact[n] == pytest.approx([np.mean([majority(s) for s in subsets(p, n)]) for p in problems])


def test_majority_of_many_tied_answers(tmp_path):
    """Ten answers, up to five of them tied at two each: the credit is shared exactly."""
    path = make_run(tmp_path / "run", problems=20, n=10, seed=1)
    rows, rng = common.read_jsonl(path / "labels.jsonl"), np.random.default_rng(0)
    for row in rows:
        row["group"] = int(rng.integers(0, 6)) or None
        row["label"] = int(row["group"] == 1)
    common.write_jsonl(path / "labels.jsonl", rows)
    run = report.load_run(path)
    problems = by_problem(path, [{"score": 0.0}] * len(rows))
    exact = report.pick_by_majority(run, [4, 7, 10])
    for n in (4, 7, 10):
        assert exact[n] == pytest.approx([np.mean([majority(s) for s in subsets(p, n)]) for p in problems])


@pytest.mark.parametrize("ragged", [False, True])
def test_weighted_votes_over_all_subsets(tmp_path, ragged, monkeypatch):
    run, problems = votable_run(tmp_path, ragged)
    p = run.p["mine"][""]
    for few, tolerance in ((10, 1e-9), (4000, 0.03)):  # 10 subsets of 3 of 5: few enough to take all, where nothing is padded
        monkeypatch.setattr(report, "SUBSETS", few)
        report.subsets_of.cache_clear()
        for n in (3, 5):
            expected = [np.mean([weighted(s) for s in subsets(q, n)]) for q in problems]
            found = report.pick_by_vote(run, lambda s, valid: s * valid, p, n)
            if few == 10 and ragged and n == 3:
                assert len(found) == 10 and report.subset_error(found) > 0  # drawn, and it says so
            else:
                assert found.mean(0) == pytest.approx(expected, abs=tolerance if n == 3 else 1e-9)


def test_standard_error_of_drawn_subsets():
    """The stated error is the spread of the accuracy over many repetitions of the draws."""
    rng = np.random.default_rng(0)
    chances = rng.random(30)
    means = [(draws := rng.random((50, 30)) < chances).mean() for _ in range(2000)]
    assert report.subset_error(draws.astype(float)) == pytest.approx(np.std(means), rel=0.1)


def test_filtered_and_borda_weights():
    scores, valid = np.array([[3.0, 1.0, 2.0, -np.inf]]), np.array([[True, True, True, False]])
    assert report.VOTES["top 90% by confidence, vote"][1](scores, valid).tolist() == [[3, 1, 2, 0]]  # ceil of 2.7
    assert report.VOTES["top 10% by confidence, vote"][1](scores, valid).tolist() == [[3, 0, 0, 0]]
    assert report.top_share(0.5)(scores, valid).tolist() == [[3, 0, 2, 0]]  # ceil of 1.5
    assert report.VOTES["confidence-weighted vote"][1](scores, valid).tolist() == [[3, 1, 2, 0]]
    assert report.VOTES["Borda vote, self-certainty"][1](scores, valid).tolist() == [[3, 1, 2, 0]]


def test_auroc_and_calibration():
    right, scores = np.array([True, False, True, False, False]), np.array([2.0, 2.0, 3.0, 0.0, 1.0])
    pairs = [(a > b) + 0.5 * (a == b) for a in scores[right] for b in scores[~right]]
    assert report.auroc(right, scores) == pytest.approx(np.mean(pairs))
    assert report.auroc(np.array([True]), np.array([1.0])) is None
    # two bins: |.25 - .5| on two of four, |.95 - 1| on the others
    p = np.array([0.25, 0.25, 0.95, 0.95])
    assert report.calibration_error(np.array([True, False, True, True]), p) == pytest.approx((0.5 + 0.1) / 4)


def test_within_problem_auroc(tmp_path):
    path = small_run(tmp_path)
    problems = by_problem(path, add_scores(path, "mine"))
    run = report.load_run(path)
    each = []
    for rollouts in problems:
        pairs = [(a[2] > b[2]) + 0.5 * (a[2] == b[2]) for a in rollouts for b in rollouts if a[0] > b[0]]
        each += [np.mean(pairs)] if pairs else []
    assert report.auroc_within(run, run.scores["mine"][""]) == pytest.approx(np.mean(each))


def test_runs_of_one_method_are_one_row_with_a_spread(tmp_path, run_script):
    path = small_run(tmp_path, n=8, problems=40)
    alone = []
    for seed in (32, 42, 52):
        rows = add_scores(path, f"scatr.cal@32-{seed}", seed=seed)
        alone.append(np.mean([max(p, key=lambda r: r[2])[0] for p in by_problem(path, rows)]))
    add_scores(path, "stranger", seed=9, p=False)
    done = run_script("05_baselines.py", path)
    results = {r["method"]: r for r in common.read_json(path / "results.json")["groups"][0]["rows"]}
    scatr = results["SCaTR (cal), best-of-N"]
    assert scatr["runs"] == 3 and scatr["accuracy"] == pytest.approx(np.mean(alone))
    assert scatr["std"] == pytest.approx(np.std(alone, ddof=1)) and scatr["correct"] == pytest.approx(np.sum(alone) / 3 * 40)
    assert results["stranger, best-of-N"]["std"] is None and "stranger, weighted vote" not in results
    assert "SCaTR (cal), weighted vote" in results and set(scatr["curve"]) == {"1", "2", "4", "8"}
    best = next(r for r in results.values() if r["best_confidence"])
    assert best["accuracy"] == max(r["accuracy"] for r in results.values() if r["kind"] == "confidence")
    assert scatr["delta"] == pytest.approx(scatr["accuracy"] - best["accuracy"])
    assert scatr["gap_closed"] == pytest.approx(scatr["delta"] / (results["oracle"]["accuracy"] - best["accuracy"]))
    assert scatr["delta_low"] < scatr["delta"] < scatr["delta_high"]
    assert f"{100 * scatr['accuracy']:.1f} ± {100 * scatr['std']:.1f}" in done.stdout
    assert last_json(done)["accuracy"]["SCaTR (cal), best-of-N"] == pytest.approx(scatr["accuracy"], abs=1e-4)
    assert "SCaTR (cal), best-of-N" in (path / "report.md").read_text()


def test_the_bootstrap_interval_is_the_paired_one():
    """For a difference of fixed size on every problem the interval has no width, however much accuracies vary."""
    base = np.random.default_rng(0).random(30) * 0.5
    rows = [report.Row(name, kind, [{5: values}]) for name, kind, values in (
        ("rule", "confidence", base), ("better", "scorer", base + 0.25), ("oracle", "bound", base + 0.5))]  # fmt: skip
    rule, better, _ = report.compare(rows, 5)
    assert better["delta_low"] == pytest.approx(0.25) and better["delta_high"] == pytest.approx(0.25)
    assert better["gap_closed"] == pytest.approx(0.5)


def test_a_null_label_leaves_its_problem_out_of_all_rows(tmp_path, run_script):
    path = small_run(tmp_path, problems=10)
    add_scores(path, "mine")
    rows = common.read_jsonl(path / "labels.jsonl")
    rows[7].update(label=None, reason="error: no process")
    common.write_jsonl(path / "labels.jsonl", rows)
    done = run_script("05_baselines.py", path)
    group = common.read_json(path / "results.json")["groups"][0]
    assert group["left_out"] == ["p1"] and {r["problems"] for r in group["rows"]} == {9}
    assert "1 problems left out" in done.stdout


def test_windows_are_recomputed_from_tokens(tmp_path):
    path = small_run(tmp_path, problems=10, n=4)
    stored = report.load_run(path)
    again = report.load_run(path, 3, 5)
    assert np.array_equal(stored.scores["gap/avg"][""], again.scores["gap/avg"][""])
    tokens, rows = common.load_pt(path / "tokens.pt"), common.read_rollouts(path)
    first = common.confidence(tokens["stats"][: int(tokens["offsets"][1])].numpy(), 50, window=3, tail=5)
    assert again.scores["gap/tail"][""][0, 0] == pytest.approx(first["gap/tail"])
    assert again.scores["entropy/lowest"][""][0, 0] == pytest.approx(-first["entropy/lowest"])
    assert rows[0]["conf"]["gap/tail"] == pytest.approx(stored.scores["gap/tail"][""][0, 0])


def test_several_sets_are_tables_of_one_report(tmp_path, run_script):
    one, two = small_run(tmp_path, seed=1), small_run(tmp_path, seed=2)
    common.write_json(two / "meta.json", {**common.read_meta(two), "dataset": "other"})
    done = run_script("05_baselines.py", one, two, "--out", tmp_path / "both")
    assert "tiny on made_up" in done.stdout and "tiny on other" in done.stdout
    assert len(common.read_json(tmp_path / "both" / "results.json")["groups"]) == 2


def test_bad_runs_get_one_line(tmp_path, run_script):
    path = small_run(tmp_path)
    assert "not a run folder" in run_script("05_baselines.py", tmp_path, code=2).stderr
    add_scores(path, "mine")
    rows = common.read_jsonl(path / "scores" / "mine.jsonl")
    common.write_jsonl(path / "scores" / "mine.jsonl", rows[:-1])
    assert "29 rows for a run of 30" in run_script("05_baselines.py", path, code=2).stderr
    (path / "scores" / "mine.jsonl").write_text("\n".join(json.dumps({**r, "score": None}) for r in rows))
    assert "finite" in run_script("05_baselines.py", path, code=2).stderr
    (path / "scores" / "mine.jsonl").unlink()
    (path / "labels.jsonl").unlink()
    assert "02_label.py" in run_script("05_baselines.py", path, code=2).stderr


def test_code_has_no_votes(tmp_path, run_script):
    path = make_run(tmp_path / "code", kind="code")
    add_scores(path, "mine")
    run_script("05_baselines.py", path)
    assert not any("vote" in r["method"] for r in common.read_json(path / "results.json")["groups"][0]["rows"])
