from svm.problem.problem import Order, Problem, Sampling

__all__ = ["Order", "Problem", "Sampling"]
