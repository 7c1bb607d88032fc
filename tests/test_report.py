"""The report: every number against brute force over all subsets, and the command on whole and broken runs."""

import importlib
import importlib.util
import itertools
import re
from types import SimpleNamespace

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
BEST, VOTE = "mine, best-of-N", "mine, weighted vote"


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


def refusal(*words):
    return refusal_of("05_baselines.py", *words)


def load(path, windows=WINDOWS):
    return report.load_repetitions([path], windows)[0][0]


def rows_of(path):
    rows = report.make_rows([load(path)])
    report.compare(rows)
    return rows


def cells_of(markdown):
    """The lines of a table of report.md as cells without bold."""
    lines = [[cell.strip(" *") for cell in line.strip("|").split("|")] for line in markdown.splitlines()]
    return lines[:1] + lines[2:]


def table_of(text, title):
    """[{column: cell}] of a table of report.md."""
    header, *lines = cells_of(text.split(f"### {title}")[1].split("\n\n")[1])
    return [dict(zip(header, line, strict=True)) for line in lines]


def summary_of(text):
    """[{"picked by": its title, method: cell}] of the columns of the report's summary."""
    columns = []
    for block in text.split("### Summary\n\n")[1].split("\n\n"):
        if block.startswith("| picked by"):
            names, *cells = zip(*cells_of(block))
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
    rollouts, labels, scores, problems = [], [], [], {}
    for rollout, label in zip(common.read_rollouts(path), common.read_labels(path)):
        if rollout["sample"] >= few.get(rollout["id"], n):
            continue
        if rollout["id"] == "p0" or rng.random() < 0.25:
            label |= {"group": None, "label": 0}
        conf = {rule: rng.uniform(1, 2) for rule in report.RULES}  # those of short answers would be equal
        rollouts.append(rollout | {"conf": conf, "finish": ["stop", "length"][rng.integers(2)]})
        labels.append(label)
        score = int(rng.integers(-2, 3))
        scores.append({"id": rollout["id"], "sample": rollout["sample"], "score": score})
        scores[-1]["p"] = [0.1, 0.25, 0.35, 0.35, 0.9][score + 2]
        problems.setdefault(rollout["id"], []).append({**rollouts[-1], **conf, **label, **scores[-1]})
    common.write_jsonl(path / "rollouts.jsonl", rollouts)
    common.write_jsonl(path / "labels.jsonl", labels[::-1])  # rows are joined by their keys
    common.write_jsonl(path / "scores" / "mine@1.jsonl", scores)
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


@pytest.mark.parametrize("method", ["random", "entropy/avg", BEST, "majority vote", VOTE])
def test_the_share_of_cut_picks(tmp_path, method):
    """For a random pick it is that of all rollouts."""
    path, problems = random_run(tmp_path / "run", 1, ragged=True)
    for row in itertools.chain(*problems.values()):
        row["label"] = row["finish"] == "length"
    if method == "random":
        problems = {"all": sum(problems.values(), [])}
    n = max(map(len, problems.values()))
    assert rows_of(path)[method]["cut"] == pytest.approx(mean_over_subsets(problems, CREDITS[method], n))


@pytest.mark.parametrize("method", ["majority vote", VOTE])
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
    row = rows_of(path)[BEST]
    pairs = [pairs_in_order(rows) for rows in problems.values()]
    assert row["auroc"] == pytest.approx(np.mean(pairs_in_order(sum(problems.values(), []))))
    assert row["auroc_within"] == pytest.approx(np.mean([np.mean(own) for own in pairs if own]))


# ------------------------------------------------------------------------------------------------------------
# Confidence rules


def rule_scores(run, rule):
    return run.scores[rule][""].score


def test_other_windows_are_computed_from_the_tokens(run):
    loaded, tokens = load(run, (3, 5)), common.load_pt(run / "tokens.pt")
    first = common.confidence(tokens["stats"][: int(tokens["offsets"][1])].numpy(), 50, window=3, tail=5)
    assert rule_scores(loaded, "gap/tail")[0, 0] == pytest.approx(first["gap/tail"])
    assert rule_scores(loaded, "entropy/lowest")[0, 0] == pytest.approx(-first["entropy/lowest"])
    assert np.array_equal(rule_scores(loaded, "gap/avg"), rule_scores(load(run), "gap/avg"))


def test_a_rule_that_01_did_not_write_is_computed_from_the_tokens(run):
    stored = rule_scores(load(run), "gap/tail")

    def without_gap_tail(row):
        del row["conf"]["gap/tail"]
        return row

    edit_jsonl(run / "rollouts.jsonl", without_gap_tail)
    assert rule_scores(load(run), "gap/tail") == pytest.approx(stored)


@pytest.mark.parametrize("rule", ["gap/avg", "entropy/avg"])
def test_a_rollout_without_tokens_ranks_below_all_others(run, rule):
    first = common.read_rollouts(run)[0]
    empty = first | {"conf": dict.fromkeys(report.RULES)}
    edit_jsonl(run / "rollouts.jsonl", lambda row: empty if row == first else row)
    scores = rule_scores(load(run), rule)
    assert np.isfinite(scores).all() and scores[0, 0] < np.delete(scores, 0).min()


@pytest.mark.parametrize("tokens, windows", [
    (1, (1, 1)), (27, (16, 16)), (42, (16, 16)), (300, (128, 128)), (2000, (1024, 1024)), (9000, WINDOWS),
])  # fmt: skip
def test_windows_go_by_the_length_of_answers_up_to_the_papers(tmp_path, tokens, windows):
    path = make_run(tmp_path / "run", n=3)
    edit_jsonl(path / "rollouts.jsonl", lambda row: row | {"n_tokens": [1, tokens, 10**6][row["sample"]]})
    assert report.windows_for([path]) == windows
    (path / "tokens.pt").unlink()  # then there are only the values in rollouts.jsonl
    assert report.windows_for([path]) == WINDOWS


def test_rules_that_are_the_same_in_short_answers_are_shown_once(run, run_report):
    found = run_report(run)
    assert "N=4, windows of 4 tokens, tail 4\n" in found.printed and "equal another" not in found.printed
    (run / "tokens.pt").unlink()  # answers of less than 30 tokens, and the paper's windows
    found = run_report(run)
    assert found.rows["gap/avg"]["equals"] is None
    assert {found.rows[f"gap/{way}"]["equals"] for way in ("tail", "lowest", "bottom10")} == {"gap/avg"}
    assert [row["bottom10"] for row in table_of(found.text, "Confidence rules")] == ["as avg"] * 7
    assert "21 of 28 confidence rules equal another: answers are shorter than" in found.printed


# ------------------------------------------------------------------------------------------------------------
# Which rows there are, what they vary over, what is left out


def test_the_answers_that_04_chose_are_a_row_where_every_problem_has_one(run):
    chosen = [row for row in common.read_labels(run) if row["sample"] == int(row["id"][1:]) % 4]
    common.write_jsonl(run / "answers.jsonl", chosen)
    row = rows_of(run)["answers.jsonl, 04's choice"]
    assert row["correct"] == sum(row["label"] for row in chosen) and [*row["curve"]] == ["4"]
    common.write_jsonl(run / "answers.jsonl", chosen[1:])
    assert "answers.jsonl, 04's choice" not in rows_of(run)


def test_only_the_named_scores_are_rows(run, run_report):
    for seed, name in enumerate(("scatr.a@32-1", "scatr.a@32-2", "old.a@32-1", "prm.x")):
        add_scores(run, name, seed)
    rows = run_report(run, "--only", "scatr.a@32-2", "prm.x").rows
    scorers = {name: row["runs"] for name, row in rows.items() if row["kind"] == "scorer"}
    assert scorers == {"PRM (x), best-of-N": 1, "SCaTR (a), best-of-N": 1}
    assert run_report(run, "--only", "scatr.a").rows["SCaTR (a), best-of-N"]["runs"] == 2
    error = refusal(run, "--only", "prm.x", "nobody")
    assert "--only nobody: no such scores; there are old.a, old.a@32-1, prm.x, scatr.a, " in error
    add_scores(run, "layers-.3L.a@32-1")
    assert "no such scores" in refusal(run, "--only", "layers-.3L.a"), "--study asks for these"


def test_rows_vary_over_evaluation_runs_calibration_runs_and_seeds(tmp_path, run_report):
    paths = [make_run(tmp_path / str(seed), problems=30, seed=seed) for seed in (32, 42, 52)]
    names = [f"scatr.cal@{run}-{seed}" for run in (32, 42) for seed in (1, 2)] + ["prm.big"]
    for (i, path), (j, name) in itertools.product(enumerate(paths), enumerate(names)):
        add_scores(path, name, seed=10 * i + j)
    add_scores(paths[0], "scatr.cal@52-1")  # not in every run
    alone = {}
    for path, name in itertools.product(paths, names):
        for method, row in run_report(path, "--only", name).rows.items():
            alone.setdefault(method, []).append(row["accuracy"])
    found = run_report(*paths)
    for method in ("SCaTR (cal), best-of-N", "PRM (big), best-of-N"):
        row, values = found.rows[method], alone[method]
        assert [row["accuracy"], row["std"]] == pytest.approx([np.mean(values), np.std(values, ddof=1)])
        assert f"{percent(row['accuracy'])} ± {percent(row['std'])}" in found.printed
    over = {name: row["over"] for name, row in found.rows.items()}
    assert over["SCaTR (cal), best-of-N"] == "3 eval × 2 cal × 2 seeds"
    assert over["PRM (big), best-of-N"] == over["majority vote"] == over["oracle"] == "3 eval"
    assert "varies for the row, at most 3 eval × 2 cal × 2 seeds" in found.printed


@pytest.fixture
def unjudged(tmp_path):
    """Two repetitions and a greedy run beside them; in each of them another problem could not be judged."""
    paths = [make_run(tmp_path / "set" / str(seed), problems=8, n=3, seed=seed) for seed in (32, 42)]
    paths.append(make_run(tmp_path / "set" / "greedy", problems=8, n=1, seed=7))
    for path, bad in zip(paths, ("p1", "p3", "p5")):
        labels = common.read_labels(path)
        next(row for row in labels if row["id"] == bad)["label"] = None
        common.write_jsonl(path / "labels.jsonl", labels)
    return paths


def mean_of_judged(rows, key):
    return np.mean([row[key] for row in rows if row["id"] not in ("p1", "p3", "p5")])


def test_what_one_run_cannot_judge_is_left_out_of_every_row(unjudged, run_report):
    *paths, _ = unjudged
    found = run_report(*paths)
    assert {row["problems"] for row in found.rows.values()} == {5}
    means = [mean_of_judged(common.read_labels(path), "label") for path in paths]
    random = found.rows["random"]
    assert [random["accuracy"], random["std"]] == pytest.approx([np.mean(means), np.std(means, ddof=1)])
    assert "3 problems left out" in found.printed


def test_the_greedy_run_beside_a_run_is_a_row(unjudged, run_report):
    *paths, greedy = unjudged
    found = run_report(*paths)
    row = found.rows["greedy"]
    assert row["accuracy"] == pytest.approx(mean_of_judged(common.read_labels(greedy), "label"))
    assert row["tokens"] == pytest.approx(mean_of_judged(common.read_rollouts(greedy), "n_tokens"))
    assert row["std"] is None and "\ngreedy " in found.printed


def test_a_method_that_one_run_lacks_is_named_and_no_row(unjudged, run_report):
    add_scores(unjudged[0], "extra")
    found = run_report(*unjudged[:2])
    assert "extra, best-of-N" not in found.rows and "no row for extra: not in every run" in found.printed


@pytest.mark.parametrize("count, is_noted", [(8, True), (2, False)])
def test_cut_rollouts_are_noted_above_five_percent_and_always_counted(tmp_path, run_report, count, is_noted):
    path = make_run(tmp_path / "run", problems=10)
    rollouts = common.read_rollouts(path)
    for rollout in rollouts[:count]:
        rollout["finish"] = "length"
    common.write_jsonl(path / "rollouts.jsonl", rollouts)
    found, share = run_report(path), percent(count / 40)
    assert (f"{share} % of the rollouts were cut: " in found.printed) == is_noted
    assert table_of(found.text, "Methods")[0]["cut %"] == summary_of(found.text)[0]["cut %"] == share


# ------------------------------------------------------------------------------------------------------------
# Comparison


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
        rows[name] = {"right": right, "accuracy": right.mean(), "problems": 30, "best_of": [], "against": {}}
    report.compare(rows)
    assert rows["mean/avg"]["best_of"] == ["the paper's 20"]
    assert rows["self_certainty/avg"]["best_of"] == ["all 28"]
    for gain, delta, gap in zip(rows["better"]["against"].values(), (0.25, 0.15), closed):
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


@pytest.mark.parametrize("measure", ["best of 4", "weighted vote", "AUROC", "within a problem"])
def test_a_study_is_measured_exactly(tmp_path, run_report, measure):
    path, problems = random_run(tmp_path / "run", 0)
    (path / "scores" / "mine@1.jsonl").rename(path / "scores" / "layers-.9L.cal@32-1.jsonl")
    (row,) = run_report(path, "--study", "layers").sections[0]["studies"]["layers"]
    pairs = [pairs_in_order(rows) for rows in problems.values()]
    expected = {
        "best of 4": mean_over_subsets(problems, CREDITS[BEST], 4),
        "weighted vote": mean_over_subsets(problems, CREDITS[VOTE], 5),
        "AUROC": np.mean(pairs_in_order(sum(problems.values(), []))),
        "within a problem": np.mean([np.mean(own) for own in pairs if own]),
    }
    assert row["measures"][measure]["values"] == pytest.approx([expected[measure]])


def test_a_study_varies_over_calibration_runs_and_seeds_and_not_over_evaluation_runs(tmp_path, run_report):
    paths = [make_run(tmp_path / str(seed), problems=20, seed=seed) for seed in (32, 42)]
    for path, cal, seed in itertools.product(paths, (32, 42), (1, 2)):
        add_scores(path, f"designs-mlp.cal@{cal}-{seed}", seed=seed + cal + int(path.name))

    def accuracies(*paths):
        (row,) = run_report(*paths, "--study", "designs").sections[0]["studies"]["designs"]
        assert row["over"] == "2 cal × 2 seeds"
        return row["measures"]["best of 4"]

    first, second, both = accuracies(paths[0]), accuracies(paths[1]), accuracies(*paths)
    values = np.mean([first["values"], second["values"]], 0)
    assert both["values"] == pytest.approx(values)
    assert [both["mean"], both["std"]] == pytest.approx([values.mean(), values.std(ddof=1)])


def test_a_study_is_printed_in_the_papers_order_a_table_for_each_calibration_set(tmp_path, run_report):
    path = make_run(tmp_path / "run", n=16)
    for i, row in enumerate(("L-1", ".9L", ".15L", "new")):
        for calibration, seed in itertools.product(("cal", "other.set"), (1, 2)):
            add_scores(path, f"layers-{row}.{calibration}@32-{seed}", seed=10 * i + seed)
    add_scores(path, "fraction-10%.cal@32-1")
    printed = run_report(path, "--study", "layers", "--study", "fraction").printed
    table = printed.split("Study of layers: tiny, other.set → made_up\n\n")[1].split("\n\n")[0].splitlines()
    assert re.split("  +", table[0]) == [
        "layers", "best of 4 %", "best of 8 %", "best of 12 %", "best of 16 %", "AUROC %",
        "within a problem %", "weighted vote %", "over", "problems"]  # fmt: skip
    assert [line.split()[0] for line in table[2:]] == [".15L", ".9L", "L-1", "new"]
    assert re.search(r"^\.15L  .* ± .*  2 seeds +12$", table[2])
    assert "Study of fraction: tiny, cal → made_up" in printed


def test_problems_that_a_scorer_learned_from_are_left_out_of_all_rows_of_its_seed(tmp_path, run_report):
    """A half of the evaluation run trains the scorers of one row; both rows are judged on the other half."""
    path = make_run(tmp_path / "run", problems=8)
    learned = {"1": ["p0", "p1", "p2", "p3"], "2": ["p4", "p5", "p6", "p7"]}
    for seed in learned:
        add_scores(path, f"halves-same.made_up@32-{seed}", int(seed), {"learned": learned[seed]})
        add_scores(path, f"halves-other.cal@32-{seed}", int(seed) + 2)
    found = run_report(path, "--study", "halves")
    cells = [[*row.values()] for row in table_of(found.text, "Study of halves: tiny, made_up")]
    assert [(row[0], row[1], row[-1]) for row in cells] == [("same", "made_up", "4"), ("other", "cal", "4")]
    for row in found.sections[0]["studies"]["halves"]:
        for seed, value in zip(learned, row["measures"]["best of 4"]["values"]):
            file = path / "scores" / f"halves-{row['row']}.{row['calibration']}@32-{seed}.jsonl"
            problems = {}
            for label, score in zip(common.read_labels(path), common.read_jsonl(file)):
                if label["id"] not in learned[seed]:
                    problems.setdefault(label["id"], []).append(label | score)
            assert value == pytest.approx(mean_over_subsets(problems, CREDITS[BEST], 4))


def test_scorers_that_learned_from_every_problem_are_refused(run):
    add_scores(run, "mixed-mixed.a+b@32-1", cost={"learned": [f"p{i}" for i in range(12)]})
    error = refusal(run, "--study", "mixed")
    assert "mixed-mixed.a+b and the scorers beside it learned from all of its problems" in error


def test_the_scores_of_studies_are_in_no_other_table(run, run_report):
    add_scores(run, "fraction-10%.cal@32-1")
    add_scores(run, "fraction-of-mine")  # no calibration set: not a study's
    (run / "scores" / "layers-.9L.cal@1.jsonl").write_text("of a study that nobody asks for, so it is not read")
    for words in ([], ["--study", "fraction"]):
        found = run_report(run, *words)
        scorers = [name for name, row in found.rows.items() if row["kind"] == "scorer"]
        assert scorers == ["fraction-of-mine, best-of-N"]
        assert ("Study of fraction" in found.printed) == bool(words)


def test_a_study_without_scores_is_refused(run):
    error = refusal(run, "--study", "layers")
    assert "--study layers: no scores of it; 03_train_scorer.py --study layers makes scorers" in error


# ------------------------------------------------------------------------------------------------------------
# Tables


def make_paper_run(path, calibration, seed, kind="code"):
    """A run of one of the paper's models and data sets; SCaTR+ has a threshold to stop at."""
    make_run(path, problems=10, seed=seed, model="org/Qwen3-1.7B", dataset=path.name, kind=kind)
    for i, method in enumerate(("logistic", "scatr", "scatr+", "lora")):
        stop = {"stop": [[0.6, 60.0, 0.5, 2.0, 100.0]]} if method == "scatr+" else None
        add_scores(path, f"{method}.{calibration}@32-1", i, stop)
    return path


@pytest.fixture
def paper_runs(tmp_path):
    first = make_paper_run(tmp_path / "humaneval", "kodcode", 0)
    return [first, make_paper_run(tmp_path / "kodcode", "humaneval", 1)]


def test_the_screen_is_one_short_table(paper_runs, run_report):
    """A column a pair of sets and one for the paper's numbers, then the report's path."""
    found = run_report(*paper_runs)
    lines = found.printed.splitlines()
    about = "10 problems, N=4, windows of 8 tokens, tail 8"
    assert lines[:2] == [f"Qwen3-1.7B on {name}: {about}" for name in ("humaneval", "kodcode")]
    header, _, *rows = [re.split("  +", line) for line in lines[3 : lines.index("", 3)]]
    assert header == ["picked by", "kodcode → humaneval", "paper", "humaneval → kodcode", "paper"]
    assert [row[0] for row in rows] == [
        "random", "best of the paper's 20", "best of all 28", "logistic regression", "LoRA verifier", "SCaTR",
        "SCaTR+", "oracle", "SCaTR+, stopped when sure", "Δ", "Δ to all 28", "gap closed %", "cut %",
    ]  # fmt: skip
    assert lines[-1] == f"report: {found.folder / 'report.md'}"


def test_the_summary_shows_results_beside_the_papers(paper_runs, run_report):
    found = run_report(*paper_runs)
    ours, paper, _, other_paper = summary_of(found.text)
    scatr = found.rows["SCaTR (kodcode), best-of-N"]
    assert [paper["SCaTR"], other_paper["SCaTR"]] == ["59.3 ± 8.1", "67.1 ± 12.2"]
    assert ours["SCaTR"] == percent(scatr["accuracy"])
    gains = [f"{100 * gain['delta']:+.1f}" for gain in scatr["against"].values()]
    assert [ours["Δ"], ours["Δ to all 28"]] == gains
    (stopped,) = found.sections[0]["stopping"]
    shown = f"{percent(stopped['accuracy'])} for {100 * stopped['share']:.0f} %"
    assert ours["SCaTR+, stopped when sure"] == shown


def test_many_pairs_of_sets_are_several_tables_of_at_most_110_columns(paper_runs, tmp_path, run_report):
    third = make_paper_run(tmp_path / "math500", "aime25", 2, "math")
    fourth = make_paper_run(tmp_path / "aime25", "math500", 3, "math")
    printed = run_report(*paper_runs, third, fourth).printed
    assert printed.count("picked by") == 2 and max(map(len, printed.splitlines()[:-1])) <= 110


def test_models_and_calibration_sets_have_a_column_each_and_reward_models_a_row(tmp_path, run_report):
    paths = []
    for seed, model in enumerate(("small", "gpt-oss-20b")):
        paths.append(make_run(tmp_path / model, problems=20, seed=seed, model=model, dataset="math500"))
        for i, name in enumerate(("scatr.aime25@1", "scatr.aime25@2", "lora.aime25@1", "lora.code@1")):
            add_scores(paths[-1], name, seed=i)
    add_scores(paths[1], "prm.big", 6)
    found = run_report(*paths)
    columns = summary_of(found.text)
    titles = [f"{model}: {cal} → math500" for model in ("small", "gpt-oss-20b") for cal in ("aime25", "code")]
    assert [column["picked by"] for column in columns] == [*titles[:3], "paper", titles[3]]
    rows = {row["method"]: row for row in found.sections[1]["rows"]}
    scatr, transfer = rows["SCaTR (aime25), best-of-N"], rows["LoRA verifier (code), best-of-N"]
    assert columns[2]["SCaTR"] == f"{percent(scatr['accuracy'])} ± {percent(scatr['std'])}"
    assert columns[2]["PRM (big)"] == percent(rows["PRM (big), best-of-N"]["accuracy"])
    assert columns[4]["LoRA verifier"] == percent(transfer["accuracy"])
    assert columns[0]["PRM (big)"] == "" and "SCaTR" not in columns[4]


def test_the_best_number_of_a_column_is_bold():
    cells = {"a": "9.5 ± 1.0", "b": "10.0 in sample", "c": None}
    assert report.best_bold(cells) == cells | {"b": "**10.0 in sample**"}


COSTS = {  # scorer: parameters, seconds and FLOPs of the training, ms a rollout, device
    "scatr.cal@32-1": (5e6, 60, 3e12, 0.2, "H200"),
    "scatr.cal@42-1": (7e6, 180, 5e12, 0.3, "H200"),
    "lora.cal@32": (1.7e9, 3000, 2e16, 50.0, "H200"),
    "prm.It": (1.54e9, None, None, 100.0, "cpu"),
}


def test_costs_by_rollout_and_problem_with_ratios(tmp_path, run_report, run_here):
    """Those of 05's verifiers, and those that 03 measured, which 04 hands on."""
    path = make_run(tmp_path / "run", n=5)
    for name, values in COSTS.items():
        keys = ("parameters", "train_seconds", "train_flops", "ms_per_rollout", "device")
        cost = dict(zip(keys, values)) | {"command": f"make {name}"}
        if name == "scatr.cal@42-1":
            scorer = first_dimension_scorer(tmp_path / f"{name}.pt", cost=cost)
            run_here("04_select.py", path, "--scorer", scorer)
        else:
            add_scores(path, name, len(name), cost)
    text = run_report(path).text
    assert [[*row.values()][:-2] for row in table_of(text, "Costs")] == [
        ["LoRA verifier (cal)", "1,700,000,000 (283×)", "50 (25×)", "20,000 (5,000×)", "50 (200×)",
         "250 (200×)", "H200"],
        ["PRM (It)", "1,540,000,000 (257×)", "", "", "100", "500", "cpu"],
        ["SCaTR (cal)", "6,000,000 (1×)", "2 (1×)", "4 (1×)", "0.25 (1×)", "1.25 (1×)", "H200"],
    ]  # fmt: skip
    assert "- `make prm.It`" in text and "- `python 04_select.py" in text


def test_what_learned_from_the_problems_says_in_sample(run, run_report):
    add_scores(run, "scatr.a@32-1", cost={"learned": ["p1"]})
    add_scores(run, "scatr.b@32-1")
    found = run_report(run)
    first, second = summary_of(found.text)
    assert first["SCaTR"].endswith(" in sample") and "in sample" not in second["SCaTR"]
    note = "in sample: SCaTR (a), best-of-N, SCaTR (a), weighted vote learned from these problems"
    assert note in found.printed


def test_footnotes_explain_only_rows_that_are_there(run, run_report):
    printed = run_report(run).printed
    assert not [word for word in ("±", "Δ", "Stopped", "Study") if word in printed], printed
    add_scores(run, "scatr.a@32-1")
    add_scores(run, "scatr.a@32-2", 1)
    printed = run_report(run).printed
    assert "±: standard deviation over what varies for the row, at most 2 seeds." in printed
    assert "Δ: SCaTR's points above" in printed and "Stopped" not in printed


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


@pytest.mark.skipif(not importlib.util.find_spec("matplotlib"), reason="matplotlib is missing")
def test_each_figure_is_a_file_that_the_report_shows(paper_runs, run_report):
    found = run_report(paper_runs[0], "--plots")
    for name in ("accuracy", "rules", "stopping"):
        file = f"{name}.Qwen3-1.7B.kodcode-to-humaneval.png"
        assert (found.folder / file).read_bytes()[:8] == b"\x89PNG\r\n\x1a\n" and f"]({file})" in found.text
    (paper_runs[0] / "scores" / "scatr+.kodcode@32-1.cost.json").unlink()  # then no threshold was chosen
    assert "stopping.Qwen3" not in run_report(paper_runs[0], "--plots").text


def test_a_figure_has_seven_lines_at_most_of_one_calibration_set_and_the_best_of_each_kind(run):
    for seed, name in enumerate(("scatr.a@1", "scatr.b@1", "scatr+.a@1", "logistic.a@1", "prm.x")):
        add_scores(run, name, seed)
    rows = rows_of(run)
    chosen = report.choose_rows({"rows": [*rows.values()]}, "a")
    assert [*chosen] == ["random", "rule", "vote", "SCaTR", "SCaTR+", "SCaTR vote", "oracle"]
    assert chosen["SCaTR"]["method"] == "SCaTR (a), best-of-N"
    for part, candidates in {
        "rule": report.RULES,
        "vote": ("majority vote", "confidence-weighted vote"),
        "SCaTR vote": ("SCaTR (a), weighted vote", "SCaTR+ (a), weighted vote"),
    }.items():
        assert chosen[part]["accuracy"] == max(rows[name]["accuracy"] for name in candidates)


# ------------------------------------------------------------------------------------------------------------
# Broken runs get one line


@pytest.mark.parametrize("change", [{"score": None}, {"score": 1e301}, {"p": 1.5}, {"p": "much"}])
def test_a_score_is_a_number_and_p_a_probability(run, change):
    rows = add_scores(run, "mine")
    common.write_jsonl(run / "scores" / "mine.jsonl", [row | change for row in rows])
    assert "finite number and p a probability" in refusal(run)


def test_scores_are_of_all_rollouts_and_not_named_as_a_row_of_the_table(run):
    rows = add_scores(run, "mine")
    common.write_jsonl(run / "scores" / "mine.jsonl", rows[:-1])
    assert "47 rows for a run of 48" in refusal(run)
    (run / "scores" / "mine.jsonl").rename(run / "scores" / "oracle.jsonl")
    assert "give the file another name" in refusal(run)


def test_a_run_is_whole_and_labelled(run):
    for name in ("rollouts", "labels"):
        edit_jsonl(run / f"{name}.jsonl", lambda row: row if row["id"] != "p3" else None)
    assert "1 of 12 problems have no rollouts" in refusal(run)
    (run / "labels.jsonl").unlink()
    assert "02_label.py" in refusal(run)
    common.write_json(run / "meta.json", {})
    assert "meta.json" in refusal(run)


def test_repetitions_are_different_runs_of_the_same_problems_and_n(tmp_path):
    a = make_run(tmp_path / "a", problems=4, n=4)
    b = make_run(tmp_path / "b", problems=4, n=2)
    c = make_run(tmp_path / "c", problems=3, n=4)
    assert "twice" in refusal(a, f"{a}/")
    assert f"{b} has 4 judged problems and N=2, which are not those of {a}" in refusal(a, b)
    assert f"{c} has 3 judged problems and N=4" in refusal(a, c)
    assert "not a run folder" in refusal(tmp_path)


def test_figures_without_matplotlib_are_refused_before_any_work(run, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert "pip install matplotlib" in refusal(run, "--plots")
    assert not (run / "report.md").exists()
