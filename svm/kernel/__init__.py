from svm.kernel.kernels import (
    KERNELS,
    LINEAR,
    MEDIAN_GAUSSIAN,
    AnyKernel,
    GaussianKernel,
    LinearKernel,
    PolynomialKernel,
)

__all__ = [
    "KERNELS",
    "LINEAR",
    "MEDIAN_GAUSSIAN",
    "AnyKernel",
    "GaussianKernel",
    "LinearKernel",
    "PolynomialKernel",
]
