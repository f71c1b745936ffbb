"""From a request for an evaluation to a job that can be queued."""

from __future__ import annotations

from service.jobs.core.model_columns import check_columns, class_numbers, unused_columns
from service.jobs.core.submission import Draft, Submission
from service.jobs.evaluations import KIND
from service.jobs.evaluations.run import MAX_COLUMNS, outputs_of
from service.jobs.evaluations.schemas import EvaluationCreate
from service.jobs.training.admission import check_scores, refuse_at
from service.rows.faults import invalid_field


class Evaluations(Submission[EvaluationCreate]):
    kind = KIND

    def draft(self, body: EvaluationCreate) -> Draft:
        stores = self.stores
        dataset, version = stores.datasets.find(body.dataset_id), stores.models.find(body.model)
        with refuse_at("/dataset_id"):
            class_numbers(dataset, version.classes)
            check_columns(dataset, version)
        if body.importance and version.n_features > MAX_COLUMNS:
            message = (
                f"the model has {version.n_features:,} columns; the importance of at most "
                f"{MAX_COLUMNS} is measured"
            )
            raise invalid_field("/importance", message)
        outputs = outputs_of(version)
        check_scores(dataset, version, len(outputs), stores.limits.worker_memory_bytes)
        spec = {
            **body.model_dump(mode="json"),
            "dataset_id": dataset.id,
            "model": {"name": version.model_name, "version": version.version},
            "ignored_columns": unused_columns(dataset, version),
            "unlabeled_rows": ((dataset.reading or {}).get("unlabeled") or {}).get("count", 0),
            "outputs": outputs,
        }
        return Draft(spec, dataset, version.model_name, needs=version)
