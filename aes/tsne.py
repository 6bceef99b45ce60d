"""Exact t-SNE for a few hundred points, in numpy: no requirement for one picture."""

import numpy as np


def affinities(squared: np.ndarray, perplexity: float) -> np.ndarray:
    """f64[N, N] conditional probabilities p(j | i), each row of the given perplexity, from squared distances."""
    n = len(squared)
    others = np.where(np.eye(n, dtype=bool), np.inf, squared)
    others = others - others.min(axis=1, keepdims=True)
    low, high = np.full(n, -30.0), np.full(n, 60.0)  # log2 of the precision
    for _ in range(60):
        middle = (low + high) / 2
        weight = np.exp(-others * np.exp2(middle)[:, None])
        p = weight / weight.sum(axis=1, keepdims=True)
        entropy = -np.sum(p * np.log2(np.maximum(p, 1e-300)), axis=1)
        wide = entropy > np.log2(perplexity)
        low, high = np.where(wide, middle, low), np.where(wide, high, middle)
    return p


def tsne(squared: np.ndarray, perplexity: float = 30.0, steps: int = 750) -> np.ndarray:
    """f64[N, 2] from squared distances f64[N, N] (van der Maaten and Hinton, 2008). No randomness.

    Starts from classical scaling; exaggeration 12 in the first third; the perplexity is at most (N - 1) / 3.
    """
    n = len(squared)
    if n < 4:
        return np.stack([np.arange(n, dtype=float), np.zeros(n)], axis=1)
    p = affinities(squared, min(perplexity, (n - 1) / 3))
    p = (p + p.T) / (2 * n)
    # Classical scaling; the largest entry of each axis is positive. A trace of a circle parts points that coincide.
    centered = np.eye(n) - 1 / n
    _, axes = np.linalg.eigh(-centered @ squared @ centered / 2)
    y = axes[:, :-3:-1] * np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(n)])[:-3:-1]
    angle = 2 * np.pi * np.arange(n) / n
    y = 1e-4 * (
        y / np.maximum(y.std(axis=0), 1e-12) + 1e-3 * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    )
    speed, gains = np.zeros_like(y), np.ones_like(y)
    rate = max(n / 48, 50.0)
    for step in range(steps):
        early = step < steps // 3
        difference = y[:, None] - y[None]
        near = 1 / (1 + np.sum(difference**2, axis=-1))
        np.fill_diagonal(near, 0.0)
        pull = ((12 if early else 1) * p - near / near.sum()) * near
        gradient = 4 * (pull.sum(axis=1)[:, None] * y - pull @ y)
        gains = np.maximum(np.where(gradient * speed < 0, gains + 0.2, gains * 0.8), 0.01)
        speed = (0.5 if early else 0.8) * speed - rate * gains * gradient
        y = y + speed
        y = y - y.mean(axis=0)
    return y
