"""The tabs, in their order. Each module has ID, TITLE, build(shared) and wire(demo, tab, shared).

build lays components out and returns them; wire connects them, when those of all tabs are there.
"""

from demo.tabs import benchmarks, compare, how, inside, live, network, tli_sweep

TABS = (live, compare, inside, tli_sweep, network, benchmarks, how)
