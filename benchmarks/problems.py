"""Problems in the shape of known data: images, texts, binary features, forest cover types."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_array, random_array

from svm.data.matrices import Vector


def image_like(n_samples: int, n_features: int) -> tuple[Vector, Vector]:
    """Non-negative, correlated features, a noisy linear concept; labels ±1."""
    random = np.random.default_rng(0)
    latent = random.normal(size=(n_samples, 40))
    X = np.maximum(latent @ random.normal(size=(40, n_features)), 0.0) / 10.0
    y = np.where(latent[:, 0] + 0.5 * random.normal(size=n_samples) > 0, 1.0, -1.0)
    return X, y


def text_like(
    n_samples: int, n_features: int, density: float
) -> tuple[csr_array[Any, tuple[int, int]], Vector]:
    """Few positive values in random places, a noisy linear concept; labels ±1."""
    random = np.random.default_rng(0)
    X: Any = random_array(
        (n_samples, n_features),
        density=density,
        format="csr",
        rng=random,
        data_sampler=lambda size: np.abs(random.normal(size=size)),
    )
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    scores = X @ random.normal(size=n_features)
    return X, np.where(scores + 0.3 * random.normal(size=n_samples) > 0, 1.0, -1.0)


def binary_like(n_samples: int) -> tuple[csr_array[Any, tuple[int, int]], Vector]:
    """14 ones in 123 features, as the census data a9a; labels ±1."""
    random = np.random.default_rng(0)
    columns = np.sort(random.permuted(np.tile(np.arange(123), (n_samples, 1)), axis=1)[:, :14])
    indptr = 14 * np.arange(n_samples + 1, dtype=np.int32)
    parts = np.ones(columns.size), columns.ravel().astype(np.int32), indptr
    X: Any = csr_array(parts, shape=(n_samples, 123))
    scores = X @ random.normal(size=123) + random.normal(scale=3.0, size=n_samples)
    return X, np.where(scores > np.median(scores), 1.0, -1.0)


def cover_like(n_samples: int) -> tuple[Vector, Vector]:
    """The shape of the forest cover types: 10 numbers in 0 … 1, one of 4 areas, one of 40 soils;
    labels ±1, a quarter of them on the wrong side of any hyperplane."""
    random = np.random.default_rng(0)
    area, soil = random.integers(4, size=n_samples), random.geometric(0.08, size=n_samples) % 40
    height = random.normal(size=n_samples) + 0.5 * area + 0.03 * soil
    numbers = 0.5 * height[:, None] * random.normal(size=10) + random.normal(size=(n_samples, 10))
    numbers = (numbers - numbers.min(axis=0)) / np.ptp(numbers, axis=0)
    X = np.hstack([numbers, np.eye(4)[area], np.eye(40)[soil]])
    concept = np.sin(height) + 0.5 * numbers[:, 0] + 0.3 * random.normal(size=40)[soil]
    noisy = concept + 0.7 * random.normal(size=n_samples)
    return X, np.where(noisy > np.median(concept), 1.0, -1.0)
