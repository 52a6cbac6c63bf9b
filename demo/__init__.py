"""What people see: the page, its charts and its live token view.

gradio reads its environment when it is imported, so the defaults are set here, before any of our
modules imports it.
"""

import os
from contextlib import suppress

os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")
# Through a proxy, gradio's own start-up check of its address would fail.
_direct = [os.environ.get("NO_PROXY", ""), "127.0.0.1", "localhost"]
os.environ["NO_PROXY"] = os.environ["no_proxy"] = ",".join(filter(None, _direct))

with suppress(ImportError):
    import spaces  # noqa: F401  on ZeroGPU it has to come before anything that wakes CUDA
