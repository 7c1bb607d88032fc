"""Draw the picture of README: right % against the number of sampled answers, a panel for each evaluated set.

    python demo/make_picture.py runs/MODEL/SETS/results.json   # of run_all.sh; writes demo/accuracy.png

Needs matplotlib.
"""

import argparse
import io
import json
from pathlib import Path

LINES = {  # by name_of(row): what stands at the line's end, and its colour and style
    "oracle": ("oracle", "0.6", "--"),
    "SCaTR+": ("SCaTR+", "#d95f02", "-"),
    "SCaTR": ("SCaTR", "#1b5e9e", "-"),
    "SCaTR, weighted vote": ("SCaTR vote", "#1b5e9e", ":"),
    "majority vote": ("majority", "0.3", ":"),
    "best rule": ("best rule", "#1b7837", "-"),
    "random": ("random", "0.6", "-"),
}


def name_of(row):
    """The report's short name; of the 28 confidence rules only the best has one here."""
    return "best rule" if "all 28" in row["best_of"] else row["short"]


def spread(heights, gap):
    """Heights for names in the same order, moved apart where they would cover each other."""
    places = sorted(range(len(heights)), key=lambda place: heights[place])
    moved = list(heights)
    for lower, upper in zip(places, places[1:]):
        moved[upper] = max(moved[upper], moved[lower] + gap)
    too_high = max(0.0, moved[places[-1]] - max(heights)) / 2
    return [height - too_high for height in moved]


def draw_panel(axes, group):
    rows = {name_of(row): row for row in group["rows"] if name_of(row) in LINES}
    ends = []
    for name, (label, colour, style) in LINES.items():
        if name in rows:
            n = [int(count) for count in rows[name]["curve"]]
            right = [100 * share for share in rows[name]["curve"].values()]
            axes.plot(n, right, style, color=colour, linewidth=1.6)
            ends.append((right[-1], label, colour))
    low, high = axes.get_ylim()
    heights = spread([end[0] for end in ends], (high - low) / 15)
    for height, (_, label, colour) in zip(heights, ends):
        axes.annotate(label, (n[-1], height), (4, 0), textcoords="offset points", va="center",
                      color=colour, fontsize=8)  # fmt: skip
    axes.set_title(f"{rows['SCaTR']['calibration']} → {group['dataset']}", fontsize=10)
    axes.set_xlabel("sampled answers a problem", fontsize=9)
    axes.set_xticks([1, 4, 8, 12, 16])
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8)


def main(args):
    from matplotlib.figure import Figure
    from PIL import Image

    groups = json.loads(args.results.read_text(encoding="utf-8"))["groups"]
    figure = Figure(figsize=(3.1 * len(groups), 3.2), layout="constrained")
    panels = figure.subplots(1, len(groups), squeeze=False)[0]
    for axes, group in zip(panels, groups):
        draw_panel(axes, group)
    panels[0].set_ylabel("right %", fontsize=9)
    drawn = io.BytesIO()
    figure.savefig(drawn, dpi=100)
    Image.open(drawn).convert("RGB").quantize(48).save(args.out, optimize=True)  # a third of the bytes


if __name__ == "__main__":
    style = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=style)
    parser.add_argument("results", type=Path, help="results.json of 05_baselines.py")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("accuracy.png"))
    main(parser.parse_args())
