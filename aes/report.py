"""What was selected and why: `python -m aes.report --help` (Figures 6 and 8, Table 6).

Writes into the folder's `report/`: report.md; selection.csv (each step with its gain), methods.csv (all selections side
by side), coverage.csv and coverage.png (Figure 6), profiles.csv and profiles.png (Figure 8).
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from tyro.conf import Positional

from aes import formats, pool
from aes.files import save_csv, write_whole
from aes.formats import FormatError, Matrix, Profiles, Selection
from aes.profile import spread
from aes.tsne import tsne

# (number of environments, core abilities) in the paper, Sections 3 and 5.3
PAPER = {"aes": (30, 72), "aes_without_redundancy": (41, 72), "aes_without_conflict": (34, 72)}


def coverage(profiles: Profiles, selection: Selection, candidates: Sequence[str]) -> tuple[list[int], int]:
    """Core abilities covered after each step, where they are core, and how many the candidates have."""
    wanted = {a for e in candidates for a in profiles.envs[e].core}
    covered, out = set(), []
    for env in selection.envs:
        covered |= set(profiles.envs[env].core) & wanted
        out.append(len(covered))
    return out, len(wanted)


def pairs(values: np.ndarray) -> np.ndarray:
    """The entries above the diagonal."""
    return values[np.triu_indices(len(values), 1)]


def compare(
    profiles: Profiles,
    similarity: Matrix,
    cosine: Matrix | None,
    selections: Sequence[Selection],
    candidates: Sequence[str],
) -> tuple[list[str], list[list]]:
    """Columns and rows: how many environments, what they cover, how alike and how contrary they are."""
    columns = ["selection", "environments", "core abilities covered", "mean similarity", "largest similarity"]
    columns += [] if cosine is None else ["pairs with negative cosine", "smallest cosine"]
    columns.append("environments in the paper")
    rows = []
    for s in selections:
        covered, total = coverage(profiles, s, candidates)
        similar = pairs(similarity.of(s.envs))
        row = [s.method, len(s.envs), f"{covered[-1] if covered else 0} of {total}", *_stats(similar, np.max)]
        if cosine is not None:
            contrary = pairs(cosine.of(s.envs))
            row += [f"{int((contrary < 0).sum())} of {len(contrary)}", _stats(contrary, np.min)[1]]
        rows.append([*row, PAPER[s.method][0] if s.method in PAPER else ""])
    return columns, rows


def _stats(values: np.ndarray, extreme) -> list[str]:
    return [f"{values.mean():.3f}", f"{extreme(values):.3f}"] if len(values) else ["", ""]


def steps(selection: Selection, categories: Mapping[str, str]) -> tuple[list[str], list[list]]:
    """Columns and rows of Table 6: one environment a row, with why it was chosen."""
    columns = ["step", "environment", "category", "gain", "new coverage", "redundancy", "most like", "conflict",
               "new core abilities", "covered"]  # fmt: skip
    rows = []
    for i, pick in enumerate(selection.picks, 1):
        r = pick.reason
        rows.append([
            i, pick.env, categories[pick.env], f"{r['gain']:.3f}", f"{r['coverage']:.3f}", f"{r['redundancy']:.3f}",
            r.get("most_like", ""), f"{r['conflict']:.3f}", ", ".join(r["new_core"]),
            f"{r['core_covered']}/{r['core_total']}",
        ])  # fmt: skip
    return columns, rows


def markdown(columns: Sequence[str], rows: Sequence[Sequence]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join("| " + " | ".join(str(x).replace("|", "\\|") for x in line) + " |\n" for line in lines)


# ---- pictures ----


def draw_coverage(file: Path, curves: Mapping[str, Sequence[int]], total: int) -> None:
    """Figure 6, with the other selections beside AES."""
    plt = pyplot()
    figure, axis = plt.subplots(figsize=(6.4, 4))
    colors = plt.get_cmap("tab10").colors
    for i, (name, covered) in enumerate(curves.items()):
        ours = name == "aes"
        share = 100 * np.asarray([0, *covered]) / max(total, 1)
        axis.plot(
            range(len(share)), share, label=name.replace("_", " "), color=colors[i % 10], zorder=2 + ours,
            lw=2.2 if ours else 1.1, marker="o" if ours else None, ms=3.5, ls="-" if name.startswith("aes") else "--",
        )  # fmt: skip
    axis.set_xlabel("environments selected")
    axis.set_ylabel(f"core abilities covered, % of {total}")
    axis.set_ylim(0, 104)
    axis.set_xlim(left=0)
    axis.xaxis.get_major_locator().set_params(integer=True)
    axis.grid(alpha=0.3)
    axis.legend(fontsize=8, frameon=False, loc="lower right")
    figure.tight_layout()
    figure.savefig(file, dpi=130)
    plt.close(figure)


def draw_profiles(file: Path, points: np.ndarray, categories: Sequence[str], labels: Sequence[str]) -> None:
    """Figure 8: environments by profile, colored by category; those with a label are selected."""
    plt = pyplot()
    figure, axis = plt.subplots(figsize=(8, 6))
    colors = plt.get_cmap("tab20").colors
    names = sorted(set(categories))
    selected = np.asarray([bool(label) for label in labels])
    of = np.asarray([names.index(c) for c in categories])
    for i, name in enumerate(names):
        color, mine = [colors[(2 * i + i // 10) % 20]], of == i
        rest, ours = points[mine & ~selected], points[mine & selected]
        axis.scatter(*rest.T, s=26, c=color, alpha=0.75, lw=0)
        axis.scatter(*ours.T, s=150, c=color, marker="*", edgecolors="black", lw=0.8, zorder=3)
        axis.scatter([], [], s=36, c=color, label=name)
    axis.scatter([], [], s=130, c="white", marker="*", edgecolors="black", label="selected")
    for (x, y), label in zip(points, labels):
        axis.annotate(label, (x, y), (5, 4), textcoords="offset points", fontsize=6.5)
    axis.margins(0.09, 0.05)
    axis.set_xticks([])
    axis.set_yticks([])
    axis.set_title("t-SNE of meta-ability profiles", fontsize=10)
    axis.legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    figure.tight_layout()
    figure.savefig(file, dpi=130)
    plt.close(figure)


def pyplot():
    """Matplotlib without a display."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    return plt


# ---- the stage ----


def main(folder: Positional[Path], categories: Path | None = None, perplexity: float = 30.0) -> None:
    """All of the folder -> report/.

    Args:
        folder: of the run.
        categories: a JSON object, environment -> category, for environments that jaxenv does not know.
        perplexity: of t-SNE; at most a third of the environments.
    """
    profiles = Profiles.load(folder / "profiles.json")
    similarity = Matrix.load(folder / "similarity.json", "profile")
    cosine = (
        Matrix.load(folder / "conflict.json", "conflict") if (folder / "conflict.json").exists() else None
    )
    main_file = folder / "selections" / "aes.json"
    aes = Selection.load(main_file)
    others = [Selection.load(f) for f in sorted(main_file.parent.glob("*.json")) if f != main_file]
    selections = [aes, *others]
    for s in selections:
        unknown = sorted(set(s.envs) - set(profiles.envs))
        if unknown:
            raise FormatError(
                f"selection {s.method} has environments without a profile: {', '.join(unknown)}"
            )
    held_out = set(aes.made["settings"]["exclude"])
    candidates = [e for e in profiles.envs if e not in held_out]
    category = pool.categories(list(profiles.envs), categories)
    out = folder / "report"
    out.mkdir(parents=True, exist_ok=True)

    columns, rows = steps(aes, category)
    save_csv(out / "selection.csv", columns, rows)
    compared = compare(profiles, similarity, cosine, selections, candidates)
    save_csv(out / "methods.csv", *compared)

    curves = {s.method: coverage(profiles, s, candidates)[0] for s in selections}
    total = coverage(profiles, aes, candidates)[1]
    save_csv(
        out / "coverage.csv",
        ["selection", "environments", "core abilities covered", "of"],
        [[name, n, c, total] for name, curve in curves.items() for n, c in enumerate(curve, 1)],
    )
    draw_coverage(out / "coverage.png", curves, total)

    envs = list(profiles.envs)
    points = tsne(2 - 2 * similarity.of(envs), perplexity)
    labels = [e if e in aes.envs else "" for e in envs]
    save_csv(
        out / "profiles.csv",
        ["environment", "category", "x", "y", "selected", "held out"],
        [
            [e, category[e], f"{x:.3f}", f"{y:.3f}", int(e in aes.envs), int(e in held_out)]
            for e, (x, y) in zip(envs, points)
        ],
    )
    draw_profiles(out / "profiles.png", points, [category[e] for e in envs], labels)

    text = (
        f"# AES on {len(envs)} environments\n\n"
        f"{len(candidates)} candidates, {len(held_out)} held out, {total} core abilities among the candidates; the paper "
        f"has 170, 30 and 72. {aes.end[:1].upper() + aes.end[1:]}.\n\n"
        f"Profiles: {json.dumps(profiles.made.get('settings', {}))}. "
        f"Similarity: {json.dumps(similarity.made.get('settings', {}))}; {spread(similarity.of(candidates))}. "
        f"Selection: {json.dumps(aes.made['settings'])}.\n\n"
        f"## Selected environments (Table 6)\n\n{markdown(columns, rows)}\n"
        f"## Selections side by side\n\n{markdown(*compared)}\n"
        "## Coverage of core abilities (Figure 6)\n\n![coverage](coverage.png)\n\n"
        "## Profiles (Figure 8)\n\n![profiles](profiles.png)\n"
    )
    write_whole(out / "report.md", text)
    print(
        f"{out}/report.md: {len(aes.envs)} environments cover {curves['aes'][-1] if aes.envs else 0} of {total}"
    )


if __name__ == "__main__":
    formats.command(main, __doc__)
