from service.web.problems.replies import (
    ANY_PROBLEM,
    MEDIA_TYPE,
    STATUS,
    ProblemRead,
    internal_error,
    problem_bytes,
    problem_of,
    render,
    responses,
    status_of,
)

__all__ = [
    "ANY_PROBLEM",
    "MEDIA_TYPE",
    "STATUS",
    "ProblemRead",
    "internal_error",
    "problem_bytes",
    "problem_of",
    "render",
    "responses",
    "status_of",
]
