"""Figure 4: cosines of the base policy's gradients between environments, as text and as pictures."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from aes.conflict import Conflict, polarisation
from aes.files import save_csv
from experiments.aes_studies import Study, command
from experiments.report import pyplot
from experiments.store import Artefact, Store
from experiments.studies import Table, interval
from experiments.table1 import SETTINGS
from jaxenv.harness import Modality


def needs(study: Study) -> list[Artefact]:
    return [study.gradients_of(m, k) for m in SETTINGS for k in range(len(study.seeds))]


def conflicts(store: Store, study: Study) -> dict[Modality, list[Conflict]]:
    """One a seed, in either modality."""
    return {m: [store.cosines(study.gradients_of(m, k)) for k in range(len(study.seeds))] for m in SETTINGS}


def with_signal(found: dict[Modality, list[Conflict]]) -> np.ndarray:
    """bool[E]: environments with enough gradients in every seed and modality; the others' cosines are 0, not measured."""
    return ~np.any([c.low_signal for seeds in found.values() for c in seeds], axis=0)


def statistics(conflict: Conflict, use: np.ndarray) -> dict[str, float]:
    """Polarisation over the environments of `use` bool[E], and the share of pairs surely below 0."""
    values, high = (matrix[np.ix_(use, use)] for matrix in (conflict.cosine, conflict.high))
    surely = high[np.triu_indices(len(high), 1)] < 0
    return {**polarisation(values), "surely negative": float(surely.mean())}


def save(store: Store, study: Study, folder: Path) -> str:
    envs, found = study.transfer(), conflicts(store, study)
    use = with_signal(found)
    silent = [e for e, good in zip(envs, use) if not good]
    rows = _rows(found, use) if use.sum() > 1 else []
    left_out = f" Left out: {', '.join(silent)}, low signal in some draw or setting." if silent else ""
    settings = study.gradients
    table = Table(
        "Figure 4: polarisation of gradient cosines over pairs of environments.",
        ["statistic", *SETTINGS.values(), "difference"],
        rows,
        f"{', '.join(envs)}.{left_out} {settings.batches} batches x {settings.prompts} prompts x {settings.rollouts} "
        f"rollouts per environment, one base policy for each setting; mean over {len(study.seeds)} draws of prompts with "
        "95% intervals (Student's t), differences paired by draw. Surely negative: the whole 95% interval of a pair "
        f"(bootstrap over batches) is below 0. The paper prints no numbers of its figure. {study.made}",
    )
    table.save(folder, "figure4")
    _save_pairs(study, found, folder / "figure4_pairs.csv")
    _draw(envs, found, folder / "figure4.png")
    return table.markdown()


def _rows(found: dict[Modality, list[Conflict]], use: np.ndarray) -> list[list[str]]:
    by_setting = {m: [statistics(c, use) for c in seeds] for m, seeds in found.items()}
    rows = []
    for name in next(iter(by_setting.values()))[0]:
        values = {m: np.asarray([s[name] for s in seeds]) for m, seeds in by_setting.items()}
        text, picture = values.values()
        rows.append([name, *(_number(v) for v in (text, picture)), _number(picture - text, "+")])
    return rows


def _number(values: np.ndarray, sign: str = "") -> str:
    mean, half = interval(values)
    return f"{mean:{sign}.3f}" + ("" if np.isnan(half) else f" ± {half:.3f}")


def _save_pairs(study: Study, found: dict[Modality, list[Conflict]], file: Path) -> None:
    envs = study.transfer()
    rows = [
        [modality, study.seeds[k], envs[i], envs[j], *(f"{m[i, j]:.4f}" for m in (c.cosine, c.low, c.high)),
         int(c.low_signal[i] or c.low_signal[j])]
        for modality, seeds in found.items()
        for k, c in enumerate(seeds)
        for i, j in zip(*np.triu_indices(len(envs), 1))
    ]  # fmt: skip
    save_csv(file, ["setting", "seed", "environment", "other", "cosine", "low", "high", "low signal"], rows)


def _draw(envs: Sequence[str], found: dict[Modality, list[Conflict]], file: Path) -> None:
    """Mean cosines over seeds; hatched: low signal in some seed."""
    plt = pyplot()
    figure, axes = plt.subplots(
        1, 2, figsize=(3.4 + 1.2 * len(envs), 1.6 + 0.6 * len(envs)), sharey=True, layout="constrained"
    )
    for axis, (modality, seeds) in zip(axes, found.items()):
        cosine = np.mean([c.cosine for c in seeds], axis=0)
        silent = np.any([c.low_signal for c in seeds], axis=0)
        shown = axis.imshow(cosine, cmap="RdBu", vmin=-1, vmax=1)
        for (i, j), value in np.ndenumerate(cosine):
            if i != j and (silent[i] or silent[j]):
                axis.add_patch(
                    plt.Rectangle((j - 0.5, i - 0.5), 1, 1, fill=False, hatch="///", ec="0.7", lw=0)
                )
            else:
                color = "white" if abs(value) > 0.6 else "black"
                axis.text(j, i, f"{value:.2f}", ha="center", va="center", fontsize=8, color=color)
        axis.set_xticks(range(len(envs)), envs, rotation=30, ha="right", fontsize=8)
        axis.set_yticks(range(len(envs)), envs, fontsize=8)
        axis.set_title(SETTINGS[modality], fontsize=10)
    figure.colorbar(shown, ax=axes, label="cosine of gradients", shrink=0.9)
    figure.savefig(file, dpi=130)
    plt.close(figure)


if __name__ == "__main__":
    from experiments import figure4

    command(figure4=figure4)
