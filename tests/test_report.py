"""The report: every number against brute force over all subsets, and the command on whole and broken runs."""

import importlib.util
import itertools
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import (
    CREDITS,
    add_scores,
    call_main,
    edit_hidden,
    edit_jsonl,
    first_dimension_scorer,
    make_run,
    mean_over_subsets,
    pairs_in_order,
    refusal_of,
    report,
)

import common

refusal = partial(refusal_of, "05_baselines.py")


@pytest.fixture
def run(tmp_path):
    return make_run(tmp_path / "run")


@pytest.fixture
def run_report(tmp_path, capsys):
    """run_report(*words) -> the report's folder, what it printed, report.md, results.json's sections and the
    rows of the first of them."""

    def run_command(*words):
        folder = tmp_path / "report"
        call_main("05_baselines.py", *words, "--out", folder)
        sections = common.read_json(folder / "results.json")["sections"]
        return SimpleNamespace(
            folder=folder, printed=capsys.readouterr().out, text=(folder / "report.md").read_text(),
            sections=sections, rows={row["method"]: row for row in sections[0]["rows"]},
        )  # fmt: skip

    return run_command


def rows_of(path):
    runs, greedy, _ = report.load_repetitions([path])
    by_scorer, _ = report.read_all_scores(runs, (), ())
    by_rule = report.score_by_rules(runs)
    return {row.method: row for row in report.make_rows(runs, greedy, by_rule, by_scorer)}


def blank_row(method, **values):
    """A row of the report of which only these values matter."""
    values = {"method": method, "kind": "confidence" if "/" in method else method} | values
    values = {"best_of": [], "against": {}} | values
    return report.Method(**dict.fromkeys(report.Method.__annotations__) | values)


def table_of(text, title):
    """[{column: cell}] of the table below a title."""
    lines = text.split(f"{title}\n\n")[1].split("\n\n")[0].splitlines()
    header, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [dict(zip(header, row, strict=True)) for row in rows]


def summary_of(found):
    """[{"picked by": its title, method: cell}] of the columns of the first table that was printed."""
    table = found.printed[found.printed.index("| picked by") :].split("\n\n")[0]
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
    names, *columns = zip(*lines)
    return [{name: cell for name, cell in zip(names, column) if "--" not in name} for column in columns]


def percent(x):
    return f"{100 * x:.1f}"


# ---- The whole table, written down a second time: every subset of every problem


def random_run(path, seed, ragged=False, n=5):
    """(path, {problem: rows}): absent answers, all of p0's too, ties between scores, cut rollouts."""
    rng = np.random.default_rng(seed)
    make_run(path, problems=8, n=n, seed=seed)
    few = {"p7": 2, "p3": 3} if ragged else {}  # problems that keep fewer rollouts
    rollouts, labels, scores, problems = [], [], [], {}
    for rollout, label in zip(common.read_rollouts(path), common.read_labels(path)):
        if rollout["sample"] >= few.get(rollout["id"], n):
            continue
        if rollout["id"] == "p0" or rng.random() < 0.25:
            label |= {"group": None, "label": 0}
        conf = {rule: rng.uniform(1, 2) for rule in report.RULES}  # those of short answers would be equal
        conf |= {"n_tokens": 9000, "finish": ["stop", "length"][rng.integers(2)]}
        rollouts.append(rollout | {"conf": conf} | conf)
        labels.append(label)
        score = int(rng.integers(-2, 3))
        scores.append({"id": rollout["id"], "sample": rollout["sample"], "score": score})
        scores[-1]["weight"] = [0.1, 0.25, 0.35, 0.35, 0.9][score + 2]
        problems.setdefault(rollout["id"], []).append({**rollouts[-1], **label, **scores[-1]})
    common.write_jsonl(path / "rollouts.jsonl", rollouts)
    common.write_jsonl(path / "labels.jsonl", labels[::-1])  # rows are joined by their keys
    common.write_jsonl(path / "scores" / "mine@1.jsonl", scores)
    return path, problems


@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_every_row_is_the_mean_over_all_subsets(tmp_path, seed, ragged):
    """Votes of problems with fewer rollouts are over random subsets, and within five standard errors."""
    path, problems = random_run(tmp_path / "run", seed, ragged)
    rows = rows_of(path)
    for method, n in itertools.product(CREDITS, (1, 2, 4, 5)):
        expected = mean_over_subsets(problems, CREDITS[method], n)
        is_random = ragged and "vote" in method and n < 5
        error = 5 * 0.5 / (report.SUBSETS * len(problems)) ** 0.5 if is_random else 1e-9
        assert rows[method].curve[str(n)] == pytest.approx(expected, abs=error), (method, n)
    pairs = [pairs_in_order(of_problem) for of_problem in problems.values()]
    assert rows["mine"].auroc == pytest.approx(np.mean([np.mean(own) for own in pairs if own]))
    for row in itertools.chain(*problems.values()):
        row["label"] = row["finish"] == "length"
    for method in CREDITS.keys() - {"oracle"}:
        assert rows[method].cut == pytest.approx(mean_over_subsets(problems, CREDITS[method], 5)), method


# ---- Confidence rules


def rule_scores(path, rule):
    runs, _, _ = report.load_repetitions([path])
    return report.score_by_rules(runs)[rule][0].score


def test_statistics_by_rules_of_an_older_version_are_computed_again_from_the_tokens(run):
    stored = rule_scores(run, "entropy/lowest")
    edit_jsonl(run / "rollouts.jsonl", lambda row: row | {"conf": {"entropy/lowest": 7.0}})
    common.write_json(run / "meta.json", common.read_json(run / "meta.json") | {"rules": "others"})
    assert rule_scores(run, "entropy/lowest") == pytest.approx(stored) and len(np.unique(stored)) > 1


@pytest.mark.parametrize("rule", ["gap/avg", "entropy/avg"])
def test_a_rollout_without_tokens_ranks_below_all_others(run, rule):
    first = common.read_rollouts(run)[0]
    empty = first | {"conf": dict.fromkeys(report.RULES)}
    edit_jsonl(run / "rollouts.jsonl", lambda row: empty if row == first else row)
    scores = rule_scores(run, rule)
    assert np.isfinite(scores).all() and scores[0, 0] < np.delete(scores, 0).min()


def test_each_rule_has_a_cell_and_the_best_of_20_and_of_28_are_in_the_summary(run, run_report):
    labels = {(row["id"], row["sample"]): row["label"] for row in common.read_labels(run)}

    def with_better_likelihood(row):  # which is none of the paper's statistics
        return row | {"conf": row["conf"] | {"likelihood/avg": labels[row["id"], row["sample"]]}}

    edit_jsonl(run / "rollouts.jsonl", with_better_likelihood)
    found = run_report(run)
    rows = table_of(found.text, "Confidence rules: the paper's five statistics, and two more")
    accuracies = {}
    for row, statistic in zip(rows, common.STATISTICS, strict=True):
        assert [*row] == ["statistic", *common.AGGREGATIONS, "cut %"]
        for way in common.AGGREGATIONS:
            accuracies[statistic, way] = found.rows[f"{statistic}/{way}"]["accuracy"]
            assert row[way] == percent(accuracies[statistic, way])
    papers = [value for (name, _), value in accuracies.items() if name not in ("self_certainty", "likelihood")]
    shown = summary_of(found)[0]
    assert shown["best of the paper's 20 rules"] == percent(max(papers))
    assert shown["best of all 28 rules"] == percent(max(accuracies.values())) != percent(max(papers))


# ---- Which rows there are, what they vary over, what is left out


def test_the_rule_that_was_best_on_the_calibration_problems_is_a_row(run, tmp_path, run_here, run_report):
    """By way of a scorer and 04; the mean over calibration runs, also where two of them have the same rule."""
    best = {32: "entropy/tail", 42: "gap/avg", 52: "gap/avg"}
    (learned, *_) = common.read_jsonl(run / "problems.jsonl")
    for seed, rule in best.items():
        made = tmp_path / f"scatr.a@{seed}-1.pt"
        problems = [("a", 0, common.text_stamp(learned))]
        run_here("04_select.py", run, "--scorer", first_dimension_scorer(made, best_rule=rule, problems=problems))
    rows = run_report(run).rows
    row = rows[report.CHOSEN_RULE]
    assert row["accuracy"] == pytest.approx(np.mean([rows[rule]["accuracy"] for rule in best.values()]))
    assert (row["calibration"], row["runs"], row["over"], row["in_sample"]) == ("a", 3, "3 cal", True)


def test_only_the_named_scores_are_rows(run, run_report):
    """A name is also taken as it stands, such as one of a file `x[1]`."""
    for seed, name in enumerate(("scatr.a@32-1", "scatr.a@32-2", "old.a@32-1", "prm.x[1]")):
        add_scores(run, name, seed)
    rows = run_report(run, "--only", "scatr.a@32-2", "prm.x[1]").rows
    scorers = {name: row["runs"] for name, row in rows.items() if row["kind"] == "scorer"}
    assert scorers == {"PRM (x[1])": 1, "SCaTR": 1}
    assert run_report(run, "--only", "scatr.a").rows["SCaTR"]["runs"] == 2
    found = run_report(run, "--only", "prm.*", "--only", "*@32-1")
    assert [name for name, row in found.rows.items() if row["kind"] == "scorer"] == [
        "old (a)", "PRM (x[1])", "SCaTR"]  # fmt: skip
    assert found.rows["SCaTR"]["runs"] == 1 and "no row for scatr.a@32-2: not in --only" in found.printed


def test_rows_vary_over_evaluation_runs_calibration_runs_and_seeds(tmp_path, run_report):
    paths = [make_run(tmp_path / str(seed), problems=30, seed=seed) for seed in (32, 42, 52)]
    names = [f"scatr.cal@{run}-{seed}" for run in (32, 42) for seed in (1, 2)] + ["prm.big"]
    accuracies = {"SCaTR": [], "PRM (big)": []}
    for (i, path), (j, name) in itertools.product(enumerate(paths), enumerate(names)):
        problems = {}
        for label, score in zip(common.read_labels(path), add_scores(path, name, seed=10 * i + j)):
            problems.setdefault(label["id"], []).append(label | score)
        accuracy = np.mean([CREDITS["mine"](rows) for rows in problems.values()])
        accuracies["SCaTR" if j < 4 else "PRM (big)"].append(accuracy)
    add_scores(paths[0], "scatr.cal@52-1")
    for path in paths[:2]:
        add_scores(path, "scatr.cal@32-9")
    found = run_report(*paths, paths[0])
    for method, values in accuracies.items():
        row = found.rows[method]
        assert [row["accuracy"], row["std"]] == pytest.approx([np.mean(values), np.std(values, ddof=1)])
        assert f"{percent(row['accuracy'])} ± {percent(row['std'])}" in found.printed
    for path in paths:  # each run has only the scores of the calibration run with its name
        add_scores(path, f"lora.cal@{path.name}-1")
    row = run_report(*paths).rows["LoRA verifier"]
    assert (row["runs"], row["over"]) == (3, "3 of 3 eval × 3 cal")
    over = {name: row["over"] for name, row in found.rows.items()}
    assert over["SCaTR"] == "3 eval × 2 cal × 2 seeds"
    assert over["PRM (big)"] == over["majority vote"] == over["oracle"] == "3 eval"
    assert "- made_up: no row for scatr.cal@32-9, scatr.cal@52-1: not in every run\n" in found.printed


@pytest.mark.parametrize("method", ["random", "oracle", "entropy/avg", "mine", "mine, weighted vote"])
def test_a_problem_whose_pick_has_no_label_is_left_out_of_the_row_and_counted(tmp_path, method):
    """As 04 would pick; of fewer rollouts, subsets whose pick has no label are left out."""
    path, problems = random_run(tmp_path / "run", 3)
    labels = {(row["id"], row["sample"]): row for row in itertools.chain(*problems.values())}
    for key in [*labels][::3]:
        labels[key]["label"] = None
    edit_jsonl(path / "labels.jsonl", lambda row: row | {"label": labels[row["id"], row["sample"]]["label"]})
    row = rows_of(path)[method]
    for n in (2, 5):
        means = []
        for rows in problems.values():
            if method in ("random", "oracle"):
                rows = [each for each in rows if each["label"] is not None]
            subsets = itertools.combinations(rows, min(n, len(rows)))
            picked = [CREDITS[method](list(subset)) for subset in subsets]
            judged = [label for label in picked if label is not None]
            means += [np.mean(judged)] if judged else []
        if method != "oracle" or n == 5:
            assert row.curve[str(n)] == pytest.approx(np.mean(means))
    assert (row.problems, row.unjudged) == (len(means), len(problems) - len(means))
    assert (row.unjudged > 0) == (method not in ("random", "oracle"))


def test_a_problem_without_any_label_is_left_out_of_all_rows(tmp_path, run_report):
    """Of two repetitions, in each another one; that of the greedy run beside them only of its own row."""
    right = []
    for i, (name, bad) in enumerate({"32": "p1", "42": "p3", "greedy": "p5"}.items()):
        path = make_run(tmp_path / name, problems=8, n=1 if name == "greedy" else 3, seed=i)
        labels = [row | {"label": None} if row["id"] == bad else row for row in common.read_labels(path)]
        common.write_jsonl(path / "labels.jsonl", labels)
        right.append(np.mean([row["label"] for row in labels if row["id"] not in ("p1", "p3", bad)]))
    found = run_report(tmp_path / "32", tmp_path / "42")
    random, greedy = found.rows["random"], found.rows["greedy"]
    assert random["problems"] == found.rows["oracle"]["problems"] == greedy["problems"] + 1 == 6
    expected = [np.mean(right[:2]), np.std(right[:2], ddof=1)]
    assert [random["accuracy"], random["std"]] == pytest.approx(expected)
    assert [greedy["accuracy"], greedy["std"]] == [pytest.approx(right[2]), None]
    assert "2 problems left out of all rows: no answer could be judged" in found.printed


@pytest.mark.parametrize("others", ["fewer", "changed"])
def test_a_greedy_run_of_other_problems_counts_for_nothing_and_is_named(tmp_path, run_report, others):
    """Although one of its labels is null, and although problems that were changed have the old ids."""
    run = make_run(tmp_path / "32")
    alone = run_report(run)
    greedy = make_run(tmp_path / "greedy", problems=6 if others == "fewer" else 12, n=1)
    edit_jsonl(greedy / "labels.jsonl", lambda row: row | ({"label": None} if row["id"] == "p0" else {}))
    if others == "changed":
        edit_jsonl(greedy / "problems.jsonl", lambda row: row | {"prompt": row["prompt"].replace("1", "one")})
    found = run_report(run)
    assert found.rows == alone.rows and "left out of all rows" not in found.printed
    assert f"made_up: no row for {greedy}: its problems are others" in found.printed


def test_labels_by_hand_with_a_label_alone_are_enough(run, tmp_path, run_here, run_report):
    """Of other programs than 02, without answers, groups, reasons and stamps."""
    edit_jsonl(run / "labels.jsonl", lambda row: {name: row[name] for name in ("id", "sample", "label")})
    run_here("03_train_scorer.py", run, "--configs", 1, "--workers", 1, "-o", tmp_path / "s.pt")
    said = run_here("04_select.py", run, "--scorer", tmp_path / "s.pt").stdout
    right = sum(row["label"] for row in common.read_jsonl(run / "answers.jsonl"))
    assert f"{right} of 12 judged ones right" in said
    rows = run_report(run).rows
    assert rows["answers.jsonl, 04's choice"]["correct"] == right and "majority vote" not in rows
    assert [*rows["answers.jsonl, 04's choice"]["curve"]] == ["4"]
    common.write_jsonl(run / "answers.jsonl", common.read_jsonl(run / "answers.jsonl")[1:])
    assert "answers.jsonl, 04's choice" not in run_report(run).rows, "where a problem has none"


def test_the_share_of_cut_rollouts_is_in_the_summary_and_in_every_table(run, run_report):
    """And how many answers have no label is said."""
    edit_jsonl(run / "labels.jsonl", lambda row: row | ({"label": None} if row["sample"] == 3 else {}))
    add_scores(run, "scatr.a@1", cost={"parameters": 5}, p=True)
    edit_jsonl(run / "rollouts.jsonl", lambda row: row | {"finish": "length" if row["id"] < "p2" else "stop"})
    found = run_report(run)
    assert summary_of(found)[0]["cut %"] == percent(4 / 12)  # p0, p1, p10 and p11
    tables = found.text.split("\n### ")[1:]
    assert len(tables) == 5 and all("| cut % |" in " ".join(table.split()) for table in tables)
    assert "12 answers have no label: a row leaves out where it picks one" in found.printed


# ---- Comparison


@pytest.mark.parametrize("oracle, closed", [
    (0.5, [0.25 / 0.5, 0.15 / 0.4]),
    (0.1 + 1.9 / 30, [0.25 / (0.1 + 1.9 / 30), None]),  # the second gap is less than two problems
])  # fmt: skip
def test_two_references_and_the_paired_interval(oracle, closed):
    """For a difference of fixed size on every problem the interval has no width, however much they vary."""
    base = np.random.default_rng(0).random(30) * 0.5
    more = dict.fromkeys(report.RULES, -0.1)
    more |= {"mean/avg": 0, "self_certainty/avg": 0.1, "better": 0.25, "oracle": oracle}
    rows = {}
    for name in more:
        right = base + more[name]
        rows[name] = blank_row(name, right=right, accuracy=right.mean(), problems=30)
    report.compare([*rows.values()], [*range(30)])
    assert rows["mean/avg"].best_of == ["best of the paper's 20 rules"]
    assert rows["self_certainty/avg"].best_of == ["best of all 28 rules"]
    for gain, delta, gap in zip(rows["better"].against.values(), (0.25, 0.15), closed):
        assert [gain["delta"], gain["low"], gain["high"]] == pytest.approx([delta] * 3)
        assert gain["gap_closed"] == pytest.approx(gap)


@pytest.mark.parametrize("size", [1, 5])
def test_the_interval_holds_95_percent(size):
    """Against a bootstrap written down a second time: families of so many problems, alike, are drawn whole."""
    rng = np.random.default_rng(1)
    difference = np.repeat(rng.normal(size=60), size) + rng.normal(size=60 * size) / 9
    families = [f"f{i // size}" for i in range(60 * size)]
    unjudged = difference.copy()
    unjudged[0] = np.nan
    rows = np.arange(60 * size).reshape(60, size)[rng.integers(0, 60, (20000, 60))].reshape(20000, -1)
    for values in (difference, unjudged):
        found = report.with_interval(values, families)
        expected = np.percentile(np.nanmean(values[rows], 1), [2.5, 97.5])
        assert [found["low"], found["high"]] == pytest.approx(expected, abs=0.02)
        assert found["delta"] == pytest.approx(np.nanmean(values))


def test_problems_of_a_family_are_drawn_together(tmp_path):
    path = make_run(tmp_path / "run", problems=40)
    edit_jsonl(path / "problems.jsonl", lambda row: row | {"family": str(int(row["id"][1:]) % 2)})
    (run,), _, _ = report.load_repetitions([path])
    assert run.families == ["0", "1"] * 20
    edit_jsonl(path / "problems.jsonl", lambda row: {name: row[name] for name in row if name != "family"})
    (run,), _, _ = report.load_repetitions([path])
    assert run.families == run.ids


# ---- Studies


def study_of(found, study):
    title = f"Study of {study}: {found.sections[0]['title']}"
    assert title in found.printed
    return table_of(found.text, title)


def test_a_study_has_its_rows_by_their_numbers_and_calibration_sets(tmp_path, run_report):
    path = make_run(tmp_path / "run", n=16)
    for i, row in enumerate(("L-1", ".9L", ".15L", "new")):
        for calibration, seed in itertools.product(("cal", "other.set"), (1, 2)):
            add_scores(path, f"layers-{row}.{calibration}@32-{seed}", seed=10 * i + seed)
    for row in ("100%", "10%"):
        add_scores(path, f"fraction-{row}.cal@32-1")
    found = run_report(path, "--study", "layers", "--study", "fraction")
    rows = study_of(found, "layers")
    assert [*rows[0]] == [
        "method", "calibrated on", "cut %", "N=1", "N=2", "N=4", "N=8", "N=12", "N=16", "AUROC", "over",
        "problems"]  # fmt: skip
    names = itertools.product(("new", ".15L", ".9L", "L-1"), ("cal", "other.set"))
    assert [(row["method"], row["calibrated on"]) for row in rows] == [*names]
    assert " ± " in rows[0]["N=4"] and (rows[0]["over"], rows[0]["problems"]) == ("2 seeds", "12")
    rows = study_of(found, "fraction")
    assert [row["method"] for row in rows] == ["10%", "100%"]


def test_problems_that_a_scorer_learned_from_are_left_out_of_all_rows_of_its_seed(tmp_path, run_report):
    """A half of the evaluation run trains the scorers of one row; both rows are judged on the other half."""
    path = make_run(tmp_path / "run", problems=8)
    learned = {"1": ["p0", "p1", "p2", "p3"], "2": ["p4", "p5", "p6", "p7"]}
    for seed in learned:
        add_scores(path, f"halves-same.made_up@32-{seed}", int(seed), {"learned": learned[seed]})
        add_scores(path, f"halves-other.cal@32-{seed}", int(seed) + 2)
    rows = study_of(run_report(path, "--study", "halves"), "halves")
    assert [[*row.values()][:2] for row in rows] == [
        ["other, all problems", "cal"], ["other", "cal"], ["same", "made_up"]]  # fmt: skip
    for row in rows:
        everything = row["method"] == "other, all problems"
        values = []
        for seed in learned:
            method = row["method"].split(",")[0]
            file = path / "scores" / f"halves-{method}.{row['calibrated on']}@32-{seed}.jsonl"
            problems = {}
            for label, score in zip(common.read_labels(path), common.read_jsonl(file)):
                if everything or label["id"] not in learned[seed]:
                    problems.setdefault(label["id"], []).append(label | score)
            values.append(mean_over_subsets(problems, CREDITS["mine"], 4))
        assert row["N=4"] == f"{percent(np.mean(values))} ± {percent(np.std(values, ddof=1))}"
        assert row["problems"] == ("8" if everything else "4")


def test_the_scores_of_studies_are_in_no_other_table(run, run_report):
    add_scores(run, "fraction-10%.cal@32-1")
    add_scores(run, "fraction-of-mine")  # no calibration set: not a study's
    (run / "scores" / "layers-.9L.cal@1.jsonl").write_text("of a study that is not asked for: not read")
    for words in ([], ["--study", "fraction"]):
        found = run_report(run, *words)
        scorers = [name for name, row in found.rows.items() if row["kind"] == "scorer"]
        assert scorers == ["fraction-of-mine"]
        assert ("Study of fraction" in found.printed) == bool(words)


def test_a_study_without_scores_is_said_and_one_that_learned_from_all_problems_is_refused(tmp_path, capsys):
    runs = [make_run(tmp_path / name, dataset=name) for name in ("a", "b")]
    add_scores(runs[0], "mixed-mixed.c+d@32-1")
    call_main("05_baselines.py", *runs, "--study", "mixed", "--study", "layers", "--out", tmp_path)
    error = capsys.readouterr().err
    assert "there are no scores of --study layers; see 03_train_scorer.py -h" in error and "mixed" not in error
    add_scores(runs[1], "mixed-mixed.a+b@32-1", cost={"learned": [f"p{i}" for i in range(12)]})
    assert "of --study mixed learned from all its problems" in refusal(runs[1], "--study", "mixed")


# ---- Tables


def make_paper_run(path, calibration, seed, kind="code"):
    """A run of one of the paper's models and data sets."""
    make_run(path, problems=10, seed=seed, model="org/Qwen3-1.7B", dataset=path.name, kind=kind)
    for i, method in enumerate(("logistic", "scatr", "scatr+", "lora")):
        add_scores(path, f"{method}.{calibration}@32-1", i)
    return path


@pytest.fixture
def paper_runs(tmp_path):
    first = make_paper_run(tmp_path / "humaneval", "kodcode", 0)
    return [first, make_paper_run(tmp_path / "kodcode", "humaneval", 1)]


def test_the_screen_is_the_summary_which_begins_the_report(paper_runs, run_report):
    found = run_report(*paper_runs)
    lines = found.printed.splitlines()
    assert lines[:2] == [f"- Qwen3-1.7B on {name}: 10 problems, N=4" for name in ("humaneval", "kodcode")]
    assert lines[-1].endswith(f": {found.folder / 'report.md'}")
    summary = found.printed.rpartition("\n\n")[0]
    assert found.text.startswith(f"# Report\n\n{summary}\n\n## Qwen3-1.7B on humaneval")
    command = f"python 05_baselines.py {paper_runs[0]} {paper_runs[1]} --out {found.folder}"
    assert found.text.endswith(f"This report was made by\n\n    {command}\n")
    ours, other = summary_of(found)
    assert [ours["picked by"], other["picked by"]] == ["kodcode → humaneval", "humaneval → kodcode"]
    assert [*ours] == [
        "picked by", "random", "best of the paper's 20 rules", "best of all 28 rules",
        "logistic regression", "LoRA verifier", "SCaTR", "SCaTR+", "oracle", "cut %",
    ]  # fmt: skip
    assert ours["SCaTR"] == percent(found.rows["SCaTR"]["accuracy"])


def test_what_is_routed_and_what_04_chose_stand_under_the_sets_that_they_were_made_of(run, run_report):
    for seed, name in enumerate(("scatr.a@32-1", "scatr.b@32-1", "scatr.c@32-1")):
        add_scores(run, name, seed)
    add_scores(run, "routed.a+b@32+32-1", 3, {"domains_right": 0.5})
    picks = [{"id": f"p{i}", "sample": 0, "scorer": "scatr.c"} for i in range(12)]
    common.write_jsonl(run / "answers.jsonl", picks)
    columns = summary_of(run_report(run))
    assert [column["picked by"] for column in columns] == [f"{name} → made_up" for name in "abc"]
    assert [column["SCaTR, routed by domain"] != "" for column in columns] == [True, True, False]
    assert [column["answers.jsonl, 04's choice"] != "" for column in columns] == [False, False, True]


COSTS = {  # scorer: parameters, seconds and FLOPs of the training, ms a rollout, device
    "scatr.cal@32-1": (5e6, 60, 3e12, 0.2, "H200"),
    "scatr.cal@42-1": (7e6, 180, 5e12, 0.3, "H200"),
    "lora.cal@32": (1.7e9, 3000, 2e16, 50.0, "H200"),
    "prm.It": (1.54e9, None, None, 100.0, "cpu"),
}


def test_costs(tmp_path, run_report, run_here):
    """Those of 05's verifiers, and those that 03 measured, which 04 hands on."""
    path = make_run(tmp_path / "run", n=5)
    for name, values in COSTS.items():
        keys = ("parameters", "train_seconds", "train_flops", "ms_per_rollout", "device")
        cost = dict(zip(keys, values))
        if name == "scatr.cal@42-1":
            scorer = first_dimension_scorer(tmp_path / f"{name}.pt", cost=cost)
            run_here("04_select.py", path, "--scorer", scorer)
        else:
            add_scores(path, name, len(name), cost)
    rows = table_of(run_report(path).text, [*report.TABLES][-1])
    columns = "method", "parameters", "training: processor min", "TFLOPs", "scoring: ms a rollout", "scored on"
    assert [[row[column] for column in columns] for row in rows] == [
        ["LoRA verifier", "1,700,000,000", "50", "20,000", "50", "H200"],
        ["PRM (It)", "1,540,000,000", "", "", "100", "cpu"],
        ["SCaTR", "6,000,000", "2", "4", "0.25", "H200"],
    ]  # fmt: skip


@pytest.mark.parametrize("change", ["moved scorer", "another scorer", "other rollouts"])
def test_scores_of_04_and_its_answers_are_no_rows_where_their_scorer_or_rollouts_have_changed(
    run, tmp_path, run_here, run_report, change
):
    scorer = changed = first_dimension_scorer(tmp_path / "s.pt")
    of_04 = {"s", "answers.jsonl, 04's choice"}
    run_here("04_select.py", run, "--scorer", scorer)
    assert of_04 <= run_report(run).rows.keys()
    if change == "moved scorer":
        scorer.rename(tmp_path / "moved.pt")
    elif change == "another scorer":
        first_dimension_scorer(scorer, pos_weight=2.0)
    else:
        changed = run / "rollouts.jsonl"
        edit_jsonl(changed, lambda row: row | {"response": "sampled again"})
    report.is_changed.cache_clear()
    found = run_report(run)
    assert found.rows.keys() & of_04 == (of_04 if change == "moved scorer" else set())
    assert (f"no row for s: {changed} has changed since" in found.printed) == (change != "moved scorer")


@pytest.mark.parametrize("learned_from, evaluated_on, shared", [(12, 5, "5 of its 5"), (6, 12, "6 of its 12")])
def test_the_same_problems_under_another_name_and_other_ids_are_in_sample(
    tmp_path, run_here, run_report, learned_from, evaluated_on, shared
):
    """As aime25 after aime, as a copy of a file with rows more or less, and as a chat of the same text."""
    runs = [make_run(tmp_path / name, problems=problems, dataset=name)
            for name, problems in (("all", learned_from), ("some", evaluated_on))]  # fmt: skip
    for name in ("problems", "rollouts", "labels"):
        edit_jsonl(runs[1] / f"{name}.jsonl", lambda row: row | {"id": f"new {row['id']}"})
    asked = {"id": "new p0", "messages": [{"role": "user", "content": "What is 0?"}]}
    edit_jsonl(runs[1] / "problems.jsonl", lambda row: row | (asked if row["id"] == asked["id"] else {}))
    edit_hidden(runs[1], lambda keys, **_: {"keys": [(f"new {problem}", sample) for problem, sample in keys]})
    run_here("03_train_scorer.py", runs[0], "--configs", 1, "--workers", 1, "-o", tmp_path / "scatr.all@1.pt")
    said = run_here("04_select.py", runs[1], "--scorer", tmp_path / "scatr.all@1.pt").stderr
    assert f"scatr.all learned from {shared} problems, so its accuracy proves nothing" in said
    columns = summary_of(run_report(runs[1]))[0]
    for row in ("SCaTR", "SCaTR, weighted vote", "answers.jsonl, 04's choice"):
        assert columns[row].endswith(" in sample")


def test_p_is_compared_with_the_share_that_is_right_in_tenths(tmp_path, run_report):
    """Of all seeds together, by brute force; a confidence rule and scores without p have no such row."""
    run = make_run(tmp_path / "run", problems=20)
    answers = []
    picked = []
    for seed in (1, 2):
        rows = add_scores(run, f"scatr.a@32-{seed}", seed, p=True)
        labels = [row["label"] for row in common.read_labels(run)]
        answers += [(row["p"], label) for row, label in zip(rows, labels)]
        picked += [max(row["p"] for row in rows if row["id"] == f"p{i}") for i in range(20)]
    add_scores(run, "prm.x", 3)
    found = run_report(run)
    (row,) = table_of(found.text, "### Is p a probability?")
    answers.sort()
    tenths = np.array_split(np.array(answers), 10)
    for number, tenth in enumerate(tenths, 1):
        p, right = tenth.mean(0)
        assert row[f"tenth {number}"] == f"{100 * p:.0f} → {100 * right:.0f}"
    off = np.mean([abs(p - right) for p, right in (tenth.mean(0) for tenth in tenths)])
    brier = np.mean([(p - right) ** 2 for p, right in answers])
    assert (row["p is off by, %"], row["Brier score"]) == (percent(off), f"{brier:.3g}")
    right = found.rows["SCaTR"]["accuracy"]
    assert row["picked: p → right, %"] == f"{100 * np.mean(picked):.0f} → {100 * right:.0f}"


# ---- The paper's tables


def papers_table(text, number):
    """[{column: cell}] of a table of paper.md."""
    (title,) = [line for line in text.splitlines() if line.startswith(f"## Table {number}: ")]
    return table_of(text, title)


def test_the_papers_tables_have_its_numbers_beside_ours(paper_runs, run_report, run_here):
    found = run_report(*paper_runs)
    said = run_here("05_baselines.py", "paper", found.folder / "results.json").stdout
    assert said.startswith(f"{found.folder / 'paper.md'}: 21 tables of the paper; ")
    text = (found.folder / "paper.md").read_text()
    ours, theirs, *_ = papers_table(text, 7)
    assert [*theirs.values()][2:] == [
        "paper", "59.3 ± 8.1", "56.1 ± 2.1", "63.8 ± 9.2", "60.4 ± 4.3", "87.4", "+3.2", "10.2"]  # fmt: skip
    scatr = found.rows["SCaTR"]["accuracy"]
    best = max(row["accuracy"] for row in found.rows.values() if report.PAPERS_BEST in row["best_of"])
    assert ours["calibrated → evaluated"] == "kodcode → humaneval" and ours["PRM"] == "missing"
    assert (ours["SCaTR"], ours["Best confidence"]) == (percent(scatr), percent(best))
    assert ours["Delta"] == report.as_percent(scatr - best, sign="+")
    assert [*papers_table(text, 13)[3].values()][3:] == ["60.6 ± 8.1", "60.6 ± 7.3", "61.7 ± 7.6", "59.6 ± 7.0",
                                                        "59.6 ± 7.8", "60.3 ± 7.3", "59.3 ± 8.1"]  # fmt: skip
    assert "paper" not in text.split("## Table 1: ")[1].split("##")[0].split("The paper has this")[0]
    results = common.read_json(found.folder / "results.json")
    results["sections"][0]["rows"][0]["stopped"] = None
    common.write_json(found.folder / "results.json", results)
    assert "was made by another version" in refusal("paper", found.folder / "results.json")


def test_results_of_other_problems_are_left_out_of_a_page_of_the_papers_sets(
    paper_runs, run_report, run_here, tmp_path
):
    report_of_paper = run_report(*paper_runs).folder / "results.json"
    demo = make_paper_run(tmp_path / "code_a", "code_b", 3)
    run_here("05_baselines.py", demo, "--out", demo, "--sets", "code_a", *"defgh")
    said = run_here("05_baselines.py", "paper", report_of_paper, demo / "results.json", "--out", tmp_path)
    warning = f"warning: {demo / 'results.json'} is left out, as it is of other problems than the paper's"
    assert warning in said.stderr.splitlines()
    text = (tmp_path / "paper.md").read_text()
    assert text.startswith("# The paper's tables\n")
    assert "code_a" not in text.split("This page was made by")[0]


def test_a_cell_shows_the_rows_that_its_column_names():
    """Each row has an accuracy of its own. One table asks for another calibration set than the pair's."""
    meta = {"n_layers": 28, "width": 2048}
    results = report.Results({name: name for name in report.PAPERS_SETS}, [{"metas": [meta]}])
    accuracies = {}
    for calibration, method in (
        ("kodcode", "LoRA verifier"), ("math500", "LoRA verifier"), ("math500+kodcode", "mixed-mixed"),
        ("humaneval", "halves-same"), ("kodcode", "halves-other"), ("kodcode", "layers-.3L"),
        *(("kodcode", f"designs-{name}") for name in ("ensemble", "best-layer", "scatr", "transformer-final",
                                                      "transformer-last10", "transformer-special")),
    ):  # fmt: skip
        accuracy = accuracies[calibration, method] = (len(accuracies) + 1) / 20
        cost = dict.fromkeys(report.COSTS) | {"parameters": 1000 * accuracy}
        curve = {"4": accuracy / 2, "8": accuracy}
        row = blank_row(method, accuracy=accuracy, curve=curve, curve_std=[0.01, 0.02], cost=cost)
        results.rows["humaneval", method, calibration] = row

    def cells(table, pair):
        table = report.the_paper()["tables"][table]
        return {column[0]: report.our_cell(results, table, pair, column) for column in table["columns"]}

    shown = {key: percent(accuracy) for key, accuracy in accuracies.items()}
    lora, of_maths = shown["kodcode", "LoRA verifier"], shown["math500", "LoRA verifier"]
    pair = ("kodcode", "humaneval")
    assert [*cells("transfer", ("math500", "humaneval")).values()] == [of_maths, lora]
    assert cells("domains", pair)["Mixed-domain"] == shown["math500+kodcode", "mixed-mixed"]
    halves = [shown["humaneval", "halves-same"], "missing", shown["kodcode", "halves-other"]]
    assert [*cells("halves", pair).values()] == halves
    assert cells("layers 4", pair)[".3L"] == f"{percent(accuracies['kodcode', 'layers-.3L'] / 2)} ± 1.0"
    assert cells("layers 8", pair)[".3L"] == f"{shown['kodcode', 'layers-.3L']} ± 2.0"
    assert set(cells("designs 12", pair).values()) == {"N < 12"}
    assert cells("designs 16", pair)["Δ"] == "-15.0" and cells("lora", pair)["Size"] == "50"
    assert cells("training", pair)["LoRA: TFLOPs, times SCaTR's"] == "missing"
    assert [*cells("configs", ()).values()] == ["28", "2048"]


@pytest.mark.parametrize("name", report.the_paper()["tables"])
def test_the_papers_rows_fit_the_columns_of_their_table(name):
    """As many cells as the paper has columns; only columns of our own come after them."""
    table = report.the_paper()["tables"][name]
    own = {"domains": 1, "halves": 1}.get(name, 0)
    assert {len(cells.split()) for cells in table["paper"].values()} == {len(table["columns"]) - own}
    assert all(reason in report.the_paper()["reasons"] for reason in table.get("differs", ()))


# ---- Figures

needs_matplotlib = pytest.mark.skipif(not importlib.util.find_spec("matplotlib"), reason="no matplotlib")


@needs_matplotlib
def test_the_figures_of_a_report(run, run_here):
    add_scores(run, "scatr.cal@1")
    run_here("05_baselines.py", run, "--out", run, "--plots")
    name = "accuracy.tiny.cal-to-made_up"
    assert (run / f"{name}.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert (run / f"{name}.pdf").read_bytes()[:5] == b"%PDF-"
    page = (run / "report.md").read_text()
    assert f"]({name}.png)" in page and f"]({name}.pdf)" in page


# ---- Broken runs get one line


@pytest.mark.parametrize("change", [
    {"score": "much"}, {"score": "nan"}, {"weight": 1.5}, {"p": -1},
])  # fmt: skip
def test_a_score_is_a_number_and_a_weight_between_0_and_1(run, change):
    rows = add_scores(run, "mine")
    common.write_jsonl(run / "scores" / "mine.jsonl", [row | change for row in rows])
    assert "a score is a number, and weight and p are numbers from 0 to 1, or absent" in refusal(run)


def test_scores_are_of_all_rollouts_and_runs_are_labelled(run):
    rows = add_scores(run, "mine")
    common.write_jsonl(run / "scores" / "mine.jsonl", rows[:-1])
    assert "mine.jsonl: 47 rows for a run of 48" in refusal(run)
    edit_jsonl(run / "labels.jsonl", lambda row: row | {"label": None})
    assert "no answer has a label; 05 needs labelled runs" in refusal(run)
    (run / "labels.jsonl").unlink()
    assert "02_label.py" in refusal(run)


def test_repetitions_are_different_runs_of_the_same_problems_and_n(tmp_path):
    a = make_run(tmp_path / "a", problems=4, n=4)
    b = make_run(tmp_path / "b", problems=4, n=2)
    c = make_run(tmp_path / "c", problems=3, n=4)
    d = make_run(tmp_path / "d", problems=4, n=4)
    edit_jsonl(d / "problems.jsonl", lambda row: row | {"prompt": "Of another file of this name"})
    for other in (b, c, d):
        assert f"{other} has other problems or another N than {a}" in refusal(a, other)


def test_what_a_report_needs_is_looked_at_before_any_work(run, monkeypatch):
    assert "cannot write into /proc/x: " in refusal(run, "--out", "/proc/x")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert "pip install matplotlib" in refusal(run, "--plots")
    assert not (run / "report.md").exists()
