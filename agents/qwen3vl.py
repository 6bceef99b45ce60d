"""Qwen3-VL in Flax NNX: one architecture from a `nano` model to the published 2B, 4B and 8B.

The prompt (pictures and text) is read once by `prefill`; any number of continuations then share its keys and
values in `extend`, which serves token-by-token sampling and the teacher-forced loss alike. Module attributes
carry the names of the Hugging Face state dict (`agents/hf.py`), and outputs agree with `transformers`
(`tests/parity`).

Source: Qwen3-VL as published in Hugging Face `transformers` 5.24 (`models/qwen3_vl`).
"""

import dataclasses
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx, struct
from jax import Array

CHANNELS = 3
VISION_THETA = 10000.0
LAYER_NORM_EPS = 1e-6
MEAN = STD = 0.5


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ValueError(message)


def _require_positive(config) -> None:
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if field.type in (int, float):
            _require(value > 0, f"{type(config).__name__}.{field.name} must be positive, got {value}")


def _mrope_axes(section: tuple[int, int, int]) -> np.ndarray:
    """i64[sum of section]: the axis (0 time, 1 row, 2 col) that turns each frequency, interleaved."""
    axes = np.zeros(sum(section), np.int64)
    for axis in (1, 2):
        axes[axis : 3 * section[axis] : 3] = axis
    return axes


@dataclass(frozen=True)
class VisionConfig:
    """Vision transformer; its output width is the text model's `hidden`.

    `positions` is the size of the learned position table, a square grid that is interpolated to the picture's
    grid. `deepstack` lists the blocks whose output feeds the first decoder layers, one block per decoder
    layer.
    """

    depth: int
    hidden: int
    mlp: int
    heads: int
    deepstack: tuple[int, ...]
    patch: int = 16
    temporal_patch: int = 2
    merge: int = 2
    positions: int = 2304

    def __post_init__(self):
        _require_positive(self)
        _require(
            self.hidden % self.heads == 0,
            f"vision hidden {self.hidden} is not divisible by {self.heads} heads",
        )
        _require(
            self.head_dim % 4 == 0, f"vision head_dim {self.head_dim} must be a multiple of 4 for 2-D rotary"
        )
        side = round(self.positions**0.5)
        _require(side * side == self.positions, f"vision positions {self.positions} is not a square number")
        _require(
            list(self.deepstack) == sorted(set(self.deepstack))
            and all(0 <= i < self.depth for i in self.deepstack),
            f"deepstack {self.deepstack} must be increasing block indices below depth {self.depth}",
        )

    @property
    def head_dim(self) -> int:
        return self.hidden // self.heads

    @property
    def patch_dim(self) -> int:
        """Numbers in one flattened patch: C*T*P*P."""
        return CHANNELS * self.temporal_patch * self.patch**2

    def merged(self, grid: tuple[int, int]) -> tuple[int, int]:
        """(rows, cols) of image tokens for a `grid` of patches. Raises ValueError if it does not divide."""
        rows, cols = grid
        _require(
            rows > 0 and cols > 0 and rows % self.merge == 0 and cols % self.merge == 0,
            f"a grid of {rows} x {cols} patches cannot be merged {self.merge} x {self.merge}",
        )
        return rows // self.merge, cols // self.merge


@dataclass(frozen=True)
class TextConfig:
    """Decoder. `mrope_section` counts the rotary frequencies that follow time, row and column."""

    vocab: int
    hidden: int
    mlp: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    rope_theta: float
    mrope_section: tuple[int, int, int]
    tie: bool
    rms_eps: float = 1e-6

    def __post_init__(self):
        _require_positive(self)
        _require(
            self.heads % self.kv_heads == 0,
            f"{self.heads} heads cannot share {self.kv_heads} kv heads evenly",
        )
        _require(self.head_dim % 2 == 0, f"head_dim {self.head_dim} must be even")
        _require(
            len(self.mrope_section) == 3 and sum(self.mrope_section) == self.head_dim // 2,
            f"mrope_section {self.mrope_section} must be 3 counts of sum head_dim/2 = {self.head_dim // 2}",
        )
        _require(
            tuple(np.bincount(_mrope_axes(self.mrope_section), minlength=3)) == tuple(self.mrope_section),
            f"mrope_section {self.mrope_section} cannot be interleaved: too few frequencies for time",
        )


@dataclass(frozen=True)
class Config:
    """The whole model. `dtype` is what it computes in, `param_dtype` what it stores; `remat` recomputes each
    layer's     activations in the backward pass. Hashable, so it can be a static argument of `jax.jit`."""

    text: TextConfig
    vision: VisionConfig
    image_token: int
    vision_start: int
    vision_end: int
    pad: int
    eos: int
    video_token: int | None = None  # never fed in; named so that a sampler can ban it
    dtype: str = "float32"
    param_dtype: str = "float32"
    remat: bool = False

    def __post_init__(self):
        for name in ("image_token", "vision_start", "vision_end", "pad", "eos", "video_token"):
            token = getattr(self, name)
            _require(
                (token is None and name == "video_token") or 0 <= token < self.text.vocab,
                f"{name} id {token} is outside the vocabulary of {self.text.vocab}",
            )
        _require(
            len({self.image_token, self.vision_start, self.vision_end, self.eos, self.video_token}) == 5
            and self.pad != self.image_token,
            "image_token, vision_start, vision_end, eos and video_token must differ, pad from image_token",
        )
        _require(
            len(self.vision.deepstack) < self.text.layers,
            f"{len(self.vision.deepstack)} DeepStack taps need more than {self.text.layers} decoder layers",
        )
        for name in ("dtype", "param_dtype"):
            kind = getattr(self, name)
            _require(
                kind in ("float32", "bfloat16", "float16"), f"{name} must name a float type, got {kind!r}"
            )


def nano(
    vocab: int,
    *,
    image_token: int,
    vision_start: int,
    vision_end: int,
    pad: int,
    eos: int,
    positions: int = 64,
    **overrides,
) -> Config:
    """A model of about 0.3 M parameters that trains from scratch on a CPU: 8-pixel patches, one token each.

    `positions` = 64 is the 8 x 8 grid of a 64-pixel picture. `overrides` replace fields of `Config`.
    """
    text = TextConfig(
        vocab=vocab, hidden=64, mlp=192, layers=3, heads=2, kv_heads=1, head_dim=32, rope_theta=1e4,
        mrope_section=(6, 5, 5), tie=True,
    )  # fmt: skip
    vision = VisionConfig(
        depth=2,
        hidden=64,
        mlp=192,
        heads=2,
        deepstack=(0,),
        patch=8,
        temporal_patch=1,
        merge=1,
        positions=positions,
    )
    return Config(
        text, vision, image_token=image_token, vision_start=vision_start, vision_end=vision_end, pad=pad,
        eos=eos, **overrides,
    )  # fmt: skip


def _published(text: dict, vision: dict) -> Config:
    return Config(
        TextConfig(
            vocab=151936, kv_heads=8, head_dim=128, rope_theta=5e6, mrope_section=(24, 20, 20), **text
        ),
        VisionConfig(heads=16, **vision),
        image_token=151655,
        video_token=151656,
        vision_start=151652,
        vision_end=151653,
        pad=151643,
        eos=151645,
        dtype="bfloat16",
        param_dtype="bfloat16",
    )


_SMALL_VISION = {"depth": 24, "hidden": 1024, "mlp": 4096, "deepstack": (5, 11, 17)}
_LARGE_VISION = {"depth": 27, "hidden": 1152, "mlp": 4304, "deepstack": (8, 16, 24)}
QWEN3_VL_2B = _published({"hidden": 2048, "mlp": 6144, "layers": 28, "heads": 16, "tie": True}, _SMALL_VISION)
QWEN3_VL_4B = _published({"hidden": 2560, "mlp": 9728, "layers": 36, "heads": 32, "tie": True}, _SMALL_VISION)
QWEN3_VL_8B = _published(
    {"hidden": 4096, "mlp": 12288, "layers": 36, "heads": 32, "tie": False}, _LARGE_VISION
)


# Pictures


def _block_order(grid: tuple[int, int], merge: int) -> tuple[np.ndarray, np.ndarray]:
    """(row, col), i64[N] each, of the patches in merge-block order: those of one token adjoin."""
    rows, cols = grid
    shape = (rows // merge, cols // merge, merge, merge)
    row = np.arange(rows).reshape(rows // merge, 1, merge, 1)
    col = np.arange(cols).reshape(1, cols // merge, 1, merge)
    return np.broadcast_to(row, shape).reshape(-1), np.broadcast_to(col, shape).reshape(-1)


def _position_taps(grid: tuple[int, int], config: VisionConfig) -> tuple[np.ndarray, np.ndarray]:
    """Bilinear taps, corners aligned, into the position table: indices i64[4, N], weights f32[4, N]."""
    side = round(config.positions**0.5)
    axes = []
    for coordinate, length in zip(_block_order(grid, config.merge), grid, strict=True):
        source = coordinate * ((side - 1) / max(length - 1, 1))
        low = np.floor(source + 1e-9).astype(np.int64)
        axes.append(((low, np.minimum(low + 1, side - 1)), (1 - (source - low), source - low)))
    (row, row_weight), (col, col_weight) = axes
    indices = np.stack([row[a] * side + col[b] for a in (0, 1) for b in (0, 1)])
    weights = np.stack([row_weight[a] * col_weight[b] for a in (0, 1) for b in (0, 1)])
    return indices, weights.astype(np.float32)


def _vision_rope(grid: tuple[int, int], config: VisionConfig) -> tuple[np.ndarray, np.ndarray]:
    """cos and sin f32[1, N, head_dim/2]: half of the frequencies turn with the row, half with the col."""
    half = config.head_dim // 2
    inverse = VISION_THETA ** (-np.arange(0, half, 2) / half)
    angles = np.concatenate([x[:, None] * inverse for x in _block_order(grid, config.merge)], axis=1)[None]
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def patchify(images: Array, config: Config) -> Array:
    """Normalised patches f32[..., N, C*T*P*P] of pictures u8[..., H, W, 3], in merge-block order.

    Values are (x/255 - 0.5)/0.5, a still picture fills every temporal slot. Equal to the Hugging Face image
    processor when it does not resize. Raises ValueError if H or W is not a multiple of patch * merge.
    """
    vision = config.vision
    patch, merge = vision.patch, vision.merge
    *lead, height, width, channels = images.shape
    _require(
        channels == CHANNELS and height % patch == 0 and width % patch == 0,
        f"pictures must be [..., H, W, 3] with sides a multiple of {patch}, got {images.shape}",
    )
    rows, cols = vision.merged((height // patch, width // patch))
    x = images.astype(jnp.float32) * np.float32(1 / 255)
    x = (x - MEAN) / STD
    x = x.reshape(*lead, rows, merge, patch, cols, merge, patch, channels)
    n = len(lead)
    x = x.transpose(*range(n), *(n + axis for axis in (0, 3, 1, 4, 6, 2, 5)))  # row, col, row, col, C, P, P
    x = jnp.broadcast_to(x[..., None, :, :], (*x.shape[:-2], vision.temporal_patch, patch, patch))
    return x.reshape(*lead, rows * cols * merge**2, vision.patch_dim)


# Rotary positions


def _text_rope(positions: Array, text: TextConfig) -> tuple[Array, Array]:
    """cos and sin f32[..., head_dim/2] of M-RoPE positions i32[3, ...]."""
    inverse = text.rope_theta ** (-np.arange(0, text.head_dim, 2) / text.head_dim)
    by_frequency = jnp.moveaxis(positions[_mrope_axes(text.mrope_section)], 0, -1).astype(jnp.float32)
    angles = by_frequency * inverse.astype(np.float32).reshape((1,) * (positions.ndim - 1) + (-1,))
    return jnp.cos(angles), jnp.sin(angles)


def _rotate(x: Array, rope: tuple[Array, Array]) -> Array:
    """Rotates heads x[..., H, d] by cos and sin [..., d/2], in float32."""
    cos, sin = (table[..., None, :] for table in rope)
    first, second = jnp.split(x.astype(jnp.float32), 2, axis=-1)
    rotated = jnp.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)
    return rotated.astype(x.dtype)


def rope_positions(
    tokens: Array, lengths: Array, grid: tuple[int, int] | None, config: Config
) -> tuple[Array, Array]:
    """M-RoPE positions i32[3, B, P] (time, row, col) of right-padded prompts, and the next one i32[B].

    Text advances all three together. A picture that starts at p keeps time p and has row p + r and col p + c;
    what follows starts at p + max(rows, cols) of its token grid. `grid` is in patches, the same for every
    picture; with None every token counts as text. Positions beyond `lengths` mean nothing.
    """
    index = jnp.arange(tokens.shape[1], dtype=jnp.int32)[None]
    if grid is None:
        positions = jnp.broadcast_to(index[None], (3, *tokens.shape))
        return positions, lengths.astype(jnp.int32)
    rows, cols = config.vision.merged(grid)
    size = rows * cols
    is_image = tokens == config.image_token
    seen = jnp.cumsum(is_image, axis=1, dtype=jnp.int32)  # picture tokens so far, this one included
    before = seen - is_image.astype(jnp.int32)
    # A picture of `size` tokens moves the position on by max(rows, cols) only.
    start = index - before + before // size * max(rows, cols)
    within = jnp.where(is_image, before % size, 0)
    positions = jnp.stack([start, start + within // cols, start + within % cols])
    pictures = jnp.sum(is_image & (index < lengths[:, None]), axis=1, dtype=jnp.int32) // size
    return positions, lengths.astype(jnp.int32) + pictures * (max(rows, cols) - size)


# Attention


def _attend(q: Array, k: Array, v: Array, mask: Array | None) -> Array:
    """Grouped-query attention [B, Q, H*d] of q [B, Q, H, d] over k, v [B, K, KV, d], mask bool[B|1, Q, K]."""
    batch, length, heads, size = q.shape
    kv_heads = k.shape[2]
    q = q.reshape(batch, length, kv_heads, heads // kv_heads, size)
    scores = jnp.einsum("bqkgd,bpkd->bkqgp", q, k, preferred_element_type=jnp.float32) * size**-0.5
    if mask is not None:
        scores = jnp.where(mask[:, None, :, None, :], scores, -jnp.inf)
    # The shift cancels in value and gradient; dividing after the product costs d instead of K divisions a
    # query.
    shift = jax.lax.stop_gradient(jnp.max(scores, axis=-1, keepdims=True))
    weights = jnp.exp(scores - shift)
    total = jnp.sum(weights, axis=-1)
    mixed = jnp.einsum("bkqgp,bpkd->bkqgd", weights.astype(v.dtype), v, preferred_element_type=jnp.float32)
    mixed = (mixed / total[..., None]).astype(v.dtype)
    return mixed.transpose(0, 2, 1, 3, 4).reshape(batch, length, heads * size)


def _attend_shared(
    q: Array, prefix: tuple[Array, Array], prefix_mask: Array, own: tuple[Array, Array], own_mask: Array
) -> Array:
    """Attention [B, S, T, H*d] of S continuations over one shared prefix and the keys of their own.

    q [B, S, T, H, d]; prefix k, v [B, P, KV, d] with mask bool[B, P]; own k, v [B, S, C, KV, d] with mask
    bool[T, C]. One softmax runs over both. The prefix is never repeated: the S*T*G queries of a prompt and kv
    head are the rows of a single matmul.
    """
    batch, samples, length, heads, size = q.shape
    kv_heads = own[0].shape[3]
    q = q.reshape(batch, samples, length, kv_heads, heads // kv_heads, size)
    to_prefix = jnp.einsum("bstkgd,bpkd->bkstgp", q, prefix[0], preferred_element_type=jnp.float32)
    to_own = jnp.einsum("bstkgd,bsckd->bkstgc", q, own[0], preferred_element_type=jnp.float32)
    to_prefix = jnp.where(prefix_mask[:, None, None, None, None, :], to_prefix * size**-0.5, -jnp.inf)
    to_own = jnp.where(own_mask[None, None, None, :, None, :], to_own * size**-0.5, -jnp.inf)
    shift = jnp.maximum(jnp.max(to_prefix, axis=-1), jnp.max(to_own, axis=-1))
    shift = jax.lax.stop_gradient(shift)[..., None]
    to_prefix, to_own = jnp.exp(to_prefix - shift), jnp.exp(to_own - shift)
    total = jnp.sum(to_prefix, axis=-1) + jnp.sum(to_own, axis=-1)
    dtype = q.dtype
    mixed = jnp.einsum(
        "bkstgp,bpkd->bkstgd", to_prefix.astype(dtype), prefix[1], preferred_element_type=jnp.float32
    ) + jnp.einsum("bkstgc,bsckd->bkstgd", to_own.astype(dtype), own[1], preferred_element_type=jnp.float32)
    mixed = (mixed / total[..., None]).astype(dtype)
    return mixed.transpose(0, 2, 3, 1, 4, 5).reshape(batch, samples, length, heads * size)


# Modules. Attribute names are those of the Hugging Face state dict.


def _dtypes(config: Config) -> dict[str, str]:
    return {"dtype": config.dtype, "param_dtype": config.param_dtype}


def _linear(config: Config, inputs: int, outputs: int, *, bias: bool, rngs: nnx.Rngs) -> nnx.Linear:
    return nnx.Linear(inputs, outputs, use_bias=bias, rngs=rngs, **_dtypes(config))


def _embed(config: Config, count: int, size: int, rngs: nnx.Rngs, scale: float = 0.02) -> nnx.Embed:
    init = nnx.initializers.normal(scale)
    return nnx.Embed(count, size, embedding_init=init, rngs=rngs, **_dtypes(config))


class LayerNorm(nnx.Module):
    """Normalises and scales in float32, then casts back."""

    def __init__(self, config: Config, size: int):
        self.weight = nnx.Param(jnp.ones(size, config.param_dtype))
        self.bias = nnx.Param(jnp.zeros(size, config.param_dtype))

    def __call__(self, x: Array) -> Array:
        wide = x.astype(jnp.float32)
        wide = wide - jnp.mean(wide, axis=-1, keepdims=True)
        wide = wide * jax.lax.rsqrt(jnp.mean(wide * wide, axis=-1, keepdims=True) + LAYER_NORM_EPS)
        shape = (1,) * (x.ndim - 1) + (-1,)
        weight, bias = (p[...].astype(jnp.float32).reshape(shape) for p in (self.weight, self.bias))
        return (wide * weight + bias).astype(x.dtype)


class RMSNorm(nnx.Module):
    """Normalises in float32, casts back, then scales: the order matters in bfloat16."""

    def __init__(self, config: Config, size: int):
        self.weight = nnx.Param(jnp.ones(size, config.param_dtype))
        self.eps = config.text.rms_eps

    def __call__(self, x: Array) -> Array:
        wide = x.astype(jnp.float32)
        wide = wide * jax.lax.rsqrt(jnp.mean(wide * wide, axis=-1, keepdims=True) + self.eps)
        weight = self.weight[...].astype(x.dtype)
        return wide.astype(x.dtype) * weight.reshape((1,) * (x.ndim - 1) + (-1,))


class PatchEmbed(nnx.Module):
    """The published 3-D convolution, whose kernel equals its stride, as the matmul it is."""

    def __init__(self, config: Config, rngs: nnx.Rngs):
        self.proj = _linear(config, config.vision.patch_dim, config.vision.hidden, bias=True, rngs=rngs)


class VisionAttention(nnx.Module):
    def __init__(self, config: Config, rngs: nnx.Rngs):
        hidden = config.vision.hidden
        self.heads = config.vision.heads
        self.qkv = _linear(config, hidden, 3 * hidden, bias=True, rngs=rngs)
        self.proj = _linear(config, hidden, hidden, bias=True, rngs=rngs)

    def __call__(self, x: Array, rope: tuple[Array, Array]) -> Array:
        batch, patches, _ = x.shape
        qkv = self.qkv(x).reshape(batch, patches, 3, self.heads, -1)
        q, k, v = qkv[:, :, 0], qkv[:, :, 1], qkv[:, :, 2]
        return self.proj(_attend(_rotate(q, rope), _rotate(k, rope), v, mask=None))


class VisionMLP(nnx.Module):
    def __init__(self, config: Config, rngs: nnx.Rngs):
        vision = config.vision
        self.linear_fc1 = _linear(config, vision.hidden, vision.mlp, bias=True, rngs=rngs)
        self.linear_fc2 = _linear(config, vision.mlp, vision.hidden, bias=True, rngs=rngs)

    def __call__(self, x: Array) -> Array:
        return self.linear_fc2(jax.nn.gelu(_computed(self.linear_fc1(x)), approximate=True))


class VisionBlock(nnx.Module):
    def __init__(self, config: Config, rngs: nnx.Rngs):
        self.norm1 = LayerNorm(config, config.vision.hidden)
        self.attn = VisionAttention(config, rngs)
        self.norm2 = LayerNorm(config, config.vision.hidden)
        self.mlp = VisionMLP(config, rngs)

    def __call__(self, x: Array, rope: tuple[Array, Array]) -> Array:
        x = x + self.attn(self.norm1(x), rope)
        return x + self.mlp(self.norm2(x))


class Merger(nnx.Module):
    """Joins merge x merge neighbouring patches into one image token. DeepStack's normalise after the join."""

    def __init__(self, config: Config, rngs: nnx.Rngs, *, norm_joined: bool):
        self.norm_joined = norm_joined
        self.joined = config.vision.hidden * config.vision.merge**2
        self.norm = LayerNorm(config, self.joined if norm_joined else config.vision.hidden)
        self.linear_fc1 = _linear(config, self.joined, self.joined, bias=True, rngs=rngs)
        self.linear_fc2 = _linear(config, self.joined, config.text.hidden, bias=True, rngs=rngs)

    def __call__(self, x: Array) -> Array:
        shape = (x.shape[0], -1, self.joined)
        x = self.norm(x.reshape(shape)) if self.norm_joined else self.norm(x).reshape(shape)
        return self.linear_fc2(jax.nn.gelu(self.linear_fc1(x), approximate=False))


class VisionModel(nnx.Module):
    def __init__(self, config: Config, rngs: nnx.Rngs):
        vision = config.vision
        self.config = config
        self.patch_embed = PatchEmbed(config, rngs)
        # As large as the embedded patches at the start: only these positions reach the values that attention
        # reads, and from 0.02 a fresh model needs hundreds of steps more to tell where in a picture things are.
        self.pos_embed = _embed(config, vision.positions, vision.hidden, rngs, scale=1.0)
        self.blocks = nnx.List([VisionBlock(config, rngs) for _ in range(vision.depth)])
        self.merger = Merger(config, rngs, norm_joined=False)
        self.deepstack_merger_list = nnx.List(
            [Merger(config, rngs, norm_joined=True) for _ in vision.deepstack]
        )

    def __call__(self, patches: Array, grid: tuple[int, int]) -> tuple[Array, list[Array]]:
        """Image tokens and DeepStack features, each [M, N/merge^2, D], of patches f32[M, N, patch_dim]."""
        vision = self.config.vision
        indices, weights = _position_taps(grid, vision)
        positions = jnp.sum(self.pos_embed(indices) * weights[..., None].astype(self.config.dtype), axis=0)
        x = self.patch_embed.proj(patches) + positions[None]
        rope = _vision_rope(grid, vision)
        features = []
        for index, block in enumerate(self.blocks):
            x = _maybe_remat(self.config, lambda x, block=block: block(x, rope))(x)
            if index in vision.deepstack:
                features.append(self.deepstack_merger_list[len(features)](x))
        return self.merger(x), features


class Attention(nnx.Module):
    def __init__(self, config: Config, rngs: nnx.Rngs):
        text = config.text
        self.head_dim = text.head_dim
        self.q_proj = _linear(config, text.hidden, text.heads * text.head_dim, bias=False, rngs=rngs)
        self.k_proj = _linear(config, text.hidden, text.kv_heads * text.head_dim, bias=False, rngs=rngs)
        self.v_proj = _linear(config, text.hidden, text.kv_heads * text.head_dim, bias=False, rngs=rngs)
        self.o_proj = _linear(config, text.heads * text.head_dim, text.hidden, bias=False, rngs=rngs)
        self.q_norm = RMSNorm(config, text.head_dim)
        self.k_norm = RMSNorm(config, text.head_dim)


class MLP(nnx.Module):
    def __init__(self, config: Config, rngs: nnx.Rngs):
        text = config.text
        self.gate_proj = _linear(config, text.hidden, text.mlp, bias=False, rngs=rngs)
        self.up_proj = _linear(config, text.hidden, text.mlp, bias=False, rngs=rngs)
        self.down_proj = _linear(config, text.mlp, text.hidden, bias=False, rngs=rngs)

    def __call__(self, x: Array) -> Array:
        gate, up = _computed((self.gate_proj(x), self.up_proj(x)))
        return self.down_proj(jax.nn.silu(gate) * up)


class DecoderLayer(nnx.Module):
    """A layer in two halves, so that prompt and continuations can put their own attention in between."""

    def __init__(self, config: Config, rngs: nnx.Rngs):
        self.input_layernorm = RMSNorm(config, config.text.hidden)
        self.self_attn = Attention(config, rngs)
        self.post_attention_layernorm = RMSNorm(config, config.text.hidden)
        self.mlp = MLP(config, rngs)

    def project(self, x: Array, rope: tuple[Array, Array]) -> tuple[Array, Array, Array]:
        """Rotated queries [..., H, d] and keys [..., KV, d], and values [..., KV, d], of x[..., D]."""
        attn = self.self_attn
        x = self.input_layernorm(x)
        projected = _computed((attn.q_proj(x), attn.k_proj(x), attn.v_proj(x)))
        q, k, v = (y.reshape(*y.shape[:-1], -1, attn.head_dim) for y in projected)
        return _rotate(attn.q_norm(q), rope), _rotate(attn.k_norm(k), rope), v

    def mix(self, x: Array, attended: Array) -> Array:
        """The layer's output [..., D] from its input and what attention gathered, [..., H*d]."""
        x = x + self.self_attn.o_proj(attended)
        return x + self.mlp(self.post_attention_layernorm(x))


class LanguageModel(nnx.Module):
    def __init__(self, config: Config, rngs: nnx.Rngs):
        self.embed_tokens = _embed(config, config.text.vocab, config.text.hidden, rngs)
        self.layers = nnx.List([DecoderLayer(config, rngs) for _ in range(config.text.layers)])
        self.norm = RMSNorm(config, config.text.hidden)


def _take_rows(x: Array, rows: Array) -> Array:
    """x[b, rows[b, i]] for x [B, N, ...] and rows i32[B, R]; NaN where a row is N or beyond."""
    return jnp.take_along_axis(x, rows.reshape(rows.shape + (1,) * (x.ndim - 2)), axis=1, mode="fill")


def _computed(x):
    """`x`, and in the backward pass its gradient, written to memory once.

    Otherwise XLA's CPU compiler repeats activations and rotations inside each of the matmuls' transposed copies, one
    for the weights and one for the inputs.
    """
    return jax.lax.optimization_barrier(x)


def _maybe_remat(config: Config, function):
    return jax.checkpoint(function) if config.remat else function


# The policy


@struct.dataclass
class Prefix:
    """What continuations need of a batch of read prompts."""

    k: tuple[Array, ...]  # one a layer, [B, P, KV, d]
    v: tuple[Array, ...]  # one a layer, [B, P, KV, d]
    lengths: Array  # i32[B] valid positions; the rest of P is padding
    next_position: Array  # i32[B] rotary position of the first continuation token
    hidden: Array  # [B, D] final-normed hidden state of the last valid position: predicts the first token


@struct.dataclass
class Cache:
    """Keys and values of the continuations' own tokens."""

    k: tuple[Array, ...]  # one a layer, [B, S, C, KV, d]
    v: tuple[Array, ...]  # one a layer, [B, S, C, KV, d]


def empty_cache(config: Config, batch: int, samples: int, capacity: int) -> Cache:
    """A cache for `samples` continuations of up to `capacity` tokens of each of `batch` prompts."""
    text = config.text
    shape = (batch, samples, capacity, text.kv_heads, text.head_dim)
    zeros = tuple(jnp.zeros(shape, config.dtype) for _ in range(text.layers))
    return Cache(zeros, zeros)


class Qwen3VL(nnx.Module):
    """The policy. Holds parameters only, so `nnx.split` once and merge inside jitted functions."""

    def __init__(self, config: Config, *, rngs: nnx.Rngs):
        self.config = config
        self.visual = VisionModel(config, rngs)
        self.language_model = LanguageModel(config, rngs)
        if not config.text.tie:
            self.lm_head = _linear(config, config.text.hidden, config.text.vocab, bias=False, rngs=rngs)

    def encode_images(self, patches: Array, grid: tuple[int, int]) -> tuple[Array, list[Array]]:
        """Image tokens and DeepStack features, each [B, I, N/merge^2, D], of patches f32[B, I, N, patch_dim].

        `grid` (rows, cols) in patches is static and the same for every picture. A picture attends to itself
        only. Raises ValueError if the grid disagrees with N or cannot be merged.
        """
        batch, pictures, count, size = patches.shape
        self.config.vision.merged(grid)
        _require(
            count == grid[0] * grid[1] and size == self.config.vision.patch_dim,
            f"patches {patches.shape} do not fit a {grid} grid of {self.config.vision.patch_dim} numbers",
        )
        tokens, features = self.visual(patches.reshape(batch * pictures, count, size), grid)
        shape = (batch, pictures, *tokens.shape[1:])
        return tokens.reshape(shape), [feature.reshape(shape) for feature in features]

    def forward(
        self, tokens: Array, lengths: Array, patches: Array | None = None, grid: tuple[int, int] | None = None
    ) -> Array:
        """Final-normed hidden states [B, P, D] of whole sequences; arguments as for `prefill`."""
        hidden, _, _, _ = self._read(tokens, lengths, patches, grid, last=None)
        return hidden

    def prefill(
        self, tokens: Array, lengths: Array, patches: Array | None = None, grid: tuple[int, int] | None = None
    ) -> Prefix:
        """Reads prompts i32[B, P], right-padded, of which i32[B] positions count.

        `patches` f32[B, I, N, patch_dim] are the pictures in the order of their placeholders, `grid` their
        static (rows, cols) in patches; None for text alone. A picture's placeholder stands in `tokens` once
        for each image token, N/merge^2 times. A prompt may hold fewer than I pictures; one with more
        placeholders than pictures gives NaN.
        """
        last = jnp.maximum(lengths - 1, 0)
        hidden, k, v, next_position = self._read(tokens, lengths, patches, grid, last)
        return Prefix(k, v, lengths, next_position, hidden[:, 0])

    def extend(self, prefix: Prefix, cache: Cache, tokens: Array, start: Array | int) -> tuple[Array, Cache]:
        """Final-normed hidden states [B, S, T, D] of the next T tokens i32[B, S, T] of S continuations.

        `start` (i32 scalar, may be traced) tokens are in the cache already and these are written behind them;
        the caller keeps start + T within the cache's capacity. Every token is read as text. The same call
        samples (T = 1, repeatedly) and scores whole answers (start = 0); it is differentiable in the prefix
        too.
        """
        length = tokens.shape[2]
        offset = jnp.asarray(start, jnp.int32) + jnp.arange(length, dtype=jnp.int32)
        positions = prefix.next_position[:, None, None] + offset[None, None, :]
        rope = _text_rope(jnp.broadcast_to(positions[None], (3, *positions.shape)), self.config.text)
        prefix_mask = jnp.arange(prefix.k[0].shape[1], dtype=jnp.int32)[None] < prefix.lengths[:, None]
        own_mask = jnp.arange(cache.k[0].shape[2], dtype=jnp.int32)[None] <= offset[:, None]
        x = self.language_model.embed_tokens(tokens)
        keys, values = [], []

        def run(layer, x, prefix_kv, own_kv):
            q, *new = layer.project(x, rope)
            own = tuple(
                jax.lax.dynamic_update_slice_in_dim(old, n, start, 2)
                for old, n in zip(own_kv, new, strict=True)
            )
            return layer.mix(x, _attend_shared(q, prefix_kv, prefix_mask, own, own_mask)), own

        for index, layer in enumerate(self.language_model.layers):
            step = _maybe_remat(self.config, lambda *args, layer=layer: run(layer, *args))
            x, (k, v) = step(x, (prefix.k[index], prefix.v[index]), (cache.k[index], cache.v[index]))
            keys.append(k)
            values.append(v)
        return self.language_model.norm(x), Cache(tuple(keys), tuple(values))

    def logits(self, hidden: Array) -> Array:
        """Next-token logits f32[..., vocab] of final-normed hidden states [..., D]."""
        if self.config.text.tie:
            head = self.language_model.embed_tokens.embedding[...].astype(hidden.dtype)
            return jnp.einsum("...d,vd->...v", hidden, head, preferred_element_type=jnp.float32)
        head = self.lm_head.kernel[...].astype(hidden.dtype)
        return jnp.einsum("...d,dv->...v", hidden, head, preferred_element_type=jnp.float32)

    def _read(self, tokens, lengths, patches, grid, last):
        """Hidden states (with `last` i32[B] those there only), keys, values and next positions of prompts."""
        language, config = self.language_model, self.config
        _require((patches is None) == (grid is None), "patches and grid go together")
        positions, next_position = rope_positions(tokens, lengths, grid, config)
        rope = _text_rope(positions, config.text)
        x = language.embed_tokens(tokens)
        added = []
        if patches is not None:
            is_image = (tokens == config.image_token)[..., None]
            source = jnp.cumsum(is_image[..., 0], axis=1, dtype=jnp.int32) - 1

            def place(images):
                return _take_rows(
                    images.reshape(images.shape[0], -1, images.shape[-1]), jnp.maximum(source, 0)
                )

            images, features = self.encode_images(patches, grid)
            x = jnp.where(is_image, place(images), x)
            added = [jnp.where(is_image, place(feature), 0) for feature in features]
        index = jnp.arange(tokens.shape[1], dtype=jnp.int32)
        causal = (index[:, None] >= index[None, :])[
            None
        ]  # padding follows what counts, so this masks it as well
        keys, values = [], []

        def run(layer, x, only_last):
            q, k, v = layer.project(x, rope)
            mask = causal
            if only_last:
                # Nothing reads the last layer's output elsewhere: its attention and MLP run at one position a
                # prompt.
                x, q = _take_rows(x, last[:, None]), _take_rows(q, last[:, None])
                mask = (index[None] <= last[:, None])[:, None]
            return layer.mix(x, _attend(q, k, v, mask)), k, v

        for number, layer in enumerate(language.layers):
            only_last = last is not None and number == config.text.layers - 1
            step = _maybe_remat(config, lambda x, layer=layer, only_last=only_last: run(layer, x, only_last))
            x, k, v = step(x)
            keys.append(k)
            values.append(v)
            if number < len(added):
                x = x + added[number]
        return language.norm(x), tuple(keys), tuple(values), next_position
