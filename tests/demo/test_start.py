"""While the page is being built nothing walks what is here to stay; after that Python collects."""

import gc
import importlib

from demo.common import start


def test_garbage_is_collected_again_once_all_is_built() -> None:
    try:
        importlib.reload(start)
        assert not gc.isenabled()
        start.done()
        assert gc.isenabled() and gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()
        gc.enable()
