from svm.kernel.kernels import (
    KERNELS,
    MEDIAN_GAUSSIAN,
    AnyKernel,
    GaussianKernel,
    LinearKernel,
    PolynomialKernel,
)

__all__ = [
    "KERNELS",
    "MEDIAN_GAUSSIAN",
    "AnyKernel",
    "GaussianKernel",
    "LinearKernel",
    "PolynomialKernel",
]
