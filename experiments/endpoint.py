"""A model behind any OpenAI-compatible endpoint as a player of `experiments.evaluate`.

It sees what a policy sees: the prompt text at the harness that is shown, and the picture. Every answer is kept on disk
before it is used (`aes.llm`), so a stopped evaluation continues without paying twice, and one that is repeated is free.
An episode without an answer is no failure of the model: the evaluation stops instead of counting it.
"""

import contextlib
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jax
import numpy as np

from aes.files import alone
from aes.llm import Chat, Endpoint, OverBudget, Refused, Store, Unanswered
from agents.rollout import instance_keys
from agents.serving.client import data_url
from jaxenv.harness import LEVELS

ANSWERS = "answers.jsonl"


class Stopped(RuntimeError):
    """The evaluation cannot go on for now; the answers so far are kept."""


def message(prompt: str, picture: np.ndarray | None) -> list[dict]:
    """One user message: the picture u8[R, R, 3], if there is one, then the text."""
    text = {"type": "text", "text": prompt}
    if picture is None:
        return [{"role": "user", "content": [text]}]
    return [
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": data_url(picture)}}, text]}
    ]


class EndpointPlayer:
    """See `experiments.evaluate.Player`.

    Replies at a temperature are independent draws: their requests differ by a seed made of instance and turn, so equal
    prompts of two episodes do not share one stored answer. At temperature 0 they do.

    Raises (when called):
        Stopped: an unanswered request, an exhausted budget, an endpoint that refuses or seems down.
    """

    def __init__(self, chat: Chat, shown: Sequence[bool] = LEVELS[-1]):
        self.chat, self.shown = chat, np.asarray(shown, bool)
        self.counts: Counter[str] = Counter()  # replies, and those among them that were cut off

    def __call__(self, mixed, wanted, key, progress) -> tuple[np.ndarray, np.ndarray, float]:
        seeds = np.asarray(wanted.seed)
        count = len(seeds)
        groups = mixed.start(wanted.env, wanted.level, instance_keys(seeds))
        done = np.zeros(count, bool)
        turn, invalid, actions = 0, 0, 0
        with ThreadPoolExecutor(self.chat.endpoint.workers) as pool:
            while not done.all():
                rows = np.flatnonzero(~done)
                some = mixed.select(groups, rows)
                texts = mixed.prompts(some, np.tile(self.shown, (len(rows), 1)))
                pictures = mixed.render(some) if mixed.modality == "picture" else [None] * len(rows)
                replies = ["<answer></answer>"] * count
                bodies = [self._body(t, p, int(seeds[r]), turn) for t, p, r in zip(texts, pictures, rows)]
                for row, reply in zip(rows, self._ask(pool, bodies)):
                    replies[row] = reply
                groups = mixed.step(jax.random.split(jax.random.fold_in(key, turn), count), groups, replies)
                invalid += int((~mixed.field(groups, "valid") & ~done).sum())
                actions += len(rows)
                finished = mixed.field(groups, "done")
                progress(int((finished & ~done).sum()))
                done, turn = finished, turn + 1
        return mixed.field(groups, "success"), mixed.field(groups, "ret"), invalid / actions

    def _body(self, prompt: str, picture: np.ndarray | None, seed: int, turn: int) -> dict:
        body = self.chat.request(message(prompt, picture), {})
        if self.chat.endpoint.temperature != 0:
            # Within 31 bits, as endpoints want it; distinct for all turns of an evaluation's instances.
            body["seed"] = (seed * 1009 + turn) % 2**31
        return body

    def _ask(self, pool: ThreadPoolExecutor, bodies: Sequence[dict]) -> list[str]:
        asked = [pool.submit(self.chat.ask, body) for body in bodies]
        try:
            answers = [future.result() for future in asked]
        except (Unanswered, OverBudget, Refused) as error:
            raise Stopped(f"{type(error).__name__}: {error}") from error
        finally:
            for future in asked:  # after a failure nothing more is asked; what is on its way is kept
                future.cancel()
        self.counts.update(replies=len(answers), cut_off=sum(a.finish == "length" for a in answers))
        return [answer.text for answer in answers]


@contextlib.contextmanager
def endpoint_player(endpoint: Endpoint, folder: Path, budget: int | None) -> Iterator[EndpointPlayer]:
    """A player whose answers are stored in `folder`, which one process uses at a time.

    Args:
        budget: tokens, prompts included, that may be spent in all, earlier runs on this folder included.
    Raises:
        RuntimeError: another process uses the folder.
        ValueError: the endpoint has no model name.
    """
    with alone(folder, "endpoint"):
        chat = Chat(endpoint, Store(folder / ANSWERS), budget)
        try:
            yield EndpointPlayer(chat)
        finally:
            chat.close()
