"""The report: every number against brute force over all subsets, and the command on whole and broken runs."""

import importlib
import importlib.util
import itertools
import json
import os
import re
import sys

import numpy as np
import pytest
from conftest import make_run
from test_select import first_dimension_scorer

import common

report = importlib.import_module("05_baselines")


def run_command(*words):
    """The program inside this process: importing everything anew for every command would be most of the time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["05_baselines.py", *map(str, words)])
        report.main()


def refused(capsys, *words):
    with pytest.raises(SystemExit) as end:
        run_command(*words)
    assert end.value.code == 2
    return capsys.readouterr().err


def change(path, name, edit):
    """edit(row) -> the row that takes its place in a .jsonl file of a run, None for none."""
    rows = [edit(row) for row in common.read_jsonl(path / f"{name}.jsonl")]
    common.write_jsonl(path / f"{name}.jsonl", [row for row in rows if row is not None])


def add_scores(path, name, seed=0, p=True):
    rng, rows = np.random.default_rng(seed), []
    for row in common.read_labels(path):
        score = float(rng.normal() + (row["label"] or 0))
        rows.append({"id": row["id"], "sample": row["sample"], "score": score} | ({"p": 1 / (1 + np.exp(-score))} if p else {}))
    common.write_jsonl(path / "scores" / f"{name}.jsonl", rows)
    return rows


def load(path, *window_and_tail):
    return report.load_group([path], *window_and_tail)[0][0]


def rows_of(path):
    return report.compare(report.make_rows([load(path)]))


def results_of(folder, group=0):
    return {row["method"]: row for row in common.read_json(folder / "results.json")["groups"][group]["rows"]}


def table_of(folder, title):
    """{first cell: {column: cell}} of a table of report.md; a column that occurs twice keeps its first cell."""
    lines = (folder / "report.md").read_text().split(f"### {title}")[1].split("\n\n")[1].splitlines()
    header, _, *rows = [[cell.strip(" *") for cell in line.strip("|").split("|")] for line in lines]
    return {row[0]: dict(reversed([*zip(header, row)])) for row in rows}


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
        weights = [row["mean/tail"] * (i in best) for i, row in enumerate(rows)]
        return credit_of_vote(rows, weights, lambda row: row["mean/tail"])

    return credit


def credit_of_borda(rows):
    order = sorted(range(len(rows)), key=lambda i: -rows[i]["self_certainty/avg"])
    return credit_of_vote(rows, [len(rows) - order.index(i) for i in range(len(rows))], lambda row: row["self_certainty/avg"])


def best(key):
    return lambda rows: max(rows, key=key)["label"]  # max keeps the first of ties


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
    "longest": best(lambda row: row["n_tokens"]),
    "mine, best-of-N": best(lambda row: row["score"]),
    "mine, weighted vote": lambda rows: credit_of_vote(rows, [row["p"] for row in rows], lambda row: row["p"]),
}


def random_run(path, seed, ragged=False, n=5):
    """A run with answers that are absent, all those of p0 too, ties between scores, and cut rollouts -> (path, {problem: rows})."""
    rng, problems = np.random.default_rng(seed), {}
    make_run(path, problems=8, n=n, seed=seed)
    change(path, "labels", lambda row: row | ({"group": None, "label": 0} if row["id"] == "p0" or rng.random() < 0.25 else {}))
    rules = lambda: {"conf": {rule: rng.uniform(1, 2) for rule in report.RULES}}  # as short traces have equal means and tails
    change(path, "rollouts", lambda row: row | rules() | {"finish": ["stop", "length"][int(rng.integers(2))]})
    if ragged:  # the last problem keeps two rollouts, another three
        few = {"p7": 2, "p3": 3}
        for name in ("rollouts", "labels"):
            change(path, name, lambda row: row if row["sample"] < few.get(row["id"], n) else None)
    labels, rollouts = common.read_labels(path), common.read_rollouts(path)
    scores = [{"id": row["id"], "sample": row["sample"], "score": s, "p": [0.1, 0.25, 0.5, 0.5, 0.9][s + 2]}
              for row, s in zip(labels, rng.integers(-2, 3, len(labels)).tolist())]  # fmt: skip
    common.write_jsonl(path / "scores" / "mine@1.jsonl", scores)
    for rollout, label, score in zip(rollouts, labels, scores):
        problems.setdefault(rollout["id"], []).append({**rollout, **rollout["conf"], **label, **score})
    return path, problems


def mean_over_subsets(problems, credit, n):
    """Of a problem with fewer rollouts than n there is one subset: all of them."""
    subsets = lambda rows: itertools.combinations(rows, min(n, len(rows)))
    return np.mean([np.mean([credit(list(few)) for few in subsets(rows)]) for rows in problems.values()])


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("ragged", [False, True])
def test_every_row_is_the_mean_over_all_subsets(tmp_path, seed, ragged):
    path, problems = random_run(tmp_path / "run", seed, ragged)
    results = {row["method"]: row for row in rows_of(path)}
    for (method, credit), n in itertools.product(CREDITS.items(), (1, 2, 4, 5)):
        drawn = results[method]["curve_subset_error"].get(str(n), 0)  # of problems of several sizes votes draw subsets
        assert bool(drawn) == (ragged and "vote" in method and n < 5) or drawn == 0
        close = pytest.approx(mean_over_subsets(problems, credit, n), abs=5 * drawn + 1e-9)
        assert results[method]["curve"][str(n)] == close, (method, n)
    flags = {name: [row | {"label": row["finish"] == "length"} for row in rows] for name, rows in problems.items()}
    for method in ("entropy/avg", "mine, best-of-N", "majority vote", "mine, weighted vote"):
        assert results[method]["cut"] == pytest.approx(mean_over_subsets(flags, CREDITS[method], 5)), method
    assert results["random"]["cut"] == pytest.approx(np.mean([row["label"] for rows in flags.values() for row in rows]))
    tokens = np.mean([sum(row["n_tokens"] for row in rows) for rows in problems.values()])
    assert results["mine, best-of-N"]["tokens"] == pytest.approx(tokens) and results["oracle"]["cut"] is None


def test_drawn_subsets_come_near_and_state_their_error(tmp_path, monkeypatch):
    """Ten answers, up to five of them tied: all 210 subsets of four, then 128 of them."""
    path, problems = random_run(tmp_path / "run", 1, n=10)
    results = []
    for subsets in (300, 128):
        monkeypatch.setattr(report, "SUBSETS", subsets)
        results.append({row["method"]: row for row in rows_of(path)})
    for method in ("majority vote", "mine, weighted vote"):
        exact, drawn = (result[method] for result in results)
        assert exact["curve"]["4"] == pytest.approx(mean_over_subsets(problems, CREDITS[method], 4)) and not exact["curve_subset_error"]
        assert 0 < abs(drawn["curve"]["4"] - exact["curve"]["4"]) < 4 * drawn["curve_subset_error"]["4"]
        assert set(drawn["curve_subset_error"]) == {"4"}  # of 1, 2, 8 and 10 of 10 all subsets are taken


def test_standard_error_of_drawn_subsets():
    """The stated error is the spread of the accuracy over many repetitions of the draws."""
    rng = np.random.default_rng(0)
    chances = rng.random(30)
    means = [(draws := rng.random((50, 30)) < chances).mean() for _ in range(2000)]
    assert report.subset_error(draws.astype(float)) == pytest.approx(np.std(means), rel=0.1)


def test_scores_as_such(tmp_path):
    """Reliability counts every rollout once; the calibration error and AUROC inside problems by hand."""
    path, problems = random_run(tmp_path / "run", 5, ragged=True)
    row, each = next(row for row in rows_of(path) if row["method"] == "mine, best-of-N"), []
    everything = [r for rows in problems.values() for r in rows]
    for b, found in enumerate(row["reliability"]):
        inside = [r for r in everything if b / 10 <= r["p"] < (b + 1) / 10]
        assert found == pytest.approx([sum(r["p"] for r in inside), sum(r["label"] for r in inside), len(inside)])
    error = sum(abs(p - right) for p, right, _ in row["reliability"]) / len(everything)
    for rows in problems.values():
        pairs = [(a["score"] > b["score"]) + 0.5 * (a["score"] == b["score"])
                 for a in rows for b in rows if a["label"] > b["label"]]  # fmt: skip
        each += [np.mean(pairs)] if pairs else []
    assert [row["ece"], row["auroc_within"]] == pytest.approx([error, np.mean(each)])


def test_windows_are_recomputed_from_tokens(tmp_path):
    path = make_run(tmp_path / "run")
    stored, again = load(path), load(path, 3, 5)
    assert np.array_equal(stored.files["gap/avg"][""]["score"], again.files["gap/avg"][""]["score"])
    tokens, rows = common.load_pt(path / "tokens.pt"), common.read_rollouts(path)
    first = common.confidence(tokens["stats"][: int(tokens["offsets"][1])].numpy(), 50, window=3, tail=5)
    assert again.files["gap/tail"][""]["score"][0, 0] == pytest.approx(first["gap/tail"])
    assert again.files["entropy/lowest"][""]["score"][0, 0] == pytest.approx(-first["entropy/lowest"])
    assert rows[0]["conf"]["gap/tail"] == pytest.approx(stored.files["gap/tail"][""]["score"][0, 0])
    change(path, "rollouts", lambda row: row | ({"conf": dict.fromkeys(report.RULES)} if row == rows[0] else {}))
    for rule in ("gap/avg", "entropy/avg"):  # a rollout without tokens ranks below all others
        scores = load(path).files[rule][""]["score"]
        assert np.isfinite(scores).all() and scores[0, 0] == scores.min() < np.sort(scores, None)[1]


# ---------------------------------------------------------------------------------------------------------------------
# Comparison: what a row varies over, two references, what is left out


def test_rows_vary_over_calibration_runs_evaluation_runs_and_seeds(tmp_path, capsys):
    paths, alone = [make_run(tmp_path / str(seed), problems=30, n=4, seed=seed) for seed in (32, 42, 52)], []
    for i, path in enumerate(paths):
        for j, name in enumerate(("scatr.cal@32-1", "scatr.cal@32-2", "scatr.cal@42-1", "scatr.cal@42-2", "prm.big")):
            rows = add_scores(path, name, seed=10 * i + j)
            best = [max(rows[4 * k : 4 * k + 4], key=lambda row: row["score"]) for k in range(30)]
            labels = {(row["id"], row["sample"]): row["label"] for row in common.read_labels(path)}
            alone.append(np.mean([labels[row["id"], row["sample"]] for row in best]))
    add_scores(paths[0], "scatr.cal@52-1")  # not in every run
    run_command(*paths, "--out", tmp_path)
    rows, alone = results_of(tmp_path), np.array(alone).reshape(3, 5)
    scatr, prm = rows["SCaTR (cal), best-of-N"], rows["PRM (big), best-of-N"]
    assert (scatr["runs"], scatr["over"]) == (12, "3 eval × 2 cal × 2 seeds")
    assert scatr["accuracy"] == pytest.approx(alone[:, :4].mean()) and scatr["std"] == pytest.approx(alone[:, :4].std(ddof=1))
    assert prm["over"] == rows["majority vote"]["over"] == rows["mean/avg"]["over"] == rows["oracle"]["over"] == "3 eval"
    assert prm["std"] == pytest.approx(alone[:, 4].std(ddof=1))
    each = [load(path) for path in paths]
    assert rows["oracle"]["std"] == pytest.approx(np.std([(run.labels.max(1)).mean() for run in each], ddof=1))
    out, shown = capsys.readouterr().out, f"{100 * scatr['accuracy']:.1f} ± {100 * scatr['std']:.1f}"
    assert shown in out and "over what varies for the row, at most 3 eval × 2 cal × 2 seeds" in out and "3 runs" in out
    assert table_of(tmp_path, "Methods")["SCaTR (cal), best-of-N"]["over"] == "3 eval × 2 cal × 2 seeds"


def test_two_references_and_the_paired_interval(tmp_path):
    """For a difference of fixed size on every problem the interval has no width, however much accuracies vary."""
    base, key = np.random.default_rng(0).random(30) * 0.5, (0, "", "")
    rows = [report.row_of(name, kind, [5], {key: [np.array([[values], [base * 0]])]}) for name, kind, values in (
        ("gap/avg", "confidence", base - 0.05), ("mean/avg", "confidence", base), ("self_certainty/avg", "confidence", base + 0.1),
        ("better", "scorer", base + 0.25), ("oracle", "oracle", base + 0.5))]  # fmt: skip
    found = {row["method"]: row for row in report.compare([dict(row, best_of=[], against={}) for row in rows])}
    assert [name for name, row in found.items() if row["best_of"]] == ["mean/avg", "self_certainty/avg"]
    paper, all_rules = found["better"]["against"].values()
    assert [paper[key] for key in ("delta", "low", "high", "gap_closed")] == pytest.approx([0.25, 0.25, 0.25, 0.5])
    assert [all_rules[key] for key in ("delta", "low", "high", "gap_closed")] == pytest.approx([0.15, 0.15, 0.15, 0.375])
    rows[-1] = report.row_of("oracle", "oracle", [5], {key: [np.array([[base + 0.1 + 1.9 / 30], [base]])]})  # under two problems above the best rule
    found = {row["method"]: row for row in report.compare([dict(row, best_of=[], against={}) for row in rows])}
    paper, all_rules = found["better"]["against"].values()
    assert paper["gap_closed"] is not None and all_rules["gap_closed"] is None


def test_the_interval_holds_95_percent(tmp_path):
    """Against a bootstrap written down a second time, with twenty times the draws."""
    path = make_run(tmp_path / "run", problems=60, n=4)
    add_scores(path, "mine")
    rows = report.make_rows([load(path)])
    rival = max((row for row in rows if row["method"] in report.RULES), key=lambda row: row["accuracy"])
    difference = next(row for row in rows if row["method"] == "mine, best-of-N")["right"] - rival["right"]
    draws = np.random.default_rng(0).integers(0, 60, (20000, 60))
    found = {row["method"]: row for row in report.compare(rows)}["mine, best-of-N"]["against"]["all 28"]
    wanted = np.percentile(difference[draws].mean(1), [2.5, 97.5])
    assert [found["low"], found["high"]] == pytest.approx(wanted, abs=0.02)


def test_what_one_run_cannot_judge_is_left_out_of_all(tmp_path, capsys):
    """Of both repetitions, of the greedy run and of every row alike; a method that one run lacks is named."""
    paths = [make_run(tmp_path / "set" / str(seed), problems=8, n=3, seed=seed) for seed in (32, 42)]
    greedy = make_run(tmp_path / "set" / "greedy", problems=8, n=1, seed=7)
    change(greedy, "rollouts", lambda row: row | {"finish": "length" if row["id"] in ("p0", "p5") else "stop"})
    for path, problem in zip([*paths, greedy], ("p1", "p3", "p5")):
        change(path, "labels", lambda row, bad=problem: row | ({"label": None} if row["id"] == bad and row["sample"] == 0 else {}))
    for path in paths:
        add_scores(path, "mine")
    add_scores(paths[0], "extra")
    run_command(*paths)
    group, rows, out = common.read_json(tmp_path / "set" / "results.json")["groups"][0], results_of(tmp_path / "set"), capsys.readouterr().out
    assert group["left_out"] == ["p1", "p3", "p5"] and group["not_in_every_run"] == ["extra"]
    assert {row["problems"] for row in rows.values()} == {5} and "extra, best-of-N" not in rows
    kept = lambda path: [row for row in common.read_labels(path) if row["id"] not in group["left_out"]]
    means = [np.mean([row["label"] for row in kept(path)]) for path in paths]
    assert rows["random"]["accuracy"] == pytest.approx(np.mean(means)) and rows["random"]["std"] == pytest.approx(np.std(means, ddof=1))
    assert rows["greedy"]["accuracy"] == pytest.approx(np.mean([row["label"] for row in kept(greedy)])) and rows["greedy"]["cut"] == 0.2
    lengths = [row["n_tokens"] for row in common.read_rollouts(greedy) if row["id"] not in group["left_out"]]
    assert rows["greedy"]["tokens"] == pytest.approx(np.mean(lengths)) and rows["greedy"]["std"] is None
    assert "3 problems left out" in out and "no row for extra" in out and "\ngreedy " in out


def test_labels_older_than_an_edited_answer_are_named_once(tmp_path, capsys):
    path = make_run(tmp_path / "run")
    rows = [row | {"answer": "another"} for row in common.read_jsonl(path / "problems.jsonl")]
    common.write_jsonl(path / "problems.jsonl", rows)
    run_command(path)
    assert capsys.readouterr().err.count("older than problems.jsonl") == 1


def test_cut_rollouts_are_said_and_counted(tmp_path, capsys):
    path = make_run(tmp_path / "run", problems=10, n=4)
    change(path, "rollouts", lambda row: row | {"finish": "length" if row["id"] in ("p0", "p1") else "stop"})
    change(path, "labels", lambda row: row | {"label": 0} if row["id"] in ("p0", "p1") else row)
    common.write_json(path / "meta.json", common.read_meta(path) | {"arguments": {"max_new_tokens": 77}})
    run_command(path)
    ended = 100 * np.mean([row["label"] for row in common.read_labels(path) if row["id"] not in ("p0", "p1")])
    out = capsys.readouterr().out
    assert f"20.0 % of the rollouts were cut at 77 tokens; 0.0 % of\n  them are right, {ended:.1f} % of the others" in out
    assert table_of(path, "Methods")["random"]["cut %"] == table_of(path, "Summary")["tiny"]["cut %"] == "20.0"
    change(path, "rollouts", lambda row: row | {"finish": "length" if row["id"] == "p0" and row["sample"] < 2 else "stop"})
    run_command(path)
    assert "were cut" not in capsys.readouterr().out and table_of(path, "Methods")["random"]["cut %"] == "5.0"


# ---------------------------------------------------------------------------------------------------------------------
# Tables


def test_the_screen_is_one_short_table(tmp_path, capsys):
    """Two columns a pair of sets, at most 110 columns wide, then the path of the report."""
    paths = []
    for i, name in enumerate(("humaneval", "kodcode", "math500", "aime25")):
        paths.append(make_run(tmp_path / name, problems=10, seed=i, model="org/Qwen3-1.7B", kind="code" if i < 2 else "math"))
        common.write_json(paths[-1] / "meta.json", common.read_meta(paths[-1]) | {"dataset": name})
        for j, method in enumerate(("logistic", "scatr", "scatr+", "lora")):
            add_scores(paths[-1], f"{method}.{('kodcode', 'humaneval', 'aime25', 'math500')[i]}@32-1", j)
    cost = {"stop": {"best-of-n": [[0.6, 60.0, 0.5, 2.0, 100.0]]}}  # a threshold, at most a point below
    for path in paths[:2]:
        common.write_json(next(path.glob("scores/scatr+*.jsonl")).with_suffix(".cost.json"), cost)
    run_command(*paths[:2], "--out", tmp_path / "out")
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["Qwen3-1.7B on humaneval: 10 problems, N=4", "Qwen3-1.7B on kodcode: 10 problems, N=4"]
    table = lines[3 : lines.index("", 3)]
    assert table[0].split("  ")[0] == "picks by" and "kodcode → humaneval" in table[0] and "humaneval → kodcode" in table[0]
    names = ["random", "best of the paper's 20", "best of all 28", "logistic regression", "LoRA verifier", "SCaTR", "SCaTR+", "oracle"]
    names += ["SCaTR+, stopped when sure", "Δ", "Δ to all 28", "gap closed %", "cut %"]
    assert [line.split("  ")[0] for line in table[2:]] == names
    assert lines[-1] == f"report: {tmp_path / 'out' / 'report.md'}"
    cells = {cell[0]: cell[1:] for cell in (re.split("  +", line) for line in table)}
    groups = common.read_json(tmp_path / "out" / "results.json")["groups"]
    rows, stopped = results_of(tmp_path / "out"), groups[0]["stopping"][0]
    accuracy, to = rows["SCaTR (kodcode), best-of-N"]["accuracy"], rows["SCaTR (kodcode), best-of-N"]["against"]
    assert cells["SCaTR"][:2] == [f"{100 * accuracy:.1f}", "59.3 ± 8.1"] and cells["SCaTR"][3] == "67.1 ± 12.2"  # the paper's
    assert [cells["Δ"][0], cells["Δ to all 28"][0]] == [f"{100 * gain['delta']:+.1f}" for gain in to.values()]
    assert cells["SCaTR+, stopped when sure"][0] == f"{100 * stopped['accuracy']:.1f} for {100 * stopped['share']:.0f} %"
    run_command(*paths, "--out", tmp_path / "out", "--json")
    out = capsys.readouterr().out
    last = json.loads(out.splitlines()[-1])
    assert last["report"] == str(tmp_path / "out" / "report.md")
    assert last["results"] == str(tmp_path / "out" / "results.json")
    assert out.count("picks by") == 2 and max(map(len, out.splitlines()[:-1])) <= 110 and out.count("SCaTR, weighted vote") == 2


def test_runs_and_models_together_are_the_papers_table(tmp_path):
    """A line a model, test set and calibration set, with the paper's below; every reward model a column; LaTeX, the best in bold."""
    paths = [make_run(tmp_path / model, problems=20, n=4, seed=seed, model=model) for seed, model in enumerate(("small", "gpt-oss-20b"))]
    for path in paths:
        common.write_json(path / "meta.json", common.read_meta(path) | {"dataset": "math500"})
        for name in ("scatr.aime25@1", "scatr.aime25@2", "scatr.b@1", "lora.b@1", "lora.code@1"):
            add_scores(path, name, seed=len(name) + int(name[-1]))
    for seed, name in enumerate(("prm.ReasonFlux-PRM-1.5B", "prm.big")):
        add_scores(paths[1], name, seed)
    run_command(*paths, "--out", tmp_path / "all")
    lines = (tmp_path / "all" / "report.md").read_text().split("### Summary")[1].split("\n\n")[1].splitlines()
    header, _, *table = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    column = lambda row, name: table[row][header.index(name)].strip("*")
    sets = [[model, cal, "math500"] for model in ("small", "gpt-oss-20b") for cal in ("aime25", "b", "code")]
    assert [line[:3] for line in table] == [*sets[:4], ["the paper", "aime25", "math500"], *sets[4:]]
    rows = results_of(tmp_path / "all", 1)
    shown = lambda method: f"{100 * rows[method]['accuracy']:.1f}"
    scatr = rows["SCaTR (aime25), best-of-N"]
    assert column(3, "SCaTR") == f"{shown('SCaTR (aime25), best-of-N')} ± {100 * scatr['std']:.1f}"
    assert column(3, "Δ") == f"{100 * scatr['against'][chr(39).join(['the paper', 's 20'])]['delta']:+.1f}"
    assert column(4, "SCaTR") == "95.0 ± 0.5"
    assert column(4, "PRM (ReasonFlux-PRM-1.5B)") == "95.5 ± 0.3" and column(4, "SCaTR, weighted vote") == "96.1 ± 0.3"
    assert column(3, "PRM (ReasonFlux-PRM-1.5B)") == shown("PRM (ReasonFlux-PRM-1.5B), best-of-N")
    assert column(3, "PRM (big)") == shown("PRM (big), best-of-N") and column(0, "PRM (big)") == ""
    assert column(6, "LoRA verifier") == shown("LoRA verifier (code), best-of-N") and column(6, "SCaTR") == ""
    assert column(3, "confidence-weighted vote") == shown("confidence-weighted vote") and column(3, "over") == "2 seeds"
    tex = (tmp_path / "all" / "tables.tex").read_text()
    assert tex.count(r"\toprule") == tex.count(r"\midrule") == tex.count(r"\bottomrule") == tex.count(r"\begin{tabular}{l") == 7
    best = max((float(cell.split()[0]), cell) for cell in map(lambda name: column(3, name), header[3 : header.index("oracle")]) if cell)[1]
    line = next(line for line in tex.splitlines() if line.startswith("gpt-oss-20b & aime25"))
    assert rf"\textbf{{{best.replace('±', chr(36) + chr(92) + 'pm' + chr(36))}}}" in line and line.endswith(r" \\") and "± " not in tex


def test_a_number_the_paper_lacks_shifts_no_other():
    assert report.paper_numbers("Qwen2.5-14B-Instruct", "openthoughts", "aime25")["PRM (ReasonFlux-PRM-7B)"] == "23.3 ± 3.3"
    assert report.paper_numbers("qwen3-1.7b", "kodcode", "kodcode") == {}
    assert "SCaTR, weighted vote" not in report.paper_numbers("qwen3-1.7b", "humaneval", "kodcode")


def test_costs_by_rollout_and_problem_with_ratios(tmp_path):
    path, fast = make_run(tmp_path / "run", n=5), {"device": "H200"}
    costs = {"scatr.cal@32-1": (5e6, 60, 3e12, 0.2, 1e7, fast), "scatr.cal@42-1": (7e6, 180, 5e12, 0.3, 3e7, fast),
             "lora.cal@32": (1.7e9, 3000, 2e16, 50.0, 4e9, fast), "prm.It-1.5B": (1.54e9, None, None, 100.0, 8e12, {"device": "cpu"})}  # fmt: skip
    keys = ("parameters", "train_seconds", "train_flops", "ms_per_rollout", "flops_per_rollout")
    for seed, (name, values) in enumerate(costs.items()):
        add_scores(path, name, seed)
        common.write_json(path / "scores" / f"{name}.cost.json", {"command": f"make {name}", **dict(zip(keys, values)), **values[-1]})
    run_command(path)
    lines = (path / "report.md").read_text().split("### Costs")[1].split("\n\n")[1].splitlines()[2:]
    rows = {cells[0]: cells[1:-2] for cells in ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)}
    assert [*rows] == ["LoRA verifier (cal)", "PRM (It-1.5B)", "SCaTR (cal)"]
    assert rows["SCaTR (cal)"] == ["6,000,000", "", "2", "4", "1×", "0.25", "1.25", "1×", "20", "1×", "H200"]
    assert rows["LoRA verifier (cal)"] == ["1,700,000,000", "", "50", "20,000", "5,000×", "50", "250", "200×", "4,000", "200×", "H200"]
    assert rows["PRM (It-1.5B)"] == ["1,540,000,000", "", "", "", "", "100", "500", "–", "8,000,000", "400,000×", "cpu"]
    assert all(f"- `make {name}`" in (path / "report.md").read_text() for name in costs)


def test_what_03_measured_reaches_the_costs(tmp_path, run_script):
    path = make_run(tmp_path / "run")
    cost = {"parameters": 9, "search_seconds": 120.0, "search_flops": 7e12, "rollouts_scored": 5, "scoring_ms": 0.5, "device": "cpu, 2 threads"}
    run_script("04_select.py", path, "--scorer", first_dimension_scorer(tmp_path / "scatr.cal@1.pt", cost=cost))
    run_command(path)
    row = table_of(path, "Costs")["SCaTR (cal)"]
    assert [row[name] for name in ("parameters", "trained", "training min", "training TFLOPs")] == ["9", "9", "2", "7"]
    assert [row[name] for name in ("ms a rollout", "MFLOPs a rollout", "measured on")] == ["0.1", "1.8e-05", "cpu, 2 threads"]
    assert "- `python 04_select.py" in (path / "report.md").read_text()


def study(name, model, pair, rows):
    measure = lambda values: {"mean": np.mean(values), "std": np.std(values, ddof=1) if len(values) > 1 else None, "values": values}
    rows = [{"row": row, "measures": {key: measure(values) for key, values in measures.items()}} for row, measures in rows.items()]
    return {"format": 1, "study": name, "model": model, "calibration": [pair[0]], "evaluation": [pair[1]], "rows": rows}


def test_studies_in_the_papers_shape(tmp_path, capsys):
    path, folder = make_run(tmp_path / "run"), tmp_path / "studies"
    one = study("layers", "m", "ab", {".15L": {"AUROC": [60.0, 62.0], "best of 4": [49.0, 51.0]}, "L-1": {"AUROC": [70.0], "best of 4": [55.0]}})
    two = study("layers", "m", "ba", {".15L": {"best of 4": [40.0]}, "L-1": {"best of 4": [30.0]}, "L": {"best of 4": [35.0]}})
    other = study("fraction", "m", "ab", {"10%": {"weighted vote": [20.0]}, "100%": {"weighted vote": [25.0]}})
    for i, content in enumerate((one, two, other)):
        common.write_json(folder / f"{i}.json", content)
    figures = ["--plots"] if importlib.util.find_spec("matplotlib") else []
    run_command(path, "--studies", folder, *figures)
    lines = [line.split() for line in capsys.readouterr().out.split("Study: layers")[1].split("Study: fraction")[0].splitlines() if line]
    assert [cell for cell in lines[0] if cell not in ("measure,", "calibration", "set")] == ["%", "model", "test", ".15L", "L-1", "L"]
    assert [" ".join(line) for line in lines[2:]] == ["AUROC m a b 61.0 ± 1.4 70.0", "best of 4 m a b 50.0 ± 1.4 55.0", "best of 4 m b a 40.0 30.0 35.0"]
    text = (path / "report.md").read_text()
    assert "| best of 4 | m | a | b | 50.0 ± 1.4 | **55.0** |  |" in text and "| best of 4 | m | b | a | **40.0** | 30.0 | 35.0 |" in text
    for name in ("layers-1", "layers-3", "fraction-1") if figures else ():
        assert (path / f"{name}.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n" and f"![{name}.png]" in text
    common.write_json(folder / "0.json", {})
    assert "not a study" in refused(capsys, path, "--studies", folder / "0.json")


def test_figures_or_one_line(tmp_path, run_script):
    """With matplotlib the figures, without it one line that says how to get it, before any work."""
    path = make_run(tmp_path / "run")
    add_scores(path, "scatr.cal@1")
    (tmp_path / "without" / "matplotlib").mkdir(parents=True)
    (tmp_path / "without" / "matplotlib" / "__init__.py").write_text("raise ImportError('as if it were not installed')")
    without = run_script("05_baselines.py", path, "--plots", code=2, env={**os.environ, "PYTHONPATH": str(tmp_path / "without")})
    assert "pip install matplotlib" in without.stderr and not (path / "report.md").exists()
    if importlib.util.find_spec("matplotlib"):
        run_command(path, "--plots")
        for name in ("curves-1.png", "reliability-1.png", "statistics-1.png", "aggregations-1.png"):
            assert (path / name).read_bytes()[:8] == b"\x89PNG\r\n\x1a\n" and f"![{name}]({name})" in (path / "report.md").read_text()


def test_numbers_and_names_as_people_write_them():
    assert [report.percent(x, sign="+") for x in (-0.0001, -0.023, 0.1)] == ["+0.0", "-2.3", "+10.0"]
    assert [report.number(n) for n in (0.123456, 7, 14_848, None)] == ["0.123", "7", "14,848", None]
    assert common.markdown_table(["a|b"], [["c"]]).splitlines()[0] == r"| a\|b |"
    assert r"a\textasciicircum{}b\textasciitilde{}c\_d \\" in report.Table("", ["a^b~c_d"], []).latex()


# ---------------------------------------------------------------------------------------------------------------------
# Broken runs get one line


def test_bad_runs_get_one_line(tmp_path, capsys):
    path = make_run(tmp_path / "run")
    assert "not a run folder" in refused(capsys, tmp_path)
    rows = add_scores(path, "mine")
    for broken, said in (
        (rows[:-1], "47 rows for a run of 48"),
        ([row | {"score": None} for row in rows], "finite"),
        ([row | {"p": 1.5} for row in rows], "probability"),
        ([row | {"p": "much"} for row in rows], "probability"),
    ):
        common.write_jsonl(path / "scores" / "mine.jsonl", broken)
        assert said in refused(capsys, path)
    (path / "scores" / "mine.jsonl").unlink()
    add_scores(path, "longest")
    assert "another name" in refused(capsys, path)
    (path / "scores" / "longest.jsonl").rename(path / "scores" / "mine.jsonl")
    for cost in ([], {"parameters": "many"}, {"ms_per_rollout": -1}, {"train_flops": [1]}):
        common.write_json(path / "scores" / "mine.cost.json", cost)
        assert "mine.cost.json" in refused(capsys, path)
    common.write_json(path / "scores" / "mine.cost.json", {"command": "by hand"})
    run_command(path)
    change(path, "rollouts", lambda row: {name: value for name, value in row.items() if name != "conf"})
    assert "no token statistics" in refused(capsys, path)
    (path / "labels.jsonl").unlink()
    assert "02_label.py" in refused(capsys, path)
    for meta in ({}, []):
        common.write_json(path / "meta.json", meta)
        assert "meta.json" in refused(capsys, path)


def test_runs_that_do_not_belong_together_are_refused(tmp_path, capsys):
    a, b, c = [make_run(tmp_path / name, problems=problems, n=n) for name, problems, n in (("a", 4, 4), ("b", 4, 2), ("c", 3, 4))]
    for words, said in (
        ([a, f"{a}/"], "twice"),
        ([a, b], "has 4 judged problems, N=2, "),
        ([a, c], "has 3 judged problems, N=4, "),
        ([a, "--window", "0"], "above 0"),
        (["."], "not a run"),
    ):
        assert said in refused(capsys, *words)
