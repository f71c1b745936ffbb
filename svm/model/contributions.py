"""Contributions to a score: one for each feature, or for each vector in kernel values."""

from __future__ import annotations

from svm.data.matrices import Matrix, Vector, is_sparse
from svm.kernel.row_products import kernel_values
from svm.model.pipeline import FittedPipeline
from svm.transforms.features import Nystroem


def contributions(fitted: FittedPipeline, row: Matrix) -> Vector:
    """(n_problems, n_terms) for one finite row, (1, n_features). With the intercepts they sum to
    the scores, up to rounding.

    A linear model has one for each output feature, a kernel model one for each support vector, a
    model on Nyström features one for each row that spans them.
    """
    coefficients = fitted.coefficients
    if isinstance(fitted.features.spec, Nystroem):
        directions, weights = fitted.features.directions, fitted.features.weights
        assert directions is not None
        assert weights is not None
        scaled = fitted.scaling.transform(fitted.in_form(row))
        values: Matrix = kernel_values(fitted.features.spec.kernel, scaled, directions)
        coefficients = coefficients @ weights
    else:
        values = fitted.values_of_checked(row)
    products: Vector = coefficients * (values.toarray() if is_sparse(values) else values)
    return products
