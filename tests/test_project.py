"""What others need to join: a licence that travels, a citation that parses, workflows that run
what `make` runs.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from email import message_from_string
from pathlib import Path
from typing import Any

import pytest
import yaml

import evr
from evr._basics.version import commit

ROOT = Path(__file__).resolve().parents[1]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
MAKEFILE = (ROOT / "Makefile").read_text("utf-8")
# apache.org/licenses/LICENSE-2.0.txt
APACHE = "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30"


def read(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text("utf-8"))


@pytest.mark.skipif(not (ROOT / ".git").is_dir(), reason="no clone")
def test_a_clone_knows_its_commit() -> None:
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert commit() == head.stdout.strip()


def test_the_licence_is_the_apache_licence_word_for_word() -> None:
    assert hashlib.sha256((ROOT / "LICENSE").read_bytes()).hexdigest() == APACHE


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """What would be uploaded, built from a copy of the sources."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("*.egg-info", "__pycache__"))
    command = ["wheel", "--no-deps", "--no-build-isolation", "--quiet", "-w", str(folder), str(source)]
    done = subprocess.run([sys.executable, "-m", "pip", *command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (file,) = folder.glob("*.whl")
    return zipfile.ZipFile(file)


def test_the_wheel_brings_the_licence_and_what_the_package_reads(wheel: zipfile.ZipFile) -> None:
    (licence,) = (name for name in wheel.namelist() if name.endswith(".dist-info/licenses/LICENSE"))
    assert hashlib.sha256(wheel.read(licence)).hexdigest() == APACHE
    read_at_run_time = [f for f in (ROOT / "src").rglob("*") if f.suffix in {".html", ".json", ".typed", ".css", ".js"}]
    assert len(read_at_run_time) >= 3
    for file in read_at_run_time:
        if "egg-info" not in str(file):
            assert file.relative_to(ROOT / "src").as_posix() in wheel.namelist()


def test_the_wheel_says_what_it_is(wheel: zipfile.ZipFile) -> None:
    (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    said = message_from_string(wheel.read(name).decode())
    assert said["Version"] == evr.__version__
    assert said["License-Expression"] == "Apache-2.0"
    assert said["License-File"] == "LICENSE"
    assert said["Requires-Python"] == ">=3.11"


def test_the_wheel_runs_without_the_clone(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    wheel.extractall(tmp_path / "installed")
    program = (
        f"import sys; sys.path.insert(0, {str(tmp_path / 'installed')!r}); import evr.cli; "
        f"assert evr.__file__.startswith(sys.path[0]); evr.cli.main()"
    )
    flags = ["--noise-multiplier=2", "--sampling-probability=0.01", "--steps=10", "--delta=1e-5"]
    command = [sys.executable, "-c", program, "certify", *flags, "--report=page.html", "--proof=file.proof"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "page.html").exists()
    assert (tmp_path / "check_proof.py").exists()


def test_the_version_stands_in_one_place() -> None:
    assert PROJECT["dynamic"] == ["version"]
    assert "version" not in PROJECT
    assert "version" not in read("CITATION.cff")


def test_the_citation_names_evr_and_the_paper() -> None:
    citation = read("CITATION.cff")
    assert {"cff-version", "message", "title", "authors", "type"} <= set(citation)
    assert citation["license"] == PROJECT["license"]
    assert citation["authors"] == PROJECT["authors"]
    (paper,) = citation["references"]
    readme = " ".join((ROOT / "README.md").read_text("utf-8").split())
    assert f"*{paper['title']}*, NeurIPS {paper['year']}" in readme
    families = [author["family-names"] for author in paper["authors"]]
    assert f"{', '.join(families[:-1])} and {families[-1]}" in readme


def supported() -> list[str]:
    """The Python versions that the project says it runs on."""
    return re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))


def test_the_workflow_runs_the_make_targets_on_every_supported_python() -> None:
    job = read(".github/workflows/ci.yml")["jobs"]["check"]
    assert job["strategy"]["matrix"]["python"] == supported()
    assert PROJECT["requires-python"] == f">={supported()[0]}"
    commands = " ".join(step["run"] for step in job["steps"] if "run" in step)
    assert {"make", "check", "test", "docs"} <= set(commands.split())


def test_a_release_is_what_make_dist_builds() -> None:
    jobs = read(".github/workflows/release.yml")["jobs"]
    assert any(step.get("run") == "make dist" for step in jobs["build"]["steps"])
    assert jobs["publish"]["needs"] == "build"


def test_a_workflow_runs_the_integrations_with_the_newest_versions_too() -> None:
    (job,) = read(".github/workflows/integrations.yml")["jobs"].values()
    assert job["strategy"]["matrix"]["newest"] == ["", "1"]
    (command,) = [step["run"] for step in job["steps"] if "run" in step]
    assert command.startswith("make integrations ")
    assert command.endswith("NEWEST=${{ matrix.newest }}")


def test_commits_are_checked_by_the_tools_that_make_check_runs() -> None:
    (local,) = read(".pre-commit-config.yaml")["repos"]
    assert local["repo"] == "local", "a hook from elsewhere would be downloaded"
    hooks = {hook["entry"].split()[0].removeprefix(".venv/bin/") for hook in local["hooks"]}
    recipe = MAKEFILE.partition("\ncheck:")[2].partition("\n\n")[0]
    assert hooks == set(re.findall(r"\$\(BIN\)/([\w-]+)", recipe))


@pytest.mark.parametrize("file", sorted(ROOT.glob(".github/ISSUE_TEMPLATE/*.yml")), ids=lambda file: file.name)
def test_issue_forms_are_complete(file: Path) -> None:
    form = read(str(file.relative_to(ROOT)))
    if file.name == "config.yml":
        return
    assert {"name", "description", "body"} <= set(form)
    fields = [field for field in form["body"] if field["type"] != "markdown"]
    assert len({field["id"] for field in fields}) == len(fields) >= 1
    assert all(field["attributes"]["label"] for field in fields)


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", ".github/PULL_REQUEST_TEMPLATE.md", "README.md"])
def test_targets_named_in_words_exist(page: str) -> None:
    targets = set(re.findall(r"^([a-z-]+):", MAKEFILE, flags=re.M))
    code = re.findall(r"`make ([a-z -]+)`|^\$ make ([a-z-]+)", (ROOT / page).read_text("utf-8"), flags=re.M)
    named = {word for groups in code for words in groups for word in words.split()}
    assert named
    assert named <= targets
