"""Records of trainings: what ran, step by step, observed and chained."""

from evr._records.observing import Recording, record
from evr._records.reading import Record
from evr._records.recorder import Recorder

__all__ = ["Record", "Recorder", "Recording", "record"]
