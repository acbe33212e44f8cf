"""What tests of several attacks share."""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def cases():
    """Small trajectory releases and the tracker's definition in plain loops."""
    spec = spec_from_file_location("tracker_cases", Path(__file__).with_name("tracker_cases.py"))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
