"""Train the shipped vocabulary on the texts of all environments: `python scripts/train_tokenizer.py`.

The pre-tokeniser isolates digits, single capitals, answer tags, signs and line feeds (each with the space before it,
if any), and keeps the words of a clause together with its punctuation, so that
byte-pair merges can make one token of a fixed clause while every fact stays a token of its own.
"""

import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import tyro  # noqa: E402
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers  # noqa: E402

import jaxenv  # noqa: E402
from agents.tokenizer import SHIPPED, SPECIAL  # noqa: E402
from jaxenv import harness  # noqa: E402

PIECES = Regex(
    r" ?</?answer>|\n"
    r"| ?\d| ?[A-Z](?![a-z])[.:]?"
    r"| ?[A-Z]?[a-z]+(?:[ -][A-Z]?[a-z]+)*[.,:;?!]*\n?"  # a clause with the punctuation that ends it
    r"| ?[^\sA-Za-z0-9]"
)


@dataclass(frozen=True)
class Config:
    vocab: int = 3072  # at most; merges stop earlier when nothing repeats
    instances: int = 64  # per environment and level
    output: Path = SHIPPED


def corpus(instances: int) -> list[str]:
    """Full prompts and oracle replies of every environment at every level."""
    texts = []
    for env_id in jaxenv.ids():
        batch = jaxenv.EnvBatch(env_id, resolution=1024)
        for level in range(batch.env.num_levels):
            keys = jax.random.split(jax.random.key(level), instances)
            episodes = batch.start(keys, jnp.full(instances, level))
            texts += batch.prompts(episodes, harness.flags(jnp.int32(0)))
            texts += batch.format(batch.solve(episodes))
    return texts


def train(texts: list[str], vocab: int) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(PIECES, behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab,
        min_frequency=20,
        special_tokens=list(SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def main(config: Config) -> None:
    tokenizer = train(corpus(config.instances), config.vocab)
    config.output.write_text(tokenizer.to_str())
    print(f"{config.output.name}: {tokenizer.get_vocab_size()} tokens from {len(jaxenv.ids())} environments")


if __name__ == "__main__":
    main(tyro.cli(Config, description=__doc__))
