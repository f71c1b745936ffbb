"""Programs that predict the example row, as they are copied from the page of a version: with curl,
with the Python client, and by the Open Inference Protocol."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from service.dashboard.row_inputs import Input


@dataclass(frozen=True, slots=True)
class Snippet:
    id: str
    title: str
    text: str


def snippets(
    url: str, name: str, version: int, inputs: Sequence[Input], *, named: bool, plain: bool
) -> list[Snippet]:
    """`url`: of the service. `named`: whether the columns of the model have names. `plain`: whether
    all of them are numbers."""
    row: Any = {one.label: one.example for one in inputs} if named else [i.example for i in inputs]
    body = json.dumps({"instances": [row]}, ensure_ascii=False)
    curl = (
        f"curl {shlex.quote(f'{url}/v1/models/{name}/versions/{version}/predict')} \\\n"
        f"  -H 'Content-Type: application/json' \\\n  -d {shlex.quote(body)}"
    )
    python = (
        "from service.client import Client\n\n"
        f"with Client({url!r}) as client:\n"
        f"    rows = [{row!r}]\n"
        f"    print(client.predict({f'{name}/{version}'!r}, rows))"
    )
    return [
        Snippet("curl", "curl", curl),
        Snippet("python", "Python", python),
        Snippet("triton", "tritonclient", _triton(url, name, version, inputs, plain=plain)),
    ]


def _triton(url: str, name: str, version: int, inputs: Sequence[Input], *, plain: bool) -> str:
    scheme, _, host = url.partition("://")
    secure = ", ssl=True" if scheme == "https" else ""
    if plain:
        values = [one.example for one in inputs]
        tensors = [f"('x', np.array([{values!r}], np.float64), 'FP64')"]
    else:
        tensors = [_tensor(one) for one in inputs]
    listed = "".join(f"    {tensor},\n" for tensor in tensors)
    return (
        "import numpy as np\n"
        "from tritonclient.http import InferInput, InferenceServerClient\n\n"
        f"client = InferenceServerClient({host!r}{secure})\n"
        "inputs = []\n"
        "for name, values, datatype in [\n"
        f"{listed}"
        "]:\n"
        "    inputs.append(InferInput(name, values.shape, datatype))\n"
        "    inputs[-1].set_data_from_numpy(values)\n"
        f"reply = client.infer({name!r}, inputs, model_version={str(version)!r})\n"
        "output = reply.get_response()['outputs'][0]['name']\n"
        "print(reply.as_numpy(output))"
    )


def _tensor(one: Input) -> str:
    """Numbers as they are, all other values as texts; a missing one is the text `None`."""
    if isinstance(one.example, float):
        return f"({one.label!r}, np.array([{one.example!r}]), 'FP64')"
    text = one.text if one.example is not None else None
    return f"({one.label!r}, np.array([{text!r}], object), 'BYTES')"
