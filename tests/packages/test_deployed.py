"""What `deploy/` holds: images, compose, Prometheus, Grafana, Kubernetes; linted in make test-packages."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import yaml

from cual import __version__

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
DOCKERFILES = [DEPLOY / "Dockerfile", DEPLOY / "Dockerfile.cuda"]
MANIFESTS = sorted(f for f in (DEPLOY / "kubernetes").glob("*.yaml") if f.name != "kustomization.yaml")
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
TOOLS = ROOT / ".venv-packages" / "bin"

sys.path.insert(0, str(Path(__file__).parent))
import containers  # noqa: E402


def tool(name: str) -> str:
    """A program of make test-packages."""
    program = shutil.which(name, path=os.pathsep.join([str(TOOLS), os.environ["PATH"]]))
    if program is None:
        pytest.skip(f"there is no {name} here: make test-packages installs it")
    return program


def lint(*command: str | Path) -> None:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def read(name: str) -> Any:
    return yaml.safe_load((DEPLOY / "kubernetes" / name).read_text(encoding="utf-8"))


# -- images ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("file", DOCKERFILES, ids=lambda file: file.name)
def test_an_image_runs_as_nobody_from_a_base_with_a_tag_and_says_that_it_lives(file: Path) -> None:
    steps = containers.steps(file)
    last = max(i for i, step in enumerate(steps) if step.kind == "FROM")
    assert sum(step.kind == "FROM" for step in steps) == 2, "what builds is not in the image"
    for step in steps:
        if step.kind == "FROM":
            assert re.search(r":[\w.-]*\d+\.\d+\.\d+[\w.-]*( AS \w+)?$", step.text), step.text
    final = {step.kind: step.text for step in steps[last:]}
    assert re.fullmatch(r"[1-9]\d+:[1-9]\d+", final["USER"])
    assert final["VOLUME"] == "/workspace"
    assert "/live" in final["HEALTHCHECK"]
    assert containers.words(final["ENTRYPOINT"]) == ["cual"]
    assert "--insecure" not in final["CMD"]
    text = file.read_text(encoding="utf-8").lower()
    assert not re.search(r"(password|token|secret)\s*=", text)


@pytest.mark.parametrize("file", DOCKERFILES, ids=lambda file: file.name)
def test_what_an_image_copies_is_there_and_not_ignored(file: Path) -> None:
    seen = (DEPLOY / f"{file.name}.dockerignore").read_text(encoding="utf-8").splitlines()
    for step in containers.steps(file):
        if step.kind == "COPY" and not step.text.startswith("--from"):
            for source in step.text.split()[:-1]:
                assert (ROOT / source).exists(), source
                assert f"!{source}" in seen, f"{source} is not let through by {file.name}.dockerignore"


@pytest.mark.parametrize("file", DOCKERFILES, ids=lambda file: file.name)
def test_the_command_of_an_image_is_one_that_cual_has(file: Path) -> None:
    from typer.main import get_command

    from cual.cli import app

    command = {step.kind: step.text for step in containers.steps(file)}["CMD"]
    name, *rest = containers.words(command)
    get_command(app).commands[name].make_context(name, rest)  # type: ignore[attr-defined]


@pytest.mark.packages
@pytest.mark.parametrize("file", DOCKERFILES, ids=lambda file: file.name)
def test_hadolint_finds_nothing(file: Path) -> None:
    lint(tool("hadolint"), file)


@pytest.mark.packages
def test_hadolint_would_find_something(tmp_path: Path) -> None:
    bad = tmp_path / "Dockerfile"
    bad.write_text("FROM python\nRUN cd /x && sudo pip install cual\n", encoding="utf-8")
    assert subprocess.run([tool("hadolint"), bad], capture_output=True).returncode != 0


@pytest.mark.packages
@pytest.mark.slow
def test_the_steps_of_the_image_make_a_service_that_lives_and_is_ready(tmp_path: Path) -> None:
    """In a folder that has nothing but what is copied, with a Python that knows no package."""
    from cual.serve.operations.supervisor import listen

    python = containers.make_python(tmp_path / "base")
    given = {"TORCH_INDEX": "https://pypi.org/simple"}  # pip finds PyTorch for CPUs on this machine
    image = containers.build(DEPLOY / "Dockerfile", ROOT, tmp_path / "disk", python, given)
    assert [left for left in image.left_out if not left.startswith("FROM")] == ["RUN useradd"]
    with listen("127.0.0.1", None) as free:
        port = str(free.getsockname()[1])
    command = [image.here(part) for part in (*image.entrypoint, *image.command)]
    command[0] = str(image.place("/opt/cual/bin/cual"))
    swapped = {"0.0.0.0": "127.0.0.1", "8765": port, "http://localhost:8765": f"http://localhost:{port}"}
    command = [swapped.get(part, part) for part in command]
    cwd = image.place(".")
    variables = image.variables() | {"TMPDIR": str(tmp_path / "tmp"), "CUAL_CACHE": str(tmp_path / "tmp/cual")}
    (tmp_path / "tmp").mkdir()
    log = (tmp_path / "log").open("wb")
    process = subprocess.Popen(command, cwd=cwd, env=variables, stdout=log, stderr=log)
    try:
        for path in ("/live", "/health"):
            answer = _asked(f"http://127.0.0.1:{port}{path}", process)
            assert answer["status"] in ("ok", "live", "alive"), answer
        assert answer["version"] == __version__
        assert (image.place("/workspace") / ".sign-in").is_file()
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0, (tmp_path / "log").read_text(encoding="utf-8")[-3000:]
        log.close()
    assert list((tmp_path / "disk/home").rglob("*")) == [], "a root that is read-only would not do"


def _asked(url: str, process: subprocess.Popen[bytes]) -> Any:
    """What the service answers, once it does."""
    until = time.monotonic() + 300
    while True:
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                return json.load(answer)
        except OSError:  # nobody listens yet, or nobody answers yet
            assert process.poll() is None, "the service has ended"
            assert time.monotonic() < until, url
            time.sleep(0.5)


# -- compose ---------------------------------------------------------------------------------------------------


def test_compose_mounts_files_that_are_there() -> None:
    mounted = [volume for service in COMPOSE["services"].values() for volume in service.get("volumes", ())]
    files = [volume.partition(":")[0] for volume in mounted if volume.startswith(".")]
    assert len(files) >= 4
    for file in files:
        assert (DEPLOY / file).exists(), file
    named = {volume.partition(":")[0] for volume in mounted if not volume.startswith(".")}
    assert named == set(COMPOSE["volumes"])


def test_compose_publishes_nothing_but_the_proxy_and_holds_no_password() -> None:
    for name, service in COMPOSE["services"].items():
        ports = service.get("ports", ())
        assert name == "caddy" or all(port.startswith("127.0.0.1:") for port in ports), name
        assert name == "cual" or re.search(r":v?\d+\.\d+", service["image"]), service["image"]
        for key, value in service.get("environment", {}).items():
            if "PASSWORD" in key or "DATABASE" in key:
                assert "${" in value, f"{name}: {key}"


def test_compose_runs_the_command_of_the_image_and_what_it_names_is_there() -> None:
    from typer.main import get_command

    from cual.cli import app

    name, *rest = COMPOSE["services"]["cual"]["command"]
    rest = [re.sub(r"\$\{\w+:-(.*?)\}", r"\1", part) for part in rest]
    serve = get_command(app).commands[name]  # type: ignore[attr-defined]
    context = serve.make_context(name, rest)
    scraped = yaml.safe_load((DEPLOY / "prometheus/prometheus.yml").read_text(encoding="utf-8"))
    (target,) = scraped["scrape_configs"][0]["static_configs"][0]["targets"]
    host, _, port = target.partition(":")
    assert host in COMPOSE["services"]
    assert host in context.params["name"], "the service refuses hosts that it does not know"
    assert int(port) == context.params["port"]
    secret = Path(scraped["scrape_configs"][0]["authorization"]["credentials_file"]).name
    assert secret in COMPOSE["services"]["prometheus"]["secrets"]
    assert secret in COMPOSE["secrets"]
    inside = {v.split(":")[1] for v in COMPOSE["services"]["prometheus"]["volumes"]}
    assert set(scraped["rule_files"]) <= inside


def test_grafana_finds_prometheus_and_the_dashboard() -> None:
    provisioning = DEPLOY / "grafana" / "provisioning"
    (source,) = yaml.safe_load((provisioning / "datasources/prometheus.yaml").read_text("utf-8"))["datasources"]
    (provider,) = yaml.safe_load((provisioning / "dashboards/cual.yaml").read_text("utf-8"))["providers"]
    assert source["url"].partition("//")[2].partition(":")[0] in COMPOSE["services"]
    volumes = COMPOSE["services"]["grafana"]["volumes"]
    (inside,) = (v.split(":")[1] for v in volumes if "grafana-watching.json" in v)
    assert str(Path(inside).parent) == provider["options"]["path"]
    dashboard = json.loads((DEPLOY / "grafana-watching.json").read_text(encoding="utf-8"))
    kinds = {v["query"] for v in dashboard["templating"]["list"] if v["type"] == "datasource"}
    assert kinds == {source["type"]}


@pytest.mark.packages
def test_compose_keeps_to_its_schema(tmp_path: Path) -> None:
    check = tool("check-jsonschema")
    lint(check, "--builtin-schema", "vendor.compose-spec", DEPLOY / "compose.yaml")
    (tmp_path / "bad.yaml").write_text("services: {cual: {prots: []}}", encoding="utf-8")
    bad = [check, "--builtin-schema", "vendor.compose-spec", str(tmp_path / "bad.yaml")]
    assert subprocess.run(bad, capture_output=True).returncode != 0


@pytest.mark.packages
def test_promtool_understands_what_prometheus_reads(tmp_path: Path) -> None:
    text = (DEPLOY / "prometheus/prometheus.yml").read_text(encoding="utf-8")
    text = text.replace("/etc/prometheus/cual-rules.yml", str(DEPLOY / "prometheus-rules.yml"))
    (tmp_path / "token").write_text("x", encoding="utf-8")
    (tmp_path / "prometheus.yml").write_text(text.replace("/run/secrets/cual_token", str(tmp_path / "token")))
    lint(tool("promtool"), "check", "config", tmp_path / "prometheus.yml")


def test_the_page_types_commands_that_cual_has() -> None:
    from typer.main import get_command

    from cual.cli import app

    page = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
    shell = re.sub(r"\\\n\s*", "", "\n".join(re.findall(r"```sh\n(.*?)```", page, re.DOTALL)))
    typed = re.findall(r" cual(?::cuda)? +((?:serve|invite|check|embed)\b[^#\n>]*)", shell)
    assert len(typed) >= 8
    for command in typed:
        name, *rest = shlex.split(command)
        get_command(app).commands[name].make_context(name, rest)  # type: ignore[attr-defined]


# -- Kubernetes ------------------------------------------------------------------------------------------------


def test_kustomize_names_every_manifest_but_the_example_of_a_secret() -> None:
    assert set(read("kustomization.yaml")["resources"]) == {f.name for f in MANIFESTS} - {"secret.example.yaml"}


def test_the_pod_is_alone_not_root_and_probed() -> None:
    deployment = read("deployment.yaml")["spec"]
    pod = deployment["template"]["spec"]
    (container,) = pod["containers"]
    assert deployment["replicas"] == 1
    assert deployment["strategy"] == {"type": "Recreate"}, "a workspace is served by one at a time"
    assert pod["securityContext"]["runAsNonRoot"] is True
    user = {step.kind: step.text for step in containers.steps(DEPLOY / "Dockerfile")}["USER"]
    assert user == f"{pod['securityContext']['runAsUser']}:{pod['securityContext']['runAsGroup']}"
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    paths = {probe: container[probe]["httpGet"]["path"] for probe in container if probe.endswith("Probe")}
    assert paths == {"startupProbe": "/live", "livenessProbe": "/live", "readinessProbe": "/health"}
    assert container["image"].endswith(f":{__version__}")


def test_the_manifests_know_each_other() -> None:
    deployment = read("deployment.yaml")["spec"]["template"]
    (container,) = deployment["spec"]["containers"]
    service, ingress, claim = read("service.yaml"), read("ingress.yaml"), read("workspace.yaml")
    assert service["spec"]["selector"].items() <= deployment["metadata"]["labels"].items()
    assert service["spec"]["ports"][0]["targetPort"] in {port["name"] for port in container["ports"]}
    backend = ingress["spec"]["rules"][0]["http"]["paths"][0]["backend"]["service"]
    assert backend["name"] == service["metadata"]["name"]
    assert f"--behind-proxy=https://{ingress['spec']['rules'][0]['host']}" in container["args"]
    claims = [
        v["persistentVolumeClaim"]["claimName"] for v in deployment["spec"]["volumes"] if "emptyDir" not in v
    ]
    assert claims == [claim["metadata"]["name"]]
    wanted = container["env"][0]["valueFrom"]["secretKeyRef"]
    secret = read("secret.example.yaml")
    assert wanted == {"name": secret["metadata"]["name"], "key": "database"}
    assert "CHANGE-ME" in secret["stringData"]["database"]


def test_the_pod_runs_a_command_that_cual_has() -> None:
    from typer.main import get_command

    from cual.cli import app

    name, *rest = read("deployment.yaml")["spec"]["template"]["spec"]["containers"][0]["args"]
    context = get_command(app).commands[name].make_context(name, rest)  # type: ignore[attr-defined]
    assert context.params["port"] == 8765


@pytest.mark.packages
@pytest.mark.parametrize("file", MANIFESTS, ids=lambda file: file.name)
def test_manifests_keep_to_the_schema_of_kubernetes(file: Path) -> None:
    lint(tool("kubernetes-validate"), "--strict", file)
