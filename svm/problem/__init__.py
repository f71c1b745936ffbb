from svm.problem.problem import Order, OrderInMemory, Problem

__all__ = ["Order", "OrderInMemory", "Problem"]
