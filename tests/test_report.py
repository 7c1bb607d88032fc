"""The report: every number against brute force over all subsets, and the command on whole and broken runs."""

import importlib
import importlib.util
import itertools
import re
import sys

import numpy as np
import pytest
from conftest import make_run
from test_select import first_dimension_scorer

import common

report = importlib.import_module("05_baselines")


def run_command(*words):
    """The program inside this process: importing everything anew would be most of the time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["05_baselines.py", *map(str, words)])
        report.main()


def refused(capsys, *words):
    with pytest.raises((SystemExit, common.BadInput)) as end:
        run_command(*words)
    if isinstance(end.value, common.BadInput):
        return str(end.value)
    assert end.value.code == 2  # by argparse
    return capsys.readouterr().err


def change(path, name, edit):
    """edit(row) -> the row that takes its place in a .jsonl file of a run, None for none."""
    rows = [edit(row) for row in common.read_jsonl(path / f"{name}.jsonl")]
    common.write_jsonl(path / f"{name}.jsonl", [row for row in rows if row is not None])


def add_scores(path, name, seed=0, cost=None):
    rng, rows = np.random.default_rng(seed), []
    for row in common.read_labels(path):
        score = float(rng.normal() + (row["label"] or 0))
        rows.append({"id": row["id"], "sample": row["sample"], "score": score, "p": 1 / (1 + np.exp(-score))})
    common.write_jsonl(path / "scores" / f"{name}.jsonl", rows)
    common.write_json(path / "scores" / f"{name}.cost.json", cost or {})
    return rows


def load(path, window=common.WINDOW, tail=common.TAIL):
    return report.load_group([path], window, tail)[0][0]


def rows_of(path):
    return {row["method"]: row for row in report.compare(report.make_rows([load(path)]))}


def results_of(folder, group=0):
    return {row["method"]: row for row in common.read_json(folder / "results.json")["groups"][group]["rows"]}


def table_of(folder, title):
    """[{column: cell}] of a table of report.md."""
    lines = (folder / "report.md").read_text().split(f"### {title}")[1].split("\n\n")[1].splitlines()
    header, _, *rows = [[cell.strip(" *") for cell in line.strip("|").split("|")] for line in lines]
    return [dict(zip(header, row, strict=True)) for row in rows]


def summary_of(folder):
    """[{"picks by": title, method: cell}] of the report's summary: a dict a pair of sets, and one a paper's."""
    columns = []
    for block in (folder / "report.md").read_text().split("### Summary\n\n")[1].split("\n\n"):
        if block.startswith("| picks by"):
            lines = [[cell.strip(" *") for cell in line.strip("|").split("|")] for line in block.splitlines()]
            names, *cells = zip(*(lines[:1] + lines[2:]))
            columns += [dict(zip(names, column)) for column in cells]
    return columns


# ------------------------------------------------------------------------------------------------------------
# The whole table, written down a second time: every subset of every problem


def vote(weight):
    """The label of what a vote picks: the answer that ranks best, by the same field, of the heaviest group."""

    def credit(rows):
        totals = {}
        for row in rows:
            if row["group"] is not None:
                totals[row["group"]] = totals.get(row["group"], 0) + row[weight]
        heaviest = [group for group, total in totals.items() if total > max(totals.values()) - 1e-12]
        return best(lambda row: row[weight])([row for row in rows if row["group"] in heaviest] or rows)

    return credit


def majority(rows):
    groups = [row["group"] for row in rows if row["group"] is not None]
    most = [group for group in set(groups) if groups.count(group) == max(map(groups.count, groups))]
    mean_of = lambda group: np.mean([row["label"] for row in rows if row["group"] == group])
    return np.mean([mean_of(group) for group in most]) if most else 0


def best(key):
    return lambda rows: max(rows, key=key)["label"]  # max keeps the first of ties


CREDITS = {
    "random": lambda rows: np.mean([row["label"] for row in rows]),
    "oracle": best(lambda row: row["label"]),
    "majority vote": majority,
    "confidence-weighted vote": vote("mean/tail"),
    "entropy/avg": best(lambda row: -row["entropy/avg"]),
    "mine, best-of-N": best(lambda row: row["score"]),
    "mine, weighted vote": vote("p"),
}


def random_run(path, seed, ragged=False, n=5):
    """(path, {problem: rows}): absent answers, all of p0's too, ties between scores, cut rollouts."""
    rng, problems = np.random.default_rng(seed), {}
    make_run(path, problems=8, n=n, seed=seed)
    lost = lambda row: row["id"] == "p0" or rng.random() < 0.25
    change(path, "labels", lambda row: row | ({"group": None, "label": 0} if lost(row) else {}))
    rules = lambda: {rule: rng.uniform(1, 2) for rule in report.RULES}  # those of short traces are equal
    finish = lambda: ["stop", "length"][int(rng.integers(2))]
    change(path, "rollouts", lambda row: row | {"conf": rules(), "finish": finish()})
    few = {"p7": 2, "p3": 3} if ragged else {}  # problems that keep fewer rollouts
    for name in ("rollouts", "labels"):
        change(path, name, lambda row: row if row["sample"] < few.get(row["id"], n) else None)
    labels, rollouts = common.read_labels(path), common.read_rollouts(path)
    scores = [{"id": row["id"], "sample": row["sample"], "score": s, "p": [0.1, 0.25, 0.35, 0.35, 0.9][s + 2]}
              for row, s in zip(labels, rng.integers(-2, 3, len(labels)).tolist())]  # fmt: skip
    common.write_jsonl(path / "scores" / "mine@1.jsonl", scores)
    for rollout, label, score in zip(rollouts, labels, scores):
        problems.setdefault(rollout["id"], []).append({**rollout, **rollout["conf"], **label, **score})
    common.write_jsonl(path / "labels.jsonl", labels[::-1])  # rows are joined by their keys
    return path, problems


def mean_over_subsets(problems, credit, n):
    """Of a problem with fewer rollouts than n there is one subset: all of them."""
    subsets = lambda rows: itertools.combinations(rows, min(n, len(rows)))
    return np.mean([np.mean([credit(list(few)) for few in subsets(rows)]) for rows in problems.values()])


@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_every_row_is_the_mean_over_all_subsets(tmp_path, seed, ragged):
    path, problems = random_run(tmp_path / "run", seed, ragged)
    results = rows_of(path)
    for (method, credit), n in itertools.product(CREDITS.items(), (1, 2, 4, 5)):
        drawn = results[method]["curve_subset_error"].get(str(n), 0)
        assert bool(drawn) == (ragged and "vote" in method and n < 5) or drawn == 0
        close = pytest.approx(mean_over_subsets(problems, credit, n), abs=5 * drawn + 1e-9)
        assert results[method]["curve"][str(n)] == close, (method, n)
    is_cut = lambda row: row | {"label": row["finish"] == "length"}
    cut = {name: [*map(is_cut, rows)] for name, rows in problems.items()}
    for method in ("entropy/avg", "mine, best-of-N", "majority vote", "mine, weighted vote"):
        assert results[method]["cut"] == pytest.approx(mean_over_subsets(cut, CREDITS[method], 5)), method
    every = [row["label"] for rows in cut.values() for row in rows]
    assert results["random"]["cut"] == pytest.approx(np.mean(every)) and results["oracle"]["cut"] is None
    tokens = np.mean([sum(row["n_tokens"] for row in rows) for rows in problems.values()])
    assert results["mine, best-of-N"]["tokens"] == pytest.approx(tokens)


def test_drawn_subsets_come_near_and_state_their_error(tmp_path, monkeypatch):
    """Ten answers, up to five of them tied: all 210 subsets of four, then 128 of them."""
    path, problems = random_run(tmp_path / "run", 1, n=10)
    results = []
    for subsets in (300, 128):
        monkeypatch.setattr(report, "SUBSETS", subsets)
        results.append(rows_of(path))
    for method in ("majority vote", "mine, weighted vote"):
        exact, drawn = (result[method]["curve"]["4"] for result in results)
        none, errors = (result[method]["curve_subset_error"] for result in results)
        assert exact == pytest.approx(mean_over_subsets(problems, CREDITS[method], 4)) and not none
        assert 0 < abs(drawn - exact) < 4 * errors["4"]
        assert set(errors) == {"4"}  # of 1, 2, 8 and 10 of 10 all subsets are taken
    chances = np.random.default_rng(0).random(30)  # the error is the spread over many repetitions
    means = [(draws := np.random.default_rng(i).random((50, 30)) < chances).mean() for i in range(2000)]
    assert report.subset_error(draws.astype(float)) == pytest.approx(np.std(means), rel=0.1)


def pairs_in_order(rows):
    """Of each right and wrong answer: is the right one scored higher, a tie half."""
    return [(a["score"] > b["score"]) + 0.5 * (a["score"] == b["score"])
            for a in rows for b in rows if a["label"] > b["label"]]  # fmt: skip


def test_scores_as_such(tmp_path):
    """The calibration error over ten bins, and AUROC over all and inside problems, by hand."""
    path, problems = random_run(tmp_path / "run", 0, ragged=True)
    everything, bins = sum(problems.values(), []), np.zeros(10)
    for r in everything:
        bins[int(10 * r["p"])] += r["p"] - r["label"]
    within = [np.mean(pairs) for pairs in map(pairs_in_order, problems.values()) if pairs]
    row = rows_of(path)["mine, best-of-N"]
    wanted = [np.abs(bins).sum() / len(everything), np.mean(pairs_in_order(everything)), np.mean(within)]
    assert [row[key] for key in ("ece", "auroc", "auroc_within")] == pytest.approx(wanted)


def test_windows_are_recomputed_from_tokens(tmp_path):
    path = make_run(tmp_path / "run")
    score = lambda run, rule: run.files[rule][""]["score"]
    stored, again, rows = load(path), load(path, 3, 5), common.read_rollouts(path)
    assert np.array_equal(score(stored, "gap/avg"), score(again, "gap/avg"))
    tokens = common.load_pt(path / "tokens.pt")
    first = common.confidence(tokens["stats"][: int(tokens["offsets"][1])].numpy(), 50, window=3, tail=5)
    assert score(again, "gap/tail")[0, 0] == pytest.approx(first["gap/tail"])
    assert score(again, "entropy/lowest")[0, 0] == pytest.approx(-first["entropy/lowest"])
    lost = lambda conf: {rule: value for rule, value in conf.items() if rule != "gap/tail"}
    change(path, "rollouts", lambda row: row | {"conf": lost(row["conf"])})  # as if the rule were a new one
    assert score(load(path), "gap/tail") == pytest.approx(score(stored, "gap/tail"))
    common.write_jsonl(path / "rollouts.jsonl", rows)
    empty = lambda row: row | ({"conf": dict.fromkeys(report.RULES)} if row == rows[0] else {})
    change(path, "rollouts", empty)
    for rule in ("gap/avg", "entropy/avg"):  # a rollout without tokens ranks below all others
        scores = score(load(path), rule)
        assert np.isfinite(scores).all() and scores[0, 0] == scores.min() < np.sort(scores, None)[1]


@pytest.mark.parametrize("tokens, windows", [
    (1, (1, 1)), (27, (16, 16)), (42, (16, 16)), (300, (128, 128)), (2000, (1024, 1024)), (9000, (1024, 2048)),
])  # fmt: skip
def test_windows_go_by_the_length_of_answers_up_to_the_papers(tmp_path, tokens, windows):
    path = make_run(tmp_path / "run", n=3)
    change(path, "rollouts", lambda row: row | {"n_tokens": [1, tokens, 10**6][row["sample"]]})
    assert report.windows_for([path]) == windows
    (path / "tokens.pt").unlink()  # then there are only the values in rollouts.jsonl
    assert report.windows_for([path]) == (1024, 2048)


def test_rules_that_are_the_same_in_short_answers_are_shown_once(tmp_path, capsys):
    path = make_run(tmp_path / "run")  # of less than 30 tokens
    run_command(path, "--window", 1024, "--tail", 2048)
    rows = results_of(path)
    assert rows["gap/avg"]["equals"] is None
    assert {rows[f"gap/{way}"]["equals"] for way in ("tail", "lowest", "bottom10")} == {"gap/avg"}
    table = table_of(path, "Confidence rules")
    assert [row["bottom10"] for row in table] == ["as avg"] * 7 and "as" not in table[0]["avg"]
    assert "21 of 28 confidence rules equal another: answers are shorter than" in capsys.readouterr().out
    run_command(path)
    out, rows = capsys.readouterr().out, results_of(path)
    assert "N=4, windows of 4 tokens, tail 4\n" in out and "equal another" not in out
    assert {rows[rule]["equals"] for rule in report.RULES} == {None}


def test_the_answers_that_04_chose_are_a_row_where_every_problem_has_one(tmp_path):
    path = make_run(tmp_path / "run")
    labels = common.read_labels(path)
    chosen = [row for row in labels if row["sample"] == int(row["id"][1:]) % 4]
    common.write_jsonl(path / "answers.jsonl", chosen)
    rows = rows_of(path)
    row = rows["answers.jsonl, 04's choice"]
    assert row["correct"] == sum(row["label"] for row in chosen) and [*row["curve"]] == ["4"]
    assert [*rows][-2:] == ["answers.jsonl, 04's choice", "oracle"]
    common.write_jsonl(path / "answers.jsonl", chosen[1:])
    assert "answers.jsonl, 04's choice" not in rows_of(path)


def test_only_the_named_scores_are_rows(tmp_path, capsys):
    path = make_run(tmp_path / "run")
    for i, name in enumerate(("scatr.a@32-1", "scatr.a@32-2", "old.a@32-1", "prm.x")):
        add_scores(path, name, i)
    run_command(path, "--only", "scatr.a@32-2", "prm.x")
    rows = results_of(path)
    scorers = [row["method"] for row in rows.values() if row["kind"] == "scorer"]
    assert scorers == ["PRM (x), best-of-N", "SCaTR (a), best-of-N"] and rows[scorers[1]]["runs"] == 1
    run_command(path, "--only", "scatr.a")
    assert results_of(path)["SCaTR (a), best-of-N"]["runs"] == 2
    error = refused(capsys, path, "--only", "prm.x", "nobody")
    assert "--only nobody: no such scores; there are old.a, old.a@32-1, prm.x, scatr.a, " in error


# ------------------------------------------------------------------------------------------------------------
# Comparison: what a row varies over, two references, what is left out


def test_rows_vary_over_calibration_runs_evaluation_runs_and_seeds(tmp_path, capsys):
    paths, alone = [make_run(tmp_path / str(seed), problems=30, seed=seed) for seed in (32, 42, 52)], []
    scatr = [f"scatr.cal@{run}-{seed}" for run in (32, 42) for seed in (1, 2)]
    for (i, path), (j, name) in itertools.product(enumerate(paths), enumerate([*scatr, "prm.big"])):
        rows = add_scores(path, name, seed=10 * i + j)
        best = [max(rows[4 * k : 4 * k + 4], key=lambda row: row["score"]) for k in range(30)]
        labels = {(row["id"], row["sample"]): row["label"] for row in common.read_labels(path)}
        alone.append(np.mean([labels[row["id"], row["sample"]] for row in best]))
    add_scores(paths[0], "scatr.cal@52-1")  # not in every run
    run_command(*paths, "--out", tmp_path)
    rows, alone = results_of(tmp_path), np.array(alone).reshape(3, 5)
    scatr, prm = rows["SCaTR (cal), best-of-N"], rows["PRM (big), best-of-N"]
    assert (scatr["runs"], scatr["over"]) == (12, "3 eval × 2 cal × 2 seeds")
    ours = alone[:, :4]
    assert [scatr["accuracy"], scatr["std"]] == pytest.approx([ours.mean(), ours.std(ddof=1)])
    fixed = prm, rows["majority vote"], rows["mean/avg"], rows["oracle"]
    assert {row["over"] for row in fixed} == {"3 eval"}
    assert prm["std"] == pytest.approx(alone[:, 4].std(ddof=1))
    oracle = np.std([load(path).labels.max(1).mean() for path in paths], ddof=1)
    assert rows["oracle"]["std"] == pytest.approx(oracle)
    out, shown = capsys.readouterr().out, f"{100 * scatr['accuracy']:.1f} ± {100 * scatr['std']:.1f}"
    assert shown in out and "varies for the row, at most 3 eval × 2 cal × 2 seeds" in out and "3 runs" in out
    over = {row["method"]: row["over"] for row in table_of(tmp_path, "Methods")}
    assert over["SCaTR (cal), best-of-N"] == "3 eval × 2 cal × 2 seeds"


def test_two_references_and_the_paired_interval():
    """For a difference of fixed size on every problem the interval has no width, however much they vary."""
    base = np.random.default_rng(0).random(30) * 0.5
    row = lambda name, kind, x: report.row_of(name, kind, [5], {(0, "", ""): [np.array([[x], [x]])]})
    facts = [("gap/avg", "confidence", -0.05), ("mean/avg", "confidence", 0),
             ("self_certainty/avg", "confidence", 0.1), ("better", "scorer", 0.25)]  # fmt: skip
    for oracle, gaps in ((0.5, [0.5, 0.375]), (0.1 + 1.9 / 30, [0.25 / (0.1 + 1.9 / 30), None])):
        rows = [row(name, kind, base + x) for name, kind, x in [*facts, ("oracle", "oracle", oracle)]]
        found = {r["method"]: r for r in report.compare(rows)}
        assert [r["best_of"] for r in found.values()][1:3] == [["the paper's 20"], ["all 28"]]
        for to, delta, gap in zip(found["better"]["against"].values(), (0.25, 0.15), gaps):
            assert [to[key] for key in ("delta", "low", "high")] == pytest.approx([delta] * 3)
            assert to["gap_closed"] == pytest.approx(gap)  # none where it is under two problems


def test_the_interval_holds_95_percent():
    """Against a bootstrap written down a second time, with twenty times the draws."""
    difference = np.random.default_rng(1).normal(size=60)
    draws = np.random.default_rng(0).integers(0, 60, (20000, 60))
    found, wanted = report.with_interval(difference), np.percentile(difference[draws].mean(1), [2.5, 97.5])
    assert [found["low"], found["high"]] == pytest.approx(wanted, abs=0.02)
    assert found["delta"] == pytest.approx(difference.mean())


def test_what_one_run_cannot_judge_is_left_out_of_all(tmp_path, capsys):
    """Of both repetitions, of the greedy run and of every row alike; a method that one run lacks is named."""
    paths = [make_run(tmp_path / "set" / str(seed), problems=8, n=3, seed=seed) for seed in (32, 42)]
    greedy = make_run(tmp_path / "set" / "greedy", problems=8, n=1, seed=7)
    change(greedy, "rollouts", lambda row: row | ({"finish": "length"} if row["id"] in ("p0", "p5") else {}))
    for path, bad in zip([*paths, greedy], ("p1", "p3", "p5")):
        is_bad = lambda row, bad=bad: row["id"] == bad and row["sample"] == 0
        change(path, "labels", lambda row, is_bad=is_bad: row | ({"label": None} if is_bad(row) else {}))
    for path in paths:
        add_scores(path, "mine")
    add_scores(paths[0], "extra")
    run_command(*paths)
    rows, out, left_out = results_of(tmp_path / "set"), capsys.readouterr().out, ["p1", "p3", "p5"]
    assert {row["problems"] for row in rows.values()} == {5} and "extra, best-of-N" not in rows
    mean = lambda rows, key: np.mean([row[key] for row in rows if row["id"] not in left_out])
    means = [mean(common.read_labels(path), "label") for path in paths]
    random = rows["random"]
    assert [random["accuracy"], random["std"]] == pytest.approx([np.mean(means), np.std(means, ddof=1)])
    wanted = [mean(common.read_labels(greedy), "label"), 0.2, mean(common.read_rollouts(greedy), "n_tokens")]
    assert [rows["greedy"][key] for key in ("accuracy", "cut", "tokens")] == pytest.approx(wanted)
    assert rows["greedy"]["std"] is None
    assert "3 problems left out" in out and "no row for extra" in out and "\ngreedy " in out


def test_cut_rollouts_are_said_above_five_percent_and_counted(tmp_path, capsys):
    path = make_run(tmp_path / "run", problems=10)
    for number, said in ((8, True), (2, False)):
        cut = common.keys_of(common.read_rollouts(path))[:number]
        finish = lambda row, cut=cut: "length" if (row["id"], row["sample"]) in cut else "stop"
        change(path, "rollouts", lambda row, finish=finish: row | {"finish": finish(row)})
        run_command(path)
        share = f"{100 * number / 40:.1f}"
        assert (f"{share} % of the rollouts were cut: " in capsys.readouterr().out) == said
        assert table_of(path, "Methods")[0]["cut %"] == summary_of(path)[0]["cut %"] == share


# ------------------------------------------------------------------------------------------------------------
# Tables


@pytest.fixture
def four_sets(tmp_path):
    """Runs of one of the paper's models on four of its sets, with a threshold to stop at."""
    names, paths = ("humaneval", "kodcode", "math500", "aime25"), []
    for i, (name, cal) in enumerate(zip(names, ("kodcode", "humaneval", "aime25", "math500"))):
        facts = {"model": "org/Qwen3-1.7B", "dataset": name, "kind": "code" if i < 2 else "math"}
        paths.append(make_run(tmp_path / name, problems=10, seed=i, **facts))
        for j, method in enumerate(("logistic", "scatr", "scatr+", "lora")):
            stop = {"stop": [[0.6, 60.0, 0.5, 2.0, 100.0]]} if method == "scatr+" else None
            add_scores(paths[-1], f"{method}.{cal}@32-1", j, stop)
    return paths


def test_the_screen_is_one_short_table(four_sets, tmp_path, capsys):
    """A column a pair of sets and one for the paper, at most 110 columns wide, then the report's path."""
    out, percent = tmp_path / "out", lambda x: f"{100 * x:.1f}"
    run_command(*four_sets[:2], "--out", out)
    lines = capsys.readouterr().out.splitlines()
    windows = "10 problems, N=4, windows of 8 tokens, tail 8"
    assert lines[:2] == [f"Qwen3-1.7B on {name}: {windows}" for name in ("humaneval", "kodcode")]
    header, _, *rows = [re.split("  +", line) for line in lines[3 : lines.index("", 3)]]
    cells, names = {name: cells for name, *cells in rows}, [
        "random", "best of the paper's 20", "best of all 28", "logistic regression", "LoRA verifier", "SCaTR",
        "SCaTR+", "oracle", "SCaTR+, stopped when sure", "Δ", "Δ to all 28", "gap closed %", "cut %",
    ]  # fmt: skip
    assert header == ["picks by", "kodcode → humaneval", "paper", "humaneval → kodcode", "paper"]
    assert [*cells] == names and lines[-1] == f"report: {out / 'report.md'}"
    scatr = results_of(out)["SCaTR (kodcode), best-of-N"]
    stopped = common.read_json(out / "results.json")["groups"][0]["stopping"][0]
    assert cells["SCaTR"] == [percent(scatr["accuracy"]), "59.3 ± 8.1", cells["SCaTR"][2], "67.1 ± 12.2"]
    gains = [f"{100 * to['delta']:+.1f}" for to in scatr["against"].values()]
    assert [cells["Δ"][0], cells["Δ to all 28"][0]] == gains
    shown = f"{percent(stopped['accuracy'])} for {100 * stopped['share']:.0f} %"
    assert cells["SCaTR+, stopped when sure"][0] == shown
    run_command(*four_sets, "--out", out)
    text = capsys.readouterr().out
    assert text.count("picks by") == 2 and max(map(len, text.splitlines()[:-1])) <= 110


def test_runs_and_models_together_are_the_papers_table(tmp_path):
    """A line a model, test and calibration set, the paper's below; a column a reward model; LaTeX."""
    models = ("small", "gpt-oss-20b")
    paths = [make_run(tmp_path / model, problems=20, seed=i, model=model, dataset="math500")
             for i, model in enumerate(models)]  # fmt: skip
    for path in paths:
        for name in ("scatr.aime25@1", "scatr.aime25@2", "scatr.b@1", "lora.b@1", "lora.code@1"):
            add_scores(path, name, seed=len(name) + int(name[-1]))
    for seed, name in enumerate(("prm.ReasonFlux-PRM-1.5B", "prm.big")):
        add_scores(paths[1], name, seed)
    out = tmp_path / "all"
    run_command(*paths, "--out", out)
    table, rows = summary_of(out), results_of(out, 1)
    sets = [f"{model}: {cal} → math500" for model in models for cal in ("aime25", "b", "code")]
    assert [column["picks by"] for column in table] == [*sets[:4], "paper", *sets[4:]]
    shown = lambda method: f"{100 * rows[method]['accuracy']:.1f}"
    scatr, best = rows["SCaTR (aime25), best-of-N"], "PRM (ReasonFlux-PRM-1.5B)"
    delta, spread = scatr["against"]["the paper's 20"]["delta"], f" ± {100 * scatr['std']:.1f}"
    for row, cells in {
        3: {"SCaTR": shown("SCaTR (aime25), best-of-N") + spread,
            "Δ": f"{100 * delta:+.1f}", best: shown(f"{best}, best-of-N"),
            "PRM (big)": shown("PRM (big), best-of-N"),
            "confidence-weighted vote": shown("confidence-weighted vote")},
        4: {"SCaTR": "95.0 ± 0.5", best: "95.5 ± 0.3", "SCaTR, weighted vote": "96.1 ± 0.3", "PRM (big)": ""},
        0: {"PRM (big)": ""},
        6: {"LoRA verifier": shown("LoRA verifier (code), best-of-N"), "SCaTR": ""},
    }.items():  # fmt: skip
        assert {name: table[row].get(name, "") for name in cells} == cells
    numbers = filter(None, [*table[3].values()][1 : [*table[3]].index("oracle")])
    most = max(numbers, key=lambda cell: float(cell.split()[0])).replace("±", r"$\pm$")
    tex = (out / "tables.tex").read_text()
    line = next(line for line in tex.splitlines() if line.startswith("gpt-oss-20b & aime25"))
    assert rf"\textbf{{{most}}}" in line and line.endswith(r" \\") and "± " not in tex
    lines = "toprule", "midrule", "bottomrule", "begin{tabular}{l", "end{tabular}"
    assert {tex.count(rf"\{line}") for line in lines} == {7}


def test_costs_by_rollout_and_problem_with_ratios(tmp_path, run_here):
    """Those of 05's verifiers, and those that 03 measured, which 04 hands on."""
    keys = ("parameters", "train_seconds", "train_flops", "ms_per_rollout", "device")
    path, costs = make_run(tmp_path / "run", n=5), {
        "scatr.cal@32-1": (5e6, 60, 3e12, 0.2, "H200"),
        "scatr.cal@42-1": (7e6, 180, 5e12, 0.3, "H200"),
        "lora.cal@32": (1.7e9, 3000, 2e16, 50.0, "H200"),
        "prm.It": (1.54e9, None, None, 100.0, "cpu"),
    }  # fmt: skip
    for name, values in costs.items():
        cost = dict(zip(keys, values))
        if name == "scatr.cal@42-1":
            scorer = first_dimension_scorer(tmp_path / f"{name}.pt", cost=cost)
            run_here("04_select.py", path, "--scorer", scorer)
        else:
            add_scores(path, name, len(name), cost | {"command": f"make {name}"})
    run_command(path)
    text = (path / "report.md").read_text()
    assert all(f"- `{made}" in text for made in ("make scatr.cal@32-1`", "make lora.cal@32`", "make prm.It`"))
    assert [[*row.values()][:-2] for row in table_of(path, "Costs")] == [
        ["LoRA verifier (cal)", "1,700,000,000 (283×)", "50 (25×)", "20,000 (5,000×)", "50 (200×)",
         "250 (200×)", "H200"],
        ["PRM (It)", "1,540,000,000 (257×)", "", "", "100", "500", "cpu"],
        ["SCaTR (cal)", "6,000,000 (1×)", "2 (1×)", "4 (1×)", "0.25 (1×)", "1.25 (1×)", "H200"],
    ]  # fmt: skip


def test_studies_in_the_papers_shape_and_figures(tmp_path, capsys):
    path, folder = make_run(tmp_path / "run"), tmp_path / "studies"
    add_scores(path, "scatr.cal@1")
    at = lambda mean, std=None: {"mean": mean, "std": std}
    for i, (name, calibration, evaluation, rows) in enumerate((
        ("layers", "a", "b", {".15L": {"AUROC": at(61.0, 1.4), "best of 4": at(50.0, 1.4)},
                              "L-1": {"AUROC": at(70.0), "best of 4": at(55.0)}}),
        ("layers", "b", "a", {".15L": {"best of 4": at(40)}, "L-1": {"best of 4": at(30)},
                              "L": {"best of 4": at(35)}}),
        ("fraction", "a", "b", {"10%": {"weighted vote": at(20.0)}, "100%": {"weighted vote": at(25.0)}}),
    )):  # fmt: skip
        facts = {"study": name, "model": "m", "calibration": [calibration], "evaluation": [evaluation]}
        rows = [{"row": row, "measures": measures} for row, measures in rows.items()]
        common.write_json(folder / f"{i}.json", facts | {"rows": rows})
    figures = ["--plots"] if importlib.util.find_spec("matplotlib") else []
    run_command(path, "--studies", folder, *figures)
    shown = capsys.readouterr().out.split("Study: layers")[1].split("Study: fraction")[0].strip().splitlines()
    assert re.split("  +", shown[0]) == ["measure, %", "model", "calibration set", "test", ".15L", "L-1", "L"]
    assert [" ".join(line.split()) for line in shown[2:]] == [
        "AUROC m a b 61.0 ± 1.4 70.0", "best of 4 m a b 50.0 ± 1.4 55.0",
        "best of 4 m b a 40.0 30.0 35.0"]  # fmt: skip
    assert "| best of 4 | m | a | b | 50.0 ± 1.4 | **55.0** |  |" in (path / "report.md").read_text()
    if figures:
        for name in ("accuracy", "rules"):  # and no stopping, since no threshold was chosen
            file = f"{name}.tiny.cal-to-made_up.png"
            assert (path / file).read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
        text = (path / "report.md").read_text()
        assert f"]({file})" in text and "stopping.tiny" not in text
    common.write_json(folder / "0.json", {})
    assert "'study' is missing" in refused(capsys, path, "--studies", folder / "0.json")


def test_a_figure_has_seven_lines_at_most_of_one_calibration_set_and_the_best_of_each_kind():
    """Of two rules, two plain votes and two of SCaTR's votes the better; those of another set are left out."""
    facts = [
        ("random", "random", "", None, 0.3), ("gap/avg", "confidence", "", None, 0.4),
        ("mean/avg", "confidence", "", None, 0.5), ("majority vote", "vote", "", "majority vote", 0.6),
        ("confidence-weighted vote", "vote", "", "confidence-weighted vote", 0.55),
        ("SCaTR (a), best-of-N", "scorer", "a", "SCaTR", 0.7),
        ("SCaTR (b), best-of-N", "scorer", "b", "SCaTR", 0.9),
        ("SCaTR+ (a), best-of-N", "scorer", "a", "SCaTR+", 0.8), ("prm", "scorer", "", "PRM", 0.99),
        ("SCaTR (a), weighted vote", "vote", "a", "SCaTR, weighted vote", 0.65),
        ("SCaTR+ (a), weighted vote", "vote", "a", "SCaTR+, weighted vote", 0.75),
        ("oracle", "oracle", "", "oracle", 1.0),
    ]  # fmt: skip
    names = ("method", "kind", "calibration", "short", "accuracy")
    roles = report.roles_of({"rows": [dict(zip(names, values)) for values in facts]}, "a")
    assert {role: r["accuracy"] for role, r in roles.items()} == {
        "random": 0.3, "rule": 0.5, "vote": 0.6, "SCaTR": 0.7, "SCaTR+": 0.8, "SCaTR vote": 0.75, "oracle": 1.0
    }  # fmt: skip
    assert [*roles] == [*report.LOOKS] and len({colour for colour, *_ in report.LOOKS.values()}) == 7


def test_names_at_the_ends_of_lines_keep_apart_in_their_order():
    placed = []
    axes = type("Axes", (), {"get_ylim": lambda self: (0, 100)})()
    axes.annotate = lambda text, place, **_: placed.append((text, place[1]))
    report.name_ends(axes, [(99.5, "b", "red"), (50, "a", "red"), (100, "c", "red")], share=0.05)
    assert placed == [("a", 50), ("b", 95), ("c", 100)]


def test_notes_and_names_explain_only_what_is_there(tmp_path, capsys):
    """A run without scorers has no word of SCaTR's Δ, of stopping, or of a deviation; each column is explained."""
    path = make_run(tmp_path / "run")
    run_command(path)
    out = capsys.readouterr().out
    assert not [words for words in ("±", "Δ", "Stopped", "Study") if words in out], out
    add_scores(path, "scatr.a@32-1")
    add_scores(path, "scatr.a@32-2", 1)
    run_command(path)
    out, text = capsys.readouterr().out, (path / "report.md").read_text()
    assert "±: standard deviation over what varies for the row, at most 2 seeds." in out
    assert "Δ, gap closed: SCaTR's" in out and "Stopped" not in out and "1 points" not in text
    for word in (*common.STATISTICS, *common.AGGREGATIONS, "over", "right/problems", "cut %", "AUROC"):
        assert f"`{word}`" in text.split("## What the names say")[1], word


def test_numbers_and_names_as_people_write_them():
    assert [report.points(x) for x in (-0.0001, -0.023, 0.1)] == ["+0.0", "-2.3", "+10.0"]
    assert [report.number(n) for n in (0.123456, 7, 14_848, None)] == ["0.123", "7", "14,848", None]
    assert common.table(["a|b"], [["c"]], markdown=True).splitlines()[0] == r"| a\|b |"
    assert r"a\^{}b\~{}c\_d \\" in report.in_latex("", [{"a^b~c_d": ""}])
    found = report.paper_numbers("Qwen2.5-14B-Instruct", "openthoughts", "aime25")  # has no oracle
    assert found["PRM (ReasonFlux-PRM-7B)"] == "23.3 ± 3.3" and "oracle" not in found
    assert report.paper_numbers("qwen3-1.7b", "kodcode", "kodcode") == {}


# ------------------------------------------------------------------------------------------------------------
# Broken runs get one line


def test_bad_runs_get_one_line(tmp_path, capsys):
    path = make_run(tmp_path / "run")
    rows, scores = add_scores(path, "mine"), path / "scores" / "mine.jsonl"
    for broken, said in [(rows[:-1], "47 rows for a run of 48")] + [
        ([row | change for row in rows], "finite number and p a probability")
        for change in ({"score": None}, {"score": 1e301}, {"p": 1.5}, {"p": "much"})
    ]:
        common.write_jsonl(scores, broken)
        assert said in refused(capsys, path)
    common.write_jsonl(scores, rows)
    scores.rename(scores.with_name("oracle.jsonl"))
    assert "another name" in refused(capsys, path)
    scores.with_name("oracle.jsonl").rename(scores)
    for cost in ({"parameters": "many"}, {"ms_per_rollout": -1}, {"train_flops": [1]}):
        common.write_json(scores.with_name("mine.cost.json"), cost)
        assert "mine.cost.json" in refused(capsys, path)
    for name in ("rollouts", "labels"):
        change(path, name, lambda row: row if row["id"] != "p3" else None)
    assert "1 of 12 problems have no rollouts" in refused(capsys, path)
    (path / "labels.jsonl").unlink()
    assert "02_label.py" in refused(capsys, path)
    common.write_json(path / "meta.json", {})
    assert "meta.json" in refused(capsys, path)


def test_runs_and_arguments_that_do_not_fit_are_refused_before_any_work(tmp_path, capsys, monkeypatch):
    a, b, c = [make_run(tmp_path / name, problems=problems, n=n)
               for name, problems, n in (("a", 4, 4), ("b", 4, 2), ("c", 3, 4))]  # fmt: skip
    for words, said in (
        ([a, f"{a}/"], "twice"), ([a, b], "has 4 judged problems, N=2, "),
        ([a, c], "has 3 judged problems, N=4, "), ([tmp_path], "not a run folder"),
        ([a, "--window", "0"], "1 or more"), ([a, "--price", "-1"], "0 or more"),
    ):  # fmt: skip
        assert said in refused(capsys, *words)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert "pip install matplotlib" in refused(capsys, a, "--plots")
    assert not (a / "report.md").exists()
