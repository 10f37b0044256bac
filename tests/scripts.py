"""Scripts outside of the package, as modules."""

import importlib.util
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def load_script(path):
    """Load a script, given relative to the root; it can import the files of its folder."""
    file = ROOT / path
    spec = importlib.util.spec_from_file_location(file.stem, file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module  # dataclasses look their module up
    sys.path.insert(0, str(file.parent))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(file.parent))
    return module
