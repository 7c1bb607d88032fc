"""The report: every formula against brute force over all subsets, and the command on whole and broken runs."""

import importlib
import importlib.util
import itertools
import json
import os
from collections import Counter

import numpy as np
import pytest
from conftest import last_json, make_run
from test_select import first_dimension_scorer

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
    assert common.auroc(right, scores) == pytest.approx(np.mean(pairs))
    assert common.auroc(np.array([True]), np.array([1.0])) is None
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
    done = run_script("05_baselines.py", path, "--json")
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
    add_scores(path, "longest")
    assert "another name" in run_script("05_baselines.py", path, code=2).stderr
    (path / "scores" / "longest.jsonl").unlink()
    (path / "labels.jsonl").unlink()
    assert "02_label.py" in run_script("05_baselines.py", path, code=2).stderr


def test_code_has_no_votes(tmp_path, run_script):
    path = make_run(tmp_path / "code", kind="code")
    add_scores(path, "mine")
    run_script("05_baselines.py", path)
    assert not any("vote" in r["method"] for r in common.read_json(path / "results.json")["groups"][0]["rows"])


def cells_of(path, first):
    """The cells of the markdown table's line that begins with `first`."""
    line = next(line for line in path.read_text().splitlines() if line.startswith(f"| {first} |"))
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_costs_and_speed_ups(tmp_path, run_script):
    path = small_run(tmp_path)
    costs = {"scatr.cal@32": (5_000_000, 60, 3e12, 0.2), "scatr.cal@42": (7_000_000, 180, 5e12, 0.3), "lora.cal@32": (1_700_000_000, 3000, 2e16, 50.0),
             "prm.It-1.5B": (1_540_000_000, None, None, 100.0)}  # fmt: skip
    for seed, (name, values) in enumerate(costs.items()):
        add_scores(path, name, seed=seed)
        keys = ("parameters", "train_seconds", "train_flops", "ms_per_problem")
        common.write_json(path / "scores" / f"{name}.cost.json", {"command": f"make {name}", **dict(zip(keys, values))})
    run_script("05_baselines.py", path)
    rows = [r for r in common.read_json(path / "results.json")["groups"][0]["rows"] if "cost" in r]
    assert [r["scores"] for r in rows] == ["lora.cal", "prm.It-1.5B", "scatr.cal"]
    cells = cells_of(path / "report.md", "SCaTR (cal)")
    assert cells[1:6] == ["6M", "", "2", "4", "0.25"] and cells[-2:] == ["200×", "400×"]
    assert cells_of(path / "report.md", "PRM (It-1.5B)")[1:6] == ["1.54B", "", "", "", "100"]
    assert all(f"- `make {name}`" in (path / "report.md").read_text() for name in costs)


def test_what_03_measured_reaches_the_costs(tmp_path, run_script):
    path = small_run(tmp_path)
    cost = {"parameters": 9, "search_seconds": 120.0, "search_flops": 7e12, "rollouts_scored": 5, "scoring_flops": 8, "scoring_ms": 0.5}
    run_script("04_select.py", path, "--scorer", first_dimension_scorer(tmp_path / "scatr.cal@1.pt", cost=cost))
    run_script("05_baselines.py", path)
    assert cells_of(path / "report.md", "SCaTR (cal)")[1:6] == ["9", "9", "2", "7", "0.5"]
    assert "- `python 04_select.py" in (path / "report.md").read_text()


def test_no_report_goes_to_the_root_folder_unasked(tmp_path, run_script):
    for runs in (("/no-such-run", tmp_path), (tmp_path, "/no-such-run")):
        assert "--out DIR" in run_script("05_baselines.py", *runs, code=2).stderr
    assert "not a run" in run_script("05_baselines.py", ".", code=2).stderr


def test_a_strangers_name_keeps_its_cell():
    assert common.markdown_table(["a|b"], [["c"]]).splitlines()[0] == r"| a\|b |"
    assert report.latex_rows(["a^b~c_d"], []) == r"a\textasciicircum{}b\textasciitilde{}c\_d \\"


def test_runs_and_models_together_are_the_papers_table(tmp_path, run_script):
    """One line a model, test set and calibration set; what nobody has is no column."""
    paths = [make_run(tmp_path / model, problems=20, n=4, seed=seed, model=model) for seed, model in enumerate(("small", "large"))]
    for path in paths:
        for name in ("scatr.a@1", "scatr.a@2", "scatr.b@1", "lora.b@1"):
            add_scores(path, name, seed=len(name) + int(name[-1]))
    add_scores(paths[1], "prm.big", seed=7)
    run_script("05_baselines.py", *paths, "--out", tmp_path / "all", "--latex")
    lines = (tmp_path / "all" / "report.md").read_text().split("### Summary")[1].splitlines()
    table = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")]
    assert table[0] == ["model", "calibration set", "test", "SCaTR", "best confidence", "LoRA", "PRM", "SCaTR-WMV", "majority", "oracle", "Δ", "gap closed %"]
    assert [line[:3] for line in table[2:]] == [[model, cal, "made_up"] for model in ("small", "large") for cal in "ab"]
    large = {r["method"]: r for r in common.read_json(tmp_path / "all" / "results.json")["groups"][1]["rows"]}
    number = lambda method: f"{100 * large[method]['accuracy']:.1f}"
    scatr, last = large["SCaTR (a), best-of-N"], table[4]
    assert last[3] == f"{number('SCaTR (a), best-of-N')} ± {100 * scatr['std']:.1f}"
    assert last[5:10] == ["", number("PRM (big), best-of-N"), last[7], number("majority vote"), number("oracle")]
    assert last[10:] == [f"{100 * scatr['delta']:+.1f}", f"{100 * scatr['gap_closed']:.1f}"]
    assert last[7].startswith(number("SCaTR (a), weighted vote")) and table[5][5] == number("LoRA verifier (b), best-of-N") and table[3][6] == ""
    tex = (tmp_path / "all" / "tables.tex").read_text()
    assert rf"large & a & made\_up & {last[3].replace('±', chr(36) + chr(92) + 'pm' + chr(36))} & " in tex and "± " not in tex
    assert all(line.endswith(r" \\") for line in tex.splitlines() if line and not line.startswith("%"))


def test_repeated_runs_leave_out_the_same_problems_and_say_what_is_missing(tmp_path, run_script):
    paths = [make_run(tmp_path / str(seed), problems=8, n=3, seed=seed) for seed in (32, 42)]
    for path, hidden in zip(paths, (4, 9)):
        rows = common.read_jsonl(path / "labels.jsonl")
        rows[hidden]["label"] = None
        common.write_jsonl(path / "labels.jsonl", rows)
        add_scores_where_judged(path, "mine")
    add_scores_where_judged(paths[0], "extra")
    done = run_script("05_baselines.py", *paths)
    group = common.read_json(tmp_path / "results.json")["groups"][0]
    assert group["left_out"] == ["p1", "p3"] and group["not_in_every_run"] == ["extra"]
    rows = {r["method"]: r for r in group["rows"]}
    assert {r["problems"] for r in rows.values()} == {6} and rows["mine, best-of-N"]["runs"] == 2 and "extra, best-of-N" not in rows
    judged = [[np.mean([row["label"] for row in common.read_labels(path) if row["id"] == f"p{i}"]) for i in (0, 2, 4, 5, 6, 7)] for path in paths]
    assert rows["random"]["accuracy"] == pytest.approx(np.mean(judged))
    assert rows["random"]["std"] == pytest.approx(np.std(np.mean(judged, 1), ddof=1))
    assert "2 problems left out" in done.stdout and "no row for extra" in done.stdout


def add_scores_where_judged(path, name):
    rows = [{"id": row["id"], "sample": row["sample"], "score": row["label"] or 0} for row in common.read_jsonl(path / "labels.jsonl")]
    common.write_jsonl(path / "scores" / f"{name}.jsonl", rows)


def test_drawn_subsets_state_their_error_in_the_report(tmp_path, run_script):
    path = make_run(tmp_path / "run", problems=6, n=12)
    run_script("05_baselines.py", path)
    rows = {r["method"]: r for r in common.read_json(path / "results.json")["groups"][0]["rows"]}
    assert set(rows["Borda vote, self-certainty"]["curve_subset_error"]) == {"4", "8"}  # 1, 2 and 12 of 12: all subsets
    assert rows["majority vote"]["curve_subset_error"] == {}
    stated = cells_of(path / "report.md", "standard error of the mean over subsets")
    assert stated[1:] == ["N=4", "N=8"]
    section = (path / "report.md").read_text().split("### Sampling error")[1]
    error = rows["Borda vote, self-certainty"]["curve_subset_error"]["4"]
    assert f"| Borda vote, self-certainty | {100 * error:.2f} |" in section and error > 0


def test_studies_stand_in_the_report(tmp_path, run_script):
    path = small_run(tmp_path)
    rows = [{"row": ".15L", "n": [4, 8], "accuracy": [50.0, 60.0], "scorers": [[49.0, 58.0], [51.0, 62.0]], "difference": 0.0, "standard_error": 0.0},
            {"row": ".9L", "n": [4, 8], "accuracy": [55.0, 65.0], "scorers": [[55.0, 65.0]], "difference": 5.0, "standard_error": 1.25}]  # fmt: skip
    common.write_json(tmp_path / "layers.json", {"study": "layers", "rows": rows})
    run_script("05_baselines.py", path, "--studies", tmp_path / "layers.json")
    assert cells_of(path / "report.md", ".15L") == [".15L", "50.0 ± 1.4", "60.0 ± 2.8", "+0.0 ± 0.0"]
    assert cells_of(path / "report.md", ".9L") == [".9L", "55.0", "65.0", "+5.0 ± 1.2"]


def test_reliability_counts_every_rollout_once(tmp_path, run_script):
    path = small_run(tmp_path, problems=10)
    for seed in (1, 2):
        add_scores(path, f"scatr.cal@{seed}", seed=seed)
    run_script("05_baselines.py", path)
    row = next(r for r in common.read_json(path / "results.json")["groups"][0]["rows"] if r["scores"] == "scatr.cal" and r["best_of_n"])
    bins, p, right = np.array(row["reliability"]), [], []
    for seed in (1, 2):
        p += [r["p"] for r in common.read_jsonl(path / "scores" / f"scatr.cal@{seed}.jsonl")]
        right += [r["label"] for r in common.read_labels(path)]
    for b in range(10):
        inside = [i for i in range(100) if b / 10 <= p[i] < (b + 1) / 10]
        assert bins[b].tolist() == pytest.approx([sum(p[i] for i in inside), sum(right[i] for i in inside), len(inside)])


def test_figures_or_one_line(tmp_path, run_script):
    """With matplotlib the figures, without it one line that says how to get it, before any work."""
    path = small_run(tmp_path)
    add_scores(path, "scatr.cal@1")
    (tmp_path / "without" / "matplotlib").mkdir(parents=True)
    (tmp_path / "without" / "matplotlib" / "__init__.py").write_text("raise ImportError('as if it were not installed')")
    without = run_script("05_baselines.py", path, "--plots", code=2, env={**os.environ, "PYTHONPATH": str(tmp_path / "without")})
    assert "pip install matplotlib" in without.stderr and not (path / "report.md").exists()
    if importlib.util.find_spec("matplotlib"):
        run_script("05_baselines.py", path, "--plots")
        for name in ("curves-1.png", "reliability-1.png"):
            assert (path / name).read_bytes()[:8] == b"\x89PNG\r\n\x1a\n" and f"![{name}]({name})" in (path / "report.md").read_text()


def test_a_probability_out_of_range_is_refused(tmp_path, run_script):
    path = small_run(tmp_path)
    rows = add_scores(path, "mine")
    common.write_jsonl(path / "scores" / "mine.jsonl", [{**row, "p": 1.5} for row in rows])
    assert "probability" in run_script("05_baselines.py", path, code=2).stderr


def test_numbers_as_people_write_them():
    assert report.percent(-0.0001) == "0.0" and report.points(-0.023) == "-2.3" and report.points(0.1) == "+10.0"
    assert [report.short(n) for n in (7, 14_848, 1_540_000_000, None)] == ["7", "14.8k", "1.54B", None]


# ---------------------------------------------------------------------------------------------------------------------
# The whole table, written down a second time: every subset of every problem


def credit_of_vote(rows, weights, rank):
    """Label of what a weighted vote picks: the best-ranked answer of the heaviest group; ties between groups by rank."""
    totals = {}
    for row, weight in zip(rows, weights):
        if row["group"] is not None:
            totals[row["group"]] = totals.get(row["group"], 0) + weight
    heaviest = [group for group, total in totals.items() if total > max(totals.values()) - 1e-12]
    return max([row for row in rows if row["group"] in heaviest] or rows, key=rank)["label"]


def credit_of_majority(rows):
    groups = [row["group"] for row in rows if row["group"] is not None]
    most = [group for group in set(groups) if groups.count(group) == max(map(groups.count, groups))]
    return np.mean([np.mean([row["label"] for row in rows if row["group"] == group]) for group in most]) if most else 0


def credit_of_top(share):
    def credit(rows):
        best = sorted(range(len(rows)), key=lambda i: -rows[i]["mean/tail"])[: int(np.ceil(share * len(rows)))]
        return credit_of_vote(rows, [row["mean/tail"] * (i in best) for i, row in enumerate(rows)], lambda row: row["mean/tail"])

    return credit


def credit_of_borda(rows):
    order = sorted(range(len(rows)), key=lambda i: -rows[i]["self_certainty/avg"])
    return credit_of_vote(rows, [len(rows) - order.index(i) for i in range(len(rows))], lambda row: row["self_certainty/avg"])


def best(key):
    return lambda rows: max(rows, key=key)["label"]


CREDITS = {
    "random": lambda rows: np.mean([row["label"] for row in rows]),
    "oracle": best(lambda row: row["label"]),
    "majority vote": credit_of_majority,
    "confidence-weighted vote": credit_of_top(1.0),
    "top 90% by confidence, vote": credit_of_top(0.9),
    "top 10% by confidence, vote": credit_of_top(0.1),
    "Borda vote, self-certainty": credit_of_borda,
    "entropy/avg": best(lambda row: -row["entropy/avg"]),
    "shortest": best(lambda row: -row["n_tokens"]),
    "mine, best-of-N": best(lambda row: row["score"]),
    "mine, weighted vote": lambda rows: credit_of_vote(rows, [row["p"] for row in rows], lambda row: row["p"]),
}


@pytest.mark.parametrize("seed", range(4))
def test_every_row_is_the_mean_over_all_subsets(tmp_path, seed):
    rng, path = np.random.default_rng(seed), make_run(tmp_path / "run", problems=8, n=5, seed=seed)
    labels = common.read_jsonl(path / "labels.jsonl")
    for i, row in enumerate(labels):
        row.update({"group": None, "label": 0} if i < 5 or rng.random() < 0.25 else {})
    common.write_jsonl(path / "labels.jsonl", labels)
    scores = [{"id": row["id"], "sample": row["sample"], "score": s, "p": [0.1, 0.25, 0.5, 0.5, 0.9][s + 2]}
              for row, s in zip(labels, rng.integers(-2, 3, len(labels)).tolist())]  # fmt: skip
    common.write_jsonl(path / "scores" / "mine@1.jsonl", scores)
    rollouts, problems = common.read_rollouts(path), {}
    for row in rollouts:  # of their own, as short traces have equal means and tails
        row["conf"] = {rule: rng.uniform(1, 2) for rule in row["conf"]}
    common.write_jsonl(path / "rollouts.jsonl", rollouts)
    for rollout, label, score in zip(rollouts, labels, scores):
        problems.setdefault(rollout["id"], []).append({**rollout, **rollout["conf"], **label, **score})
    results = {row["method"]: row for row in report.compare(report.make_rows([report.load_run(path)]), 5)}
    for method, credit in CREDITS.items():
        for n in (1, 2, 4, 5):
            expected = np.mean([np.mean([credit(list(few)) for few in itertools.combinations(rows, n)]) for rows in problems.values()])
            assert results[method]["curve"][str(n)] == pytest.approx(expected), (method, n)


def test_the_interval_holds_95_percent(tmp_path):
    """Against a bootstrap written down a second time, with twenty times the draws."""
    path = make_run(tmp_path / "run", problems=60, n=4)
    common.write_jsonl(path / "scores" / "mine.jsonl", [{"id": i, "sample": s, "score": s} for i, s in common.keys_of(common.read_rollouts(path))])
    rows = report.make_rows([report.load_run(path)])
    found = next(row for row in report.compare(rows, 4) if row["method"] == "mine, best-of-N")
    rival = max((row for row in rows if row.kind == "confidence"), key=lambda row: row.accuracy(4))
    mine = next(row for row in rows if row.name == "mine, best-of-N")
    difference = mine.problems(4) - rival.problems(4)
    draws = difference[np.random.default_rng(0).integers(0, 60, (20000, 60))].mean(1)
    low, high = np.percentile(draws, [2.5, 97.5])
    assert found["delta_low"] == pytest.approx(low, abs=0.02) and found["delta_high"] == pytest.approx(high, abs=0.02)


def test_runs_that_are_no_repetitions_are_refused(tmp_path, run_script):
    first, second = make_run(tmp_path / "a", problems=4, n=4), make_run(tmp_path / "b", problems=4, n=2)
    assert "twice" in run_script("05_baselines.py", first, f"{first}/", code=2).stderr
    assert "4 rollouts a problem" in run_script("05_baselines.py", first, second, code=2).stderr
    (tmp_path / "study.json").write_text("{}")
    assert "not a study" in run_script("05_baselines.py", second, "--studies", tmp_path / "study.json", code=2).stderr
    rollouts = [{name: x for name, x in row.items() if name != "conf"} for row in common.read_rollouts(second)]
    common.write_jsonl(second / "rollouts.jsonl", rollouts)
    assert "no token statistics" in run_script("05_baselines.py", second, code=2).stderr
    rows = [{"id": i, "sample": s, "score": 0, "p": "much"} for i, s in common.keys_of(common.read_rollouts(first))]
    common.write_jsonl(first / "scores" / "mine.jsonl", rows)
    assert "probability" in run_script("05_baselines.py", first, code=2).stderr
