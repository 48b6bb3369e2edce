"""Modules whose extra is not installed are not collected; their tests skip, and say why."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("opacus") else ["src/evr/integrations/opacus.py"]
