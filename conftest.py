"""Modules whose extra is not installed are not collected; their tests skip, and say why."""

from importlib.util import find_spec

collect_ignore = [
    file
    for extra, file in (
        ("opacus", "src/evr/integrations/opacus.py"),
        ("distributed", "src/evr/integrations/dask.py"),
    )
    if not find_spec(extra)
]
