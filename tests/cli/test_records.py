"""Records on the command line: certified, and told apart from the other files of evr."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import evr as library
from evr._records import Recorder
from evr._records.chain import rank_path
from evr.errors import RecordError

STEP: dict[str, Any] = {"noise_multiplier": 4.0, "clipping_norm": 1.0, "sampling_probability": 0.1}


def write(path: Path, **options: Any) -> Path:
    with Recorder(path, **options) as recorder:
        for _ in range(3):
            recorder.step(**STEP)
    return path


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return write(tmp_path / "training.record.jsonl")


def test_a_record_is_certified(record: Path, evr: Callable[..., Any]) -> None:
    ran = evr("certify", record, "--delta", "1e-5")
    assert ran.code == 0, ran.err
    assert "under zero-out adjacency" in ran.out
    certificate = library.Certificate.load(record.with_name("training.certificate.json"))
    assert library.Record.load(record).is_certified_by(certificate)
    shown = evr("show", record.with_name("training.certificate.json")).out
    assert f"record\t3 steps, last seal {library.Record.load(record).seals[0]}" in shown
    assert "notes of the record\tgenerator" in shown


def test_the_records_of_several_processes_are_certified(record: Path, evr: Callable[..., Any]) -> None:
    path = record.with_name("many.record.jsonl")
    for rank in range(2):
        write(rank_path(path, rank), rank=rank, ranks=2, run="one")
    assert evr("certify", path, "--delta", "1e-5", "--quiet").code == 0


def test_a_record_by_another_name_is_certified(record: Path, evr: Callable[..., Any]) -> None:
    other = record.rename(record.with_name("training.log"))
    assert evr("certify", other, "--delta", "1e-5", "--quiet").code == 0


def test_a_record_is_not_certified_under_add_or_remove(record: Path, refused: Callable[..., str]) -> None:
    command = ("certify", record, "--delta", "1e-5", "--adjacency", "add-or-remove")
    told = refused(*command)
    assert "keeps the number of records private" in told
    assert "Certify under --adjacency zero-out, which gives the same epsilon" in told
    assert "both describe a mechanism" in refused("certify", record, "--steps", "3")


def test_files_given_to_the_wrong_command(
    record: Path, mixed: Path, evr: Callable[..., Any], refused: Callable[..., str]
) -> None:
    assert evr("certify", record, "--delta", "1e-5", "--quiet").code == 0
    certificate = record.with_name("training.certificate.json")
    is_record = "this is the record of a training, not {}: `evr certify` and `evr risk` take it"
    is_certificate = "this is a certificate, not {}: `evr show`, `evr replay` and `evr risk` take it"
    is_specification = "this is a specification, not {}: `evr certify`"
    for command in ("estimate", "describe"):
        target = ("--delta", "1e-5") if command == "estimate" else ()
        assert is_record.format("a specification") in refused(command, record, *target)
        assert is_certificate.format("a specification") in refused(command, certificate, *target)
    assert is_certificate.format("a specification") in refused("certify", certificate)
    for command in ("show", "replay"):
        assert is_record.format("a certificate") in refused(command, record)
        assert is_specification.format("a certificate") in refused(command, mixed)
    for path, words in ((certificate, is_certificate), (mixed, is_specification)):
        with pytest.raises(RecordError, match=words.format("the record of a training")):
            library.Record.load(path)


def test_the_page_shows_the_record(record: Path, evr: Callable[..., Any]) -> None:
    assert evr("certify", record, "--delta", "1e-5", "--quiet").code == 0
    certificate = record.with_name("training.certificate.json")
    html = record.with_name("training.html")
    assert evr("show", certificate, "--html", html).code == 0
    page = html.read_text()
    assert library.Record.load(record).seals[0] in page
    assert "its generator is not cryptographic" in page
