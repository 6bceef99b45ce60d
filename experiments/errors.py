"""Figures 5 and 10: what kind of error remains, before and after HDC, by a counterfactual test anyone can rerun.

The paper annotates failures by hand. Here an instance that the policy fails at H4 is played again with harness parts:
a failure that disappears with the text observation was one of extracting the visual state; one that disappears with
rule and text state, but not with the text observation, was one of modelling the world; the rest is other. Decoding is
greedy, so that a failure does not disappear by luck.
"""

from pathlib import Path

import numpy as np

from experiments.report import pyplot
from experiments.store import Artefact, Base, Score, Store, Trained
from experiments.studies import Study, Table, command, interval

KINDS = ("visual state extraction", "world modelling", "other")
NOTHING, OBSERVATION, STATE_AND_RULE = (False,) * 4, (True, False, False, False), (False, True, False, True)


def policies(study: Study) -> dict[str, list[Base | Trained]]:
    trained = {m: [study.trained(m, seed) for seed in study.seeds] for m in ("no curriculum", "HDC")}
    return {"base": [study.base], **trained}


def scores(study: Study, policy: Base | Trained, shown: tuple[bool, ...]) -> dict[str, Score]:
    return study.scores(policy, shown=shown, temperature=0.0)


def needs(study: Study) -> list[Artefact]:
    return [
        s
        for seeds in policies(study).values()
        for policy in seeds
        for shown in (NOTHING, OBSERVATION, STATE_AND_RULE)
        for s in scores(study, policy, shown).values()
    ]


def classify(plain: np.ndarray, observed: np.ndarray, ruled: np.ndarray) -> np.ndarray:
    """i32[3]: failures of each of `KINDS`, from the successes bool[N] without and with harness parts."""
    failed = ~plain
    visual, world = failed & observed, failed & ~observed & ruled
    return np.asarray([visual.sum(), world.sum(), (failed & ~visual & ~world).sum()])


def count(store: Store, study: Study, policy: Base | Trained, env_id: str) -> np.ndarray:
    played = [scores(study, policy, shown)[env_id] for shown in (NOTHING, OBSERVATION, STATE_AND_RULE)]
    return classify(*(store.episodes(s).success for s in played))


def save(store: Store, study: Study, folder: Path) -> str:
    rows, bars = [], {}
    envs = (*study.train, *study.held_out)
    total = study.episodes * len(envs)
    for name, seeds in policies(study).items():
        kinds = np.asarray([sum(count(store, study, p, e) for e in envs) for p in seeds]) / total
        bars[name] = kinds.mean(axis=0)
        rows.append([name, *(_cell(kinds[:, k]) for k in range(3)), _cell(kinds.sum(axis=1))])
    table = Table(
        "Figures 5 and 10: failures at H4 by kind, in percent of all episodes.",
        ["policy", *KINDS, "all failures"],
        rows,
        f"{study.episodes} episodes in each of {len(envs)} environments, greedy decoding; mean over seeds, 95% intervals.",
    )
    table.save(folder, "errors")
    per_env = Table(
        "Failures by environment, base policy and HDC (all seeds), in percent of episodes.",
        ["environment", *(f"{p}: {k}" for p in ("base", "HDC") for k in KINDS)],
        [
            [
                e,
                *(
                    f"{100 * x:.0f}"
                    for p in ("base", "HDC")
                    for x in _shares(store, study, policies(study)[p], e)
                ),
            ]
            for e in envs
        ],
    )
    per_env.save(folder, "errors_by_environment")
    _draw(bars, folder / "errors.png")
    return table.markdown() + "\n" + per_env.markdown()


def _shares(store: Store, study: Study, seeds: list[Base | Trained], env_id: str) -> np.ndarray:
    return np.mean([count(store, study, p, env_id) for p in seeds], axis=0) / study.episodes


def _cell(values: np.ndarray) -> str:
    mean, half = interval(values)
    return f"{100 * mean:.1f}" if np.isnan(half) else f"{100 * mean:.1f} ± {100 * half:.1f}"


def _draw(bars: dict[str, np.ndarray], file: Path) -> None:
    plt = pyplot()
    figure, axis = plt.subplots(figsize=(6, 3))
    left = np.zeros(len(bars))
    for k, kind in enumerate(KINDS):
        share = 100 * np.asarray([b[k] for b in bars.values()])
        axis.barh(list(bars), share, left=left, label=kind)
        left += share
    axis.invert_yaxis()
    axis.set_xlabel("failures at H4, % of episodes")
    axis.legend(fontsize=8, frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3)
    figure.tight_layout()
    figure.savefig(file, dpi=120)
    plt.close(figure)


if __name__ == "__main__":
    from experiments import errors

    command(errors=errors)
