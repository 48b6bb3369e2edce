"""Records of trainings: what ran, step by step, observed and chained."""

from evr.records.observing import Recording, record
from evr.records.reading import Record
from evr.records.recorder import Recorder

__all__ = ["Record", "Recorder", "Recording", "record"]
