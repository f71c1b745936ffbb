"""The files in `kubernetes` are valid, fit together, and use settings that the service has."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from shutil import which
from typing import Any

import kubernetes_validate
import pytest
import yaml

from service.settings import PREFIX, Settings

FOLDER = Path(__file__).parents[2] / "kubernetes"
BASE = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())
RESOURCES: list[dict[str, Any]] = [
    resource
    for name in BASE["resources"]
    for resource in yaml.safe_load_all((FOLDER / name).read_text())
]
OLDEST, NEWEST = "1.30", "1.37"
"""Versions of Kubernetes. `preStop.sleep` needs 1.30."""
COMPONENT = "app.kubernetes.io/component"


def _named(kind: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for resource in RESOURCES:
        if resource["kind"] == kind:
            yield resource["metadata"]["name"], resource["spec"]


DEPLOYMENTS = dict(_named("Deployment"))
PODS = {name: spec["template"]["spec"] for name, spec in DEPLOYMENTS.items()}
CONTAINERS: dict[str, dict[str, Any]] = {name: pod["containers"][0] for name, pod in PODS.items()}


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
def test_resources_have_the_schema_of_kubernetes(version: str) -> None:
    """No unknown field, no wrong type."""
    for resource in RESOURCES:
        kubernetes_validate.validate(resource, version, strict=True)
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate({**RESOURCES[0], "spce": {}}, version, strict=True)


@pytest.mark.skipif(which("kubectl") is None, reason="kubectl is not installed")
def test_kustomize_makes_valid_resources() -> None:
    made = subprocess.run(["kubectl", "kustomize", FOLDER], check=True, capture_output=True)
    resources = list(yaml.safe_load_all(made.stdout))
    assert len(resources) == len(RESOURCES) + 1, "and the map of settings"
    for resource in resources:
        kubernetes_validate.validate(resource, NEWEST, strict=True)


def test_variables_are_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """With values that the service accepts."""
    own = [
        (entry["name"], entry["value"]) for c in CONTAINERS.values() for entry in c.get("env", [])
    ]
    shared = [tuple(line.split("=", 1)) for line in BASE["configMapGenerator"][0]["literals"]]
    for name, value in own + shared:
        assert name.removeprefix(PREFIX).lower() in Settings.model_fields
        monkeypatch.setenv(name, value)
    assert Settings().dask_address == "tcp://dask-scheduler:8786"


def test_all_processes_are_restarted_and_may_write_nothing_but_their_volumes() -> None:
    assert set(PODS) == {"svm-api", "svm-workers", "dask-scheduler", "dask-workers"}
    for name, pod in PODS.items():
        assert pod["restartPolicy"] == "Always", name
        assert pod["securityContext"]["runAsNonRoot"], name
        container = CONTAINERS[name]
        assert container["securityContext"]["readOnlyRootFilesystem"], name
        assert container["resources"]["limits"]["memory"], name
        mounted = {mount["name"] for mount in container["volumeMounts"]}
        assert mounted == {volume["name"] for volume in pod["volumes"]}, name


def test_services_and_probes_lead_to_the_ports_of_their_pods() -> None:
    for name, spec in DEPLOYMENTS.items():
        labels = spec["template"]["metadata"]["labels"]
        assert labels == spec["selector"]["matchLabels"] == {COMPONENT: name}
        ports = {port["containerPort"] for port in CONTAINERS[name].get("ports", [])}
        probes = {key: probe for key, probe in CONTAINERS[name].items() if key.endswith("Probe")}
        assert bool(probes) == bool(ports), name
        for probe in probes.values():
            assert (probe.get("httpGet") or probe["tcpSocket"])["port"] in ports
    for name, spec in _named("Service"):
        assert spec["selector"] == {COMPONENT: name}
        for port in spec["ports"]:
            assert port["targetPort"] in {p["containerPort"] for p in CONTAINERS[name]["ports"]}


def test_only_workers_reach_dask() -> None:
    """Anyone who reaches its processes can run code in them."""
    ((_, policy),) = _named("NetworkPolicy")
    (expression,) = policy["podSelector"]["matchExpressions"]
    assert set(expression["values"]) == {name for name in PODS if name.startswith("dask-")}
    (rule,) = policy["ingress"]
    (source,) = rule["from"]
    allowed = set(source["podSelector"]["matchExpressions"][0]["values"])
    assert allowed == set(PODS) - {"svm-api"}
