"""Jobs of one kind under a path of their own: listed, read and deleted.

Everything else is what jobs have: events, pause, resume and cancel under `/v1/jobs/{id}`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from anyio.to_thread import run_sync
from fastapi import Query, Request, Response
from pydantic import BaseModel

from service.errors import NotFound
from service.jobs.core.job import Job
from service.jobs.core.lifecycle import State
from service.jobs.core.store import Also, JobFilter, JobStore
from service.jobs.kind_schemas import KindRead
from service.web.access.keys import Scope
from service.web.access.routing import Routes
from service.web.access.scopes import needs, require
from service.web.bodies.idempotency import Creation
from service.web.http import etags
from service.web.http.callers import STATE, caller_of
from service.web.http.etags import check_if_match, etag, not_modified
from service.web.http.json_reply import shown
from service.web.http.names import DatasetId, JobId, ModelName
from service.web.http.pagination import PageParams, next_page_token
from service.web.http.tag_filter import LabelFilter
from service.web.problems import responses

RETRY_AFTER_S = 1
PREDICT = "predict"
"""The kind of batch predictions."""


def asker(request: Request) -> tuple[str, str]:
    """Who asks for a job, and the id of the request."""
    return caller_of(request), request.state.request_id


def require_visible(request: Request, job: Job) -> None:
    """A key that may only predict sees batch predictions, which it may start. Raises Forbidden for
    other jobs."""
    if job.kind != PREDICT:
        require(getattr(request.state, STATE), "read", "train")


class KindRoutes:
    """The routes that every kind has; `router` takes those that only one has."""

    def __init__(self, jobs: JobStore, kind: str, name: str, scope: Scope) -> None:
        """`name` is what one of them is called, such as `batch prediction`; with `scope` they are
        queued, read and deleted."""
        self.router = Routes(f"/v1/{name.replace(' ', '-')}s", f"{name}s")
        self._jobs = jobs
        self._kind = kind
        self._name = name
        self._scope = scope
        self._id = name.replace(" ", "_")

    def get(self, id: str) -> Job:
        """The job. Raises NotFound, for jobs of other kinds too."""
        job = self._jobs.get(id)
        if job.kind != self._kind:
            raise NotFound("not-found", f"there is no {self._name} {id}")
        return job

    async def created(
        self, once: Creation, read: Callable[[Job], KindRead], queue: Callable[[Also | None], Job]
    ) -> Response:
        """The reply to the request that queues one."""

        def accepted(job: Job) -> Response:
            headers = {
                "Location": f"{self.router.prefix}/{job.id}",
                "ETag": etag(str(job.revision)),
                "Retry-After": str(RETRY_AFTER_S),
            }
            return shown(read(job), 202, headers)

        async def create() -> Response:
            return accepted(await run_sync(queue, once.record(accepted)))

        return await once.perform(create)

    def add_list(self, item: type[KindRead], page_model: type[BaseModel]) -> None:
        """`page_model` holds a list of items under the collection's name."""

        @self.router.get(
            "",
            operation_id=f"list_{self._id}s",
            summary=f"List {self._name}s",
            description="Newest first; filters can be combined.",
            response_model=page_model,
            responses=responses("invalid-parameter", "invalid-name"),
        )
        @needs("read", self._scope)
        def list_jobs(
            page: PageParams,
            label: LabelFilter,
            state: Annotated[State | None, Query(description="Only those in this state.")] = None,
            model_name: Annotated[
                ModelName | None, Query(description="Only those of this model.")
            ] = None,
            dataset_id: Annotated[
                DatasetId | None, Query(description="Only those on this dataset.")
            ] = None,
        ) -> Any:
            found = self._jobs.page(
                JobFilter(
                    kind=self._kind,
                    state=state,
                    model_name=model_name,
                    dataset_id=dataset_id,
                    label=label,
                ),
                page,
            )
            items = [item.of(job) for job in found.items]
            token = next_page_token(page, found)
            return page_model.model_validate({f"{self._id}s": items, "next_page_token": token})

    def add_get(
        self, model: type[KindRead], read: Callable[[Job], KindRead], description: str, *codes: str
    ) -> None:
        """`read` gives the reply; it may raise the problems `codes`."""

        @self.router.get(
            "/{id}",
            operation_id=f"get_{self._id}",
            summary=f"Get {_one(self._name)}",
            description=description,
            response_model=model,
            responses=responses("invalid-parameter", "not-found", *etags.PROBLEMS, *codes),
        )
        @needs("read", self._scope)
        def get_job(request: Request, response: Response, id: JobId) -> Any:
            job = self.get(id)
            tag = etag(str(job.revision))
            response.headers["ETag"] = tag
            return not_modified(request, tag) or read(job)

    def add_delete(self) -> None:
        @self.router.delete(
            "/{id}",
            status_code=204,
            operation_id=f"delete_{self._id}",
            summary=f"Delete {_one(self._name)}",
            description="With its results, once it has ended.",
            responses=responses("invalid-parameter", "not-found", "invalid-state", *etags.PROBLEMS),
        )
        @needs(self._scope)
        def delete_job(request: Request, id: JobId) -> None:
            self.get(id)
            self._jobs.delete(id, lambda job: check_if_match(request, etag(str(job.revision))))


def _one(name: str) -> str:
    return f"an {name}" if name[0] in "aeiou" else f"a {name}"
