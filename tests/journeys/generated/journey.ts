/** Upload, train, wait, predict, evaluate and delete, by types of `openapi-typescript`. */

import createClient from "openapi-fetch";
import type { components, paths } from "./api.js";

type Schemas = components["schemas"];

const client = createClient<paths>({ baseUrl: process.argv[2] });

/** The data of a reply; a problem is thrown, with its code. */
function ok<T>(reply: { data?: T; error?: Schemas["ProblemRead"] }): T {
  if (reply.error !== undefined) throw new Error(`${reply.error.code}: ${reply.error.detail}`);
  if (reply.data === undefined) throw new Error("there is no reply");
  return reply.data;
}

/** A reply that is not one of the other media types, such as CSV. */
function json<T>(reply: T | string): T {
  if (typeof reply === "string") throw new Error(reply);
  return reply;
}

function check(holds: boolean, what: unknown): void {
  if (!holds) throw new Error(JSON.stringify(what));
}

const pair = (i: number) => `${1 + i / 50},0.2,small\n${5 + i / 50},1.8,large\n`;
const lines = Array.from({ length: 20 }, (_, i) => pair(i));
const dataset = ok(
  await client.POST("/v1/datasets", {
    params: { query: { name: "typed" } },
    headers: { "Content-Type": "text/csv" },
    body: "length,width,size\n" + lines.join(""),
    bodySerializer: (csv) => csv,
  }),
);
check(dataset.n_samples === 40, dataset);
const dataset_id = dataset.id ?? "";

const spec: Schemas["JobCreate"] = {
  dataset_id,
  model_name: "typed",
  solver: { name: "newton", C: 10 },
  validation: { fraction: 0.25 },
  seed: 1,
};
const query = { validate_only: true };
const plan = ok(await client.POST("/v1/jobs", { params: { query }, body: spec }));
check(!("id" in plan), plan);
const created = ok(await client.POST("/v1/jobs", { body: spec }));
if (!("id" in created)) throw new Error("a plan");
const job = ok(
  await client.GET("/v1/jobs/{id}", { params: { path: { id: created.id }, query: { wait_s: 50 } } }),
);
const state: Schemas["State"] = job.state;
check(state === "succeeded", job);
const version = job.model?.version ?? 0;
const model = ok(
  await client.GET("/v1/models/{name}/versions/{version}", {
    params: { path: { name: "typed", version } },
  }),
);
check(model.classes?.join() === "large,small", model);

const predicted = json(
  ok(
    await client.POST("/v1/models/{name}/predict", {
      params: { path: { name: "typed" } },
      body: { instances: [[1.2, 0.2], [5.5, 1.8]], outputs: ["label", "decision"] },
    }),
  ),
);
check(predicted.label?.join() === "small,large", predicted);
const refused = await client.POST("/v1/models/{name}/predict", {
  params: { path: { name: "typed" } },
  body: { instances: [[1.2]] },
});
check(refused.error?.code === "feature-mismatch", refused.error);

const queued = ok(await client.POST("/v1/evaluations", { body: { dataset_id, model: "typed" } }));
const evaluation = ok(
  await client.GET("/v1/evaluations/{id}", {
    params: { path: { id: queued.id }, query: { wait_s: 50 } },
  }),
);
check(evaluation.accuracy === 1, evaluation);

const byName = { path: { name: "typed" }, query: { force: true } };
const deleted = [
  await client.DELETE("/v1/models/{name}", { params: byName }),
  await client.DELETE("/v1/datasets/{id}", { params: { path: { id: dataset_id } } }),
];
check(deleted.every((reply) => reply.response.status === 204), deleted);
const gone = await client.GET("/v1/datasets/{id}", { params: { path: { id: dataset_id } } });
check(gone.response.status === 404 && gone.error?.code === "not-found", gone.error);
console.log("the whole way");
