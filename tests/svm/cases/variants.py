"""Solvers with options, such as the course documents print them."""

from __future__ import annotations

from svm.kernel.kernels import GaussianKernel
from svm.solvers import AnySolver, GradientDescent, KernelPegasos, Newton, Pegasos, SubGradient
from svm.solvers.options import AverageAfter, InverseTime, RandomStart

VARIANTS: list[AnySolver] = [
    Pegasos(averaging="suffix", project=True, order="uniform"),
    KernelPegasos(kernel=GaussianKernel(), order="uniform"),
    SubGradient(averaging="suffix", step="restarted"),
    GradientDescent(batch_size=4, learning_rate=InverseTime(initial=0.01, decay=0.1)),
    GradientDescent(batch_size=1, initial=RandomStart(random_scale=0.01), order="shuffled-once"),
    GradientDescent(batch_size=4, order="uniform"),
    SubGradient(order="uniform"),
    Pegasos(batch_size=4, averaging="suffix", project=True),
    Pegasos(averaging="all", initial=RandomStart(random_scale=1.0), intercept_step="same"),
    KernelPegasos(kernel=GaussianKernel(), averaging="suffix", score_step="current"),
    SubGradient(step="doubled", intercept="free", initial=RandomStart(random_scale=1.0)),
    SubGradient(step="per-epoch", averaging=AverageAfter(after_epochs=2)),
    GradientDescent(batch_size=4, averaging="suffix"),
    Newton(initial=RandomStart(random_scale=1.0)),
]
