"""The report: every number against brute force over all subsets, and the command on whole and broken runs."""

import importlib
import importlib.util
import itertools
import re

import numpy as np
import pytest
from conftest import (
    CREDITS,
    add_scores,
    call_main,
    edit_jsonl,
    first_dimension_scorer,
    make_run,
    mean_over_subsets,
    pairs_in_order,
    refusal_of,
)

import common

report = importlib.import_module("05_baselines")
WINDOWS = (common.WINDOW, common.TAIL)


def run_report(*words):
    call_main("05_baselines.py", *words)


def refusal(*words):
    return refusal_of("05_baselines.py", *words)


def load(path, windows=WINDOWS):
    return report.load_repetitions([path], windows)[0][0]


def rows_of(path):
    rows = report.make_rows([load(path)])
    report.compare(rows)
    return rows


def sections_of(folder):
    return common.read_json(folder / "results.json")["sections"]


def results_of(folder, section=0):
    return {row["method"]: row for row in sections_of(folder)[section]["rows"]}


def lines_of(markdown):
    """The cells of each line of a table of report.md, without bold."""
    lines = [[cell.strip(" *") for cell in line.strip("|").split("|")] for line in markdown.splitlines()]
    return lines[:1] + lines[2:]


def table_of(folder, title):
    """[{column: cell}] of a table of report.md."""
    text = (folder / "report.md").read_text().split(f"### {title}")[1]
    header, *rows = lines_of(text.split("\n\n")[1])
    return [dict(zip(header, row, strict=True)) for row in rows]


def summary_of(folder):
    """[{"picks by": its title, method: cell}] of the columns of the report's summary."""
    columns = []
    for block in (folder / "report.md").read_text().split("### Summary\n\n")[1].split("\n\n"):
        if block.startswith("| picks by"):
            names, *cells = zip(*lines_of(block))
            columns += [dict(zip(names, column)) for column in cells]
    return columns


def percent(x):
    return f"{100 * x:.1f}"


# ------------------------------------------------------------------------------------------------------------
# The whole table, written down a second time: every subset of every problem


def random_run(path, seed, ragged=False, n=5):
    """(path, {problem: rows}): absent answers, all of p0's too, ties between scores, cut rollouts."""
    rng = np.random.default_rng(seed)
    make_run(path, problems=8, n=n, seed=seed)
    few = {"p7": 2, "p3": 3} if ragged else {}  # problems that keep fewer rollouts

    def lose_answers(row):
        is_lost = row["id"] == "p0" or rng.random() < 0.25
        return row | ({"group": None, "label": 0} if is_lost else {})

    def draw_rules(row):  # the rules of short answers would be equal
        conf = {rule: rng.uniform(1, 2) for rule in report.RULES}
        return row | {"conf": conf, "finish": ["stop", "length"][int(rng.integers(2))]}

    def drop_some(row):
        return row if row["sample"] < few.get(row["id"], n) else None

    edit_jsonl(path / "labels.jsonl", lose_answers)
    edit_jsonl(path / "rollouts.jsonl", draw_rules)
    edit_jsonl(path / "labels.jsonl", drop_some)
    edit_jsonl(path / "rollouts.jsonl", drop_some)
    problems, scores = {}, []
    labels = common.read_labels(path)
    for rollout, label in zip(common.read_rollouts(path), labels):
        score = int(rng.integers(-2, 3))
        p = [0.1, 0.25, 0.35, 0.35, 0.9][score + 2]
        scores.append({"id": label["id"], "sample": label["sample"], "score": score, "p": p})
        rows = problems.setdefault(rollout["id"], [])
        rows.append({**rollout, **rollout["conf"], **label, **scores[-1]})
    common.write_jsonl(path / "scores" / "mine@1.jsonl", scores)
    common.write_jsonl(path / "labels.jsonl", labels[::-1])  # rows are joined by their keys
    return path, problems


@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_every_row_is_the_mean_over_all_subsets(tmp_path, seed, ragged):
    path, problems = random_run(tmp_path / "run", seed, ragged)
    rows = rows_of(path)
    for method, n in itertools.product(CREDITS, (1, 2, 4, 5)):
        error = rows[method]["curve_subset_error"].get(str(n), 0)
        assert error == 0 or (ragged and "vote" in method and n < 5)  # else all subsets are taken
        expected = mean_over_subsets(problems, CREDITS[method], n)
        assert rows[method]["curve"][str(n)] == pytest.approx(expected, abs=5 * error + 1e-9), (method, n)


@pytest.mark.parametrize("method", ["entropy/avg", "mine, best-of-N", "majority vote", "mine, weighted vote"])
def test_the_share_of_cut_picks(tmp_path, method):
    path, problems = random_run(tmp_path / "run", 1, ragged=True)
    cut = {}
    for name, rows in problems.items():
        cut[name] = [row | {"label": row["finish"] == "length"} for row in rows]
    assert rows_of(path)[method]["cut"] == pytest.approx(mean_over_subsets(cut, CREDITS[method], 5))


def test_a_random_pick_is_cut_as_often_as_all_rollouts_and_the_oracles_is_not_said(tmp_path):
    path, problems = random_run(tmp_path / "run", 1, ragged=True)
    cut = [row["finish"] == "length" for rows in problems.values() for row in rows]
    rows = rows_of(path)
    assert rows["random"]["cut"] == pytest.approx(np.mean(cut))
    assert rows["oracle"]["cut"] is None


def test_tokens_are_those_of_all_rollouts_of_a_problem(tmp_path):
    path, problems = random_run(tmp_path / "run", 1, ragged=True)
    tokens = [sum(row["n_tokens"] for row in rows) for rows in problems.values()]
    assert rows_of(path)["mine, best-of-N"]["tokens"] == pytest.approx(np.mean(tokens))


@pytest.mark.parametrize("method", ["majority vote", "mine, weighted vote"])
def test_random_subsets_come_near_and_state_their_error(tmp_path, monkeypatch, method):
    """Ten answers, up to five of them tied: all 210 subsets of four, then 128 of them."""
    path, problems = random_run(tmp_path / "run", 1, n=10)
    monkeypatch.setattr(report, "SUBSETS", 300)
    exact = rows_of(path)[method]
    monkeypatch.setattr(report, "SUBSETS", 128)
    drawn = rows_of(path)[method]
    assert exact["curve"]["4"] == pytest.approx(mean_over_subsets(problems, CREDITS[method], 4))
    assert exact["curve_subset_error"] == {}
    assert drawn["curve_subset_error"].keys() == {"4"}  # of 1, 2, 8 and 10 rollouts all subsets are taken
    assert 0 < abs(drawn["curve"]["4"] - exact["curve"]["4"]) < 4 * drawn["curve_subset_error"]["4"]


def test_the_error_of_random_subsets_is_the_spread_over_many_repetitions():
    chances = np.random.default_rng(0).random(30)
    draws = [np.random.default_rng(i).random((50, 30)) < chances for i in range(2000)]
    spread = np.std([draw.mean() for draw in draws])
    assert report.subset_error(draws[0].astype(float)) == pytest.approx(spread, rel=0.1)


def test_auroc_over_all_rollouts_and_within_a_problem(tmp_path):
    path, problems = random_run(tmp_path / "run", 0, ragged=True)
    row = rows_of(path)["mine, best-of-N"]
    pairs = [pairs_in_order(rows) for rows in problems.values()]
    assert row["auroc"] == pytest.approx(np.mean(pairs_in_order(sum(problems.values(), []))))
    assert row["auroc_within"] == pytest.approx(np.mean([np.mean(own) for own in pairs if own]))


# ------------------------------------------------------------------------------------------------------------
# Confidence rules


def rule_scores(run, rule):
    return run.scores[rule][""].score


def test_other_windows_are_computed_from_the_tokens(tmp_path):
    path = make_run(tmp_path / "run")
    run = load(path, (3, 5))
    tokens = common.load_pt(path / "tokens.pt")
    first = common.confidence(tokens["stats"][: int(tokens["offsets"][1])].numpy(), 50, window=3, tail=5)
    assert rule_scores(run, "gap/tail")[0, 0] == pytest.approx(first["gap/tail"])
    assert rule_scores(run, "entropy/lowest")[0, 0] == pytest.approx(-first["entropy/lowest"])
    assert np.array_equal(rule_scores(run, "gap/avg"), rule_scores(load(path), "gap/avg"))


def test_a_rule_that_01_did_not_write_is_computed_from_the_tokens(tmp_path):
    path = make_run(tmp_path / "run")
    stored = rule_scores(load(path), "gap/tail")

    def lose_rule(row):
        return row | {"conf": {rule: value for rule, value in row["conf"].items() if rule != "gap/tail"}}

    edit_jsonl(path / "rollouts.jsonl", lose_rule)
    assert rule_scores(load(path), "gap/tail") == pytest.approx(stored)


@pytest.mark.parametrize("rule", ["gap/avg", "entropy/avg"])
def test_a_rollout_without_tokens_ranks_below_all_others(tmp_path, rule):
    path = make_run(tmp_path / "run")
    first = common.read_rollouts(path)[0]
    empty = first | {"conf": dict.fromkeys(report.RULES)}
    edit_jsonl(path / "rollouts.jsonl", lambda row: empty if row == first else row)
    scores = rule_scores(load(path), rule)
    assert np.isfinite(scores).all()
    assert scores[0, 0] < np.delete(scores, 0).min()


@pytest.mark.parametrize("tokens, windows", [
    (1, (1, 1)), (27, (16, 16)), (42, (16, 16)), (300, (128, 128)), (2000, (1024, 1024)),
    (9000, (1024, 2048)),
])  # fmt: skip
def test_windows_go_by_the_length_of_answers_up_to_the_papers(tmp_path, tokens, windows):
    path = make_run(tmp_path / "run", n=3)
    edit_jsonl(path / "rollouts.jsonl", lambda row: row | {"n_tokens": [1, tokens, 10**6][row["sample"]]})
    assert report.windows_for([path]) == windows
    (path / "tokens.pt").unlink()  # then there are only the values in rollouts.jsonl
    assert report.windows_for([path]) == WINDOWS


def test_rules_that_are_the_same_in_short_answers_are_shown_once(tmp_path, capsys):
    path = make_run(tmp_path / "run")  # answers of less than 30 tokens
    (path / "tokens.pt").unlink()  # so the windows are the paper's
    run_report(path)
    rows = results_of(path)
    assert rows["gap/avg"]["equals"] is None
    assert {rows[f"gap/{way}"]["equals"] for way in ("tail", "lowest", "bottom10")} == {"gap/avg"}
    assert [row["bottom10"] for row in table_of(path, "Confidence rules")] == ["as avg"] * 7
    assert "21 of 28 confidence rules equal another: answers are shorter than" in capsys.readouterr().out


def test_rules_differ_in_windows_that_fit_the_answers(tmp_path, capsys):
    path = make_run(tmp_path / "run")
    run_report(path)
    out, rows = capsys.readouterr().out, results_of(path)
    assert "N=4, windows of 4 tokens, tail 4\n" in out and "equal another" not in out
    assert {rows[rule]["equals"] for rule in report.RULES} == {None}


# ------------------------------------------------------------------------------------------------------------
# Which rows there are, what they vary over, what is left out


def test_the_answers_that_04_chose_are_a_row_where_every_problem_has_one(tmp_path):
    path = make_run(tmp_path / "run")
    chosen = [row for row in common.read_labels(path) if row["sample"] == int(row["id"][1:]) % 4]
    common.write_jsonl(path / "answers.jsonl", chosen)
    row = rows_of(path)["answers.jsonl, 04's choice"]
    assert row["correct"] == sum(row["label"] for row in chosen) and [*row["curve"]] == ["4"]
    common.write_jsonl(path / "answers.jsonl", chosen[1:])
    assert "answers.jsonl, 04's choice" not in rows_of(path)


def test_only_the_named_scores_are_rows(tmp_path):
    path = make_run(tmp_path / "run")
    for seed, name in enumerate(("scatr.a@32-1", "scatr.a@32-2", "old.a@32-1", "prm.x")):
        add_scores(path, name, seed)
    run_report(path, "--only", "scatr.a@32-2", "prm.x")
    scorers = {name: row["runs"] for name, row in results_of(path).items() if row["kind"] == "scorer"}
    assert scorers == {"PRM (x), best-of-N": 1, "SCaTR (a), best-of-N": 1}
    run_report(path, "--only", "scatr.a")
    assert results_of(path)["SCaTR (a), best-of-N"]["runs"] == 2
    error = refusal(path, "--only", "prm.x", "nobody")
    assert "--only nobody: no such scores; there are old.a, old.a@32-1, prm.x, scatr.a, " in error


def test_rows_vary_over_calibration_runs_evaluation_runs_and_seeds(tmp_path, capsys):
    paths, alone = [make_run(tmp_path / str(seed), problems=30, seed=seed) for seed in (32, 42, 52)], []
    scatr = [f"scatr.cal@{run}-{seed}" for run in (32, 42) for seed in (1, 2)]
    for (i, path), (j, name) in itertools.product(enumerate(paths), enumerate([*scatr, "prm.big"])):
        rows = add_scores(path, name, seed=10 * i + j)
        best = [max(rows[4 * k : 4 * k + 4], key=lambda row: row["score"]) for k in range(30)]
        labels = {(row["id"], row["sample"]): row["label"] for row in common.read_labels(path)}
        alone.append(np.mean([labels[row["id"], row["sample"]] for row in best]))
    add_scores(paths[0], "scatr.cal@52-1")  # not in every run
    run_report(*paths, "--out", tmp_path)
    rows, alone = results_of(tmp_path), np.array(alone).reshape(3, 5)
    scatr, prm = rows["SCaTR (cal), best-of-N"], rows["PRM (big), best-of-N"]
    assert (scatr["runs"], scatr["over"]) == (12, "3 eval × 2 cal × 2 seeds")
    assert [scatr["accuracy"], scatr["std"]] == pytest.approx([alone[:, :4].mean(), alone[:, :4].std(ddof=1)])
    assert prm["std"] == pytest.approx(alone[:, 4].std(ddof=1))
    for name in ("PRM (big), best-of-N", "majority vote", "mean/avg", "oracle"):
        assert rows[name]["over"] == "3 eval"
    oracle = [load(path).labels.max(1).mean() for path in paths]
    assert rows["oracle"]["std"] == pytest.approx(np.std(oracle, ddof=1))
    out = capsys.readouterr().out
    assert f"{percent(scatr['accuracy'])} ± {percent(scatr['std'])}" in out
    assert "varies for the row, at most 3 eval × 2 cal × 2 seeds" in out and "3 runs" in out


@pytest.fixture
def unjudged(tmp_path):
    """Two repetitions and a greedy run beside them, in each of which another problem could not be judged."""
    paths = [make_run(tmp_path / "set" / str(seed), problems=8, n=3, seed=seed) for seed in (32, 42)]
    greedy = make_run(tmp_path / "set" / "greedy", problems=8, n=1, seed=7)
    for path, bad in zip([*paths, greedy], ("p1", "p3", "p5")):
        first_of_bad = {"id": bad, "sample": 0}

        def lose_label(row, first_of_bad=first_of_bad):
            return row | ({"label": None} if row | first_of_bad == row else {})

        edit_jsonl(path / "labels.jsonl", lose_label)
    return paths, greedy


def mean_of_judged(rows, key):
    return np.mean([row[key] for row in rows if row["id"] not in ("p1", "p3", "p5")])


def test_what_one_run_cannot_judge_is_left_out_of_every_row(unjudged, tmp_path, capsys):
    paths, _ = unjudged
    run_report(*paths)
    rows = results_of(tmp_path / "set")
    assert {row["problems"] for row in rows.values()} == {5}
    means = [mean_of_judged(common.read_labels(path), "label") for path in paths]
    random = [rows["random"]["accuracy"], rows["random"]["std"]]
    assert random == pytest.approx([np.mean(means), np.std(means, ddof=1)])
    assert "3 problems left out" in capsys.readouterr().out


def test_the_greedy_run_beside_a_run_is_a_row(unjudged, tmp_path, capsys):
    paths, greedy = unjudged
    cut = {"finish": "length"}
    edit_jsonl(greedy / "rollouts.jsonl", lambda row: row | cut if row["id"] == "p0" else row)
    run_report(*paths)
    row = results_of(tmp_path / "set")["greedy"]
    assert row["accuracy"] == pytest.approx(mean_of_judged(common.read_labels(greedy), "label"))
    assert row["tokens"] == pytest.approx(mean_of_judged(common.read_rollouts(greedy), "n_tokens"))
    assert row["cut"] == pytest.approx(0.2) and row["std"] is None
    assert "\ngreedy " in capsys.readouterr().out


def test_a_method_that_one_run_lacks_is_named_and_no_row(unjudged, tmp_path, capsys):
    paths, _ = unjudged
    add_scores(paths[0], "extra")
    run_report(*paths)
    assert "extra, best-of-N" not in results_of(tmp_path / "set")
    assert "no row for extra: not in every run" in capsys.readouterr().out


@pytest.mark.parametrize("count, is_noted", [(8, True), (2, False)])
def test_cut_rollouts_are_noted_above_five_percent_and_always_counted(tmp_path, capsys, count, is_noted):
    path = make_run(tmp_path / "run", problems=10)
    cut = common.keys_of(common.read_rollouts(path))[:count]
    edit_jsonl(path / "rollouts.jsonl", lambda row: row | {
        "finish": "length" if (row["id"], row["sample"]) in cut else "stop"})  # fmt: skip
    run_report(path)
    share = percent(count / 40)
    assert (f"{share} % of the rollouts were cut: " in capsys.readouterr().out) == is_noted
    assert table_of(path, "Methods")[0]["cut %"] == summary_of(path)[0]["cut %"] == share


# ------------------------------------------------------------------------------------------------------------
# Comparison


def rows_above(base, oracle):
    """Rows whose chances to be right are the base [P] and so much more."""
    above = {rule: -0.1 for rule in report.RULES}
    above |= {"gap/avg": -0.05, "mean/avg": 0, "self_certainty/avg": 0.1, "better": 0.25, "oracle": oracle}
    rows = {}
    for name, more in above.items():
        right = base + more
        rows[name] = {"right": right, "accuracy": right.mean(), "problems": len(base)}
        rows[name] |= {"best_of": [], "against": {}}
    report.compare(rows)
    return rows


@pytest.mark.parametrize("oracle, closed", [
    (0.5, [0.25 / 0.5, 0.15 / 0.4]),
    (0.1 + 1.9 / 30, [0.25 / (0.1 + 1.9 / 30), None]),  # the second gap is less than two problems
])  # fmt: skip
def test_two_references_and_the_paired_interval(oracle, closed):
    """For a difference of fixed size on every problem the interval has no width, however much they vary."""
    rows = rows_above(np.random.default_rng(0).random(30) * 0.5, oracle)
    assert rows["mean/avg"]["best_of"] == ["the paper's 20"]
    assert rows["self_certainty/avg"]["best_of"] == ["all 28"]
    for reference, delta, gap in zip(report.REFERENCES, (0.25, 0.15), closed):
        gain = rows["better"]["against"][reference]
        assert [gain["delta"], gain["low"], gain["high"]] == pytest.approx([delta] * 3)
        assert gain["gap_closed"] == pytest.approx(gap)


def test_the_interval_holds_95_percent():
    """Against a bootstrap written down a second time, with twenty times the draws."""
    difference = np.random.default_rng(1).normal(size=60)
    draws = np.random.default_rng(0).integers(0, 60, (20000, 60))
    found = report.with_interval(difference)
    expected = np.percentile(difference[draws].mean(1), [2.5, 97.5])
    assert [found["low"], found["high"]] == pytest.approx(expected, abs=0.02)
    assert found["delta"] == pytest.approx(difference.mean())


# ------------------------------------------------------------------------------------------------------------
# Studies


def test_a_study_is_measured_exactly(tmp_path):
    """Against brute force: best of n, AUROC, votes; with its mean and deviation over seeds."""
    path, problems = random_run(tmp_path / "run", 0)
    (path / "scores" / "mine@1.jsonl").rename(path / "scores" / "layers-.9L.cal@32-1.jsonl")
    other = add_scores(path, "layers-.9L.cal@32-2", seed=5)
    run_report(path, "--study", "layers")
    (row,) = sections_of(path)[0]["studies"]["layers"]
    second = {name: [] for name in problems}
    for scored in other:
        (old,) = [old for old in problems[scored["id"]] if old["sample"] == scored["sample"]]
        second[scored["id"]].append(old | scored)
    credits = ("best of 4", 4, "mine, best-of-N"), ("weighted vote", 5, "mine, weighted vote")
    for measure, n, credit in credits:
        values = [mean_over_subsets(rows, CREDITS[credit], n) for rows in (problems, second)]
        assert row["measures"][measure]["values"] == pytest.approx(values)
        assert row["measures"][measure]["mean"] == pytest.approx(np.mean(values))
        assert row["measures"][measure]["std"] == pytest.approx(np.std(values, ddof=1))
    within = [np.mean(pairs) for pairs in map(pairs_in_order, problems.values()) if pairs]
    assert row["measures"]["within a problem"]["values"][0] == pytest.approx(np.mean(within))
    everything = sum(problems.values(), [])
    assert row["measures"]["AUROC"]["values"][0] == pytest.approx(np.mean(pairs_in_order(everything)))
    assert row["over"] == "2 seeds" and row["measures"]["problems"]["values"] == [8, 8]


def test_a_study_is_printed_in_the_papers_order_a_table_for_each_calibration_set(tmp_path, capsys):
    path = make_run(tmp_path / "run", n=16)
    for i, row in enumerate(("L-1", ".9L", ".15L", "new")):
        for calibration in ("cal", "other.set"):
            for seed in (1, 2):
                add_scores(path, f"layers-{row}.{calibration}@32-{seed}", seed=10 * i + seed)
    add_scores(path, "fraction-10%.cal@32-1")
    run_report(path, "--study", "layers", "--study", "fraction")
    out = capsys.readouterr().out
    table = out.split("Study of layers: tiny, other.set → made_up\n\n")[1].split("\n\n")[0].splitlines()
    header = ["layers", *(f"best of {n} %" for n in (4, 8, 12, 16)), "AUROC %", "within a problem %",
              "weighted vote %", "over", "problems"]  # fmt: skip
    assert re.split("  +", table[0]) == header
    assert [line.split()[0] for line in table[2:]] == [".15L", ".9L", "L-1", "new"]
    assert re.search(r"^\.15L  .* ± .*  2 seeds +12$", table[2])
    assert "Study of fraction: tiny, cal → made_up" in out
    assert "### Study of layers: tiny, cal → made_up" in (path / "report.md").read_text()


def test_problems_that_a_scorer_learned_from_are_left_out_of_all_rows_of_its_seed(tmp_path):
    """A half of the evaluation run trains the scorers of one row; both rows are judged on the other half."""
    path = make_run(tmp_path / "run", problems=8)
    learned = {"1": ["p0", "p1", "p2", "p3"], "2": ["p4", "p5", "p6", "p7"]}
    for seed in learned:
        add_scores(path, f"halves-same.made_up@32-{seed}", int(seed), {"learned": learned[seed]})
        add_scores(path, f"halves-other.cal@32-{seed}", int(seed) + 2)
    run_report(path, "--study", "halves")
    rows = table_of(path, "Study of halves: tiny, made_up")
    cells = [(row["halves"], row["calibrated on"], row["problems"]) for row in rows]
    assert cells == [("same", "made_up", "4"), ("other", "cal", "4")]
    for row in sections_of(path)[0]["studies"]["halves"]:
        for seed, value in zip(learned, row["measures"]["best of 4"]["values"]):
            name = f"halves-{row['row']}.{row['calibration']}@32-{seed}"
            scores = common.read_jsonl(path / "scores" / f"{name}.jsonl")
            problems = {}
            for label, score in zip(common.read_labels(path), scores):
                if label["id"] not in learned[seed]:
                    problems.setdefault(label["id"], []).append(label | score)
            assert value == pytest.approx(mean_over_subsets(problems, CREDITS["mine, best-of-N"], 4))


def test_values_of_a_study_are_means_over_evaluation_runs(tmp_path):
    paths = [make_run(tmp_path / str(seed), problems=20, seed=seed) for seed in (32, 42)]
    for path, run, seed in itertools.product(paths, (32, 42), (1, 2)):
        add_scores(path, f"designs-mlp.cal@{run}-{seed}", seed=seed + run + int(path.name))
    run_report(*paths, "--study", "designs", "--out", tmp_path)
    (row,) = sections_of(tmp_path)[0]["studies"]["designs"]
    assert row["over"] == "2 cal × 2 seeds" and len(row["measures"]["AUROC"]["values"]) == 4
    for path in paths:
        run_report(path, "--study", "designs")
    (first,), (second,) = (sections_of(path)[0]["studies"]["designs"] for path in paths)
    pairs = zip(*(one["measures"]["best of 4"]["values"] for one in (first, second)))
    assert row["measures"]["best of 4"]["values"] == pytest.approx([np.mean(pair) for pair in pairs])


def test_a_study_that_learned_from_everything_is_refused(tmp_path):
    path = make_run(tmp_path / "run", problems=3)
    add_scores(path, "mixed-mixed.a+b@32-1", cost={"learned": ["p0", "p1", "p2"]})
    error = refusal(path, "--study", "mixed")
    assert "mixed-mixed.a+b and the scorers beside it learned from all of its problems" in error


def test_the_scores_of_studies_are_in_no_other_table(tmp_path, capsys):
    path = make_run(tmp_path / "run")
    add_scores(path, "fraction-10%.cal@32-1")
    add_scores(path, "fraction-of-mine")  # no calibration set: not a study's
    run_report(path)
    scorers = [name for name, row in results_of(path).items() if row["kind"] == "scorer"]
    assert scorers == ["fraction-of-mine, best-of-N"]
    assert sections_of(path)[0]["studies"] == {} and "Study" not in capsys.readouterr().out


def test_a_study_without_scores_is_refused_and_an_unknown_one(tmp_path):
    path = make_run(tmp_path / "run")
    error = refusal(path, "--study", "layers")
    assert "--study layers: no scores of it; 03_train_scorer.py --study layers makes scorers" in error
    assert "choose from" in refusal(path, "--study", "layer")


# ------------------------------------------------------------------------------------------------------------
# Tables


def make_paper_run(path, calibration, seed, kind):
    """A run of one of the paper's models; SCaTR+ has a threshold to stop at."""
    make_run(path, problems=10, seed=seed, model="org/Qwen3-1.7B", dataset=path.name, kind=kind)
    for i, method in enumerate(("logistic", "scatr", "scatr+", "lora")):
        stop = {"stop": [[0.6, 60.0, 0.5, 2.0, 100.0]]} if method == "scatr+" else None
        add_scores(path, f"{method}.{calibration}@32-1", i, stop)
    return path


@pytest.fixture
def code_runs(tmp_path):
    first = make_paper_run(tmp_path / "humaneval", "kodcode", 0, "code")
    return [first, make_paper_run(tmp_path / "kodcode", "humaneval", 1, "code")]


@pytest.fixture
def math_runs(tmp_path):
    first = make_paper_run(tmp_path / "math500", "aime25", 2, "math")
    return [first, make_paper_run(tmp_path / "aime25", "math500", 3, "math")]


def test_the_screen_is_one_short_table(code_runs, tmp_path, capsys):
    """A column a pair of sets and one for the paper's numbers, then the report's path."""
    run_report(*code_runs, "--out", tmp_path)
    lines = capsys.readouterr().out.splitlines()
    about = "10 problems, N=4, windows of 8 tokens, tail 8"
    assert lines[:2] == [f"Qwen3-1.7B on {name}: {about}" for name in ("humaneval", "kodcode")]
    header, _, *rows = [re.split("  +", line) for line in lines[3 : lines.index("", 3)]]
    assert header == ["picks by", "kodcode → humaneval", "paper", "humaneval → kodcode", "paper"]
    assert [row[0] for row in rows] == [
        "random", "best of the paper's 20", "best of all 28", "logistic regression", "LoRA verifier", "SCaTR",
        "SCaTR+", "oracle", "SCaTR+, stopped when sure", "Δ", "Δ to all 28", "gap closed %", "cut %",
    ]  # fmt: skip
    assert lines[-1] == f"report: {tmp_path / 'report.md'}"


def test_the_summary_shows_results_beside_the_papers(code_runs, tmp_path):
    run_report(*code_runs, "--out", tmp_path)
    first, paper, _, other_paper = summary_of(tmp_path)
    scatr = results_of(tmp_path)["SCaTR (kodcode), best-of-N"]
    assert [first["SCaTR"], paper["SCaTR"], other_paper["SCaTR"]] == [
        percent(scatr["accuracy"]), "59.3 ± 8.1", "67.1 ± 12.2"]  # fmt: skip
    gains = [f"{100 * gain['delta']:+.1f}" for gain in scatr["against"].values()]
    assert [first["Δ"], first["Δ to all 28"]] == gains
    (stopped,) = sections_of(tmp_path)[0]["stopping"]
    shown = f"{percent(stopped['accuracy'])} for {100 * stopped['share']:.0f} %"
    assert first["SCaTR+, stopped when sure"] == shown


def test_many_pairs_of_sets_are_several_tables_of_at_most_110_columns(code_runs, math_runs, tmp_path, capsys):
    run_report(*code_runs, *math_runs, "--out", tmp_path)
    text = capsys.readouterr().out
    assert text.count("picks by") == 2 and max(map(len, text.splitlines()[:-1])) <= 110


@pytest.fixture
def two_models(tmp_path):
    """A report of runs scored by scorers of three calibration sets, the second also by two reward models."""
    scorers = ("scatr.aime25@1", "scatr.aime25@2", "scatr.b@1", "lora.b@1", "lora.code@1")
    paths = []
    for seed, model in enumerate(("small", "gpt-oss-20b")):
        paths.append(make_run(tmp_path / model, problems=20, seed=seed, model=model, dataset="math500"))
        for i, name in enumerate(scorers):
            add_scores(paths[-1], name, seed=i)
    add_scores(paths[1], "prm.ReasonFlux-PRM-1.5B", 5)
    add_scores(paths[1], "prm.big", 6)
    run_report(*paths, "--out", tmp_path)
    return tmp_path


def test_models_and_calibration_sets_have_a_column_each(two_models):
    sets = itertools.product(("small", "gpt-oss-20b"), ("aime25", "b", "code"))
    pairs = [f"{model}: {calibration} → math500" for model, calibration in sets]
    assert [column["picks by"] for column in summary_of(two_models)] == [*pairs[:4], "paper", *pairs[4:]]


@pytest.mark.parametrize("row, method", [
    ("SCaTR", "SCaTR (aime25), best-of-N"),
    ("PRM (ReasonFlux-PRM-1.5B)", "PRM (ReasonFlux-PRM-1.5B), best-of-N"),
    ("PRM (big)", "PRM (big), best-of-N"),
    ("confidence-weighted vote", "confidence-weighted vote"),
])  # fmt: skip
def test_a_column_has_the_rows_of_its_pair(two_models, row, method):
    result = results_of(two_models, 1)[method]
    spread = "" if result["std"] is None else f" ± {percent(result['std'])}"
    assert summary_of(two_models)[3][row] == percent(result["accuracy"]) + spread


def test_a_method_without_result_for_a_pair_has_an_empty_cell(two_models):
    columns = {column["picks by"]: column for column in summary_of(two_models)}
    assert columns["small: aime25 → math500"].get("PRM (big)", "") == ""
    transfer = columns["gpt-oss-20b: code → math500"]  # LoRA of another domain
    lora = results_of(two_models, 1)["LoRA verifier (code), best-of-N"]
    assert transfer["LoRA verifier"] == percent(lora["accuracy"]) and transfer["SCaTR"] == ""


def test_the_best_number_of_a_column_is_bold(two_models):
    cells = {"a": "9.5 ± 1.0", "b": "10.0 in sample", "c": None}
    assert report.best_bold(cells) == cells | {"b": "**10.0 in sample**"}
    text = (two_models / "report.md").read_text()
    assert not [line for line in text.splitlines() if line.startswith("| oracle") and "**" in line]


COSTS = {  # scorer: parameters, seconds and FLOPs of the training, ms a rollout, device
    "scatr.cal@32-1": (5e6, 60, 3e12, 0.2, "H200"),
    "scatr.cal@42-1": (7e6, 180, 5e12, 0.3, "H200"),
    "lora.cal@32": (1.7e9, 3000, 2e16, 50.0, "H200"),
    "prm.It": (1.54e9, None, None, 100.0, "cpu"),
}


def cost_of(name):
    keys = ("parameters", "train_seconds", "train_flops", "ms_per_rollout", "device")
    return dict(zip(keys, COSTS[name])) | {"command": f"make {name}"}


def test_costs_by_rollout_and_problem_with_ratios(tmp_path):
    path = make_run(tmp_path / "run", n=5)
    for seed, name in enumerate(COSTS):
        add_scores(path, name, seed, cost_of(name))
    run_report(path)
    assert [[*row.values()][:-2] for row in table_of(path, "Costs")] == [
        ["LoRA verifier (cal)", "1,700,000,000 (283×)", "50 (25×)", "20,000 (5,000×)", "50 (200×)",
         "250 (200×)", "H200"],
        ["PRM (It)", "1,540,000,000 (257×)", "", "", "100", "500", "cpu"],
        ["SCaTR (cal)", "6,000,000 (1×)", "2 (1×)", "4 (1×)", "0.25 (1×)", "1.25 (1×)", "H200"],
    ]  # fmt: skip
    text = (path / "report.md").read_text()
    assert all(f"- `make {name}`" in text for name in COSTS)


def test_what_03_measured_is_handed_on_by_04(tmp_path, run_here):
    path = make_run(tmp_path / "run")
    scorer = first_dimension_scorer(tmp_path / "scatr.cal@32-1.pt", cost=cost_of("scatr.cal@32-1"))
    run_here("04_select.py", path, "--scorer", scorer)
    run_report(path)
    assert results_of(path)["SCaTR (cal), best-of-N"]["cost"]["parameters"] == 5e6


def test_what_learned_from_the_problems_says_in_sample(tmp_path, capsys):
    path = make_run(tmp_path / "run")
    add_scores(path, "scatr.a@32-1", cost={"learned": ["p1"]})
    add_scores(path, "scatr.b@32-1")
    run_report(path)
    first, second = summary_of(path)
    assert first["SCaTR"].endswith(" in sample") and "in sample" not in second["SCaTR"]
    note = "in sample: SCaTR (a), best-of-N, SCaTR (a), weighted vote learned from these problems"
    assert note in capsys.readouterr().out


def test_footnotes_explain_only_rows_that_are_there(tmp_path, capsys):
    path = make_run(tmp_path / "run")
    run_report(path)
    out = capsys.readouterr().out
    assert not [word for word in ("±", "Δ", "Stopped", "Study") if word in out], out
    add_scores(path, "scatr.a@32-1")
    add_scores(path, "scatr.a@32-2", 1)
    run_report(path)
    out = capsys.readouterr().out
    assert "±: standard deviation over what varies for the row, at most 2 seeds." in out
    assert "Δ: points of SCaTR above" in out and "Stopped" not in out


@pytest.mark.parametrize("word", [
    *common.STATISTICS, *common.AGGREGATIONS, "over", "right/problems", "cut %", "AUROC", "when sure by",
])  # fmt: skip
def test_each_name_and_column_is_explained_once(word):
    assert report.LEGEND.count(f"`{word}`") == 1


def test_numbers_as_people_write_them():
    assert [report.percent(x, sign="+") for x in (-0.0001, -0.023, 0.1)] == ["+0.0", "-2.3", "+10.0"]
    assert [report.number(n) for n in (0.123456, 7, 14_848, None)] == ["0.123", "7", "14,848", None]


def test_the_papers_numbers_are_those_of_the_pair():
    found = report.paper_numbers("Qwen2.5-14B-Instruct", "openthoughts", "aime25")  # has no oracle
    assert found["PRM (ReasonFlux-PRM-7B)"] == "23.3 ± 3.3" and "oracle" not in found
    assert report.paper_numbers("qwen3-1.7b", "kodcode", "kodcode") == {}


# ------------------------------------------------------------------------------------------------------------
# Figures

needs_matplotlib = pytest.mark.skipif(not importlib.util.find_spec("matplotlib"), reason="no matplotlib")


@needs_matplotlib
def test_each_figure_is_a_file_that_the_report_shows(tmp_path):
    path = make_run(tmp_path / "run")
    add_scores(path, "scatr.cal@1")
    run_report(path, "--plots")
    text = (path / "report.md").read_text()
    for name in ("accuracy", "rules"):
        file = f"{name}.tiny.cal-to-made_up.png"
        assert (path / file).read_bytes()[:8] == b"\x89PNG\r\n\x1a\n" and f"]({file})" in text
    assert "stopping.tiny" not in text  # no threshold was chosen


@needs_matplotlib
def test_a_scorer_with_a_threshold_has_a_figure_of_stopping(code_runs):
    run_report(code_runs[0], "--plots")
    assert (code_runs[0] / "stopping.Qwen3-1.7B.kodcode-to-humaneval.png").is_file()


FIGURE_ROWS = [  # method, kind, scores, calibration, short, accuracy
    ("random", "random", "", "", "random", 0.3),
    ("gap/avg", "confidence", "gap/avg", "", None, 0.4),
    ("mean/avg", "confidence", "mean/avg", "", None, 0.5),
    ("majority vote", "vote", "mean/tail", "", "majority vote", 0.6),
    ("confidence-weighted vote", "vote", "mean/tail", "", "confidence-weighted vote", 0.55),
    ("SCaTR (a), best-of-N", "scorer", "scatr.a", "a", "SCaTR", 0.7),
    ("SCaTR (b), best-of-N", "scorer", "scatr.b", "b", "SCaTR", 0.9),
    ("SCaTR+ (a), best-of-N", "scorer", "scatr+.a", "a", "SCaTR+", 0.8),
    ("PRM (x), best-of-N", "scorer", "prm.x", "", "PRM (x)", 0.99),
    ("SCaTR (a), weighted vote", "vote", "scatr.a", "a", "SCaTR, weighted vote", 0.65),
    ("SCaTR+ (a), weighted vote", "vote", "scatr+.a", "a", "SCaTR+, weighted vote", 0.75),
    ("oracle", "oracle", "oracle", "", "oracle", 1.0),
]


def test_a_figure_has_seven_lines_at_most_of_one_calibration_set_and_the_best_of_each_kind():
    names = ("method", "kind", "scores", "calibration", "short", "accuracy")
    rows = report.choose_rows({"rows": [dict(zip(names, values)) for values in FIGURE_ROWS]}, "a")
    assert {part: row["accuracy"] for part, row in rows.items()} == {
        "random": 0.3, "rule": 0.5, "vote": 0.6, "SCaTR": 0.7, "SCaTR+": 0.8, "SCaTR vote": 0.75,
        "oracle": 1.0,
    }  # fmt: skip


def test_each_method_has_a_colour_of_its_own_in_figures():
    assert len({colour for colour, _, _ in report.LOOKS.values()}) == 7


def test_names_at_the_ends_of_lines_keep_apart_in_their_order():
    placed = []

    class Axes:
        def get_ylim(self):
            return 0, 100

        def annotate(self, text, place, **options):
            placed.append((text, place[1]))

    report.name_ends(Axes(), [(99.5, "b", "red"), (50, "a", "red"), (100, "c", "red")], share=0.05)
    assert placed == [("a", 50), ("b", 95), ("c", 100)]


# ------------------------------------------------------------------------------------------------------------
# Broken runs get one line


@pytest.mark.parametrize("change", [{"score": None}, {"score": 1e301}, {"p": 1.5}, {"p": "much"}])
def test_a_score_is_a_number_and_p_a_probability(tmp_path, change):
    path = make_run(tmp_path / "run")
    rows = add_scores(path, "mine")
    common.write_jsonl(path / "scores" / "mine.jsonl", [row | change for row in rows])
    assert "finite number and p a probability" in refusal(path)


def test_scores_are_of_all_rollouts_and_not_named_as_a_row_of_the_table(tmp_path):
    path = make_run(tmp_path / "run")
    rows = add_scores(path, "mine")
    common.write_jsonl(path / "scores" / "mine.jsonl", rows[:-1])
    assert "47 rows for a run of 48" in refusal(path)
    (path / "scores" / "mine.jsonl").rename(path / "scores" / "oracle.jsonl")
    assert "give the file another name" in refusal(path)


def test_a_run_is_whole_and_labelled(tmp_path):
    path = make_run(tmp_path / "run")
    for name in ("rollouts", "labels"):
        edit_jsonl(path / f"{name}.jsonl", lambda row: row if row["id"] != "p3" else None)
    assert "1 of 12 problems have no rollouts" in refusal(path)
    (path / "labels.jsonl").unlink()
    assert "02_label.py" in refusal(path)
    common.write_json(path / "meta.json", {})
    assert "meta.json" in refusal(path)


def test_repetitions_are_different_runs_of_the_same_problems_and_n(tmp_path):
    a = make_run(tmp_path / "a", problems=4, n=4)
    b = make_run(tmp_path / "b", problems=4, n=2)
    c = make_run(tmp_path / "c", problems=3, n=4)
    assert "twice" in refusal(a, f"{a}/")
    assert f"{b} has 4 judged problems and N=2, which are not those of {a}" in refusal(a, b)
    assert f"{c} has 3 judged problems and N=4" in refusal(a, c)
    assert "not a run folder" in refusal(tmp_path)


def test_figures_without_matplotlib_are_refused_before_any_work(tmp_path, monkeypatch):
    path = make_run(tmp_path / "run")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert "pip install matplotlib" in refusal(path, "--plots")
    assert not (path / "report.md").exists()
