"""A certificate for others to publish: a block for a model card, an entry for a registry of deployments.

Both are YAML, with strings as JSON has them, which YAML reads. ``FILL IN`` marks what evr cannot know.
"""

from __future__ import annotations

import json
import re
import textwrap
from typing import Any

from evr.certification.certificate import Certificate
from evr.certification.meaning import meaning
from evr.certification.words import METHOD_WORDS, ran, unit
from evr.described import adjacency

_CARD = """---
tags:
- differential-privacy
differential_privacy:
  epsilon: {epsilon}
  delta: {delta}
  unit: {unit}
  neighbors: {neighbours}
  method: {method}
  software: {software}
  certificate: {digest}
---

## Differential privacy

{statement}

What this means:

{meant}

It is assumed that

{assumed}

To check it, install version {version} of `evr-dp` and run `evr replay` on the certificate, whose digest is {digest}.
"""
_ENTRY = """# Written by evr. Complete every line that says FILL IN.
url_slug: {slug}
status: Draft
tier: 3
deployment:
  basic:
    name: {title}
    data_curators: ["FILL IN"]
    intended_use: FILL IN
    data_product_type: Machine learning model # FILL IN the correct value
    data_product_region: FILL IN
    description: {description}
    publication_date: "1900-01-01" # FILL IN the correct value
    # data_product_sector: FILL IN
  dp_variant:
    variant_name: {variant}
    data_domain: FILL IN
    unprotected_quantities: {public}
  privacy_loss:
    privacy_unit: {unit}
    privacy_unit_details: {details}
    privacy_parameters:
      epsilon: {epsilon}
      delta: {delta}
    privacy_parameters_details: |
      {statement}
      What this means:
{meant}
  deployment_model:
    # model_name: FILL IN
    actors: FILL IN who sees the data, the model and its intermediate results
    # release_type: FILL IN
    release_type_details: The certificate is about one output. FILL IN later uses of the data
    # data_source_type: FILL IN
    # access_type: FILL IN
  accounting:
    post_processing: FILL IN
    composition: {composed}
  implementation:
    preprocessing_and_hyperparameter_tuning: Not in the certificate. FILL IN what was computed from the data
    mechanisms: |
      {statement}
      It is assumed that
{assumed}
      FILL IN the library, the generator of the noise, floating point, side channels, access to the data
    justification: FILL IN
  administrative:
    sources: {sources}
    registry_authors: ["FILL IN"]
"""


def model_card(certificate: Certificate) -> str:
    """Metadata in YAML and prose in Markdown, to put at the top of a model's README on Hugging Face."""
    return _CARD.format(**_facts(certificate, ""))


def registry_entry(certificate: Certificate) -> str:
    """An entry of OpenDP's registry of deployments (github.com/opendp/deployments-registry-data), as far as evr
    knows it.
    """
    title, subject = certificate.description.title, ran(certificate.document()).removesuffix(",")
    fixed = certificate.neighboring_relation != "ADD_OR_REMOVE_ONE"
    facts = {
        "slug": re.sub("[^a-z0-9]+", "-", (title or "FILL IN").lower()),
        "title": title or "FILL IN",
        "description": f"Made by {subject}. FILL IN what it is for",
        "details": f"{adjacency(certificate.neighboring_relation)}. FILL IN what a record holds",
        "variant": "Pure DP" if certificate.claim.delta == 0 else "Approximate DP",
        "public": f"{'The number of records. ' if fixed else ''}FILL IN what is published without noise",
        "composed": f"All steps are composed by evr {certificate.software.evr}: {subject}.",
        "sources": f"Certificate {certificate.digest}, which evr replay checks. FILL IN where it and the model are",
    }
    return _ENTRY.format(**_facts(certificate, "      "), **{key: _scalar(value) for key, value in facts.items()})


def _facts(certificate: Certificate, indent: str) -> dict[str, str]:
    """What both tell, as YAML; lists as Markdown, indented."""
    scalars = {
        "epsilon": certificate.claim.epsilon,
        "delta": certificate.claim.delta,
        "unit": unit(certificate.document()),
        "neighbours": adjacency(certificate.neighboring_relation),
        "method": METHOD_WORDS[certificate.verification.method].proof,
        "software": f"evr {certificate.software.evr}",
        "digest": certificate.digest,
    }
    lists = {"meant": meaning(certificate), "assumed": certificate.assumptions}
    return {
        "statement": certificate.short_statement,
        "version": certificate.software.evr,
        **{key: _scalar(value) for key, value in scalars.items()},
        **{key: textwrap.indent("\n".join(f"- {one}" for one in lines), indent) for key, lines in lists.items()},
    }


def _scalar(value: Any) -> str:
    """A value as YAML; YAML 1.1 takes 1e-05 for text, and 1.0e-05 for a number.

    >>> _scalar(1e-05), _scalar(0.25), _scalar("a: b")
    ('1.0e-05', '0.25', '"a: b"')
    """
    text = json.dumps(value, ensure_ascii=False)
    return re.sub(r"^(\d+)e", r"\1.0e", text) if isinstance(value, float) else text
