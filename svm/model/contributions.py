"""What a score is the sum of: a term for each feature, or for each vector it is likened to."""

from __future__ import annotations

from svm.data.matrices import Matrix, Vector, is_sparse
from svm.kernel.row_products import kernel_values
from svm.model.pipeline import FittedPipeline
from svm.transforms.features import Nystroem


def terms(fitted: FittedPipeline, row: Matrix) -> Vector:
    """(n_problems, n_terms) for one row, (1, n_features), finite; with the intercepts they sum to
    the scores, up to rounding.

    A linear model has a term for each feature made, a kernel model one for each support vector,
    one on Nyström features one for each of the rows that those were made from.
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
    found: Vector = coefficients * (values.toarray() if is_sparse(values) else values)
    return found
