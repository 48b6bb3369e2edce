"""What a forger can do to a certificate: alter a value at any place, and mend what does not fit any more."""

from __future__ import annotations

import contextlib
import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

from evr._certificate import judging
from evr._certificate.certificate import Certificate, digest_of
from evr._certificate.event_json import event_from_json
from evr._kernel.events.meaning import hypotheses_of
from evr._kernel.events.relations import relation_named
from evr.errors import EvrError

Place = tuple[Any, ...]


def leaves(value: Any, path: Place = ()) -> Iterator[Place]:
    """The place of every value; of a long list, its first and last element."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from leaves(item, (*path, key))
    elif isinstance(value, list) and value:
        for index in sorted({0, len(value) - 1}):
            yield from leaves(value[index], (*path, index))
    else:
        yield path


def dotted(path: Place) -> str:
    return ".".join(map(str, path))


def at(document: Any, path: Place) -> Any:
    for key in path:
        document = document[key]
    return document


def altered(document: dict[str, Any], path: Place, change: Callable[[Any], Any]) -> dict[str, Any]:
    """The document with another value at one place."""
    result = copy.deepcopy(document)
    at(result, path[:-1])[path[-1]] = change(at(result, path))
    return result


def text(document: dict[str, Any], *, mend: bool = True) -> str:
    """The file, its digest mended."""
    return json.dumps({**document, "digest": digest_of(document)} if mend else document)


def assuming(document: dict[str, Any]) -> dict[str, Any]:
    """With the hypotheses of its event under its relation, where that has any."""
    with contextlib.suppress(EvrError, KeyError, TypeError, ValueError):
        relation = relation_named(document["neighboring_relation"])
        ids = [one.id for one in hypotheses_of(event_from_json(document["event"]), relation)]
        return {**document, "hypotheses": ids}
    return document


def restated(document: dict[str, Any]) -> dict[str, Any]:
    """With the statement and the digest that belong to it."""
    return Certificate.sealed(document).document()


def consistent(document: dict[str, Any]) -> dict[str, Any]:
    """With all that follows from event, claim, proofs and samples: a file that does not contradict itself."""
    document = assuming(document)
    claim, release, checked = (document[key] for key in ("claim", "release", "verification"))
    if release["attempt"] == 1 and "tau" in claim:
        claim = {**claim, "kappa": (1 - claim["tau"]) / 40}
    unsealed = Certificate.sealed({**document, "claim": claim})
    facts = (
        release["attempt"],
        release.get("name"),
        checked.get("entropy", "0"),
        checked.get("entropy_is_fresh", False),
    )
    settings, directions = judging.settings_of(unsealed), unsealed.verification.directions
    return restated({**document, **judging.followed(judging.claim_of(unsealed), settings, directions, *facts)})
