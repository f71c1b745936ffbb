"""Contributions to a score: one for each feature, or for each vector in kernel values."""

from __future__ import annotations

import numpy as np

from svm.data.matrices import Matrix, Vector, is_sparse
from svm.kernel.row_products import kernel_values
from svm.model.pipeline import FittedPipeline
from svm.transforms.features import Identity, Nystroem, Square


def contributions(fitted: FittedPipeline, row: Matrix) -> Vector:
    """(n_problems, n_terms) for one finite row, (1, n_features). With the intercepts they sum to
    the scores, up to rounding.

    A linear model has one for each output feature, or of a table one for each original column; a
    kernel model has one for each support vector, a model on Nyström features one for each row that
    spans them.
    """
    coefficients = fitted.coefficients
    if isinstance(fitted.features.spec, Nystroem):
        directions, weights = fitted.features.directions, fitted.features.weights
        assert directions is not None
        assert weights is not None
        spec, scaled = fitted.features.spec, fitted.scaled(row)
        values: Matrix = kernel_values(spec.kernel, scaled, directions)
        coefficients = coefficients @ weights
    else:
        values = fitted.values_of_checked(row)
    products: Vector = coefficients * (values.toarray() if is_sparse(values) else values)
    if fitted.kernel is not None:
        return products
    if not isinstance(fitted.features.spec, Identity | Square):
        return products
    terms = np.zeros((len(products), fitted.n_features))
    np.add.at(terms.T, fitted.encoder.output_columns, products.T)
    return terms
