"""Records of trainings: what ran, step by step, observed and chained."""

from evr._records.reading import Record
from evr._records.recorder import Recorder
from evr._records.recording import Recording, record

__all__ = ["Record", "Recorder", "Recording", "record"]
